/* SPDX-License-Identifier: Apache-2.0 */
/* shard_reduce.c - how replicas of a shard add up the contributions of a round.
 *
 * Each replica has the contribution of its own worker.  The master says who takes part (FORM); the
 * reduction of the plan says who sends what to whom (strategy/reduction.h); REDUCE carries pieces.
 * When the sum is complete here, the master hears of it (HAVE); when it is complete everywhere, the
 * master has it applied (COMMIT).
 *
 *  (1) a round is applied by all replicas or by none, and all of them apply the same bits.
 *  (2) what was sent under a formation counts under that one only.  Who hears of a new formation
 *      begins again with the contribution of its worker.
 *  (3) what comes too early is kept: from a replica that has heard of a commit or a formation
 *      before this one has.
 *  (4) when the connection to another replica is made anew, everything that was sent there for this
 *      round is sent again; what came already is ignored.
 *  (5) pieces are added as tw_slice_update_fold adds contributions, so that the sum has the bits
 *      that a server would make of it in the same order.
 *  (6) with a lossy codec, who has made a sum goes on with what the others will decode.
 *  (7) where replicas mix in rounds, the sum is of parameters, not of contributions.  It begins
 *      before the contribution is there; both are complete when HAVE is told.
 *  (8) a mean of replicas is made in the same way: of pinned views in s->views, which takes their
 *      place at once; of parameters in s->average, which waits for its COMMIT.  All three may be
 *      under way together.
 *  (9) each piece of a contribution is checked before it leaves alone, or in the pass that adds it
 *      to others.  So a contribution that is not finite may be found to be so when pieces of it
 *      were sent.  It is refused then.  The sum of this attempt is never complete here, and the
 *      master forms another one without it.
 * (10) what another replica adds and could not have sent is refused, and the sum goes on without
 *      it.
 * (11) memory that was sent is not written, and memory that came is only read, unless nobody else
 *      refers to it (`fresh` in actor/message.h).  The sum is applied from where its pieces lie.
 * (12) a contribution that its worker encoded with a residual goes to all others as it is, and each
 *      of them decodes it when its turn in the sum has come.  What its worker owes after it counts
 *      with the commit.
 * (13) replicas whose values are not finite are left out of a mean, this one too, and so is a sum
 *      that became too large.  Where nothing is left, the mean is not a number: training has
 *      diverged everywhere.
 * (14) a piece of the sum that is in the next version (tw_slice_update_stage_part) and goes to
 *      nobody else is let go: its memory, which is in the cache, takes the next one. */
#include "node/duty/eval/eval.h"
#include "node/shard/shard.h"
#include "node/shard/shard_reduce.h"
#include "vec/vec.h"

#include <math.h>

/* --- memory ------------------------------------------------------------------------------- */

void tw_reduce_drop_arrival(struct shard *s, struct shard_arrival *a)
{
	tw_block_drop(a->block);
	tw_block_drop(a->wire);
	s->heap->put(s->heap, a);
}

static void drop_arrivals(struct shard *s, struct shard_arrival **list)
{
	while (*list) {
		struct shard_arrival *a = *list;

		*list = a->next;
		tw_reduce_drop_arrival(s, a);
	}
}

static void empty_piece(struct shard *s, struct shard_piece *p)
{
	tw_block_drop(p->block);
	tw_block_drop(p->wire);
	p->block = p->wire = NULL;
	p->at = NULL;
	p->has = (struct tw_body_reduce){ .contributions = 0 };
	p->unchecked = p->mine = false;
	p->next = 0;
	p->done = p->staged = false;
	drop_arrivals(s, &p->waiting);
}

/* Nothing of this round is added up. */
void tw_reduce_begin_again(struct shard *s, struct shard_reduce *r)
{
	for (uint32_t k = 0; k < r->pieces; k++)
		empty_piece(s, &r->piece[k]);
	r->left = r->pieces;
	tw_block_drop(r->sum);
	r->sum = NULL;
	if (r == &s->reduce)
		tw_slice_update_unstage(&s->slice);
}

void tw_reduce_disband(struct shard *s, struct shard_reduce *r)
{

	tw_reduce_begin_again(s, r);
	s->heap->put(s->heap, r->piece);
	s->heap->put(s->heap, r->part);
	s->heap->put(s->heap, r->first);
	s->heap->put(s->heap, r->owed);
	tw_block_drop(r->members);
	r->members = NULL;
	r->piece = NULL;
	r->part = NULL;
	r->first = NULL;
	r->owed = NULL;
	r->peers = r->pieces = r->left = r->chunks = 0;
}

static void forget(struct shard *s, struct shard_reduce *r)
{
	tw_reduce_disband(s, r);
	drop_arrivals(s, &r->early);
	tw_block_drop(r->later_members);
	s->heap->put(s->heap, r->give);
	*r = (struct shard_reduce){ .attempt = r->attempt, .what = r->what };
}

void tw_shard_reduce_forget(struct shard *s)
{
	forget(s, &s->reduce);
	forget(s, &s->average);
	forget(s, &s->views);
}

/* --- the sum ------------------------------------------------------------------------------ */

float *tw_reduce_sum_at(struct shard *s, struct shard_reduce *r, const struct shard_piece *p)
{
	if (!r->sum)
		r->sum = tw_pool_take(s->slice.pool);
	return r->sum ? tw_block_floats(r->sum) + p->from : NULL;
}

void tw_reduce_hold(struct shard_piece *p, struct tw_block *block, const float *at,
		    const struct tw_body_reduce *has)
{
	tw_block_keep(block);
	tw_block_drop(p->block);
	p->block = block;
	p->at = at;
	p->has = *has;
	p->unchecked = p->mine = false;
}

/* What may not be added up: TW_REFUSED if it is of this node's worker (9), else TW_ABSENT (10). */
static enum tw_status turn_down(struct shard *s, bool own)
{
	s->slice.tally.refused += !own;
	return own ? TW_REFUSED : TW_ABSENT;
}

static void let_go(struct shard_piece *p)
{
	tw_block_drop(p->block);
	p->block = NULL;
	p->at = NULL;
	p->has = (struct tw_body_reduce){ .contributions = 0 };
	p->unchecked = false;
}

/* What is held is checked; what may not be added up is held no longer (10).  TW_REFUSED: (9). */
static enum tw_status check_held(struct shard *s, struct shard_piece *p)
{
	if (p->unchecked && !tw_vec_finite(p->at, p->n)) {
		if (turn_down(s, p->own) == TW_REFUSED)
			return TW_REFUSED;
		let_go(p);
	}
	p->unchecked = false;
	return TW_OK;
}

static void hold_input(struct shard_piece *p, const struct reduce_input *in, bool unchecked)
{
	tw_reduce_hold(p, in->block, in->at, &in->has);
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
 * it, for that is in the cache.  The other one must then be good, or void all (9): if it may be
 * turned down (10), this one is still needed. */
static struct tw_block *room_for_sum(struct shard *s, struct shard_reduce *r, struct shard_piece *p,
				     const struct reduce_input *in, float **out)
{
	if (in->mine && (p->own || !p->unchecked)) {
		*out = (float *)in->at;
		return in->block;
	}
	if (p->mine) {
		*out = (float *)p->at;
		return p->block;
	}
	*out = tw_reduce_sum_at(s, r, p);
	return *out ? r->sum : NULL;
}

/* What was found in the pass that adds.  TW_ABSENT: there is no sum. */
static enum tw_status judge(struct shard *s, struct shard_piece *p, const struct reduce_input *in,
			    unsigned strange)
{
	const bool held = p->unchecked && (strange & TW_VEC_FIRST);
	const bool comes = in->unchecked && (strange & TW_VEC_SECOND);

	if ((held && p->own) || (comes && in->own))
		return TW_REFUSED;
	p->unchecked = false;
	s->slice.tally.refused += held + comes;
	if (held)
		let_go(p);
	if (held && !comes)
		hold_input(p, in, false);
	return held || comes ? TW_ABSENT : TW_OK;
}

/* (5).  TW_REFUSED: (9). */
static enum tw_status add(struct shard *s, struct shard_reduce *r, struct shard_piece *p,
			  const struct reduce_input *in)
{
	const float before = p->has.account.weight / p->has.account.divide;
	const float share = in->has.account.weight / in->has.account.divide;
	struct reduce_input x = *in;
	struct tw_block *block;
	enum tw_status st;
	float *sum;

	if (!x.has.contributions)
		return TW_OK;
	if (!p->at) {
		hold_input(p, &x, x.unchecked);
		return TW_OK;
	}
	block = room_for_sum(s, r, p, &x, &sum);
	if (!block)
		return TW_NO_MEMORY;
	if (sum == p->at && x.unchecked && !x.own) {
		if (!tw_vec_finite(x.at, p->n)) {
			turn_down(s, false);
			return TW_OK;
		}
		x.unchecked = false;
	}
	st = judge(s, p, &x,
		   before == 1.0f && share == 1.0f
			   ? tw_vec_add_to(sum, p->at, x.at, p->n)
			   : tw_vec_axpby_to(sum, before, p->at, share, x.at, p->n));
	if (st != TW_OK)
		return st == TW_ABSENT ? TW_OK : st;
	tw_reduce_hold(p, block, sum, &p->has);
	p->mine = true;
	p->unchecked = tw_reduce_averages(r); /* (13) */
	p->own = false;
	tw_reduce_count(&p->has, &x.has);
	return TW_OK;
}

/* Few values of a sparse contribution, added where the sum is. */
static enum tw_status add_sparse(struct shard *s, struct shard_piece *p, float *sum,
				 const struct shard_arrival *a)
{
	const struct tw_traffic *t = &s->plan->traffic;
	const size_t n = s->slice.trainable, rest = p->n - n, tail = rest * sizeof(float);
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

/* (12) A contribution as its worker encoded it.  TW_BAD_BYTES: it is malformed, and nothing is
 * added. */
static enum tw_status add_coded(struct shard *s, struct shard_reduce *r, struct shard_piece *p,
				const struct shard_arrival *a)
{
	const uint8_t *bytes = a->block->data + a->at;
	const bool ones = p->has.account.weight == p->has.account.divide &&
			  a->body.account.weight == a->body.account.divide;
	struct tw_block *b;
	enum tw_status st;
	size_t values;

	if (s->plan->traffic.up->add && p->at && p->block == r->sum && ones)
		return add_sparse(s, p, tw_reduce_sum_at(s, r, p), a);
	b = p->at ? tw_pool_take(s->slice.pool) : tw_reduce_sum_at(s, r, p) ? r->sum : NULL;
	if (!b)
		return TW_NO_MEMORY;
	st = tw_shard_decode(s, bytes, a->bytes, tw_block_floats(b), &values);
	if (st == TW_OK)
		st = add(s, r, p,
			 &(struct reduce_input){
				 .block = b, .at = tw_block_floats(b), .has = a->body });
	if (b != r->sum)
		tw_block_drop(b);
	return st;
}

const struct contribution *tw_reduce_own(const struct shard *s, const struct shard_reduce *r)
{
	const struct tw_member *me = &tw_reduce_members(r)[r->rank];
	const struct contribution *c = tw_shard_worker(s, me->slot)->staged;

	return c && c->push.round == s->slice.round && c->incarnation == me->incarnation ? c : NULL;
}

struct reduce_input tw_reduce_of_contribution(const struct contribution *c)
{
	return (struct reduce_input){ .of = c,
				      .block = c->block,
				      .at = c->g,
				      .unchecked = c->unchecked,
				      .own = true,
				      .has = { .contributions = 1,
					       .drift_most = c->push.account.drift,
					       .account = c->push.account } };
}

/* (7), (8); false: it is not here yet. */
bool tw_reduce_input(const struct shard *s, const struct shard_reduce *r, struct reduce_input *out)
{
	const struct contribution *c;
	struct tw_block *b = s->slice.w;

	if (!tw_reduce_averages(r) && !tw_reduce_mixes(s, r)) {
		c = tw_reduce_own(s, r);
		if (c)
			*out = tw_reduce_of_contribution(c);
		return c;
	}
	if (r->what == TW_FORM_VIEWS)
		b = tw_eval_shard_first_view(s);
	if (b)
		*out = (struct reduce_input){
			.block = b,
			.at = tw_block_floats(b),
			.unchecked = tw_reduce_averages(r), /* (13) */
			.has = { .contributions = 1, .account = { .weight = 1.0f, .divide = 1.0f } }
		};
	return b;
}

/* --- moves -------------------------------------------------------------------------------- */

/* What this replica sent of the piece; NULL: it has not come. */
static struct shard_arrival *arrived(struct shard_piece *p, uint32_t rank, bool whole)
{
	for (struct shard_arrival **a = &p->waiting; *a && (*a)->rank <= rank; a = &(*a)->next)
		if ((*a)->rank == rank && !(*a)->body.whole == !whole) {
			struct shard_arrival *found = *a;

			*a = found->next;
			return found;
		}
	return NULL;
}

static enum tw_status receive(struct shard *s, struct shard_reduce *r, struct shard_piece *p,
			      struct shard_arrival *a)
{
	const float *x = a->block ? (const float *)(a->block->data + a->at) : NULL;
	const struct reduce_input in = { .block = a->block,
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
		const enum tw_status st = a->coded ? add_coded(s, r, p, a) : add(s, r, p, &in);

		if (st == TW_OK && r->owed)
			r->owed[a->rank] = a->body.account.residual;
		s->slice.tally.refused += st == TW_BAD_BYTES; /* (10) */
		return st == TW_BAD_BYTES ? TW_OK : st;
	}
	p->wire = tw_block_keep(a->wire);
	p->wire_at = a->wire_at;
	p->wire_bytes = a->bytes;
	tw_reduce_hold(p, a->block, x, &a->body);
	return TW_OK;
}

/* Is it given to others, now or when a connection is made anew (4)? */
static bool gives(const struct shard *s, const struct shard_reduce *r, const struct shard_piece *p)
{
	const struct tw_reduction *by = tw_reduce_reduction(s, r);
	const uint32_t moves = by->moves(r->peers, r->rank, p->chunk);
	uint32_t k = 0;

	while (k < moves && by->move(r->peers, r->rank, p->chunk, k).kind != TW_MOVE_GIVE)
		k++;
	return k < moves || by->own || tw_reduce_by_library(s, r);
}

/* The next version of this piece, for the commit that may follow: now it is in the cache.  (14) */
static void stage(struct shard *s, const struct shard_reduce *r, struct shard_piece *p)
{
	const struct slice_part part = { p->from, p->n, p->at };
	struct contribution c = { .part = &part, .parts = 1, .push.account = p->has.account };

	if (!p->at || !tw_slice_update_stage_part(&s->slice, &c) || gives(s, r, p))
		return;
	tw_block_drop(p->block);
	p->block = NULL;
	p->at = NULL;
	p->staged = true;
}

/* The last move is made. */
static enum tw_status finish_piece(struct shard *s, struct shard_reduce *r, struct shard_piece *p)
{
	enum tw_status st = check_held(s, p);

	if (st == TW_OK)
		st = tw_reduce_seal(s, r, p);
	if (st != TW_OK)
		return st;
	if (!tw_reduce_averages(r) && !tw_reduce_mixes(s, r))
		stage(s, r, p);
	p->done = true;
	r->left--;
	return TW_OK;
}

/* Add what this node has to the piece.  TW_ABSENT: it is not here yet. */
static enum tw_status add_own(struct shard *s, struct shard_reduce *r, struct shard_piece *p)
{
	struct reduce_input own;

	if (!r->contributes && !tw_reduce_mixes(s, r))
		return TW_OK;
	if (!tw_reduce_input(s, r, &own))
		return TW_ABSENT;
	own.at += p->from;
	if (r->owed)
		r->owed[r->rank] = own.has.account.residual;
	return add(s, r, p, &own);
}

/* Add or take over what another replica sent.  TW_ABSENT: it is not here yet. */
static enum tw_status take_arrived(struct shard *s, struct shard_reduce *r, struct shard_piece *p,
				   const struct tw_move *move)
{
	struct shard_arrival *a = arrived(p, move->peer, move->kind == TW_MOVE_TAKE);
	enum tw_status st;

	if (!a)
		return TW_ABSENT;
	st = receive(s, r, p, a);
	tw_reduce_drop_arrival(s, a);
	return st;
}

/* What leaves alone is checked before (9).  TW_ABSENT: it is the own input, and not here yet. */
static enum tw_status send_checked(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
				   struct shard_piece *p, const struct tw_move *move)
{
	const enum tw_status st = check_held(s, p);
	struct reduce_input own;

	if (tw_reduce_reduction(s, r)->own && r->contributes && !tw_reduce_mixes(s, r) &&
	    !tw_reduce_input(s, r, &own))
		return TW_ABSENT;
	return st == TW_OK ? tw_reduce_send(s, r, ctx, p, move) : st;
}

/* Make all moves of the piece that can be made.  TW_REFUSED: (9); no further move is made. */
static enum tw_status advance(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
			      struct shard_piece *p)
{
	const uint32_t moves = tw_reduce_reduction(s, r)->moves(r->peers, r->rank, p->chunk);

	if (tw_reduce_by_library(s, r)) {
		const enum tw_status st = tw_reduce_ask_library(s, r, ctx, p);

		return st == TW_ABSENT          ? TW_OK
		       : st != TW_OK || p->done ? st
						: finish_piece(s, r, p);
	}
	for (; p->next < moves; p->next++) {
		const struct tw_move move =
			tw_reduce_reduction(s, r)->move(r->peers, r->rank, p->chunk, p->next);
		const bool receives = move.kind == TW_MOVE_ADD || move.kind == TW_MOVE_TAKE;
		const enum tw_status st = !receives              ? send_checked(s, r, ctx, p, &move)
					  : move.peer == r->rank ? add_own(s, r, p)
								 : take_arrived(s, r, p, &move);

		if (st != TW_OK)
			return st == TW_ABSENT ? TW_OK : st;
	}
	return p->done ? TW_OK : finish_piece(s, r, p);
}

/* A step of the sum could not be made. */
void tw_reduce_fail(struct shard *s, struct tw_context *ctx, enum tw_status st)
{
	if (st == TW_BAD_BYTES)
		tw_give_up(ctx, st,
			   "round %llu: a sum of gradients is too large for strategy.codec.up: %s; "
			   "choose a codec with a wider range, or a smaller update.rate",
			   (unsigned long long)s->slice.round, s->plan->traffic.up->name);
	else
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the sum of shard %u", s->index);
}

/* A mean was adopted: HAVE says so. */
void tw_reduce_tell_adopted(struct shard *s, struct tw_context *ctx)
{
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_HAVE);

	if (!m)
		return;
	m->h.flags = TW_FLAG_APPLIED;
	m->b.have = (struct tw_body_have){ .attempt = s->average.attempt };
	tw_send(ctx, m);
}

static void tell(struct shard *s, const struct shard_reduce *r, struct tw_context *ctx)
{
	const struct contribution *own =
		tw_reduce_mixes(s, r) && r->pieces && r->contributes ? tw_reduce_own(s, r) : NULL;
	const struct tw_body_reduce has = own ? tw_reduce_of_contribution(own).has
					  : r->pieces
						  ? r->piece[0].has
						  : (struct tw_body_reduce){ .contributions = 0 };
	struct tw_msg *m;

	if (!r->pieces || r->left || (tw_reduce_mixes(s, r) && r->contributes && !own))
		return;
	m = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!m)
		return;
	m->h.flags = r->what == TW_FORM_VIEWS ? TW_FLAG_FREE : 0;
	m->b.have = (struct tw_body_have){ .round = s->slice.round,
					   .slot = tw_reduce_members(r)[r->rank].slot,
					   .incarnation = tw_reduce_members(r)[r->rank].incarnation,
					   .samples = has.account.samples,
					   .steps = has.account.steps,
					   .loss = has.account.loss,
					   .attempt = r->attempt,
					   .rate = tw_slice_rate(&s->slice) };
	tw_send(ctx, m);
}

void tw_shard_reduce_tell(struct shard *s, struct tw_context *ctx)
{
	tell(s, &s->reduce, ctx);
	tell(s, &s->average, ctx);
	tell(s, &s->views, ctx);
}

/* The mean of what was added up, in a new block; NULL without memory. */
struct tw_block *tw_reduce_mean(struct shard *s, const struct shard_reduce *r)
{
	struct tw_block *b = tw_pool_take(s->slice.pool);

	for (uint32_t k = 0; b && k < r->pieces; k++) {
		const struct shard_piece *p = &r->piece[k];
		float *mean = tw_block_floats(b) + p->from;

		if (p->at)
			tw_vec_scale_to(mean, 1.0f / p->has.account.divide, p->at, p->n);
		else
			tw_vec_fill(mean, NAN, p->n); /* (13) */
	}
	return b;
}

/* (8) */
static void view_mean(struct shard *s, const struct shard_reduce *r, struct tw_context *ctx)
{
	struct tw_block *b = tw_reduce_mean(s, r);

	if (!b) {
		tw_reduce_fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	tw_eval_shard_replace(s, b);
}

void tw_reduce_advance(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		       struct shard_piece *p)
{
	const bool was = p->done;
	const enum tw_status st = advance(s, r, ctx, p);

	if (st == TW_REFUSED)
		tw_shard_refuse_staged(s, ctx, tw_reduce_members(r)[r->rank].slot);
	else if (st != TW_OK)
		tw_reduce_fail(s, ctx, st);
	if (st != TW_OK || was || r->left)
		return;
	if (r->what == TW_FORM_VIEWS)
		view_mean(s, r, ctx);
	tell(s, r, ctx);
}

/* From the chunk of the own rank on: if all began with the first one, all of them would send to the
 * same replica (reduction.h, (6)). */
static struct shard_piece *piece_in_turn(const struct shard_reduce *r, uint32_t k)
{
	return &r->piece[(r->first[r->rank % r->chunks] + k) % r->pieces];
}

void tw_reduce_advance_all(struct shard *s, struct shard_reduce *r, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < r->pieces; k++)
		if (!piece_in_turn(r, k)->done)
			tw_reduce_advance(s, r, ctx, piece_in_turn(r, k));
}

enum tw_status tw_shard_reduce_check(const struct shard *s, struct contribution *c)
{
	if (c->unchecked && !tw_vec_finite(c->g, s->slice.all))
		return TW_BAD_BYTES;
	c->unchecked = false;
	return TW_OK;
}

/* (9): pieces are checked as they are made use of. */
enum tw_status tw_shard_reduce_push(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct shard_reduce *r = &s->reduce;
	const bool mixes = tw_reduce_mixes(s, r);
	const uint32_t slot = c->slot;

	if ((!r->pieces || tw_reduce_reduction(s, r)->own || !r->contributes ||
	     tw_reduce_own(s, r) != c || s->slice.all != s->slice.n) &&
	    tw_shard_reduce_check(s, c) != TW_OK)
		return TW_BAD_BYTES;
	for (uint32_t k = 0; k < r->pieces; k++) {
		if (!piece_in_turn(r, k)->done)
			tw_reduce_advance(s, r, ctx, piece_in_turn(r, k));
		if (tw_shard_worker(s, slot)->staged != c)
			return TW_REFUSED;
	}
	if (mixes)
		tell(s, r, ctx); /* (7) */
	return TW_OK;
}

/* --- waiting ------------------------------------------------------------------------------ */

/* How many moves of a peer wait for others before it sends this piece to us. */
static uint32_t depth_of(const struct tw_reduction *by, const struct shard_reduce *r,
			 const struct shard_piece *p, const struct tw_move *move)
{
	const uint32_t peer = move->peer, moves = by->moves(r->peers, peer, p->chunk);
	uint32_t depth = 0;

	for (uint32_t k = 0; k < moves; k++) {
		const struct tw_move m = by->move(r->peers, peer, p->chunk, k);
		const bool receives = m.kind == TW_MOVE_ADD || m.kind == TW_MOVE_TAKE;

		if (!receives && m.peer == r->rank &&
		    (m.kind == TW_MOVE_GIVE) == (move->kind == TW_MOVE_TAKE))
			break;
		depth += receives && m.peer != peer;
	}
	return by->own ? 0 : depth;
}

/* The rank that is waited for; of several, the one that itself waits for the fewest.  peers: none.
 */
static uint32_t awaited(const struct shard *s, const struct shard_reduce *r, uint32_t *depth)
{
	const struct tw_reduction *by = tw_reduce_reduction(s, r);
	uint32_t rank = r->peers;

	*depth = UINT32_MAX;
	if (tw_reduce_by_library(s, r))
		return rank; /* nobody knows */
	for (uint32_t k = 0; r->left && k < r->pieces && *depth; k++) {
		const struct shard_piece *p = &r->piece[k];
		struct tw_move move;
		uint32_t d;

		if (p->done)
			continue;
		move = by->move(r->peers, r->rank, p->chunk, p->next);
		d = move.peer == r->rank ? UINT32_MAX : depth_of(by, r, p, &move);
		if (d < *depth) {
			*depth = d;
			rank = move.peer;
		}
	}
	return rank;
}

static bool waits(const struct shard *s, const struct shard_reduce *r, struct tw_wait *out)
{
	uint32_t rank, depth;

	if (!r->left || (!tw_reduce_averages(r) && !tw_reduce_own(s, r)))
		return false;
	if (tw_reduce_by_library(s, r)) {
		*out = (struct tw_wait){ .whom = tw_master_addr(),
					 .why = "the library's sum of all ranks",
					 .step = s->slice.round,
					 .since = tw_shard_worker(
							  s, tw_reduce_members(r)[r->rank].slot)
							  ->request.since };
		return true;
	}
	rank = awaited(s, r, &depth);
	if (rank == r->peers)
		return false;
	*out = (struct tw_wait){
		.whom = { tw_reduce_members(r)[rank].node, TW_WORKER, 0 },
		.slot = tw_reduce_members(r)[rank].slot,
		.why = tw_reduce_averages(r) ? "its piece of the mean" : "its piece of the sum",
		.step = s->slice.round,
		.since = tw_reduce_averages(r)
				 ? r->since
				 : tw_shard_worker(s, tw_reduce_members(r)[r->rank].slot)
					   ->request.since
	};
	return true;
}

void tw_shard_tell_wait(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct shard_reduce *r = &s->reduce;
	uint32_t rank = r->peers, depth = 0;
	struct tw_msg *out;
	struct tw_wait wait = { .slot = UINT32_MAX };

	if (!s->hosted || m->h.view != s->fence.generation)
		return;
	/* its own worker comes first: others may wait for that one, too */
	if (r->pieces && r->attempt == m->b.ask.number)
		rank = r->contributes && !tw_reduce_own(s, r) ? r->rank : awaited(s, r, &depth);
	if (rank < r->peers)
		wait = (struct tw_wait){ .slot = tw_reduce_members(r)[rank].slot,
					 .since = tw_shard_worker(
							  s, tw_reduce_members(r)[r->rank].slot)
							  ->request.since };
	else if (tw_shard_is_loose(s))
		tw_spread_waits(s, &wait);
	else if (!tw_shard_is_replica(s))
		tw_shard_waits(s, &wait);
	out = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!out)
		return;
	out->h.flags = TW_FLAG_HELD;
	out->b.have = (struct tw_body_have){
		.round = s->slice.history.contributions,
		.slot = wait.slot,
		.steps = depth,
		.loss = wait.since > 0 ? (double)(tw_now(ctx) - wait.since) : 0.0,
		.attempt = (uint32_t)m->b.ask.number,
	};
	tw_send(ctx, out);
}

bool tw_shard_reduce_waits(const struct shard *s, struct tw_wait *out)
{
	return waits(s, &s->reduce, out) || waits(s, &s->average, out) || waits(s, &s->views, out);
}
