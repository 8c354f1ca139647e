/* SPDX-License-Identifier: Apache-2.0 */
/* test_cards.c - the formulas of reductions against their moves over cards, and these against what
 * can be said by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/cards.h"
#include "kit/near.h"

#include <stdio.h>

/* bytes, latency, seconds per byte, part: a short vector and long ones over a slow link, over a
 * fast one, and where the latency is most of it. */
static const struct tw_reduction_load loads[] = {
	{ 0, 4e2, 1e-3, 8e-8, 262144 },      { 0, 4e3, 1e-3, 8e-8, 262144 },
	{ 0, 4e5, 1e-3, 8e-8, 262144 },      { 0, 4e6, 1e-3, 8e-8, 262144 },
	{ 0, 5.84e7, 1e-3, 8e-8, 262144 },   { 0, 4e6, 5e-5, 8e-10, 262144 },
	{ 0, 5.84e7, 5e-5, 8e-10, 262144 },  { 0, 4e6, 5e-2, 8e-8, 262144 },
	{ 0, 5.84e7, 1e-5, 8e-10, 1048576 },
};
#define LOADS (sizeof loads / sizeof *loads)

static void a_formula_says_what_the_moves_take(void **state)
{
	for (size_t i = 0; tw_reduction_all[i]; i++)
		for (size_t l = 0; tw_reduction_all[i]->seconds && l < LOADS; l++)
			for (uint32_t peers = 2; peers <= 64; peers += 1 + peers / 9) {
				const struct tw_reduction *r = tw_reduction_all[i];
				struct tw_reduction_load load = loads[l];
				char what[80];

				load.peers = peers;
				snprintf(what, sizeof what, "%s of load %zu with %u peers", r->name,
					 l, peers);
				NEAR_SHARE(r->seconds(&load), tw_cost_cards(r, &load), 0.05, what);
				assert_true(tw_cost_reduction(r, &load) == r->seconds(&load));
			}
}

/* No card can be faster than its bytes, and the first byte needs two hops. */
static void no_reduction_is_faster_than_its_busiest_card(void **state)
{
	for (size_t i = 0; tw_reduction_all[i]; i++)
		for (size_t l = 0; l < LOADS; l++)
			for (uint32_t peers = 2; peers <= 64; peers += 1 + peers / 9) {
				const struct tw_reduction *r = tw_reduction_all[i];
				struct tw_reduction_load load = loads[l];
				double least;

				load.peers = peers;
				least = r->busiest(&load) * load.per_byte + load.latency;
				assert_true(tw_cost_reduction(r, &load) >= 0.999 * least);
			}
}

static uint32_t log2_of(uint32_t n) /* rounded down */
{
	return 31 - (uint32_t)__builtin_clz(n);
}

/* Two peers: there and back, of which all but one part is at once.  Any number in one part: up and
 * down, one after the other; where the number is no power of two, some hops are hidden behind
 * others. */
static void a_tree_takes_what_can_be_said_by_hand(void **state)
{
	const struct tw_reduction *tree = tw_reduction_find("tree");
	struct tw_reduction_load load = { 2, 4e6, 1e-3, 8e-8, 1e5 };

	NEAR_SHARE(tw_cost_reduction(tree, &load), 0.32 + 0.008 + 0.002, 1e-6, "two peers");
	load.part = load.bytes;
	for (load.peers = 2; load.peers <= 64; load.peers++) {
		const uint32_t full = log2_of(load.peers), up = log2_of(2 * load.peers - 1);
		char what[40];

		snprintf(what, sizeof what, "%u peers", load.peers);
		NEAR_SHARE(tw_cost_reduction(tree, &load),
			   2 * up * load.bytes * load.per_byte + 2 * full * load.latency,
			   full == up ? 1e-6 : 0.01, what);
	}
}

/* Ready at once: as if they began at once.  One much later than all others, by latency alone: its
 * way up, which is as long as its rank has bits, and all of the way down. */
static void who_is_late_is_waited_for(void **state)
{
	const struct tw_reduction *tree = tw_reduction_find("tree");
	struct tw_reduction_load load = { 64, 4e6, 1e-3, 8e-8, 1e5 };
	double ready[64];

	for (int k = 0; k < 64; k++)
		ready[k] = 7;
	NEAR_SHARE(tw_cost_reduction_left(tree, &load, ready), tw_cost_reduction(tree, &load), 1e-9,
		   "ready at once");
	load.per_byte = 0;
	ready[63] = 9;
	NEAR_SHARE(tw_cost_reduction(tree, &load), 12 * load.latency, 1e-9, "at once");
	/* three bits on average, 1.2 more or fewer, in eight orders */
	NEAR_SHARE(tw_cost_reduction_left(tree, &load, ready), (6 + 3) * load.latency, 0.12,
		   "one is late");
}

/* Earlier peers never make it take longer from the last one on. */
static void who_is_early_hides_some_of_the_way(void **state)
{
	for (size_t l = 0; l < LOADS; l++)
		for (uint32_t peers = 2; peers <= 64; peers += 1 + peers / 3) {
			const struct tw_reduction *tree = tw_reduction_find("tree");
			struct tw_reduction_load load = loads[l];
			double ready[64], all, left;

			load.peers = peers;
			all = tw_cost_reduction(tree, &load);
			for (uint32_t k = 0; k < peers; k++)
				ready[k] = all * k / peers;
			left = tw_cost_reduction_left(tree, &load, ready);
			assert_true(left <= 1.001 * all && left >= 0.3 * all);
			assert_true(peers < 8 || left < 0.98 * all);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_formula_says_what_the_moves_take),
		cmocka_unit_test(no_reduction_is_faster_than_its_busiest_card),
		cmocka_unit_test(a_tree_takes_what_can_be_said_by_hand),
		cmocka_unit_test(who_is_late_is_waited_for),
		cmocka_unit_test(who_is_early_hides_some_of_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
