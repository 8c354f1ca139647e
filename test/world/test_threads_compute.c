/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads_compute.c - the threads world with small actors: alarms and computations. */
#include "world/scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* Timers: in order, never early, moved and cleared; of the idle, the passive, and those who
 * compute. */

/* When each was due, at the earliest and at the latest: setting it takes time, too. */
static struct {
	int64_t low, high;
} due[12];

static void set_alarm(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	due[timer].low = tw_now(ctx) + after;
	tw_timer(ctx, timer, after);
	due[timer].high = tw_now(ctx) + after;
}

static void alarms_start(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	for (uint32_t k = 0; k < 12; k++)
		set_alarm(ctx, k, (12 - k) * 4 * MS);
	tw_timer(ctx, 3, -1);
	tw_timer(ctx, 99, -1);
	set_alarm(ctx, 11, 60 * MS); /* moved to the end */
}

static void alarms_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct scene *s = a->scene;

	if (timer > 11) {
		scene_finish(ctx);
		return;
	}
	if (tw_now(ctx) < due[timer].low)
		atomic_fetch_add(&s->wrong, 1);
	s->order[s->ordered++] = timer;
	if (s->ordered == 11)
		tw_timer(ctx, 12, 0);
}

static void check_alarms(struct scene *s)
{
	assert_int_equal(scene_run(s), TW_OK);
	assert_int_equal(s->wrong, 0);
	assert_int_equal(s->ordered, 11);
	for (uint32_t i = 0; i < s->ordered; i++) {
		assert_int_not_equal(s->order[i], 3);
		for (uint32_t j = i + 1; j < s->ordered; j++) {
			assert_int_not_equal(s->order[i], s->order[j]);
			/* none before one that was surely due earlier */
			assert_true(due[s->order[i]].low <= due[s->order[j]].high);
		}
	}
}

static void alarms_computing(struct tw_actor *a, struct tw_context *ctx)
{
	alarms_start(a, ctx);
	ctx->world->compute(ctx, &a->compute[0]);
}

static void timers_fire(void **state)
{
	struct scene idle = { .worker = { .start = alarms_start, .timer = alarms_timer },
			      .workers = 1 };
	struct scene passive = { .shard = { .start = alarms_start, .timer = alarms_timer },
				 .workers = 1,
				 .shards = 1 };
	struct scene computing = { .worker = { .start = alarms_computing, .timer = alarms_timer },
				   .workers = 1,
				   .engine = { .gradient = scene_until_cancelled } };

	check_alarms(&idle);
	check_alarms(&passive);
	check_alarms(&computing);
}

/* Computations: in the order asked for, cancelled before and after they began. */

static enum tw_status counting_gradient(const struct tw_engine *e, void *scratch,
					const struct tw_inputs *in, float *gradient,
					struct tw_score *score)
{
	memset(scratch, 1, e->scratch_bytes);
	gradient[0] = (float)in->from;
	score->loss = 3.0;
	return TW_OK;
}

static enum tw_status counting_evaluate(const struct tw_engine *e, void *scratch,
					const struct tw_inputs *in, struct tw_score *score)
{
	memset(scratch, 2, e->scratch_bytes);
	score->loss = 5.0;
	return TW_OK;
}

static void computes_start(struct tw_actor *a, struct tw_context *ctx)
{
	static float gradient[4];

	for (int k = 0; k < 3; k++) {
		a->compute[k].id = (uint64_t)k;
		a->compute[k].gradient = gradient;
		a->compute[k].in.from = 40;
		ctx->world->compute(ctx, &a->compute[k]);
	}
	a->compute[1].pass.kind = TW_PASS_EVALUATE;
	ctx->world->cancel(ctx, &a->compute[2]);
}

static void computes_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	struct scene *s = a->scene;

	s->statuses[s->ordered] = c->status;
	s->order[s->ordered++] = (uint32_t)c->id;
	if (c->id == 0 && (c->score.loss != 3.0 || c->gradient[0] != 40.0f))
		atomic_fetch_add(&s->wrong, 1);
	if (c->id == 1 && c->score.loss != 5.0)
		atomic_fetch_add(&s->wrong, 1);
	if (s->ordered == 2)
		ctx->world->compute(ctx, c); /* the same one again, from its own completion */
	if (s->ordered == 4)
		scene_finish(ctx);
}

static void computations_run_in_order(void **state)
{
	static const uint32_t order[] = { 2, 0, 1, 0 };
	struct scene s = {
		.worker = { .start = computes_start, .computed = computes_done },
		.workers = 1,
		.scratch = 1000,
		.engine = { .gradient = counting_gradient, .evaluate = counting_evaluate },
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.wrong, 0);
	assert_memory_equal(s.order, order, sizeof order);
	assert_int_equal(s.statuses[0], TW_CANCELLED);
	for (int k = 1; k < 4; k++)
		assert_int_equal(s.statuses[k], TW_OK);
}

/* A message reaches a worker that computes, and stops it. */

static void cancelled_start(struct tw_actor *a, struct tw_context *ctx)
{
	ctx->world->compute(ctx, &a->compute[0]);
	scene_say(ctx, scene_shard(0), TW_PUSH, 0, 0);
}

static void canceller_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tw_timer(ctx, 1, 20 * MS);
}

static void canceller_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	scene_say(ctx, scene_worker(0), TW_ACK, 0, 0);
}

static void cancelled_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	ctx->world->cancel(ctx, &a->compute[0]);
}

static void cancelled_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	a->scene->statuses[0] = c->status;
	scene_say(ctx, scene_master(), TW_DONE, 0, 0);
}

static void messages_cancel_computations(void **state)
{
	const int64_t before = scene_clock();
	struct scene s = {
		.master = { .message = scene_master_counts },
		.shard = { .message = canceller_message, .timer = canceller_timer },
		.worker = { .start = cancelled_start,
			    .message = cancelled_message,
			    .computed = cancelled_done },
		.workers = 1,
		.shards = 1,
		.engine = { .gradient = scene_until_cancelled },
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.statuses[0], TW_CANCELLED);
	assert_true(scene_clock() - before < 10 * TW_SECOND);
}

/* Workers that compute are entered by whoever sends to them: order, exclusion and the count of
 * completions hold there as well, with cancels at any moment. */

static enum tw_status short_gradient(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	static _Atomic unsigned calls;
	/* now and then long enough for messages to come in the middle of it, on any machine */
	const bool is_long = atomic_fetch_add(&calls, 1) % 16 == 0;
	const int64_t until = scene_clock() + (is_long ? MS : 20000);

	while (scene_clock() < until)
		if (atomic_load(in->cancel))
			return TW_CANCELLED;
	return TW_OK;
}

static void restless_step(struct tw_actor *a, struct tw_context *ctx)
{
	const uint32_t shards = a->scene->shards;

	for (uint32_t j = 0; j < shards; j++)
		scene_say(ctx, scene_shard((a->number + j) % shards), TW_PUSH, a->number, a->round);
	a->round++;
	ctx->world->compute(ctx, &a->compute[0]);
	ctx->world->compute(ctx, &a->compute[1]);
}

static void restless_maybe_done(struct tw_actor *a, struct tw_context *ctx)
{
	struct scene *s = a->scene;

	if (a->round == s->rounds && a->sum == 2 * s->rounds &&
	    a->count == 3 * s->rounds * s->shards)
		scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
}

static void restless_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.seq != a->next[m->h.from]++)
		atomic_fetch_add(&a->scene->wrong, 1);
	/* while they are out: both have been asked for and not all have come back */
	if (++a->count % 7 == 0 && a->sum == 2 * a->round - 2)
		ctx->world->cancel(ctx, &a->compute[a->count % 2]);
	restless_maybe_done(a, ctx);
}

static void restless_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	atomic_fetch_add(&a->scene->seen, c->status == TW_CANCELLED);
	if (++a->sum % 2 == 0 && a->round < a->scene->rounds)
		restless_step(a, ctx);
	restless_maybe_done(a, ctx);
}

/* The answer goes to the next worker, who is likely to compute. */
static void threefold_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	const uint32_t other = (m->h.from + 1) % a->scene->workers;

	for (int k = 0; k < 3; k++)
		scene_say(ctx, scene_worker(other), TW_ACK, a->number, a->next[other]++);
}

static void computing_workers_are_entered_in_order(void **state)
{
	struct scene s = {
		.master = { .message = scene_master_counts },
		.shard = { .message = threefold_message },
		.worker = { .start = restless_step,
			    .message = restless_message,
			    .computed = restless_done },
		.workers = 4,
		.shards = 5,
		.rounds = 1500,
		.engine = { .gradient = short_gradient },
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.wrong, 0);
	print_message("%u of %u computations cancelled\n", (unsigned)s.seen,
		      (unsigned)(2 * s.rounds * s.workers));
	assert_true(s.seen > 0); /* without one, none of this was tried */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(timers_fire),
		cmocka_unit_test(computations_run_in_order),
		cmocka_unit_test(messages_cancel_computations),
		cmocka_unit_test(computing_workers_are_entered_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
