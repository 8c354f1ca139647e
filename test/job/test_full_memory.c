/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_memory.c - every request for memory refused in turn, all of them, in more shapes. */
#include "job/scarce.h"
#include "job/trial.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void every_preset_in_the_simulator(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++)
		for (uint32_t shards = 1; shards <= 2; shards++)
			for (uint32_t workers = 2; workers <= 3; workers++)
				scarce_sim(&(struct scarce){ .preset = preset,
							     .workers = workers,
							     .servers = shards,
							     .shards = shards,
							     .first = UINT_MAX });
}

static void further_shapes(void **state)
{
	static const struct scarce shapes[] = {
		{ .preset = "asgd", .strategy = ", codec: {up: fp16, down: bf16}" },
		{ .preset = "dc-asgd", .strategy = ", codec: {up: bf16, down: fp16}" },
		{ .preset = "downpour", .strategy = ", push: 2, fetch: 2" },
		{ .preset = "fasgd", .strategy = ", skip: {push: 0.5, fetch: 0.5}" },
		{ .preset = "asgd", .checkpoint = ", cut: running" },
		{ .preset = "ssgd", .checkpoint = ", cut: running" },
		{ .preset = "dana-slim", .checkpoint = ", cut: running" },
		{ .preset = "multi-asgd", .strategy = ", codec: {down: fp16}" },
		{ .preset = "dana", .from_workers = 2, .from_shards = 3 },
		{ .preset = "dana-slim", .from_workers = 3, .from_shards = 3 },
		{ .preset = "ssgd", .from_workers = 2, .from_shards = 3 },
		{ .preset = "gap-aware", .from_workers = 3, .from_shards = 1 },
	};

	for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
		struct scarce s = shapes[k];

		s.workers = 3;
		s.servers = 1;
		s.shards = 2;
		s.first = UINT_MAX;
		scarce_sim(&s);
	}
}

static void every_preset_in_threads(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_THREADS, k)); k++)
		scarce_threads(&(struct scarce){ .preset = preset,
						 .workers = 2,
						 .servers = 1,
						 .shards = 2,
						 .first = UINT_MAX });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_in_the_simulator),
		cmocka_unit_test(further_shapes),
		cmocka_unit_test(every_preset_in_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
