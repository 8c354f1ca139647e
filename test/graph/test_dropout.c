/* SPDX-License-Identifier: Apache-2.0 */
/* test_dropout.c - what is left out belongs to the sample: not to batch, layout or who draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/layout_move.h"
#include "graph/op.h"

#include <math.h>

#define CHANNELS 32
#define SIDE     9
#define SIZE     ((size_t)CHANNELS * SIDE * SIDE)

struct asked {
	const char *rate;
	uint64_t position, seed;
	uint32_t batch, layer;
	enum tw_layout layout;
};

/* Dropout of ones, in PLAIN order. */
static float *dropped(const struct asked *a)
{
	const struct tw_op *op = tw_op_find("dropout");
	const struct tw_shape shape = { 3, { CHANNELS, SIDE, SIDE } };
	const struct tw_op_batch batch = { .position = a->position };
	struct tw_op_site site = { .batch = a->batch, .ins = 1, .in = { shape }, .out = shape };
	struct tw_op_memory need = { 0 };
	struct tw_op_run run = { .batch = &batch };
	void *options = calloc(1, op->options_bytes), *kernel = calloc(1, op->kernel_bytes);
	float *x = calloc(a->batch * SIZE, sizeof *x), *y = calloc(a->batch * SIZE, sizeof *y);
	struct tw_error why = { 0 };

	assert_int_equal(tw_op_parse(op, a->rate, options, NULL, &why), TW_OK);
	site.options = options;
	site.train = true;
	site.seed = a->seed;
	site.layer = a->layer;
	site.in_layout[0] = site.out_layout = a->layout;
	assert_int_equal(op->prepare(&site, NULL, kernel, &need), TW_OK);
	for (size_t i = 0; i < a->batch * SIZE; i++)
		x[i] = 1;
	run.in[0] = x;
	run.out = y;
	run.saved = malloc(need.saved);
	run.scratch = malloc(need.forward + 1);
	assert_int_equal(op->forward(&site, kernel, &run), TW_OK);
	layout_move(&shape, a->batch, a->layout, y, TW_LAYOUT_PLAIN, x);
	free(run.saved);
	free(run.scratch);
	free(y);
	free(kernel);
	free(options);
	return x;
}

static void same_in_every_layout_and_batch(void **state)
{
	const struct asked whole = { "0.3", UINT64_C(0xfffffffe), 1, 5, 2, TW_LAYOUT_PLAIN };
	float *all = dropped(&whole);

	for (enum tw_layout layout = TW_LAYOUT_PLAIN; layout <= TW_LAYOUT_BLOCK16; layout++)
		for (uint32_t first = 0; first < 5; first++) {
			struct asked part = whole;
			float *some;

			part.layout = layout;
			part.position += first;
			part.batch = 5 - first;
			some = dropped(&part);
			assert_memory_equal(some, all + first * SIZE,
					    part.batch * SIZE * sizeof *all);
			free(some);
		}
	free(all);
}

/* How many of 5 samples' values differ between two draws. */
static double differing(const struct asked *a, const struct asked *b)
{
	float *x = dropped(a), *y = dropped(b);
	size_t count = 0;

	for (size_t i = 0; i < a->batch * SIZE; i++)
		count += x[i] != y[i];
	free(x);
	free(y);
	return (double)count / (double)(a->batch * SIZE);
}

static void another_draw_elsewhere(void **state)
{
	const struct asked a = { "0.5", 10, 1, 5, 2, TW_LAYOUT_PLAIN };
	struct asked b = a;

	assert_true(differing(&a, &b) == 0);
	b.layer = 3;
	assert_true(fabs(differing(&a, &b) - 0.5) < 0.02);
	b = a;
	b.seed = 2;
	assert_true(fabs(differing(&a, &b) - 0.5) < 0.02);
	b = a;
	b.position = 15;
	assert_true(fabs(differing(&a, &b) - 0.5) < 0.02);
	b.position = 10 + (UINT64_C(1) << 32);
	assert_true(fabs(differing(&a, &b) - 0.5) < 0.02);
}

/* The mean stays; five standard deviations. */
static void as_many_as_asked(void **state)
{
	static const char *const rates[] = { "0", "0.1", "0.5", "0.9", "0.999" };

	for (size_t k = 0; k < sizeof rates / sizeof *rates; k++) {
		const struct asked a = { rates[k], 0, 7, 20, 1, TW_LAYOUT_PLAIN };
		const double rate = strtod(rates[k], NULL), n = 20.0 * (double)SIZE;
		float *y = dropped(&a);
		double out = 0;

		for (size_t i = 0; i < 20 * SIZE; i++) {
			out += y[i] == 0;
			assert_true(y[i] == 0 || fabs((double)y[i] * (1 - rate) - 1) < 1e-4);
		}
		assert_true(fabs(out / n - rate) <= 5 * sqrt(rate * (1 - rate) / n));
		free(y);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_in_every_layout_and_batch),
		cmocka_unit_test(another_draw_elsewhere),
		cmocka_unit_test(as_many_as_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
