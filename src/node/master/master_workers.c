/* SPDX-License-Identifier: Apache-2.0 */
/* master_workers.c - who is a member: workers are admitted, come back, are removed, and everybody
 * is told.
 *
 *  (1) the master alone decides membership; ids and incarnations come from it, grow with every join
 *      and with every boot of the master, and are never given twice.
 *  (2) one who was removed is refused until it joins again as somebody new.
 *  (3) what a worker was told and may have lost is told again when its connection is made anew. */
#include "node/master/master.h"

#include <stdio.h>
#include <string.h>

/* --- words ---------------------------------------------------------------------------------- */

static void tell_shard(struct master *m, struct tw_context *ctx, struct tw_msg *msg, uint32_t shard,
		       const struct tw_member *one)
{
	const uint32_t lanes = tw_plan_lanes(m->plan, shard);
	struct tw_member *tail = msg ? tw_msg_tail(ctx, msg, lanes * sizeof *tail) : NULL;

	if (!tail)
		return;
	msg->b.view = (struct tw_body_view){ tw_master_live(m), 1, ++m->members.views };
	tw_master_name_senders(m, one, shard, tail);
	tw_send(ctx, msg);
}

static void tell_member(struct master *m, struct tw_context *ctx, uint32_t slot,
			enum tw_member_state state)
{
	const struct tw_member one = { slot, m->member[slot].incarnation, (uint32_t)state,
				       m->member[slot].node };
	/* a replica knows its own worker only, but counts what others owe when they go */
	const bool all = tw_plan_gathers(m->plan) && state != TW_LIVE;

	if (tw_plan_is_staged(m->plan))
		tw_cells_name(m, ctx, &one);
	else
		tw_members(ctx, &one, 1);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		if (tw_shard_has_home(&m->shard[s]) && !tw_master_has_replicas(m) &&
		    !tw_verdict_master_comes_first(m))
			tell_shard(m, ctx, tw_master_to_shard(m, ctx, s, TW_VIEW), s, &one);
		for (uint32_t k = all ? tw_replicas_next(m, 0) : TW_NO_SLOT; k != TW_NO_SLOT;
		     k = tw_replicas_next(m, k + 1))
			tell_shard(m, ctx, tw_replica_to_shard(m, ctx, k, s, TW_VIEW), s, &one);
	}
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_VIEW,
					.slot = slot,
					.incarnation = m->member[slot].incarnation,
					.view = { .number = m->members.views,
						  .live = tw_master_live(m),
						  .state = state } });
}

static void refuse(struct tw_context *ctx, const struct tw_msg *to, enum tw_refusal why)
{
	tw_master_refuse_node(ctx, to->from.node, to->h.incarnation, why);
}

/* --- members --------------------------------------------------------------------------------- */

enum tw_status tw_master_members_init(struct membership *all, struct tw_heap *heap, uint32_t slots)
{
	uint32_t chains = 1;

	while (chains < slots && chains < UINT32_C(1) << 31)
		chains *= 2;
	all->mask = chains - 1;
	all->at_node = heap->get(heap, chains * sizeof *all->at_node);
	if (tw_slots_init(&all->live, heap, slots) != TW_OK ||
	    tw_slots_init(&all->barred, heap, slots) != TW_OK || !all->at_node)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < chains; k++)
		all->at_node[k] = TW_NO_SLOT;
	return TW_OK;
}

void tw_master_members_release(struct membership *all, struct tw_heap *heap)
{
	heap->put(heap, all->at_node);
	tw_slots_release(&all->live);
	tw_slots_release(&all->barred);
}

void tw_master_member_release(struct member *e, struct tw_heap *heap)
{
	heap->put(heap, e->held.lease);
}

/* This slot's member is in, on this node. */
static void seat(struct master *m, uint32_t slot, uint32_t node)
{
	uint32_t *chain = &m->members.at_node[node & m->members.mask];
	struct member *e = &m->member[slot];

	e->live = true;
	e->node = node;
	e->next_at = *chain;
	*chain = slot;
	tw_slots_put(&m->members.live, slot, true);
	tw_deal_seat(m, slot, true);
	m->waits.came = true;
}

static void unseat(struct master *m, uint32_t slot)
{
	struct member *e = &m->member[slot];
	uint32_t *link = &m->members.at_node[e->node & m->members.mask];

	while (*link != slot)
		link = &m->member[*link].next_at;
	*link = e->next_at;
	e->live = false;
	tw_slots_put(&m->members.live, slot, false);
	tw_deal_seat(m, slot, false);
}

bool tw_master_from_member(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = msg->h.from;

	if (slot < m->plan->crew.workers && m->member[slot].incarnation == msg->h.incarnation &&
	    tw_master_is_of(m, msg->from.node, slot))
		return m->member[slot].heard = true;
	if (slot < m->plan->crew.workers && m->member[slot].incarnation < msg->h.incarnation &&
	    msg->h.incarnation >> 20 < ctx->boot)
		return false; /* from before our time: its hello is on its way */
	refuse(ctx, msg, TW_REFUSED_FENCED);
	return false;
}

void tw_master_remove(struct master *m, struct tw_context *ctx, uint32_t slot,
		      enum tw_member_state state)
{
	struct member *e = &m->member[slot];

	if (!e->live)
		return;
	tw_say(ctx, TW_INFO, "worker %u %s; %u remain%s", slot,
	       state == TW_LEFT ? "left" : "is gone", tw_master_live(m) - 1,
	       tw_master_live(m) == 2 ? "s" : "");
	unseat(m, slot);
	tw_cells_lost(m, ctx, slot);
	tw_host_lost(m, ctx, slot);
	e->steps = e->samples = 0;
	m->count.lost_copies +=
		state == TW_GONE && (tw_plan_own_parameters(m->plan) ||
				     (tw_plan_is_loose(m->plan) && !tw_plan_spreads(m->plan)));
	if (m->restart.begun)
		tw_speed_forget(m, slot);
	tw_deal_return(m, ctx, slot);
	tell_member(m, ctx, slot, state);
	tw_duties_lost(&m->duties, ctx, slot);
}

void tw_master_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node, slot = tw_master_slot_at(m, node);

	if (!(msg->h.flags & TW_FLAG_FRESH)) {
		tw_master_remove(m, ctx, msg->h.from,
				 msg->h.flags & TW_FLAG_LEAVE ? TW_LEFT : TW_GONE);
		return;
	}
	m->waits.came =
		true; /* if only to leave: those who are missing are waited for from now on */
	if (slot == UINT32_MAX && tw_plan_is_staged(m->plan))
		tw_cells_vacate(m, ctx, node); /* others waited with it */
	/* our welcome was on its way, or a shard has turned it away; if the word is an old one, the
	 * node hears that it is out */
	if (slot == UINT32_MAX)
		return;
	tw_master_refuse_node(ctx, node, m->member[slot].incarnation, TW_REFUSED_FENCED);
	tw_master_remove(m, ctx, slot, TW_LEFT);
}

void tw_master_expel(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t node,
		     enum tw_refusal why)
{
	tw_master_refuse_node(ctx, node, m->member[slot].incarnation, why);
	tw_master_remove(m, ctx, slot, TW_GONE);
	tw_cells_hold(m, ctx, node, 0); /* what it holds is not asked of it any more */
}

/* Who of this worker pushes to this shard: itself, or a cell, which is named. */
static uint32_t pusher(const struct master *m, uint32_t slot, uint32_t shard, char *cell,
		       size_t room)
{
	uint32_t which;

	if (!tw_plan_is_staged(m->plan))
		return m->member[slot].node;
	which = tw_plan_cell_for(m->plan, m->plan->staging.stage_of[shard], 0);
	snprintf(cell, room, ".%u", which);
	return tw_cell_at(m, slot, which)->node;
}

void tw_master_let_go(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_refuse *b = &msg->b.refuse;
	const uint32_t s = msg->h.shard;
	const struct member *e;
	char cell[16] = "";
	uint32_t node;

	if (b->why != TW_REFUSED_NUMBERS || s >= m->plan->problem.shards ||
	    b->slot >= m->plan->crew.workers)
		return;
	e = &m->member[b->slot];
	if (msg->from.node != (tw_master_has_replicas(m) ? e->node : m->shard[s].node))
		return;
	if (!e->live || e->incarnation != msg->h.incarnation)
		return;
	node = pusher(m, b->slot, s, cell, sizeof cell);
	tw_say(ctx, TW_WARNING,
	       "worker %u%s is removed: %d of its contributions in a row were not finite, while "
	       "those of other workers were",
	       b->slot, cell, TW_STRIKES);
	tw_master_expel(m, ctx, b->slot, node, TW_REFUSED_NUMBERS);
}

void tw_master_admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	uint32_t slot = tw_master_slot_at(m, msg->from.node);
	bool turned_away = false; /* by a shard, although it is who it says */

	if (slot != UINT32_MAX && m->member[slot].boot == msg->b.hello.boot)
		turned_away = m->member[slot].incarnation == msg->h.incarnation;
	if (slot != UINT32_MAX && m->member[slot].boot == msg->b.hello.boot &&
	    !m->member[slot].heard && !turned_away) { /* it asked twice */
		tw_master_welcome(m, ctx, slot);
		tw_deal_resend(m, ctx, slot);
		return;
	}
	if (slot != UINT32_MAX) /* the same machine, without its memory */
		tw_master_remove(m, ctx, slot, TW_GONE);
	if (tw_master_is_barred(m, msg->from.node, msg->b.hello.boot)) {
		refuse(ctx, msg, TW_REFUSED_STUCK);
		return;
	}
	slot = msg->b.hello.slot;
	if (slot >= m->plan->crew.workers || m->member[slot].live)
		slot = tw_slots_first_free(&m->members.live);
	if (slot == TW_NO_SLOT) {
		refuse(ctx, msg, TW_REFUSED_FULL);
		return;
	}
	m->member[slot].own = msg->b.hello.own;
	tw_master_take_in(m, ctx, slot, msg->from.node, msg->b.hello.boot);
	for (uint32_t s = 0; s < m->plan->problem.shards && turned_away; s++)
		if (tw_shard_has_home(&m->shard[s])) /* it may believe somebody else */
			tw_master_full_view(m, ctx, s);
}

void tw_master_take_in(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t node,
		       uint32_t boot)
{
	struct member *e = &m->member[slot];

	seat(m, slot, node);
	tw_deal_appetite(m, slot, APPETITE_HUNGRY);
	e->boot = boot;
	e->incarnation = tw_master_new_incarnation(m, ctx);
	e->held.next = (uint64_t)ctx->boot << 20; /* newer than any master's before */
	e->held.confirmed = 0;
	e->idle = e->heard = false;
	tw_verdict_master_active(m, slot);
	tw_master_welcome(m, ctx, slot);
	tell_member(m, ctx, slot, TW_LIVE);
	tw_duties_joined(&m->duties, ctx, slot);
	if (m->phase == PHASE_DRAIN) /* others must not wait for it: it gets nothing to do now */
		tw_deal_tell_idle(m, ctx, slot, true);
}

/* --- coming back ----------------------------------------------------------------------------- */

/* Has this master taken all shards from a checkpoint?  Then workers begin from there, too. */
static bool began_from_cut(const struct master *m)
{
	return tw_master_assigned(m) && !tw_master_adopted_any(m);
}

/* A cell says that it is still here.  True: its worker is not, as far as this master knows. */
static bool is_lost_cell(const struct master *m, const struct tw_msg *msg)
{
	const struct tw_body_hello *h = &msg->b.hello;
	const struct member *e = &m->member[h->slot];

	return tw_plan_is_staged(m->plan) &&
	       !(e->incarnation == h->incarnation && tw_master_is_of(m, msg->from.node, h->slot));
}

void tw_master_rejoin(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_hello *h = &msg->b.hello;
	const struct tw_range *list = msg->tail ? (const void *)msg->tail->data : NULL;
	struct member *e;

	if (h->slot >= m->plan->crew.workers || is_lost_cell(m, msg)) {
		refuse(ctx, msg, TW_REFUSED_FENCED);
		return;
	}
	e = &m->member[h->slot];
	if (e->incarnation == h->incarnation && tw_master_is_of(m, msg->from.node, h->slot)) {
		/* the drain comes last: a lease that it hears of now begins no work */
		tw_deal_resend(m, ctx, h->slot);
		tw_master_places(m, ctx, h->slot, m->phase != PHASE_DRAIN);
		tw_checkpoint_master_ask_worker(m, ctx, h->slot);
		return;
	}
	/* removed by this very master, or too late: the shards know the members without it; what it
	 * keeps would not fit to what they have */
	if ((tw_plan_worker_goes_back(m->plan) && began_from_cut(m)) || e->live ||
	    h->incarnation >> 20 >= ctx->boot || e->incarnation >= h->incarnation ||
	    m->restart.begun || m->phase != PHASE_GATHER) {
		refuse(ctx, msg, TW_REFUSED_FENCED);
		return;
	}
	tw_master_heard_survivor(m);
	e->own = h->own;
	seat(m, h->slot, msg->from.node);
	e->heard = true;
	e->boot = h->boot;
	e->incarnation = h->incarnation;
	e->held.next = (uint64_t)ctx->boot << 20;
	e->steps = h->steps;
	e->samples = h->samples;
	e->held.generation = msg->h.view;
	if (!tw_master_rounds(m) &&
	    !tw_deal_adopt(m, ctx, h->slot, list, msg->h.tail / sizeof *list))
		return;
	if (e->held.count == 0)
		tw_deal_asks(m, h->slot);
	tell_member(m, ctx, h->slot, TW_LIVE);
	tw_master_places(m, ctx, h->slot, m->phase != PHASE_DRAIN);
	tw_host_came_back(m, ctx, h->slot);
}

void tw_master_reconnected(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	tw_master_welcome(m, ctx, slot);
	tw_deal_resend(m, ctx, slot);
	tw_master_places(m, ctx, slot, m->phase != PHASE_DRAIN);
	tw_host_resync_replica(m, ctx, slot);
	tw_mix_master_resync(m, ctx, slot);
	tw_duties_back(&m->duties, ctx, slot);
}
