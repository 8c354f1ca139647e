/* SPDX-License-Identifier: Apache-2.0 */
/* shard_spread.c - what replicas that differ tell each other outside rounds.
 *
 * A contribution is applied by the replica of its own worker as by a server, and then goes to all
 * other replicas (SPREAD): with its vector where the mixing spreads, else without it, so that they
 * count it.  Where the mixing has partners, two replicas take the mean of their parameters (MIX).
 * The invariants of the state are at struct shard_spread.
 *
 *  (1) a replica takes the contributions of another one in order, each once.  What is not confirmed
 *      is sent again when the connection is made anew, and when the other asks for it; what leaves
 *      a gap is left alone until then.
 *  (2) what is confirmed travels with contributions the other way, and is told at least after every
 *      CONFIRM of them.
 *  (3) a worker gets no answer while LOG_MOST of its contributions are not confirmed by somebody.
 *  (4) who asks for a mean says which parameters it has.  Who answers moves by half of the way, and
 *      says what it had; who asked moves by as much in the other direction, from wherever it is by
 *      then.  So the sum of both stays what it was, and nobody waits for an answer.
 *  (5) an answer is kept until the next exchange with the same replica, and sent again.
 *  (6) parameters that no replica can have, or that are not finite any more, move nobody; the
 *      exchange ends all the same.
 *  (7) a worker that leaves gets its last answer when all others have confirmed its contributions
 *      and its exchange has ended.  So a clean leave loses nothing. */
#include "node/shard/shard.h"
#include "base/grow.h"
#include "vec/vec.h"

#include <string.h>

#define CONFIRM  8
#define LOG_MOST 32

static struct spread_entry *entry(const struct shard_spread *p, uint32_t k)
{
	return &p->log[(p->head + k) % p->room];
}

static const struct tw_member *members(const struct shard_spread *p)
{
	return p->member ? (const void *)p->member->data : NULL;
}

static const struct tw_mixing *mixing(const struct shard *s)
{
	return s->plan->topology.mixing;
}

/* --- memory --------------------------------------------------------------------------------- */

static void drop_log(struct shard_spread *p)
{
	for (uint32_t k = 0; k < p->count; k++)
		tw_block_drop(entry(p, k)->payload);
	p->count = p->head = 0;
}

static void close_exchange(struct shard_spread *p)
{
	tw_block_drop(p->open.asked);
	p->open.asked = NULL;
}

void tw_spread_forget(struct shard *s)
{
	struct shard_spread *p = &s->spread;

	drop_log(p);
	close_exchange(p);
	for (uint32_t k = 0; p->peer && k < s->plan->crew.workers; k++)
		tw_block_drop(p->peer[k].answer);
	s->heap->put(s->heap, p->peer);
	s->heap->put(s->heap, p->log);
	tw_block_drop(p->member);
	*p = (struct shard_spread){ .attempt = p->attempt };
}

/* The memory that it needs from the first contribution or formation of a generation on. */
static bool furnished(struct shard *s, struct tw_context *ctx)
{
	struct shard_spread *p = &s->spread;

	if (p->peer)
		return true;
	p->peer = tw_heap_zeros(s->heap, s->plan->crew.workers * sizeof *p->peer);
	p->first = 1;
	if (!p->peer)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the other replicas of shard %u",
			   s->index);
	return p->peer;
}

/* --- words ---------------------------------------------------------------------------------- */

static struct tw_msg *message(struct shard *s, struct tw_context *ctx, const struct tw_member *to,
			      enum tw_type type)
{
	const struct shard_spread *p = &s->spread;
	const struct tw_addr whom = { to->node, TW_SHARD, (uint16_t)s->index };
	struct tw_msg *m = tw_msg_to(ctx, whom, type);

	if (!m)
		return NULL;
	m->h.view = s->fence.generation;
	m->h.shard = s->index;
	m->h.from = members(p)[p->rank].slot;
	m->h.incarnation = members(p)[p->rank].incarnation;
	return m;
}

/* The most that others may have left unconfirmed when its worker is answered: (3), (7). */
static uint32_t most(const struct shard_spread *p)
{
	return p->leaving ? 0 : LOG_MOST - 1;
}

static uint16_t leaves(const struct shard_spread *p)
{
	return p->leaving ? TW_FLAG_LEAVE : 0;
}

/* TW_FLAG_LEAVE: and asks for the same in return (7). */
static void confirm(struct shard *s, struct tw_context *ctx, const struct tw_member *to, bool again,
		    uint16_t flags)
{
	struct spread_peer *o = &s->spread.peer[to->slot];
	struct tw_msg *m = message(s, ctx, to, TW_HEARD);

	if (!m)
		return;
	m->h.flags = flags;
	m->b.heard = (struct tw_body_heard){ .number = o->heard, .again = again };
	o->unsaid = 0;
	tw_send(ctx, m);
}

static void send_entry(struct shard *s, struct tw_context *ctx, const struct tw_member *to,
		       const struct spread_entry *e)
{
	struct spread_peer *o = &s->spread.peer[to->slot];
	struct tw_msg *m = message(s, ctx, to, TW_SPREAD);

	if (!m)
		return;
	m->h.seq = e->seq;
	m->h.flags = e->flags;
	m->b.push = e->body;
	m->b.push.number = o->heard; /* (2) */
	o->unsaid = 0;
	if (e->payload) {
		m->payload = tw_block_keep(e->payload);
		m->payload_at = e->at;
		m->h.payload = e->bytes;
	}
	tw_send(ctx, m);
}

static void ask(struct shard *s, struct tw_context *ctx)
{
	const struct shard_spread *p = &s->spread;
	const uint32_t place = p->peer[p->open.partner].place;
	struct tw_msg *m = place ? message(s, ctx, &members(p)[place - 1], TW_MIX) : NULL;

	if (!m)
		return;
	m->b.mix.number = p->open.number;
	m->payload = tw_block_keep(p->open.asked);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}

static void answer(struct shard *s, struct tw_context *ctx, const struct tw_member *to)
{
	const struct spread_peer *o = &s->spread.peer[to->slot];
	struct tw_msg *m = message(s, ctx, to, TW_MIX);

	if (!m)
		return;
	m->b.mix = (struct tw_body_mix){ .number = o->answered, .answer = 1 };
	m->payload = tw_block_keep(o->answer);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}

/* --- settled -------------------------------------------------------------------------------- */

void tw_spread_tell(struct shard *s, struct tw_context *ctx)
{
	const struct shard_spread *p = &s->spread;
	struct tw_msg *m;

	if (!p->settled)
		return;
	m = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!m)
		return;
	m->b.have = (struct tw_body_have){ .slot = members(p)[p->rank].slot,
					   .incarnation = members(p)[p->rank].incarnation,
					   .attempt = p->attempt };
	tw_send(ctx, m);
}

static void check_settled(struct shard *s, struct tw_context *ctx)
{
	struct shard_spread *p = &s->spread;

	if (!p->settling || p->settled || p->count || p->open.asked)
		return;
	p->settled = true;
	tw_spread_tell(s, ctx);
}

/* --- what the others have ------------------------------------------------------------------- */

/* (7) A worker that leaves may have waited for the end of an exchange. */
static void let_go(struct shard *s, struct tw_context *ctx)
{
	if (!s->spread.leaving)
		return;
	s->queue.due = true;
	tw_shard_release(s, ctx);
}

/* What all have is not kept any longer. */
static void prune(struct shard *s, struct tw_context *ctx)
{
	struct shard_spread *p = &s->spread;
	const bool was_full = p->count > most(p);

	while (p->count && !entry(p, 0)->left) {
		tw_block_drop(entry(p, 0)->payload);
		p->head = (uint32_t)((p->head + 1) % p->room);
		p->count--;
		p->first++;
	}
	if (was_full && p->count <= most(p)) {
		s->queue.due = true;
		tw_shard_release(s, ctx);
	}
	check_settled(s, ctx);
}

/* This replica has our contributions up to `number`. */
static void confirmed(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number)
{
	struct shard_spread *p = &s->spread;
	struct spread_peer *o = &p->peer[slot];

	if (number >= p->first + p->count) /* it cannot have more than there is */
		number = p->first + p->count - 1;
	for (; o->confirmed < number; o->confirmed++)
		if (o->confirmed + 1 >= p->first)
			entry(p, (uint32_t)(o->confirmed + 1 - p->first))->left--;
	prune(s, ctx);
}

static void send_log(struct shard *s, struct tw_context *ctx, const struct tw_member *to)
{
	const struct shard_spread *p = &s->spread;
	const uint64_t has = p->peer[to->slot].confirmed;

	for (uint32_t k = 0; k < p->count; k++)
		if (p->first + k > has)
			send_entry(s, ctx, to, entry(p, k));
}

/* Who sent this?  NULL: it is none of the replicas that act together. */
static const struct tw_member *sender(const struct shard *s, const struct tw_msg *m)
{
	const struct shard_spread *p = &s->spread;
	const struct tw_member *who;

	if (m->h.from >= s->plan->crew.workers || !p->peer[m->h.from].place)
		return NULL;
	who = &members(p)[p->peer[m->h.from].place - 1];
	return who != &members(p)[p->rank] && who->node == m->from.node &&
			       who->incarnation == m->h.incarnation
		       ? who
		       : NULL;
}

void tw_spread_heard(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *who = sender(s, m);

	if (!who)
		return;
	confirmed(s, ctx, who->slot, m->b.heard.number);
	if (m->h.flags & TW_FLAG_LEAVE)
		confirm(s, ctx, who, false, 0); /* (7) */
	if (!m->b.heard.again)
		return;
	send_log(s, ctx, who);
	if (s->spread.open.asked && s->spread.open.partner == who->slot)
		ask(s, ctx); /* it may have come before its formation */
}

/* --- contributions -------------------------------------------------------------------------- */

static void begin_exchange(struct shard *s, struct tw_context *ctx)
{
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_PARTNER);
	struct shard_spread *p = &s->spread;
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
	p->open.partner = members(p)[partner].slot;
	ask(s, ctx);
}

/* Room for one more at the end of the ring. */
static bool make_room(struct shard *s)
{
	struct shard_spread *p = &s->spread;
	const size_t before = p->room;

	if (p->count < p->room)
		return true;
	if (!TW_GROW(s->heap, p->log, p->room, p->count, (size_t)p->count + 1))
		return false;
	/* what was behind the end of the old ring */
	for (uint32_t k = 0; k < p->head; k++)
		p->log[(before + k) % p->room] = p->log[k];
	return true;
}

static void tell_others(struct shard *s, struct tw_context *ctx, const struct tw_msg *m,
			bool refused)
{
	struct shard_spread *p = &s->spread;
	struct spread_entry *e;

	if (!furnished(s, ctx))
		return;
	if (!make_room(s)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for what others have not confirmed");
		return;
	}
	e = entry(p, p->count);
	*e = (struct spread_entry){ .body = m->b.push,
				    .seq = m->h.seq,
				    .flags = refused ? TW_FLAG_REFUSED : m->h.flags & TW_FLAG_PLAIN,
				    .left = p->member ? p->peers - 1 : s->plan->crew.workers };
	e->body.link = p->first + p->count;
	if (!tw_plan_spreads(s->plan))
		e->body.base.n = p->read;
	if (!refused && tw_plan_spreads(s->plan)) {
		e->payload = tw_block_keep(m->payload);
		e->at = m->payload_at;
		e->bytes = m->h.payload;
	}
	if (++p->count == LOG_MOST)
		p->since = tw_now(ctx);
	for (uint32_t k = 0; k < p->peers; k++)
		if (k != p->rank)
			send_entry(s, ctx, &members(p)[k], e);
	prune(s, ctx); /* it may be alone */
	begin_exchange(s, ctx);
}

enum tw_status tw_spread_take_own(struct shard *s, struct tw_context *ctx, struct contribution *c,
				  const struct tw_msg *m)
{
	const uint32_t slot = c->slot;

	tw_shard_push_take(s, ctx, c, m);
	tell_others(s, ctx, m, false);
	tw_shard_push_reply(s, ctx, slot, m);
	return TW_OK;
}

void tw_spread_reject_own(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_msg *m)
{
	tw_shard_push_reject(s, ctx, slot, m);
	tell_others(s, ctx, m, true);
}

/* Of another worker's contribution: replicas count the same ones, nearly. */
static uint64_t staleness(const struct shard *s, const struct tw_body_push *p)
{
	if (!tw_plan_spreads(s->plan))
		return s->slice.history.contributions > p->base.n
			       ? s->slice.history.contributions - p->base.n
			       : 0;
	return s->slice.version.n > p->base.n ? tw_shard_staleness(s, p) : 0;
}

/* The update of another worker, as it came; false: its bytes are not what they should be. */
static bool apply(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct contribution *c = tw_bucket_take(s);
	enum tw_status st = c ? TW_OK : TW_NO_MEMORY;

	if (c) {
		*c = (struct contribution){ .slot = m->h.from,
					    .incarnation = m->h.incarnation,
					    .seq = m->h.seq,
					    .push = m->b.push };
		c->tau = staleness(s, &c->push);
		if (tw_plan_spreads(s->plan))
			st = tw_shard_unpack(s, m, c);
	}
	if (st == TW_OK)
		st = tw_bucket_reserve(s, 1);
	if (st != TW_OK) {
		tw_bucket_give_back(s, c);
		if (st == TW_NO_MEMORY)
			tw_give_up(ctx, st, "no memory for a contribution");
		return false;
	}
	if (tw_plan_spreads(s->plan)) /* else there are none */
		tw_shard_count_bytes(s, m, c->values);
	s->spread.peer[m->h.from].residual = c->push.account.residual;
	s->slice.quiet = true; /* the replica of its own worker tells of it */
	tw_bucket_add(s, c);
	tw_bucket_flush(s, ctx);
	s->slice.quiet = false;
	return true;
}

void tw_spread_take(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *who = sender(s, m);
	const uint64_t number = m->b.push.link;
	struct spread_peer *o;

	if (!who)
		return;
	o = &s->spread.peer[who->slot];
	confirmed(s, ctx, who->slot, m->b.push.number); /* (2) */
	if (number > o->heard + 1)
		return; /* (1) */
	if (number == o->heard + 1) {
		o->heard = number;
		if ((m->h.flags & TW_FLAG_REFUSED) || !tw_shard_plausible(s, &m->b.push) ||
		    !apply(s, ctx, m))
			s->slice.tally.refused++;
		o->unsaid++;
	}
	if (number < o->heard || o->unsaid >= CONFIRM || s->spread.settling)
		confirm(s, ctx, who, false, 0);
}

/* --- exchanges of parameters ------------------------------------------------------------------ */

/* Half of the way to where the other is. */
static bool approach(struct shard *s, struct tw_context *ctx, const float *here, const float *there)
{
	if (tw_slice_approach(&s->slice, here, there) == TW_OK)
		return true;
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for the parameters of shard %u", s->index);
	return false;
}

void tw_spread_mix(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *who = sender(s, m);
	const struct tw_body_mix *b = &m->b.mix;
	struct shard_spread *p = &s->spread;
	struct spread_peer *o = who ? &p->peer[who->slot] : NULL;
	const float *theirs = m->payload ? (const float *)tw_msg_payload(m) : NULL;

	if (!who || !mixing(s)->partner)
		return;
	if (m->h.payload != s->slice.n * sizeof(float) || !tw_vec_finite(theirs, s->slice.n)) {
		s->slice.tally.refused++;
		theirs = NULL; /* (6) */
	}
	if (b->answer) {
		if (!p->open.asked || b->number != p->open.number || who->slot != p->open.partner)
			return; /* it was answered already */
		if (theirs)
			approach(s, ctx, tw_block_floats(p->open.asked), theirs);
		close_exchange(p);
		let_go(s, ctx);
		check_settled(s, ctx);
		return;
	}
	if (b->number > o->answered) { /* else (5) */
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

/* --- formations ------------------------------------------------------------------------------- */

/* Those who are not in the list any more confirm nothing, and what they owed is lost. */
static void without_the_dead(struct shard *s, const struct shard_spread *before)
{
	struct shard_spread *p = &s->spread;

	for (uint32_t k = 0; k < p->count; k++)
		entry(p, k)->left = p->peers - 1;
	for (uint32_t k = 0; k < p->peers; k++)
		for (uint64_t n = p->first;
		     k != p->rank && n <= p->peer[members(p)[k].slot].confirmed; n++)
			entry(p, (uint32_t)(n - p->first))->left--;
	for (uint32_t k = 0; k < before->peers; k++) {
		const uint32_t slot = members(before)[k].slot;

		if (!p->peer[slot].place)
			tw_shard_lose(s, 0.0f, p->peer[slot].residual);
	}
	if (p->open.asked && !p->peer[p->open.partner].place)
		close_exchange(p);
}

void tw_spread_form(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct shard_spread before = s->spread;
	const struct tw_member *list = (const void *)m->tail->data;
	const uint32_t peers = (uint32_t)(m->h.tail / sizeof *list);
	struct shard_spread *p = &s->spread;
	uint32_t rank = 0;

	if (m->b.form.attempt <= p->attempt)
		return;
	while (rank < peers && list[rank].node != ctx->self.node)
		rank++;
	if (rank == peers || !furnished(s, ctx))
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
			confirm(s, ctx, &members(p)[k], s->early.lost, leaves(p));
	for (uint32_t k = 0; k < peers && !before.member; k++)
		if (k != rank)
			send_log(s, ctx, &members(p)[k]);
	prune(s, ctx);
	let_go(s, ctx);
	check_settled(s, ctx);
}

void tw_spread_again(struct shard *s, struct tw_context *ctx, uint32_t node)
{
	struct shard_spread *p = &s->spread;

	for (uint32_t k = 0; k < p->peers; k++) {
		if (k == p->rank || members(p)[k].node != node)
			continue;
		confirm(s, ctx, &members(p)[k], true, leaves(p));
		send_log(s, ctx, &members(p)[k]);
		if (p->open.asked && p->open.partner == members(p)[k].slot)
			ask(s, ctx);
	}
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Who has not confirmed the oldest entry; peers: nobody. */
static uint32_t slowest(const struct shard_spread *p)
{
	for (uint32_t k = 0; k < p->peers && p->count; k++)
		if (k != p->rank && p->peer[members(p)[k].slot].confirmed < p->first)
			return k;
	return p->peers;
}

bool tw_spread_full(const struct shard *s, uint32_t *whom)
{
	const struct shard_spread *p = &s->spread;
	uint32_t k;

	if (p->count <= most(p) && !(p->leaving && p->open.asked))
		return false;
	k = slowest(p);
	if (k < p->peers)
		*whom = members(p)[k].slot;
	else
		*whom = p->open.asked ? p->open.partner : UINT32_MAX;
	return true;
}

void tw_spread_leaves(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	struct shard_spread *p = &s->spread;

	if (!p->member || p->leaving || slot != members(p)[p->rank].slot)
		return;
	p->leaving = true;
	p->since = tw_now(ctx);
	for (uint32_t k = 0; k < p->peers && p->count; k++)
		if (k != p->rank)
			confirm(s, ctx, &members(p)[k], false, leaves(p));
}

bool tw_spread_waits(const struct shard *s, struct tw_wait *out)
{
	const struct shard_spread *p = &s->spread;
	uint32_t k = slowest(p);

	if (!p->member || !(p->settling || p->leaving || p->count > most(p)) || p->settled)
		return false;
	if (k == p->peers && p->open.asked)
		k = p->peer[p->open.partner].place - 1;
	if (k == p->peers)
		return false;
	*out = (struct tw_wait){ .whom = { members(p)[k].node, TW_WORKER, 0 },
				 .slot = members(p)[k].slot,
				 .since = p->since,
				 .why = p->count ? "its word that it has a contribution"
						 : "its parameters",
				 .step = p->first };
	return true;
}
