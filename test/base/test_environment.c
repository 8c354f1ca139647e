/* SPDX-License-Identifier: Apache-2.0 */
/* test_environment.c - a variable is found by its whole name. */
#include "base/machine/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void finds_by_the_whole_name(void **state)
{
	const char *const has[] = { "RANKS=4", "RANK=3", "EMPTY=", "URL=a=b", NULL };
	const char *const none[] = { NULL };

	assert_string_equal(tw_environment_find(has, "RANK"), "3");
	assert_string_equal(tw_environment_find(has, "RANKS"), "4");
	assert_string_equal(tw_environment_find(has, "URL"), "a=b");
	assert_null(tw_environment_find(has, "RAN"));
	assert_null(tw_environment_find(has, "rank"));
	assert_null(tw_environment_find(has, "EMPTY")); /* set to nothing is not set */
	assert_null(tw_environment_find(none, "RANK"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(finds_by_the_whole_name) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
