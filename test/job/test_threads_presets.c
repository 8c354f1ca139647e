/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads_presets.c - every preset in threads: all samples, a falling loss, nothing lost. */
/* labels: threads */
#include "job/cast.h"
#include "job/job.h"
#include "world/memory.h"
#include "world/threads.h"

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

static void train(const char *preset)
{
	static const char *const nothing[] = { NULL };
	const struct tw_log log = { NULL, NULL, TW_ERROR };
	struct tw_error why = { 0 };
	struct tw_engine *engine;
	struct tw_ran ran = { 0 };
	struct tw_cluster c;
	struct tw_cast cast;
	struct tw_job *job;
	char text[700];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 0.05}}\n"
		 "data: {source: none, samples: %d, batch: 2}\n"
		 "train: {epochs: %d, seed: 3, evaluate: 0.5}\n"
		 "update: {rate: 0.02}\n"
		 "cluster: {workers: 3, servers: 2, shards: 3}\n"
		 "strategy: %s\n"
		 "checkpoint: {every: 20ms}\n",
		 SAMPLES, EPOCHS, preset);
	if (tw_job_read_text("threads", text, strlen(text), NULL, 0, nothing, TW_WORLD_THREADS,
			     &job, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(tw_job_open_engine(job, &tw_heap_system, &engine, &why), TW_OK);
	assert_int_equal(tw_job_finish_plan(job, engine, &why), TW_OK);
	assert_int_equal(tw_cast_init(&cast, &job->plan, false), TW_OK);
	c = (struct tw_cluster){ .seat = cast.seat,
				 .seats = cast.seats,
				 .nodes = tw_cast_nodes(&job->plan),
				 .engine = engine,
				 .store = tw_memory_store_new(&tw_heap_system),
				 .heap = &tw_heap_system,
				 .log = &log };
	tw_threads_run(&c,
		       &(struct tw_threads_options){ .lockfree = job->plan.gate->traits &
								 TW_GATE_LOCKFREE },
		       &ran);
	if (ran.error.status != TW_OK)
		fail_msg("%s: %s", preset, ran.error.text);
	assert_int_equal(ran.totals.dealt, SAMPLES * EPOCHS);
	assert_int_equal(ran.totals.lost_updates, 0);
	assert_int_equal(ran.totals.repeated, 0);
	assert_int_equal(ran.totals.refused, 0);
	if (strcmp(preset, "backup") != 0)
		assert_int_equal(ran.totals.dropped, 0);
	if (!(ran.totals.loss < START))
		fail_msg("%s: the loss is %g", preset, ran.totals.loss);
	tw_totals_release(&ran.totals);
	tw_memory_store_free(c.store);
	tw_cast_release(&cast);
	engine->class->close(engine);
	tw_job_free(job);
}

static void every_preset_trains(void **state)
{
	(void)state;
	for (size_t k = 0; tw_presets[k].name; k++)
		train(tw_presets[k].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_trains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
