/* SPDX-License-Identifier: Apache-2.0 */
/* master_words.c - what the master says to workers and to shards of who and where they are. Nothing
 * here changes what the master knows, but for the numbers that it gives. */
#include "node/master/master.h"

#include <string.h>

/* --- to workers ----------------------------------------------------------------------------- */

/* Where the shards are for this worker: on servers, or on its own node; and its cells. */
static bool put_places(struct master *m, struct tw_context *ctx, struct tw_msg *msg, uint32_t slot)
{
	const uint32_t cells = tw_plan_is_staged(m->plan) ? tw_plan_cells(m->plan) : 0;
	const bool own = tw_master_has_replicas(m);
	struct tw_place *tail;
	uint32_t count = cells;

	if (own && m->member[slot].replica.state != REPLICA_READY)
		return true;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		count += tw_shard_has_home(&m->shard[s]);
	if (!count)
		return true;
	tail = tw_msg_tail(ctx, msg, count * sizeof *tail);
	if (!tail)
		return false;
	for (count = 0; count < cells; count++) {
		const struct cell_info *c = tw_cell_at(m, slot, count);

		tail[count] = (struct tw_place){ count, c->node, c->boot, TW_PLACE_CELL };
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (tw_shard_has_home(&m->shard[s]))
			tail[count++] =
				(struct tw_place){ s, own ? m->member[slot].node : m->shard[s].node,
						   m->shard[s].incarnation, TW_PLACE_SHARD };
	return true;
}

void tw_master_places(struct master *m, struct tw_context *ctx, uint32_t slot, bool running)
{
	for (uint32_t c = 0; c < tw_plan_cells(m->plan); c++) {
		struct tw_msg *msg = tw_master_to_cell(m, ctx, slot, c, TW_VIEW);

		if (!msg)
			return;
		msg->h.incarnation = m->member[slot].incarnation;
		msg->b.view =
			(struct tw_body_view){ tw_master_live(m), running, ++m->members.views };
		if (!put_places(m, ctx, msg, slot))
			return;
		tw_send(ctx, msg);
	}
}

void tw_master_refuse_node(struct tw_context *ctx, uint32_t node, uint32_t incarnation,
			   enum tw_refusal why)
{
	struct tw_msg *msg = tw_msg_to(ctx, (struct tw_addr){ node, TW_WORKER, 0 }, TW_REFUSE);

	if (!msg)
		return;
	msg->h.incarnation = incarnation;
	msg->b.refuse.why = why;
	tw_send(ctx, msg);
}

void tw_master_welcome_cell(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t cell)
{
	struct member *e = &m->member[slot];
	struct tw_msg *msg = tw_master_to_cell(m, ctx, slot, cell, TW_WELCOME);
	struct tw_block *part = tw_checkpoint_master_kept(m, slot, cell);

	if (!msg)
		return;
	msg->b.welcome = (struct tw_body_welcome){ .slot = slot,
						   .incarnation = e->incarnation,
						   .workers = m->plan->crew.workers,
						   .boot = tw_plan_is_staged(m->plan)
								   ? tw_cell_at(m, slot, cell)->boot
								   : e->boot,
						   .cut = m->cuts.last,
						   .cell = cell };
	if (part) {
		msg->payload = tw_block_keep(part);
		msg->h.payload = (uint32_t)part->bytes;
	}
	if (put_places(m, ctx, msg, slot))
		tw_send(ctx, msg);
}

void tw_master_welcome(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	for (uint32_t c = 0; c < tw_plan_cells(m->plan); c++)
		tw_master_welcome_cell(m, ctx, slot, c);
}

uint32_t tw_master_new_incarnation(struct master *m, struct tw_context *ctx)
{
	return ctx->boot << 20 | ++m->members.incarnations;
}

void tw_master_welcome_again(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	e->incarnation = tw_master_new_incarnation(m, ctx);
	e->held.next = (uint64_t)ctx->boot << 20; /* it begins to count again */
	e->held.confirmed = 0;
	e->steps = e->samples = 0;
	e->heard = false;
	tw_master_welcome(m, ctx, slot);
}

/* --- to shards ------------------------------------------------------------------------------ */

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

/* A worker as a shard knows it: the cells that speak to the shard, the lanes of its stage in order.
 * Returns how many. */
uint32_t tw_master_name_senders(const struct master *m, const struct tw_member *who, uint32_t shard,
				struct tw_member *out)
{
	const struct tw_stage *stage = tw_plan_stage_at(m->plan, shard);
	const uint32_t lanes = tw_plan_lanes(m->plan, shard);

	for (uint32_t l = 0; l < lanes; l++) {
		out[l] = *who;
		out[l].node = stage ? tw_cell_at(m, who->slot, stage->cell + l)->node
				    : m->member[who->slot].node;
	}
	return lanes;
}

void tw_master_full_view(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg;
	struct tw_member *tail;
	uint32_t count = 0;

	if (tw_master_has_replicas(m)) {
		for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT;
		     k = tw_replicas_next(m, k + 1))
			tw_replica_view(m, ctx, k, shard);
		return;
	}
	if (tw_verdict_master_comes_first(m))
		return;
	msg = tw_master_to_shard(m, ctx, shard, TW_VIEW);
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FULL | tw_master_untimed(m);
	msg->b.view = (struct tw_body_view){ tw_master_live(m), 1, ++m->members.views };
	if (tw_master_live(m)) {
		tail = tw_msg_tail(
			ctx, msg, tw_master_live(m) * tw_plan_lanes(m->plan, shard) * sizeof *tail);
		if (!tail)
			return;
		for (uint32_t k = tw_slots_next(&m->members.live, 0); k != TW_NO_SLOT;
		     k = tw_slots_next(&m->members.live, k + 1))
			count += tw_master_name_senders(
				m, &(struct tw_member){ k, m->member[k].incarnation, TW_LIVE, 0 },
				shard, tail + count);
	}
	tw_send(ctx, msg);
	for (uint32_t k = 0; k < m->plan->crew.workers && tw_plan_shards_know_active(m->plan); k++)
		if (m->member[k].live && m->member[k].idle &&
		    !tw_deal_idle_to(m, ctx, k, shard, tw_master_untimed(m)))
			return;
}

/* --- to servers ----------------------------------------------------------------------------- */

void tw_master_unhost(struct tw_context *ctx, uint32_t node, uint32_t shard, uint32_t incarnation)
{
	struct tw_msg *go = tw_msg_to(ctx, (struct tw_addr){ node, TW_SERVER, 0 }, TW_HOST);

	if (!go)
		return;
	go->h.incarnation = ctx->boot;
	go->b.host = (struct tw_body_host){ .shard = shard,
					    .unhost = 1,
					    .incarnation = incarnation + 1 };
	tw_send(ctx, go);
}

struct tw_msg *tw_master_host_message(struct master *m, struct tw_context *ctx, uint32_t shard,
				      uint32_t node)
{
	const struct tw_addr to = { node, TW_SERVER, 0 };
	struct tw_msg *msg = tw_msg_to(ctx, to, TW_HOST);

	if (!msg)
		return NULL;
	msg->h.view = m->restart.generation;
	msg->h.incarnation = ctx->boot;
	msg->h.shard = shard;
	/* a generation of ours that has not begun */
	if (m->restart.current != m->restart.generation && m->restart.generation >> 32 == ctx->boot)
		msg->h.flags = TW_FLAG_FRESH;
	msg->b.host = (struct tw_body_host){ .shard = shard,
					     .incarnation = m->shard[shard].incarnation,
					     .cut = m->shard[shard].host_cut,
					     .live = tw_master_live(m) };
	return msg;
}
