/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plan.c - where each storage lies in the arena.
 *
 *  (1) two entries whose lives share a step share no byte.
 *  (2) every place is a multiple of TW_ALIGN.
 *
 * Largest first at the lowest place that is free is what every such planner does, because finding
 * the best is hard; ties go to the earlier entry, so the same net gives the same plan. */
#include "graph/inner.h"

#include <stdlib.h>

struct order {
	size_t bytes;
	uint32_t entry;
};

static int larger_first(const void *a, const void *b)
{
	const struct order *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->entry < y->entry ? -1 : 1;
}

static bool meet(const struct tw_plan_entry *a, const struct tw_plan_entry *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/* placed[0..count) are in order of their places. */
static size_t lowest(const struct tw_plan_entry *entry, const struct order *placed, size_t count,
		     const struct tw_plan_entry *e)
{
	size_t at = 0;

	for (size_t k = 0; k < count; k++) {
		const struct tw_plan_entry *p = &entry[placed[k].entry];

		if (!meet(p, e))
			continue;
		if (p->from >= at && p->from - at >= e->bytes)
			return at;
		if (p->from + p->bytes > at)
			at = p->from + p->bytes;
	}
	return at;
}

static void insert(const struct tw_plan_entry *entry, struct order *placed, size_t count,
		   struct order o)
{
	size_t k = count;

	while (k > 0 && entry[placed[k - 1].entry].from > entry[o.entry].from) {
		placed[k] = placed[k - 1];
		k--;
	}
	placed[k] = o;
}

enum tw_status tw_plan_place(struct tw_heap *heap, struct tw_plan_entry *entry, size_t count,
			     size_t *bytes)
{
	struct order *order;
	size_t end = 0;

	*bytes = 0;
	if (count == 0)
		return TW_OK;
	order = heap->get(heap, 2 * count * sizeof *order);
	if (!order)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < count; k++) {
		HOLDS(2, entry[k].bytes % TW_ALIGN == 0);
		order[k] = (struct order){ entry[k].bytes, (uint32_t)k };
	}
	qsort(order, count, sizeof *order, larger_first);
	for (size_t k = 0; k < count; k++) {
		struct tw_plan_entry *e = &entry[order[k].entry];

		e->from = lowest(entry, order + count, k, e);
		insert(entry, order + count, k, order[k]);
		if (e->from + e->bytes > end)
			end = e->from + e->bytes;
	}
	heap->put(heap, order);
	*bytes = end;
	return TW_OK;
}
