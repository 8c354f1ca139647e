/* SPDX-License-Identifier: Apache-2.0 */
/* master_stuck.c - members that answer but do not work.
 *
 * Heartbeats show that a process can be reached, not that its computation goes on.  A member that
 * others wait for is removed when it has finished nothing for cluster.stuck, or for ten times the
 * longest that its work took lately, whichever is longer.
 *
 *  (1) nobody is removed before somebody has finished such work: a first step may take any time.
 *      Of a member that has finished none itself, the others' pace is known.
 *      Of a worker that has cells, one cell holds up the others: that one is removed, and the
 *      others begin anew.
 *  (2) who was removed is not let in again before its process was started again: it would hold up
 *      the others once more.
 *  (3) time in which the master itself stood still does not count.
 *  (4) where a gate holds answers the master cannot tell who holds up whom: nobody is removed.
 *  (5) a contribution that has reached some shard waits for a server, not for its worker.
 *  (6) nobody can be due before `earliest`, as long as the phase is the one in which it was found:
 *      a member that is given work, finishes some, or gets less patience than before moves it.
 *      Before that time, and where nobody waits for anybody, a check does not look at members. */
#include "node/master/master.h"

#include <stdio.h>

#define PACE_WINDOW 32
#define PATIENCE    10                 /* times the longest */
#define SHORTEST    (TW_SECOND / 1000) /* between two looks */

static void add(struct pace *p, int64_t took)
{
	if (p->count++ % PACE_WINDOW == 0) {
		p->longest[1] = p->longest[0];
		p->longest[0] = 0;
	}
	if (took > p->longest[0])
		p->longest[0] = took;
}

static int64_t longest(const struct pace *p)
{
	return p->longest[0] > p->longest[1] ? p->longest[0] : p->longest[1];
}

/* How long one may wait for work that lately took as long as `own`, or as `all` where nothing is
 * known of this member; INT64_MAX: (1). */
static int64_t patience(const struct master *m, const struct pace *own, const struct pace *all)
{
	const struct pace *p = own->count ? own : all;
	const int64_t long_enough = PATIENCE * longest(p);

	if (!p->count)
		return INT64_MAX;
	return long_enough > m->plan->crew.stuck ? long_enough : m->plan->crew.stuck;
}

/* (6) This member has something to do since `since`. */
static void may_be_due(struct master *m, const struct member *e, int64_t since)
{
	const int64_t most = patience(m, &e->pace, &m->watch.pace);

	if (most < INT64_MAX - since && since + most < m->watch.earliest)
		m->watch.earliest = since + most;
}

void tw_stuck_asked(struct master *m, struct tw_context *ctx, struct member *e)
{
	e->asked = tw_now(ctx);
	may_be_due(m, e, e->asked);
}

void tw_stuck_finished(struct master *m, struct tw_context *ctx, struct member *e)
{
	const int64_t before = patience(m, &m->watch.pace, &m->watch.pace), now = tw_now(ctx);

	add(&e->pace, now - e->asked);
	add(&m->watch.pace, now - e->asked);
	e->asked = now;
	may_be_due(m, e, now);
	if (patience(m, &m->watch.pace, &m->watch.pace) < before)
		m->watch.earliest = now; /* for those who have finished none themselves */
}

void tw_stuck_given_chunk(struct master *m, struct tw_context *ctx, const struct member *e)
{
	may_be_due(m, e, tw_now(ctx));
}

void tw_stuck_scored(struct master *m, struct tw_context *ctx, const struct chunk *c)
{
	add(&m->watch.score_pace, tw_now(ctx) - c->since);
}

void tw_stuck_owes_part(struct master *m)
{
	if (m->phase == PHASE_SNAP)
		m->watch.earliest = 0;
}

/* Since when others wait for this member; INT64_MAX: nobody does.  A late worker of a round that is
 * over holds up nobody while rounds go on. */
static int64_t waited_since(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!tw_master_waits_for(m, slot))
		return INT64_MAX;
	if (m->phase == PHASE_SCORE)
		return m->scores.chunk[e->chunk].since;
	if (m->phase == PHASE_RUN && tw_master_rounds(m) && !m->optimise &&
	    (!tw_round_planned(e) || tw_round_is_under_way(m, slot) ||
	     !m->rounds.stripes[STRIPE_COMPLETE])) /* (5) */
		return INT64_MAX;
	if (m->phase == PHASE_RUN && !tw_master_rounds(m) && !e->held.count) /* it scores only */
		return INT64_MAX;
	return m->phase == PHASE_RUN || e->asked > m->since ? e->asked : m->since;
}

/* How long this member may be waited for: in an evaluation it may have a step to finish first. */
static int64_t allowed(const struct master *m, const struct member *e)
{
	const int64_t work = patience(m, &e->pace, &m->watch.pace);
	const int64_t score = patience(m, &m->watch.score_pace, &m->watch.score_pace);

	return m->phase == PHASE_SCORE && score > work ? score : work;
}

void tw_stuck_bar(struct master *m, uint32_t slot, uint32_t node, uint32_t boot)
{
	m->member[slot].barred_node = node;
	m->member[slot].barred_boot = boot;
	tw_slots_put(&m->members.barred, slot, true);
}

void tw_stuck_expel(struct master *m, struct tw_context *ctx, uint32_t slot, int64_t waited)
{
	const struct member *e = &m->member[slot];
	const struct tw_addr who = tw_master_holds_up(m, slot);
	const bool staged = tw_plan_is_staged(m->plan);
	char cell[16] = "";

	if (staged)
		snprintf(cell, sizeof cell, ".%u", who.index);
	tw_say(ctx, TW_WARNING,
	       "worker %u%s is removed: it answers, but has made no progress for %.3g s while "
	       "others waited for it (cluster.stuck is %.3g s)",
	       slot, cell, (double)waited / 1e9, (double)m->plan->crew.stuck / 1e9);
	tw_stuck_bar(m, slot, who.node, staged ? tw_cell_at(m, slot, who.index)->boot : e->boot);
	tw_master_expel(m, ctx, slot, who.node, TW_REFUSED_STUCK);
}

static int64_t period(const struct master *m)
{
	return m->plan->crew.stuck / 2 > SHORTEST ? m->plan->crew.stuck / 2 : SHORTEST;
}

void tw_stuck_watch(struct master *m, struct tw_context *ctx)
{
	if (!m->plan->crew.stuck || (m->plan->gate->traits & TW_GATE_HOLDS)) /* (4) */
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
		return tw_cut_workers_keep_state(m) && !e->part ? later : INT64_MAX;
	case PHASE_SCORE:
		return e->chunk != NO_CHUNK ? m->scores.chunk[e->chunk].since : INT64_MAX;
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
		const struct member *e = &m->member[k];
		const int64_t busy = busy_since(m, e);
		int64_t since = waited_since(m, k);

		since = since < awake ? awake : since;
		if (since != INT64_MAX && now - since >= allowed(m, e))
			tw_stuck_expel(m, ctx, k, now - since);
		else if (busy != INT64_MAX)
			may_be_due(m, e, busy < awake ? awake : busy);
	}
}

/* (6) */
static bool anybody_waits(const struct master *m)
{
	if (m->phase != PHASE_RUN || m->optimise)
		return true;
	if (tw_master_rounds(m))
		return m->rounds.stripes[STRIPE_COMPLETE] != 0;
	return m->eval.state == EVAL_PINNED || tw_deal_exhausted(m);
}

void tw_stuck_check(struct master *m, struct tw_context *ctx)
{
	const int64_t now = tw_now(ctx);

	if (now - m->watch.checked > 2 * period(m)) /* (3) */
		m->watch.awake_since = now;
	tw_stalled_check(m, ctx, patience(m, &m->watch.pace, &m->watch.pace));
	if (anybody_waits(m) && (m->watch.phase != m->phase || now >= m->watch.earliest))
		look(m, ctx, now);
	tw_stuck_watch(m, ctx);
}

bool tw_stuck_barred(const struct master *m, uint32_t node, uint32_t boot)
{
	const struct tw_slots *barred = &m->members.barred;

	for (uint32_t k = tw_slots_next(barred, 0); k != TW_NO_SLOT;
	     k = tw_slots_next(barred, k + 1))
		if (m->member[k].barred_node == node && m->member[k].barred_boot == boot && boot)
			return true;
	return false;
}
