/* SPDX-License-Identifier: Apache-2.0 */
/* mix_mean.c - replicas take the mean of their parameters, or of the views of an evaluation.
 * Numbers in brackets are those of README.md. */
#include "node/duty/mix/mix.h"
#include "node/duty/mix/mix_state.h"
#include "node/duty/eval/eval.h"

static bool parameters(const void *who, struct reducer_input *out)
{
	const struct shard *s = who;

	return tw_shard_sum_of_parameters(s->slice.w, true, out);
}

static bool view(const void *who, struct reducer_input *out)
{
	return tw_shard_sum_of_parameters(tw_eval_shard_first_view(who), true, out);
}

static void tell(const struct shard *s, struct tw_context *ctx, const struct reducer *r,
		 uint32_t flags)
{
	const struct tw_body_reduce has = tw_reducer_has(r);

	if (tw_reducer_is_complete(r))
		tw_shard_sum_tell(s, ctx, r, &has, flags);
}

void tw_mix_tell_means(const struct shard *s, struct tw_context *ctx)
{
	tell(s, ctx, s->mix->average, 0);
	tell(s, ctx, s->mix->views, TW_FLAG_FREE);
}

static void average_complete(void *who, struct tw_context *ctx)
{
	const struct shard *s = who;

	tell(s, ctx, s->mix->average, 0);
}

/* (12): it takes the place of the own view at once. */
static void views_complete(void *who, struct tw_context *ctx)
{
	struct shard *s = who;
	struct tw_block *mean = tw_reducer_mean(s->mix->views);

	if (mean)
		tw_eval_shard_replace(s, mean);
	else
		tw_shard_sum_failed(s, ctx, TW_NO_MEMORY);
	tell(s, ctx, s->mix->views, TW_FLAG_FREE);
}

static const struct reducer_client of_parameters = {
	.what = TW_FORM_PARAMETERS,
	.parameters = true,
	.mean = true,
	.why = "its piece of the mean",
	.message = tw_shard_sum_message,
	.input = parameters,
	.plausible = tw_shard_sum_plausible,
	.failed = tw_shard_sum_failed,
	.complete = average_complete,
};

static const struct reducer_client of_views = {
	.what = TW_FORM_VIEWS,
	.parameters = true,
	.mean = true,
	.at_once = true,
	.flags = TW_FLAG_FREE,
	.why = "its piece of the mean",
	.message = tw_shard_sum_message,
	.input = view,
	.plausible = tw_shard_sum_plausible,
	.failed = tw_shard_sum_failed,
	.complete = views_complete,
};

enum tw_status tw_mix_open_means(struct shard *s)
{
	const struct tw_reduction *by = s->plan->topology.reduction;
	struct mix_shard *p = s->mix;

	p->average = tw_shard_sum_new(s, &of_parameters, by, p->average_attempt);
	p->views = tw_shard_sum_new(s, &of_views, by, p->views_attempt);
	return p->average && p->views ? TW_OK : TW_NO_MEMORY;
}

void tw_mix_close_means(struct mix_shard *p)
{
	if (p->average)
		p->average_attempt = tw_reducer_formation(p->average)->attempt;
	if (p->views)
		p->views_attempt = tw_reducer_formation(p->views)->attempt;
	tw_reducer_free(p->average);
	tw_reducer_free(p->views);
	p->average = p->views = NULL;
}

struct reducer *tw_mix_mean_of(const struct shard *s, uint32_t what)
{
	return what == TW_FORM_PARAMETERS ? s->mix->average
	       : what == TW_FORM_VIEWS    ? s->mix->views
					  : NULL;
}

enum tw_status tw_mix_take_mean(struct shard *s, const struct reducer *r)
{
	struct tw_block *b = tw_reducer_mean(r);

	if (b)
		tw_slice_replace(&s->slice, b);
	return b ? TW_OK : TW_NO_MEMORY;
}

/* HAVE says so. */
static void tell_adopted(const struct shard *s, struct tw_context *ctx, uint32_t attempt)
{
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_HAVE);

	if (!m)
		return;
	m->h.flags = TW_FLAG_APPLIED;
	m->b.have = (struct tw_body_have){ .attempt = attempt };
	tw_send(ctx, m);
}

bool tw_mix_adopts(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct reducer *r = s->mix->average;
	const struct reducer_formation *f = tw_reducer_formation(r);

	if (!m->b.commit.attempt || m->b.commit.attempt != f->attempt)
		return false;
	if (f->peers && !tw_reducer_is_complete(r))
		return true;
	if (f->peers && tw_mix_take_mean(s, r) != TW_OK)
		tw_shard_sum_failed(s, ctx, TW_NO_MEMORY);
	tw_reducer_disband(r); /* without members it was adopted already */
	tell_adopted(s, ctx, f->attempt);
	return true;
}

void tw_mix_round_over(struct shard *s, struct tw_context *ctx)
{
	tw_reducer_form_late(s->mix->average, ctx);
}
