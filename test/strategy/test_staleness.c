/* SPDX-License-Identifier: Apache-2.0 */
/* test_staleness.c - every correction keeps staleness.h's word, and each meets its closed forms. */
#include "strategy/tools.h"
#include "strategy/staleness.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define N     1003
#define STEPS 12

/* Everything a correction may write; compared as bytes. */
struct state {
	float g[N], decay[N], array[TW_STALENESS_ARRAYS][N];
};

static float w[N], sent[N], direction[N];

static void correct(const struct tw_staleness *p, const void *o, struct state *s, uint64_t tau,
		    uint64_t count, size_t from, size_t n, double *statistic)
{
	struct tw_correction c = { .g = s->g + from,
				   .w = w + from,
				   .sent = p->traits & TW_STALENESS_SENT ? sent + from : NULL,
				   .decay = p->traits & TW_STALENESS_DECAY ? s->decay + from : NULL,
				   .n = n,
				   .tau = tau,
				   .count = count,
				   .rate_max = 0.1f,
				   .statistic = *statistic };

	for (uint32_t k = 0; k < p->arrays; k++)
		c.array[k] = s->array[k] + from;
	if (p->correct)
		p->correct(o, &c);
	*statistic = c.statistic;
}

static void observe(const struct tw_staleness *p, const void *o, struct state *s, uint64_t count,
		    size_t from, size_t n)
{
	float *array[TW_STALENESS_ARRAYS];

	for (uint32_t k = 0; k < TW_STALENESS_ARRAYS; k++)
		array[k] = s->array[k] + from;
	if (p->observe)
		p->observe(o, array, direction + from, n, count);
}

static double run(const struct tw_staleness *p, const void *o, struct state *s, size_t tile)
{
	double statistic = 0.0;

	memset(s, 0, sizeof *s);
	for (uint64_t step = 0; step < STEPS; step++) {
		statistic = 0.0;
		gauss(s->g, N, step, 1.0f);
		gauss(w, N, step + 100, 1.0f);
		gauss(sent, N, step + 200, 1.0f);
		gauss(direction, N, step + 300, 1.0f);
		for (size_t at = 0; at < N; at += tile)
			correct(p, o, s, step % 4, step + 1, at, N - at < tile ? N - at : tile,
				&statistic);
		for (size_t at = 0; at < N; at += tile)
			observe(p, o, s, step + 1, at, N - at < tile ? N - at : tile);
	}
	return statistic;
}

static struct state whole, other;

static void every_policy_has_what_its_traits_need(void **state)
{
	(void)state;
	for (size_t k = 0; tw_staleness_all[k]; k++) {
		const struct tw_staleness *p = tw_staleness_all[k];

		CHECK(p->arrays <= TW_STALENESS_ARRAYS);
		CHECK(!(p->traits & TW_STALENESS_OBSERVES) == !p->observe);
		CHECK(!p->traits || p->correct);
		if (p->open)
			CHECK(tw_option_find(p->options, p->open)->type == TW_F64 &&
			      strcmp(tw_option_find(p->options, p->open)->standard, "0") == 0);
	}
	CHECK(!tw_staleness_find("none")->correct);
}

static void tiles_of_any_size_give_the_same_bits(void **state)
{
	const size_t tiles[] = { 1, 2, 7, 16, 33, 64, 500, 1000 };

	(void)state;
	for (size_t k = 0; tw_staleness_all[k]; k++) {
		const struct tw_staleness *p = tw_staleness_all[k];
		const double want = run(p, OPTIONS(p, NULL), &whole, N);

		CHECK(!(p->traits & TW_STALENESS_STATISTIC) == (want == 0.0));
		for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
			const double got = run(p, OPTIONS(p, NULL), &other, tiles[t]);

			CHECK(!memcmp(&whole, &other, sizeof whole));
			NEAR(got, want, 1e-12);
		}
	}
}

static void every_isa_gives_the_same_bits(void **state)
{
	(void)state;
	for (size_t k = 0; tw_staleness_all[k]; k++) {
		const struct tw_staleness *p = tw_staleness_all[k];
		const double want = run(p, OPTIONS(p, NULL), &whole, N);

		for (int isa = -1; isa_next(&isa);) {
			CHECK(run(p, OPTIONS(p, NULL), &other, N) == want);
			CHECK(!memcmp(&whole, &other, sizeof whole));
		}
	}
}

static void finite_input_gives_finite_output(void **state)
{
	(void)state;
	for (size_t k = 0; tw_staleness_all[k]; k++) {
		const struct tw_staleness *p = tw_staleness_all[k];
		const void *o = OPTIONS(p, NULL);

		memset(&whole, 0, sizeof whole);
		for (uint64_t step = 0; step < 60; step++) {
			const uint64_t taus[] = { 0, 1, 1000, UINT64_MAX };
			double statistic = 0.0;

			edges(whole.g, N, step, FLT_MAX);
			edges(w, N, step + 100, FLT_MAX);
			edges(sent, N, step + 200, FLT_MAX);
			edges(direction, N, step + 300, FLT_MAX);
			correct(p, o, &whole, taus[step % 4], step + 1, 0, N, &statistic);
			observe(p, o, &whole, step + 1, 0, N);
			CHECK(all_finite((float *)&whole, sizeof whole / sizeof(float)));
			CHECK(isfinite(statistic));
			for (size_t i = 0; i < N; i++)
				CHECK(whole.decay[i] >= 0.0f);
		}
	}
}

/* Corrects one gradient at tau with the arrays of `s`; the gradient before is kept in *raw. */
static void once(const char *name, const void *o, struct state *s, float *raw, uint64_t tau,
		 uint64_t count)
{
	double statistic = 0.0;

	memcpy(raw, s->g, sizeof s->g);
	correct(tw_staleness_find(name), o, s, tau, count, 0, N, &statistic);
}

/* What a policy with the trait multiplies g with, it says of the decay: element by element, for a
 * policy that scales the same number everywhere. */
static void decay_is_scaled_like_the_gradient(void **state)
{
	static float raw[N];

	(void)state;
	for (size_t k = 0; tw_staleness_all[k]; k++) {
		const struct tw_staleness *p = tw_staleness_all[k];
		const void *o = p->open ? OPTIONS(p, p->open, "7", NULL) : OPTIONS(p, NULL);
		double statistic = 0.0;

		if (p->traits & TW_STALENESS_SCALES)
			CHECK(p->traits & TW_STALENESS_DECAY);
		if (!(p->traits & TW_STALENESS_DECAY))
			continue;
		run(p, o, &whole, N);
		for (uint64_t tau = 0; tau < 12; tau++) {
			gauss(whole.g, N, tau + 7, 1.0f);
			memcpy(raw, whole.g, sizeof raw);
			for (size_t i = 0; i < N; i++)
				whole.decay[i] = NAN;
			correct(p, o, &whole, tau, STEPS + 1 + tau, 0, N, &statistic);
			for (size_t i = 0; i < N; i++) {
				NEAR(whole.g[i], (double)raw[i] * whole.decay[i], 1e-6);
				if (p->traits & TW_STALENESS_SCALES)
					CHECK(whole.decay[i] == whole.decay[0]);
			}
		}
	}
}

/* Whoever multiplies all of a gradient with one number says so, for the sake of rules that such a
 * number means nothing to. */
static void one_factor_for_all_is_declared(void **state)
{
	static float raw[N];

	(void)state;
	for (size_t k = 0; tw_staleness_all[k]; k++) {
		const struct tw_staleness *p = tw_staleness_all[k];
		const void *o = p->open ? OPTIONS(p, p->open, "7", NULL) : OPTIONS(p, NULL);
		double low = INFINITY, high = -INFINITY;

		if (!p->correct)
			continue;
		run(p, o, &whole, N);
		gauss(whole.g, N, 5, 1.0f);
		once(p->name, o, &whole, raw, 5, STEPS + 1);
		for (size_t i = 0; i < N; i++) {
			low = fmin(low, (double)whole.g[i] / raw[i]);
			high = fmax(high, (double)whole.g[i] / raw[i]);
		}
		CHECK(!(p->traits & TW_STALENESS_SCALES) == (high - low > 1e-3));
	}
}

static void mean_divides_all_by_the_same(void **state)
{
	static const struct {
		const char *expected;
		double by;
	} cases[] = { { "0", 1 }, { "0.5", 1 }, { "1", 1 }, { "4", 4 }, { "7.5", 7.5 } };
	const struct tw_staleness *p = tw_staleness_find("mean");
	static float raw[N];

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
		for (uint64_t tau = 0; tau < 10; tau += 3) {
			memset(&whole, 0, sizeof whole);
			gauss(whole.g, N, tau, 1.0f);
			once("mean", OPTIONS(p, "expected", cases[k].expected, NULL), &whole, raw,
			     tau, 1);
			for (size_t i = 0; i < N; i++) {
				NEAR(whole.g[i], raw[i] / cases[k].by, 1e-7);
				NEAR(whole.decay[i], 1 / cases[k].by, 1e-7);
			}
			if (cases[k].by == 1)
				CHECK(same_bits(whole.g, raw, N));
		}
}

/* rate / tau^(1 - min(t / anneal, 1)) */
static void pipemare_starts_late_stages_slowly(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("pipemare");
	const void *options = OPTIONS(p, "anneal", "100", NULL);
	static float raw[N];

	(void)state;
	for (uint64_t tau = 0; tau < 8; tau++)
		for (uint64_t count = 1; count <= 201; count += 25) {
			const double left = fmax(0, 1 - (double)(count - 1) / 100);
			const double factor = pow(tau > 1 ? (double)tau : 1, -left);

			memset(&whole, 0, sizeof whole);
			gauss(whole.g, N, tau, 1.0f);
			once("pipemare", options, &whole, raw, tau, count);
			for (size_t i = 0; i < N; i++) {
				NEAR(whole.g[i], raw[i] * factor, 1e-6);
				NEAR(whole.decay[i], factor, 1e-6);
			}
			if (tau <= 1 || count > 100)
				CHECK(same_bits(whole.g, raw, N));
		}
}

static void inverse_divides_and_never_by_zero(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("inverse");
	const void *plus = OPTIONS(p, "form", "plus-one", NULL), *max = OPTIONS(p, NULL);
	static float raw[N];

	(void)state;
	for (uint64_t tau = 0; tau < 40; tau++) {
		memset(&whole, 0, sizeof whole);
		gauss(whole.g, N, tau, 1.0f);
		once("inverse", max, &whole, raw, tau, 1);
		for (size_t i = 0; i < N; i++)
			NEAR(whole.g[i], raw[i] / (double)(tau ? tau : 1), 1e-7);
		if (tau <= 1)
			CHECK(same_bits(whole.g, raw, N));
		gauss(whole.g, N, tau, 1.0f);
		once("inverse", plus, &whole, raw, tau, 1);
		for (size_t i = 0; i < N; i++)
			NEAR(whole.g[i], raw[i] / (double)(tau + 1), 1e-7);
		if (tau == 0)
			CHECK(same_bits(whole.g, raw, N));
	}
}

/* What both delay compensations leave alone, bit for bit. */
static void delay_identities(const char *name)
{
	const struct tw_staleness *p = tw_staleness_find(name);
	static float raw[N];

	memset(&whole, 0, sizeof whole);
	edges(whole.g, N, 1, FLT_MAX);
	gauss(w, N, 2, 1.0f);
	gauss(sent, N, 3, 1.0f);
	once(name, OPTIONS(p, "lambda", "0", NULL), &whole, raw, 5, 1);
	CHECK(same_bits(whole.g, raw, N));

	memcpy(sent, w, sizeof w);
	once(name, OPTIONS(p, NULL), &whole, raw, 0, 1);
	CHECK(same_bits(whole.g, raw, N));

	gauss(sent, N, 4, 1.0f);
	for (size_t i = 0; i < N; i++)
		whole.g[i] = i % 2 ? 0.0f : -0.0f;
	once(name, OPTIONS(p, NULL), &whole, raw, 5, 2);
	CHECK(same_bits(whole.g, raw, N));

	gauss(whole.g, N, 5, 1.0f); /* and elsewhere it does something */
	once(name, OPTIONS(p, NULL), &whole, raw, 5, 3);
	CHECK(!same_bits(whole.g, raw, N));
}

static void delay_follows_its_formula(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("delay");
	static float raw[N];

	(void)state;
	delay_identities("delay");
	gauss(whole.g, N, 1, 2.0f);
	gauss(w, N, 2, 1.0f);
	gauss(sent, N, 3, 1.0f);
	once("delay", OPTIONS(p, "lambda", "0.5", NULL), &whole, raw, 3, 1);
	for (size_t i = 0; i < N; i++)
		NEAR(whole.g[i], raw[i] + 0.5 * raw[i] * raw[i] * ((double)w[i] - sent[i]), 1e-6);

	/* slope a w of a quadratic: exact when lambda = 1 / (a sent^2) */
	for (size_t i = 0; i < N; i++) {
		sent[i] = 0.5f;
		w[i] = 0.25f * (float)(i % 16);
		whole.g[i] = 2.0f * sent[i];
	}
	once("delay", OPTIONS(p, "lambda", "2", NULL), &whole, raw, 3, 1);
	for (size_t i = 0; i < N; i++)
		CHECK(whole.g[i] == 2.0f * w[i]);
}

static void delay_adaptive_follows_its_formula(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("delay-adaptive");
	const void *forgetful = OPTIONS(p, "memory", "0", NULL), *usual = OPTIONS(p, NULL);
	static double ms[N];
	static float raw[N];

	(void)state;
	delay_identities("delay-adaptive");
	memset(&whole, 0, sizeof whole);
	for (uint64_t step = 1; step <= 20; step++) {
		gauss(whole.g, N, step, 0.3f);
		gauss(w, N, step + 50, 1.0f);
		gauss(sent, N, step + 90, 1.0f);
		once("delay-adaptive", usual, &whole, raw, 3, step);
		for (size_t i = 0; i < N; i++) {
			const double g = raw[i];

			ms[i] = 0.95 * ms[i] + 0.05 * g * g;
			NEAR(whole.array[0][i], ms[i], 1e-6);
			NEAR(whole.g[i],
			     g + 2 / sqrt(ms[i] + 1e-7) * g * g * ((double)w[i] - sent[i]), 1e-5);
		}
	}
	gauss(whole.g, N, 77, 0.3f);
	once("delay-adaptive", forgetful, &whole, raw, 3, 21);
	for (size_t i = 0; i < N; i++) {
		const double g = raw[i], size = fabs(g);

		NEAR(whole.g[i],
		     g + 2 * size * ((double)w[i] - sent[i]) * (size / sqrt(g * g + 1e-7)), 1e-6);
	}
}

/* The last corrected gradient and the mean of v after `steps` of gradients +-a. */
static float fasgd_after(const void *o, int steps, float a, bool alternating, uint64_t tau,
			 double *mean)
{
	double statistic = 0.0;

	memset(&whole, 0, sizeof whole);
	for (int step = 1; step <= steps; step++) {
		statistic = 0.0;
		for (size_t i = 0; i < N; i++)
			whole.g[i] = alternating && step % 2 ? -a : a;
		correct(tw_staleness_find("fasgd"), o, &whole, tau, (uint64_t)step, 0, N,
			&statistic);
	}
	*mean = statistic / N;
	return whole.g[N / 2];
}

static void fasgd_finds_the_deviation(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("fasgd");
	const void *usual = OPTIONS(p, NULL), *slow = OPTIONS(p, "gamma", "0.999", NULL);
	const void *unbiased = OPTIONS(p, "unbias", "true", NULL);
	double v;

	(void)state;
	/* a constant gradient has no deviation: without bias v is sqrt(epsilon) from the first
	 * step on, else it becomes that */
	for (int steps = 1; steps < 300; steps += 37) {
		NEAR(fasgd_after(unbiased, steps, 0.5f, false, 4, &v), 0.5 / (0.01 * 4), 5e-3);
		NEAR(v / 0.01, 1.0, 5e-3);
	}
	NEAR(fasgd_after(usual, 400, 0.5f, false, 4, &v), 0.5 / (0.01 * 4), 5e-3);
	NEAR(v / 0.01, 1.0, 5e-3);
	/* the paper's first step: v = (1 - beta) sqrt((1 - gamma) g g - (1 - gamma)^2 g g + e) */
	NEAR(fasgd_after(usual, 1, 2.0f, false, 1, &v), 2 / (0.1 * sqrt(0.09 * 4 + 1e-4)), 1e-5);
	NEAR(v, 0.1 * sqrt(0.09 * 4 + 1e-4), 1e-6);
	/* alternating +-a: v goes to a, but for the little that b still swings */
	NEAR(fasgd_after(slow, 9000, 2.0f, true, 1, &v), 1.0, 1e-3);
	NEAR(v, 2.0, 1e-3);
	const double swing = (1 - 0.9) / (1 + 0.9);

	fasgd_after(usual, 400, 2.0f, true, 1, &v);
	NEAR(v, sqrt(4 * (1 - swing * swing) + 1e-4), 1e-5);
	/* tau 0 counts as 1 */
	const float none = fasgd_after(usual, 10, 2.0f, true, 0, &v);

	CHECK(none == fasgd_after(usual, 10, 2.0f, true, 1, &v));
	NEAR(fasgd_after(usual, 10, 2.0f, true, 8, &v), none / 8.0, 1e-6);
}

static void fasgd_with_unit_deviation_is_asgd(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("fasgd");
	const void *o = OPTIONS(p, "gamma", "0", "beta", "0", "epsilon", "1", NULL);
	static float raw[N];

	(void)state;
	memset(&whole, 0, sizeof whole);
	for (uint64_t step = 1; step < 20; step++) {
		gauss(whole.g, N, step, 3.0f);
		once("fasgd", o, &whole, raw, 1, step);
		CHECK(same_bits(whole.g, raw, N));
	}
}

static void fasgd_is_its_formula(bool unbias)
{
	const struct tw_staleness *p = tw_staleness_find("fasgd");
	const void *o = OPTIONS(p, "unbias", unbias ? "true" : "false", NULL);
	double n[N] = { 0 }, b[N] = { 0 }, v[N] = { 0 };
	double sum = 0.0, statistic = 0.0;
	static float raw[N];

	memset(&whole, 0, sizeof whole);
	for (int step = 1; step <= 40; step++) {
		const double bias = unbias ? 1 - pow(0.9, step) : 1;

		sum = statistic = 0.0;
		gauss(whole.g, N, (uint64_t)step, 1.0f);
		memcpy(raw, whole.g, sizeof raw);
		correct(p, o, &whole, (uint64_t)step % 5, (uint64_t)step, 0, N, &statistic);
		for (size_t i = 0; i < N; i++) {
			const double g = raw[i], tau = step % 5 ? step % 5 : 1;

			n[i] = 0.9 * n[i] + 0.1 * g * g;
			b[i] = 0.9 * b[i] + 0.1 * g;
			v[i] = 0.9 * v[i] +
			       0.1 * sqrt(fmax(n[i] / bias - b[i] / bias * b[i] / bias, 0) + 1e-4f);
			sum += v[i] / bias;
			NEAR(whole.g[i], g / (v[i] / bias * tau), step == 1 ? 2e-2 : 1e-3);
			NEAR(whole.decay[i], 1 / (v[i] / bias * tau), step == 1 ? 2e-2 : 1e-3);
		}
		NEAR(statistic / N, sum / N, 1e-5);
	}
}

static void fasgd_follows_its_formula(void **state)
{
	(void)state;
	fasgd_is_its_formula(false);
	fasgd_is_its_formula(true);
}

/* One correction by `gap` of g = 3 at a distance, with the arrays of `whole`. */
static float gap_at(const void *o, float distance, float rate_max, float *decay)
{
	float g = 3.0f, now = 1.0f, was = 1.0f + distance;
	struct tw_correction c = { .g = &g,
				   .w = &now,
				   .sent = &was,
				   .decay = decay,
				   .array = { whole.array[0] },
				   .n = 1,
				   .tau = 7,
				   .count = 9,
				   .rate_max = rate_max };

	tw_staleness_find("gap")->correct(o, &c);
	return g;
}

static void gap_halves_at_one_average_step(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("gap");
	const void *o = OPTIONS(p, "epsilon", "0", NULL);
	float decay, last = 3.0f;

	(void)state;
	memset(&whole, 0, sizeof whole);
	for (uint64_t count = 1; count <= 50; count++) {
		direction[0] = count % 2 ? 2.0f : -2.0f;
		p->observe(o, (float *[]){ whole.array[0] }, direction, 1, count);
		/* C = 0.25 * sqrt(4), from the first observation on */
		CHECK(gap_at(o, 0.5f, 0.25f, &decay) == 1.5f && decay == 0.5f);
		CHECK(gap_at(o, -0.5f, 0.25f, &decay) == 1.5f && decay == 0.5f);
		CHECK(gap_at(o, 0.0f, 0.25f, &decay) == 3.0f && decay == 1.0f);
		CHECK(gap_at(o, 1.5f, 0.25f, NULL) == 0.75f);
	}
	for (int k = 1; k < 100; k++) { /* monotone in the distance */
		const float g = gap_at(o, 0.01f * (float)k, 0.25f, &decay);

		CHECK(g < last && g > 0.0f);
		last = g;
	}
}

static void gap_before_any_observation(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("gap");
	const void *o = OPTIONS(p, "epsilon", "0.0009765625", NULL);
	float decay;

	(void)state;
	memset(&whole, 0, sizeof whole);
	CHECK(gap_at(o, 0.0f, 0.5f, &decay) == 3.0f && decay == 1.0f);
	CHECK(gap_at(o, 0x1p-11f, 0.5f, &decay) == 1.5f && decay == 0.5f);
	CHECK(gap_at(o, 0.0f, 0.0f, &decay) == 3.0f && decay == 1.0f);
	CHECK(gap_at(o, 1.0f, 0.0f, &decay) == 0.0f && decay == 0.0f);
}

static void gap_averages_the_squares_without_bias(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("gap");
	const void *o = OPTIONS(p, "memory", "0.9", NULL);
	static double square[N];

	(void)state;
	memset(&whole, 0, sizeof whole);
	for (int count = 1; count <= 60; count++) {
		gauss(direction, N, (uint64_t)count, 1.0f);
		observe(p, o, &whole, (uint64_t)count, 0, N);
		for (size_t i = 0; i < N; i++) {
			square[i] = 0.9 * square[i] + 0.1 * direction[i] * direction[i];
			NEAR(whole.array[0][i], square[i] / (1 - pow(0.9, count)), 2e-6);
		}
	}
}

static void gap_without_distance_is_asgd(void **state)
{
	const struct tw_staleness *p = tw_staleness_find("gap");
	static float raw[N];

	(void)state;
	run(p, OPTIONS(p, NULL), &whole, N);
	edges(whole.g, N, 8, FLT_MAX);
	memcpy(sent, w, sizeof w);
	once("gap", OPTIONS(p, NULL), &whole, raw, 9, STEPS + 1);
	CHECK(same_bits(whole.g, raw, N));
	for (size_t i = 0; i < N; i++)
		CHECK(whole.decay[i] == 1.0f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_policy_has_what_its_traits_need),
		cmocka_unit_test(tiles_of_any_size_give_the_same_bits),
		cmocka_unit_test(every_isa_gives_the_same_bits),
		cmocka_unit_test(finite_input_gives_finite_output),
		cmocka_unit_test(decay_is_scaled_like_the_gradient),
		cmocka_unit_test(one_factor_for_all_is_declared),
		cmocka_unit_test(mean_divides_all_by_the_same),
		cmocka_unit_test(inverse_divides_and_never_by_zero),
		cmocka_unit_test(pipemare_starts_late_stages_slowly),
		cmocka_unit_test(delay_follows_its_formula),
		cmocka_unit_test(delay_adaptive_follows_its_formula),
		cmocka_unit_test(fasgd_finds_the_deviation),
		cmocka_unit_test(fasgd_with_unit_deviation_is_asgd),
		cmocka_unit_test(fasgd_follows_its_formula),
		cmocka_unit_test(gap_halves_at_one_average_step),
		cmocka_unit_test(gap_before_any_observation),
		cmocka_unit_test(gap_averages_the_squares_without_bias),
		cmocka_unit_test(gap_without_distance_is_asgd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
