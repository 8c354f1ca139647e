/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn.c - primitives and hands: reorders against plain loops, concurrency, refusals. */
#include "graph/layout_move.h"
#include "base/refusing.h"
#include "graph/onednn.h"
#include "graph/shape.h"
#include "base/machine/isa.h"

#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Before anything else: oneDNN takes an instruction set once. */
static void an_instruction_set_is_pinned_once(void **state)
{
	const char *low = tw_isa() == TW_ISA_PLAIN ? "plain" : "avx2";

	assert_int_equal(tw_onednn_isa("sse9"), TW_BAD_INPUT);
	assert_int_equal(tw_onednn_isa(low), TW_OK);
	assert_int_equal(tw_onednn_isa(low), TW_OK);
	assert_int_equal(tw_onednn_effective_isa() & ~dnnl_cpu_isa_avx2, 0);
	assert_int_equal(tw_onednn_isa("avx512"), TW_REFUSED);
}

static const struct tw_shape image = { .rank = 3, .d = { 32, 3, 5 } };

static void move(struct tw_onednn *kit, enum tw_layout from, enum tw_layout to)
{
	_Alignas(64) float x[960], y[960], truth[960];
	dnnl_memory_desc_t a, b;
	struct tw_hand *hand;
	size_t bytes = 0;
	uint32_t id = 0;
	void *scratch;

	for (size_t i = 0; i < 960; i++)
		x[i] = (float)i;
	assert_int_equal(tw_onednn_describe(&image, 2, (int)from, &a), TW_OK);
	assert_int_equal(tw_onednn_describe(&image, 2, (int)to, &b), TW_OK);
	assert_int_equal(tw_onednn_reorder(kit, &a, &b, &id, &bytes), TW_OK);
	assert_int_equal(id == TW_KIT_NONE, from == to);
	if (from == to)
		return;
	hand = tw_onednn_take(kit);
	assert_non_null(hand);
	scratch = tw_heap_system.get(&tw_heap_system, bytes + 1);
	assert_int_equal(tw_hand_run(hand, id, (void *const[]){ x, y }, scratch), TW_OK);
	tw_heap_system.put(&tw_heap_system, scratch);
	tw_onednn_give(kit, hand);
	layout_move(&image, 2, from, x, to, truth);
	assert_memory_equal(y, truth, sizeof y);
}

static void reorders_are_moves(void **state)
{
	struct tw_onednn *kit = tw_onednn_new(&tw_heap_system);

	assert_non_null(kit);
	for (int from = 0; from < 3; from++)
		for (int to = 0; to < 3; to++)
			move(kit, (enum tw_layout)from, (enum tw_layout)to);
	tw_onednn_free(kit);
}

static void layouts_that_there_are_not(void **state)
{
	const struct tw_shape odd = { .rank = 3, .d = { 17, 2, 2 } };
	const struct tw_shape flat = { .rank = 2, .d = { 17, 2 } };
	dnnl_memory_desc_t md;

	assert_int_equal(tw_onednn_describe(&odd, 2, TW_LAYOUT_BLOCK16, &md), TW_BAD_INPUT);
	assert_int_equal(tw_onednn_describe(&flat, 2, TW_LAYOUT_PLAIN, &md), TW_BAD_INPUT);
	assert_int_equal(tw_onednn_describe(&odd, 2, TW_LAYOUT_LAST, &md), TW_OK);
}

static void hands_are_kept(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_onednn *kit = tw_onednn_new(&heap.heap);
	struct tw_hand *a, *b;
	unsigned calls;

	assert_non_null(kit);
	move(kit, TW_LAYOUT_PLAIN, TW_LAYOUT_LAST);
	a = tw_onednn_take(kit);
	b = tw_onednn_take(kit);
	assert_true(a && b && a != b);
	tw_onednn_give(kit, a);
	tw_onednn_give(kit, b);
	calls = heap.calls;
	for (int k = 0; k < 10; k++) {
		a = tw_onednn_take(kit);
		b = tw_onednn_take(kit);
		tw_onednn_give(kit, a);
		tw_onednn_give(kit, b);
	}
	assert_int_equal(heap.calls, calls);
	assert_int_equal(omp_get_max_threads(), 1);
	tw_onednn_free(kit);
	assert_int_equal(heap.live, 0);
}

static enum tw_status many(struct tw_heap *heap)
{
	struct tw_onednn *kit = tw_onednn_new(heap);
	enum tw_status st = kit ? TW_OK : TW_NO_MEMORY;
	dnnl_memory_desc_t a, b;
	struct tw_hand *hand;
	uint32_t id;

	tw_onednn_describe(&image, 2, TW_LAYOUT_PLAIN, &a);
	tw_onednn_describe(&image, 2, TW_LAYOUT_LAST, &b);
	for (int k = 0; st == TW_OK && k < 40; k++) /* beyond the first room */
		st = tw_onednn_reorder(kit, &a, &b, &id, NULL);
	if (st == TW_OK) {
		hand = tw_onednn_take(kit);
		st = hand ? TW_OK : TW_NO_MEMORY;
		tw_onednn_give(kit, hand);
	}
	tw_onednn_free(kit);
	return st;
}

static void every_allocation_may_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct refusing heap = REFUSING(nth);
		const enum tw_status st = many(&heap.heap);

		assert_int_equal(heap.live, 0);
		if (heap.calls < nth) {
			assert_int_equal(st, TW_OK);
			return;
		}
		assert_int_equal(st, TW_NO_MEMORY);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_instruction_set_is_pinned_once),
		cmocka_unit_test(reorders_are_moves),
		cmocka_unit_test(layouts_that_there_are_not),
		cmocka_unit_test(hands_are_kept),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
