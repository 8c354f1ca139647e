/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool.c - ties, NaN, edges that no window reaches, and the zeros in a padded mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/oproom.h"

#include <math.h>

static const struct oproom_way usual = { .garbage = 0xff };

/* One sample through a pool in a layout, with out_gradient 1, 2, 3, ...; out and dx are PLAIN. */
static void pool(const char *name, const char *text, const struct tw_shape *in,
		 enum tw_layout layout, const float *x, float *out, float *dx)
{
	const struct tw_op *op = tw_op_find(name);
	void *options = calloc(1, op->options_bytes);
	struct tw_error why = { 0 };
	struct oproom room;
	struct oproom_result r;
	struct truth t;

	assert_int_equal(tw_op_parse(op, text, options, NULL, &why), TW_OK);
	truth_make(&t, op, &(struct tw_op_sample){ text, *in }, options, 1, true);
	memcpy(t.value[0], x, t.n[0] * sizeof *x);
	for (size_t i = 0; i < t.outs; i++)
		t.cotangent[i] = (float)(i + 1);
	t.site.in_layout[0] = t.site.out_layout = layout;
	t.site.wants[0] = true;
	oproom_make(&room, &t, &t.site);
	r = oproom_run(&room, &usual);
	assert_null(r.wrong);
	memcpy(out, r.out, t.outs * sizeof *out);
	memcpy(dx, r.gradient[0], t.n[0] * sizeof *dx);
	oproom_result_free(&r);
	oproom_free(&room);
	truth_free(&t);
	free(options);
}

/* The same plane in every channel, whose count decides which loop runs. */
static void every_way(const char *text, uint32_t h, uint32_t w, const float *plane, size_t outs,
		      const float *want, const float *where)
{
	static const uint32_t channels[] = { 1, 3, 11, 16, 20, 32 };
	const size_t n = (size_t)h * w;
	float x[32 * 64], out[32 * 64], dx[32 * 64];

	for (size_t k = 0; k < sizeof channels / sizeof *channels; k++)
		for (uint32_t layout = 0; layout < 3; layout++) {
			const struct tw_shape in = { 3, { channels[k], h, w } };

			if (layout == TW_LAYOUT_BLOCK16 && channels[k] % 16)
				continue;
			for (size_t c = 0; c < channels[k]; c++)
				memcpy(x + c * n, plane, n * sizeof *x);
			pool("maxpool", text, &in, (enum tw_layout)layout, x, out, dx);
			for (size_t c = 0; c < channels[k]; c++) {
				assert_memory_equal(out + c * outs, want, outs * sizeof *out);
				for (size_t i = 0; i < n; i++) {
					const size_t o = (size_t)where[i];
					const float g = o ? (float)(c * outs + o) : 0;

					assert_true(dx[c * n + i] == g);
				}
			}
		}
}

static void the_first_of_equals_wins(void **state)
{
	/* 3 rows of 5: the last row and column are in no window */
	const float plane[] = { 7, 7, 1, 2, 9, 7, 7, 3, 3, 9, 8, 8, 8, 8, 8 };
	const float want[] = { 7, 3 };
	const float where[] = { 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0 };
	const float low[] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY };
	const float first[] = { 1, 0, 0, 0 };

	every_way("2", 3, 5, plane, 2, want, where);
	every_way("2", 2, 2, low, 1, low, first);
	every_way("2x2 stride 5", 3, 5, plane, 1, want, (const float[15]){ 1 });
	every_way("2 stride 3", 2, 2, low, 1, low, first);
}

static void a_nan_comes_out(void **state)
{
	const struct tw_shape in = { 3, { 1, 2, 4 } };
	const float x[] = { 1, NAN, 5, 6, 9, 2, 7, 8 };
	float out[2], dx[8];

	pool("maxpool", "2", &in, TW_LAYOUT_PLAIN, x, out, dx);
	assert_true(isnan(out[0]) && out[1] == 8);
	pool("maxpool", "2 stride 2x3", &in, TW_LAYOUT_PLAIN, x, out, dx);
	assert_true(isnan(out[0]));
}

static void padding_is_in_the_mean_but_never_the_largest(void **state)
{
	const struct tw_shape in = { 3, { 1, 2, 2 } };
	const float x[] = { -4, -8, -12, -16 };
	const float mean[] = { -1, -2, -3, -4 }, most[] = { -4, -8, -12, -16 };
	float out[4], dx[4];

	pool("avgpool", "2 pad 1", &in, TW_LAYOUT_PLAIN, x, out, dx);
	assert_memory_equal(out, mean, sizeof mean);
	assert_true(dx[0] == 0.25f && dx[1] == 0.5f && dx[2] == 0.75f && dx[3] == 1);
	pool("maxpool", "2 pad 1", &in, TW_LAYOUT_PLAIN, x, out, dx);
	assert_memory_equal(out, most, sizeof most);
	assert_true(dx[0] == 1 && dx[1] == 2 && dx[2] == 3 && dx[3] == 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_of_equals_wins),
		cmocka_unit_test(a_nan_comes_out),
		cmocka_unit_test(padding_is_in_the_mean_but_never_the_largest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
