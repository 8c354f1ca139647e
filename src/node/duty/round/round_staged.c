/* SPDX-License-Identifier: Apache-2.0 */
/* round_staged.c - what is staged for the round at a shard, and what the master is told of it.  The
 * numbers in brackets are those of README.md.
 *
 * round->list has the slots whose worker has something staged, each once.  So a commit costs what
 * the round has, not what the cluster has. */
#include "node/duty/round/round_books.h"
#include "vec/vec.h"

enum tw_status tw_round_books_open(struct shard *s)
{
	const size_t all = s->members.senders ? s->members.senders : 1;
	struct round_shard *r = s->round;

	r->staged = tw_heap_zeros(s->heap, all * sizeof *r->staged);
	r->refused = tw_heap_zeros(s->heap, all * sizeof *r->refused);
	r->list = tw_heap_zeros(s->heap, all * sizeof *r->list);
	return r->staged && r->refused && r->list ? TW_OK : TW_NO_MEMORY;
}

void tw_round_books_forget(struct shard *s)
{
	struct round_shard *r = s->round;

	for (uint32_t k = 0; k < r->count; k++) {
		tw_bucket_give_back(s, r->staged[r->list[k]]);
		r->staged[r->list[k]] = NULL;
	}
	r->count = 0;
	for (uint32_t k = 0; r->refused && k < s->members.senders; k++)
		tw_round_forget_refused(s, k);
}

void tw_round_books_close(struct shard *s)
{
	struct round_shard *r = s->round;

	tw_round_books_forget(s);
	s->heap->put(s->heap, r->staged);
	s->heap->put(s->heap, r->refused);
	s->heap->put(s->heap, r->list);
	*r = (struct round_shard){ .count = 0 };
}

void tw_round_forget_refused(struct shard *s, uint32_t slot)
{
	tw_bucket_give_back(s, s->round->refused[slot]);
	s->round->refused[slot] = NULL;
}

const struct contribution *tw_round_staged(const struct shard *s, uint32_t slot)
{
	return s->round->staged[slot];
}

/* --- staging -------------------------------------------------------------------------------- */

/* What lane `l` of a worker has staged, if it is of the same round and life as this; else NULL. */
static const struct contribution *beside(const struct shard *s, const struct contribution *c,
					 uint32_t l)
{
	const uint32_t first = c->slot - c->slot % s->members.lanes;
	const struct contribution *other = s->round->staged[first + l];

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

static void tell(const struct shard *s, struct tw_context *ctx, const struct contribution *c,
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

enum tw_status tw_round_tell(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	tell(s, ctx, c, 0);
	return TW_OK;
}

static struct contribution *take_back(const struct shard *s, uint32_t slot)
{
	struct contribution *c = s->round->staged[slot];
	uint32_t k = s->round->count;

	if (!c)
		return NULL;
	while (k && s->round->list[k - 1] != slot)
		k--;
	HOLDS(17, k); /* it is in the list */
	s->round->list[k - 1] = s->round->list[--s->round->count];
	s->round->staged[slot] = NULL;
	return c;
}

enum tw_status tw_round_check_staged(const struct shard *s, struct contribution *c)
{
	if (c->unchecked && !tw_vec_finite(c->g, s->slice.all))
		return TW_BAD_BYTES;
	c->unchecked = false;
	return TW_OK;
}

static enum tw_status stage(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct contribution **at = &s->round->staged[c->slot];
	enum tw_status st = TW_OK;

	/* what was promised for who was here before gives way only to what is good */
	if (*at && (st = tw_round_check_staged(s, c)) != TW_OK)
		return st;
	if (!*at)
		s->round->list[s->round->count++] = c->slot;
	tw_bucket_give_back(s, *at);
	*at = c;
	st = s->taker->staged(s, ctx, c);
	if (st == TW_BAD_BYTES)
		take_back(s, c->slot);
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
	struct contribution **at = &s->round->refused[c->slot];
	struct shard_worker *g = tw_shard_worker(s, c->slot);

	if (!*at)
		*at = tw_bucket_take(s);
	if (!*at) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
		return;
	}
	**at = (struct contribution){
		.slot = c->slot, .incarnation = g->incarnation, .seq = c->seq, .push = c->push
	};
	tw_shard_worker_close(g, c->push.link, c->seq, false);
	tw_shard_push_note_refused(s, ctx, c);
	tell(s, ctx, *at, TW_FLAG_REFUSED);
}

void tw_round_refuse_staged(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	struct contribution *c = take_back(s, slot);

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
	const struct contribution *staged = s->round->staged[slot];
	struct shard_worker *g = tw_shard_worker(s, slot);

	if (m->b.push.round < s->slice.round) {
		tw_shard_worker_close(g, m->b.push.link, m->h.seq, false);
		tw_shard_note_drop(s, ctx, slot, &m->b.push);
		tw_shard_answer(s, ctx, slot, m->b.push.number, TW_FLAG_DROPPED);
		return true;
	}
	if (staged && staged->incarnation == m->h.incarnation) { /* promised already */
		park_for_round(s, ctx, slot, m);
		tell(s, ctx, staged, 0);
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
	st = stage(s, ctx, c);
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

/* --- told again ------------------------------------------------------------------------------ */

void tw_round_tell_again(struct shard *s, struct tw_context *ctx)
{
	const struct round_shard *r = s->round;

	for (uint32_t k = 0; k < s->members.senders; k++) {
		const struct contribution *refused = r->refused[k];

		if (r->staged[k] && !tw_shard_is_replica(s))
			tell(s, ctx, r->staged[k], 0);
		else if (refused && tw_shard_worker_is_bad(tw_shard_worker(s, k)) &&
			 refused->push.round == s->slice.round)
			tell(s, ctx, refused, TW_FLAG_REFUSED);
	}
}

/* --- taken from there ------------------------------------------------------------------------ */

uint32_t tw_round_staged_of(const struct shard *s, const struct tw_member *who)
{
	const struct contribution *c = s->round->staged[who->slot * s->members.lanes];
	struct tw_body_have all;

	if (!c || c->push.round != s->slice.round || c->incarnation != who->incarnation ||
	    !is_whole(s, c, &all))
		return 0;
	return c->push.lanes ? c->push.lanes : 1;
}

struct contribution *tw_round_unstaged(struct shard *s, uint32_t slot, bool applied)
{
	struct shard_worker *g = tw_shard_worker(s, slot);
	struct contribution *c = s->round->staged[slot];

	s->round->staged[slot] = NULL;
	if (c && c->incarnation == g->incarnation)
		tw_shard_worker_close(g, c->push.link, c->seq, applied);
	if (c && applied) /* (4) */
		tw_shard_owes(s, g, c);
	return c;
}
