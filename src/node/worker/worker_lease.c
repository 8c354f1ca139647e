/* SPDX-License-Identifier: Apache-2.0 */
/* worker_lease.c - a worker's leases: what it holds, what is done, and how it gives back the rest.
 *
 *  (1) leases are taken in the order in which they were given, each once.
 *  (2) a lease is done when every shard has closed the contribution with its last sample; it is
 *      told until the master confirms it, and with it what every shard dropped of it as late.
 *      One that was too late twice in a row gives back what it has not begun: it must not keep to
 *      the end what others could do.
 *  (3) one that drains or leaves pushes what it has computed first; only the rest is given back.
 *  (4) one that leaves also pushes what it owes.  Outside rounds that is a push of its own, on
 *      parameters that it reads for it; in a round only a stripe can carry it, so it works on one
 *      more (worker_answer.c).  What comes back is pushed again, TW_FAREWELLS times at most.
 *  (5) one that leaves replicas that differ waits until they have all of its contributions. */
#include "node/worker/worker.h"
#include "base/grow.h"

#include <math.h>
#include <string.h>

/* --- held and done ------------------------------------------------------------------------ */

void tw_worker_reset_leases(struct worker_leases *l)
{
	l->count = l->done_count = l->again_count = l->in_vain = 0;
	l->asked = l->draining = l->dry = false;
}

void tw_worker_want(struct worker *w, struct tw_context *ctx)
{
	struct tw_msg *m;

	if (w->leases.asked)
		return;
	m = tw_worker_to_master(w, ctx, TW_IDLE);
	if (!m)
		return;
	m->b.idle = (struct tw_body_idle){ w->me.id.slot, w->me.id.incarnation, 1,
					   (uint32_t)w->leases.last };
	w->leases.asked = true;
	w->since = tw_now(ctx);
	tw_send(ctx, m);
}

/* What came too late of this lease, into `out` if it is not NULL; returns how many ranges. */
static uint32_t late_of(const struct worker_leases *l, uint64_t id, struct tw_range *out)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < l->again_count; k++) {
		const struct given_back *g = &l->again[k];

		if (g->id != id)
			continue;
		if (out)
			out[count] = (struct tw_range){ g->from, g->count, (uint32_t)id };
		count++;
	}
	return count;
}

static void send_done(struct worker *w, struct tw_context *ctx, const struct done *d)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_DONE);
	const uint32_t late = late_of(&w->leases, d->id, NULL);
	struct tw_range *tail;

	if (!m)
		return;
	if (late) {
		tail = tw_msg_tail(ctx, m, late * sizeof *tail);
		if (!tail)
			return;
		late_of(&w->leases, d->id, tail);
	}
	m->b.done = (struct tw_body_done){ .lease = d->id,
					   .upto = d->upto,
					   .steps = w->steps,
					   .samples = w->samples,
					   .loss = w->loss,
					   .losses = w->losses,
					   .busy = (uint64_t)w->busy };
	w->loss = 0;
	w->losses = 0;
	w->busy = 0;
	tw_send(ctx, m);
}

const uint64_t *tw_worker_round(struct worker *w)
{
	const struct held *h = tw_worker_current(w);

	return h ? &h->round : NULL;
}

uint64_t tw_worker_positions_left(const struct worker *w)
{
	uint64_t left = 0;

	for (uint32_t k = 0; k < w->leases.count; k++)
		if (!w->leases.held[k].over)
			left += w->leases.held[k].to - w->leases.held[k].next;
	return left;
}

void tw_worker_drop_lease(struct worker *w, struct held *h)
{
	const size_t after = (size_t)(w->leases.held + w->leases.count - (h + 1));

	memmove(h, h + 1, after * sizeof *h);
	w->leases.count--;
}

void tw_worker_void_leases(struct worker *w, uint64_t round)
{
	struct worker_leases *l = &w->leases;
	uint32_t kept = 0;

	for (uint32_t k = 0; k < l->count; k++)
		if (l->held[k].round >= round ||
		    (tw_worker_busy(w) && l->held[k].id == w->step.compute.id))
			l->held[kept++] = l->held[k];
	l->count = kept;
}

/* (2): is nothing of it on its way any more? */
static bool is_done(const struct worker *w, const struct held *h)
{
	const uint64_t closed = w->driver->closed(w), begun = w->driver->begun(w);

	return (h->over && closed >= begun) || (h->closing && h->closing <= closed);
}

void tw_worker_was_late(struct worker *w)
{
	if (++w->leases.in_vain < 2 || w->step.state == STEP_COMPUTING || w->building.ranges)
		return;
	w->leases.in_vain = 0;
	for (uint32_t k = 0; k < w->leases.count; k++)
		w->leases.held[k].over = true;
}

void tw_worker_closings(struct worker *w, struct tw_context *ctx)
{
	struct worker_leases *l = &w->leases;
	const uint32_t count = l->count, told = l->done_count;
	uint32_t kept = 0;

	if (!w->leasing->closes)
		return; /* a round's lease ends with its commit, which the master knows first */
	if (w->exchange.outdated)
		w->building.fetch_due = true;
	w->exchange.outdated = false;
	if (w->exchange.landed)
		w->leases.in_vain = 0;
	w->exchange.landed = false;
	if (w->exchange.agains) {
		for (; w->exchange.agains; w->exchange.agains--)
			if (!tw_ledger_again(w, ctx, &w->exchange.again[w->exchange.agains - 1]))
				return;
		tw_worker_was_late(w);
	}
	for (uint32_t k = 0; k < count; k++) {
		const struct held h = l->held[k];

		if (!is_done(w, &h))
			l->held[kept++] = h;
		else if (!tw_ledger_done(w, ctx, (struct done){ h.id, h.next }))
			return;
	}
	l->count = kept;
	for (uint32_t k = told; k < l->done_count; k++)
		send_done(w, ctx, &l->done[k]);
}

/* --- given -------------------------------------------------------------------------------- */

static bool add_held(struct worker *w, struct tw_context *ctx, const struct tw_body_lease *b)
{
	struct worker_leases *l = &w->leases;

	if (!TW_GROW(w->heap, l->held, l->room, l->count, (size_t)l->count + 1)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a lease");
		return false;
	}
	l->held[l->count++] = (struct held){ .id = b->range.lease,
					     .from = b->range.from,
					     .to = b->range.from + b->range.count,
					     .next = b->range.from,
					     .round = b->round,
					     .batch = b->batch,
					     .period = b->period,
					     .nominal = b->nominal };
	return true;
}

void tw_worker_end_rounds(struct worker *w, struct tw_context *ctx)
{
	const struct tw_gate *gate = w->plan->gate;
	struct held *h;

	if (tw_gate_abandons(gate, w->plan->gate_options))
		tw_step_abandon(w, ctx);
	h = w->step.state == STEP_COMPUTING ? tw_worker_held(w, w->step.compute.id) : NULL;
	w->leases.count = h != NULL;
	if (h)
		w->leases.held[0] = *h;
}

/* plan.traffic.delay: a lease comes while the one of the round before is worked on.  Others are of
 * rounds that are over, or that the master opens anew. */
static void keep_round_before(struct worker *w, uint64_t round)
{
	struct worker_leases *l = &w->leases;
	uint32_t kept = 0;

	for (uint32_t k = 0; k < l->count; k++) {
		if (l->held[k].round + 1 == round ||
		    (w->step.state == STEP_COMPUTING && l->held[k].id == w->step.compute.id))
			l->held[kept++] = l->held[k];
		else if (l->held[k].round >= round)
			tw_exchange_withdraw(&w->exchange);
	}
	l->count = kept;
}

static bool round_replaces(struct worker *w, struct tw_context *ctx, const struct tw_body_lease *b)
{
	if (w->plan->traffic.delay)
		keep_round_before(w, b->round);
	else
		tw_worker_end_rounds(w, ctx);
	return false;
}

const struct tw_leasing tw_leasing_stream = {
	.name = "stream",
	.gapless = true,
	.closes = true,
	.fetches = true,
};

const struct tw_leasing tw_leasing_round = {
	.name = "round",
	.replaces = round_replaces,
	.fetches = true,
};

/* A range that can be worked on in steps: of the run, and inside one epoch unless stripes go beyond
 * the end of one. */
static bool workable(const struct worker *w, const struct tw_body_lease *b)
{
	const struct tw_plan *p = w->plan;
	const uint64_t from = b->range.from, count = b->range.count;

	return from < p->dealing.positions && count <= p->dealing.positions - from &&
	       (tw_plan_crosses_epochs(p) ||
		count <= p->problem.samples - from % p->problem.samples) &&
	       b->batch && b->nominal > 0 && isfinite(b->nominal);
}

void tw_worker_lease(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_lease *b = &m->b.lease;
	struct worker_leases *l = &w->leases;

	if (b->range.count && !workable(w, b))
		return;
	if (m->h.view > w->me.id.generation)
		tw_worker_reset(w, ctx, m->h.view);
	tw_ledger_confirmed(l, b->confirmed);
	if (b->range.count == 0) {
		l->dry = true;
		tw_worker_advance(w, ctx);
		return;
	}
	/* (1): in order, or one that was lost and is sent again would look old; a round's lease
	 * needs none before it */
	if (b->range.lease <= l->last || b->before > l->last ||
	    (w->leasing->gapless && b->range.lease != l->last + 1))
		return;
	if (l->dry && (w->plan->gate->traits & TW_GATE_HOLDS)) {
		/* others went on meanwhile: read again, and count from where they are */
		w->exchange.clock_known = false;
		w->building.fetch_due = true;
	}
	l->last = b->range.lease;
	l->asked = l->dry = l->draining = false; /* one sent again ends no drain */
	if (w->leasing->replaces && w->leasing->replaces(w, ctx, b))
		return;
	if (!add_held(w, ctx, b))
		return;
	w->since = tw_now(ctx);
	tw_worker_advance(w, ctx);
}

void tw_worker_resend_done(struct worker *w, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < w->leases.done_count; k++)
		send_done(w, ctx, &w->leases.done[k]);
}

void tw_worker_resend_leases(struct worker *w, struct tw_context *ctx)
{
	tw_worker_resend_done(w, ctx);
	if (w->leases.asked) {
		w->leases.asked = false;
		tw_worker_want(w, ctx);
	}
}

/* --- giving back -------------------------------------------------------------------------- */

static void leave(struct worker *w, struct tw_context *ctx)
{
	if (w->exchange.outs || w->leases.count)
		return;
	if (tw_worker_owes(w) && !tw_worker_rounds(w) && !w->stage &&
	    w->building.farewells < TW_FAREWELLS) {
		/* (4): of parameters as they are now */
		if (tw_exchange_owes(&w->exchange) && !tw_worker_read_again(w, ctx))
			return;
		w->building.reads_again = false;
		tw_worker_farewell(w, ctx);
		return;
	}
	if (tw_plan_is_loose(w->plan) && !tw_worker_rounds(w) &&
	    !tw_exchange_is_spread(&w->exchange, ctx))
		return; /* (5) */
	if (tw_worker_owes(w))
		tw_say(ctx, TW_WARNING,
		       "worker %u leaves, and the residual of its codec is lost, because %s",
		       w->me.id.slot,
		       w->stage ? "its stages cannot push it together" : "no shard accepted it");
	tw_worker_go(w, ctx);
}

/* (3) */
void tw_worker_give_back(struct worker *w, struct tw_context *ctx)
{
	if (!tw_worker_rounds(w)) {
		tw_worker_flush(w, ctx);
		if (w->building.micros || w->building.summed)
			return; /* no credit, or no answer yet: continue when it comes */
		for (uint32_t k = 0; k < w->leases.count; k++)
			w->leases.held[k].over = true;
		tw_worker_closings(w, ctx);
	} else if (w->me.state == WORKER_LEAVING && !w->exchange.outs) {
		/* not before: what is refused gives back what it brought, and needs this stripe */
		w->leases.count = 0;
	}
	if (w->me.state == WORKER_LEAVING)
		leave(w, ctx);
}
