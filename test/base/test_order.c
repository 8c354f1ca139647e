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

/* One row of an epoch in blocks: the places of one block, which are `length` of the order's. */
static void check_block(const struct tw_order *o, uint64_t from, uint64_t length, bool *seen)
{
	const uint64_t block = tw_order_sample(o, from) / o->block;

	for (uint64_t p = from; p < from + length; p++) {
		const uint64_t i = tw_order_sample(o, p);

		assert_true(i < o->samples && !seen[i]);
		assert_int_equal(i / o->block, block);
		seen[i] = true;
	}
}

/* Every sample once in an epoch; the samples of a block stand together, and the short one last. */
static void check_blocks(const struct tw_order *o)
{
	const uint64_t n = o->samples, rest = n % o->block;

	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
		bool seen[MOST] = { false };

		for (uint64_t at = 0; at < n - rest; at += o->block)
			check_block(o, epoch * n + at, o->block, seen);
		if (rest)
			check_block(o, (epoch + 1) * n - rest, rest, seen);
		for (uint64_t i = 0; i < n; i++)
			assert_true(seen[i]);
	}
}

static void blocks_stay_together(void **state)
{
	struct tw_order o;

	(void)state;
	for (uint64_t n = 1; n <= 40; n++)
		for (uint64_t block = 1; block <= n; block++) {
			o = tw_order_make(n, n);
			o.block = block;
			check_blocks(&o);
		}
	o = tw_order_make(1, 599);
	o.block = 64;
	check_blocks(&o);
}

/* Of 25 blocks of 16: where they stand, and the samples within them, are drawn for each epoch, for
 * each block and by the seed. */
static void blocks_are_drawn(void **state)
{
	struct tw_order o = tw_order_make(1, 400), other = tw_order_make(2, 400);
	unsigned block[3] = { 0 }, within[4] = { 0 }, moved = 0;

	(void)state;
	o.block = other.block = 16;
	for (uint64_t p = 0; p < 400; p++) {
		const uint64_t i = tw_order_sample(&o, p);

		block[0] += i / 16 == p / 16;
		block[1] += i / 16 == tw_order_sample(&o, p + 400) / 16;
		block[2] += i / 16 == tw_order_sample(&other, p) / 16;
		within[0] += i % 16 == p % 16;
		within[1] += i % 16 == tw_order_sample(&o, p + 400) % 16;
		within[2] += i % 16 == tw_order_sample(&other, p) % 16;
		within[3] += i % 16 == tw_order_sample(&o, (p + 16) % 400) % 16;
		moved += i != tw_order_sample(&o, p + 400);
	}
	for (int k = 0; k < 3; k++)
		assert_in_range(block[k], 0, 4 * 16); /* 16 are expected */
	for (int k = 0; k < 4; k++)
		assert_in_range(within[k], 5, 60); /* 25 are expected */
	assert_true(moved > 380);
}

/* Ranges of the data, and samples of one's own, may be permuted by blocks, too. */
static void subsets_have_blocks_of_their_own(void **state)
{
	struct tw_order o = tw_order_make(5, 103);

	(void)state;
	o.blocks = true;
	o.block = 8;
	o.subsets = (struct tw_subsets){ 103, 8, 3 };
	check_samples(&o);
	for (uint64_t p = 0; p < EPOCHS * UINT64_C(103); p++) {
		const struct tw_cell c = tw_subsets_cell(&o.subsets, p);
		const uint64_t first = tw_subsets_start(&o.subsets, c.subset);

		/* a cell has as many places as a block, and begins with one */
		assert_int_equal((tw_order_sample(&o, p) - first) / 8,
				 (tw_order_sample(&o, c.from) - first) / 8);
	}
	o.blocks = false;
	o.own = 30;
	o.subsets.own = true;
	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
		unsigned times[3][30] = { 0 };

		for (uint64_t p = epoch * 103; p < (epoch + 1) * 103; p++) {
			const struct tw_cell c = tw_subsets_cell(&o.subsets, p);

			if (c.first + (p - c.from) < 30)
				times[c.subset][tw_order_sample(&o, p)]++;
		}
		for (int k = 0; k < 3; k++)
			for (int i = 0; i < 30; i++)
				assert_int_equal(times[k][i], 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(subsets_are_cells_in_rows),
		cmocka_unit_test(each_subset_keeps_its_samples),
		cmocka_unit_test(drawn_subsets_are_spread),
		cmocka_unit_test(own_samples_are_numbered_by_their_owner),
		cmocka_unit_test(blocks_stay_together),
		cmocka_unit_test(blocks_are_drawn),
		cmocka_unit_test(subsets_have_blocks_of_their_own),
		cmocka_unit_test(without_subsets_it_is_the_permutation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
