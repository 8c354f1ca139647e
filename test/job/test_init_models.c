/* SPDX-License-Identifier: Apache-2.0 */
/* test_init_models.c - of models that are tried on folds, one that diverges on some is never
 * chosen, and none of its losses is compared. */
#include "query/init_models.h"

#include "kit/has.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define ROWS 100

/* How a model is trained: all of a job but its data. */
#define GOOD "update: {rule: sgd, rate: 0.01}\n"
#define POOR "update: {rule: sgd, rate: 0.0001}\n"
#define WILD "update: {rule: sgd, rate: 1e6}\n"
#define REST "model: {name: mlp, hidden: []}\ntrain: {epochs: 3}\ncluster: {workers: 1}\n"

/* `data` is the fold (from 1) on which it diverges; "": none, "*": all. */
static void put_job(FILE *f, const void *arg, const struct tw_source_model *m, const char *fold,
		    long long rows)
{
	const bool wild = m->data[0] == '*' || m->data[0] == fold[0];

	(void)arg, (void)rows;
	fprintf(f,
		"data: {source: csv, file: rows.csv, label: y, batch: 10, test: 0, fold: %s}\n"
		"%s" REST,
		fold, wild ? WILD : m->sections);
}

/* The number of the model that is chosen; -1: none.  *trial is the caller's. */
static int choose(const struct tw_source_model *model, json_t **trial)
{
	const struct tw_source_model *chosen;
	const struct tw_init_trials t = {
		.name = path_of("job.yaml"),
		.model = model,
		.put = put_job,
		.rows = ROWS,
		.inputs = 1,
	};
	struct tw_error why = { 0 };

	if (tw_init_choose(&t, &chosen, trial, &why) != TW_OK)
		fail_msg("%s", why.text);
	return chosen ? (int)(chosen - model) : -1;
}

static const char *note_of(const json_t *trial, size_t k)
{
	const char *text = json_string_value(json_array_get(json_object_get(trial, "notes"), k));

	assert_non_null(text);
	return text;
}

static const json_t *model_of(const json_t *trial, size_t m)
{
	return json_array_get(json_object_get(trial, "models"), m);
}

/* The losses of the folds that did not diverge are those of the model that follows. */
static void one_bad_fold_is_enough(void **state)
{
	static const struct tw_source_model model[] = {
		{ "some", GOOD, "3" }, { "good", GOOD, "" }, { "poor", POOR, "" }, { 0 }
	};
	json_t *trial;

	(void)state;
	assert_int_equal(choose(model, &trial), 1);
	has(note_of(trial, 0), "some (diverges), good (");
	assert_string_equal(note_of(trial, 1), "good: the loss is the least");
	assert_true(json_is_null(json_object_get(model_of(trial, 0), "loss")));
	assert_true(json_is_number(json_object_get(model_of(trial, 1), "loss")));
	assert_true(json_is_true(json_object_get(model_of(trial, 1), "chosen")));
	json_decref(trial);
}

/* The least loss is compared with that of the first model that has one. */
static void what_diverges_is_no_partner(void **state)
{
	static const struct tw_source_model model[] = { { "all", GOOD, "*" },
							{ "poor", POOR, "" },
							{ "good", GOOD, "" },
							{ "last", GOOD, "5" },
							{ 0 } };
	json_t *trial;

	(void)state;
	assert_int_equal(choose(model, &trial), 2);
	has(note_of(trial, 0), "all (diverges), poor (");
	has(note_of(trial, 0), "last (diverges)");
	has(note_of(trial, 1), "good: the loss is below that of poor by ");
	assert_null(strstr(note_of(trial, 1), "nan"));
	json_decref(trial);
}

static void nothing_is_chosen_where_all_diverge(void **state)
{
	static const struct tw_source_model model[] = { { "a", GOOD, "1" },
							{ "b", GOOD, "*" },
							{ 0 } };
	json_t *trial;

	(void)state;
	assert_int_equal(choose(model, &trial), -1);
	assert_string_equal(note_of(trial, 1), "the usual model: all that were tried diverge");
	for (size_t m = 0; m < 2; m++)
		assert_true(json_is_false(json_object_get(model_of(trial, m), "chosen")));
	json_decref(trial);
}

/* 3 x, and some noise that is the same on every machine. */
static int setup(void **state)
{
	char text[ROWS * 40];
	size_t n = (size_t)sprintf(text, "x,y\n");
	uint32_t drawn = 5;

	if (scratch_make(state) != 0)
		return -1;
	for (int k = 0; k < ROWS; k++) {
		drawn = drawn * 1664525u + 1013904223u;
		n += (size_t)sprintf(text + n, "%d.5,%.2f\n", k, 3.0 * k + (drawn >> 24) / 256.0);
	}
	put("rows.csv", text, n);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_bad_fold_is_enough),
		cmocka_unit_test(what_diverges_is_no_partner),
		cmocka_unit_test(nothing_is_chosen_where_all_diverge),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
