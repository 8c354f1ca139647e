/* SPDX-License-Identifier: Apache-2.0 */
/* worker_answer.c - what a worker hears from shards, and what it does next.
 *
 *  (1) it starts a step only with parameters from every shard and a credit for the push; they are
 *      those that it asked for last, unless it computes on while it fetches (strategy.overlap).
 *  (2) an answer to somebody it was, or from another generation, is not heard.
 *  (3) the first shard that says that what was read is too old ends the computation on it: what
 *      other shards would still apply is not worth the time.  Then all shards are read again. */
#include "node/duty/eval/eval.h"
#include "node/duty/samples/samples.h"
#include "node/worker/worker.h"

/* --- what next ---------------------------------------------------------------------------- */

/* plan.traffic.delay: the answer to the push before this lease may still be on its way. */
static bool runs_ahead(const struct worker *w, const struct held *lease)
{
	return w->plan->traffic.delay && w->kept.own && !w->kept.rejoined && lease->round &&
	       w->building.pushed == lease->round && !tw_step_merges(w, lease);
}

/* ... or it is here, and waits for its step. */
static void merge_in_time(struct worker *w, const struct held *lease)
{
	if (!w->plan->traffic.delay || !w->building.merge_due || !tw_step_merges(w, lease))
		return;
	tw_step_fetched(w);
}

/* Is everything that was to be asked for here? */
static bool all_here(const struct worker *w, const struct held *lease, bool due)
{
	const struct exchange *x = &w->exchange;

	if (w->plan->traffic.overlap)
		return !x->blind;
	if (!tw_exchange_has_all(x))
		return false;
	for (uint32_t k = 0; k < x->holders; k++) /* one without a place was not asked */
		if (due || (tw_worker_rounds(w) && x->holder[k].round != lease->round))
			return false;
	return true;
}

/* Ask for what the lease needs; true: it is all here, or need not be yet. */
static bool has_parameters(struct worker *w, struct tw_context *ctx, struct held *lease)
{
	struct exchange *x = &w->exchange;
	const bool rounds = tw_worker_rounds(w);
	/* a fetch that is due while another is under way waits for it, but its worker does not */
	const bool put_off = w->plan->traffic.overlap && tw_exchange_asks(x);
	const bool due = w->building.fetch_due && !put_off;
	const bool anew = due || w->building.looked != lease->id;
	const uint32_t from = anew ? 0 : x->changed, to = anew ? x->holders : x->unchanged;

	for (uint32_t k = from; rounds && k < to; k++)
		if (x->holder[k].view && x->holder[k].round > lease->round) { /* it is over */
			tw_worker_drop_lease(w, lease);
			tw_worker_advance(w, ctx);
			return false;
		}
	for (uint32_t k = from; k < to; k++) {
		struct holder *h = &x->holder[k];
		const bool past = rounds && h->round != lease->round;

		if ((!h->view || past || due) && h->request == TW_REQUEST_NONE && h->known) {
			w->since = tw_now(ctx);
			tw_exchange_pull(x, ctx, h, lease->round);
		}
	}
	tw_exchange_looked(x);
	w->building.looked = lease->id;
	w->building.fetch_due = w->building.fetch_due && put_off;
	return all_here(w, lease, due) || runs_ahead(w, lease);
}

/* In a round only a stripe can carry what the codec of one who leaves owes: it works on one more
 * (4 in worker_lease.c).  A stripe of many steps that is begun is finished, too. */
static bool works_on(const struct worker *w)
{
	if (!tw_worker_rounds(w))
		return false;
	return (tw_worker_deltas(w) && w->building.summed) ||
	       (w->building.farewells < TW_FAREWELLS && tw_exchange_owes(&w->exchange));
}

static void advance(struct worker *w, struct tw_context *ctx)
{
	struct held *h;

	if (tw_worker_busy(w))
		return;
	if (w->building.elastic_due && !tw_worker_elastic(w, ctx))
		return;
	if (w->leases.draining || (w->me.state == WORKER_LEAVING && !works_on(w))) {
		tw_worker_give_back(w, ctx);
		return;
	}
	h = tw_worker_current(w);
	if (!h) {
		/* a stripe is pushed whole, or its round is over */
		if (w->leases.dry && !tw_worker_rounds(w))
			tw_worker_flush(w, ctx);
		/* in rounds, asking says that nothing of ours is on its way any more */
		if (w->leasing->closes || !w->exchange.outs)
			tw_worker_want(w, ctx);
		return;
	}
	merge_in_time(w, h);
	tw_samples_worker_ahead(w, ctx);
	if (!has_parameters(w, ctx, h) || !tw_exchange_has_credit(&w->exchange)) /* (1) */
		return;
	/* samples are asked for when their lease is here */
	if (w->leasing->closes &&
	    tw_worker_positions_left(w) <= h->batch * (1 + (uint64_t)w->plan->dealing.ahead))
		tw_worker_want(w, ctx);
	if (!tw_samples_worker_here(w, ctx, h))
		return;
	if (w->building.merge_due && !w->plan->traffic.delay)
		tw_step_fetched(w);
	tw_step_start(w, ctx, h);
}

/* --- hearing ------------------------------------------------------------------------------ */

/* (2): the holder that says this, if it may say it to us. */
static struct holder *heard_from(struct worker *w, const struct tw_msg *m)
{
	struct holder *h = tw_exchange_find(&w->exchange, m->h.shard);

	return h && h->known && h->addr.node == m->from.node ? h : NULL;
}

/* A shard did not take the numbers of a contribution; every other shard may say the same. */
static void was_bad(struct worker *w, struct tw_context *ctx, const struct holder *h,
		    const struct tw_msg *m, uint64_t link)
{
	const uint64_t seq = tw_exchange_seq_at(&w->exchange, h, link);

	if (!(m->h.flags & TW_FLAG_NUMBERS) || seq <= w->bad_seq)
		return;
	w->bad_seq = seq;
	if (w->bad++ % 100 == 0)
		tw_say(ctx, TW_WARNING,
		       "contribution %llu was refused by shard %u: it is not finite (%llu refused "
		       "so far)",
		       (unsigned long long)seq, h->shard, (unsigned long long)w->bad);
}

/* All shards have answered. */
static void fetched(struct worker *w, struct tw_context *ctx)
{
	if (w->driver->fetched)
		w->driver->fetched(w, ctx);
	if (w->plan->traffic.delay && w->kept.own && !w->kept.rejoined) {
		w->building.merge_due = true;
		return;
	}
	w->building.merge_due = w->step.state == STEP_COMPUTING;
	if (!w->building.merge_due)
		tw_step_fetched(w);
}

void tw_worker_params(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_params *b = &m->b.params;
	struct holder *h = heard_from(w, m);
	enum tw_status st;
	bool unknown;

	if (!h)
		return;
	if (b->pin) {
		tw_eval_worker_view(w, ctx, h, m);
		return;
	}
	if (b->version.incarnation < h->incarnation)
		return;
	unknown = tw_exchange_unknown_to(h, b);
	st = unknown ? TW_ABSENT : tw_exchange_answered(&w->exchange, h, m);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for an answer of shard %u", h->shard);
		return;
	}
	if (st == TW_BAD_BYTES) {
		tw_say(ctx, TW_WARNING, "an answer of shard %u is malformed", h->shard);
		return;
	}
	was_bad(w, ctx, h, m, b->link);
	tw_exchange_acked(&w->exchange, h, b->link, b->unapplied, b->late, b->version.incarnation);
	/* what was dropped came late: the leases of rounds that are over are void */
	if (tw_worker_rounds(w) && (m->h.flags & TW_FLAG_DROPPED))
		tw_worker_void_leases(w, b->round);
	tw_worker_closings(w, ctx);
	if (unknown) {
		tw_exchange_ask_again(&w->exchange, ctx, h, tw_worker_round(w));
		tw_worker_advance(w, ctx);
		return;
	}
	/* what outlives a fetch stays as it is in the checkpoint that a drain is for, but for a
	 * last exchange */
	if (st == TW_OK && tw_exchange_has_all(&w->exchange) &&
	    (w->building.elastic_due || !(w->leases.draining && tw_plan_own_parameters(w->plan))))
		fetched(w, ctx);
	tw_worker_advance(w, ctx);
}

/* (3) */
static void begin_again(struct worker *w, struct tw_context *ctx, const struct holder *h,
			const struct tw_version *old)
{
	if (h->request != TW_REQUEST_NONE || h->seen.version.n != old->n ||
	    h->seen.version.incarnation != old->incarnation)
		return; /* it has been pushed, or read again, meanwhile */
	tw_worker_forget_building(w, ctx);
	w->building.fetch_due = true;
	w->step.again += w->step.state == STEP_COMPUTING;
	tw_step_abandon(w, ctx);
	tw_worker_was_late(w);
}

void tw_worker_ack(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_ack *b = &m->b.ack;
	struct holder *h = heard_from(w, m);

	if (!h || b->version.incarnation < h->incarnation)
		return;
	was_bad(w, ctx, h, m, b->link);
	tw_exchange_acked(&w->exchange, h, b->link, b->unapplied, b->late, b->version.incarnation);
	if (m->h.flags & TW_FLAG_STALE)
		begin_again(w, ctx, h, &b->version);
	tw_worker_closings(w, ctx);
	tw_worker_advance(w, ctx);
}

/* --- the seat ----------------------------------------------------------------------------- */

static uint64_t closed(const struct worker *w)
{
	return tw_exchange_closed(&w->exchange);
}

static uint64_t begun(const struct worker *w)
{
	return w->exchange.seq;
}

const struct tw_driver tw_driver_step = {
	.name = "step",
	.advance = advance,
	.computed = tw_step_made,
	.closed = closed,
	.begun = begun,
};
