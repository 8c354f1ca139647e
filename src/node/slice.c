/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c - a slice's memory, its arrays per worker, and snapshots of it; the rules are in
 * slice.h. */
#include "node/slice.h"
#include "vec/vec.h"

#include <string.h>

/* --- memory --------------------------------------------------------------------------------- */

void tw_slice_empty(struct slice *s, const struct tw_plan *plan, struct tw_heap *heap,
		    uint32_t index)
{
	*s = (struct slice){ .plan = plan, .heap = heap, .index = index };
	tw_spans_init(&s->history.applied, heap);
	tw_spans_init(&s->history.twice, heap);
}

static bool keeps_own(const struct tw_plan *p)
{
	return p->far.rule->traits & TW_RULE_PER_WORKER;
}

static bool sorts(const struct tw_plan *p)
{
	return tw_gate_trims(p->gate, p->gate_options) >= 0.0f;
}

static void set_range(struct slice *s)
{
	const struct tw_problem *p = &s->plan->problem;

	s->from = p->border[s->index];
	s->n = p->border[s->index + 1] - s->from;
	s->trainable = p->trainable <= s->from         ? 0
		       : p->trainable - s->from < s->n ? p->trainable - s->from
						       : s->n;
	s->all = s->n * (1 + tw_plan_state_arrays(s->plan));
	s->streams = p->trainable * sizeof(float) > 32u << 20;
	s->stride = (s->all < TW_TILE ? s->all + 15 : TW_TILE) / 16 * 16;
	s->rate_max = tw_schedule_largest(&s->plan->schedule);
}

static bool make_arrays(struct slice *s, float **array, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		if (!(array[k] = tw_heap_zeros(s->heap, s->n ? s->n * sizeof(float) : 1)))
			return false;
	return true;
}

enum tw_status tw_slice_init(struct slice *s)
{
	const struct tw_plan *p = s->plan;

	set_range(s);
	s->pool = tw_pool_new(s->heap, s->all * sizeof(float));
	s->tile = tw_heap_zeros(s->heap, (4 * s->stride + 1) * sizeof(float));
	if (sorts(p))
		s->sorted = tw_heap_zeros(s->heap, p->crew.workers * sizeof(float));
	if (keeps_own(p))
		s->own = tw_heap_zeros(s->heap, p->crew.workers * sizeof *s->own);
	if (!s->pool || !s->tile || (keeps_own(p) && !s->own) || (sorts(p) && !s->sorted) ||
	    !make_arrays(s, s->array, p->far.rule->arrays) ||
	    !make_arrays(s, s->policy, p->staleness->arrays) || !(s->w = tw_pool_take(s->pool)) ||
	    tw_vectors_init(s) != TW_OK) {
		tw_slice_release(s);
		return TW_NO_MEMORY;
	}
	return TW_OK;
}

void tw_slice_release(struct slice *s)
{
	for (uint32_t k = 0; s->own && k < s->plan->crew.workers; k++)
		tw_block_drop(s->own[k].array);
	tw_vectors_release(s);
	tw_slice_hide(s);
	tw_block_drop(s->next.w);
	tw_block_drop(s->kept.view);
	tw_block_drop(s->w);
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		s->heap->put(s->heap, s->array[k]);
	for (uint32_t k = 0; k < TW_STALENESS_ARRAYS; k++)
		s->heap->put(s->heap, s->policy[k]);
	s->heap->put(s->heap, s->own);
	s->heap->put(s->heap, s->tile);
	s->heap->put(s->heap, s->sorted);
	tw_spans_release(&s->history.applied);
	tw_spans_release(&s->history.twice);
	tw_pool_free(s->pool);
	tw_slice_empty(s, s->plan, s->heap, s->index);
}

/* --- other parameters ----------------------------------------------------------------------- */

void tw_slice_replace(struct slice *s, struct tw_block *w)
{
	tw_slice_hide(s);
	tw_block_drop(s->next.w);
	s->next = (struct slice_next){ NULL, NULL };
	tw_block_drop(s->w);
	s->w = w;
	s->view.moved = true;
}

void tw_slice_keep(struct slice *s, struct tw_block *view, const struct tw_kept *of)
{
	tw_block_drop(s->kept.view);
	s->kept = (struct slice_kept){ view, view ? *of : (struct tw_kept){ 0 } };
}

enum tw_status tw_slice_take_kept(struct slice *s)
{
	struct tw_block *next;

	if (!s->kept.view)
		return TW_OK;
	next = tw_pool_take(s->pool);
	if (!next)
		return TW_NO_MEMORY;
	tw_vec_copy(tw_block_floats(next), tw_block_floats(s->kept.view), s->n);
	tw_vec_copy(tw_block_floats(next) + s->n, tw_block_floats(s->w) + s->n, s->all - s->n);
	tw_slice_replace(s, next);
	return TW_OK;
}

enum tw_status tw_slice_approach(struct slice *s, const float *here, const float *there)
{
	struct tw_block *next = tw_pool_take(s->pool);

	if (!next)
		return TW_NO_MEMORY;
	tw_vec_approach(tw_block_floats(next), tw_block_floats(s->w), here, there, s->n);
	tw_slice_replace(s, next);
	return TW_OK;
}

/* --- arrays per worker ---------------------------------------------------------------------- */

bool tw_slice_keeps(const struct slice *s, uint32_t slot)
{
	return s->own && s->own[slot].array;
}

enum tw_status tw_slice_welcome(struct slice *s, uint32_t slot)
{
	struct tw_block *b;

	if (!s->own || s->own[slot].array)
		return TW_OK;
	b = tw_block_new(s->heap, s->n * sizeof(float));
	if (!b)
		return TW_NO_MEMORY;
	memset(b->data, 0, b->bytes);
	s->own[slot] = (struct slice_own){ .array = b };
	return TW_OK;
}

void tw_slice_leave(struct slice *s, uint32_t slot)
{
	const struct tw_half *far = &s->plan->far;

	if (!tw_slice_keeps(s, slot))
		return;
	if (far->rule->leave) {
		far->rule->leave(far->options, s->array, tw_block_floats(s->own[slot].array),
				 s->trainable);
		tw_slice_hide(s);
		s->view.moved = true;
	}
	tw_block_drop(s->own[slot].array);
	s->own[slot] = (struct slice_own){ .array = NULL };
}

/* --- what there is now ---------------------------------------------------------------------- */

/* A copy of parameters that others are writing (LOCKFREE). */
static struct tw_block *glance(struct slice *s)
{
	struct tw_block *b = tw_pool_take(s->pool);
	const _Atomic uint32_t *from = (const _Atomic uint32_t *)s->w->data;

	if (!b)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		((uint32_t *)b->data)[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
	return b;
}

struct tw_block *tw_slice_snapshot(struct slice *s)
{
	return s->plan->gate->traits & TW_GATE_LOCKFREE ? glance(s) : tw_block_keep(s->w);
}
