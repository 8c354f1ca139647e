/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - which positions are dealt, open and done, who asks for more, and whether any are left.
 */
#include "node/kernel/ledger.h"
#include "base/grow.h"
#include "node/kernel/master_post.h"
#include "node/kernel/phase.h"

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

bool tw_deal_exhausted(const struct master *m)
{
	struct tw_span gap;

	if (tw_wishes(m, TW_WISH_END))
		return true;
	if (tw_master_rounds(m) && m->plan->ends.updates &&
	    m->rounds.number >= m->plan->ends.updates)
		return true;
	return !tw_spans_gap(&m->dealing.taken, 0, m->dealing.end, 1, &gap);
}

/* Some member has something to do since `since`. */
void tw_master_may_be_due(struct master *m, int64_t since)
{
	if (since + m->plan->crew.stuck < m->pace.earliest)
		m->pace.earliest = since + m->plan->crew.stuck;
}

double tw_master_updates(const struct master *m, double updates, double contributions)
{
	return tw_plan_counts_others(m->plan) ? contributions / m->plan->crew.workers : updates;
}

/* --- who asks -------------------------------------------------------------------------------- */

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
	if (m->dealer->appetite)
		m->dealer->appetite(m, slot);
}

void tw_deal_asks(struct master *m, uint32_t slot)
{
	if (m->member[slot].appetite == APPETITE_NONE)
		tw_deal_appetite(m, slot, APPETITE_HUNGRY);
}

/* --- positions and leases -------------------------------------------------------------------- */

enum tw_status tw_deal_take(struct master *m, uint64_t from, uint64_t to)
{
	const enum tw_status st = tw_spans_add(&m->dealing.taken, from, to, NULL);

	if (tw_spans_total(&m->dealing.taken) > m->dealing.frontier)
		m->dealing.frontier = tw_spans_total(&m->dealing.taken);
	return st;
}

enum tw_status tw_deal_give_back(struct master *m, uint64_t from, uint64_t to)
{
	m->dealing.again = true;
	if (m->dealer->came_back)
		m->dealer->came_back(m, from, to);
	return tw_spans_remove(&m->dealing.taken, from, to);
}

void tw_deal_busy(struct master *m, struct tw_context *ctx, struct member *e)
{
	e->asked = tw_now(ctx);
	tw_master_may_be_due(m, e->asked);
}

void tw_deal_finished(struct master *m, struct tw_context *ctx, struct member *e, uint64_t samples)
{
	const int64_t now = tw_now(ctx);

	tw_pace_add(&m->pace.work, (uint32_t)(e - m->member), now - e->asked, samples);
	e->asked = now;
	tw_master_may_be_due(m, now);
}

void tw_deal_showed(struct master *m, const struct member *e, int64_t took, uint64_t samples)
{
	if (!m->pace.work.count)
		tw_pace_add(&m->pace.work, (uint32_t)(e - m->member), took, samples);
}

bool tw_deal_open(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		  uint64_t from, uint64_t to)
{
	struct member *e = &m->member[slot];

	if (!TW_GROW(m->heap, e->held.lease, e->held.room, e->held.count,
		     (size_t)e->held.count + 1) ||
	    tw_deal_take(m, from, to) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a lease");
		return false;
	}
	if (e->held.count == 0)
		tw_deal_busy(m, ctx, e);
	e->held.lease[e->held.count++] = (struct open_lease){ id, from, to };
	m->dealing.open_leases++;
	m->dealing.open_samples += to - from;
	return true;
}

void tw_deal_close_lease(struct master *m, uint32_t slot, uint32_t k)
{
	struct member *e = &m->member[slot];

	m->dealing.open_samples -= e->held.lease[k].to - e->held.lease[k].from;
	memmove(e->held.lease + k, e->held.lease + k + 1,
		(--e->held.count - k) * sizeof *e->held.lease);
	m->dealing.open_leases--;
}

void tw_deal_close(struct master *m, uint32_t slot, uint64_t from)
{
	for (uint32_t k = m->member[slot].held.count; k-- > 0;)
		if (m->member[slot].held.lease[k].from == from)
			tw_deal_close_lease(m, slot, k);
}

static struct tw_msg *lease_of(struct master *m, struct tw_context *ctx, uint32_t slot,
			       struct tw_range range)
{
	struct tw_msg *msg = tw_master_to_worker(m, ctx, slot, TW_LEASE);
	const struct tw_plan *p = m->plan;

	if (!msg)
		return NULL;
	msg->h.incarnation = m->member[slot].incarnation;
	msg->b.lease = (struct tw_body_lease){
		.round = m->rounds.number,
		.confirmed = m->member[slot].held.confirmed,
		.range = range,
		.batch = tw_deal_batch(m, slot),
		.live = tw_master_live(m),
		.nominal = p->dealing.global_batch
				   ? (double)p->dealing.global_batch / tw_master_live(m)
				   : p->dealing.batch,
		.period = range.count ? m->dealer->period(m, slot) : 0,
	};
	return msg;
}

void tw_deal_send(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		  uint64_t from, uint64_t to)
{
	const struct tw_range range = { from, (uint32_t)(to - from), (uint32_t)id };
	struct tw_msg *msg = lease_of(m, ctx, slot, range);

	if (msg)
		tw_send(ctx, msg);
}

void tw_deal_send_next(struct master *m, struct tw_context *ctx, uint32_t slot,
		       struct tw_range range, uint32_t before)
{
	struct tw_msg *msg = lease_of(m, ctx, slot, range);

	if (!msg)
		return;
	msg->b.lease.round++;
	msg->b.lease.before = before;
	tw_send(ctx, msg);
}

void tw_deal_note(struct tw_context *ctx, uint32_t slot, uint64_t from, uint64_t to)
{
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DEAL,
					.slot = slot,
					.from = from,
					.count = (uint32_t)(to - from) });
}

void tw_deal_note_progress(struct master *m, struct tw_context *ctx)
{
	const double updates = m->dealer->updates ? m->dealer->updates(m) : NAN;

	tw_note(ctx, &(struct tw_note){
			     .kind = TW_NOTE_PROGRESS,
			     .round = m->rounds.number,
			     .progress = { .dealt = tw_spans_total(&m->dealing.taken),
					   .live = tw_master_live(m),
					   .point = { .samples = (double)m->count.samples,
						      .steps = (double)m->count.steps,
						      .updates = updates,
						      .train_loss = m->count.train_loss } } });
}
