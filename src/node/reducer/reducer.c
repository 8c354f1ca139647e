/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.c - formations, and the moves of their pieces.  Numbers in brackets are those of
 * README.md. */
#include "node/reducer/reducer_state.h"
#include "vec/vec.h"

#include <math.h>

/* --- memory ------------------------------------------------------------------------------- */

struct reducer *tw_reducer_new(struct tw_heap *heap, const struct reducer_client *by, void *who,
			       const struct reducer_vector *of, uint32_t attempt)
{
	struct reducer *r = tw_heap_zeros(heap, sizeof *r);

	if (r)
		*r = (struct reducer){
			.by = by, .who = who, .heap = heap, .of = *of, .is.attempt = attempt
		};
	return r;
}

void tw_reducer_empty(struct reducer *r)
{
	for (uint32_t k = 0; k < r->pieces; k++)
		tw_piece_empty(r, &r->piece[k]);
	r->left = r->pieces;
	tw_block_drop(r->sum);
	r->sum = NULL;
	if (r->by->unstage)
		r->by->unstage(r->who);
}

void tw_reducer_disband(struct reducer *r)
{
	tw_reducer_empty(r);
	r->heap->put(r->heap, r->piece);
	r->heap->put(r->heap, r->part);
	r->heap->put(r->heap, r->first);
	r->heap->put(r->heap, r->owed);
	tw_block_drop(r->members);
	r->members = NULL;
	r->piece = NULL;
	r->part = NULL;
	r->first = NULL;
	r->owed = NULL;
	r->pieces = r->left = r->chunks = 0;
	r->is = (struct reducer_formation){ .attempt = r->is.attempt };
}

void tw_reducer_forget(struct reducer *r)
{
	tw_reducer_disband(r);
	tw_arrivals_drop(r, &r->early);
	r->earlies = 0;
	tw_block_drop(r->later_members);
	r->later_members = NULL;
}

void tw_reducer_free(struct reducer *r)
{
	if (!r)
		return;
	tw_reducer_forget(r);
	r->heap->put(r->heap, r);
}

/* --- moves -------------------------------------------------------------------------------- */

/* From the chunk of the own rank on: if all began with the first one, all of them would send to the
 * same member (reduction.h, (6)). */
static struct piece *piece_in_turn(const struct reducer *r, uint32_t k)
{
	return &r->piece[(r->first[r->is.rank % r->chunks] + k) % r->pieces];
}

/* Make all moves that can be made, with what came early. */
static void advance_all(struct reducer *r, struct tw_context *ctx)
{
	tw_reducer_take_early(r, ctx);
	for (uint32_t k = 0; k < r->pieces; k++)
		if (!piece_in_turn(r, k)->done)
			tw_piece_advance(r, ctx, piece_in_turn(r, k));
}

enum tw_status tw_reducer_input_came(struct reducer *r, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < r->pieces; k++)
		if (!piece_in_turn(r, k)->done &&
		    tw_piece_advance(r, ctx, piece_in_turn(r, k)) == TW_REFUSED)
			return TW_REFUSED;
	return TW_OK;
}

void tw_reducer_summed(struct reducer *r, struct tw_context *ctx, uint64_t key,
		       struct tw_block *sum, struct tw_block *more)
{
	if (r->pieces && tw_piece_take_library(r, &r->piece[0], key, sum, more))
		tw_piece_advance(r, ctx, &r->piece[0]);
}

bool tw_reducer_checks(const struct reducer *r)
{
	return r->pieces && !r->of.reduction->own && r->is.contributes;
}

/* --- formations --------------------------------------------------------------------------- */

/* Values of one piece, at most; (8) has one, and a library cuts as it likes. */
static size_t longest(const struct reducer *r)
{
	return r->of.gathers || tw_reducer_by_library(r) ? r->of.n : PART;
}

static uint32_t parts_of(size_t n, size_t most)
{
	return (uint32_t)((n + most - 1) / most);
}

/* All pieces of the vector, for so many peers. */
static enum tw_status cut(struct reducer *r)
{
	const size_t n = r->of.n, most = longest(r);
	uint32_t k = 0;

	r->chunks = tw_reducer_by_library(r) ? 1 : r->of.reduction->chunks(r->is.peers);
	r->first = tw_heap_zeros(r->heap, ((size_t)r->chunks + 1) * sizeof *r->first);
	if (!r->first)
		return TW_NO_MEMORY;
	for (uint32_t c = 0; c < r->chunks; c++)
		r->first[c + 1] =
			r->first[c] + parts_of(tw_reduction_border(n, r->chunks, c + 1) -
						       tw_reduction_border(n, r->chunks, c),
					       most);
	r->pieces = r->left = r->first[r->chunks];
	r->piece = tw_heap_zeros(r->heap, (size_t)r->pieces * sizeof *r->piece);
	r->part = tw_heap_zeros(r->heap, (size_t)r->pieces * sizeof *r->part);
	if (r->of.gathers)
		r->owed = tw_heap_zeros(r->heap, r->is.peers * sizeof *r->owed);
	if (!r->piece || !r->part || (r->of.gathers && !r->owed))
		return TW_NO_MEMORY;
	for (uint32_t c = 0; c < r->chunks; c++) {
		const size_t end = tw_reduction_border(n, r->chunks, c + 1);
		size_t at = tw_reduction_border(n, r->chunks, c);

		for (uint32_t part = 0; at < end; part++, at += most)
			r->piece[k++] = (struct piece){ .from = at,
							.n = end - at < most ? end - at : most,
							.chunk = c,
							.part = part };
	}
	return TW_OK;
}

/* The place of this node in the list; peers: it has none. */
static uint32_t rank_of(const struct tw_member *list, uint32_t peers, uint32_t node)
{
	uint32_t k = 0;

	while (k < peers && list[k].node != node)
		k++;
	return k;
}

static void form(struct reducer *r, struct tw_context *ctx, const struct tw_body_form *b,
		 struct tw_block *members, uint32_t peers)
{
	const struct tw_member *list = (const void *)members->data;
	const uint32_t rank = rank_of(list, peers, ctx->self.node);

	tw_reducer_disband(r);
	r->is.attempt = b->attempt;
	if (rank == peers)
		return; /* the others do without it */
	r->members = tw_block_keep(members);
	r->is = (struct reducer_formation){ .attempt = b->attempt,
					    .peers = peers,
					    .rank = rank,
					    .member = (const void *)r->members->data,
					    .contributes = list[rank].state == TW_LIVE,
					    .since = tw_now(ctx) };
	if (cut(r) != TW_OK) {
		tw_reducer_disband(r);
		r->by->failed(r->who, ctx, TW_NO_MEMORY);
		return;
	}
	advance_all(r, ctx);
}

void tw_reducer_form(struct reducer *r, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_form *b = &m->b.form;

	if (b->attempt <= r->is.attempt || (!r->by->at_once && b->round < *r->of.number))
		return;
	if (r->by->at_once || b->round == *r->of.number) {
		form(r, ctx, b, m->tail, (uint32_t)(m->h.tail / sizeof(struct tw_member)));
		return;
	}
	/* what ends the sum before it is on its way */
	tw_block_drop(r->later_members);
	r->later_members = tw_block_keep(m->tail);
	r->later = *b;
}

void tw_reducer_form_late(struct reducer *r, struct tw_context *ctx)
{
	struct tw_block *list = r->later_members;

	if (!list || r->later.round > *r->of.number)
		return;
	r->later_members = NULL;
	if (r->later.round == *r->of.number && r->later.attempt > r->is.attempt)
		form(r, ctx, &r->later, list, (uint32_t)(list->bytes / sizeof(struct tw_member)));
	tw_block_drop(list);
}

void tw_reducer_next(struct reducer *r, struct tw_context *ctx)
{
	tw_reducer_form_late(r, ctx);
	advance_all(r, ctx);
}

/* --- the sum ------------------------------------------------------------------------------ */

const struct reducer_formation *tw_reducer_formation(const struct reducer *r)
{
	return &r->is;
}

bool tw_reducer_is_complete(const struct reducer *r)
{
	return r->pieces && !r->left;
}

struct tw_body_reduce tw_reducer_has(const struct reducer *r)
{
	return r->pieces ? r->piece[0].has : (struct tw_body_reduce){ .contributions = 0 };
}

bool tw_reducer_has_sum(const struct reducer *r)
{
	return r->pieces && (r->piece[0].at || r->piece[0].staged);
}

const struct slice_part *tw_reducer_parts(struct reducer *r, uint32_t *count)
{
	*count = 0;
	for (uint32_t k = 0; k < r->pieces; k++) {
		const struct piece *p = &r->piece[k];

		if (!p->at && !p->staged)
			return NULL;
		r->part[k] = (struct slice_part){ p->from, p->n, p->at };
	}
	*count = r->pieces;
	return r->part;
}

const float *tw_reducer_owed(const struct reducer *r)
{
	return r->owed;
}

struct tw_block *tw_reducer_mean(const struct reducer *r)
{
	struct tw_block *b = tw_pool_take(r->of.pool);

	for (uint32_t k = 0; b && k < r->pieces; k++) {
		const struct piece *p = &r->piece[k];
		float *mean = tw_block_floats(b) + p->from;

		if (p->at)
			tw_vec_scale_to(mean, 1.0f / p->has.account.divide, p->at, p->n);
		else
			tw_vec_fill(mean, NAN, p->n); /* (5) */
	}
	return b;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* How many moves of a peer wait for others before it sends this piece to us. */
static uint32_t depth_of(const struct tw_reduction *by, const struct reducer *r,
			 const struct piece *p, const struct tw_move *move)
{
	const uint32_t peer = move->peer, moves = by->moves(r->is.peers, peer, p->chunk);
	uint32_t depth = 0;

	for (uint32_t k = 0; k < moves; k++) {
		const struct tw_move m = by->move(r->is.peers, peer, p->chunk, k);
		const bool receives = m.kind == TW_MOVE_ADD || m.kind == TW_MOVE_TAKE;

		if (!receives && m.peer == r->is.rank &&
		    (m.kind == TW_MOVE_GIVE) == (move->kind == TW_MOVE_TAKE))
			break;
		depth += receives && m.peer != peer;
	}
	return by->own ? 0 : depth;
}

uint32_t tw_reducer_awaits(const struct reducer *r, uint32_t *depth)
{
	const struct tw_reduction *by = r->of.reduction;
	uint32_t rank = r->is.peers;

	*depth = UINT32_MAX;
	if (tw_reducer_by_library(r))
		return rank; /* nobody knows */
	for (uint32_t k = 0; r->left && k < r->pieces && *depth; k++) {
		const struct piece *p = &r->piece[k];
		struct tw_move move;
		uint32_t d;

		if (p->done)
			continue;
		move = by->move(r->is.peers, r->is.rank, p->chunk, p->next);
		d = move.peer == r->is.rank ? UINT32_MAX : depth_of(by, r, p, &move);
		if (d < *depth) {
			*depth = d;
			rank = move.peer;
		}
	}
	return rank;
}

bool tw_reducer_waits(const struct reducer *r, struct tw_wait *out)
{
	uint32_t rank, depth;

	if (!r->left)
		return false;
	if (tw_reducer_by_library(r)) {
		*out = (struct tw_wait){ .whom = tw_master_addr(),
					 .why = "the library's sum of all ranks",
					 .step = *r->of.number,
					 .since = r->is.since };
		return true;
	}
	rank = tw_reducer_awaits(r, &depth);
	if (rank == r->is.peers)
		return false;
	*out = (struct tw_wait){ .whom = { r->is.member[rank].node, TW_WORKER, 0 },
				 .slot = r->is.member[rank].slot,
				 .why = r->by->why,
				 .step = *r->of.number,
				 .since = r->is.since };
	return true;
}
