/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_plan_stages.c - three networks on 2 to 8 machines: as fast in the simulator as
 * predicted, within 10 %. */
#include "job/stage_plans.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <cmocka.h>

static void plans_are_as_fast_as_predicted(void **state)
{
	static const struct {
		const char *model, *compute;
	} nets[] = {
		{ "resnet20", "40ms" },
		{ "vgg-small", "25ms" },
		{ "{name: mlp, hidden: [1024, 1024, 1024, 1024, 1024]}", "12ms" },
	};
	static const char *const strategies[] = {
		"{source: digits, count: 6400, tests: 16, batch: 16}\nstrategy: pipedream",
		"{source: digits, count: 6400, tests: 16, batch: 4, accumulate: 12}\nstrategy: "
		"pipedream-flush",
	};
	static const char *const nodes[] = { "2", "4", "8" };
	char text[600], what[100];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		for (size_t s = 0; s < 2; s++)
			for (size_t n = 0; n < 3; n++) {
				json_t *o;

				snprintf(
					text, sizeof text,
					"data: %s\nmodel: %s\ntrain: {epochs: 1, seed: 1}\n"
					"update: {rate: 0.01}\nsim: {compute: {mean: %s}, latency: "
					"100us, bandwidth: 1Gbit/s}\n",
					strategies[s], nets[i].model, nets[i].compute);
				snprintf(what, sizeof what, "%.20s, %zu, %s machines",
					 nets[i].model, s, nodes[n]);
				o = stage_plans(text,
						(struct tw_stages_request){ .nodes = nodes[n] });
				printf("%s: within %.1f %%\n", what,
				       100 * stage_plans_near(o, 0.1, what));
				fflush(stdout);
				json_decref(o);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_are_as_fast_as_predicted),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
