/* SPDX-License-Identifier: Apache-2.0 */
/* quantile.c - two binary heaps that meet at the quantile.
 *
 *  (1) no number of half 0 is above one of half 1.
 *  (2) half 0 has ceil(share * n) of the n numbers, so its largest is the quantile. */
#include "node/quantile.h"

#include <stdbool.h>

enum tw_status tw_quantile_init(struct tw_quantile *q, struct tw_heap *heap, uint32_t size,
				uint32_t per_mille)
{
	*q = (struct tw_quantile){ .heap = heap, .per_mille = per_mille };
	q->of = tw_heap_zeros(heap, (size + (size_t)1) * sizeof *q->of);
	for (int k = 0; k < 2; k++)
		q->half[k] = tw_heap_zeros(heap, (size + (size_t)1) * sizeof *q->half[k]);
	return q->of && q->half[0] && q->half[1] ? TW_OK : TW_NO_MEMORY;
}

void tw_quantile_release(struct tw_quantile *q)
{
	if (q->heap) {
		q->heap->put(q->heap, q->of);
		q->heap->put(q->heap, q->half[0]);
		q->heap->put(q->heap, q->half[1]);
	}
	*q = (struct tw_quantile){ 0 };
}

/* Does slot a belong nearer to the top of its half than b? */
static bool before(const struct tw_quantile *q, uint32_t half, uint32_t a, uint32_t b)
{
	return half ? q->of[a].key < q->of[b].key : q->of[a].key > q->of[b].key;
}

static void seat(struct tw_quantile *q, uint32_t half, uint32_t at, uint32_t slot)
{
	q->half[half][at] = slot;
	q->of[slot].at = at;
	q->of[slot].half = half;
}

/* Put the slot where it belongs, from place `at` on up or down. */
static void sift(struct tw_quantile *q, uint32_t half, uint32_t at, uint32_t slot)
{
	const uint32_t *heap = q->half[half], count = q->count[half];
	uint32_t child;

	for (; at > 1 && before(q, half, slot, heap[at / 2]); at /= 2)
		seat(q, half, at, heap[at / 2]);
	while ((child = 2 * at) <= count) {
		if (child < count && before(q, half, heap[child + 1], heap[child]))
			child++;
		if (!before(q, half, heap[child], slot))
			break;
		seat(q, half, at, heap[child]);
		at = child;
	}
	seat(q, half, at, slot);
}

static void add(struct tw_quantile *q, uint32_t half, uint32_t slot)
{
	sift(q, half, ++q->count[half], slot);
}

static void take_out(struct tw_quantile *q, uint32_t slot)
{
	const uint32_t half = q->of[slot].half, at = q->of[slot].at;
	const uint32_t last = q->half[half][q->count[half]--];

	q->of[slot].at = 0;
	if (last != slot)
		sift(q, half, at, last);
}

static void move_top(struct tw_quantile *q, uint32_t from)
{
	const uint32_t slot = q->half[from][1];

	take_out(q, slot);
	add(q, !from, slot);
}

/* (2) */
static void balance(struct tw_quantile *q)
{
	const uint64_t all = (uint64_t)q->count[0] + q->count[1];
	const uint64_t below = (all * q->per_mille + 999) / 1000;

	while (q->count[0] < below)
		move_top(q, 1);
	while (q->count[0] > below)
		move_top(q, 0);
}

void tw_quantile_put(struct tw_quantile *q, uint32_t slot, double key)
{
	if (q->of[slot].at)
		take_out(q, slot);
	q->of[slot].key = key;
	if (q->count[0]) /* (1) */
		add(q, key > q->of[q->half[0][1]].key, slot);
	else
		add(q, q->count[1] && key > q->of[q->half[1][1]].key, slot);
	balance(q);
}

void tw_quantile_drop(struct tw_quantile *q, uint32_t slot)
{
	if (!q->of[slot].at)
		return;
	take_out(q, slot);
	balance(q);
}
