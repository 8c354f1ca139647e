/* SPDX-License-Identifier: Apache-2.0 */
/* test_verdict.c - verdicts on drawn data whose difference is known, and on runs without values. */
#include "compare/verdict.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DRAWS 2000
#define SEEDS 10

struct shares {
	double better, worse, open;
};

/* Draw pairs: b is a shared part (the seed), a is b plus `difference`; both have noise of their
 * own with deviation 1. */
static struct shares draw(size_t seeds, double difference, bool more, uint64_t at)
{
	const struct tw_rng rng = tw_rng_make(7, TW_RNG_PROBLEM);
	struct tw_mark a[SEEDS], b[SEEDS];
	size_t seen[4] = { 0 };

	for (uint64_t k = 0; k < DRAWS; k++) {
		for (size_t s = 0; s < seeds; s++) {
			const uint64_t i = (at * DRAWS + k) * SEEDS + s;
			const double shared = 10 * tw_rng_gauss(&rng, i, 0);

			a[s] = (struct tw_mark){ .value = shared + difference +
							  tw_rng_gauss(&rng, i, 2) };
			b[s] = (struct tw_mark){ .value = shared + tw_rng_gauss(&rng, i, 4) };
		}
		seen[tw_judge(a, b, seeds, more).verdict]++;
	}
	assert_int_equal(seen[TW_COMPARE_UNKNOWN], 0);
	return (struct shares){ (double)seen[TW_COMPARE_BETTER] / DRAWS,
				(double)seen[TW_COMPARE_WORSE] / DRAWS,
				(double)seen[TW_COMPARE_NOT_RESOLVED] / DRAWS };
}

/* Four deviations of a share p of the draws. */
static double slack(double p)
{
	return 4 * sqrt(p * (1 - p) / DRAWS);
}

/* Where there is no difference, one is claimed in 5 % of the draws, as often for either side. */
static void no_difference_is_claimed_in_one_of_20(void **state)
{
	static const size_t seeds[] = { 2, 3, 5, 10 };

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		const struct shares s = draw(seeds[k], 0, k % 2, k);

		printf("%zu seeds: %.1f %% better, %.1f %% worse\n", seeds[k], 100 * s.better,
		       100 * s.worse);
		assert_true(fabs(s.better + s.worse - 0.05) <= slack(0.05));
		assert_true(fabs(s.better - 0.025) <= slack(0.025));
	}
}

/* A difference is never taken for its opposite in more than 2.5 %, and one of four half-widths is
 * seen in at least 95 %. */
static void a_large_difference_is_seen(void **state)
{
	static const size_t seeds[] = { 3, 5, 10 };

	(void)state;
	for (size_t k = 0; k < 6; k++) {
		const size_t n = seeds[k / 2];
		/* of a mean difference, whose noise has the deviation sqrt(2) */
		const double half = tw_student_quantile(0.95, n - 1) * sqrt(2.0 / (double)n);
		const bool more = k % 2;
		const struct shares up = draw(n, 4 * half, more, 10 + k);
		const struct shares little = draw(n, half / 4, more, 20 + k);
		const double right = more ? up.better : up.worse;

		printf("%zu seeds: %.1f %% of four half-widths are seen\n", n, 100 * right);
		assert_true(right >= 0.95);
		assert_true((more ? up.worse : up.better) == 0);
		assert_true((more ? little.worse : little.better) <= 0.025 + slack(0.025));
	}
}

/* --- runs without values --- */

/* "97.5", "x": lost, "-": nothing. */
static size_t marks(const char *text, struct tw_mark *out)
{
	size_t n = 0;
	char word[20];
	int used;

	for (; sscanf(text, " %19s%n", word, &used) == 1; text += used, n++) {
		double value = NAN;

		if (*word != 'x' && strcmp(word, "-") != 0)
			sscanf(word, "%lf", &value);
		out[n] = (struct tw_mark){
			.kind = *word == 'x'   ? TW_MARK_LOST
				: isnan(value) ? TW_MARK_NOTHING
					       : TW_MARK_VALUE,
			.value = value,
		};
	}
	return n;
}

static void runs_without_values_count(void **state)
{
	static const struct {
		const char *a, *b;
		enum tw_compare_verdict verdict;
		bool reason;
		size_t pairs, lost, won;
	} cases[] = {
		{ "88 88.1 88.2", "69 50 88", TW_COMPARE_NOT_RESOLVED, false, 3, 0, 0 },
		{ "88 88.1 88.2", "70 70.2 70", TW_COMPARE_BETTER, false, 3, 0, 0 },
		/* all lost: worse, whatever the number of seeds */
		{ "x x x", "11 12 13", TW_COMPARE_WORSE, false, 0, 3, 0 },
		{ "11 12 13", "x x x", TW_COMPARE_BETTER, false, 0, 0, 3 },
		{ "x", "11", TW_COMPARE_WORSE, false, 0, 1, 0 },
		{ "x - x", "11 12 -", TW_COMPARE_WORSE, false, 0, 1, 0 },
		/* what is lost does not turn into a win */
		{ "88 88.1 x", "70 70.2 70", TW_COMPARE_NOT_RESOLVED, true, 2, 1, 0 },
		{ "70 70.2 x", "88 88.1 88", TW_COMPARE_WORSE, false, 2, 1, 0 },
		{ "70 70.2 70", "88 88.1 x", TW_COMPARE_NOT_RESOLVED, true, 2, 0, 1 },
		{ "88 x x", "70 71 72", TW_COMPARE_NOT_RESOLVED, true, 1, 2, 0 },
		/* what failed says nothing */
		{ "88 88.1 -", "70 70.2 70", TW_COMPARE_BETTER, false, 2, 0, 0 },
		{ "- - -", "70 70.2 70", TW_COMPARE_UNKNOWN, true, 0, 0, 0 },
		{ "88 - -", "70 70.2 70", TW_COMPARE_UNKNOWN, true, 1, 0, 0 },
		/* nothing to compare */
		{ "x x", "x x", TW_COMPARE_UNKNOWN, true, 0, 0, 0 },
		{ "88", "70", TW_COMPARE_UNKNOWN, true, 1, 0, 0 },
		{ "1 2 3", "1 2 3", TW_COMPARE_NOT_RESOLVED, true, 3, 0, 0 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_mark a[SEEDS], b[SEEDS];
		const size_t n = marks(cases[k].a, a);
		struct tw_contrast j, mirror;

		assert_int_equal(marks(cases[k].b, b), n);
		j = tw_judge(a, b, n, true);
		if (j.verdict != cases[k].verdict || !j.reason != !cases[k].reason ||
		    j.paired.pairs != cases[k].pairs || j.lost != cases[k].lost ||
		    j.won != cases[k].won)
			fail_msg("%s against %s: %s, %zu pairs, %s", cases[k].a, cases[k].b,
				 tw_compare_verdicts[j.verdict], j.paired.pairs,
				 j.reason ? j.reason : "no reason");
		/* the other way round it is the opposite */
		mirror = tw_judge(b, a, n, true);
		assert_true(mirror.verdict == (j.verdict == TW_COMPARE_BETTER  ? TW_COMPARE_WORSE
					       : j.verdict == TW_COMPARE_WORSE ? TW_COMPARE_BETTER
									       : j.verdict));
		assert_true(mirror.lost == j.won && mirror.won == j.lost);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_difference_is_claimed_in_one_of_20),
		cmocka_unit_test(a_large_difference_is_seen),
		cmocka_unit_test(runs_without_values_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
