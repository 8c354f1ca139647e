/* SPDX-License-Identifier: Apache-2.0 */
/* test_grow.c - arrays that grow keep what is in them, and are as before where they cannot grow. */
#include "base/grow.h"
#include "base/refusing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct odd {
	uint8_t byte[13];
};

static struct odd number(size_t k)
{
	struct odd o;

	for (size_t i = 0; i < sizeof o.byte; i++)
		o.byte[i] = (uint8_t)(k >> i % 8 * 4) ^ (uint8_t)i;
	return o;
}

static void elements_stay(void **state)
{
	struct refusing h = REFUSING(0);
	struct odd *list = NULL;
	size_t room = 0, moved = 0;

	for (size_t k = 0; k < 5000; k++) {
		const size_t before = room;

		assert_true(TW_GROW(&h.heap, list, room, k, k + 1));
		assert_true(room > k);
		if (room != before) {
			assert_true(room >= 2 * before);
			moved += k;
		}
		list[k] = number(k);
	}
	for (size_t k = 0; k < 5000; k++)
		assert_memory_equal(list[k].byte, number(k).byte, sizeof list->byte);
	assert_true(moved <= 2 * 5000);
	assert_int_equal(h.live, 1);
	h.heap.put(&h.heap, list);
	assert_int_equal(h.live, 0);
}

static void what_fits_costs_nothing(void **state)
{
	struct refusing h = REFUSING(0);
	uint32_t *list = NULL, *before;
	size_t room = 0, was;

	assert_true(TW_GROW(&h.heap, list, room, 0, 0));
	assert_null(list);
	assert_int_equal(h.calls, 0);
	assert_true(TW_GROW(&h.heap, list, room, 0, 1000));
	assert_int_equal(room, 1000); /* a size known beforehand is got exactly */
	before = list;
	was = room;
	for (size_t wanted = 0; wanted <= was; wanted++)
		assert_true(TW_GROW(&h.heap, list, room, 3, wanted));
	assert_ptr_equal(list, before);
	assert_int_equal(room, was);
	assert_int_equal(h.calls, 1);
	h.heap.put(&h.heap, list);
}

/* Only what is in use is read: the rest of an array may never have been written. */
static void only_what_is_used_moves(void **state)
{
	struct refusing h = REFUSING(0);
	char *text = NULL;
	size_t room = 0;

	assert_true(TW_GROW(&h.heap, text, room, 0, 6));
	memcpy(text, "width", 6);
	assert_true(TW_GROW(&h.heap, text, room, 6, 100000));
	assert_string_equal(text, "width");
	h.heap.put(&h.heap, text);
}

static void check_unchanged(const uint64_t *list, const uint64_t *before, size_t room)
{
	assert_ptr_equal(list, before);
	assert_int_equal(room, 16);
	for (uint64_t k = 0; k < 16; k++)
		assert_int_equal(list[k], k * k);
}

static void without_memory_all_is_as_before(void **state)
{
	struct refusing h = REFUSING(2);
	uint64_t *list = NULL, *before;
	size_t room = 0;

	assert_true(TW_GROW(&h.heap, list, room, 0, 16));
	for (uint64_t k = 0; k < 16; k++)
		list[k] = k * k;
	before = list;
	assert_int_equal(room, 16);
	assert_false(TW_GROW(&h.heap, list, room, 16, 17));
	check_unchanged(list, before, room);
	assert_int_equal(h.live, 1);
	assert_true(TW_GROW(&h.heap, list, room, 16, 17));
	assert_int_equal(room, 32);
	h.heap.put(&h.heap, list);
	assert_int_equal(h.live, 0);
}

static void sizes_that_do_not_exist_are_refused(void **state)
{
	struct refusing h = REFUSING(0);
	uint64_t *list = NULL, *before;
	size_t room = 0;

	assert_true(TW_GROW(&h.heap, list, room, 0, 16));
	for (uint64_t k = 0; k < 16; k++)
		list[k] = k * k;
	before = list;
	/* times 8 these are 0, 8 and 0 bytes to a multiplication that forgets the overflow */
	assert_false(TW_GROW(&h.heap, list, room, 16, SIZE_MAX / 8 + 1));
	assert_false(TW_GROW(&h.heap, list, room, 16, SIZE_MAX / 8 + 2));
	assert_false(TW_GROW(&h.heap, list, room, 16, SIZE_MAX / 2 + 1));
	assert_false(TW_GROW(&h.heap, list, room, 16, SIZE_MAX));
	assert_int_equal(h.calls, 1);
	check_unchanged(list, before, room);
	h.heap.put(&h.heap, list);
}

/* Pretends to have what was asked for, and notes how much that was. */
static size_t asked;
static void *boasting_get(struct tw_heap *heap, size_t bytes)
{
	asked = bytes;
	return &asked;
}
static void boasting_put(struct tw_heap *heap, void *memory) {}

/* Where doubling would overflow, the array gets what is wanted and no more. */
static void doubling_stops_at_the_end(void **state)
{
	struct tw_heap boasting = { boasting_get, boasting_put };
	size_t room = SIZE_MAX / 8 - 3;
	uint64_t *list = NULL;

	assert_true(TW_GROW(&boasting, list, room, 0, SIZE_MAX / 8));
	assert_int_equal(room, SIZE_MAX / 8);
	assert_int_equal(asked, SIZE_MAX / 8 * 8);
}

static void the_system_heap_goes_with_free(void **state)
{
	char *text = NULL;
	size_t room = 0;

	assert_true(TW_GROW(&tw_heap_system, text, room, 0, 10));
	assert_true(TW_GROW(&tw_heap_system, text, room, 10, 1000));
	free(text);
}

static void arenas_grow_too(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_arena a;
	uint64_t *list = NULL, *before;
	size_t room = 0;

	tw_arena_init(&a, &h.heap);
	for (uint64_t k = 0; k < 3000; k++) {
		assert_true(TW_GROW_IN(&a, list, room, k, k + 1));
		list[k] = 3 * k;
	}
	for (uint64_t k = 0; k < 3000; k++)
		assert_int_equal(list[k], 3 * k);
	before = list;
	h.refuse = h.calls + 1;
	assert_false(TW_GROW_IN(&a, list, room, 3000, 100000));
	assert_false(TW_GROW_IN(&a, list, room, 3000, SIZE_MAX / 8 + 1));
	assert_ptr_equal(list, before);
	tw_arena_release(&a);
	assert_int_equal(h.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements_stay),
		cmocka_unit_test(what_fits_costs_nothing),
		cmocka_unit_test(only_what_is_used_moves),
		cmocka_unit_test(without_memory_all_is_as_before),
		cmocka_unit_test(sizes_that_do_not_exist_are_refused),
		cmocka_unit_test(doubling_stops_at_the_end),
		cmocka_unit_test(the_system_heap_goes_with_free),
		cmocka_unit_test(arenas_grow_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
