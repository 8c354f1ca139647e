/* SPDX-License-Identifier: Apache-2.0 */
/* flow.c - a plan carried out with its messages: network cards and the links of groups carry one
 * after the other, as in the simulator.
 *
 * More exact than playing a schedule, and ten times as slow, so a search plays, and the best plans
 * that it found are put in order by this.
 *
 *  (1) events come in the order of their times, and those of one time in the order they were made.
 *  (2) rounds of a flushing schedule close together, at all stages: the master says so when it has
 *      heard that every update is there.
 *  (3) a message begins at a card or link when its first byte is there and the one before it is
 *      through; it is through when all its bytes are, and not before its last byte came. */
#include "planner/bed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 1048576.0 /* parameters travel in messages of whole tensors, of so many bytes */
#define SMALL 200.0     /* ... and what cells tell each other takes so many */
#define HOPS  4

enum what { MOVED, FORWARD, BACKWARD, PUSH, ANSWER, COMMIT };

struct event {
	double at, left; /* left: when the last byte left the hop before */
	uint64_t number;
	double bytes;
	uint64_t micro;
	uint32_t from, to; /* cells; MOVED: to */
	uint8_t what, hop;
};

/* A cell: its place in its list, and what it waits for. */
struct worker {
	size_t made;
	bool computing;
	uint32_t pieces;      /* of an answer that are on their way ... */
	uint64_t rounds, due; /* of a flushing schedule: closed, and made updates for */
};

struct flow {
	const struct bed *b;
	const struct tw_planner_plan *q;
	struct event *heap;
	size_t count, room;
	uint64_t numbered;
	struct worker *worker;
	uint8_t *has;            /* [stage][micro]: 1 input, 2 gradient */
	double *card, *group;    /* when each is free: out, in */
	uint32_t *stage, *first; /* by cell; by stage: its first cell */
	uint32_t *order;         /* cells whose updates are there, by stage, as they came */
	uint32_t *pushed;        /* ... how many of them, and pieces of each cell's */
	uint32_t complete;       /* cells whose updates of this round are there */
	double now, last;
	bool failed;
};

/* --- events ---------------------------------------------------------------------------------- */

static bool before(const struct event *x, const struct event *y)
{
	return x->at != y->at ? x->at < y->at : x->number < y->number;
}

static void push_event(struct flow *f, struct event e)
{
	size_t k;

	if (f->count == f->room) {
		const size_t room = f->room ? 2 * f->room : 256;
		struct event *more = realloc(f->heap, room * sizeof *more);

		if (!more) {
			f->failed = true;
			return;
		}
		f->heap = more;
		f->room = room;
	}
	e.number = f->numbered++;
	for (k = f->count++; k > 0 && before(&e, &f->heap[(k - 1) / 2]); k = (k - 1) / 2)
		f->heap[k] = f->heap[(k - 1) / 2];
	f->heap[k] = e;
}

static struct event pop_event(struct flow *f)
{
	const struct event first = f->heap[0], last = f->heap[--f->count];
	size_t k = 0;

	for (;;) {
		size_t child = 2 * k + 1;

		if (child >= f->count)
			break;
		child += child + 1 < f->count && before(&f->heap[child + 1], &f->heap[child]);
		if (!before(&f->heap[child], &last))
			break;
		f->heap[k] = f->heap[child];
		k = child;
	}
	f->heap[k] = last;
	return first;
}

/* --- messages -------------------------------------------------------------------------------- */

static const struct tw_planner_node *node_of(const struct flow *f, uint32_t cell)
{
	return &f->b->p->node[f->q->node[cell]];
}

static void send(struct flow *f, enum what what, uint32_t from, uint32_t to, uint64_t micro,
		 double bytes)
{
	push_event(f, (struct event){ .at = f->now,
				      .left = f->now,
				      .what = (uint8_t)what,
				      .from = from,
				      .to = to,
				      .micro = micro,
				      .bytes = bytes });
}

/* Hop `hop` of a message: when it is free, and seconds for a byte; NULL: there is none. */
static double *hop_of(const struct flow *f, const struct event *e, double *per_byte)
{
	const struct tw_planner_node *x = node_of(f, e->from), *y = node_of(f, e->to);
	const bool apart = x->group != y->group;

	*per_byte = f->b->p->group_per_byte;
	switch (e->hop) {
	case 0:
		*per_byte = x->per_byte;
		return &f->card[2 * f->q->node[e->from]];
	case 1:
		return apart && x->group ? &f->group[2 * x->group] : NULL;
	case 2:
		return apart && y->group ? &f->group[2 * y->group + 1] : NULL;
	default:
		*per_byte = y->per_byte;
		return &f->card[2 * f->q->node[e->to] + 1];
	}
}

/* (3); the event comes back at the next hop, or when all of it is there. */
static void travel(struct flow *f, struct event e)
{
	const struct tw_planner_node *x = node_of(f, e.from), *y = node_of(f, e.to);
	double per_byte, begins = f->now;
	double *free_at;

	while (!(free_at = hop_of(f, &e, &per_byte)))
		e.hop++;
	begins = fmax(f->now, *free_at);
	*free_at = e.left = fmax(begins + e.bytes * per_byte, e.left);
	if (!e.hop) {
		const double latency = fmax(x->latency, y->latency) +
				       (x->group != y->group ? f->b->p->group_latency : 0);

		begins += latency;
		e.left += latency;
	}
	e.at = ++e.hop < HOPS ? begins : e.left;
	push_event(f, e);
}

/* --- cells ----------------------------------------------------------------------------------- */

static bool flushes(const struct flow *f)
{
	return f->b->p->schedule->traits & TW_PIPELINE_FLUSHES;
}

static uint32_t cell_for(const struct flow *f, uint32_t stage, uint64_t micro)
{
	const uint32_t lanes = f->q->lanes[stage];

	return f->first[stage] + (uint32_t)(micro % (flushes(f) ? f->b->p->micros : lanes) % lanes);
}

static uint8_t *has(const struct flow *f, uint32_t stage, uint64_t micro)
{
	return &f->has[stage * f->b->p->stream + micro];
}

/* A shard: parts from *part on until they have so many bytes. */
static double next_piece(const struct flow *f, uint32_t stage, uint32_t *part)
{
	const uint32_t end = f->q->cut[stage + 1];
	double bytes = 0;

	while (*part < end && bytes < PIECE)
		bytes += f->b->p->part[(*part)++].bytes;
	if (f->b->sum.bytes[end] - f->b->sum.bytes[*part] <= 0)
		*part = end;
	return bytes;
}

static uint32_t pieces_of(const struct flow *f, uint32_t stage)
{
	uint32_t part = f->q->cut[stage], n = 0;

	do {
		next_piece(f, stage, &part);
		n++;
	} while (part < f->q->cut[stage + 1]);
	return n;
}

static void send_pieces(struct flow *f, enum what what, uint32_t from, uint32_t to, uint32_t stage,
			double share)
{
	uint32_t part = f->q->cut[stage];

	do {
		send(f, what, from, to, 0, share * next_piece(f, stage, &part));
	} while (part < f->q->cut[stage + 1]);
}

/* May the cell make this move now? */
static bool may(const struct flow *f, uint32_t c, const struct tw_pipe_move *m)
{
	const struct bed_room *r = &f->b->room;
	const struct worker *w = &f->worker[c];

	if (m->deed == TW_FORWARD)
		return (!m->stage || (*has(f, m->stage, m->micro) & 1)) && w->rounds == w->due &&
		       !(w->pieces && f->b->steady);
	if (m->deed == TW_UPDATE)
		return true;
	if (m->stage + 1 < f->q->stages && !(*has(f, m->stage, m->micro) & 2))
		return false;
	/* the group's last one waits for the answer to the update before */
	return flushes(f) || !w->pieces || w->made + 1 == r->count[c] || m[1].deed != TW_UPDATE;
}

static void update(struct flow *f, uint32_t c)
{
	const uint32_t stage = f->stage[c], holder = f->first[stage];
	struct worker *w = &f->worker[c];

	if (flushes(f))
		w->due++;
	if (c != holder) {
		w->pieces += flushes(f) ? 0 : pieces_of(f, stage);
		send_pieces(f, PUSH, c, holder, stage, f->b->p->up);
	} else if (flushes(f)) {
		send(f, PUSH, c, c, 0, 0);
	}
}

/* Make moves until one takes time or waits. */
static void go_on(struct flow *f, uint32_t c)
{
	const struct bed_room *r = &f->b->room;
	struct worker *w = &f->worker[c];

	while (!w->computing && w->made < r->count[c] && may(f, c, &r->move[c][w->made])) {
		const struct tw_pipe_move *m = &r->move[c][w->made];

		if (m->deed == TW_UPDATE) {
			w->made++;
			update(f, c);
			continue;
		}
		w->computing = true;
		push_event(f, (struct event){ .at = f->now + r->times[m->stage].deed[m->deed] /
								     node_of(f, c)->speed,
					      .what = MOVED,
					      .hop = HOPS,
					      .to = c });
	}
}

static void moved(struct flow *f, uint32_t c)
{
	const struct bed_room *r = &f->b->room;
	struct worker *w = &f->worker[c];
	const struct tw_pipe_move *m = &r->move[c][w->made++];
	const uint32_t s = m->stage;

	w->computing = false;
	f->last = f->now;
	if (m->deed == TW_FORWARD && s + 1 < f->q->stages)
		send(f, FORWARD, c, cell_for(f, s + 1, m->micro), m->micro,
		     r->times[s].forward_bytes);
	else if (m->deed == TW_BACKWARD && s > 0)
		send(f, BACKWARD, c, cell_for(f, s - 1, m->micro), m->micro,
		     r->times[s].backward_bytes);
}

/* (2): the master hears of it and tells everybody. */
static void close_round(struct flow *f)
{
	f->complete = 0;
	for (uint32_t s = 0; s < f->q->stages; s++)
		push_event(f, (struct event){ .at = f->now + 2 * node_of(f, f->first[s])->latency,
					      .what = COMMIT,
					      .hop = HOPS,
					      .to = f->first[s] });
}

/* At the first lane: an update is answered at once, or when the round closes. */
static void pushed(struct flow *f, const struct event *e)
{
	const uint32_t stage = f->stage[e->to], n = pieces_of(f, stage);
	uint32_t *pieces = &f->pushed[f->q->stages + e->from];

	if (!flushes(f)) {
		send(f, ANSWER, e->to, e->from, 0, e->bytes / f->b->p->up * f->b->p->down);
		return;
	}
	if (e->from != e->to && ++*pieces < n)
		return;
	*pieces = 0;
	if (e->from != e->to)
		f->order[e->to + f->pushed[stage]++] = e->from;
	if (++f->complete == f->q->cells)
		close_round(f);
}

/* Who sent first is answered first; cells of the first stage hear then what to compute. */
static void committed(struct flow *f, uint32_t holder)
{
	const uint32_t stage = f->stage[holder], n = f->pushed[stage];

	f->worker[holder].rounds++;
	f->pushed[stage] = 0;
	for (uint32_t k = 0; k < n; k++) {
		const uint32_t to = f->order[holder + k];

		f->worker[to].pieces = pieces_of(f, stage) + (stage == 0);
		send_pieces(f, ANSWER, holder, to, stage, f->b->p->down);
	}
	for (uint32_t k = 0; k < n && stage == 0; k++)
		send(f, ANSWER, holder, f->order[holder + k], 0, SMALL);
}

static void arrived(struct flow *f, const struct event *e)
{
	struct worker *w = &f->worker[e->to];

	switch (e->what) {
	case MOVED:
		moved(f, e->to);
		break;
	case FORWARD:
		*has(f, f->stage[e->to], e->micro) |= 1;
		break;
	case BACKWARD:
		*has(f, f->stage[e->to], e->micro) |= 2;
		break;
	case PUSH:
		pushed(f, e);
		break;
	case COMMIT:
		committed(f, e->to);
		break;
	default:
		if (!--w->pieces && flushes(f))
			w->rounds++;
		break;
	}
	go_on(f, e->to);
}

/* --- the whole ------------------------------------------------------------------------------- */

static bool make_room(struct flow *f)
{
	const struct bed *b = f->b;
	const struct tw_planner_plan *q = f->q;
	uint32_t c = 0;

	f->worker = calloc(q->cells, sizeof *f->worker);
	f->has = calloc((size_t)q->stages * b->p->stream, 1);
	f->card = calloc(2 * (b->p->nodes + b->groups + 1), sizeof *f->card);
	f->stage = calloc(3 * q->cells + 2 * q->stages, sizeof *f->stage);
	if (!f->worker || !f->has || !f->card || !f->stage)
		return false;
	f->group = f->card + 2 * b->p->nodes;
	f->first = f->stage + q->cells;
	f->order = f->first + q->stages;
	f->pushed = f->order + q->cells;
	for (uint32_t s = 0; s < q->stages; s++) {
		f->first[s] = c;
		for (uint32_t l = 0; l < q->lanes[s]; l++)
			f->stage[c++] = s;
	}
	return true;
}

double tw_bed_flow(struct bed *b, const struct tw_planner_plan *q)
{
	struct flow f = { .b = b, .q = q };
	double seconds = INFINITY;

	tw_bed_prepare(b, q);
	if (make_room(&f)) {
		for (uint32_t c = 0; c < q->cells; c++)
			go_on(&f, c);
		while (f.count && !f.failed) {
			const struct event e = pop_event(&f);

			f.now = e.at;
			if (e.what != MOVED && e.hop < HOPS && e.from != e.to)
				travel(&f, e);
			else
				arrived(&f, &e);
		}
		seconds = f.failed ? INFINITY : f.last;
	}
	free(f.heap);
	free(f.worker);
	free(f.has);
	free(f.card);
	free(f.stage);
	return seconds;
}
