/* SPDX-License-Identifier: Apache-2.0 */
/* search.c - all plans where they are few; else dynamic programming and local search. */
#include "planner/bed.h"

#include <math.h>
#include <string.h>

enum tw_status tw_planner_search(const struct tw_planner *p, struct tw_planner_plan *out,
				 uint32_t most, struct tw_planner_found *found)
{
	const double few = (double)(p->most ? p->most : TW_PLANNER_MOST);
	struct bed b;
	enum tw_status st = tw_bed_init(&b, p);

	if (st != TW_OK)
		return st;
	*found = (struct tw_planner_found){ .possible = tw_bed_possible(&b) };
	found->all = found->possible <= few;
	if (found->all) {
		tw_bed_enumerate(&b);
	} else {
		tw_bed_simple(&b);
		st = tw_bed_partition(&b);
		if (st == TW_OK)
			st = tw_bed_improve(&b);
	}
	for (uint32_t k = 0; k < b.count && k < most; k++)
		b.best[k].seconds = tw_bed_flow(&b, &b.best[k]);
	found->played = b.played;
	found->count = b.count < most ? b.count : most;
	memcpy(out, b.best, found->count * sizeof *out);
	tw_bed_release(&b);
	return st;
}

bool tw_planner_price(const struct tw_planner *p, struct tw_planner_plan *plan)
{
	struct bed b;
	bool good;

	if (tw_bed_init(&b, p) != TW_OK)
		return false;
	good = tw_bed_price(&b, plan, INFINITY) < INFINITY;
	if (good)
		plan->seconds = tw_bed_flow(&b, plan);
	tw_bed_release(&b);
	return good;
}

bool tw_planner_even(const struct tw_planner *p, uint32_t stages, uint16_t *cut)
{
	struct bed b;
	bool good;

	if (tw_bed_init(&b, p) != TW_OK)
		return false;
	good = tw_bed_even(&b, stages, cut);
	tw_bed_release(&b);
	return good;
}
