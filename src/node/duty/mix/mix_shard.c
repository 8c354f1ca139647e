/* SPDX-License-Identifier: Apache-2.0 */
/* mix_shard.c - the shard's side: with whom a replica acts together, and what it waits for.
 * Numbers in brackets are those of README.md. */
#include "node/duty/mix/mix.h"
#include "node/duty/mix/mix_state.h"

#include <stddef.h>

/* --- formations ------------------------------------------------------------------------------- */

bool tw_mix_is_formed(const struct shard *s)
{
	return s->mix && s->mix->member;
}

/* Those who are not in the list any more confirm nothing, and what they owed is lost. */
static void without_the_dead(struct shard *s, const struct mix_shard *before)
{
	struct mix_shard *p = s->mix;

	for (uint32_t k = 0; k < p->count; k++)
		tw_mix_entry(p, k)->left = p->peers - 1;
	for (uint32_t k = 0; k < p->peers; k++)
		for (uint64_t n = p->first;
		     k != p->rank && n <= p->peer[tw_mix_members(p)[k].slot].confirmed; n++)
			tw_mix_entry(p, (uint32_t)(n - p->first))->left--;
	for (uint32_t k = 0; k < before->peers; k++) {
		const uint32_t slot = tw_mix_members(before)[k].slot;

		if (!p->peer[slot].place)
			tw_shard_lose(s, 0.0f, p->peer[slot].residual);
	}
	if (p->open.asked && !p->peer[p->open.partner].place)
		tw_mix_close_exchange(p);
}

static void form(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct mix_shard before = *s->mix;
	const struct tw_member *list = (const void *)m->tail->data;
	const uint32_t peers = (uint32_t)(m->h.tail / sizeof *list);
	struct mix_shard *p = s->mix;
	uint32_t rank = 0;

	if (m->b.form.attempt <= p->attempt)
		return;
	while (rank < peers && list[rank].node != ctx->self.node)
		rank++;
	if (rank == peers || !tw_mix_furnished(s, ctx))
		return; /* the others do without it */
	p->attempt = m->b.form.attempt;
	p->member = tw_block_keep(m->tail);
	p->peers = peers;
	p->rank = rank;
	p->settling = m->b.form.what == TW_FORM_SETTLE;
	p->settled = false;
	p->since = tw_now(ctx);
	for (uint32_t k = 0; k < s->plan->crew.workers; k++)
		p->peer[k].place = 0;
	for (uint32_t k = 0; k < peers; k++)
		p->peer[list[k].slot].place = k + 1;
	without_the_dead(s, &before);
	tw_block_drop(before.member);
	/* what they said before we knew them has waited (early.h), unless there was no room */
	for (uint32_t k = 0; k < peers; k++)
		if (k != rank)
			tw_mix_confirm(s, ctx, &tw_mix_members(p)[k], s->early.lost, p->leaving);
	for (uint32_t k = 0; k < peers && !before.member; k++)
		if (k != rank)
			tw_mix_send_log(s, ctx, &tw_mix_members(p)[k]);
	tw_mix_prune(s, ctx);
	tw_mix_let_leave(s, ctx);
	tw_mix_check_settled(s, ctx);
}

static void hear_heard(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *who = tw_mix_sender(s, m);

	if (!who)
		return;
	tw_mix_confirmed(s, ctx, who->slot, m->b.heard.number);
	if (m->h.flags & TW_FLAG_LEAVE)
		tw_mix_confirm(s, ctx, who, false, false); /* (11) */
	if (!m->b.heard.again)
		return;
	tw_mix_send_log(s, ctx, who);
	tw_mix_ask_again(s, ctx, who->slot); /* it may have come before its formation */
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Who has not confirmed the oldest entry; peers: nobody. */
static uint32_t slowest(const struct mix_shard *p)
{
	for (uint32_t k = 0; k < p->peers && p->count; k++)
		if (k != p->rank && p->peer[tw_mix_members(p)[k].slot].confirmed < p->first)
			return k;
	return p->peers;
}

static bool full(const struct shard *s, uint32_t *whom)
{
	const struct mix_shard *p = s->mix;
	uint32_t k;

	if (p->count <= tw_mix_most(p) && !(p->leaving && p->open.asked))
		return false;
	k = slowest(p);
	if (k < p->peers)
		*whom = tw_mix_members(p)[k].slot;
	else
		*whom = p->open.asked ? p->open.partner : UINT32_MAX;
	return true;
}

static void leaves(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	struct mix_shard *p = s->mix;

	if (!p->member || p->leaving || slot != tw_mix_members(p)[p->rank].slot)
		return;
	p->leaving = true;
	p->since = tw_now(ctx);
	for (uint32_t k = 0; k < p->peers && p->count; k++)
		if (k != p->rank)
			tw_mix_confirm(s, ctx, &tw_mix_members(p)[k], false, true);
}

static bool waits_for_word(const struct shard *s, struct tw_wait *out)
{
	const struct mix_shard *p = s->mix;
	uint32_t k = slowest(p);

	if (!p->member || !(p->settling || p->leaving || p->count > tw_mix_most(p)) || p->settled)
		return false;
	if (k == p->peers && p->open.asked)
		k = p->peer[p->open.partner].place - 1;
	if (k == p->peers)
		return false;
	*out = (struct tw_wait){ .whom = { tw_mix_members(p)[k].node, TW_WORKER, 0 },
				 .slot = tw_mix_members(p)[k].slot,
				 .since = p->since,
				 .why = p->count ? "its word that it has a contribution"
						 : "its parameters",
				 .step = p->first };
	return true;
}

/* The mean of these is what it waits for. */
static bool waits_for_mean(const struct reducer *r, struct tw_wait *out)
{
	return r && tw_reducer_waits(r, out);
}

bool tw_mix_waits(const struct shard *s, struct tw_wait *out)
{
	return waits_for_word(s, out) || waits_for_mean(s->mix->average, out) ||
	       waits_for_mean(s->mix->views, out);
}

static bool held_by(const struct shard *s, uint64_t attempt, struct tw_wait *out, uint32_t *depth)
{
	(void)attempt;
	(void)depth;
	return waits_for_word(s, out);
}

/* --- contributions of its worker ------------------------------------------------------------*/

static enum tw_status take_own(struct shard *s, struct tw_context *ctx, struct contribution *c,
			       const struct tw_msg *m)
{
	const uint32_t slot = c->slot;

	tw_shard_push_take(s, ctx, c, m);
	tw_mix_tell_others(s, ctx, m, false);
	tw_mix_begin_exchange(s, ctx);
	tw_shard_push_reply(s, ctx, slot, m);
	return TW_OK;
}

static void reject_own(struct shard *s, struct tw_context *ctx, uint32_t slot,
		       const struct tw_msg *m)
{
	tw_shard_push_reject(s, ctx, slot, m);
	tw_mix_tell_others(s, ctx, m, true);
	tw_mix_begin_exchange(s, ctx);
}

/* --- the duty --------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_is_loose(plan);
}

/* A new generation, or the end: nothing is kept. */
static void forget(struct shard *s)
{
	struct mix_shard *p = s->mix;

	tw_mix_drop_log(p);
	tw_mix_close_exchange(p);
	for (uint32_t k = 0; p->peer && k < s->plan->crew.workers; k++)
		tw_block_drop(p->peer[k].answer);
	s->heap->put(s->heap, p->peer);
	s->heap->put(s->heap, p->log);
	tw_block_drop(p->member);
	*p = (struct mix_shard){ .attempt = p->attempt,
				 .average = p->average,
				 .views = p->views,
				 .average_attempt = p->average_attempt,
				 .views_attempt = p->views_attempt };
}

static enum tw_status open_all(void *actor)
{
	return tw_mix_open_means(actor);
}

static void close_all(void *actor)
{
	struct shard *s = actor;

	tw_mix_close_means(s->mix);
	forget(s);
}

static void begin(void *actor, struct tw_context *ctx)
{
	struct shard *s = actor;

	(void)ctx;
	tw_reducer_forget(s->mix->average);
	tw_reducer_forget(s->mix->views);
	forget(s);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct shard *s = actor;
	struct reducer *r;

	switch (m->h.type) {
	case TW_FORM:
		r = tw_mix_mean_of(s, m->b.form.what);
		if (r)
			tw_reducer_form(r, ctx, m);
		else if (m->b.form.what != TW_FORM_ROUND)
			form(s, ctx, m);
		break;
	case TW_REDUCE:
		r = tw_mix_mean_of(s, m->b.reduce.what);
		if (r)
			tw_reducer_hear(r, ctx, m);
		break;
	case TW_HEARD:
		hear_heard(s, ctx, m);
		break;
	default:
		tw_mix_hear_mix(s, ctx, m);
	}
}

/* What was sent there may be lost. */
static void node(void *actor, struct tw_context *ctx, uint32_t node)
{
	struct shard *s = actor;
	const struct mix_shard *p = s->mix;

	tw_reducer_send_again(p->average, ctx, node);
	tw_reducer_send_again(p->views, ctx, node);
	for (uint32_t k = 0; k < p->peers; k++) {
		const struct tw_member *who = &tw_mix_members(p)[k];

		if (k == p->rank || who->node != node)
			continue;
		tw_mix_confirm(s, ctx, who, true, p->leaving);
		tw_mix_send_log(s, ctx, who);
		tw_mix_ask_again(s, ctx, who->slot);
	}
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	(void)shard;
	tw_mix_tell_means(actor, ctx);
	tw_mix_tell_settled(actor, ctx);
}

/* Outside rounds nothing is committed but a mean. */
static void commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	if (m->b.commit.round == s->slice.round)
		tw_mix_adopts(s, ctx, m);
}

static const struct tw_taker taker = {
	.name = "spread",
	.push = tw_shard_push_contribution,
	.commit = commit,
	.fenced = tw_shard_push_refuse,
	.take = take_own,
	.reject = reject_own,
	.other = tw_mix_hear_spread,
	.full = full,
	.leaves = leaves,
	.waits = tw_mix_waits,
	.held_by = held_by,
};

const struct tw_duty tw_mix_shard = {
	.name = "mix",
	.bytes = sizeof(struct mix_shard),
	.place = offsetof(struct shard, mix),
	.hears = TW_HEARS(TW_FORM) | TW_HEARS(TW_REDUCE) | TW_HEARS(TW_HEARD) | TW_HEARS(TW_MIX),
	.seat = &taker,
	.wanted = wanted,
	.open = open_all,
	.close = close_all,
	.message = message,
	.begin = begin,
	.node = node,
	.home = home,
};
