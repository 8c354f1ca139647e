/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_faults_deltas.c - faults as loops, for every method that pushes deltas.
 *
 * A failure prints the command that replays it, of job_test_full_faults. */
#include "faultrun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t wanted(const char *name, uint64_t standard)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : standard;
}

static void every_node_at_many_events(void **state)
{
	(void)state;
	assert_int_equal(faultrun_kills(faultrun_deltas(), wanted("TW_FAULTS_STRIDE", 1)), 0);
}

static void seeds(void **state)
{
	(void)state;
	assert_int_equal(faultrun_seeds(faultrun_deltas(), 1, wanted("TW_FAULTS_SEEDS", 2000)), 0);
}

static void masters(void **state)
{
	(void)state;
	assert_int_equal(faultrun_masters(faultrun_deltas(), 1, wanted("TW_FAULTS_SEEDS", 2000)),
			 0);
}

static void leavers(void **state)
{
	(void)state;
	assert_int_equal(faultrun_leaves(faultrun_deltas(), 1, wanted("TW_FAULTS_SEEDS", 2000) / 2),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_node_at_many_events),
		cmocka_unit_test(seeds),
		cmocka_unit_test(masters),
		cmocka_unit_test(leavers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
