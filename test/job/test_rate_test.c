/* SPDX-License-Identifier: Apache-2.0 */
/* test_rate_test.c - update.rate: auto: a rate that is stable where the limit is known, the same
 * every time, and a number in everything that follows. */
#include "job/reading.h"
#include "kit/scratch.h"
#include "run/open_engine.h"
#include "run/rate_test.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static enum tw_status found(const char *text, const char *set, double *rate, char *said,
			    struct tw_error *why)
{
	const char *const sets[] = { set, NULL };
	struct tw_engine *e = NULL;
	struct tw_job *job = NULL;
	enum tw_status st = tw_job_read_text("job.yaml", text, strlen(text), set ? sets : NULL,
					     set ? 1 : 0, NULL, TW_WORLD_SIM, &job, why);

	if (st == TW_OK)
		st = tw_job_open_engine(job, &tw_heap_system, &e, why);
	if (st == TW_OK)
		st = tw_job_find_rate(job, e, NULL, why);
	if (st == TW_OK) {
		*rate = job->update.schedule.rate;
		if (said) {
			char *all = explained(job);

			snprintf(said, 4000, "%s", all);
			free(all);
		}
	}
	if (e)
		e->class->close(e);
	tw_job_free(job);
	return st;
}

#define BOWL                                                                                       \
	"model: {quadratic: {dimension: 20, curvature: [%g, %g], noise: 0.01, start: 1}}\n"        \
	"data: {source: none, samples: 4096, batch: 4}\nupdate: {rule: %s, rate: auto}\n"          \
	"cluster: {workers: %d}\nstrategy: %s\ntrain: {epochs: 1}\n"

/* Gradient descent on a quadratic is stable below 2 / a; with gradients that are d updates late
 * below 2 sin(pi / (2 (2 d + 1))) / a. */
static void is_stable_on_quadratics(void **state)
{
	static const struct {
		double curvature;
		int workers;
		const char *strategy;
	} rows[] = {
		{ 1, 1, "ssgd" },  { 20, 1, "ssgd" }, { 20, 4, "ssgd" },  { 300, 1, "ssgd" },
		{ 20, 4, "asgd" }, { 20, 8, "asgd" }, { 100, 4, "asgd" }, { 5, 3, "local-sgd" },
	};

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		const int late = strcmp(rows[k].strategy, "asgd") == 0 ? rows[k].workers - 1 : 0;
		const double limit = 2 * sin(M_PI / (2 * (2.0 * late + 1))) / rows[k].curvature;
		struct tw_error why = { 0 };
		char text[600];
		double rate = 0;

		snprintf(text, sizeof text, BOWL, rows[k].curvature / 4, rows[k].curvature, "sgd",
			 rows[k].workers, rows[k].strategy);
		if (found(text, NULL, &rate, NULL, &why) != TW_OK)
			fail_msg("%s", why.text);
		/* one of a grid of half decades, below the limit and not far below it */
		if (!(rate < limit) || rate < limit / 40)
			fail_msg("%s, curvature %g: %g, and the limit is %g", rows[k].strategy,
				 rows[k].curvature, rate, limit);
	}
}

#define NET                                                                                        \
	"data: {source: digits, count: 300, tests: 60, batch: 10}\n"                               \
	"model: {layers: [linear 24, relu, batchnorm, linear 10], freeze: []}\n"                   \
	"update: {rule: %s, rate: %s}\ncluster: {workers: 2}\nstrategy: ssgd\n"                    \
	"train: {epochs: 1, seed: 2}\n"

static const char *const rules[] = {
	"sgd", "momentum", "nag", "adam", "adamw", "rmsprop", "adagrad"
};

/* The same again, and the run is the one with that number. */
static void is_a_number_from_then_on(void **state)
{
	for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
		struct tw_error why = { 0 };
		char text[600], said[4000], line[60], digest[2][80];
		double rate[2] = { 0 };

		snprintf(text, sizeof text, NET, rules[k], "auto");
		for (int i = 0; i < 2; i++)
			if (found(text, NULL, &rate[i], said, &why) != TW_OK)
				fail_msg("%s: %s", rules[k], why.text);
		assert_true(rate[0] > 0 && rate[0] == rate[1]);
		snprintf(line, sizeof line, "  rate: %g\n", rate[0]);
		if (!strstr(said, line))
			fail_msg("%s: '%s' is not in the explained job", rules[k], line);
		for (int i = 0; i < 2; i++) {
			struct tw_run_request request = { .dir = NULL };
			struct tw_job *job = NULL;
			json_t *result = NULL;

			if (i) {
				char number[40];

				snprintf(number, sizeof number, "%g", rate[0]);
				snprintf(text, sizeof text, NET, rules[k], number);
			}
			assert_int_equal(tw_job_read_text("job.yaml", text, strlen(text), NULL, 0,
							  NULL, TW_WORLD_SIM, &job, &why),
					 TW_OK);
			if (tw_run(&request, job, &result, &why) != TW_OK)
				fail_msg("%s: %s", rules[k], why.text);
			assert_true(json_number_value(json_object_get(result, "rate")) == rate[0]);
			assert_true(json_number_value(json_object_get(result, "loss")) < 2.2);
			snprintf(digest[i], 80, "%s",
				 json_string_value(json_object_get(result, "parameters_digest")));
			json_decref(result);
			tw_job_free(job);
		}
		assert_string_equal(digest[0], digest[1]);
	}
}

/* A run that is stopped and resumed has the rate that its directory says. */
static void a_resumed_run_keeps_its_rate(void **state)
{
	struct tw_error why = { 0 };
	char text[700], dir[300];
	json_t *result = NULL;
	double rate[2];

	snprintf(text, sizeof text, NET "checkpoint: {every: 500ms}\n", "sgd", "auto");
	snprintf(dir, sizeof dir, "%s", path_of("run"));
	for (int i = 0; i < 2; i++) {
		struct tw_run_request request = { .dir = dir, .checkpoints = i ? 0 : 1 };
		struct tw_job *job = NULL;
		enum tw_status st;

		assert_int_equal(tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL,
						  TW_WORLD_SIM, &job, &why),
				 TW_OK);
		st = tw_run(&request, job, &result, &why);
		if (st != (i ? TW_OK : TW_INTERRUPTED))
			fail_msg("%s", why.text);
		rate[i] = json_number_value(json_object_get(result, "rate"));
		json_decref(result);
		tw_job_free(job);
	}
	assert_true(rate[0] == rate[1] && rate[0] > 0);
}

static void is_refused_where_nobody_can_try(void **state)
{
	struct tw_error why = { 0 };
	char text[600];
	double rate;

	snprintf(text, sizeof text, NET, "sgd", "automatic");
	assert_int_equal(found(text, NULL, &rate, NULL, &why), TW_BAD_INPUT);
	if (!strstr(why.text, "update.rate: ") || !strstr(why.text, "or auto"))
		fail_msg("%s", why.text);
	why = (struct tw_error){ .status = TW_OK };
	assert_int_equal(found("data: {source: none, samples: 10}\n"
			       "model: {tensors: x.safetensors}\nupdate: {rate: auto}\n",
			       NULL, &rate, NULL, &why),
			 TW_BAD_INPUT);
	if (!strstr(why.text, "update.rate: rates are tried before a run"))
		fail_msg("%s", why.text);
	why = (struct tw_error){ .status = TW_OK };
	assert_int_equal(found("data: {source: digits, count: 100, tests: 20}\n"
			       "model: {layers: [linear 10]}\noptimiser: lbfgs\n"
			       "update: {rate: auto}\n",
			       NULL, &rate, NULL, &why),
			 TW_BAD_INPUT);
	if (!strstr(why.text, "update.rate: has no effect with optimiser"))
		fail_msg("%s", why.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_stable_on_quadratics),
		cmocka_unit_test(is_a_number_from_then_on),
		cmocka_unit_test(a_resumed_run_keeps_its_rate),
		cmocka_unit_test(is_refused_where_nobody_can_try),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
