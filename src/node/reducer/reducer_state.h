/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_state.h - what the files of the reducer share; nobody else includes it.
 *
 *	reducer.c          formations, the whole sum, who waits for whom
 *	reducer_piece.c    the moves of a piece
 *	reducer_sum.c      how pieces are added
 *	reducer_send.c     how pieces travel
 *	reducer_arrive.c   pieces that come
 *	reducer_library.c  sums that the world makes */
#ifndef TW_NODE_REDUCER_REDUCER_STATE_H
#define TW_NODE_REDUCER_REDUCER_STATE_H

#include "node/reducer/reducer.h"

#define PART ((size_t)TW_REDUCE_FLOATS)

/* What has come from another member and is not made use of yet. */
struct arrival {
	struct arrival *next;
	uint32_t rank, node; /* of its sender */
	struct tw_body_reduce body;
	struct tw_block *block; /* a reference; NULL: nothing is in it */
	struct tw_block *wire;  /* as the codec wrote it; NULL: the block is what came */
	size_t at, wire_at, bytes;
	bool coded;     /* the block is what a codec wrote, and is decoded when its turn comes */
	bool unchecked; /* nobody has looked yet whether it is finite */
	bool mine;      /* nobody else reads the block */
};

/* A piece of the vector: a part of a chunk of the reduction. */
struct piece {
	size_t from, n; /* in the vector */
	uint32_t chunk, part;
	uint32_t next;             /* the move that is made next */
	bool done;                 /* all moves are made: what is added up is the sum */
	bool staged;               /* the client has it, and nobody needs it any more */
	struct tw_block *block;    /* what is added up so far is in here: a reference ... */
	const float *at;           /* ... from here on; NULL: nothing is added up yet */
	bool unchecked;            /* it is one vector, and may be not finite ... */
	bool own;                  /* ... of this node's worker */
	bool mine;                 /* nobody else reads the block yet: sums may be made there */
	struct tw_body_reduce has; /* what is said of it */
	struct tw_block *wire;     /* the sum as the codec wrote it; NULL: floats, or not yet ... */
	size_t wire_at, wire_bytes; /* ... in it */
	struct arrival *waiting;    /* ascending by rank */
};

/* What holds: README.md. */
struct reducer {
	const struct reducer_client *by;
	void *who;
	struct tw_heap *heap;
	struct reducer_vector of;
	struct reducer_formation is;
	struct tw_block *members; /* of the formation: struct tw_member by rank; NULL: none */
	struct piece *piece;
	uint32_t pieces, left, chunks; /* left: that are not done */
	uint32_t *first;               /* piece, by chunk; chunks + 1 of them */
	struct tw_block *sum;    /* where sums are made, as long as the vector; NULL: not needed */
	struct slice_part *part; /* room for where the pieces lie */
	float *owed;             /* gathers: by rank, what it owes after this sum */
	struct arrival *early;   /* of a sum or formation yet to come */
	uint32_t earlies;
	struct tw_block *later_members; /* of a formation for a sum yet to come; NULL: none */
	struct tw_body_form later;
};

/* --- reducer_piece.c ------------------------------------------------------------------------ */

/* Make all moves of the piece that can be made (4), and tell the client if it was the last one. */
enum tw_status tw_piece_advance(struct reducer *r, struct tw_context *ctx, struct piece *p);

/* --- reducer_sum.c -------------------------------------------------------------------------- */

void tw_arrival_drop(struct reducer *r, struct arrival *a);
void tw_arrivals_drop(struct reducer *r, struct arrival **list);
/* Nothing is added up in it. */
void tw_piece_empty(struct reducer *r, struct piece *p);
/* Where the sum of this piece is made; NULL without memory. */
float *tw_piece_sum_at(struct reducer *r, const struct piece *p);
/* What is added up so far becomes this, which is checked, and only read. */
void tw_piece_hold(struct piece *p, struct tw_block *block, const float *at,
		   const struct tw_body_reduce *has);
/* What is held is checked; what may not be added up is held no longer (5).  TW_REFUSED: (4). */
enum tw_status tw_piece_check(struct reducer *r, struct piece *p);
/* (6).  TW_REFUSED: (4). */
enum tw_status tw_piece_add(struct reducer *r, struct piece *p, const struct reducer_input *in);
/* Add or take over what another member sent. */
enum tw_status tw_piece_receive(struct reducer *r, struct piece *p, struct arrival *a);
/* What was added is told of the sum. */
void tw_reduce_count(struct tw_body_reduce *has, const struct tw_body_reduce *of);

/* --- reducer_library.c ---------------------------------------------------------------------- */

/* Does the world add up? */
static inline bool tw_reducer_by_library(const struct reducer *r)
{
	return r->of.reduction->traits & TW_REDUCTION_LIBRARY;
}
/* The next step of the one piece that there is: asking for its sum.  TW_ABSENT: what this member
 * adds is not here yet, or the sum is not.  TW_REFUSED: (4). */
enum tw_status tw_piece_ask_library(struct reducer *r, struct tw_context *ctx, struct piece *p);
/* The sum that was asked for; false: it is of a formation that holds no more. */
bool tw_piece_take_library(struct reducer *r, struct piece *p, uint64_t key, struct tw_block *sum,
			   struct tw_block *more);

/* --- reducer_send.c ------------------------------------------------------------------------- */

/* Do pieces travel as floats? */
static inline bool tw_reducer_is_plain(const struct reducer *r)
{
	return r->by->parameters || r->of.gathers ||
	       (r->of.traffic->up->traits & TW_CODEC_IDENTITY);
}
enum tw_status tw_piece_decode(const struct reducer *r, const struct piece *p, const uint8_t *bytes,
			       size_t len, float *out);
/* The sum becomes what the others will decode. */
enum tw_status tw_piece_seal(struct reducer *r, struct piece *p);
/* A move that sends. */
enum tw_status tw_piece_send(struct reducer *r, struct tw_context *ctx, struct piece *p,
			     const struct tw_move *move);

/* --- reducer_arrive.c ----------------------------------------------------------------------- */

/* What was early and is not any more; what is of no use is dropped. */
void tw_reducer_take_early(struct reducer *r, struct tw_context *ctx);

/* Every member adds its parameters to a sum that is not a mean. */
static inline bool tw_reducer_mixes(const struct reducer *r)
{
	return r->by->parameters && !r->by->mean;
}

#endif
