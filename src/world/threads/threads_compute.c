/* SPDX-License-Identifier: Apache-2.0 */
/* threads_compute.c - computations of workers, and who runs them; invariants: threads_inner.h. */
#include "world/threads/threads_inner.h"

/* Inside: the computation that this hand may begin. */
static struct tw_compute *take_job(struct hand *me, struct cell *c)
{
	struct tw_compute *job = c->wanted;

	if (!job || c->running || !tw_threads_may_compute(me, c, job))
		return NULL;
	c->wanted = job->world;
	if (!c->wanted)
		c->wanted_end = &c->wanted;
	c->running = job;
	/* `over` is looked at after this: whoever ends the run sets `stop` after `over` */
	atomic_store(&c->owner->stop, false);
	atomic_store(&c->computing, true);
	return job;
}

static enum tw_status run_timed(struct hand *me, struct cell *c, const struct tw_inputs *in,
				struct tw_compute *job)
{
	struct threads *w = me->world;
	const int64_t began = tw_threads_now(w);
	const enum tw_status status =
		tw_scratch_run(&c->owner->scratch, w->heap, w->cluster->engine, in, job);
	const int64_t took = tw_threads_now(w) - began;

	me->spent[TW_USE_COMPUTING] += took;
	if (w->trace.file) {
		job->status = status;
		tw_threads_trace_compute(w, c, job, began);
	}
	if (w->options.gateway && status == TW_OK)
		tw_threads_took(&c->pace[job->pass.kind], in->count, took);
	return status;
}

static void run_job(struct hand *me, struct cell *c, struct tw_compute *job)
{
	struct tw_inputs in = job->in;

	in.cancel = &c->owner->stop;
	if (atomic_load(&me->world->over) || atomic_load(&c->owner->stop))
		job->status = TW_CANCELLED;
	else
		job->status = run_timed(me, c, &in, job);
}

struct tw_compute *tw_threads_begin(struct hand *me, struct cell *c)
{
	struct tw_compute *job;
	bool left;

	tw_threads_enter(me, c);
	job = take_job(me, c);
	left = !job && c->wanted && !c->running;
	tw_threads_leave(c);
	if (left) {
		atomic_store(&c->owner->called, true);
		tw_threads_wake(c->owner);
	}
	if (job && c->owner != me)
		me->passes++;
	return job;
}

void tw_threads_compute(struct hand *me, struct cell *c, struct tw_compute *job)
{
	int64_t began;

	run_job(me, c, job);
	atomic_store(&c->computing, false);
	tw_threads_enter(me, c);
	c->running = NULL;
	began = tw_threads_now(me->world);
	if (!atomic_load(&me->world->over)) {
		me->events++;
		c->seat->class->computed(c->actor, &c->door.ctx, job);
		tw_threads_settle(me, c);
	}
	if (me->world->options.gateway)
		tw_threads_took(&c->pace[PACE_HANDLER], 0, tw_threads_now(me->world) - began);
	tw_threads_leave(c);
}
