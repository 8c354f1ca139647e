/* SPDX-License-Identifier: Apache-2.0 */
/* host_state.c - what shards say of themselves: that they are hosted, and what they have.  The
 * numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

#include <string.h>

/* The message is well formed. */
static enum tw_status copy_state(struct shard_info *i, const struct tw_msg *msg,
				 struct tw_heap *heap)
{
	const struct tw_body_state *b = &msg->b.state;
	const struct tw_span *span = msg->tail ? (const void *)msg->tail->data : NULL;
	const uint64_t ranges = (uint64_t)b->spans + b->twice;
	enum tw_status st = TW_OK;

	tw_spans_clear(&i->applied);
	tw_spans_clear(&i->twice);
	for (uint64_t k = 0; k < ranges && st == TW_OK; k++)
		st = tw_spans_add(k < b->spans ? &i->applied : &i->twice, span[k].from, span[k].to,
				  NULL);
	if (st != TW_OK)
		return st;
	heap->put(heap, i->set);
	i->set = tw_heap_zeros(heap, (b->members + 1) * sizeof *i->set);
	if (!i->set)
		return TW_NO_MEMORY;
	if (b->members)
		memcpy(i->set, span + ranges, b->members * sizeof *i->set);
	i->set_count = b->members;
	i->round = b->round;
	memcpy(&i->tally, tw_msg_payload(msg), sizeof i->tally);
	return TW_OK;
}

static bool take_state(struct master *m, struct tw_context *ctx, struct shard_info *i,
		       const struct tw_msg *msg)
{
	const enum tw_status st = copy_state(i, msg, m->heap);

	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for the state of shard %u", msg->h.shard);
	return st == TW_OK;
}

/* A shard that outlived the master before us, or our belief that it is gone: it is kept as it is,
 * also while the cut is read that it was to be taken from. */
static void adopt(struct master *m, struct shard_info *i, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node;

	tw_master_heard_survivor(m);
	tw_shard_put(m, i, SHARD_ADOPTED);
	i->node = node;
	i->incarnation = msg->b.state.version.incarnation;
	m->server[node - 1].stated++;
	if (msg->h.view > m->restart.generation)
		m->restart.generation = msg->h.view;
	i->host_cut = msg->h.view; /* the generation it was in, until we agree */
}

/* May a shard that nobody else has be kept as it is?  Not after workers may have begun with another
 * one, not where its server was told that it may go, and (12) not if some shard is to be taken from
 * the cut. */
static bool adoptable(const struct master *m, uint32_t node)
{
	const struct server_info *on;

	if (tw_plan_is_with_stage(m->plan)) /* where it is to be is not known yet */
		return false;
	on = &m->server[node - 1];
	if ((m->phase != PHASE_GATHER && m->phase != PHASE_AGREE) || on->left ||
	    (m->restart.move == MOVE_BEGUN && on->state == SERVER_LEAVING))
		return false;
	if (tw_master_rounds(m) && (m->places[SHARD_PENDING] || m->places[SHARD_ASSIGNED]))
		return false;
	return m->restart.history != HISTORY_ROLLED_BACK;
}

void tw_host_shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;

	/* nobody outlived a master that is yet to come */
	if (msg->h.view >> 32 > ctx->boot || msg->b.state.version.incarnation >> 20 > ctx->boot)
		return;
	i = &m->shard[s];
	if (tw_shard_has_home(i) && (i->node == msg->from.node || tw_master_has_replicas(m)) &&
	    i->incarnation == msg->b.state.version.incarnation) {
		if (msg->b.state.asked != m->restart.asks || msg->h.view != m->restart.generation)
			return;
		if (tw_master_rounds(m) && msg->b.state.round != m->rounds.number) {
			tw_host_behind(m, ctx, msg);
			return;
		}
		if (tw_master_has_replicas(m))
			tw_replica_says(m, msg->from.node, s, REPLICA_AGREED);
		if (i->node != msg->from.node)
			return;
		if (!take_state(m, ctx, i, msg))
			return;
		i->agreed = true;
		i->counted = i->counted || m->phase == PHASE_COUNT; /* it may say so twice */
		return;
	}
	if (tw_master_has_replicas(m)) {
		if (tw_host_takeover_state(m, ctx, msg))
			take_state(m, ctx, i, msg);
		return;
	}
	if (i->place < SHARD_ASSIGNED && m->phase == PHASE_GATHER && adoptable(m, msg->from.node) &&
	    msg->b.state.version.incarnation >= i->incarnation) {
		if (!take_state(m, ctx, i, msg))
			return;
		adopt(m, i, msg);
		return;
	}
	/* somebody has it who was given up by an earlier master, and came first */
	if (i->place == SHARD_ADOPTED && adoptable(m, msg->from.node) &&
	    msg->from.node != i->node && msg->b.state.version.incarnation > i->incarnation) {
		const uint32_t node = i->node, incarnation = i->incarnation;

		if (!take_state(m, ctx, i, msg))
			return;
		tw_master_unhost(ctx, node, s, incarnation);
		adopt(m, i, msg);
		m->phase = PHASE_GATHER; /* they agree once more */
		m->since = tw_now(ctx);
		return;
	}
	if (msg->from.node != i->node) /* somebody else has it now */
		tw_master_unhost(ctx, msg->from.node, s, msg->b.state.version.incarnation);
}

void tw_host_shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;

	i = &m->shard[s];
	if (tw_master_has_replicas(m) && msg->b.host.attempt) {
		tw_host_replica_hosted(m, ctx, msg);
		return;
	}
	if (i->place != SHARD_ASSIGNED || i->node != msg->from.node ||
	    i->incarnation != msg->b.host.incarnation)
		return;
	if (msg->h.flags & TW_FLAG_REFUSED) { /* to try again would not make it better */
		m->phase = PHASE_OVER;
		if (i->host_cut)
			tw_give_up(ctx, TW_BAD_BYTES,
				   "shard %u cannot be restored from checkpoint %llu (reported by "
				   "server %u)",
				   s, (unsigned long long)i->host_cut, tw_server_number(i->node));
		else
			tw_give_up(ctx, TW_BAD_BYTES,
				   "server %u cannot make the initial weights of shard %u",
				   tw_server_number(i->node), s);
		return;
	}
	tw_shard_put(m, i, SHARD_HOSTED);
	if (!i->host) /* it has made no room for another part */
		return;
	tw_block_drop(i->host);
	i->host = NULL;
	tw_host_read_next(m, ctx);
}

/* --- whether replicas are equal --------------------------------------------------------------- */

void tw_host_compare(struct master *m, struct tw_context *ctx)
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
