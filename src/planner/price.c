/* SPDX-License-Identifier: Apache-2.0 */
/* price.c - what a plan costs: its schedule is played, and its network cards are added up.
 *
 * Playing knows when a move can begin and how long links take; it does not know that messages of
 * several cells wait for each other at a card or at the link of a group.  Over the whole stream a
 * card takes at least what all its messages take.  Near that they wait, so the cost is the cube
 * root of the sum of cubes: nearly the longer of both, and 1.26 times both where they are equal. */
#include "planner/bed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the pieces of a plan ------------------------------------------------------------------- */

static double forward_of(const struct bed *b, const struct tw_planner_plan *q, uint32_t s)
{
	return b->sum.forward[q->cut[s + 1]] - b->sum.forward[q->cut[s]];
}

static double backward_of(const struct bed *b, const struct tw_planner_plan *q, uint32_t s)
{
	return b->sum.backward[q->cut[s + 1]] - b->sum.backward[q->cut[s]] +
	       (q->recompute ? forward_of(b, q, s) : 0);
}

static double bytes_of(const struct bed *b, const struct tw_planner_plan *q, uint32_t s)
{
	return b->sum.bytes[q->cut[s + 1]] - b->sum.bytes[q->cut[s]];
}

/* What crosses into stage s. */
static const struct tw_planner_border *into(const struct bed *b, const struct tw_planner_plan *q,
					    uint32_t s)
{
	return &b->p->border[q->cut[s] - 1];
}

static bool flushes(const struct bed *b)
{
	return b->p->schedule->traits & TW_PIPELINE_FLUSHES;
}

/* Micro-batches of the stream in this lane, at most. */
static double own_of(const struct bed *b, uint32_t lane, uint32_t lanes)
{
	const uint64_t n = b->p->stream, m = b->p->micros;
	const uint64_t cycle = flushes(b) ? m : lanes, rest = n % cycle;
	const uint64_t each = (cycle - lane + lanes - 1) / lanes;

	return (double)(n / cycle * each + (rest > lane ? (rest - lane + lanes - 1) / lanes : 0));
}

/* Updates of a lane in the stream. */
static double updates_of(const struct bed *b, double own, uint32_t lanes)
{
	const double n = (double)b->p->stream, m = b->p->micros;

	return flushes(b) ? ceil(n / m) : ceil(own / m);
}

/* --- limits ---------------------------------------------------------------------------------- */

bool tw_bed_allows(const struct bed *b, const struct tw_planner_plan *q)
{
	const struct tw_planner *p = b->p;
	uint32_t most = 1, least = UINT32_MAX;

	if (q->stages > 1 && tw_pipeline_least(p->schedule, p->options, q->stages) > p->micros)
		return false;
	if (p->stages_most && q->stages > p->stages_most)
		return false;
	for (uint32_t s = 0; s < q->stages; s++) {
		const uint32_t r = q->lanes[s];

		if (b->sum.counts[q->cut[s]] == b->sum.counts[q->cut[s + 1]])
			return false;
		most = r > most ? r : most;
		least = r > 1 && r < least ? r : least;
	}
	if (most == 1)
		return true;
	return p->lanes && (!flushes(b) || p->micros >= most) &&
	       p->micros <= p->ranges * (flushes(b) ? least : 1);
}

/* --- memory ---------------------------------------------------------------------------------- */

/* Of schedules whose forwards read the newest version.  Cells with as many micro-batches of a group
 * and as many cells behind each of them keep the same, whatever the lanes: few are walked through.
 */
struct tw_pipe_keeps tw_bed_keeps(const struct bed *b, uint32_t lanes, uint32_t behind)
{
	const struct tw_planner *p = b->p;
	const uint32_t ahead = (behind + lanes - 1) / lanes, own = (p->micros + lanes - 1) / lanes;
	const uint32_t like = flushes(b) ? (p->micros + own - 1) / own : 1;
	const uint32_t shape[] = { like, ahead * like };
	struct tw_pipe_keeps *known = &b->keeps[own * (p->nodes + 1) + ahead];

	if (!known->depth)
		*known = tw_pipeline_keeps(
			p->schedule, p->options,
			&(struct tw_pipe_shape){ ahead ? 2 : 1, p->micros, shape }, 0);
	return *known;
}

static struct tw_pipe_keeps keeps_of(const struct bed *b, const struct tw_planner_plan *q,
				     uint32_t s, uint32_t behind)
{
	const struct tw_planner *p = b->p;
	uint32_t lanes[TW_PLANNER_STAGES], first = 0;

	if (!b->steady) {
		for (uint32_t k = 0; k < q->stages; k++) {
			lanes[k] = q->lanes[k];
			first += k < s ? q->lanes[k] : 0;
		}
		return tw_pipeline_keeps(p->schedule, p->options,
					 &(struct tw_pipe_shape){ q->stages, p->micros, lanes },
					 first);
	}
	return tw_bed_keeps(b, q->lanes[s], behind);
}

double tw_bed_excess(struct bed *b, const struct tw_planner_plan *q, bool recompute)
{
	const struct tw_planner *p = b->p;
	uint32_t behind = q->cells, at = 0, ahead = 0;
	double excess = 0;

	if (!b->limited)
		return 0;
	for (uint32_t s = 0; s < q->stages; s++) {
		const double vector = bytes_of(b, q, s);
		const double input = s ? into(b, q, s)->forward : 0;
		const double sent = (s ? into(b, q, s)->backward : 0) +
				    (s + 1 < q->stages ? into(b, q, s + 1)->forward : 0);
		double need, stash = b->sum.stash[q->cut[s + 1]] - b->sum.stash[q->cut[s]];
		double scratch = 0;
		struct tw_pipe_keeps k;

		behind -= q->lanes[s];
		k = keeps_of(b, q, s, behind);
		for (uint32_t i = q->cut[s]; i < q->cut[s + 1]; i++)
			scratch = fmax(scratch, p->part[i].scratch);
		need = (k.versions + (p->micros > 1 ? 2 : 1)) * vector +
		       k.depth * (input + (recompute ? 0 : stash)) + scratch + sent +
		       (ahead > k.depth ? ahead - k.depth : 0) * input;
		for (uint32_t l = 0; l < q->lanes[s]; l++) {
			const double memory = p->node[q->node[at++]].memory;
			const double all = need + (l ? 0 : p->kept * vector);

			if (memory > 0 && all > memory)
				excess += all / memory - 1;
		}
		ahead = k.depth;
	}
	return excess;
}

/* --- what it costs at least ------------------------------------------------------------------ */

/* The fastest machine of each stage, and how long its cells compute at least. */
static double computing(const struct bed *b, const struct tw_planner_plan *q)
{
	double most = 0, before = 0;
	uint32_t at = 0;

	for (uint32_t s = 0; s < q->stages; s++) {
		const double pass = forward_of(b, q, s) + backward_of(b, q, s);
		double fastest = 0;

		for (uint32_t l = 0; l < q->lanes[s]; l++, at++) {
			const double speed = b->p->node[q->node[at]].speed;

			most = fmax(most, before + own_of(b, l, q->lanes[s]) * pass / speed);
			fastest = fmax(fastest, speed);
		}
		before += pass / fastest;
	}
	return most;
}

/* A message of so many bytes, so many times. */
static void carry(const struct bed *b, uint32_t from, uint32_t to, double bytes)
{
	const struct tw_planner_node *x = &b->p->node[from], *y = &b->p->node[to];

	b->card[2 * from] += bytes * x->per_byte;
	b->card[2 * to + 1] += bytes * y->per_byte;
	if (x->group == y->group)
		return;
	b->group[2 * x->group] += x->group ? bytes * b->p->group_per_byte : 0;
	b->group[2 * y->group + 1] += y->group ? bytes * b->p->group_per_byte : 0;
}

/* Activations and their gradients between stages s - 1 and s, whose cells begin there. */
static void carry_border(const struct bed *b, const struct tw_planner_plan *q, uint32_t s,
			 uint32_t before, uint32_t here)
{
	const uint32_t r = q->lanes[s - 1], t = q->lanes[s];
	const uint64_t cycle = flushes(b) ? b->p->micros : (uint64_t)r * t;
	const double times = (double)b->p->stream / (double)cycle;

	for (uint64_t m = 0; m < cycle; m++) {
		const uint32_t x = q->node[before + m % r], y = q->node[here + m % t];

		carry(b, x, y, times * into(b, q, s)->forward);
		carry(b, y, x, times * into(b, q, s)->backward);
	}
}

/* What the busiest card, or link of a group, takes for all its messages. */
static double cards(const struct bed *b, const struct tw_planner_plan *q)
{
	const struct tw_planner *p = b->p;
	uint32_t at = 0, before = 0;
	double most = 0;

	memset(b->card, 0, 2 * p->nodes * sizeof *b->card);
	memset(b->group, 0, 2 * (b->groups + 1) * sizeof *b->group);
	for (uint32_t s = 0; s < q->stages; s++) {
		const uint32_t lanes = q->lanes[s];

		if (s)
			carry_border(b, q, s, before, at);
		for (uint32_t l = 1; l < lanes; l++) {
			const double updates = updates_of(b, own_of(b, l, lanes), lanes);

			carry(b, q->node[at + l], q->node[at], updates * p->up * bytes_of(b, q, s));
			carry(b, q->node[at], q->node[at + l],
			      updates * p->down * bytes_of(b, q, s));
		}
		before = at;
		at += lanes;
	}
	for (uint32_t k = 0; k < 2 * p->nodes; k++)
		most = fmax(most, b->card[k]);
	for (uint32_t k = 2; k < 2 * (b->groups + 1); k++)
		most = fmax(most, b->group[k]);
	return most;
}

/* --- played ---------------------------------------------------------------------------------- */

/* Lists depend on the lanes alone, and a search tries many cuts with the same ones. */
static void make_lists(struct bed *b, const struct tw_planner_plan *q)
{
	struct bed_room *r = &b->room;
	struct tw_pipe_move *at = r->moves;
	bool same = r->stages == q->stages;

	for (uint32_t s = 0; s < q->stages; s++)
		same = same && r->lanes[s] == q->lanes[s];
	if (same)
		return;
	r->stages = q->stages;
	for (uint32_t s = 0; s < q->stages; s++)
		r->lanes[s] = q->lanes[s];
	for (uint32_t c = 0; c < q->cells; c++) {
		const struct tw_pipe_shape shape = { q->stages, b->p->micros, r->lanes };

		r->move[c] = at;
		r->count[c] = tw_pipeline_list(b->p->schedule, &shape, c, b->p->stream, at,
					       3 * (size_t)b->p->stream);
		at += r->count[c];
	}
}

static void price_pairs(const struct bed *b, const struct tw_planner_plan *q)
{
	const struct tw_planner *p = b->p;
	const struct bed_room *r = &b->room;

	for (uint32_t i = 0; i < q->cells; i++) {
		const struct tw_planner_node *x = &p->node[q->node[i]];

		r->speed[i] = x->speed;
		for (uint32_t k = 0; k < q->cells; k++) {
			const struct tw_planner_node *y = &p->node[q->node[k]];
			const bool apart = x->group != y->group;

			r->latency[i * q->cells + k] =
				fmax(x->latency, y->latency) + (apart ? p->group_latency : 0);
			r->per_byte[i * q->cells + k] =
				fmax(fmax(x->per_byte, y->per_byte), apart ? p->group_per_byte : 0);
		}
	}
}

/* Updates of lanes travel to the first lane and back.  Where all lanes of a stage send at once, the
 * last one waits for the others. */
static void price_updates(const struct bed *b, const struct tw_planner_plan *q)
{
	const struct bed_room *r = &b->room;
	uint32_t first = 0;

	for (uint32_t s = 0; s < q->stages; s++) {
		const uint32_t lanes = q->lanes[s];
		const double bytes = bytes_of(b, q, s), queue = flushes(b) ? lanes - 1.0 : 1.0;

		for (uint32_t l = 0; l < lanes; l++) {
			const size_t pair = (size_t)(first + l) * q->cells + first;

			r->push[first + l] = r->answer[first + l] = 0;
			if (!l)
				continue;
			r->push[first + l] =
				r->latency[pair] + queue * bytes * b->p->up * r->per_byte[pair];
			r->answer[first + l] =
				r->latency[pair] + queue * bytes * b->p->down * r->per_byte[pair];
		}
		first += lanes;
	}
}

void tw_bed_prepare(struct bed *b, const struct tw_planner_plan *q)
{
	make_lists(b, q);
	for (uint32_t s = 0; s < q->stages; s++)
		b->room.times[s] = (struct tw_pipe_times){
			.deed = { [TW_FORWARD] = forward_of(b, q, s),
				  [TW_BACKWARD] = backward_of(b, q, s) },
			.forward_bytes = s + 1 < q->stages ? into(b, q, s + 1)->forward : 0,
			.backward_bytes = s ? into(b, q, s)->backward : 0,
		};
}

static double play(struct bed *b, const struct tw_planner_plan *q)
{
	const struct tw_planner *p = b->p;
	const struct bed_room *r = &b->room;
	const struct tw_pipe_machines machines = {
		.speed = r->speed,
		.latency = r->latency,
		.per_byte = r->per_byte,
		.push = r->push,
		.answer = r->answer,
		.group = flushes(b) && q->cells > q->stages ? p->micros : 0,
		.newest = b->steady && !flushes(b),
		.by = r->by,
	};
	const struct tw_pipe_lists lists = { r->move,   r->count,  q->cells,
					     q->stages, p->stream, &machines };
	struct tw_pipe_played played;

	tw_bed_prepare(b, q);
	price_pairs(b, q);
	price_updates(b, q);
	b->played++;
	b->work += 2.0 * q->stages * (double)p->stream;
	if (tw_pipeline_play(&lists, r->times, r->done, r->cell, NULL, &played, NULL, NULL) !=
	    TW_OK)
		return INFINITY;
	return played.makespan;
}

double tw_bed_price(struct bed *b, struct tw_planner_plan *q, double limit)
{
	double busiest;

	q->estimate = INFINITY;
	b->work += q->cells;
	if (!tw_bed_allows(b, q))
		return INFINITY;
	q->recompute = b->p->recompute || tw_bed_excess(b, q, false) > 0;
	if (q->recompute && tw_bed_excess(b, q, true) > 0)
		return INFINITY;
	if (computing(b, q) >= limit)
		return INFINITY;
	busiest = cards(b, q);
	if (busiest >= limit)
		return INFINITY;
	q->estimate = cbrt(pow(busiest, 3) + pow(play(b, q), 3));
	return q->estimate < limit ? q->estimate : INFINITY;
}
