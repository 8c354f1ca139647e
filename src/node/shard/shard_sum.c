/* SPDX-License-Identifier: Apache-2.0 */
/* shard_sum.c - see shard_sum.h. */
#include "node/shard/shard_sum.h"

struct reducer *tw_shard_sum_new(struct shard *s, const struct reducer_client *by,
				 const struct tw_reduction *reduction, uint32_t attempt)
{
	const struct reducer_vector of = { .reduction = reduction,
					   .traffic = &s->plan->traffic,
					   .pool = s->slice.pool,
					   .from = s->slice.from,
					   .n = s->slice.n,
					   .coded = s->slice.trainable,
					   .rng = tw_rng_make(s->plan->seed, TW_RNG_CODEC),
					   .gathers = tw_plan_gathers(s->plan),
					   .most = s->plan->crew.workers,
					   .channel = s->index,
					   .number = &s->slice.round,
					   .refused = &s->slice.tally.refused };

	return tw_reducer_new(s->heap, by, s, &of, attempt);
}

struct tw_msg *tw_shard_sum_message(const void *who, struct tw_context *ctx, uint32_t node)
{
	const struct shard *s = who;
	const struct tw_addr to = { node, TW_SHARD, (uint16_t)s->index };
	struct tw_msg *m = tw_msg_to(ctx, to, TW_REDUCE);

	if (m) {
		m->h.view = s->fence.generation;
		m->h.shard = s->index;
	}
	return m;
}

bool tw_shard_sum_plausible(const void *who, const struct tw_body_reduce *b)
{
	const struct shard *s = who;
	const struct tw_account *a = &b->account;

	return a->samples <= s->plan->dealing.positions && tw_shard_is_account(a);
}

void tw_shard_sum_failed(void *who, struct tw_context *ctx, enum tw_status st)
{
	const struct shard *s = who;

	if (st == TW_BAD_BYTES)
		tw_give_up(ctx, st,
			   "round %llu: a sum of gradients is too large for strategy.codec.up: %s; "
			   "choose a codec with a wider range, or a smaller update.rate",
			   (unsigned long long)s->slice.round, s->plan->traffic.up->name);
	else
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the sum of shard %u", s->index);
}

bool tw_shard_sum_of_parameters(struct tw_block *b, bool unchecked, struct reducer_input *out)
{
	if (b)
		*out = (struct reducer_input){
			.block = b,
			.at = tw_block_floats(b),
			.unchecked = unchecked,
			.has = { .contributions = 1, .account = { .weight = 1.0f, .divide = 1.0f } }
		};
	return b;
}

void tw_shard_sum_tell(const struct shard *s, struct tw_context *ctx, const struct reducer *r,
		       const struct tw_body_reduce *has, uint32_t flags)
{
	const struct reducer_formation *f = tw_reducer_formation(r);
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_HAVE);

	if (!m)
		return;
	m->h.flags = flags;
	m->b.have = (struct tw_body_have){ .round = s->slice.round,
					   .slot = f->member[f->rank].slot,
					   .incarnation = f->member[f->rank].incarnation,
					   .samples = has->account.samples,
					   .steps = has->account.steps,
					   .loss = has->account.loss,
					   .attempt = f->attempt,
					   .rate = tw_slice_rate(&s->slice) };
	tw_send(ctx, m);
}
