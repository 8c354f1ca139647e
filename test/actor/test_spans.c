/* SPDX-License-Identifier: Apache-2.0 */
/* test_spans.c - sets of ranges against a map with one byte per position. */
#include "actor/spans.h"
#include "base/rng.h"
#include "base/refusing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define WIDTH 96

struct model {
	uint8_t in[WIDTH];
};

static struct tw_rng dice;
static uint64_t seed, drawn;

static uint64_t roll(uint64_t below)
{
	return tw_rng_u64(&dice, seed, drawn++) % below;
}

/* The ranges are in order and do not touch, whichever way they are read. */
static void check_order(const struct tw_spans *s)
{
	struct tw_span *list = tw_heap_zeros(&tw_heap_system, (s->count + 1) * sizeof *list), x;
	uint64_t at = 0, total = 0;
	size_t k = 0;

	assert_non_null(list);
	tw_spans_write(s, list);
	for (; tw_spans_next(s, at, &x); k++) {
		assert_true(k < s->count);
		assert_memory_equal(&x, &list[k], sizeof x);
		assert_true(x.from < x.to && (k == 0 || at < x.from));
		at = x.to;
		total += x.to - x.from;
	}
	assert_int_equal(k, s->count);
	assert_true(tw_spans_total(s) == total);
	tw_heap_system.put(&tw_heap_system, list);
}

static void check_same(const struct tw_spans *s, const struct model *m)
{
	uint64_t total = 0;

	check_order(s);
	for (uint64_t p = 0; p < WIDTH; p++) {
		assert_int_equal(tw_spans_within(s, p, p + 1), m->in[p]);
		total += m->in[p];
	}
	assert_int_equal(tw_spans_total(s), total);
}

static void check_questions(const struct tw_spans *s, const struct model *m)
{
	const uint64_t from = roll(WIDTH), to = from + roll(WIDTH - from + 1);
	const uint64_t most = roll(5) == 0 ? 0 : roll(WIDTH);
	uint64_t within = 0, gap = from, gap_end;
	struct tw_span out;

	for (uint64_t p = from; p < to; p++)
		within += m->in[p];
	assert_int_equal(tw_spans_within(s, from, to), within);
	while (gap < to && m->in[gap])
		gap++;
	for (gap_end = gap; gap_end < to && !m->in[gap_end] && gap_end - gap < most;)
		gap_end++;
	assert_int_equal(tw_spans_gap(s, from, to, most, &out), gap_end > gap);
	if (gap_end > gap) {
		assert_int_equal(out.from, gap);
		assert_int_equal(out.to, gap_end);
	}
}

static void fill(struct tw_spans *s, struct model *m)
{
	memset(m, 0, sizeof *m);
	for (uint64_t k = roll(12); k > 0; k--) {
		const uint64_t from = roll(WIDTH), to = from + roll((WIDTH - from) / 4 + 1);

		assert_int_equal(tw_spans_add(s, from, to, NULL), TW_OK);
		memset(m->in + from, 1, to - from);
	}
}

/* One operation on both; on refusal the set must be what it was. */
static void turn(struct tw_spans *s, struct model *m, struct tw_spans *other,
		 const struct model *other_m)
{
	const uint64_t from = roll(WIDTH), to = from + roll((WIDTH - from) / 3 + 1);
	struct model next = *m;
	uint64_t met = 0, twice = 1000;
	enum tw_status st = TW_OK;

	switch (roll(6)) {
	case 0:
	case 1:
		for (uint64_t p = from; p < to; p++)
			met += m->in[p];
		memset(next.in + from, 1, to - from);
		st = tw_spans_add(s, from, to, &twice);
		assert_int_equal(twice, 1000 + (st == TW_OK ? met : 0));
		break;
	case 2:
		memset(next.in + from, 0, to - from);
		st = tw_spans_remove(s, from, to);
		break;
	case 3:
		for (int p = 0; p < WIDTH; p++)
			next.in[p] &= other_m->in[p];
		st = tw_spans_intersect(s, other);
		break;
	case 4:
		for (int p = 0; p < WIDTH; p++)
			next.in[p] |= other_m->in[p];
		st = tw_spans_unite(s, other);
		break;
	case 5:
		for (int p = 0; p < WIDTH; p++)
			next.in[p] &= !other_m->in[p];
		st = tw_spans_subtract(s, other);
		break;
	}
	if (st == TW_OK)
		*m = next;
	else
		assert_int_equal(st, TW_NO_MEMORY);
	check_same(s, m);
	check_same(other, other_m);
}

/* A whole history, with the nth request for memory refused. */
static unsigned history(unsigned nth)
{
	struct refusing h = REFUSING(nth);
	struct tw_spans s, other;
	struct model m = { 0 }, other_m;

	drawn = 0;
	tw_spans_init(&s, &h.heap);
	for (int k = 0; k < 40; k++) {
		tw_spans_init(&other, &tw_heap_system);
		fill(&other, &other_m);
		turn(&s, &m, &other, &other_m);
		check_questions(&s, &m);
		tw_spans_release(&other);
	}
	tw_spans_release(&s);
	assert_int_equal(h.live, 0);
	return h.calls;
}

static void any_history_agrees_with_the_map(void **state)
{
	dice = tw_rng_make(1, TW_RNG_TEST);
	for (seed = 0; seed < 3000; seed++)
		history(0);
}

static void a_refusal_changes_nothing(void **state)
{
	dice = tw_rng_make(2, TW_RNG_TEST);
	for (seed = 0; seed < 60; seed++)
		for (unsigned nth = 1;; nth++)
			if (history(nth) < nth)
				break;
}

static void sets_may_meet_themselves(void **state)
{
	struct tw_spans s, t;
	struct model m;

	dice = tw_rng_make(3, TW_RNG_TEST);
	drawn = 0;
	tw_spans_init(&s, &tw_heap_system);
	tw_spans_init(&t, &tw_heap_system);
	fill(&s, &m);
	assert_int_equal(tw_spans_unite(&s, &s), TW_OK);
	check_same(&s, &m);
	assert_int_equal(tw_spans_intersect(&s, &s), TW_OK);
	check_same(&s, &m);
	assert_int_equal(tw_spans_copy(&s, &s), TW_OK);
	check_same(&s, &m);
	assert_int_equal(tw_spans_copy(&t, &s), TW_OK);
	check_same(&t, &m);
	assert_int_equal(tw_spans_subtract(&s, &s), TW_OK);
	assert_int_equal(s.count, 0);
	check_same(&t, &m);
	tw_spans_clear(&t);
	assert_int_equal(tw_spans_total(&t), 0);
	tw_spans_release(&s);
	tw_spans_release(&t);
}

static void a_refused_copy_changes_nothing(void **state)
{
	struct refusing h = REFUSING(3); /* a run and a directory are there already */
	struct tw_spans s, t;
	struct model m = { 0 };

	tw_spans_init(&s, &h.heap);
	tw_spans_init(&t, &tw_heap_system);
	assert_int_equal(tw_spans_add(&s, 3, 9, NULL), TW_OK);
	memset(m.in + 3, 1, 6);
	for (uint64_t p = 0; p < 90; p += 2)
		assert_int_equal(tw_spans_add(&t, p, p + 1, NULL), TW_OK);
	assert_int_equal(tw_spans_copy(&s, &t), TW_NO_MEMORY);
	check_same(&s, &m);
	tw_spans_release(&s);
	tw_spans_release(&t);
	assert_int_equal(h.live, 0);
}

static void the_ends_of_the_numbers_work(void **state)
{
	struct tw_spans s;
	struct tw_span gap;
	uint64_t twice = 0;

	tw_spans_init(&s, &tw_heap_system);
	assert_int_equal(tw_spans_add(&s, UINT64_MAX - 10, UINT64_MAX, NULL), TW_OK);
	assert_int_equal(tw_spans_add(&s, 0, 5, NULL), TW_OK);
	assert_int_equal(tw_spans_add(&s, 7, 7, NULL), TW_OK); /* empty: nothing happens */
	assert_int_equal(s.count, 2);
	assert_true(tw_spans_gap(&s, 0, UINT64_MAX, UINT64_MAX, &gap));
	assert_true(gap.from == 5 && gap.to == UINT64_MAX - 10);
	assert_false(tw_spans_gap(&s, UINT64_MAX - 5, UINT64_MAX, 3, &gap));
	assert_int_equal(tw_spans_add(&s, 0, UINT64_MAX, &twice), TW_OK);
	assert_int_equal(twice, 15);
	assert_int_equal(s.count, 1);
	assert_true(tw_spans_total(&s) == UINT64_MAX);
	tw_spans_release(&s);
}

static void steady_histories_stay_one_range(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_spans s;

	tw_spans_init(&s, &h.heap);
	for (uint64_t k = 0; k < 100000; k++)
		assert_int_equal(tw_spans_add(&s, k * 64, k * 64 + 64, NULL), TW_OK);
	assert_int_equal(s.count, 1);
	assert_int_equal(h.calls, 2); /* a run and the directory */
	tw_spans_release(&s);
}

#define WIDE 6000

/* Compare with the map: every position, and every free range from a few places on. */
static void check_wide(const struct tw_spans *s, const uint8_t *in)
{
	check_order(s);
	for (uint64_t p = 0; p < WIDE; p++)
		assert_int_equal(tw_spans_within(s, p, p + 1), in[p]);
	for (uint64_t from = 0; from < WIDE; from += 1 + roll(50)) {
		uint64_t gap = from;
		struct tw_span out;

		while (gap < WIDE && in[gap])
			gap++;
		assert_int_equal(tw_spans_gap(s, from, WIDE, 1, &out), gap < WIDE);
		if (gap < WIDE)
			assert_int_equal(out.from, gap);
	}
}

/* So many ranges that they fill many runs: they come one by one in any order, whole stretches are
 * filled and emptied, and in the end the set is one range again.  `step` 2 makes every range one
 * that touches nobody. */
static void many_ranges(uint64_t step)
{
	static uint8_t in[WIDE];
	struct refusing h = REFUSING(0);
	struct tw_spans s;
	size_t most = 0;

	memset(in, 0, sizeof in);
	tw_spans_init(&s, &h.heap);
	for (int k = 0; k < 12000; k++) {
		const bool stretch = roll(400) == 0, add = roll(8) != 0;
		const uint64_t from = roll(WIDE / step) * step;
		const uint64_t end = from + (stretch ? roll(WIDE - from) : 1);

		assert_int_equal(add ? tw_spans_add(&s, from, end, NULL)
				     : tw_spans_remove(&s, from, end),
				 TW_OK);
		memset(in + from, add, end - from);
		most = s.count > most ? s.count : most;
		if (k % 500 == 0)
			check_wide(&s, in);
	}
	check_wide(&s, in);
	assert_true(most > 500); /* several runs, or this test shows nothing */
	for (uint64_t p = 0; p < WIDE; p++)
		assert_int_equal(tw_spans_add(&s, p, p + 1, NULL), TW_OK);
	assert_int_equal(s.count, 1);
	assert_true(h.live <= 2); /* a run and the directory: what became empty was given back */
	tw_spans_release(&s);
	assert_int_equal(h.live, 0);
}

static void many_ranges_agree_with_the_map(void **state)
{
	dice = tw_rng_make(4, TW_RNG_TEST);
	for (seed = 0; seed < 6; seed++) {
		drawn = 0;
		many_ranges(1 + seed % 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_history_agrees_with_the_map),
		cmocka_unit_test(a_refusal_changes_nothing),
		cmocka_unit_test(many_ranges_agree_with_the_map),
		cmocka_unit_test(sets_may_meet_themselves),
		cmocka_unit_test(a_refused_copy_changes_nothing),
		cmocka_unit_test(the_ends_of_the_numbers_work),
		cmocka_unit_test(steady_histories_stay_one_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
