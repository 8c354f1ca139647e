/* SPDX-License-Identifier: Apache-2.0 */
/* deal_master.c - a stream of leases: who gets which samples next. What members hold is in
 * deal_leases.c, rounds are in duty/round.
 *
 *  (1) `taken` holds every position that is dealt, done, dropped or refused; what is not in it is
 *      dealt next, lowest first, so an epoch's order is followed but for what comes back.
 *  (2) hungry workers are served in ascending order of slots.  One that was told that there is
 *      nothing is not looked at again before that can have changed, so an event costs as many
 *      looks as it serves workers, plus one. */
#include "node/duty/deal/deal_state.h"

#include <stddef.h>

void tw_deal_seat(struct master *m, uint32_t slot, bool in)
{
	tw_speed_seat(m, slot, in);
	tw_orphans_seat(m, slot, in);
	tw_verdict_master_active(m, slot);
	m->dealing.turns = true;
}

/* Positions between two pushes. */
static uint64_t unit_of(const struct master *m, uint32_t slot)
{
	return (uint64_t)tw_deal_batch(m, slot) * m->plan->dealing.accumulate *
	       tw_speed_period(m, slot);
}

/* A range that crosses into a block which it would not finish ends before that block, so that few
 * workers read the same one: unless the period before the border would be cut short. */
static void end_with_block(const struct master *m, uint32_t slot, struct tw_span *r)
{
	const uint64_t block = m->plan->dealing.block, unit = unit_of(m, slot);
	const uint64_t epoch = r->from - r->from % m->plan->problem.samples;
	uint64_t border;

	if (!block || m->plan->dealing.subsets.count)
		return;
	border = r->to - (r->to - epoch) % block;
	if (border > r->from && border < r->to && (border - r->from) % unit == 0 &&
	    r->to != epoch + m->plan->problem.samples)
		r->to = border;
}

/* 0: evaluations come first. */
static uint64_t lease_size(const struct master *m, uint32_t slot)
{
	const struct tw_plan *p = m->plan;
	const uint64_t unit = unit_of(m, slot);
	const uint64_t done = tw_spans_total(&m->dealing.taken);
	const uint64_t left = p->dealing.positions > done ? p->dealing.positions - done : 0;
	uint64_t units = left / (4 * (uint64_t)(tw_master_live(m) ? tw_master_live(m) : 1) *
				 (unit ? unit : 1));

	if (p->checkpoint.every && units > 16)
		units = 16;
	units = units < 1 ? 1 : units > 64 ? 64 : units;
	if (tw_speed_units(m, slot) < units)
		units = tw_speed_units(m, slot);
	if (p->online.keeps) /* (1) in deal_arrivals.c */
		units = 1;
	return units * unit < tw_eval_master_room(m, unit)
		       ? units * unit
		       : tw_eval_master_room(m, unit) / unit * unit;
}

/* Leases for this worker, if there is something: one, or as many as are as long together, where a
 * range ends with its cell. */
static bool lease_to(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	uint64_t left;
	struct tw_span r;

	if (tw_deal_exhausted(m) || tw_deal_too_early(m, slot) || !tw_deal_batch(m, slot))
		return false;
	left = lease_size(m, slot);
	if (!left || !tw_deal_next_range(m, slot, tw_deal_end(m), left, &r) ||
	    !tw_deal_whole(m, unit_of(m, slot), &r))
		return false;
	end_with_block(m, slot, &r);
	do {
		e->held.next++;
		if (!tw_deal_open(m, ctx, slot, e->held.next, r.from, r.to))
			return true; /* the run is given up */
		tw_deal_appetite(m, slot, APPETITE_NONE);
		tw_deal_tell_idle(m, ctx, slot, false);
		tw_figures_steady_dealt(m, ctx);
		tw_deal_note(ctx, slot, r.from, r.to);
		tw_eval_master_ahead(m, ctx);
		tw_deal_send(m, ctx, slot, e->held.next, r.from, r.to);
		left -= r.to - r.from;
	} while (m->plan->dealing.subsets.count && left && !tw_deal_too_early(m, slot) &&
		 tw_deal_next_range(m, slot, tw_deal_end(m), left, &r));
	tw_orphans_pass(m, ctx);
	return true;
}

/* There is nothing for this worker: it is told so once. */
static void leave_dry(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	const bool told = tw_deal_was_told(e);

	tw_deal_appetite(m, slot,
			 tw_deal_too_early(m, slot) && !tw_deal_exhausted(m) ? APPETITE_EARLY
									     : APPETITE_DRY);
	if (!told)
		tw_deal_send(m, ctx, slot, 0, 0, 0);
	if (e->held.count == 0)
		tw_deal_tell_idle(m, ctx, slot, true);
}

static uint32_t next_to_look_at(const struct dealing *d, uint32_t from, bool dry, bool early)
{
	uint32_t first = tw_slots_next(&d->hungry, from);
	uint32_t k = dry ? tw_slots_next(&d->dry, from) : TW_NO_SLOT;

	first = k < first ? k : first;
	k = early ? tw_slots_next(&d->early, from) : TW_NO_SLOT;
	return k < first ? k : first;
}

/* Does anybody at or after this slot ask for work? */
static bool anybody_asks(const struct dealing *d, uint32_t from)
{
	return tw_slots_next(&d->hungry, from) != TW_NO_SLOT ||
	       tw_slots_next(&d->dry, from) != TW_NO_SLOT ||
	       tw_slots_next(&d->early, from) != TW_NO_SLOT;
}

/* (2) Everybody who may get something is looked at; nobody else would be told anything new. */
static void serve(struct master *m, struct tw_context *ctx)
{
	struct dealing *d = &m->dealing;
	bool early = false; /* it is not the turn of anybody from here on */
	uint32_t k = 0;

	tw_orphans_pass(m, ctx);
	tw_deal_look(m, ctx);
	for (;; k++) {
		const bool left = !tw_deal_exhausted(m);

		if (m->plan->dealing.warm_until &&
		    tw_deal_allowed(m) > d->allowed) { /* others may begin */
			d->turns = true;
			early = false;
			k = 0;
		}
		d->allowed = tw_deal_allowed(m);
		if (!left && anybody_asks(d, k))
			tw_figures_steady_dry(m, ctx);
		k = next_to_look_at(d, k, left && d->again && tw_orphans_may_help(m),
				    left && d->turns && !early);
		if (k == TW_NO_SLOT)
			break;
		if (!lease_to(m, ctx, k)) {
			early = early || tw_deal_too_early(m, k);
			leave_dry(m, ctx, k);
		}
	}
	if (!tw_deal_exhausted(m))
		d->again = d->turns = false;
}

/* --- the seat ---------------------------------------------------------------------------- */

static void deal(struct master *m, struct tw_context *ctx)
{
	if (m->phase == PHASE_RUN && !m->waits.paused)
		serve(m, ctx);
}

static void recall(struct master *m, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live)
			tw_master_places(m, ctx, k, false);
	tw_deal_no_more(m, ctx);
}

/* There is no more to deal, and the run cannot end. */
static bool waits(const struct master *m, uint32_t slot)
{
	return m->member[slot].held.count && tw_deal_exhausted(m);
}

/* It scores only. */
static bool excuses(const struct master *m, uint32_t slot)
{
	return !m->member[slot].held.count;
}

static bool may_wait(const struct master *m)
{
	return tw_eval_master_scores(m) || tw_deal_exhausted(m);
}

static const struct tw_dealer dealer = {
	.name = "stream",
	.deal = deal,
	.recall = recall,
	.came_back = tw_orphans_came_back,
	.period = tw_speed_tell,
	.waits = waits,
	.excuses = excuses,
	.may_wait = may_wait,
};

/* --- the duty ---------------------------------------------------------------------------- */

static enum tw_status open_books(void *actor)
{
	struct master *m = actor;
	struct dealing *d = &m->dealing;
	const uint32_t slots = m->plan->crew.workers;

	d->end = m->plan->dealing.positions;
	if (tw_slots_init(&d->hungry, m->heap, slots) != TW_OK ||
	    tw_slots_init(&d->dry, m->heap, slots) != TW_OK ||
	    tw_slots_init(&d->early, m->heap, slots) != TW_OK || tw_orphans_open(m) != TW_OK)
		return TW_NO_MEMORY;
	return tw_speeds_open(m);
}

static void close_books(void *actor)
{
	struct master *m = actor;

	tw_slots_release(&m->dealing.hungry);
	tw_slots_release(&m->dealing.dry);
	tw_slots_release(&m->dealing.early);
	tw_orphans_close(m);
	tw_speeds_close(m);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	tw_deal_done(actor, ctx, msg);
}

const struct tw_duty tw_deal_master = {
	.name = "deal",
	.bytes = sizeof(struct deal_master),
	.place = offsetof(struct master, deal),
	.hears = TW_HEARS(TW_DONE),
	.seat = &dealer,
	.open = open_books,
	.close = close_books,
	.message = message,
};
