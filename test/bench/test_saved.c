/* SPDX-License-Identifier: Apache-2.0 */
/* test_saved.c - runs of a bench in a file, and what is said of new ones against them. */
#include "bench/saved.h"

#include "base/rng.h"
#include "kit/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static json_t *result(double value, double ratio)
{
	json_t *r = json_pack("{s:s, s:s, s:[{s:s, s:f, s:s, s:n, s:n}], s:[]}", "version", "1",
			      "isa", "avx2", "cases", "name", "step", "value", value, "unit",
			      "steps/s", "floor", "ratio", "notes");

	assert_non_null(r);
	if (ratio > 0)
		json_object_set_new(json_array_get(json_object_get(r, "cases"), 0), "ratio",
				    json_real(ratio));
	return r;
}

static json_t *against(const json_t *saved, const json_t *now)
{
	struct tw_error why = { .status = TW_OK };
	json_t *rows = NULL;

	assert_int_equal(tw_bench_against(saved, now, &rows, &why), TW_OK);
	return rows;
}

static const char *verdict(const json_t *rows)
{
	return json_string_value(json_object_get(json_array_get(rows, 0), "verdict"));
}

static double number(const json_t *rows, const char *name)
{
	return json_number_value(json_object_get(json_array_get(rows, 0), name));
}

static void what_is_saved_comes_back(void **state)
{
	const char *path = path_of("runs.jsonl");
	struct tw_error why = { .status = TW_OK };
	json_t *two = json_pack("[o, o]", result(5, 2), result(6, 0)), *one = json_array(), *back;

	assert_int_equal(tw_bench_save(path, one, &why), TW_OK);
	assert_int_equal(tw_bench_saved(path, &back, &why), TW_BAD_INPUT); /* none yet */
	assert_non_null(strstr(why.text, "has no run"));
	json_array_append_new(one, result(7, 3));
	assert_int_equal(tw_bench_save(path, two, &why), TW_OK);
	assert_int_equal(tw_bench_save(path, one, &why), TW_OK);
	assert_int_equal(tw_bench_saved(path, &back, &why), TW_OK);
	assert_int_equal(json_array_size(back), 3);
	for (size_t k = 0; k < 3; k++) {
		json_t *run = json_array_get(back, k);

		assert_true(json_integer_value(json_object_get(run, "cores")) >= 1);
		assert_true(*json_string_value(json_object_get(run, "cpu")));
		json_object_del(run, "cores");
		json_object_del(run, "cpu");
		assert_true(
			json_equal(run, k < 2 ? json_array_get(two, k) : json_array_get(one, 0)));
	}
	json_decref(back);
	json_decref(two);
	json_decref(one);
}

static void bad_files_are_refused(void **state)
{
	static const char *const lines[] = { "nonsense\n",
					     "{}\n",
					     "[1]\n",
					     "{\"cases\": 7}\n",
					     "{\"cases\": []}\n\n",
					     "{\"cases\": [7]}\n",
					     "{\"cases\": [{\"name\": \"x\"}]}\n",
					     "{\"cases\": [{\"name\": 3, \"value\": 1}]}\n",
					     "\0" };
	const char *path = path_of("bad.jsonl");
	struct tw_error why = { .status = TW_OK };
	json_t *none = json_array(), *back;
	char place[400];

	for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++) {
		FILE *f = fopen(path, "w");

		assert_non_null(f);
		fputs(lines[k], f);
		fclose(f);
		why = (struct tw_error){ .status = TW_OK };
		assert_int_equal(tw_bench_saved(path, &back, &why), TW_BAD_INPUT);
		snprintf(place, sizeof place, "%s:%d: needs one run", path, k == 4 ? 2 : 1);
		assert_non_null(strstr(why.text, *lines[k] ? place : "has no run"));
	}
	why = (struct tw_error){ .status = TW_OK };
	assert_int_equal(tw_bench_saved(path_of("absent"), &back, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "cannot be read"));
	why = (struct tw_error){ .status = TW_OK };
	assert_int_equal(tw_bench_save(path_of("no/such/file"), none, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "cannot be written"));
	json_decref(none);
}

static void medians_of_several(void **state)
{
	json_t *three = json_pack("[o, o, o]", result(5, 2), result(9, 8), result(6, 3)), *m = NULL;
	struct tw_error why = { .status = TW_OK };
	const json_t *c;

	assert_int_equal(tw_bench_medians(three, &m, &why), TW_OK);
	c = json_array_get(json_object_get(m, "cases"), 0);
	assert_true(json_number_value(json_object_get(c, "value")) == 6);
	assert_true(json_number_value(json_object_get(c, "ratio")) == 3);
	assert_true(json_is_null(json_object_get(c, "floor")));
	assert_int_equal(json_integer_value(json_object_get(m, "runs")), 3);
	json_decref(m);
	json_decref(three);
}

/* By hand: logarithms 0, 1, 2 and 3, 4, so a difference of 2.5; squares 2 and 0.5 over 3 degrees of
 * freedom, t = 3.182446. */
static void an_interval_by_hand(void **state)
{
	json_t *saved =
		json_pack("[o, o, o]", result(exp(0), 0), result(exp(1), 0), result(exp(2), 0));
	json_t *now = json_pack("[o, o]", result(exp(3), 5), result(exp(4), 5)), *rows;
	const double half = 3.182446305 * sqrt(2.5 / 3 * (1.0 / 3 + 1.0 / 2));

	rows = against(saved, now);
	assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "figure")),
			    "value"); /* only one side has a ratio */
	assert_true(fabs(number(rows, "times") / exp(2.5) - 1) < 1e-9);
	assert_true(fabs(number(rows, "low") / exp(2.5 - half) - 1) < 1e-6);
	assert_true(fabs(number(rows, "high") / exp(2.5 + half) - 1) < 1e-6);
	assert_string_equal(verdict(rows), "within noise");
	json_decref(rows);
	json_array_remove(saved, 0);
	json_array_remove(now, 0);
	rows = against(saved, now); /* three runs in all */
	assert_string_equal(verdict(rows), "unknown");
	assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "low")));
	json_decref(rows);
	json_decref(saved);
	json_decref(now);
}

static const char *note(const json_t *notes, size_t k)
{
	return json_string_value(json_array_get(notes, k));
}

/* Runs of this machine need no note; those of others, and cases that are missing, do. */
static void what_is_not_alike_is_said(void **state)
{
	const char *path = path_of("alike.jsonl");
	struct tw_error why = { .status = TW_OK };
	json_t *one = json_pack("[o]", result(5, 2)), *now = json_array_get(one, 0);
	json_t *saved = NULL, *notes = json_array(), *c;

	assert_int_equal(tw_bench_save(path, one, &why), TW_OK);
	assert_int_equal(tw_bench_save(path, one, &why), TW_OK);
	assert_int_equal(tw_bench_saved(path, &saved, &why), TW_OK);
	assert_int_equal(tw_bench_against_notes(saved, now, notes, &why), TW_OK);
	assert_int_equal(json_array_size(notes), 0);
	json_object_set_new(json_array_get(saved, 1), "isa", json_string("avx512"));
	assert_int_equal(tw_bench_against_notes(saved, now, notes, &why), TW_OK);
	assert_int_equal(json_array_size(notes), 1);
	assert_non_null(strstr(note(notes, 0), "1 of 2 saved runs are of another machine"));
	assert_non_null(strstr(note(notes, 0), "avx512; this one"));
	json_object_set_new(json_array_get(saved, 1), "isa", json_string("avx2"));
	c = json_pack("{s:s, s:f}", "name", "new", "value", 1.0);
	json_array_append(json_object_get(now, "cases"), c);
	assert_int_equal(tw_bench_against_notes(saved, now, notes, &why), TW_OK);
	assert_non_null(
		strstr(note(notes, 1), "1 case of this bench is not in the saved runs: new"));
	json_array_remove(json_object_get(now, "cases"), 0);
	assert_int_equal(tw_bench_against_notes(saved, now, notes, &why), TW_OK);
	assert_non_null(strstr(note(notes, 2), "nothing was compared"));
	assert_int_equal(json_array_size(notes), 3);
	json_decref(c);
	json_decref(notes);
	json_decref(saved);
	json_decref(one);
}

static json_t *draw_runs(uint64_t seed, uint64_t from, size_t n, double times)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_TEST);
	json_t *runs = json_array();

	for (size_t k = 0; k < n; k++)
		json_array_append_new(runs,
				      result(1, times * exp(0.05 * tw_rng_gauss(&r, from + k, 0))));
	return runs;
}

/* Runs that vary by 5 %: equal ones are told apart in about 5 of 100 cases, not more; those that
 * differ by 40 % in nearly all. */
static void verdicts_on_drawn_runs(void **state)
{
	unsigned wrong = 0, missed = 0;

	for (uint64_t seed = 1; seed <= 1000; seed++) {
		json_t *saved = draw_runs(seed, 0, 5, 1), *same = draw_runs(seed, 5, 3, 1);
		json_t *more = draw_runs(seed, 8, 3, 1.4), *a = against(saved, same),
		       *b = against(saved, more);

		wrong += strcmp(verdict(a), "within noise") != 0;
		missed += strcmp(verdict(b), "higher") != 0;
		json_decref(a);
		json_decref(b);
		json_decref(saved);
		json_decref(same);
		json_decref(more);
	}
	print_message("%u of 1000 equal ones told apart, %u of 1000 different ones not\n", wrong,
		      missed);
	assert_in_range(wrong, 25, 75);
	assert_in_range(missed, 0, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_saved_comes_back),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(medians_of_several),
		cmocka_unit_test(an_interval_by_hand),
		cmocka_unit_test(what_is_not_alike_is_said),
		cmocka_unit_test(verdicts_on_drawn_runs),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
