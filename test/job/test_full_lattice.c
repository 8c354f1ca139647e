/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_lattice.c - every method against its formula under every law and link, many seeds. */
#include "job/methods.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SEEDS        10

static void every_method_is_its_formula_everywhere(void **state)
{
	static const uint32_t workers[] = { 1, 2, 3, 8 }, shards[] = { 1, 2, 7, 16 };

	(void)state;
	for (size_t k = 0; k < method_count; k++) {
		struct seen seen = { .runs = 0 };

		for (uint64_t seed = 1000; seed < 1000 + SEEDS; seed++)
			for (size_t law = 0; law < LAWS; law++)
				for (size_t link = 0; link < LINKS; link++)
					for (size_t w = 0; w < COUNT(workers); w++)
						if (workers[w] >= methods[k].least)
							method_try(&methods[k], workers[w],
								   shards[(seed + law + link) % 4],
								   seed, law, link, &seen);
		method_met(&methods[k], &seen);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_is_its_formula_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
