/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_threads.c - every request for memory refused in turn, among real threads. */
#include "job/scarce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void presets_in_threads(void **state)
{
	static const char *const presets[] = { "ssgd", "dana-slim", "hogwild" };

	for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++)
		assert_true(scarce_threads(&(struct scarce){ .preset = presets[k],
							     .workers = 2,
							     .servers = 1,
							     .shards = 2,
							     .first = 100,
							     .stride = 13 }) > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_in_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
