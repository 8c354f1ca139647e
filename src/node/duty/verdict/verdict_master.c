/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_master.c - gates that drop what is late, with several shards: the master judges each
 * contribution once, for all of them.  The numbers in brackets are those of README.md. */
#include "node/duty/verdict/verdict.h"
#include "base/grow.h"
#include "node/master/master.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct tw_judged) == sizeof(struct tw_member), "a set is kept as either");

/* A contribution that some shards have; seq 0: none. */
struct awaited {
	uint64_t seq;
	int64_t read; /* updates that were in what it was computed on, where they were fewest ... */
	uint32_t
		own; /* ... and those of its own worker that were not, but are in it nevertheless */
	uint32_t have; /* shards that have it */
	bool refused;  /* some shard found its numbers bad */
};

/* What a member has pushed, and what it is part of. */
struct awaiting {
	uint32_t incarnation; /* whose these two are */
	uint64_t judged;      /* the last contribution that was */
	struct awaited wait[TW_CREDITS];
	uint32_t collected; /* contributions of this slot that wait for update ... */
	int64_t update;     /* ... this one; elsewhere there are none */
	bool active;        /* it counts among those whom an update may wait for */
};

/* What the master judges.  tw_verdict_master_reset and tw_verdict_master_agree start from nothing.
 *
 *  (1) `queue` has what is on every shard and not judged, in that order, and what is to be told as
 *      void.
 *  (2) `unconfirmed` shards have not carried out the last set; meanwhile no other one is sent.
 *  (3) `applied` counts updates, and so do struct awaited's figures; the last set made `updates` of
 *      them.
 *  (4) `kept` is what shards have collected; its `workers` and `inverse` are of active members, of
 *      which there are `active`. */
struct verdict_master {
	struct awaiting *of; /* by slot */
	bool *confirmed;     /* by shard: it has carried out the last set */
	uint64_t number;     /* sets sent in this generation */
	struct tw_judged *set;
	uint32_t count, updates, unconfirmed;
	int64_t applied;
	struct tw_judged *queue;
	size_t room;
	uint32_t queued;
	struct tw_collected kept;
	uint32_t active;
	bool flush;     /* what is collected is not the same everywhere: begin with applying it */
	uint64_t *have; /* bits by slot, credit and shard */
	uint32_t words; /* of 64 shards */
};

/* --- what is collected ------------------------------------------------------------------------ */

static uint32_t collected_of(const struct master *m, const struct awaiting *a)
{
	return a->update == m->verdict->applied ? a->collected : 0;
}

/* An active member's share in (4) of struct verdict_master comes, or goes. */
static void count_in(struct verdict_master *v, uint32_t collected, bool in)
{
	if (!collected)
		return;
	v->kept.workers += in ? 1 : UINT32_MAX;
	v->kept.inverse += (in ? 1.0 : -1.0) / collected;
	if (!v->kept.workers)
		v->kept.inverse = 0;
}

void tw_verdict_master_active(struct master *m, uint32_t slot)
{
	const bool now = m->member[slot].live && !m->member[slot].idle;
	struct awaiting *a;

	if (!m->verdict)
		return;
	a = &m->verdict->of[slot];
	if (a->active == now)
		return;
	a->active = now;
	m->verdict->active += now ? 1 : UINT32_MAX;
	count_in(m->verdict, collected_of(m, a), now);
}

static void collect(struct master *m, struct awaiting *a)
{
	const uint32_t before = collected_of(m, a);

	if (a->active)
		count_in(m->verdict, before, false);
	a->collected = before + 1;
	a->update = m->verdict->applied;
	if (a->active)
		count_in(m->verdict, a->collected, true);
	m->verdict->kept.count++;
}

static bool is_full(const struct master *m)
{
	struct tw_collected k = m->verdict->kept;

	k.missing = m->verdict->active - k.workers;
	return k.count && m->plan->gate->full(m->plan->gate_options, &k);
}

/* An update: nothing is collected after it. */
static void count_update(struct verdict_master *v)
{
	v->applied++;
	v->updates++;
	v->kept = (struct tw_collected){ .count = 0 };
}

/* --- what shards have ------------------------------------------------------------------------- */

static void forget_awaited(struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		memset(m->verdict->of[k].wait, 0, sizeof m->verdict->of[k].wait);
	m->verdict->queued = 0;
}

void tw_verdict_master_reset(struct master *m)
{
	struct verdict_master *v = m->verdict;

	if (!m->verdict)
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
	memset(m->verdict->have +
		       ((size_t)slot * TW_CREDITS + (size_t)(free - a->wait)) * m->verdict->words,
	       0, m->verdict->words * sizeof *m->verdict->have);
	*free = (struct awaited){ .seq = seq, .read = INT64_MAX };
	return free;
}

static void enqueue(struct master *m, struct tw_context *ctx, const struct tw_body_have *h,
		    uint64_t seq, enum tw_judgement how)
{
	struct verdict_master *v = m->verdict;

	if (!TW_GROW(m->heap, v->queue, v->room, v->queued, (size_t)v->queued + 1)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for contributions");
		return;
	}
	v->queue[v->queued++] =
		(struct tw_judged){ h->slot, h->incarnation, (uint32_t)seq, (uint32_t)how };
}

static void confirmed(struct master *m, uint32_t shard, uint64_t round)
{
	if (m->verdict->confirmed[shard] || round != m->verdict->number)
		return;
	m->verdict->confirmed[shard] = true;
	m->verdict->unconfirmed--;
}

static void has(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	struct verdict_master *v = m->verdict;
	struct awaiting *a = &m->verdict->of[h->slot];
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

static void hear_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	struct awaiting *a;
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
	a = &m->verdict->of[h->slot];
	if (a->incarnation != e->incarnation) {
		a->incarnation = e->incarnation;
		a->judged = 0;
		memset(a->wait, 0, sizeof a->wait);
	}
	if (msg->h.seq <= a->judged) /* while the shard was away */
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
	struct verdict_master *v = m->verdict;
	const uint64_t since = w->read == INT64_MIN ? UINT64_MAX : (uint64_t)(v->applied - w->read);

	if (w->refused)
		return TW_JUDGED_REFUSE;
	switch (tw_gate_admit(m->plan->gate, m->plan->gate_options, slot,
			      since > w->own ? since - w->own : 0)) {
	case TW_DROP:
		return TW_JUDGED_DROP;
	case TW_ACCUMULATE:
		collect(m, &m->verdict->of[slot]);
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
	const struct member *e = &m->member[q->slot];
	struct awaiting *a = &m->verdict->of[q->slot];
	struct awaited *w;

	if (!e->live || e->incarnation != q->incarnation)
		return false;
	if (q->what == TW_JUDGED_VOID)
		return true;
	w = awaited_of(a, q->seq);
	if (!w)
		return false;
	q->what = judge(m, q->slot, w);
	a->judged = w->seq;
	for (uint32_t k = 0; k < TW_CREDITS; k++) /* shards close in order, too */
		if (a->wait[k].seq <= a->judged)
			a->wait[k] = (struct awaited){ .seq = 0 };
	return true;
}

static void make_set(struct master *m)
{
	struct verdict_master *v = m->verdict;
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

void tw_verdict_master_to(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct verdict_master *v = m->verdict;
	struct tw_msg *msg;
	void *tail;

	if (!m->verdict || !v->number || !tw_shard_has_home(&m->shard[shard]))
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
		m->verdict->confirmed[s] = false;
		tw_verdict_master_to(m, ctx, s);
	}
	m->verdict->unconfirmed = m->plan->problem.shards;
}

void tw_verdict_master_give(struct master *m, struct tw_context *ctx)
{
	struct verdict_master *v = m->verdict;

	if (!m->verdict || m->phase == PHASE_GATHER || m->phase == PHASE_OVER || v->unconfirmed)
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
	struct verdict_master *v = m->verdict;
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

void tw_verdict_master_agree(struct master *m, struct tw_context *ctx)
{
	struct verdict_master *v = m->verdict;
	bool unknown = false;

	if (!m->verdict)
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

bool tw_verdict_master_comes_first(const struct master *m)
{
	return m->phase == PHASE_GATHER && m->verdict;
}

uint64_t tw_verdict_master_progress(const struct master *m)
{
	return m->verdict ? m->verdict->number + (uint64_t)m->verdict->applied : 0;
}

/* --- the duty -------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_judges(plan);
}

static enum tw_status open_books(void *actor)
{
	struct master *m = actor;
	struct verdict_master *v = m->verdict;
	const size_t slots = m->plan->crew.workers;

	v->words = (m->plan->problem.shards + 63) / 64;
	v->of = tw_heap_zeros(m->heap, slots * sizeof *v->of);
	v->confirmed = tw_heap_zeros(m->heap, m->plan->problem.shards * sizeof *v->confirmed);
	v->have = tw_heap_zeros(m->heap, slots * TW_CREDITS * v->words * sizeof *v->have);
	v->set = tw_heap_zeros(m->heap, slots * sizeof *v->set);
	return v->of && v->confirmed && v->have && v->set ? TW_OK : TW_NO_MEMORY;
}

static void close_books(void *actor)
{
	struct master *m = actor;
	const struct verdict_master *v = m->verdict;
	void *const all[] = { v->of, v->confirmed, v->have, v->set, v->queue };

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		m->heap->put(m->heap, all[k]);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (!(msg->h.flags & TW_FLAG_HELD)) /* duty/watch */
		hear_have(actor, ctx, msg);
}

const struct tw_duty tw_verdict_master = {
	.name = "verdict",
	.bytes = sizeof(struct verdict_master),
	.place = offsetof(struct master, verdict),
	.hears = TW_HEARS(TW_HAVE),
	.wanted = wanted,
	.open = open_books,
	.close = close_books,
	.message = message,
};
