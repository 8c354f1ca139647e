/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - nodes one after the other, and the vector that their tensors make.
 *
 *  (1) a node's inputs come before it; node 0 is the input.
 *  (2) after tw_graph_finish tensors are in order: trainable ones by node, then buffers by node.
 *      Their places are the vector without a gap, then what is frozen without a gap. */
#include "base/grow.h"
#include "graph/graph.h"

#include <string.h>

/* A sample of more values, or a vector of more floats, is a mistake in the layers. */
#define VALUES_MAX (UINT64_C(1) << 31)
#define FLOATS_MAX (UINT64_C(1) << 38)

static bool too_large(const struct tw_shape *s)
{
	uint64_t n = 1;

	for (uint32_t k = 0; k < s->rank; k++)
		if (__builtin_mul_overflow(n, s->d[k], &n) || n > VALUES_MAX)
			return true;
	return false;
}

struct tw_graph *tw_graph_new(struct tw_heap *heap, const struct tw_shape *in)
{
	struct tw_graph *g;

	HOLDS(1, (in->rank == 1 || in->rank == 3) && !too_large(in));
	g = tw_heap_zeros(heap, sizeof *g);
	if (!g)
		return NULL;
	g->heap = heap;
	g->keep = heap->get(heap, sizeof *g->keep);
	if (!g->keep || !TW_GROW(heap, g->node, g->node_room, 0, 1)) {
		heap->put(heap, g->keep);
		g->keep = NULL;
		tw_graph_free(g);
		return NULL;
	}
	tw_arena_init(g->keep, heap);
	g->node[0] = (struct tw_graph_node){ .form.out = *in, .shape = *in };
	g->nodes = 1;
	return g;
}

void tw_graph_free(struct tw_graph *g)
{
	if (!g)
		return;
	if (g->keep)
		tw_arena_release(g->keep);
	g->heap->put(g->heap, g->keep);
	g->heap->put(g->heap, g->node);
	g->heap->put(g->heap, g->tensor);
	g->heap->put(g->heap, g);
}

static bool count_floats(const struct tw_op_parameter *p, size_t *n)
{
	uint64_t v = 1;

	for (uint32_t k = 0; k < p->rank; k++)
		if (__builtin_mul_overflow(v, p->d[k], &v) || v > FLOATS_MAX)
			return false;
	*n = v;
	return true;
}

static enum tw_status no_memory(struct tw_error *why)
{
	return tw_fail(why, TW_NO_MEMORY, "no memory for the network");
}

/* The table that reads the data's numbers is this node's tensor, too. */
static enum tw_status tie(struct tw_graph *g, struct tw_graph_node *node, struct tw_error *why)
{
	const struct tw_op_parameter *form = &node->form.parameter[0], *table = NULL;
	uint32_t k = 1;

	while (k < g->nodes && !(g->node[k].op->traits & TW_OP_READS_NUMBERS))
		k++;
	if (k == g->nodes)
		return tw_fail(
			why, TW_BAD_INPUT,
			"is tied to the embedding that the network begins with, and there is "
			"none; leave tied out, or begin with 'embedding %u %u'",
			form->d[0], form->d[1]);
	table = &g->node[k].form.parameter[0];
	if (form->d[0] != table->d[0] || form->d[1] != table->d[1])
		return tw_fail(
			why, TW_BAD_INPUT,
			"is tied to the embedding, which is %u x %u, but needs %u outputs of "
			"%u features each; make these equal",
			table->d[0], table->d[1], form->d[0], form->d[1]);
	node->tensor[0] = g->node[k].tensor[0];
	node->tied = true;
	g->table = k;
	g->tied = g->nodes;
	return TW_OK;
}

static enum tw_status add_tensor(struct tw_graph *g, struct tw_graph_node *node, uint32_t index,
				 uint32_t init, struct tw_error *why)
{
	const struct tw_op_parameter *form = &node->form.parameter[index];
	struct tw_graph_tensor *t;
	int letters;

	if (!TW_GROW(g->heap, g->tensor, g->tensor_room, g->tensors, (size_t)g->tensors + 1))
		return no_memory(why);
	t = &g->tensor[g->tensors];
	*t = (struct tw_graph_tensor){ .form = *form, .node = g->nodes, .index = index };
	t->init = init;
	if (!count_floats(form, &t->n) || g->trainable + g->buffers + t->n > FLOATS_MAX)
		return tw_fail(why, TW_BAD_INPUT, "too many parameters (at most %llu)",
			       (unsigned long long)FLOATS_MAX);
	letters = snprintf(t->name, sizeof t->name, "%s%s%s", node->name, node->name[0] ? "." : "",
			   form->name);
	if (letters < 0 || (size_t)letters >= sizeof t->name)
		return tw_fail(
			why, TW_BAD_INPUT,
			"is inside too many residuals: the name of its tensor %s would be too "
			"long",
			form->name);
	*(form->buffer ? &g->buffers : &g->trainable) += t->n;
	node->tensor[index] = g->tensors++;
	return TW_OK;
}

/* The input, or the input normalised by numbers that never change (a standalone export). */
static bool is_input(const struct tw_graph *g, uint32_t n)
{
	const struct tw_op_form *form = &g->node[n].form;

	for (uint32_t k = 0; k < form->parameters; k++)
		if (!form->parameter[k].buffer)
			return false;
	return n == 0 || (n == 1 && form->parameters > 0);
}

static enum tw_status form_node(struct tw_graph *g, const struct tw_op *op, const void *options,
				const uint32_t *in, struct tw_graph_node *node,
				struct tw_error *why)
{
	struct tw_shape shape[TW_OP_INS] = { 0 };
	enum tw_status st;
	char text[40];

	for (uint32_t k = 0; k < op->ins; k++) {
		HOLDS(1, in[k] < g->nodes);
		node->in[k] = in[k];
		shape[k] = g->node[in[k]].shape;
		if (shape[k].rank == 0)
			return tw_fail(why, TW_BAD_INPUT, "nothing can follow a loss");
		if (shape[k].rank == 2 && !(op->traits & TW_OP_BY_POSITION))
			return tw_fail(why, TW_BAD_INPUT,
				       "takes no sequence, but gets %u positions of %u features; "
				       "leave it out where each position is predicted, as of a "
				       "text, or put flatten before it",
				       shape[k].d[0], shape[k].d[1]);
		if (((op->traits & TW_OP_READS_NUMBERS) && in[k] != 0) ||
		    ((op->traits & TW_OP_GIVES_LENGTHS) && !is_input(g, in[k])))
			return tw_fail(why, TW_BAD_INPUT,
				       "reads the numbers of the data, so it must be the first "
				       "layer");
	}
	node->ins = op->ins;
	if (g->lengths && (op->traits & TW_OP_TAKES_LENGTHS))
		node->in[node->ins++] = 0;
	st = op->form(options, shape, &node->form, why);
	if (st != TW_OK)
		return st;
	if (g->lengths && shape[0].rank == 2 && node->form.out.rank == 2 &&
	    node->form.out.d[0] != shape[0].d[0])
		return tw_fail(
			why, TW_BAD_INPUT,
			"makes %u positions of %u, but the series have lengths of their own, "
			"which must stay; keep as many positions",
			node->form.out.d[0], shape[0].d[0]);
	if (too_large(&node->form.out))
		return tw_fail(why, TW_BAD_INPUT, "an output of %s is too large",
			       tw_shape_text(&node->form.out, text));
	node->shape = node->form.out;
	return TW_OK;
}

/* Forget the tensors and floats of a node that could not be added. */
static void take_back(struct tw_graph *g, uint32_t tensors, size_t trainable, size_t buffers)
{
	g->tensors = tensors;
	g->trainable = trainable;
	g->buffers = buffers;
}

static enum tw_status fill_node(struct tw_graph *g, const struct tw_op *op, const void *options,
				uint32_t init, struct tw_graph_node *node, struct tw_error *why)
{
	const uint32_t tensors = g->tensors;
	const size_t trainable = g->trainable, buffers = g->buffers;
	enum tw_status st = TW_OK;
	void *copy;

	copy = tw_arena_get(g->keep, op->options_bytes);
	if (!copy)
		return no_memory(why);
	if (op->options_bytes)
		memcpy(copy, options, op->options_bytes);
	node->options = copy;
	for (uint32_t k = 0; st == TW_OK && k < node->form.parameters; k++)
		st = node->form.parameter[k].tied ? tie(g, node, why)
						  : add_tensor(g, node, k, init, why);
	if (st != TW_OK)
		take_back(g, tensors, trainable, buffers);
	return st;
}

enum tw_status tw_graph_add(struct tw_graph *g, const struct tw_op *op, const void *options,
			    const uint32_t *in, const char *name, uint32_t init, uint32_t *id,
			    struct tw_error *why)
{
	struct tw_graph_node node = { .op = op };
	enum tw_status st;

	if (g->nodes >= TW_NODES_MAX)
		return tw_fail(why, TW_BAD_INPUT, "more than %d layers", TW_NODES_MAX - 1);
	snprintf(node.name, sizeof node.name, "%s", name ? name : "");
	if (!TW_GROW(g->heap, g->node, g->node_room, g->nodes, (size_t)g->nodes + 1))
		return no_memory(why);
	st = form_node(g, op, options, in, &node, why);
	if (st == TW_OK)
		st = fill_node(g, op, options, init, &node, why);
	if (st != TW_OK)
		return st;
	for (uint32_t k = 0; k < node.ins; k++)
		g->node[node.in[k]].readers++;
	g->lengths |= (op->traits & TW_OP_GIVES_LENGTHS) != 0;
	g->flops += node.form.flops;
	g->products += node.form.products;
	*id = g->nodes;
	g->node[g->nodes++] = node;
	return TW_OK;
}

/* Put the tensors in their order. */
static void sort(struct tw_graph *g, struct tw_graph_tensor *sorted)
{
	uint32_t count = 0;

	for (int buffer = 0; buffer < 2; buffer++)
		for (uint32_t t = 0; t < g->tensors; t++) {
			struct tw_graph_tensor *s = &sorted[count];

			if (g->tensor[t].form.buffer != (buffer == 1))
				continue;
			*s = g->tensor[t];
			g->node[s->node].tensor[s->index] = count++;
		}
	for (uint32_t n = 1; n < g->nodes; n++)
		if (g->node[n].tied)
			g->node[n].tensor[0] = g->node[g->table].tensor[0];
	HOLDS(2, count == g->tensors);
}

/* Places: trainable ones stand before the buffers already. */
static void lay_out(struct tw_graph *g)
{
	size_t from = 0;

	for (int frozen = 0; frozen < 2; frozen++)
		for (uint32_t t = 0; t < g->tensors; t++) {
			if (g->tensor[t].frozen != (frozen == 1))
				continue;
			g->tensor[t].from = from;
			from += g->tensor[t].n;
		}
	HOLDS(2, from == tw_graph_floats(g));
}

enum tw_status tw_graph_finish(struct tw_graph *g, struct tw_error *why)
{
	const struct tw_graph_node *last = &g->node[g->nodes - 1];
	struct tw_graph_tensor *sorted;

	if (!last->op || !(last->op->traits & TW_OP_LOSS))
		return tw_fail(why, TW_BAD_INPUT, "the last layer must be a loss");
	if (!g->tensors)
		return TW_OK;
	sorted = g->heap->get(g->heap, g->tensors * sizeof *sorted);
	if (!sorted)
		return no_memory(why);
	sort(g, sorted);
	g->heap->put(g->heap, g->tensor);
	g->tensor = sorted;
	g->tensor_room = g->tensors;
	lay_out(g);
	return TW_OK;
}

void tw_graph_freeze(struct tw_graph *g, const bool *node)
{
	for (uint32_t t = 0; t < g->tensors; t++) {
		struct tw_graph_tensor *one = &g->tensor[t];

		if (one->form.buffer || one->frozen || !node[one->node])
			continue;
		one->frozen = g->node[one->node].frozen = true;
		g->trainable -= one->n;
		g->frozen += one->n;
	}
	for (uint32_t n = 1; n < g->nodes; n++)
		g->node[n].frozen |= g->node[n].tied && g->node[g->table].frozen;
	lay_out(g);
}

bool tw_graph_in_pieces(const struct tw_graph *g, uint32_t tensor)
{
	const struct tw_graph_tensor *t = &g->tensor[tensor];

	return t->index == 0 && (g->node[t->node].op->traits & TW_OP_TAKES_PIECES);
}
