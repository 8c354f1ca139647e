/* SPDX-License-Identifier: Apache-2.0 */
/* test_slots.c - a set of slots against one byte per slot and plain loops. */
#include "node/slots.h"
#include "base/refusing.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MOST 5000

static struct tw_rng dice;
static uint64_t drawn;

static uint32_t roll(uint32_t below)
{
	return (uint32_t)(tw_rng_u64(&dice, 0, drawn++) % below);
}

/* Every question at place k, by loops. */
static void check_at(const struct tw_slots *s, const uint8_t *in, uint32_t k)
{
	uint32_t rank = 0, next = k, free = 0;

	for (uint32_t i = 0; i < k; i++)
		rank += in[i];
	while (next < s->size && !in[next])
		next++;
	while (free < s->size && in[free])
		free++;
	assert_int_equal(tw_slots_rank(s, k), rank);
	assert_int_equal(tw_slots_next(s, k), next < s->size ? next : TW_NO_SLOT);
	assert_int_equal(tw_slots_first_free(s), free < s->size ? free : TW_NO_SLOT);
	if (k < s->size)
		assert_int_equal(tw_slots_has(s, k), in[k]);
}

/* `full` of 16 changes add: from nearly empty sets to nearly full ones. */
static void history(uint32_t size, uint32_t full)
{
	static uint8_t in[MOST];
	struct tw_slots s;
	uint32_t members = 0;

	memset(in, 0, sizeof in);
	assert_int_equal(tw_slots_init(&s, &tw_heap_system, size), TW_OK);
	for (uint32_t turn = 0; turn < 400; turn++) {
		uint32_t k = roll(size);

		for (uint32_t n = roll(size / 8 + 2); n && k < size; n--, k++) {
			const bool add = roll(16) < full;

			members += (uint32_t)add - in[k];
			in[k] = add;
			tw_slots_put(&s, k, add);
		}
		assert_int_equal(s.members, members);
		check_at(&s, in, roll(size + 1));
		check_at(&s, in, roll(size / 64 + 1) * 64 > size ? size : roll(size));
	}
	for (uint32_t k = 0; k <= size; k++)
		check_at(&s, in, k);
	for (uint32_t k = 0; k < size; k++)
		tw_slots_put(&s, k, true);
	assert_int_equal(tw_slots_first_free(&s), TW_NO_SLOT);
	assert_int_equal(tw_slots_rank(&s, size), size);
	for (uint32_t k = 0; k < size; k++)
		tw_slots_put(&s, k, false);
	assert_int_equal(tw_slots_next(&s, 0), TW_NO_SLOT);
	assert_int_equal(s.members, 0);
	tw_slots_release(&s);
}

static void any_history_agrees_with_loops(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 63, 64, 65, 127, 128, 129, 1000, 4096, 4999 };

	dice = tw_rng_make(1, TW_RNG_TEST);
	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
		for (uint32_t full = 1; full < 16; full += 7)
			history(sizes[k], full);
}

/* The order in which hungry workers are served: ascending, whoever comes and goes meanwhile. */
static void a_walk_may_change_the_set(void **state)
{
	struct tw_slots s;
	uint32_t last = 0, seen = 0;

	dice = tw_rng_make(2, TW_RNG_TEST);
	drawn = 0;
	assert_int_equal(tw_slots_init(&s, &tw_heap_system, 1000), TW_OK);
	for (uint32_t k = 0; k < 1000; k += 3)
		tw_slots_put(&s, k, true);
	for (uint32_t k = tw_slots_next(&s, 0); k != TW_NO_SLOT; k = tw_slots_next(&s, k + 1)) {
		assert_true(seen == 0 || k > last);
		tw_slots_put(&s, k, false);
		tw_slots_put(&s, roll(k + 1), true); /* behind us: not met in this walk */
		last = k;
		seen++;
	}
	assert_int_equal(seen, 334);
	tw_slots_release(&s);
}

static void a_refusal_leaves_nothing_behind(void **state)
{
	for (unsigned nth = 1; nth <= 2; nth++) {
		struct refusing h = REFUSING(nth);
		struct tw_slots s;

		assert_int_equal(tw_slots_init(&s, &h.heap, 100), TW_NO_MEMORY);
		tw_slots_release(&s);
		assert_int_equal(h.live, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_history_agrees_with_loops),
		cmocka_unit_test(a_walk_may_change_the_set),
		cmocka_unit_test(a_refusal_leaves_nothing_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
