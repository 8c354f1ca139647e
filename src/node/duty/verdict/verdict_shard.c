/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_shard.c - contributions that wait until the master has judged them, once for all shards.
 * It holds the seat of the taker.  The numbers in brackets are those of README.md. */
#include "node/duty/verdict/verdict.h"
#include "node/shard/shard.h"

#include <stddef.h>

/* (5) What a worker has pushed and is not judged, in order.  It may be of an earlier incarnation,
 * until a view says that this life is over. */
struct verdict_shard {
	struct contribution **waiting; /* by slot; NULL: nothing */
};

/* Those of its life that are not closed. */
static uint32_t open_of(const struct shard *s, uint32_t slot)
{
	const uint32_t incarnation = tw_shard_worker(s, slot)->incarnation;
	uint32_t count = 0;

	for (const struct contribution *c = s->verdict->waiting[slot]; c; c = c->spare)
		count += c->incarnation == incarnation && !c->closed;
	return count;
}

static bool waits(const struct shard *s, uint32_t slot, uint64_t seq)
{
	const uint32_t incarnation = tw_shard_worker(s, slot)->incarnation;
	const struct contribution *c = s->verdict->waiting[slot];

	while (c && (c->incarnation != incarnation || c->seq != seq))
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

	if (g->state != SHARD_WORKER_MEMBER || g->incarnation != c->incarnation) /* (7) */
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

static void await(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct contribution **at = &s->verdict->waiting[c->slot], **first = NULL;
	uint32_t count = 0;

	for (; *at; at = &(*at)->spare)
		if ((*at)->incarnation == c->incarnation && (*at)->closed == c->closed) {
			first = first ? first : at;
			count++;
		}
	if (count == TW_CREDITS && !c->closed) { /* (5): it has no credit for this one */
		s->slice.tally.refused++;
		tw_bucket_give_back(s, c);
		return;
	}
	c->spare = NULL;
	*at = c;
	tell(s, ctx, c);
	if (count == TW_CREDITS) { /* (7): nobody waits for the oldest one any more */
		c = *first;
		*first = c->spare;
		tw_bucket_give_back(s, c);
	}
}

static void tell_of(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	for (const struct contribution *c = s->verdict->waiting[slot]; c; c = c->spare)
		tell(s, ctx, c);
}

void tw_verdict_shard_tell_again(struct shard *s, struct tw_context *ctx)
{
	for (uint32_t k = 0; s->hosted && s->verdict && k < s->members.senders; k++)
		tell_of(s, ctx, k);
}

/* Lives of this worker but this one are over (0: all are): what they left is not judged. */
static void forget(struct shard *s, uint32_t slot, uint32_t but)
{
	struct contribution **at = &s->verdict->waiting[slot];

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

static struct contribution *unlink_at(struct contribution **at)
{
	struct contribution *c = *at;

	*at = c->spare;
	c->spare = NULL;
	return c;
}

/* What this verdict is about, out of the list; NULL: it is not here (6).  Numbers are closed in
 * order: one before it that was passed over will not be judged. */
static struct contribution *take(struct shard *s, struct tw_context *ctx, const struct tw_judged *v)
{
	struct contribution **at, *c;

	if (v->slot >= s->members.senders)
		return NULL;
	at = &s->verdict->waiting[v->slot];
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

	if (m->b.commit.round < s->committed.verdicts) { /* (6) */
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
	if (!c->closed && fault == FAULT_FENCED && !open_of(s, c->slot)) {
		c->closed = true;
		tw_shard_push_refuse_late(s, ctx, slot, m);
	}
	await(s, ctx, c);
}

/* By a life before, or closed with a later one. */
static void seen(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	if (m->b.push.base.incarnation != s->slice.version.incarnation && !waits(s, slot, m->h.seq))
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
	await(s, ctx, c);
	return TW_OK;
}

static void reject(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	await_faulty(s, ctx, slot, m, FAULT_NUMBERS);
}

static const struct tw_taker taker = {
	.name = "verdict",
	.push = tw_shard_push_contribution,
	.commit = carry_out,
	.open = open_of,
	.seen = seen,
	.fenced = fenced,
	.take = take_push,
	.reject = reject,
};

/* --- the duty -------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_judges(plan);
}

static enum tw_status open_books(void *actor)
{
	struct shard *s = actor;
	const size_t all = s->members.senders ? s->members.senders : 1;

	s->verdict->waiting = tw_heap_zeros(s->heap, all * sizeof *s->verdict->waiting);
	return s->verdict->waiting ? TW_OK : TW_NO_MEMORY;
}

static void forget_all(struct shard *s)
{
	for (uint32_t k = 0; s->verdict->waiting && k < s->members.senders; k++)
		forget(s, k, 0);
}

static void close_books(void *actor)
{
	struct shard *s = actor;

	forget_all(s);
	s->heap->put(s->heap, s->verdict->waiting);
	s->verdict->waiting = NULL;
}

/* Nothing waits, and sets are counted from 0. */
static void begin(void *actor, struct tw_context *ctx)
{
	struct shard *s = actor;

	(void)ctx;
	forget_all(s);
	tw_block_drop(s->committed.set);
	s->committed = (struct shard_committed){ .set = NULL };
}

/* A view names it (8). */
static void joined(void *actor, struct tw_context *ctx, uint32_t slot)
{
	forget(actor, slot, tw_shard_worker(actor, slot)->incarnation);
	tell_of(actor, ctx, slot);
}

static void lost(void *actor, struct tw_context *ctx, uint32_t slot)
{
	const struct shard_worker *g = tw_shard_worker(actor, slot);

	(void)ctx;
	forget(actor, slot, g->state == SHARD_WORKER_LEFT ? 0 : g->incarnation);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	(void)shard;
	tw_verdict_shard_tell_again(actor, ctx);
}

const struct tw_duty tw_verdict_shard = {
	.name = "verdict",
	.bytes = sizeof(struct verdict_shard),
	.place = offsetof(struct shard, verdict),
	.seat = &taker,
	.wanted = wanted,
	.open = open_books,
	.close = close_books,
	.begin = begin,
	.joined = joined,
	.lost = lost,
	.home = home,
};
