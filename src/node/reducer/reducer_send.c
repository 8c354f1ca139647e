/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_send.c - how a piece of a sum travels, and who gets it. */
#include "node/reducer/reducer_state.h"

#include <string.h>

/* Of a piece, the values that the codec writes; the rest are buffers, and travel as floats. */
static size_t coded(const struct reducer *r, const struct piece *p)
{
	const size_t t = r->of.coded;

	return p->from >= t ? 0 : p->from + p->n <= t ? p->n : t - p->from;
}

enum tw_status tw_piece_decode(const struct reducer *r, const struct piece *p, const uint8_t *bytes,
			       size_t len, float *out)
{
	const struct tw_traffic *c = r->of.traffic;
	const size_t t = coded(r, p), tail = (p->n - t) * sizeof(float);

	if (len < tail)
		return TW_BAD_BYTES;
	memcpy(out + t, bytes, tail);
	return tw_codec_decode(c->up, c->up_options, bytes + tail, len - tail, out, t);
}

/* As the codec writes it, and in `back` what the others will decode.  TW_BAD_BYTES: it has values
 * that the codec cannot write. */
static enum tw_status encode(const struct reducer *r, const struct piece *p, bool whole,
			     struct tw_block **out, float *back)
{
	const struct tw_traffic *c = r->of.traffic;
	const struct tw_encoding of = { .rng = &r->of.rng,
					.draw = *r->of.number << 20 |
						(whole ? UINT64_C(1) << 19 : r->is.rank),
					.first = r->of.from + p->from,
					.progress = r->by->progress(r->who) };
	const size_t t = coded(r, p), tail = (p->n - t) * sizeof(float);
	size_t len = c->up->bound(c->up_options, t);
	struct tw_block *b = tw_block_new(r->heap, len + tail);
	enum tw_status st;

	if (!b)
		return TW_NO_MEMORY;
	st = c->up->encode(c->up_options, NULL, &of, p->at, t, b->data + tail, &len);
	if (st == TW_OK) {
		memcpy(b->data, p->at + t, tail);
		b->bytes = tail + len;
		st = tw_piece_decode(r, p, b->data, b->bytes, back);
	}
	if (st == TW_OK)
		*out = b;
	else
		tw_block_drop(b);
	return st;
}

/* `coded`: as it is in p->wire. */
static void send_piece(const struct reducer *r, struct tw_context *ctx, const struct piece *p,
		       uint32_t rank, bool whole, bool coded)
{
	struct tw_msg *m = r->by->message(r->who, ctx, r->is.member[rank].node);

	if (!m)
		return;
	m->h.from = r->is.rank;
	if (p->at)
		m->b.reduce = p->has;
	m->b.reduce.round = *r->of.number;
	m->b.reduce.attempt = r->is.attempt;
	m->b.reduce.chunk = p->chunk;
	m->b.reduce.part = p->part;
	m->b.reduce.whole = whole;
	m->b.reduce.what = r->by->what;
	m->h.flags = r->by->flags;
	if (coded) {
		m->payload = tw_block_keep(p->wire);
		m->payload_at = p->wire_at;
		m->h.payload = (uint32_t)p->wire_bytes;
	} else if (p->at) {
		m->h.flags |= r->of.gathers ? TW_FLAG_PLAIN : 0;
		m->payload = tw_block_keep(p->block);
		m->payload_at = (size_t)((const uint8_t *)p->at - p->block->data);
		m->h.payload = (uint32_t)(p->n * sizeof(float));
	}
	tw_send(ctx, m);
}

/* (7) */
enum tw_status tw_piece_seal(struct reducer *r, struct piece *p)
{
	enum tw_status st;
	float *sum;

	if (tw_reducer_is_plain(r) || p->wire || !p->at)
		return TW_OK;
	sum = tw_piece_sum_at(r, p);
	st = sum ? encode(r, p, true, &p->wire, sum) : TW_NO_MEMORY;
	if (st != TW_OK)
		return st;
	p->wire_at = 0;
	p->wire_bytes = p->wire->bytes;
	tw_piece_hold(p, r->sum, sum, &p->has);
	return TW_OK;
}

/* What is added up so far goes on, as the codec writes it. */
static enum tw_status send_coded(struct reducer *r, struct tw_context *ctx, const struct piece *p,
				 uint32_t rank)
{
	struct tw_block *back = tw_block_new(r->heap, p->n * sizeof(float)), *wire = NULL;
	const enum tw_status st =
		back ? encode(r, p, false, &wire, tw_block_floats(back)) : TW_NO_MEMORY;

	if (st == TW_OK) {
		struct piece out = *p;

		out.wire = wire;
		out.wire_at = 0;
		out.wire_bytes = wire->bytes;
		send_piece(r, ctx, &out, rank, false, true);
	}
	tw_block_drop(wire);
	tw_block_drop(back);
	return st;
}

/* The own input, before others are added to it or after that; nothing, if there is none. */
static void send_own(struct reducer *r, struct tw_context *ctx, const struct piece *p,
		     uint32_t rank)
{
	struct piece alone = { .from = p->from, .n = p->n, .chunk = p->chunk, .part = p->part };
	const bool adds = r->is.contributes || tw_reducer_mixes(r);
	struct reducer_input own;

	if (adds && r->by->input(r->who, &own)) {
		alone.block = own.block;
		alone.at = own.at + p->from;
		alone.has = own.has;
		if (own.wire) { /* (8): it has one piece */
			alone.wire = own.wire;
			alone.wire_at = own.wire_at;
			alone.wire_bytes = own.wire_bytes;
		}
	}
	send_piece(r, ctx, &alone, rank, false, alone.wire);
}

/* A move that sends. */
enum tw_status tw_piece_send(struct reducer *r, struct tw_context *ctx, struct piece *p,
			     const struct tw_move *move)
{
	const bool whole = move->kind == TW_MOVE_GIVE;
	const enum tw_status st = whole ? tw_piece_seal(r, p) : TW_OK;

	if (r->of.reduction->own) {
		send_own(r, ctx, p, move->peer);
		return TW_OK;
	}
	if (!whole && !tw_reducer_is_plain(r) && p->at)
		return send_coded(r, ctx, p, move->peer);
	if (st == TW_OK)
		send_piece(r, ctx, p, move->peer, whole, whole && p->wire);
	return st;
}

void tw_reducer_send_again(struct reducer *r, struct tw_context *ctx, uint32_t node)
{
	for (uint32_t k = 0; k < r->pieces; k++) {
		struct piece *p = &r->piece[k];
		bool whole = false; /* it has the sum: what it sent before was made use of */

		for (uint32_t i = 0; i < p->next; i++)
			whole = whole ||
				r->of.reduction->move(r->is.peers, r->is.rank, p->chunk, i).kind ==
					TW_MOVE_TAKE;
		for (uint32_t i = 0; i < p->next; i++) {
			const struct tw_move move =
				r->of.reduction->move(r->is.peers, r->is.rank, p->chunk, i);

			if ((move.kind != TW_MOVE_GIVE && (move.kind != TW_MOVE_SEND || whole)) ||
			    r->is.member[move.peer].node != node)
				continue;
			if (tw_piece_send(r, ctx, p, &move) != TW_OK)
				r->by->failed(r->who, ctx, TW_NO_MEMORY);
		}
	}
}
