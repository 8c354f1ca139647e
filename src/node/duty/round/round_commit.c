/* SPDX-License-Identifier: Apache-2.0 */
/* round_commit.c - a round is committed: its set, the books, and what shards are told of it, and
 * told again.  The numbers in brackets are those of README.md. */
#include "node/duty/round/round_state.h"

#include <string.h>

enum tw_status tw_round_commit_open(struct master *m)
{
	struct commit *c = &m->round->commit;

	tw_spans_init(&c->spans, m->heap);
	c->set = tw_heap_zeros(m->heap, m->plan->crew.workers * sizeof *c->set);
	return c->set ? TW_OK : TW_NO_MEMORY;
}

void tw_round_commit_close(struct master *m)
{
	tw_spans_release(&m->round->commit.spans);
	m->heap->put(m->heap, m->round->commit.set);
}

/* --- what shards are told ------------------------------------------------------------------- */

/* The positions of the sum, which every replica has already. */
static void commit_to_replica(struct master *m, struct tw_context *ctx, uint32_t slot,
			      uint32_t shard)
{
	const struct commit *c = &m->round->commit;
	struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, shard, TW_COMMIT);
	struct tw_span *tail;

	if (!msg)
		return;
	msg->b.commit = (struct tw_body_commit){ .round = c->round,
						 .count = (uint32_t)c->spans.count,
						 .attempt = c->attempt,
						 .steps = c->steps };
	if (c->spans.count) {
		tail = tw_msg_tail(ctx, msg, c->spans.count * sizeof *tail);
		if (!tail)
			return;
		tw_spans_write(&c->spans, tail);
	}
	tw_send(ctx, msg);
}

void tw_round_master_commit_to(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct commit *c = m->round ? &m->round->commit : NULL;
	struct tw_msg *msg;
	void *tail;

	if (!c || !c->sent || !tw_shard_has_home(&m->shard[shard]))
		return;
	if (tw_master_has_replicas(m)) {
		for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT;
		     k = tw_replicas_next(m, k + 1))
			commit_to_replica(m, ctx, k, shard);
		return;
	}
	msg = tw_master_to_shard(m, ctx, shard, TW_COMMIT);
	if (!msg)
		return;
	msg->b.commit.round = c->round;
	msg->b.commit.count = c->count;
	if (c->count) {
		tail = tw_msg_tail(ctx, msg, c->count * sizeof *c->set);
		if (!tail)
			return;
		memcpy(tail, c->set, c->count * sizeof *c->set);
	}
	tw_send(ctx, msg);
}

/* A COMMIT may have reached some shards only: those that have it say what was in it.  One that
 * reached nobody is known to us, if we sent it. */
void tw_round_master_complete(struct master *m, struct tw_context *ctx)
{
	struct commit *c = m->round ? &m->round->commit : NULL;
	const struct shard_info *ahead = &m->shard[0];

	if (!c)
		return;
	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		if (m->shard[s].round > ahead->round)
			ahead = &m->shard[s];
	if (!(c->sent && c->round == ahead->round) && ahead->round) {
		memcpy(c->set, ahead->set, ahead->set_count * sizeof *c->set);
		c->count = ahead->set_count;
		c->round = ahead->round - 1;
		c->sent = true;
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_round_master_commit_to(m, ctx, s);
	m->rounds.number = c->sent ? c->round + 1 : 0;
}

/* --- the set ---------------------------------------------------------------------------------- */

/* (6) The contribution of this slot is in the set, was refused, or is too late. */
static enum tw_status close_stripe(struct master *m, struct tw_context *ctx, uint32_t k)
{
	const struct stripe *e = &m->round->stripe[k];
	struct commit *c = &m->round->commit;
	enum tw_status st = TW_OK;
	bool late = false;

	if (e->state == STRIPE_COMPLETE) {
		c->set[c->count++] = (struct tw_member){ k, e->incarnation, TW_LIVE, e->node };
		m->count.steps += e->steps;
		m->count.samples += e->count;
		m->count.loss_sum += e->loss;
		m->count.loss_samples += e->count;
		if (tw_master_has_replicas(m))
			st = tw_spans_add(&c->spans, e->from, e->from + e->count, NULL);
	} else if (e->state == STRIPE_REFUSED) {
		m->count.refused++;
	} else {
		late = !tw_gate_abandons(m->plan->gate, m->plan->gate_options);
		m->count.dropped += e->count;
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
						.slot = k,
						.shard = UINT32_MAX,
						.from = e->from,
						.count = e->count,
						.round = m->rounds.number });
	}
	tw_round_put(m, k, late ? STRIPE_BEHIND : STRIPE_NONE);
	return st;
}

void tw_round_commit(struct master *m, struct tw_context *ctx)
{
	struct commit *c = &m->round->commit;
	enum tw_status st = TW_OK;

	c->count = 0;
	c->attempt = m->round->formation.forming;
	c->steps = tw_plan_is_loose(m->plan) ? m->round->formation.steps : 0;
	tw_spans_clear(&c->spans);
	tw_round_form_settle(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.workers && st == TW_OK; k++)
		if (tw_round_works_on(m, k))
			st = close_stripe(m, ctx, k);
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
	c->round = m->rounds.number;
	c->sent = true;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_round_master_commit_to(m, ctx, s);
	m->rounds.number++;
	m->rounds.open = false;
	tw_eval_master_committed(m, ctx);
	tw_deal_note_progress(m, ctx);
}
