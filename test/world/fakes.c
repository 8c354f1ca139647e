/* SPDX-License-Identifier: Apache-2.0 */
/* fakes.c - small actors, an engine and a log for tests of worlds. */
#include "world/fakes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Atomic int fake_spin;

static struct tw_actor *fake_new(struct tw_heap *heap, const void *arg)
{
	struct tw_actor *a = tw_heap_zeros(heap, sizeof *a);

	if (!a)
		return NULL;
	a->heap = heap;
	a->fake = arg;
	return a;
}

static void fake_free(struct tw_actor *a)
{
	tw_block_drop(a->kept);
	a->heap->put(a->heap, a);
}

static void fake_start(struct tw_actor *a, struct tw_context *ctx)
{
	if (a->fake->start)
		a->fake->start(a, ctx);
}

static void fake_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (a->fake->message)
		a->fake->message(a, ctx, m);
}

static void fake_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	if (a->fake->timer)
		a->fake->timer(a, ctx, timer);
}

static void fake_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	if (a->fake->computed)
		a->fake->computed(a, ctx, c);
}

static void fake_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		       enum tw_status status)
{
	if (a->fake->saved)
		a->fake->saved(a, ctx, cut, status);
}

static void fake_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			const struct tw_part *parts, size_t count, enum tw_status status)
{
	if (a->fake->loaded)
		a->fake->loaded(a, ctx, cut, parts, count, status);
}

static void fake_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	if (a->fake->down)
		a->fake->down(a, ctx, node);
}

static void fake_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	if (a->fake->up)
		a->fake->up(a, ctx, node, boot);
}

static void fake_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	if (a->fake->interrupt)
		a->fake->interrupt(a, ctx);
}

static bool fake_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	return a->fake->waiting && a->fake->waiting(a, out);
}

const struct tw_actor_class fake_class = {
	.name = "fake",
	.new = fake_new,
	.free = fake_free,
	.start = fake_start,
	.message = fake_message,
	.timer = fake_timer,
	.computed = fake_computed,
	.saved = fake_saved,
	.loaded = fake_loaded,
	.down = fake_down,
	.up = fake_up,
	.interrupt = fake_interrupt,
	.waiting = fake_waiting,
};

const struct tw_actor_class fake_passive_class = {
	.name = "fake",
	.new = fake_new,
	.free = fake_free,
	.start = fake_start,
	.message = fake_message,
	.timer = fake_timer,
	.saved = fake_saved,
	.loaded = fake_loaded,
	.down = fake_down,
	.up = fake_up,
	.interrupt = fake_interrupt,
	.waiting = fake_waiting,
};

static enum tw_status engine_gradient(const struct tw_engine *e, void *scratch,
				      const struct tw_inputs *in, float *gradient,
				      struct tw_score *score)
{
	volatile float *rubbish = scratch;

	for (int i = 0; i < atomic_load(&fake_spin); i++)
		rubbish[i % 16] = (float)i;
	for (size_t i = 0; i < e->trainable; i++)
		gradient[i] = 0.5f * in->piece[0].at[i] - (float)((in->from + i) % 7);
	*score = (struct tw_score){ .loss = (double)in->from, .correct = -1, .samples = in->count };
	return TW_OK;
}

static enum tw_status engine_evaluate(const struct tw_engine *e, void *scratch,
				      const struct tw_inputs *in, struct tw_score *score)
{
	float gradient[FAKE_SIZE];

	return engine_gradient(e, scratch, in, gradient, score);
}

static const struct tw_engine_class engine_class = {
	.name = "fake",
	.gradient = engine_gradient,
	.evaluate = engine_evaluate,
};

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct stage *st = arg;
	const size_t used = strlen(st->lines);

	snprintf(st->lines + used, sizeof st->lines - used, "%d %s: %s\n", (int)level, who, line);
}

void stage_init(struct stage *st, struct tw_heap *heap, uint32_t servers, uint32_t workers,
		const struct fake *master, const struct fake *shard, const struct fake *worker)
{
	const uint32_t nodes = 1 + servers + workers;

	memset(st, 0, sizeof *st);
	st->seat = calloc(nodes, sizeof *st->seat);
	if (!st->seat)
		abort();
	for (uint32_t i = 0; i < nodes; i++) {
		struct tw_addr at = fake_addr(i, TW_WORKER, 0);
		const struct fake *what = worker;

		if (i == 0) {
			at.role = TW_MASTER;
			what = master;
		} else if (i <= servers) {
			at.role = TW_SHARD;
			at.index = (uint16_t)(i - 1);
			what = shard;
		}
		st->seat[i] = (struct tw_seat){ at, &fake_class, what };
	}
	st->engine = (struct tw_engine){
		.class = &engine_class,
		.trainable = FAKE_SIZE,
		.samples = 1000,
		.tests = 10,
		.scratch_bytes = 64,
		.cost = 10,
	};
	st->log = (struct tw_log){ log_line, st, TW_INFO };
	st->cluster = (struct tw_cluster){
		.seat = st->seat,
		.seats = nodes,
		.nodes = nodes,
		.seed = 1,
		.engine = &st->engine,
		.heap = heap,
		.log = &st->log,
	};
	st->o = (struct tw_sim_options){
		.mean = 100 * MS,
		.median = 100 * MS,
		.slower = 1,
		.closed_limit = 2 * TW_SECOND,
		.silent_limit = 15 * TW_SECOND,
		.retransmit = 200 * MS,
		.threads = 1,
	};
}

enum tw_status stage_run(struct stage *st)
{
	enum tw_status status;

	st->cluster.store = tw_memory_store_new(st->cluster.heap);
	if (!st->cluster.store)
		return TW_NO_MEMORY;
	st->lines[0] = 0;
	status = tw_sim_run(&st->cluster, &st->o, st->fault, st->faults, st->trace, st->max,
			    &st->ran);
	tw_totals_release(&st->ran.totals);
	tw_memory_store_free(st->cluster.store);
	return status;
}

void stage_release(struct stage *st)
{
	free(st->seat);
}

struct tw_addr fake_addr(uint32_t node, uint16_t role, uint16_t index)
{
	return (struct tw_addr){ .node = node, .role = role, .index = index };
}

bool fake_send(struct tw_context *ctx, struct tw_addr to, enum tw_type type, uint64_t seq,
	       uint32_t payload)
{
	struct tw_msg *m = tw_msg_to(ctx, to, type);

	if (!m)
		return false;
	m->h.seq = seq;
	if (payload) {
		m->payload = tw_block_new(ctx->heap, payload);
		if (!m->payload) {
			ctx->world->msg_free(ctx, m);
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a payload");
			return false;
		}
		m->h.payload = payload;
	}
	tw_send(ctx, m);
	return true;
}

void fake_compute(struct tw_actor *a, struct tw_context *ctx, uint64_t from, uint32_t count)
{
	a->piece = (struct tw_piece){ .at = a->w, .n = FAKE_SIZE };
	a->c.in =
		(struct tw_inputs){ .from = from, .count = count, .piece = &a->piece, .pieces = 1 };
	a->c.epoch_position = from;
	a->c.gradient = a->g;
	ctx->world->compute(ctx, &a->c);
}

void fake_finish(struct tw_context *ctx)
{
	struct tw_totals t = { .status = TW_OK };

	ctx->world->finish(ctx, TW_OK, &t);
}
