/* SPDX-License-Identifier: Apache-2.0 */
/* shard_reduce_library.c - a round whose sum the world makes (TW_REDUCTION_LIBRARY).
 *
 *  (a) every replica of a formation asks for the sum of every round once, also one that has nothing
 *      to add: it adds zeros.  So does one whose contribution is not finite; it says so by never
 *      finishing, as (9) of shard_reduce.c wants it.
 *  (b) beside the vector travels a record for each replica, in which only that replica writes: the
 *      sum has all of them as they were.  Each 16 bits of it go as one float, so that no digit is
 *      lost. */
#include "node/shard/shard_reduce.h"
#include "vec/vec.h"

#include <string.h>

/* What has become of asking: the piece's `next`. */
enum { LIBRARY_IDLE, LIBRARY_ASKED, LIBRARY_HAS, LIBRARY_VOID };

/* What is said of a contribution: the rest of the body, from here on. */
#define FIRST  offsetof(struct tw_body_reduce, contributions)
#define RECORD ((sizeof(struct tw_body_reduce) - FIRST) / sizeof(uint16_t))

/* --- records ------------------------------------------------------------------------------ */

static void write_record(float *out, const struct tw_body_reduce *h)
{
	uint16_t half[RECORD];

	memcpy(half, (const uint8_t *)h + FIRST, sizeof half);
	for (size_t k = 0; k < RECORD; k++)
		out[k] = (float)half[k];
}

static struct tw_body_reduce read_record(const float *in)
{
	struct tw_body_reduce h = { .contributions = 0 };
	uint16_t half[RECORD] = { 0 };

	for (size_t k = 0; k < RECORD; k++)
		half[k] = (uint16_t)in[k];
	memcpy((uint8_t *)&h + FIRST, half, sizeof half);
	return h;
}

/* Of all replicas, in the order of ranks. */
static struct tw_body_reduce read_all(const struct shard_reduce *r, const float *records)
{
	struct tw_body_reduce all = { .contributions = 0 };

	for (uint32_t k = 0; k < r->peers; k++) {
		const struct tw_body_reduce one = read_record(records + (size_t)k * RECORD);

		if (!one.contributions)
			continue;
		if (all.contributions)
			tw_reduce_count(&all, &one);
		else
			all = one;
	}
	/* shares are in the sum already */
	all.account.divide = all.account.weight;
	return all;
}

/* --- asking ------------------------------------------------------------------------------- */

static uint64_t key_of(const struct shard *s, const struct shard_reduce *r)
{
	return (uint64_t)r->attempt << 40 | (s->slice.round & ((UINT64_C(1) << 40) - 1));
}

/* What this replica adds, as the world wants it; `in` NULL: zeros. */
static enum tw_status ask(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
			  const struct shard_piece *p, const struct reduce_input *in)
{
	const float share = in ? in->has.account.weight / in->has.account.divide : 0.0f;
	struct tw_sum sum = { .channel = s->index,
			      .key = key_of(s, r),
			      .n = p->n,
			      .out = tw_pool_take(s->slice.pool),
			      .more = tw_block_new(s->heap,
						   (size_t)r->peers * RECORD * sizeof(float)) };

	if (!sum.out || !sum.more) {
		tw_block_drop(sum.out);
		tw_block_drop(sum.more);
		return TW_NO_MEMORY;
	}
	memset(sum.more->data, 0, sum.more->bytes);
	if (in)
		write_record(tw_block_floats(sum.more) + (size_t)r->rank * RECORD, &in->has);
	if (in && share == 1.0f) {
		sum.in = tw_block_keep(in->block);
		sum.at = (size_t)((const uint8_t *)in->at - in->block->data);
	} else if (in) {
		tw_vec_scale_to(tw_block_floats(sum.out), share, in->at, p->n);
	} else {
		tw_vec_fill(tw_block_floats(sum.out), 0.0f, p->n);
	}
	ctx->world->sum(ctx, &sum);
	return TW_OK;
}

enum tw_status tw_reduce_ask_library(struct shard *s, struct shard_reduce *r,
				     struct tw_context *ctx, struct shard_piece *p)
{
	struct reduce_input own;
	enum tw_status st;

	if (p->next != LIBRARY_IDLE)
		return p->next == LIBRARY_HAS ? TW_OK : TW_ABSENT;
	if (r->peers != s->plan->crew.workers) {
		tw_give_up(ctx, TW_REFUSED,
			   "the MPI library adds up what all %u workers have, and %u take part; "
			   "use another strategy.topology.schedule",
			   s->plan->crew.workers, r->peers);
		return TW_ABSENT;
	}
	if (r->contributes && !tw_reduce_input(s, r, &own))
		return TW_ABSENT;
	if (r->contributes && own.unchecked && !tw_vec_finite(own.at, p->n)) { /* (a) */
		st = ask(s, r, ctx, p, NULL);
		p->next = LIBRARY_VOID;
		return st == TW_OK ? TW_REFUSED : st;
	}
	st = ask(s, r, ctx, p, r->contributes ? &own : NULL);
	p->next = LIBRARY_ASKED;
	return st == TW_OK ? TW_ABSENT : st;
}

void tw_shard_summed(struct shard *s, struct tw_context *ctx, uint64_t key, struct tw_block *sum,
		     struct tw_block *more)
{
	struct shard_reduce *r = &s->reduce;
	struct shard_piece *p = r->pieces ? &r->piece[0] : NULL;
	struct tw_body_reduce has;

	if (!p || p->next != LIBRARY_ASKED || key != key_of(s, r) ||
	    more->bytes != (size_t)r->peers * RECORD * sizeof(float))
		return; /* of a formation that holds no more */
	has = read_all(r, tw_block_floats(more));
	if (has.contributions)
		tw_reduce_hold(p, sum, tw_block_floats(sum), &has);
	p->next = LIBRARY_HAS;
	tw_reduce_advance(s, r, ctx, p);
}
