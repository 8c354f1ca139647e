/* SPDX-License-Identifier: Apache-2.0 */
/* improve.c - from plans to their neighbours while they get better.
 *
 * Neighbours: a cut that moves; a machine that goes to another stage, or out, or comes in; two
 * machines of different classes that change places; two stages that become one; a stage that
 * becomes two. */
#include "planner/bed.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STARTS      16 /* best plans to go on from ... */
#define STARTS_MORE 24 /* ... and random ones */
#define OUT         (-1)

/* A plan that is easy to change: which stage each machine is in. */
struct draft {
	uint32_t stages;
	uint16_t cut[TW_PLANNER_STAGES + 1];
	int16_t of[TW_PLANNER_NODES];
};

struct climb {
	struct bed *b;
	struct draft now;
	struct tw_planner_plan plan; /* of now */
	double slack;                /* neighbours that are so much better are taken */
	double excess;               /* of memory; 0: the plan fits */
};

static void draft_of(const struct bed *b, const struct tw_planner_plan *q, struct draft *d)
{
	uint32_t at = 0;

	d->stages = q->stages;
	memcpy(d->cut, q->cut, sizeof d->cut);
	for (uint32_t i = 0; i < b->p->nodes; i++)
		d->of[i] = OUT;
	for (uint32_t s = 0; s < q->stages; s++)
		for (uint32_t l = 0; l < q->lanes[s]; l++)
			d->of[q->node[at++]] = (int16_t)s;
}

/* False: a stage has no machine, or too many. */
static bool plan_of(const struct bed *b, const struct draft *d, struct tw_planner_plan *q)
{
	uint32_t first[TW_PLANNER_STAGES], at = 0;

	q->stages = d->stages;
	memcpy(q->cut, d->cut, sizeof q->cut);
	memset(q->lanes, 0, sizeof q->lanes);
	for (uint32_t i = 0; i < b->p->nodes; i++)
		if (d->of[i] != OUT)
			q->lanes[d->of[i]]++;
	for (uint32_t s = 0; s < d->stages; s++) {
		if (!q->lanes[s] || (!b->p->lanes && q->lanes[s] > 1))
			return false;
		first[s] = at;
		at += q->lanes[s];
	}
	for (uint32_t i = 0; i < b->p->nodes; i++)
		if (d->of[i] != OUT)
			q->node[first[d->of[i]]++] = (uint16_t)i;
	tw_bed_order(b, q);
	return true;
}

/* A plan that does not fit is better if it comes nearer to that. */
static bool fits_better(struct climb *c, const struct tw_planner_plan *q)
{
	double excess;

	if (c->excess <= 0 || !tw_bed_allows(c->b, q))
		return false;
	excess = tw_bed_excess(c->b, q, true);
	if (excess <= 0 || excess >= c->excess * (1 - c->slack))
		return false;
	c->excess = excess;
	return true;
}

/* The draft as it was changed: is it better?  Else it becomes again what it was. */
static bool take(struct climb *c, const struct draft *before)
{
	struct tw_planner_plan q;

	if (c->b->work < c->b->work_most && plan_of(c->b, &c->now, &q)) {
		if (tw_bed_price(c->b, &q, c->plan.estimate * (1 - c->slack)) < INFINITY) {
			c->plan = q;
			c->excess = 0;
			tw_bed_offer(c->b, &q);
			return true;
		}
		if (fits_better(c, &q))
			return true;
	}
	c->now = *before;
	return false;
}

static bool move_cuts(struct climb *c)
{
	static const int by[] = { 1, -1, 2, -2, 4, -4 };
	const struct draft before = c->now;

	for (uint32_t k = 1; k < before.stages; k++)
		for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
			const int to = before.cut[k] + by[i];

			if (to <= before.cut[k - 1] || to >= before.cut[k + 1])
				continue;
			c->now.cut[k] = (uint16_t)to;
			if (take(c, &before))
				return true;
		}
	return false;
}

/* Two cuts at once: a stage that moves as a whole, or grows or shrinks on both sides. */
static bool move_two_cuts(struct climb *c)
{
	const struct draft before = c->now;

	for (uint32_t k = 1; k + 1 < before.stages; k++)
		for (uint32_t j = k + 1; j < before.stages; j++)
			for (int way = 0; way < 4; way++) {
				uint16_t *cut = c->now.cut;

				cut[k] = (uint16_t)(before.cut[k] + (way & 1 ? 1 : -1));
				cut[j] = (uint16_t)(before.cut[j] + (way & 2 ? 1 : -1));
				if (cut[k] <= cut[k - 1] || cut[k] >= cut[k + 1] ||
				    cut[j] <= cut[j - 1] || cut[j] >= cut[j + 1]) {
					c->now = before;
					continue;
				}
				if (take(c, &before))
					return true;
			}
	return false;
}

/* Is there an earlier machine like this one, in the same stage? */
static bool seen_before(const struct bed *b, const struct draft *d, uint32_t node)
{
	for (uint32_t i = 0; i < node; i++)
		if (d->of[i] == d->of[node] && b->class[i] == b->class[node])
			return true;
	return false;
}

static bool move_machines(struct climb *c)
{
	const struct draft before = c->now;
	const uint32_t n = c->b->p->nodes;

	for (uint32_t i = 0; i < n; i++) {
		if (seen_before(c->b, &before, i))
			continue;
		for (int to = OUT; to < (int)before.stages; to++) {
			if (to == before.of[i])
				continue;
			c->now.of[i] = (int16_t)to;
			if (take(c, &before))
				return true;
			/* ... with a cut that follows it */
			for (int k = 1; to != OUT && k < (int)before.stages; k++)
				for (int by = -1; by <= 1; by += 2) {
					const int cut = before.cut[k] + by;

					if ((k != to && k != to + 1) || cut <= before.cut[k - 1] ||
					    cut >= before.cut[k + 1])
						continue;
					c->now.of[i] = (int16_t)to;
					c->now.cut[k] = (uint16_t)cut;
					if (take(c, &before))
						return true;
				}
		}
	}
	return false;
}

static bool swap_machines(struct climb *c)
{
	const struct draft before = c->now;
	const struct bed *b = c->b;

	for (uint32_t i = 0; i < b->p->nodes; i++) {
		if (seen_before(b, &before, i))
			continue;
		for (uint32_t k = i + 1; k < b->p->nodes; k++) {
			if (b->class[i] == b->class[k] || before.of[i] == before.of[k] ||
			    seen_before(b, &before, k))
				continue;
			c->now.of[i] = before.of[k];
			c->now.of[k] = before.of[i];
			if (take(c, &before))
				return true;
		}
	}
	return false;
}

static bool merge_stages(struct climb *c)
{
	const struct draft before = c->now;

	for (uint32_t s = 0; s + 1 < before.stages; s++)
		for (int keep = 0; keep < 3; keep++) { /* machines of both, or of one of them */
			c->now.stages--;
			for (uint32_t k = s + 1; k < before.stages; k++)
				c->now.cut[k] = before.cut[k + 1];
			for (uint32_t i = 0; i < c->b->p->nodes; i++) {
				const int of = before.of[i];

				if ((keep == 1 && of == (int)s + 1) || (keep == 2 && of == (int)s))
					c->now.of[i] = OUT;
				else if (of > (int)s)
					c->now.of[i] = (int16_t)(of - 1);
			}
			if (take(c, &before))
				return true;
		}
	return false;
}

/* Stage s becomes two at this border; its first machines, or machine `with`, go to the first. */
static void split(struct draft *d, uint32_t nodes, uint32_t s, uint32_t at)
{
	for (uint32_t k = d->stages + 1; k > s + 1; k--)
		d->cut[k] = d->cut[k - 1];
	d->cut[s + 1] = (uint16_t)at;
	d->stages++;
	for (uint32_t i = 0; i < nodes; i++)
		if (d->of[i] > (int)s)
			d->of[i]++;
}

static bool split_stages(struct climb *c)
{
	const struct draft before = c->now;
	const struct bed *b = c->b;

	if (before.stages == TW_PLANNER_STAGES || before.stages == b->p->nodes)
		return false;
	for (uint32_t s = 0; s < before.stages; s++)
		for (uint32_t at = before.cut[s] + 1u; at < before.cut[s + 1]; at++)
			for (uint32_t i = 0; i < b->p->nodes; i++) {
				const int of = before.of[i];

				if ((of != OUT && of != (int)s) || seen_before(b, &before, i))
					continue;
				for (uint32_t behind = 0; behind < 2; behind++) {
					/* one machine alone, on either side */
					split(&c->now, b->p->nodes, s, at);
					for (uint32_t k = 0; k < b->p->nodes; k++)
						if (before.of[k] == (int)s)
							c->now.of[k] = (int16_t)(s + !behind);
					c->now.of[i] = (int16_t)(s + behind);
					if (take(c, &before))
						return true;
				}
			}
	return false;
}

static void climb(struct climb *c)
{
	while (c->b->work < c->b->work_most &&
	       (move_cuts(c) || move_machines(c) || swap_machines(c) || merge_stages(c) ||
		split_stages(c) || move_two_cuts(c)))
		;
}

/* --- where to begin -------------------------------------------------------------------------- */

static void offer(struct bed *b, const struct draft *d)
{
	struct tw_planner_plan q;

	if (plan_of(b, d, &q) && tw_bed_price(b, &q, INFINITY) < INFINITY)
		tw_bed_offer(b, &q);
}

/* One machine of each class, all machines in turn, and even cuts: planner.h (4). */
void tw_bed_simple(struct bed *b)
{
	const uint32_t n = b->p->nodes;
	struct draft d = { .stages = 1 };

	d.cut[1] = (uint16_t)b->p->parts;
	offer(b, &d);
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < n; k++)
			d.of[k] = k == i ? 0 : OUT;
		offer(b, &d);
	}
	for (uint32_t k = 2; k <= n && k <= TW_PLANNER_STAGES; k++) {
		d.stages = k;
		if (!tw_bed_even(b, k, d.cut))
			return;
		for (uint32_t i = 0; i < n; i++)
			d.of[i] = i < k ? (int16_t)i : OUT;
		offer(b, &d);
	}
}

/* Any cuts, any machines; each stage has one. */
static void draw(const struct bed *b, uint32_t number, struct draft *d)
{
	const struct tw_rng rng = tw_rng_make(number, TW_RNG_PLAN);
	const uint32_t n = b->p->nodes, parts = b->p->parts;
	const uint32_t counts = b->sum.counts[parts];
	uint32_t most = n < counts ? n : counts, order[TW_PLANNER_NODES], left;

	most = most < TW_PLANNER_STAGES ? most : TW_PLANNER_STAGES;
	d->stages = 1 + (uint32_t)(tw_rng_uniform(&rng, 1, 0) * most);
	left = d->stages - 1;
	for (uint32_t at = 1, s = 1; left && at < parts; at++)
		if (tw_rng_uniform(&rng, 2, at) * (parts - at) < left) {
			d->cut[s++] = (uint16_t)at;
			left--;
		}
	d->cut[0] = 0;
	d->cut[d->stages] = (uint16_t)parts;
	for (uint32_t k = 0; k < n; k++) {
		const uint32_t with = (uint32_t)(tw_rng_uniform(&rng, 3, k) * (k + 1));

		order[k] = order[with];
		order[with] = k;
	}
	for (uint32_t k = 0; k < n; k++)
		d->of[order[k]] = k < d->stages ? (int16_t)k
				  : b->p->lanes ? (int16_t)(tw_rng_uniform(&rng, 4, k) * d->stages)
						: OUT;
}

enum tw_status tw_bed_improve(struct bed *b)
{
	struct tw_planner_plan *start = malloc(STARTS * sizeof *start);
	const uint32_t starts = b->count < STARTS ? b->count : STARTS;
	struct climb c = { .b = b, .slack = 1e-9 };

	if (!start)
		return TW_NO_MEMORY;
	memcpy(start, b->best, starts * sizeof *start);
	for (uint32_t k = 0; k < starts; k++) {
		c.plan = start[k];
		draft_of(b, &c.plan, &c.now);
		climb(&c);
	}
	for (uint32_t k = 0; k < STARTS_MORE && b->work < b->work_most; k++) {
		draw(b, k, &c.now);
		if (!plan_of(b, &c.now, &c.plan))
			continue;
		tw_bed_price(b, &c.plan, INFINITY);
		c.excess = 0;
		if (c.plan.estimate < INFINITY)
			tw_bed_offer(b, &c.plan);
		else if (tw_bed_allows(b, &c.plan))
			c.excess = tw_bed_excess(b, &c.plan, true);
		else
			c.excess = INFINITY;
		climb(&c);
	}
	free(start);
	return TW_OK;
}
