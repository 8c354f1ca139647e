/* SPDX-License-Identifier: Apache-2.0 */
/* test_folds.c - data.fold: every sample is held out by exactly one fold, folds are of one size,
 * classes keep their shares, groups stay whole, and nothing of a fold is trained on. */
#include "data/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 400

/* n rows: a number, a class of three (7/10, 2/10, 1/10), a group of 4, an answer. */
static void put_rows(int n)
{
	static char text[60000];
	size_t at = (size_t)sprintf(text, "id,group,kind\n");

	for (int k = 0; k < n; k++)
		at += (size_t)sprintf(text + at, "%d,g%d,%c\n", k, k / 4, "aaaaaaabbc"[k * 7 % 10]);
	put("rows.csv", text, at);
}

struct held {
	int times[MOST], size, train, class_[3];
};

static int id_of(const struct tw_data *d, const struct tw_samples *s, uint64_t i)
{
	return (int)((const float *)s->value)[i * d->features];
}

/* Fold k of `folds`: adds to `times`, and checks that no sample is in two sets. */
static void hold(int n, int folds, int k, const char *by, const char *validation, struct held *h)
{
	int seen[MOST] = { 0 };
	char fold[40];
	struct tw_data *d;

	const char *column = strstr(by, "group") ? "hold.column=group" : "batch";

	snprintf(fold, sizeof fold, "fold=%d/%d", k, folds);
	d = kit_must_open(
		"csv", *column == 'h'
			       ? SETS("file=rows.csv", "label=kind", "columns=[id]", "numbers=[id]",
				      "normalise=none", fold, by, validation, column)
			       : SETS("file=rows.csv", "label=kind", "columns=[id]", "numbers=[id]",
				      "normalise=none", fold, by, validation));
	h->size = (int)d->test.count;
	h->train = (int)d->train.count;
	memset(h->class_, 0, sizeof h->class_);
	assert_int_equal(d->test.count + d->train.count + d->validation.count, n);
	for (uint64_t i = 0; i < d->test.count; i++) {
		h->times[id_of(d, &d->test, i)]++;
		seen[id_of(d, &d->test, i)]++;
		h->class_[d->test.label[i]]++;
	}
	for (uint64_t i = 0; i < d->train.count; i++)
		seen[id_of(d, &d->train, i)]++;
	for (uint64_t i = 0; i < d->validation.count; i++)
		seen[id_of(d, &d->validation, i)]++;
	for (int i = 0; i < n; i++)
		assert_int_equal(seen[i], 1);
	tw_data_close(d);
}

static void every_sample_is_held_out_once(void **state)
{
	static const struct {
		int n, folds;
		const char *by, *validation;
	} rows[] = {
		{ 100, 5, "hold.by=random", "validation=0" },
		{ 103, 5, "hold.by=random", "validation=0.2" },
		{ 37, 10, "hold.by=random", "validation=0" },
		{ 30, 2, "hold.by=random", "validation=0.1" },
		{ 31, 31, "hold.by=random", "validation=0" }, /* each by itself */
		{ 200, 5, "hold.by=class", "validation=0" },
		{ 203, 7, "hold.by=class", "validation=0.15" },
		{ 200, 5, "hold.by=group", "validation=0" },
		{ 398, 6, "hold.by=group", "validation=0.1" },
	};

	for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
		const bool group = strstr(rows[r].by, "group") != NULL;
		const bool class_ = strstr(rows[r].by, "class") != NULL;
		int least[3] = { MOST, MOST, MOST }, most[3] = { 0 }, small = MOST, large = 0;
		struct held h = { { 0 } };

		put_rows(rows[r].n);
		for (int k = 1; k <= rows[r].folds; k++) {
			hold(rows[r].n, rows[r].folds, k, rows[r].by, rows[r].validation, &h);
			small = h.size < small ? h.size : small;
			large = h.size > large ? h.size : large;
			for (int c = 0; c < 3; c++) {
				least[c] = h.class_[c] < least[c] ? h.class_[c] : least[c];
				most[c] = h.class_[c] > most[c] ? h.class_[c] : most[c];
			}
		}
		for (int i = 0; i < rows[r].n; i++)
			if (h.times[i] != 1)
				fail_msg("case %zu: sample %d is held out %d times", r, i,
					 h.times[i]);
		assert_true(large - small <= (group ? 4 : class_ ? 3 : 1));
		for (int c = 0; class_ && c < 3; c++)
			assert_true(most[c] - least[c] <= 1);
	}
}

/* The same folds whatever is held out for validation. */
static void folds_stay_the_same(void **state)
{
	struct held a = { { 0 } }, b = { { 0 } };

	put_rows(100);
	hold(100, 5, 2, "hold.by=random", "validation=0", &a);
	hold(100, 5, 2, "hold.by=random", "validation=0.3", &b);
	assert_memory_equal(a.times, b.times, sizeof a.times);
}

/* Folds of the training set have each of its samples once, and none of the test set's. */
static void folds_of_the_training_set(void **state)
{
	static const struct {
		int n;
		const char *test;
		int folds;
	} rows[] = { { 100, "test=0.2", 5 }, { 37, "test=0.3", 4 }, { 41, "test=0", 3 } };

	for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
		int tested[MOST] = { 0 }, times[MOST] = { 0 }, small = MOST, large = 0;
		struct tw_data *d;

		put_rows(rows[r].n);
		d = kit_must_open("csv", SETS("file=rows.csv", "label=kind", "columns=[id]",
					      "numbers=[id]", "normalise=none", rows[r].test));
		for (uint64_t i = 0; i < d->test.count; i++)
			tested[id_of(d, &d->test, i)] = 1;
		tw_data_close(d);
		for (int k = 1; k <= rows[r].folds; k++) {
			char fold[40];
			int left = 0;

			snprintf(fold, sizeof fold, "fold=%d/%d of train", k, rows[r].folds);
			d = kit_must_open("csv", SETS("file=rows.csv", "label=kind", "columns=[id]",
						      "numbers=[id]", "normalise=none",
						      "validation=0.1", rows[r].test, fold));
			for (uint64_t i = 0; i < d->test.count; i++)
				times[id_of(d, &d->test, i)]++;
			for (uint64_t i = 0; i < d->train.count; i++)
				assert_false(tested[id_of(d, &d->train, i)]);
			for (uint64_t i = 0; i < d->validation.count; i++)
				assert_false(tested[id_of(d, &d->validation, i)]);
			small = (int)d->test.count < small ? (int)d->test.count : small;
			large = (int)d->test.count > large ? (int)d->test.count : large;
			left = (int)(d->test.count + d->train.count + d->validation.count);
			tw_data_close(d);
			for (int i = 0; i < rows[r].n; i++)
				left += tested[i];
			assert_int_equal(left, rows[r].n);
		}
		for (int i = 0; i < rows[r].n; i++)
			assert_int_equal(times[i] + tested[i], 1);
		assert_true(large - small <= 1);
	}
}

static void mistakes_are_refused(void **state)
{
	static const char *const wrong[] = {
		"0/5",           "6/5",         "1/1",       "5",           "a/b", "1/5/2",
		"-1/5",          "1/5x",        "/",         "1/ 5",        "1/",  "1/5 of",
		"1/5  of train", "1/ of train", " of train", "6/5 of train"
	};

	put_rows(40);
	for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
		char fold[40];

		snprintf(fold, sizeof fold, "fold=%s", wrong[k]);
		kit_refuses("csv", SETS("file=rows.csv", "label=kind", fold),
			    PARTS("fold: needs a fold and how many there are, such as 1/5"));
	}
	kit_refuses("csv", SETS("file=rows.csv", "label=kind", "fold=1/41"),
		    PARTS("fold: there are only 40 samples for 41 folds"));
	kit_refuses("csv", SETS("file=rows.csv", "label=kind", "fold=1/5", "samples=10"),
		    PARTS("fold: cannot be combined with samples"));
	kit_refuses("csv", SETS("file=rows.csv", "label=kind", "fold=1/5", "test_file=rows.csv"),
		    PARTS("fold: the data has a test set of its own"));
	kit_refuses(
		"csv",
		SETS("file=rows.csv", "label=kind", "fold=1/5", "hold.by=time", "hold.column=id"),
		PARTS("fold: hold.by says which rows are the test set"));
	kit_refuses("csv",
		    SETS("file=rows.csv", "label=kind", "numbers=[id]", "fold=12/20",
			 "hold.by=group", "hold.column=group"),
		    PARTS("fold: there are too few groups for 20 folds"));
	kit_refuses("csv", SETS("file=rows.csv", "label=kind", "fold=1/33 of train", "test=0.2"),
		    PARTS("fold: there are only 32 samples for 33 folds"));
	kit_refuses("csv",
		    SETS("file=rows.csv", "label=kind", "fold=1/5 of train", "hold.by=class"),
		    PARTS("fold: 'of train' divides samples at random"));
	kit_refuses("digits", SETS("count=100", "tests=20", "fold=1/5"),
		    PARTS("fold: the data has a test set of its own"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sample_is_held_out_once),
		cmocka_unit_test(folds_stay_the_same),
		cmocka_unit_test(folds_of_the_training_set),
		cmocka_unit_test(mistakes_are_refused),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
