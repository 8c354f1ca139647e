/* SPDX-License-Identifier: Apache-2.0 */
/* test_target_scale.c - targets far from mean 0 and deviation 1 are found, and no others. */
#include "data/data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Two values about a mean: their deviation is known without a sum. */
static bool far(float mean, float deviation, struct tw_target_scale *out)
{
	const float target[] = { 0.5f, mean - deviation, -0.5f, mean + deviation };
	const struct tw_data d = { .heap = &tw_heap_system,
				   .features = 2,
				   .targets = 2,
				   .train = { .count = 2, .value = target, .target = target } };

	return tw_data_targets_are_far(&d, out);
}

static void those_that_are_far_are_found(void **state)
{
	static const float rows[][2] = {
		{ 208000, 79000 }, { 0, 50 },     { -300, 0 },
		{ 1000, 1 },       { 0, 0.001f }, { 0.5f, 1e-3f },
	};

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		struct tw_target_scale s = { .target = 9 };

		assert_true(far(rows[k][0], rows[k][1], &s));
		assert_int_equal(s.target, 1);
		assert_true(fabs(s.mean - rows[k][0]) <= 1e-6 * fabs(rows[k][0]) + 1e-12);
		assert_true(fabs(s.deviation - rows[k][1]) <= 1e-2 * rows[k][1] + 1e-12);
	}
}

static void others_are_not(void **state)
{
	static const float rows[][2] = { { 0, 1 }, { 1, 3 }, { -5, 2 }, { 0, 0.05f }, { 1, 0 } };
	const uint32_t label[] = { 0, 1 };
	const struct tw_data classes = { .classes = 2, .train = { .count = 2, .label = label } };
	const struct tw_data none = { .targets = 1 };
	struct tw_target_scale s;

	(void)state;
	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
		assert_false(far(rows[k][0], rows[k][1], &s));
	assert_false(tw_data_targets_are_far(&classes, &s));
	assert_false(tw_data_targets_are_far(&none, &s));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_are_far_are_found),
		cmocka_unit_test(others_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
