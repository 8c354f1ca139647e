/* SPDX-License-Identifier: Apache-2.0 */
/* test_stuck.c - a worker that answers but does not work is named and removed; one that is only
 * slow is not. */
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct {
	uint32_t node;  /* whose computations hang ... */
	uint64_t after; /* ... after so many */
	uint64_t computed;
	uint32_t removed; /* lines that name a worker without progress */
	char line[300];
} hangs;

/* Its world goes on, its computation does not. */
static void hang(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	if (ctx->self.node == hangs.node && ++hangs.computed > hangs.after)
		return;
	tw_worker_class.computed(a, ctx, c);
}

/* --- one that keeps its pieces of a sum ------------------------------------------------------- */

static struct {
	uint32_t node;   /* who; 0: nobody */
	uint32_t victim; /* from whom; 0: from all */
	uint64_t round;  /* from this one on */
	bool lies;       /* ... and says that it waits for another one */
} keeper;
static const struct tw_world *under;

static void send_some(struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_REDUCE && m->b.reduce.round >= keeper.round &&
	    (!keeper.victim || m->to.node == keeper.victim)) {
		under->msg_free(ctx, m);
		return;
	}
	if (keeper.lies && m->h.type == TW_HAVE && (m->h.flags & TW_FLAG_HELD))
		m->b.have.slot = m->b.have.steps = 0;
	under->send(ctx, m);
}

static void keep_pieces(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_world filtered = *ctx->world;

	if (ctx->self.node != keeper.node) {
		tw_shard_class.message(a, ctx, m);
		return;
	}
	under = ctx->world;
	filtered.send = send_some;
	ctx->world = &filtered;
	tw_shard_class.message(a, ctx, m);
	ctx->world = under;
}

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	(void)arg, (void)level, (void)who;
	if (!strstr(line, "made no progress for") || strstr(line, "so long that"))
		return;
	hangs.removed++;
	snprintf(hangs.line, sizeof hangs.line, "%s", line);
}

static enum tw_status run(const char *strategy, const char *cluster, const char *sim,
			  struct tw_ran *ran)
{
	const struct tw_log log = { log_line, NULL, TW_DEBUG };
	struct tw_actor_class class = tw_worker_class, keeps = tw_shard_class;
	struct trial t = { 0 };
	enum tw_status st;

	class.computed = hang;
	keeps.message = keep_pieces;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 7}}\n"
		   "data: {source: none, samples: 96, batch: 2}\n"
		   "train: {epochs: 3, evaluate: 0}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: 3, shards: 2, %s%s}\n"
		   "strategy: %s\n"
		   "sim: {latency: 1ms, %s}\n",
		   strstr(strategy, "topology") ? "" : "servers: 1, ", cluster, strategy, sim);
	for (size_t k = 0; k < t.cast.seats; k++)
		if (t.cast.seat[k].addr.role == TW_WORKER)
			t.cast.seat[k].class = &class;
		else if (t.cast.seat[k].addr.role == TW_SHARD)
			t.cast.seat[k].class = &keeps;
	t.log = &log;
	hangs.computed = hangs.removed = 0;
	st = trial_run(&t, &tw_heap_system, NULL, ran);
	tw_totals_release(&ran->totals);
	trial_close(&t);
	return st;
}

/* The run goes on without it, and every sample is done by the others. */
static void check_removed(const char *strategy, uint64_t after)
{
	struct tw_ran ran;

	hangs.node = 3;
	hangs.after = after;
	assert_int_equal(run(strategy, "stuck: 3s", "compute: {mean: 100ms}", &ran), TW_OK);
	assert_int_equal(hangs.removed, 1);
	assert_non_null(strstr(hangs.line, "worker 1 "));
	assert_true(ran.totals.samples >= 96 * 3);
	assert_true(ran.virtual_ns < 40 * TW_SECOND);
}

static void under_rounds(void **state)
{
	(void)state;
	for (uint64_t after = 0; after < 40; after += 3)
		check_removed("ssgd", after);
}

/* Replicas tell of a sum only when they have it: they are asked for whom they wait. */
static const char *const without_server[] = {
	"{gate: bsp, topology: ring}",
	"{gate: bsp, topology: tree}",
	"{gate: bsp, topology: direct}",
	"{gate: bsp, topology: direct, codec: {up: topk, up_share: 0.3}}",
	"{gate: bsp, topology: neighbours}",
};
#define WITHOUT_SERVER (sizeof without_server / sizeof without_server[0])

static void without_a_server(void **state)
{
	struct tw_ran ran;

	(void)state;
	for (size_t k = 0; k < WITHOUT_SERVER; k++)
		for (uint64_t after = 0; after < 16; after += 3) {
			hangs.node = 2;
			hangs.after = after;
			assert_int_equal(
				run(without_server[k], "stuck: 3s", "compute: {mean: 100ms}", &ran),
				TW_OK);
			assert_int_equal(hangs.removed, 1);
			assert_non_null(strstr(hangs.line, "worker 1 "));
			assert_true(ran.totals.samples >= 96 * 3);
			assert_true(ran.virtual_ns < 60 * TW_SECOND);
		}
	/* one that is slow stays */
	hangs.node = 0;
	for (size_t k = 0; k < WITHOUT_SERVER; k++) {
		assert_int_equal(run(without_server[k], "stuck: 100ms",
				     "compute: {mean: 100ms}, stragglers: {count: 1, slower: 8}",
				     &ran),
				 TW_OK);
		assert_int_equal(hangs.removed, 0);
	}
}

/* A replica computes and tells of its sums, but sends nobody a piece, or not one of them; it may
 * blame another one.  It is removed, and in the end the others finish. */
static void one_that_sends_no_piece_is_removed(void **state)
{
	uint32_t stalled = 0;
	struct tw_ran ran;

	(void)state;
	hangs.node = 0;
	for (size_t k = 0; k < WITHOUT_SERVER; k++)
		for (uint32_t how = 0; how < 4; how++) {
			keeper.node = 2;
			keeper.victim = how % 2 ? 3 : 0;
			keeper.lies = how / 2;
			keeper.round = 3;
			assert_int_equal(
				run(without_server[k], "stuck: 3s", "compute: {mean: 100ms}", &ran),
				TW_OK);
			/* not all send each other something */
			if (ran.virtual_ns > 6 * TW_SECOND)
				assert_in_range(hangs.removed, 1, 2);
			stalled += hangs.removed > 0;
			assert_true(ran.totals.samples >= 96 * 3);
			assert_true(ran.virtual_ns < 80 * TW_SECOND);
		}
	keeper.node = 0;
	assert_true(stalled >= 4 * WITHOUT_SERVER - 2);
}

static void at_the_end_of_a_run(void **state)
{
	(void)state;
	for (uint64_t after = 1; after < 40; after += 3)
		check_removed("asgd", after);
}

/* Without the limit, which is the simulator's default, the run waits and says for whom. */
static void not_where_it_is_off(void **state)
{
	struct tw_ran ran;

	(void)state;
	hangs.node = 3;
	hangs.after = 4;
	assert_int_equal(run("ssgd", "wait: 5s", "compute: {mean: 100ms}", &ran), TW_REFUSED);
	assert_non_null(strstr(ran.error.text, "worker 1: its contribution"));
	assert_int_equal(hangs.removed, 0);
}

/* Ten times what others take, however short the limit is. */
static void one_that_is_slow_stays(void **state)
{
	struct tw_ran ran;

	(void)state;
	hangs.node = 0;
	assert_int_equal(run("ssgd", "stuck: 100ms",
			     "compute: {mean: 100ms}, stragglers: {count: 1, slower: 8}", &ran),
			 TW_OK);
	assert_int_equal(hangs.removed, 0);
	assert_int_equal(run("asgd", "stuck: 100ms",
			     "compute: {mean: 100ms}, stragglers: {count: 1, slower: 8}", &ran),
			 TW_OK);
	assert_int_equal(hangs.removed, 0);
}

/* Only the shards see who holds up whom where a gate holds answers: they are asked. */
static void under_ssp(void **state)
{
	struct tw_ran ran;

	(void)state;
	for (uint64_t after = 0; after < 40; after += 3)
		check_removed("{name: ssp, lead: 1}", after);
	hangs.node = 0;
	assert_int_equal(run("{name: ssp, lead: 1}", "stuck: 100ms",
			     "compute: {mean: 100ms}, stragglers: {count: 1, slower: 8}", &ran),
			 TW_OK);
	assert_int_equal(hangs.removed, 0);
	/* ten times as slow as the others, and longer than the limit: as good as stuck */
	assert_int_equal(run("{name: ssp, lead: 1}", "stuck: 1s",
			     "compute: {mean: 100ms}, stragglers: {count: 1, slower: 100}", &ran),
			 TW_OK);
	assert_int_equal(hangs.removed, 1);
}

/* Looking costs no more than a thousand looks a second. */
static void a_short_limit_is_bearable(void **state)
{
	struct tw_ran ran;

	(void)state;
	hangs.node = 0;
	assert_int_equal(run("ssgd", "stuck: 1ns", "compute: {mean: 100ms}", &ran), TW_OK);
	assert_int_equal(hangs.removed, 0);
}

/* A first step may take any time as long as nobody else has finished one. */
static void so_does_one_alone(void **state)
{
	struct tw_ran ran;

	(void)state;
	hangs.node = 0;
	assert_int_equal(run("ssgd", "stuck: 1s, min: 1", "compute: {mean: 30s}", &ran), TW_OK);
	assert_int_equal(hangs.removed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(under_rounds),
		cmocka_unit_test(without_a_server),
		cmocka_unit_test(one_that_sends_no_piece_is_removed),
		cmocka_unit_test(at_the_end_of_a_run),
		cmocka_unit_test(not_where_it_is_off),
		cmocka_unit_test(one_that_is_slow_stays),
		cmocka_unit_test(so_does_one_alone),
		cmocka_unit_test(under_ssp),
		cmocka_unit_test(a_short_limit_is_bearable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
