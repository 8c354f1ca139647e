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
 *  (9) a contribution that is not finite may be found to be so when pieces of it were sent.  The
 *      sum of this attempt is never complete here then, and the master forms another one without
 *      it.
 * (10) what another replica adds and could not have sent is refused, and the sum goes on without
 *      it.
 * (11) memory that was sent is not written, and memory that came is only read: messages and other
 *      replicas may refer to it.  The sum is applied from where its pieces lie. */
#include "node/shard/shard.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

#define PART ((size_t)TW_REDUCE_FLOATS)

static const struct tw_member *members(const struct shard *s, const struct shard_reduce *r)
{
	return (const void *)r->members->data;
}

/* Is what is added up parameters, in a round? */
static bool mixes(const struct shard *s, const struct shard_reduce *r)
{
	return r->what == TW_FORM_ROUND && tw_shard_is_loose(s);
}

static bool averages(const struct shard_reduce *r)
{
	return r->what != TW_FORM_ROUND;
}

static const struct tw_reduction *reduction(const struct shard *s, const struct shard_reduce *r)
{
	return mixes(s, r) ? s->plan->topology.mixing->round : s->plan->topology.reduction;
}

/* --- memory ------------------------------------------------------------------------------- */

static void drop_arrival(struct shard *s, struct shard_arrival *a)
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
		drop_arrival(s, a);
	}
}

static void empty_piece(struct shard *s, struct shard_piece *p)
{
	tw_block_drop(p->block);
	tw_block_drop(p->wire);
	p->block = p->wire = NULL;
	p->at = NULL;
	p->next = 0;
	p->done = false;
	drop_arrivals(s, &p->waiting);
}

/* Nothing of this round is added up. */
static void begin_again(struct shard *s, struct shard_reduce *r)
{
	for (uint32_t k = 0; k < r->pieces; k++)
		empty_piece(s, &r->piece[k]);
	r->left = r->pieces;
	tw_block_drop(r->sum);
	r->sum = NULL;
	if (r == &s->reduce)
		tw_slice_update_unstage(&s->slice);
}

static void disband(struct shard *s, struct shard_reduce *r)
{

	begin_again(s, r);
	s->heap->put(s->heap, r->piece);
	s->heap->put(s->heap, r->part);
	s->heap->put(s->heap, r->first);
	tw_block_drop(r->members);
	r->members = NULL;
	r->piece = NULL;
	r->part = NULL;
	r->first = NULL;
	r->peers = r->pieces = r->left = r->chunks = 0;
}

static void forget(struct shard *s, struct shard_reduce *r)
{
	disband(s, r);
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

static float *sum_at(struct shard *s, struct shard_reduce *r, const struct shard_piece *p)
{
	if (!r->sum)
		r->sum = tw_pool_take(s->slice.pool);
	return r->sum ? tw_block_floats(r->sum) + p->from : NULL;
}

/* What is added up so far becomes this. */
static void hold(struct shard_piece *p, struct tw_block *block, const float *at,
		 const struct tw_body_reduce *has)
{
	tw_block_keep(block);
	tw_block_drop(p->block);
	p->block = block;
	p->at = at;
	p->has = *has;
}

/* (5) */
static enum tw_status add(struct shard *s, struct shard_reduce *r, struct shard_piece *p,
			  struct tw_block *block, const float *x, const struct tw_body_reduce *of)
{
	const float before = p->has.weight / p->has.divide, share = of->weight / of->divide;
	float *sum;

	if (!of->contributions)
		return TW_OK;
	if (!p->at) {
		hold(p, block, x, of);
		return TW_OK;
	}
	sum = sum_at(s, r, p);
	if (!sum)
		return TW_NO_MEMORY;
	if (before == 1.0f && share == 1.0f)
		tw_vec_add_to(sum, p->at, x, p->n);
	else
		tw_vec_axpby_to(sum, before, p->at, share, x, p->n);
	hold(p, r->sum, sum, &p->has);
	p->has.contributions += of->contributions;
	p->has.steps += of->steps;
	p->has.samples += of->samples;
	p->has.own_steps += of->own_steps;
	p->has.skipped += of->skipped;
	p->has.drift += of->drift;
	p->has.drift_most = fmaxf(p->has.drift_most, of->drift_most);
	p->has.weight += of->weight;
	p->has.divide = p->has.weight;
	p->has.progress = fmin(p->has.progress, of->progress);
	p->has.loss += of->loss;
	return TW_OK;
}

/* The contribution of this node's worker to the round; NULL: it is not here yet. */
static const struct contribution *own_input(const struct shard *s, const struct shard_reduce *r)
{
	const struct tw_member *me = &members(s, r)[r->rank];
	const struct contribution *c = tw_shard_worker(s, me->slot)->staged;

	return c && c->push.round == s->slice.round && c->incarnation == me->incarnation ? c : NULL;
}

/* What this replica adds, and what is said of it. */
struct input {
	struct tw_block *block;
	const float *at;
	struct tw_body_reduce has;
};

static struct input of_contribution(const struct contribution *c)
{
	const struct tw_body_push *b = &c->push;

	return (struct input){ .block = c->block,
			       .at = c->g,
			       .has = { .contributions = 1,
					.steps = b->steps,
					.samples = b->samples,
					.own_steps = b->own_steps,
					.skipped = b->skipped,
					.weight = b->weight,
					.divide = b->divide,
					.drift = b->drift,
					.drift_most = b->drift,
					.progress = b->progress,
					.loss = b->loss } };
}

/* (7), (8); false: it is not here yet. */
static bool input_of(const struct shard *s, const struct shard_reduce *r, struct input *out)
{
	const struct contribution *c;
	struct tw_block *b = s->slice.w;

	if (!averages(r) && !mixes(s, r)) {
		c = own_input(s, r);
		if (c)
			*out = of_contribution(c);
		return c;
	}
	if (r->what == TW_FORM_VIEWS)
		b = s->pin.view;
	if (b)
		*out = (struct input){ b,
				       tw_block_floats(b),
				       { .contributions = 1, .weight = 1.0f, .divide = 1.0f } };
	return b;
}

/* --- as it travels ------------------------------------------------------------------------ */

static bool travels_plain(const struct shard *s)
{
	return tw_shard_is_loose(s) || (s->plan->traffic.up->traits & TW_CODEC_IDENTITY);
}

/* Of a piece, the values that the codec writes; the rest are buffers, and travel as floats. */
static size_t coded(const struct shard *s, const struct shard_piece *p)
{
	const size_t t = s->slice.trainable;

	return p->from >= t ? 0 : p->from + p->n <= t ? p->n : t - p->from;
}

static enum tw_status decode(struct shard *s, const struct shard_piece *p, const uint8_t *bytes,
			     size_t len, float *out)
{
	const struct tw_traffic *c = &s->plan->traffic;
	const size_t t = coded(s, p), tail = (p->n - t) * sizeof(float);

	if (len < tail)
		return TW_BAD_BYTES;
	memcpy(out + t, bytes, tail);
	return tw_codec_decode(c->up, c->up_options, bytes + tail, len - tail, out, t);
}

/* As the codec writes it, and in `back` what the others will decode.  TW_BAD_BYTES: it has values
 * that the codec cannot write. */
static enum tw_status encode(struct shard *s, const struct shard_reduce *r,
			     const struct shard_piece *p, bool whole, struct tw_block **out,
			     float *back)
{
	const struct tw_traffic *c = &s->plan->traffic;
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_CODEC);
	const struct tw_encoding of = { .rng = &rng,
					.draw = s->slice.round << 20 |
						(whole ? UINT64_C(1) << 19 : r->rank),
					.first = s->slice.from + p->from,
					.progress = p->has.progress };
	const size_t t = coded(s, p), tail = (p->n - t) * sizeof(float);
	size_t len = c->up->bound(c->up_options, t);
	struct tw_block *b = tw_block_new(s->heap, len + tail);

	enum tw_status st;

	if (!b)
		return TW_NO_MEMORY;
	st = c->up->encode(c->up_options, NULL, &of, p->at, t, b->data + tail, &len);
	if (st == TW_OK) {
		memcpy(b->data, p->at + t, tail);
		b->bytes = tail + len;
		st = decode(s, p, b->data, b->bytes, back);
	}
	if (st == TW_OK)
		*out = b;
	else
		tw_block_drop(b);
	return st;
}

static void send_piece(struct shard *s, const struct shard_reduce *r, struct tw_context *ctx,
		       const struct shard_piece *p, uint32_t rank, bool whole,
		       struct tw_block *wire)
{
	const struct tw_addr to = { members(s, r)[rank].node, TW_SHARD, (uint16_t)s->index };
	struct tw_msg *m = tw_msg_to(ctx, to, TW_REDUCE);

	if (!m)
		return;
	m->h.view = s->fence.generation;
	m->h.shard = s->index;
	m->h.from = r->rank;
	if (p->at)
		m->b.reduce = p->has;
	m->b.reduce.round = s->slice.round;
	m->b.reduce.attempt = r->attempt;
	m->b.reduce.chunk = p->chunk;
	m->b.reduce.part = p->part;
	m->b.reduce.whole = whole;
	m->b.reduce.what = r->what;
	m->h.flags = r->what == TW_FORM_VIEWS ? TW_FLAG_FREE : 0;
	if (wire) {
		m->payload = tw_block_keep(wire);
		m->payload_at = whole ? p->wire_at : 0;
		m->h.payload = (uint32_t)(whole ? p->wire_bytes : wire->bytes);
	} else if (p->at) {
		m->payload = tw_block_keep(p->block);
		m->payload_at = (size_t)((const uint8_t *)p->at - p->block->data);
		m->h.payload = (uint32_t)(p->n * sizeof(float));
	}
	tw_send(ctx, m);
}

/* (6) */
static enum tw_status seal(struct shard *s, struct shard_reduce *r, struct shard_piece *p)
{
	enum tw_status st;
	float *sum;

	if (travels_plain(s) || p->wire || !p->at)
		return TW_OK;
	sum = sum_at(s, r, p);
	st = sum ? encode(s, r, p, true, &p->wire, sum) : TW_NO_MEMORY;
	if (st != TW_OK)
		return st;
	p->wire_at = 0;
	p->wire_bytes = p->wire->bytes;
	hold(p, r->sum, sum, &p->has);
	return TW_OK;
}

/* What is added up so far goes on, as the codec writes it. */
static enum tw_status send_coded(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
				 const struct shard_piece *p, uint32_t rank)
{
	struct tw_block *back = tw_block_new(s->heap, p->n * sizeof(float)), *wire = NULL;
	const enum tw_status st =
		back ? encode(s, r, p, false, &wire, tw_block_floats(back)) : TW_NO_MEMORY;

	if (st == TW_OK)
		send_piece(s, r, ctx, p, rank, false, wire);
	tw_block_drop(wire);
	tw_block_drop(back);
	return st;
}

/* A move that sends. */
static enum tw_status send_move(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
				struct shard_piece *p, const struct tw_move *move)
{
	const bool whole = move->kind == TW_MOVE_GIVE;
	const enum tw_status st = whole ? seal(s, r, p) : TW_OK;
	struct input own;

	/* in a mean of neighbours, each of them gets the own vector, before others are added to it
	 * or after that */
	if (mixes(s, r) && input_of(s, r, &own)) {
		struct shard_piece alone = *p;

		alone.block = own.block;
		alone.at = own.at + p->from;
		alone.has = own.has;
		send_piece(s, r, ctx, &alone, move->peer, false, NULL);
		return TW_OK;
	}

	if (!whole && !travels_plain(s) && p->at)
		return send_coded(s, r, ctx, p, move->peer);
	if (st == TW_OK)
		send_piece(s, r, ctx, p, move->peer, whole, whole ? p->wire : NULL);
	return st;
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

	if (!x) /* nobody contributes */
		return TW_OK;
	if (!a->body.whole)
		return add(s, r, p, a->block, x, &a->body);
	p->wire = tw_block_keep(a->wire);
	p->wire_at = a->wire_at;
	p->wire_bytes = a->bytes;
	hold(p, a->block, x, &a->body);
	return TW_OK;
}

/* The next version of this piece, for the commit that may follow: now it is in the cache. */
static void stage(struct shard *s, const struct shard_piece *p)
{
	const struct slice_part part = { p->from, p->n, p->at };
	struct contribution c = { .part = &part,
				  .parts = 1,
				  .push = { .weight = p->has.weight,
					    .divide = p->has.divide,
					    .progress = p->has.progress } };

	if (p->at)
		tw_slice_update_stage_part(&s->slice, &c);
}

/* The last move is made. */
static enum tw_status finish_piece(struct shard *s, struct shard_reduce *r, struct shard_piece *p)
{
	const enum tw_status st = seal(s, r, p);

	if (st != TW_OK)
		return st;
	if (!averages(r) && !mixes(s, r))
		stage(s, p);
	p->done = true;
	r->left--;
	return TW_OK;
}

/* Make all moves of the piece that can be made. */
static enum tw_status advance(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
			      struct shard_piece *p)
{
	const uint32_t moves = reduction(s, r)->moves(r->peers, r->rank, p->chunk);
	enum tw_status st = TW_OK;

	for (; p->next < moves && st == TW_OK; p->next++) {
		const struct tw_move move =
			reduction(s, r)->move(r->peers, r->rank, p->chunk, p->next);
		const bool receives = move.kind == TW_MOVE_ADD || move.kind == TW_MOVE_TAKE;
		struct shard_arrival *a = NULL;

		if (!receives) {
			st = send_move(s, r, ctx, p, &move);
		} else if (move.peer == r->rank) {
			const bool adds = r->contributes || mixes(s, r);
			struct input own;

			if (adds && !input_of(s, r, &own))
				return TW_OK;
			if (adds)
				st = add(s, r, p, own.block, own.at + p->from, &own.has);
		} else {
			a = arrived(p, move.peer, move.kind == TW_MOVE_TAKE);
			if (!a)
				return TW_OK;
			st = receive(s, r, p, a);
			drop_arrival(s, a);
		}
	}
	return st == TW_OK && !p->done ? finish_piece(s, r, p) : st;
}

/* A step of the sum could not be made. */
static void fail(struct shard *s, struct tw_context *ctx, enum tw_status st)
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
static void tell_adopted(struct shard *s, struct tw_context *ctx)
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
		mixes(s, r) && r->pieces && r->contributes ? own_input(s, r) : NULL;
	const struct tw_body_reduce has = own         ? of_contribution(own).has
					  : r->pieces ? r->piece[0].has
						      : (struct tw_body_reduce){ .steps = 0 };
	struct tw_msg *m;

	if (!r->pieces || r->left || (mixes(s, r) && r->contributes && !own))
		return;
	m = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!m)
		return;
	m->h.flags = r->what == TW_FORM_VIEWS ? TW_FLAG_FREE : 0;
	m->b.have = (struct tw_body_have){ .round = s->slice.round,
					   .slot = members(s, r)[r->rank].slot,
					   .incarnation = members(s, r)[r->rank].incarnation,
					   .samples = has.samples,
					   .steps = has.steps,
					   .loss = has.loss,
					   .attempt = r->attempt,
					   .rate = tw_schedule_rate(
						   &s->plan->schedule,
						   fmax(has.progress, s->slice.history.progress)) };
	tw_send(ctx, m);
}

void tw_shard_reduce_tell(struct shard *s, struct tw_context *ctx)
{
	tell(s, &s->reduce, ctx);
	tell(s, &s->average, ctx);
	tell(s, &s->views, ctx);
}

/* The mean of what was added up, in a new block; NULL without memory. */
static struct tw_block *mean(struct shard *s, const struct shard_reduce *r)
{
	struct tw_block *b = tw_pool_take(s->slice.pool);

	for (uint32_t k = 0; b && k < r->pieces; k++) {
		const struct shard_piece *p = &r->piece[k];

		tw_vec_scale_to(tw_block_floats(b) + p->from, 1.0f / p->has.divide, p->at, p->n);
	}
	return b;
}

/* (8) */
static void view_mean(struct shard *s, const struct shard_reduce *r, struct tw_context *ctx)
{
	struct tw_block *b = mean(s, r);

	if (!b) {
		fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	tw_block_drop(s->pin.view);
	s->pin.view = b;
}

static void advance_one(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
			struct shard_piece *p)
{
	const bool was = p->done;
	const enum tw_status st = advance(s, r, ctx, p);

	if (st != TW_OK)
		fail(s, ctx, st);
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

static void advance_all(struct shard *s, struct shard_reduce *r, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < r->pieces; k++)
		if (!piece_in_turn(r, k)->done)
			advance_one(s, r, ctx, piece_in_turn(r, k));
}

enum tw_status tw_shard_reduce_check(const struct shard *s, struct contribution *c)
{
	if (c->unchecked && !tw_vec_finite(c->g, s->slice.all))
		return TW_BAD_BYTES;
	c->unchecked = false;
	return TW_OK;
}

/* Each piece is checked right before it is made use of: it is in the cache then. */
enum tw_status tw_shard_reduce_push(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct shard_reduce *r = &s->reduce;
	const size_t n = s->slice.n;

	if (mixes(s, r) || !r->pieces || !r->contributes || own_input(s, r) != c ||
	    s->slice.all != n) {
		if (tw_shard_reduce_check(s, c) != TW_OK)
			return TW_BAD_BYTES;
		advance_all(s, r, ctx);
		if (mixes(s, r))
			tell(s, r, ctx); /* (7) */
		return TW_OK;
	}
	for (uint32_t k = 0; k < r->pieces; k++) {
		struct shard_piece *p = piece_in_turn(r, k);

		if (c->unchecked && !tw_vec_finite(c->g + p->from, p->n))
			return TW_BAD_BYTES; /* what was sent of it is void with this attempt */
		if (!p->done)
			advance_one(s, r, ctx, p);
	}
	c->unchecked = false;
	return TW_OK;
}

static void send_again(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		       uint32_t node)
{
	for (uint32_t k = 0; k < r->pieces; k++) {
		struct shard_piece *p = &r->piece[k];
		bool whole = false; /* it has the sum: what it sent before was made use of */

		for (uint32_t i = 0; i < p->next; i++)
			whole = whole ||
				reduction(s, r)->move(r->peers, r->rank, p->chunk, i).kind ==
					TW_MOVE_TAKE;
		for (uint32_t i = 0; i < p->next; i++) {
			const struct tw_move move =
				reduction(s, r)->move(r->peers, r->rank, p->chunk, i);

			if ((move.kind != TW_MOVE_GIVE && (move.kind != TW_MOVE_SEND || whole)) ||
			    members(s, r)[move.peer].node != node)
				continue;
			if (send_move(s, r, ctx, p, &move) != TW_OK)
				fail(s, ctx, TW_NO_MEMORY);
		}
	}
}

void tw_shard_reduce_again(struct shard *s, struct tw_context *ctx, uint32_t node)
{
	send_again(s, &s->reduce, ctx, node);
	send_again(s, &s->average, ctx, node);
	send_again(s, &s->views, ctx, node);
}

/* --- arrivals ----------------------------------------------------------------------------- */

static struct shard_piece *piece_of(const struct shard *s, const struct shard_reduce *r,
				    const struct tw_body_reduce *b)
{

	if (b->chunk >= r->chunks || b->part >= r->first[b->chunk + 1] - r->first[b->chunk])
		return NULL;
	return &r->piece[r->first[b->chunk] + b->part];
}

/* What is said of a sum must be what honest replicas can say of one. */
static bool plausible(const struct shard *s, const struct shard_reduce *r,
		      const struct tw_body_reduce *b)
{
	const float count = (float)b->contributions;
	const uint64_t positions = s->plan->dealing.positions;

	if (!b->contributions || b->contributions > r->peers)
		return false;
	if (tw_shard_is_loose(s) ? b->weight != count || b->divide != count
	    : b->contributions == 1
		    ? !tw_shard_is_share(b->weight) || !tw_shard_is_share(b->divide)
		    : b->weight != b->divide || !tw_shard_is_share(b->weight / count))
		return false;
	if (!(b->progress >= 0.0 &&
	      b->progress <= (double)positions / (double)s->plan->problem.samples) ||
	    !(b->drift >= 0.0f) || !(b->drift_most >= 0.0f))
		return false;
	return b->samples <= positions && b->steps <= b->samples && b->own_steps <= b->steps &&
	       b->skipped <= b->steps;
}

/* Nobody adds what is not finite to a round.  A whole sum may be too large for a float, and a mean
 * of replicas shows that training diverged. */
static bool must_be_finite(const struct shard_reduce *r, const struct shard_arrival *a)
{
	return !averages(r) && !a->body.whole;
}

/* Is it such a piece?  What a codec wrote is decoded. */
static enum tw_status unpack(struct shard *s, const struct shard_reduce *r,
			     const struct shard_piece *p, struct shard_arrival *a)
{
	const bool finite = must_be_finite(r, a);
	struct tw_block *b;

	if (!a->block && !a->body.contributions) /* replicas that differ always have something */
		return tw_shard_is_loose(s) ? TW_BAD_BYTES : TW_OK;
	if (!a->block)
		return TW_BAD_BYTES;
	if (!plausible(s, r, &a->body))
		return TW_BAD_BYTES;
	if (travels_plain(s))
		return a->bytes == p->n * sizeof(float) &&
				       (!finite ||
					tw_vec_finite((const float *)(a->block->data + a->at),
						      p->n))
			       ? TW_OK
			       : TW_BAD_BYTES;
	b = tw_block_new(s->heap, p->n * sizeof(float));
	if (!b || decode(s, p, a->block->data + a->at, a->bytes, tw_block_floats(b)) != TW_OK ||
	    (finite && !tw_vec_finite(tw_block_floats(b), p->n))) {
		tw_block_drop(b);
		return b ? TW_BAD_BYTES : TW_NO_MEMORY;
	}
	a->wire = a->block;
	a->wire_at = a->at;
	a->block = b;
	a->at = 0;
	return TW_OK;
}

/* Put it where its move finds it; false: it was there, or is of no use. */
static bool put_in_line(struct shard_piece *p, struct shard_arrival *a)
{
	struct shard_arrival **at = &p->waiting;

	while (*at && ((*at)->rank < a->rank ||
		       ((*at)->rank == a->rank && (*at)->body.whole < a->body.whole)))
		at = &(*at)->next;
	if (*at && (*at)->rank == a->rank && (*at)->body.whole == a->body.whole)
		return false;
	a->next = *at;
	*at = a;
	return true;
}

/* It is of this round and formation; takes it over. */
static void take(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		 struct shard_arrival *a)
{
	struct shard_piece *p = piece_of(s, r, &a->body);
	const bool known = p && a->rank < r->peers && members(s, r)[a->rank].node == a->node;
	enum tw_status st = known ? unpack(s, r, p, a) : TW_BAD_BYTES;

	s->slice.tally.refused += st == TW_BAD_BYTES;
	if (known && st == TW_BAD_BYTES && !a->body.whole) { /* (10) */
		tw_block_drop(a->block);
		a->block = NULL;
		a->body.contributions = 0;
		st = TW_OK;
	}
	if (st == TW_OK && !p->done && put_in_line(p, a)) {
		advance_one(s, r, ctx, p);
		return;
	}
	if (st == TW_NO_MEMORY)
		fail(s, ctx, TW_NO_MEMORY);
	drop_arrival(s, a);
}

static bool is_later(const struct tw_body_reduce *a, const struct tw_body_reduce *b)
{
	return a->attempt != b->attempt ? a->attempt > b->attempt : a->round > b->round;
}

/* (3) No more than another one can have sent for one round, so that nobody takes up the room of the
 * others.  What is furthest from now gives way. */
static bool make_room(struct shard *s, struct shard_reduce *r, uint32_t node,
		      const struct tw_body_reduce *b)
{
	const size_t most = 2 * (2 + s->slice.n / PART + s->plan->crew.workers);
	struct shard_arrival **last = NULL, *gone;
	size_t count = 0;

	for (struct shard_arrival **a = &r->early; *a; a = &(*a)->next)
		if ((*a)->node == node) {
			count++;
			if (!last || is_later(&(*a)->body, &(*last)->body))
				last = a;
		}
	if (count < most)
		return r->earlies < most * s->plan->crew.workers;
	if (!is_later(&(*last)->body, b))
		return false;
	gone = *last;
	*last = gone->next;
	r->earlies--;
	drop_arrival(s, gone);
	return true;
}

/* What was early and is not any more; what is of no use is dropped. */
static void take_early(struct shard *s, struct shard_reduce *r, struct tw_context *ctx)
{
	struct shard_arrival *all = r->early;

	r->early = NULL;
	r->earlies = 0;
	while (all) {
		struct shard_arrival *a = all;

		all = a->next;
		if (a->body.attempt < r->attempt ||
		    (!averages(r) && a->body.round < s->slice.round)) {
			drop_arrival(s, a);
		} else if (a->body.attempt > r->attempt || !r->pieces ||
			   (!averages(r) && a->body.round > s->slice.round)) {
			a->next = r->early;
			r->early = a;
			r->earlies++;
		} else {
			take(s, r, ctx, a);
		}
	}
}

static struct shard_reduce *made_by(struct shard *s, uint32_t what)
{
	return what == TW_FORM_VIEWS        ? &s->views
	       : what == TW_FORM_PARAMETERS ? &s->average
					    : &s->reduce;
}

void tw_shard_reduce(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_reduce *b = &m->b.reduce;
	struct shard_reduce *r = made_by(s, b->what);
	const bool round = b->what == TW_FORM_ROUND;
	const bool early =
		b->attempt > r->attempt || !r->pieces || (round && b->round > s->slice.round);
	struct shard_arrival *a;

	if (!s->hosted || !tw_shard_is_replica(s) || m->h.view != s->fence.generation ||
	    m->from.index != s->index || b->attempt < r->attempt ||
	    (round && b->round < s->slice.round))
		return;
	if ((!round && b->what != TW_FORM_PARAMETERS && b->what != TW_FORM_VIEWS) ||
	    (early && !make_room(s, r, m->from.node, b))) {
		s->slice.tally.refused++;
		return;
	}
	a = tw_heap_zeros(s->heap, sizeof *a);
	if (!a) {
		fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	*a = (struct shard_arrival){ .rank = m->h.from,
				     .node = m->from.node,
				     .body = *b,
				     .block = tw_block_keep(m->payload),
				     .at = m->payload_at,
				     .bytes = m->h.payload };
	a->body.whole = b->whole != 0;
	if (!early) {
		take(s, r, ctx, a);
		return;
	}
	a->next = r->early;
	r->early = a;
	r->earlies++;
}

/* --- formations --------------------------------------------------------------------------- */

static uint32_t parts_of(size_t n)
{
	return (uint32_t)((n + PART - 1) / PART);
}

/* All pieces of the slice, for so many peers. */
static enum tw_status cut(struct shard *s, struct shard_reduce *r)
{
	const size_t n = s->slice.n;
	uint32_t k = 0;

	r->chunks = reduction(s, r)->chunks(r->peers);
	r->first = tw_heap_zeros(s->heap, ((size_t)r->chunks + 1) * sizeof *r->first);
	if (!r->first)
		return TW_NO_MEMORY;
	for (uint32_t c = 0; c < r->chunks; c++)
		r->first[c + 1] = r->first[c] + parts_of(tw_reduction_border(n, r->chunks, c + 1) -
							 tw_reduction_border(n, r->chunks, c));
	r->pieces = r->left = r->first[r->chunks];
	r->piece = tw_heap_zeros(s->heap, (size_t)r->pieces * sizeof *r->piece);
	r->part = tw_heap_zeros(s->heap, (size_t)r->pieces * sizeof *r->part);
	if (!r->piece || !r->part)
		return TW_NO_MEMORY;
	for (uint32_t c = 0; c < r->chunks; c++) {
		const size_t end = tw_reduction_border(n, r->chunks, c + 1);
		size_t at = tw_reduction_border(n, r->chunks, c);

		for (uint32_t part = 0; at < end; part++, at += PART)
			r->piece[k++] =
				(struct shard_piece){ .from = at,
						      .n = end - at < PART ? end - at : PART,
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

static void form(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		 const struct tw_body_form *b, struct tw_block *list, uint32_t peers)
{
	const uint32_t rank = rank_of((const void *)list->data, peers, ctx->self.node);

	disband(s, r);
	r->attempt = b->attempt;
	r->what = b->what;
	if (rank == peers)
		return; /* the others go on without it */
	r->members = tw_block_keep(list);
	r->peers = peers;
	r->rank = rank;
	r->contributes = members(s, r)[rank].state == TW_LIVE;
	if (cut(s, r) != TW_OK) {
		disband(s, r);
		fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	take_early(s, r, ctx);
	advance_all(s, r, ctx);
}

static bool usable(const struct shard *s, const struct tw_msg *m)
{
	const struct tw_member *list = m->tail ? (const void *)m->tail->data : NULL;
	const uint32_t peers = (uint32_t)(m->h.tail / sizeof *list);

	if (!peers || peers > s->plan->crew.workers)
		return false;
	for (uint32_t k = 0; k < peers; k++)
		if (list[k].slot >= s->plan->crew.workers)
			return false;
	return true;
}

void tw_shard_form(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_form *b = &m->b.form;
	struct shard_reduce *r = made_by(s, b->what);
	const bool exchanges = b->what == TW_FORM_SPREAD || b->what == TW_FORM_SETTLE;

	if (!s->hosted || !tw_shard_is_replica(s) || m->h.view != s->fence.generation ||
	    !usable(s, m) || b->what >= TW_FORMS ||
	    (b->what != TW_FORM_ROUND && !tw_shard_is_loose(s)))
		return;
	if (exchanges) {
		tw_spread_form(s, ctx, m);
		return;
	}
	if (b->attempt <= r->attempt || (b->what != TW_FORM_VIEWS && b->round < s->slice.round))
		return;
	if (b->round == s->slice.round || b->what == TW_FORM_VIEWS) {
		form(s, r, ctx, b, m->tail, (uint32_t)(m->h.tail / sizeof(struct tw_member)));
		return;
	}
	/* the COMMIT before it is on its way */
	tw_block_drop(r->later_members);
	r->later_members = tw_block_keep(m->tail);
	r->later = *b;
}

/* A formation that waited for this round. */
static void form_later(struct shard *s, struct shard_reduce *r, struct tw_context *ctx)
{
	struct tw_block *list = r->later_members;

	if (!list || r->later.round > s->slice.round)
		return;
	r->later_members = NULL;
	if (r->later.round == s->slice.round && r->later.attempt > r->attempt)
		form(s, r, ctx, &r->later, list,
		     (uint32_t)(list->bytes / sizeof(struct tw_member)));
	tw_block_drop(list);
}

/* --- commit ------------------------------------------------------------------------------- */

/* The sum is applied from where its pieces lie.  Where nobody contributed there is none. */
static void list_parts(const struct shard *s, const struct shard_reduce *r, struct contribution *c)
{

	for (uint32_t k = 0; k < r->pieces; k++) {
		const struct shard_piece *p = &r->piece[k];

		if (!p->at)
			return;
		r->part[k] = (struct slice_part){ p->from, p->n, p->at };
	}
	c->part = r->part;
	c->parts = r->pieces;
	c->values = s->slice.trainable;
}

/* What there is to be said of a round that is committed. */
static struct tw_body_reduce round_has(const struct shard *s, const struct shard_reduce *r,
				       const struct tw_msg *m, const struct contribution *own)
{
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	struct tw_body_reduce has = r->piece[0].has;

	if (!mixes(s, r))
		return has;
	has = own ? of_contribution(own).has
		  : (struct tw_body_reduce){ .weight = 1.0f,
					     .divide = 1.0f,
					     .progress = s->slice.history.progress };
	has.contributions = has.samples = 0;
	has.steps = (uint32_t)m->b.commit.steps;
	for (uint32_t k = 0; k < r->peers; k++)
		has.contributions += members(s, r)[k].state == TW_LIVE;
	for (uint32_t k = 0; k < m->b.commit.count; k++)
		has.samples += (uint32_t)(span[k].to - span[k].from);
	return has;
}

/* The books of the round: the first contribution has the sum, or the own one where replicas mix,
 * and all positions are told. */
static enum tw_status put_books(struct shard *s, struct shard_reduce *r, const struct tw_msg *m,
				const struct contribution *own)
{
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	const struct tw_body_reduce has = round_has(s, r, m, own);
	const uint32_t spans = m->b.commit.count, ranged = (spans + TW_RANGES - 1) / TW_RANGES;
	const uint32_t count = has.contributions > ranged ? has.contributions : ranged;
	uint32_t who = 0;

	if (tw_bucket_reserve(s, count) != TW_OK)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < count; k++) {
		struct contribution *c = tw_bucket_take(s);

		if (!c)
			return TW_NO_MEMORY;
		while (who < r->peers && members(s, r)[who].state != TW_LIVE)
			who++;
		c->slot = members(s, r)[who < r->peers ? who : r->rank].slot;
		c->incarnation = members(s, r)[who < r->peers ? who : r->rank].incarnation;
		who += who < r->peers;
		c->push.base = s->slice.version;
		c->push.round = s->slice.round;
		c->push.weight = has.weight;
		c->push.divide = has.divide;
		c->push.progress = has.progress;
		for (uint32_t i = k * TW_RANGES; i < spans && i < (k + 1) * TW_RANGES; i++)
			c->push.range[c->push.ranges++] =
				(struct tw_range){ .from = span[i].from,
						   .count = (uint32_t)(span[i].to - span[i].from) };
		if (k == 0) {
			if (!mixes(s, r)) {
				list_parts(s, r, c);
			} else if (own) {
				c->block = tw_block_keep(own->block);
				c->g = own->g;
				c->values = s->slice.trainable;
			}
			c->push.samples = has.samples;
			c->push.steps = has.steps;
			c->push.loss = has.loss;
			c->push.own_steps = has.own_steps;
			c->push.skipped = has.skipped;
			c->push.drift = has.drift;
		}
		tw_bucket_add(s, c);
	}
	return TW_OK;
}

static bool spans_fit(const struct shard *s, const struct tw_span *span, uint32_t count,
		      size_t bytes)
{
	if (count * sizeof *span != bytes)
		return false;
	for (uint32_t k = 0; k < count; k++)
		if (span[k].from >= span[k].to || span[k].to - span[k].from > UINT32_MAX ||
		    span[k].to > s->plan->dealing.positions)
			return false;
	return true;
}

/* (7) The parameters become the mean with those of neighbours; then the own contribution is
 * applied. */
static enum tw_status mix(struct shard *s, const struct shard_reduce *r)
{
	struct tw_block *b = mean(s, r);

	if (b)
		tw_slice_replace(&s->slice, b);
	return b ? TW_OK : TW_NO_MEMORY;
}

/* (8) */
static void adopt(struct shard *s, struct tw_context *ctx)
{
	struct shard_reduce *r = &s->average;

	if (r->what != TW_FORM_PARAMETERS || (r->pieces && r->left))
		return;
	if (r->pieces && mix(s, r) != TW_OK)
		fail(s, ctx, TW_NO_MEMORY);
	disband(s, r); /* without pieces it was adopted already */
	tell_adopted(s, ctx);
}

void tw_shard_reduce_commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct shard_reduce *r = &s->reduce;
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	const struct contribution *own;
	uint32_t count, slot;

	if (m->b.commit.attempt && m->b.commit.attempt == s->average.attempt) {
		adopt(s, ctx);
		return;
	}
	if (!tw_shard_rounds(s))
		return;
	own = r->pieces && mixes(s, r) && r->contributes ? own_input(s, r) : NULL;
	if (!r->pieces || m->b.commit.attempt != r->attempt || r->left ||
	    (mixes(s, r) && r->contributes && !own) ||
	    !spans_fit(s, span, m->b.commit.count, m->h.tail)) {
		s->slice.tally.refused++;
		return;
	}
	slot = members(s, r)[r->rank].slot;
	count = round_has(s, r, m, own).contributions;
	if (put_books(s, r, m, own) != TW_OK || (mixes(s, r) && mix(s, r) != TW_OK)) {
		fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	if (r->contributes) /* else it is dropped as late, with what else is staged */
		tw_bucket_give_back(s, tw_shard_unstaged(s, slot, true));
	tw_bucket_flush(s, ctx);
	begin_again(s, r);
	tw_shard_round_over(s, ctx, count);
	tw_shard_give_late(s, ctx);
	form_later(s, r, ctx);
	form_later(s, &s->average, ctx);
	take_early(s, r, ctx);
	advance_all(s, r, ctx);
}

/* --- waiting ------------------------------------------------------------------------------ */

static bool waits(const struct shard *s, const struct shard_reduce *r, struct tw_wait *out)
{
	if (!r->left || (!averages(r) && !own_input(s, r)))
		return false;
	for (uint32_t k = 0; k < r->pieces; k++) {
		const struct shard_piece *p = &r->piece[k];
		struct tw_move move;

		if (p->done)
			continue;
		move = reduction(s, r)->move(r->peers, r->rank, p->chunk, p->next);
		if (move.peer == r->rank)
			continue;
		*out = (struct tw_wait){
			.whom = { members(s, r)[move.peer].node, TW_WORKER, 0 },
			.slot = members(s, r)[move.peer].slot,
			.why = averages(r) ? "its piece of the mean" : "its piece of the sum",
			.step = s->slice.round,
			.since = tw_shard_worker(s, members(s, r)[r->rank].slot)->request.since
		};
		return true;
	}
	return false;
}

bool tw_shard_reduce_waits(const struct shard *s, struct tw_wait *out)
{
	return waits(s, &s->reduce, out) || waits(s, &s->average, out) || waits(s, &s->views, out);
}
