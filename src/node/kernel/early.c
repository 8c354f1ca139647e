/* SPDX-License-Identifier: Apache-2.0 */
/* early.c - messages that come too early: see early.h. */
#include "node/kernel/early.h"

void tw_early_init(struct tw_early *q, uint32_t nodes, uint32_t each)
{
	*q = (struct tw_early){ .nodes = nodes, .each = each < UINT16_MAX ? each : UINT16_MAX };
}

static uint16_t *held_of(const struct tw_early *q, const struct tw_msg *m)
{
	return &q->held[m->from.node % q->nodes];
}

static void put_last(struct tw_early *q, struct tw_msg *m)
{
	m->next = NULL;
	*(q->last ? &q->last->next : &q->first) = m;
	q->last = m;
	++*held_of(q, m);
	q->count++;
}

static void drop(struct tw_heap *heap, struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
	heap->put(heap, m);
}

void tw_early_forget(struct tw_early *q, struct tw_heap *heap)
{
	while (q->first) {
		struct tw_msg *m = q->first;

		q->first = m->next;
		drop(heap, m);
	}
	heap->put(heap, q->held);
	tw_early_init(q, q->nodes, q->each);
}

bool tw_early_keep(struct tw_early *q, struct tw_heap *heap, const struct tw_msg *m)
{
	struct tw_msg *copy;

	if (!q->held)
		q->held = tw_heap_zeros(heap, q->nodes * sizeof *q->held);
	copy = q->held && *held_of(q, m) < q->each ? heap->get(heap, sizeof *copy) : NULL;
	if (!copy) {
		q->lost = true;
		return false;
	}
	*copy = *m;
	copy->fresh = false;
	tw_block_keep(copy->tail);
	tw_block_keep(copy->payload);
	put_last(q, copy);
	return true;
}

void tw_early_hear(struct tw_early *q, struct tw_heap *heap, void *actor, struct tw_context *ctx,
		   enum tw_door (*door)(const void *actor, const struct tw_msg *m),
		   void (*hear)(void *actor, struct tw_context *ctx, const struct tw_msg *m))
{
	struct tw_msg *all = q->first;

	q->first = q->last = NULL;
	while (all) {
		struct tw_msg *m = all;
		/* who hears one may forget all */
		const enum tw_door is = q->held ? door(actor, m) : TW_DOOR_VOID;

		all = m->next;
		if (q->held) {
			--*held_of(q, m);
			q->count--;
		}
		if (is == TW_DOOR_EARLY) {
			put_last(q, m);
			continue;
		}
		if (is == TW_DOOR_NOW)
			hear(actor, ctx, m);
		drop(heap, m);
	}
	q->lost = q->lost && q->count;
}
