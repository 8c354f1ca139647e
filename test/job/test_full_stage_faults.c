/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_stage_faults.c - each cell that holds its stage's shards, and the master, at every
 * event, over seeds; or for the seed that is given as the first word. */
#include "job/stage_faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static uint32_t from = 1, to = 4;

static void every_node_at_every_event(void **state)
{
	(void)state;
	for (uint32_t seed = from; seed <= to; seed++) {
		const uint64_t crashes = stage_faults_crashes(seed, 1);
		const uint64_t links = stage_faults_links(seed);

		printf("seed %u: %llu crashes, %llu broken links\n", seed,
		       (unsigned long long)crashes, (unsigned long long)links);
		assert_true(crashes > 5000 && links > 100);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_node_at_every_event),
	};

	if (argc > 1)
		from = to = (uint32_t)strtoul(argv[1], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
