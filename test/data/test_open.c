/* SPDX-License-Identifier: Apache-2.0 */
/* test_open.c - splits and normalisation of an opened data set. */
#include "data/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 1000

/* Row i: i, 3i + 1, 5 (constant), class i % 2. */
static void put_rows(void)
{
	char *text = malloc(ROWS * 32);
	size_t n = 0;

	for (int i = 0; i < ROWS; i++)
		n += (size_t)sprintf(text + n, "%d,%d,5,%d\n", i, 3 * i + 1, i % 2);
	put("rows.csv", text, n);
	free(text);
}

static int setup(void **state)
{
	if (scratch_make(state) != 0)
		return -1;
	put_rows();
	kit_put_idx_set();
	return 0;
}

static int row_of(const struct tw_samples *s, uint64_t i)
{
	return (int)((const float *)s->value)[3 * i];
}

/* Every row is in exactly one set, whole, and the source's order stays. */
static void check_partition(const struct tw_data *d, uint64_t dropped)
{
	uint8_t seen[ROWS] = { 0 };
	uint64_t all = 0;

	for (int set = 0; set < 3; set++) {
		const struct tw_samples *s = tw_data_set(d, (enum tw_data_set)set);

		all += s->count;
		for (uint64_t i = 0; i < s->count; i++) {
			const int row = row_of(s, i);

			assert_in_range(row, 0, ROWS - 1);
			assert_int_equal(seen[row]++, 0);
			assert_true(((const float *)s->value)[3 * i + 1] == (float)(3 * row + 1));
			assert_int_equal(s->label[i], row % 2);
			assert_true(i == 0 || row_of(s, i - 1) < row);
		}
	}
	assert_int_equal(all, ROWS - dropped);
}

static void shares_are_held_out(void **state)
{
	struct tw_data *d = kit_must_open("csv", SETS("file=rows.csv"));

	assert_int_equal(d->test.count, 200);
	assert_int_equal(d->train.count, 800);
	check_partition(d, 0);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=rows.csv", "test=0.0001", "validation=0.0015"));
	assert_int_equal(d->test.count, 1);
	assert_int_equal(d->validation.count, 1);
	check_partition(d, 0);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=rows.csv", "test=0.3", "validation=0.25", "samples=100",
				      "evaluate=validation"));
	assert_int_equal(d->test.count, 300);
	assert_int_equal(d->validation.count, 175);
	assert_int_equal(d->train.count, 100);
	check_partition(d, ROWS - 575);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=rows.csv", "test=0"));
	assert_int_equal(d->test.count, 0);
	check_partition(d, 0);
	tw_data_close(d);
}

/* What is held out is a random choice: about as many from each half. */
static void held_out_rows_come_from_everywhere(void **state)
{
	struct tw_data *d = kit_must_open("csv", SETS("file=rows.csv"));
	int low = 0;

	for (uint64_t i = 0; i < d->test.count; i++)
		low += row_of(&d->test, i) < ROWS / 2;
	assert_in_range(low, 70, 130);
	tw_data_close(d);
}

static void a_test_set_of_its_own_stays(void **state)
{
	struct tw_data *d = kit_must_open("idx", SETS("images=images", "labels=labels",
						      "test_images=test-images.gz",
						      "test_labels=test-labels", "validation=0.5"));

	assert_int_equal(d->test.count, 4);
	assert_int_equal(d->validation.count, 6);
	assert_int_equal(d->train.count, 6);
	tw_data_close(d);
}

static void sets_change_the_fingerprint(void **state)
{
	struct tw_data *a = kit_must_open("csv", SETS("file=rows.csv"));
	struct tw_data *b = kit_must_open("csv", SETS("file=rows.csv", "test=0.3"));
	struct tw_data *c = kit_must_open("csv", SETS("file=rows.csv", "normalise=none"));

	assert_false(tw_sha_same(&a->fingerprint, &b->fingerprint));
	assert_true(tw_sha_same(&a->fingerprint, &c->fingerprint));
	tw_data_close(a);
	tw_data_close(b);
	tw_data_close(c);
}

static void moments(const struct tw_data *d, size_t feature, double *mean, double *deviation,
		    double *low, double *high)
{
	double sum = 0, square = 0;

	*low = INFINITY;
	*high = -INFINITY;
	for (uint64_t i = 0; i < d->train.count; i++) {
		const struct tw_batch b = { .set = &d->train, .index = &i, .count = 1 };
		float x[64];
		uint32_t label;

		tw_data_fill(d, &b, NULL, 0, x, &label, NULL);
		sum += (double)x[feature];
		square += (double)x[feature] * (double)x[feature];
		*low = fmin(*low, (double)x[feature]);
		*high = fmax(*high, (double)x[feature]);
	}
	*mean = sum / (double)d->train.count;
	*deviation = sqrt(square / (double)d->train.count - *mean * *mean);
}

static void columns_are_normalised(void **state)
{
	struct tw_data *d = kit_must_open("csv", SETS("file=rows.csv"));
	double mean, deviation, low, high;

	for (size_t f = 0; f < 2; f++) {
		moments(d, f, &mean, &deviation, &low, &high);
		assert_true(fabs(mean) < 1e-5 && fabs(deviation - 1) < 1e-5);
	}
	moments(d, 2, &mean, &deviation, &low, &high);
	assert_true(low == 0 && high == 0);
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=rows.csv", "normalise=unit"));
	for (size_t f = 0; f < 2; f++) {
		moments(d, f, &mean, &deviation, &low, &high);
		assert_true(fabs(low) < 1e-6 && fabs(high - 1) < 1e-6);
	}
	tw_data_close(d);
	d = kit_must_open("csv", SETS("file=rows.csv", "normalise=none"));
	assert_true(d->scale[0] == 1 && d->shift[0] == 0);
	tw_data_close(d);
}

/* One mean and deviation for a whole channel, by hand. */
static void images_are_normalised_by_channel(void **state)
{
	struct tw_data *d = kit_must_open("idx", SETS("images=images", "labels=labels", "test=0"));
	const uint8_t *v = d->train.value;
	double sum = 0, square = 0, mean;

	for (int i = 0; i < 240; i++)
		sum += v[i];
	mean = sum / 240;
	for (int i = 0; i < 240; i++)
		square += (v[i] - mean) * (v[i] - mean);
	for (int f = 0; f < 20; f++) {
		assert_true(fabs((double)d->scale[f] - 1 / sqrt(square / 240)) < 1e-8);
		assert_true(fabs((double)d->shift[f] + mean / sqrt(square / 240)) < 1e-6);
	}
	tw_data_close(d);
	d = kit_must_open("idx", SETS("images=images", "labels=labels", "normalise=unit"));
	assert_true(d->scale[3] == 1.0f / 255 && d->shift[3] == 0);
	tw_data_close(d);
}

static void impossible_wishes_are_refused(void **state)
{
	kit_refuses("csv", SETS("file=rows.csv", "samples=801"), PARTS("samples: ", "800"));
	kit_refuses("csv", SETS("file=rows.csv", "shift=1"), PARTS("shift: ", "images"));
	kit_refuses("csv", SETS("file=rows.csv", "flip=true"), PARTS("flip: ", "images"));
	kit_refuses("csv", SETS("file=rows.csv", "evaluate=validation"), PARTS("evaluate: "));
	kit_refuses("idx", SETS("images=images", "labels=labels", "shift=4"),
		    PARTS("shift: ", "5x4", "0 to 3"));
	put_text("one.csv", "1,a\n2,b\n");
	kit_refuses("csv", SETS("file=one.csv", "test=0.5", "validation=0.5"),
		    PARTS("test, validation: ", "2 of 2"));
	put_text("near.csv", "3e38,a\n3.0000001e38,b\n");
	tw_data_close(kit_must_open("csv", SETS("file=near.csv", "test=0")));
	put_text("tiny.csv", "1e-45,a\n0,b\n");
	kit_refuses("csv", SETS("file=tiny.csv", "test=0"), PARTS("normalise: value 1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_held_out),
		cmocka_unit_test(held_out_rows_come_from_everywhere),
		cmocka_unit_test(a_test_set_of_its_own_stays),
		cmocka_unit_test(sets_change_the_fingerprint),
		cmocka_unit_test(columns_are_normalised),
		cmocka_unit_test(images_are_normalised_by_channel),
		cmocka_unit_test(impossible_wishes_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, scratch_remove);
}
