/* SPDX-License-Identifier: Apache-2.0 */
/* mix_pair.c - two replicas take the mean of their parameters: each moves half of the way.
 * Numbers in brackets are those of README.md. */
#include "node/duty/mix/mix.h"
#include "node/duty/mix/mix_state.h"
#include "vec/vec.h"

static const struct tw_mixing *mixing(const struct shard *s)
{
	return s->plan->topology.mixing;
}

void tw_mix_close_exchange(struct mix_shard *p)
{
	tw_block_drop(p->open.asked);
	p->open.asked = NULL;
}

static void ask(struct shard *s, struct tw_context *ctx)
{
	const struct mix_shard *p = s->mix;
	const uint32_t place = p->peer[p->open.partner].place;
	struct tw_msg *m =
		place ? tw_mix_message(s, ctx, &tw_mix_members(p)[place - 1], TW_MIX) : NULL;

	if (!m)
		return;
	m->b.mix.number = p->open.number;
	m->payload = tw_block_keep(p->open.asked);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}

static void answer(struct shard *s, struct tw_context *ctx, const struct tw_member *to)
{
	const struct mix_peer *o = &s->mix->peer[to->slot];
	struct tw_msg *m = tw_mix_message(s, ctx, to, TW_MIX);

	if (!m)
		return;
	m->b.mix = (struct tw_body_mix){ .number = o->answered, .answer = 1 };
	m->payload = tw_block_keep(o->answer);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}

void tw_mix_ask_again(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	if (s->mix->open.asked && s->mix->open.partner == slot)
		ask(s, ctx);
}

void tw_mix_begin_exchange(struct shard *s, struct tw_context *ctx)
{
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_PARTNER);
	struct mix_shard *p = s->mix;
	uint32_t partner;

	if (!mixing(s)->partner || !p->member || p->open.asked || p->settling || p->leaving)
		return;
	partner = mixing(s)->partner(&rng, p->peers, p->rank, p->open.number + 1);
	if (partner >= p->peers || partner == p->rank)
		return;
	p->open.asked = tw_slice_snapshot(&s->slice);
	if (!p->open.asked) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the parameters of shard %u", s->index);
		return;
	}
	p->open.number++;
	p->open.partner = tw_mix_members(p)[partner].slot;
	ask(s, ctx);
}

/* Half of the way to where the other is. */
static bool approach(struct shard *s, struct tw_context *ctx, const float *here, const float *there)
{
	if (tw_slice_approach(&s->slice, here, there) == TW_OK)
		return true;
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for the parameters of shard %u", s->index);
	return false;
}

void tw_mix_hear_mix(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *who = tw_mix_sender(s, m);
	const struct tw_body_mix *b = &m->b.mix;
	struct mix_shard *p = s->mix;
	struct mix_peer *o = who ? &p->peer[who->slot] : NULL;
	const float *theirs = m->payload ? (const float *)tw_msg_payload(m) : NULL;

	if (!who || !mixing(s)->partner)
		return;
	if (m->h.payload != s->slice.n * sizeof(float) || !tw_vec_finite(theirs, s->slice.n)) {
		s->slice.tally.refused++;
		theirs = NULL; /* (10) */
	}
	if (b->answer) {
		if (!p->open.asked || b->number != p->open.number || who->slot != p->open.partner)
			return; /* it was answered already */
		if (theirs)
			approach(s, ctx, tw_block_floats(p->open.asked), theirs);
		tw_mix_close_exchange(p);
		tw_mix_let_leave(s, ctx);
		tw_mix_check_settled(s, ctx);
		return;
	}
	if (b->number > o->answered) { /* else (9) */
		struct tw_block *mine = tw_slice_snapshot(&s->slice);

		if (!mine || (theirs && !approach(s, ctx, tw_block_floats(mine), theirs))) {
			tw_block_drop(mine);
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for the parameters of shard %u",
				   s->index);
			return;
		}
		tw_block_drop(o->answer);
		o->answer = mine;
		o->answered = b->number;
	}
	if (b->number == o->answered)
		answer(s, ctx, who);
}
