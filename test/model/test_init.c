/* SPDX-License-Identifier: Apache-2.0 */
/* test_init.c - first values have the moments that their names promise, and the same bits whoever
 * asks for which part of them. */
#include "model/nets.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static float *all_of(const struct tw_graph *g, uint64_t seed)
{
	const size_t n = g->trainable + g->buffers;
	float *w = malloc(n * sizeof *w);

	assert_non_null(w);
	memset(w, 0xff, n * sizeof *w);
	tw_model_init(g, seed, 0, n, w);
	return w;
}

struct moments {
	double mean, variance, fourth, low, high;
};

static struct moments moments_of(const float *x, size_t n)
{
	struct moments m = { .low = INFINITY, .high = -INFINITY };

	for (size_t i = 0; i < n; i++) {
		assert_true(isfinite(x[i]));
		m.mean += (double)x[i] / (double)n;
		m.low = fmin(m.low, (double)x[i]);
		m.high = fmax(m.high, (double)x[i]);
	}
	for (size_t i = 0; i < n; i++) {
		const double d = (double)x[i] - m.mean;

		m.variance += d * d / (double)n;
		m.fourth += d * d * d * d / (double)n;
	}
	return m;
}

/* Within five standard errors; a fourth moment of 3 is gauss, of 1.8 uniform. */
static void expect_moments(const float *x, size_t n, double variance, double kurtosis)
{
	const struct moments m = moments_of(x, n);
	const double root = sqrt((double)n);

	assert_true(fabs(m.mean) < 5 * sqrt(variance) / root);
	assert_true(fabs(m.variance - variance) < 5 * variance * sqrt(kurtosis - 1) / root);
	assert_true(fabs(m.fourth / (m.variance * m.variance) - kurtosis) < 25 / root);
	if (kurtosis < 2) {
		const double bound = sqrt(3 * variance);

		assert_true(m.low >= -bound * 1.000001 && m.low < -0.99 * bound);
		assert_true(m.high <= bound * 1.000001 && m.high > 0.99 * bound);
	}
}

static void moments(void **state)
{
	/* fans: linear 300 in, 400 out; conv 9 * 6 in, 9 * 50 out */
	static const struct {
		const char *name;
		double in, sum, fixed, kurtosis; /* variance: in / fan_in + sum / both + fixed */
	} wants[] = {
		{ "he", 2, 0, 0, 3 },        { "he-uniform", 2, 0, 0, 1.8 },
		{ "xavier", 0, 2, 0, 3 },    { "xavier-uniform", 0, 2, 0, 1.8 },
		{ "lecun", 1, 0, 0, 3 },     { "torch", 1.0 / 3, 0, 0, 1.8 },
		{ "normal", 0, 0, 1e-4, 3 },
	};

	for (size_t k = 0; k < COUNT(wants); k++) {
		char linear[80], conv[80];
		const struct tw_layer flat[] = { L(linear) }, image[] = { L(conv), L("linear 10") };
		const struct tw_model_site f = site_of(300, 0, 0, 400), i = site_of(6, 5, 5, 10);
		struct tw_graph *g;
		float *w;

		snprintf(linear, sizeof linear, "linear 400 init %s", wants[k].name);
		snprintf(conv, sizeof conv, "conv 50 3x3 init %s", wants[k].name);
		g = net_build(&f, flat, 1);
		w = all_of(g, 5);
		expect_moments(w + tensor_of(g, "0.weight")->from, 300 * 400,
			       wants[k].in / 300 + wants[k].sum / 700 + wants[k].fixed,
			       wants[k].kurtosis);
		free(w);
		tw_graph_free(g);
		g = net_build(&i, image, 2);
		w = all_of(g, 6);
		assert_int_equal(tensor_of(g, "0.weight")->n, 50 * 6 * 9);
		expect_moments(w + tensor_of(g, "0.weight")->from, 50 * 6 * 9,
			       wants[k].in / 54 + wants[k].sum / (54 + 450) + wants[k].fixed,
			       wants[k].kurtosis);
		free(w);
		tw_graph_free(g);
	}
}

static void all_are(const float *w, const struct tw_graph_tensor *t, float value)
{
	for (size_t i = 0; i < t->n; i++)
		assert_true(w[t->from + i] == value);
}

static void what_is_not_drawn(void **state)
{
	const struct tw_layer all[] = { L("linear 3000"), L("linear 10 init zeros") };
	struct tw_model_site site = site_of(30, 0, 0, 10);
	struct tw_error why = { 0 };
	struct tw_graph *g = net_build(&site, all, 2);
	float *w = all_of(g, 1);

	all_are(w, tensor_of(g, "0.bias"), 0);
	all_are(w, tensor_of(g, "1.weight"), 0);
	free(w);
	tw_graph_free(g);
	site.init = TW_INIT_TORCH; /* biases too, as wide as the weights beside them */
	g = net_build(&site, all, 2);
	w = all_of(g, 1);
	expect_moments(w + tensor_of(g, "0.bias")->from, 3000, 1.0 / 3 / 30, 1.8);
	all_are(w, tensor_of(g, "1.bias"), 0);
	free(w);
	tw_graph_free(g);
	site = site_of(3, 8, 8, 10);
	site.init = TW_INIT_TORCH;
	assert_int_equal(zoo_build("resnet20", NULL, &site, &g, &why), TW_OK);
	w = all_of(g, 1);
	all_are(w, tensor_of(g, "1.weight"), 1);
	all_are(w, tensor_of(g, "1.bias"), 0);
	all_are(w, tensor_of(g, "1.running_mean"), 0);
	all_are(w, tensor_of(g, "1.running_var"), 1);
	free(w);
	tw_graph_free(g);
}

/* Any split into ranges gives the bits of the whole, and writes no other. */
static void ranges(void **state)
{
	const struct tw_layer all[] = {
		L("conv 3 3x3"),           L("batchnorm"),
		L("linear 17 init he"),    L("linear 5 init xavier-uniform"),
		L("linear 10 init torch"),
	};
	const struct tw_model_site site = site_of(2, 6, 5, 10);
	struct tw_graph *g = net_build(&site, all, COUNT(all));
	const size_t n = g->trainable + g->buffers;
	float *w = all_of(g, 99), *part = malloc((n + 2) * sizeof *part);

	assert_non_null(part);
	for (size_t step = 1; step <= n; step = step < 40 ? step + 1 : 2 * step)
		for (size_t from = 0; from < n; from += step) {
			const size_t m = n - from < step ? n - from : step;

			part[0] = part[m + 1] = 77;
			tw_model_init(g, 99, from, m, part + 1);
			assert_memory_equal(part + 1, w + from, m * sizeof *w);
			assert_true(part[0] == 77 && part[m + 1] == 77);
		}
	free(part);
	free(w);
	tw_graph_free(g);
}

/* Neither two tensors of one shape nor two seeds have the same values. */
static void draws_differ(void **state)
{
	static const char *const names[] = { "linear 40 init he", "linear 40 init torch" };

	for (size_t k = 0; k < COUNT(names); k++) {
		const struct tw_layer all[] = { L(names[k]), L(names[k]) };
		const struct tw_model_site site = site_of(40, 0, 0, 40);
		struct tw_graph *g = net_build(&site, all, 2);
		float *one = all_of(g, 1), *two = all_of(g, 2);
		const size_t b = tensor_of(g, "1.weight")->from;
		size_t same = 0;

		for (size_t i = 0; i < 1600; i++) {
			same += one[i] == two[i];
			same += one[i] == one[b + i];
			same += i && one[i] == one[i - 1];
		}
		assert_int_equal(same, 0);
		free(one);
		free(two);
		tw_graph_free(g);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moments),
		cmocka_unit_test(what_is_not_drawn),
		cmocka_unit_test(ranges),
		cmocka_unit_test(draws_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
