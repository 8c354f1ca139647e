/* SPDX-License-Identifier: Apache-2.0 */
/* test_arena.c - arenas give zeroed, aligned, separate memory and give all of it back. */
#include "base/arena.h"
#include "base/refusing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static bool all_are(const uint8_t *at, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] != value)
			return false;
	return true;
}

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_arena a;
	uint8_t *piece[200];
	size_t bytes[200];

	tw_arena_init(&a, &h.heap);
	for (size_t k = 0; k < 200; k++) {
		bytes[k] = k % 7 == 3 ? 1000 * k : k * 3 % 97;
		piece[k] = tw_arena_get(&a, bytes[k]);
		assert_non_null(piece[k]);
		assert_int_equal((uintptr_t)piece[k] % _Alignof(max_align_t), 0);
		assert_true(all_are(piece[k], bytes[k], 0));
		memset(piece[k], (int)(k + 1), bytes[k]);
	}
	for (size_t k = 0; k < 200; k++)
		assert_true(all_are(piece[k], bytes[k], (uint8_t)(k + 1)));
	assert_true(h.live > 1);
	tw_arena_release(&a);
	assert_int_equal(h.live, 0);
	tw_arena_release(&a); /* and again: nothing is left */
	assert_int_equal(h.live, 0);
}

static void small_pieces_share_a_page(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_arena a;

	tw_arena_init(&a, &h.heap);
	assert_non_null(tw_arena_get(&a, 16));
	assert_non_null(tw_arena_get(&a, 100000));
	for (int k = 0; k < 100; k++)
		assert_non_null(tw_arena_get(&a, 16));
	assert_int_equal(h.calls, 2);
	tw_arena_release(&a);
}

static void text_is_copied(void **state)
{
	struct tw_arena a;
	char word[] = "thalweg", *kept, *none;

	tw_arena_init(&a, &tw_heap_system);
	kept = tw_arena_text(&a, word);
	none = tw_arena_text(&a, "");
	word[0] = 'X';
	assert_string_equal(kept, "thalweg");
	assert_string_equal(none, "");
	tw_arena_release(&a);
}

static void impossible_sizes_are_refused(void **state)
{
	struct tw_arena a;

	tw_arena_init(&a, &tw_heap_system);
	assert_null(tw_arena_get(&a, SIZE_MAX));
	assert_null(tw_arena_get(&a, SIZE_MAX - 20));
	assert_non_null(tw_arena_get(&a, 1));
	tw_arena_release(&a);
}

static void every_request_may_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct refusing h = REFUSING(nth);
		struct tw_arena a;
		bool refused = false;

		tw_arena_init(&a, &h.heap);
		for (size_t k = 0; k < 50; k++) {
			if (!tw_arena_get(&a, k * 100)) {
				assert_int_equal(h.calls, nth);
				refused = true;
			}
		}
		tw_arena_release(&a);
		assert_int_equal(h.live, 0);
		assert_int_equal(refused, h.calls >= nth);
		if (h.calls < nth)
			return;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
		cmocka_unit_test(small_pieces_share_a_page),
		cmocka_unit_test(text_is_copied),
		cmocka_unit_test(impossible_sizes_are_refused),
		cmocka_unit_test(every_request_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
