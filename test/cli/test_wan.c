/* SPDX-License-Identifier: Apache-2.0 */
/* test_wan.c - over slow links examples/wan-mnist.yaml reaches its accuracy in a tenth of the
 * virtual time of ssgd, and so does strom, without a server. */
#include "base/skipping.h"
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DIGITS "--set data.source=digits --set data.count=20000 --set data.tests=2000"
#define SSGD   "--set strategy=ssgd --set update.rate=0.4" /* the best of examples/fewer_bytes.py */
/* the best of examples/without_server.py */
#define STROM                                                                                      \
	"--set strategy=strom --set strategy.codec.up_tau=0.1 --set update.rate=0.014 "            \
	"--set train.warm.for=0.02epochs --set train.epochs=10"

/* Virtual seconds until the example's accuracy; 0: there is no data. */
static double seconds(const char *data, const char *strategy)
{
	const struct said *s =
		thalweg(NULL, "sim examples/wan-mnist.yaml --json %s %s", data, strategy);
	json_t *r, *goal;
	double t;

	if (s->code == 2 && strstr(s->err, "thalweg data fetch mnist"))
		return 0;
	expect(s, 0);
	r = object_of(s);
	goal = json_object_get(r, "goal");
	assert_true(json_is_true(json_object_get(goal, "reached")));
	t = number_of(goal, "seconds");
	json_decref(r);
	return t;
}

static void a_tenth(double slow, double quick)
{
	if (slow == 0)
		SKIP("MNIST is not fetched");
	if (!(quick <= slow / 10))
		print_error("%.1f virtual seconds, ssgd %.1f\n", quick, slow);
	assert_true(quick > 0 && quick <= slow / 10);
}

static void compare(const char *data)
{
	a_tenth(seconds(data, SSGD), seconds(data, ""));
}

static void a_tenth_of_the_time_on_digits(void **state)
{
	compare(DIGITS);
}

static void a_tenth_of_the_time_on_mnist(void **state)
{
	compare("");
}

/* The mean of the seeds of docs/STRATEGIES.md: a single one may need more than a tenth. */
static void strom_needs_a_tenth_on_mnist(void **state)
{
	const char *const seeds[] = { "--set train.seed=1", "--set train.seed=2",
				      "--set train.seed=3" };
	double slow = 0, quick = 0;

	for (size_t k = 0; k < 3; k++) {
		slow += seconds(seeds[k], SSGD) / 3;
		quick += seconds(seeds[k], STROM) / 3;
	}
	a_tenth(slow, quick);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tenth_of_the_time_on_digits),
		cmocka_unit_test(a_tenth_of_the_time_on_mnist),
		cmocka_unit_test(strom_needs_a_tenth_on_mnist),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
