/* SPDX-License-Identifier: Apache-2.0 */
/* host_lost.c - a replica goes with its worker, or is not what it should be: who speaks for all
 * then (8).  The numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

/* Another replica speaks for all. */
static void speak_from(struct master *m, struct tw_context *ctx, uint32_t node)
{
	const uint32_t next = tw_replicas_next_speaker(m);
	bool spoke = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		spoke = spoke || (m->shard[s].place != SHARD_HOMELESS && m->shard[s].node == node);
	if (!spoke)
		return;
	if (next == TW_NO_SLOT) {
		tw_host_ask_no_more(m);
		tw_host_lose(m, ctx, node);
		return;
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].node = m->member[next].node;
		m->shard[s].agreed = false;
	}
	tw_eval_master_speaker(m);
	tw_host_ask_no_more(m);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_host_resync(m, ctx, s);
}

void tw_host_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct replica *r = &m->member[slot].replica;

	if (!tw_master_has_replicas(m))
		return;
	tw_round_master_lost(m, slot);
	m->replicas.ready -= r->state == REPLICA_READY;
	for (uint32_t w = 0; w < REPLICA_WORDS; w++)
		tw_replica_ask_anew(m, slot, w);
	*r = (struct replica){ .state = REPLICA_NONE };
	tw_mix_master_lost(m, ctx);
	speak_from(m, ctx, m->member[slot].node);
}

void tw_host_behind(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);

	if (!tw_master_has_replicas(m) || m->phase != PHASE_AGREE || slot == UINT32_MAX ||
	    m->member[slot].replica.state != REPLICA_READY)
		return;
	tw_replica_is_none(m, slot);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
	speak_from(m, ctx, msg->from.node);
}
