/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_wan.c - over slow links examples/wan-mnist.yaml reaches its accuracy in a tenth of the
 * virtual time of ssgd, and so does strom, without a server: with MNIST, where it is fetched. */
#include "cli/spawn.h"
#include "cli/wan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* the best of examples/without_server.py */
#define STROM                                                                                      \
	"--set strategy=strom --set strategy.codec.up_tau=0.1 --set update.rate=0.014 "            \
	"--set train.warm.for=0.02epochs --set train.epochs=10"

static void a_tenth_of_the_time_on_mnist(void **state)
{
	wan_a_tenth(wan_seconds("", WAN_SSGD), wan_seconds("", ""));
}

/* The mean of the seeds of docs/STRATEGIES.md: a single one may need more than a tenth. */
static void strom_needs_a_tenth_on_mnist(void **state)
{
	const char *const seeds[] = { "--set train.seed=1", "--set train.seed=2",
				      "--set train.seed=3" };
	double slow = 0, quick = 0;

	for (size_t k = 0; k < 3; k++) {
		slow += wan_seconds(seeds[k], WAN_SSGD) / 3;
		quick += wan_seconds(seeds[k], STROM) / 3;
	}
	wan_a_tenth(slow, quick);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenth_of_the_time_on_mnist),
		cmocka_unit_test(strom_needs_a_tenth_on_mnist),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
