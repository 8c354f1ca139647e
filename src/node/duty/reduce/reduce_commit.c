/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_commit.c - COMMIT: the sum of a round becomes the next version of a replica. */
#include "node/duty/mix/mix.h"
#include "node/duty/reduce/reduce.h"
#include "node/duty/reduce/reduce_state.h"

/* The sum is applied from where its pieces lie.  Where nobody contributed there is none. */
static void list_parts(const struct shard *s, struct contribution *c)
{
	uint32_t parts;
	const struct slice_part *part = tw_reducer_parts(s->reduce->sum, &parts);

	for (uint32_t k = 0; k < parts; k++)
		HOLDS(6, part[k].at || s->slice.next.w);
	if (!part)
		return;
	c->part = part;
	c->parts = parts;
	c->values = s->slice.trainable;
}

/* What there is to be said of a round that is committed. */
static struct tw_body_reduce round_has(const struct shard *s, const struct tw_msg *m,
				       const struct contribution *own)
{
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	const struct reducer_formation *f = tw_reducer_formation(s->reduce->sum);
	struct tw_body_reduce has = tw_reducer_has(s->reduce->sum);

	if (!tw_shard_is_loose(s) && tw_reducer_has_sum(s->reduce->sum))
		return has;
	has = own ? tw_reduce_input_of(own).has
		  : (struct tw_body_reduce){ .account = { .weight = 1.0f, .divide = 1.0f } };
	has.contributions = has.account.samples = 0;
	has.account.steps = (uint32_t)m->b.commit.steps;
	for (uint32_t k = 0; k < f->peers; k++)
		has.contributions += f->member[k].state == TW_LIVE;
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

/* What a codec of another replica owes counts with the commit. */
static void note_owed(struct shard *s)
{
	const struct reducer_formation *f = tw_reducer_formation(s->reduce->sum);
	const float *owed = tw_reducer_owed(s->reduce->sum);

	for (uint32_t k = 0; owed && k < f->peers; k++)
		if (f->member[k].state == TW_LIVE && k != f->rank)
			tw_shard_other_owes(s, f->member[k].slot, f->member[k].incarnation,
					    owed[k]);
}

/* The books of the round: the first contribution has the sum, or the own one where replicas mix,
 * and all positions are told. */
static enum tw_status put_books(struct shard *s, const struct tw_msg *m,
				const struct contribution *own)
{
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	const struct reducer_formation *f = tw_reducer_formation(s->reduce->sum);
	const float *owed = tw_reducer_owed(s->reduce->sum);
	const struct tw_body_reduce has = round_has(s, m, own);
	const uint32_t spans = m->b.commit.count, ranged = (spans + TW_RANGES - 1) / TW_RANGES;
	const uint32_t count = has.contributions > ranged ? has.contributions : ranged;
	uint32_t who = 0;

	if (tw_bucket_reserve(s, count) != TW_OK)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < count; k++) {
		struct contribution *c = tw_bucket_take(s);

		if (!c)
			return TW_NO_MEMORY;
		while (who < f->peers && f->member[who].state != TW_LIVE)
			who++;
		c->slot = f->member[who < f->peers ? who : f->rank].slot;
		c->incarnation = f->member[who < f->peers ? who : f->rank].incarnation;
		c->push.base = s->slice.version;
		c->push.round = s->slice.round;
		c->push.account = k ? (struct tw_account){ .weight = has.account.weight,
							   .divide = has.account.divide }
				    : has.account;
		c->push.account.drift = drift_of(&has, k);
		c->push.account.residual = owed && who < f->peers ? owed[who] : 0.0f;
		who += who < f->peers;
		for (uint32_t i = k * TW_RANGES; i < spans && i < (k + 1) * TW_RANGES; i++)
			c->push.range[c->push.ranges++] =
				(struct tw_range){ .from = span[i].from,
						   .count = (uint32_t)(span[i].to - span[i].from) };
		if (k == 0) {
			if (!tw_shard_is_loose(s)) {
				list_parts(s, c);
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

void tw_reduce_commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct reducer *r = s->reduce->sum;
	const struct reducer_formation *f = tw_reducer_formation(r);
	const bool mixes = tw_shard_is_loose(s);
	const struct tw_span *span = m->tail ? (const void *)m->tail->data : NULL;
	const struct contribution *own;
	uint32_t count, slot;

	if (m->b.commit.round != s->slice.round || (mixes && tw_mix_adopts(s, ctx, m)))
		return;
	own = mixes && f->contributes ? tw_reduce_own(s) : NULL;
	if (!tw_reducer_is_complete(r) || m->b.commit.attempt != f->attempt ||
	    (mixes && f->contributes && !own) || !spans_fit(span, m->b.commit.count)) {
		s->slice.tally.refused++;
		return;
	}
	slot = f->member[f->rank].slot;
	count = round_has(s, m, own).contributions;
	if (put_books(s, m, own) != TW_OK || (mixes && tw_mix_take_mean(s, r) != TW_OK)) {
		tw_shard_sum_failed(s, ctx, TW_NO_MEMORY);
		return;
	}
	note_owed(s);
	if (f->contributes) /* else it is dropped as late, with what else is staged */
		tw_bucket_give_back(s, tw_round_unstaged(s, slot, true));
	tw_bucket_flush(s, ctx);
	tw_reducer_empty(r);
	tw_round_over(s, ctx, count);
	if (mixes)
		tw_mix_round_over(s, ctx);
	tw_reducer_next(r, ctx);
	tw_reduce_formed(s);
}
