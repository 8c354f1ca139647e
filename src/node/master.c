/* SPDX-License-Identifier: Apache-2.0 */
/* master.c - who is a member, which phase the run is in, and what it waits for.
 *
 *  (1) the master alone decides membership; ids and incarnations come from it, grow with every join
 *      and with every boot of the master, and are never given twice.
 *  (2) a generation begins when training (re)starts from one agreed state: at the start, after a
 *      cut that drained, after a rollback, after a takeover under a round gate.  Every shard
 *      confirms it before any worker gets a lease of it.
 *  (3) `drive` looks at the whole state after every event and does whatever is due; handlers only
 *      record what happened.  So there is no order of events that is not covered by it.
 *  (4) whatever was said and may have been lost is said again when a connection is made anew. */
#include "node/master.h"

#include <stdio.h>
#include <string.h>

/* --- words ---------------------------------------------------------------------------------- */

struct tw_msg *tw_master_to_worker(struct master *m, struct tw_context *ctx, uint32_t slot,
				   enum tw_type type)
{
	const struct tw_addr to = { m->member[slot].node, TW_WORKER, 0 };
	struct tw_msg *msg = tw_msg_to(ctx, to, type);

	if (msg)
		msg->h.view = m->current;
	return msg;
}

struct tw_msg *tw_master_to_shard(struct master *m, struct tw_context *ctx, uint32_t shard,
				  enum tw_type type)
{
	const struct tw_addr to = { m->shard[shard].node, TW_SHARD, (uint16_t)shard };
	struct tw_msg *msg = tw_msg_to(ctx, to, type);

	if (msg) {
		msg->h.view = m->generation;
		msg->h.incarnation = ctx->boot; /* of the master: a shard obeys the newest only */
		msg->h.shard = shard;
	}
	return msg;
}

uint64_t tw_master_new_generation(struct master *m, struct tw_context *ctx)
{
	return m->generation = ((uint64_t)ctx->boot << 32) | ++m->counter;
}

static uint32_t new_incarnation(struct master *m, struct tw_context *ctx)
{
	return ctx->boot << 20 | (uint32_t)++m->counter;
}

/* Where the shards are, to one worker. */
static bool put_places(struct master *m, struct tw_context *ctx, struct tw_msg *msg)
{
	struct tw_place *tail;
	uint32_t count = 0;

	for (uint32_t s = 0; s < m->plan->shards; s++)
		count += m->shard[s].hosted;
	if (!count)
		return true;
	tail = tw_msg_tail(ctx, msg, count * sizeof *tail);
	if (!tail)
		return false;
	count = 0;
	for (uint32_t s = 0; s < m->plan->shards; s++)
		if (m->shard[s].hosted)
			tail[count++] = (struct tw_place){ s, m->shard[s].node,
							   m->shard[s].incarnation, 0 };
	return true;
}

void tw_master_places(struct master *m, struct tw_context *ctx, uint32_t slot, bool running)
{
	struct tw_msg *msg = tw_master_to_worker(m, ctx, slot, TW_VIEW);

	if (!msg)
		return;
	msg->h.incarnation = m->member[slot].incarnation;
	msg->b.view = (struct tw_body_view){ m->live, running, ++m->views };
	if (put_places(m, ctx, msg))
		tw_send(ctx, msg);
}

/* Every member, to one shard. */
/* Between a drained cut and its release nothing may take virtual time: a slow or lossy link would
 * put the release off in the run that was not stopped, and not in the one that resumes here. */
static uint32_t untimed(const struct master *m)
{
	return m->release ? TW_FLAG_FREE : 0;
}

static void full_view(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg = tw_master_to_shard(m, ctx, shard, TW_VIEW);
	struct tw_member *tail;
	uint32_t count = 0;

	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FULL | untimed(m);
	msg->b.view = (struct tw_body_view){ m->live, 1, ++m->views };
	if (m->live) {
		tail = tw_msg_tail(ctx, msg, m->live * sizeof *tail);
		if (!tail)
			return;
		for (uint32_t k = 0; k < m->plan->workers; k++)
			if (m->member[k].live)
				tail[count++] = (struct tw_member){ k, m->member[k].incarnation,
								    TW_LIVE, 0 };
	}
	tw_send(ctx, msg);
}

static void tell_member(struct master *m, struct tw_context *ctx, uint32_t slot,
			enum tw_member_state state)
{
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		struct tw_member *tail;
		struct tw_msg *msg;

		if (!m->shard[s].hosted)
			continue;
		msg = tw_master_to_shard(m, ctx, s, TW_VIEW);
		if (!msg)
			return;
		msg->b.view = (struct tw_body_view){ m->live, 1, ++m->views };
		tail = tw_msg_tail(ctx, msg, sizeof *tail);
		if (!tail)
			return;
		*tail = (struct tw_member){ slot, m->member[slot].incarnation, (uint32_t)state, 0 };
		tw_send(ctx, msg);
	}
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_VIEW, .slot = slot, .count = m->live,
					.incarnation = m->member[slot].incarnation,
					.seq = m->views, .value = state });
}

static void refuse(struct tw_context *ctx, const struct tw_msg *to, enum tw_refusal why)
{
	struct tw_msg *msg = tw_msg_to(ctx, to->from, TW_REFUSE);

	if (!msg)
		return;
	msg->h.incarnation = to->h.incarnation;
	msg->b.refuse.why = why;
	tw_send(ctx, msg);
}

/* --- members --------------------------------------------------------------------------------- */

static uint32_t slot_at(const struct master *m, uint32_t node)
{
	for (uint32_t k = 0; k < m->plan->workers; k++)
		if (m->member[k].live && m->member[k].node == node)
			return k;
	return UINT32_MAX;
}

static void remove_member(struct master *m, struct tw_context *ctx, uint32_t slot,
			  enum tw_member_state state)
{
	struct member *e = &m->member[slot];

	if (!e->live)
		return;
	tw_say(ctx, TW_INFO, "worker %u (node %u) %s; %u remain", slot, e->node,
	       state == TW_LEFT ? "left" : "is gone", m->live - 1);
	e->live = false;
	m->live--;
	m->steps += e->steps;
	m->samples += e->samples;
	e->steps = e->samples = 0;
	e->behind = false;
	tw_deal_return(m, ctx, slot);
	tell_member(m, ctx, slot, state);
	tw_score_lost(m, ctx, slot);
}

static void send_welcome(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	struct tw_msg *msg = tw_master_to_worker(m, ctx, slot, TW_WELCOME);

	if (!msg)
		return;
	msg->b.welcome = (struct tw_body_welcome){ slot, e->incarnation, m->plan->workers, e->boot,
						   m->cut };
	if (e->restore) {
		msg->payload = tw_block_keep(e->restore);
		msg->h.payload = (uint32_t)e->restore->bytes;
	}
	if (put_places(m, ctx, msg))
		tw_send(ctx, msg);
}

static void joined(struct master *m, struct tw_context *ctx)
{
	if (m->live++ == 0 && !m->begun)
		tw_timer(ctx, TIMER_PAUSE, m->plan->wait);
}

static void admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	uint32_t slot = slot_at(m, msg->from.node);
	struct member *e;

	if (slot != UINT32_MAX && m->member[slot].boot == msg->b.hello.boot &&
	    !m->member[slot].heard) { /* it asked twice */
		send_welcome(m, ctx, slot);
		tw_deal_resend(m, ctx, slot);
		return;
	}
	if (slot != UINT32_MAX) /* the same machine, without its memory */
		remove_member(m, ctx, slot, TW_GONE);
	slot = msg->b.hello.slot;
	if (slot >= m->plan->workers || m->member[slot].live)
		for (slot = 0; slot < m->plan->workers && m->member[slot].live; slot++)
			;
	if (slot == m->plan->workers) {
		refuse(ctx, msg, TW_REFUSED_FULL);
		return;
	}
	e = &m->member[slot];
	e->live = e->hungry = true;
	e->node = msg->from.node;
	e->boot = msg->b.hello.boot;
	e->incarnation = new_incarnation(m, ctx);
	e->next_lease = (uint64_t)ctx->boot << 20; /* newer than any master's before */
	e->confirmed = 0;
	e->dry = e->idle = e->behind = e->evaluating = e->heard = false;
	joined(m, ctx);
	send_welcome(m, ctx, slot);
	tell_member(m, ctx, slot, TW_LIVE);
	tw_cut_snap_worker(m, ctx, slot);
}

/* A worker that outlived an earlier master, or whose connection was made anew. */
static void rejoin(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_hello *h = &msg->b.hello;
	const struct tw_range *list = msg->tail ? (const void *)msg->tail->data : NULL;
	struct member *e;

	if (h->slot >= m->plan->workers) {
		refuse(ctx, msg, TW_REFUSED_FENCED);
		return;
	}
	e = &m->member[h->slot];
	if (e->live && e->incarnation == h->incarnation) {
		tw_master_places(m, ctx, h->slot, m->phase != PHASE_DRAIN);
		tw_deal_resend(m, ctx, h->slot);
		tw_cut_snap_worker(m, ctx, h->slot);
		return;
	}
	/* removed by this very master, or too late: the shards know the members without it */
	if (e->live || h->incarnation >> 20 >= ctx->boot || e->incarnation >= h->incarnation ||
	    m->begun || m->phase != PHASE_GATHER) {
		refuse(ctx, msg, TW_REFUSED_FENCED);
		return;
	}
	e->live = e->heard = true;
	e->node = msg->from.node;
	e->boot = h->boot;
	e->incarnation = h->incarnation;
	e->next_lease = (uint64_t)ctx->boot << 20;
	e->steps = h->steps;
	e->samples = h->samples;
	joined(m, ctx);
	e->generation = msg->h.view;
	if (!tw_master_rounds(m) &&
	    !tw_deal_adopt(m, ctx, h->slot, list, msg->h.tail / sizeof *list))
		return;
	e->hungry = e->leases == 0;
	tell_member(m, ctx, h->slot, TW_LIVE);
	tw_master_places(m, ctx, h->slot, m->phase != PHASE_DRAIN);
}

/* --- servers and shards ------------------------------------------------------------------------ */

static void lose_shards(struct master *m, struct tw_context *ctx, uint32_t node)
{
	bool lost = false;

	for (uint32_t s = 0; s < m->plan->shards; s++) {
		struct shard_info *i = &m->shard[s];

		if ((!i->hosted && !i->assigned) || i->node != node)
			continue;
		i->hosted = i->assigned = i->pending = i->adopted = false;
		tw_block_drop(i->host);
		i->host = NULL;
		lost = true;
	}
	if (!lost || m->phase == PHASE_OVER)
		return;
	tw_say(ctx, TW_WARNING, "server %u (node %u) is gone with its shards", node - 1, node);
	tw_cut_abort(m);
	tw_score_abort(m, ctx);
	m->final = false;
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
	tw_timer(ctx, TIMER_HOMELESS, m->plan->wait);
}

static void server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node, k = node - 1;

	if (node == 0 || node > m->plan->servers)
		return;
	if (m->server[k].boot && m->server[k].boot != msg->h.incarnation)
		lose_shards(m, ctx, node);
	m->server[k].live = true;
	m->server[k].boot = msg->h.incarnation;
	m->server[k].hosted = msg->b.hello.hosted;
}

static enum tw_status copy_state(struct shard_info *i, const struct tw_msg *msg,
				 struct tw_heap *heap)
{
	const struct tw_body_state *b = &msg->b.state;
	const struct tw_span *span = msg->tail ? (const void *)msg->tail->data : NULL;
	const uint64_t records = (uint64_t)b->spans + b->twice + b->members;
	enum tw_status st = TW_OK;

	if (records * sizeof *span != msg->h.tail || msg->h.payload != sizeof i->tally)
		return TW_BAD_BYTES;
	tw_spans_clear(&i->applied);
	tw_spans_clear(&i->twice);
	for (uint32_t k = 0; k < b->spans + b->twice && st == TW_OK; k++)
		st = tw_spans_add(k < b->spans ? &i->applied : &i->twice, span[k].from, span[k].to,
				  NULL);
	if (st != TW_OK)
		return st;
	heap->put(heap, i->set);
	i->set = tw_heap_zeros(heap, (b->members + 1) * sizeof *i->set);
	if (!i->set)
		return TW_NO_MEMORY;
	if (b->members)
		memcpy(i->set, span + b->spans + b->twice, b->members * sizeof *i->set);
	i->set_count = b->members;
	i->round = b->round;
	i->progress = b->progress;
	memcpy(&i->tally, tw_msg_payload(msg), sizeof i->tally);
	return TW_OK;
}

static void shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;
	enum tw_status st;

	if (s >= m->plan->shards)
		return;
	i = &m->shard[s];
	if (i->hosted && i->node == msg->from.node &&
	    i->incarnation == msg->b.state.version.incarnation) {
		if (msg->b.state.asked != m->asks || msg->h.view != m->generation ||
		    (tw_master_rounds(m) && msg->b.state.round != m->round))
			return;
		st = copy_state(i, msg, m->heap);
		if (st != TW_OK) {
			tw_give_up(ctx, st, "the state of shard %u could not be taken", s);
			return;
		}
		i->agreed = i->counted = true;
		return;
	}
	if (!i->hosted && !i->assigned && m->phase == PHASE_GATHER &&
	    msg->b.state.version.incarnation >= i->incarnation) { /* it outlived us: keep it */
		st = copy_state(i, msg, m->heap);
		if (st != TW_OK) {
			tw_give_up(ctx, st, "the state of shard %u could not be taken", s);
			return;
		}
		i->hosted = i->adopted = true;
		i->node = msg->from.node;
		i->incarnation = msg->b.state.version.incarnation;
		if (msg->from.node && msg->from.node <= m->plan->servers)
			m->server[msg->from.node - 1].stated++;
		if (msg->h.view > m->generation)
			m->generation = msg->h.view;
		i->host_cut = msg->h.view; /* the generation it was in, until we agree */
		return;
	}
	if (msg->from.node != i->node) { /* somebody else has it now */
		struct tw_msg *go = tw_msg_to(ctx, (struct tw_addr){ msg->from.node, TW_SERVER, 0 },
					      TW_HOST);

		if (!go)
			return;
		go->b.host = (struct tw_body_host){ .shard = s, .unhost = 1,
						    .incarnation =
							    msg->b.state.version.incarnation + 1 };
		tw_send(ctx, go);
	}
}

static void shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;

	if (s >= m->plan->shards)
		return;
	i = &m->shard[s];
	if (!i->assigned || i->node != msg->from.node || i->incarnation != msg->b.host.incarnation)
		return;
	i->assigned = false;
	i->hosted = true;
	tw_block_drop(i->host);
	i->host = NULL;
}

/* --- phases ------------------------------------------------------------------------------------- */

static bool servers_here(const struct master *m)
{
	uint32_t here = 0;

	for (uint32_t k = 0; k < m->plan->servers; k++) {
		here += m->server[k].live;
		if (m->server[k].live && m->server[k].stated < m->server[k].hosted &&
		    !m->servers_due)
			return false;
	}
	return here == m->plan->servers || m->servers_due;
}

/* Under a round gate all shards go on from one state: adopted as they are, or all from the cut. */
static bool one_state(struct master *m)
{
	uint32_t adopted = 0, lost = 0, behind = 0;
	uint64_t round = 0;

	for (uint32_t s = 0; s < m->plan->shards; s++) {
		const struct shard_info *i = &m->shard[s];

		lost += !i->hosted && !i->assigned;
		adopted += i->adopted;
		behind += i->adopted && i->host_cut != m->generation;
		if (i->adopted && i->round > round)
			round = i->round;
	}
	for (uint32_t s = 0; s < m->plan->shards; s++)
		behind += m->shard[s].adopted && m->shard[s].round + 1 < round;
	return !(adopted && lost) && !behind && !(m->begun && lost);
}

static void roll_back(struct master *m, struct tw_context *ctx)
{
	m->rolling_back = m->rebuild = true;
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		m->shard[s].hosted = m->shard[s].adopted = m->shard[s].assigned = false;
		tw_block_drop(m->shard[s].host);
		m->shard[s].host = NULL;
	}
	tw_deal_forget(m, ctx);
	m->set_sent = false;
	tw_say(ctx, TW_WARNING, "the cluster goes back to checkpoint %llu",
	       (unsigned long long)m->cut);
}

static bool adopted_any(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->shards; s++)
		if (m->shard[s].adopted)
			return true;
	return false;
}

/* A COMMIT may have reached some shards only: those that have it say what was in it.  One that
 * reached nobody is known to us, if we sent it. */
static void complete_round(struct master *m, struct tw_context *ctx)
{
	const struct shard_info *ahead = &m->shard[0];

	for (uint32_t s = 1; s < m->plan->shards; s++)
		if (m->shard[s].round > ahead->round)
			ahead = &m->shard[s];
	if (!(m->set_sent && m->set_round == ahead->round) && ahead->round) {
		memcpy(m->set, ahead->set, ahead->set_count * sizeof *m->set);
		m->set_count = ahead->set_count;
		m->set_round = ahead->round - 1;
		m->set_sent = true;
	}
	for (uint32_t s = 0; s < m->plan->shards; s++)
		tw_deal_commit_to(m, ctx, s);
	m->round = m->set_sent ? m->set_round + 1 : 0;
}

void tw_master_gather(struct master *m, struct tw_context *ctx)
{
	bool lost = false, waits = false;

	if (m->loading || !servers_here(m))
		return;
	if (tw_master_rounds(m) && !m->rolling_back && !one_state(m))
		roll_back(m, ctx);
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		lost = lost || (!m->shard[s].hosted && !m->shard[s].assigned);
		waits = waits || !m->shard[s].hosted;
	}
	if (lost)
		tw_cut_assign(m, ctx);
	if (waits)
		return;
	/* once it has begun, `run` pauses when there are too few */
	if (!m->begun && m->live < m->plan->workers &&
	    !(m->live >= m->plan->min && m->live && m->wait_over))
		return;
	m->phase = PHASE_AGREE;
	m->since = tw_now(ctx);
	m->asks++;
	if (tw_master_rounds(m) && adopted_any(m)) {
		complete_round(m, ctx);
		tw_deal_forget(m, ctx);
		tw_master_new_generation(m, ctx);
	} else if (m->rebuild) {
		bool mixed = false;

		for (uint32_t s = 0; s < m->plan->shards; s++)
			mixed = mixed || (m->shard[s].adopted && m->shard[s].host_cut != m->generation);
		/* leases of another generation were forgotten by those who held them */
		for (uint32_t k = 0; k < m->plan->workers; k++)
			if (m->member[k].live && m->member[k].leases &&
			    m->member[k].generation != m->generation) {
				tw_deal_return(m, ctx, k);
				m->member[k].hungry = true;
			}
		if (mixed) {
			tw_master_new_generation(m, ctx);
			tw_deal_forget(m, ctx);
			tw_spans_clear(&m->taken);
		}
	}
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		struct tw_msg *msg;

		m->shard[s].agreed = false;
		full_view(m, ctx, s);
		msg = tw_master_to_shard(m, ctx, s, TW_ASK);
		if (!msg)
			return;
		msg->h.flags = untimed(m);
		msg->b.ask.number = m->asks;
		tw_send(ctx, msg);
	}
}

/* What is dealt already, when nobody remembers: what every shard has. */
static enum tw_status rebuild_taken(struct master *m)
{
	const bool adopted = adopted_any(m);
	struct tw_spans all;
	enum tw_status st = TW_OK;

	tw_spans_init(&all, m->heap);
	for (uint32_t s = 0; s < m->plan->shards && st == TW_OK; s++)
		st = s ? tw_spans_intersect(&all, &m->shard[s].applied)
		       : tw_spans_copy(&all, &m->shard[0].applied);
	if (st == TW_OK)
		st = tw_spans_unite(&m->taken, &all);
	if (m->taken.count && m->taken.span[m->taken.count - 1].to > m->frontier)
		m->frontier = m->taken.span[m->taken.count - 1].to;
	/* a master that was not there counts as dealt again what it cannot know better: what some
	 * shard has applied twice, or has applied and will apply again */
	tw_spans_clear(&all);
	for (uint32_t s = 0; s < m->plan->shards && st == TW_OK; s++)
		st = tw_spans_unite(&all, &m->shard[s].twice);
	if (adopted && tw_spans_total(&all) > m->redealt)
		m->redealt = tw_spans_total(&all);
	tw_spans_clear(&all);
	for (uint32_t s = 0; s < m->plan->shards && st == TW_OK; s++)
		st = tw_spans_unite(&all, &m->shard[s].applied);
	if (st == TW_OK)
		st = tw_spans_subtract(&all, &m->taken);
	if (adopted && !tw_master_rounds(m))
		m->redealt += tw_spans_total(&all);
	for (uint32_t k = 0; k < m->plan->workers && adopted; k++)
		for (uint32_t i = 0; i < m->member[k].leases; i++)
			m->redealt += m->member[k].lease[i].to - m->member[k].lease[i].from;
	tw_spans_release(&all);
	return st;
}

static void agreed(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->shards; s++)
		if (!m->shard[s].agreed)
			return;
	if (m->rebuild && rebuild_taken(m) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the history of a run");
		return;
	}
	m->rebuild = m->rolling_back = false;
	for (uint32_t s = 0; s < m->plan->shards; s++)
		m->shard[s].adopted = false;
	m->phase = PHASE_RELEASE;
	if (m->release > tw_now(ctx))
		tw_timer(ctx, TIMER_RELEASE, m->release - tw_now(ctx));
}

static void begin(struct master *m, struct tw_context *ctx)
{
	if (m->release > tw_now(ctx))
		return;
	m->release = 0;
	m->current = m->generation;
	if (!m->begun && m->plan->time_limit)
		tw_timer(ctx, TIMER_LIMIT, m->plan->time_limit - tw_now(ctx) > 0
						   ? m->plan->time_limit - tw_now(ctx)
						   : 0);
	m->begun = true;
	m->phase = PHASE_RUN;
	if (m->plan->checkpoint_every)
		tw_timer(ctx, TIMER_CUT, m->plan->checkpoint_every);
	for (uint32_t k = 0; k < m->plan->workers; k++)
		if (m->member[k].live)
			tw_master_places(m, ctx, k, true);
}

static void drain(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_DRAIN;
	m->since = tw_now(ctx);
	if (tw_master_rounds(m))
		return;
	for (uint32_t k = 0; k < m->plan->workers; k++)
		if (m->member[k].live)
			tw_master_places(m, ctx, k, false);
}

static void check_members(struct master *m, struct tw_context *ctx)
{
	const bool few = m->live < m->plan->min || m->live == 0;

	if (few == m->paused)
		return;
	m->paused = few;
	m->since = tw_now(ctx);
	if (!few)
		return;
	tw_say(ctx, TW_WARNING, "%u workers are fewer than cluster.min (%u): waiting for others",
	       m->live, m->plan->min);
	tw_timer(ctx, TIMER_PAUSE, m->plan->wait);
}

static void run(struct master *m, struct tw_context *ctx)
{
	const bool ends = m->time_up || m->want_finish || m->want_stop;

	check_members(m, ctx);
	tw_deal(m, ctx);
	if (m->phase != PHASE_RUN)
		return;
	if (!m->evaluating && m->plan->evaluate_every > 0 && m->live) {
		const uint64_t step =
			(uint64_t)(m->plan->evaluate_every * (double)m->plan->samples);
		const uint64_t done = tw_spans_total(&m->taken);

		if (step && done / step > m->evaluated_at && done < m->plan->positions) {
			m->evaluated_at = done / step;
			tw_score_start(m, ctx, false);
		}
	}
	if (m->want_cut && !m->plan->drain && !ends) { /* nobody pauses */
		if (!tw_master_rounds(m) || !m->round_open)
			tw_cut_snap(m, ctx);
		if (tw_master_rounds(m))
			tw_deal(m, ctx);
		return;
	}
	if (tw_master_rounds(m)) {
		if (!m->round_open && (ends || m->want_cut || tw_deal_exhausted(m)))
			drain(m, ctx);
	} else if (ends || m->want_cut || (tw_deal_exhausted(m) && !m->open_leases)) {
		drain(m, ctx);
	}
}

static void drained(struct master *m, struct tw_context *ctx)
{
	if (m->open_leases || m->round_open)
		return;
	if (m->cut_making) /* one is still being collected: it is let go */
		tw_cut_abort(m);
	if (m->want_stop || m->want_cut || (m->plan->checkpoint_final && tw_deal_exhausted(m) &&
					     !m->final)) {
		m->final = tw_deal_exhausted(m);
		tw_cut_snap(m, ctx);
		return;
	}
	if (tw_deal_exhausted(m))
		tw_score_count(m, ctx);
	else
		m->phase = PHASE_RELEASE; /* what we drained for is not wanted any more */
}

void tw_master_drive(struct master *m, struct tw_context *ctx)
{
	for (;;) {
		const enum phase before = m->phase;

		switch (m->phase) {
		case PHASE_GATHER:
			tw_master_gather(m, ctx);
			break;
		case PHASE_AGREE:
			agreed(m, ctx);
			break;
		case PHASE_RELEASE:
			begin(m, ctx);
			break;
		case PHASE_RUN:
			run(m, ctx);
			break;
		case PHASE_DRAIN:
			if (tw_master_rounds(m))
				tw_deal(m, ctx);
			drained(m, ctx);
			break;
		case PHASE_SNAP:
			tw_cut_check(m, ctx);
			break;
		case PHASE_COUNT:
			tw_score_count(m, ctx);
			break;
		case PHASE_SCORE:
			check_members(m, ctx);
			if (m->want_stop) { /* nobody is there to score it */
				tw_score_abort(m, ctx);
				m->final = false;
				drain(m, ctx);
			} else {
				tw_score_deal(m, ctx);
			}
			break;
		default:
			break;
		}
		if (m->phase == before)
			return;
	}
}

/* --- the actor ------------------------------------------------------------------------------------ */

static struct tw_actor *master_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	const struct tw_plan *p = a->plan;
	struct master *m = tw_heap_zeros(heap, sizeof *m);
	bool all = true;

	if (!m)
		return NULL;
	m->plan = p;
	m->heap = heap;
	m->resume = a->resume;
	m->rebuild = true;
	m->accuracy = -1;
	tw_spans_init(&m->taken, heap);
	tw_spans_init(&m->closed, heap);
	m->chunks = p->tests < 16 ? (uint32_t)p->tests : 16;
	m->member = tw_heap_zeros(heap, p->workers * sizeof *m->member);
	m->shard = tw_heap_zeros(heap, p->shards * sizeof *m->shard);
	m->server = tw_heap_zeros(heap, p->servers * sizeof *m->server);
	m->set = tw_heap_zeros(heap, p->workers * sizeof *m->set);
	m->chunk = tw_heap_zeros(heap, m->chunks * sizeof *m->chunk);
	all = m->member && m->shard && m->server && m->set && m->chunk;
	for (uint32_t k = 0; all && k < p->workers; k++)
		all = (m->member[k].have = tw_heap_zeros(heap, p->shards)) != NULL;
	for (uint32_t s = 0; m->shard && s < p->shards; s++) {
		tw_spans_init(&m->shard[s].applied, heap);
		tw_spans_init(&m->shard[s].twice, heap);
	}
	if (all)
		return (struct tw_actor *)m;
	tw_master_class.free((struct tw_actor *)m);
	return NULL;
}

static void master_free(struct tw_actor *a)
{
	struct master *m = (struct master *)a;

	if (!m)
		return;
	for (uint32_t k = 0; m->member && k < m->plan->workers; k++)
		tw_deal_release(&m->member[k], m->heap);
	for (uint32_t s = 0; m->shard && s < m->plan->shards; s++) {
		struct shard_info *i = &m->shard[s];

		tw_spans_release(&i->applied);
		tw_spans_release(&i->twice);
		tw_block_drop(i->part);
		tw_block_drop(i->vector);
		tw_block_drop(i->host);
		m->heap->put(m->heap, i->set);
	}
	tw_spans_release(&m->taken);
	tw_spans_release(&m->closed);
	void *const plain[] = { m->member, m->shard, m->server, m->set, m->chunk };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		m->heap->put(m->heap, plain[k]);
	m->heap->put(m->heap, m);
}

static void master_start(struct tw_actor *a, struct tw_context *ctx)
{
	struct master *m = (struct master *)a;

	m->since = tw_now(ctx);
	m->views = (uint64_t)ctx->boot << 32; /* newer than those of any master before */
	tw_timer(ctx, TIMER_GATHER, m->plan->limit);
	m->loading = true;
	ctx->world->load(ctx);
}

/* Is it from a worker that is a member now? */
static bool from_member(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = msg->h.from;

	if (slot < m->plan->workers && m->member[slot].live &&
	    m->member[slot].incarnation == msg->h.incarnation)
		return m->member[slot].heard = true;
	if (slot < m->plan->workers && m->member[slot].incarnation < msg->h.incarnation &&
	    msg->h.incarnation >> 20 < ctx->boot)
		return false; /* from before our time: its hello is on its way */
	refuse(ctx, msg, TW_REFUSED_FENCED);
	return false;
}

static void master_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *msg)
{
	struct master *m = (struct master *)a;

	if (m->phase == PHASE_OVER)
		return;
	switch (msg->h.type) {
	case TW_HELLO:
		if (msg->b.hello.role == TW_SERVER)
			server_hello(m, ctx, msg);
		else if (msg->h.flags & TW_FLAG_FRESH)
			admit(m, ctx, msg);
		else
			rejoin(m, ctx, msg);
		break;
	case TW_BYE:
		if (from_member(m, ctx, msg))
			remove_member(m, ctx, msg->h.from,
				      msg->h.flags & TW_FLAG_LEAVE ? TW_LEFT : TW_GONE);
		break;
	case TW_IDLE:
		if (from_member(m, ctx, msg) && msg->h.view == m->current)
			m->member[msg->h.from].hungry = true;
		break;
	case TW_DONE:
		if (from_member(m, ctx, msg) && msg->h.view == m->current)
			tw_deal_done(m, ctx, msg);
		break;
	case TW_HAVE:
		tw_deal_have(m, ctx, msg);
		break;
	case TW_STATE:
		shard_state(m, ctx, msg);
		break;
	case TW_HOSTED:
		shard_hosted(m, ctx, msg);
		break;
	case TW_PART:
		tw_cut_part(m, ctx, msg);
		break;
	case TW_PIN:
		tw_score_pinned(m, ctx, msg);
		break;
	case TW_RESULT:
		if (from_member(m, ctx, msg))
			tw_score_result(m, ctx, msg);
		break;
	default:
		break;
	}
	tw_master_drive(m, ctx);
}

static void master_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct master *m = (struct master *)a;

	switch (timer) {
	case TIMER_GATHER:
		m->servers_due = true;
		break;
	case TIMER_HOMELESS:
		if (m->phase != PHASE_GATHER)
			break;
		tw_say(ctx, TW_WARNING,
		       "shards have no server for %.0f s: stopping; the last checkpoint is %llu",
		       (double)m->plan->wait / 1e9, (unsigned long long)m->cut);
		tw_score_finish(m, ctx, TW_INTERRUPTED);
		return;
	case TIMER_CUT:
		if (m->phase == PHASE_RUN && !m->cut_making)
			m->want_cut = true;
		else
			tw_timer(ctx, TIMER_CUT, m->plan->checkpoint_every);
		break;
	case TIMER_LIMIT:
		m->time_up = true;
		break;
	case TIMER_PAUSE:
		if (!m->begun && !m->wait_over) {
			m->wait_over = true;
			tw_timer(ctx, TIMER_PAUSE, m->plan->wait);
		} else if (!m->begun && m->phase == PHASE_GATHER) {
			tw_say(ctx, TW_WARNING, "%u of at least %u workers came: stopping", m->live,
			       m->plan->min);
			tw_score_finish(m, ctx, TW_INTERRUPTED);
			return;
		} else if (m->paused) {
			tw_say(ctx, TW_WARNING, "nobody came for %.0f s: stopping at a checkpoint",
			       (double)m->plan->wait / 1e9);
			m->want_stop = true;
		}
		break;
	default:
		break;
	}
	tw_master_drive(m, ctx);
}

static void master_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	struct master *m = (struct master *)a;
	const uint32_t slot = slot_at(m, node);

	if (node && node <= m->plan->servers) {
		m->server[node - 1].live = false;
		lose_shards(m, ctx, node);
	} else if (slot != UINT32_MAX) {
		remove_member(m, ctx, slot, TW_GONE);
	}
	tw_master_drive(m, ctx);
}

static void resync_shard(struct master *m, struct tw_context *ctx, uint32_t s)
{
	if (m->shard[s].assigned) {
		tw_cut_host(m, ctx, s);
		return;
	}
	if (!m->shard[s].hosted)
		return;
	full_view(m, ctx, s);
	tw_deal_commit_to(m, ctx, s);
	for (uint32_t k = 0; k < m->plan->workers; k++)
		if (m->member[k].live && (m->plan->gate->traits & TW_GATE_HOLDS)) {
			struct tw_msg *msg = tw_master_to_shard(m, ctx, s, TW_IDLE);

			if (!msg)
				return;
			msg->b.idle = (struct tw_body_idle){ k, m->member[k].incarnation,
							     m->member[k].idle, 0 };
			tw_send(ctx, msg);
		}
	if (m->phase == PHASE_AGREE && !m->shard[s].agreed) {
		struct tw_msg *msg = tw_master_to_shard(m, ctx, s, TW_ASK);

		if (!msg)
			return;
		msg->b.ask.number = m->asks;
		tw_send(ctx, msg);
	}
	tw_cut_snap_shard(m, ctx, s);
	tw_score_count_shard(m, ctx, s);
	tw_score_pin_shard(m, ctx, s);
}

static void master_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct master *m = (struct master *)a;
	const uint32_t slot = slot_at(m, node);

	if (m->phase == PHASE_OVER)
		return;
	if (node && node <= m->plan->servers) {
		/* a server that lost its memory says so itself; one that did not is told again */
		if (m->server[node - 1].boot == boot) {
			for (uint32_t s = 0; s < m->plan->shards; s++)
				if (m->shard[s].node == node)
					resync_shard(m, ctx, s);
		}
	} else if (slot != UINT32_MAX && m->member[slot].boot != boot) {
		remove_member(m, ctx, slot, TW_GONE); /* it lost its memory */
	} else if (slot != UINT32_MAX) {
		send_welcome(m, ctx, slot);
		tw_master_places(m, ctx, slot, m->phase != PHASE_DRAIN);
		tw_deal_resend(m, ctx, slot);
		tw_cut_snap_worker(m, ctx, slot);
		if (m->member[slot].evaluating)
			tw_score_lost(m, ctx, slot);
	}
	tw_master_drive(m, ctx);
}

static void master_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			 enum tw_status status)
{
	struct master *m = (struct master *)a;

	tw_cut_saved(m, ctx, cut, status);
	tw_master_drive(m, ctx);
}

static void master_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			  const struct tw_part *parts, size_t count, enum tw_status status)
{
	struct master *m = (struct master *)a;

	tw_cut_loaded(m, ctx, cut, parts, count, status);
	tw_master_drive(m, ctx);
}

static void master_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct master *m = (struct master *)a;

	m->want_stop = true;
	if (!m->begun) {
		tw_score_finish(m, ctx, TW_INTERRUPTED);
		return;
	}
	tw_master_drive(m, ctx);
}

static bool waits_for_worker(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!e->live)
		return false;
	if (m->phase == PHASE_SCORE || m->evaluating)
		return e->evaluating;
	return m->phase == PHASE_DRAIN ? e->leases != 0
				       : m->round_open && e->planned && !e->complete;
}

static bool master_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	const struct master *m = (const struct master *)a;

	*out = (struct tw_wait){ .since = m->since, .step = m->round };
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		const struct shard_info *i = &m->shard[s];
		const bool due = (m->phase == PHASE_GATHER && !i->hosted) ||
				 (m->phase == PHASE_AGREE && !i->agreed) ||
				 (m->phase == PHASE_SNAP && !i->part) ||
				 (m->phase == PHASE_COUNT && (!i->counted || !i->vector));

		if (due) {
			out->whom = (struct tw_addr){ i->node, TW_SHARD, (uint16_t)s };
			out->why = m->phase == PHASE_GATHER ? "a server to host it" : "its state";
			return true;
		}
	}
	if ((m->phase == PHASE_GATHER && m->live < m->plan->workers) || m->paused) {
		for (uint32_t k = 0; k < m->plan->workers; k++)
			if (!m->member[k].live) {
				out->slot = k;
				break;
			}
		out->whom = (struct tw_addr){ tw_plan_worker_node(m->plan, out->slot), TW_WORKER, 0 };
		out->why = "it to join";
		return true;
	}
	for (uint32_t k = 0; k < m->plan->workers; k++)
		if (waits_for_worker(m, k)) {
			out->slot = k;
			out->whom = (struct tw_addr){ m->member[k].node, TW_WORKER, 0 };
			out->why = m->phase == PHASE_DRAIN ? "its lease" : "its contribution";
			return true;
		}
	return false;
}

const struct tw_actor_class tw_master_class = {
	.name = "master",
	.new = master_new,
	.free = master_free,
	.start = master_start,
	.message = master_message,
	.timer = master_timer,
	.saved = master_saved,
	.loaded = master_loaded,
	.down = master_down,
	.up = master_up,
	.interrupt = master_interrupt,
	.waiting = master_waiting,
};
