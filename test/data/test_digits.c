/* SPDX-License-Identifier: Apache-2.0 */
/* test_digits.c - drawn digits: the same for the same seed, balanced, and neither too easy for a
 * linear model nor noise. */
#include "data/kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AREA 784

static void seeds_decide_everything(void **state)
{
	struct tw_data *a = kit_must_open("digits", SETS("count=200", "tests=50", "seed=7"));
	struct tw_data *b = kit_must_open("digits", SETS("count=200", "tests=50", "seed=7"));
	struct tw_data *c = kit_must_open("digits", SETS("count=200", "tests=50", "seed=8"));

	assert_memory_equal(a->train.value, b->train.value, 200 * AREA);
	assert_memory_equal(a->test.label, b->test.label, 50 * sizeof(uint32_t));
	assert_true(tw_sha_same(&a->fingerprint, &b->fingerprint));
	assert_false(tw_sha_same(&a->fingerprint, &c->fingerprint));
	assert_int_equal(a->classes, 10);
	assert_int_equal(a->shape[1], 28);
	tw_data_close(a);
	tw_data_close(b);
	tw_data_close(c);
}

static void count_labels(const struct tw_samples *s, uint64_t each)
{
	uint64_t seen[10] = { 0 }, changes = 0;

	for (uint64_t i = 0; i < s->count; i++) {
		seen[s->label[i]]++;
		changes += i > 0 && s->label[i] != s->label[i - 1];
	}
	for (int k = 0; k < 10; k++)
		assert_int_equal(seen[k], each);
	assert_true(changes > s->count * 8 / 10);
}

/* No picture comes twice, within the sets or between them. */
static void labels_are_balanced_and_pictures_differ(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=1000", "tests=300"));
	const uint8_t *train = d->train.value, *test = d->test.value;

	count_labels(&d->train, 100);
	count_labels(&d->test, 30);
	for (size_t i = 0; i < 300; i++) {
		for (size_t k = 0; k < 1000; k++)
			assert_true(memcmp(train + k * AREA, test + i * AREA, AREA) != 0);
		for (size_t k = 0; k < i; k++)
			assert_true(memcmp(train + k * AREA, train + i * AREA, AREA) != 0);
	}
	tw_data_close(d);
}

/* The first pixels and labels are for ever: a checkpoint's data must be drawn again the same. */
static void pictures_stay_what_they_were(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=100", "tests=20"));

	char text[TW_SHA_TEXT];

	assert_string_equal(tw_sha_text(&d->fingerprint, text),
			    "bb0604ae2ff6afb3ee5d0b0e05f91cced29c2a26cb95ab47bc3875a03aa03e01");
	tw_data_close(d);
}

static void without_distortion_styles_repeat(void **state)
{
	struct tw_data *d =
		kit_must_open("digits", SETS("count=200", "tests=10", "distort=0", "speckle=0"));
	const uint8_t *v = d->train.value;
	size_t different = 0;

	for (size_t i = 0; i < 200; i++) {
		size_t k = 0;

		while (k < i && memcmp(v + k * AREA, v + i * AREA, AREA))
			k++;
		different += k == i;
		for (size_t p = 0; p < 28; p++) /* nothing touches the frame */
			assert_true(v[i * AREA + p] == 0 && v[i * AREA + 27 * 28 + p] == 0);
	}
	assert_in_range(different, 20, 40);
	tw_data_close(d);
}

static const float *filled(const struct tw_data *d, const struct tw_samples *s, uint64_t i,
			   float x[AREA], uint32_t *label)
{
	const struct tw_batch b = { .set = s, .index = &i, .count = 1 };

	tw_data_fill(d, &b, NULL, 0, x, label, NULL);
	return x;
}

static void scores(const float *w, const float *x, float out[10])
{
	for (int c = 0; c < 10; c++) {
		float sum = w[c * (AREA + 1) + AREA];

		for (int p = 0; p < AREA; p++)
			sum += w[c * (AREA + 1) + p] * x[p];
		out[c] = sum;
	}
}

static void learn(float *w, const float *x, uint32_t label, float rate)
{
	float z[10], most = -INFINITY, total = 0;

	scores(w, x, z);
	for (int c = 0; c < 10; c++)
		most = z[c] > most ? z[c] : most;
	for (int c = 0; c < 10; c++)
		total += z[c] = expf(z[c] - most);
	for (int c = 0; c < 10; c++) {
		const float step = rate * (z[c] / total - ((uint32_t)c == label));

		for (int p = 0; p < AREA; p++)
			w[c * (AREA + 1) + p] -= step * x[p];
		w[c * (AREA + 1) + AREA] -= step;
	}
}

static double judge(const struct tw_data *d, const float *w)
{
	float x[AREA], z[10];
	uint32_t label;
	uint64_t right = 0;

	for (uint64_t i = 0; i < d->test.count; i++) {
		int best = 0;

		scores(w, filled(d, &d->test, i, x, &label), z);
		for (int c = 1; c < 10; c++)
			best = z[c] > z[best] ? c : best;
		right += (uint32_t)best == label;
	}
	return (double)right / (double)d->test.count;
}

static void a_linear_model_learns_but_not_all(void **state)
{
	struct tw_data *d = kit_must_open("digits", SETS("count=8000", "tests=1000"));
	float *w = calloc(10 * (AREA + 1), sizeof *w), x[AREA];
	uint32_t label;
	double best = 0;

	for (int epoch = 0; epoch < 4; epoch++) {
		double now;

		for (uint64_t i = 0; i < d->train.count; i++) {
			filled(d, &d->train, i, x, &label);
			learn(w, x, label, 0.002f / (float)(epoch + 1));
		}
		now = judge(d, w);
		best = now > best ? now : best;
	}
	assert_true(best > 0.5);
	assert_true(best < 0.97);
	free(w);
	tw_data_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seeds_decide_everything),
		cmocka_unit_test(labels_are_balanced_and_pictures_differ),
		cmocka_unit_test(pictures_stay_what_they_were),
		cmocka_unit_test(without_distortion_styles_repeat),
		cmocka_unit_test(a_linear_model_learns_but_not_all),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
