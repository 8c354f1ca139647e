/* SPDX-License-Identifier: Apache-2.0 */
/* host_servers.c - servers come, and leave when their shards are elsewhere (5).  The numbers in
 * brackets are those of README.md. */
#include "node/duty/host/host_state.h"

void tw_host_server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node, k = node - 1;

	if (m->server[k].boot && m->server[k].boot != msg->h.incarnation)
		tw_host_lose(m, ctx, node);
	m->server[k].state = msg->h.flags & TW_FLAG_LEAVE ? SERVER_LEAVING : SERVER_HERE;
	m->server[k].left = m->server[k].left && m->server[k].state == SERVER_LEAVING;
	m->server[k].boot = msg->h.incarnation;
	m->server[k].hosted = msg->b.hello.hosted;
	if (msg->b.hello.hosted && !m->restart.begun)
		tw_master_heard_survivor(m);
}

void tw_host_server_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
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

/* (5) */
static void move(struct master *m, struct tw_context *ctx)
{
	m->restart.move = MOVE_NONE;
	for (uint32_t k = 0; k < m->plan->crew.servers; k++) {
		if (!tw_server_leaves(m, k))
			continue;
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			if (m->shard[s].place >= SHARD_ASSIGNED && m->shard[s].node == k + 1)
				tw_master_unhost(ctx, k + 1, s, m->shard[s].incarnation);
		if (!tw_host_drop(m, k + 1))
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

void tw_host_servers_go(struct master *m, struct tw_context *ctx)
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
