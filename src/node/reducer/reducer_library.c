/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_library.c - a sum that the world makes (TW_REDUCTION_LIBRARY).
 *
 *  (a) every member of a formation asks for every sum once, also one that has nothing to add: it
 *      adds zeros.  So does one whose vector is not finite; it says so by never finishing, as (4)
 *      of README.md wants it.
 *  (b) beside the vector travels a record for each member, in which only that member writes: the
 *      sum has all of them as they were.  Each 16 bits of it go as one float, so that no digit is
 *      lost. */
#include "node/reducer/reducer_state.h"
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

/* Of all members, in the order of ranks. */
static struct tw_body_reduce read_all(const struct reducer *r, const float *records)
{
	struct tw_body_reduce all = { .contributions = 0 };

	for (uint32_t k = 0; k < r->is.peers; k++) {
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

static uint64_t key_of(const struct reducer *r)
{
	return (uint64_t)r->is.attempt << 40 | (*r->of.number & ((UINT64_C(1) << 40) - 1));
}

/* What this member adds, as the world wants it; `in` NULL: zeros. */
static enum tw_status ask(struct reducer *r, struct tw_context *ctx, const struct piece *p,
			  const struct reducer_input *in)
{
	const float share = in ? in->has.account.weight / in->has.account.divide : 0.0f;
	struct tw_sum sum = { .channel = r->of.channel,
			      .key = key_of(r),
			      .n = p->n,
			      .out = tw_pool_take(r->of.pool),
			      .more = tw_block_new(r->heap,
						   (size_t)r->is.peers * RECORD * sizeof(float)) };

	if (!sum.out || !sum.more) {
		tw_block_drop(sum.out);
		tw_block_drop(sum.more);
		return TW_NO_MEMORY;
	}
	memset(sum.more->data, 0, sum.more->bytes);
	if (in)
		write_record(tw_block_floats(sum.more) + (size_t)r->is.rank * RECORD, &in->has);
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

enum tw_status tw_piece_ask_library(struct reducer *r, struct tw_context *ctx, struct piece *p)
{
	struct reducer_input own;
	enum tw_status st;

	if (p->next != LIBRARY_IDLE)
		return p->next == LIBRARY_HAS ? TW_OK : TW_ABSENT;
	if (r->is.peers != r->of.most) {
		tw_give_up(ctx, TW_REFUSED,
			   "the MPI library adds up what all %u workers have, and %u take part; "
			   "use another strategy.topology.schedule",
			   r->of.most, r->is.peers);
		return TW_ABSENT;
	}
	if (r->is.contributes && !r->by->input(r->who, &own))
		return TW_ABSENT;
	if (r->is.contributes && own.unchecked && !tw_vec_finite(own.at, p->n)) { /* (a) */
		st = ask(r, ctx, p, NULL);
		p->next = LIBRARY_VOID;
		return st == TW_OK ? TW_REFUSED : st;
	}
	st = ask(r, ctx, p, r->is.contributes ? &own : NULL);
	p->next = LIBRARY_ASKED;
	return st == TW_OK ? TW_ABSENT : st;
}

bool tw_piece_take_library(struct reducer *r, struct piece *p, uint64_t key, struct tw_block *sum,
			   struct tw_block *more)
{
	struct tw_body_reduce has;

	if (p->next != LIBRARY_ASKED || key != key_of(r) ||
	    more->bytes != (size_t)r->is.peers * RECORD * sizeof(float))
		return false;
	has = read_all(r, tw_block_floats(more));
	if (has.contributions)
		tw_piece_hold(p, sum, tw_block_floats(sum), &has);
	p->next = LIBRARY_HAS;
	return true;
}
