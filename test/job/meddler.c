/* SPDX-License-Identifier: Apache-2.0 */
/* meddler.c - a class that enters the worker's with another table of the world. */
#include "job/meddler.h"

#include "node/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct meddler meddler;
static _Thread_local const struct tw_world *real;
static _Thread_local struct tw_world table;

static void hooked_send(struct tw_context *ctx, struct tw_msg *m)
{
	if (!meddler.send || !meddler.send(meddler.arg, ctx, m))
		real->send(ctx, m);
}

static void muted(struct tw_context *ctx, struct tw_note *note)
{
	if (!meddler.mute)
		real->note(ctx, note);
}

static void begin(struct tw_context *ctx)
{
	real = ctx->world;
	table = *real;
	table.send = hooked_send;
	table.note = muted;
	ctx->world = &table;
}

static void end(struct tw_context *ctx)
{
	ctx->world = real;
}

#define ENTER(...)                                                                                 \
	do {                                                                                       \
		begin(ctx);                                                                        \
		__VA_ARGS__;                                                                       \
		end(ctx);                                                                          \
	} while (0)

static void start(struct tw_actor *a, struct tw_context *ctx)
{
	ENTER(tw_worker_class.start(a, ctx));
}

static void message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	ENTER(tw_worker_class.message(a, ctx, m));
}

static void timer(struct tw_actor *a, struct tw_context *ctx, uint32_t which)
{
	ENTER(tw_worker_class.timer(a, ctx, which));
}

static void computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	ENTER(tw_worker_class.computed(a, ctx, c));
}

static void down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	ENTER(tw_worker_class.down(a, ctx, node));
}

static void up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	ENTER(tw_worker_class.up(a, ctx, node, boot));
}

static void interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	ENTER(tw_worker_class.interrupt(a, ctx));
}

void meddle(struct trial *t, uint32_t slot, uint32_t cell, const struct meddler *how)
{
	static struct tw_actor_class class;
	const uint32_t node = tw_plan_cell_node(&t->job->plan, slot, cell);
	bool found = false;

	class = tw_worker_class;
	class.start = start;
	class.message = message;
	class.timer = timer;
	class.computed = computed;
	class.down = down;
	class.up = up;
	class.interrupt = interrupt;
	meddler = *how;
	for (size_t k = 0; k < t->cast.seats; k++)
		if (t->cast.seat[k].addr.node == node && t->cast.seat[k].addr.role == TW_WORKER) {
			t->cast.seat[k].class = &class;
			found = true;
		}
	assert_true(found);
}

void meddler_send(struct tw_context *ctx, struct tw_msg *m)
{
	real->send(ctx, m);
}

struct tw_msg *meddler_copy(struct tw_context *ctx, const struct tw_msg *m, uint32_t payload)
{
	struct tw_msg *out = real->msg_new(ctx);

	assert_non_null(out);
	out->to = m->to;
	out->from = m->from;
	out->h = m->h;
	out->b = m->b;
	out->h.tail = 0;
	out->h.payload = payload;
	if (!payload)
		return out;
	out->payload = tw_block_new(ctx->heap, payload);
	assert_non_null(out->payload);
	memset(out->payload->data, 0, payload);
	if (m->payload)
		memcpy(out->payload->data, tw_msg_payload(m),
		       payload < m->h.payload ? payload : m->h.payload);
	return out;
}
