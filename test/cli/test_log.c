/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - the curves of a run as programs get them: log.jsonl, --log, the result. */
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char job[] =
	"model: {quadratic: {dimension: 50, curvature: [0.1, 1], noise: 0.1, start: 1}}\n"
	"data: {source: none, samples: 512, batch: 1}\n"
	"train: {epochs: 2, seed: 3, evaluate: 0.25}\n"
	"update: {rate: 0.05}\n"
	"cluster: {workers: 4, shards: 2}\n"
	"strategy: asgd\n"
	"checkpoint: {every: 2s}\n"
	"sim: {compute: {law: exponential, mean: 100ms}, latency: 2ms}\n";

/* The events of a file, in order: an array, the caller's. */
static json_t *events_of(const char *name)
{
	FILE *f = fopen(path_of(name), "r");
	json_t *all = json_array();
	char *line = NULL;
	size_t room = 0;

	assert_non_null(f);
	while (getline(&line, &room, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);

		assert_true(json_is_object(o));
		json_array_append_new(all, o);
	}
	free(line);
	fclose(f);
	return all;
}

static bool is(const json_t *event, const char *name)
{
	return strcmp(text_of(event, "event"), name) == 0;
}

static bool is_null(const json_t *object, const char *name)
{
	assert_non_null(json_object_get(object, name));
	return json_is_null(json_object_get(object, name));
}

static void an_evaluation_says_what_it_saw(void **state)
{
	static const char *const numbers[] = { "time",       "seconds", "epochs",   "samples",
					       "steps",      "updates", "bytes",    "loss",
					       "train_loss", "rate",    "staleness" };
	static const char *const files[] = { "run/log.jsonl", "metrics.jsonl" };
	const struct said *s = thalweg(NULL, "sim %s --run %s/run --log %s/metrics.jsonl --json",
				       put_job(job), scratch(), scratch());
	json_t *result;

	expect(s, 0);
	result = object_of(s);
	for (size_t f = 0; f < 2; f++) {
		json_t *all = events_of(files[f]);
		const json_t *e, *start = json_array_get(all, 0);
		double bytes = 0, samples = 0;
		size_t i, evaluations = 0;

		assert_true(is(start, "start"));
		assert_string_equal(text_of(start, "strategy"), "asgd");
		assert_true(number_of(start, "rate") == 0.05 && number_of(start, "seed") == 3);
		assert_true(number_of(start, "workers") == 4);
		assert_true(number_of(start, "checkpoint") == 0);
		json_array_foreach(all, i, e)
		{
			if (!is(e, "evaluation"))
				continue;
			evaluations++;
			for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
				number_of(e, numbers[k]);
			assert_true(is_null(e, "accuracy"));
			/* a batch is one sample, and one update */
			assert_true(number_of(e, "samples") == number_of(e, "updates"));
			assert_true(number_of(e, "samples") == number_of(e, "steps"));
			assert_true(number_of(e, "samples") == 512 * number_of(e, "epochs"));
			assert_true(number_of(e, "samples") == 128.0 * (double)evaluations);
			assert_true(number_of(e, "bytes") > bytes);
			assert_true(number_of(e, "rate") == 0.05);
			assert_true(number_of(e, "staleness") > 1);
			bytes = number_of(e, "bytes");
			samples = number_of(e, "samples");
		}
		assert_int_equal(evaluations, 8);
		assert_true(samples == 1024 && number_of(result, "epochs_applied") == 2);
		assert_true(bytes <= number_of(result, "bytes_sent"));
		json_decref(all);
	}
	json_decref(result);
}

/* Outside the simulator every process has a clock of its own; the run has one. */
static void the_log_goes_on_where_it_was(void **state)
{
	const char *file = put_job(job);
	const char *more = "--set train.epochs=1e9 --set train.time=3s --set checkpoint.every=1s "
			   "--set train.evaluate=500";
	double last = 0, seconds = 0, bytes = 0, samples = 0;
	size_t i, starts = 0, later = 0;
	const json_t *e;
	json_t *all;

	expect(thalweg(NULL, "train %s --run %s/run -q --checkpoints 1 %s", file, scratch(), more),
	       75);
	expect(thalweg(NULL, "train %s --run %s/run -q %s", file, scratch(), more), 0);
	all = events_of("run/log.jsonl");
	json_array_foreach(all, i, e)
	{
		const double time = number_of(e, "time");

		starts += is(e, "start");
		if (is(e, "start") && starts == 1)
			assert_true(time == 0);
		if (is(e, "start") && starts == 2) {
			assert_true(time >= 0.9 && number_of(e, "checkpoint") >= 1);
		}
		if (starts == 2)
			assert_true(time < 4.5);
		assert_true(time >= last || is(e, "evaluation")); /* told when it is scored */
		last = is(e, "evaluation") ? last : time;
		if (!is(e, "evaluation"))
			continue;
		later += starts == 2;
		assert_true(number_of(e, "seconds") >= seconds);
		assert_true(number_of(e, "bytes") >= bytes);
		assert_true(number_of(e, "samples") > samples);
		seconds = number_of(e, "seconds");
		bytes = number_of(e, "bytes");
		samples = number_of(e, "samples");
	}
	assert_int_equal(starts, 2);
	assert_true(later > 0 && seconds > 2);
	json_decref(all);
}

/* Once a second, for programs. */
static void progress_is_of_what_is_applied(void **state)
{
	const struct said *s =
		thalweg(NULL,
			"train %s --run %s/run --log %s/metrics.jsonl --json --set "
			"train.epochs=1e9 --set train.time=3s --set train.evaluate=0",
			put_job(job), scratch(), scratch());
	json_t *all, *result;
	size_t i, lines = 0;
	const json_t *e;

	expect(s, 0);
	result = object_of(s);
	all = events_of("metrics.jsonl");
	json_array_foreach(all, i, e)
	{
		if (!is(e, "progress"))
			continue;
		lines++;
		assert_true(number_of(e, "samples") <= number_of(e, "dealt"));
		assert_true(number_of(e, "samples") == 512 * number_of(e, "epochs"));
		assert_true(number_of(e, "samples") == number_of(e, "steps"));
		assert_true(number_of(e, "updates") > 0 && number_of(e, "bytes") > 0);
		assert_true(number_of(e, "rate") == 0.05 && number_of(e, "live") == 4);
		number_of(e, "train_loss");
		number_of(e, "staleness");
		number_of(e, "samples_per_second");
	}
	assert_true(lines >= 2);
	assert_true(number_of(result, "epochs_applied") == number_of(result, "epochs"));
	json_decref(all);
	json_decref(result);
}

static void a_goal_is_reached_or_not(void **state)
{
	const char *file = put_job(job);
	const struct said *s;
	const json_t *goal;
	json_t *r;

	s = thalweg(NULL, "sim %s --json --set train.until.loss=0.1 --set train.epochs=20", file);
	expect(s, 0);
	r = object_of(s);
	goal = json_object_get(r, "goal");
	assert_true(json_is_true(json_object_get(goal, "reached")));
	assert_true(number_of(goal, "loss") <= 0.1);
	assert_true(is_null(goal, "accuracy"));
	assert_true(number_of(goal, "epochs") <= number_of(r, "epochs_applied"));
	assert_true(number_of(goal, "updates") <= number_of(r, "updates"));
	assert_true(number_of(goal, "seconds") > 1);
	assert_true(number_of(goal, "seconds") < number_of(r, "virtual_seconds"));
	json_decref(r);
	s = thalweg(NULL, "sim %s --json --set train.until.loss=-1", file);
	expect(s, 0);
	r = object_of(s);
	goal = json_object_get(r, "goal");
	assert_true(json_is_false(json_object_get(goal, "reached")));
	assert_true(is_null(goal, "epochs") && is_null(goal, "updates") &&
		    is_null(goal, "seconds") && is_null(goal, "loss") && is_null(goal, "accuracy"));
	json_decref(r);
	s = thalweg(NULL, "sim %s --json", file);
	expect(s, 0);
	r = object_of(s);
	assert_true(is_null(r, "goal"));
	has(thalweg(NULL, "sim %s --set train.until.loss=0.1 --set train.epochs=20", file)->out,
	    "\ngoal         reached after ");
	has(thalweg(NULL, "sim %s --set train.until.loss=-1", file)->out,
	    "\ngoal         not reached\n");
	assert_true(json_is_false(json_object_get(r, "diverged")));
	json_decref(r);
}

/* The seconds of a goal are the run's, not the last process's. */
static void a_goal_counts_earlier_parts(void **state)
{
	const char *file = put_job(job);
	const char *more = "--set train.epochs=1e9 --set train.until.loss=-1 --set "
			   "checkpoint.every=1s --set train.evaluate=500";
	json_t *r;
	const struct said *s;

	expect(thalweg(NULL, "train %s --run %s/run -q --checkpoints 1 %s", file, scratch(), more),
	       75);
	/* where it ends may change: now any loss will do */
	s = thalweg(NULL, "train %s --run %s/run -q --json %s --set train.until.loss=100", file,
		    scratch(), more);
	expect(s, 0);
	r = object_of(s);
	assert_true(number_of(json_object_get(r, "goal"), "seconds") >= 0.9);
	assert_true(number_of(json_object_get(r, "goal"), "seconds") <= number_of(r, "seconds"));
	json_decref(r);
}

static void steady_throughput_has_no_tail(void **state)
{
	const struct said *s =
		thalweg(NULL,
			"sim %s --json --set sim.stragglers.count=1 --set "
			"sim.stragglers.slower=30 --set data.batch=4 --set checkpoint.every=1h",
			put_job(job));
	const json_t *steady;
	json_t *r;

	expect(s, 0);
	r = object_of(s);
	steady = json_object_get(r, "steady");
	assert_true(number_of(steady, "samples") < 1024);
	assert_true(number_of(steady, "seconds") < number_of(r, "virtual_seconds"));
	assert_true(number_of(steady, "samples_per_second") ==
		    number_of(steady, "samples") / number_of(steady, "seconds"));
	assert_true(number_of(steady, "samples_per_second") >
		    1.2 * number_of(r, "samples") / number_of(r, "virtual_seconds"));
	json_decref(r);
	/* nobody found nothing left: it was stopped */
	s = thalweg(NULL, "sim %s --run %s/run --json --checkpoints 1", put_job(job), scratch());
	expect(s, 75);
	r = object_of(s);
	assert_true(is_null(r, "steady"));
	json_decref(r);
}

/* A program that reads results gets one, and the directory stays as it was. */
static void divergence_is_a_result(void **state)
{
	static const char net[] = "data: {source: digits, count: 400, tests: 100, batch: 20}\n"
				  "model: {layers: [linear 32, linear 10]}\n"
				  "train: {epochs: 1000000}\nupdate: {rate: 1e6}\n"
				  "cluster: {workers: 2}\n";
	const char *file = put_job(net);
	const struct said *s;
	json_t *r, *all;

	s = thalweg(NULL, "train %s --run %s/run --log %s/metrics.jsonl --json", file, scratch(),
		    scratch());
	expect(s, 1);
	has(s->err, "training diverged");
	r = object_of(s);
	assert_true(json_is_true(json_object_get(r, "diverged")));
	assert_true(is_null(r, "parameters_digest"));
	assert_true(number_of(r, "epochs_applied") >= 0);
	json_decref(r);
	assert_false(exists("run/result.json"));
	all = events_of("metrics.jsonl");
	r = json_array_get(all, json_array_size(all) - 1);
	assert_true(is(r, "result"));
	assert_true(json_is_true(json_object_get(json_object_get(r, "result"), "diverged")));
	json_decref(all);
	/* without --json the sentence is all there is, as ever */
	s = thalweg(NULL, "sim %s -q", file);
	expect(s, 1);
	assert_string_equal(s->out, "");
	s = thalweg(NULL, "sim %s -q --json", file);
	expect(s, 1);
	json_decref(object_of(s));
	/* it may be gone on with */
	s = thalweg(NULL, "train %s --run %s/run --json", file, scratch());
	expect(s, 1);
	has(s->err, "starting from the beginning"); /* what it had was no use */
}

int main(void)
{
#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(an_evaluation_says_what_it_saw),
		IN_SCRATCH(the_log_goes_on_where_it_was),
		IN_SCRATCH(progress_is_of_what_is_applied),
		IN_SCRATCH(a_goal_is_reached_or_not),
		IN_SCRATCH(a_goal_counts_earlier_parts),
		IN_SCRATCH(steady_throughput_has_no_tail),
		IN_SCRATCH(divergence_is_a_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
