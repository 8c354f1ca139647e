/* SPDX-License-Identifier: Apache-2.0 */
/* mix_spread.c - contributions of this node's worker, which all other replicas hear of, and theirs.
 * Numbers in brackets are those of README.md. */
#include "node/duty/mix/mix.h"
#include "node/duty/mix/mix_state.h"
#include "base/grow.h"

#define CONFIRM 8

/* --- memory --------------------------------------------------------------------------------- */

void tw_mix_drop_log(struct mix_shard *p)
{
	for (uint32_t k = 0; k < p->count; k++)
		tw_block_drop(tw_mix_entry(p, k)->payload);
	p->count = p->head = 0;
}

bool tw_mix_furnished(struct shard *s, struct tw_context *ctx)
{
	struct mix_shard *p = s->mix;

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

struct tw_msg *tw_mix_message(struct shard *s, struct tw_context *ctx, const struct tw_member *to,
			      enum tw_type type)
{
	const struct mix_shard *p = s->mix;
	const struct tw_addr whom = { to->node, TW_SHARD, (uint16_t)s->index };
	struct tw_msg *m = tw_msg_to(ctx, whom, type);

	if (!m)
		return NULL;
	m->h.view = s->fence.generation;
	m->h.shard = s->index;
	m->h.from = tw_mix_members(p)[p->rank].slot;
	m->h.incarnation = tw_mix_members(p)[p->rank].incarnation;
	return m;
}

void tw_mix_confirm(struct shard *s, struct tw_context *ctx, const struct tw_member *to, bool again,
		    bool leaving)
{
	struct mix_peer *o = &s->mix->peer[to->slot];
	struct tw_msg *m = tw_mix_message(s, ctx, to, TW_HEARD);

	if (!m)
		return;
	m->h.flags = leaving ? TW_FLAG_LEAVE : 0;
	m->b.heard = (struct tw_body_heard){ .number = o->heard, .again = again };
	o->unsaid = 0;
	tw_send(ctx, m);
}

static void send_entry(struct shard *s, struct tw_context *ctx, const struct tw_member *to,
		       const struct mix_entry *e)
{
	struct mix_peer *o = &s->mix->peer[to->slot];
	struct tw_msg *m = tw_mix_message(s, ctx, to, TW_SPREAD);

	if (!m)
		return;
	m->h.seq = e->seq;
	m->h.flags = e->flags;
	m->b.push = e->body;
	m->b.push.number = o->heard; /* (6) */
	o->unsaid = 0;
	if (e->payload) {
		m->payload = tw_block_keep(e->payload);
		m->payload_at = e->at;
		m->h.payload = e->bytes;
	}
	tw_send(ctx, m);
}

/* --- settled -------------------------------------------------------------------------------- */

void tw_mix_tell_settled(const struct shard *s, struct tw_context *ctx)
{
	const struct mix_shard *p = s->mix;
	struct tw_msg *m;

	if (!p->settled)
		return;
	m = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!m)
		return;
	m->b.have = (struct tw_body_have){ .slot = tw_mix_members(p)[p->rank].slot,
					   .incarnation = tw_mix_members(p)[p->rank].incarnation,
					   .attempt = p->attempt };
	tw_send(ctx, m);
}

void tw_mix_check_settled(struct shard *s, struct tw_context *ctx)
{
	struct mix_shard *p = s->mix;

	if (!p->settling || p->settled || p->count || p->open.asked)
		return;
	p->settled = true;
	tw_mix_tell_settled(s, ctx);
}

/* --- what the others have ------------------------------------------------------------------- */

void tw_mix_let_leave(struct shard *s, struct tw_context *ctx)
{
	if (!s->mix->leaving)
		return;
	s->queue.due = true;
	tw_shard_release(s, ctx);
}

void tw_mix_prune(struct shard *s, struct tw_context *ctx)
{
	struct mix_shard *p = s->mix;
	const bool was_full = p->count > tw_mix_most(p);

	while (p->count && !tw_mix_entry(p, 0)->left) {
		tw_block_drop(tw_mix_entry(p, 0)->payload);
		p->head = (uint32_t)((p->head + 1) % p->room);
		p->count--;
		p->first++;
	}
	if (was_full && p->count <= tw_mix_most(p)) {
		s->queue.due = true;
		tw_shard_release(s, ctx);
	}
	tw_mix_check_settled(s, ctx);
}

void tw_mix_confirmed(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number)
{
	struct mix_shard *p = s->mix;
	struct mix_peer *o = &p->peer[slot];

	if (number >= p->first + p->count) /* it cannot have more than there is */
		number = p->first + p->count - 1;
	for (; o->confirmed < number; o->confirmed++)
		if (o->confirmed + 1 >= p->first)
			tw_mix_entry(p, (uint32_t)(o->confirmed + 1 - p->first))->left--;
	tw_mix_prune(s, ctx);
}

void tw_mix_send_log(struct shard *s, struct tw_context *ctx, const struct tw_member *to)
{
	const struct mix_shard *p = s->mix;
	const uint64_t has = p->peer[to->slot].confirmed;

	for (uint32_t k = 0; k < p->count; k++)
		if (p->first + k > has)
			send_entry(s, ctx, to, tw_mix_entry(p, k));
}

const struct tw_member *tw_mix_sender(const struct shard *s, const struct tw_msg *m)
{
	const struct mix_shard *p = s->mix;
	const struct tw_member *who;

	if (m->h.from >= s->plan->crew.workers || !p->peer[m->h.from].place)
		return NULL;
	who = &tw_mix_members(p)[p->peer[m->h.from].place - 1];
	return who != &tw_mix_members(p)[p->rank] && who->node == m->from.node &&
			       who->incarnation == m->h.incarnation
		       ? who
		       : NULL;
}

/* --- contributions -------------------------------------------------------------------------- */

/* Room for one more at the end of the ring. */
static bool make_room(struct shard *s)
{
	struct mix_shard *p = s->mix;
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

void tw_mix_tell_others(struct shard *s, struct tw_context *ctx, const struct tw_msg *m,
			bool refused)
{
	struct mix_shard *p = s->mix;
	struct mix_entry *e;

	if (!tw_mix_furnished(s, ctx))
		return;
	if (!make_room(s)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for what others have not confirmed");
		return;
	}
	e = tw_mix_entry(p, p->count);
	*e = (struct mix_entry){ .body = m->b.push,
				 .seq = m->h.seq,
				 .flags = refused ? TW_FLAG_REFUSED : m->h.flags & TW_FLAG_PLAIN,
				 .left = p->member ? p->peers - 1 : s->plan->crew.workers };
	e->body.link = p->first + p->count;
	if (!tw_plan_spreads(s->plan))
		e->body.base.n = s->readers.counted;
	if (!refused && tw_plan_spreads(s->plan)) {
		e->payload = tw_block_keep(m->payload);
		e->at = m->payload_at;
		e->bytes = m->h.payload;
	}
	if (++p->count == LOG_MOST)
		p->since = tw_now(ctx);
	for (uint32_t k = 0; k < p->peers; k++)
		if (k != p->rank)
			send_entry(s, ctx, &tw_mix_members(p)[k], e);
	tw_mix_prune(s, ctx); /* it may be alone */
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
	s->mix->peer[m->h.from].residual = c->push.account.residual;
	s->slice.quiet = true; /* the replica of its own worker tells of it */
	tw_bucket_add(s, c);
	tw_bucket_flush(s, ctx);
	s->slice.quiet = false;
	return true;
}

void tw_mix_hear_spread(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *who = tw_mix_sender(s, m);
	const uint64_t number = m->b.push.link;
	struct mix_peer *o;

	if (!who)
		return;
	o = &s->mix->peer[who->slot];
	tw_mix_confirmed(s, ctx, who->slot, m->b.push.number); /* (6) */
	if (number > o->heard + 1)
		return; /* (5) */
	if (number == o->heard + 1) {
		o->heard = number;
		if ((m->h.flags & TW_FLAG_REFUSED) || !tw_shard_plausible(s, &m->b.push) ||
		    !apply(s, ctx, m))
			s->slice.tally.refused++;
		o->unsaid++;
	}
	if (number < o->heard || o->unsaid >= CONFIRM || s->mix->settling)
		tw_mix_confirm(s, ctx, who, false, false);
}
