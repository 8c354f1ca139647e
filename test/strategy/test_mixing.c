/* SPDX-License-Identifier: Apache-2.0 */
/* test_mixing.c - what every mixing promises (strategy/mixing.h), and how fast replicas approach
 * each other. */
#include "kit/reduce.h"
#include "strategy/mixing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PEERS 24

static const struct tw_mixing *pairs(void)
{
	for (size_t k = 0; tw_mixing_all[k]; k++)
		if (tw_mixing_all[k]->partner)
			return tw_mixing_all[k];
	fail_msg("no mixing has partners");
	return NULL;
}

static void every_mixing_says_what_it_is(void **state)
{
	(void)state;
	assert_non_null(tw_mixing_all[0]);
	for (size_t k = 0; tw_mixing_all[k]; k++) {
		const struct tw_mixing *m = tw_mixing_all[k];

		assert_true(*m->name && *m->help && m->bytes);
		assert_ptr_equal(tw_mixing_find(m->name), m);
		/* it does one of three things */
		assert_int_equal(!!(m->traits & TW_MIXING_SPREADS) + !!m->partner + !!m->round, 1);
		/* a cluster of two is never cheaper than the vector, or the message, itself */
		assert_true(m->bytes(2, 100, 10) >= 10);
		for (uint32_t n = 3; n < PEERS; n++)
			assert_true(m->bytes(n, 100, 10) >= m->bytes(n - 1, 100, 10));
	}
	assert_null(tw_mixing_find("nobody"));
}

/* (2) */
static void who_answers_never_asks(void **state)
{
	const struct tw_rng rng = tw_rng_make(5, TW_RNG_PARTNER);

	(void)state;
	for (size_t k = 0; tw_mixing_all[k]; k++)
		for (uint32_t n = 1; tw_mixing_all[k]->partner && n <= PEERS; n++) {
			bool asks[PEERS] = { false }, answers[PEERS] = { false };

			for (uint32_t r = 0; r < n; r++)
				for (uint64_t number = 1; number < 200; number++) {
					const uint32_t p =
						tw_mixing_all[k]->partner(&rng, n, r, number);

					assert_true(p <= n && p != r);
					assert_int_equal(
						p, tw_mixing_all[k]->partner(&rng, n, r, number));
					asks[r] = asks[r] || p < n;
					if (p < n)
						answers[p] = true;
				}
			for (uint32_t r = 0; r < n; r++) {
				assert_false(asks[r] && answers[r]);
				assert_true(n == 1 || asks[r] || answers[r]); /* nobody alone */
			}
		}
}

static double spread_of(const double *x, uint32_t n)
{
	double mean = 0, sum = 0;

	for (uint32_t k = 0; k < n; k++)
		mean += x[k] / n;
	for (uint32_t k = 0; k < n; k++)
		sum += (x[k] - mean) * (x[k] - mean);
	return sum;
}

/* A random pair out of n takes the mean: the variance shrinks by 1 - 1/(n - 1) each time.  Pairs of
 * one that asks and one that answers come within 3 % of that. */
static void pairs_contract_as_random_pairs_do(void **state)
{
	static const uint32_t peers[] = { 8, 12, 16, 24 };

	(void)state;
	for (size_t c = 0; c < sizeof peers / sizeof peers[0]; c++) {
		const uint32_t n = peers[c];
		const double expected = 1 - 1.0 / (n - 1);
		const struct tw_rng rng = tw_rng_make(c + 1, TW_RNG_PARTNER);
		const struct tw_rng draw = tw_rng_make(c + 1, TW_RNG_TEST);
		uint64_t number[PEERS] = { 0 }, draws = 0;
		double x[PEERS], logs = 0;

		for (uint32_t k = 0; k < n; k++)
			x[k] = tw_rng_gauss(&draw, 1, k);
		for (uint32_t e = 0; e < 10000; e++) {
			uint32_t r, p;
			double before;

			/* whoever is done with a step asks: everybody is as fast */
			do {
				r = (uint32_t)(tw_rng_u64(&draw, 2, ++draws) % n);
				p = pairs()->partner(&rng, n, r, ++number[r]);
			} while (p == n);
			before = spread_of(x, n);
			x[r] = x[p] = (x[r] + x[p]) / 2;
			logs += log(spread_of(x, n) / before) / 10000;
			if (spread_of(x, n) < 1e-12) { /* as far as doubles go */
				for (uint32_t k = 0; k < n; k++)
					x[k] = tw_rng_gauss(&draw, 3 + e, k);
			}
		}
		/* the mean of logs is below the log of the mean: compare the rate per exchange */
		if (fabs(exp(logs) / expected - 1) > 0.03)
			fail_msg("%u peers: %.4f per exchange, %.4f of random pairs", n, exp(logs),
				 expected);
	}
}

/* (3), by the serial interpreter: the mean of all replicas stays, and differences shrink by the
 * second eigenvalue of the matrix. */
static void rounds_contract_by_the_second_eigenvalue(void **state)
{
	(void)state;
	for (size_t k = 0; tw_mixing_all[k]; k++)
		for (uint32_t n = 2; tw_mixing_all[k]->round && n <= 17; n++) {
			const double pi = acos(-1);
			const double second =
				n == 2 ? 0 : (1 + 2 * cos(2 * pi / n)) / 3; /* thirds on a ring */
			float in[PEERS], out[PEERS], ones[PEERS], *outs[PEERS];
			float weight[1], divide[1];
			const float *ins[PEERS];
			double before = 0, after = 0, sum = 0, sum_after = 0;

			for (uint32_t r = 0; r < n; r++) { /* the slowest mode */
				in[r] = (float)cos(2 * pi * r / n);
				ones[r] = 1.0f;
				ins[r] = &in[r];
				outs[r] = &out[r];
			}
			kit_reduce(tw_mixing_all[k]->round, n, 1, ins, ones, ones, outs, weight,
				   divide);
			for (uint32_t r = 0; r < n; r++) {
				before += (double)in[r] * in[r];
				after += (double)(out[r] / divide[0]) * (out[r] / divide[0]);
				sum += in[r];
				sum_after += out[r] / divide[0];
			}
			assert_float_equal(sum, sum_after, 1e-5);
			if (fabs(after / before - second * second) > 1e-5)
				fail_msg("%s, %u peers: %.6f instead of %.6f",
					 tw_mixing_all[k]->name, n, after / before,
					 second * second);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mixing_says_what_it_is),
		cmocka_unit_test(who_answers_never_asks),
		cmocka_unit_test(pairs_contract_as_random_pairs_do),
		cmocka_unit_test(rounds_contract_by_the_second_eigenvalue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
