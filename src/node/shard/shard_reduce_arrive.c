/* SPDX-License-Identifier: Apache-2.0 */
/* shard_reduce_arrive.c - pieces that come from other replicas: checked, decoded, kept if early. */
#include "node/shard/shard_reduce.h"
#include "vec/vec.h"

#include <float.h>

/* The door of a sum: whether a piece is of this formation, and of this round. */
static enum tw_door door(const struct shard *s, const struct shard_reduce *r,
			 const struct tw_body_reduce *b)
{
	const bool rounds = b->what == TW_FORM_ROUND;

	if (b->attempt < r->attempt || (rounds && b->round < s->slice.round))
		return TW_DOOR_VOID;
	if (b->attempt > r->attempt || !r->pieces || (rounds && b->round > s->slice.round))
		return TW_DOOR_EARLY;
	return TW_DOOR_NOW;
}

static struct shard_piece *piece_of(const struct shard_reduce *r, const struct tw_body_reduce *b)
{

	if (b->chunk >= r->chunks || b->part >= r->first[b->chunk + 1] - r->first[b->chunk])
		return NULL;
	return &r->piece[r->first[b->chunk] + b->part];
}

/* What is said of a sum must be what honest replicas can say of one. */
static bool plausible(const struct shard *s, const struct shard_reduce *r,
		      const struct tw_body_reduce *b)
{
	const float count = (float)b->contributions;
	const struct tw_account *a = &b->account;

	if (!b->contributions || b->contributions > r->peers)
		return false;
	if (tw_shard_is_loose(s) ? a->weight != count || a->divide != count
	    : b->contributions == 1
		    ? !tw_shard_is_share(a->weight) || !tw_shard_is_share(a->divide)
		    : a->weight != a->divide || !tw_shard_is_share(a->weight / count))
		return false;
	if (!(b->drift_most >= 0.0f && b->drift_most <= FLT_MAX) ||
	    (tw_plan_gathers(s->plan) && b->contributions != 1))
		return false;
	return a->samples <= s->plan->dealing.positions && tw_shard_is_account(a);
}

/* Nobody adds what is not finite.  A whole sum of a round may be too large for a float; that of a
 * mean is checked by who made it (13). */
static bool must_be_finite(const struct shard_reduce *r, const struct shard_arrival *a)
{
	return tw_reduce_averages(r) || !a->body.whole;
}

/* Is it such a piece?  What a codec wrote is decoded. */
static enum tw_status unpack(struct shard *s, const struct shard_reduce *r,
			     const struct shard_piece *p, struct shard_arrival *a)
{
	const bool finite = must_be_finite(r, a), plain = tw_reduce_travels_plain(s);
	struct tw_block *b;

	if (!a->block && !a->body.contributions) /* who mixes always has something */
		return tw_reduce_mixes(s, r) ? TW_BAD_BYTES : TW_OK;
	if (!a->block)
		return TW_BAD_BYTES;
	if (!plausible(s, r, &a->body))
		return TW_BAD_BYTES;
	if (a->coded) /* (12): decoded later */
		return !a->body.whole && a->bytes ? TW_OK : TW_BAD_BYTES;
	if (plain && a->bytes != p->n * sizeof(float))
		return TW_BAD_BYTES;
	a->unchecked = plain && finite && !a->body.whole && !tw_reduce_mixes(s, r); /* (9) */
	if (plain)
		return a->unchecked || !finite ||
				       tw_vec_finite((const float *)(a->block->data + a->at), p->n)
			       ? TW_OK
			       : TW_BAD_BYTES;
	b = tw_block_new(s->heap, p->n * sizeof(float));
	if (!b ||
	    tw_reduce_decode(s, p, a->block->data + a->at, a->bytes, tw_block_floats(b)) != TW_OK ||
	    (finite && !tw_vec_finite(tw_block_floats(b), p->n))) {
		tw_block_drop(b);
		return b ? TW_BAD_BYTES : TW_NO_MEMORY;
	}
	a->wire = a->block;
	a->wire_at = a->at;
	a->block = b;
	a->at = 0;
	a->mine = true;
	return TW_OK;
}

/* Put it where its move finds it; false: it was there, or is of no use. */
static bool put_in_line(struct shard_piece *p, struct shard_arrival *a)
{
	struct shard_arrival **at = &p->waiting;

	while (*at && ((*at)->rank < a->rank ||
		       ((*at)->rank == a->rank && (*at)->body.whole < a->body.whole)))
		at = &(*at)->next;
	if (*at && (*at)->rank == a->rank && (*at)->body.whole == a->body.whole)
		return false;
	a->next = *at;
	*at = a;
	return true;
}

/* It is of this round and formation; takes it over. */
static void take(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		 struct shard_arrival *a)
{
	struct shard_piece *p = piece_of(r, &a->body);
	const bool known = p && a->rank < r->peers && tw_reduce_members(r)[a->rank].node == a->node;
	enum tw_status st = known ? unpack(s, r, p, a) : TW_BAD_BYTES;

	s->slice.tally.refused += st == TW_BAD_BYTES;
	if (known && st == TW_BAD_BYTES && !a->body.whole) { /* (10) */
		tw_block_drop(a->block);
		a->block = NULL;
		a->body.contributions = 0;
		st = TW_OK;
	}
	if (st == TW_OK && !p->done && put_in_line(p, a)) {
		tw_reduce_advance(s, r, ctx, p);
		return;
	}
	if (st == TW_NO_MEMORY)
		tw_reduce_fail(s, ctx, TW_NO_MEMORY);
	tw_reduce_drop_arrival(s, a);
}

static bool is_later(const struct tw_body_reduce *a, const struct tw_body_reduce *b)
{
	return a->attempt != b->attempt ? a->attempt > b->attempt : a->round > b->round;
}

/* (3) No more than another one can have sent for one round, so that nobody takes up the room of the
 * others.  What is furthest from now gives way. */
static bool make_room(struct shard *s, struct shard_reduce *r, uint32_t node,
		      const struct tw_body_reduce *b)
{
	const size_t most = 2 * (2 + s->slice.n / PART + s->plan->crew.workers);
	struct shard_arrival **last = NULL, *gone;
	size_t count = 0;

	for (struct shard_arrival **a = &r->early; *a; a = &(*a)->next)
		if ((*a)->node == node) {
			count++;
			if (!last || is_later(&(*a)->body, &(*last)->body))
				last = a;
		}
	if (count < most)
		return r->earlies < most * s->plan->crew.workers;
	if (!is_later(&(*last)->body, b))
		return false;
	gone = *last;
	*last = gone->next;
	r->earlies--;
	tw_reduce_drop_arrival(s, gone);
	return true;
}

/* What was early and is not any more; what is of no use is dropped. */
void tw_reduce_take_early(struct shard *s, struct shard_reduce *r, struct tw_context *ctx)
{
	struct shard_arrival *all = r->early;

	r->early = NULL;
	r->earlies = 0;
	while (all) {
		struct shard_arrival *a = all;

		all = a->next;
		switch (door(s, r, &a->body)) {
		case TW_DOOR_VOID:
			tw_reduce_drop_arrival(s, a);
			break;
		case TW_DOOR_EARLY:
			a->next = r->early;
			r->early = a;
			r->earlies++;
			break;
		case TW_DOOR_NOW:
			take(s, r, ctx, a);
			break;
		}
	}
}

struct shard_reduce *tw_reduce_of(struct shard *s, uint32_t what)
{
	return what == TW_FORM_VIEWS        ? &s->views
	       : what == TW_FORM_PARAMETERS ? &s->average
					    : &s->reduce;
}

void tw_shard_reduce(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_reduce *b = &m->b.reduce;
	struct shard_reduce *r = tw_reduce_of(s, b->what);
	const enum tw_door is = door(s, r, b);
	struct shard_arrival *a;

	if (is == TW_DOOR_VOID)
		return;
	if ((b->what != TW_FORM_ROUND && b->what != TW_FORM_PARAMETERS &&
	     b->what != TW_FORM_VIEWS) ||
	    (is == TW_DOOR_EARLY && !make_room(s, r, m->from.node, b))) {
		s->slice.tally.refused++;
		return;
	}
	a = tw_heap_zeros(s->heap, sizeof *a);
	if (!a) {
		tw_reduce_fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	*a = (struct shard_arrival){ .rank = m->h.from,
				     .node = m->from.node,
				     .body = *b,
				     .block = tw_block_keep(m->payload),
				     .at = m->payload_at,
				     .bytes = m->h.payload,
				     .coded = tw_plan_gathers(s->plan) && m->payload &&
					      !(m->h.flags & TW_FLAG_PLAIN),
				     .mine = m->fresh && !tw_shard_is_loose(s) };
	a->body.whole = b->whole != 0;
	if (is == TW_DOOR_NOW) {
		take(s, r, ctx, a);
		return;
	}
	a->next = r->early;
	r->early = a;
	r->earlies++;
}
