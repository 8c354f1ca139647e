/* SPDX-License-Identifier: Apache-2.0 */
/* master_phases.c - which phase the run is in, and what is due.
 *
 *  (1) `drive` looks at the whole state after every event and does whatever is due; handlers only
 *      record what happened.  So there is no order of events that is not covered by it.
 *  (2) what it looks at are counts and sets that are kept as members change: it walks over all
 *      members only where a generation, a round or a cut begins or ends.
 *  (3) after a drain one thing is done, in this order: replicas are made equal for the next
 *      generation, a checkpoint is made, the run ends, or it goes on. */
#include "node/master/master.h"

static void begin(struct master *m, struct tw_context *ctx)
{
	const int64_t left = m->plan->ends.time - tw_now(ctx);

	if (m->restart.release > tw_now(ctx))
		return;
	m->restart.release = 0;
	m->restart.current = m->restart.generation;
	if (!m->restart.begun && m->plan->ends.time)
		tw_timer(ctx, TIMER_LIMIT, left > 0 ? left : 0);
	m->restart.begun = true;
	m->phase = PHASE_RUN;
	m->dealing.again = m->dealing.turns = true;
	tw_mix_master_begin(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live)
			tw_master_places(m, ctx, k, true);
	tw_duties_begin(&m->duties, ctx);
}

static void drain(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_DRAIN;
	m->since = m->cuts.draining = tw_now(ctx);
	if (m->dealer->recall)
		m->dealer->recall(m, ctx);
}

static void check_members(struct master *m, struct tw_context *ctx)
{
	const bool few = tw_master_too_few(m);

	if (few == m->waits.paused)
		return;
	m->waits.paused = few;
	m->waits.since = tw_now(ctx);
	m->cuts.was_paused = m->cuts.was_paused || few;
	m->since = tw_now(ctx);
	if (!few)
		return;
	tw_say(ctx, TW_WARNING,
	       "%u worker%s fewer than cluster.min (%u): the run pauses and waits for more",
	       tw_master_live(m), tw_master_live(m) == 1 ? " is" : "s are", m->plan->crew.min);
}

static void deal(struct master *m, struct tw_context *ctx)
{
	const char *why =
		tw_wishes(m, TW_WISH_STOP) && m->dealer->strands ? m->dealer->strands(m) : NULL;

	if (!why) {
		m->dealer->deal(m, ctx);
		return;
	}
	tw_say(ctx, TW_WARNING, "%s", why);
	tw_finish_master_end(m, ctx, TW_INTERRUPTED);
}

static void run(struct master *m, struct tw_context *ctx)
{
	const uint32_t wishes = tw_phase_wishes(m);

	check_members(m, ctx);
	if (wishes & TW_WISH_EQUALISE) {
		drain(m, ctx);
		return;
	}
	deal(m, ctx);
	/* between two rounds, who has joined gets a copy, and the next round waits for it */
	if (m->phase == PHASE_RUN && !tw_replicas_ready(m) && tw_phase_at_border(m) &&
	    tw_host_bring(m, ctx))
		deal(m, ctx);
	if (m->phase != PHASE_RUN)
		return;
	if (wishes == TW_WISH_CHECKPOINT && !m->plan->checkpoint.drain) { /* nobody pauses */
		if (tw_phase_at_border(m) && !tw_eval_master_keeps(m))
			tw_checkpoint_master_begin(m, ctx);
		deal(m, ctx);
		return;
	}
	if (tw_phase_at_border(m) && (wishes || (tw_deal_exhausted(m) && !m->dealing.open_leases)))
		drain(m, ctx);
}

/* A worker that asks has heard all answers of the rounds before.  What its codec owes is right only
 * then, and its part of the cut has that.  Where a round may close without somebody, an answer that
 * is late decides who that is, and after a stop it is not on its way any more.  A worker that holds
 * a replica has all rounds in it then. */
static bool unheard_answers(const struct master *m)
{
	const struct dealing *d = &m->dealing;
	const struct tw_plan *p = m->plan;
	const uint32_t all = p->crew.workers;

	return tw_master_rounds(m) &&
	       (tw_plan_worker_goes_back(p) || tw_master_has_replicas(m) ||
		tw_gate_quorum(p->gate, p->gate_options, all, 0) < all) &&
	       d->hungry.members + d->dry.members + d->early.members < tw_master_live(m);
}

static void checkpoint(struct master *m, struct tw_context *ctx)
{
	/* what late workers still push would be in the way of a run that goes on, and not of one
	 * that resumes */
	if (!tw_round_master_is_late(m) && !unheard_answers(m))
		tw_checkpoint_master_begin(m, ctx);
}

/* What it drained for is not wanted any more. */
static void release(struct master *m, struct tw_context *ctx)
{
	(void)ctx;
	m->phase = PHASE_RELEASE;
}

/* (3) Who goes on after a drain: the first that wants it. */
static const struct {
	bool (*wants)(const struct master *m); /* NULL: it always does */
	void (*goes_on)(struct master *m, struct tw_context *ctx);
} after[] = {
	{ tw_checkpoint_master_wants, checkpoint },
	{ tw_deal_exhausted, tw_finish_master_count },
	{ NULL, release },
};

static void drained(struct master *m, struct tw_context *ctx)
{
	size_t k = 0;

	if (!tw_phase_is_drained(m) || !tw_mix_master_calm(m, ctx) || tw_eval_master_keeps(m))
		return;
	if (tw_phase_wishes(m) & TW_WISH_EQUALISE) { /* the generation ends: no duty finishes it */
		tw_mix_master_reform(m, ctx);
		return;
	}
	/* which may not end any more */
	if (tw_checkpoint_master_is_making(m) && tw_eval_master_awaits_cut(m)) {
		tw_checkpoint_master_abort(m);
		tw_eval_master_scored(m, ctx);
		if (tw_eval_master_keeps(m))
			return;
	}
	if (!tw_duties_idle(&m->duties, ctx)) {
		check_members(m, ctx);
		return;
	}
	tw_checkpoint_master_abort(m); /* one may still be collected: it is let go */
	while (after[k].wants && !after[k].wants(m))
		k++;
	after[k].goes_on(m, ctx);
}

/* Views that are all kept: their mean is evaluated where replicas differ; elsewhere replicas are
 * equal, or are not what they should be. */
static void look_at_views(struct master *m, struct tw_context *ctx)
{
	tw_eval_master_scored(m, ctx);
	if (!tw_eval_master_is_complete(m))
		return;
	if (tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE) {
		tw_eval_master_average(m);
		tw_mix_master_view(m, ctx);
	} else {
		tw_host_compare(m, ctx);
		tw_eval_master_viewed(m, ctx);
	}
}

static void score(struct master *m, struct tw_context *ctx)
{
	if (tw_eval_master_is_final_made(m)) {
		tw_finish_master_end(m, ctx, TW_OK);
		return;
	}
	check_members(m, ctx);
	if (tw_wishes(m, TW_WISH_STOP)) { /* nobody is there to score it */
		tw_eval_master_abort(m, ctx);
		tw_checkpoint_master_go_back(m);
		drain(m, ctx);
	} else {
		tw_eval_master_go(m, ctx);
		look_at_views(m, ctx);
	}
}

static void do_what_is_due(struct master *m, struct tw_context *ctx)
{
	for (;;) {
		const enum phase before = m->phase;

		if (before != PHASE_OVER)
			tw_host_servers_go(m, ctx);
		switch (m->phase) {
		case PHASE_GATHER:
			tw_host_gather(m, ctx);
			break;
		case PHASE_AGREE:
			tw_host_agreed(m, ctx);
			break;
		case PHASE_RELEASE:
			begin(m, ctx);
			break;
		case PHASE_RUN:
			run(m, ctx);
			break;
		case PHASE_DRAIN:
			deal(m, ctx);
			drained(m, ctx);
			break;
		case PHASE_SNAP:
			tw_checkpoint_master_check(m, ctx);
			break;
		case PHASE_COUNT:
			tw_finish_master_count(m, ctx);
			break;
		case PHASE_SCORE:
			score(m, ctx);
			break;
		default:
			break;
		}
		if (m->phase == before)
			return;
	}
}

void tw_master_drive(struct master *m, struct tw_context *ctx)
{
	look_at_views(m, ctx);
	tw_verdict_master_give(m, ctx);
	do_what_is_due(m, ctx);
	if (tw_eval_master_scored(m, ctx)) /* a cut has all its parts now */
		do_what_is_due(m, ctx);
	if (m->phase != PHASE_OVER)
		tw_watch_master_count(m, ctx);
}
