/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_wild.c - clusters drawn from seeds, by the ten thousand.
 *
 *	job_test_full_wild                all of them (TW_WILD_SEEDS of them, TW_WILD_FIRST first)
 *	job_test_full_wild --seed N       one of them: its job, its log and what came of it
 *	job_test_full_wild --job FILE     the same for a job file */
#include "wild.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t wanted(const char *name, uint64_t standard)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : standard;
}

static void every_seed(void **state)
{
	(void)state;
	assert_int_equal(wild_seeds(wanted("TW_WILD_FIRST", 1), wanted("TW_WILD_SEEDS", 100000)),
			 0);
}

static int show(const char *text)
{
	struct wild_end end;
	const char *wrong;

	printf("%s\n", text);
	fflush(stdout);
	wrong = wild_run(text, true, &end);
	printf("%s after %" PRIu64 " events, %.3f s: %s\n", tw_status_name(end.status), end.events,
	       (double)end.virtual_ns / 1e9, wrong ? wrong : "everything held");
	return wrong != NULL;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_seed) };
	char text[WILD_TEXT] = { 0 };

	if (argc == 3 && strcmp(argv[1], "--seed") == 0) {
		wild_describe(strtoull(argv[2], NULL, 10), text);
		return show(text);
	}
	if (argc == 3 && strcmp(argv[1], "--job") == 0) {
		FILE *f = fopen(argv[2], "r");

		if (!f || fread(text, 1, sizeof text - 1, f) == 0)
			return 2;
		fclose(f);
		return show(text);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
