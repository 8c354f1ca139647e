/* SPDX-License-Identifier: Apache-2.0 */
/* test_compare.c - thalweg compare: what it refuses, what it reports, and that it resumes. */
#include "cli/spawn.h"

#include <dirent.h>
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <cmocka.h>

static const char bowl[] =
	"model: {quadratic: {dimension: 10, curvature: [0.1, 1], noise: 0.1, start: 1}}\n"
	"data: {source: none, samples: 256, batch: 2}\ntrain: {epochs: 2, seed: 1}\n"
	"update: {rate: 0.05}\ncluster: {workers: 4}\nstrategy: asgd\n"
	"sim: {compute: {law: log-normal, median: 100ms, sigma: 0.2}, "
	"stragglers: {count: 1, slower: 8}}\n";
static const char net[] = "model: {layers: [linear 10]}\n"
			  "data: {source: digits, count: 400, tests: 50, batch: 10}\n"
			  "train: {epochs: 1, seed: 7}\ncluster: {workers: 2}\nstrategy: ssgd\n"
			  "compare:\n  seeds: 2\n  baseline: false\n"
			  "  vary: {strategy: [ssgd, {name: softsync, collect: 2}]}\n"
			  "  tune: {update.rate: [0.01, 0.1]}\n"
			  "  tune_seeds: 1\n  widen: 0\n";

static int make(void **state)
{
	if (scratch_make(state))
		return -1;
	put_text("bowl.yaml", bowl);
	put_text("net.yaml", net);
	return 0;
}

/* --- reading reports --- */

static json_t *report_in(const char *dir)
{
	char path[600];
	json_t *o;

	snprintf(path, sizeof path, "%s/%s/report.json", scratch(), dir);
	o = json_load_file(path, 0, NULL);
	assert_non_null(o);
	return o;
}

static char *bytes_of(const char *dir, const char *file)
{
	char path[600], *text = NULL;
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s/%s", scratch(), dir, file);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(getdelim(&text, &n, '\0', f) > 0);
	fclose(f);
	return text;
}

static const json_t *row_of(const json_t *report, const char *label)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (strcmp(json_string_value(json_object_get(row, "label")), label) == 0)
			return row;
	}
	fail_msg("no row is called %s", label);
	return NULL;
}

static double value(const json_t *run, const char *name)
{
	return json_number_value(json_object_get(json_object_get(run, "values"), name));
}

static double mean(const json_t *row, const char *name)
{
	return json_number_value(
		json_object_get(json_object_get(json_object_get(row, "summary"), name), "mean"));
}

static size_t cells_in(const char *dir)
{
	char path[600];
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof path, "%s/%s/cells", scratch(), dir);
	d = opendir(path);
	assert_non_null(d);
	for (const struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* Whether some note of the report has this text. */
static bool notes_have(const json_t *report, const char *text)
{
	const json_t *note;
	size_t k;

	json_array_foreach(json_object_get(report, "notes"), k, note)
	{
		if (strstr(json_string_value(note), text))
			return true;
	}
	return false;
}

/* --- what is reported --- */

static void rows_are_the_runs_that_sim_makes(void **state)
{
	json_t *report, *alone;
	const json_t *run;

	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=ssgd,asgd --seeds 2 --run %s/same",
		       scratch(), scratch()),
	       0);
	report = report_in("same");
	assert_int_equal(json_array_size(json_object_get(report, "rows")), 3);
	alone = object_of(thalweg(NULL,
				  "sim %s/bowl.yaml --set strategy=ssgd --set train.seed=2 --set "
				  "train.evaluate=0.1 --json",
				  scratch()));
	run = json_array_get(json_object_get(row_of(report, "ssgd"), "runs"), 1);
	assert_int_equal(json_integer_value(json_object_get(run, "seed")), 2);
	assert_true(fabs(value(run, "loss") - json_number_value(json_object_get(alone, "loss"))) <
		    1e-8);
	assert_true(value(run, "bytes") == json_number_value(json_object_get(alone, "bytes_sent")));
	assert_true(mean(row_of(report, "asgd"), "samples-per-second") >
		    3 * mean(row_of(report, "ssgd"), "samples-per-second"));
	assert_true(json_is_true(json_object_get(row_of(report, "one worker"), "baseline")));
	assert_true(mean(row_of(report, "one worker"), "staleness") == 0);
	json_decref(alone);
	json_decref(report);
}

/* The mean and the deviation in the report are those of its runs. */
static void summaries_are_those_of_the_runs(void **state)
{
	json_t *report = report_in("same");
	const json_t *row = row_of(report, "asgd"), *runs = json_object_get(row, "runs");
	const double a = value(json_array_get(runs, 0), "loss"),
		     b = value(json_array_get(runs, 1), "loss");
	const json_t *s = json_object_get(json_object_get(row, "summary"), "loss");

	assert_true(fabs(mean(row, "loss") - (a + b) / 2) < 1e-8);
	assert_true(fabs(json_number_value(json_object_get(s, "deviation")) -
			 fabs(a - b) / sqrt(2)) < 1e-8);
	json_decref(report);
}

static void the_same_command_gives_the_same_bytes(void **state)
{
	static const char *const dirs[] = { "first", "second" };
	char *text[2];

	for (int k = 0; k < 2; k++) {
		expect(thalweg(NULL, "compare %s/net.yaml --jobs %d --run %s/%s", scratch(), 1 + k,
			       scratch(), dirs[k]),
		       0);
		text[k] = bytes_of(dirs[k], "report.json");
	}
	assert_string_equal(text[0], text[1]);
	free(text[0]);
	free(text[1]);
}

/* Everything that is printed fits 100 columns, and the page has the report in it. */
static void tables_fit_a_terminal(void **state)
{
	const struct said *s =
		thalweg(NULL, "compare %s/net.yaml --run %s/first", scratch(), scratch());
	char *page = bytes_of("first", "report.html"), *csv = bytes_of("first", "report.csv");

	expect(s, 0);
	for (const char *line = s->out; *line;) {
		size_t n = 0;

		for (; *line && *line != '\n'; line++)
			n += ((unsigned char)*line & 0xc0) != 0x80;
		line += *line == '\n';
		assert_true(n <= 100 || strstr(s->out, scratch()));
	}
	assert_non_null(strstr(s->out, "softsync, collect 2"));
	assert_non_null(strstr(s->out, "accuracy"));
	assert_null(strstr(s->out, "within noise"));
	assert_non_null(strstr(page, "id=\"report\">{\"report\":2,"));
	assert_null(strstr(page, "http://www.example"));
	assert_non_null(strstr(csv, "\"softsync, collect 2\",8,finished"));
	free(page);
	free(csv);
}

/* Rates are chosen on a validation set and with other seeds. */
static void tuning_never_sees_the_test_set(void **state)
{
	json_t *report = report_in("first");
	const json_t *row = row_of(report, "ssgd"), *tries = json_object_get(row, "tries");
	const json_t *tuned = json_array_get(json_object_get(row, "tuned"), 0);
	size_t best = 0;

	assert_int_equal(json_array_size(tries), 2);
	for (size_t k = 1; k < 2; k++)
		if (json_number_value(json_object_get(json_array_get(tries, k), "mean")) >
		    json_number_value(json_object_get(json_array_get(tries, best), "mean")))
			best = k;
	assert_string_equal(json_string_value(json_object_get(tuned, "value")),
			    best ? "0.1" : "0.01");
	assert_string_equal(json_string_value(json_object_get(tuned, "edge")),
			    best ? "highest" : "lowest");
	assert_string_equal(json_string_value(json_object_get(tuned, "reason")),
			    "compare.widen is 0");
	assert_true(notes_have(report, "Values were chosen with 1 seed each"));
	assert_non_null(strstr(json_string_value(json_object_get(row, "job")), "evaluate: test"));
	assert_int_equal(
		json_integer_value(json_object_get(
			json_object_get(json_object_get(report, "cost"), "tuning"), "runs")),
		4);
	json_decref(report);
}

/* A comparison that cannot be made names why. */
static void what_is_unknown_has_a_reason(void **state)
{
	json_t *report;
	const json_t *against;

	expect(thalweg(NULL,
		       "compare %s/net.yaml --vary strategy=ssgd --tune update.rate=0.05 --set "
		       "train.evaluate=1 --set compare.baseline=true --set cluster.workers=8 "
		       "--measure accuracy-at-time --run %s/early",
		       scratch(), scratch()),
	       0);
	report = report_in("early");
	against = json_object_get(row_of(report, "one worker"), "against_best");
	assert_string_equal(json_string_value(json_object_get(against, "verdict")), "unknown");
	assert_string_equal(json_string_value(json_object_get(against, "reason")),
			    "no run of one of them has a value");
	assert_true(notes_have(report, "one worker has no accuracy at equal time in 2 of 2 runs: "
				       "it made no evaluation in the first"));
	json_decref(report);
}

/* --- grids that widen --- */

static double tried(const json_t *row, size_t k, const char *name)
{
	const json_t *one = json_array_get(json_object_get(row, "tries"), k);

	if (strcmp(name, "mean") == 0)
		return json_number_value(json_object_get(one, "mean"));
	return atof(json_string_value(
		json_object_get(json_array_get(json_object_get(one, "values"), 0), "value")));
}

/* The chosen value has the least loss of all that were tried, and was tried between two others,
 * unless it has an edge: then it is the last one.  Returns how many were tried. */
static size_t check_grid(const json_t *row)
{
	const json_t *tuned = json_array_get(json_object_get(row, "tuned"), 0);
	const char *edge = json_string_value(json_object_get(tuned, "edge"));
	const size_t n = json_array_size(json_object_get(row, "tries"));
	size_t best = 0;

	for (size_t k = 1; k < n; k++) {
		assert_true(tried(row, k, "value") > tried(row, k - 1, "value"));
		if (tried(row, k, "mean") < tried(row, best, "mean"))
			best = k;
	}
	assert_true(atof(json_string_value(json_object_get(tuned, "value"))) ==
		    tried(row, best, "value"));
	assert_true(!edge == json_is_null(json_object_get(tuned, "reason")));
	if (edge)
		assert_string_equal(edge, best == 0 ? "lowest" : "highest");
	assert_true((best == 0 || best + 1 == n) == (edge != NULL));
	return n;
}

static void a_grid_widens_until_the_best_is_inside(void **state)
{
	json_t *report;
	const json_t *row;
	size_t runs = 0, cells;

	/* too low for asgd, and too high for dana */
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=asgd,dana --tune "
		       "update.rate=0.02,0.03 "
		       "--set compare.baseline=false --set compare.widen=9 --seeds 1 --run %s/wide",
		       scratch(), scratch()),
	       0);
	report = report_in("wide");
	assert_int_equal(json_integer_value(json_object_get(report, "tune_seeds")), 3);
	row = row_of(report, "asgd");
	runs = 3 * check_grid(row);
	assert_true(tried(row, 0, "value") == 0.02 && tried(row, 2, "value") == 0.045);
	assert_true(json_is_null(
		json_object_get(json_array_get(json_object_get(row, "tuned"), 0), "edge")));
	row = row_of(report, "dana");
	runs += 3 * check_grid(row);
	assert_true(tried(row, 0, "value") < 0.02);
	assert_int_equal(
		json_integer_value(json_object_get(
			json_object_get(json_object_get(report, "cost"), "tuning"), "runs")),
		runs);
	json_decref(report);
	/* what is there is not run again */
	cells = cells_in("wide");
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=asgd,dana --tune "
		       "update.rate=0.02,0.03 "
		       "--set compare.baseline=false --set compare.widen=9 --seeds 1 --run %s/wide",
		       scratch(), scratch()),
	       0);
	assert_int_equal(cells_in("wide"), cells);
	/* `grid` has no values of its own to be given, and steps of 1, 3, 10 */
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=dana --tune update.rate=grid --set "
		       "compare.baseline=false --seeds 1 --run %s/wide",
		       scratch(), scratch()),
	       0);
	report = report_in("wide");
	row = row_of(report, "dana");
	check_grid(row);
	assert_true(tried(row, 0, "value") == 0.003 && tried(row, 1, "value") == 0.01);
	json_decref(report);
}

/* A limit of widening, and of the field, is an edge with its reason. */
static void a_grid_ends_where_it_must(void **state)
{
	json_t *report;
	const json_t *row;

	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=asgd --tune update.rate=0.0001,0.0002 "
		       "--set compare.baseline=false --set compare.widen=2 --seeds 1 --run %s/ends",
		       scratch(), scratch()),
	       0);
	report = report_in("ends");
	row = row_of(report, "asgd");
	assert_int_equal(check_grid(row), 4);
	assert_true(tried(row, 3, "value") == 0.0008);
	assert_true(notes_have(report, "compare.widen allows no further value"));
	json_decref(report);
	/* a momentum is below 1, and 0.7 is followed by 0.98 and 1.37 */
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --set update.rule=momentum --set update.rate=0.0001 "
		       "--vary strategy=asgd --tune update.momentum=0.5,0.7 --set "
		       "compare.baseline=false --seeds 1 --run %s/ends",
		       scratch(), scratch()),
	       0);
	report = report_in("ends");
	row = row_of(report, "asgd");
	assert_int_equal(check_grid(row), 3);
	assert_true(notes_have(report, "update.momentum"));
	json_decref(report);
}

static void two_fields_widen_together(void **state)
{
	json_t *report;
	const json_t *row;

	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=asgd --tune update.rate=0.01,0.02 "
		       "--tune data.batch=2,4 --set compare.baseline=false --set "
		       "compare.tune_seeds=1 --seeds 1 --run %s/both",
		       scratch(), scratch()),
	       0);
	report = report_in("both");
	row = row_of(report, "asgd");
	for (size_t t = 0; t < 2; t++)
		assert_true(json_is_null(
			json_object_get(json_array_get(json_object_get(row, "tuned"), t), "edge")));
	json_decref(report);
}

static void divergence_is_a_result(void **state)
{
	json_t *report;

	expect(thalweg(NULL,
		       "compare %s/net.yaml --set compare.tune=[] --vary "
		       "update.rate=0.1,100000 --vary strategy=ssgd --run %s/wild",
		       scratch(), scratch()),
	       2); /* tune needs a mapping */
	put_text("wild.yaml", "model: {layers: [linear 10, relu, linear 10]}\n"
			      "data: {source: digits, count: 400, tests: 50, batch: 10}\n"
			      "train: {epochs: 2, seed: 7}\ncluster: {workers: 2}\n"
			      "strategy: asgd\n");
	expect(thalweg(NULL, "compare %s/wild.yaml --vary update.rate=0.1,1e6 --run %s/wild",
		       scratch(), scratch()),
	       0);
	report = report_in("wild");
	assert_true(json_integer_value(json_object_get(row_of(report, "rate 1e6"), "diverged")) >=
		    1);
	assert_string_equal(json_string_value(json_object_get(report, "best")), "rate 0.1");
	assert_true(mean(row_of(report, "rate 0.1"), "accuracy") > 0.2);
	json_decref(report);
}

/* A target that nobody reaches is said, and one that some reach is timed. */
static void targets_are_timed_without_ending_runs(void **state)
{
	const struct said *s = thalweg(NULL,
				       "compare %s/bowl.yaml --vary strategy=asgd,ssgd --set "
				       "compare.target.loss=1e-9 --run %s/never",
				       scratch(), scratch());
	json_t *report;

	expect(s, 0);
	assert_non_null(strstr(s->out, "reached the target in 0 of 3 runs"));
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=asgd,ssgd --set "
		       "compare.target.loss=0.2 --run %s/never",
		       scratch(), scratch()),
	       0);
	report = report_in("never");
	assert_string_equal(json_string_value(json_object_get(report, "measure")),
			    "time-to-target");
	assert_string_equal(json_string_value(json_object_get(report, "best")), "asgd");
	assert_true(mean(row_of(report, "asgd"), "time-to-target") <
		    mean(row_of(report, "asgd"), "seconds"));
	json_decref(report);
}

/* Every seed of a job with a data set trains as long as the job says, whatever limits it. */
static void every_seed_runs_to_the_limit(void **state)
{
	static const struct {
		const char *limit, *measure;
		double least, most;
	} cases[] = {
		{ "time: 5s", "seconds", 5, 5.5 },
		{ "steps: 120", "epochs", 4.8, 4.8 },
		{ "updates: 100", "updates", 100, 100 },
	};
	char text[500], name[20];

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		json_t *report;

		snprintf(name, sizeof name, "limit%zu", k);
		snprintf(text, sizeof text,
			 "data: {source: digits, count: 400, tests: 100, batch: 16}\n"
			 "model: {name: mlp, hidden: [8]}\ntrain: {%s, seed: 1}\n"
			 "cluster: {workers: 2}\ncompare: {seeds: 3, baseline: false, "
			 "methods: {a: {strategy: asgd}, b: {strategy: ssgd}}}\n",
			 cases[k].limit);
		put_text("limit.yaml", text);
		expect(thalweg(NULL, "compare %s/limit.yaml --run %s/%s", scratch(), scratch(),
			       name),
		       0);
		report = report_in(name);
		for (size_t i = 0; i < 6; i++) {
			const json_t *runs =
				json_object_get(row_of(report, i < 3 ? "a" : "b"), "runs");
			const double x = value(json_array_get(runs, i % 3), cases[k].measure);

			if (!(x >= cases[k].least - 1e-6 && x <= cases[k].most + 1e-6))
				fail_msg("%s: %g %s", cases[k].limit, x, cases[k].measure);
		}
		/* a run whose length is known makes 20 evaluations, and one that time ends makes
		 * one in every epoch */
		assert_true(
			json_array_size(json_object_get(
				json_object_get(
					json_array_get(json_object_get(row_of(report, "a"), "runs"),
						       2),
					"curve"),
				"loss")) >= (k ? 18 : 3));
		json_decref(report);
	}
}

/* --- resuming --- */

/* Killed at any moment, the comparison goes on where it was, to the same bytes. */
static void a_killed_comparison_resumes(void **state)
{
	char *whole = bytes_of("first", "report.json"), *text;
	struct running r;
	struct said s;
	struct stat before, after;
	char path[600];

	for (int k = 0; k < 3; k++) {
		thalweg_begin(&r, NULL, "compare %s/net.yaml --jobs 1 --run %s/killed", scratch(),
			      scratch());
		pause_ms(60 + 60 * k);
		kill(r.pid, k == 2 ? SIGINT : SIGKILL);
		thalweg_end(&r, &s);
		said_free(&s);
	}
	expect(thalweg(NULL, "compare %s/net.yaml --run %s/killed", scratch(), scratch()), 0);
	text = bytes_of("killed", "report.json");
	assert_string_equal(text, whole);
	assert_int_equal(cells_in("killed"), cells_in("first"));
	/* and what is there is not run again */
	snprintf(path, sizeof path, "%s/killed/cells", scratch());
	assert_int_equal(stat(path, &before), 0);
	expect(thalweg(NULL, "compare %s/net.yaml --run %s/killed", scratch(), scratch()), 0);
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
		    before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
	free(text);
	free(whole);
}

/* --- what is refused before anything runs --- */

static void refuses(const char *why, const char *format, ...)
{
	char command[600];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof command, format, args);
	va_end(args);
	thalweg_refuses(NULL, why, command);
	assert_false(exists("none"));
}

static void bad_requests_are_refused(void **state)
{
	const char *dir = scratch();

	refuses("--vary strategi=ssgd", "compare %s/bowl.yaml --vary strategi=ssgd --run %s/none",
		dir, dir);
	refuses("no preset is called 'asdg'",
		"compare %s/bowl.yaml --vary strategy=ssgd,asdg --run %s/none", dir, dir);
	refuses("needs a field and its values",
		"compare %s/bowl.yaml --vary strategy --run %s/none", dir, dir);
	put_text("rule.yaml", "model: {quadratic: {dimension: 10}}\ndata: {samples: 256}\n"
			      "update: {rule: momentum}\ncluster: {workers: 4}\n");
	put_text("brings.yaml", "model: {quadratic: {dimension: 10}}\ndata: {samples: 256}\n"
				"update: {momentum: 0.5}\ncluster: {workers: 4}\nstrategy: dana\n");
	refuses("compare: {methods: {NAME: {strategy: ..., update.momentum: ...}}}",
		"compare %s/brings.yaml --vary strategy=ssgd,dana --run %s/none", dir, dir);
	refuses("compare: {methods: {dana: {strategy: dana, update.rule: dana}}}",
		"compare %s/rule.yaml --vary strategy=ssgd,dana --run %s/none", dir, dir);
	put_text("named.yaml", "model: {quadratic: {dimension: 10}}\ndata: {samples: 256}\n"
			       "update: {rule: momentum}\ncluster: {workers: 4}\n"
			       "compare: {methods: {dana: {strategy: dana, update.rule: dana}, "
			       "ssgd: {strategy: ssgd}}}\n");
	expect(thalweg(NULL, "compare %s/named.yaml --explain", dir), 0);
	refuses("hogwild", "compare %s/bowl.yaml --vary strategy=ssgd,hogwild --run %s/none", dir,
		dir);
	refuses("is given twice", "compare %s/bowl.yaml --vary cluster.workers=2,2 --run %s/none",
		dir, dir);
	refuses("is varied, and cannot be tuned",
		"compare %s/bowl.yaml --vary update.rate=1 --tune update.rate=1,2 --run %s/none",
		dir, dir);
	refuses("only a learning rate has a grid",
		"compare %s/bowl.yaml --tune data.batch=grid --run %s/none", dir, dir);
	refuses("--seeds says how many", "compare %s/bowl.yaml --vary train.seed=1,2 --run %s/none",
		dir, dir);
	refuses("there is no target", "compare %s/bowl.yaml --measure time-to-target --run %s/none",
		dir, dir);
	refuses("this task has no accuracy",
		"compare %s/bowl.yaml --measure accuracy --run %s/none", dir, dir);
	refuses("effort is measured only by sim",
		"compare %s/bowl.yaml --measure effort --run %s/none", dir, dir);
	refuses("compare.measure", "compare %s/bowl.yaml --measure speed --run %s/none", dir, dir);
	refuses("cannot be opened", "compare %s/absent.yaml --run %s/none", dir, dir);
	refuses("a comparison may have",
		"compare %s/bowl.yaml --vary update.rate=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,"
		"18,19,20,21,22,23,24,25 --seeds 1000 --run %s/none",
		dir, dir);
}

static void a_bad_section_is_refused_with_its_line(void **state)
{
	char text[1200];

	snprintf(text, sizeof text, "%scompare:\n  vary: {strategy: ssgd}\n", bowl);
	put_text("bad.yaml", text);
	refuses("bad.yaml:9: compare.vary.strategy: needs a list",
		"compare %s/bad.yaml --run %s/none", scratch(), scratch());
	refuses("bad.yaml:9: compare.vary.strategy: needs a list", "sim %s/bad.yaml", scratch());
	snprintf(text, sizeof text, "%scompare:\n  vary:\n    strategy: [ssgd, asdg]\n", bowl);
	put_text("bad.yaml", text);
	refuses("bad.yaml:10: strategy.name: no preset is called 'asdg'",
		"compare %s/bad.yaml --run %s/none", scratch(), scratch());
	snprintf(text, sizeof text, "%scompare: {seed: 3}\n", bowl);
	put_text("bad.yaml", text);
	refuses("did you mean 'seeds'", "compare %s/bad.yaml --run %s/none", scratch(), scratch());
}

/* Methods have names, and files too; the environment reaches jobs once. */
static void methods_and_files_are_rows(void **state)
{
	struct running r;
	char text[1200];
	json_t *report;
	struct said s;

	snprintf(text, sizeof text,
		 "%scompare:\n  seeds: 2\n  methods:\n    plain: {strategy: asgd}\n"
		 "    late one: {strategy: asgd, cluster.workers: 9}\n",
		 bowl);
	put_text("methods.yaml", text);
	thalweg_begin(&r, "THALWEG_UPDATE_RATE=0.07",
		      "compare %s/methods.yaml %s/bowl.yaml --run %s/methods", scratch(), scratch(),
		      scratch());
	thalweg_end(&r, &s);
	expect(&s, 0);
	said_free(&s);
	report = report_in("methods");
	assert_true(mean(row_of(report, "methods, late one"), "staleness") > 5);
	assert_non_null(strstr(json_string_value(json_object_get(row_of(report, "bowl"), "job")),
			       "rate: 0.07"));
	json_decref(report);
}

/* Runs take place in the folder of their job, where its paths begin. */
static void relative_paths_begin_at_the_job(void **state)
{
	char table[2000] = "a,b,c\n";

	for (int k = 0; k < 60; k++)
		snprintf(table + strlen(table), sizeof table - strlen(table), "%d,%d,%d\n", k % 7,
			 k % 5, k % 2);
	put_text("table.csv", table);
	put_text("table.yaml", "data: {source: csv, file: table.csv, label: c, batch: 4}\n"
			       "model: {layers: [linear 2]}\ntrain: {epochs: 1}\n"
			       "cluster: {workers: 2}\nstrategy: ssgd\n");
	expect(thalweg(NULL, "compare %s/table.yaml --vary strategy=ssgd,asgd --run %s/table",
		       scratch(), scratch()),
	       0);
}

static void a_grid_of_300_runs_is_quick(void **state)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary cluster.workers=2,3,4,5,6,7,8,9,10,11 --vary "
		       "update.rate=0.01,0.02,0.03,0.04,0.05,0.06,0.07,0.08,0.09,0.1 --set "
		       "compare.baseline=false --run %s/grid",
		       scratch(), scratch()),
	       0);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("300 runs: %.1f s\n",
	       (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
	assert_int_equal(cells_in("grid"), 300);
}

static void other_verbs_say_that_they_ignore_the_section(void **state)
{
	const struct said *s = thalweg(NULL, "sim %s/net.yaml --set train.epochs=0.1", scratch());

	expect(s, 0);
	assert_non_null(strstr(s->err, "section compare: is ignored here"));
}

/* Every comparison that comes with the program can be run.  Most need MNIST or a novel, which may
 * not be here. */
static void examples_are_fine(void **state)
{
	glob_t all;

	expect(thalweg(NULL, "compare examples/compare-quick.yaml --explain"), 0);
	expect(thalweg(NULL, "compare examples/eight-nodes-vgg.yaml --explain"), 0);
	expect(thalweg(NULL, "compare examples/eight-nodes-mlp.yaml --explain"), 0);
	expect(thalweg(NULL, "compare examples/fifteen-to-one.yaml --explain"), 0);
	assert_int_equal(glob("examples/papers/*.yaml", 0, NULL, &all), 0);
	assert_true(all.gl_pathc >= 25);
	for (size_t k = 0; k < all.gl_pathc; k++) {
		const struct said *s = thalweg(NULL, "compare %s --explain", all.gl_pathv[k]);

		if (s->code == 2 && strstr(s->err, "thalweg data fetch "))
			continue;
		if (s->code)
			print_error("%s: %s\n", all.gl_pathv[k], s->err);
		assert_int_equal(s->code, 0);
	}
	globfree(&all);
}

static void the_gap_is_compared_if_it_is_measured(void **state)
{
	const struct said *s = thalweg(NULL,
				       "compare %s/bowl.yaml --vary strategy=ssgd,asgd --seeds 1 "
				       "--set train.gap=true --run %s/gap",
				       scratch(), scratch());
	json_t *report, *alone;

	expect(s, 0);
	assert_non_null(strstr(s->out, " gap "));
	report = report_in("gap");
	alone = object_of(thalweg(NULL,
				  "sim %s/bowl.yaml --set strategy=asgd --set train.gap=true --set "
				  "train.evaluate=0.1 --json",
				  scratch()));
	assert_true(mean(row_of(report, "ssgd"), "gap") == 0);
	assert_true(mean(row_of(report, "asgd"), "gap") > 0);
	assert_true(fabs(mean(row_of(report, "asgd"), "gap") -
			 json_number_value(json_object_get(json_object_get(alone, "gap"), "rms"))) <
		    1e-8);
	json_decref(alone);
	json_decref(report);
	report = report_in("same"); /* where nobody asked for it */
	assert_true(json_is_null(json_object_get(
		json_object_get(json_object_get(row_of(report, "asgd"), "summary"), "gap"),
		"mean")));
	assert_false(notes_have(report, "Only the simulator measures"));
	json_decref(report);
}

/* The busiest fiftieth of the bins that count begins at `burst` times their mean. */
static void bursts_are_those_of_the_servers_links(void **state)
{
	const json_t *row, *link, *in, *out, *value;
	size_t all, first, n, above = 0, at_least = 0;
	double sum = 0, edge;
	json_t *report;

	(void)state;
	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=ssgd,ring --seeds 1 --run %s/burst",
		       scratch(), scratch()),
	       0);
	report = report_in("burst");
	row = row_of(report, "ssgd");
	link = json_object_get(row, "server_link");
	in = json_object_get(link, "received");
	out = json_object_get(link, "sent");
	all = json_array_size(in);
	first = all / 20;
	n = all - first - all / 5;
	assert_true(n >= 50);
	value = json_object_get(
		json_object_get(json_array_get(json_object_get(row, "runs"), 0), "values"),
		"burst");
	assert_true(json_number_value(value) > 1);
#define LOAD(k)                                                                                    \
	(json_number_value(json_array_get(in, k)) + json_number_value(json_array_get(out, k)))
	for (size_t k = first; k < first + n; k++)
		sum += LOAD(k);
	edge = json_number_value(value) * sum / (double)n;
	for (size_t k = first; k < first + n; k++) {
		above += LOAD(k) > edge * (1 + 1e-6);
		at_least += LOAD(k) >= edge * (1 - 1e-6);
	}
#undef LOAD
	assert_true(above < n / 50 && at_least >= n / 50);
	/* without servers there is nothing to measure */
	value = json_object_get(
		json_object_get(json_array_get(json_object_get(row_of(report, "ring"), "runs"), 0),
				"values"),
		"burst");
	assert_true(json_is_null(value));
	json_decref(report);
}

/* Names of methods come from job files, which others may have written. */
static void names_are_only_names(void **state)
{
	static const struct {
		const char *yaml, *raw; /* what must not be in the page as it stands */
	} names[] = {
		{ "\"<script>alert(1)</script>\"", "<script>alert" },
		{ "\"</script><script>alert(2)//\"", "<script>alert" },
		{ "\"\\\"><img src=x onerror=alert(3)>\"", "<img src=x" },
		{ "\"</title><b onclick=alert(4)>\"", "<b onclick" },
		{ "\"a\\nb\"", "a\nb\"" },
		{ "\"../../../../escaped\"", "\x1b" },
		{ "\"\\e]0;owned\\a \\u202e\"", "\x1b" },
		{ "\"%s%n%s\"", "\x1b" },
	};

	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
		const struct said *s;
		struct stat there;
		char text[1200], dir[40], *page;

		snprintf(text, sizeof text,
			 "%scompare: {seeds: 1, baseline: false, methods: {%s: {update: {rate: "
			 "0.02}}, b: {update: {rate: 0.03}}}}\n",
			 bowl, names[k].yaml);
		put_text("names.yaml", text);
		snprintf(dir, sizeof dir, "names-%zu", k);
		s = thalweg(NULL, "compare %s/names.yaml --run %s/%s", scratch(), scratch(), dir);
		expect(s, 0);
		if (strchr(s->out, '\x1b') || strstr(s->out, "\u202e"))
			fail_msg("%s: %s", names[k].yaml, s->out);
		page = bytes_of(dir, "report.html");
		if (strstr(page, names[k].raw))
			fail_msg("%s is in the page as it stands", names[k].raw);
		free(page);
		json_decref(report_in(dir));
		assert_int_not_equal(stat(path_of("escaped"), &there), 0);
	}
}

/* A disk that is full at any file: an error that names it, and nothing that looks like a report. */
static void a_full_disk_is_said(void **state)
{
	static const rlim_t sizes[] = { 1000, 5000, 100000, 200000, 1000000 };
	bool failed = false, worked = false;

	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		struct rlimit before, now;
		const struct said *s;
		struct stat there;

		assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
		now = (struct rlimit){ sizes[k], before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
		s = thalweg(
			NULL,
			"compare %s/bowl.yaml --seeds 1 --vary update.rate=0.1,0.2 --run %s/full",
			scratch(), scratch());
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		if (s->code == 0) {
			worked = true;
			continue;
		}
		failed = true;
		expect(s, 1);
		has(s->err, "cannot be written: File too large");
		assert_int_not_equal(stat(path_of("full/curves.csv"), &there), 0);
	}
	assert_true(failed && worked);
}

static void threads_are_compared_as_well(void **state)
{
	json_t *report;

	expect(thalweg(NULL,
		       "compare %s/bowl.yaml --vary strategy=ssgd,asgd --seeds 1 --world threads "
		       "--run %s/threads",
		       scratch(), scratch()),
	       0);
	report = report_in("threads");
	assert_true(mean(row_of(report, "ssgd"), "loss") < 2);
	assert_string_equal(json_string_value(json_object_get(report, "world")), "threads");
	assert_true(notes_have(report, "Only the simulator measures"));
	json_decref(report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_the_runs_that_sim_makes),
		cmocka_unit_test(summaries_are_those_of_the_runs),
		cmocka_unit_test(the_same_command_gives_the_same_bytes),
		cmocka_unit_test(tables_fit_a_terminal),
		cmocka_unit_test(tuning_never_sees_the_test_set),
		cmocka_unit_test(what_is_unknown_has_a_reason),
		cmocka_unit_test(a_grid_widens_until_the_best_is_inside),
		cmocka_unit_test(a_grid_ends_where_it_must),
		cmocka_unit_test(two_fields_widen_together),
		cmocka_unit_test(divergence_is_a_result),
		cmocka_unit_test(targets_are_timed_without_ending_runs),
		cmocka_unit_test(every_seed_runs_to_the_limit),
		cmocka_unit_test(a_killed_comparison_resumes),
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(a_bad_section_is_refused_with_its_line),
		cmocka_unit_test(methods_and_files_are_rows),
		cmocka_unit_test(relative_paths_begin_at_the_job),
		cmocka_unit_test(a_grid_of_300_runs_is_quick),
		cmocka_unit_test(other_verbs_say_that_they_ignore_the_section),
		cmocka_unit_test(examples_are_fine),
		cmocka_unit_test(the_gap_is_compared_if_it_is_measured),
		cmocka_unit_test(bursts_are_those_of_the_servers_links),
		cmocka_unit_test(names_are_only_names),
		cmocka_unit_test(a_full_disk_is_said),
		cmocka_unit_test(threads_are_compared_as_well),
	};

	return cmocka_run_group_tests(tests, make, scratch_remove);
}
