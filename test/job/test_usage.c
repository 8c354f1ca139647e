/* SPDX-License-Identifier: Apache-2.0 */
/* test_usage.c - where the simulator says that the time of workers goes, against closed forms; and
 * where threads say so, against a clock outside. */
#include "job/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define JOB                                                                                        \
	"model: {quadratic: {dimension: 1000}}\n"                                                  \
	"data: {source: none, samples: 240, batch: 1}\n"                                           \
	"train: {epochs: 1, seed: 3}\ncluster: {workers: %u}\nstrategy: %s\n"                      \
	"checkpoint: {every: 0s}\n"                                                                \
	"sim: {compute: {mean: 100ms}, %s}\n"

static struct tw_ran run(uint32_t workers, const char *strategy, const char *sim)
{
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM, JOB, workers, strategy, sim);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return ran;
}

static void near(double a, double b, double by)
{
	if (!(fabs(a - b) <= by))
		fail_msg("%.9g is not %.9g", a, b);
}

/* Every moment of every worker counts once. */
static void whole(const struct tw_ran *ran)
{
	const double length = (double)ran->virtual_ns / 1e9;

	for (uint32_t w = 0; w < ran->usage.workers && w < TW_USE_WORKERS; w++) {
		const double *spent = ran->usage.worker[w];

		near(spent[0] + spent[1] + spent[2], length, 1e-9);
	}
	near(ran->usage.all[0] + ran->usage.all[1] + ran->usage.all[2], length * ran->usage.workers,
	     1e-6);
}

static void a_lone_worker_on_free_links_only_computes(void **state)
{
	const struct tw_ran ran = run(1, "ssgd", "latency: 0s, bandwidth: 0bit/s");

	(void)state;
	whole(&ran);
	assert_int_equal(ran.usage.workers, 1);
	near(ran.usage.all[TW_USE_COMPUTING], 24, 1e-9);
	near(ran.usage.all[TW_USE_WAITING] + ran.usage.all[TW_USE_TRANSFERRING], 0, 1e-9);
}

/* Rounds last as long as the slow worker computes: the others compute a quarter of the time. */
static void rounds_wait_for_the_straggler(void **state)
{
	const struct tw_ran ran =
		run(4, "ssgd", "latency: 0s, bandwidth: 0bit/s, stragglers: {count: 1, slower: 4}");

	(void)state;
	whole(&ran);
	near((double)ran.virtual_ns / 1e9, 24, 1e-6);
	for (uint32_t w = 0; w < 4; w++)
		near(ran.usage.worker[w][TW_USE_COMPUTING], w == 3 ? 24 : 6, 1e-6);
}

/* A step is 100 ms of computing, then a push and its answer: twice 10 ms of latency. */
static void latency_is_transfer(void **state)
{
	const struct tw_ran ran = run(1, "asgd", "latency: 10ms, bandwidth: 0bit/s");

	(void)state;
	whole(&ran);
	near(ran.usage.all[TW_USE_COMPUTING], 24, 1e-9);
	near(ran.usage.all[TW_USE_TRANSFERRING], 240 * 0.02, 0.1);
	near(ran.usage.all[TW_USE_WAITING], 0, 0.1); /* while the cluster forms */
}

/* What passes servers is all but what the master says and hears. */
static void links_of_servers_carry_what_was_sent(void **state)
{
	static const char *const sims[] = { "latency: 1ms, bandwidth: 1Gbit/s",
					    "latency: 1ms, bandwidth: 1Gbit/s, save_time: 5s" };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		const struct tw_ran ran = run(4, "asgd", sims[k]);
		uint64_t received = 0, sent = 0, most = 0;

		for (size_t i = 0; i < TW_LOAD_BINS; i++) {
			received += ran.load.received[i];
			sent += ran.load.sent[i];
			most = ran.load.received[i] ? i : most;
		}
		/* 240 gradients of 1,000 floats up, at least as many vectors down */
		assert_true(received > 240 * 4000 && sent > 240 * 4000);
		assert_true(received + sent < ran.bytes_sent);
		assert_true((int64_t)most * ran.load.width <= ran.virtual_ns);
		assert_true(ran.load.width * TW_LOAD_BINS > ran.virtual_ns);
	}
}

static void workers_without_servers_have_no_server_link(void **state)
{
	const struct tw_ran ran = run(4, "ring", "latency: 1ms");

	(void)state;
	whole(&ran);
	assert_int_equal(ran.load.width, 0);
	assert_true(ran.usage.all[TW_USE_TRANSFERRING] > 0);
}

/* Crashes, partitions and lost messages leave no message on its way for ever. */
static void faults_keep_the_books_whole(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 30; seed++) {
		char sim[300];
		struct tw_ran ran;

		snprintf(sim, sizeof sim,
			 "loss: 0.05, jitter: 5ms, random: {crashes: 2, partitions: 2, resets: 2, "
			 "seed: %u, span: 5s}",
			 seed);
		ran = run(5, seed % 2 ? "asgd" : "ssgd", sim);
		whole(&ran);
	}
}

/* One sample of four takes five times as long: where none is dropped, the mean factor is 2. */
static void the_effort_of_applied_samples_is_told(void **state)
{
	struct tw_ran ran;
	struct trial t;

	(void)state;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 5}}\n"
		   "data: {source: none, samples: 40, batch: 2}\n"
		   "train: {epochs: 3, seed: 3}\ncluster: {workers: 4}\nstrategy: %s\n"
		   "sim: {compute: {by_sample: [1, 1, 1, 5]}}\n",
		   "ssgd");
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	tw_totals_release(&ran.totals);
	trial_close(&t);
	assert_int_equal(ran.applied.samples, 120);
	near(ran.applied.effort / 120, 2, 1e-9);
}

/* --- threads --- */

#define NAP 0.002 /* seconds of each gradient, at least */

static const struct tw_engine_class *quick;

static enum tw_status nap_then_compute(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, float *gradient,
				       struct tw_score *score)
{
	const struct timespec nap = { .tv_nsec = (long)(NAP * 1e9) };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	return quick->gradient(e, scratch, in, gradient, score);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Every moment counts once, so a worker's three parts are no longer than the run; 30 of the 60
 * gradients are each worker's, because rounds deal them evenly, and they are the computing. */
static void threads_tell_computing_from_waiting(void **state)
{
	struct tw_engine_class slow;
	struct tw_ran ran;
	struct trial t;
	double took;

	(void)state;
	trial_open(
		&t, TW_WORLD_THREADS,
		"model: {quadratic: {dimension: 5}}\ndata: {source: none, samples: 60, batch: 1}\n"
		"train: {epochs: 1, seed: 3, evaluate: 0}\ncluster: {workers: 2}\n"
		"strategy: %s\n",
		"ssgd");
	quick = t.engine->class;
	slow = *quick;
	slow.gradient = nap_then_compute;
	t.engine->class = &slow;
	took = seconds_now();
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	took = seconds_now() - took;
	t.engine->class = quick;
	tw_totals_release(&ran.totals);
	trial_close(&t);
	assert_int_equal(ran.usage.workers, 2);
	for (uint32_t w = 0; w < 2; w++) {
		const double *spent = ran.usage.worker[w];

		assert_true(spent[TW_USE_COMPUTING] >= 30 * NAP);
		assert_true(spent[TW_USE_TRANSFERRING] > 0 && spent[TW_USE_WAITING] > 0);
		assert_true(spent[0] + spent[1] + spent[2] <= took);
	}
	for (size_t use = 0; use < TW_USES; use++)
		near(ran.usage.all[use], ran.usage.worker[0][use] + ran.usage.worker[1][use], 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lone_worker_on_free_links_only_computes),
		cmocka_unit_test(rounds_wait_for_the_straggler),
		cmocka_unit_test(latency_is_transfer),
		cmocka_unit_test(links_of_servers_carry_what_was_sent),
		cmocka_unit_test(workers_without_servers_have_no_server_link),
		cmocka_unit_test(faults_keep_the_books_whole),
		cmocka_unit_test(the_effort_of_applied_samples_is_told),
		cmocka_unit_test(threads_tell_computing_from_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
