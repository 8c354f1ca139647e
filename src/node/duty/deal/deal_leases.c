/* SPDX-License-Identifier: Apache-2.0 */
/* deal_leases.c - what members hold: leases are opened, come home done, are returned, adopted and
 * sent again.
 *
 *  (1) a lease is open exactly while its positions are in `taken` and somebody may work on them.
 *  (2) what a worker held when it went is dealt again whole: on a round gate none of it was
 *      applied; elsewhere some shards may have applied some of it, and count that as repeated.
 *  (3) what was dropped as late comes back with the lease that is done, and is dealt again. */
#include "node/duty/deal/deal_state.h"

/* Say to the shards of a gate that asks who is active that this worker has nothing to do, or has
 * again. */
void tw_deal_tell_idle(struct master *m, struct tw_context *ctx, uint32_t slot, bool idle)
{
	struct member *e = &m->member[slot];

	if (e->idle == idle)
		return;
	e->idle = idle;
	tw_verdict_master_active(m, slot);
	if (!tw_plan_shards_know_active(m->plan))
		return;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (!tw_deal_idle_to(m, ctx, slot, s, 0))
			return;
}

void tw_deal_no_more(struct master *m, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live && m->member[k].held.count == 0)
			tw_deal_tell_idle(m, ctx, k, true);
}

/* A lease is done up to here: what is in it was applied.  Of what the worker says that it has
 * computed, which may be more, no more than that counts yet. */
static void count_done(struct master *m, struct tw_context *ctx, struct member *e,
		       const struct tw_body_done *d, const struct open_lease *l, uint64_t late)
{
	const uint64_t upto = d->upto < l->to ? d->upto : l->to;
	const uint64_t said = d->samples > e->samples ? d->samples - e->samples : 0;
	uint64_t samples = upto > l->from ? upto - l->from : 0;
	uint64_t steps = d->steps > e->steps ? d->steps - e->steps : 0;

	samples -= late < samples ? late : samples;

	samples = samples < said ? samples : said;
	steps = steps < samples ? steps : samples;
	e->samples += samples;
	e->steps += steps;
	if (!samples)
		return;
	m->count.samples += samples;
	m->count.steps += steps;
	tw_duties_updated(&m->duties, ctx);
}

/* (3): returns how many positions come back. */
static uint64_t deal_late_again(struct master *m, struct tw_context *ctx, const struct tw_msg *msg,
				const struct open_lease *l)
{
	const struct tw_range *late = msg->tail ? (const void *)msg->tail->data : NULL;
	const uint64_t upto = msg->b.done.upto < l->to ? msg->b.done.upto : l->to;
	uint64_t count = 0;

	for (size_t k = 0; k < msg->h.tail / sizeof *late; k++) {
		if (late[k].from < l->from || late[k].from >= upto ||
		    late[k].count > upto - late[k].from)
			continue; /* not of this lease */
		if (tw_deal_give_back(m, late[k].from, late[k].from + late[k].count) != TW_OK)
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for samples that came too late");
		count += late[k].count;
	}
	m->count.redealt += count;
	return count;
}

void tw_deal_done(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_done *d = &msg->b.done;
	const uint32_t slot = msg->h.from;
	struct member *e = &m->member[slot];

	if (d->lease > e->held.next) /* it was never given */
		return;
	tw_speed_told(m, slot, d->losses, d->busy);
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
			tw_give_up(ctx, TW_NO_MEMORY,
				   "no memory for samples that a worker returned");
		tw_deal_close_lease(m, slot, k);
		if (d->upto >= l.to && m->dealer->done)
			m->dealer->done(m, ctx, slot, l.from);
		count_done(m, ctx, e, d, &l, deal_late_again(m, ctx, msg, &l));
		tw_deal_finished(m, ctx, e, l.to - l.from);
		break;
	}
	if (e->held.count == 0 && (tw_deal_was_told(e) || m->phase == PHASE_DRAIN))
		tw_deal_tell_idle(m, ctx, slot, true);
	tw_deal_note_progress(m, ctx);
}

void tw_deal_return(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	struct tw_spans back;
	struct tw_span x;
	enum tw_status st = TW_OK;

	tw_spans_init(&back, m->heap);
	if (m->dealer->left)
		m->dealer->left(m, ctx, slot);
	for (uint32_t k = 0; k < e->held.count && st == TW_OK; k++) {
		st = tw_spans_add(&back, e->held.lease[k].from, e->held.lease[k].to, NULL);
		m->dealing.open_samples -= e->held.lease[k].to - e->held.lease[k].from;
		tw_online_master_spoilt(m, ctx, e->held.lease[k].from, e->held.lease[k].to);
	}
	m->dealing.open_leases -= e->held.count;
	e->held.count = 0;
	m->count.redealt += st == TW_OK ? tw_spans_total(&back) : 0;
	for (uint64_t at = 0; st == TW_OK && tw_spans_next(&back, at, &x); at = x.to)
		st = tw_deal_give_back(m, x.from, x.to);
	tw_spans_release(&back);
	tw_deal_appetite(m, slot, APPETITE_NONE);
	e->idle = false;
	if (st != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for samples of a lost worker");
}

bool tw_deal_adopt(struct master *m, struct tw_context *ctx, uint32_t slot,
		   const struct tw_range *list, size_t count)
{
	for (size_t k = 0; k < count; k++)
		if (!tw_deal_open(m, ctx, slot, list[k].lease, list[k].from,
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
			tw_online_master_spoilt(m, ctx, e->held.lease[i].from, e->held.lease[i].to);
		}
		if (m->dealer->undo)
			m->dealer->undo(m, ctx, k);
		e->held.count = 0;
		e->idle = false;
		tw_verdict_master_active(m, k);
		tw_deal_appetite(m, k, e->live ? APPETITE_HUNGRY : APPETITE_NONE);
	}
	m->dealing.open_leases = m->dealing.open_samples = 0;
	m->rounds.open = false;
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for samples of a lost worker");
}

/* A connection was made anew: say again what this worker may not have heard. */
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	for (uint32_t k = 0; m->dealer->renumbers && k < e->held.count; k++)
		e->held.lease[k].id = ++e->held.next; /* those in between are void */
	for (uint32_t k = 0; k < e->held.count; k++)
		tw_deal_send(m, ctx, slot, e->held.lease[k].id, e->held.lease[k].from,
			     e->held.lease[k].to);
	if (m->dealer->resend)
		m->dealer->resend(m, ctx, slot);
	if (tw_deal_was_told(e))
		tw_deal_send(m, ctx, slot, 0, 0, 0);
}
