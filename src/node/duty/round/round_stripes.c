/* SPDX-License-Identifier: Apache-2.0 */
/* round_stripes.c - what members have of the round that is open, and of the next one; and on which
 * shards it is.  The numbers in brackets are those of README.md. */
#include "node/duty/round/round_state.h"

#include <string.h>

enum tw_status tw_round_stripes_open(struct master *m)
{
	struct round_master *r = m->round;
	const uint32_t slots = m->plan->crew.workers;

	r->stripes[STRIPE_NONE] = slots;
	r->words = (m->plan->problem.shards + 63) / 64;
	if (tw_slots_init(&r->back, m->heap, slots) != TW_OK)
		return TW_NO_MEMORY;
	r->stripe = tw_heap_zeros(m->heap, slots * sizeof *r->stripe);
	r->ahead = tw_heap_zeros(m->heap, slots * sizeof *r->ahead);
	r->have = tw_heap_zeros(m->heap, (size_t)slots * r->words * sizeof *r->have);
	return r->stripe && r->ahead && r->have ? TW_OK : TW_NO_MEMORY;
}

void tw_round_stripes_close(struct master *m)
{
	struct round_master *r = m->round;

	tw_slots_release(&r->back);
	m->heap->put(m->heap, r->stripe);
	m->heap->put(m->heap, r->ahead);
	m->heap->put(m->heap, r->have);
}

void tw_round_put(struct master *m, uint32_t slot, enum stripe_state to)
{
	struct round_master *r = m->round;

	r->stripes[r->stripe[slot].state]--;
	r->stripes[to]++;
	r->stripe[slot].state = to;
	tw_round_appetite(m, slot);
}

void tw_round_appetite(struct master *m, uint32_t slot)
{
	struct round_master *r = m->round;

	tw_slots_put(&r->back, slot,
		     r->stripe[slot].state == STRIPE_BEHIND &&
			     m->member[slot].appetite != APPETITE_NONE);
}

/* Does it have a stripe in the round that is open? */
static bool is_planned(const struct master *m, uint32_t slot)
{
	const enum stripe_state state = m->round->stripe[slot].state;

	return state != STRIPE_NONE && state != STRIPE_BEHIND;
}

/* ... which is its own, and not that of who was here before? */
static bool is_own(const struct master *m, uint32_t slot)
{
	return is_planned(m, slot) &&
	       m->round->stripe[slot].incarnation == m->member[slot].incarnation;
}

/* --- on which shards -------------------------------------------------------------------------- */

static uint64_t *have_of(const struct master *m, uint32_t slot)
{
	return m->round->have + (size_t)slot * m->round->words;
}

void tw_round_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	const uint64_t bit = UINT64_C(1) << s % 64;
	struct stripe *stripe;
	uint64_t *word;
	struct member *e;

	if (m->shard[s].node != msg->from.node || h->slot >= m->plan->crew.workers)
		return;
	e = &m->member[h->slot];
	stripe = &m->round->stripe[h->slot];
	e->heard = e->heard || e->incarnation == h->incarnation;
	if (h->round != m->rounds.number || stripe->state != STRIPE_STAGING ||
	    stripe->incarnation != h->incarnation)
		return;
	word = have_of(m, h->slot) + s / 64;
	if (*word & bit)
		return;
	if (msg->h.flags & TW_FLAG_REFUSED) {
		tw_round_put(m, h->slot, STRIPE_REFUSED);
		return;
	}
	*word |= bit;
	stripe->steps = h->steps;
	stripe->loss = h->loss;
	if (++stripe->have == 1)
		tw_deal_showed(m, e, tw_now(ctx) - e->asked, stripe->count);
	if (stripe->have < m->plan->problem.shards)
		return;
	tw_round_put(m, h->slot, STRIPE_COMPLETE);
	tw_deal_finished(m, ctx, e, stripe->count);
}

bool tw_round_is_under_way(const struct master *m, uint32_t slot)
{
	const uint32_t *stage_of = m->plan->staging.stage_of;
	bool some = false, all = true;
	uint32_t stage;

	if (!stage_of || !m->round->stripe[slot].have)
		return m->round->stripe[slot].have;
	stage = tw_plan_stage_of(m->plan, tw_figures_master_culprit(m, slot));
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (stage_of[s] == stage) {
			const bool have = have_of(m, slot)[s / 64] >> s % 64 & 1;

			some = some || have;
			all = all && have;
		}
	return some && !all;
}

/* --- given, and given back -------------------------------------------------------------------- */

void tw_round_begin_stripe(struct master *m, struct tw_context *ctx, uint32_t slot,
			   const struct stripe_ahead *what)
{
	struct member *e = &m->member[slot];

	tw_deal_appetite(m, slot, APPETITE_NONE);
	tw_round_put(m, slot, STRIPE_STAGING);
	memset(have_of(m, slot), 0, m->round->words * sizeof *m->round->have);
	m->round->stripe[slot] = (struct stripe){ .state = STRIPE_STAGING,
						  .incarnation = e->incarnation,
						  .node = e->node,
						  .count = what->count,
						  .from = what->from,
						  .lease = what->lease };
	tw_deal_busy(m, ctx, e);
}

static void send_stripe(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const struct stripe *s = &m->round->stripe[slot];

	tw_deal_send(m, ctx, slot, s->lease, s->from, s->from + s->count);
}

void tw_round_send_ahead(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const struct stripe_ahead *a = &m->round->ahead[slot];

	tw_deal_send_next(m, ctx, slot, (struct tw_range){ a->from, a->count, (uint32_t)a->lease },
			  is_own(m, slot) ? (uint32_t)m->round->stripe[slot].lease : 0);
}

static enum tw_status give_back(struct master *m, const struct stripe *s)
{
	m->count.redealt += s->count;
	return tw_deal_give_back(m, s->from, s->from + s->count);
}

enum tw_status tw_round_withdraw(struct master *m, uint32_t slot)
{
	const struct stripe_ahead a = m->round->ahead[slot];

	if (!a.count)
		return TW_OK;
	m->round->ahead[slot].count = 0;
	m->count.redealt += a.count;
	return tw_deal_give_back(m, a.from, a.from + a.count);
}

static void check(struct tw_context *ctx, enum tw_status st)
{
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for samples of a lost worker");
}

/* A stripe that is complete counts, although its worker is gone. */
void tw_round_left(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const struct stripe *s = &m->round->stripe[slot];
	enum tw_status st = TW_OK;

	if (s->state == STRIPE_REFUSED)
		m->count.refused++;
	else if (s->state == STRIPE_STAGING)
		st = give_back(m, s);
	if (s->state != STRIPE_COMPLETE)
		tw_round_put(m, slot, STRIPE_NONE);
	if (st == TW_OK)
		st = tw_round_withdraw(m, slot);
	check(ctx, st);
}

void tw_round_undo(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	enum tw_status st = TW_OK;

	if (is_planned(m, slot))
		st = give_back(m, &m->round->stripe[slot]);
	if (st == TW_OK)
		st = tw_round_withdraw(m, slot);
	tw_round_put(m, slot, STRIPE_NONE);
	check(ctx, st);
}

void tw_round_resend(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	if (is_own(m, slot))
		send_stripe(m, ctx, slot);
	if (m->round->ahead[slot].count)
		tw_round_send_ahead(m, ctx, slot);
}

/* --- questions (kernel/dealer.h) -------------------------------------------------------------- */

/* It asked before it had heard of the stripe that it has by now. */
bool tw_round_crossed(const struct master *m, uint32_t slot, uint32_t lease)
{
	return is_own(m, slot) && lease < (uint32_t)m->round->stripe[slot].lease;
}

uint64_t tw_round_works_on(const struct master *m, uint32_t slot)
{
	return is_planned(m, slot) ? m->round->stripe[slot].count : 0;
}

bool tw_round_is_behind(const struct master *m, uint32_t slot)
{
	return m->round->stripe[slot].state == STRIPE_BEHIND &&
	       m->member[slot].appetite == APPETITE_NONE;
}

uint32_t tw_round_reached(const struct master *m, uint32_t slot)
{
	const struct stripe *s = &m->round->stripe[slot];

	return s->state == STRIPE_STAGING ? s->have : UINT32_MAX;
}

bool tw_round_is_ahead(const struct master *m)
{
	bool ahead = false;

	for (uint32_t k = 0; m->plan->traffic.delay && k < m->plan->crew.workers && !ahead; k++)
		ahead = m->round->ahead[k].count;
	return ahead;
}

/* Workers that are behind and have not come home. */
bool tw_round_master_is_late(const struct master *m)
{
	return m->round && m->round->stripes[STRIPE_BEHIND] > m->round->back.members;
}
