/* SPDX-License-Identifier: Apache-2.0 */
/* threads_compute.c - computations of workers, and who runs them; invariants: threads_inner.h. */
#include "world/threads_inner.h"

#define BRIEF  (50 * TW_SECOND / 1000000) /* less than two threads need to wake each other */
#define KNOWN  8                          /* so often in a row, and it is thought to be brief */
#define SURE   (2 * KNOWN)
#define PASSES 8 /* computations of the port in one turn */

/* --- pace --- */

/* On a busy machine anything takes long now and then; what takes long twice is not brief. */
void tw_threads_took(struct pace *p, uint32_t samples, int64_t ns)
{
	const uint32_t brief = atomic_load_explicit(&p->brief, memory_order_relaxed);
	uint32_t next = brief < SURE ? brief + 1 : SURE;

	if (ns > BRIEF)
		next = (brief < SURE ? brief : SURE) / 4;
	else if (samples > atomic_load_explicit(&p->samples, memory_order_relaxed))
		atomic_store_explicit(&p->samples, samples, memory_order_relaxed);
	if (next != brief)
		atomic_store_explicit(&p->brief, next, memory_order_relaxed);
}

static bool is_brief(const struct pace *p, uint32_t samples)
{
	return atomic_load_explicit(&p->brief, memory_order_relaxed) >= KNOWN &&
	       samples <= atomic_load_explicit(&p->samples, memory_order_relaxed);
}

static bool is_free_port(const struct hand *me)
{
	return me == &me->world->hand[PORT] && !me->world->helpers;
}

bool tw_threads_visits(const struct hand *me, const struct cell *c)
{
	bool brief = false;

	if (!is_free_port(me) || !is_brief(&c->pace[PACE_HANDLER], 0) ||
	    !is_brief(&me->world->passive, 0))
		return false;
	for (int kind = 0; kind < TW_PASSES; kind++)
		brief = brief || is_brief(&c->pace[kind], 0);
	return brief && atomic_load(&c->away);
}

/* --- computing --- */

static bool may_compute(const struct hand *me, const struct cell *c, const struct tw_compute *job)
{
	if (c->owner == me)
		return true;
	return is_free_port(me) && me->passes < PASSES && atomic_load(&c->away) &&
	       is_brief(&c->pace[job->pass.kind], job->in.count);
}

/* Inside: the computation that this hand may begin. */
static struct tw_compute *take_job(struct hand *me, struct cell *c)
{
	struct tw_compute *job = c->wanted;

	if (!job || c->running || !may_compute(me, c, job))
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

bool tw_threads_compute(struct hand *me, struct cell *c)
{
	struct tw_compute *job;
	int64_t began;
	bool left;

	tw_threads_enter(me, c);
	job = take_job(me, c);
	left = !job && c->wanted && !c->running;
	tw_threads_leave(c);
	if (left) {
		atomic_store(&c->owner->called, true);
		tw_threads_wake(c->owner);
	}
	if (!job)
		return false;
	if (c->owner == me) { /* what came before `computing` was left to us */
		tw_threads_drain(me, c);
		tw_threads_work(me);
	} else {
		me->passes++;
	}
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
	return true;
}
