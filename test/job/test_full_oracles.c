/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_oracles.c - the closed forms of test_oracles.c over all laws, sizes and many seeds. */
#include "job/oracle_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void staleness_adds_up(void **state)
{
	static const uint32_t workers[] = { 2, 5, 30, 64, 200 };

	for (size_t k = 0; oracle_laws[k]; k++)
		for (size_t n = 0; n < 5; n++)
			for (uint64_t seed = 1; seed <= 10; seed++)
				oracle_check_identity(workers[n], oracle_laws[k], seed, 5000);
}

static void mean_staleness_is_workers_less_one(void **state)
{
	static const uint32_t workers[] = { 4, 8, 30, 64 };

	for (size_t k = 0; oracle_laws[k]; k++)
		for (size_t n = 0; n < 4; n++)
			oracle_check_staleness(workers[n], 0, oracle_laws[k], 50000);
}

static void softsync_divides_staleness(void **state)
{
	static const uint32_t of_30[] = { 1, 2, 5, 15, 30 }, of_64[] = { 1, 3, 16, 64 };

	for (size_t k = 0; oracle_laws[k]; k++) {
		for (uint32_t c = 1; c <= 4; c++)
			oracle_check_staleness(4, c, oracle_laws[k], 50000);
		for (uint32_t c = 1; c <= 8; c++)
			oracle_check_staleness(8, c, oracle_laws[k], 50000);
		for (size_t c = 0; c < 5; c++)
			oracle_check_staleness(30, of_30[c], oracle_laws[k], 50000);
		for (size_t c = 0; c < 4; c++)
			oracle_check_staleness(64, of_64[c], oracle_laws[k], 50000);
	}
}

static void nobody_starts_too_far_ahead(void **state)
{
	static const uint32_t workers[] = { 2, 3, 8, 20 }, shards[] = { 1, 2, 7, 16 };

	for (size_t k = 0; oracle_laws[k]; k++)
		for (size_t n = 0; n < 4; n++)
			for (uint32_t lead = 0; lead <= 6; lead += lead < 3 ? 1 : 3)
				for (uint64_t seed = 1; seed <= 3; seed++)
					oracle_check_ssp(workers[n], lead, shards[(n + seed) % 4],
							 oracle_laws[k], seed, 2000);
}

static void backup_time_is_an_order_statistic(void **state)
{
	static const uint32_t cases[][2] = { { 2, 0 }, { 2, 1 },  { 2, 4 },  { 3, 1 },  { 4, 4 },
					     { 8, 2 }, { 16, 4 }, { 30, 3 }, { 50, 0 }, { 96, 4 } };

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		oracle_check_backup(cases[k][0], cases[k][1], 20000, 0.02);
}

static void delayed_descent_has_its_bound(void **state)
{
	for (uint32_t tau = 0; tau <= 16; tau++)
		for (int workers = 0; workers < 2; workers++) {
			oracle_check_delayed(tau, 0.98, workers);
			oracle_check_delayed(tau, 1.02, workers);
		}
}

static void gaps_grow_as_in_danas_table(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		oracle_check_gaps(4, seed, (double[]){ 3.8, 2.9, 2.3, 1.55, 2.58 });
		oracle_check_gaps(8, seed, (double[]){ 5.6, 5.0, 2.4, 1.28, 2.43 });
		oracle_check_gaps(16, seed, (double[]){ 7.5, 7.1, 2.5, 1.16, 2.41 });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(staleness_adds_up),
		cmocka_unit_test(mean_staleness_is_workers_less_one),
		cmocka_unit_test(softsync_divides_staleness),
		cmocka_unit_test(nobody_starts_too_far_ahead),
		cmocka_unit_test(backup_time_is_an_order_statistic),
		cmocka_unit_test(delayed_descent_has_its_bound),
		cmocka_unit_test(gaps_grow_as_in_danas_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
