/* SPDX-License-Identifier: Apache-2.0 */
/* deal.c - who works on which samples: leases, and what comes back.  Rounds are in master_rounds.c.
 *
 *  (1) `taken` holds every position that is dealt, done, dropped or refused; what is not in it is
 *      dealt next, lowest first, so an epoch's order is followed but for what comes back.
 *  (2) what a worker held when it went is dealt again whole: on a round gate none of it was
 *      applied; elsewhere some shards may have applied some of it, and count that as repeated.
 *  (3) hungry workers are served in ascending order of slots.  One that was told that there is
 *      nothing is not looked at again before that can have changed, so an event costs as many
 *      looks as it serves workers, plus one. */
#include "node/master.h"

#include <math.h>
#include <string.h>

uint32_t tw_deal_unit(const struct master *m)
{
	const struct tw_plan *p = m->plan;
	const uint32_t batch =
		p->dealing.global_batch
			? (p->dealing.global_batch + p->crew.workers - 1) / p->crew.workers
			: p->dealing.batch;

	return batch * p->dealing.accumulate * p->traffic.push;
}

uint32_t tw_deal_batch(const struct master *m, uint32_t slot)
{
	const uint64_t g = m->plan->dealing.global_batch, n = tw_master_live(m);
	uint64_t k;

	if (!g)
		return m->plan->dealing.batch;
	k = tw_slots_rank(&m->members.live, slot);
	return (uint32_t)(g * (k + 1) / n - g * k / n);
}

bool tw_deal_too_early(const struct master *m, uint32_t slot)
{
	return m->plan->dealing.warm_until && m->dealing.frontier < m->plan->dealing.warm_until &&
	       tw_slots_rank(&m->members.live, slot) >= m->plan->dealing.warm_workers;
}

bool tw_deal_next_range(const struct master *m, uint64_t end, uint64_t most, struct tw_span *out)
{
	const struct tw_plan *p = m->plan;
	uint64_t border;

	if (!tw_spans_gap(&m->dealing.taken, 0, end, most, out))
		return false;
	border = (out->from / p->problem.samples + 1) * p->problem.samples;
	if (p->dealing.warm_until && out->from < p->dealing.warm_until &&
	    p->dealing.warm_until < border)
		border = p->dealing.warm_until;
	if (out->to > border)
		out->to = border;
	return true;
}

bool tw_deal_exhausted(const struct master *m)
{
	struct tw_span gap;

	if (m->wish.time_up || m->wish.finish)
		return true;
	if (tw_master_rounds(m) && m->plan->ends.updates &&
	    m->rounds.number >= m->plan->ends.updates)
		return true;
	return !tw_spans_gap(&m->dealing.taken, 0, m->plan->dealing.positions, 1, &gap);
}

enum tw_status tw_deal_init(struct master *m)
{
	struct dealing *d = &m->dealing;
	const uint32_t slots = m->plan->crew.workers;

	if (tw_slots_init(&d->hungry, m->heap, slots) != TW_OK ||
	    tw_slots_init(&d->dry, m->heap, slots) != TW_OK ||
	    tw_slots_init(&d->early, m->heap, slots) != TW_OK)
		return TW_NO_MEMORY;
	return TW_OK;
}

void tw_deal_release(struct master *m)
{
	tw_slots_release(&m->dealing.hungry);
	tw_slots_release(&m->dealing.dry);
	tw_slots_release(&m->dealing.early);
	tw_spans_release(&m->dealing.taken);
}

void tw_deal_appetite(struct master *m, uint32_t slot, enum appetite to)
{
	struct dealing *d = &m->dealing;
	struct tw_slots *const of[] = { NULL, &d->hungry, &d->dry, &d->early };
	struct member *e = &m->member[slot];

	if (of[e->appetite])
		tw_slots_put(of[e->appetite], slot, false);
	if (of[to])
		tw_slots_put(of[to], slot, true);
	e->appetite = to;
	tw_round_put(m, slot, e->stripe.state);
}

void tw_deal_asks(struct master *m, uint32_t slot)
{
	if (m->member[slot].appetite == APPETITE_NONE)
		tw_deal_appetite(m, slot, APPETITE_HUNGRY);
}

enum tw_status tw_deal_take(struct master *m, uint64_t from, uint64_t to)
{
	const enum tw_status st = tw_spans_add(&m->dealing.taken, from, to, NULL);

	if (st == TW_OK && to > m->dealing.frontier)
		m->dealing.frontier = to;
	return st;
}

enum tw_status tw_deal_give_back(struct master *m, uint64_t from, uint64_t to)
{
	m->dealing.again = true;
	return tw_spans_remove(&m->dealing.taken, from, to);
}

void tw_deal_send(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		  uint64_t from, uint64_t to)
{
	struct tw_msg *msg = tw_master_to_worker(m, ctx, slot, TW_LEASE);
	const struct tw_plan *p = m->plan;

	if (!msg)
		return;
	msg->h.incarnation = m->member[slot].incarnation;
	msg->b.lease = (struct tw_body_lease){
		.round = m->rounds.number,
		.confirmed = m->member[slot].held.confirmed,
		.range = { from, (uint32_t)(to - from), (uint32_t)id },
		.batch = tw_deal_batch(m, slot),
		.live = tw_master_live(m),
		.nominal = p->dealing.global_batch
				   ? (double)p->dealing.global_batch / tw_master_live(m)
				   : p->dealing.batch,
	};
	tw_send(ctx, msg);
}

bool tw_deal_idle_to(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard,
		     uint32_t flags)
{
	const struct member *e = &m->member[slot];
	struct tw_msg *msg = tw_master_to_shard(m, ctx, shard, TW_IDLE);

	if (!msg)
		return false;
	msg->h.flags = flags;
	msg->b.idle = (struct tw_body_idle){ slot, e->incarnation, e->idle, 0 };
	tw_send(ctx, msg);
	return true;
}

/* Say to the shards of a gate that holds that this worker has nothing to do, or has again. */
static void tell_idle(struct master *m, struct tw_context *ctx, uint32_t slot, bool idle)
{
	struct member *e = &m->member[slot];

	if (e->idle == idle)
		return;
	e->idle = idle;
	if (!(m->plan->gate->traits & TW_GATE_HOLDS))
		return;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (!tw_deal_idle_to(m, ctx, slot, s, 0))
			return;
}

void tw_deal_no_more(struct master *m, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live && m->member[k].held.count == 0)
			tell_idle(m, ctx, k, true);
}

static bool open_lease(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		       uint64_t from, uint64_t to)
{
	struct member *e = &m->member[slot];

	if (e->held.count == e->held.room) {
		const uint32_t room = e->held.room ? 2 * e->held.room : 4;
		struct open_lease *bigger = tw_heap_zeros(m->heap, room * sizeof *bigger);

		if (!bigger)
			goto fail;
		if (e->held.count)
			memcpy(bigger, e->held.lease, e->held.count * sizeof *bigger);
		m->heap->put(m->heap, e->held.lease);
		e->held.lease = bigger;
		e->held.room = room;
	}
	if (tw_deal_take(m, from, to) != TW_OK)
		goto fail;
	if (e->held.count == 0)
		tw_stuck_asked(m, ctx, e);
	e->held.lease[e->held.count++] = (struct open_lease){ id, from, to };
	m->dealing.open_leases++;
	return true;
fail:
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for a lease");
	return false;
}

static void close_lease(struct master *m, uint32_t slot, uint32_t k)
{
	struct member *e = &m->member[slot];

	memmove(e->held.lease + k, e->held.lease + k + 1,
		(--e->held.count - k) * sizeof *e->held.lease);
	m->dealing.open_leases--;
}

/* --- without rounds ------------------------------------------------------------------------ */

static uint64_t lease_size(const struct master *m, uint32_t slot)
{
	const struct tw_plan *p = m->plan;
	const uint64_t unit =
		(uint64_t)tw_deal_batch(m, slot) * p->dealing.accumulate * p->traffic.push;
	const uint64_t done = tw_spans_total(&m->dealing.taken);
	const uint64_t left = p->dealing.positions > done ? p->dealing.positions - done : 0;
	uint64_t units = left / (4 * (uint64_t)(tw_master_live(m) ? tw_master_live(m) : 1) *
				 (unit ? unit : 1));

	if (p->checkpoint.every && units > 16)
		units = 16;
	units = units < 1 ? 1 : units > 64 ? 64 : units;
	return units * unit;
}

void tw_deal_note(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t from,
		  uint64_t to)
{
	tw_score_dealt(m, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DEAL,
					.slot = slot,
					.from = from,
					.count = (uint32_t)(to - from) });
}

void tw_deal_note_progress(struct master *m, struct tw_context *ctx)
{
	const struct tw_point label = {
		.samples = (double)m->count.samples,
		.steps = (double)m->count.steps,
		.updates = tw_master_rounds(m) ? (double)m->rounds.number : NAN,
		.train_loss = m->count.train_loss,
	};

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PROGRESS,
					.count = tw_master_live(m),
					.from = tw_spans_total(&m->dealing.taken),
					.value = m->count.train_loss,
					.round = m->rounds.number,
					.label = label });
}

/* A lease for this worker, if there is one; *warm: it is the last of the warm start. */
static bool lease_to(struct master *m, struct tw_context *ctx, uint32_t slot, bool *warm)
{
	const uint64_t until = m->plan->dealing.warm_until;
	const bool was_warm = until && m->dealing.frontier < until;
	struct member *e = &m->member[slot];
	struct tw_span r;

	if (tw_deal_exhausted(m) || tw_deal_too_early(m, slot) || !tw_deal_batch(m, slot) ||
	    !tw_deal_next_range(m, m->plan->dealing.positions, lease_size(m, slot), &r))
		return false;
	e->held.next++;
	if (!open_lease(m, ctx, slot, e->held.next, r.from, r.to))
		return true; /* the run is given up */
	tw_deal_appetite(m, slot, APPETITE_NONE);
	tell_idle(m, ctx, slot, false);
	tw_deal_note(m, ctx, slot, r.from, r.to);
	tw_deal_send(m, ctx, slot, e->held.next, r.from, r.to);
	*warm = was_warm && m->dealing.frontier >= until;
	return true;
}

/* There is nothing for this worker: it is told so once. */
static void leave_dry(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	const bool told = tw_deal_was_told(e);

	tw_deal_appetite(m, slot, tw_deal_exhausted(m) ? APPETITE_DRY : APPETITE_EARLY);
	if (!told)
		tw_deal_send(m, ctx, slot, 0, 0, 0);
	if (e->held.count == 0)
		tell_idle(m, ctx, slot, true);
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

/* (3) Everybody who may get something is looked at; nobody else would be told anything new. */
static void serve(struct master *m, struct tw_context *ctx)
{
	struct dealing *d = &m->dealing;
	bool early = false; /* it is not the turn of anybody from here on */
	uint32_t k = 0;

	for (;; k++) {
		const bool left = !tw_deal_exhausted(m);
		bool warm = false;

		if (!left && anybody_asks(d, k))
			tw_score_dry(m, ctx);
		k = next_to_look_at(d, k, left && d->again, left && d->turns && !early);
		if (k == TW_NO_SLOT)
			break;
		if (!lease_to(m, ctx, k, &warm)) {
			early = early || tw_deal_too_early(m, k);
			leave_dry(m, ctx, k);
		}
		if (warm) { /* the others may begin */
			d->turns = true;
			early = false;
			k = UINT32_MAX;
		}
	}
	if (!tw_deal_exhausted(m))
		d->again = d->turns = false;
}

/* A lease is done up to here: what is in it was applied.  Of what the worker says that it has
 * computed, which may be more, no more than that counts yet. */
static void count_done(struct master *m, struct tw_context *ctx, struct member *e,
		       const struct tw_body_done *d, const struct open_lease *l)
{
	const uint64_t upto = d->upto < l->to ? d->upto : l->to;
	const uint64_t said = d->samples > e->samples ? d->samples - e->samples : 0;
	uint64_t samples = upto > l->from ? upto - l->from : 0;
	uint64_t steps = d->steps > e->steps ? d->steps - e->steps : 0;

	samples = samples < said ? samples : said;
	steps = steps < samples ? steps : samples;
	e->samples += samples;
	e->steps += steps;
	if (samples)
		tw_score_more(m, ctx, samples, steps);
}

void tw_deal_done(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_done *d = &msg->b.done;
	const uint32_t slot = msg->h.from;
	struct member *e = &m->member[slot];

	m->count.loss_sum += d->loss;
	m->count.loss_samples += d->losses;
	if (m->count.loss_samples)
		m->count.train_loss = m->count.loss_sum / (double)m->count.loss_samples;
	if (m->count.loss_samples > m->plan->problem.samples) { /* a mean over about an epoch */
		m->count.loss_sum /= 2;
		m->count.loss_samples /= 2;
	}
	if (d->lease > e->held.confirmed)
		e->held.confirmed = d->lease;
	for (uint32_t k = 0; k < e->held.count; k++) {
		const struct open_lease l = e->held.lease[k];

		if (l.id != d->lease)
			continue;
		if (d->upto < l.to &&
		    tw_deal_give_back(m, d->upto > l.from ? d->upto : l.from, l.to) != TW_OK)
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for what was given back");
		close_lease(m, slot, k);
		count_done(m, ctx, e, d, &l);
		tw_stuck_finished(m, ctx, e);
		break;
	}
	if (e->held.count == 0 && (tw_deal_was_told(e) || m->phase == PHASE_DRAIN))
		tell_idle(m, ctx, slot, true);
	tw_deal_note_progress(m, ctx);
}

void tw_deal_return(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	struct tw_spans back;
	struct tw_span x;
	enum tw_status st = TW_OK;

	tw_spans_init(&back, m->heap);
	for (uint32_t k = 0; k < e->held.count && st == TW_OK; k++)
		st = tw_spans_add(&back, e->held.lease[k].from, e->held.lease[k].to, NULL);
	m->dealing.open_leases -= e->held.count;
	e->held.count = 0;
	m->count.redealt += st == TW_OK ? tw_spans_total(&back) : 0;
	for (uint64_t at = 0; st == TW_OK && tw_spans_next(&back, at, &x); at = x.to)
		st = tw_deal_give_back(m, x.from, x.to);
	tw_spans_release(&back);
	tw_deal_appetite(m, slot, APPETITE_NONE);
	e->idle = false;
	if (e->stripe.state == STRIPE_REFUSED) {
		m->count.refused++;
	} else if (e->stripe.state == STRIPE_STAGING) {
		m->count.redealt += e->stripe.count;
		if (st == TW_OK)
			st = tw_deal_give_back(m, e->stripe.from, e->stripe.from + e->stripe.count);
	}
	if (e->stripe.state != STRIPE_COMPLETE) /* that one counts, although its worker is gone */
		tw_round_put(m, slot, STRIPE_NONE);
	if (st != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for what comes back");
}

bool tw_deal_adoptable(const struct master *m, const struct tw_range *list, size_t count)
{
	for (size_t k = 0; k < count; k++)
		if (!list[k].count || list[k].from >= m->plan->dealing.positions ||
		    list[k].count > m->plan->dealing.positions - list[k].from)
			return false;
	return true;
}

bool tw_deal_adopt(struct master *m, struct tw_context *ctx, uint32_t slot,
		   const struct tw_range *list, size_t count)
{
	for (size_t k = 0; k < count; k++)
		if (!open_lease(m, ctx, slot, list[k].lease, list[k].from,
				list[k].from + list[k].count))
			return false;
	return true;
}

void tw_deal_forget(struct master *m, struct tw_context *ctx)
{
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		struct member *e = &m->member[k];

		for (uint32_t i = 0; i < e->held.count && st == TW_OK; i++) {
			m->count.redealt += e->held.lease[i].to - e->held.lease[i].from;
			st = tw_deal_give_back(m, e->held.lease[i].from, e->held.lease[i].to);
		}
		if (tw_round_planned(e) && st == TW_OK) {
			m->count.redealt += e->stripe.count;
			st = tw_deal_give_back(m, e->stripe.from, e->stripe.from + e->stripe.count);
		}
		e->held.count = 0;
		e->idle = false;
		tw_round_put(m, k, STRIPE_NONE);
		tw_deal_appetite(m, k, e->live ? APPETITE_HUNGRY : APPETITE_NONE);
	}
	m->dealing.open_leases = 0;
	m->rounds.open = false;
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for what comes back");
}

/* A connection was made anew: say again what this worker may not have heard. */
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	for (uint32_t k = 0; k < e->held.count; k++)
		tw_deal_send(m, ctx, slot, e->held.lease[k].id, e->held.lease[k].from,
			     e->held.lease[k].to);
	if (tw_round_planned(e) && e->stripe.incarnation == e->incarnation)
		tw_deal_send(m, ctx, slot, e->held.next, e->stripe.from,
			     e->stripe.from + e->stripe.count);
	if (tw_deal_was_told(e))
		tw_deal_send(m, ctx, slot, 0, 0, 0);
}

void tw_deal(struct master *m, struct tw_context *ctx)
{
	if (tw_master_rounds(m))
		tw_round_deal(m, ctx);
	else if (m->phase == PHASE_RUN && !m->waits.paused)
		serve(m, ctx);
}
