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

/* --- told again ---------------------------------------------------------------------------- */

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
