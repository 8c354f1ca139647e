/* SPDX-License-Identifier: Apache-2.0 */
/* test_balance.c - cuts by cost are the best there are, as trying all of them shows; cuts by name
 * are where people count, or refused with what is near. */
#include "engine/quadratic.h"
#include "engine/stages.h"
#include "base/refusing.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PARTS_MAX 9u

struct outcome {
	double dearest, crossing;
	uint32_t cut[PARTS_MAX];
	bool found;
};

/* By adding up, part by part. */
static struct outcome judge(const struct tw_stage_costs *c, uint32_t stages, const uint32_t *cut)
{
	struct outcome o = { .found = true };

	for (uint32_t s = 0; s < stages; s++) {
		const size_t from = s ? cut[s - 1] : 0, to = s + 1 < stages ? cut[s] : c->parts;
		double sum = (c->cross && s ? c->cross[from] : 0) +
			     (c->cross && s + 1 < stages ? c->cross[to] : 0);
		bool counts = !c->counts;

		for (size_t k = from; k < to; k++) {
			sum += c->compute[k];
			counts |= c->counts && c->counts[k];
		}
		o.found &= counts && from < to;
		o.dearest = fmax(o.dearest, sum / (c->lanes ? c->lanes[s] : 1));
		if (s && c->cross)
			o.crossing += c->cross[from];
	}
	memcpy(o.cut, cut, (stages - 1) * sizeof *cut);
	return o;
}

static void try_all(const struct tw_stage_costs *c, uint32_t stages, uint32_t *cut, uint32_t k,
		    struct outcome *best)
{
	if (k + 1 == stages) {
		const struct outcome o = judge(c, stages, cut);

		if (o.found && (!best->found || o.dearest < best->dearest ||
				(o.dearest == best->dearest && o.crossing < best->crossing)))
			*best = o;
		return;
	}
	for (uint32_t at = k ? cut[k - 1] + 1 : 1; at < c->parts; at++) { /* the earliest first */
		cut[k] = at;
		try_all(c, stages, cut, k + 1, best);
	}
}

/* Whole numbers, so that sums are exact and ties are ties. */
static void balances_as_well_as_can_be(void **state)
{
	for (uint64_t seed = 0; seed < 3000; seed++) {
		const struct tw_rng r = tw_rng_make(seed, TW_RNG_PROBLEM);
		double compute[PARTS_MAX], cross[PARTS_MAX + 1];
		bool counts[PARTS_MAX];
		const uint32_t lanes[] = { 1u << seed / 5 % 3, 1, 1u << seed % 4, 2, 1 };
		const struct tw_stage_costs c = {
			.compute = compute,
			.lanes = seed % 5 < 2 ? lanes : NULL,
			.cross = seed % 3 ? cross : NULL,
			.counts = seed % 2 ? counts : NULL,
			.parts = 1 + seed % PARTS_MAX,
		};
		const uint32_t stages = 1 + (uint32_t)(tw_rng_u64(&r, 9, 0) % 5);
		uint32_t cut[PARTS_MAX] = { 0 }, said[PARTS_MAX] = { 0 };
		struct outcome best = { .found = false };
		enum tw_status st;

		for (size_t k = 0; k <= PARTS_MAX; k++)
			cross[k] = (double)(tw_rng_u64(&r, 2, k) % 6);
		for (size_t k = 0; k < PARTS_MAX; k++) {
			compute[k] = (double)(tw_rng_u64(&r, 1, k) % 12);
			counts[k] = tw_rng_u64(&r, 3, k) % 3 > 0;
		}
		if (stages <= c.parts)
			try_all(&c, stages, cut, 0, &best);
		st = tw_stages_balance(&tw_heap_system, &c, stages, said);
		if (st != (best.found ? TW_OK : TW_ABSENT) ||
		    memcmp(said, best.cut, best.found ? (stages - 1) * sizeof *said : 0))
			fail_msg("seed %llu: %zu parts in %u stages: %u %u %u instead of %u %u %u",
				 (unsigned long long)seed, c.parts, stages, said[0], said[1],
				 said[2], best.cut[0], best.cut[1], best.cut[2]);
	}
}

static void balances_without_memory(void **state)
{
	const double compute[] = { 1, 2, 3 };
	const struct tw_stage_costs c = { .compute = compute, .parts = 3 };
	struct refusing heap = REFUSING(1);
	uint32_t cut[2];

	assert_int_equal(tw_stages_balance(&heap.heap, &c, 2, cut), TW_NO_MEMORY);
	assert_int_equal(tw_stages_balance(&tw_heap_system, &c, 2, cut), TW_OK);
	assert_int_equal(cut[0], 2);
	assert_int_equal(tw_stages_balance(&tw_heap_system, &c, 4, cut), TW_ABSENT);
	assert_int_equal(tw_stages_balance(&tw_heap_system, &c, 0, cut), TW_ABSENT);
}

static void costs_by_operations(void **state)
{
	static const double one[] = { 1 };
	const struct tw_quadratic_options o = { .dimension = 12,
						.curvature = { one, 1 },
						.stages = 4 };
	struct tw_engine *e = tw_quadratic_open(&tw_heap_system, &o, 8, 1);
	double compute[4], cross[5];
	bool counts[4];
	const struct tw_stage_costs c = {
		.compute = compute, .cross = cross, .counts = counts, .parts = 4
	};
	uint32_t cut[3];

	tw_stages_flops(e, compute, cross, counts);
	for (int k = 0; k < 4; k++)
		assert_true(counts[k] && fabs(compute[k] * 4 - e->cost) < 1e-9);
	assert_true(cross[1] == 40 && cross[2] == 40 && cross[3] == 40);
	assert_int_equal(tw_stages_balance(&tw_heap_system, &c, 2, cut), TW_OK);
	assert_int_equal(cut[0], 2);
	e->class->close(e);
}

/* --- by name ---------------------------------------------------------------------------------- */

static const struct tw_model_cut some[] = {
	{ .after = "" },    { .after = "1" },   { .after = "3" },
	{ .after = "4.1" }, { .after = "4.3" }, { .after = "4.shortcut.1" },
	{ .after = "4" },   { .after = "10" },  { .after = "" },
};
static const struct tw_engine named = { .cut = some, .cuts = sizeof some / sizeof some[0] };

static void finds_layers_by_number(void **state)
{
	const char *const after[] = { "3", "4.3", "4.shortcut.1", "4", "10" };
	uint32_t cut[5];
	struct tw_error why = { 0 };

	assert_int_equal(tw_stages_find(&named, after, 5, cut, &why), TW_OK);
	assert_true(cut[0] == 2 && cut[1] == 4 && cut[2] == 5 && cut[3] == 6 && cut[4] == 7);
	assert_int_equal(tw_stages_find(&named, after, 0, cut, &why), TW_OK);
}

static void says_what_is_near(void **state)
{
	static const struct {
		const char *first, *second, *says;
	} bad[] = {
		{ "2", NULL, "after layer 2 (" },
		{ "2", NULL, "can be cut: 1 and 3" },
		{ "4.2", NULL, "can be cut: 4.1 and 4.3" },
		{ "4.9", NULL, "can be cut: 4.3 and 4.shortcut.1" },
		{ "4.shortcut.2", NULL, "can be cut: 4.shortcut.1 and 4" },
		{ "7", NULL, "can be cut: 4 and 10" },
		{ "11", NULL, "can be cut: 10" },
		{ "0", NULL, "'0' is not the number of a layer" },
		{ "-1", NULL, "'-1' is not the number of a layer" },
		{ "conv", NULL, "'conv' is not the number of a layer" },
		{ "3", "3", "layer 3 does not come after layer 3" },
		{ "10", "4", "layer 4 does not come after layer 10" },
	};

	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
		const char *const after[] = { bad[k].first, bad[k].second };
		struct tw_error why = { 0 };
		uint32_t cut[2];

		assert_int_equal(tw_stages_find(&named, after, bad[k].second ? 2 : 1, cut, &why),
				 TW_BAD_INPUT);
		if (!strstr(why.text, bad[k].says))
			fail_msg("'%s' instead of '%s'", why.text, bad[k].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(balances_as_well_as_can_be),
		cmocka_unit_test(balances_without_memory),
		cmocka_unit_test(costs_by_operations),
		cmocka_unit_test(finds_layers_by_number),
		cmocka_unit_test(says_what_is_near),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
