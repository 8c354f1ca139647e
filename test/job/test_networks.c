/* SPDX-License-Identifier: Apache-2.0 */
/* test_networks.c - networks through the whole spine: same seed, same bits, in every world, run
 * again, stopped and resumed; rounds of many workers equal one that accumulates. */
/* labels: threads numbers */
#include "run/run.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const models[] = {
	"{layers: [linear 24, relu, linear 10]}",
	"{layers: [conv 4 5x5 stride 2, batchnorm, relu, {residual: [conv 4 3x3 pad 1, batchnorm, "
	"relu]}, maxpool 2, dropout 0.3, linear 10]}",
};
#define MODELS (sizeof models / sizeof *models)

struct outcome {
	enum tw_status status;
	char parameters[64], buffers[64];
	double loss, accuracy;
};

static struct outcome run(const char *text, enum tw_world_kind world, const char *dir,
			  uint64_t checkpoints)
{
	struct outcome o = { .status = TW_OK };
	struct tw_run_request request = { .dir = dir, .checkpoints = checkpoints, .threads = 1 };
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	json_t *result = NULL;

	if (tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL, world, &job, &why) !=
	    TW_OK)
		fail_msg("%s", why.text);
	o.status = tw_run(&request, job, &result, &why);
	if (o.status != TW_OK && o.status != TW_INTERRUPTED)
		fail_msg("%s", why.text);
	if (o.status == TW_OK) {
		snprintf(o.parameters, sizeof o.parameters, "%s",
			 json_string_value(json_object_get(result, "parameters_digest")));
		snprintf(o.buffers, sizeof o.buffers, "%s",
			 json_string_value(json_object_get(result, "buffers_digest")));
		o.loss = json_number_value(json_object_get(result, "loss"));
		o.accuracy = json_number_value(json_object_get(result, "accuracy"));
	}
	json_decref(result);
	tw_job_free(job);
	return o;
}

static const char *job_text(const char *model, const char *data, const char *rest)
{
	static char text[4096];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: 320, tests: 64, %s}\nmodel: %s\n"
		 "update: {rule: momentum, momentum: 0.9, rate: 0.02}\n%s",
		 data, model, rest);
	return text;
}

static void same(const struct outcome *a, const struct outcome *b, const char *what)
{
	if (strcmp(a->parameters, b->parameters) != 0 || strcmp(a->buffers, b->buffers) != 0 ||
	    a->loss != b->loss || a->accuracy != b->accuracy)
		fail_msg("%s: %s %s loss %.9g against %s %s loss %.9g", what, a->parameters,
			 a->buffers, a->loss, b->parameters, b->buffers, b->loss);
}

static void a_run_is_its_seed(void **state)
{
	static const char *const rest[] = {
		"train: {epochs: 1.5, seed: 3}\ncluster: {workers: 1}\n",
		"train: {epochs: 1.5, seed: 3}\ncluster: {workers: 3, shards: 2}\nstrategy: ssgd\n",
	};

	(void)state;
	for (size_t m = 0; m < MODELS; m++)
		for (size_t k = 0; k < 2; k++)
			for (int w = 0; w < 2; w++) {
				const enum tw_world_kind world =
					w ? TW_WORLD_THREADS : TW_WORLD_SIM;
				const char *text = job_text(
					models[m], "batch: 16, shift: 2, prefetch: 2", rest[k]);
				const struct outcome a = run(text, world, NULL, 0);
				const struct outcome b = run(text, world, NULL, 0);
				const struct outcome c = run(text, TW_WORLD_SIM, NULL, 0);

				same(&a, &b, "run again");
				same(&a, &c, "against sim");
				assert_true(a.loss > 0 && a.accuracy >= 0);
			}
}

/* Asynchronous strategies too, in the simulator. */
static void the_simulator_repeats_itself(void **state)
{
	static const char *const names[] = { "asgd", "dc-asgd-a", "dana", "ssp" };

	(void)state;
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		char rest[300];
		struct outcome a, b;
		const char *text;

		snprintf(rest, sizeof rest,
			 "train: {epochs: 1, seed: 5}\ncluster: {workers: 4}\nstrategy: %s\n"
			 "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.5}}\n",
			 names[k]);
		text = job_text(models[1], "batch: 8", rest);
		if (strcmp(names[k], "dana") == 0) /* it brings its own rule */
			text = "data: {source: digits, count: 320, tests: 64, batch: 8}\n"
			       "model: {layers: [linear 24, relu, linear 10]}\n"
			       "train: {epochs: 1, seed: 5}\ncluster: {workers: 4}\n"
			       "strategy: dana\nupdate: {rate: 0.01}\n";
		a = run(text, TW_WORLD_SIM, NULL, 0);
		b = run(text, TW_WORLD_SIM, NULL, 0);
		same(&a, &b, names[k]);
	}
}

/* Four workers of 16 are one that adds four batches of 16 up: bit for bit, in both worlds. */
static void rounds_are_accumulation(void **state)
{
	(void)state;
	for (size_t m = 0; m < MODELS; m++) {
		char many[4096], one[4096];
		struct outcome a, b;

		snprintf(many, sizeof many, "%s",
			 job_text(models[m], "batch: 16",
				  "train: {epochs: 2, seed: 9}\ncluster: {workers: 4, shards: 3}\n"
				  "strategy: ssgd\n"));
		snprintf(one, sizeof one, "%s",
			 job_text(models[m], "batch: 16, accumulate: 4",
				  "train: {epochs: 2, seed: 9}\ncluster: {workers: 1}\n"
				  "strategy: ssgd\n"));
		a = run(many, TW_WORLD_SIM, NULL, 0);
		b = run(one, TW_WORLD_SIM, NULL, 0);
		same(&a, &b, "sim");
		b = run(many, TW_WORLD_THREADS, NULL, 0);
		same(&a, &b, "threads, four workers");
		b = run(one, TW_WORLD_THREADS, NULL, 0);
		same(&a, &b, "threads, one worker");
	}
}

/* Stopped after a checkpoint and gone on with, again and again: as if never stopped.  How often a
 * run in threads is stopped depends on the machine; in the simulator it does not. */
static void resume(const char *text, enum tw_world_kind world)
{
	char dir[64];
	const struct outcome whole = run(text, world, NULL, 0);
	struct outcome o = { .status = TW_INTERRUPTED };
	unsigned stops = 0;

	folder_make(dir);
	for (; stops < 5 && o.status == TW_INTERRUPTED; stops++)
		o = run(text, world, dir, stops < 4);
	assert_true(stops > 2 || world != TW_WORLD_SIM);
	assert_int_equal(o.status, TW_OK);
	same(&whole, &o, "stopped and resumed");
	assert_true(folder_remove(dir));
}

static void resuming_changes_nothing(void **state)
{
	static const char *const rest[] = {
		"train: {epochs: 6, seed: 3}\ncluster: {workers: 1}\n",
		"train: {epochs: 6, seed: 3}\ncluster: {workers: 3, shards: 2}\nstrategy: ssgd\n",
	};

	(void)state;
	for (size_t m = 0; m < MODELS; m++)
		for (size_t k = 0; k < 2; k++) {
			char more[300];

			snprintf(more, sizeof more, "%scheckpoint: {every: 1ms}\n", rest[k]);
			resume(job_text(models[m], "batch: 8", more), TW_WORLD_THREADS);
			snprintf(more, sizeof more, "%scheckpoint: {every: 2s}\n", rest[k]);
			resume(job_text(models[m], "batch: 8", more), TW_WORLD_SIM);
		}
}

/* A made-up problem cannot show that anything is learned. */
static void networks_learn(void **state)
{
	const struct outcome o =
		run("data: {source: digits, count: 3000, tests: 500, batch: 32}\n"
		    "model: {name: mlp, hidden: [128]}\ntrain: {epochs: 6, seed: 1}\n"
		    "update: {rate: 0.1}\ncluster: {workers: 2}\n",
		    TW_WORLD_SIM, NULL, 0);

	(void)state;
	if (o.accuracy < 0.8)
		fail_msg("accuracy %.3f, loss %.3f", o.accuracy, o.loss);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_its_seed),
		cmocka_unit_test(the_simulator_repeats_itself),
		cmocka_unit_test(rounds_are_accumulation),
		cmocka_unit_test(resuming_changes_nothing),
		cmocka_unit_test(networks_learn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
