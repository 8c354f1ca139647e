/* SPDX-License-Identifier: Apache-2.0 */
/* test_wan.c - over slow links examples/wan-mnist.yaml reaches its accuracy in a tenth of the
 * virtual time of ssgd: with drawn digits.  test_full_wan.c has MNIST. */
#include "cli/spawn.h"
#include "cli/wan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define DIGITS "--set data.source=digits --set data.count=20000 --set data.tests=2000"

static void a_tenth_of_the_time_on_digits(void **state)
{
	wan_a_tenth(wan_seconds(DIGITS, WAN_SSGD), wan_seconds(DIGITS, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenth_of_the_time_on_digits),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
