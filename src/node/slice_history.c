/* SPDX-License-Identifier: Apache-2.0 */
/* slice_history.c - what went into a slice: counts, staleness and the positions of samples.
 *
 *  (1) remember() cannot fail.  An add makes at most one range more, and an add of a range
 *      that meets k others makes k of them one; so m ranges that meet A of the first ones meet at
 *      most A + 2m all together, which is what reserve_history() makes room for. */
#include "node/slice_update.h"
#include "base/fetch.h"
#include "vec/vec.h"

#include <math.h>

#define AHEAD 8 /* contributions whose memory is fetched beforehand */

/* The first range of the set that [from, to) meets, as far as they have positions in common, at or
 * after `at`; false: none. */
static bool meets(const struct tw_spans *s, uint64_t from, uint64_t to, uint64_t at,
		  struct tw_span *out)
{
	if (at >= to || !tw_spans_next(s, at > from ? at : from, out) || out->from >= to)
		return false;
	if (out->from < from)
		out->from = from;
	if (out->to > to)
		out->to = to;
	return true;
}

/* All memory that `remember` will need for these contributions. */
static enum tw_status reserve_history(struct slice *s, struct contribution *const *c,
				      uint32_t count)
{
	size_t ranges = 0, twice = 0;
	bool in_order = true; /* then none of them meets another one */
	uint64_t end = 0;
	enum tw_status st;

	for (uint32_t j = 0; j < count; j++) {
		tw_fetch(c[j + AHEAD < count ? j + AHEAD : j], sizeof **c);
		for (uint32_t r = 0; r < c[j]->push.ranges; r++, ranges++) {
			const struct tw_range *x = &c[j]->push.range[r];
			const uint64_t from = x->from, to = from + x->count;
			struct tw_span met = { 0, 0 };

			while (meets(&s->history.applied, from, to, met.to, &met))
				twice++;
			in_order = in_order && from >= end;
			end = to;
		}
	}
	st = tw_spans_reserve(&s->history.applied, ranges);
	if (st == TW_OK && (twice || !in_order))
		st = tw_spans_reserve(&s->history.twice, twice + 2 * ranges);
	return st;
}

/* Lanes of a worker count alike: in notes their numbers take turns. */
static void note_applied(struct slice *s, struct tw_context *ctx, const struct contribution *c)
{
	const uint32_t lanes = tw_plan_lanes(s->plan, s->index);

	for (uint32_t k = 0; k < c->push.ranges; k++) {
		struct tw_note note = { .kind = TW_NOTE_APPLY,
					.shard = s->index,
					.life = s->version.incarnation,
					.slot = c->slot / lanes,
					.incarnation = c->incarnation,
					.seq = c->seq * lanes + c->slot % lanes,
					.version = s->version.n,
					.round = s->round,
					.from = c->push.range[k].from,
					.count = c->push.range[k].count,
					.apply = { .tau = c->tau,
						   .push = &c->push,
						   .n = s->trainable,
						   .values_sent = c->values,
						   .tally = &s->tally } };

		if (s->plan->gaps && k == 0) {
			note.apply.before = tw_block_floats(s->w);
			note.apply.sent = c->sent ? c->sent : note.apply.before;
		}
		tw_note(ctx, &note);
	}
}

/* Before the update.  Without what was sent (its worker has gone) there is no distance. */
static void count_gap(struct slice *s, const struct contribution *c)
{
	struct tw_tally *t = &s->tally;
	double square;

	if (!c->sent || !s->trainable)
		return;
	square = tw_vec_distance(tw_block_floats(s->w), c->sent, s->trainable);
	t->gap += square;
	t->gap_values += s->trainable;
	t->gap_most = fmax(t->gap_most, square / (double)s->trainable);
}

void tw_slice_count(struct slice *s, const struct tw_account *a)
{
	struct tw_tally *t = &s->tally;

	s->history.contributions++;
	t->contributions++;
	t->steps += a->steps;
	t->samples += a->samples;
	t->own_steps += a->own_steps;
	t->skipped += a->skipped;
	t->drift += (double)a->drift;
	t->drift_most = fmax(t->drift_most, (double)a->drift);
	t->residual += (double)a->residual;
	t->residual_most = fmax(t->residual_most, (double)a->residual);
}

static void count_one(struct slice *s, struct tw_context *ctx, const struct contribution *c)
{
	const uint64_t tau = c->tau;
	struct tw_tally *t = &s->tally;

	tw_slice_count(s, &c->push.account);
	t->cached += s->plan->traffic.cache && c->push.own;
	t->staleness_sum += tau;
	t->staleness_count++;
	if (tau > t->staleness_max)
		t->staleness_max = tau;
	t->histogram[tau < TW_HISTOGRAM - 1 ? tau : TW_HISTOGRAM - 1]++;
	if (s->plan->gaps)
		count_gap(s, c);
	if (ctx->noting && !s->quiet)
		note_applied(s, ctx, c);
}

/* (1): there is room. */
static void put_span(struct tw_spans *s, uint64_t from, uint64_t to)
{
	const enum tw_status st = tw_spans_add(s, from, to, NULL);

	HOLDS(1, st == TW_OK);
	(void)st;
}

static void remember(struct slice *s, const struct contribution *c)
{
	struct slice_history *h = &s->history;

	for (uint32_t k = 0; k < c->push.ranges; k++) {
		const uint64_t from = c->push.range[k].from, to = from + c->push.range[k].count;
		struct tw_span met = { 0, 0 };

		while (meets(&h->applied, from, to, met.to, &met))
			put_span(&h->twice, met.from, met.to);
		put_span(&h->applied, from, to);
	}
}

enum tw_status tw_slice_record(struct slice *s, struct tw_context *ctx,
			       struct contribution *const *c, uint32_t count)
{
	if (reserve_history(s, c, count) != TW_OK)
		return TW_NO_MEMORY;
	for (uint32_t j = 0; j < count; j++) {
		tw_fetch(c[j + AHEAD < count ? j + AHEAD : j], sizeof **c);
		count_one(s, ctx, c[j]);
		remember(s, c[j]);
	}
	return TW_OK;
}
