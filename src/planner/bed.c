/* SPDX-License-Identifier: Apache-2.0 */
/* bed.c - the room of a search, and its list of the best plans. */
#include "planner/bed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool alike(const struct tw_planner_node *x, const struct tw_planner_node *y)
{
	return x->speed == y->speed && x->memory == y->memory && x->per_byte == y->per_byte &&
	       x->latency == y->latency && x->group == y->group;
}

/* Who should hold the parameters of a stage: the fastest card, then the most memory, then the
 * highest speed. */
static bool comes_before(const struct tw_planner *p, uint16_t i, uint16_t k)
{
	const struct tw_planner_node *x = &p->node[i], *y = &p->node[k];
	const double a = x->memory > 0 ? x->memory : INFINITY;
	const double b = y->memory > 0 ? y->memory : INFINITY;

	if (x->per_byte != y->per_byte)
		return x->per_byte < y->per_byte;
	if (a != b)
		return a > b;
	return x->speed != y->speed ? x->speed > y->speed : i < k;
}

static void find_classes(struct bed *b)
{
	const struct tw_planner *p = b->p;
	uint16_t place[TW_PLANNER_NODES];

	for (uint16_t i = 0; i < p->nodes; i++) {
		uint16_t k = 0, at = i;

		while (k < i && !alike(&p->node[i], &p->node[k]))
			k++;
		b->class[i] = k < i ? b->class[k] : (uint16_t)b->classes++;
		for (; at > 0 && comes_before(p, i, place[at - 1]); at--)
			place[at] = place[at - 1];
		place[at] = i;
		b->groups = p->node[i].group > b->groups ? p->node[i].group : b->groups;
		b->limited = b->limited || p->node[i].memory > 0;
	}
	for (uint16_t i = 0; i < p->nodes; i++)
		b->rank[place[i]] = i;
}

static void sum_up(const struct bed *b)
{
	const struct tw_planner *p = b->p;
	const struct bed_sums *s = &b->sum;

	for (uint32_t k = 0; k < p->parts; k++) {
		s->forward[k + 1] = s->forward[k] + p->part[k].forward;
		s->backward[k + 1] = s->backward[k] + p->part[k].backward;
		s->bytes[k + 1] = s->bytes[k] + p->part[k].bytes;
		s->stash[k + 1] = s->stash[k] + p->part[k].stash;
		s->counts[k + 1] = s->counts[k] + p->part[k].counts;
	}
}

static bool make_room(struct bed *b)
{
	const struct tw_planner *p = b->p;
	const size_t n = p->nodes, l = p->parts + 1, stream = (size_t)p->stream;
	const size_t stages = n < p->parts ? n : p->parts;
	const size_t most = stages < TW_PLANNER_STAGES ? stages : TW_PLANNER_STAGES;
	struct bed_room *r = &b->room;

	b->sum.forward = calloc(4 * l, sizeof(double));
	b->sum.counts = calloc(l, sizeof *b->sum.counts);
	b->rank = calloc(2 * n, sizeof *b->rank);
	b->keeps = calloc((p->micros + (size_t)1) * (n + 1), sizeof *b->keeps);
	b->card = calloc(2 * n, sizeof *b->card);
	b->best = calloc(TW_PLANNER_KEEP, sizeof *b->best);
	/* a list has two moves for each micro-batch, and an update for each of them at most */
	r->moves = calloc(3 * most * stream + 3 * n, sizeof *r->moves);
	r->move = calloc(n, sizeof *r->move);
	r->count = calloc(n, sizeof *r->count);
	r->times = calloc(most, sizeof *r->times);
	r->cell = calloc(n, sizeof *r->cell);
	r->done = calloc(TW_DEEDS * most * stream, sizeof *r->done);
	r->speed = calloc((3 + 2 * n) * n, sizeof *r->speed);
	r->by = calloc(most * stream, sizeof *r->by);
	if (!b->sum.forward || !b->sum.counts || !b->rank || !b->keeps || !b->card || !b->best ||
	    !r->moves || !r->move || !r->count || !r->times || !r->cell || !r->done || !r->speed ||
	    !r->by)
		return false;
	b->sum.backward = b->sum.forward + l;
	b->sum.bytes = b->sum.backward + l;
	b->sum.stash = b->sum.bytes + l;
	b->class = b->rank + n;
	r->latency = r->speed + n;
	r->per_byte = r->latency + n * n;
	r->push = r->per_byte + n * n;
	r->answer = r->push + n;
	return true;
}

enum tw_status tw_bed_init(struct bed *b, const struct tw_planner *p)
{
	const struct tw_pipe_shape shape = { 2, p->micros, NULL };

	*b = (struct bed){ .p = p, .work_most = p->effort > 0 ? p->effort : TW_PLANNER_EFFORT };
	if (!make_room(b)) {
		tw_bed_release(b);
		return TW_NO_MEMORY;
	}
	b->steady = tw_pipeline_reads(p->schedule, p->options, &shape, 0) == TW_PIPE_NEWEST;
	find_classes(b);
	sum_up(b);
	b->group = calloc(2 * (b->groups + 1), sizeof *b->group);
	if (b->group)
		return TW_OK;
	tw_bed_release(b);
	return TW_NO_MEMORY;
}

void tw_bed_release(struct bed *b)
{
	void *const all[] = { b->sum.forward, b->sum.counts, b->rank,       b->keeps,
			      b->card,        b->group,      b->best,       b->room.moves,
			      b->room.move,   b->room.count, b->room.times, b->room.cell,
			      b->room.done,   b->room.speed, b->room.by };

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		free(all[k]);
}

void tw_bed_order(const struct bed *b, struct tw_planner_plan *q)
{
	uint32_t first = 0;

	q->cells = 0;
	for (uint32_t s = 0; s < q->stages; s++) {
		for (uint32_t i = 1; i < q->lanes[s]; i++) {
			const uint16_t one = q->node[first + i];
			uint32_t at = first + i;

			for (; at > first && b->rank[one] < b->rank[q->node[at - 1]]; at--)
				q->node[at] = q->node[at - 1];
			q->node[at] = one;
		}
		first += q->lanes[s];
	}
	q->cells = first;
}

/* --- the best plans -------------------------------------------------------------------------- */

/* Same cuts, and machines of the same classes in the same lanes? */
static bool same(const struct bed *b, const struct tw_planner_plan *x,
		 const struct tw_planner_plan *y)
{
	if (x->stages != y->stages || x->cells != y->cells)
		return false;
	for (uint32_t s = 0; s < x->stages; s++)
		if (x->cut[s] != y->cut[s] || x->lanes[s] != y->lanes[s])
			return false;
	for (uint32_t c = 0; c < x->cells; c++)
		if (b->class[x->node[c]] != b->class[y->node[c]])
			return false;
	return true;
}

/* Of equally fast plans the one with fewer machines, then with fewer stages. */
static bool better(const struct tw_planner_plan *x, const struct tw_planner_plan *y)
{
	if (x->estimate != y->estimate)
		return x->estimate < y->estimate;
	return x->cells != y->cells ? x->cells < y->cells : x->stages < y->stages;
}

void tw_bed_offer(struct bed *b, const struct tw_planner_plan *plan)
{
	uint32_t at;

	if (!(plan->estimate < INFINITY))
		return;
	for (uint32_t k = 0; k < b->count; k++)
		if (same(b, &b->best[k], plan))
			return;
	if (b->count == TW_PLANNER_KEEP) {
		if (!better(plan, &b->best[b->count - 1]))
			return;
		b->count--;
	}
	for (at = b->count++; at > 0 && better(plan, &b->best[at - 1]); at--)
		b->best[at] = b->best[at - 1];
	b->best[at] = *plan;
}

bool tw_bed_even(const struct bed *b, uint32_t stages, uint16_t *cut)
{
	const uint32_t parts = b->p->parts;
	const double all = b->sum.forward[parts] + b->sum.backward[parts];
	uint32_t at = 0;

	if (stages > b->sum.counts[parts])
		return false;
	cut[0] = 0;
	for (uint32_t s = 1; s < stages; s++) {
		const double aim = all * s / stages;
		uint32_t to = at + 1;

		while (b->sum.counts[to] == b->sum.counts[at])
			to++;
		/* as near as possible, while enough is left for the others */
		while (to + 1 < parts &&
		       b->sum.counts[parts] - b->sum.counts[to + 1] >= stages - s &&
		       fabs(b->sum.forward[to + 1] + b->sum.backward[to + 1] - aim) <=
			       fabs(b->sum.forward[to] + b->sum.backward[to] - aim))
			to++;
		cut[s] = (uint16_t)(at = to);
	}
	cut[stages] = (uint16_t)parts;
	return b->sum.counts[parts] > b->sum.counts[at];
}
