/* SPDX-License-Identifier: Apache-2.0 */
/* test_lost_message.c - one message of one worker is swallowed, and everybody goes on answering:
 * the run ends all the same.  Every strategy, every kind of message, the first and later ones. */
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define STUCK 3 /* seconds */

/* The message that is lost: the nth of its type to or from that node, over a link. */
static struct {
	uint32_t node, type, nth;
	uint32_t seen[TW_TYPES];
	uint32_t removed;
	char line[200];
} lost;

static bool swallows(const struct tw_context *ctx, const struct tw_msg *m)
{
	if (m->from.node == ctx->self.node ||
	    (m->from.node != lost.node && ctx->self.node != lost.node))
		return false;
	lost.seen[m->h.type]++;
	return m->h.type == lost.type && lost.seen[m->h.type] == lost.nth;
}

static void to_master(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (!swallows(ctx, m))
		tw_master_class.message(a, ctx, m);
}

static void to_server(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (!swallows(ctx, m))
		tw_server_class.message(a, ctx, m);
}

static void to_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (!swallows(ctx, m))
		tw_shard_class.message(a, ctx, m);
}

static void to_worker(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (!swallows(ctx, m))
		tw_worker_class.message(a, ctx, m);
}

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	(void)arg, (void)level, (void)who;
	if (!strstr(line, "is removed: it answers"))
		return;
	lost.removed++;
	snprintf(lost.line, sizeof lost.line, "%s", line);
}

static enum tw_status run(const char *strategy, const char *cluster, struct tw_ran *ran)
{
	const struct tw_log log = { log_line, NULL, TW_DEBUG };
	struct tw_actor_class class[TW_ROLES] = {
		[TW_MASTER] = tw_master_class,
		[TW_SERVER] = tw_server_class,
		[TW_SHARD] = tw_shard_class,
		[TW_WORKER] = tw_worker_class,
	};
	struct trial t = { 0 };
	enum tw_status st;

	class[TW_MASTER].message = to_master;
	class[TW_SERVER].message = to_server;
	class[TW_SHARD].message = to_shard;
	class[TW_WORKER].message = to_worker;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 24, stages: 3}}\n"
		   "data: {source: none, samples: 48, batch: 2}\n"
		   "train: {epochs: 3, evaluate: 1}\n"
		   "%s"
		   "cluster: {min: 1, wait: 5s, stuck: %ds, %s}\n"
		   "strategy: %s\n"
		   "checkpoint: {every: 700ms}\n"
		   "sim: {latency: 1ms, compute: {mean: 100ms}}\n",
		   strcmp(strategy, "sandblaster") ? "update: {rate: 0.001}\n" : "", STUCK, cluster,
		   strategy);
	lost.node = 0;
	for (size_t k = 0; k < t.cast.seats; k++) {
		struct tw_seat *s = &t.cast.seat[k];

		if (s->addr.role == TW_WORKER && s->addr.node > lost.node)
			lost.node = s->addr.node;
		s->class = &class[s->addr.role];
	}
	t.log = &log;
	memset(lost.seen, 0, sizeof lost.seen);
	lost.removed = 0;
	st = trial_run(&t, &tw_heap_system, NULL, ran);
	tw_totals_release(&ran->totals);
	trial_close(&t);
	return st;
}

static uint32_t runs, removals;

/* It ends, soon after the time in which somebody who does nothing is removed. */
static int try_one(const char *strategy, const char *cluster, uint32_t type, uint32_t nth,
		   int64_t undisturbed)
{
	/* one who is not welcome waits for cluster.wait; others may go one after the other */
	const int64_t most = 4 * undisturbed + (3 * STUCK + 15 + 5) * TW_SECOND;
	struct tw_ran ran;
	enum tw_status st;

	lost.type = type;
	lost.nth = nth;
	st = run(strategy, cluster, &ran);
	runs++;
	removals += lost.removed != 0;
	/* where its only worker is gone, a run stops at its checkpoint */
	if ((st == TW_OK || (st == TW_INTERRUPTED && strstr(cluster, "workers: 1"))) &&
	    ran.virtual_ns <= most && lost.removed <= 2)
		return 0;
	print_error("%s, {%s}: %s number %u: status %d after %.1f s (%.1f s undisturbed), "
		    "%u removed (%s): %s\n",
		    strategy, cluster, tw_type_name(type), nth, (int)st,
		    (double)ran.virtual_ns / 1e9, (double)undisturbed / 1e9, lost.removed,
		    lost.line, ran.error.text);
	return 1;
}

static int try_all(const char *strategy, const char *cluster)
{
	static const uint32_t nth[] = { 1, 2, 3, 5, 8, 13, 21 };
	uint32_t seen[TW_TYPES];
	struct tw_ran ran;
	int failed = 0;

	lost.nth = 0;
	if (run(strategy, cluster, &ran) != TW_OK || lost.removed) {
		print_error("%s, {%s}: undisturbed: %s\n", strategy, cluster, ran.error.text);
		return 1;
	}
	memcpy(seen, lost.seen, sizeof seen);
	for (uint32_t type = 1; type < TW_GREET; type++)
		for (size_t k = 0; k < sizeof nth / sizeof nth[0]; k++)
			if (nth[k] <= seen[type])
				failed += try_one(strategy, cluster, type, nth[k], ran.virtual_ns);
	return failed;
}

static void with_servers(void **state)
{
	int failed = 0;

	(void)state;
	for (size_t k = 0; trial_preset(TW_WORLD_SIM, k); k++) {
		const char *name = trial_preset(TW_WORLD_SIM, k);
		const bool stages = strstr(name, "pipe");

		failed += try_all(name, stages ? "workers: 2, servers: 2, stages: 3"
					       : "workers: 3, servers: 2, shards: 3");
	}
	failed += try_all("sandblaster", "workers: 3, servers: 2, shards: 3");
	print_message("%u runs, somebody was removed in %u of them\n", runs, removals);
	assert_int_equal(failed, 0);
}

static void without_servers(void **state)
{
	static const char *const strategy[] = { "ring",   "tree",   "allreduce",
						"d-psgd", "gossip", "strom" };
	int failed = 0;

	(void)state;
	for (size_t k = 0; k < sizeof strategy / sizeof strategy[0]; k++)
		failed += try_all(strategy[k], "workers: 4, shards: 2");
	print_message("%u runs, somebody was removed in %u of them\n", runs, removals);
	assert_int_equal(failed, 0);
}

static void where_stages_hold_shards(void **state)
{
	static const char *const strategy[] = { "gpipe", "pipedream-flush", "pipedream",
						"pipedream-2bw" };
	int failed = 0;

	(void)state;
	for (size_t k = 0; k < sizeof strategy / sizeof strategy[0]; k++)
		failed += try_all(strategy[k], "workers: 1, stages: 3, place: with-stage");
	print_message("%u runs, somebody was removed in %u of them\n", runs, removals);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_servers),
		cmocka_unit_test(without_servers),
		cmocka_unit_test(where_stages_hold_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
