/* SPDX-License-Identifier: Apache-2.0 */
/* test_spans_reserve.c - adds that memory was got for do not fail, wherever they fall. */
#include "base/refusing.h"
#include "base/rng.h"
#include "actor/spans.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static uint64_t drawn(uint64_t a, uint64_t b, uint64_t most)
{
	const struct tw_rng rng = tw_rng_make(3, TW_RNG_TEST);

	return tw_rng_u64(&rng, a, b) % most;
}

/* Ranges at even positions never touch, so that every add makes a range of its own. */
static void add_even(struct tw_spans *s, uint64_t position)
{
	assert_int_equal(tw_spans_add(s, 2 * position, 2 * position + 1, NULL), TW_OK);
}

/* Runs are filled one after the other, or in the middle, or drawn; then memory ends. */
static uint64_t place(uint64_t how, uint64_t run, uint64_t k)
{
	switch (how) {
	case 0:
		return k;
	case 1:
		return 1000000 - k;
	case 2:
		return 500000 + (k % 2 ? k : -k);
	default:
		return drawn(run, k, 1000000);
	}
}

static void what_is_reserved_is_there(void **state)
{
	(void)state;
	for (uint64_t run = 0; run < 400; run++) {
		struct refusing heap = REFUSING(0);
		const uint64_t before = drawn(run, 1 << 30, 3000), adds = drawn(run, 1 << 29, 900);
		struct tw_spans s, same;

		tw_spans_init(&s, &heap.heap);
		tw_spans_init(&same, &tw_heap_system);
		for (uint64_t k = 0; k < before; k++) {
			add_even(&s, place(run % 4, run, k));
			add_even(&same, place(run % 4, run, k));
		}
		assert_int_equal(tw_spans_reserve(&s, adds), TW_OK);
		heap.refuse = heap.calls + 1;
		heap.onwards = true;
		for (uint64_t k = before; k < before + adds; k++) {
			add_even(&s, place(run / 4 % 4, run, k));
			add_even(&same, place(run / 4 % 4, run, k));
		}
		assert_int_equal(s.count, same.count);
		assert_int_equal(tw_spans_total(&s), tw_spans_total(&same));
		for (uint64_t at = 0;;) {
			struct tw_span a = { 0, 0 }, b = { 0, 0 };

			assert_int_equal(tw_spans_next(&s, at, &a), tw_spans_next(&same, at, &b));
			assert_memory_equal(&a, &b, sizeof a);
			if (a.to == 0)
				break;
			at = a.to;
		}
		tw_spans_release(&s);
		tw_spans_release(&same);
		assert_int_equal(heap.live, 0);
	}
}

/* A full run in the middle of every gap: as many splits as adds. */
static void full_runs_are_counted(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_spans s;

	(void)state;
	tw_spans_init(&s, &heap.heap);
	for (uint64_t k = 0; k < 128 * 20; k++) /* in order: every run but the last is half full */
		add_even(&s, 1000 * k);
	for (uint64_t k = 0; k < 128 * 20; k++)
		add_even(&s, 1000 * k + 1);
	assert_int_equal(tw_spans_reserve(&s, 5000), TW_OK);
	heap.refuse = heap.calls + 1;
	heap.onwards = true;
	for (uint64_t k = 0; k < 5000; k++)
		add_even(&s, 1000 * (k * 7 % 2560) + 2 + k / 2560);
	assert_int_equal(s.count, 2 * 128 * 20 + 5000);
	tw_spans_release(&s);
	assert_int_equal(heap.live, 0);
}

static void a_refusal_leaves_the_set_as_it_was(void **state)
{
	(void)state;
	for (unsigned nth = 1; nth < 12; nth++) {
		struct refusing heap = REFUSING(0);
		struct tw_spans s;
		enum tw_status st;

		tw_spans_init(&s, &heap.heap);
		for (uint64_t k = 0; k < 300; k++)
			add_even(&s, k);
		heap.refuse = heap.calls + nth;
		st = tw_spans_reserve(&s, 200);
		assert_int_equal(s.count, 300);
		assert_int_equal(tw_spans_total(&s), 300);
		if (heap.calls < heap.refuse)
			assert_int_equal(st, TW_OK);
		else
			assert_int_equal(st, TW_NO_MEMORY);
		heap.refuse = 0;
		for (uint64_t k = 300; k < 900; k++)
			add_even(&s, k);
		assert_int_equal(s.count, 900);
		tw_spans_release(&s);
		assert_int_equal(heap.live, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_reserved_is_there),
		cmocka_unit_test(full_runs_are_counted),
		cmocka_unit_test(a_refusal_leaves_the_set_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
