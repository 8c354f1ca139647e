/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - what happens next: a binary heap. */
#include "cost/events.h"

#include "base/grow.h"

static bool before(const struct tw_cost_event *a, const struct tw_cost_event *b)
{
	return a->at < b->at || (a->at == b->at && a->number < b->number);
}

void tw_cost_events_add(struct tw_cost_events *e, struct tw_cost_event one)
{
	size_t at = e->count;

	if (!TW_GROW(&tw_heap_system, e->heap, e->room, e->count, e->count + 1)) {
		e->full = true;
		return;
	}
	e->count++;
	one.number = e->numbers++;
	for (; at && before(&one, &e->heap[(at - 1) / 2]); at = (at - 1) / 2)
		e->heap[at] = e->heap[(at - 1) / 2];
	e->heap[at] = one;
}

struct tw_cost_event tw_cost_events_next(struct tw_cost_events *e)
{
	const struct tw_cost_event first = e->heap[0], last = e->heap[--e->count];
	size_t at = 0;

	for (size_t child; (child = 2 * at + 1) < e->count; at = child) {
		if (child + 1 < e->count && before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!before(&e->heap[child], &last))
			break;
		e->heap[at] = e->heap[child];
	}
	e->heap[at] = last;
	return first;
}

void tw_cost_events_release(struct tw_cost_events *e)
{
	tw_heap_system.put(&tw_heap_system, e->heap);
	*e = (struct tw_cost_events){ .heap = NULL };
}
