/* SPDX-License-Identifier: Apache-2.0 */
/* test_crowd_heap.c - blocks of a crowd's heap are aligned, do not overlap, come back, and outlive
 * the heap's release. */
#include "world/sim/crowd_heap.h"
#include "base/refusing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 20000

static size_t bytes_of(size_t k)
{
	return (k * 97 + k / 7) % (TW_CROWD_SMALL + 1000); /* small and large */
}

static void blocks_do_not_overlap(void **state)
{
	static unsigned char *at[COUNT];
	struct tw_heap *h = tw_crowd_heap_new(&tw_heap_system);

	assert_non_null(h);
	for (int round = 0; round < 2; round++) {
		for (size_t k = 0; k < COUNT; k++) {
			at[k] = h->get(h, bytes_of(k));
			assert_non_null(at[k]);
			assert_int_equal((uintptr_t)at[k] % TW_ALIGN, 0);
			memset(at[k], (int)(k % 251), bytes_of(k));
		}
		for (size_t k = 0; k < COUNT; k++)
			for (size_t i = 0; i < bytes_of(k); i++)
				if (at[k][i] != k % 251)
					fail_msg("block %zu was overwritten at byte %zu", k, i);
		for (size_t k = 0; k < COUNT; k++)
			h->put(h, at[(k * 7919) % COUNT]);
	}
	h->put(h, NULL);
	tw_crowd_heap_release(h);
	tw_crowd_heap_release(NULL);
}

/* What came back is given again, so that a long run needs no more than a short one. */
static void memory_is_used_again(void **state)
{
	struct tw_heap *h = tw_crowd_heap_new(&tw_heap_system);
	void *first = h->get(h, 100), *other = h->get(h, 300);

	h->put(h, first);
	h->put(h, other);
	assert_ptr_equal(h->get(h, 128), first); /* of the same class */
	assert_ptr_equal(h->get(h, 257), other);
	h->put(h, first);
	h->put(h, other);
	tw_crowd_heap_release(h);
}

/* A vector of the totals is dropped after the run: the heap below hears of it then. */
static void blocks_outlive_the_release(void **state)
{
	struct refusing below = REFUSING(0);
	struct tw_heap *h = tw_crowd_heap_new(&below.heap);
	struct tw_block *kept;

	assert_non_null(h);
	kept = tw_block_new(h, 40);
	memset(kept->data, 7, 40);
	tw_crowd_heap_release(h);
	assert_int_equal(kept->data[39], 7);
	assert_true(below.live > 0);
	tw_block_drop(kept);
	assert_int_equal(below.live, 0);
}

/* Neither kind of block ends the heap while one of the other kind is out. */
static void large_blocks_outlive_it_too(void **state)
{
	for (int order = 0; order < 2; order++) {
		struct refusing below = REFUSING(0);
		struct tw_heap *h = tw_crowd_heap_new(&below.heap);
		void *block[] = { h->get(h, 40), h->get(h, 10 * TW_CROWD_SMALL) };

		tw_crowd_heap_release(h);
		h->put(h, block[order]);
		assert_true(below.live > 0);
		h->put(h, block[!order]);
		assert_int_equal(below.live, 0);
	}
}

static void without_memory_there_is_none(void **state)
{
	struct refusing below = REFUSING(1);

	assert_null(tw_crowd_heap_new(&below.heap));
	assert_int_equal(below.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_do_not_overlap),
		cmocka_unit_test(memory_is_used_again),
		cmocka_unit_test(blocks_outlive_the_release),
		cmocka_unit_test(large_blocks_outlive_it_too),
		cmocka_unit_test(without_memory_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
