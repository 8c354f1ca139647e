/* SPDX-License-Identifier: Apache-2.0 */
/* threads_pace.c - what is brief enough to be done for another: invariant (7) in threads_inner.h */
#include "world/threads/threads_inner.h"

#define BRIEF  (50 * TW_SECOND / 1000000) /* less than two threads need to wake each other */
#define KNOWN  8                          /* so often in a row, and it is thought to be brief */
#define SURE   (2 * KNOWN)
#define PASSES 8 /* computations of the port in one turn */

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

bool tw_threads_may_compute(const struct hand *me, const struct cell *c,
			    const struct tw_compute *job)
{
	if (c->owner == me)
		return true;
	return is_free_port(me) && me->passes < PASSES && atomic_load(&c->away) &&
	       is_brief(&c->pace[job->pass.kind], job->in.count);
}
