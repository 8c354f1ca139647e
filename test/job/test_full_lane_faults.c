/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_lane_faults.c - each cell of two workers whose stages have lanes, at every event, over
 * seeds; or for the seed that is given as the first word, at every n-th if a second one says so. */
#include "hybrid_faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static uint32_t from = 1, to = 1, stride = 1;

static void every_lane_at_every_event(void **state)
{
	(void)state;
	for (uint32_t seed = from; seed <= to; seed++) {
		const uint64_t runs = lane_faults(seed, stride);

		printf("seed %u: %llu runs\n", seed, (unsigned long long)runs);
		assert_true(runs > 40000 / stride);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_lane_at_every_event),
	};

	if (argc > 1)
		from = to = (uint32_t)strtoul(argv[1], NULL, 10);
	if (argc > 2)
		stride = (uint32_t)strtoul(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
