/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_arrive.c - pieces that come from other members: checked, decoded, kept if early. */
#include "node/reducer/reducer_state.h"
#include "node/kernel/early.h"
#include "vec/vec.h"

#include <float.h>

/* Is a piece of this formation, and of this sum? */
static enum tw_door door(const struct reducer *r, const struct tw_body_reduce *b)
{
	const bool numbered = r->by->numbered;

	if (b->attempt < r->is.attempt || (numbered && b->round < *r->of.number))
		return TW_DOOR_VOID;
	if (b->attempt > r->is.attempt || !r->pieces || (numbered && b->round > *r->of.number))
		return TW_DOOR_EARLY;
	return TW_DOOR_NOW;
}

static struct piece *piece_of(const struct reducer *r, const struct tw_body_reduce *b)
{

	if (b->chunk >= r->chunks || b->part >= r->first[b->chunk + 1] - r->first[b->chunk])
		return NULL;
	return &r->piece[r->first[b->chunk] + b->part];
}

/* What is said of a sum must be what honest members can say of one. */
static bool plausible(const struct reducer *r, const struct tw_body_reduce *b)
{
	const float count = (float)b->contributions;
	const struct tw_account *a = &b->account;

	if (!b->contributions || b->contributions > r->is.peers)
		return false;
	if (r->by->parameters && (a->weight != count || a->divide != count))
		return false;
	if (!(b->drift_most >= 0.0f && b->drift_most <= FLT_MAX) ||
	    (r->of.gathers && b->contributions != 1))
		return false;
	return r->by->plausible(r->who, b);
}

/* Nobody adds what is not finite.  A whole sum of a round may be too large for a float; that of a
 * mean is checked by who made it (5). */
static bool must_be_finite(const struct reducer *r, const struct arrival *a)
{
	return r->by->mean || !a->body.whole;
}

/* Is it such a piece?  What a codec wrote is decoded. */
static enum tw_status unpack(const struct reducer *r, const struct piece *p, struct arrival *a)
{
	const bool finite = must_be_finite(r, a), plain = tw_reducer_is_plain(r);
	struct tw_block *b;

	if (!a->block && !a->body.contributions) /* who mixes always has something */
		return tw_reducer_mixes(r) ? TW_BAD_BYTES : TW_OK;
	if (!a->block)
		return TW_BAD_BYTES;
	if (!plausible(r, &a->body))
		return TW_BAD_BYTES;
	if (a->coded) /* (8): decoded later */
		return !a->body.whole && a->bytes ? TW_OK : TW_BAD_BYTES;
	if (plain && a->bytes != p->n * sizeof(float))
		return TW_BAD_BYTES;
	a->unchecked = plain && finite && !a->body.whole && !tw_reducer_mixes(r); /* (4) */
	if (plain)
		return a->unchecked || !finite ||
				       tw_vec_finite((const float *)(a->block->data + a->at), p->n)
			       ? TW_OK
			       : TW_BAD_BYTES;
	b = tw_block_new(r->heap, p->n * sizeof(float));
	if (!b ||
	    tw_piece_decode(r, p, a->block->data + a->at, a->bytes, tw_block_floats(b)) != TW_OK ||
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
static bool put_in_line(struct piece *p, struct arrival *a)
{
	struct arrival **at = &p->waiting;

	while (*at && ((*at)->rank < a->rank ||
		       ((*at)->rank == a->rank && (*at)->body.whole < a->body.whole)))
		at = &(*at)->next;
	if (*at && (*at)->rank == a->rank && (*at)->body.whole == a->body.whole)
		return false;
	a->next = *at;
	*at = a;
	return true;
}

/* It is of this sum and formation; takes it over. */
static void take(struct reducer *r, struct tw_context *ctx, struct arrival *a)
{
	struct piece *p = piece_of(r, &a->body);
	const bool known = p && a->rank < r->is.peers && r->is.member[a->rank].node == a->node;
	enum tw_status st = known ? unpack(r, p, a) : TW_BAD_BYTES;

	*r->of.refused += st == TW_BAD_BYTES;
	if (known && st == TW_BAD_BYTES && !a->body.whole) { /* (5) */
		tw_block_drop(a->block);
		a->block = NULL;
		a->body.contributions = 0;
		st = TW_OK;
	}
	if (st == TW_OK && !p->done && put_in_line(p, a)) {
		tw_piece_advance(r, ctx, p);
		return;
	}
	if (st == TW_NO_MEMORY)
		r->by->failed(r->who, ctx, st);
	tw_arrival_drop(r, a);
}

static bool is_later(const struct tw_body_reduce *a, const struct tw_body_reduce *b)
{
	return a->attempt != b->attempt ? a->attempt > b->attempt : a->round > b->round;
}

/* (2) No more than another one can have sent for one sum, so that nobody takes up the room of the
 * others.  What is furthest from now gives way. */
static bool make_room(struct reducer *r, uint32_t node, const struct tw_body_reduce *b)
{
	const size_t most = 2 * (2 + r->of.n / PART + r->of.most);
	struct arrival **last = NULL, *gone;
	size_t count = 0;

	for (struct arrival **a = &r->early; *a; a = &(*a)->next)
		if ((*a)->node == node) {
			count++;
			if (!last || is_later(&(*a)->body, &(*last)->body))
				last = a;
		}
	if (count < most)
		return r->earlies < most * r->of.most;
	if (!is_later(&(*last)->body, b))
		return false;
	gone = *last;
	*last = gone->next;
	r->earlies--;
	tw_arrival_drop(r, gone);
	return true;
}

/* What was early and is not any more; what is of no use is dropped. */
void tw_reducer_take_early(struct reducer *r, struct tw_context *ctx)
{
	struct arrival *all = r->early;

	r->early = NULL;
	r->earlies = 0;
	while (all) {
		struct arrival *a = all;

		all = a->next;
		switch (door(r, &a->body)) {
		case TW_DOOR_VOID:
			tw_arrival_drop(r, a);
			break;
		case TW_DOOR_EARLY:
			a->next = r->early;
			r->early = a;
			r->earlies++;
			break;
		case TW_DOOR_NOW:
			take(r, ctx, a);
			break;
		}
	}
}

void tw_reducer_hear(struct reducer *r, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_reduce *b = &m->b.reduce;
	const enum tw_door is = door(r, b);
	struct arrival *a;

	if (is == TW_DOOR_VOID)
		return;
	if (is == TW_DOOR_EARLY && !make_room(r, m->from.node, b)) {
		++*r->of.refused;
		return;
	}
	a = tw_heap_zeros(r->heap, sizeof *a);
	if (!a) {
		r->by->failed(r->who, ctx, TW_NO_MEMORY);
		return;
	}
	*a = (struct arrival){ .rank = m->h.from,
			       .node = m->from.node,
			       .body = *b,
			       .block = tw_block_keep(m->payload),
			       .at = m->payload_at,
			       .bytes = m->h.payload,
			       .coded =
				       r->of.gathers && m->payload && !(m->h.flags & TW_FLAG_PLAIN),
			       .mine = m->fresh && !r->by->parameters };
	a->body.whole = b->whole != 0;
	if (is == TW_DOOR_NOW) {
		take(r, ctx, a);
		return;
	}
	a->next = r->early;
	r->early = a;
	r->earlies++;
}
