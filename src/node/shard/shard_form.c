/* SPDX-License-Identifier: Apache-2.0 */
/* shard_form.c - who adds up a round together (FORM), and how its sum is applied (COMMIT). */
#include "node/shard/shard_reduce.h"

/* --- formations --------------------------------------------------------------------------- */

/* Values of one piece, at most; (12) has one, and a library cuts as it likes. */
static size_t longest(const struct shard *s, const struct shard_reduce *r)
{
	return tw_plan_gathers(s->plan) || tw_reduce_by_library(s, r) ? s->slice.n : PART;
}

static uint32_t parts_of(size_t n, size_t most)
{
	return (uint32_t)((n + most - 1) / most);
}

/* All pieces of the slice, for so many peers. */
static enum tw_status cut(struct shard *s, struct shard_reduce *r)
{
	const size_t n = s->slice.n, most = longest(s, r);
	uint32_t k = 0;

	r->chunks = tw_reduce_by_library(s, r) ? 1 : tw_reduce_reduction(s, r)->chunks(r->peers);
	r->first = tw_heap_zeros(s->heap, ((size_t)r->chunks + 1) * sizeof *r->first);
	if (!r->first)
		return TW_NO_MEMORY;
	for (uint32_t c = 0; c < r->chunks; c++)
		r->first[c + 1] =
			r->first[c] + parts_of(tw_reduction_border(n, r->chunks, c + 1) -
						       tw_reduction_border(n, r->chunks, c),
					       most);
	r->pieces = r->left = r->first[r->chunks];
	r->piece = tw_heap_zeros(s->heap, (size_t)r->pieces * sizeof *r->piece);
	r->part = tw_heap_zeros(s->heap, (size_t)r->pieces * sizeof *r->part);
	if (tw_plan_gathers(s->plan))
		r->owed = tw_heap_zeros(s->heap, r->peers * sizeof *r->owed);
	if (!r->piece || !r->part || (tw_plan_gathers(s->plan) && !r->owed))
		return TW_NO_MEMORY;
	for (uint32_t c = 0; c < r->chunks; c++) {
		const size_t end = tw_reduction_border(n, r->chunks, c + 1);
		size_t at = tw_reduction_border(n, r->chunks, c);

		for (uint32_t part = 0; at < end; part++, at += most)
			r->piece[k++] =
				(struct shard_piece){ .from = at,
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

static void form(struct shard *s, struct shard_reduce *r, struct tw_context *ctx,
		 const struct tw_body_form *b, struct tw_block *list, uint32_t peers)
{
	const uint32_t rank = rank_of((const void *)list->data, peers, ctx->self.node);

	tw_reduce_disband(s, r);
	r->attempt = b->attempt;
	r->what = b->what;
	if (rank == peers)
		return; /* the others go on without it */
	r->members = tw_block_keep(list);
	r->peers = peers;
	r->rank = rank;
	r->since = tw_now(ctx);
	r->contributes = tw_reduce_members(r)[rank].state == TW_LIVE;
	if (cut(s, r) != TW_OK) {
		tw_reduce_disband(s, r);
		tw_reduce_fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	tw_reduce_take_early(s, r, ctx);
	tw_reduce_advance_all(s, r, ctx);
}

void tw_shard_form(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_form *b = &m->b.form;
	struct shard_reduce *r = tw_reduce_of(s, b->what);
	const bool exchanges = b->what == TW_FORM_SPREAD || b->what == TW_FORM_SETTLE;

	if (!tw_shard_is_replica(s) ||
	    !(b->what == TW_FORM_ROUND ? tw_plan_round(s->plan) != NULL : tw_shard_is_loose(s)))
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

		HOLDS(14, !p->staged || s->slice.next.w);
		if (!p->at && !p->staged)
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

	if (!tw_reduce_mixes(s, r) && (r->piece[0].at || r->piece[0].staged))
		return has;
	has = own ? tw_reduce_of_contribution(own).has
		  : (struct tw_body_reduce){ .account = { .weight = 1.0f, .divide = 1.0f } };
	has.contributions = has.account.samples = 0;
	has.account.steps = (uint32_t)m->b.commit.steps;
	for (uint32_t k = 0; k < r->peers; k++)
		has.contributions += tw_reduce_members(r)[k].state == TW_LIVE;
	for (uint32_t k = 0; k < m->b.commit.count; k++)
		has.account.samples += (uint32_t)(span[k].to - span[k].from);
	return has;
}

/* Of contribution k: the largest is the first one's, and the others share the rest. */
static float drift_of(const struct tw_body_reduce *has, uint32_t k)
{
	if (k == 0)
		return has->contributions < 2 ? has->account.drift : has->drift_most;
	return k < has->contributions
		       ? (has->account.drift - has->drift_most) / (float)(has->contributions - 1)
		       : 0.0f;
}

/* (12) */
static void note_owed(struct shard *s, const struct shard_reduce *r)
{
	const struct tw_member *who = tw_reduce_members(r);

	for (uint32_t k = 0; r->owed && k < r->peers; k++)
		if (who[k].state == TW_LIVE && k != r->rank)
			tw_shard_other_owes(s, who[k].slot, who[k].incarnation, r->owed[k]);
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
		while (who < r->peers && tw_reduce_members(r)[who].state != TW_LIVE)
			who++;
		c->slot = tw_reduce_members(r)[who < r->peers ? who : r->rank].slot;
		c->incarnation = tw_reduce_members(r)[who < r->peers ? who : r->rank].incarnation;
		c->push.base = s->slice.version;
		c->push.round = s->slice.round;
		c->push.account = k ? (struct tw_account){ .weight = has.account.weight,
							   .divide = has.account.divide }
				    : has.account;
		c->push.account.drift = drift_of(&has, k);
		c->push.account.residual = r->owed && who < r->peers ? r->owed[who] : 0.0f;
		who += who < r->peers;
		for (uint32_t i = k * TW_RANGES; i < spans && i < (k + 1) * TW_RANGES; i++)
			c->push.range[c->push.ranges++] =
				(struct tw_range){ .from = span[i].from,
						   .count = (uint32_t)(span[i].to - span[i].from) };
		if (k == 0) {
			if (!tw_reduce_mixes(s, r)) {
				list_parts(s, r, c);
			} else if (own) {
				c->block = tw_block_keep(own->block);
				c->g = own->g;
				c->values = s->slice.trainable;
			}
		}
		tw_bucket_add(s, c);
	}
	return TW_OK;
}

static bool spans_fit(const struct tw_span *span, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		if (span[k].to - span[k].from > UINT32_MAX)
			return false;
	return true;
}

/* (7) The parameters become the mean with those of neighbours; then the own contribution is
 * applied. */
static enum tw_status mix(struct shard *s, const struct shard_reduce *r)
{
	struct tw_block *b = tw_reduce_mean(s, r);

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
		tw_reduce_fail(s, ctx, TW_NO_MEMORY);
	tw_reduce_disband(s, r); /* without pieces it was adopted already */
	tw_reduce_tell_adopted(s, ctx);
}

static void commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct shard_reduce *r = &s->reduce;
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	const struct contribution *own;
	uint32_t count, slot;

	if (m->b.commit.round != s->slice.round)
		return;
	if (m->b.commit.attempt && m->b.commit.attempt == s->average.attempt) {
		adopt(s, ctx);
		return;
	}
	if (!tw_shard_rounds(s))
		return;
	own = r->pieces && tw_reduce_mixes(s, r) && r->contributes ? tw_reduce_own(s, r) : NULL;
	if (!r->pieces || m->b.commit.attempt != r->attempt || r->left ||
	    (tw_reduce_mixes(s, r) && r->contributes && !own) ||
	    !spans_fit(span, m->b.commit.count)) {
		s->slice.tally.refused++;
		return;
	}
	slot = tw_reduce_members(r)[r->rank].slot;
	count = round_has(s, r, m, own).contributions;
	if (put_books(s, r, m, own) != TW_OK || (tw_reduce_mixes(s, r) && mix(s, r) != TW_OK)) {
		tw_reduce_fail(s, ctx, TW_NO_MEMORY);
		return;
	}
	note_owed(s, r);
	if (r->contributes) /* else it is dropped as late, with what else is staged */
		tw_bucket_give_back(s, tw_shard_unstaged(s, slot, true));
	tw_bucket_flush(s, ctx);
	tw_reduce_begin_again(s, r);
	tw_shard_round_over(s, ctx, count);
	tw_shard_give_late(s, ctx);
	form_later(s, r, ctx);
	form_later(s, &s->average, ctx);
	tw_reduce_take_early(s, r, ctx);
	tw_reduce_advance_all(s, r, ctx);
}

/* --- the seats of a replica ------------------------------------------------------------------ */

const struct tw_taker tw_taker_reduce = {
	.name = "reduce",
	.push = tw_shard_push_contribution,
	.commit = commit,
	.acknowledges = true,
	.fenced = tw_shard_push_refuse,
	.is_late = tw_round_is_late_push,
	.take = tw_round_take,
	.reject = tw_round_reject,
};

const struct tw_taker tw_taker_spread = {
	.name = "spread",
	.push = tw_shard_push_contribution,
	.commit = commit,
	.fenced = tw_shard_push_refuse,
	.take = tw_spread_take_own,
	.reject = tw_spread_reject_own,
};
