/* SPDX-License-Identifier: Apache-2.0 */
/* test_stream.c - data.source: stream in whole runs: every sample once, however it comes, whoever
 * dies, and after a stop; lines that are broken; what is refused. */
#include "job/refused.h"
#include "job/serial.h"

#include "data/format/sample_line.h"
#include "kit/scratch.h"
#include "world/memory_store.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LINES        3000
#define FIRST        60

/* --- lines ----------------------------------------------------------------------------------- */

static const struct {
	const char *first, *line, *label;
	uint32_t classes;
	const char *says; /* NULL: it is a sample */
	float value[2], answer;
} lines[] = {
	{ "1,2,0", "3,4,1", "last", 2, NULL, { 3, 4 }, 1 },
	{ "0,1,2", "1,3,4", "first", 2, NULL, { 3, 4 }, 1 },
	{ "a,b,y", "3,4,1", "b", 0, NULL, { 3, 1 }, 4 },
	{ "1,2,0", "3,4,1", "2", 0, NULL, { 3, 1 }, 4 },
	{ "1,2,0", "3,4", "last", 2, "feed:7: has fewer columns than the 3 of the first line" },
	{ "1,2,0", "3,4,1,1", "last", 2, "feed:7: has more columns than the 3" },
	{ "1,2,0", "3,x,1", "last", 2, "feed:7: column 2: 'x' is no finite number" },
	{ "1,2,0", "3,4,2", "last", 2, "its label is 2, and a whole number from 0 to 1" },
	{ "1,2,0", "3,4,0.5", "last", 2, "its label is 0.5" },
	{ "1,2,0", "3,4,-1", "last", 2, "its label is -1" },
	{ "1,2,0", "3,\"4,1", "last", 2, "never closed" },
	{ "{\"a\": 1, \"b\": 2, \"y\": 0}",
	  "{\"y\": 1, \"b\": 4, \"a\": 3}",
	  "y",
	  2,
	  NULL,
	  { 3, 4 },
	  1 },
	{ "{\"a\": [1, 2], \"y\": 0}", "{\"y\": 1, \"a\": [3, 4]}", "y", 2, NULL, { 3, 4 }, 1 },
	{ "{\"a\": [1, 2], \"y\": 0}", "{\"y\": 1, \"a\": [3]}", "y", 2,
	  "has 1 values, and the first line had 2" },
	{ "{\"a\": [1, 2], \"y\": 0}", "{\"y\": 1, \"a\": [3, 4, 5]}", "y", 2,
	  "has more than the 2 values" },
	{ "{\"a\": 1, \"b\": 2, \"y\": 0}", "{\"y\": 1, \"a\": 3}", "y", 2, "has no field 'b'" },
	{ "{\"a\": 1, \"b\": 2, \"y\": 0}", "{\"y\": 1, \"a\": 3, \"b\": \"x\"}", "y", 2,
	  "field 'b' has no number" },
	{ "{\"a\": 1, \"b\": 2, \"y\": 0}", "{\"a\": 3, \"b\": 1}", "y", 2,
	  "its label, field 'y', is no number" },
	{ "{\"a\": 1, \"b\": 2, \"y\": 0}", "{\"a\": 3,", "y", 2, "feed:7: is no JSON" },
	{ "{\"a\": 1, \"b\": 2, \"y\": 0}", "[1, 2]", "y", 2, "is JSON, but no object" },
	{ "1,2,0", "", "4", 2, "feed:1: has no column '4' for data.label; it has 3" },
	{ "7", "", "last", 2, "feed:1: has one column" },
	{ "{\"a\": 1}", "", "y", 2, "feed:1: has no field 'y' for data.label" },
	{ "{\"y\": 1}", "", "y", 2, "feed:1: has no values beside the label" },
};

static void a_line_is_a_sample_or_says_why_not(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(lines); k++) {
		const struct tw_line_wishes w = { "feed", lines[k].label, "all", ',',
						  lines[k].classes };
		struct tw_line_format f;
		struct tw_error why = { 0 };
		struct tw_arena names;
		char first[80], line[80];
		float value[2] = { 0 }, target = 0;
		uint32_t label = 0;
		enum tw_status st;

		tw_arena_init(&names, &tw_heap_system);
		snprintf(first, sizeof first, "%s", lines[k].first);
		snprintf(line, sizeof line, "%s", lines[k].line);
		st = tw_line_learn(&w, first, strlen(first), &names, &f, &why);
		if (st == TW_OK)
			st = tw_line_read(&f, 7, line, strlen(line), value, &label, &target, &why);
		if (lines[k].says && (st != TW_BAD_INPUT || !strstr(why.text, lines[k].says)))
			fail_msg("'%s' after '%s': '%s' does not say '%s'", lines[k].line,
				 lines[k].first, why.text, lines[k].says);
		if (!lines[k].says) {
			assert_int_equal(st, TW_OK);
			assert_true(value[0] == lines[k].value[0] && value[1] == lines[k].value[1]);
			assert_true((lines[k].classes ? (float)label : target) == lines[k].answer);
		}
		tw_arena_release(&names);
	}
}

/* --- runs ------------------------------------------------------------------------------------ */

/* Line i of the stream; three values and a class. */
static void write_line(FILE *f, int i)
{
	const double a = sin(i * 1.7), b = cos(i * 2.9), c = sin(i * 0.31 + 1);

	fprintf(f, "%.5f,%.5f,%.5f,%d\n", a, b, c, (a + b > 0) + (c > 0));
}

static void put_stream(const char *name)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	for (int i = 0; i < LINES; i++)
		write_line(f, i);
	fclose(f);
}

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	put_stream("all.csv");
	return 0;
}

/* How often each position was applied by the first shard. */
static unsigned applied[LINES];

static bool see(void *arg, const struct tw_note *n)
{
	(void)arg;
	if (n->kind == TW_NOTE_APPLY && n->shard == 0)
		for (uint64_t i = n->from; i < n->from + n->count && i < LINES; i++)
			applied[i]++;
	return true;
}

static void open_run(struct outcome *o, enum tw_world_kind world, const char *file,
		     const char *strategy, const char *more)
{
	char text[1200];

	snprintf(text, sizeof text,
		 "model: {layers: [linear 8, relu, linear 3]}\n"
		 "data: {source: stream, file: %s, classes: 3, first: 60, keep: 512, batch: 4%s\n"
		 "update: {rate: 0.2}\ncluster: {workers: 3}\nstrategy: %s\n",
		 file, more, strategy);
	memset(applied, 0, sizeof applied);
	outcome_open(o, text, NULL, world);
}

static void run(struct outcome *o, enum tw_world_kind world, const char *file, const char *strategy,
		const char *more)
{
	open_run(o, world, file, strategy, more);
	outcome_run(o, &(const struct watch){ .observer = see });
}

static void all_once(const struct outcome *o)
{
	const struct tw_progressive *p = &o->ran.totals.progressive;

	assert_int_equal(p->samples + p->unscored, LINES - FIRST);
	assert_int_equal(o->ran.totals.samples, LINES - FIRST);
	for (int i = 0; i < LINES; i++)
		assert_int_equal(applied[i], i < LINES - FIRST);
}

struct writer {
	const char *path;
	int lines, broken;
	bool append;
};

/* In pieces, with pauses. */
static void *write_slowly(void *arg)
{
	const struct writer *w = arg;
	FILE *f = fopen(w->path, w->append ? "a" : "w");

	assert_non_null(f);
	for (int i = w->append ? LINES / 2 : 0; i < w->lines; i++) {
		if (w->broken && i % w->broken == 0)
			fprintf(f, "1,2,nonsense,0\n");
		write_line(f, i);
		if (i % 500 == 499) {
			fflush(f);
			nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
		}
	}
	fclose(f);
	return NULL;
}

static const char online[] = "}\ntrain: {mode: online, window: 100}";

/* A run in the simulator does not depend on when samples come. */
static void it_does_not_matter_when_samples_come(void **state)
{
	static const char *const strategies[] = { "asgd", "ssgd", "{name: local-sgd, push: 2}" };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		const struct writer w = { path_of("slow"), LINES, 100, false };
		struct outcome at_once, slow;
		pthread_t thread;

		run(&at_once, TW_WORLD_SIM, path_of("all.csv"), strategies[k], online);
		all_once(&at_once);
		unlink(w.path);
		assert_int_equal(mkfifo(w.path, 0600), 0);
		assert_int_equal(pthread_create(&thread, NULL, write_slowly, (void *)&w), 0);
		run(&slow, TW_WORLD_SIM, w.path, strategies[k], online);
		pthread_join(thread, NULL);
		all_once(&slow);
		assert_string_equal(at_once.digest, slow.digest);
		assert_true(at_once.ran.totals.progressive.loss ==
			    slow.ran.totals.progressive.loss);
		assert_true(at_once.ran.totals.progressive.loss_window <
			    at_once.ran.totals.progressive.loss);
		outcome_close(&at_once);
		outcome_close(&slow);
	}
}

static void threads_take_what_a_pipe_gives(void **state)
{
	static const char *const strategies[] = { "asgd", "ssgd" };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		const struct writer w = { path_of("pipe"), LINES, 0, false };
		struct outcome o;
		pthread_t thread;

		unlink(w.path);
		assert_int_equal(mkfifo(w.path, 0600), 0);
		assert_int_equal(pthread_create(&thread, NULL, write_slowly, (void *)&w), 0);
		run(&o, TW_WORLD_THREADS, w.path, strategies[k], online);
		pthread_join(thread, NULL);
		all_once(&o);
		outcome_close(&o);
	}
}

/* The file has half of the lines when it is opened, and has no end: train.steps is one. */
static void a_file_is_followed(void **state)
{
	struct writer w = { path_of("grows"), LINES / 2, 0, false };
	struct outcome o;
	pthread_t thread;

	(void)state;
	write_slowly(&w);
	w.lines = LINES;
	w.append = true;
	open_run(&o, TW_WORLD_THREADS, w.path, "asgd",
		 ", follow: true}\ntrain: {mode: online, steps: 700}");
	assert_int_equal(pthread_create(&thread, NULL, write_slowly, &w), 0);
	outcome_run(&o, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(o.ran.totals.progressive.samples, 2800);
	outcome_close(&o);
}

/* The ring is a sixth of the stream: workers that come and go hold some of it for a while. */
static void whoever_dies_nothing_is_lost(void **state)
{
	static const char *const strategies[] = { "asgd", "ssgd", "{name: ssp, lead: 2}" };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		struct outcome o;

		run(&o, TW_WORLD_SIM, path_of("all.csv"), strategies[k],
		    "}\ntrain: {mode: online}\nsim: {compute: {law: log-normal, median: 100ms, "
		    "sigma: 0.6}, closed_limit: 100ms, faults: [{crash: worker 1, at: 2s, restart: "
		    "400ms}, {leave: worker 2, at: 4s}, {crash: worker 0, at: 9s, restart: 1s}]}");
		assert_int_equal(o.ran.totals.progressive.samples +
					 o.ran.totals.progressive.unscored,
				 LINES - FIRST);
		assert_int_equal(o.ran.totals.unreachable, 0);
		for (int i = 0; i < LINES - FIRST; i++)
			assert_true(applied[i] >= 1);
		outcome_close(&o);
	}
}

/* Exactly once: the run that resumes reads the file again, and passes over what is done. */
static void a_stop_loses_and_repeats_nothing(void **state)
{
	static const char more[] = "}\ntrain: {mode: online}\ncheckpoint: {every: 8s}\n"
				   "sim: {compute: {law: constant, mean: 100ms}}";
	struct outcome whole;

	(void)state;
	run(&whole, TW_WORLD_SIM, path_of("all.csv"), "asgd", more);
	assert_true(whole.ran.totals.cut >= 2);
	all_once(&whole);
	for (uint64_t stop = 1; stop <= 2; stop++) {
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct outcome part, again;
		unsigned before[LINES];

		open_run(&part, TW_WORLD_SIM, path_of("all.csv"), "asgd", more);
		outcome_run(&part, &(const struct watch){
					   .store = store, .stop_after = stop, .observer = see });
		assert_int_equal(applied[LINES - FIRST - 1], 0);
		outcome_close(&part);
		memcpy(before, applied, sizeof before);
		open_run(&again, TW_WORLD_SIM, path_of("all.csv"), "asgd", more);
		outcome_run(&again, &(const struct watch){
					    .store = store, .resume = true, .observer = see });
		for (int i = 0; i < LINES; i++)
			assert_int_equal(before[i] + applied[i], i < LINES - FIRST);
		assert_string_equal(whole.digest, again.digest);
		assert_true(whole.ran.totals.progressive.loss == again.ran.totals.progressive.loss);
		outcome_close(&again);
		tw_memory_store_free(store);
	}
	outcome_close(&whole);
}

/* --- refused --------------------------------------------------------------------------------- */

#define NETWORK "model: {layers: [linear 3]}\n"
#define STREAM  "data: {source: stream, file: numbers.csv, classes: 3"

static const struct refused cases[] = {
	{ NETWORK STREAM "}\n", 0, 0, SIM, { "job.yaml:2: train.mode:", "use mode: online" } },
	{ NETWORK STREAM ", prefetch: 2}\ntrain: {mode: online}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:2: data.prefetch:" } },
	{ NETWORK STREAM "}\ntrain: {mode: online, evaluate: 1}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:3: train.evaluate:", "progressive loss" } },
	{ NETWORK STREAM "}\ntrain: {mode: online}\nupdate: {rate: auto}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:4: update.rate:", "give a number" } },
	{ NETWORK STREAM "}\ntrain: {mode: online}\n",
	  0,
	  0,
	  TW_WORLD_TCP,
	  { "job.yaml:2: data.source:", "thalweg train" } },
	{ NETWORK STREAM ", keep: 3}\ntrain: {mode: online}\n",
	  0,
	  0,
	  SIM,
	  { "job.yaml:2: data.keep:", "from 16" } },
};

static void what_cannot_be_is_refused(void **state)
{
	(void)state;
	refused_all(cases, COUNT(cases));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_a_sample_or_says_why_not),
		cmocka_unit_test(it_does_not_matter_when_samples_come),
		cmocka_unit_test(threads_take_what_a_pipe_gives),
		cmocka_unit_test(a_file_is_followed),
		cmocka_unit_test(whoever_dies_nothing_is_lost),
		cmocka_unit_test(a_stop_loses_and_repeats_nothing),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
