/* SPDX-License-Identifier: Apache-2.0 */
/* host_shards.c - shards lose their home, or may have lost what they were told: it is told again
 * (1).  The numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

void tw_host_resync(struct master *m, struct tw_context *ctx, uint32_t s)
{
	if (m->shard[s].place == SHARD_ASSIGNED) {
		tw_host_send(m, ctx, s);
		return;
	}
	if (!tw_shard_has_home(&m->shard[s]))
		return;
	tw_verdict_master_to(m, ctx, s);
	tw_master_full_view(m, ctx, s);
	tw_round_master_commit_to(m, ctx, s);
	if (m->phase == PHASE_AGREE &&
	    (!m->shard[s].agreed || !tw_replicas_all(m, REPLICA_AGREED)) &&
	    !tw_master_ask(m, ctx, s, 0))
		return;
	tw_duties_home(&m->duties, ctx, s);
}

/* Nobody hosts the shards of this node any more; false: it had none. */
bool tw_host_drop(struct master *m, uint32_t node)
{
	bool lost = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];

		if (i->place == SHARD_HOMELESS || i->node != node)
			continue;
		tw_shard_put(m, i, SHARD_HOMELESS);
		tw_block_drop(i->host);
		i->host = NULL;
		lost = true;
	}
	return lost;
}

void tw_host_lose(struct master *m, struct tw_context *ctx, uint32_t node)
{
	if (!tw_host_drop(m, node) || m->phase == PHASE_OVER)
		return;
	if (tw_master_has_replicas(m))
		tw_say(ctx, TW_WARNING, "the last worker that held the parameters is gone");
	else if (tw_plan_is_with_stage(m->plan))
		tw_say(ctx, TW_WARNING,
		       "a node with the parameters of a stage is gone: all stages go back to the "
		       "last checkpoint");
	else
		tw_say(ctx, TW_WARNING, "server %u is gone, and its shards with it",
		       tw_server_number(node));
	m->waits.lost = m->cuts.was_paused = true;
	tw_checkpoint_master_go_back(m);
	tw_eval_master_views_gone(m, ctx);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
}
