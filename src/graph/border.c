/* SPDX-License-Identifier: Apache-2.0 */
/* border.c - what crosses a border of a lowered network, and which items a part of it has.
 *
 *  (1) a ReLU stands on the same side as what it is applied to, whichever op applies it.
 *  (2) a reorder stands on the side of the first item that reads it. */
#include "graph/inner.h"

size_t tw_item_floats(const struct tw_lowered *net, const struct tw_item *item)
{
	return net->batch * tw_shape_size(&net->graph->node[item->node].shape);
}

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
enum tw_status tw_lowered_border(const struct tw_lowered *net, uint32_t border,
				 struct tw_border *out)
{
	const struct tw_graph *g = net->graph;

	*out = (struct tw_border){ .items = 0 };
	if (g->tied && net->item[border - 1].node >= g->table && net->item[border].node <= g->tied)
		return TW_ABSENT; /* the gradients of one tensor would be made in two parts */
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
		st = tw_lowered_border(net, net->first, &net->in);
	if (st == TW_OK && net->part.upto < last)
		st = tw_lowered_border(net, net->end, &net->out);
	return st;
}
