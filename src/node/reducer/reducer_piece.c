/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_piece.c - the moves of a piece, one after the other.  Numbers in brackets are those of
 * README.md. */
#include "node/reducer/reducer_state.h"

/* What this member sent of the piece; NULL: it has not come. */
static struct arrival *arrived(struct piece *p, uint32_t rank, bool whole)
{
	for (struct arrival **a = &p->waiting; *a && (*a)->rank <= rank; a = &(*a)->next)
		if ((*a)->rank == rank && !(*a)->body.whole == !whole) {
			struct arrival *found = *a;

			*a = found->next;
			return found;
		}
	return NULL;
}

/* Is it given to others, now or when a connection is made anew (3)? */
static bool gives(const struct reducer *r, const struct piece *p)
{
	const struct tw_reduction *by = r->of.reduction;
	const uint32_t moves = by->moves(r->is.peers, r->is.rank, p->chunk);
	uint32_t k = 0;

	while (k < moves && by->move(r->is.peers, r->is.rank, p->chunk, k).kind != TW_MOVE_GIVE)
		k++;
	return k < moves || by->own || tw_reducer_by_library(r);
}

/* For what the client makes of the sum: now the piece is in the cache.  (10) */
static void hand_over(const struct reducer *r, struct piece *p)
{
	const struct slice_part part = { p->from, p->n, p->at };

	if (!p->at || !r->by->part(r->who, &part, &p->has.account) || gives(r, p))
		return;
	tw_block_drop(p->block);
	p->block = NULL;
	p->at = NULL;
	p->staged = true;
}

/* The last move is made. */
static enum tw_status finish_piece(struct reducer *r, struct piece *p)
{
	enum tw_status st = tw_piece_check(r, p);

	if (st == TW_OK)
		st = tw_piece_seal(r, p);
	if (st != TW_OK)
		return st;
	if (r->by->part)
		hand_over(r, p);
	p->done = true;
	r->left--;
	return TW_OK;
}

/* Add what this node has to the piece.  TW_ABSENT: it is not here yet. */
static enum tw_status add_own(struct reducer *r, struct piece *p)
{
	struct reducer_input own;

	if (!r->is.contributes && !tw_reducer_mixes(r))
		return TW_OK;
	if (!r->by->input(r->who, &own))
		return TW_ABSENT;
	own.at += p->from;
	if (r->owed)
		r->owed[r->is.rank] = own.has.account.residual;
	return tw_piece_add(r, p, &own);
}

/* Add or take over what another member sent.  TW_ABSENT: it is not here yet. */
static enum tw_status take_arrived(struct reducer *r, struct piece *p, const struct tw_move *move)
{
	struct arrival *a = arrived(p, move->peer, move->kind == TW_MOVE_TAKE);
	enum tw_status st;

	if (!a)
		return TW_ABSENT;
	st = tw_piece_receive(r, p, a);
	tw_arrival_drop(r, a);
	return st;
}

/* What leaves alone is checked before (4).  TW_ABSENT: it is the own input, and not here yet. */
static enum tw_status send_checked(struct reducer *r, struct tw_context *ctx, struct piece *p,
				   const struct tw_move *move)
{
	const enum tw_status st = tw_piece_check(r, p);
	struct reducer_input own;

	if (r->of.reduction->own && r->is.contributes && !tw_reducer_mixes(r) &&
	    !r->by->input(r->who, &own))
		return TW_ABSENT;
	return st == TW_OK ? tw_piece_send(r, ctx, p, move) : st;
}

/* Make all moves of the piece that can be made.  TW_REFUSED: (4); no further move is made. */
static enum tw_status advance(struct reducer *r, struct tw_context *ctx, struct piece *p)
{
	const uint32_t moves = r->of.reduction->moves(r->is.peers, r->is.rank, p->chunk);

	if (tw_reducer_by_library(r)) {
		const enum tw_status st = tw_piece_ask_library(r, ctx, p);

		return st == TW_ABSENT ? TW_OK : st != TW_OK || p->done ? st : finish_piece(r, p);
	}
	for (; p->next < moves; p->next++) {
		const struct tw_move move =
			r->of.reduction->move(r->is.peers, r->is.rank, p->chunk, p->next);
		const bool receives = move.kind == TW_MOVE_ADD || move.kind == TW_MOVE_TAKE;
		const enum tw_status st = !receives                 ? send_checked(r, ctx, p, &move)
					  : move.peer == r->is.rank ? add_own(r, p)
								    : take_arrived(r, p, &move);

		if (st != TW_OK)
			return st == TW_ABSENT ? TW_OK : st;
	}
	return p->done ? TW_OK : finish_piece(r, p);
}

enum tw_status tw_piece_advance(struct reducer *r, struct tw_context *ctx, struct piece *p)
{
	const bool was = p->done;
	const enum tw_status st = advance(r, ctx, p);

	if (st == TW_REFUSED)
		r->by->refused(r->who, ctx);
	else if (st != TW_OK)
		r->by->failed(r->who, ctx, st);
	if (st == TW_OK && !was && !r->left)
		r->by->complete(r->who, ctx);
	return st;
}
