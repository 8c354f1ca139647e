/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c - where a network can be cut, and what crosses there. */
#include "graph/inner.h"

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
		    (!last && tw_lowered_border(net, i + 1, &b) != TW_OK))
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
