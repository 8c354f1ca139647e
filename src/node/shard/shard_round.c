/* SPDX-License-Identifier: Apache-2.0 */
/* shard_round.c - what is staged for a round, and its commit.
 *
 * Responsible for (5) of the rules in shard.c: under round gates only COMMIT applies; what is
 * staged waits for it, whoever dies meanwhile.
 *
 *  (1) round.staged lists the slots whose worker has something staged, each once. So a commit costs
 *      what the round has, not what the cluster has.
 *  (2) what a worker owes changes with its commit.  It may have died, and its slot may be somebody
 *      else's by then: what died with it is what it owed after this contribution.
 *  (3) the lanes of a worker stage one contribution together: the master hears of it when all are
 *      here, and a commit that names the worker takes them in the order of lanes. */
#include "node/shard/shard.h"
#include "vec/vec.h"

#include <stdlib.h>

/* --- staging -------------------------------------------------------------------------------- */

/* What lane `l` of a worker has staged, if it is of the same round and life as this; else NULL. */
static const struct contribution *beside(const struct shard *s, const struct contribution *c,
					 uint32_t l)
{
	const uint32_t first = c->slot - c->slot % s->members.lanes;
	const struct contribution *other = tw_shard_worker(s, first + l)->staged;

	return other && other->push.round == c->push.round && other->incarnation == c->incarnation
		       ? other
		       : NULL;
}

/* (3): all of it, into `out`; false: something is missing. */
static bool is_whole(const struct shard *s, const struct contribution *c, struct tw_body_have *out)
{
	for (uint32_t l = 0; l < c->push.lanes; l++) {
		const struct contribution *one = beside(s, c, l);

		if (!one || one->push.lanes != c->push.lanes)
			return false;
		out->samples = (l ? out->samples : 0) + one->push.account.samples;
		out->steps = (l ? out->steps : 0) + one->push.account.steps;
		out->loss = (l ? out->loss : 0) + one->push.account.loss;
	}
	return true;
}

void tw_shard_have(struct shard *s, struct tw_context *ctx, const struct contribution *c,
		   uint32_t flags)
{
	struct tw_body_have have = { .round = c->push.round,
				     .slot = tw_shard_slot(s, c->slot),
				     .incarnation = c->incarnation,
				     .samples = c->push.account.samples,
				     .steps = c->push.account.steps,
				     .loss = c->push.account.loss };
	struct tw_msg *m;

	if (!(flags & TW_FLAG_REFUSED) && !is_whole(s, c, &have))
		return;
	m = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!m)
		return;
	m->h.flags = flags;
	m->b.have = have;
	tw_send(ctx, m);
}

struct contribution *tw_shard_take_back(struct shard *s, uint32_t slot)
{
	struct contribution *c = tw_shard_worker(s, slot)->staged;
	uint32_t k = s->round.staged_count;

	if (!c)
		return NULL;
	while (k && s->round.staged[k - 1] != slot)
		k--;
	HOLDS(1, k);
	s->round.staged[k - 1] = s->round.staged[--s->round.staged_count];
	tw_shard_worker(s, slot)->staged = NULL;
	return c;
}

enum tw_status tw_shard_check_staged(const struct shard *s, struct contribution *c)
{
	if (c->unchecked && !tw_vec_finite(c->g, s->slice.all))
		return TW_BAD_BYTES;
	c->unchecked = false;
	return TW_OK;
}

enum tw_status tw_shard_stage(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct shard_worker *g = tw_shard_worker(s, c->slot);
	enum tw_status st = TW_OK;

	/* what was promised for who was here before gives way only to what is good */
	if (g->staged && (st = tw_shard_check_staged(s, c)) != TW_OK)
		return st;
	if (!g->staged)
		s->round.staged[s->round.staged_count++] = c->slot;
	tw_bucket_give_back(s, g->staged);
	g->staged = c;
	st = s->taker->staged(s, ctx, c);
	if (st == TW_BAD_BYTES)
		tw_shard_take_back(s, c->slot);
	return st;
}

/* --- what comes of a push -------------------------------------------------------------------- */

/* Under rounds the answer waits for the commit.  Where that changes nothing here, the worker has
 * it already. */
static void park_for_round(struct shard *s, struct tw_context *ctx, uint32_t slot,
			   const struct tw_msg *m)
{
	if (!(m->h.flags & TW_FLAG_ANSWER))
		return;
	tw_shard_park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
	if (!tw_shard_push_carries(s, &m->b.push))
		tw_shard_worker(s, slot)->request.have = m->b.push.base.n;
}

/* Under rounds the master is told that the contribution will not come, and may ask again. */
static void reject_for_round(struct shard *s, struct tw_context *ctx, const struct contribution *c)
{
	struct shard_worker *g = tw_shard_worker(s, c->slot);

	if (!g->refused)
		g->refused = tw_bucket_take(s);
	if (!g->refused) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
		return;
	}
	*g->refused = (struct contribution){
		.slot = c->slot, .incarnation = g->incarnation, .seq = c->seq, .push = c->push
	};
	tw_shard_worker_close(g, c->push.link, c->seq, false);
	tw_shard_push_note_refused(s, ctx, c);
	tw_shard_have(s, ctx, g->refused, TW_FLAG_REFUSED);
}

void tw_shard_refuse_staged(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	struct contribution *c = tw_shard_take_back(s, slot);

	if (!c)
		return;
	tw_shard_push_strike(s, ctx, slot, c->push.link);
	s->slice.tally.refused++;
	reject_for_round(s, ctx, c);
	tw_bucket_give_back(s, c);
}

bool tw_round_is_late_push(struct shard *s, struct tw_context *ctx, uint32_t slot,
			   const struct tw_msg *m)
{
	struct shard_worker *g = tw_shard_worker(s, slot);

	if (m->b.push.round < s->slice.round) {
		tw_shard_worker_close(g, m->b.push.link, m->h.seq, false);
		tw_shard_note_drop(s, ctx, slot, &m->b.push);
		tw_shard_answer(s, ctx, slot, m->b.push.number, TW_FLAG_DROPPED);
		return true;
	}
	if (g->staged && g->staged->incarnation == m->h.incarnation) { /* promised already */
		park_for_round(s, ctx, slot, m);
		tw_shard_have(s, ctx, g->staged, 0);
		return true;
	}
	return false;
}

enum tw_status tw_round_take(struct shard *s, struct tw_context *ctx, struct contribution *c,
			     const struct tw_msg *m)
{
	struct shard_worker *g = tw_shard_worker(s, c->slot);
	enum tw_status st;

	park_for_round(s, ctx, c->slot, m);
	st = tw_shard_stage(s, ctx, c);
	if (st != TW_OK)
		return st;
	tw_shard_forget_sent(s, g, c->push.base.n);
	tw_shard_push_counted(s, c, m);
	return TW_OK;
}

void tw_round_reject(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	const struct contribution c = tw_shard_push_said(slot, m);

	s->slice.tally.refused++;
	reject_for_round(s, ctx, &c);
	park_for_round(s, ctx, slot, m);
}

/* --- after a connection was made anew ----------------------------------------------------- */

void tw_shard_tell_again(struct shard *s, struct tw_context *ctx)
{
	tw_verdict_tell_again(s, ctx);
	for (uint32_t k = 0; k < s->members.senders; k++) {
		const struct shard_worker *g = tw_shard_worker(s, k);

		if (g->staged && !tw_shard_is_replica(s))
			tw_shard_have(s, ctx, g->staged, 0);
		else if (g->refused && tw_shard_worker_is_bad(g) &&
			 g->refused->push.round == s->slice.round)
			tw_shard_have(s, ctx, g->refused, TW_FLAG_REFUSED);
	}
}

void tw_shard_unstage_all(struct shard *s)
{
	for (uint32_t k = 0; k < s->round.staged_count; k++) {
		struct shard_worker *g = tw_shard_worker(s, s->round.staged[k]);

		tw_bucket_give_back(s, g->staged);
		g->staged = NULL;
	}
	s->round.staged_count = 0;
}

void tw_shard_forget_rounds(struct shard *s)
{
	if (s->round.staged)
		tw_shard_unstage_all(s);
	s->heap->put(s->heap, s->round.staged);
	tw_block_drop(s->round.last_set);
	s->round = (struct shard_round){ .staged = NULL };
}

/* --- commit --------------------------------------------------------------------------------- */

/* Lanes of this worker whose slices for the round are here, if all of them are; 0: they are not. */
static uint32_t staged_of(const struct shard *s, const struct tw_member *who)
{
	const struct contribution *c = tw_shard_worker(s, who->slot * s->members.lanes)->staged;
	struct tw_body_have all;

	if (!c || c->push.round != s->slice.round || c->incarnation != who->incarnation ||
	    !is_whole(s, c, &all))
		return 0;
	return c->push.lanes ? c->push.lanes : 1;
}

/* A set names workers whose slice for this round is here, each once: how many slices these are;
 * UINT32_MAX: something is missing. */
static uint32_t all_staged(const struct shard *s, const struct tw_member *set, uint32_t count)
{
	uint32_t slices = 0;

	for (uint32_t k = 0; k < count; k++) {
		const bool fits = !(k && set[k].slot <= set[k - 1].slot);
		const uint32_t lanes = fits ? staged_of(s, &set[k]) : 0;

		if (!lanes)
			return UINT32_MAX;
		slices += lanes;
	}
	return slices;
}

struct contribution *tw_shard_unstaged(struct shard *s, uint32_t slot, bool applied)
{
	struct shard_worker *g = tw_shard_worker(s, slot);
	struct contribution *c = g->staged;

	g->staged = NULL;
	if (c && c->incarnation == g->incarnation)
		tw_shard_worker_close(g, c->push.link, c->seq, applied);
	if (c && applied) /* (2) */
		tw_shard_owes(s, g, c);
	return c;
}

static void apply_set(struct shard *s, struct tw_context *ctx, const struct tw_member *set,
		      uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t lanes = staged_of(s, &set[k]),
			       first = set[k].slot * s->members.lanes;

		for (uint32_t l = 0; l < lanes; l++) { /* (3) */
			struct contribution *c = tw_shard_unstaged(s, first + l, true);

			c->tau = tw_shard_staleness(s, &c->push);
			tw_bucket_add(s, c);
		}
	}
	tw_bucket_flush(s, ctx);
}

static int by_slot(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Staged, but not in the set: too late. */
static void drop_late(struct shard *s, struct tw_context *ctx)
{
	uint32_t *late = s->round.staged, count = 0;

	for (uint32_t k = 0; k < s->round.staged_count; k++)
		if (tw_shard_worker(s, s->round.staged[k])->staged)
			late[count++] = s->round.staged[k];
	s->round.staged_count = 0;
	qsort(late, count, sizeof *late, by_slot);
	for (uint32_t k = 0; k < count; k++) {
		struct contribution *c = tw_shard_unstaged(s, late[k], false);

		tw_shard_note_drop(s, ctx, late[k], &c->push);
		tw_bucket_give_back(s, c);
	}
}

void tw_shard_round_over(struct shard *s, struct tw_context *ctx, uint32_t count)
{
	s->slice.round++;
	if (!s->slice.quiet)
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_COMMIT,
						.shard = s->index,
						.round = s->slice.round - 1,
						.version = s->slice.version.n,
						.commit.contributions = count });
	tw_duties_updated(&s->duties, ctx);
	drop_late(s, ctx);
	s->queue.due = true;
	tw_shard_release(s, ctx);
}

static void commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t count = m->b.commit.count;
	const struct tw_member *set = m->tail ? (const void *)m->tail->data : NULL;
	uint32_t slices;

	if (m->b.commit.round != s->slice.round)
		return;
	slices = all_staged(s, set, count);
	if (slices == UINT32_MAX) {
		s->slice.tally.refused++;
		tw_say(ctx, TW_ERROR,
		       "shard %u cannot commit round %llu: a contribution is missing", s->index,
		       (unsigned long long)s->slice.round);
		return;
	}
	if (tw_bucket_reserve(s, slices) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a round of %u", count);
		return;
	}
	apply_set(s, ctx, set, count);
	tw_block_drop(s->round.last_set);
	s->round.last_set = tw_block_keep(m->tail);
	s->round.last_count = count;
	tw_shard_round_over(s, ctx, count);
}

static enum tw_status tell_staged(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	tw_shard_have(s, ctx, c, 0);
	return TW_OK;
}

const struct tw_taker tw_taker_round = {
	.name = "round",
	.push = tw_shard_push_contribution,
	.commit = commit,
	.acknowledges = true,
	.fenced = tw_shard_push_refuse,
	.is_late = tw_round_is_late_push,
	.take = tw_round_take,
	.reject = tw_round_reject,
	.staged = tell_staged,
};
