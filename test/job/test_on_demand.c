/* SPDX-License-Identifier: Apache-2.0 */
/* test_on_demand.c - data.placement: on-demand: samples that are sent to workers are those that
 * they would have read, in the same order, with and without faults; and they come in time. */
#include "faultrun.h"
#include "job/serial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define NETWORK                                                                                    \
	"model: {name: mlp, hidden: [9]}\n"                                                        \
	"train: {epochs: 2, seed: 4}\n"                                                            \
	"cluster: {workers: 3}\n"

/* Under rounds, and with one worker, nothing depends on who is quick. */
static const char *const jobs[] = {
	NETWORK "data: {source: digits, count: 130, tests: 20, batch: 8%s}\nstrategy: ssgd\n",
	NETWORK "data: {source: digits, count: 130, tests: 20, batch: 8, shift: 2, noise: 0.1, "
		"class_weights: balanced%s}\nstrategy: {name: averaging, push: 2}\n",
	NETWORK "data: {source: digits, count: 130, tests: 20, global_batch: 31%s}\n"
		"strategy: {name: ssgd, topology: allreduce}\n",
	NETWORK "data: {source: digits, count: 130, tests: 20, batch: 4, deal: blocks%s}\n"
		"strategy: {name: local-sgd, push: 3}\n",
	NETWORK "data: {source: digits, count: 130, tests: 20, batch: 4, accumulate: 2, "
		"shuffle: {block: 13}%s}\nstrategy: ssgd\n",
	NETWORK "data: {source: digits, count: 130, tests: 20, batch: 8, predict: input, noise: "
		"0.2%s}\nloss: mean-squared\nstrategy: {name: bmuf, push: 2}\n",
	NETWORK "data: {source: digits, count: 130, tests: 20%s}\n"
		"strategy: sandblaster\noptimiser: {portion: 20}\n",
};

static void same(const char *job, enum tw_world_kind world, const char *how)
{
	struct outcome here, sent;
	char text[2][2048];

	snprintf(text[0], sizeof text[0], job, "");
	snprintf(text[1], sizeof text[1], job, how);
	outcome_open(&here, text[0], NULL, TW_WORLD_SIM);
	outcome_run(&here, &(const struct watch){ 0 });
	outcome_open(&sent, text[1], NULL, world);
	outcome_run(&sent, &(const struct watch){ 0 });
	if (strcmp(here.digest, sent.digest) != 0)
		fail_msg("other parameters: %s", text[1]);
	assert_int_equal(here.ran.totals.sent_samples, 0);
	assert_true(sent.ran.totals.sent_samples >= sent.ran.totals.samples);
	/* a picture of 28 x 28 and its label; more than is asked for in vain is lost */
	assert_true(sent.ran.totals.sent_bytes >= sent.ran.totals.samples * (784 + 4));
	outcome_close(&sent);
	outcome_close(&here);
}

static void the_same_order(void **state)
{
	for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
		same(jobs[k], TW_WORLD_SIM, ", placement: on-demand");
		same(jobs[k], TW_WORLD_SIM, ", placement: on-demand, ahead: 1");
		same(jobs[k], TW_WORLD_THREADS, ", placement: on-demand, ahead: 16");
	}
}

/* Each sample is sent once, if nobody is lost and leases follow each other. */
static void each_is_sent_once(void **state)
{
	struct outcome o;

	outcome_of(&o, TW_WORLD_SIM,
		   NETWORK "data: {source: digits, count: 240, tests: 20, batch: 8, placement: "
			   "on-demand}\nstrategy: asgd\n");
	assert_int_equal(o.ran.totals.sent_samples, 480);
	assert_int_equal(o.ran.totals.samples, 480);
	outcome_close(&o);
}

/* The quadratic compares what it is given with what it asked for (engine/quadratic.c). */
static void faults(void **state)
{
	static const char *const presets[] = { "ssgd",
					       "asgd",
					       "backup",
					       "{name: ssp, lead: 2}",
					       "{name: averaging, push: 2}",
					       "{name: downpour, push: 2, fetch: 2}",
					       NULL };

	faultrun_on_demand = true;
	assert_int_equal(faultrun_kills(presets, 211), 0);
	assert_int_equal(faultrun_seeds(presets, 1, 6), 0);
	assert_int_equal(faultrun_masters(presets, 1, 4), 0);
	assert_int_equal(faultrun_leaves(presets, 1, 3), 0);
	faultrun_on_demand = false;
}

/* How long a run takes whose messages are on their way for 4 ms, and whose steps take 10 ms. */
static int64_t lasts(const char *strategy, const char *placement)
{
	struct outcome o;
	int64_t lasted;

	outcome_of(&o, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 100}}\n"
		   "data: {source: none, samples: 4000, batch: 20%s}\n"
		   "train: {epochs: 1}\nupdate: {rate: 0.01}\ncluster: {workers: 2}\n"
		   "strategy: %s\n"
		   "sim: {compute: {law: constant, mean: 10ms}, latency: 4ms}\n",
		   placement, strategy);
	lasted = o.ran.virtual_ns;
	outcome_close(&o);
	return lasted;
}

/* Samples that are asked for early cost no time. */
static void samples_come_in_time(void **state)
{
	static const char *const strategies[] = { "{name: asgd, overlap: true, fetch: 2}", "asgd",
						  "ssgd", "{name: averaging, push: 4}" };

	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		const double all = (double)lasts(strategies[k], "");

		assert_true((double)lasts(strategies[k], ", placement: on-demand") < 1.02 * all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_order),
		cmocka_unit_test(each_is_sent_once),
		cmocka_unit_test(faults),
		cmocka_unit_test(samples_come_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
