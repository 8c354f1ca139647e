/* SPDX-License-Identifier: Apache-2.0 */
/* enumerate.c - all plans, where they are few. */
#include "planner/bed.h"

#include <math.h>

#define KEEP 8 /* of all plans so many best ones are of interest */

static double choose(double n, double k)
{
	double all = 1;

	for (double i = 1; i <= k; i++)
		all *= (n - k + i) / i;
	return all;
}

/* Ways to give machines to k stages, where each gets some and some may be left. */
static double shares(const struct bed *b, uint32_t k)
{
	uint32_t count[TW_PLANNER_NODES] = { 0 };
	double all = 0;

	for (uint32_t i = 0; i < b->p->nodes; i++)
		count[b->class[i]]++;
	for (uint32_t without = 0; without <= k; without++) {
		double ways = without % 2 ? -choose(k, without) : choose(k, without);

		for (uint32_t c = 0; c < b->classes; c++)
			ways *= choose(count[c] + k - without, k - without);
		all += ways;
	}
	return all;
}

double tw_bed_possible(const struct bed *b)
{
	const uint32_t cuts = b->sum.counts[b->p->parts];
	double all = 0;

	for (uint32_t k = 1; k <= b->p->nodes && k <= cuts && k <= TW_PLANNER_STAGES; k++)
		all += shares(b, k) * choose(b->p->parts - 1.0, k - 1.0);
	return all;
}

/* Machines that are not given to a stage yet, by class. */
struct walk {
	struct bed *b;
	struct tw_planner_plan now;
	uint32_t left[TW_PLANNER_NODES];
};

static void cut_from(struct walk *w, uint32_t stage, uint32_t from)
{
	struct bed *b = w->b;
	const uint32_t parts = b->p->parts, last = w->now.stages - 1;

	w->now.cut[stage] = (uint16_t)from;
	if (stage == last) {
		const double limit = b->count < KEEP
					     ? INFINITY
					     : nextafter(b->best[KEEP - 1].estimate, INFINITY);
		struct tw_planner_plan one = w->now;

		one.cut[one.stages] = (uint16_t)parts;
		if (tw_bed_price(b, &one, limit) < INFINITY)
			tw_bed_offer(b, &one);
		return;
	}
	for (uint32_t to = from + 1; to <= parts - (last - stage); to++)
		if (b->sum.counts[to] > b->sum.counts[from])
			cut_from(w, stage + 1, to);
}

/* The nodes of the stages, from how many of each class they have. */
static void cut_all(struct walk *w, uint8_t (*share)[TW_PLANNER_NODES])
{
	const struct bed *b = w->b;
	bool taken[TW_PLANNER_NODES] = { false };
	uint32_t at = 0;

	for (uint32_t s = 0; s < w->now.stages; s++) {
		const uint32_t first = at;

		for (uint32_t c = 0; c < b->classes; c++)
			for (uint32_t i = 0, n = share[s][c]; n > 0; i++)
				if (b->class[i] == c && !taken[i]) {
					taken[i] = true;
					w->now.node[at++] = (uint16_t)i;
					n--;
				}
		w->now.lanes[s] = (uint16_t)(at - first);
	}
	tw_bed_order(b, &w->now);
	cut_from(w, 0, 0);
}

/* Give machines of class c and of later ones to a stage that has `some` already. */
static void give(struct walk *w, uint8_t (*share)[TW_PLANNER_NODES], uint32_t stage, uint32_t c,
		 uint32_t some)
{
	const struct bed *b = w->b;
	const uint32_t had = w->left[c];

	if (stage == w->now.stages) {
		cut_all(w, share);
		return;
	}
	for (uint32_t n = 0; n <= had && (b->p->lanes || some + n <= 1); n++) {
		w->left[c] = had - n;
		share[stage][c] = (uint8_t)n;
		if (c + 1 < b->classes)
			give(w, share, stage, c + 1, some + n);
		else if (some + n > 0)
			give(w, share, stage + 1, 0, 0);
	}
	w->left[c] = had;
	share[stage][c] = 0;
}

void tw_bed_enumerate(struct bed *b)
{
	static const struct walk none;
	uint8_t share[TW_PLANNER_STAGES][TW_PLANNER_NODES] = { { 0 } };
	struct walk w = none;

	w.b = b;
	for (uint32_t i = 0; i < b->p->nodes; i++)
		w.left[b->class[i]]++;
	for (uint32_t k = 1;
	     k <= b->p->nodes && k <= TW_PLANNER_STAGES && k <= b->sum.counts[b->p->parts]; k++) {
		w.now.stages = k;
		give(&w, share, 0, 0, 0);
	}
}
