/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - a process that hosts shards: says hello to the master, and hands HOST on to the shard
 * concerned, which lives on the same node.  One that is asked to stop says so and stays until the
 * master has found another place for its shards.  On the node of a worker, which holds a replica or
 * the shards of its stage, it only hands on.
 *
 *  (1) it obeys the newest master only.  A HOST of a master that died may arrive after the next one
 *      has adopted the shard as it was: taking it would make another incarnation of it that this
 *      master does not know.  A COPY comes from another worker, which is believed only if it
 *      speaks of the same master, or none was heard of here. */
#include "node/well_formed.h"

enum server_state {
	SERVER_HERE,
	SERVER_LEAVING, /* it has said so, and its shards have no other place yet */
	SERVER_LEFT,
};

struct server {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	uint32_t hosted;
	bool *holds;   /* by shard */
	uint32_t term; /* boot of the newest master heard of: an older one's HOST is void */
	enum server_state state;
	int64_t since; /* LEAVING: when it said so */
};

static struct tw_actor *server_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct server *s = tw_heap_zeros(heap, sizeof *s);

	if (!s)
		return NULL;
	s->plan = a->plan;
	s->heap = heap;
	s->holds = tw_heap_zeros(heap, a->plan->problem.shards);
	if (s->holds)
		return (struct tw_actor *)s;
	heap->put(heap, s);
	return NULL;
}

static void server_free(struct tw_actor *a)
{
	struct server *s = (struct server *)a;

	if (!s)
		return;
	s->heap->put(s->heap, s->holds);
	s->heap->put(s->heap, s);
}

static void hello(struct server *s, struct tw_context *ctx)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_HELLO);

	if (!m)
		return;
	m->h.from = ctx->self.node;
	m->h.incarnation = ctx->boot;
	m->h.flags = s->state == SERVER_LEAVING ? TW_FLAG_LEAVE : 0;
	m->b.hello.role = TW_SERVER;
	m->b.hello.hosted = s->hosted;
	tw_send(ctx, m);
}

/* Beside a worker it says nothing: the worker joins, leaves and comes back for both. */
static bool has_worker(const struct server *s)
{
	return tw_plan_holds_by_workers(s->plan);
}

static void server_start(struct tw_actor *a, struct tw_context *ctx)
{
	if (!has_worker((struct server *)a))
		hello((struct server *)a, ctx);
}

/* It is for the shard of this node. */
static void hand_on(struct tw_context *ctx, const struct tw_msg *m, uint32_t shard)
{
	const struct tw_addr to = { ctx->self.node, TW_SHARD, (uint16_t)shard };
	struct tw_msg *on = tw_msg_to(ctx, to, (enum tw_type)m->h.type);

	if (!on)
		return;
	on->h = m->h;
	on->b = m->b;
	on->payload = tw_block_keep(m->payload);
	on->payload_at = m->payload_at;
	tw_send(ctx, on);
}

static void server_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct server *s = (struct server *)a;
	uint32_t shard;

	if (!tw_hears(ctx, m) || !tw_well_formed(s->plan, m))
		return;
	if (m->h.type == TW_BYE && s->state == SERVER_LEAVING) {
		s->state = SERVER_LEFT;
		tw_gone(ctx);
		return;
	}
	if (m->h.type == TW_COPY) {
		if (has_worker(s) && m->from.index == m->b.copy.shard &&
		    (m->h.incarnation == s->term || !s->term))
			hand_on(ctx, m, m->b.copy.shard);
		return;
	}
	if (m->h.type != TW_HOST || m->h.incarnation < s->term)
		return;
	s->term = m->h.incarnation;
	shard = m->b.host.shard;
	s->hosted += (uint32_t)(!m->b.host.unhost) - (uint32_t)s->holds[shard];
	s->holds[shard] = !m->b.host.unhost;
	hand_on(ctx, m, shard);
}

static void server_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct server *s = (struct server *)a;

	if (node != 0)
		return;
	if (boot > s->term)
		s->term = boot;
	if (s->state != SERVER_LEFT && !has_worker(s))
		hello(s, ctx);
}

static void server_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct server *s = (struct server *)a;
	struct tw_msg *m;

	if (s->state != SERVER_HERE || has_worker(s))
		return;
	m = tw_msg_to(ctx, tw_master_addr(), TW_BYE);
	if (!m)
		return;
	m->h.from = ctx->self.node;
	m->h.incarnation = ctx->boot;
	m->h.flags = TW_FLAG_LEAVE;
	s->state = SERVER_LEAVING;
	s->since = tw_now(ctx);
	tw_send(ctx, m);
	if (s->hosted) /* nobody else has them yet */
		return;
	s->state = SERVER_LEFT;
	tw_gone(ctx);
}

static bool server_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	const struct server *s = (const struct server *)a;

	if (s->state != SERVER_LEAVING)
		return false;
	*out = (struct tw_wait){ .whom = tw_master_addr(),
				 .since = s->since,
				 .why = "another server for its shards" };
	return true;
}

const struct tw_actor_class tw_server_class = {
	.name = "server",
	.new = server_new,
	.free = server_free,
	.start = server_start,
	.message = server_message,
	.up = server_up,
	.interrupt = server_interrupt,
	.waiting = server_waiting,
};
