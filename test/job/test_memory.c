/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - requests for memory refused in turn, the first one by one and then in strides:
 * the run ends with a clean error.  test_full_memory.c refuses all of them. */
#include "job/scarce.h"
#include "job/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void every_preset_in_the_simulator(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++)
		assert_true(scarce_sim(&(struct scarce){ .preset = preset,
							 .workers = 3,
							 .servers = 2,
							 .shards = 2,
							 .first = 150,
							 .stride = 29 }) > 500);
}

static void a_resumed_run_of_another_shape(void **state)
{
	assert_true(scarce_sim(&(struct scarce){ .preset = "dana",
						 .workers = 2,
						 .servers = 1,
						 .shards = 3,
						 .from_workers = 3,
						 .from_shards = 2,
						 .first = 150,
						 .stride = 29 }) > 500);
}

static void an_optimiser(void **state)
{
	assert_true(scarce_sim(&(struct scarce){ .preset = "sandblaster",
						 .optimises = true,
						 .workers = 3,
						 .servers = 2,
						 .shards = 2,
						 .first = 200,
						 .stride = 17 }) > 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_in_the_simulator),
		cmocka_unit_test(a_resumed_run_of_another_shape),
		cmocka_unit_test(an_optimiser),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
