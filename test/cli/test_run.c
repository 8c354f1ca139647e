/* SPDX-License-Identifier: Apache-2.0 */
/* test_run.c - results, exit codes and run directories of `sim` and `train`. */
#include "cli/spawn.h"
#include "kit/near.h"
#include "node/figures.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* 128 steps a worker of a tenth of a virtual second: checkpoints every two seconds give several. */
static const char job[] =
	"model: {quadratic: {dimension: 50, curvature: [0.1, 1], noise: 0.1, start: 1}}\n"
	"data: {source: none, samples: 512, batch: 1}\n"
	"train: {epochs: 1, seed: 3}\n"
	"update: {rate: 0.05}\n"
	"cluster: {workers: 4, shards: 2}\n"
	"strategy: asgd\n"
	"checkpoint: {every: 2s}\n"
	"sim: {compute: {law: exponential, mean: 100ms}}\n";

/* The job above in a file of the scratch directory. */
static const char *job_file(void)
{
	return put_job(job);
}

static void the_result_has_its_fields(void **state)
{
	static const char *const numbers[] = {
		"seed",         "loss",       "epochs",          "steps",
		"updates",      "samples",    "seconds",         "samples_per_second",
		"workers",      "parameters", "bytes_sent",      "bytes_received",
		"dropped",      "refused",    "redealt",         "repeated",
		"lost_updates", "threads",    "virtual_seconds", "events",
	};
	const struct said *s = thalweg(job, "sim - --json");
	const json_t *staleness;
	json_t *r;

	expect(s, 0);
	r = object_of(s);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		number_of(r, numbers[i]);
	assert_string_equal(text_of(r, "strategy"), "asgd");
	assert_string_equal(text_of(r, "evaluated"), "w");
	assert_int_equal(strlen(text_of(r, "parameters_digest")), 32);
	assert_int_equal(strlen(text_of(r, "buffers_digest")), 32);
	assert_true(json_is_null(json_object_get(r, "accuracy")));
	assert_true(json_is_null(json_object_get(r, "checkpoint")));
	text_of(r, "isa");
	assert_true(number_of(r, "seed") == 3 && number_of(r, "threads") == 1);
	assert_true(number_of(r, "workers") == 4 && number_of(r, "parameters") == 50);
	assert_true(number_of(r, "steps") == 512 && number_of(r, "samples") == 512);
	assert_true(number_of(r, "updates") == 512 && number_of(r, "epochs") == 1);
	staleness = json_object_get(r, "staleness");
	assert_true(number_of(staleness, "mean") > 2.0 && number_of(staleness, "mean") < 4.0);
	assert_true(json_is_array(json_object_get(staleness, "histogram")));
	/* the histogram counts what the mean is of */
	{
		double count = 0, sum = 0;
		const json_t *bin;
		size_t i;

		json_array_foreach(json_object_get(staleness, "histogram"), i, bin)
		{
			count += json_number_value(bin);
			sum += (double)i * json_number_value(bin);
		}
		assert_true(fabs(sum / count - number_of(staleness, "mean")) < 1e-9);
		assert_true(number_of(staleness, "max") + 1 ==
			    (double)json_array_size(json_object_get(staleness, "histogram")));
	}
	json_decref(r);
}

static bool is_in_the_reference(const char *field)
{
	for (const struct tw_figure *f = tw_result_figures; f->name; f++)
		if (f->help && strcmp(f->result, field) == 0)
			return *f->help;
	return false;
}

static void its_fields_are_in_the_reference(void **state)
{
	json_t *r = object_of(thalweg(job, "sim - --json"));
	const char *name;
	json_t *value;

	json_object_foreach(r, name, value) if (!is_in_the_reference(name))
		fail_msg("%s is in a result and not in the reference", name);
	json_decref(r);
}

/* Interrupted before anything was evaluated, or after: the figures that there are. */
static void an_interrupted_run_says_what_it_knows(void **state)
{
	static const char again[] = "--run %s/%s --again --checkpoints 1 --set train.evaluate=%s";
	char asked[200];
	const struct said *s;
	json_t *r;

	snprintf(asked, sizeof asked, again, scratch(), "early", "0");
	s = thalweg(job, "sim - %s", asked);
	expect(s, 75);
	has(s->out, "loss         not evaluated yet\n");
	assert_null(strstr(s->out, "accuracy"));
	assert_null(strstr(s->out, "digest"));
	s = thalweg(job, "sim - %s --json", asked);
	expect(s, 75);
	r = object_of(s);
	assert_true(json_is_null(json_object_get(r, "loss")));
	assert_true(json_is_null(json_object_get(r, "parameters_digest")));
	json_decref(r);
	snprintf(asked, sizeof asked, again, scratch(), "later", "0.01");
	s = thalweg(job, "sim - %s --json", asked);
	expect(s, 75);
	r = object_of(s);
	assert_true(number_of(r, "loss") > 0 && number_of(r, "steps") < 512);
	json_decref(r);
}

/* The wall clock apart, the same request gives the same result. */
static void the_same_request_gives_the_same_result(void **state)
{
	json_t *a, *b;

	a = object_of(thalweg(job, "sim - --json --threads 1"));
	b = object_of(thalweg(job, "sim - --json --threads 2"));
	for (size_t i = 0; i < 2; i++) {
		json_object_del(i ? a : b, "seconds");
		json_object_del(i ? a : b, "samples_per_second");
	}
	assert_true(json_equal(a, b));
	json_decref(b);
	b = object_of(thalweg(job, "sim - --json --set train.seed=4"));
	assert_string_not_equal(text_of(a, "parameters_digest"), text_of(b, "parameters_digest"));
	json_decref(a);
	json_decref(b);
}

static void without_json_there_is_a_summary(void **state)
{
	const struct said *s = thalweg(job, "sim -");

	expect(s, 0);
	has(s->out, "strategy     asgd, 4 workers, 50 parameters, seed 3\n");
	has(s->out, "loss  ");
	has(s->out, "staleness    mean ");
	s = thalweg(job, "-q sim -");
	expect(s, 0);
	assert_string_equal(s->err, "");
}

static void large_numbers_are_printed_as_they_are(void **state)
{
	has(thalweg(job, "sim - --set train.seed=9007199254740993")->out,
	    "seed 9007199254740993\n");
	has(thalweg(job, "sim - --set train.seed=18446744073709551615")->out,
	    "seed 18446744073709551615\n");
}

static void divergence_is_said(void **state)
{
	const struct said *s = thalweg(job, "sim - --set update.rate=1e5 --json");
	json_t *r;

	expect(s, 1);
	has(s->err, "was refused: it is not finite; is update.rate too large?");
	has(s->err, "contributions were refused ");
	has(s->err, "training diverged after ");
	r = json_loads(s->out, 0, NULL);
	assert_true(json_is_true(json_object_get(r, "diverged")));
	assert_int_equal(json_integer_value(json_object_get(r, "lost_updates")), 0);
	json_decref(r);
	assert_null(strstr(thalweg(job, "sim -")->err, "refused"));
}

/* What the sentence says to add to the command: "--set update.rate=0.5". */
static void advice_of(const struct said *s, char out[60])
{
	const char *at = strstr(s->err, "such as --set update.rate=");
	size_t n;

	if (!at)
		fail_msg("no advice in: %s", s->err);
	at += strlen("such as ");
	n = strlen("--set ") + strcspn(at + strlen("--set "), " ");
	snprintf(out, 60, "%.*s", (int)n, at);
}

/* The command diverges; with what it then says added to it, it ends well in the same directory. */
static void follows_its_advice(const char *command, const char *run, const char *from)
{
	char advice[60];
	const struct said *s = thalweg(NULL, "%s", command);
	json_t *r;

	expect(s, 1);
	has(s->err, "training diverged after ");
	has(s->err, from);
	advice_of(s, advice);
	r = json_loads(s->out, 0, NULL);
	assert_true(json_is_true(json_object_get(r, "diverged")));
	if (strstr(from, "starts over")) {
		assert_true(json_is_null(json_object_get(r, "checkpoint")));
		s = thalweg(NULL, "export %s/%s --to %s/x.safetensors", scratch(), run, scratch());
		expect(s, 2);
		has(s->err, "diverged and has no usable checkpoint");
	} else {
		assert_int_equal(access(text_of(r, "checkpoint"), F_OK), 0);
		s = thalweg(NULL, "export %s/%s --to %s/x.safetensors", scratch(), run, scratch());
		expect(s, 0);
	}
	json_decref(r);
	/* only what helps may be another: not the decay */
	s = thalweg(NULL, "%s --set update.decay=0.01", command);
	expect(s, 2);
	has(s->err, "another job (update.decay: ");
	s = thalweg(NULL, "%s %s", command, advice);
	expect(s, 0);
	r = object_of(s);
	assert_true(number_of(r, "loss") < 1.0 && number_of(r, "epochs") == 4.0);
	json_decref(r);
	s = thalweg(NULL, "%s %s", command, advice); /* and now it is finished */
	expect(s, 2);
	has(s->err, "holds a finished run");
}

static void advice_after_a_divergence_works(void **state)
{
	static const char *const verbs[] = { "sim", "train", "train --processes" };
	char command[500], run[40];

	put_job(job);
	for (size_t k = 0; k < 3; k++) {
		snprintf(run, sizeof run, "wild-%zu", k);
		snprintf(command, sizeof command,
			 "%s %s --run %s/%s --json --set train.epochs=4 --set update.rate=2.5 "
			 "--set cluster.workers=2",
			 verbs[k], path_of("job.yaml"), scratch(), run);
		follows_its_advice(command, run, "it starts over");
	}
}

/* Two good epochs, then a rate that is too high: what was learnt before is not lost. */
static void a_good_checkpoint_is_gone_on_from(void **state)
{
	char command[500];

	put_job(job);
	snprintf(command, sizeof command,
		 "sim %s --run %s/late --json --set train.epochs=4 --set update.rate=0.05 --set "
		 "cluster.workers=2 --set update.schedule.kind=step --set "
		 "update.schedule.factor=100 --set update.schedule.at=[2] --set checkpoint.keep=9",
		 path_of("job.yaml"), scratch());
	follows_its_advice(command, "late", "it resumes from ");
}

static void verbose_says_details(void **state)
{
	const struct said *s = thalweg(NULL, "sim %s -v --run %s/talk --set train.evaluate=0.5",
				       job_file(), scratch());

	expect(s, 0);
	has(s->err, "gate async, staleness none, rule sgd");
	has(s->err, "checkpoints go to ");
	has(s->err, "evaluation after 0.5");
	has(s->err, "checkpoint 1 is complete");
}

/* The limit is the run's: a second process has only what the first left of it. */
static void a_time_limit_is_not_given_anew(void **state)
{
	const char *file = job_file();
	const char *more = "--set train.epochs=1e9 --set train.time=3s --set checkpoint.every=2s";
	const struct said *s;
	double updates;
	json_t *r;

	s = thalweg(NULL, "train %s --run %s/limit --json --checkpoints 1 %s", file, scratch(),
		    more);
	expect(s, 75);
	r = object_of(s);
	updates = number_of(r, "updates");
	json_decref(r);
	s = thalweg(NULL, "train %s --run %s/limit --json %s", file, scratch(), more);
	expect(s, 0);
	r = object_of(s);
	assert_true(number_of(r, "seconds") >= 2.5);
	assert_true(number_of(r, "updates") > updates); /* it did not stand still */
	assert_true(number_of(r, "seconds") < 4.7);     /* anew it would be 5 */
	json_decref(r);
}

static void sim_keeps_nothing_without_run(void **state)
{
	expect(thalweg(NULL, "sim %s", job_file()), 0);
	assert_false(exists("runs"));
	assert_false(exists("ckpt-1"));
}

static void a_run_directory_is_filled(void **state)
{
	const struct said *s = thalweg(NULL, "sim %s --run %s/run --json", job_file(), scratch());
	json_t *printed, *kept;
	char path[200];

	expect(s, 0);
	printed = object_of(s);
	snprintf(path, sizeof path, "%s/run/result.json", scratch());
	kept = json_load_file(path, 0, NULL);
	assert_true(json_equal(printed, kept));
	assert_true(exists("run/job.yaml") && exists("run/log.jsonl"));
	assert_int_equal(access(text_of(printed, "checkpoint"), F_OK), 0);
	snprintf(path, sizeof path, "%s/DONE", text_of(printed, "checkpoint"));
	assert_int_equal(access(path, F_OK), 0);
	/* the job that is kept is a job: it gives the same bits */
	snprintf(path, sizeof path, "%s/run/job.yaml", scratch());
	s = thalweg(NULL, "sim %s --run %s/other --json", path, scratch());
	expect(s, 0);
	{
		char *again = digest_of(s);

		assert_string_equal(again, text_of(printed, "parameters_digest"));
		free(again);
	}
	json_decref(printed);
	json_decref(kept);
}

static void every_line_of_the_log_is_an_object(void **state)
{
	size_t evaluations = 0, checkpoints = 0;
	char path[200], *line = NULL;
	size_t room = 0;
	FILE *f;

	expect(thalweg(NULL, "sim %s --run %s/log --set train.evaluate=0.25", job_file(),
		       scratch()),
	       0);
	snprintf(path, sizeof path, "%s/log/log.jsonl", scratch());
	f = fopen(path, "r");
	assert_non_null(f);
	while (getline(&line, &room, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);

		assert_true(json_is_object(o));
		number_of(o, "time");
		evaluations += strcmp(text_of(o, "event"), "evaluation") == 0;
		checkpoints += strcmp(text_of(o, "event"), "checkpoint") == 0;
		json_decref(o);
	}
	assert_true(evaluations >= 4);
	assert_true(checkpoints >= 2);
	free(line);
	fclose(f);
}

static void a_finished_run_is_refused_without_again(void **state)
{
	const char *file = job_file();
	const struct said *s;
	char *first;

	s = thalweg(NULL, "sim %s --run %s/done --json", file, scratch());
	expect(s, 0);
	first = digest_of(s);
	s = thalweg(NULL, "sim %s --run %s/done --json", file, scratch());
	expect(s, 2);
	assert_string_equal(s->out, "");
	has(s->err, "finished");
	has(s->err, "--again");
	s = thalweg(NULL, "sim %s --run %s/done --json --again", file, scratch());
	expect(s, 0);
	has(s->err, "starting over");
	{
		char *second = digest_of(s);

		assert_string_equal(first, second);
		free(second);
	}
	free(first);
}

/* No line is of a time before the run, and views count from small numbers. */
static void check_log(const char *name)
{
	char path[300], *line = NULL;
	size_t room = 0, views = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", scratch(), name);
	f = fopen(path, "r");
	assert_non_null(f);
	while (getline(&line, &room, f) > 0) {
		json_t *o = json_loads(line, 0, NULL);

		assert_true(number_of(o, "time") >= 0);
		if (strcmp(text_of(o, "event"), "view") == 0) {
			assert_true(number_of(o, "view") < 1e6);
			views++;
		}
		json_decref(o);
	}
	assert_true(views > 0);
	free(line);
	fclose(f);
}

/* A finished run that has become longer goes on, and is what it would have been in one go. */
static void a_finished_run_can_be_made_longer(void **state)
{
	static const char *const verbs[] = { "sim", "train" };
	const struct said *s;
	char *whole, *longer;

	for (size_t k = 0; k < 2; k++) {
		char command[300];

		snprintf(command, sizeof command, "%s %s --json --set strategy=ssgd --run %s/%s",
			 verbs[k], job_file(), scratch(), verbs[k]);
		expect(thalweg(NULL, "%s", command), 0);
		s = thalweg(NULL, "%s", command);
		expect(s, 2);
		has(s->err, "holds a finished run");
		has(s->err, "a larger train.epochs continues it");
		s = thalweg(NULL, "%s --set train.epochs=0.5", command);
		expect(s, 2);
		s = thalweg(NULL, "%s --set train.evaluate=0.5", command); /* is no longer */
		expect(s, 2);
		s = thalweg(NULL, "%s --set train.epochs=3", command);
		expect(s, 0);
		has(s->err, "training it further");
		longer = digest_of(s);
		s = thalweg(NULL, "%s-whole --set train.epochs=3", command);
		whole = digest_of(s);
		assert_string_equal(longer, whole);
		free(longer);
		free(whole);
		expect(thalweg(NULL, "%s --set train.epochs=3", command), 2);
	}
}

/* Stopped at every checkpoint and gone on with, the run ends with the bits of one that was not. */
static void stopped_and_resumed_is_the_same_run(void **state)
{
	const char *file = job_file();
	const struct said *s;
	size_t stops = 0;
	json_t *whole, *r;

	s = thalweg(NULL, "sim %s --run %s/whole --json", file, scratch());
	expect(s, 0);
	whole = object_of(s);
	while ((s = thalweg(NULL, "sim %s --run %s/parts --json --checkpoints 1", file, scratch()))
		       ->code == 75) {
		assert_true(++stops < 50);
		has(s->err, "run the same command again");
		r = object_of(s);
		assert_true(json_is_true(json_object_get(r, "interrupted")));
		assert_int_equal(access(text_of(r, "checkpoint"), F_OK), 0);
		json_decref(r);
		assert_false(exists("parts/result.json"));
	}
	expect(s, 0);
	assert_true(stops >= 3);
	r = object_of(s);
	assert_string_equal(text_of(r, "parameters_digest"), text_of(whole, "parameters_digest"));
	assert_true(number_of(r, "virtual_seconds") == number_of(whole, "virtual_seconds"));
	assert_true(number_of(r, "steps") == number_of(whole, "steps"));
	assert_true(number_of(r, "loss") == number_of(whole, "loss"));
	/* what went over the links is counted for the run, not for the last process */
	assert_true(number_of(r, "bytes_sent") >= number_of(whole, "bytes_sent"));
	assert_true(number_of(r, "bytes_received") >= number_of(whole, "bytes_received"));
	assert_true(number_of(r, "events") >= number_of(whole, "events"));
	assert_null(strstr(s->err, "has waited"));
	check_log("parts/log.jsonl");
	json_decref(r);
	json_decref(whole);
}

/* A network that trains fast, and is evaluated on as many samples as it trains with. */
static const char net[] = "data: {source: digits, count: 600, tests: 600, batch: 10}\n"
			  "model: {name: mlp, hidden: [16]}\n"
			  "train: {epochs: 3, seed: 1, evaluate: 0.1}\n"
			  "update: {rate: 0.1}\n";

/* The samples and the accuracies of all evaluations in a run's log; returns how many. */
static size_t evaluations(const char *dir, double samples[], double accuracy[], size_t room)
{
	char path[300], line[4096];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s/log.jsonl", scratch(), dir);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof line, f)) {
		json_t *r = json_loads(line, 0, NULL);

		if (strcmp(text_of(r, "event"), "evaluation") == 0 && n < room) {
			samples[n] = number_of(r, "samples");
			accuracy[n++] = number_of(r, "accuracy");
		}
		json_decref(r);
	}
	fclose(f);
	return n;
}

/* However fast training is, there is an evaluation for every threshold, of the first version that
 * has as many samples: one contribution more at most, or one update. */
static void no_evaluation_is_skipped(void **state)
{
	static const struct {
		const char *strategy;
		bool rounds;
	} rows[] = { { "ssgd", true },
		     { "asgd", false },
		     { "hogwild", false },
		     { "softsync", true },
		     { "ring", true } };
	const char *file = put_job(net);
	double samples[64], accuracy[64];

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
		for (int workers = 1; workers <= 3; workers += 2) {
			const double update = 10.0 * (rows[k].rounds ? workers : 1);
			size_t n;

			expect(thalweg(NULL,
				       "train %s --run %s/curve --again -q --set strategy=%s --set "
				       "cluster.workers=%d",
				       file, scratch(), rows[k].strategy, workers),
			       0);
			n = evaluations("curve", samples, accuracy, 64);
			if (n != 30)
				fail_msg("%s, %d workers: %zu evaluations", rows[k].strategy,
					 workers, n);
			for (size_t i = 0; i < n; i++)
				if (samples[i] < 60.0 * (double)(i + 1) ||
				    samples[i] >= 60.0 * (double)(i + 1) + update)
					fail_msg("%s, %d workers: number %zu has %g samples",
						 rows[k].strategy, workers, i + 1, samples[i]);
		}
}

/* What is applied while it is evaluated, or on its way, is no part of the result. */
static void until_delivers_what_reached_it(void **state)
{
	static const struct {
		const char *verb, *strategy;
	} runs[] = { { "train", "ssgd" },
		     { "train", "asgd" },
		     { "train", "hogwild" },
		     { "train", "gossip" },
		     { "train --processes", "asgd" },
		     { "sim", "gossip" },
		     { "sim", "asgd" } };
	const char *file = put_job(net);
	double samples[1024], accuracy[1024];

	(void)state;
	for (size_t k = 0; k < sizeof runs / sizeof runs[0]; k++) {
		const struct said *s;
		json_t *r, *e;
		size_t n;

		s = thalweg(NULL,
			    "%s %s --run %s/until --again --json -q --set strategy=%s --set "
			    "cluster.workers=3 --set train.until.accuracy=0.6 --set "
			    "train.epochs=40",
			    runs[k].verb, file, scratch(), runs[k].strategy);
		expect(s, 0);
		r = object_of(s);
		assert_true(json_is_true(json_object_get(json_object_get(r, "goal"), "reached")));
		n = evaluations("until", samples, accuracy, 1024);
		assert_true(n > 0 && accuracy[n - 1] >= 0.6);
		assert_true(number_of(r, "accuracy") == accuracy[n - 1]);
		for (size_t i = 0; i + 1 < n; i++)
			assert_true(accuracy[i] < 0.6);
		/* the checkpoint has these weights */
		s = thalweg(NULL, "eval %s/until --json", scratch());
		expect(s, 0);
		e = object_of(s);
		assert_true(number_of(e, "accuracy") == accuracy[n - 1]);
		NEAR(number_of(e, "loss"), number_of(r, "loss"), ORDERS(784 + 16));
		/* although more was applied: in the simulator that is certain */
		if (k == sizeof runs / sizeof runs[0] - 1)
			assert_true(number_of(r, "samples") > samples[n - 1]);
		json_decref(e);
		json_decref(r);
	}
}

/* A run that began when jobs without a strategy were asynchronous stays so: its directory does not
 * say with which defaults its job was read. */
static void a_former_run_keeps_its_defaults(void **state)
{
	char silent[sizeof job], from[300], text[8000];
	const char *cut = strstr(job, "strategy: asgd\n"), *rest = strchr(cut, '\n') + 1, *file;
	const struct said *s;
	json_t *whole, *r;
	char *mark;
	size_t n;
	FILE *f;

	(void)state;
	snprintf(silent, sizeof silent, "%.*s%s", (int)(cut - job), job, rest);
	file = put_job(silent);
	s = thalweg(NULL, "sim %s --set strategy.gate=async --json", file);
	expect(s, 0);
	whole = object_of(s);
	expect(thalweg(NULL, "sim %s --set strategy.gate=async --run %s/former --checkpoints 1",
		       file, scratch()),
	       75);
	/* with the defaults of today it is another job */
	s = thalweg(NULL, "sim %s --run %s/former", file, scratch());
	expect(s, 2);
	has(s->err, "another job (strategy.");
	snprintf(from, sizeof from, "%s/former/job.yaml", scratch());
	f = fopen(from, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	mark = strstr(text, "; defaults 2.");
	assert_non_null(mark);
	memmove(mark, mark + strlen("; defaults 2"), strlen(mark + strlen("; defaults 2")) + 1);
	f = fopen(from, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	/* twice: resuming writes the file again */
	expect(thalweg(NULL, "sim %s --run %s/former --checkpoints 1", file, scratch()), 75);
	s = thalweg(NULL, "sim %s --run %s/former --json", file, scratch());
	expect(s, 0);
	r = object_of(s);
	assert_string_equal(text_of(r, "strategy"), "async");
	assert_string_equal(text_of(r, "parameters_digest"), text_of(whole, "parameters_digest"));
	json_decref(r);
	json_decref(whole);
	/* what is begun again is begun as today */
	s = thalweg(NULL, "sim %s --run %s/former --again --json", file, scratch());
	expect(s, 0);
	r = object_of(s);
	assert_string_equal(text_of(r, "strategy"), "ssgd");
	json_decref(r);
}

static void another_job_is_refused(void **state)
{
	const char *file = job_file();
	const struct said *s;

	expect(thalweg(NULL, "sim %s --run %s/mine --checkpoints 1", file, scratch()), 75);
	s = thalweg(NULL, "sim %s --run %s/mine --set update.rate=0.01", file, scratch());
	expect(s, 2);
	has(s->err, "another job");
	has(s->err, "rate: 0.05");
	has(s->err, "rate: 0.01");
	/* a field that may change is never the one that is blamed */
	s = thalweg(NULL,
		    "sim %s --run %s/mine --set cluster.workers=3 --set checkpoint.keep=7 --set "
		    "train.epochs=3 --set update.rate=0.01",
		    file, scratch());
	expect(s, 2);
	has(s->err, "(update.rate: 'rate: 0.05' there, 'rate: 0.01' here)");
	s = thalweg(NULL, "train %s --run %s/mine", file, scratch());
	expect(s, 2);
	has(s->err, "thalweg sim");
	/* and it is still there to be gone on with */
	expect(thalweg(NULL, "sim %s --run %s/mine", file, scratch()), 0);
}

/* A preset whose warm start does not fit one worker: what a worker has of its own begins anew. */
static void downpour_resumes_with_other_workers(void **state)
{
	static const int pairs[][2] = { { 1, 4 }, { 4, 1 }, { 3, 2 } };
	static const char *const more[] = { "", " --set strategy.fetch=3 --set strategy.local.rule="
						"momentum" };
	const char *file = job_file();

	for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
		for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
			static const char how[] = "sim %s --run %s/pour --set strategy=downpour%s "
						  "--set cluster.workers=%d %s";
			json_t *r;

			expect(thalweg(NULL, how, file, scratch(), more[m], pairs[k][0],
				       "--again --checkpoints 1"),
			       75);
			const struct said *s =
				thalweg(NULL, how, file, scratch(), more[m], pairs[k][1], "--json");
			expect(s, 0);
			r = object_of(s);
			assert_true(number_of(r, "epochs") == 1);
			assert_true(number_of(r, "workers") == pairs[k][1]);
			json_decref(r);
		}
}

static void a_foreign_directory_is_left_alone(void **state)
{
	const char *file = job_file(); /* scratch()/job.yaml: a job, but not of a run */
	const struct said *s = thalweg(NULL, "sim %s --run %s", file, scratch());

	expect(s, 2);
	has(s->err, "not the directory of a run");
	s = thalweg(NULL, "sim %s --run %s --again", file, scratch());
	expect(s, 2);
	s = thalweg(NULL, "sim %s --run %s/job.yaml", file, scratch());
	expect(s, 2);
	has(s->err, "give another --run DIR");
	s = thalweg(NULL, "sim %s --trace %s/nowhere/trace.json", file, scratch());
	expect(s, 2);
	has(s->err, "--trace: ");
	has(s->err, "cannot be written");
}

static void a_damaged_checkpoint_is_passed_over(void **state)
{
	const char *file = job_file();
	const struct said *s;
	char path[300], *whole, *mended;
	json_t *r;

	s = thalweg(NULL, "sim %s --run %s/sound --json", file, scratch());
	whole = digest_of(s);
	s = thalweg(NULL, "sim %s --run %s/torn --json --checkpoints 3", file, scratch());
	expect(s, 75);
	r = object_of(s);
	snprintf(path, sizeof path, "%s/master.safetensors", text_of(r, "checkpoint"));
	json_decref(r);
	assert_int_equal(truncate(path, 40), 0);
	s = thalweg(NULL, "sim %s --run %s/torn --json", file, scratch());
	expect(s, 0);
	has(s->err, "is refused: master.safetensors is truncated");
	assert_null(strstr(strstr(s->err, "is refused") + 1, "is refused"));
	mended = digest_of(s);
	assert_string_equal(whole, mended);
	free(whole);
	free(mended);
}

static void a_run_in_use_is_refused(void **state)
{
	const char *file = job_file();
	const pid_t child = thalweg_start("train %s --run %s/busy --set train.epochs=1e9 "
					  "--set train.time=20s",
					  file, scratch());
	const struct said *s;

	for (int i = 0; i < 500 && !exists("busy/log.jsonl"); i++)
		usleep(10000);
	assert_true(exists("busy/log.jsonl"));
	/* started by hand: thalweg_finish needs the files of the first child */
	{
		char command[600];
		int code;

		snprintf(command, sizeof command,
			 "%s/thalweg train %s --run %s/busy -q >%s/busy.out 2>&1",
			 getenv("TW_BUILD"), file, scratch(), scratch());
		code = system(command);
		assert_true(WIFEXITED(code));
		assert_int_equal(WEXITSTATUS(code), 1);
	}
	kill(child, SIGINT);
	s = thalweg_finish(child);
	expect(s, 75);
}

/* The first signal checkpoints; the run goes on from there and ends by itself. */
static void an_interrupted_run_goes_on(void **state)
{
	const char *file = job_file();
	const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	for (size_t i = 0; i < 3; i++) {
		char command[400], first[60];
		const struct said *s;
		double steps;
		pid_t child;
		json_t *r;

		snprintf(command, sizeof command,
			 "train %s --run %s/stopped-%zu --json --set train.epochs=1e9 "
			 "--set train.time=1500ms --set checkpoint.every=300ms "
			 "--set checkpoint.keep=9",
			 file, scratch(), i);
		child = thalweg_start("%s", command);
		snprintf(first, sizeof first, "stopped-%zu/ckpt-1", i);
		for (int k = 0; k < 3000 && !exists(first); k++)
			usleep(10000);
		kill(child, signals[i]);
		if (signals[i] == SIGHUP) { /* a terminal that closes may send it twice */
			usleep(2000);
			kill(child, SIGHUP);
		}
		s = thalweg_finish(child);
		expect(s, 75);
		r = object_of(s);
		assert_int_equal(access(text_of(r, "checkpoint"), F_OK), 0);
		steps = number_of(r, "steps");
		assert_true(steps > 0);
		json_decref(r);
		s = thalweg(NULL, "%s", command);
		expect(s, 0);
		has(s->err, "resuming from");
		r = object_of(s);
		assert_true(number_of(r, "steps") > steps);
		assert_true(json_is_false(json_object_get(r, "interrupted")));
		json_decref(r);
	}
}

/* Two signals at once: it does not wait for a checkpoint. */
static void a_second_signal_ends_it_at_once(void **state)
{
	const pid_t child = thalweg_start("sim %s --run %s/twice --json --set train.epochs=1e6",
					  job_file(), scratch());
	const struct said *s;

	for (int k = 0; k < 500 && !exists("twice/log.jsonl"); k++)
		usleep(10000);
	kill(child, SIGINT);
	kill(child, SIGTERM);
	s = thalweg_finish(child);
	assert_true(s->code == 128 + SIGINT || s->code == 128 + SIGTERM);
	assert_string_equal(s->out, "");
}

/* Under nohup it stays ignored. */
static void a_hangup_that_is_ignored_stays_ignored(void **state)
{
	struct sigaction before;
	const struct said *s;
	pid_t child;

	sigaction(SIGHUP, &(struct sigaction){ .sa_handler = SIG_IGN }, &before);
	child = thalweg_start("train %s --run %s/nohup --json --set train.epochs=1e9 "
			      "--set train.time=1s",
			      job_file(), scratch());
	sigaction(SIGHUP, &before, NULL);
	for (int k = 0; k < 500 && !exists("nohup/log.jsonl"); k++)
		usleep(10000);
	for (int k = 0; k < 3; k++) {
		usleep(50000);
		kill(child, SIGHUP);
	}
	s = thalweg_finish(child);
	expect(s, 0);
}

/* --- a reader who leaves, a disk that is full --- */

/* The code of the first command of a pipe, which starts when its reader has left; its stderr must
 * be empty unless `says` is in it. */
static void piped(const char *pipe, int code, const char *says)
{
	char command[1000], text[2000] = "";
	FILE *f;
	int got;

	snprintf(
		command, sizeof command,
		"thalweg() { sleep 0.2; (exec %s/thalweg \"$@\" 2>%s/err); echo $? >%s/code; }; %s",
		getenv("TW_BUILD"), scratch(), scratch(), pipe);
	assert_int_equal(system(command), 0);
	f = fopen(path_of("code"), "r");
	assert_int_equal(fscanf(f, "%d", &got), 1);
	fclose(f);
	f = fopen(path_of("err"), "r");
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	if (got != code)
		fail_msg("`%s` ends with %d: %s", pipe, got, text);
	if (says)
		has(text, says);
	else
		assert_string_equal(text, "");
}

static void a_reader_who_leaves_hears_nothing(void **state)
{
	piped("thalweg help options | true", 128 + SIGPIPE, NULL);
	piped("thalweg --help | true", 128 + SIGPIPE, NULL);
	piped("thalweg help strategies | true", 128 + SIGPIPE, NULL);
}

/* A run is not there for its reader: it ends, and its result is where it belongs. */
static void a_run_goes_on_when_its_reader_leaves(void **state)
{
	char pipe[400];

	snprintf(pipe, sizeof pipe, "thalweg train %s --run %s/unread -q | true", job_file(),
		 scratch());
	piped(pipe, 0, NULL);
	assert_true(exists("unread/result.json"));
	snprintf(pipe, sizeof pipe, "thalweg sim %s -q --log /dev/stdout | true", job_file());
	piped(pipe, 0, NULL);
}

static void a_full_standard_output_is_said(void **state)
{
	char pipe[400];

	piped("thalweg help options >/dev/full", 1, "cannot be written: No space left on device");
	snprintf(pipe, sizeof pipe, "thalweg sim %s -q >/dev/full", job_file());
	piped(pipe, 1, "cannot be written: No space left on device");
}

/* sim without a directory has nothing to go on from: the first signal ends it. */
static void a_signal_ends_what_keeps_nothing(void **state)
{
	const pid_t child = thalweg_start("sim %s --json --set train.epochs=1e6", job_file());
	const struct said *s;

	usleep(500000);
	kill(child, SIGTERM);
	s = thalweg_finish(child);
	expect(s, 128 + SIGTERM);
	assert_string_equal(s->out, "");
}

/* More workers than cores can serve: said, and refused where it cannot end well. */
static void a_crowd_of_workers_is_said(void **state)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const struct said *s;
	char *file;

	s = thalweg(NULL, "train %s --run %s/crowd --set cluster.workers=%ld", job_file(),
		    scratch(), 4 * cores + 1);
	expect(s, 0);
	has(s->err, "mostly wait");
	has(s->err, "thalweg sim");
	s = thalweg(NULL, "train %s --run %s/few --set cluster.workers=%ld", job_file(), scratch(),
		    4 * cores);
	expect(s, 0);
	assert_null(strstr(s->err, "mostly wait"));
	s = thalweg(NULL, "sim %s --set cluster.workers=%ld", job_file(), 4 * cores + 1);
	expect(s, 0);
	assert_null(strstr(s->err, "mostly wait"));
	file = strdup(job_file());
	s = thalweg(NULL, "train %s --run %s/mob --set cluster.workers=100000", file, scratch());
	expect(s, 2);
	has(s->err, "100000 workers as threads");
	assert_false(exists("mob"));
	s = thalweg(NULL, "train %s --run %s/mob --processes --set cluster.workers=2000", file,
		    scratch());
	expect(s, 2);
	has(s->err, "2000 processes");
	has(s->err, "use 1024 at most");
	assert_false(exists("mob"));
	free(file);
	s = thalweg(NULL, "join 127.0.0.1:1 --workers 100000");
	expect(s, 2);
	has(s->err, "1024");
	s = thalweg(job, "sim - --threads 100000");
	expect(s, 2);
	has(s->err, "1024");
}

static void train_runs_in_threads(void **state)
{
	const struct said *s = thalweg(NULL, "train %s --run %s/train --json --set strategy=ssgd",
				       job_file(), scratch());
	char *threads, *sim;
	json_t *r;

	expect(s, 0);
	r = object_of(s);
	assert_string_equal(text_of(r, "strategy"), "ssgd");
	assert_null(json_object_get(r, "virtual_seconds"));
	assert_true(number_of(r, "samples") == 512);
	json_decref(r);
	threads = digest_of(s);
	sim = digest_of(thalweg(job, "sim - --json --set strategy=ssgd"));
	assert_string_equal(threads, sim); /* bsp gives the same bits in every world */
	free(threads);
	free(sim);
	/* what threads do not read is said */
	has(thalweg(NULL, "train %s --run %s/train2", job_file(), scratch())->err, "sim");
}

static void a_trace_is_a_timeline(void **state)
{
	char path[200];
	json_t *trace;

	expect(thalweg(NULL, "sim %s --trace %s/trace.json", job_file(), scratch()), 0);
	snprintf(path, sizeof path, "%s/trace.json", scratch());
	trace = json_load_file(path, 0, NULL);
	assert_non_null(trace);
	if (json_is_object(trace))
		assert_true(json_array_size(json_object_get(trace, "traceEvents")) > 100);
	else
		assert_true(json_array_size(trace) > 100);
	json_decref(trace);
}

static void isa_levels_give_the_same_bits(void **state)
{
	char *plain, *best;
	const struct said *s = thalweg(job, "sim - --json --isa plain");
	json_t *r;

	expect(s, 0);
	r = object_of(s);
	assert_string_equal(text_of(r, "isa"), "plain");
	json_decref(r);
	plain = digest_of(s);
	best = digest_of(thalweg(job, "sim - --json"));
	assert_string_equal(plain, best);
	free(plain);
	free(best);
}

static void the_environment_overrides_the_file(void **state)
{
	json_t *r;

	setenv("THALWEG_TRAIN_SEED", "9", 1);
	r = object_of(thalweg(job, "sim - --json"));
	assert_true(number_of(r, "seed") == 9);
	json_decref(r);
	r = object_of(thalweg(job, "sim - --json --set train.seed=10"));
	assert_true(number_of(r, "seed") == 10);
	json_decref(r);
	unsetenv("THALWEG_TRAIN_SEED");
}

/* The disk fills up in the middle: it is said, and the run does not pretend to be kept. */
static void a_full_disk_is_said(void **state)
{
	const char *file = job_file();
	const struct said *s;
	struct rlimit before, full;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	full = before;
	full.rlim_cur = 4096; /* room for the job, not for a manifest that holds it */
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
		s = thalweg(NULL, "sim %s --run %s/full --set model.quadratic.dimension=9999%s",
			    file, scratch(), i ? "" : " --checkpoints 1");
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		expect(s, 1);
		has(s->err, "cannot be written");
		assert_false(exists("full/result.json"));
	}
	/* with room again, the same command ends well */
	expect(thalweg(NULL, "sim %s --run %s/full --set model.quadratic.dimension=9999", file,
		       scratch()),
	       0);
}

static void a_bench_has_cases(void **state)
{
	const struct said *s = thalweg(NULL, "bench codec --json");
	const json_t *c;
	json_t *r;
	size_t i;

	expect(s, 0);
	r = object_of(s);
	assert_true(json_array_size(json_object_get(r, "cases")) >= 9);
	json_array_foreach(json_object_get(r, "cases"), i, c)
	{
		text_of(c, "name");
		text_of(c, "unit");
		assert_true(fabs(number_of(c, "value") / number_of(c, "floor") -
				 number_of(c, "ratio")) < 1e-9);
	}
	json_decref(r);
}

static void the_doctor_is_content(void **state)
{
	const struct said *s = thalweg(NULL, "doctor --json");
	json_t *r;

	expect(s, 0);
	r = object_of(s);
	assert_true(json_is_true(json_object_get(r, "well")));
	assert_true(number_of(r, "cores") >= 1);
	text_of(json_object_get(r, "libraries"), "libyaml");
	assert_true(json_is_boolean(json_object_get(json_object_get(r, "worlds"), "mpi")));
	text_of(json_object_get(r, "extras"), "Open MPI");
	text_of(json_object_get(r, "extras"), "MPICH");
	json_decref(r);
	s = thalweg(NULL, "doctor");
	expect(s, 0);
	has(s->out, "slurm");
}

int main(void)
{
#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(the_result_has_its_fields),
		IN_SCRATCH(its_fields_are_in_the_reference),
		IN_SCRATCH(an_interrupted_run_says_what_it_knows),
		IN_SCRATCH(the_same_request_gives_the_same_result),
		IN_SCRATCH(without_json_there_is_a_summary),
		IN_SCRATCH(large_numbers_are_printed_as_they_are),
		IN_SCRATCH(divergence_is_said),
		IN_SCRATCH(advice_after_a_divergence_works),
		IN_SCRATCH(a_good_checkpoint_is_gone_on_from),
		IN_SCRATCH(verbose_says_details),
		IN_SCRATCH(a_time_limit_is_not_given_anew),
		IN_SCRATCH(sim_keeps_nothing_without_run),
		IN_SCRATCH(a_run_directory_is_filled),
		IN_SCRATCH(every_line_of_the_log_is_an_object),
		IN_SCRATCH(a_finished_run_is_refused_without_again),
		IN_SCRATCH(a_finished_run_can_be_made_longer),
		IN_SCRATCH(stopped_and_resumed_is_the_same_run),
		IN_SCRATCH(a_former_run_keeps_its_defaults),
		IN_SCRATCH(no_evaluation_is_skipped),
		IN_SCRATCH(until_delivers_what_reached_it),
		IN_SCRATCH(another_job_is_refused),
		IN_SCRATCH(downpour_resumes_with_other_workers),
		IN_SCRATCH(a_foreign_directory_is_left_alone),
		IN_SCRATCH(a_damaged_checkpoint_is_passed_over),
		IN_SCRATCH(a_run_in_use_is_refused),
		IN_SCRATCH(an_interrupted_run_goes_on),
		IN_SCRATCH(a_second_signal_ends_it_at_once),
		IN_SCRATCH(a_signal_ends_what_keeps_nothing),
		IN_SCRATCH(a_hangup_that_is_ignored_stays_ignored),
		IN_SCRATCH(a_reader_who_leaves_hears_nothing),
		IN_SCRATCH(a_run_goes_on_when_its_reader_leaves),
		IN_SCRATCH(a_full_standard_output_is_said),
		IN_SCRATCH(a_crowd_of_workers_is_said),
		IN_SCRATCH(train_runs_in_threads),
		IN_SCRATCH(a_trace_is_a_timeline),
		IN_SCRATCH(isa_levels_give_the_same_bits),
		IN_SCRATCH(the_environment_overrides_the_file),
		IN_SCRATCH(a_full_disk_is_said),
		IN_SCRATCH(a_bench_has_cases),
		IN_SCRATCH(the_doctor_is_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
