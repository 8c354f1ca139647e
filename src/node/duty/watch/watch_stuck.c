/* SPDX-License-Identifier: Apache-2.0 */
/* watch_stuck.c - members that answer but do not work (3 to 8).  The numbers in brackets are
 * those of README.md. */
#include "node/duty/watch/watch_state.h"

#include <stdio.h>

#define SHORTEST (TW_SECOND / 1000)

/* Samples that this member works on. */
static uint64_t owed(const struct master *m, uint32_t slot)
{
	const struct holding *h = &m->member[slot].held;

	if (m->dealer->works_on)
		return m->dealer->works_on(m, slot);
	return h->count ? h->lease[0].to - h->lease[0].from : 0;
}

int64_t tw_watch_patience(const struct master *m, uint32_t slot)
{
	return tw_pace_patience(&m->pace.work, slot,
				slot < m->plan->crew.workers ? (double)owed(m, slot) : 0,
				m->plan->crew.stuck);
}

/* Since when others wait for this member; INT64_MAX: nobody does. */
static int64_t waited_since(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!tw_watch_waits_for(m, slot))
		return INT64_MAX;
	if (m->phase == PHASE_SCORE)
		return tw_eval_master_since(m, slot);
	if (m->phase == PHASE_RUN && m->dealer->excuses && m->dealer->excuses(m, slot))
		return INT64_MAX;
	return m->phase == PHASE_RUN || e->asked > m->since ? e->asked : m->since;
}

int64_t tw_watch_allowed(const struct master *m, uint32_t slot)
{
	const int64_t work = tw_watch_patience(m, slot);
	const struct tw_pace *p = m->pace.score.count ? &m->pace.score : &m->pace.work;
	/* to evaluate samples takes no longer than to train with them */
	const int64_t score =
		tw_pace_patience(p, slot, tw_eval_master_usual(m), m->plan->crew.stuck);

	return tw_eval_master_has_chunk(m, slot) && score > work ? score : work;
}

void tw_watch_expel(struct master *m, struct tw_context *ctx, uint32_t slot, struct tw_addr who,
		    int64_t waited)
{
	const struct member *e = &m->member[slot];
	const bool staged = tw_plan_is_staged(m->plan);
	char cell[16] = "";

	if (staged)
		snprintf(cell, sizeof cell, ".%u", who.index);
	tw_say(ctx, TW_WARNING,
	       "worker %u%s is removed: it answers, but has made no progress for %.3g s while "
	       "others waited for it (cluster.stuck is %.3g s)",
	       slot, cell, (double)waited / 1e9, (double)m->plan->crew.stuck / 1e9);
	tw_master_bar(m, slot, who.node, staged ? tw_cell_at(m, slot, who.index)->boot : e->boot);
	tw_master_expel(m, ctx, slot, who.node, TW_REFUSED_STUCK);
}

static int64_t period(const struct master *m)
{
	return m->plan->crew.stuck / 2 > SHORTEST ? m->plan->crew.stuck / 2 : SHORTEST;
}

void tw_watch_master_start(struct master *m, struct tw_context *ctx)
{
	if (!m->plan->crew.stuck)
		return;
	m->watch->checked = tw_now(ctx);
	tw_timer(ctx, TIMER_STUCK, period(m));
}

/* (8) Since when this member may be waited for, now or later in this phase; INT64_MAX: it must be
 * given something first. */
static int64_t busy_since(const struct master *m, const struct member *e)
{
	const uint32_t slot = (uint32_t)(e - m->member);
	const bool works = owed(m, slot);
	const int64_t later = e->asked > m->since ? e->asked : m->since;

	switch (m->phase) {
	case PHASE_RUN:
		return works ? e->asked : INT64_MAX;
	case PHASE_DRAIN:
		return works || tw_watch_is_behind(m, slot) ? later : INT64_MAX;
	case PHASE_SNAP:
		return tw_checkpoint_master_owes(m, slot) ? later : INT64_MAX;
	case PHASE_SCORE:
		return tw_eval_master_since(m, slot);
	default:
		return INT64_MAX;
	}
}

static void look(struct master *m, struct tw_context *ctx, int64_t now)
{
	const struct tw_slots *live = &m->members.live;
	const int64_t awake = m->watch->awake_since;

	m->pace.earliest = INT64_MAX;
	m->watch->phase = m->phase;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		const int64_t busy = busy_since(m, &m->member[k]);
		int64_t since = waited_since(m, k);

		since = since < awake ? awake : since;
		if (since != INT64_MAX && now - since >= tw_watch_allowed(m, k))
			tw_watch_expel(m, ctx, k, tw_watch_holds_up(m, k), now - since);
		else if (busy != INT64_MAX)
			tw_master_may_be_due(m, busy < awake ? awake : busy);
	}
}

/* (8) */
static bool anybody_waits(const struct master *m)
{
	if ((m->plan->gate->traits & TW_GATE_HOLDS) && m->phase != PHASE_SCORE &&
	    m->phase != PHASE_SNAP)
		return false; /* (6) */
	return m->phase != PHASE_RUN || !m->dealer->may_wait || m->dealer->may_wait(m);
}

void tw_watch_awake(struct master *m, struct tw_context *ctx)
{
	if (tw_now(ctx) - m->watch->checked > 2 * period(m)) /* (5) */
		m->watch->awake_since = tw_now(ctx);
}

void tw_watch_check_stuck(struct master *m, struct tw_context *ctx)
{
	const int64_t now = tw_now(ctx);

	if (anybody_waits(m) && (m->watch->phase != m->phase || now >= m->pace.earliest))
		look(m, ctx, now);
}
