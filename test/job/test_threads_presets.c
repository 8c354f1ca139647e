/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads_presets.c - every preset in threads: all samples, a falling loss, nothing lost. */
/* labels: threads */
#include "job/reading.h"
#include "job/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define SAMPLES 300
#define EPOCHS  3
#define START   5.5 /* about the loss of the initial parameters: 20 / 2 * mean curvature */

static void train(const char *preset, int servers)
{
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_THREADS,
		   "model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.05}}\n"
		   "data: {source: none, samples: %d, batch: 2}\n"
		   "train: {epochs: %d, seed: 3, evaluate: 0.5}\n"
		   "update: {rate: 0.02}\n"
		   "cluster: {workers: 3, servers: %d, shards: 3}\n"
		   "strategy: %s\n"
		   "checkpoint: {every: 20ms}\n",
		   SAMPLES, EPOCHS, servers, preset);
	if (trial_run(&t, &tw_heap_system, NULL, &ran) != TW_OK)
		fail_msg("%s: %s", preset, ran.error.text);
	assert_int_equal(ran.totals.dealt, SAMPLES * EPOCHS);
	assert_int_equal(ran.totals.lost_updates, 0);
	assert_int_equal(ran.totals.repeated, 0);
	assert_int_equal(ran.totals.refused, 0);
	if (strcmp(preset, "backup") != 0 && !(t.job->plan.gate->traits & TW_GATE_DROPS))
		assert_int_equal(ran.totals.dropped, 0);
	if (!(ran.totals.loss < START))
		fail_msg("%s: the loss is %g", preset, ran.totals.loss);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static void every_preset_trains(void **state)
{
	(void)state;
	for (size_t k = 0; tw_presets[k].name; k++)
		if (!has_optimiser(&tw_presets[k]) && !has_stages(&tw_presets[k]))
			train(short_strategy(&tw_presets[k]), has_servers(&tw_presets[k]) ? 2 : 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_trains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
