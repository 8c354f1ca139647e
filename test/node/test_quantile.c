/* SPDX-License-Identifier: Apache-2.0 */
/* test_quantile.c - a quantile that is kept up against one that is sorted out anew. */
#include "node/quantile.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <cmocka.h>

#define MOST 300

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double sorted_out(const double *key, const bool *in, uint32_t size, uint32_t per_mille)
{
	double all[MOST];
	uint32_t n = 0;

	for (uint32_t k = 0; k < size; k++)
		if (in[k])
			all[n++] = key[k];
	qsort(all, n, sizeof *all, by_value);
	return n ? all[(n * per_mille + 999) / 1000 - 1] : 0.0;
}

static void is_what_sorting_finds(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 10, 11, 64, MOST };
	static const uint32_t shares[] = { 1, 250, 500, 900, 1000 };

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t p = 0; p < sizeof shares / sizeof *shares; p++) {
			const struct tw_rng dice = tw_rng_make(7 + s, TW_RNG_SKIP);
			struct tw_quantile q;
			double key[MOST] = { 0 };
			bool in[MOST] = { false };

			assert_int_equal(tw_quantile_init(&q, &tw_heap_system, sizes[s], shares[p]),
					 TW_OK);
			for (uint64_t turn = 0; turn < 3000; turn++) {
				const uint64_t x = tw_rng_u64(&dice, p, turn);
				const uint32_t k = (uint32_t)(x % sizes[s]);

				in[k] = x >> 32 & 3;             /* one of four goes */
				key[k] = (double)(x >> 40 & 63); /* many are equal */
				if (in[k])
					tw_quantile_put(&q, k, key[k]);
				else
					tw_quantile_drop(&q, k);
				assert_true(tw_quantile_value(&q) ==
					    sorted_out(key, in, sizes[s], shares[p]));
			}
			tw_quantile_release(&q);
		}
}

static void what_was_never_made_may_be_released(void **state)
{
	struct tw_quantile q = { 0 };

	(void)state;
	tw_quantile_release(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_what_sorting_finds),
		cmocka_unit_test(what_was_never_made_may_be_released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
