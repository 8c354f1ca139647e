/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_device.c - a node has one device: what it computes runs one after the other; and workers
 * may talk to workers, who hear when the other is gone. */
#include "world/fakes.h"
#include "world/threads/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define STEP  (100 * MS) /* fakes.c: the mean of the law */
#define TRIES 4

/* One worker, several computations at once. */
static struct {
	struct tw_compute c[TRIES];
	float g[TRIES][FAKE_SIZE];
	int64_t at[TRIES];
	enum tw_status status[TRIES];
	size_t done, wanted;
	uint32_t pass[TRIES];
	double share[TRIES];
	uint64_t from[TRIES];
	bool evaluates[TRIES];
	size_t cancel; /* which one, at the timer */
	int64_t cancel_at;
} seen;

static void asks_at_once(struct tw_actor *a, struct tw_context *ctx)
{
	a->piece = (struct tw_piece){ .at = a->w, .n = FAKE_SIZE };
	for (size_t k = 0; k < seen.wanted; k++) {
		struct tw_compute *c = &seen.c[k];

		memset(c, 0, sizeof *c);
		c->in = (struct tw_inputs){
			.from = seen.from[k], .count = 4, .piece = &a->piece, .pieces = 1
		};
		c->pass.kind = seen.evaluates[k] ? TW_PASS_EVALUATE : TW_PASS_GRADIENT;
		c->again = seen.pass[k];
		c->share = seen.share[k];
		c->gradient = seen.g[k];
		ctx->world->compute(ctx, c);
	}
	if (seen.cancel_at)
		tw_timer(ctx, 0, seen.cancel_at);
}

static void cancels_one(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	(void)a, (void)timer;
	ctx->world->cancel(ctx, &seen.c[seen.cancel]);
}

static void notes_when(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	const size_t k = (size_t)(c - seen.c);

	(void)a;
	seen.at[k] = tw_now(ctx);
	seen.status[k] = c->status;
	if (++seen.done == seen.wanted)
		fake_send(ctx, fake_addr(0, TW_MASTER, 0), TW_DONE, 0, 0);
}

static void ends(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	(void)a, (void)m;
	fake_finish(ctx);
}

static void run(uint32_t law)
{
	static const struct fake master = { .message = ends };
	static const struct fake worker = { .start = asks_at_once,
					    .timer = cancels_one,
					    .computed = notes_when };
	struct stage st;

	seen.done = 0;
	stage_init(&st, &tw_heap_system, 0, 1, &master, NULL, &worker);
	st.o.law = law;
	assert_int_equal(stage_run(&st), TW_OK);
	stage_release(&st);
	assert_int_equal(seen.done, seen.wanted);
}

static void want(size_t count)
{
	memset(&seen, 0, sizeof seen);
	seen.wanted = count;
	for (size_t k = 0; k < count; k++)
		seen.from[k] = 4 * k;
}

static void what_one_node_computes_adds_up(void **state)
{
	(void)state;
	want(3);
	run(TW_LAW_CONSTANT);
	for (int k = 0; k < 3; k++)
		assert_int_equal(seen.at[k], (k + 1) * STEP);
}

static void a_share_of_the_work_takes_its_share_of_the_time(void **state)
{
	(void)state;
	want(3);
	seen.share[0] = 0.25;
	seen.share[2] = 2.0;
	run(TW_LAW_CONSTANT);
	assert_int_equal(seen.at[0], STEP / 4);
	assert_int_equal(seen.at[1], STEP / 4 + STEP);
	assert_int_equal(seen.at[2], STEP / 4 + STEP + 2 * STEP);
}

static void evaluations_neither_wait_nor_make_wait(void **state)
{
	(void)state;
	want(3);
	seen.evaluates[1] = true;
	run(TW_LAW_CONSTANT);
	assert_int_equal(seen.at[0], STEP);
	assert_int_equal(seen.at[1], 0);
	assert_int_equal(seen.at[2], 2 * STEP);
}

/* Cancelled: the one that runs, one in the middle of the line, the last. */
static void cancelling_frees_the_device_at_once(void **state)
{
	static const int64_t ends_at[3][3] = { { 30, 130, 230 },
					       { 100, 30, 200 },
					       { 100, 200, 30 } };

	(void)state;
	for (size_t which = 0; which < 3; which++) {
		want(3);
		seen.cancel = which;
		seen.cancel_at = 30 * MS;
		run(TW_LAW_CONSTANT);
		for (size_t k = 0; k < 3; k++) {
			assert_int_equal(seen.at[k], ends_at[which][k] * MS);
			assert_int_equal(seen.status[k], k == which ? TW_CANCELLED : TW_OK);
		}
	}
}

/* Pass 0 costs what it cost before there were passes; the same pass the same, another another. */
static void a_cost_is_drawn_for_the_pass(void **state)
{
	int64_t alone, first[2], second[2], again[2];

	(void)state;
	want(1);
	run(TW_LAW_EXPONENTIAL);
	alone = seen.at[0];
	for (uint32_t pass = 1; pass <= 2; pass++) {
		want(3);
		seen.from[1] = seen.from[2] = 0;
		seen.pass[1] = pass;
		seen.pass[2] = pass;
		run(TW_LAW_EXPONENTIAL);
		first[pass - 1] = seen.at[0];
		second[pass - 1] = seen.at[1] - seen.at[0];
		again[pass - 1] = seen.at[2] - seen.at[1];
		assert_int_equal(first[pass - 1], alone);
		assert_int_equal(second[pass - 1], again[pass - 1]);
		assert_int_not_equal(second[pass - 1], alone);
	}
	assert_int_not_equal(second[0], second[1]);
}

/* --- workers and workers ---------------------------------------------------------------------- */

static size_t heard, down[8];

static void talks_to_next(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	if (ctx->self.node == 1)
		fake_send(ctx, fake_addr(2, TW_WORKER, 0), TW_PUSH, 1, 8);
	if (ctx->self.node == 3) /* so that there is something left to happen */
		tw_timer(ctx, 0, 10 * TW_SECOND);
}

static void hears(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	(void)a, (void)ctx;
	heard += m->from.role == TW_WORKER;
}

static void hears_of_loss(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	(void)a;
	down[ctx->self.node] = node;
}

static void says_done(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	(void)a, (void)timer;
	fake_send(ctx, fake_addr(0, TW_MASTER, 0), TW_DONE, 0, 0);
}

static void workers_reach_workers_and_hear_of_their_loss(void **state)
{
	static const struct fake master = { .message = ends };
	static const struct fake worker = {
		.start = talks_to_next, .message = hears, .timer = says_done, .down = hears_of_loss
	};
	struct stage st;

	(void)state;
	heard = 0;
	memset(down, 0, sizeof down);
	stage_init(&st, &tw_heap_system, 0, 3, &master, NULL, &worker);
	st.fault[0] =
		(struct tw_fault){ .kind = TW_FAULT_CRASH, .a = 2, .at = TW_SECOND, .lasts = -1 };
	st.faults = 1;
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(heard, 1);
	assert_int_equal(down[1], 2); /* they had talked */
	assert_int_equal(down[3], 0); /* these had not */
	stage_release(&st);
}

/* --- threads ---------------------------------------------------------------------------------- */

static void masters_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	(void)a;
	assert_int_equal(c->status, TW_OK);
	fake_finish(ctx);
}

static void masters_start(struct tw_actor *a, struct tw_context *ctx)
{
	fake_compute(a, ctx, 0, 4);
}

/* In threads whoever has `computed` can compute, whatever its role. */
static void any_role_may_compute(void **state)
{
	static const struct fake master = { .start = masters_start, .computed = masters_computed };
	struct stage st;
	struct tw_ran ran;

	(void)state;
	stage_init(&st, &tw_heap_system, 0, 0, &master, NULL, NULL);
	assert_int_equal(tw_threads_run(&st.cluster, NULL, &ran), TW_OK);
	stage_release(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_node_computes_adds_up),
		cmocka_unit_test(a_share_of_the_work_takes_its_share_of_the_time),
		cmocka_unit_test(evaluations_neither_wait_nor_make_wait),
		cmocka_unit_test(cancelling_frees_the_device_at_once),
		cmocka_unit_test(a_cost_is_drawn_for_the_pass),
		cmocka_unit_test(workers_reach_workers_and_hear_of_their_loss),
		cmocka_unit_test(any_role_may_compute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
