/* SPDX-License-Identifier: Apache-2.0 */
/* worker_leased.c - a lease is given to a worker, and what is left of it is given back.  The rules
 * are in worker_lease.c. */
#include "node/duty/samples/samples.h"
#include "node/worker/worker.h"
#include "base/grow.h"

#include <math.h>

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
	tw_samples_worker_leased(w, &l->held[l->count - 1]);
	tw_samples_worker_ahead(w, ctx);
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
