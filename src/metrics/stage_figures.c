/* SPDX-License-Identifier: Apache-2.0 */
/* stage_figures.c - the newest figures of every cell. */
#include "metrics/stage_figures.h"

#include "node/figures.h"

#include <pthread.h>

/* `now`: of the life that this incarnation has; `before`: of lives that have ended. */
struct figures {
	uint32_t incarnation;
	struct tw_stage_note now, before;
};

struct tw_stage_figures {
	struct tw_heap *heap;
	pthread_mutex_t lock;
	uint32_t cells, all;
	struct figures *at; /* by slot and cell */
};

struct tw_stage_figures *tw_stage_figures_new(struct tw_heap *heap, const struct tw_plan *plan)
{
	struct tw_stage_figures *f = tw_heap_zeros(heap, sizeof *f);

	if (!f)
		return NULL;
	f->heap = heap;
	f->cells = tw_plan_cells(plan);
	f->all = f->cells * plan->crew.workers;
	f->at = tw_heap_zeros(heap, f->all * sizeof *f->at);
	if (!f->at) {
		heap->put(heap, f);
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

void tw_stage_figures_free(struct tw_stage_figures *f)
{
	if (!f)
		return;
	pthread_mutex_destroy(&f->lock);
	f->heap->put(f->heap, f->at);
	f->heap->put(f->heap, f);
}

static struct tw_stage_note both(const struct tw_stage_note *a, const struct tw_stage_note *b)
{
	struct tw_stage_note sum = *b;

	if (!a->work.forwards)
		return sum;
	sum.first = a->first;
	tw_stage_work_add(&sum.work, &a->work);
	return sum;
}

/* Is there news of the same life?  The master may tell later what the cell itself has told. */
static bool is_newer(const struct tw_stage_work *a, const struct tw_stage_work *b)
{
	return a->forwards >= b->forwards && a->backwards >= b->backwards &&
	       a->updates >= b->updates && a->sent >= b->sent &&
	       (a->forwards > b->forwards || a->backwards > b->backwards ||
		a->updates > b->updates || a->sent > b->sent);
}

void tw_stage_figures_note(struct tw_stage_figures *f, const struct tw_note *n)
{
	const struct tw_stage_note *s = n->stage;
	struct figures *at;

	if (n->kind != TW_NOTE_STAGE || s->cell >= f->cells || n->slot >= f->all / f->cells)
		return;
	pthread_mutex_lock(&f->lock);
	at = &f->at[n->slot * f->cells + s->cell];
	if (n->incarnation > at->incarnation) { /* it has begun anew */
		at->before = both(&at->before, &at->now);
		at->incarnation = n->incarnation;
		at->now = *s;
	} else if (n->incarnation == at->incarnation && is_newer(&s->work, &at->now.work)) {
		at->now = *s;
	}
	pthread_mutex_unlock(&f->lock);
}

struct tw_stage_note tw_stage_figures_of(struct tw_stage_figures *f, uint32_t slot, uint32_t cell)
{
	struct tw_stage_note sum;

	pthread_mutex_lock(&f->lock);
	sum = both(&f->at[slot * f->cells + cell].before, &f->at[slot * f->cells + cell].now);
	pthread_mutex_unlock(&f->lock);
	return sum;
}

int64_t tw_stage_figures_span(struct tw_stage_figures *f)
{
	int64_t first = INT64_MAX, last = INT64_MIN;

	for (uint32_t k = 0; k < f->all; k++) {
		const struct tw_stage_note n = tw_stage_figures_of(f, k / f->cells, k % f->cells);

		if (!n.work.forwards)
			continue;
		first = n.first < first ? n.first : first;
		last = n.last > last ? n.last : last;
	}
	return last > first ? last - first : 0;
}

double tw_stage_figures_bubble(struct tw_stage_figures *f)
{
	const double span = (double)tw_stage_figures_span(f) * f->all;
	double busy = 0;

	for (uint32_t k = 0; k < f->all; k++) {
		const struct tw_stage_note n = tw_stage_figures_of(f, k / f->cells, k % f->cells);

		busy += (double)(n.work.forward_time + n.work.backward_time);
	}
	return span > 0 ? 1 - busy / span : 0;
}
