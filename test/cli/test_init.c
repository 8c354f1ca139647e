/* SPDX-License-Identifier: Apache-2.0 */
/* test_init.c - thalweg init chooses among models by folds: what is straight gets a linear model,
 * what is not does not; its figures are those of single runs, and the same again. */
#include "cli/spawn.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define FOLDS  5
#define MODELS 4
#define LINEAR 1 /* among them */

static uint32_t drawn = 1;

/* From -1 to 1, the same numbers on every machine. */
static double draw(void)
{
	drawn = drawn * 1664525u + 1013904223u;
	return (double)(drawn >> 8) / (double)(1u << 23) - 1;
}

static double straight(const double *x)
{
	return 300 * x[0] - 200 * x[1] + 50 * x[2] + 20 * (draw() + draw());
}

static double bent(const double *x)
{
	return 400 * x[0] * x[1] + 100 * x[2] + 5 * draw();
}

/* A table of `n` rows and three columns. */
static void put_table(const char *name, int n, double (*answer)(const double *x))
{
	static char text[2000000];
	size_t at = (size_t)sprintf(text, "a,b,c,y\n");

	drawn = 7;
	for (int k = 0; k < n; k++) {
		const double x[] = { draw(), draw(), draw() };

		at += (size_t)sprintf(text + at, "%.3f,%.3f,%.3f,%.2f\n", x[0], x[1], x[2],
				      answer(x));
	}
	put(name, text, at);
}

/* The trial of `init NAME`, forced; the caller's. */
static json_t *trial_of(const char *name)
{
	json_t *o, *trial;

	expect(thalweg(NULL, "init %s/%s --force --json -q", scratch(), name), 0);
	o = object_of(thalweg(NULL, "init %s/%s --force --json -q", scratch(), name));
	trial = json_incref(json_object_get(o, "trial"));
	json_decref(o);
	return trial;
}

static size_t chosen_of(const json_t *trial)
{
	size_t k, chosen = MODELS, times = 0;
	json_t *m;

	assert_int_equal(json_array_size(json_object_get(trial, "models")), MODELS);
	json_array_foreach(json_object_get(trial, "models"), k, m)
	{
		if (!json_is_true(json_object_get(m, "chosen")))
			continue;
		chosen = k;
		times++;
	}
	assert_int_equal(times, 1);
	return chosen;
}

static double loss_at(const json_t *trial, size_t model, size_t fold)
{
	const json_t *m = json_array_get(json_object_get(trial, "models"), model);

	return json_number_value(json_array_get(json_object_get(m, "losses"), fold));
}

static double mean_at(const json_t *trial, size_t model)
{
	const json_t *m = json_array_get(json_object_get(trial, "models"), model);
	double sum = 0;

	for (size_t k = 0; k < FOLDS; k++)
		sum += loss_at(trial, model, k);
	assert_true(fabs(json_number_value(json_object_get(m, "loss")) - sum / FOLDS) <
		    1e-9 * fabs(sum));
	return sum / FOLDS;
}

/* The file, and what is put below its `data:`. */
static char *job_text(const char *name, const char *more)
{
	static char text[20000];
	char path[600], all[16000];
	size_t n, before;
	const char *data;
	FILE *f;

	snprintf(path, sizeof path, "%s", path_of(name));
	f = fopen(path, "r");
	assert_non_null(f);
	n = fread(all, 1, sizeof all - 1, f);
	fclose(f);
	all[n] = '\0';
	data = strstr(all, "\ndata:\n");
	assert_non_null(data);
	before = (size_t)(data - all) + 7;
	snprintf(text, sizeof text, "%.*s%s%s", (int)before, all, more, all + before);
	return text;
}

static void what_is_straight_gets_a_linear_model(void **state)
{
	json_t *first, *again, *o;
	char more[60];

	put_table("straight.csv", 150, straight);
	first = trial_of("straight.csv");
	assert_int_equal(chosen_of(first), LINEAR);
	for (size_t k = 0; k < MODELS; k++)
		assert_true(mean_at(first, LINEAR) <= mean_at(first, k));
	/* the noise, and a little for what is not known */
	assert_true(mean_at(first, LINEAR) < 1.3 * 2 * 400 / 3);
	again = trial_of("straight.csv");
	assert_true(json_equal(first, again));
	json_decref(again);
	/* each figure is that of a run of the job that was written */
	has(job_text("straight.yaml", ""), "model:    {name: mlp, hidden: []}");
	has(job_text("straight.yaml", ""),
	    "# tried 4 models with 5 folds of 120 rows, by loss: two");
	has(job_text("straight.yaml", ""), "\n# a linear model: the loss is below that of two ");
	for (int k = 1; k <= FOLDS; k += 3) {
		snprintf(more, sizeof more, "  fold: %d/%d of train\n", k, FOLDS);
		put_text("fold.yaml", job_text("straight.yaml", more));
		/* as many as all models have, if some of 96 rows are held out */
		o = object_of(
			thalweg(NULL, "sim %s/fold.yaml --json -q --set data.batch=76", scratch()));
		assert_true(fabs(json_number_value(json_object_get(o, "loss")) -
				 loss_at(first, LINEAR, (size_t)k - 1)) < 1e-9);
		json_decref(o);
	}
	json_decref(first);
	expect(thalweg(NULL, "train %s/straight.yaml --run %s/straight -q", scratch(), scratch()),
	       0);
}

static void what_is_not_straight_does_not(void **state)
{
	const struct said *s;
	char command[600];
	json_t *trial;

	put_table("bent.csv", 250, bent);
	trial = trial_of("bent.csv");
	assert_int_equal(chosen_of(trial), 0); /* two hidden layers */
	assert_true(mean_at(trial, 0) < mean_at(trial, LINEAR) / 3);
	json_decref(trial);
	s = thalweg(NULL, "init %s/bent.csv --force", scratch());
	expect(s, 0);
	has(s->out,
	    "note         tried 4 models with 5 folds of 200 rows, by loss: two hidden layers (");
	has(s->out, "\nnote         two hidden layers");
	has(job_text("bent.yaml", ""), "hidden: [100, 100]");
	has(job_text("bent.yaml", ""), "# tried 4 models with 5 folds of 200 rows, by loss: two ");
	snprintf(command, sizeof command, "init %s/bent.csv", scratch());
	thalweg_refuses(NULL, "exists already; --force overwrites it", command);
}

static void who_is_in_a_hurry_gets_the_usual_model(void **state)
{
	const struct said *s;
	json_t *o;

	put_table("straight.csv", 150, straight);
	o = object_of(thalweg(NULL, "init %s/straight.csv --quick --force --json", scratch()));
	assert_true(json_is_null(json_object_get(o, "trial")));
	json_decref(o);
	has(job_text("straight.yaml", ""), "hidden: [100, 100]");
	assert_null(strstr(job_text("straight.yaml", ""), "tried"));
	s = thalweg(NULL, "init %s/straight.csv --quick --force", scratch());
	expect(s, 0);
	assert_null(strstr(s->out, "tried"));
}

/* Folds of a few rows say nothing, and many rows would take long. */
static void some_tables_are_not_tried(void **state)
{
	const struct said *s;
	char command[600];

	put_table("few.csv", 15, straight);
	s = thalweg(NULL, "init %s/few.csv", scratch());
	expect(s, 0);
	has(s->out, "note         the usual model: 12 rows are too few to try others (50 would");
	has(job_text("few.yaml", ""), "\n# the usual model: 12 rows are too few");
	expect(thalweg(NULL, "train %s/few.yaml --run %s/few -q", scratch(), scratch()), 0);
	put_table("many.csv", 16000, straight);
	s = thalweg(NULL, "init %s/many.csv", scratch());
	expect(s, 0);
	has(s->out, "the usual model: it would take long to try others on 12800 rows of 3 inputs");
	has(job_text("many.yaml", ""), "hidden: [100, 100]");
	put_text("same.csv", "a,y\n1,on\n2,on\n3,on\n4,on\n");
	snprintf(command, sizeof command, "init %s/same.csv", scratch());
	thalweg_refuses(NULL, "all labels are the same class", command);
	assert_false(exists("same.yaml"));
}

/* What makes a column useless, or its reading doubtful, is said where the job is written. */
static void warnings_are_said_and_written(void **state)
{
	const struct said *s;
	json_t *o, *warnings;

	put_text("odd.csv", "a,one,y\n1,7,0.5\n2,7,1.5\n3,7,2.25\n4,7,3.5\n5,7,4.5\n"
			    "6,7,5.25\n7,7,6.5\n8,7,7.5\n9,7,8.25\n10,7,9.5\n");
	s = thalweg(NULL, "init %s/odd.csv", scratch());
	expect(s, 0);
	has(s->out, "\nwarning      ");
	has(s->out, "(one): every row has the same value, so the model learns nothing from it");
	has(job_text("odd.yaml", ""), "\n# warning: ");
	has(job_text("odd.yaml", ""), "(one): every row has the same value, so the model learns");
	o = object_of(thalweg(NULL, "init %s/odd.csv --force --json -q", scratch()));
	warnings = json_object_get(json_object_get(o, "data"), "warnings");
	assert_int_equal(json_array_size(warnings), 1);
	json_decref(o);
}

static size_t files_here(void)
{
	DIR *d = opendir(scratch());
	size_t n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void an_interruption_leaves_nothing(void **state)
{
	const struct said *s;
	size_t before;
	pid_t child;

	put_table("long.csv", 7000, bent); /* some seconds */
	before = files_here();
	child = thalweg_start("init %s/long.csv -q", scratch());
	pause_ms(400);
	kill(child, SIGINT);
	s = thalweg_finish(child);
	expect(s, 75);
	assert_string_equal(s->out, "");
	assert_string_equal(s->err, "thalweg: interrupted before the job was written\n");
	assert_int_equal(files_here(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_straight_gets_a_linear_model),
		cmocka_unit_test(what_is_not_straight_does_not),
		cmocka_unit_test(who_is_in_a_hurry_gets_the_usual_model),
		cmocka_unit_test(some_tables_are_not_tried),
		cmocka_unit_test(warnings_are_said_and_written),
		cmocka_unit_test(an_interruption_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
