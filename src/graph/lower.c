/* SPDX-License-Identifier: Apache-2.0 */
/* lower.c - from a graph to what will run: layouts, reorders, ReLUs taken, gradients wanted.
 *
 *  (1) items are in an order in which each comes after its inputs.
 *  (2) an item's in[k] has the layout that its op reads.
 *  (3) what nothing but itself depends on is no item. */
#include "graph/inner.h"

#include <string.h>

#define NO_ITEM UINT32_MAX

/* More of one value than this is a mistake, and sums of sizes stay within a size_t. */
#define BYTES_MAX (UINT64_C(1) << 44)

bool tw_item_has(const struct tw_lowered *net, const struct tw_item *item, uint32_t trait)
{
	return item->kind == TW_ITEM_OP && (net->graph->node[item->node].op->traits & trait);
}

bool tw_item_goes_back(const struct tw_lowered *net, const struct tw_item *item)
{
	return net->kind != TW_PROGRAM_EVALUATE && item->kind == TW_ITEM_OP && item->needs &&
	       !item->passes && !tw_item_has(net, item, TW_OP_ADDS);
}

static void mark_live(const struct tw_graph *g, bool *live)
{
	live[0] = true;
	live[g->nodes - 1] = true;
	for (uint32_t n = g->nodes - 1; n > 0; n--)
		for (uint32_t k = 0; live[n] && k < g->node[n].ins; k++)
			live[g->node[n].in[k]] = true;
}

static void choose_layout(const struct tw_op *op, struct tw_op_site *site)
{
	const bool follows = op->traits & TW_OP_FOLLOWS_LAYOUT;

	if (op->layout) {
		op->layout(site);
	} else {
		for (uint32_t k = 1; k < site->ins; k++)
			site->in_layout[k] = site->in_layout[0];
		site->out_layout = site->in_layout[0];
		for (uint32_t k = 0; !follows && k < site->ins; k++)
			site->in_layout[k] = TW_LAYOUT_PLAIN;
		if (!follows)
			site->out_layout = TW_LAYOUT_PLAIN;
	}
	for (uint32_t k = 0; k < site->ins; k++)
		if (site->in[k].rank != 3)
			site->in_layout[k] = TW_LAYOUT_PLAIN;
	if (site->out.rank != 3)
		site->out_layout = TW_LAYOUT_PLAIN;
}

/* The item that has p's value in `layout`: p itself, a reorder that is there, or a new one. */
static uint32_t in_layout(struct tw_lowered *net, uint32_t p, enum tw_layout layout)
{
	struct tw_item *fresh = &net->item[net->items];

	if (net->item[p].layout == layout)
		return p;
	for (uint32_t i = p + 1; i < net->items; i++)
		if (net->item[i].kind == TW_ITEM_REORDER && net->item[i].in[0] == p &&
		    net->item[i].layout == layout)
			return i;
	*fresh = (struct tw_item){
		.kind = TW_ITEM_REORDER, .node = net->item[p].node, .in = { p }, .ins = 1
	};
	fresh->layout = layout;
	return net->items++;
}

static enum tw_status add_op(struct tw_lowered *net, uint32_t n, uint32_t *item_of,
			     struct tw_error *why)
{
	const struct tw_graph_node *node = &net->graph->node[n];
	struct tw_op_site site = { .options = node->options, .batch = net->batch, .layer = n };
	struct tw_item *item;

	site.ins = node->ins;
	site.out = node->shape;
	site.train = net->kind != TW_PROGRAM_EVALUATE;
	site.frozen = node->frozen;
	site.seed = net->seed;
	for (uint32_t k = 0; k < site.ins; k++) {
		site.in[k] = net->graph->node[node->in[k]].shape;
		site.in_layout[k] = net->item[item_of[node->in[k]]].layout;
	}
	if (tw_shape_size(&site.out) > BYTES_MAX / sizeof(float) / net->batch)
		return tw_fail(why, TW_BAD_INPUT, "batches of %u are too large", net->batch);
	choose_layout(node->op, &site);

	uint32_t in[TW_OP_INS] = { 0 };

	for (uint32_t k = 0; k < site.ins; k++)
		in[k] = in_layout(net, item_of[node->in[k]], site.in_layout[k]);
	item = &net->item[net->items];
	*item = (struct tw_item){ .kind = TW_ITEM_OP, .node = n, .ins = site.ins, .site = site };
	memcpy(item->in, in, sizeof in);
	item->layout = site.out_layout;
	item_of[n] = net->items++;
	return TW_OK;
}

static void find_needs(struct tw_lowered *net)
{
	for (uint32_t i = 0; i < net->items; i++) {
		struct tw_item *item = &net->item[i];

		if (item->kind == TW_ITEM_OP)
			item->needs = tw_node_learns(&net->graph->node[item->node]);
		for (uint32_t k = 0; k < item->ins; k++) {
			struct tw_item *from = &net->item[item->in[k]];

			from->readers++;
			from->last_reader = i;
			item->needs |= from->needs;
			item->site.wants[k] = net->kind != TW_PROGRAM_EVALUATE && from->needs;
		}
	}
}

/* An op that both passes and draws passes only where nothing is drawn. */
static void find_passes(struct tw_lowered *net)
{
	for (uint32_t i = 0; i < net->items; i++) {
		struct tw_item *item = &net->item[i];

		item->passes = tw_item_has(net, item, TW_OP_PASSES) &&
			       !(item->site.train && tw_item_has(net, item, TW_OP_DRAWS));
	}
}

/* An op behind a ReLU that has less to do with it than the op before: both passes over the values
 * between them are saved. */
static bool hand_on(struct tw_lowered *net, struct tw_item *relu)
{
	struct tw_item *reader = &net->item[relu->last_reader];

	if (relu->readers != 1 || !tw_item_has(net, reader, TW_OP_TAKES_RELU_IN))
		return false;
	relu->handed = relu->passes = true;
	reader->site.relu_in = true;
	return true;
}

static void take_relus(struct tw_lowered *net)
{
	for (uint32_t i = 0; i < net->items; i++) {
		struct tw_item *relu = &net->item[i], *from = &net->item[relu->in[0]];

		if (!tw_item_has(net, relu, TW_OP_IS_RELU) ||
		    tw_item_has(net, relu, TW_OP_READS_IN) || hand_on(net, relu))
			continue;
		if (!tw_item_has(net, from, TW_OP_TAKES_RELU) ||
		    tw_item_has(net, from, TW_OP_READS_OUT) || from->readers != 1)
			continue;
		relu->taken = true;
		from->site.relu = true;
	}
}

enum tw_status tw_lowered_make(struct tw_lowered *net, struct tw_arena *keep, struct tw_error *why)
{
	const struct tw_graph *g = net->graph;
	const size_t most = (size_t)g->nodes * (1 + TW_OP_INS);
	bool *live = tw_arena_get(keep, g->nodes * sizeof *live);
	uint32_t *item_of = tw_arena_get(keep, g->nodes * sizeof *item_of);
	enum tw_status st = TW_OK;

	net->item = tw_arena_get(keep, most * sizeof *net->item);
	if (!live || !item_of || !net->item)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the program");
	mark_live(g, live);
	net->item[0] = (struct tw_item){ .kind = TW_ITEM_INPUT };
	net->items = 1;
	for (uint32_t n = 1; st == TW_OK && n < g->nodes; n++)
		if (live[n])
			st = add_op(net, n, item_of, why);
	if (st != TW_OK)
		return st;
	find_needs(net);
	find_passes(net);
	take_relus(net);
	st = tw_lowered_cut(net);
	return st == TW_ABSENT ? tw_fail(why, TW_BAD_INPUT, "the network cannot be cut there") : st;
}

static enum tw_status prepare_reorder(struct tw_lowered *net, struct tw_item *item,
				      struct tw_onednn *kit)
{
	const struct tw_shape *shape = &net->graph->node[item->node].shape;
	dnnl_memory_desc_t from, to;
	enum tw_status st;

	st = tw_onednn_describe(shape, net->batch, (int)net->item[item->in[0]].layout, &from);
	if (st == TW_OK)
		st = tw_onednn_describe(shape, net->batch, (int)item->layout, &to);
	if (st == TW_OK)
		st = tw_onednn_reorder(kit, &from, &to, &item->primitive, &item->memory.forward);
	/* planes of one value are the same bytes in both layouts */
	item->passes = st == TW_OK && item->primitive == TW_KIT_NONE;
	if (st == TW_OK && net->kind != TW_PROGRAM_EVALUATE && item->needs)
		st = tw_onednn_reorder(kit, &to, &from, &item->back, &item->memory.backward);
	return st;
}

static enum tw_status prepare_op(struct tw_lowered *net, struct tw_item *item,
				 struct tw_onednn *kit, struct tw_arena *keep)
{
	const struct tw_op *op = net->graph->node[item->node].op;

	if (item->passes || (item->taken && !tw_item_goes_back(net, item)))
		return TW_OK;
	if (op->kernel_bytes) {
		item->kernel = tw_arena_get(keep, op->kernel_bytes);
		if (!item->kernel)
			return TW_NO_MEMORY;
	}
	return op->prepare ? op->prepare(&item->site, kit, item->kernel, &item->memory) : TW_OK;
}

enum tw_status tw_lowered_prepare(struct tw_lowered *net, struct tw_onednn *kit,
				  struct tw_arena *keep, struct tw_error *why)
{
	for (uint32_t i = net->first; i < net->end; i++) {
		struct tw_item *item = &net->item[i];
		const struct tw_graph_node *node = &net->graph->node[item->node];
		enum tw_status st;

		item->kit_first = tw_onednn_count(kit);
		st = item->kind == TW_ITEM_REORDER ? prepare_reorder(net, item, kit)
						   : prepare_op(net, item, kit, keep);
		item->kit_last = tw_onednn_count(kit);
		if (st == TW_NO_MEMORY)
			return tw_fail(why, st, "no memory for the program");
		if (st != TW_OK)
			return tw_fail(why, st,
				       "layer %s (%s) cannot be computed for batches of %u",
				       node->name, node->op ? node->op->name : "input", net->batch);
	}
	return TW_OK;
}
