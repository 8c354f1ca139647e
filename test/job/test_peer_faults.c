/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer_faults.c - some of the runs that test_full_peer_faults.c makes by the ten thousand. */
#include "job/peer_faults.h"
#include "job/trial.h"
#include "node/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static void peers_at_some_events(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_kills(29), 0);
	assert_int_equal(peer_faults_pairs(31), 0);
}

static void some_seeds(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_seeds(1, 200), 0);
	/* a drained cut ends a generation in which replicas take the mean of their views */
	assert_int_equal(peer_faults_seeds(4933, 1), 0);
	assert_int_equal(peer_faults_leaves(1, 200), 0);
}

static void bad_numbers_anywhere(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_numbers(5), 0);
}

/* --- a replica that is not like the others ---------------------------------------------------- */

static uint32_t told, spoiled;

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	(void)arg, (void)level, (void)who;
	told += strstr(line, "the parameters of worker 2 are not those of worker 0") != NULL;
}

/* A bit of the memory of one peer flips; the next version may be made already. */
static void spoils(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;

	if (m->h.type == TW_PIN && ctx->self.node == 3 && s->hosted && !spoiled) {
		tw_block_floats(s->slice.w)[0] += 0.25f;
		if (s->slice.next.w)
			tw_block_floats(s->slice.next.w)[0] += 0.25f;
		spoiled++;
	}
	tw_shard_class.message(a, ctx, m);
}

static void a_replica_that_differs_is_found_and_copied(void **state)
{
	const struct tw_log log = { log_line, NULL, TW_DEBUG };
	struct tw_actor_class bad = tw_shard_class;
	struct tw_ran ran;
	struct trial t;

	(void)state;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 13, noise: 0.1}}\n"
		   "data: {source: none, samples: 64, batch: 2}\n"
		   "train: {epochs: 4, seed: 3, evaluate: 1}\nupdate: {rate: 0.01}\n"
		   "cluster: {workers: 4}\nstrategy: {gate: bsp, topology: ring}\n"
		   "sim: {compute: {law: exponential, mean: 100ms}, latency: 5ms}\n");
	bad.message = spoils;
	for (size_t k = 0; k < t.cast.seats; k++)
		if (t.cast.seat[k].class == &tw_shard_class)
			t.cast.seat[k].class = &bad;
	t.log = &log;
	told = spoiled = 0;
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	assert_int_equal(ran.totals.status, TW_OK);
	assert_int_equal(spoiled, 1);
	assert_int_equal(told, 1); /* and it is like the others when it has joined again */
	assert_int_equal(ran.totals.samples, 256);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers_at_some_events),
		cmocka_unit_test(some_seeds),
		cmocka_unit_test(bad_numbers_anywhere),
		cmocka_unit_test(a_replica_that_differs_is_found_and_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
