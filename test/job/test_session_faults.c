/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_faults.c - the simulator's fault loops, with a caller in place of the engine. */
#include "faultrun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void gradients_from_outside(void **state)
{
	faultrun_outside = true;
	assert_int_equal(faultrun_kills(faultrun_presets, 401), 0);
	assert_int_equal(faultrun_seeds(faultrun_presets, 1, 3), 0);
	assert_int_equal(faultrun_masters(faultrun_presets, 1, 3), 0);
	assert_int_equal(faultrun_leaves(faultrun_presets, 1, 2), 0);
	faultrun_outside = false;
}

static void deltas_from_outside(void **state)
{
	faultrun_outside = true;
	assert_int_equal(faultrun_kills(faultrun_deltas(), 401), 0);
	assert_int_equal(faultrun_seeds(faultrun_deltas(), 1, 3), 0);
	faultrun_outside = false;
}

/* Callers with samples of their own: nobody is dealt what another has, and all places of the run
 * are applied, dropped, or passed over because nobody here has them. */
static void own_samples(void **state)
{
	static const char *const presets[] = { "ssgd",
					       "{name: averaging, push: 2}",
					       "{name: local-sgd, push: 2}",
					       "{name: fedbuff, push: 2}",
					       "{name: fedasync, push: 2}",
					       "asgd",
					       "{name: ssp, lead: 2}",
					       NULL };

	faultrun_outside = faultrun_own = true;
	assert_int_equal(faultrun_kills(presets, 173), 0);
	assert_int_equal(faultrun_seeds(presets, 1, 6), 0);
	assert_int_equal(faultrun_masters(presets, 1, 4), 0);
	assert_int_equal(faultrun_leaves(presets, 1, 3), 0);
	faultrun_outside = faultrun_own = false;
}

/* The simulated run is the same, event for event, whoever computes. */
static void one_run_whoever_computes(void **state)
{
	for (size_t k = 0; faultrun_presets[k]; k++) {
		const struct faultrun r = { .preset = faultrun_presets[k],
					    .workers = 3,
					    .servers = 2,
					    .shards = 3,
					    .seed = 5,
					    .crashes = 2,
					    .fault_seed = 9,
					    .forever = true };
		struct faultend inside, outside;

		faultrun_outside = false;
		assert_null(faultrun(&r, &inside));
		faultrun_outside = true;
		assert_null(faultrun(&r, &outside));
		faultrun_outside = false;
		assert_int_equal(inside.events, outside.events);
		assert_int_equal(inside.virtual_ns, outside.virtual_ns);
		assert_string_equal(inside.totals.parameters_digest,
				    outside.totals.parameters_digest);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_from_outside),
		cmocka_unit_test(deltas_from_outside),
		cmocka_unit_test(own_samples),
		cmocka_unit_test(one_run_whoever_computes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
