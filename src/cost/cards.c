/* SPDX-License-Identifier: Apache-2.0 */
/* cards.c - the moves of a reduction, played over network cards: events in a heap.
 *
 * Peers that are ready early send their parts before the last one is, and so hide some of the way.
 * Which rank is early is chance: the mean is taken over a few orders. */
#include "cost/cards.h"

#include "base/rng.h"
#include "cost/events.h"

#include <math.h>
#include <stdlib.h>

#define MESSAGES 200000 /* more, and parts are taken together: they would not change the time */
#define ORDERS   8      /* in which peers are ready, at random */

/* A message is on its way until its first byte arrives.  READY: what a peer adds itself. */
enum kind { ON_ITS_WAY, THERE, READY };

struct table {
	const struct tw_reduction *r;
	const struct tw_reduction_load *load;
	const double *ready;             /* when peers are, by rank; NULL: at once */
	double part;                     /* bytes of one, at most */
	uint32_t chunks, parts, longest; /* parts of a chunk, moves of a list, at most */
	double now, *egress, *ingress;   /* egress, ingress: when a card is free again */
	uint32_t *made;                  /* moves, by peer, chunk and part */
	uint8_t *came;                   /* ... and move: what it waits for is there */
	bool *adds;                      /* is the peer ready? */
	struct tw_cost_events events;
};

static size_t place(const struct table *t, uint32_t peer, uint32_t chunk, uint32_t part)
{
	return ((size_t)peer * t->chunks + chunk) * t->parts + part;
}

static bool sends(struct tw_move m)
{
	return m.kind == TW_MOVE_SEND || m.kind == TW_MOVE_GIVE;
}

/* The move of `to` that waits for what `from` sends. */
static uint32_t waiting(const struct table *t, uint32_t from, uint32_t to, uint32_t chunk,
			enum tw_move_kind sent)
{
	const enum tw_move_kind kind = sent == TW_MOVE_SEND ? TW_MOVE_ADD : TW_MOVE_TAKE;
	const uint32_t n = t->r->moves(t->load->peers, to, chunk);
	uint32_t k = 0;

	for (; k < n; k++) {
		const struct tw_move m = t->r->move(t->load->peers, to, chunk, k);

		if (m.kind == kind && m.peer == from)
			break;
	}
	return k;
}

/* All moves that a peer can make now. */
static void go_on(struct table *t, uint32_t peer, uint32_t chunk, uint32_t part)
{
	const struct tw_reduction_load *l = t->load;
	const size_t here = place(t, peer, chunk, part);
	const uint32_t n = t->r->moves(l->peers, peer, chunk);
	const double length = l->bytes / t->chunks, rest = length - part * t->part;
	const double lasts = fmin(rest, t->part) * l->per_byte;

	for (; t->made[here] < n; t->made[here]++) {
		const struct tw_move m = t->r->move(l->peers, peer, chunk, t->made[here]);
		const double from = fmax(t->now, t->egress[peer]);

		if (!sends(m)) {
			if (m.peer == peer ? !t->adds[peer]
					   : !t->came[here * t->longest + t->made[here]])
				return;
			continue;
		}
		t->egress[peer] = from + lasts;
		tw_cost_events_add(
			&t->events,
			(struct tw_cost_event){ .at = from + l->latency,
						.lasts = lasts,
						.to = m.peer,
						.chunk = chunk,
						.part = part,
						.move = waiting(t, peer, m.peer, chunk, m.kind) });
	}
}

static void begin(struct table *t, uint32_t peer)
{
	t->adds[peer] = true;
	for (uint32_t c = 0; c < t->chunks; c++)
		for (uint32_t k = 0; k < t->parts; k++)
			go_on(t, peer, (peer + c) % t->chunks, k);
}

/* Until all have the sum. */
static double play(struct table *t)
{
	double end = 0;

	for (uint32_t p = 0; p < t->load->peers; p++)
		if (t->ready)
			tw_cost_events_add(&t->events, (struct tw_cost_event){ .at = t->ready[p],
									       .to = p,
									       .kind = READY });
		else
			begin(t, p);
	while (t->events.count && !t->events.full) {
		struct tw_cost_event m = tw_cost_events_next(&t->events);

		t->now = m.at;
		if (m.kind == ON_ITS_WAY) {
			m.at = t->ingress[m.to] = fmax(t->now, t->ingress[m.to]) + m.lasts;
			m.kind = THERE;
			tw_cost_events_add(&t->events, m);
			continue;
		}
		end = t->now;
		if (m.kind == READY) {
			begin(t, m.to);
			continue;
		}
		t->came[place(t, m.to, m.chunk, m.part) * t->longest + m.move] = 1;
		go_on(t, m.to, m.chunk, m.part);
	}
	return t->events.full ? NAN : end;
}

static void measure(struct table *t)
{
	const struct tw_reduction_load *l = t->load;
	double most;
	uint64_t messages = 0;

	t->chunks = t->r->chunks(l->peers);
	for (uint32_t p = 0; p < l->peers; p++)
		for (uint32_t c = 0; c < t->chunks; c++) {
			const uint32_t n = t->r->moves(l->peers, p, c);

			messages += n;
			t->longest = n > t->longest ? n : t->longest;
		}
	most = fmax(1, MESSAGES / fmax(1, (double)messages));
	t->parts = (uint32_t)fmax(1, fmin(floor(most), ceil(l->bytes / t->chunks / l->part)));
	t->part = fmax(l->part, l->bytes / t->chunks / t->parts);
}

/* `ready` by rank; NULL: all begin at once. */
static double play_from(const struct tw_reduction *r, const struct tw_reduction_load *load,
			const double *ready)
{
	struct table t = { .r = r, .load = load, .ready = ready };
	double seconds = NAN;
	size_t places;

	measure(&t);
	places = (size_t)load->peers * t.chunks * t.parts;
	t.egress = calloc(load->peers, sizeof *t.egress);
	t.ingress = calloc(load->peers, sizeof *t.ingress);
	t.adds = calloc(load->peers, sizeof *t.adds);
	t.made = calloc(places, sizeof *t.made);
	t.came = calloc(places, t.longest);
	if (t.egress && t.ingress && t.adds && t.made && t.came)
		seconds = play(&t);
	free(t.egress);
	free(t.ingress);
	free(t.adds);
	free(t.made);
	free(t.came);
	tw_cost_events_release(&t.events);
	return seconds;
}

double tw_cost_cards(const struct tw_reduction *r, const struct tw_reduction_load *load)
{
	return play_from(r, load, NULL);
}

double tw_cost_reduction(const struct tw_reduction *r, const struct tw_reduction_load *load)
{
	return r->seconds ? r->seconds(load) : tw_cost_cards(r, load);
}

double tw_cost_reduction_left(const struct tw_reduction *r, const struct tw_reduction_load *load,
			      const double *ready)
{
	const struct tw_rng rng = tw_rng_make(0, TW_RNG_SIM);
	const uint32_t n = load->peers;
	double *order = r->seconds ? NULL : malloc(n * sizeof *order), sum = 0;

	if (r->seconds)
		return r->seconds(load);
	if (!order)
		return NAN;
	for (uint64_t k = 0; k < ORDERS; k++) {
		for (uint32_t i = 0; i < n; i++)
			order[i] = ready[tw_rng_permute(&rng, k, n, i)];
		sum += play_from(r, load, order) - ready[n - 1];
	}
	free(order);
	return sum / ORDERS;
}
