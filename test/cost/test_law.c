/* SPDX-License-Identifier: Apache-2.0 */
/* test_law.c - the distributions of computing times are those that the simulator draws from. */
#include "cost/law.h"

#include "world/sim/sim_compute.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#define DRAWS 20000

static const struct {
	struct tw_sim_options o;
	double sum_off; /* how far a sum of steps may be from the log-normal it is taken for */
} laws[] = {
	{ { .law = TW_LAW_UNIFORM, .spread = 0.5 }, 0.03 },
	{ { .law = TW_LAW_UNIFORM, .spread = 1 }, 0.05 },
	{ { .law = TW_LAW_LOG_NORMAL, .sigma = 0.2 }, 0.02 },
	{ { .law = TW_LAW_LOG_NORMAL, .sigma = 1 }, 0.04 },
	{ { .law = TW_LAW_EXPONENTIAL }, 0.03 },
	{ { .law = TW_LAW_GAMMA, .shape = 0.5 }, 0.05 },
	{ { .law = TW_LAW_GAMMA, .shape = 4 }, 0.03 },
	{ { .law = TW_LAW_PARETO, .shape = 3 }, 0.10 },
	{ { .law = TW_LAW_PARETO, .shape = 1.5 }, 0.30 },
};
#define LAWS (sizeof laws / sizeof laws[0])

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct tw_sim_options with_times(size_t k)
{
	struct tw_sim_options o = laws[k].o;

	o.mean = o.median = 20000000; /* 20 ms */
	return o;
}

/* The largest distance between the shares below t, over all t (Kolmogorov and Smirnov). */
static double distance(const struct tw_sim_options *o, uint32_t steps)
{
	static double time[DRAWS];
	const struct tw_rng rng = tw_rng_make(10, 1);
	struct tw_cost_law law;
	double most = 0;

	for (uint32_t i = 0; i < DRAWS; i++) {
		time[i] = 0;
		for (uint32_t k = 0; k < steps; k++)
			time[i] += 1e-9 * tw_law_draw(o, &rng, i, k);
	}
	qsort(time, DRAWS, sizeof *time, ascending);
	tw_cost_law_init(&law, o, 1, steps);
	for (uint32_t i = 0; i < DRAWS; i++)
		most = fmax(most, fabs(tw_cost_law_below(&law, time[i]) - (i + 0.5) / DRAWS));
	return most;
}

static void one_step_has_the_law_of_the_simulator(void **state)
{
	for (size_t k = 0; k < LAWS; k++) {
		const struct tw_sim_options o = with_times(k);

		/* 1.95 / sqrt(draws): one sample in a thousand is further away */
		if (!(distance(&o, 1) < 1.95 / sqrt(DRAWS)))
			fail_msg("law %zu: off by %g", k, distance(&o, 1));
	}
}

static void a_sum_of_steps_is_nearly_log_normal(void **state)
{
	for (size_t k = 0; k < LAWS; k++) {
		const struct tw_sim_options o = with_times(k);

		if (!(distance(&o, 10) < laws[k].sum_off))
			fail_msg("law %zu: off by %g", k, distance(&o, 10));
	}
}

static void quantiles_are_where_they_belong(void **state)
{
	static const double shares[] = { 0.5, 0.01, 1e-6 };

	for (size_t k = 0; k < LAWS; k++)
		for (size_t i = 0; i < 3; i++) {
			const struct tw_sim_options o = with_times(k);
			struct tw_cost_law law;
			double above;

			tw_cost_law_init(&law, &o, 1, 1);
			above = 1 - tw_cost_law_below(&law, tw_cost_law_above(&law, shares[i]));
			assert_true(fabs(above - shares[i]) < 1e-3 * shares[i] + 1e-12);
		}
}

static void a_time_per_sample_counts_samples(void **state)
{
	const struct tw_sim_options o = { .law = TW_LAW_CONSTANT,
					  .mean = 1000000,
					  .per_sample = true };
	struct tw_cost_law law;

	tw_cost_law_init(&law, &o, 32, 5);
	assert_true(law.constant && fabs(law.mean - 0.16) < 1e-12);
	assert_true(tw_cost_law_below(&law, 0.15) == 0 && tw_cost_law_below(&law, 0.17) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_step_has_the_law_of_the_simulator),
		cmocka_unit_test(a_sum_of_steps_is_nearly_log_normal),
		cmocka_unit_test(quantiles_are_where_they_belong),
		cmocka_unit_test(a_time_per_sample_counts_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
