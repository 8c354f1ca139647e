/* SPDX-License-Identifier: Apache-2.0 */
/* master_replicas.c - replicas: every worker's node holds all shards, and nobody else does.
 *
 *  (1) one replica speaks for all: it is asked for states, parts of a cut and final vectors
 *      (m->shard is about it).  If its node goes, another one that is ready speaks, and nothing is
 *      lost.  If the last one goes, the cluster goes back to its checkpoint.
 *  (2) who joins gets a copy from the speaker, between two rounds; the next round waits for it.
 *      At the very start there is nothing to copy: everybody makes the initial parameters.
 *      Who adds up a round is in duty/round. */
#include "node/master/master.h"

#include <string.h>

enum tw_status tw_replicas_init(struct master *m)
{
	struct replicas *r = &m->replicas;
	const size_t slots = m->plan->crew.workers;

	if (!tw_master_has_replicas(m))
		return TW_OK;
	r->words = (m->plan->problem.shards + 63) / 64;
	r->bits = tw_heap_zeros(m->heap, slots * REPLICA_WORDS * r->words * sizeof *r->bits);
	return r->bits ? TW_OK : TW_NO_MEMORY;
}

void tw_replicas_release(struct master *m)
{
	m->heap->put(m->heap, m->replicas.bits);
}

/* --- words to shards ------------------------------------------------------------------------ */

void tw_replica_view(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard)
{
	struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, shard, TW_VIEW);
	struct tw_member *tail = msg ? tw_msg_tail(ctx, msg, sizeof *tail) : NULL;

	if (!tail)
		return;
	msg->h.flags = TW_FLAG_FULL | tw_master_untimed(m);
	msg->b.view = (struct tw_body_view){ tw_master_live(m), 1, ++m->members.views };
	*tail = (struct tw_member){ slot, m->member[slot].incarnation, TW_LIVE,
				    m->member[slot].node };
	tw_send(ctx, msg);
}

/* --- copies ----------------------------------------------------------------------------------- */

uint32_t tw_replicas_next_speaker(const struct master *m)
{
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT && m->plan->keeping.best;
	     k = tw_replicas_next(m, k + 1))
		if (tw_replica_said_all(m, k, REPLICA_KEPT))
			return k;
	return tw_replicas_next(m, 0);
}

uint32_t tw_replicas_speaker(const struct master *m)
{
	uint32_t slot = tw_replicas_next_speaker(m);

	if (slot == TW_NO_SLOT)
		slot = tw_slots_next(&m->members.live, 0);
	return slot == TW_NO_SLOT ? 0 : m->member[slot].node;
}

/* (2): nothing was trained yet. */
static bool as_it_begins(const struct master *m)
{
	return m->rounds.number == 0 && m->shard[0].host_cut == 0 &&
	       !(tw_plan_is_loose(m->plan) && m->restart.begun);
}

static void send_host(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard)
{
	struct tw_msg *msg = tw_cut_host_message(m, ctx, shard, m->member[slot].node);

	if (!msg)
		return;
	msg->b.host.attempt = m->member[slot].replica.attempt;
	tw_send(ctx, msg);
}

/* Ask for the copies of this member that are not there. */
static void ask_for(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct tw_msg *msg;

		if (tw_replica_said(m, slot, s, REPLICA_HOSTED))
			continue;
		if (as_it_begins(m)) {
			send_host(m, ctx, slot, s);
			continue;
		}
		msg = tw_master_to_shard(m, ctx, s, TW_GIVE);
		if (!msg)
			return;
		msg->b.give = (struct tw_body_give){ m->rounds.number, m->member[slot].node,
						     m->member[slot].replica.attempt };
		tw_send(ctx, msg);
	}
}

bool tw_replicas_bring(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;
	bool asked = false;

	if (tw_replicas_ready(m))
		return true;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1)) {
		struct replica *r = &m->member[k].replica;

		if (r->state != REPLICA_NONE)
			continue;
		if (m->member[k].node == m->shard[0].node) { /* it speaks */
			tw_replica_is_ready(m, k);
			continue;
		}
		r->state = REPLICA_ASKED;
		r->attempt = tw_replicas_new_attempt(m, ctx);
		tw_replica_ask_anew(m, k, REPLICA_HOSTED);
		ask_for(m, ctx, k);
		asked = true;
	}
	if (asked)
		tw_timer(ctx, TIMER_COPY, m->plan->crew.limit);
	return tw_replicas_ready(m);
}

bool tw_replicas_asked(const struct master *m)
{
	for (uint32_t k = tw_slots_next(&m->members.live, 0); k != TW_NO_SLOT;
	     k = tw_slots_next(&m->members.live, k + 1))
		if (m->member[k].replica.state == REPLICA_ASKED)
			return true;
	return false;
}

/* Whoever is asked for is asked for again, as if it had not been. */
static void ask_no_more(struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].replica.state == REPLICA_ASKED)
			m->member[k].replica.state = REPLICA_NONE;
}

void tw_replicas_bring_again(struct master *m)
{
	if (!tw_replicas_ready(m))
		ask_no_more(m);
}

void tw_replica_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);
	const struct tw_body_host *b = &msg->b.host;
	struct replica *r;

	if (slot == UINT32_MAX)
		return;
	r = &m->member[slot].replica;
	if (r->state != REPLICA_ASKED || b->attempt != r->attempt ||
	    b->incarnation != m->shard[msg->h.shard].incarnation ||
	    (msg->h.flags & TW_FLAG_REFUSED))
		return;
	tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_HOSTED);
	if (!tw_replica_said_all(m, slot, REPLICA_HOSTED))
		return;
	tw_replica_is_ready(m, slot);
	if (m->phase == PHASE_GATHER)
		return; /* everybody is told when all are there */
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_replica_view(m, ctx, slot, s);
	tw_master_places(m, ctx, slot, m->phase != PHASE_DRAIN);
	tw_eval_master_pin_again(m, ctx, slot);
}

/* --- who goes --------------------------------------------------------------------------------- */

/* (1) */
static void speak_from(struct master *m, struct tw_context *ctx, uint32_t node)
{
	const uint32_t next = tw_replicas_next_speaker(m);
	bool spoke = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		spoke = spoke || (m->shard[s].place != SHARD_HOMELESS && m->shard[s].node == node);
	if (!spoke)
		return;
	if (next == TW_NO_SLOT) {
		ask_no_more(m);
		tw_master_lose_shards(m, ctx, node);
		return;
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].node = m->member[next].node;
		m->shard[s].agreed = false;
	}
	tw_eval_master_speaker(m);
	ask_no_more(m);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_master_resync_shard(m, ctx, s);
}

void tw_replica_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct replica *r = &m->member[slot].replica;

	if (!tw_master_has_replicas(m))
		return;
	tw_round_master_lost(m, slot);
	m->replicas.ready -= r->state == REPLICA_READY;
	for (uint32_t w = 0; w < REPLICA_WORDS; w++)
		tw_replica_ask_anew(m, slot, w);
	*r = (struct replica){ .state = REPLICA_NONE };
	tw_calm_lost(m, ctx);
	speak_from(m, ctx, m->member[slot].node);
}

/* It gets a copy. */
static void become_none(struct master *m, uint32_t slot)
{
	m->replicas.ready -= m->member[slot].replica.state == REPLICA_READY;
	m->member[slot].replica.state = REPLICA_NONE;
	for (uint32_t w = 0; w < REPLICA_WORDS; w++)
		tw_replica_ask_anew(m, slot, w);
}

void tw_replicas_copy_all(struct master *m)
{
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[0].node)
			become_none(m, k);
}

void tw_replica_behind(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);

	if (!tw_master_has_replicas(m) || m->phase != PHASE_AGREE || slot == UINT32_MAX ||
	    m->member[slot].replica.state != REPLICA_READY)
		return;
	become_none(m, slot);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
	speak_from(m, ctx, msg->from.node);
}

void tw_replica_resync(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const struct replica *r = &m->member[slot].replica;

	if (!tw_master_has_replicas(m))
		return;
	if (r->state == REPLICA_ASKED)
		ask_for(m, ctx, slot);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) /* it may have been asked to give */
		if (m->member[k].replica.state == REPLICA_ASKED &&
		    m->member[slot].node == m->shard[0].node)
			ask_for(m, ctx, k);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		if (m->member[slot].node == m->shard[s].node || r->state == REPLICA_READY)
			tw_master_resync_shard(m, ctx, s);
		if (r->state == REPLICA_READY)
			tw_round_master_form_to(m, ctx, slot, s);
	}
	tw_calm_resync(m, ctx, slot);
}

/* --- whether they are equal ------------------------------------------------------------------- */

void tw_replicas_compare(struct master *m, struct tw_context *ctx)
{
	const uint32_t speaker =
		tw_master_has_replicas(m) ? tw_master_slot_at(m, m->shard[0].node) : UINT32_MAX;

	if (speaker == UINT32_MAX)
		return;
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1)) {
		if (m->member[k].replica.digest == m->member[speaker].replica.digest)
			continue;
		tw_say(ctx, TW_ERROR,
		       "the parameters of worker %u are not those of worker %u: it joins again", k,
		       speaker);
		tw_master_expel(m, ctx, k, m->member[k].node, TW_REFUSED_FENCED);
	}
}
