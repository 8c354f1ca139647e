/* SPDX-License-Identifier: Apache-2.0 */
/* test_order.c - the order of samples, divided or not, against plain lists. */
#include "base/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define MOST   600
#define EPOCHS 3

/* Whose place it is, and which of its subset's, by the rule alone. */
struct list {
	uint32_t subset[MOST], cell[MOST];
	uint64_t number[MOST];
};

static void write_list(const struct tw_subsets *s, struct list *l)
{
	uint64_t left[MOST], done[MOST] = { 0 }, place = 0;
	uint32_t cells = 0;

	for (uint32_t k = 0; k < s->count; k++)
		left[k] = s->samples / s->count + (k < s->samples % s->count);
	while (place < s->samples) {
		/* the last subset is never longer than another */
		const bool full = left[s->count - 1] >= s->unit;

		for (uint32_t k = 0; k < s->count; k++, cells++) {
			uint64_t take = full ? s->unit : left[k];

			for (left[k] -= take; take; take--, place++) {
				l->subset[place] = k;
				l->cell[place] = cells;
				l->number[place] = done[k]++;
			}
		}
	}
	assert_int_equal(place, s->samples);
}

static void check_cells(const struct tw_subsets *s)
{
	static struct list l;
	const uint64_t n = s->samples;

	write_list(s, &l);
	for (uint64_t p = 0; p < EPOCHS * n; p++) {
		const struct tw_cell c = tw_subsets_cell(s, p);
		const uint64_t place = p % n, first = c.from % n, last = (c.to - 1) % n;

		assert_int_equal(c.subset, l.subset[place]);
		assert_true(c.from <= p && p < c.to && c.from / n == p / n);
		assert_int_equal(c.first + (p - c.from), l.number[place]);
		assert_int_equal(l.cell[first], l.cell[place]);
		assert_int_equal(l.cell[last], l.cell[place]);
		assert_true(first == 0 || l.cell[first - 1] != l.cell[place]);
		assert_true(last == n - 1 || l.cell[last + 1] != l.cell[place]);
	}
	for (uint32_t k = 0; k < s->count; k++)
		for (uint64_t p = 0; p < (EPOCHS - 1) * n; p++) {
			const struct tw_cell c = tw_subsets_next(s, k, p);
			uint64_t q = p;

			while (l.subset[q % n] != k)
				q++;
			assert_int_equal(c.subset, k);
			assert_true(c.from <= q && q < c.to);
		}
}

/* Every epoch has every sample once; a subset's samples are the same in every epoch. */
static void check_samples(const struct tw_order *o)
{
	static uint32_t owner[MOST], epoch_of[MOST];
	const struct tw_subsets *s = &o->subsets;
	const uint64_t n = o->samples;
	bool moved = false;

	for (uint64_t p = 0; p < EPOCHS * n; p++) {
		const uint64_t i = tw_order_sample(o, p);
		const uint32_t k = tw_subsets_cell(s, p).subset;

		assert_true(i < n);
		if (p < n)
			owner[i] = k;
		assert_int_equal(owner[i], k);
		assert_true(p < n || epoch_of[i] + 1 == p / n);
		epoch_of[i] = (uint32_t)(p / n);
		moved = moved || (p >= n && i != tw_order_sample(o, p - n));
		if (o->blocks)
			assert_true(i >= tw_subsets_start(s, k) &&
				    i < tw_subsets_start(s, k) + tw_subsets_size(s, k));
	}
	assert_true(moved || n / s->count < 3);
}

static void subsets_are_cells_in_rows(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 40; n++)
		for (uint32_t count = 1; count <= n; count++)
			for (uint64_t unit = 1; unit <= n / count; unit++)
				check_cells(&(struct tw_subsets){ n, unit, count });
	check_cells(&(struct tw_subsets){ 599, 8, 7 });
	check_cells(&(struct tw_subsets){ 600, 100, 6 });
}

static void each_subset_keeps_its_samples(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++)
		for (int blocks = 0; blocks < 2; blocks++) {
			struct tw_order o = tw_order_make(seed, 1 + seed * 13);

			o.blocks = blocks;
			o.subsets = (struct tw_subsets){ o.samples, 1, 1 + (uint32_t)seed / 3 };
			if (o.samples / o.subsets.count > 4)
				o.subsets.unit = 1 + seed % 4;
			check_samples(&o);
		}
}

/* Drawn subsets are not ranges, and another seed draws others. */
static void drawn_subsets_are_spread(void **state)
{
	struct tw_order o = tw_order_make(1, 400), other = tw_order_make(2, 400);
	unsigned low = 0, same = 0;

	(void)state;
	o.subsets = other.subsets = (struct tw_subsets){ 400, 5, 4 };
	for (uint64_t p = 0; p < 400; p++) {
		if (tw_subsets_cell(&o.subsets, p).subset)
			continue;
		low += tw_order_sample(&o, p) < 100;
		same += tw_order_sample(&o, p) == tw_order_sample(&other, p);
	}
	assert_in_range(low, 10, 40); /* of 100; 25 are expected */
	assert_in_range(same, 0, 5);
}

/* Own samples: each slot has its numbers from 0 on once in an epoch, in another order in the next;
 * one that has fewer has them at the first places, and the others are vacant. */
static void own_samples_are_numbered_by_their_owner(void **state)
{
	const uint64_t all = 53, has[] = { 0, 10, 4, 1 };

	(void)state;
	for (size_t h = 0; h < sizeof has / sizeof has[0]; h++) {
		struct tw_order o = tw_order_make(3, all);
		unsigned times[2][5][11] = { 0 }, moved = 0;

		o.subsets = (struct tw_subsets){ all, 2, 5, true };
		o.own = has[h];
		for (uint64_t p = 0; p < 2 * all; p++) {
			const struct tw_cell c = tw_subsets_cell(&o.subsets, p);
			const uint64_t n = tw_subsets_own(&o.subsets, c.subset, has[h]);
			const uint64_t number = c.first + (p - c.from);

			assert_true(n == (has[h] ? has[h] : tw_subsets_size(&o.subsets, c.subset)));
			if (number >= n)
				continue;
			times[p / all][c.subset][tw_order_sample(&o, p)]++;
			moved += tw_order_sample(&o, p) != number;
		}
		for (int epoch = 0; epoch < 2; epoch++)
			for (uint32_t k = 0; k < 5; k++)
				for (uint64_t i = 0; i < 11; i++)
					assert_int_equal(times[epoch][k][i],
							 i < tw_subsets_own(&o.subsets, k, has[h]));
		assert_true(has[h] == 1 || moved);
	}
}

static void without_subsets_it_is_the_permutation(void **state)
{
	const struct tw_order o = tw_order_make(7, 123);
	const struct tw_rng rng = tw_rng_make(7, TW_RNG_SHUFFLE);

	(void)state;
	for (uint64_t p = 0; p < 4 * 123; p++)
		assert_int_equal(tw_order_sample(&o, p),
				 tw_rng_permute(&rng, p / 123, 123, p % 123));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(subsets_are_cells_in_rows),
		cmocka_unit_test(each_subset_keeps_its_samples),
		cmocka_unit_test(drawn_subsets_are_spread),
		cmocka_unit_test(own_samples_are_numbered_by_their_owner),
		cmocka_unit_test(without_subsets_it_is_the_permutation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
