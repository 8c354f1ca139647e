/* SPDX-License-Identifier: Apache-2.0 */
/* test_statistics.c - t quantiles against closed forms and tables, and paired intervals. */
#include "base/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void near(double a, double b, double by)
{
	if (!(fabs(a - b) <= by * fabs(b)))
		fail_msg("%.15g is not %.15g", a, b);
}

/* 1 degree: tan(share pi / 2); 2: share sqrt(2 / (1 - share^2)); 4: by its cubic. */
static void quantiles_have_their_closed_forms(void **state)
{
	(void)state;
	for (int k = 1; k < 100; k++) {
		const double share = k / 100.0, alpha = 1 - share * share;
		const double q = cos(acos(sqrt(alpha)) / 3) / sqrt(alpha);

		near(tw_student_quantile(share, 1), tan(share * M_PI / 2), 1e-12);
		near(tw_student_quantile(share, 2), share * sqrt(2 / alpha), 1e-12);
		near(tw_student_quantile(share, 4), 2 * sqrt(q - 1), 1e-9);
	}
}

/* What tables print for two sides and 95 %. */
static void quantiles_are_those_of_tables(void **state)
{
	static const struct {
		size_t freedom;
		double t;
	} table[] = { { 1, 12.706 }, { 2, 4.303 },  { 3, 3.182 },  { 4, 2.776 },
		      { 5, 2.571 },  { 9, 2.262 },  { 10, 2.228 }, { 19, 2.093 },
		      { 29, 2.045 }, { 60, 2.000 }, { 120, 1.980 } };

	(void)state;
	for (size_t k = 0; k < COUNT(table); k++)
		assert_true(fabs(tw_student_quantile(0.95, table[k].freedom) - table[k].t) <
			    0.00051);
	near(tw_student_quantile(0.95, 1000000), 1.959963985, 1e-5); /* the normal law */
}

static void quantile_and_share_are_inverse(void **state)
{
	(void)state;
	for (size_t freedom = 1; freedom < 60; freedom += 3)
		for (double share = 0.05; share < 1; share += 0.05)
			near(tw_student_within(tw_student_quantile(share, freedom), freedom), share,
			     1e-12);
}

static void summaries_leave_out_what_is_no_number(void **state)
{
	const double value[] = { 2, NAN, 4, 6, NAN };
	const struct tw_summary s = tw_summarise(value, COUNT(value));
	const struct tw_summary one = tw_summarise(value, 1), none = tw_summarise(value + 1, 1);

	(void)state;
	assert_int_equal(s.n, 3);
	near(s.mean, 4, 0);
	near(s.deviation, 2, 1e-15);
	assert_true(one.n == 1 && one.mean == 2 && isnan(one.deviation));
	assert_true(none.n == 0 && isnan(none.mean));
}

static struct tw_paired pair(const double *a, const double *b, size_t n)
{
	struct tw_pairing p = { 0 };

	for (size_t k = 0; k < n; k++)
		tw_pairing_add(&p, a[k], b[k]);
	return tw_pairing_end(&p);
}

/* Differences 1, 2, 3: mean 2, deviation 1, half 4.303 / sqrt(3). */
static void pairs_are_of_the_same_seed(void **state)
{
	const double a[] = { 101, 52, 13, NAN, 7 }, b[] = { 100, 50, 10, 5, NAN };
	const struct tw_paired p = pair(a, b, COUNT(a));

	(void)state;
	assert_int_equal(p.pairs, 3);
	near(p.difference, 2, 0);
	near(p.half, 4.302652729911275 / sqrt(3), 1e-9);
}

static void an_interval_needs_two_pairs(void **state)
{
	const double a[] = { 1, 1.001, 0.999 }, b[] = { 0, 0, 0 };
	const struct tw_paired one = pair(a, b, 1), same = pair(a, a, 3), none = pair(a, b, 0);

	(void)state;
	assert_true(one.pairs == 1 && one.difference == 1 && isnan(one.half));
	assert_true(same.difference == 0 && same.half == 0); /* equal to the last bit */
	assert_true(none.pairs == 0 && isnan(none.difference) && isnan(none.half));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_have_their_closed_forms),
		cmocka_unit_test(quantiles_are_those_of_tables),
		cmocka_unit_test(quantile_and_share_are_inverse),
		cmocka_unit_test(summaries_leave_out_what_is_no_number),
		cmocka_unit_test(pairs_are_of_the_same_seed),
		cmocka_unit_test(an_interval_needs_two_pairs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
