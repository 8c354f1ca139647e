/* SPDX-License-Identifier: Apache-2.0 */
/* deal.c - who works on which samples: leases, rounds, and what comes back.
 *
 *  (1) `taken` holds every position that is dealt, done, dropped or refused; what is not in it is
 *      dealt next, lowest first, so an epoch's order is followed but for what comes back.
 *  (2) a round's stripes lie in one epoch, in slot order; a round is committed with those whose
 *      contribution is staged on *every* shard, dead or alive, and with nobody else.
 *  (3) what a worker held when it went is dealt again whole: on a round gate none of it was
 *      applied; elsewhere some shards may have applied some of it, and count that as repeated. */
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

static uint32_t rank_of(const struct master *m, uint32_t slot)
{
	uint32_t rank = 0;

	for (uint32_t k = 0; k < slot; k++)
		rank += m->member[k].live;
	return rank;
}

static uint32_t batch_of(const struct master *m, uint32_t slot)
{
	const uint64_t g = m->plan->dealing.global_batch, k = rank_of(m, slot), n = m->live;

	if (!g)
		return m->plan->dealing.batch;
	return (uint32_t)(g * (k + 1) / n - g * k / n);
}

static bool warming(const struct master *m, uint32_t slot)
{
	return m->plan->dealing.warm_until && m->frontier < m->plan->dealing.warm_until &&
	       rank_of(m, slot) >= m->plan->dealing.warm_workers;
}

/* The next free range below `end`, at most `most` long, inside one epoch. */
static bool next_range(const struct master *m, uint64_t from, uint64_t end, uint64_t most,
		       struct tw_span *out)
{
	const struct tw_plan *p = m->plan;
	uint64_t border;

	if (!tw_spans_gap(&m->taken, from, end, most, out))
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

	if (m->time_up || m->want_finish)
		return true;
	if (tw_master_rounds(m) && m->plan->ends.updates && m->round >= m->plan->ends.updates)
		return true;
	return !tw_spans_gap(&m->taken, 0, m->plan->dealing.positions, 1, &gap);
}

void tw_deal_release(struct member *e, struct tw_heap *heap)
{
	heap->put(heap, e->lease);
	heap->put(heap, e->have);
	tw_block_drop(e->part);
	tw_block_drop(e->restore);
}

static void send_lease(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		       uint64_t from, uint64_t to)
{
	struct tw_msg *msg = tw_master_to_worker(m, ctx, slot, TW_LEASE);
	const struct tw_plan *p = m->plan;

	if (!msg)
		return;
	msg->h.incarnation = m->member[slot].incarnation;
	msg->b.lease = (struct tw_body_lease){
		.round = m->round,
		.confirmed = m->member[slot].confirmed,
		.range = { from, (uint32_t)(to - from), (uint32_t)id },
		.batch = batch_of(m, slot),
		.live = m->live,
		.nominal = p->dealing.global_batch ? (double)p->dealing.global_batch / m->live
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
		if (m->member[k].live && m->member[k].leases == 0)
			tell_idle(m, ctx, k, true);
}

static bool open_lease(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		       uint64_t from, uint64_t to)
{
	struct member *e = &m->member[slot];

	if (e->leases == e->room) {
		const uint32_t room = e->room ? 2 * e->room : 4;
		struct open_lease *bigger = tw_heap_zeros(m->heap, room * sizeof *bigger);

		if (!bigger)
			goto fail;
		if (e->leases)
			memcpy(bigger, e->lease, e->leases * sizeof *bigger);
		m->heap->put(m->heap, e->lease);
		e->lease = bigger;
		e->room = room;
	}
	if (tw_spans_add(&m->taken, from, to, NULL) != TW_OK)
		goto fail;
	if (e->leases == 0)
		tw_stuck_asked(e, ctx);
	e->lease[e->leases++] = (struct open_lease){ id, from, to };
	m->open_leases++;
	if (to > m->frontier)
		m->frontier = to;
	return true;
fail:
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for a lease");
	return false;
}

static void close_lease(struct master *m, uint32_t slot, uint32_t k)
{
	struct member *e = &m->member[slot];

	memmove(e->lease + k, e->lease + k + 1, (--e->leases - k) * sizeof *e->lease);
	m->open_leases--;
}

/* --- without rounds ------------------------------------------------------------------------ */

static uint64_t lease_size(const struct master *m, uint32_t slot)
{
	const struct tw_plan *p = m->plan;
	const uint64_t unit = (uint64_t)batch_of(m, slot) * p->dealing.accumulate * p->traffic.push;
	const uint64_t done = tw_spans_total(&m->taken);
	const uint64_t left = p->dealing.positions > done ? p->dealing.positions - done : 0;
	uint64_t units = left / (4 * (uint64_t)(m->live ? m->live : 1) * (unit ? unit : 1));

	if (p->checkpoint.every && units > 16)
		units = 16;
	units = units < 1 ? 1 : units > 64 ? 64 : units;
	return units * unit;
}

static void note_deal(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t from,
		      uint64_t to)
{
	tw_score_dealt(m, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DEAL,
					.slot = slot,
					.from = from,
					.count = (uint32_t)(to - from) });
}

static void note_progress(struct master *m, struct tw_context *ctx)
{
	const struct tw_point label = {
		.samples = (double)m->samples,
		.steps = (double)m->steps,
		.updates = tw_master_rounds(m) ? (double)m->round : NAN,
		.train_loss = m->train_loss,
	};

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PROGRESS,
					.count = m->live,
					.from = tw_spans_total(&m->taken),
					.value = m->train_loss,
					.round = m->round,
					.label = label });
}

static void deal_to(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	struct tw_span r;
	uint64_t id;

	if (!tw_deal_exhausted(m) && !warming(m, slot) && batch_of(m, slot) &&
	    next_range(m, 0, m->plan->dealing.positions, lease_size(m, slot), &r)) {
		const bool was_warm =
			m->plan->dealing.warm_until && m->frontier < m->plan->dealing.warm_until;

		id = ++e->next_lease;
		if (!open_lease(m, ctx, slot, id, r.from, r.to))
			return;
		e->hungry = e->dry = false;
		tell_idle(m, ctx, slot, false);
		note_deal(m, ctx, slot, r.from, r.to);
		send_lease(m, ctx, slot, id, r.from, r.to);
		if (was_warm && m->frontier >= m->plan->dealing.warm_until)
			tw_deal(m, ctx); /* the others may begin */
		return;
	}
	if (tw_deal_exhausted(m))
		tw_score_dry(m, ctx);
	if (!e->dry) {
		e->dry = true;
		send_lease(m, ctx, slot, 0, 0, 0);
	}
	if (e->leases == 0)
		tell_idle(m, ctx, slot, true);
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

	m->loss_sum += d->loss;
	m->loss_samples += d->losses;
	if (m->loss_samples)
		m->train_loss = m->loss_sum / (double)m->loss_samples;
	if (m->loss_samples > m->plan->problem.samples) { /* a mean over about an epoch */
		m->loss_sum /= 2;
		m->loss_samples /= 2;
	}
	if (d->lease > e->confirmed)
		e->confirmed = d->lease;
	for (uint32_t k = 0; k < e->leases; k++) {
		const struct open_lease l = e->lease[k];

		if (l.id != d->lease)
			continue;
		if (d->upto < l.to &&
		    tw_spans_remove(&m->taken, d->upto > l.from ? d->upto : l.from, l.to) != TW_OK)
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for what was given back");
		close_lease(m, slot, k);
		count_done(m, ctx, e, d, &l);
		tw_stuck_finished(m, ctx, e);
		break;
	}
	if (e->leases == 0 && ((e->hungry && e->dry) || m->phase == PHASE_DRAIN))
		tell_idle(m, ctx, slot, true);
	note_progress(m, ctx);
}

void tw_deal_return(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];
	struct tw_spans back;
	struct tw_span x;
	enum tw_status st = TW_OK;

	tw_spans_init(&back, m->heap);
	for (uint32_t k = 0; k < e->leases && st == TW_OK; k++)
		st = tw_spans_add(&back, e->lease[k].from, e->lease[k].to, NULL);
	m->open_leases -= e->leases;
	e->leases = 0;
	m->redealt += st == TW_OK ? tw_spans_total(&back) : 0;
	for (uint64_t at = 0; st == TW_OK && tw_spans_next(&back, at, &x); at = x.to)
		st = tw_spans_remove(&m->taken, x.from, x.to);
	tw_spans_release(&back);
	e->hungry = e->dry = e->idle = false;
	if (e->planned && !(e->complete && m->round_open)) {
		e->planned = false;
		m->planned--;
		if (e->refused) {
			m->refused++;
		} else {
			m->redealt += e->count;
			if (st == TW_OK)
				st = tw_spans_remove(&m->taken, e->from, e->from + e->count);
		}
	}
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

		for (uint32_t i = 0; i < e->leases && st == TW_OK; i++) {
			m->redealt += e->lease[i].to - e->lease[i].from;
			st = tw_spans_remove(&m->taken, e->lease[i].from, e->lease[i].to);
		}
		if (m->round_open && e->planned && st == TW_OK) {
			m->redealt += e->count;
			st = tw_spans_remove(&m->taken, e->from, e->from + e->count);
		}
		e->leases = 0;
		e->planned = e->complete = e->refused = e->behind = false;
		e->dry = e->idle = false;
		e->hungry = e->live;
	}
	m->open_leases = 0;
	m->round_open = false;
	m->planned = 0;
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for what comes back");
}

/* A connection was made anew: say again what this worker may not have heard. */
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	for (uint32_t k = 0; k < e->leases; k++)
		send_lease(m, ctx, slot, e->lease[k].id, e->lease[k].from, e->lease[k].to);
	if (e->planned && m->round_open && e->round_incarnation == e->incarnation)
		send_lease(m, ctx, slot, e->next_lease, e->from, e->from + e->count);
	if (e->dry)
		send_lease(m, ctx, slot, 0, 0, 0);
}

/* --- rounds --------------------------------------------------------------------------------- */

static bool plan_one(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const uint64_t size = (uint64_t)batch_of(m, slot) * m->plan->dealing.accumulate;
	struct member *e = &m->member[slot];
	uint64_t end = m->plan->dealing.positions;
	struct tw_span r;

	if (m->planned) { /* (2): the epoch of those planned already */
		for (uint32_t k = 0; k < m->plan->crew.workers; k++)
			if (m->member[k].planned) {
				const uint64_t border =
					(m->member[k].from / m->plan->problem.samples + 1) *
					m->plan->problem.samples;

				end = border < end ? border : end;
				break;
			}
	}
	if (!size || !next_range(m, 0, end, size, &r))
		return false;
	if (tw_spans_add(&m->taken, r.from, r.to, NULL) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a stripe");
		return false;
	}
	if (r.to > m->frontier)
		m->frontier = r.to;
	e->planned = true;
	e->round_incarnation = e->incarnation;
	e->round_node = e->node;
	e->complete = e->refused = e->hungry = false;
	e->have_count = 0;
	memset(e->have, 0, m->plan->problem.shards);
	e->from = r.from;
	e->count = (uint32_t)(r.to - r.from);
	m->planned++;
	tw_stuck_asked(e, ctx);
	note_deal(m, ctx, slot, r.from, r.to);
	send_lease(m, ctx, slot, ++e->next_lease, r.from, r.to);
	return true;
}

static void open_round(struct master *m, struct tw_context *ctx)
{
	m->round_open = true;
	m->planned = 0;
	m->since = tw_now(ctx);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		m->member[k].planned = m->member[k].complete = false;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live && !m->member[k].behind && !warming(m, k) &&
		    !plan_one(m, ctx, k)) {
			if (tw_deal_exhausted(m)) /* and not only at the end of an epoch */
				tw_score_dry(m, ctx);
			break;
		}
}

void tw_deal_commit_to(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg;
	void *tail;

	if (!m->set_sent || !m->shard[shard].hosted)
		return;
	msg = tw_master_to_shard(m, ctx, shard, TW_COMMIT);
	if (!msg)
		return;
	msg->b.commit.round = m->set_round;
	msg->b.commit.count = m->set_count;
	if (m->set_count) {
		tail = tw_msg_tail(ctx, msg, m->set_count * sizeof *m->set);
		if (!tail)
			return;
		memcpy(tail, m->set, m->set_count * sizeof *m->set);
	}
	tw_send(ctx, msg);
}

static void commit_round(struct master *m, struct tw_context *ctx)
{
	const bool abandons =
		m->plan->gate->abandons && m->plan->gate->abandons(m->plan->gate_options);

	m->set_count = 0;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		struct member *e = &m->member[k];

		if (!e->planned)
			continue;
		if (e->complete) {
			m->set[m->set_count++] = (struct tw_member){ k, e->round_incarnation,
								     TW_LIVE, e->round_node };
			m->steps += e->round_steps;
			m->samples += e->count;
			m->loss_sum += e->round_loss;
			m->loss_samples += e->count;
		} else if (e->refused) {
			m->refused++;
		} else {
			m->dropped += e->count;
			e->behind = !abandons;
			tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP,
							.slot = k,
							.shard = UINT32_MAX,
							.from = e->from,
							.count = e->count,
							.round = m->round });
		}
	}
	if (m->loss_samples)
		m->train_loss = m->loss_sum / (double)m->loss_samples;
	if (m->loss_samples > m->plan->problem.samples) {
		m->loss_sum /= 2;
		m->loss_samples /= 2;
	}
	m->set_round = m->round;
	m->set_sent = true;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_deal_commit_to(m, ctx, s);
	m->round++;
	m->round_open = false;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		m->member[k].planned = m->member[k].complete = false;
	m->planned = 0;
	tw_score_committed(m, ctx);
	note_progress(m, ctx);
}

/* Is the round due?  Contributions of the dead count where they are complete; those of the dead
 * that are not were given back. */
static bool round_full(const struct master *m)
{
	uint32_t complete = 0, stripes = 0, busy = 0;

	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct member *e = &m->member[k];
		const bool stripe = e->planned && !e->refused;

		stripes += stripe;
		complete += stripe && e->complete;
		busy += e->live && e->behind;
	}
	return complete == stripes ||
	       complete >= m->plan->gate->quorum(m->plan->gate_options, stripes, busy);
}

void tw_deal_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t s = msg->h.shard;
	struct member *e;

	if (msg->h.view != m->generation || s >= m->plan->problem.shards ||
	    m->shard[s].node != msg->from.node || h->slot >= m->plan->crew.workers)
		return;
	e = &m->member[h->slot];
	e->heard = e->heard || e->incarnation == h->incarnation;
	if (!m->round_open || h->round != m->round || !e->planned ||
	    e->round_incarnation != h->incarnation || e->refused || e->have[s])
		return;
	if (msg->h.flags & TW_FLAG_REFUSED) {
		e->refused = true;
		e->complete = false;
	} else {
		e->have[s] = 1;
		e->round_steps = h->steps;
		e->round_loss = h->loss;
		e->complete = ++e->have_count == m->plan->problem.shards;
		if (e->complete)
			tw_stuck_finished(m, ctx, e);
	}
}

static void deal_round(struct master *m, struct tw_context *ctx)
{
	for (;;) {
		if (m->round_open) {
			for (uint32_t k = 0; k < m->plan->crew.workers; k++)
				if (m->member[k].live && m->member[k].hungry &&
				    !m->member[k].planned && m->member[k].behind) {
					m->member[k].behind = false;
					tw_stuck_finished(m, ctx, &m->member[k]);
					if (!tw_deal_exhausted(m))
						plan_one(m, ctx, k);
				}
			if (m->planned == 0) {
				m->round_open = false; /* everybody went: nothing to commit */
				continue;
			}
			if (!round_full(m))
				return;
			commit_round(m, ctx);
			continue;
		}
		if (m->phase == PHASE_RUN && tw_deal_exhausted(m))
			tw_score_dry(m, ctx);
		/* between rounds: a cut, a pause or the end come first */
		if (m->phase != PHASE_RUN || m->paused || m->want_cut || m->want_stop ||
		    tw_master_must_move(m) || tw_deal_exhausted(m))
			return;
		for (uint32_t k = 0; k < m->plan->crew.workers; k++)
			if (m->member[k].hungry)
				m->member[k].behind = false;
		open_round(m, ctx);
		if (m->planned == 0) {
			m->round_open = false;
			return;
		}
	}
}

void tw_deal(struct master *m, struct tw_context *ctx)
{
	if (tw_master_rounds(m)) {
		deal_round(m, ctx);
		return;
	}
	if (m->phase != PHASE_RUN || m->paused)
		return;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live && m->member[k].hungry)
			deal_to(m, ctx, k);
}
