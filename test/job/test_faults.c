/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c - some of the runs that test_full_faults.c makes by the ten thousand. */
#include "faultrun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void nodes_at_some_events(void **state)
{
	(void)state;
	assert_int_equal(faultrun_kills(61), 0);
}

static void some_seeds(void **state)
{
	(void)state;
	assert_int_equal(faultrun_seeds(1, 30), 0);
}

static void masters(void **state)
{
	(void)state;
	assert_int_equal(faultrun_masters(1, 40), 0);
}

static void those_who_leave(void **state)
{
	(void)state;
	assert_int_equal(faultrun_leaves(1, 20), 0);
}

/* The watcher is worth something only if it sees what it should: a run that loses a server for
 * good must have gone back to a cut, and say so. */
static void a_lost_server_is_seen(void **state)
{
	const struct faultrun r = { .preset = "asgd",
				    .workers = 3,
				    .servers = 2,
				    .shards = 3,
				    .seed = 3,
				    .fault = { { .kind = TW_FAULT_CRASH,
						 .a = 1,
						 .at = TW_SECOND * 7 / 4,
						 .lasts = -1 } },
				    .faults = 1,
				    .forever = true };
	struct faultend end;

	(void)state;
	assert_null(faultrun(&r, &end));
	assert_int_equal(end.status, TW_OK);
	assert_true(end.totals.lost_updates > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_at_some_events),
		cmocka_unit_test(some_seeds),
		cmocka_unit_test(masters),
		cmocka_unit_test(those_who_leave),
		cmocka_unit_test(a_lost_server_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
