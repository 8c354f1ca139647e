/* SPDX-License-Identifier: Apache-2.0 */
/* master_servers.c - servers and shards: who hosts what, who leaves, and what shards say.
 *
 *  (1) what a shard was told and may have lost is told again when its connection is made anew.
 *  (2) a server that leaves goes when its shards are in a cut that nothing followed: they are taken
 *      from it elsewhere, and nothing is lost.
 *  (3) under a round gate all shards go on from one state: see master_shards.c. */
#include "node/master/master.h"

#include <string.h>

/* --- words ---------------------------------------------------------------------------------- */

void tw_master_resync_shard(struct master *m, struct tw_context *ctx, uint32_t s)
{
	if (m->shard[s].place == SHARD_ASSIGNED) {
		tw_cut_host(m, ctx, s);
		return;
	}
	if (!tw_shard_has_home(&m->shard[s]))
		return;
	tw_verdicts_to(m, ctx, s);
	tw_master_full_view(m, ctx, s);
	tw_round_master_commit_to(m, ctx, s);
	if (m->phase == PHASE_AGREE &&
	    (!m->shard[s].agreed || !tw_replicas_all(m, REPLICA_AGREED)) &&
	    !tw_master_ask(m, ctx, s, 0))
		return;
	tw_duties_home(&m->duties, ctx, s);
}

/* --- who hosts what --------------------------------------------------------------------------- */

/* Nobody hosts the shards of this node any more; false: it had none. */
static bool drop_shards(struct master *m, uint32_t node)
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

void tw_master_lose_shards(struct master *m, struct tw_context *ctx, uint32_t node)
{
	if (!drop_shards(m, node) || m->phase == PHASE_OVER)
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

void tw_master_server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node, k = node - 1;

	if (m->server[k].boot && m->server[k].boot != msg->h.incarnation)
		tw_master_lose_shards(m, ctx, node);
	m->server[k].state = msg->h.flags & TW_FLAG_LEAVE ? SERVER_LEAVING : SERVER_HERE;
	m->server[k].left = m->server[k].left && m->server[k].state == SERVER_LEAVING;
	m->server[k].boot = msg->h.incarnation;
	m->server[k].hosted = msg->b.hello.hosted;
	if (msg->b.hello.hosted && !m->restart.begun)
		tw_master_heard_survivor(m);
}

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

/* --- servers that leave ----------------------------------------------------------------------- */

void tw_master_server_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node;
	struct server_info *i = &m->server[node - 1];

	if (i->state == SERVER_AWAY || i->boot != msg->h.incarnation ||
	    !(msg->h.flags & TW_FLAG_LEAVE))
		return;
	if (i->state != SERVER_LEAVING)
		tw_say(ctx, TW_INFO, "server %u wants to leave", tw_server_number(node));
	i->state = SERVER_LEAVING;
}

static bool hosts(const struct master *m, uint32_t node)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place != SHARD_HOMELESS && m->shard[s].node == node)
			return true;
	return false;
}

/* (2) */
static void move(struct master *m, struct tw_context *ctx)
{
	m->restart.move = MOVE_NONE;
	for (uint32_t k = 0; k < m->plan->crew.servers; k++) {
		if (!tw_server_leaves(m, k))
			continue;
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			if (m->shard[s].place >= SHARD_ASSIGNED && m->shard[s].node == k + 1)
				tw_master_unhost(ctx, k + 1, s, m->shard[s].incarnation);
		if (!drop_shards(m, k + 1))
			continue;
		tw_eval_master_views_gone(m, ctx);
		m->restart.move = MOVE_BEGUN;
		m->waits.servers_due = m->waits.lost = true;
		m->since = tw_now(ctx);
	}
}

static void let_go(struct master *m, struct tw_context *ctx, uint32_t k)
{
	struct tw_msg *msg = tw_msg_to(ctx, (struct tw_addr){ k + 1, TW_SERVER, 0 }, TW_BYE);

	if (!msg)
		return;
	tw_say(ctx, TW_INFO, "server %u left; %u remain%s", k, tw_servers_staying(m),
	       tw_servers_staying(m) == 1 ? "s" : "");
	m->server[k].state = SERVER_AWAY;
	m->server[k].left = true;
	tw_send(ctx, msg);
}

void tw_master_servers_go(struct master *m, struct tw_context *ctx)
{
	/* nothing was learnt yet */
	const bool blank = !m->restart.begun && !tw_master_adopted_any(m) &&
			   m->phase == PHASE_GATHER && !m->restart.loading;

	if (m->restart.move == MOVE_DUE || (blank && (tw_phase_wishes(m) & TW_WISH_MOVE)))
		move(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.servers; k++) {
		if (!tw_server_leaves(m, k))
			continue;
		if (!hosts(m, k + 1)) {
			let_go(m, ctx, k);
		} else if (!tw_servers_staying(m) && !tw_wishes(m, TW_WISH_STOP)) {
			tw_say(ctx, TW_WARNING,
			       "server %u leaves, and no other server can take its shards: "
			       "stopping at a checkpoint",
			       k);
			tw_wish_put(m, TW_WISH_STOP, true);
			if (!m->restart.begun)
				tw_finish_master_end(m, ctx, TW_INTERRUPTED);
		}
	}
}

/* --- what shards say -------------------------------------------------------------------------- */

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
 * one, not where its server was told that it may go, and (3) not if some shard is to be taken from
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

void tw_master_shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
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
			tw_replica_behind(m, ctx, msg);
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
		if (tw_takeover_state(m, ctx, msg))
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

void tw_master_shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;

	i = &m->shard[s];
	if (tw_master_has_replicas(m) && msg->b.host.attempt) {
		tw_replica_hosted(m, ctx, msg);
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
	tw_block_drop(i->host);
	i->host = NULL;
	tw_cut_read_next(m, ctx);
}
