/* SPDX-License-Identifier: Apache-2.0 */
/* master_post.c - messages of the master, with what all of them have in their headers. */
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"

struct tw_msg *tw_master_to_cell(struct master *m, struct tw_context *ctx, uint32_t slot,
				 uint32_t cell, enum tw_type type)
{
	const uint32_t node =
		tw_plan_is_staged(m->plan) ? tw_cell_at(m, slot, cell)->node : m->member[slot].node;
	struct tw_msg *msg = tw_msg_to(ctx, (struct tw_addr){ node, TW_WORKER, 0 }, type);

	if (msg)
		msg->h.view = m->restart.current;
	return msg;
}

struct tw_msg *tw_master_to_worker(struct master *m, struct tw_context *ctx, uint32_t slot,
				   enum tw_type type)
{
	return tw_master_to_cell(m, ctx, slot, 0, type);
}

struct tw_msg *tw_master_to_shard(struct master *m, struct tw_context *ctx, uint32_t shard,
				  enum tw_type type)
{
	const struct tw_addr to = { m->shard[shard].node, TW_SHARD, (uint16_t)shard };
	struct tw_msg *msg = tw_msg_to(ctx, to, type);

	if (msg) {
		msg->h.view = m->restart.generation;
		msg->h.incarnation = ctx->boot; /* of the master: a shard obeys the newest only */
		msg->h.shard = shard;
	}
	return msg;
}

struct tw_msg *tw_replica_to_shard(struct master *m, struct tw_context *ctx, uint32_t slot,
				   uint32_t shard, enum tw_type type)
{
	struct tw_msg *msg = tw_master_to_shard(m, ctx, shard, type);

	if (msg)
		msg->to.node = m->member[slot].node;
	return msg;
}

static bool ask(struct master *m, struct tw_context *ctx, struct tw_msg *msg, uint32_t flags)
{
	if (!msg)
		return false;
	msg->h.flags = flags;
	msg->b.ask.number = m->restart.asks;
	tw_send(ctx, msg);
	return true;
}

bool tw_master_ask(struct master *m, struct tw_context *ctx, uint32_t shard, uint32_t flags)
{
	/* before a generation begins, every replica confirms it */
	for (uint32_t k = m->phase == PHASE_AGREE ? tw_replicas_next(m, 0) : TW_NO_SLOT;
	     k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[shard].node &&
		    !tw_replica_said(m, k, shard, REPLICA_AGREED) &&
		    !ask(m, ctx, tw_replica_to_shard(m, ctx, k, shard, TW_ASK), flags))
			return false;
	return ask(m, ctx, tw_master_to_shard(m, ctx, shard, TW_ASK), flags);
}

bool tw_deal_idle_to(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard,
		     uint32_t flags)
{
	const struct member *e = &m->member[slot];
	struct tw_msg *msg = tw_master_to_shard(m, ctx, shard, TW_IDLE);

	if (!msg)
		return false;
	msg->h.flags = flags;
	msg->b.idle = (struct tw_body_idle){ slot, e->incarnation, e->idle, 0 };
	tw_send(ctx, msg);
	return true;
}
