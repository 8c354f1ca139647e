/* SPDX-License-Identifier: Apache-2.0 */
/* stuck.c - members that answer but do not work.
 *
 * Heartbeats show that a process can be reached, not that its computation goes on.  A member that
 * others wait for is removed when it has finished nothing for cluster.stuck, or for ten times the
 * longest that its work took lately, whichever is longer.
 *
 *  (1) nobody is removed before somebody has finished such work: a first step may take any time.
 *      Of a member that has finished none itself, the others' pace is known.
 *  (2) who was removed is not let in again before its process was started again: it would hold up
 *      the others once more.
 *  (3) time in which the master itself stood still does not count.
 *  (4) where a gate holds answers the master cannot tell who holds up whom: nobody is removed.
 *  (5) a contribution that has reached some shard waits for a server, not for its worker. */
#include "node/master.h"

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

void tw_stuck_asked(struct member *e, struct tw_context *ctx)
{
	e->asked = tw_now(ctx);
}

void tw_stuck_finished(struct master *m, struct tw_context *ctx, struct member *e)
{
	const int64_t now = tw_now(ctx);

	add(&e->pace, now - e->asked);
	add(&m->pace, now - e->asked);
	e->asked = now;
}

void tw_stuck_scored(struct master *m, struct tw_context *ctx, const struct chunk *c)
{
	add(&m->score_pace, tw_now(ctx) - c->since);
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

static bool somebody_is_done(const struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].planned && m->member[k].complete)
			return true;
	return false;
}

/* Since when others wait for this member; INT64_MAX: nobody does.  A late worker of a round that is
 * over holds up nobody while rounds go on. */
static int64_t waited_since(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!tw_master_waits_for(m, slot))
		return INT64_MAX;
	if (m->phase == PHASE_SCORE)
		return m->chunk[e->chunk].since;
	if (m->phase == PHASE_RUN && tw_master_rounds(m) &&
	    (!e->planned || e->have_count || !somebody_is_done(m))) /* (5) */
		return INT64_MAX;
	if (m->phase == PHASE_RUN && !tw_master_rounds(m) && !e->leases) /* it scores only */
		return INT64_MAX;
	return m->phase == PHASE_RUN || e->asked > m->since ? e->asked : m->since;
}

/* How long this member may be waited for: in an evaluation it may have a step to finish first. */
static int64_t allowed(const struct master *m, const struct member *e)
{
	const int64_t work = patience(m, &e->pace, &m->pace);
	const int64_t score = patience(m, &m->score_pace, &m->score_pace);

	return m->phase == PHASE_SCORE && score > work ? score : work;
}

static void expel(struct master *m, struct tw_context *ctx, uint32_t slot, int64_t waited)
{
	struct member *e = &m->member[slot];

	tw_say(ctx, TW_WARNING,
	       "worker %u answers but has made no progress for %.3g s while others waited for it: "
	       "it is removed (cluster.stuck is %.3g s)",
	       slot, (double)waited / 1e9, (double)m->plan->crew.stuck / 1e9);
	e->barred_node = e->node;
	e->barred_boot = e->boot;
	tw_master_expel(m, ctx, slot, TW_REFUSED_STUCK);
}

static int64_t period(const struct master *m)
{
	return m->plan->crew.stuck / 2 > SHORTEST ? m->plan->crew.stuck / 2 : SHORTEST;
}

void tw_stuck_watch(struct master *m, struct tw_context *ctx)
{
	if (!m->plan->crew.stuck || (m->plan->gate->traits & TW_GATE_HOLDS)) /* (4) */
		return;
	m->stuck_checked = tw_now(ctx);
	tw_timer(ctx, TIMER_STUCK, period(m));
}

void tw_stuck_check(struct master *m, struct tw_context *ctx)
{
	const int64_t now = tw_now(ctx);

	if (now - m->stuck_checked > 2 * period(m)) /* (3) */
		m->awake_since = now;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		int64_t since = waited_since(m, k);

		if (since < m->awake_since)
			since = m->awake_since;
		if (since != INT64_MAX && now - since >= allowed(m, &m->member[k]))
			expel(m, ctx, k, now - since);
	}
	tw_stuck_watch(m, ctx);
}

bool tw_stuck_barred(const struct master *m, uint32_t node, uint32_t boot)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].barred_node == node && m->member[k].barred_boot == boot && boot)
			return true;
	return false;
}
