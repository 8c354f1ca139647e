/* SPDX-License-Identifier: Apache-2.0 */
/* master_rounds.c - rounds: stripes are planned, staged on all shards, and committed as one set.
 *
 *  (1) a round's stripes lie in one epoch, in slot order, unless they are of many steps; with
 *      data.deal each is of its worker's subset, or of one that has no worker.  Where samples are
 *      own (data.placement) a round is of the first epoch of which some are left, and a worker
 *      that has none of them left sits out.  A round is committed with those whose contribution
 *      is staged on *every* shard, dead or alive, and with nobody else.
 *  (2) a worker whose stripe was too late for its round is behind until it asks for work again, and
 *      gets no stripe meanwhile.
 *  (3) opening and committing a round walk over all members; every other event costs as much as it
 *      changes.
 *  (4) with plan.traffic.delay a worker has its stripe of the next round before this one is over,
 *      so that it need not wait for the answers of this round.  One that comes in between begins
 *      with the round after that. */
#include "node/master/master.h"

#include <string.h>

enum tw_status tw_round_init(struct master *m)
{
	struct rounds *r = &m->rounds;
	const uint32_t slots = m->plan->crew.workers;

	r->stripes[STRIPE_NONE] = slots;
	if (tw_slots_init(&r->back, m->heap, slots) != TW_OK)
		return TW_NO_MEMORY;
	if (!tw_master_rounds(m))
		return TW_OK;
	r->words = (m->plan->problem.shards + 63) / 64;
	r->have = tw_heap_zeros(m->heap, (size_t)slots * r->words * sizeof *r->have);
	return r->have ? TW_OK : TW_NO_MEMORY;
}

void tw_round_release(struct master *m)
{
	tw_slots_release(&m->rounds.back);
	m->heap->put(m->heap, m->rounds.have);
}

static uint32_t planned(const struct rounds *r)
{
	return r->stripes[STRIPE_STAGING] + r->stripes[STRIPE_COMPLETE] +
	       r->stripes[STRIPE_REFUSED];
}

static uint64_t *have_of(const struct master *m, uint32_t slot)
{
	return m->rounds.have + (size_t)slot * m->rounds.words;
}

bool tw_round_is_under_way(const struct master *m, uint32_t slot)
{
	const uint32_t *stage_of = m->plan->staging.stage_of;
	bool some = false, all = true;
	uint32_t stage;

	if (!stage_of || !m->member[slot].stripe.have)
		return m->member[slot].stripe.have;
	stage = tw_plan_stage_of(m->plan, tw_figures_master_culprit(m, slot));
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (stage_of[s] == stage) {
			const bool have = have_of(m, slot)[s / 64] >> s % 64 & 1;

			some = some || have;
			all = all && have;
		}
	return some && !all;
}

static void begin_stripe(struct master *m, struct tw_context *ctx, uint32_t slot,
			 const struct stripe_ahead *what)
{
	struct member *e = &m->member[slot];

	tw_deal_appetite(m, slot, APPETITE_NONE);
	tw_round_put(m, slot, STRIPE_STAGING);
	memset(have_of(m, slot), 0, m->rounds.words * sizeof *m->rounds.have);
	e->stripe = (struct stripe){ .state = STRIPE_STAGING,
				     .incarnation = e->incarnation,
				     .node = e->node,
				     .count = what->count,
				     .from = what->from,
				     .lease = what->lease };
	tw_deal_busy(m, ctx, e);
}

/* Between rounds a cut, a pause or the end come first. */
static bool may_open(const struct master *m)
{
	return tw_phase_goes_on(m) && tw_replicas_ready(m);
}

static bool plan_one(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const bool crosses = tw_plan_crosses_epochs(m->plan);
	const bool first = planned(&m->rounds) == 0;
	const uint64_t samples = m->plan->problem.samples;
	struct member *e = &m->member[slot];
	uint64_t end = m->plan->dealing.positions, size;
	struct tw_span r;

	if (first && tw_spans_gap(&m->dealing.taken, 0, end, 1, &r))
		m->rounds.begins = r.from;
	size = (uint64_t)tw_plan_stripe(m->plan, tw_deal_batch(m, slot), m->rounds.begins);
	end = tw_orphans_end(m, end);
	if (!first && m->rounds.border < end) /* (1) */
		end = m->rounds.border;
	if (!size || !tw_deal_next_range(m, slot, end, size, &r))
		return false;
	if (tw_deal_take(m, r.from, r.to) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a stripe");
		return false;
	}
	if (first && crosses)
		m->rounds.border = r.from < m->plan->traffic.push_from ? m->plan->traffic.push_from
								       : UINT64_MAX;
	else if (first)
		m->rounds.border = (r.from / samples + 1) * samples;
	begin_stripe(m, ctx, slot,
		     &(struct stripe_ahead){ .from = r.from,
					     .lease = ++e->held.next,
					     .count = (uint32_t)(r.to - r.from) });
	tw_figures_steady_dealt(m, ctx);
	tw_deal_note(ctx, slot, r.from, r.to);
	tw_deal_send(m, ctx, slot, e->stripe.lease, r.from, r.to);
	return true;
}

/* (4) Stripes of the round after this one. */
static void plan_ahead(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;
	const uint64_t last = m->plan->ends.updates;
	const uint64_t end = tw_orphans_end(m, m->plan->dealing.positions);

	if (!m->plan->traffic.delay || !may_open(m) || (last && m->rounds.number + 1 >= last))
		return;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		struct member *e = &m->member[k];
		const uint64_t size =
			(uint64_t)tw_plan_stripe(m->plan, tw_deal_batch(m, k), m->rounds.begins);
		struct tw_span r;

		if (tw_deal_too_early(m, k))
			continue;
		if (!size || !tw_deal_next_range(m, k, end, size, &r))
			continue;
		if (tw_deal_take(m, r.from, r.to) != TW_OK) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a stripe");
			return;
		}
		e->ahead =
			(struct stripe_ahead){ r.from, ++e->held.next, (uint32_t)(r.to - r.from) };
		tw_figures_steady_dealt(m, ctx);
		tw_deal_note(ctx, k, r.from, r.to);
		tw_deal_send_ahead(m, ctx, k);
	}
}

/* (4) The next round begins with the stripes that were dealt ahead; false: there are none. */
static bool open_ahead(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;
	const uint64_t samples = m->plan->problem.samples;

	if (!m->plan->traffic.delay)
		return false;
	m->rounds.open = true;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		const struct stripe_ahead a = m->member[k].ahead;

		m->member[k].ahead.count = 0;
		if (!a.count)
			continue;
		begin_stripe(m, ctx, k, &a);
		if (a.from >= m->rounds.border) /* with samples of its own, in the next epoch */
			m->rounds.border = (a.from / samples + 1) * samples;
	}
	m->rounds.open = planned(&m->rounds) != 0;
	if (m->rounds.open)
		m->since = tw_now(ctx);
	return m->rounds.open;
}

/* (4) A round that nobody works in any more is opened anew: what follows it was dealt too early. */
static void close_empty(struct master *m, struct tw_context *ctx)
{
	enum tw_status st = TW_OK;

	m->rounds.open = false;
	for (uint32_t k = 0; m->plan->traffic.delay && k < m->plan->crew.workers; k++)
		if (st == TW_OK)
			st = tw_deal_withdraw(m, k);
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for samples of a lost worker");
}

/* Late workers that came home are behind no more. */
static void forgive(struct master *m)
{
	const struct tw_slots *back = &m->rounds.back;

	for (uint32_t k = tw_slots_next(back, 0); k != TW_NO_SLOT; k = tw_slots_next(back, k + 1))
		tw_round_put(m, k, STRIPE_NONE);
}

/* False: there is nobody who could work in it. */
static bool open_round(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;

	m->since = tw_now(ctx);
	m->rounds.open = true;
	if (m->rounds.stripes[STRIPE_BEHIND] < live->members)
		for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT;
		     k = tw_slots_next(live, k + 1)) {
			if (m->member[k].stripe.state == STRIPE_BEHIND || tw_deal_too_early(m, k) ||
			    plan_one(m, ctx, k))
				continue;
			if (tw_deal_exhausted(m)) /* and not only at the end of an epoch */
				tw_figures_steady_dry(m, ctx);
			if (!m->plan->dealing.subsets.count)
				break;
		}
	m->rounds.open = planned(&m->rounds) != 0;
	return m->rounds.open;
}

static void commit_round(struct master *m, struct tw_context *ctx)
{
	const bool abandons = tw_gate_abandons(m->plan->gate, m->plan->gate_options);

	enum tw_status st = TW_OK;

	m->commit.count = 0;
	m->commit.attempt = m->replicas.forming;
	m->commit.steps = tw_plan_is_loose(m->plan) ? m->replicas.steps : 0;
	tw_spans_clear(&m->commit.spans);
	tw_replicas_settle(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct member *e = &m->member[k];
		bool late = false;

		if (!tw_round_planned(e))
			continue;
		if (e->stripe.state == STRIPE_COMPLETE) {
			m->commit.set[m->commit.count++] =
				(struct tw_member){ k, e->stripe.incarnation, TW_LIVE,
						    e->stripe.node };
			m->count.steps += e->stripe.steps;
			m->count.samples += e->stripe.count;
			m->count.loss_sum += e->stripe.loss;
			m->count.loss_samples += e->stripe.count;
			if (tw_master_has_replicas(m) && st == TW_OK)
				st = tw_spans_add(&m->commit.spans, e->stripe.from,
						  e->stripe.from + e->stripe.count, NULL);
		} else if (e->stripe.state == STRIPE_REFUSED) {
			m->count.refused++;
		} else {
			late = !abandons;
			m->count.dropped += e->stripe.count;
			tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
							.slot = k,
							.shard = UINT32_MAX,
							.from = e->stripe.from,
							.count = e->stripe.count,
							.round = m->rounds.number });
		}
		tw_round_put(m, k, late ? STRIPE_BEHIND : STRIPE_NONE);
	}
	if (m->count.loss_samples)
		m->count.train_loss = m->count.loss_sum / (double)m->count.loss_samples;
	if (m->count.loss_samples > m->plan->problem.samples) {
		m->count.loss_sum /= 2;
		m->count.loss_samples /= 2;
	}
	if (st != TW_OK) {
		tw_give_up(ctx, st, "no memory for the positions of a round");
		return;
	}
	m->commit.round = m->rounds.number;
	m->commit.sent = true;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_round_commit_to(m, ctx, s);
	m->rounds.number++;
	m->rounds.open = false;
	tw_eval_master_committed(m, ctx);
	tw_deal_note_progress(m, ctx);
}

/* Is the round due?  Contributions of the dead count where they are complete; those of the dead
 * that are not were given back. */
static bool round_full(const struct master *m)
{
	const uint32_t *n = m->rounds.stripes;
	const uint32_t complete = n[STRIPE_COMPLETE], stripes = complete + n[STRIPE_STAGING];

	if (tw_master_has_replicas(m))
		return tw_replicas_complete(m);
	return complete == stripes ||
	       complete >= tw_gate_quorum(m->plan->gate, m->plan->gate_options, stripes,
					  n[STRIPE_BEHIND]);
}

void tw_round_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	const uint64_t bit = UINT64_C(1) << s % 64;
	uint64_t *word;
	struct member *e;

	if (tw_master_has_replicas(m)) {
		tw_replica_have(m, ctx, msg);
		return;
	}
	if (m->shard[s].node != msg->from.node || h->slot >= m->plan->crew.workers)
		return;
	e = &m->member[h->slot];
	e->heard = e->heard || e->incarnation == h->incarnation;
	if (h->round != m->rounds.number || e->stripe.state != STRIPE_STAGING ||
	    e->stripe.incarnation != h->incarnation)
		return;
	word = have_of(m, h->slot) + s / 64;
	if (*word & bit)
		return;
	if (msg->h.flags & TW_FLAG_REFUSED) {
		tw_round_put(m, h->slot, STRIPE_REFUSED);
		return;
	}
	*word |= bit;
	e->stripe.steps = h->steps;
	e->stripe.loss = h->loss;
	if (++e->stripe.have == 1)
		tw_deal_showed(m, e, tw_now(ctx) - e->asked, e->stripe.count);
	if (e->stripe.have < m->plan->problem.shards)
		return;
	tw_round_put(m, h->slot, STRIPE_COMPLETE);
	tw_deal_finished(m, ctx, e, e->stripe.count);
}

/* (2) Late workers that came home get a stripe of the round that is open, if there is one. */
static void plan_late(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *back = &m->rounds.back;

	for (uint32_t k = tw_slots_next(back, 0); k != TW_NO_SLOT; k = tw_slots_next(back, k + 1)) {
		tw_round_put(m, k, STRIPE_NONE);
		tw_deal_finished(m, ctx, &m->member[k], m->member[k].stripe.count);
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
			if (planned(&m->rounds) == 0) {
				close_empty(m, ctx); /* everybody went: nothing to commit */
				continue;
			}
			tw_replicas_form(m, ctx);
			if (!round_full(m) || tw_eval_master_holds(m))
				return;
			commit_round(m, ctx);
			continue;
		}
		if (!open_ahead(m, ctx)) {
			if (m->phase == PHASE_RUN && tw_deal_exhausted(m))
				tw_figures_steady_dry(m, ctx);
			if (m->phase == PHASE_RUN && !tw_replicas_bring(m, ctx))
				return;
			if (!may_open(m))
				return;
			forgive(m);
			if (!open_round(m, ctx))
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
static bool has_sum(const struct master *m, uint32_t slot)
{
	return tw_master_has_replicas(m) && m->replicas.formed &&
	       m->member[slot].replica.heard[REPLICA_HAS] == m->plan->problem.shards;
}

static bool waits(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	return m->rounds.open &&
	       ((e->stripe.state == STRIPE_STAGING && !has_sum(m, slot)) || tw_round_is_late(e));
}

/* A late worker of a round that is over holds up nobody while rounds go on; see also (7) in
 * duty/watch/README.md. */
static bool excuses(const struct master *m, uint32_t slot)
{
	return !tw_round_planned(&m->member[slot]) || tw_round_is_under_way(m, slot) ||
	       !m->rounds.stripes[STRIPE_COMPLETE];
}

static bool may_wait(const struct master *m)
{
	return m->rounds.stripes[STRIPE_COMPLETE] != 0;
}

const struct tw_dealer tw_dealer_round = {
	.name = "round",
	.deal = deal,
	.border = border,
	.came_back = tw_orphans_came_back,
	.period = tw_speed_tell,
	.updates = updates,
	.waits = waits,
	.excuses = excuses,
	.may_wait = may_wait,
};
