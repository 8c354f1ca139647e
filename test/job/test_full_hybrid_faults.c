/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_hybrid_faults.c - each cell of two workers, at every event, over seeds. */
#include "hybrid_faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static void every_cell_at_every_event(void **state)
{
	uint64_t runs = 0;

	(void)state;
	for (uint32_t seed = 1; seed <= 3; seed++)
		runs += hybrid_faults(seed, 1);
	assert_true(runs > 100000);
	printf("%llu runs\n", (unsigned long long)runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cell_at_every_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
