/* SPDX-License-Identifier: Apache-2.0 */
/* shard_reduce.h - what the files of a sum of replicas share; the rules are in shard_reduce.c.
 *
 *	shard_reduce.c         inputs, sums and moves; what the master is told
 *	shard_reduce_send.c    how pieces travel
 *	shard_reduce_arrive.c  pieces that come
 *	shard_reduce_library.c sums that the world makes
 *	shard_form.c           formations and commits */
#ifndef TW_NODE_SHARD_SHARD_REDUCE_H
#define TW_NODE_SHARD_SHARD_REDUCE_H

#include "node/shard/shard.h"

#define PART ((size_t)TW_REDUCE_FLOATS)

/* What this replica adds, and what is said of it. */
struct reduce_input {
	struct tw_block *block;
	const float *at;
	struct tw_body_reduce has;
	const struct contribution *of; /* NULL: it is parameters */
	bool unchecked;                /* nobody has looked yet whether it is finite */
	bool own;                      /* it is of this node's worker */
	bool mine;                     /* nobody else reads the block */
};

static inline const struct tw_member *tw_reduce_members(const struct shard_reduce *r)
{
	return (const void *)r->members->data;
}

/* Is what is added up parameters, in a round? */
static inline bool tw_reduce_mixes(const struct shard *s, const struct shard_reduce *r)
{
	return r->what == TW_FORM_ROUND && tw_shard_is_loose(s);
}

static inline bool tw_reduce_averages(const struct shard_reduce *r)
{
	return r->what != TW_FORM_ROUND;
}

static inline const struct tw_reduction *tw_reduce_reduction(const struct shard *s,
							     const struct shard_reduce *r)
{
	return r->what == TW_FORM_ROUND ? tw_plan_round(s->plan) : s->plan->topology.reduction;
}

/* --- shard_reduce.c ------------------------------------------------------------------------- */

void tw_reduce_drop_arrival(struct shard *s, struct shard_arrival *a);
/* Nothing of this round is added up. */
void tw_reduce_begin_again(struct shard *s, struct shard_reduce *r);
/* No formation holds. */
void tw_reduce_disband(struct shard *s, struct shard_reduce *r);
/* Where the sum of this piece is made; NULL without memory. */
float *tw_reduce_sum_at(struct shard *s, struct shard_reduce *r, const struct shard_piece *p);
/* What is added up so far becomes this, which is checked, and only read. */
void tw_reduce_hold(struct shard_piece *p, struct tw_block *block, const float *at,
		    const struct tw_body_reduce *has);
/* The contribution of this node's worker to the round; NULL: it is not here yet. */
const struct contribution *tw_reduce_own(const struct shard *s, const struct shard_reduce *r);
struct reduce_input tw_reduce_of_contribution(const struct contribution *c);
/* What this replica adds; false: it is not here yet. */
bool tw_reduce_input(const struct shard *s, const struct shard_reduce *r, struct reduce_input *out);
/* A step of the sum could not be made. */
void tw_reduce_fail(struct shard *s, struct tw_context *ctx, enum tw_status st);
/* A mean was adopted: HAVE says so. */
void tw_reduce_tell_adopted(struct shard *s, struct tw_context *ctx);
/* The mean of what was added up, in a new block; NULL without memory. */
struct tw_block *tw_reduce_mean(struct shard *s, const struct shard_reduce *r);
/* Make all moves of the piece that can be made (9), and tell the master if it was the last one. */
void tw_reduce_advance(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		       struct shard_piece *p);
void tw_reduce_advance_all(struct shard *s, struct shard_reduce *r, struct tw_context *ctx);

/* What was added is told of the sum. */
void tw_reduce_count(struct tw_body_reduce *has, const struct tw_body_reduce *of);

/* --- shard_reduce_library.c ----------------------------------------------------------------- */

/* Does the world add up? */
static inline bool tw_reduce_by_library(const struct shard *s, const struct shard_reduce *r)
{
	return tw_reduce_reduction(s, r)->traits & TW_REDUCTION_LIBRARY;
}
/* The next step of the one piece that there is: asking for its sum.  TW_ABSENT: what this replica
 * adds is not here yet, or the sum is not.  TW_REFUSED: (9). */
enum tw_status tw_reduce_ask_library(struct shard *s, struct shard_reduce *r,
				     struct tw_context *ctx, struct shard_piece *p);

/* --- shard_reduce_send.c -------------------------------------------------------------------- */

/* Do pieces travel as floats? */
bool tw_reduce_travels_plain(const struct shard *s);
enum tw_status tw_reduce_decode(struct shard *s, const struct shard_piece *p, const uint8_t *bytes,
				size_t len, float *out);
/* The sum becomes what the others will decode. */
enum tw_status tw_reduce_seal(struct shard *s, struct shard_reduce *r, struct shard_piece *p);
/* A move that sends. */
enum tw_status tw_reduce_send(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
			      struct shard_piece *p, const struct tw_move *move);

/* --- shard_reduce_arrive.c ------------------------------------------------------------------ */

/* What was early and is not any more; what is of no use is dropped. */
void tw_reduce_take_early(struct shard *s, struct shard_reduce *r, struct tw_context *ctx);
/* The sum of this kind. */
struct shard_reduce *tw_reduce_of(struct shard *s, uint32_t what);

#endif
