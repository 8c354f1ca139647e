/* SPDX-License-Identifier: Apache-2.0 */
/* round_master.c - the master's side of rounds: stripes are planned, a round is opened, and
 * committed when it is due.  It holds the seat of the dealer.  The numbers in brackets are those of
 * README.md. */
#include "node/duty/round/round_state.h"

#include <stddef.h>

/* Between rounds a cut, a pause or the end come first. */
static bool may_open(const struct master *m)
{
	return tw_phase_goes_on(m) && tw_replicas_ready(m);
}

static bool plan_one(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const bool crosses = tw_plan_crosses_epochs(m->plan);
	const bool first = tw_round_all_planned(m->round) == 0;
	const uint64_t samples = m->plan->problem.samples;
	struct member *e = &m->member[slot];
	uint64_t end = tw_deal_end(m), size;
	struct tw_span r;

	if (first && tw_spans_gap(&m->dealing.taken, 0, end, 1, &r))
		m->round->begins = r.from;
	size = (uint64_t)tw_plan_stripe(m->plan, tw_deal_batch(m, slot), m->round->begins);
	end = tw_orphans_end(m, end);
	if (!first && m->round->border < end) /* (9) */
		end = m->round->border;
	if (!size || !tw_deal_next_range(m, slot, end, size, &r))
		return false;
	if (tw_deal_take(m, r.from, r.to) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a stripe");
		return false;
	}
	if (first && crosses)
		m->round->border = r.from < m->plan->traffic.push_from ? m->plan->traffic.push_from
								       : UINT64_MAX;
	else if (first)
		m->round->border = (r.from / samples + 1) * samples;
	tw_round_begin_stripe(m, ctx, slot,
			      &(struct stripe_ahead){ .from = r.from,
						      .lease = ++e->held.next,
						      .count = (uint32_t)(r.to - r.from) });
	tw_figures_steady_dealt(m, ctx);
	tw_deal_note(ctx, slot, r.from, r.to);
	tw_deal_send(m, ctx, slot, e->held.next, r.from, r.to);
	return true;
}

/* (11) Stripes of the round after this one. */
static void plan_ahead(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;
	const uint64_t last = m->plan->ends.updates;
	const uint64_t end = tw_orphans_end(m, tw_deal_end(m));

	if (!m->plan->traffic.delay || !may_open(m) || (last && m->rounds.number + 1 >= last))
		return;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		struct member *e = &m->member[k];
		const uint64_t size =
			(uint64_t)tw_plan_stripe(m->plan, tw_deal_batch(m, k), m->round->begins);
		struct tw_span r;

		if (tw_deal_too_early(m, k))
			continue;
		if (!size || !tw_deal_next_range(m, k, end, size, &r))
			continue;
		if (tw_deal_take(m, r.from, r.to) != TW_OK) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a stripe");
			return;
		}
		m->round->ahead[k] =
			(struct stripe_ahead){ r.from, ++e->held.next, (uint32_t)(r.to - r.from) };
		tw_figures_steady_dealt(m, ctx);
		tw_deal_note(ctx, k, r.from, r.to);
		tw_round_send_ahead(m, ctx, k);
	}
}

/* (11) The next round begins with the stripes that were dealt ahead; false: there are none. */
static bool open_ahead(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;
	const uint64_t samples = m->plan->problem.samples;

	if (!m->plan->traffic.delay)
		return false;
	m->rounds.open = true;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		const struct stripe_ahead a = m->round->ahead[k];

		m->round->ahead[k].count = 0;
		if (!a.count)
			continue;
		tw_round_begin_stripe(m, ctx, k, &a);
		if (a.from >= m->round->border) /* with samples of its own, in the next epoch */
			m->round->border = (a.from / samples + 1) * samples;
	}
	m->rounds.open = tw_round_all_planned(m->round) != 0;
	if (m->rounds.open)
		m->since = tw_now(ctx);
	return m->rounds.open;
}

/* (11) A round that nobody works in any more is opened anew: what follows was dealt too early. */
static void close_empty(struct master *m, struct tw_context *ctx)
{
	enum tw_status st = TW_OK;

	m->rounds.open = false;
	for (uint32_t k = 0; m->plan->traffic.delay && k < m->plan->crew.workers; k++)
		if (st == TW_OK)
			st = tw_round_withdraw(m, k);
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for samples of a lost worker");
}

/* Late workers that came home are behind no more. */
static void forgive(struct master *m)
{
	const struct tw_slots *back = &m->round->back;

	for (uint32_t k = tw_slots_next(back, 0); k != TW_NO_SLOT; k = tw_slots_next(back, k + 1))
		tw_round_put(m, k, STRIPE_NONE);
}

/* False: there is nobody who could work in it. */
static bool open_round(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;

	m->since = tw_now(ctx);
	m->rounds.open = true;
	if (m->round->stripes[STRIPE_BEHIND] < live->members)
		for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT;
		     k = tw_slots_next(live, k + 1)) {
			if (m->round->stripe[k].state == STRIPE_BEHIND || tw_deal_too_early(m, k) ||
			    plan_one(m, ctx, k))
				continue;
			if (tw_deal_exhausted(m)) /* and not only at the end of an epoch */
				tw_figures_steady_dry(m, ctx);
			if (!m->plan->dealing.subsets.count)
				break;
		}
	m->rounds.open = tw_round_all_planned(m->round) != 0;
	return m->rounds.open;
}

/* Is the round due?  Contributions of the dead count where they are complete; those of the dead
 * that are not were given back. */
static bool round_full(const struct master *m)
{
	const uint32_t *n = m->round->stripes;
	const uint32_t complete = n[STRIPE_COMPLETE], stripes = complete + n[STRIPE_STAGING];

	if (tw_master_has_replicas(m))
		return tw_round_form_is_complete(m);
	return complete == stripes ||
	       complete >= tw_gate_quorum(m->plan->gate, m->plan->gate_options, stripes,
					  n[STRIPE_BEHIND]);
}

/* (10) Late workers that came home get a stripe of the round that is open, if there is one. */
static void plan_late(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *back = &m->round->back;

	for (uint32_t k = tw_slots_next(back, 0); k != TW_NO_SLOT; k = tw_slots_next(back, k + 1)) {
		tw_round_put(m, k, STRIPE_NONE);
		tw_deal_finished(m, ctx, &m->member[k], m->round->stripe[k].count);
		if (!tw_deal_exhausted(m))
			plan_one(m, ctx, k);
	}
}

static void deal(struct master *m, struct tw_context *ctx)
{
	for (;;) {
		tw_orphans_pass(m, ctx);
		if (m->rounds.open) {
			plan_late(m, ctx);
			if (tw_round_all_planned(m->round) == 0) {
				close_empty(m, ctx); /* everybody went: nothing to commit */
				continue;
			}
			tw_round_form(m, ctx);
			if (!round_full(m) || tw_eval_master_holds(m))
				return;
			tw_round_commit(m, ctx);
			continue;
		}
		if (!open_ahead(m, ctx)) {
			if (m->phase == PHASE_RUN && tw_deal_exhausted(m))
				tw_figures_steady_dry(m, ctx);
			if (!may_open(m))
				return;
			forgive(m);
			tw_deal_look(m, ctx);
			if (!tw_deal_enough(m) || !open_round(m, ctx))
				return;
		}
		plan_ahead(m, ctx);
	}
}

/* --- the seat ------------------------------------------------------------------------------ */

static bool border(const struct master *m)
{
	return !m->rounds.open;
}

static double updates(const struct master *m)
{
	return (double)m->rounds.number;
}

/* A replica that has the sum of the round has done its part. */
static bool waits(const struct master *m, uint32_t slot)
{
	return m->rounds.open && ((m->round->stripe[slot].state == STRIPE_STAGING &&
				   !tw_round_form_has_sum(m, slot)) ||
				  tw_round_is_behind(m, slot));
}

/* A late worker of a round that is over holds up nobody while rounds go on; see also (7) in
 * duty/watch/README.md. */
static bool excuses(const struct master *m, uint32_t slot)
{
	return !tw_round_works_on(m, slot) || tw_round_is_under_way(m, slot) ||
	       !m->round->stripes[STRIPE_COMPLETE];
}

static bool may_wait(const struct master *m)
{
	return m->round->stripes[STRIPE_COMPLETE] != 0;
}

static uint64_t progress(const struct master *m)
{
	return m->round->stripes[STRIPE_COMPLETE];
}

static const char *work(const struct master *m, uint32_t slot)
{
	return m->rounds.open && m->round->stripe[slot].state != STRIPE_NONE ? "its contribution"
									     : NULL;
}

static const struct tw_dealer dealer = {
	.name = "round",
	.deal = deal,
	.border = border,
	.came_back = tw_orphans_came_back,
	.appetite = tw_round_appetite,
	.crossed = tw_round_crossed,
	.left = tw_round_left,
	.undo = tw_round_undo,
	.resend = tw_round_resend,
	.period = tw_speed_tell,
	.updates = updates,
	.waits = waits,
	.excuses = excuses,
	.may_wait = may_wait,
	.works_on = tw_round_works_on,
	.reached = tw_round_reached,
	.is_behind = tw_round_is_behind,
	.is_ahead = tw_round_is_ahead,
	.progress = progress,
	.work = work,
};

/* --- the duty ------------------------------------------------------------------------------ */

static bool wanted(const struct tw_plan *plan)
{
	return (plan->gate->traits & TW_GATE_ROUNDS) && !tw_plan_optimises(plan);
}

static enum tw_status open_books(void *actor)
{
	enum tw_status st = tw_round_stripes_open(actor);

	if (st == TW_OK)
		st = tw_round_commit_open(actor);
	return st == TW_OK ? tw_round_form_open(actor) : st;
}

static void close_books(void *actor)
{
	tw_round_form_close(actor);
	tw_round_commit_close(actor);
	tw_round_stripes_close(actor);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct master *m = actor;

	if (msg->h.flags & TW_FLAG_HELD) /* duty/watch */
		return;
	if (tw_master_has_replicas(m))
		tw_round_form_have(m, ctx, msg);
	else
		tw_round_have(m, ctx, msg);
}

/* (16) Of the rounds of another life nothing is known. */
static enum tw_status restore(void *actor, const struct tw_master_part *head,
			      const struct tw_array *list, size_t count)
{
	struct master *m = actor;

	(void)head;
	(void)list;
	(void)count;
	m->round->commit.sent = false;
	return TW_OK;
}

const struct tw_duty tw_round_master = {
	.name = "round",
	.bytes = sizeof(struct round_master),
	.place = offsetof(struct master, round),
	.hears = TW_HEARS(TW_HAVE),
	.seat = &dealer,
	.wanted = wanted,
	.open = open_books,
	.close = close_books,
	.message = message,
	.restore = restore,
};
