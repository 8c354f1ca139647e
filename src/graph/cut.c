/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c - where a lowered network can be cut, and what crosses there.
 *
 *  (1) a ReLU stands on the same side as what it is applied to, whichever op applies it.
 *  (2) a reorder stands on the side of the first item that reads it. */
#include "graph/inner.h"

/* The first item behind the ops of nodes up to `after`; reorders of what follows come later (2). */
static uint32_t border_of(const struct tw_lowered *net, uint32_t after)
{
	uint32_t b = 1;

	for (uint32_t i = 1; i < net->items; i++)
		if (net->item[i].kind == TW_ITEM_OP && net->item[i].node <= after)
			b = i + 1;
	return b;
}

/* Items before `border` that are read behind it, in order. */
static enum tw_status find_border(const struct tw_lowered *net, uint32_t border,
				  struct tw_border *out)
{
	*out = (struct tw_border){ .items = 0 };
	for (uint32_t i = border; i < net->items; i++)
		if ((net->item[i].taken || net->item[i].handed) && net->item[i].in[0] < border)
			return TW_ABSENT; /* (1) */
	for (uint32_t p = 0; p < border; p++) {
		if (net->item[p].last_reader < border)
			continue;
		if (out->items == TW_CROSSING_MAX)
			return TW_ABSENT;
		out->item[out->items++] = p;
	}
	return TW_OK;
}

enum tw_status tw_lowered_cut(struct tw_lowered *net)
{
	const uint32_t last = net->graph->nodes - 1;
	enum tw_status st = TW_OK;

	net->first = border_of(net, net->part.behind);
	net->end = border_of(net, net->part.upto);
	net->in = net->out = (struct tw_border){ .items = 0 };
	if (net->part.behind > 0)
		st = find_border(net, net->first, &net->in);
	if (st == TW_OK && net->part.upto < last)
		st = find_border(net, net->end, &net->out);
	return st;
}

static void describe(const struct tw_lowered *net, const struct tw_border *b,
		     struct tw_graph_cut *out)
{
	out->values = b->items;
	for (uint32_t v = 0; v < b->items; v++) {
		const struct tw_item *item = &net->item[b->item[v]];

		out->value[v] = (struct tw_crossing){
			.node = item->node,
			.floats = (uint32_t)tw_item_floats(net, item),
			.back = item->needs,
		};
	}
}

static uint32_t find_cuts(const struct tw_lowered *net, struct tw_graph_cut *cut)
{
	uint32_t count = 1;

	cut[0] = (struct tw_graph_cut){ .after = 0 };
	for (uint32_t i = 1; i < net->items; i++) {
		const bool last = i + 1 == net->items;
		struct tw_border b = { .items = 0 };

		if (net->item[i].kind != TW_ITEM_OP ||
		    (!last && find_border(net, i + 1, &b) != TW_OK))
			continue;
		cut[count] = (struct tw_graph_cut){ .after = net->item[i].node };
		describe(net, &b, &cut[count++]);
	}
	return count;
}

enum tw_status tw_graph_cuts(const struct tw_graph *g, struct tw_graph_cut *cut, uint32_t *cuts)
{
	struct tw_lowered net = {
		.graph = g, .kind = TW_PROGRAM_PASSES, .part = { 0, g->nodes - 1 }, .batch = 1
	};
	struct tw_arena work;
	enum tw_status st;

	tw_arena_init(&work, g->heap);
	st = tw_lowered_make(&net, &work, NULL);
	if (st == TW_OK)
		*cuts = find_cuts(&net, cut);
	tw_arena_release(&work);
	return st;
}
