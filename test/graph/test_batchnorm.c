/* SPDX-License-Identifier: Apache-2.0 */
/* test_batchnorm.c - running statistics, far means, single values, and evaluation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kit/near.h"

#include "base/rng.h"
#include "graph/oproom.h"

#include <math.h>

static const struct oproom_way usual = { .garbage = 0xff };

enum { WEIGHT, BIAS, MEAN, VAR };

/* An op with its values, so that a test may change them. */
struct asked {
	void *options;
	struct truth t;
};

static void ask(struct asked *a, const char *text, const struct tw_shape *in, uint32_t batch,
		bool train)
{
	const struct tw_op *op = tw_op_find("batchnorm");
	struct tw_error why = { 0 };

	a->options = calloc(1, op->options_bytes);
	assert_int_equal(tw_op_parse(op, text, a->options, NULL, &why), TW_OK);
	truth_make(&a->t, op, &(struct tw_op_sample){ text, *in }, a->options, batch, train);
	a->t.site.wants[0] = true;
}

static struct oproom_result answer(struct asked *a, enum tw_layout layout)
{
	struct oproom room;
	struct oproom_result r;

	a->t.site.in_layout[0] = a->t.site.out_layout = layout;
	oproom_make(&room, &a->t, &a->t.site);
	r = oproom_run(&room, &usual);
	assert_null(r.wrong);
	oproom_free(&room);
	return r;
}

static void done(struct asked *a)
{
	truth_free(&a->t);
	free(a->options);
}

/* Mean and unbiased variance of channel c of PLAIN values. */
static void slow_statistics(const struct truth *t, size_t c, double *mean, double *var)
{
	const size_t channels = t->site.in[0].d[0], each = tw_shape_size(&t->site.in[0]);
	const size_t pixels = each / channels, count = t->site.batch * pixels;

	*mean = *var = 0;
	for (size_t k = 0; k < count; k++)
		*mean += (double)t->value[0][k / pixels * each + c * pixels + k % pixels];
	*mean /= (double)count;
	for (size_t k = 0; k < count; k++) {
		const double d = (double)t->value[0][k / pixels * each + c * pixels + k % pixels];

		*var += (d - *mean) * (d - *mean) / (double)(count - 1);
	}
}

static void check_running(const char *text, float momentum, const struct tw_shape *in,
			  enum tw_layout layout)
{
	struct asked a;
	struct oproom_result r;

	ask(&a, text, in, 3, true);
	for (size_t c = 0; c < in->d[0]; c++) {
		a.t.value[TW_OP_INS + MEAN][c] = 0.25f * (float)c;
		a.t.value[TW_OP_INS + VAR][c] = 1.5f;
	}
	r = answer(&a, layout);
	for (size_t c = 0; c < in->d[0]; c++) {
		double mean, var;

		slow_statistics(&a.t, c, &mean, &var);
		NEAR((double)r.gradient[TW_OP_INS + MEAN][c],
		     (double)momentum * (mean - 0.25 * (double)c), 1e-6);
		NEAR((double)r.gradient[TW_OP_INS + VAR][c], (double)momentum * (var - 1.5), 1e-6);
	}
	oproom_result_free(&r);
	done(&a);
}

static void running_statistics_move_as_pytorchs(void **state)
{
	const struct tw_shape flat = { 1, { 5 } }, odd = { 3, { 3, 7, 5 } };
	const struct tw_shape even = { 3, { 32, 3, 5 } };

	check_running("", 0.1f, &flat, TW_LAYOUT_PLAIN);
	check_running("momentum 0.5", 0.5f, &odd, TW_LAYOUT_PLAIN);
	check_running("", 0.1f, &odd, TW_LAYOUT_LAST);
	check_running("", 0.1f, &even, TW_LAYOUT_BLOCK16);
	check_running("", 0.1f, &even, TW_LAYOUT_LAST);
}

static void one_value_has_no_variance(void **state)
{
	const struct tw_shape in = { 1, { 3 } };
	struct asked a;
	struct oproom_result r;

	ask(&a, "", &in, 1, true);
	r = answer(&a, TW_LAYOUT_PLAIN);
	for (size_t c = 0; c < 3; c++) {
		assert_true(r.out[c] == a.t.value[TW_OP_INS + BIAS][c]);
		assert_true(r.gradient[0][c] == 0);
		assert_true(r.gradient[TW_OP_INS + VAR][c] == 0);
		NEAR((double)r.gradient[TW_OP_INS + MEAN][c],
		     0.1 * (double)(a.t.value[0][c] - a.t.value[TW_OP_INS + MEAN][c]), 1e-6);
	}
	oproom_result_free(&r);
	done(&a);
}

/* A mean a thousand deviations away, over many values: a float sum of squares would lose all. */
static void far_means_keep_their_variance(void **state)
{
	const struct tw_shape in = { 3, { 16, 31, 32 } };
	const struct tw_rng rng = tw_rng_make(5, 0);

	for (uint32_t layout = 0; layout < 3; layout++) {
		struct asked a;
		struct oproom_result r;

		ask(&a, "", &in, 9, true);
		for (size_t i = 0; i < a.t.n[0]; i++)
			a.t.value[0][i] = 1000 + (float)tw_rng_gauss(&rng, 0, i);
		r = answer(&a, (enum tw_layout)layout);
		for (size_t c = 0; c < 16; c++) {
			double mean, var;

			slow_statistics(&a.t, c, &mean, &var);
			NEAR((double)r.gradient[TW_OP_INS + VAR][c],
			     0.1 * (var - (double)a.t.value[TW_OP_INS + VAR][c]), 2e-6);
		}
		oproom_result_free(&r);
		done(&a);
	}
}

static void evaluation_uses_what_ran(void **state)
{
	const struct tw_shape in = { 3, { 2, 1, 2 } };
	const float x[] = { 1, 2, 3, 4 }, want[] = { 0, 2, -1, 0 };
	const float parameter[][2] = { { 2, 3 }, { 0, -1 }, { 1, 3 }, { 1, 9 } };
	struct asked a;
	struct oproom_result r;

	ask(&a, "epsilon 1e-12", &in, 1, false);
	memcpy(a.t.value[0], x, sizeof x);
	for (uint32_t k = 0; k < 4; k++)
		memcpy(a.t.value[TW_OP_INS + k], parameter[k], sizeof parameter[k]);
	a.t.site.wants[0] = false;
	r = answer(&a, TW_LAYOUT_PLAIN);
	assert_memory_equal(r.out, want, sizeof want);
	oproom_result_free(&r);
	done(&a);
}

/* Late changes of several workers may add up to less than nothing. */
static void a_variance_below_nothing_is_none(void **state)
{
	const struct tw_shape in = { 1, { 2 } };
	const float x[] = { 1, 5 }, want[] = { 20, 10 };
	const float parameter[][2] = { { 2, 3 }, { 0, 4 }, { 0, 3 }, { -0.25f, 0.99f } };
	struct asked a;
	struct oproom_result r;

	(void)state;
	ask(&a, "epsilon 0.01", &in, 1, false);
	memcpy(a.t.value[0], x, sizeof x);
	for (uint32_t k = 0; k < 4; k++)
		memcpy(a.t.value[TW_OP_INS + k], parameter[k], sizeof parameter[k]);
	a.t.site.wants[0] = false;
	r = answer(&a, TW_LAYOUT_PLAIN);
	for (size_t k = 0; k < 2; k++)
		assert_true(fabsf(r.out[k] - want[k]) < 1e-4f);
	oproom_result_free(&r);
	done(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(running_statistics_move_as_pytorchs),
		cmocka_unit_test(one_value_has_no_variance),
		cmocka_unit_test(far_means_keep_their_variance),
		cmocka_unit_test(evaluation_uses_what_ran),
		cmocka_unit_test(a_variance_below_nothing_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
