/* SPDX-License-Identifier: Apache-2.0 */
/* shard_reduce_send.c - how a piece of a sum travels, and who gets it. */
#include "node/shard/shard_reduce.h"

#include <string.h>

bool tw_reduce_travels_plain(const struct shard *s)
{
	return tw_shard_is_loose(s) || tw_plan_gathers(s->plan) ||
	       (s->plan->traffic.up->traits & TW_CODEC_IDENTITY);
}

/* Of a piece, the values that the codec writes; the rest are buffers, and travel as floats. */
static size_t coded(const struct shard *s, const struct shard_piece *p)
{
	const size_t t = s->slice.trainable;

	return p->from >= t ? 0 : p->from + p->n <= t ? p->n : t - p->from;
}

enum tw_status tw_reduce_decode(struct shard *s, const struct shard_piece *p, const uint8_t *bytes,
				size_t len, float *out)
{
	const struct tw_traffic *c = &s->plan->traffic;
	const size_t t = coded(s, p), tail = (p->n - t) * sizeof(float);

	if (len < tail)
		return TW_BAD_BYTES;
	memcpy(out + t, bytes, tail);
	return tw_codec_decode(c->up, c->up_options, bytes + tail, len - tail, out, t);
}

/* As the codec writes it, and in `back` what the others will decode.  TW_BAD_BYTES: it has values
 * that the codec cannot write. */
static enum tw_status encode(struct shard *s, const struct shard_reduce *r,
			     const struct shard_piece *p, bool whole, struct tw_block **out,
			     float *back)
{
	const struct tw_traffic *c = &s->plan->traffic;
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_CODEC);
	const struct tw_encoding of = { .rng = &rng,
					.draw = s->slice.round << 20 |
						(whole ? UINT64_C(1) << 19 : r->rank),
					.first = s->slice.from + p->from,
					.progress = tw_slice_progress(&s->slice) };
	const size_t t = coded(s, p), tail = (p->n - t) * sizeof(float);
	size_t len = c->up->bound(c->up_options, t);
	struct tw_block *b = tw_block_new(s->heap, len + tail);

	enum tw_status st;

	if (!b)
		return TW_NO_MEMORY;
	st = c->up->encode(c->up_options, NULL, &of, p->at, t, b->data + tail, &len);
	if (st == TW_OK) {
		memcpy(b->data, p->at + t, tail);
		b->bytes = tail + len;
		st = tw_reduce_decode(s, p, b->data, b->bytes, back);
	}
	if (st == TW_OK)
		*out = b;
	else
		tw_block_drop(b);
	return st;
}

/* `coded`: as it is in p->wire. */
static void send_piece(struct shard *s, const struct shard_reduce *r, struct tw_context *ctx,
		       const struct shard_piece *p, uint32_t rank, bool whole, bool coded)
{
	const struct tw_addr to = { tw_reduce_members(r)[rank].node, TW_SHARD, (uint16_t)s->index };
	struct tw_msg *m = tw_msg_to(ctx, to, TW_REDUCE);

	if (!m)
		return;
	m->h.view = s->fence.generation;
	m->h.shard = s->index;
	m->h.from = r->rank;
	if (p->at)
		m->b.reduce = p->has;
	m->b.reduce.round = s->slice.round;
	m->b.reduce.attempt = r->attempt;
	m->b.reduce.chunk = p->chunk;
	m->b.reduce.part = p->part;
	m->b.reduce.whole = whole;
	m->b.reduce.what = r->what;
	m->h.flags = r->what == TW_FORM_VIEWS ? TW_FLAG_FREE : 0;
	if (coded) {
		m->payload = tw_block_keep(p->wire);
		m->payload_at = p->wire_at;
		m->h.payload = (uint32_t)p->wire_bytes;
	} else if (p->at) {
		m->h.flags |= tw_plan_gathers(s->plan) ? TW_FLAG_PLAIN : 0;
		m->payload = tw_block_keep(p->block);
		m->payload_at = (size_t)((const uint8_t *)p->at - p->block->data);
		m->h.payload = (uint32_t)(p->n * sizeof(float));
	}
	tw_send(ctx, m);
}

/* (6) */
enum tw_status tw_reduce_seal(struct shard *s, struct shard_reduce *r, struct shard_piece *p)
{
	enum tw_status st;
	float *sum;

	if (tw_reduce_travels_plain(s) || p->wire || !p->at)
		return TW_OK;
	sum = tw_reduce_sum_at(s, r, p);
	st = sum ? encode(s, r, p, true, &p->wire, sum) : TW_NO_MEMORY;
	if (st != TW_OK)
		return st;
	p->wire_at = 0;
	p->wire_bytes = p->wire->bytes;
	tw_reduce_hold(p, r->sum, sum, &p->has);
	return TW_OK;
}

/* What is added up so far goes on, as the codec writes it. */
static enum tw_status send_coded(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
				 const struct shard_piece *p, uint32_t rank)
{
	struct tw_block *back = tw_block_new(s->heap, p->n * sizeof(float)), *wire = NULL;
	const enum tw_status st =
		back ? encode(s, r, p, false, &wire, tw_block_floats(back)) : TW_NO_MEMORY;

	if (st == TW_OK) {
		struct shard_piece out = *p;

		out.wire = wire;
		out.wire_at = 0;
		out.wire_bytes = wire->bytes;
		send_piece(s, r, ctx, &out, rank, false, true);
	}
	tw_block_drop(wire);
	tw_block_drop(back);
	return st;
}

/* The own input, before others are added to it or after that; nothing, if there is none. */
static void send_own(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		     const struct shard_piece *p, uint32_t rank)
{
	struct shard_piece alone = {
		.from = p->from, .n = p->n, .chunk = p->chunk, .part = p->part
	};
	const bool adds = r->contributes || tw_reduce_mixes(s, r);
	struct reduce_input own;

	if (adds && tw_reduce_input(s, r, &own)) {
		alone.block = own.block;
		alone.at = own.at + p->from;
		alone.has = own.has;
		if (own.of && own.of->wire) { /* (12): it has one piece */
			alone.wire = own.of->wire;
			alone.wire_at = own.of->wire_at;
			alone.wire_bytes = own.of->wire_bytes;
		}
	}
	send_piece(s, r, ctx, &alone, rank, false, alone.wire);
}

/* A move that sends. */
enum tw_status tw_reduce_send(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
			      struct shard_piece *p, const struct tw_move *move)
{
	const bool whole = move->kind == TW_MOVE_GIVE;
	const enum tw_status st = whole ? tw_reduce_seal(s, r, p) : TW_OK;

	if (tw_reduce_reduction(s, r)->own) {
		send_own(s, r, ctx, p, move->peer);
		return TW_OK;
	}
	if (!whole && !tw_reduce_travels_plain(s) && p->at)
		return send_coded(s, r, ctx, p, move->peer);
	if (st == TW_OK)
		send_piece(s, r, ctx, p, move->peer, whole, whole && p->wire);
	return st;
}

static void send_again(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		       uint32_t node)
{
	for (uint32_t k = 0; k < r->pieces; k++) {
		struct shard_piece *p = &r->piece[k];
		bool whole = false; /* it has the sum: what it sent before was made use of */

		for (uint32_t i = 0; i < p->next; i++)
			whole = whole || tw_reduce_reduction(s, r)
							 ->move(r->peers, r->rank, p->chunk, i)
							 .kind == TW_MOVE_TAKE;
		for (uint32_t i = 0; i < p->next; i++) {
			const struct tw_move move =
				tw_reduce_reduction(s, r)->move(r->peers, r->rank, p->chunk, i);

			if ((move.kind != TW_MOVE_GIVE && (move.kind != TW_MOVE_SEND || whole)) ||
			    tw_reduce_members(r)[move.peer].node != node)
				continue;
			if (tw_reduce_send(s, r, ctx, p, &move) != TW_OK)
				tw_reduce_fail(s, ctx, TW_NO_MEMORY);
		}
	}
}

void tw_shard_reduce_again(struct shard *s, struct tw_context *ctx, uint32_t node)
{
	send_again(s, &s->reduce, ctx, node);
	send_again(s, &s->average, ctx, node);
	send_again(s, &s->views, ctx, node);
}
