/* SPDX-License-Identifier: Apache-2.0 */
/* shard_verdicts.c - contributions that wait until the master has judged them, once for all shards.
 *
 * A gate that drops what is late must be of one mind: what some shards had applied and others had
 * dropped could neither be dealt again nor be done with.  So a shard keeps a contribution and tells
 * the master how late it is here; the master asks the gate when every shard has it, and sends sets
 * of verdicts, which all shards carry out in the same order.  See master_verdicts.c.
 *
 *  (1) worker.waiting has what its life has pushed and is not judged, in the order of its numbers,
 *      TW_CREDITS of one life at most; no number of it is closed, except (3).
 *  (2) a set is carried out once, and its number is confirmed each time that it comes.  A shard
 *      that was away may not have what is in a set: that part of it says nothing here.
 *  (3) what was computed on an earlier life of this shard is closed at once, for it cannot be
 *      applied.  The master is told nevertheless, because others may have it waiting.
 *      Of a worker that no view has named yet nothing is told: a view that is on its way may say
 *      that there is no such worker, and what was told must stay.
 *  (4) what waits goes when its worker has left, or when another life has its slot.  One that is
 *      gone for this master may be a member of the next, and does not push again what it has
 *      pushed.  Meanwhile no set names it. */
#include "node/shard/shard.h"

uint32_t tw_verdict_count(const struct shard_worker *g)
{
	uint32_t count = 0;

	for (const struct contribution *c = g->waiting; c; c = c->spare)
		count += c->incarnation == g->incarnation && !c->closed;
	return count;
}

bool tw_verdict_waits(const struct shard_worker *g, uint64_t seq)
{
	const struct contribution *c = g->waiting;

	while (c && (c->incarnation != g->incarnation || c->seq != seq))
		c = c->spare;
	return c;
}

/* How many updates of this slice were not in what it was computed on. */
static uint32_t behind(const struct shard *s, const struct contribution *c)
{
	const uint64_t since = s->slice.version.n - c->push.base.n;

	if (c->fault == FAULT_FENCED)
		return UINT32_MAX;
	return c->fault ? 0 : since < UINT32_MAX ? (uint32_t)since : UINT32_MAX - 1;
}

static void tell(struct shard *s, struct tw_context *ctx, const struct contribution *c)
{
	const struct shard_worker *g = tw_shard_worker(s, c->slot);
	const uint64_t own = c->push.own;
	struct tw_msg *m;

	if (g->state != SHARD_WORKER_MEMBER || g->incarnation != c->incarnation) /* (3) */
		return;
	m = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!m)
		return;
	m->h.seq = c->seq;
	m->h.flags = c->fault == FAULT_NUMBERS ? TW_FLAG_REFUSED : 0;
	m->b.have = (struct tw_body_have){ .round = s->committed.verdicts,
					   .slot = tw_shard_slot(s, c->slot),
					   .incarnation = c->incarnation,
					   .samples = c->push.account.samples,
					   .steps = own < UINT32_MAX ? (uint32_t)own : UINT32_MAX,
					   .attempt = behind(s, c) };
	tw_send(ctx, m);
}

void tw_verdict_await(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct contribution **at = &tw_shard_worker(s, c->slot)->waiting, **first = NULL;
	uint32_t count = 0;

	for (; *at; at = &(*at)->spare)
		if ((*at)->incarnation == c->incarnation && (*at)->closed == c->closed) {
			first = first ? first : at;
			count++;
		}
	if (count == TW_CREDITS && !c->closed) { /* (1): it has no credit for this one */
		s->slice.tally.refused++;
		tw_bucket_give_back(s, c);
		return;
	}
	c->spare = NULL;
	*at = c;
	tell(s, ctx, c);
	if (count == TW_CREDITS) { /* (3): nobody waits for the oldest one any more */
		c = *first;
		*first = c->spare;
		tw_bucket_give_back(s, c);
	}
}

void tw_verdict_tell_of(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	for (const struct contribution *c = tw_shard_worker(s, slot)->waiting; c; c = c->spare)
		tell(s, ctx, c);
}

void tw_verdict_tell_again(struct shard *s, struct tw_context *ctx)
{
	if (!s->hosted || !tw_plan_judges(s->plan))
		return;
	for (uint32_t k = 0; k < s->members.senders; k++)
		tw_verdict_tell_of(s, ctx, k);
}

void tw_verdict_forget(struct shard *s, uint32_t slot, uint32_t but)
{
	struct contribution **at = &tw_shard_worker(s, slot)->waiting;

	while (*at) {
		struct contribution *c = *at;

		if (c->incarnation == but) {
			at = &c->spare;
			continue;
		}
		*at = c->spare;
		tw_bucket_give_back(s, c);
	}
}

void tw_verdict_forget_all(struct shard *s)
{
	for (uint32_t k = 0; s->members.worker && k < s->members.senders; k++)
		tw_verdict_forget(s, k, 0);
	if (!tw_plan_judges(s->plan))
		return;
	tw_block_drop(s->committed.set);
	s->committed.set = NULL;
	s->committed.count = 0;
	s->committed.verdicts = 0;
}

static struct contribution *unlink_at(struct contribution **at)
{
	struct contribution *c = *at;

	*at = c->spare;
	c->spare = NULL;
	return c;
}

/* What this verdict is about, out of the list; NULL: it is not here (2).  Numbers are closed in
 * order: one before it that was passed over will not be judged. */
static struct contribution *take(struct shard *s, struct tw_context *ctx, const struct tw_judged *v)
{
	struct contribution **at, *c;

	if (v->slot >= s->members.senders)
		return NULL;
	at = &tw_shard_worker(s, v->slot)->waiting;
	for (c = *at; c && (c->incarnation != v->incarnation || (uint32_t)c->seq != v->seq);)
		c = c->spare;
	while (c && *at != c)
		if ((*at)->incarnation == v->incarnation && !(*at)->closed)
			tw_shard_settle(s, ctx, unlink_at(at), TW_JUDGED_VOID, false);
		else
			at = &(*at)->spare;
	return c ? unlink_at(at) : NULL;
}

static void confirm(struct shard *s, struct tw_context *ctx)
{
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_HAVE);

	if (!m)
		return;
	m->b.have = (struct tw_body_have){ .round = s->committed.verdicts, .slot = UINT32_MAX };
	tw_send(ctx, m);
}

static void carry_out(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_judged *set = m->tail ? (const void *)m->tail->data : NULL;
	const uint32_t count = m->b.commit.count;

	if (m->b.commit.round < s->committed.verdicts) { /* (2) */
		confirm(s, ctx);
		return;
	}
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t how = set[k].what & ~TW_JUDGED_FLUSH;
		const bool flush = set[k].what & TW_JUDGED_FLUSH;
		struct contribution *c = take(s, ctx, &set[k]);

		if (c)
			tw_shard_settle(s, ctx, c, (enum tw_judgement)how, flush);
		else if (flush && s->bucket.count)
			tw_bucket_flush(s, ctx);
	}
	s->committed.verdicts = m->b.commit.round + 1;
	tw_block_drop(s->committed.set);
	s->committed.set = tw_block_keep(m->tail);
	s->committed.count = count;
	confirm(s, ctx);
}

/* --- what comes of a push -------------------------------------------------------------------- */

/* The master hears of it as of one that could be applied, and judges it for all
 * shards.  What was computed on an earlier life of this shard is refused without waiting for that,
 * unless something waits that came before: it may have been judged while this shard was away. */
static void await_faulty(struct shard *s, struct tw_context *ctx, uint32_t slot,
			 const struct tw_msg *m, enum contribution_fault fault)
{
	struct contribution *c = tw_bucket_take(s);

	if (!c) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
		return;
	}
	*c = tw_shard_push_said(slot, m);
	c->closed = m->b.push.link <= tw_shard_worker(s, c->slot)->link;
	if (!tw_shard_plausible(s, &c->push))
		c->push.ranges = c->push.account.samples = 0;
	c->flags = m->h.flags;
	c->fault = (uint8_t)fault;
	if (!c->closed && fault == FAULT_FENCED && !tw_verdict_open(tw_shard_worker(s, c->slot))) {
		c->closed = true;
		tw_shard_push_refuse_late(s, ctx, slot, m);
	}
	tw_verdict_await(s, ctx, c);
}

/* By a life before, or closed with a later one. */
static void seen(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	if (m->b.push.base.incarnation != s->slice.version.incarnation &&
	    !tw_verdict_waits(tw_shard_worker(s, slot), m->h.seq))
		await_faulty(s, ctx, slot, m, FAULT_FENCED);
}

static void fenced(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	await_faulty(s, ctx, slot, m, FAULT_FENCED);
}

static enum tw_status take_push(struct shard *s, struct tw_context *ctx, struct contribution *c,
				const struct tw_msg *m)
{
	tw_shard_push_counted(s, c, m);
	tw_shard_push_keep(s, ctx, c, m->h.flags);
	c->flags = m->h.flags;
	tw_verdict_await(s, ctx, c);
	return TW_OK;
}

static void reject(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	await_faulty(s, ctx, slot, m, FAULT_NUMBERS);
}

const struct tw_taker tw_taker_verdict = {
	.name = "verdict",
	.push = tw_shard_push_contribution,
	.commit = carry_out,
	.seen = seen,
	.fenced = fenced,
	.take = take_push,
	.reject = reject,
};
