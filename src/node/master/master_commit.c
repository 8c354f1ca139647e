/* SPDX-License-Identifier: Apache-2.0 */
/* master_commit.c - the last round that was committed: shards are told of it, and told again. */
#include "node/master/master.h"

#include <string.h>

/* The positions of the sum, which every replica has already. */
static void commit_to_replica(struct master *m, struct tw_context *ctx, uint32_t slot,
			      uint32_t shard)
{
	struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, shard, TW_COMMIT);
	struct tw_span *tail;

	if (!msg)
		return;
	msg->b.commit = (struct tw_body_commit){ .round = m->commit.round,
						 .count = (uint32_t)m->commit.spans.count,
						 .attempt = m->commit.attempt,
						 .steps = m->commit.steps };
	if (m->commit.spans.count) {
		tail = tw_msg_tail(ctx, msg, m->commit.spans.count * sizeof *tail);
		if (!tail)
			return;
		tw_spans_write(&m->commit.spans, tail);
	}
	tw_send(ctx, msg);
}

void tw_round_commit_to(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg;
	void *tail;

	if (!m->commit.sent || !tw_shard_has_home(&m->shard[shard]))
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
	msg->b.commit.round = m->commit.round;
	msg->b.commit.count = m->commit.count;
	if (m->commit.count) {
		tail = tw_msg_tail(ctx, msg, m->commit.count * sizeof *m->commit.set);
		if (!tail)
			return;
		memcpy(tail, m->commit.set, m->commit.count * sizeof *m->commit.set);
	}
	tw_send(ctx, msg);
}
