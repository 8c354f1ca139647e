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
	double g, rate, before, decay; /* before: of this worker's push before; 0: none */
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

static void slow_nadam(struct slow *s, const struct push *p)
{
	double all = 1;
	const double mu = 0.9 * (1 - 0.5 * pow(0.96, p->count * 0.004));
	const double next = 0.9 * (1 - 0.5 * pow(0.96, (p->count + 1) * 0.004));

	for (int k = 1; k <= p->count; k++)
		all *= 0.9 * (1 - 0.5 * pow(0.96, k * 0.004));
	s->a = 0.9 * s->a + 0.1 * p->g;
	s->b = 0.999 * s->b + 0.001 * p->g * p->g;
	s->w -= p->rate * ((1 - mu) / (1 - all) * p->g + next / (1 - all * next) * s->a) /
		(sqrt(s->b / (1 - pow(0.999, p->count))) + 1e-8);
}

static void slow_multi(struct slow *s, const struct push *p)
{
	s->mine[p->worker] = 0.9 * s->mine[p->worker] + p->g;
	s->w -= p->rate * s->mine[p->worker];
}

static void slow_dana(struct slow *s, const struct push *p)
{
	const double ratio = p->before > 0 ? p->rate / p->before : 0;

	s->mine[p->worker] = 0.9 * ratio * s->mine[p->worker] + p->rate * p->g;
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
	{ "nadam", slow_nadam },
	{ "predict-momentum", slow_momentum },
	{ "predict-adam", slow_adam },
	{ "multi", slow_multi },
	{ "dana", slow_dana, seen_dana },
};

/* A rule with its arrays. */
struct quick {
	const struct tw_rule *rule;
	const void *options;
	uint64_t count;
	float w[N], array[TW_RULE_ARRAYS][N], mine[WORKERS][N], view[N], before[WORKERS];
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
			      .before = q->before[worker],
			      .decay = decay,
			      .count = ++q->count,
			      .mine = q->mine[worker] };

	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		a.array[k] = q->array[k];
	q->rule->apply(q->options, &a);
	q->before[worker] = rate;
}

/* What a stage sees whose gradients come so many updates late. */
static const float *quick_predict(struct quick *q, float rate, uint32_t horizon)
{
	struct tw_apply a = {
		.w = q->w, .n = N, .rate = rate, .count = q->count, .horizon = horizon
	};

	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		a.array[k] = q->array[k];
	q->rule->view(q->options, &a, q->view);
	return q->view;
}

/* What worker 0 sees. */
static const float *quick_view(struct quick *q, float rate)
{
	struct tw_apply a = { .w = q->w, .n = N, .rate = rate, .mine = q->mine[0] };

	if (!tw_rule_shows(q->rule, q->options))
		return q->w;
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		a.array[k] = q->array[k];
	q->rule->view(q->options, &a, q->view);
	return q->view;
}

static void rules_follow_their_formulas(void **state)
{
	/* a warm-up from 0, a constant rate, a step, and 0 again */
	static const float rates[] = { 0.0f, 0.005f, 0.01f, 0.01f, 0.01f, 0.003f, 0.003f, 0.0f };
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
			const float rate = rates[step / 8];
			const int worker = (int)pick((uint64_t)step, WORKERS);
			const float before = q.before[worker];

			gauss(g, N, (uint64_t)step, 1.0f);
			quick_push(&q, worker, g, rate, 0.1f);

			const float *seen = quick_view(&q, rate);

			for (size_t i = 0; i < N; i++) {
				const struct push p = {
					g[i], rate, before, 0.1f, step + 1, worker
				};

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

/* Also when the rate changes: both have it outside the velocity. */
static void multi_of_one_worker_looks_ahead_like_nag(void **state)
{
	static struct quick nag, multi;
	static float g[N];

	(void)state;
	quick_init(&nag, "nag");
	quick_init(&multi, "multi");
	multi.options = OPTIONS(multi.rule, "nesterov", "true", NULL);
	for (int step = 0; step < 300; step++) {
		const float rate = step < 100 ? 0.1f : 0.003f * (float)(step % 7);

		gauss(g, N, (uint64_t)step, 1.0f);
		quick_push(&nag, 0, g, rate, 0.0f);
		quick_push(&multi, 0, g, rate, 0.0f);
		CHECK(same_bits(nag.w, multi.w, N));
		CHECK(same_bits(quick_view(&nag, rate), quick_view(&multi, rate), N));
		CHECK(rate == 0.0f || !same_bits(multi.w, multi.view, N));
	}
}

/* Worker i sees w - rate momentum v_i, and nothing of the others' velocities. */
static void multi_shows_each_worker_its_own_velocity(void **state)
{
	static struct quick q;
	static float g[N], seen[N];

	(void)state;
	quick_init(&q, "multi");
	CHECK(!tw_rule_shows(q.rule, q.options));
	q.options = OPTIONS(q.rule, "nesterov", "true", "momentum", "0.5", NULL);
	CHECK(tw_rule_shows(q.rule, q.options));
	for (uint64_t step = 0; step < 100; step++) {
		gauss(g, N, step, 1.0f);
		quick_push(&q, (int)pick(step, WORKERS), g, 0.02f, 0.0f);
		for (int k = 0; k < WORKERS; k++) {
			const struct tw_apply a = {
				.w = q.w, .n = N, .rate = 0.02f, .mine = q.mine[k]
			};

			q.rule->view(q.options, &a, seen);
			for (size_t i = 0; i < N; i++)
				NEAR(seen[i], (double)q.w[i] - 0.02 * 0.5 * q.mine[k][i], 1e-6);
		}
	}
}

/* The gradient of sum of h/2 (x - 1)^2, with noise unless that is UINT64_MAX. */
static void slope(float *g, const float *x, uint64_t noise)
{
	gauss(g, N, noise, noise == UINT64_MAX ? 0.0f : 0.3f);
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

/* Loss of sum of h/2 (x - 1)^2. */
static double loss_of(const float *x)
{
	double sum = 0.0;

	for (size_t i = 0; i < N; i++)
		sum += 0.5 * (0.1 + 0.9 * (double)i / N) * ((double)x[i] - 1) * ((double)x[i] - 1);
	return sum;
}

/* The rate falls to a tenth: the velocity of the steps before must fall with it. */
static void dana_of_one_worker_follows_nag_over_a_step(void **state)
{
	static struct quick nag, dana;
	static float g[N];
	double of_nag, of_dana;

	(void)state;
	quick_init(&nag, "nag");
	quick_init(&dana, "dana");
	float stamp = 0.002f; /* of the answer that the next gradient is computed on */

	for (int step = 0; step < 2000; step++) {
		const float rate = step < 1500 ? 0.002f : 0.0002f;

		slope(g, quick_view(&nag, stamp), UINT64_MAX);
		quick_push(&nag, 0, g, rate, 0.0f);
		slope(g, quick_view(&dana, stamp), UINT64_MAX);
		quick_push(&dana, 0, g, stamp, 0.0f);
		stamp = rate;
	}
	of_nag = loss_of(nag.w);
	of_dana = loss_of(dana.w);
	CHECK(fabs(of_dana - of_nag) <= 0.01 * of_nag);
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
			q.before[worker] = 0.0f;
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

/* DANA-Zero and DANA-Slim show workers the same vector under every schedule; when a worker leaves,
 * too. */
static void danas_two_halves_agree(void **state)
{
	static struct quick zero;
	static float slim[N], v[WORKERS][N], sent[2][WORKERS][N], g[N], u[N];
	float stamp[WORKERS], before[WORKERS] = { 0 };

	(void)state;
	quick_init(&zero, "dana");
	gauss(zero.w, N, 1, 1.0f);
	memcpy(slim, zero.w, sizeof slim);
	memset(v, 0, sizeof v);
	for (int i = 0; i < WORKERS; i++) {
		memcpy(sent[0][i], zero.w, sizeof zero.w);
		memcpy(sent[1][i], zero.w, sizeof zero.w);
		stamp[i] = 0.0f; /* a warm-up from 0 */
	}
	for (uint64_t step = 0; step < 4000; step++) {
		const int i = (int)pick(step, WORKERS);
		double largest = 0.0;

		slope(g, sent[0][i], step);
		quick_push(&zero, i, g, stamp[i], 0.0f);
		slope(g, sent[1][i], step);
		zero.rule->prepare(zero.options, &(const struct tw_prepare){ .v = v[i],
									     .g = g,
									     .u = u,
									     .n = N,
									     .rate = stamp[i],
									     .before = before[i] });
		before[i] = stamp[i];
		tw_vec_sub(slim, slim, u, N);
		if (step % 500 == 499) {
			float *const array[TW_RULE_ARRAYS] = { zero.array[0], zero.array[1] };

			zero.rule->leave(zero.options, array, zero.mine[i], N);
			zero.rule->farewell(zero.options, v[i], u, N);
			tw_vec_sub(slim, slim, u, N);
			memset(v[i], 0, sizeof v[i]);
			before[i] = zero.before[i] = 0.0f;
		}
		stamp[i] =
			step < 400 ? 0.00005f * (float)step : 0.02f / (1.0f + (float)(step / 700));
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

/* Updates without a gradient lead where it was predicted that they lead. */
static void momentum_is_predicted_exactly(void **state)
{
	static struct quick q;
	static float g[N], zero[N], said[N];

	(void)state;
	for (uint32_t horizon = 0; horizon <= 8; horizon++) {
		quick_init(&q, "predict-momentum");
		gauss(q.w, N, horizon, 0.5f);
		for (uint64_t step = 0; step < 5; step++) {
			gauss(g, N, step, 1.0f);
			quick_push(&q, 0, g, 0.1f, 0.0f);
		}
		memcpy(said, quick_predict(&q, 0.1f, horizon), sizeof said);
		for (uint32_t k = 0; k < horizon; k++)
			quick_push(&q, 0, zero, 0.1f, 0.0f);
		for (size_t i = 0; i < N; i++)
			NEAR(said[i], q.w[i], 1e-6);
		CHECK(horizon || same_bits(said, q.w, N));
	}
}

static void adam_is_predicted_by_its_formula(void **state)
{
	static struct quick q;
	static float g[N];

	(void)state;
	for (uint32_t horizon = 0; horizon <= 8; horizon++) {
		quick_init(&q, "predict-adam");
		gauss(q.w, N, horizon, 0.5f);
		for (uint64_t step = 0; step < 5; step++) {
			gauss(g, N, step, 1.0f);
			quick_push(&q, 0, g, 0.01f, 0.0f);
		}

		const float *said = quick_predict(&q, 0.01f, horizon);

		for (size_t i = 0; i < N; i++) {
			double w = q.w[i];

			for (uint32_t j = 1; j <= horizon; j++)
				w -= 0.01 / (1 - pow(0.9, 5.0 + j)) * pow(0.9, j) * q.array[0][i] /
				     (sqrt(q.array[1][i] / (1 - pow(0.999, 5.0 + j))) + 1e-8);
			NEAR(said[i], w, 1e-6);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_follow_their_formulas),
		cmocka_unit_test(adagrad_shrinks_as_one_over_root_k),
		cmocka_unit_test(multi_of_one_worker_is_momentum),
		cmocka_unit_test(multi_of_one_worker_looks_ahead_like_nag),
		cmocka_unit_test(multi_shows_each_worker_its_own_velocity),
		cmocka_unit_test(dana_of_one_worker_is_nag),
		cmocka_unit_test(dana_of_one_worker_follows_nag_over_a_step),
		cmocka_unit_test(dana_without_momentum_is_sgd),
		cmocka_unit_test(danas_sum_does_not_drift),
		cmocka_unit_test(danas_two_halves_agree),
		cmocka_unit_test(danas_direction_survives_rate_zero),
		cmocka_unit_test(momentum_is_predicted_exactly),
		cmocka_unit_test(adam_is_predicted_by_its_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
