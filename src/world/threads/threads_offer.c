/* SPDX-License-Identifier: Apache-2.0 */
/* threads_offer.c - computations of a cell at the desk; invariant (8) in threads_inner.h. */
#include "world/threads/threads_inner.h"

void tw_threads_offer(struct cell *c)
{
	struct threads *w = c->world;
	struct tw_compute *job = c->wanted;

	if (!job || !w->cluster->desk || c->running || atomic_load(&w->over))
		return;
	c->wanted = job->world;
	if (!c->wanted)
		c->wanted_end = &c->wanted;
	c->running = job;
	c->errand = (struct tw_errand){ .c = job, .answered = c->errand.answered };
	pthread_mutex_lock(&w->guest_lock);
	w->out++;
	pthread_mutex_unlock(&w->guest_lock);
	tw_desk_offer(w->cluster->desk, &c->errand);
}

void tw_threads_not_out(struct cell *c)
{
	pthread_mutex_lock(&c->world->guest_lock);
	c->world->out--;
	pthread_mutex_unlock(&c->world->guest_lock);
	c->running = NULL;
}

struct tw_compute *tw_threads_withdraw(struct cell *c)
{
	struct tw_compute *job = c->running;

	if (!job || !c->world->cluster->desk || !atomic_load(&job->cancel) ||
	    !tw_desk_withdraw(c->world->cluster->desk, &c->errand))
		return NULL;
	tw_threads_not_out(c);
	return job;
}
