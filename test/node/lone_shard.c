/* SPDX-License-Identifier: Apache-2.0 */
/* lone_shard.c - see lone_shard.h. */
#include "node/lone_shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct lone_shard *lone(struct tw_context *ctx)
{
	return (struct lone_shard *)((char *)ctx - offsetof(struct lone_shard, ctx));
}

static struct tw_msg *msg_new(struct tw_context *ctx)
{
	return tw_heap_zeros(ctx->heap, sizeof(struct tw_msg));
}

static void msg_free(struct tw_context *ctx, struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
	ctx->heap->put(ctx->heap, m);
}

static void msg_send(struct tw_context *ctx, struct tw_msg *m)
{
	struct lone_shard *l = lone(ctx);

	l->sends++;
	if (l->sent)
		l->sent(l, m);
	msg_free(ctx, m);
}

static int64_t now(struct tw_context *ctx)
{
	return lone(ctx)->now;
}

static void finish(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals)
{
	(void)ctx, (void)status;
	fail_msg("the shard gives up: %s", totals->text);
}

static void speak(struct tw_context *ctx, enum tw_level level, const char *line)
{
	(void)ctx, (void)level, (void)line;
}

static enum tw_status init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	(void)e, (void)from;
	memset(out, 0, n * sizeof *out);
	return TW_OK;
}

static const struct tw_engine_class engine_class = { .name = "zeros", .init = init };

struct tw_msg lone_from_master(const struct lone_shard *l, enum tw_type type)
{
	struct tw_msg m = { .from = { 0, TW_MASTER, 0 }, .to = l->ctx.self };

	m.h.type = (uint16_t)type;
	m.h.view = l->shard->fence.generation;
	m.h.incarnation = 1;
	return m;
}

struct tw_msg lone_from_worker(const struct lone_shard *l, enum tw_type type, uint32_t slot,
			       uint32_t incarnation)
{
	struct tw_msg m = { .from = { LONE_WORKER(slot), TW_WORKER, 0 }, .to = l->ctx.self };

	m.h.type = (uint16_t)type;
	m.h.view = l->shard->fence.generation;
	m.h.from = slot;
	m.h.incarnation = incarnation;
	return m;
}

void lone_say(struct lone_shard *l, struct tw_msg *m)
{
	tw_shard_class.message((struct tw_actor *)l->shard, &l->ctx, m);
}

void lone_view(struct lone_shard *l, const struct tw_member *list, uint32_t count, bool full)
{
	struct tw_msg m = lone_from_master(l, TW_VIEW);

	m.h.flags = full ? TW_FLAG_FULL : 0;
	m.b.view = (struct tw_body_view){ .live = count, .running = 1, .number = ++l->views };
	m.h.tail = (uint32_t)(count * sizeof *list);
	m.tail = tw_block_new(&tw_heap_system, m.h.tail ? m.h.tail : 1);
	if (count)
		memcpy(m.tail->data, list, m.h.tail);
	lone_say(l, &m);
	tw_block_drop(m.tail);
}

struct tw_msg lone_push(const struct lone_shard *l, uint32_t slot, uint32_t incarnation,
			uint64_t seq, struct tw_block *payload)
{
	struct tw_msg m = lone_from_worker(l, TW_PUSH, slot, incarnation);

	m.h.seq = seq;
	m.h.flags = TW_FLAG_ANSWER;
	m.b.push = (struct tw_body_push){
		.base = l->shard->slice.version,
		.round = l->shard->slice.round,
		.account = { .steps = 1, .samples = 1, .weight = 1.0f, .divide = 1.0f },
		.ranges = 1,
		.number = seq,
		.clock = seq,
		.link = seq,
		.range = { { .from = seq % 1000, .count = 1 } }
	};
	m.payload = payload;
	m.h.payload = (uint32_t)payload->bytes;
	return m;
}

/* Who is named does not matter to a shard alone. */
static void heard_members(struct tw_context *ctx, const struct tw_member *list, size_t count) {}

void lone_open(struct lone_shard *l, struct tw_heap *heap, const char *gate, uint32_t workers)
{
	lone_open_replica(l, heap, gate, workers, NULL);
}

void lone_open_replica(struct lone_shard *l, struct tw_heap *heap, const char *gate,
		       uint32_t workers, const struct tw_topology *topology)
{
	struct tw_role_arg arg;
	struct tw_msg m;

	memset(l, 0, sizeof *l);
	small_plan_open(&l->plan, 10, 0, gate, "none", "sgd");
	l->plan.plan.crew.workers = workers;
	if (topology) {
		l->plan.plan.topology = *topology;
		l->plan.plan.crew.servers = 0;
	}
	l->heap = heap;
	l->world = (struct tw_world){ .name = "lone",
				      .msg_new = msg_new,
				      .msg_free = msg_free,
				      .send = msg_send,
				      .now = now,
				      .log = speak,
				      .finish = finish,
				      .members = heard_members };
	l->engine = (struct tw_engine){ .class = &engine_class, .trainable = 10 };
	l->ctx = (struct tw_context){
		.world = &l->world, .self = { 1, TW_SHARD, 0 }, .heap = heap, .engine = &l->engine
	};
	arg = (struct tw_role_arg){ .plan = &l->plan.plan };
	l->shard = (struct shard *)tw_shard_class.new(heap, &arg);
	assert_non_null(l->shard);
	m = lone_from_master(l, TW_HOST);
	m.from = (struct tw_addr){ 1, TW_SERVER, 0 };
	m.h.view = 1;
	m.h.flags = TW_FLAG_FRESH;
	m.b.host = (struct tw_body_host){ .incarnation = 1 };
	lone_say(l, &m);
	assert_true(l->shard->hosted);
}

void lone_close(struct lone_shard *l)
{
	tw_shard_class.free((struct tw_actor *)l->shard);
	small_plan_close(&l->plan);
}
