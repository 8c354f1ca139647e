/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - dynamic programming: machines stand in a row, and stages take them from its left.
 *
 * For each row, first the least cost of the dearest stage (per micro-batch, with what its cards
 * carry); then, for several limits from there on, the plan that fills and drains fastest among
 * those whose stages cost no more: a limit that is a little too high may fill much faster. */
#include "planner/bed.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

#define ROWS_DRAWN 6
#define LARGE      1024 /* parts times machines: fewer rows and limits */

static const double limits[] = { 1, 1.15, 1.6, 1.05, 1.3, 2.2, 4 };

/* A row of machines, and what is behind each (part, machine). */
struct table {
	struct bed *b;
	uint16_t row[TW_PLANNER_NODES];
	double *best;         /* [part * (nodes + 1) + machine] */
	uint16_t *to, *lanes; /* the stage that begins there; lanes 0: the machine is left out */
};

static double *best_at(const struct table *t, uint32_t part, uint32_t node)
{
	return &t->best[part * (t->b->p->nodes + 1) + node];
}

/* A stage of parts from..to - 1 on some machines of the row. */
struct stage {
	uint32_t from, to, lanes, behind;
	double slowest, per_byte, memory; /* of its machines; memory: the least, 0 is none */
};

/* Seconds for a micro-batch, of computing or of the busiest card. */
static double cost_of(const struct bed *b, const struct stage *s, bool recompute)
{
	const struct tw_planner *p = b->p;
	const double forward = b->sum.forward[s->to] - b->sum.forward[s->from];
	const double backward = b->sum.backward[s->to] - b->sum.backward[s->from];
	const double bytes = b->sum.bytes[s->to] - b->sum.bytes[s->from];
	const double pass = (forward + backward + (recompute ? forward : 0)) / s->slowest;
	const double in = s->from ? p->border[s->from - 1].forward : 0;
	const double out = s->to < p->parts ? p->border[s->to - 1].backward : 0;
	const double updates = (s->lanes - 1) * bytes * fmax(p->up, p->down) / p->micros;
	const bool shared = p->schedule->traits & TW_PIPELINE_FLUSHES;

	return fmax(pass / s->lanes,
		    ((in + out) / s->lanes + updates / (shared ? 1 : s->lanes)) * s->per_byte);
}

/* Seconds that the first micro-batch is longer under way because of this stage. */
static double fill_of(const struct bed *b, const struct stage *s, bool recompute)
{
	const struct tw_planner *p = b->p;
	const double forward = b->sum.forward[s->to] - b->sum.forward[s->from];
	const double backward = b->sum.backward[s->to] - b->sum.backward[s->from];
	const double in = s->from ? p->border[s->from - 1].forward : 0;
	const double back = s->from ? p->border[s->from - 1].backward : 0;

	return (forward + backward + (recompute ? forward : 0)) / s->slowest +
	       (in + back) * s->per_byte;
}

static bool fits(const struct bed *b, const struct stage *s, bool recompute)
{
	const struct tw_planner *p = b->p;
	const double vector = b->sum.bytes[s->to] - b->sum.bytes[s->from];
	const double stash = b->sum.stash[s->to] - b->sum.stash[s->from];
	const double input = s->from ? p->border[s->from - 1].forward : 0;
	struct tw_pipe_keeps k;

	if (s->memory <= 0)
		return true;
	k = tw_bed_keeps(b, s->lanes, s->behind);
	return (k.versions + (p->micros > 1 ? 2 : 1) + p->kept) * vector +
		       k.depth * (input + (recompute ? 0 : stash)) <=
	       s->memory;
}

/* Stages that begin with this part on this machine.  limit INFINITY: the least cost of the dearest
 * stage; else the least sum of what stages fill. */
static void fill_one(const struct table *t, uint32_t part, uint32_t node, double limit,
		     bool recompute)
{
	const struct bed *b = t->b;
	const struct tw_planner *p = b->p;
	const uint32_t most = p->lanes ? p->nodes - node : 1;
	const size_t here = part * (p->nodes + 1) + node;
	struct stage s = { .from = part, .slowest = INFINITY };

	t->best[here] = *best_at(t, part, node + 1);
	t->lanes[here] = 0;
	for (s.lanes = 1; s.lanes <= most; s.lanes++) {
		const struct tw_planner_node *n = &p->node[t->row[node + s.lanes - 1]];

		s.slowest = fmin(s.slowest, n->speed);
		s.per_byte = fmax(s.per_byte, n->per_byte);
		if (n->memory > 0 && (s.memory <= 0 || n->memory < s.memory))
			s.memory = n->memory;
		s.behind = p->nodes - node - s.lanes;
		for (s.to = part + 1; s.to <= p->parts; s.to++) {
			const double rest = *best_at(t, s.to, node + s.lanes);
			double own, way;

			if (b->sum.counts[s.to] == b->sum.counts[part] || !(rest < INFINITY))
				continue;
			own = cost_of(b, &s, recompute);
			if (limit < INFINITY) {
				if (own > limit)
					continue;
				way = rest + fill_of(b, &s, recompute);
			} else {
				way = fmax(own, rest);
			}
			if (way >= t->best[here] || !fits(b, &s, recompute))
				continue;
			t->best[here] = way;
			t->to[here] = (uint16_t)s.to;
			t->lanes[here] = (uint16_t)s.lanes;
		}
	}
}

static double fill_table(const struct table *t, double limit, bool recompute)
{
	const struct tw_planner *p = t->b->p;

	for (uint32_t node = 0; node <= p->nodes; node++)
		*best_at(t, p->parts, node) = 0;
	for (uint32_t part = p->parts; part-- > 0;) {
		*best_at(t, part, p->nodes) = INFINITY;
		for (uint32_t node = p->nodes; node-- > 0;)
			fill_one(t, part, node, limit, recompute);
	}
	return *best_at(t, 0, 0);
}

/* The plan of the table, priced and offered. */
static void read_plan(const struct table *t)
{
	const struct tw_planner *p = t->b->p;
	struct tw_planner_plan q = { .stages = 0 };
	uint32_t part = 0, node = 0;

	while (part < p->parts) {
		const size_t here = part * (p->nodes + 1) + node;
		const uint32_t lanes = t->lanes[here];

		if (!lanes) {
			node++;
			continue;
		}
		if (q.stages == TW_PLANNER_STAGES)
			return;
		q.lanes[q.stages++] = (uint16_t)lanes;
		for (uint32_t l = 0; l < lanes; l++)
			q.node[q.cells++] = t->row[node++];
		part = q.cut[q.stages] = t->to[here];
	}
	tw_bed_order(t->b, &q);
	tw_bed_price(t->b, &q, INFINITY);
	tw_bed_offer(t->b, &q);
}

static void try_row(const struct table *t, bool recompute)
{
	const struct tw_planner *p = t->b->p;
	const size_t count = p->parts * p->nodes > LARGE ? 3 : sizeof limits / sizeof limits[0];
	const double least = fill_table(t, INFINITY, recompute);

	if (!(least < INFINITY))
		return;
	read_plan(t);
	for (size_t k = 0; k < count; k++) {
		if (fill_table(t, least * limits[k] * (1 + 1e-12), recompute) < INFINITY)
			read_plan(t);
	}
}

/* --- rows ------------------------------------------------------------------------------------ */

static int compare(const struct tw_planner_node *x, const struct tw_planner_node *y, int how)
{
	const double a[] = { x->speed, -x->speed, (double)x->group, x->memory };
	const double b[] = { y->speed, -y->speed, (double)y->group, y->memory };

	if (a[how] != b[how])
		return a[how] > b[how] ? -1 : 1;
	return x->speed > y->speed ? -1 : x->speed < y->speed;
}

#define ROWS_SORTED 4

static void make_row(struct table *t, int how)
{
	const struct tw_planner *p = t->b->p;

	for (uint16_t i = 0; i < p->nodes; i++) {
		uint32_t at = i;

		for (; at > 0 && compare(&p->node[i], &p->node[t->row[at - 1]], how) < 0; at--)
			t->row[at] = t->row[at - 1];
		t->row[at] = i;
	}
}

/* Machines of one class stay together. */
static void draw_row(struct table *t, uint32_t number)
{
	const struct bed *b = t->b;
	const struct tw_rng rng = tw_rng_make(number, TW_RNG_PLAN);
	uint32_t at = 0, order[TW_PLANNER_NODES];

	for (uint32_t k = 0; k < b->classes; k++) {
		const uint32_t with = (uint32_t)(tw_rng_uniform(&rng, 0, k) * (k + 1));

		order[k] = order[with];
		order[with] = k;
	}
	for (uint32_t k = 0; k < b->classes; k++)
		for (uint16_t i = 0; i < b->p->nodes; i++)
			if (b->class[i] == order[k])
				t->row[at++] = i;
}

enum tw_status tw_bed_partition(struct bed *b)
{
	const struct tw_planner *p = b->p;
	const size_t cells = ((size_t)p->parts + 1) * (p->nodes + 1);
	const bool large = p->parts * p->nodes > LARGE;
	const uint32_t drawn = b->classes > 2 && !large ? ROWS_DRAWN : 0;
	const uint32_t rows = b->classes > 1 ? ROWS_SORTED + drawn : 1;
	struct table t = { .b = b };

	t.best = malloc(cells * (sizeof *t.best + sizeof *t.to + sizeof *t.lanes));
	if (!t.best)
		return TW_NO_MEMORY;
	t.to = (uint16_t *)(t.best + cells);
	t.lanes = t.to + cells;
	for (uint32_t k = 0; k < rows; k++) {
		if (k < ROWS_SORTED)
			make_row(&t, (int)k);
		else
			draw_row(&t, k);
		try_row(&t, p->recompute);
		if (!b->count && !p->recompute)
			try_row(&t, true);
	}
	free(t.best);
	return TW_OK;
}
