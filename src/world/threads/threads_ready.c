/* SPDX-License-Identifier: Apache-2.0 */
/* threads_ready.c - cells with mail: on the list of a hand, or ready for hands that wait. */
#include "world/threads/threads_inner.h"

void tw_threads_list(struct hand *me, struct cell *c)
{
	const size_t room = me->world->cells;

	if (me->listed[c->number])
		return;
	me->listed[c->number] = true;
	me->work[(me->first + me->works++) % room] = c;
}

static struct cell *take_listed(struct hand *me)
{
	struct cell *c = me->work[me->first];

	me->first = (me->first + 1) % me->world->cells;
	me->works--;
	me->listed[c->number] = false;
	return c;
}

void tw_threads_share(struct hand *me)
{
	struct threads *w = me->world;
	const bool port = me == &w->hand[PORT] && w->helpers; /* it enters nothing itself */
	const size_t keep = port ? 0 : 1;
	size_t shared = 0;

	if (me->works <= keep || (!port && atomic_load(&w->idle) == 0) || me->visits)
		return;
	pthread_mutex_lock(&w->ready_lock);
	while (me->works > keep) {
		const size_t count = atomic_load(&w->ready_count);
		struct cell *c = take_listed(me);

		if (c->ready)
			continue;
		c->ready = true;
		w->ready[(w->ready_first + count) % w->cells] = c;
		atomic_store(&w->ready_count, count + 1);
		shared++;
	}
	pthread_mutex_unlock(&w->ready_lock);

	const size_t workers = w->workers + w->helpers;
	const size_t begin = me >= &w->hand[WORKERS] ? (size_t)(me - w->hand) - WORKERS + 1 : 0;

	for (size_t k = 0; k < workers && shared; k++) {
		struct hand *h = &w->hand[WORKERS + (begin + k) % workers];

		if (h != me && atomic_load(&h->asleep)) {
			tw_threads_wake(h);
			shared--;
		}
	}
}

static struct cell *take_ready(struct threads *w)
{
	struct cell *c = NULL;

	if (atomic_load(&w->ready_count) == 0)
		return NULL;
	pthread_mutex_lock(&w->ready_lock);
	const size_t count = atomic_load(&w->ready_count);

	if (count) {
		c = w->ready[w->ready_first];
		c->ready = false;
		w->ready_first = (w->ready_first + 1) % w->cells;
		atomic_store(&w->ready_count, count - 1);
	}
	pthread_mutex_unlock(&w->ready_lock);
	return c;
}

struct cell *tw_threads_next(struct hand *me)
{
	return me->works ? take_listed(me) : take_ready(me->world);
}
