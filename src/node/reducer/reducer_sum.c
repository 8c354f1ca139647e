/* SPDX-License-Identifier: Apache-2.0 */
/* reducer_sum.c - how pieces are added, and what may not be added.  (4) to (9) of README.md. */
#include "node/reducer/reducer_state.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

void tw_arrival_drop(struct reducer *r, struct arrival *a)
{
	tw_block_drop(a->block);
	tw_block_drop(a->wire);
	r->heap->put(r->heap, a);
}

void tw_arrivals_drop(struct reducer *r, struct arrival **list)
{
	while (*list) {
		struct arrival *a = *list;

		*list = a->next;
		tw_arrival_drop(r, a);
	}
}

void tw_piece_empty(struct reducer *r, struct piece *p)
{
	tw_block_drop(p->block);
	tw_block_drop(p->wire);
	p->block = p->wire = NULL;
	p->at = NULL;
	p->has = (struct tw_body_reduce){ .contributions = 0 };
	p->unchecked = p->mine = false;
	p->next = 0;
	p->done = p->staged = false;
	tw_arrivals_drop(r, &p->waiting);
}

/* --- adding ------------------------------------------------------------------------------- */

float *tw_piece_sum_at(struct reducer *r, const struct piece *p)
{
	if (!r->sum)
		r->sum = tw_pool_take(r->of.pool);
	return r->sum ? tw_block_floats(r->sum) + p->from : NULL;
}

void tw_piece_hold(struct piece *p, struct tw_block *block, const float *at,
		   const struct tw_body_reduce *has)
{
	tw_block_keep(block);
	tw_block_drop(p->block);
	p->block = block;
	p->at = at;
	p->has = *has;
	p->unchecked = p->mine = false;
}

/* What may not be added up: TW_REFUSED if it is of this node's worker (4), else TW_ABSENT (5). */
static enum tw_status turn_down(const struct reducer *r, bool own)
{
	*r->of.refused += !own;
	return own ? TW_REFUSED : TW_ABSENT;
}

static void let_go(struct piece *p)
{
	tw_block_drop(p->block);
	p->block = NULL;
	p->at = NULL;
	p->has = (struct tw_body_reduce){ .contributions = 0 };
	p->unchecked = false;
}

enum tw_status tw_piece_check(struct reducer *r, struct piece *p)
{
	if (p->unchecked && !tw_vec_finite(p->at, p->n)) {
		if (turn_down(r, p->own) == TW_REFUSED)
			return TW_REFUSED;
		let_go(p);
	}
	p->unchecked = false;
	return TW_OK;
}

static void hold_input(struct piece *p, const struct reducer_input *in, bool unchecked)
{
	tw_piece_hold(p, in->block, in->at, &in->has);
	p->unchecked = unchecked;
	p->own = in->own;
	p->mine = in->mine;
}

void tw_reduce_count(struct tw_body_reduce *has, const struct tw_body_reduce *of)
{
	has->contributions += of->contributions;
	has->drift_most = fmaxf(has->drift_most, of->drift_most);
	tw_account_add(&has->account, &of->account);
}

/* Where the sum of what is held and of what comes is made: over one of them if nobody else reads
 * it, for that is in the cache.  The other one must then be good, or void all (4): if it may be
 * turned down (5), this one is still needed. */
static struct tw_block *room_for_sum(struct reducer *r, struct piece *p,
				     const struct reducer_input *in, float **out)
{
	if (in->mine && (p->own || !p->unchecked)) {
		*out = (float *)in->at;
		return in->block;
	}
	if (p->mine) {
		*out = (float *)p->at;
		return p->block;
	}
	*out = tw_piece_sum_at(r, p);
	return *out ? r->sum : NULL;
}

/* What was found in the pass that adds.  TW_ABSENT: there is no sum. */
static enum tw_status judge(const struct reducer *r, struct piece *p,
			    const struct reducer_input *in, unsigned strange)
{
	const bool held = p->unchecked && (strange & TW_VEC_FIRST);
	const bool comes = in->unchecked && (strange & TW_VEC_SECOND);

	if ((held && p->own) || (comes && in->own))
		return TW_REFUSED;
	p->unchecked = false;
	*r->of.refused += held + comes;
	if (held)
		let_go(p);
	if (held && !comes)
		hold_input(p, in, false);
	return held || comes ? TW_ABSENT : TW_OK;
}

enum tw_status tw_piece_add(struct reducer *r, struct piece *p, const struct reducer_input *in)
{
	const float before = p->has.account.weight / p->has.account.divide;
	const float share = in->has.account.weight / in->has.account.divide;
	struct reducer_input x = *in;
	struct tw_block *block;
	enum tw_status st;
	float *sum;

	if (!x.has.contributions)
		return TW_OK;
	if (!p->at) {
		hold_input(p, &x, x.unchecked);
		return TW_OK;
	}
	block = room_for_sum(r, p, &x, &sum);
	if (!block)
		return TW_NO_MEMORY;
	if (sum == p->at && x.unchecked && !x.own) {
		if (!tw_vec_finite(x.at, p->n)) {
			turn_down(r, false);
			return TW_OK;
		}
		x.unchecked = false;
	}
	st = judge(r, p, &x,
		   before == 1.0f && share == 1.0f
			   ? tw_vec_add_to(sum, p->at, x.at, p->n)
			   : tw_vec_axpby_to(sum, before, p->at, share, x.at, p->n));
	if (st != TW_OK)
		return st == TW_ABSENT ? TW_OK : st;
	tw_piece_hold(p, block, sum, &p->has);
	p->mine = true;
	p->unchecked = r->by->mean; /* (5) */
	p->own = false;
	tw_reduce_count(&p->has, &x.has);
	return TW_OK;
}

/* Few values of a sparse contribution, added where the sum is. */
static enum tw_status add_sparse(const struct reducer *r, struct piece *p, float *sum,
				 const struct arrival *a)
{
	const struct tw_traffic *t = r->of.traffic;
	const size_t n = r->of.coded, rest = p->n - n, tail = rest * sizeof(float);
	const uint8_t *bytes = a->block->data + a->at;
	size_t values;

	if (a->bytes < tail ||
	    t->up->check(t->up_options, bytes, a->bytes - tail, n, &values) != TW_OK)
		return TW_BAD_BYTES;
	t->up->add(t->up_options, bytes, a->bytes - tail, 1.0f, sum, n);
	for (size_t k = 0; k < rest; k++) { /* they may lie anywhere among the bytes */
		float x;

		memcpy(&x, bytes + a->bytes - tail + k * sizeof x, sizeof x);
		sum[n + k] += x;
	}
	tw_reduce_count(&p->has, &a->body);
	return TW_OK;
}

/* (8) A contribution as its worker encoded it.  TW_BAD_BYTES: it is malformed, and nothing is
 * added. */
static enum tw_status add_coded(struct reducer *r, struct piece *p, const struct arrival *a)
{
	const uint8_t *bytes = a->block->data + a->at;
	const bool ones = p->has.account.weight == p->has.account.divide &&
			  a->body.account.weight == a->body.account.divide;
	struct tw_block *b;
	enum tw_status st;

	if (r->of.traffic->up->add && p->at && p->block == r->sum && ones)
		return add_sparse(r, p, tw_piece_sum_at(r, p), a);
	b = p->at ? tw_pool_take(r->of.pool) : tw_piece_sum_at(r, p) ? r->sum : NULL;
	if (!b)
		return TW_NO_MEMORY;
	st = r->by->decode(r->who, bytes, a->bytes, tw_block_floats(b));
	if (st == TW_OK)
		st = tw_piece_add(r, p,
				  &(struct reducer_input){
					  .block = b, .at = tw_block_floats(b), .has = a->body });
	if (b != r->sum)
		tw_block_drop(b);
	return st;
}

enum tw_status tw_piece_receive(struct reducer *r, struct piece *p, struct arrival *a)
{
	const float *x = a->block ? (const float *)(a->block->data + a->at) : NULL;
	const struct reducer_input in = { .block = a->block,
					  .at = x,
					  .has = a->body,
					  .unchecked = a->unchecked,
					  .mine = a->mine };

	if (!x) { /* nobody contributes */
		if (a->body.whole)
			let_go(p);
		return TW_OK;
	}
	if (!a->body.whole) {
		const enum tw_status st = a->coded ? add_coded(r, p, a) : tw_piece_add(r, p, &in);

		if (st == TW_OK && r->owed)
			r->owed[a->rank] = a->body.account.residual;
		*r->of.refused += st == TW_BAD_BYTES; /* (5) */
		return st == TW_BAD_BYTES ? TW_OK : st;
	}
	p->wire = tw_block_keep(a->wire);
	p->wire_at = a->wire_at;
	p->wire_bytes = a->bytes;
	tw_piece_hold(p, a->block, x, &a->body);
	return TW_OK;
}
