/* SPDX-License-Identifier: Apache-2.0 */
/* shard_reduce_library.c - a round whose sum the world makes (TW_REDUCTION_LIBRARY).
 *
 *  (a) every replica of a formation asks for the sum of every round once, also one that has nothing
 *      to add: it adds zeros.  So does one whose contribution is not finite; it says so by never
 *      finishing, as (9) of shard_reduce.c wants it.
 *  (b) beside the vector travels a record for each replica, in which only that replica writes: the
 *      sum has all of them as they were.  Integers go as halves of 16 bits and doubles as three
 *      floats, so that no digit is lost. */
#include "node/shard/shard_reduce.h"
#include "vec/vec.h"

#include <string.h>

/* What has become of asking: the piece's `next`. */
enum { LIBRARY_IDLE, LIBRARY_ASKED, LIBRARY_HAS, LIBRARY_VOID };

#define WHOLES 5 /* whole numbers of a record */
#define FLOATS 4
#define REALS  1 /* doubles */
#define RECORD (2 * WHOLES + FLOATS + 3 * REALS)

/* --- records ------------------------------------------------------------------------------ */

static void write_record(float *out, const struct tw_body_reduce *h)
{
	const uint32_t whole[WHOLES] = { h->contributions, h->steps, h->samples, h->own_steps,
					 h->skipped };
	const float single[FLOATS] = { h->weight, h->divide, h->drift, h->drift_most };
	const double real[REALS] = { h->loss };

	for (int k = 0; k < WHOLES; k++) {
		*out++ = (float)(whole[k] >> 16);
		*out++ = (float)(whole[k] & 0xffff);
	}
	memcpy(out, single, sizeof single);
	out += FLOATS;
	for (int k = 0; k < REALS; k++) {
		double rest = real[k];

		for (int i = 0; i < 3; i++) {
			*out = (float)rest;
			rest -= (double)*out++;
		}
	}
}

static struct tw_body_reduce read_record(const float *in)
{
	uint32_t whole[WHOLES];
	double real[REALS];
	float single[FLOATS];

	for (int k = 0; k < WHOLES; k++, in += 2)
		whole[k] = (uint32_t)in[0] << 16 | (uint32_t)in[1];
	memcpy(single, in, sizeof single);
	in += FLOATS;
	for (int k = 0; k < REALS; k++, in += 3)
		real[k] = (double)in[0] + (double)in[1] + (double)in[2];
	return (struct tw_body_reduce){ .contributions = whole[0],
					.steps = whole[1],
					.samples = whole[2],
					.own_steps = whole[3],
					.skipped = whole[4],
					.weight = single[0],
					.divide = single[1],
					.drift = single[2],
					.drift_most = single[3],
					.loss = real[0] };
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
	all.divide = all.weight;
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
	const float share = in ? in->has.weight / in->has.divide : 0.0f;
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
