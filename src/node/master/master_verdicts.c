/* SPDX-License-Identifier: Apache-2.0 */
/* master_verdicts.c - gates that drop what is late, with several shards: the master judges each
 * contribution once, for all of them.
 *
 *	worker → PUSH to every shard → HAVE → the gate → COMMIT to every shard → answers
 *
 *  (1) a contribution is judged when every shard has it, by what is oldest in what it was computed
 *      on.  So it is applied everywhere or nowhere, and all shards make the same updates from the
 *      same contributions in the same order.
 *  (2) verdicts go out in sets.  The next one is sent when every shard has carried out the one
 *      before: what is ready meanwhile goes together.  So shards are one set apart at most, and a
 *      shard keeps the last one, for a master that has to complete it.
 *  (3) what a member has pushed is judged only while it is a member.  When it goes, its leases are
 *      dealt again, and so is what is not judged.
 *  (4) where all shards have to agree once more, they get the last set again, then a full view, and
 *      then say again what they have, after their state; what they said before is not heard.
 *      Until then they hear of no member, for with a worker goes what waits of it.  What one of
 *      them lost is late for all.  What is collected is applied then, because it is not the same
 *      on all of them, or is not known here. */
#include "node/master/master.h"
#include "base/grow.h"

#include <string.h>

_Static_assert(sizeof(struct tw_judged) == sizeof(struct tw_member), "a set is kept as either");

static bool judges(const struct master *m)
{
	return tw_plan_judges(m->plan);
}

enum tw_status tw_verdicts_init(struct master *m)
{
	struct verdicts *v = &m->verdicts;
	const size_t slots = m->plan->crew.workers;

	if (!judges(m))
		return TW_OK;
	v->words = (m->plan->problem.shards + 63) / 64;
	v->have = tw_heap_zeros(m->heap, slots * TW_CREDITS * v->words * sizeof *v->have);
	v->set = tw_heap_zeros(m->heap, slots * sizeof *v->set);
	return v->have && v->set ? TW_OK : TW_NO_MEMORY;
}

void tw_verdicts_release(struct master *m)
{
	m->heap->put(m->heap, m->verdicts.have);
	m->heap->put(m->heap, m->verdicts.set);
	m->heap->put(m->heap, m->verdicts.queue);
}

/* --- what is collected ------------------------------------------------------------------------ */

static uint32_t collected_of(const struct master *m, const struct awaiting *a)
{
	return a->update == m->verdicts.applied ? a->collected : 0;
}

/* An active member's share in (4) of struct verdicts comes, or goes. */
static void count_in(struct verdicts *v, uint32_t collected, bool in)
{
	if (!collected)
		return;
	v->kept.workers += in ? 1 : UINT32_MAX;
	v->kept.inverse += (in ? 1.0 : -1.0) / collected;
	if (!v->kept.workers)
		v->kept.inverse = 0;
}

void tw_verdicts_active(struct master *m, uint32_t slot)
{
	struct awaiting *a = &m->member[slot].awaiting;
	const bool now = m->member[slot].live && !m->member[slot].idle;

	if (!judges(m) || a->active == now)
		return;
	a->active = now;
	m->verdicts.active += now ? 1 : UINT32_MAX;
	count_in(&m->verdicts, collected_of(m, a), now);
}

static void collect(struct master *m, struct awaiting *a)
{
	const uint32_t before = collected_of(m, a);

	if (a->active)
		count_in(&m->verdicts, before, false);
	a->collected = before + 1;
	a->update = m->verdicts.applied;
	if (a->active)
		count_in(&m->verdicts, a->collected, true);
	m->verdicts.kept.count++;
}

static bool is_full(const struct master *m)
{
	struct tw_collected k = m->verdicts.kept;

	k.missing = m->verdicts.active - k.workers;
	return k.count && m->plan->gate->full(m->plan->gate_options, &k);
}

/* An update: nothing is collected after it. */
static void count_update(struct verdicts *v)
{
	v->applied++;
	v->updates++;
	v->kept = (struct tw_collected){ .count = 0 };
}

/* --- what shards have ------------------------------------------------------------------------- */

static void forget_awaited(struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		memset(m->member[k].awaiting.wait, 0, sizeof m->member[k].awaiting.wait);
	m->verdicts.queued = 0;
}

void tw_verdicts_reset(struct master *m)
{
	struct verdicts *v = &m->verdicts;

	if (!judges(m))
		return;
	forget_awaited(m);
	v->number = 0;
	v->count = v->updates = v->unconfirmed = 0;
	v->applied++; /* what a member had collected is of an update that was */
	v->kept = (struct tw_collected){ .count = 0 };
	v->flush = false;
}

/* The place of a contribution that may still be judged; NULL: there is none.  A worker that pushes
 * this one has none on its way that is so much older. */
static struct awaited *place_of(struct master *m, struct awaiting *a, uint32_t slot, uint64_t seq)
{
	struct awaited *free = NULL;

	for (uint32_t k = 0; k < TW_CREDITS; k++) {
		struct awaited *w = &a->wait[k];

		if (w->seq == seq)
			return w;
		if (!free && (!w->seq || w->seq + TW_CREDITS <= seq))
			free = w;
	}
	if (!free)
		return NULL;
	memset(m->verdicts.have +
		       ((size_t)slot * TW_CREDITS + (size_t)(free - a->wait)) * m->verdicts.words,
	       0, m->verdicts.words * sizeof *m->verdicts.have);
	*free = (struct awaited){ .seq = seq, .read = INT64_MAX };
	return free;
}

static void enqueue(struct master *m, struct tw_context *ctx, const struct tw_body_have *h,
		    uint64_t seq, enum tw_judgement how)
{
	struct verdicts *v = &m->verdicts;

	if (!TW_GROW(m->heap, v->queue, v->room, v->queued, (size_t)v->queued + 1)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for contributions");
		return;
	}
	v->queue[v->queued++] =
		(struct tw_judged){ h->slot, h->incarnation, (uint32_t)seq, (uint32_t)how };
}

static void confirmed(struct master *m, uint32_t shard, uint64_t round)
{
	if (m->shard[shard].confirmed || round != m->verdicts.number)
		return;
	m->shard[shard].confirmed = true;
	m->verdicts.unconfirmed--;
}

static void has(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	struct verdicts *v = &m->verdicts;
	struct awaiting *a = &m->member[h->slot].awaiting;
	struct awaited *w = place_of(m, a, h->slot, msg->h.seq);
	/* the last set may be on its way to this shard */
	const int64_t now = v->applied - (h->round < v->number ? v->updates : 0);
	const int64_t read = h->attempt == UINT32_MAX ? INT64_MIN : now - h->attempt;
	uint64_t *word;

	if (!w)
		return;
	word = v->have + ((size_t)h->slot * TW_CREDITS + (size_t)(w - a->wait)) * v->words + s / 64;
	if (*word >> s % 64 & 1)
		return;
	*word |= UINT64_C(1) << s % 64;
	w->own = h->steps;
	w->read = read < w->read ? read : w->read;
	w->refused = w->refused || (msg->h.flags & TW_FLAG_REFUSED);
	if (++w->have == m->plan->problem.shards)
		enqueue(m, ctx, h, w->seq, TW_JUDGED_APPLY); /* or whatever the gate says */
}

void tw_verdicts_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	struct member *e;

	if (m->shard[s].node != msg->from.node)
		return;
	if (h->slot >= m->plan->crew.workers) {
		confirmed(m, s, h->round);
		return;
	}
	e = &m->member[h->slot];
	if (!m->shard[s].agreed || !e->live || e->incarnation != h->incarnation || !msg->h.seq)
		return; /* (4): it says so again, in order */
	e->heard = true;
	if (e->awaiting.incarnation != e->incarnation) {
		e->awaiting.incarnation = e->incarnation;
		e->awaiting.judged = 0;
		memset(e->awaiting.wait, 0, sizeof e->awaiting.wait);
	}
	if (msg->h.seq <= e->awaiting.judged) /* while the shard was away */
		enqueue(m, ctx, h, msg->h.seq, TW_JUDGED_VOID);
	else
		has(m, ctx, msg);
}

/* --- verdicts --------------------------------------------------------------------------------- */

static struct awaited *awaited_of(struct awaiting *a, uint32_t seq)
{
	for (uint32_t k = 0; k < TW_CREDITS; k++)
		if (a->wait[k].seq && (uint32_t)a->wait[k].seq == seq)
			return &a->wait[k];
	return NULL;
}

/* (1) */
static uint32_t judge(struct master *m, uint32_t slot, const struct awaited *w)
{
	struct verdicts *v = &m->verdicts;
	const uint64_t since = w->read == INT64_MIN ? UINT64_MAX : (uint64_t)(v->applied - w->read);

	if (w->refused)
		return TW_JUDGED_REFUSE;
	switch (tw_gate_admit(m->plan->gate, m->plan->gate_options, slot,
			      since > w->own ? since - w->own : 0)) {
	case TW_DROP:
		return TW_JUDGED_DROP;
	case TW_ACCUMULATE:
		collect(m, &m->member[slot].awaiting);
		if (!is_full(m))
			return TW_JUDGED_COLLECT;
		count_update(v);
		return TW_JUDGED_COLLECT | TW_JUDGED_FLUSH;
	default:
		count_update(v);
		return TW_JUDGED_APPLY;
	}
}

/* (3): the verdict on what is queued; false: its worker is gone. */
static bool decide(struct master *m, struct tw_judged *q)
{
	struct member *e = &m->member[q->slot];
	struct awaited *w;

	if (!e->live || e->incarnation != q->incarnation)
		return false;
	if (q->what == TW_JUDGED_VOID)
		return true;
	w = awaited_of(&e->awaiting, q->seq);
	if (!w)
		return false;
	q->what = judge(m, q->slot, w);
	e->awaiting.judged = w->seq;
	for (uint32_t k = 0; k < TW_CREDITS; k++) /* shards close in order, too */
		if (e->awaiting.wait[k].seq <= e->awaiting.judged)
			e->awaiting.wait[k] = (struct awaited){ .seq = 0 };
	return true;
}

static void make_set(struct master *m)
{
	struct verdicts *v = &m->verdicts;
	const uint32_t most = m->plan->crew.workers;
	uint32_t k = 0;

	v->count = v->updates = 0;
	if (v->flush) {
		v->set[v->count++] = (struct tw_judged){ .slot = UINT32_MAX,
							 .what = TW_JUDGED_VOID | TW_JUDGED_FLUSH };
		v->flush = false;
		count_update(v);
	}
	for (; k < v->queued && v->count < most; k++)
		if (decide(m, &v->queue[k]))
			v->set[v->count++] = v->queue[k];
	v->queued -= k;
	if (v->queued)
		memmove(v->queue, v->queue + k, v->queued * sizeof *v->queue);
}

void tw_verdicts_to(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct verdicts *v = &m->verdicts;
	struct tw_msg *msg;
	void *tail;

	if (!judges(m) || !v->number || !tw_shard_has_home(&m->shard[shard]))
		return;
	msg = tw_master_to_shard(m, ctx, shard, TW_COMMIT);
	if (!msg)
		return;
	msg->b.commit = (struct tw_body_commit){ .round = v->number - 1, .count = v->count };
	if (v->count) {
		tail = tw_msg_tail(ctx, msg, v->count * sizeof *v->set);
		if (!tail)
			return;
		memcpy(tail, v->set, v->count * sizeof *v->set);
	}
	tw_send(ctx, msg);
}

static void send_set(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].confirmed = false;
		tw_verdicts_to(m, ctx, s);
	}
	m->verdicts.unconfirmed = m->plan->problem.shards;
}

void tw_verdicts_give(struct master *m, struct tw_context *ctx)
{
	struct verdicts *v = &m->verdicts;

	if (!judges(m) || m->phase == PHASE_GATHER || m->phase == PHASE_OVER || v->unconfirmed)
		return;
	if ((m->plan->gate->traits & TW_GATE_WAITS) && is_full(m))
		v->flush = true;
	if (!v->flush && !v->queued)
		return;
	make_set(m);
	if (!v->count)
		return;
	v->number++;
	send_set(m, ctx);
}

/* --- from one state --------------------------------------------------------------------------- */

/* (2): a master that was not there completes the last set; returns whether any shard outlived the
 * one before. */
static bool take_over(struct master *m)
{
	struct verdicts *v = &m->verdicts;
	const struct shard_info *ahead = NULL;
	bool any = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct shard_info *i = &m->shard[s];

		if (i->place != SHARD_ADOPTED)
			continue;
		any = true;
		if (i->host_cut == m->restart.generation && (!ahead || i->round > ahead->round))
			ahead = i;
	}
	if (!ahead || ahead->round <= v->number)
		return any;
	v->number = ahead->round;
	v->count = ahead->set_count;
	v->updates = 0;
	memcpy(v->set, ahead->set, v->count * sizeof *v->set);
	for (uint32_t k = 0; k < v->count; k++)
		v->updates +=
			v->set[k].what == TW_JUDGED_APPLY || (v->set[k].what & TW_JUDGED_FLUSH);
	return any;
}

void tw_verdicts_agree(struct master *m, struct tw_context *ctx)
{
	struct verdicts *v = &m->verdicts;
	bool unknown = false;

	if (!judges(m))
		return;
	forget_awaited(m); /* (4) */
	if (m->restart.history != HISTORY_KNOWN)
		unknown = take_over(m);
	if ((m->plan->gate->traits & TW_GATE_COLLECTS) && (unknown || v->kept.count))
		v->flush = true;
	v->unconfirmed = 0;
	if (v->number)
		send_set(m, ctx);
}
