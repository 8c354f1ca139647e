/* SPDX-License-Identifier: Apache-2.0 */
/* test_rule_formula.c - each rule against its formula in doubles, and against its relatives. */
#include "strategy/tools.h"
#include "strategy/rule.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

#define N       129
#define WORKERS 4

/* One parameter of the slow way. */
struct slow {
	double w, a, b, mine[WORKERS];
};

struct push {
	double g, rate, decay;
	int count, worker;
};

static void slow_sgd(struct slow *s, const struct push *p)
{
	s->w -= p->rate * p->g;
}

static void slow_momentum(struct slow *s, const struct push *p)
{
	s->a = 0.9 * s->a + p->g;
	s->w -= p->rate * s->a;
}

static void slow_adagrad(struct slow *s, const struct push *p)
{
	s->a += p->g * p->g;
	s->w -= p->rate * p->g / (sqrt(s->a) + 1e-10);
}

static void slow_rmsprop(struct slow *s, const struct push *p)
{
	s->a = 0.99 * s->a + 0.01 * p->g * p->g;
	s->w -= p->rate * p->g / (sqrt(s->a) + 1e-8);
}

static void slow_adam(struct slow *s, const struct push *p)
{
	s->a = 0.9 * s->a + 0.1 * p->g;
	s->b = 0.999 * s->b + 0.001 * p->g * p->g;
	s->w -= p->rate * (s->a / (1 - pow(0.9, p->count))) /
		(sqrt(s->b / (1 - pow(0.999, p->count))) + 1e-8);
}

static void slow_adamw(struct slow *s, const struct push *p)
{
	s->w -= p->rate * p->decay * s->w;
	slow_adam(s, p);
}

static void slow_multi(struct slow *s, const struct push *p)
{
	s->mine[p->worker] = 0.9 * s->mine[p->worker] + p->g;
	s->w -= p->rate * s->mine[p->worker];
}

static void slow_dana(struct slow *s, const struct push *p)
{
	s->mine[p->worker] = 0.9 * s->mine[p->worker] + p->rate * p->g;
	s->w -= s->mine[p->worker];
}

static double seen_nag(const struct slow *s, double rate)
{
	return s->w - rate * 0.9 * s->a;
}

static double seen_dana(const struct slow *s, double rate)
{
	double sum = 0.0;

	(void)rate;
	for (int i = 0; i < WORKERS; i++)
		sum += s->mine[i];
	return s->w - 0.9 * sum;
}

static const struct {
	const char *name;
	void (*step)(struct slow *s, const struct push *p);
	double (*seen)(const struct slow *s, double rate);
} formula[] = {
	{ "sgd", slow_sgd },
	{ "momentum", slow_momentum },
	{ "nag", slow_momentum, seen_nag },
	{ "adagrad", slow_adagrad },
	{ "rmsprop", slow_rmsprop },
	{ "adam", slow_adam },
	{ "adamw", slow_adamw },
	{ "multi", slow_multi },
	{ "dana", slow_dana, seen_dana },
};

/* A rule with its arrays. */
struct quick {
	const struct tw_rule *rule;
	const void *options;
	uint64_t count;
	float w[N], array[TW_RULE_ARRAYS][N], mine[WORKERS][N], view[N];
};

static void quick_init(struct quick *q, const char *name)
{
	memset(q, 0, sizeof *q);
	q->rule = tw_rule_find(name);
	assert_non_null(q->rule);
	q->options = OPTIONS(q->rule, NULL);
}

static void quick_push(struct quick *q, int worker, const float *g, float rate, float decay)
{
	struct tw_apply a = { .w = q->w,
			      .out = q->w,
			      .g = g,
			      .n = N,
			      .rate = rate,
			      .decay = decay,
			      .count = ++q->count,
			      .mine = q->mine[worker] };

	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		a.array[k] = q->array[k];
	q->rule->apply(q->options, &a);
}

static const float *quick_view(struct quick *q, float rate)
{
	struct tw_apply a = { .w = q->w, .n = N, .rate = rate };

	if (!q->rule->view)
		return q->w;
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		a.array[k] = q->array[k];
	q->rule->view(q->options, &a, q->view);
	return q->view;
}

static void rules_follow_their_formulas(void **state)
{
	static struct quick q;
	static struct slow slow[N];
	static float g[N];

	(void)state;
	for (size_t k = 0; k < sizeof formula / sizeof *formula; k++) {
		quick_init(&q, formula[k].name);
		memset(slow, 0, sizeof slow);
		gauss(q.w, N, 900, 0.5f);
		for (size_t i = 0; i < N; i++)
			slow[i].w = q.w[i];
		for (int step = 0; step < 60; step++) {
			const float rate = step < 30 ? 0.01f : 0.003f;
			const int worker = (int)pick((uint64_t)step, WORKERS);

			gauss(g, N, (uint64_t)step, 1.0f);
			quick_push(&q, worker, g, rate, 0.1f);

			const float *seen = quick_view(&q, rate);

			for (size_t i = 0; i < N; i++) {
				const struct push p = { g[i], rate, 0.1f, step + 1, worker };

				formula[k].step(&slow[i], &p);
				NEAR(q.w[i], slow[i].w, 1e-6);
				NEAR(seen[i],
				     formula[k].seen ? formula[k].seen(&slow[i], rate) : slow[i].w,
				     1e-6);
			}
		}
	}
}

static void adagrad_shrinks_as_one_over_root_k(void **state)
{
	static struct quick q;
	static float g[N];

	(void)state;
	quick_init(&q, "adagrad");
	gauss(g, N, 1, 1.0f);
	for (size_t i = 0; i < N; i++)
		g[i] += g[i] < 0 ? -0.01f : 0.01f; /* well above epsilon */
	for (int k = 1; k <= 50; k++) {
		memset(q.w, 0, sizeof q.w);
		quick_push(&q, 0, g, 0.25f, 0.0f);
		for (size_t i = 0; i < N; i++) {
			if (k == 1)
				CHECK(q.w[i] == (g[i] > 0 ? -0.25f : 0.25f));
			NEAR(q.w[i], (g[i] > 0 ? -0.25 : 0.25) / sqrt(k), 1e-6);
		}
	}
}

static void multi_of_one_worker_is_momentum(void **state)
{
	static struct quick one, many;
	static float g[N];

	(void)state;
	quick_init(&one, "momentum");
	quick_init(&many, "multi");
	for (int step = 0; step < 300; step++) {
		gauss(g, N, (uint64_t)step, 1.0f);
		quick_push(&one, 0, g, 0.1f, 0.0f);
		quick_push(&many, 0, g, 0.1f, 0.0f);
		CHECK(same_bits(one.w, many.w, N));
	}
}

/* The gradient of sum of h/2 (x - 1)^2 with noise. */
static void slope(float *g, const float *x, uint64_t noise)
{
	gauss(g, N, noise, 0.3f);
	for (size_t i = 0; i < N; i++)
		g[i] += (0.1f + 0.9f * (float)i / N) * (x[i] - 1.0f);
}

static void dana_of_one_worker_is_nag(void **state)
{
	static struct quick nag, dana;
	static float g[N];

	(void)state;
	quick_init(&nag, "nag");
	quick_init(&dana, "dana");
	for (int step = 0; step < 500; step++) {
		slope(g, quick_view(&nag, 0.05f), (uint64_t)step);
		quick_push(&nag, 0, g, 0.05f, 0.0f);
		slope(g, quick_view(&dana, 0.05f), (uint64_t)step);
		quick_push(&dana, 0, g, 0.05f, 0.0f);
		for (size_t i = 0; i < N; i++)
			NEAR(dana.w[i], nag.w[i], 1e-5);
	}
}

static void dana_without_momentum_is_sgd(void **state)
{
	static struct quick sgd, dana;
	static float g[N];

	(void)state;
	quick_init(&sgd, "sgd");
	quick_init(&dana, "dana");
	dana.options = OPTIONS(dana.rule, "momentum", "0", NULL);
	for (int step = 0; step < 300; step++) {
		gauss(g, N, (uint64_t)step, 1.0f);
		quick_push(&sgd, 0, g, 0.01f, 0.0f);
		quick_push(&dana, (int)pick((uint64_t)step, WORKERS), g, 0.01f, 0.0f);
		CHECK(same_bits(quick_view(&dana, 0.01f), dana.w, N));
		for (size_t i = 0; i < N; i++)
			NEAR(dana.w[i], sgd.w[i], 1e-6);
	}
}

/* Any order of workers, some coming and going, a moving rate: the sum is the sum. */
static void danas_sum_does_not_drift(void **state)
{
	static struct quick q;
	static float g[N];

	(void)state;
	quick_init(&q, "dana");
	for (uint64_t step = 0; step < 20000; step++) {
		const int worker = (int)pick(step, WORKERS);

		gauss(g, N, step, pick(step + 50000, 100) ? 1.0f : 1000.0f);
		if (step % 1000 == 999) {
			float *const array[TW_RULE_ARRAYS] = { q.array[0], q.array[1] };

			q.rule->leave(q.options, array, q.mine[worker], N);
		}
		quick_push(&q, worker, g, 0.1f / (1.0f + (float)(step / 2000)), 0.0f);
	}
	for (size_t i = 0; i < N; i++) {
		double sum = 0.0, largest = 0.0;

		for (int j = 0; j < WORKERS; j++) {
			sum += q.mine[j][i];
			largest = fmax(largest, fabs(q.mine[j][i]));
		}
		CHECK(fabs(q.array[0][i] - sum) <= 1e-6 * fmax(fabs(sum), largest));
		CHECK(fabs((double)q.array[0][i] + q.array[1][i] - sum) <= 1e-6 * largest);
	}
}

/* DANA-Zero and DANA-Slim show workers the same vector; when a worker leaves, too. */
static void danas_two_halves_agree(void **state)
{
	static struct quick zero;
	static float slim[N], v[WORKERS][N], sent[2][WORKERS][N], g[N], u[N];
	float stamp[WORKERS];

	(void)state;
	quick_init(&zero, "dana");
	gauss(zero.w, N, 1, 1.0f);
	memcpy(slim, zero.w, sizeof slim);
	memset(v, 0, sizeof v);
	for (int i = 0; i < WORKERS; i++) {
		memcpy(sent[0][i], zero.w, sizeof zero.w);
		memcpy(sent[1][i], zero.w, sizeof zero.w);
		stamp[i] = 0.02f;
	}
	for (uint64_t step = 0; step < 4000; step++) {
		const int i = (int)pick(step, WORKERS);
		double largest = 0.0;

		slope(g, sent[0][i], step);
		quick_push(&zero, i, g, stamp[i], 0.0f);
		slope(g, sent[1][i], step);
		zero.rule->prepare(zero.options, v[i], g, stamp[i], u, N);
		tw_vec_sub(slim, slim, u, N);
		if (step % 500 == 499) {
			float *const array[TW_RULE_ARRAYS] = { zero.array[0], zero.array[1] };

			zero.rule->leave(zero.options, array, zero.mine[i], N);
			zero.rule->farewell(zero.options, v[i], u, N);
			tw_vec_sub(slim, slim, u, N);
			memset(v[i], 0, sizeof v[i]);
		}
		stamp[i] = 0.02f / (1.0f + (float)(step / 700));
		memcpy(sent[0][i], quick_view(&zero, stamp[i]), sizeof slim);
		memcpy(sent[1][i], slim, sizeof slim);
		for (size_t k = 0; k < N; k++)
			largest = fmax(largest, fabs(slim[k]));
		for (size_t k = 0; k < N; k++)
			CHECK(fabs((double)sent[0][i][k] - slim[k]) <= 1e-5 * largest);
	}
}

static void danas_direction_survives_rate_zero(void **state)
{
	static struct quick q;
	static float g[N], d[N];
	struct tw_apply a = { .w = q.w,
			      .out = q.w,
			      .g = g,
			      .direction = d,
			      .n = N,
			      .rate = 0.0f,
			      .count = 2,
			      .mine = q.mine[0] };

	(void)state;
	quick_init(&q, "dana");
	a.array[0] = q.array[0];
	a.array[1] = q.array[1];
	gauss(g, N, 1, 1.0f);
	quick_push(&q, 0, g, 0.1f, 0.0f);
	q.rule->apply(q.options, &a);
	CHECK(same_bits(d, g, N));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_follow_their_formulas),
		cmocka_unit_test(adagrad_shrinks_as_one_over_root_k),
		cmocka_unit_test(multi_of_one_worker_is_momentum),
		cmocka_unit_test(dana_of_one_worker_is_nag),
		cmocka_unit_test(dana_without_momentum_is_sgd),
		cmocka_unit_test(danas_sum_does_not_drift),
		cmocka_unit_test(danas_two_halves_agree),
		cmocka_unit_test(danas_direction_survives_rate_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
