/* SPDX-License-Identifier: Apache-2.0 */
/* shard_members.c - whom a shard knows: the workers of the master's view, and who may speak.
 *
 * Of the rules of a shard (the list is in shard.c) this file sees to
 *
 *  (6) a new generation forgets what was parked and sent under the old one, and starts the clocks
 *      anew.
 *  (8) every change of a clock, or of who is active, goes through shard_clocks.h.
 *  (9) a worker that no view has named yet is believed only until a full view says otherwise; views
 *      of one worker that are older than it may just be slower than its own words.
 *
 * A full view costs what the view and the cluster have; a view of some workers costs what it
 * names. */
#include "node/shard/shard.h"

#include <string.h>

enum tw_status tw_shard_workers_init(struct shard *s)
{
	const struct tw_stage *stage = tw_plan_stage_at(s->plan, s->index);
	const size_t all = tw_plan_senders(s->plan, s->index);

	s->members.senders = (uint32_t)all;
	s->members.lanes = tw_plan_lanes(s->plan, s->index);
	s->members.memory = tw_plan_memory(s->plan) + (stage ? stage->keeps.own : 0);
	s->members.worker = tw_heap_zeros(s->heap, (all ? all : 1) * sizeof *s->members.worker);
	if (tw_plan_gathers(s->plan))
		s->members.debt = tw_heap_zeros(s->heap, all * sizeof *s->members.debt);
	return s->members.worker && (s->members.debt || !tw_plan_gathers(s->plan)) ? TW_OK
										   : TW_NO_MEMORY;
}

static void set_state(struct shard *s, struct shard_worker *g, enum shard_worker_state state)
{
	const bool was = tw_shard_worker_is_here(g);

	g->state = state;
	if (g->strikes.count && was != tw_shard_worker_is_here(g))
		s->members.failing += was ? UINT32_MAX : 1;
}

void tw_shard_worker_strike(struct shard *s, struct shard_worker *g, uint32_t count)
{
	if (tw_shard_worker_is_here(g) && !g->strikes.count != !count)
		s->members.failing += count ? 1 : UINT32_MAX;
	g->strikes.count = count;
}

/* --- clocks --------------------------------------------------------------------------------- */

static void see(struct shard *s, uint32_t slot)
{
	const bool was = s->clocks.of[slot].place;

	tw_clocks_see(&s->clocks, slot, tw_shard_worker_is_here(tw_shard_worker(s, slot)));
	if (was != (s->clocks.of[slot].place != 0))
		tw_bucket_active(s, slot, !was);
}

/* --- workers --------------------------------------------------------------------------------- */

static void forget(struct shard *s, uint32_t slot)
{
	struct shard_worker *g = tw_shard_worker(s, slot);

	tw_shard_put_aside(s, slot);
	tw_shard_reads_no_more(s, slot);
	tw_slice_leave(&s->slice, slot);
	tw_shard_forget_all_sent(s, g);
	s->heap->put(s->heap, g->sent);
	g->sent = NULL;
	tw_bucket_give_back(s, g->last);
	g->last = NULL;
}

void tw_shard_workers_release(struct shard *s)
{
	for (uint32_t k = 0; s->members.worker && k < s->members.senders; k++) {
		struct shard_worker *g = tw_shard_worker(s, k);

		tw_shard_forget_all_sent(s, g);
		s->heap->put(s->heap, g->sent);
		tw_bucket_give_back(s, g->last);
	}
	s->heap->put(s->heap, s->members.worker);
	s->heap->put(s->heap, s->members.debt);
	s->members = (struct shard_members){ .worker = NULL };
}

void tw_shard_lose(struct shard *s, float was, float is)
{
	s->slice.tally.residual_lost += (double)is - (double)was;
	s->slice.tally.residuals_lost += (uint64_t)(is > 0.0f) - (uint64_t)(was > 0.0f);
}

void tw_shard_other_owes(struct shard *s, uint32_t slot, uint32_t incarnation, float residual)
{
	struct shard_debt *d = &s->members.debt[slot];

	if (incarnation < d->incarnation)
		return;
	if (incarnation > d->incarnation)
		*d = (struct shard_debt){ .incarnation = incarnation };
	if (d->gone) /* its contribution has outlived it */
		tw_shard_lose(s, d->residual, residual);
	d->residual = residual;
}

/* It has left cleanly, and took nothing along, or has died. */
static void other_gone(struct shard *s, const struct tw_member *m)
{
	struct shard_debt *d = &s->members.debt[m->slot];

	if (m->state == TW_LIVE || m->incarnation < d->incarnation)
		return;
	if (m->incarnation > d->incarnation)
		*d = (struct shard_debt){ .incarnation = m->incarnation };
	if (m->state != TW_LEFT && !d->gone)
		tw_shard_lose(s, 0.0f, d->residual);
	d->gone = true;
}

/* Somebody else has this slot now.  How far the one before was is kept: if one of the two was only
 * claimed, the other may come back, and what it pushed must not be taken twice. */
static void become(struct shard *s, uint32_t slot, uint32_t incarnation)
{
	struct shard_worker *g = tw_shard_worker(s, slot);
	const struct shard_worker_mark before = { g->incarnation, g->unapplied, g->late,
						  g->residual, g->link };
	const bool back = g->other.incarnation == incarnation;

	if (tw_shard_worker_is_here(g)) {
		tw_shard_lose(s, 0.0f, g->residual);
		forget(s, slot);
	}
	if (back) /* it has not died */
		tw_shard_lose(s, g->other.residual, 0.0f);
	g->residual = back ? g->other.residual : 0.0f;
	tw_shard_unpark(s, slot);
	g->link = back ? g->other.link : 0;
	g->unapplied = back ? g->other.unapplied : 0;
	g->late = back ? g->other.late : 0;
	g->other = before;
	g->incarnation = incarnation;
	set_state(s, g, SHARD_WORKER_ABSENT);
	tw_shard_worker_strike(s, g, 0);
	g->strikes.link = 0;
	tw_clocks_forget(&s->clocks, slot);
}

static void make_live(struct shard *s, struct tw_context *ctx, uint32_t slot,
		      enum shard_worker_state state)
{
	set_state(s, tw_shard_worker(s, slot), state);
	if (tw_slice_welcome(&s->slice, slot) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a worker's arrays");
}

/* --- who may speak -------------------------------------------------------------------------- */

/* Say to one who is not a member, as far as we know, that it has to join again. */
static void turn_away(struct tw_context *ctx, struct tw_addr whom, uint32_t incarnation)
{
	struct tw_msg *no = tw_msg_to(ctx, whom, TW_REFUSE);

	if (!no)
		return;
	no->h.incarnation = incarnation;
	no->b.refuse.why = TW_REFUSED_FENCED;
	tw_send(ctx, no);
}

/* (9): may this be a newcomer that the master has named, in a view that is still on its way?  Those
 * whom an earlier master let in are in the full view of this one, or are members no more. */
static bool claimable(const struct shard *s, uint32_t incarnation)
{
	const uint32_t boot = incarnation >> 20;

	return boot <= s->fence.term && boot >= s->fence.view_term;
}

/* What its own first message says of a worker that no view has named yet. */
static void claim(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t incarnation,
		  uint32_t node)
{
	become(s, slot, incarnation);
	tw_shard_worker(s, slot)->node = node;
	make_live(s, ctx, slot, SHARD_WORKER_CLAIMED);
	see(s, slot); /* its clock comes with its word */
}

struct shard_worker *tw_shard_admit_unknown(struct shard *s, struct tw_context *ctx, uint32_t slot,
					    const struct tw_msg *m)
{
	struct tw_addr sender = m->from;
	struct shard_worker *g;

	if (!s->hosted || slot >= s->members.senders || m->h.view != s->fence.generation) {
		s->slice.tally.fenced++;
		return NULL;
	}
	if (m->h.flags & TW_FLAG_RELAYED)
		memcpy(&sender, m->tail->data, sizeof sender);
	g = tw_shard_worker(s, slot);
	if (m->h.incarnation < g->incarnation ||
	    (m->h.incarnation == g->incarnation && !tw_shard_worker_is_here(g)) ||
	    (m->h.incarnation > g->incarnation && !claimable(s, m->h.incarnation))) { /* (9) */
		s->slice.tally.fenced++;
		if (!(m->h.flags & TW_FLAG_RELAYED))
			turn_away(ctx, m->from, m->h.incarnation);
		return NULL;
	}
	if (m->h.incarnation > g->incarnation) { /* the master's view is on its way */
		claim(s, ctx, slot, m->h.incarnation, sender.node);
	} else if (g->node != sender.node) { /* (9) */
		s->slice.tally.fenced++;
		return NULL;
	}
	g->addr = sender;
	return g;
}

/* --- views ---------------------------------------------------------------------------------- */

/* (9): the master does not know of this claim.  If it is true, the worker joins again. */
static void disclaim(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);

	s->slice.tally.fenced++;
	turn_away(ctx, g->addr, g->incarnation);
	become(s, slot, incarnation);
}

static void member(struct shard *s, struct tw_context *ctx, const struct tw_member *m, bool full)
{
	struct shard_worker *g = tw_shard_worker(s, m->slot);
	const bool known = g->state == SHARD_WORKER_MEMBER && m->incarnation == g->incarnation;
	const bool claimed = g->state == SHARD_WORKER_CLAIMED;

	if (m->incarnation < g->incarnation && !(claimed && full))
		return;
	if (m->incarnation < g->incarnation)
		disclaim(s, ctx, m->slot, m->incarnation);
	else if (m->incarnation > g->incarnation)
		become(s, m->slot, m->incarnation);
	g->node = m->node;
	if (m->state == TW_LIVE) {
		make_live(s, ctx, m->slot, SHARD_WORKER_MEMBER);
		if (!known)
			tw_duties_joined(&s->duties, ctx, m->slot);
	} else {
		if (tw_shard_worker_is_here(g)) {
			if (m->state == TW_LEFT &&
			    !tw_plan_is_staged(s->plan)) /* it has pushed all */
				g->residual = 0.0f;
			tw_shard_lose(s, 0.0f, g->residual);
			forget(s, m->slot);
		}
		set_state(s, g, m->state == TW_LEFT ? SHARD_WORKER_LEFT : SHARD_WORKER_ABSENT);
		tw_duties_lost(&s->duties, ctx, m->slot);
	}
	/* of those who worked before this shard was taken anew nothing is known */
	if (!full || s->members.at_zero)
		tw_clocks_guess(&s->clocks, m->slot);
	see(s, m->slot);
	if (m->state == TW_LIVE)
		tw_shard_park_again(s, ctx, m->slot);
}

/* (6): everybody starts anew from here. */
static void new_generation(struct shard *s, struct tw_context *ctx, uint64_t generation)
{
	s->fence.generation = generation;
	tw_duties_begin(&s->duties, ctx);
	s->readers.counted = 0;
	for (uint32_t k = 0; k < s->members.senders; k++) {
		struct shard_worker *g = tw_shard_worker(s, k);

		tw_shard_unpark(s, k);
		tw_shard_reads_no_more(s, k);
		tw_shard_forget_all_sent(s, g);
		tw_bucket_give_back(s, g->last);
		g->last = NULL;
		g->strikes.link = 0;
	}
	s->members.at_zero = true;
	for (uint32_t k = 0; k < s->members.senders; k++)
		if (s->clocks.of[k].place)
			tw_bucket_active(s, k, false);
	tw_clocks_reset(&s->clocks);
}

/* Entry k of a view by the shard's own count: a worker has an entry for each lane, in order. */
static struct tw_member entry(const struct shard *s, const struct tw_member *list, size_t k)
{
	struct tw_member one = list[k];

	one.slot = one.slot * s->members.lanes + (uint32_t)(k % s->members.lanes);
	return one;
}

/* Who is not in a full view is gone. */
static void remove_absent(struct shard *s, struct tw_context *ctx, const struct tw_member *list,
			  size_t count)
{
	const uint32_t number = ++s->members.full_views;

	for (size_t k = 0; k < count; k++)
		tw_shard_worker(s, entry(s, list, k).slot)->listed = number;
	for (uint32_t k = 0; k < s->members.senders; k++) {
		struct shard_worker *g = tw_shard_worker(s, k);

		if (g->listed == number)
			continue;
		if (g->state == SHARD_WORKER_CLAIMED)
			disclaim(s, ctx, k, g->other.incarnation);
		if (tw_shard_worker_is_here(g) || tw_slice_keeps(&s->slice, k))
			forget(s, k);
		set_state(s, g, SHARD_WORKER_ABSENT);
		see(s, k);
	}
}

void tw_shard_view(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *list = m->tail ? (const void *)m->tail->data : NULL;
	const size_t count = m->h.tail / sizeof *list;
	const bool full = m->h.flags & TW_FLAG_FULL;

	if (!s->hosted || m->h.view < s->fence.generation || m->b.view.number < s->fence.view)
		return;
	if (tw_shard_is_replica(s) && !full) { /* of the worker of another one */
		for (size_t k = 0; k < count && s->members.debt; k++)
			other_gone(s, &list[k]);
		return;
	}
	if (full) {
		s->fence.view = m->b.view.number;
		s->fence.view_term = m->h.incarnation;
		tw_clocks_all_busy(&s->clocks); /* who is idle is said after it */
	}
	if (m->h.view > s->fence.generation)
		new_generation(s, ctx, m->h.view);
	if (full)
		remove_absent(s, ctx, list, count);
	for (size_t k = 0; k < count; k++) {
		const struct tw_member one = entry(s, list, k);

		member(s, ctx, &one, full);
	}
	s->members.live = m->b.view.live;
	tw_bucket_check(s, ctx);
	tw_shard_release(s, ctx);
}

void tw_shard_idle(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_idle *i = &m->b.idle;
	const uint32_t lanes = s->members.lanes;

	for (uint32_t k = i->slot * lanes; k < (i->slot + 1) * lanes; k++) {
		if (tw_shard_worker(s, k)->incarnation != i->incarnation)
			continue;
		s->clocks.of[k].idle = i->idle;
		see(s, k);
	}
	tw_bucket_check(s, ctx);
	tw_shard_release(s, ctx);
}
