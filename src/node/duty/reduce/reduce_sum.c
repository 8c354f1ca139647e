/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_sum.c - what a replica adds to the sum of a round, and what it says of it: the client of
 * src/node/reducer.  Numbers in brackets are those of README.md. */
#include "node/duty/reduce/reduce_state.h"

/* Is what is added up parameters? */
static bool mixes(const struct shard *s)
{
	return tw_shard_is_loose(s);
}

static const struct reducer_formation *formation(const struct shard *s)
{
	return tw_reducer_formation(s->reduce->sum);
}

/* --- what is added up ------------------------------------------------------------------------ */

const struct contribution *tw_reduce_own(const struct shard *s)
{
	const struct reducer_formation *f = formation(s);
	const struct tw_member *me = &f->member[f->rank];
	const struct contribution *c;

	if (!f->peers)
		return NULL;
	c = tw_round_staged(s, me->slot);
	return c && c->push.round == s->slice.round && c->incarnation == me->incarnation ? c : NULL;
}

struct reducer_input tw_reduce_input_of(const struct contribution *c)
{
	return (struct reducer_input){ .block = c->block,
				       .at = c->g,
				       .wire = c->wire,
				       .wire_at = c->wire_at,
				       .wire_bytes = c->wire_bytes,
				       .unchecked = c->unchecked,
				       .own = true,
				       .has = { .contributions = 1,
						.drift_most = c->push.account.drift,
						.account = c->push.account } };
}

static bool contribution(const void *who, struct reducer_input *out)
{
	const struct contribution *c = tw_reduce_own(who);

	if (c)
		*out = tw_reduce_input_of(c);
	return c;
}

static bool parameters(const void *who, struct reducer_input *out)
{
	const struct shard *s = who;

	return tw_shard_sum_of_parameters(s->slice.w, false, out);
}

/* What honest replicas can say of a sum of contributions. */
static bool plausible(const void *who, const struct tw_body_reduce *b)
{
	const struct tw_account *a = &b->account;
	const bool shares =
		b->contributions == 1
			? tw_shard_is_share(a->weight) && tw_shard_is_share(a->divide)
			: a->weight == a->divide &&
				  tw_shard_is_share(a->weight / (float)b->contributions);

	return shares && tw_shard_sum_plausible(who, b);
}

static double progress(const void *who)
{
	const struct shard *s = who;

	return tw_slice_progress(&s->slice);
}

static enum tw_status decode(const void *who, const uint8_t *bytes, size_t len, float *to)
{
	size_t values;

	return tw_shard_decode(who, bytes, len, to, &values);
}

/* (6) */
static bool stage_part(void *who, const struct slice_part *part, const struct tw_account *account)
{
	struct shard *s = who;
	struct contribution c = { .part = part, .parts = 1, .push.account = *account };

	return tw_slice_update_stage_part(&s->slice, &c);
}

static void unstage(void *who)
{
	struct shard *s = who;

	tw_slice_update_unstage(&s->slice);
}

/* (4) */
static void refused(void *who, struct tw_context *ctx)
{
	const struct reducer_formation *f = formation(who);

	tw_round_refuse_staged(who, ctx, f->member[f->rank].slot);
}

void tw_reduce_tell(const struct shard *s, struct tw_context *ctx)
{
	const struct reducer *r = s->reduce->sum;
	const bool awaits_own = mixes(s) && formation(s)->contributes;
	const struct contribution *own = awaits_own ? tw_reduce_own(s) : NULL;
	struct tw_body_reduce has;

	if (!tw_reducer_is_complete(r) || (awaits_own && !own)) /* (5) */
		return;
	has = own ? tw_reduce_input_of(own).has : tw_reducer_has(r);
	tw_shard_sum_tell(s, ctx, r, &has, 0);
}

static void complete(void *who, struct tw_context *ctx)
{
	tw_reduce_tell(who, ctx);
}

static const struct reducer_client of_contributions = {
	.what = TW_FORM_ROUND,
	.numbered = true,
	.why = "its piece of the sum",
	.message = tw_shard_sum_message,
	.input = contribution,
	.plausible = plausible,
	.progress = progress,
	.decode = decode,
	.part = stage_part,
	.unstage = unstage,
	.refused = refused,
	.failed = tw_shard_sum_failed,
	.complete = complete,
};

static const struct reducer_client of_parameters = {
	.what = TW_FORM_ROUND,
	.numbered = true,
	.parameters = true,
	.why = "its piece of the sum",
	.message = tw_shard_sum_message,
	.input = parameters,
	.plausible = tw_shard_sum_plausible,
	.unstage = unstage,
	.failed = tw_shard_sum_failed,
	.complete = complete,
};

struct reducer *tw_reduce_new_sum(struct shard *s)
{
	return tw_shard_sum_new(s, mixes(s) ? &of_parameters : &of_contributions,
				tw_plan_round(s->plan), s->fence.attempt);
}

void tw_reduce_formed(struct shard *s)
{
	const uint32_t attempt = formation(s)->attempt;

	if (attempt > s->fence.attempt)
		s->fence.attempt = attempt;
}
