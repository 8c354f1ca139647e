/* SPDX-License-Identifier: Apache-2.0 */
/* master_stuck.c - members that answer but do not work.
 *
 * Heartbeats show that a process can be reached, not that its computation goes on.  A member that
 * others wait for is removed when it has finished nothing for cluster.stuck, or for ten times what
 * such work usually takes, whichever is longer.
 *
 *  (1) what is usual is the median of what the others took lately, for as many samples; of one that
 *      is alone, its own.
 *      So no member can make others more patient with itself.  Nobody is removed before somebody
 *      has shown how long it takes: a first step may take any time.
 *      Of a worker that has cells, one cell holds up the others: that one is removed, and the
 *      others begin anew.
 *  (2) who was removed is not let in again before its process was started again: it would hold up
 *      the others once more.
 *  (3) time in which the master itself stood still does not count.
 *  (4) where a gate holds answers, a member that has a lease may wait for another one: only the
 *      shards know for whom (master_standstill.c).
 *  (5) a contribution that has reached some shard may wait for a server, and not for its worker:
 *      only if the whole run stands still, its worker is to blame (master_standstill.c).
 *  (6) nobody can be due before `earliest`, as long as the phase is the one in which it was found:
 *      a member that is given work or finishes some moves it.  Before that time, and where nobody
 *      waits for anybody, a check does not look at members. */
#include "node/master/master.h"

#include <stdio.h>

#define SHORTEST (TW_SECOND / 1000)

/* Samples that this member works on: of its first lease, or its stripe. */
static double owed(const struct member *e)
{
	if (e->held.count)
		return (double)(e->held.lease[0].to - e->held.lease[0].from);
	return tw_round_planned(e) ? e->stripe.count : 0;
}

int64_t tw_stuck_patience(const struct master *m, uint32_t slot)
{
	return tw_pace_patience(&m->watch.pace, slot,
				slot < m->plan->crew.workers ? owed(&m->member[slot]) : 0,
				m->plan->crew.stuck);
}

/* Since when others wait for this member; INT64_MAX: nobody does. */
static int64_t waited_since(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!tw_master_waits_for(m, slot))
		return INT64_MAX;
	if (m->phase == PHASE_SCORE)
		return tw_eval_master_since(m, slot);
	if (m->phase == PHASE_RUN && m->dealer->excuses && m->dealer->excuses(m, slot))
		return INT64_MAX;
	return m->phase == PHASE_RUN || e->asked > m->since ? e->asked : m->since;
}

int64_t tw_stuck_allowed(const struct master *m, uint32_t slot)
{
	const int64_t work = tw_stuck_patience(m, slot);
	const struct tw_pace *p = m->watch.score_pace.count ? &m->watch.score_pace : &m->watch.pace;
	/* to evaluate samples takes no longer than to train with them */
	const int64_t score =
		tw_pace_patience(p, slot, tw_eval_master_usual(m), m->plan->crew.stuck);

	return tw_eval_master_has_chunk(m, slot) && score > work ? score : work;
}

void tw_stuck_expel(struct master *m, struct tw_context *ctx, uint32_t slot, struct tw_addr who,
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

void tw_stuck_watch(struct master *m, struct tw_context *ctx)
{
	if (!m->plan->crew.stuck)
		return;
	m->watch.checked = tw_now(ctx);
	tw_timer(ctx, TIMER_STUCK, period(m));
}

/* (6) Since when this member may be waited for, now or later in this phase; INT64_MAX: it must be
 * given something first. */
static int64_t busy_since(const struct master *m, const struct member *e)
{
	const bool works = e->held.count || tw_round_planned(e);
	const int64_t later = e->asked > m->since ? e->asked : m->since;

	switch (m->phase) {
	case PHASE_RUN:
		return works ? e->asked : INT64_MAX;
	case PHASE_DRAIN:
		return works || e->stripe.state == STRIPE_BEHIND ? later : INT64_MAX;
	case PHASE_SNAP:
		return tw_checkpoint_master_owes(m, (uint32_t)(e - m->member)) ? later : INT64_MAX;
	case PHASE_SCORE:
		return tw_eval_master_since(m, (uint32_t)(e - m->member));
	default:
		return INT64_MAX;
	}
}

static void look(struct master *m, struct tw_context *ctx, int64_t now)
{
	const struct tw_slots *live = &m->members.live;
	const int64_t awake = m->watch.awake_since;

	m->watch.earliest = INT64_MAX;
	m->watch.phase = m->phase;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		const int64_t busy = busy_since(m, &m->member[k]);
		int64_t since = waited_since(m, k);

		since = since < awake ? awake : since;
		if (since != INT64_MAX && now - since >= tw_stuck_allowed(m, k))
			tw_stuck_expel(m, ctx, k, tw_master_holds_up(m, k), now - since);
		else if (busy != INT64_MAX)
			tw_master_may_be_due(m, busy < awake ? awake : busy);
	}
}

/* (6) */
static bool anybody_waits(const struct master *m)
{
	if ((m->plan->gate->traits & TW_GATE_HOLDS) && m->phase != PHASE_SCORE &&
	    m->phase != PHASE_SNAP)
		return false; /* (4) */
	return m->phase != PHASE_RUN || !m->dealer->may_wait || m->dealer->may_wait(m);
}

void tw_stuck_awake(struct master *m, struct tw_context *ctx)
{
	if (tw_now(ctx) - m->watch.checked > 2 * period(m)) /* (3) */
		m->watch.awake_since = tw_now(ctx);
}

void tw_stuck_check(struct master *m, struct tw_context *ctx)
{
	const int64_t now = tw_now(ctx);

	if (anybody_waits(m) && (m->watch.phase != m->phase || now >= m->watch.earliest))
		look(m, ctx, now);
}
