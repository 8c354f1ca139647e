/* SPDX-License-Identifier: Apache-2.0 */
/* test_stage_watch.c - a pipeline that is held up by one stage says so, with better cuts; one that
 * is even says nothing. */
#include "job/reading.h"
#include "kit/has.h"
#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

struct said {
	char text[700];
	unsigned lines;
};

static void listen(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct said *s = arg;

	if (level != TW_WARNING || strcmp(who, "pipeline") != 0)
		return;
	snprintf(s->text, sizeof s->text, "%s", line);
	s->lines++;
}

/* What a run of six layers on two machines says; a step takes 4 s of virtual time. */
static struct said run_of(const char *stages, const char *nodes, unsigned steps)
{
	struct said said = { .lines = 0 };
	const struct tw_log log = { listen, &said, TW_WARNING };
	const struct tw_run_request r = { .log = &log };
	struct tw_error why = { 0 };
	json_t *result = NULL;
	struct tw_job *job;
	char text[700];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: 64, tests: 8, batch: 4}\n"
		 "model: {layers: [linear 32, relu, linear 32, relu, linear 32, relu, linear 32, "
		 "relu, linear 32, relu, linear 32, relu, linear 10], stages: %s}\n"
		 "train: {epochs: 0, steps: %u, evaluate: 0}\nupdate: {rate: 0.01}\n"
		 "cluster: {stages: 2, place: with-stage}\nstrategy: pipedream\n"
		 "checkpoint: {every: 0s}\nsim: {compute: {mean: 4s, stages: [1, 2, 1, 2]}, nodes: "
		 "%s}\n",
		 stages, steps, nodes);
	job = good_job(text, NULL, TW_WORLD_SIM);
	if (tw_run(&r, job, &result, &why) != TW_OK)
		fail_msg("%s", why.text);
	json_decref(result);
	tw_job_free(job);
	return said;
}

static void an_even_pipeline_says_nothing(void **state)
{
	(void)state;
	assert_int_equal(run_of("[6]", "[{count: 2}]", 60).lines, 0);
	assert_int_equal(run_of("[6]", "[{speed: 1}, {speed: 0.9}]", 60).lines, 0);
}

static void a_slow_stage_is_named_once_with_better_cuts(void **state)
{
	const struct said slow = run_of("[6]", "[{speed: 1}, {speed: 0.5}]", 120);
	const struct said first = run_of("[6]", "[{speed: 0.25}, {speed: 1}]", 120);

	(void)state;
	assert_int_equal(slow.lines, 1);
	has(slow.text, "stage 1 holds up the others: for a minute it took 1.3");
	has(slow.text, "model.stages: [");
	assert_int_equal(first.lines, 1);
	has(first.text, "stage 0 holds up the others: for a minute it took 1.6");
}

/* Less than a minute is not enough to say anything. */
static void a_short_run_says_nothing(void **state)
{
	(void)state;
	assert_int_equal(run_of("[6]", "[{speed: 1}, {speed: 0.5}]", 10).lines, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_even_pipeline_says_nothing),
		cmocka_unit_test(a_slow_stage_is_named_once_with_better_cuts),
		cmocka_unit_test(a_short_run_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
