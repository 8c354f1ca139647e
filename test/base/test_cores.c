/* SPDX-License-Identifier: Apache-2.0 */
/* test_cores.c - shares of the cores: together they are all, and none is in two. */
#include "base/machine/cores.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void shares_are_all_cores(void **state)
{
	cpu_set_t all, mine, seen;
	uint32_t cores;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
	cores = tw_cores();
	assert_int_equal(cores, CPU_COUNT(&all));
	for (uint32_t n = 1; n <= cores; n++) {
		CPU_ZERO(&seen);
		for (uint32_t k = 0; k < n; k++) {
			tw_cores_keep_share(k, n);
			assert_int_equal(sched_getaffinity(0, sizeof mine, &mine), 0);
			assert_true(tw_cores() >= cores / n && tw_cores() <= cores / n + 1);
			for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
				if (CPU_ISSET(cpu, &mine)) {
					assert_true(CPU_ISSET(cpu, &all));
					assert_false(CPU_ISSET(cpu, &seen));
					CPU_SET(cpu, &seen);
				}
			assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
		}
		assert_true(CPU_EQUAL(&seen, &all));
	}
}

static void too_few_cores_change_nothing(void **state)
{
	const uint32_t cores = tw_cores();

	(void)state;
	tw_cores_keep_share(0, cores + 1);
	tw_cores_keep_share(1, 1);
	tw_cores_keep_share(0, 0);
	assert_int_equal(tw_cores(), cores);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_all_cores),
		cmocka_unit_test(too_few_cores_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
