/* SPDX-License-Identifier: Apache-2.0 */
/* wan.c - the virtual time that examples/wan-mnist.yaml needs, against that of ssgd. */
#include "cli/wan.h"

#include "base/skipping.h"
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

double wan_seconds(const char *data, const char *strategy)
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

void wan_a_tenth(double slow, double quick)
{
	if (slow == 0)
		SKIP("MNIST is not fetched");
	if (!(quick <= slow / 10))
		print_error("%.1f virtual seconds, ssgd %.1f\n", quick, slow);
	assert_true(quick > 0 && quick <= slow / 10);
}
