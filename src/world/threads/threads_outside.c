/* SPDX-License-Identifier: Apache-2.0 */
/* threads_outside.c - computations that callers have made: guests bring the answers; invariant (8)
 * in threads_inner.h. */
#include "world/threads/threads_inner.h"

/* --- guests --- */

static struct hand *borrow(struct threads *w)
{
	struct hand *me;

	pthread_mutex_lock(&w->guest_lock);
	while (!w->guest_count) /* those inside never wait for a guest */
		pthread_cond_wait(&w->guest_free, &w->guest_lock);
	me = w->guest[--w->guest_count];
	pthread_mutex_unlock(&w->guest_lock);
	return me;
}

/* The world may be gone when this returns. */
static void give_back(struct threads *w, struct hand *me)
{
	pthread_mutex_lock(&w->guest_lock);
	w->guest[w->guest_count++] = me;
	w->out--;
	pthread_cond_broadcast(&w->guest_free);
	pthread_mutex_unlock(&w->guest_lock);
}

/* --- answering --- */

static struct cell *cell_of(struct tw_errand *e)
{
	return (struct cell *)((char *)e - offsetof(struct cell, errand));
}

void tw_threads_answered(struct tw_errand *e)
{
	struct cell *c = cell_of(e);
	struct threads *w = c->world;
	struct tw_compute *job = e->c;
	struct hand *me = borrow(w);
	const int64_t began = e->taken - w->began;

	tw_threads_enter(me, c);
	c->running = NULL;
	c->computed += tw_threads_now(w) - began;
	if (!atomic_load(&w->over)) {
		if (w->trace.file)
			tw_threads_trace_compute(w, c, job, began);
		me->events++;
		c->seat->class->computed(c->actor, &c->door.ctx, job);
		tw_threads_settle(me, c);
	}
	tw_threads_leave(c);
	tw_threads_drain(me, c);
	tw_threads_work(me);
	give_back(w, me);
}

void tw_threads_outside_end(struct hand *me)
{
	struct threads *w = me->world;

	for (size_t k = 0; k < w->cells; k++) {
		struct cell *c = &w->cell[k];

		tw_threads_enter(me, c); /* whoever was inside has seen `over` when he leaves */
		if (c->running) {
			atomic_store(&c->running->cancel, true);
			if (tw_desk_withdraw(w->cluster->desk, &c->errand))
				tw_threads_not_out(c);
		}
		tw_threads_leave(c);
	}
	pthread_mutex_lock(&w->guest_lock);
	while (w->out)
		pthread_cond_wait(&w->guest_free, &w->guest_lock);
	pthread_mutex_unlock(&w->guest_lock);
}
