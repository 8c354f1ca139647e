/* SPDX-License-Identifier: Apache-2.0 */
/* round_form.c - of replicas, who adds up the round (13 to 15).  The numbers in brackets are those
 * of README.md; how they add up is in duty/reduce. */
#include "node/duty/round/round_state.h"

#include <string.h>

enum tw_status tw_round_form_open(struct master *m)
{
	struct formation *r = &m->round->formation;

	if (!tw_master_has_replicas(m))
		return TW_OK;
	r->form = tw_heap_zeros(m->heap, (size_t)m->plan->crew.workers * sizeof *r->form);
	return r->form ? TW_OK : TW_NO_MEMORY;
}

void tw_round_form_close(struct master *m)
{
	m->heap->put(m->heap, m->round->formation.form);
}

/* --- who ------------------------------------------------------------------------------------ */

static void send_form(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard)
{
	const struct formation *r = &m->round->formation;
	struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, shard, TW_FORM);
	void *tail = msg ? tw_msg_tail(ctx, msg, r->count * sizeof *r->form) : NULL;

	if (!tail)
		return;
	msg->b.form = (struct tw_body_form){ m->rounds.number, r->forming, TW_FORM_ROUND };
	memcpy(tail, r->form, r->count * sizeof *r->form);
	tw_send(ctx, msg);
}

/* (13) The formation that the round should have; true: it is the one that was told last. */
static bool muster(struct master *m)
{
	struct formation *r = &m->round->formation;
	uint32_t count = 0;
	bool same = true;

	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1)) {
		const struct member *e = &m->member[k];
		const bool contributes = m->round->stripe[k].state == STRIPE_STAGING;
		const struct tw_member one = { k, e->incarnation, contributes ? TW_LIVE : TW_LEFT,
					       e->node };

		same = same && count < r->count && !memcmp(&r->form[count], &one, sizeof one);
		r->form[count++] = one;
	}
	same = same && count == r->count;
	r->count = count;
	return same;
}

void tw_round_form(struct master *m, struct tw_context *ctx)
{
	struct formation *r = &m->round->formation;

	if (!tw_master_has_replicas(m) || r->formed || r->settled)
		return;
	tw_replicas_ask_anew(m, REPLICA_HAS);
	r->formed = true;
	r->since = tw_now(ctx);
	r->steps = 0;
	r->loss = 0;
	if (muster(m) && r->told == m->restart.generation)
		return;
	r->told = m->restart.generation;
	r->forming = tw_replicas_new_attempt(m, ctx);
	for (uint32_t k = 0; k < r->count; k++)
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			send_form(m, ctx, r->form[k].slot, s);
}

static bool in_formation(const struct master *m, uint32_t slot)
{
	const struct formation *r = &m->round->formation;

	for (uint32_t k = 0; k < r->count; k++)
		if (r->form[k].slot == slot)
			return true;
	return false;
}

void tw_round_master_form_to(struct master *m, struct tw_context *ctx, uint32_t slot,
			     uint32_t shard)
{
	if (m->round && m->round->formation.formed && in_formation(m, slot))
		send_form(m, ctx, slot, shard);
}

bool tw_round_master_forms(const struct master *m, uint32_t *attempt, int64_t *since)
{
	if (!m->round || !m->rounds.open || !m->round->formation.formed)
		return false;
	*attempt = m->round->formation.forming;
	*since = m->round->formation.since;
	return true;
}

/* --- what they have ------------------------------------------------------------------------- */

void tw_round_form_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	struct formation *r = &m->round->formation;
	const struct stripe *stripe;
	struct member *e;

	if (h->slot >= m->plan->crew.workers || h->round != m->rounds.number || !m->rounds.open)
		return;
	e = &m->member[h->slot];
	stripe = &m->round->stripe[h->slot];
	if (!e->live || e->incarnation != h->incarnation || e->node != msg->from.node)
		return;
	if (msg->h.flags & TW_FLAG_REFUSED) {
		if (stripe->state != STRIPE_STAGING)
			return;
		tw_round_put(m, h->slot, STRIPE_REFUSED);
		r->formed = false; /* it takes part without a contribution */
		return;
	}
	if (!r->formed || h->attempt != r->forming ||
	    !tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_HAS))
		return;
	if (!tw_plan_is_loose(m->plan)) {
		r->steps = h->steps;
		r->loss = h->loss;
	} else if (e->replica.heard[REPLICA_HAS] == 1 && stripe->state == STRIPE_STAGING) {
		r->steps += h->steps; /* each tells of its own contribution */
		r->loss += h->loss;
	}
	r->rate = h->rate;
	if (tw_replica_said_all(m, h->slot, REPLICA_HAS))
		tw_deal_finished(m, ctx, e, stripe->count);
}

bool tw_round_form_has_sum(const struct master *m, uint32_t slot)
{
	return tw_master_has_replicas(m) && m->round->formation.formed &&
	       tw_replica_said_all(m, slot, REPLICA_HAS);
}

bool tw_round_form_is_complete(const struct master *m)
{
	const struct formation *r = &m->round->formation;

	return r->settled || (r->formed && m->replicas.full[REPLICA_HAS] == r->count);
}

/* --- the round is over ---------------------------------------------------------------------- */

/* Replicas are silent: what happens to all of them is told once. */
static void note_sum(struct master *m, struct tw_context *ctx, const struct tw_member *one,
		     uint32_t shard)
{
	const struct stripe *stripe = &m->round->stripe[one->slot];

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_APPLY,
					.shard = shard,
					.life = m->shard[shard].incarnation,
					.slot = one->slot,
					.incarnation = one->incarnation,
					.seq = m->rounds.number + 1,
					.version = m->rounds.number,
					.round = m->rounds.number,
					.from = stripe->from,
					.count = stripe->count });
}

static void note_commit(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct formation *r = &m->round->formation;
	struct tw_note note = { .kind = TW_NOTE_COMMIT,
				.shard = shard,
				.round = m->rounds.number,
				.version = m->rounds.number + 1 };

	for (uint32_t k = 0; k < r->count; k++)
		if (r->form[k].state == TW_LIVE) {
			note_sum(m, ctx, &r->form[k], shard);
			note.commit.contributions++;
		}
	if (note.commit.contributions)
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_UPDATE,
						.shard = shard,
						.version = note.version,
						.update.rate = r->rate });
	tw_note(ctx, &note);
}

void tw_round_form_settle(struct master *m, struct tw_context *ctx)
{
	struct formation *r = &m->round->formation;

	if (!tw_master_has_replicas(m))
		return;
	for (uint32_t s = 0; ctx->noting && s < m->plan->problem.shards; s++)
		note_commit(m, ctx, s);
	for (uint32_t k = 0; k < r->count; k++) {
		const struct tw_member *one = &r->form[k];
		const struct stripe *stripe = &m->round->stripe[one->slot];

		if (one->state == TW_LIVE && stripe->state == STRIPE_STAGING &&
		    stripe->incarnation == one->incarnation)
			tw_round_put(m, one->slot, STRIPE_COMPLETE);
	}
	m->count.steps += r->steps;
	m->count.loss_sum += r->loss;
	r->formed = r->settled = false;
}

/* (15) */
void tw_round_master_lost(struct master *m, uint32_t slot)
{
	struct formation *r = m->round ? &m->round->formation : NULL;
	uint32_t others;

	if (!r || !m->rounds.open || !r->formed || !in_formation(m, slot))
		return;
	others = m->replicas.full[REPLICA_HAS] - tw_replica_said_all(m, slot, REPLICA_HAS);
	r->formed = false;
	/* where replicas mix, its contribution was in its own one only */
	if (r->count < 2 || others + 1 < r->count || tw_plan_is_loose(m->plan))
		return;
	r->settled = true;
	for (uint32_t k = 0; k < r->count; k++)
		if (r->form[k].state == TW_LIVE &&
		    m->round->stripe[r->form[k].slot].state == STRIPE_STAGING)
			tw_round_put(m, r->form[k].slot, STRIPE_COMPLETE);
}
