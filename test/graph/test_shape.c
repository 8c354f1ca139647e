/* SPDX-License-Identifier: Apache-2.0 */
/* test_shape.c - shapes as text, and layouts into each other and back. */
#include "graph/layout_move.h"
#include "graph/shape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void shapes_have_names(void **state)
{
	const struct tw_shape a = { .rank = 3, .d = { 20, 24, 4294967295u } };
	const struct tw_shape b = { .rank = 1, .d = { 500 } }, c = { .rank = 1, .d = { 500, 3 } };
	const struct tw_shape d = { .rank = 3, .d = { 20, 24, 3 } };
	char text[40];

	assert_string_equal(tw_shape_text(&a, text), "20x24x4294967295");
	assert_string_equal(tw_shape_text(&b, text), "500");
	assert_true(tw_shape_same(&b, &c));
	assert_false(tw_shape_same(&a, &b));
	assert_false(tw_shape_same(&a, &d));
	assert_int_equal(tw_shape_size(&c), 500);
	assert_int_equal(tw_shape_size(&d), 1440);
	assert_string_equal(tw_layout_name(TW_LAYOUT_PLAIN), "plain");
	assert_string_equal(tw_layout_name(TW_LAYOUT_LAST), "last");
	assert_string_equal(tw_layout_name(TW_LAYOUT_BLOCK16), "block16");
}

/* Every way round comes back, and one place of each is known. */
static void layouts_move(void **state)
{
	const struct tw_shape s = { .rank = 3, .d = { 32, 3, 5 } };
	float x[2 * 480], y[2 * 480], z[2 * 480];

	for (size_t i = 0; i < 2 * 480; i++)
		x[i] = (float)i;
	for (int from = 0; from < 3; from++)
		for (int to = 0; to < 3; to++) {
			layout_move(&s, 2, from, x, to, y);
			layout_move(&s, 2, to, y, from, z);
			assert_memory_equal(x, z, sizeof x);
		}
	/* sample 1, channel 17, row 2, column 3 */
	layout_move(&s, 2, TW_LAYOUT_PLAIN, x, TW_LAYOUT_LAST, y);
	assert_true(y[480 + (2 * 5 + 3) * 32 + 17] == x[480 + 17 * 15 + 2 * 5 + 3]);
	layout_move(&s, 2, TW_LAYOUT_PLAIN, x, TW_LAYOUT_BLOCK16, y);
	assert_true(y[480 + (15 + 2 * 5 + 3) * 16 + 1] == x[480 + 17 * 15 + 2 * 5 + 3]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes_have_names),
		cmocka_unit_test(layouts_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
