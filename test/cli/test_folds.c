/* SPDX-License-Identifier: Apache-2.0 */
/* test_folds.c - compare --folds: its figures are those of single runs on each fold, with Student's
 * interval; what has no folds is refused. */
#include "cli/spawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLDS 5

static const char job[] = "data: {source: csv, file: rows.csv, label: kind, batch: 10}\n"
			  "model: {layers: [linear 6, tanh, linear 2]}\n"
			  "train: {epochs: 8, seed: 4}\nupdate: {rate: 0.3}\n"
			  "cluster: {workers: 1}\nstrategy: ssgd\n";

static void put_rows(void)
{
	static char text[20000];
	size_t at = (size_t)sprintf(text, "a,b,kind\n");

	for (int k = 0; k < 120; k++) {
		const double a = (k * 37 % 101) / 101.0, b = (k * 53 % 89) / 89.0;

		at += (size_t)sprintf(text + at, "%.4f,%.4f,%s\n", a, b,
				      a + b + (k * 11 % 7) / 20.0 > 1.15 ? "yes" : "no");
	}
	put("rows.csv", text, at);
}

static void figures_are_those_of_single_runs(void **state)
{
	const double t = 2.7764451051977987; /* P(|T| < t) = 0.95 with 4 degrees of freedom */
	double sum = 0, squares = 0, value[FOLDS], deviation;
	const json_t *row, *s;
	char *file, dir[400];
	json_t *o;

	put_rows();
	file = strdup(put_job(job));
	snprintf(dir, sizeof dir, "%s", path_of("folds"));
	for (int k = 0; k < FOLDS; k++) {
		const struct said *one =
			thalweg(NULL, "sim %s --json -q --set data.fold=%d/%d --set train.seed=%d",
				file, k + 1, FOLDS, 4 + k);

		expect(one, 0);
		o = object_of(one);
		value[k] = json_number_value(json_object_get(o, "accuracy"));
		json_decref(o);
		sum += value[k];
	}
	for (int k = 0; k < FOLDS; k++)
		squares += (value[k] - sum / FOLDS) * (value[k] - sum / FOLDS);
	deviation = sqrt(squares / (FOLDS - 1));
	expect(thalweg(NULL, "compare %s --folds %d --run %s --json -q", file, FOLDS, dir), 0);
	o = object_of(thalweg(NULL, "compare %s --folds %d --run %s --json -q", file, FOLDS, dir));
	assert_int_equal(json_integer_value(json_object_get(o, "folds")), FOLDS);
	row = json_array_get(json_object_get(o, "rows"), 0);
	s = json_object_get(json_object_get(row, "summary"), "accuracy");
	assert_int_equal(json_integer_value(json_object_get(s, "n")), FOLDS);
	assert_true(fabs(json_number_value(json_object_get(s, "mean")) - sum / FOLDS) < 1e-12);
	assert_true(fabs(json_number_value(json_object_get(s, "deviation")) - deviation) < 1e-12);
	assert_true(fabs(json_number_value(json_object_get(s, "half")) -
			 t * deviation / sqrt(FOLDS)) < 1e-9);
	json_decref(o);
	has(thalweg(NULL, "compare %s --folds %d --run %s -q", file, FOLDS, dir)->out,
	    "the 95 % interval of the mean over folds");
	has(thalweg(NULL, "compare %s --folds %d --run %s -q", file, FOLDS, dir)->out,
	    "over folds; differences are means of pairs of the same fold");
	has(thalweg(NULL, "compare %s --folds %d --explain", file, FOLDS)->out,
	    "1 rows with 5 folds: 5 runs");
	free(file);
}

static void what_has_no_folds_is_refused(void **state)
{
	char command[700], *file;

	put_rows();
	file = strdup(put_job(job));
	snprintf(command, sizeof command, "compare %s --folds 1", file);
	thalweg_refuses(NULL, "compare.folds: one fold leaves nothing to train on", command);
	snprintf(command, sizeof command, "compare %s --folds 5 --seeds 3", file);
	thalweg_refuses(NULL, "compare.folds: every fold is a run", command);
	snprintf(command, sizeof command, "compare %s --folds 5 --tune update.rate=0.1,0.3", file);
	thalweg_refuses(NULL, "compare.folds: values would be chosen on samples that folds",
			command);
	snprintf(command, sizeof command, "compare %s --folds 5 --set data.fold=1/5", file);
	thalweg_refuses(NULL, "compare.folds: the job names a fold itself", command);
	snprintf(command, sizeof command, "compare %s --folds 121", file);
	thalweg_refuses(NULL, "data.fold: there are only 120 samples for 121 folds", command);
	free(file);
	file = strdup(put_job("data: {source: digits, count: 100, tests: 20, batch: 10}\n"
			      "model: {layers: [linear 10]}\n"));
	snprintf(command, sizeof command, "compare %s --folds 5", file);
	thalweg_refuses(NULL, "data.fold: the data has a test set of its own", command);
	free(file);
	file = strdup(put_job("data: {source: none, samples: 100, batch: 10}\n"
			      "model: {quadratic: {dimension: 5}}\n"));
	snprintf(command, sizeof command, "compare %s --folds 5", file);
	thalweg_refuses(NULL, "compare.folds: the model generates its samples", command);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_those_of_single_runs),
		cmocka_unit_test(what_has_no_folds_is_refused),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
