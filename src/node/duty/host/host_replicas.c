/* SPDX-License-Identifier: Apache-2.0 */
/* host_replicas.c - replicas: every worker's node holds all shards, and nobody else does. Who joins
 * gets a copy (8 to 10). The numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

/* --- copies ----------------------------------------------------------------------------------- */

/* (9): nothing was trained yet. */
static bool as_it_begins(const struct master *m)
{
	return m->rounds.number == 0 && m->shard[0].host_cut == 0 &&
	       !(tw_plan_is_loose(m->plan) && m->restart.begun);
}

static void send_host(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard)
{
	struct tw_msg *msg = tw_master_host_message(m, ctx, shard, m->member[slot].node);

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

bool tw_host_bring(struct master *m, struct tw_context *ctx)
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

/* Whoever is asked for is asked for again, as if it had not been. */
void tw_host_ask_no_more(struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].replica.state == REPLICA_ASKED)
			m->member[k].replica.state = REPLICA_NONE;
}

void tw_host_bring_again(struct master *m)
{
	if (!tw_replicas_ready(m))
		tw_host_ask_no_more(m);
}

void tw_host_replica_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
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

/* --- told again ------------------------------------------------------------------------------- */

void tw_host_resync_replica(struct master *m, struct tw_context *ctx, uint32_t slot)
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
			tw_host_resync(m, ctx, s);
		if (r->state == REPLICA_READY)
			tw_round_master_form_to(m, ctx, slot, s);
	}
}
