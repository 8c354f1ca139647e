/* SPDX-License-Identifier: Apache-2.0 */
/* test_activation.c - the approximations against libm's doubles over all floats, and the edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "graph/op.h"
#include "graph/op/approx.h"

#include <float.h>

#define EVERY 4093 /* a prime: a million of the floats, of every exponent */

static double normal_tail(double x)
{
	return 0.5 * erfc(-x * M_SQRT1_2);
}

static float below(float x)
{
	float part, density;

	approx_normal(x, &part, &density);
	return part;
}

static float density_of(float x)
{
	float part, density;

	approx_normal(x, &part, &density);
	return density;
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static double bell(double x)
{
	return exp(-x * x / 2) / sqrt(2 * M_PI);
}

/* Those that are made for a part of the floats. */

static float expm1_below(float x)
{
	return approx_expm1(approx_at_most(x, 0));
}

static double slow_expm1_below(double x)
{
	return expm1(x > 0 ? 0 : x);
}

static float log1p_within(float x)
{
	return approx_log1p(approx_at_most(approx_at_least(x, 0), 1));
}

static double slow_log1p_within(double x)
{
	return log1p(x < 0 ? 0 : x > 1 ? 1 : x);
}

static const struct {
	const char *name;
	float (*fast)(float);
	double (*slow)(double);
	double within; /* relative */
} functions[] = {
	{ "exp", approx_exp, exp, 2 * 0x1p-23 },
	{ "tanh", approx_tanh, tanh, 2 * 0x1p-23 },
	{ "expm1", expm1_below, slow_expm1_below, 2 * 0x1p-23 },
	{ "log1p", log1p_within, slow_log1p_within, 2 * 0x1p-23 },
	{ "sigmoid", approx_sigmoid, sigmoid, 3 * 0x1p-23 },
	{ "below", below, normal_tail, 1e-6 },
	{ "density", density_of, bell, 1e-6 },
};

static bool close_to(float got, double want, double within)
{
	if (want > (double)FLT_MAX)
		return isinf(got);
	if (fabs(want) < (double)FLT_MIN)
		return fabs((double)got - want) <= (double)FLT_MIN;
	return fabs((double)got - want) <= within * fabs(want);
}

static void close_everywhere(void **state)
{
	for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
		for (uint64_t bits = 0; bits <= UINT32_MAX; bits += EVERY) {
			const float x = approx_of_bits((uint32_t)bits), y = functions[k].fast(x);
			const double want = functions[k].slow((double)x);

			if (isnan(x) ? !isnan(y) : !close_to(y, want, functions[k].within))
				fail_msg("%s(%.9g) is %.9g, not %.9g", functions[k].name, (double)x,
					 (double)y, want);
		}
}

#define EDGES 8
static const float edge[EDGES] = { NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-45f, 3e38f, -3e38f };

static void run(const char *name, const char *text, float *y, float *dx)
{
	const struct tw_op *op = tw_op_find(name);
	const struct tw_shape shape = { 1, { EDGES } };
	_Alignas(16) char options[64];
	float dy[EDGES];
	struct tw_error why = { 0 };
	struct tw_op_site site = { .options = options, .batch = 1, .ins = 1 };
	struct tw_op_run r = { .in = { edge }, .out = y, .out_gradient = dy };

	assert_true(op && op->options_bytes <= sizeof options);
	assert_int_equal(tw_op_parse(op, text, options, NULL, &why), TW_OK);
	for (size_t i = 0; i < EDGES; i++)
		dy[i] = 1;
	site.in[0] = site.out = shape;
	site.train = site.wants[0] = true;
	r.in_gradient[0] = dx;
	assert_int_equal(op->forward(&site, NULL, &r), TW_OK);
	assert_int_equal(op->backward(&site, NULL, &r), TW_OK);
}

/* A NaN comes out again; other edges give numbers, but where there is no answer. */
static const struct {
	const char *name, *text;
	float y[EDGES], dx[EDGES];
} wanted[] = {
	{ "relu", "", { NAN, INFINITY, 0, 0, 0, 1e-45f, 3e38f, 0 }, { 1, 1, 0, 0, 0, 1, 1, 0 } },
	{ "leaky-relu",
	  "0.5",
	  { NAN, INFINITY, -INFINITY, 0, 0, 1e-45f, 3e38f, -1.5e38f },
	  { 1, 1, 0.5f, 0.5f, 0.5f, 1, 1, 0.5f } },
	{ "tanh", "", { NAN, 1, -1, 0, 0, 1e-45f, 1, -1 }, { NAN, 0, 0, 1, 1, 1, 0, 0 } },
	{ "sigmoid",
	  "",
	  { NAN, 1, 0, 0.5f, 0.5f, 0.5f, 1, 0 },
	  { NAN, 0, 0, 0.25f, 0.25f, 0.25f, 0, 0 } },
	{ "elu",
	  "2",
	  { NAN, INFINITY, -2, 0, 0, 1e-45f, 3e38f, -2 },
	  { NAN, 1, 0, 2, 2, 1, 1, 0 } },
	{ "silu",
	  "",
	  { NAN, INFINITY, NAN, 0, 0, 0, 3e38f, 0 },
	  { NAN, NAN, NAN, 0.5f, 0.5f, 0.5f, 1, 0 } },
	{ "softplus",
	  "",
	  { NAN, INFINITY, 0, 0.693147182f, 0.693147182f, 0.693147182f, 3e38f, 0 },
	  { NAN, 1, 0, 0.5f, 0.5f, 0.5f, 1, 0 } },
	{ "gelu",
	  "",
	  { NAN, INFINITY, NAN, 0, 0, 0, 3e38f, 0 },
	  { NAN, NAN, NAN, 0.5f, 0.5f, 0.5f, 1, 0 } },
	{ "gelu",
	  "approximate tanh",
	  { NAN, INFINITY, NAN, 0, 0, 0, 3e38f, 0 },
	  { NAN, 1, 0, 0.5f, 0.5f, 0.5f, 1, 0 } },
};

static bool alike(float got, float want, float within)
{
	return isnan(want) ? isnan(got) : got == want || fabsf(got - want) <= within;
}

static void edges(void **state)
{
	for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
		float y[EDGES], dx[EDGES];

		run(wanted[k].name, wanted[k].text, y, dx);
		for (size_t i = 0; i < EDGES; i++)
			if (!alike(y[i], wanted[k].y[i], 2e-45f) ||
			    !alike(dx[i], wanted[k].dx[i], 1e-6f))
				fail_msg("%s %s of %g: %g, slope %g", wanted[k].name,
					 wanted[k].text, (double)edge[i], (double)y[i],
					 (double)dx[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_everywhere),
		cmocka_unit_test(edges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
