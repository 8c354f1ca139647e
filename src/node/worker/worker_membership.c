/* SPDX-License-Identifier: Apache-2.0 */
/* worker_membership.c - who a worker is: how it joins, stays, is let go and leaves.
 *
 *  (1) identity is (slot, incarnation), given by the master; one who was removed is fenced and
 *      joins again as somebody new.
 *  (2) whatever is open (contributions, requests, leases that are done) is kept and sent again when
 *      a connection is made anew; everything said twice is understood once.
 *  (3) a word of a newer generation makes it forget everything of the older one.
 *  (4) it obeys the newest master only. */
#include "node/duty/samples/samples.h"
#include "node/worker/worker.h"

#define ASK_AGAIN TW_SECOND /* for a place in a cluster that is full */

/* --- saying ------------------------------------------------------------------------------- */

/* Fresh: I know nothing.  Otherwise: I am still here, and these leases are mine. */
void tw_worker_hello(struct worker *w, struct tw_context *ctx, bool fresh)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_HELLO);
	struct tw_range *tail;

	if (!m)
		return;
	m->h.flags = fresh ? TW_FLAG_FRESH : 0;
	m->b.hello = (struct tw_body_hello){ .role = TW_WORKER,
					     .slot = fresh ? w->me.index : w->me.id.slot,
					     .incarnation = fresh ? 0 : w->me.id.incarnation,
					     .seq = w->exchange.seq,
					     .lease = w->leases.last,
					     .steps = w->steps,
					     .samples = w->samples,
					     .boot = ctx->boot,
					     .cell = w->me.cell,
					     .own = w->plan->dealing.own };
	if (!fresh && w->leases.count) {
		tail = tw_msg_tail(ctx, m, w->leases.count * sizeof *tail);
		if (!tail)
			return;
		for (uint32_t k = 0; k < w->leases.count; k++) {
			const struct held *h = &w->leases.held[k];

			tail[k] = (struct tw_range){ h->from, (uint32_t)(h->to - h->from),
						     (uint32_t)h->id };
		}
	}
	if (w->me.state != WORKER_WAITING)
		w->since = tw_now(ctx);
	tw_send(ctx, m);
}

static void goodbye(struct worker *w, struct tw_context *ctx)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_BYE);

	if (!m)
		return;
	m->h.flags = w->me.bye;
	tw_send(ctx, m);
}

void tw_worker_resend(struct worker *w, struct tw_context *ctx)
{
	tw_worker_resend_leases(w, ctx);
	tw_samples_worker_resend(w, ctx);
	tw_duties_home(&w->duties, ctx, TW_ALL_SHARDS);
}

/* --- out ---------------------------------------------------------------------------------- */

/* (3) */
void tw_worker_reset(struct worker *w, struct tw_context *ctx, uint64_t generation)
{
	w->me.id.generation = generation;
	tw_kept_rejoin(w, w->building.summed || w->building.micros || w->exchange.outs ||
				  w->step.state == STEP_COMPUTING);
	tw_worker_reset_leases(&w->leases);
	tw_samples_worker_reset(w);
	w->step.again = 0;
	tw_step_abandon(w, ctx);
	tw_step_forget_past(w);
	tw_worker_reset_building(&w->building);
	tw_kept_forget_drift(w);
	tw_exchange_reset(&w->exchange);
	if (w->driver->reset)
		w->driver->reset(w);
}

void tw_worker_go(struct worker *w, struct tw_context *ctx)
{
	const enum worker_presence was = w->me.state == WORKER_OVER ? w->me.was : w->me.state;

	w->me.bye =
		TW_FLAG_LEAVE | (was == WORKER_MEMBER || was == WORKER_LEAVING ? 0 : TW_FLAG_FRESH);
	w->me.state = WORKER_LEFT;
	goodbye(w, ctx);
	tw_gone(ctx);
}

/* We have left, and the master may not have heard it. */
void tw_worker_leave_again(struct worker *w, struct tw_context *ctx)
{
	tw_worker_resend_done(w, ctx);
	goodbye(w, ctx);
}

/* It is not a member any more.  True: it wanted to leave, and is gone. */
bool tw_worker_drop_out(struct worker *w, struct tw_context *ctx)
{
	const bool leaving = w->me.state == WORKER_LEAVING;

	if (w->me.state != WORKER_WAITING)
		w->me.state = WORKER_OUTSIDE;
	tw_worker_reset(w, ctx, 0);
	tw_exchange_forget_places(&w->exchange);
	if (leaving)
		tw_worker_go(w, ctx);
	return leaving;
}

void tw_worker_start_again(struct worker *w, struct tw_context *ctx)
{
	tw_exchange_renew(&w->exchange);
	tw_kept_forget_momentum(w);
	w->leases.last = 0;
	if (!tw_worker_drop_out(w, ctx))
		tw_worker_hello(w, ctx, true);
}

/* Every slot is taken: somebody may leave or die. */
static void wait_for_place(struct worker *w, struct tw_context *ctx)
{
	if (tw_worker_is_member(w))
		return;
	if (w->me.state != WORKER_WAITING)
		tw_say(ctx, TW_WARNING, "the cluster has all its %u workers: waiting for a place",
		       w->plan->crew.workers);
	w->me.state = WORKER_WAITING;
	tw_timer(ctx, TW_TIMER_PLACE, ASK_AGAIN);
}

void tw_worker_stop(struct worker *w, struct tw_context *ctx)
{
	w->me.was = w->me.state;
	w->me.state = WORKER_OVER;
	if (tw_worker_busy(w))
		ctx->world->cancel(ctx, &w->step.compute);
}

/* --- in ----------------------------------------------------------------------------------- */

static void places(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_place *list = m->tail ? (const void *)m->tail->data : NULL;

	for (size_t k = 0; k < m->h.tail / sizeof *list; k++)
		if (list[k].what == TW_PLACE_SHARD &&
		    tw_exchange_place(&w->exchange, ctx, &list[k], tw_worker_round(w)) &&
		    tw_exchange_is_down(&w->exchange, list[k].node))
			tw_timer(ctx, TW_TIMER_LOST, w->plan->crew.limit);
}

/* What it keeps, from its slot's part of a checkpoint.  False: it cannot go on. */
static bool restore(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	enum tw_status st = TW_OK;

	if (!m->payload && tw_worker_deltas(w))
		tw_kept_blank(w); /* it begins at what the shards have */
	if (m->payload && tw_plan_worker_keeps(w->plan))
		st = tw_kept_restore(w, tw_msg_payload(m), m->h.payload);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for worker %u's part of a checkpoint",
			   w->me.id.slot);
		return false;
	}
	if (st != TW_OK)
		tw_say(ctx, TW_WARNING,
		       "worker %u cannot use its part of checkpoint %llu (%s): its own state "
		       "(momentum, the state of its local rule, the residual of its codec) is lost "
		       "and starts at 0",
		       w->me.id.slot, (unsigned long long)m->b.welcome.cut, tw_status_name(st));
	return true;
}

void tw_worker_welcome(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_welcome *b = &m->b.welcome;

	if (!tw_stage_welcomed(w, ctx, b->cell))
		return;
	if (w->me.state != WORKER_LEAVING)
		w->me.state = WORKER_MEMBER;
	w->me.id.slot = b->slot;
	w->me.id.incarnation = b->incarnation;
	if (w->driver->welcomed)
		w->driver->welcomed(w, ctx, m);
	tw_named(ctx, w->me.id.slot, w->me.id.incarnation);
	w->bad_seq = 0;
	w->steps = w->samples = 0; /* the master has counted what the one before did */
	/* as the master that made it counts */
	w->leases.last = (uint64_t)(b->incarnation >> 20) << 20;
	tw_worker_reset(w, ctx, m->h.view);
	tw_exchange_renew(&w->exchange);
	if (w->driver->renewed)
		w->driver->renewed(w);
	if (!restore(w, ctx, m))
		return;
	places(w, ctx, m);
	w->leases.asked = true; /* a newcomer is dealt to unasked */
	tw_duties_renew(&w->duties, ctx);
	tw_worker_advance(w, ctx);
}

void tw_worker_refused(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const bool master = m->from.role == TW_MASTER;

	if (m->b.refuse.why == TW_REFUSED_FENCED) {
		tw_worker_start_again(w, ctx);
	} else if (m->b.refuse.why == TW_REFUSED_FULL && master) {
		wait_for_place(w, ctx);
	} else if (m->b.refuse.why == TW_REFUSED_NUMBERS && master && tw_worker_is_member(w)) {
		tw_worker_stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "the master removed this worker: %d of its contributions in a row were "
			   "not finite, while those of other workers were; check the memory, the "
			   "processor and the data of this machine, then join again",
			   TW_STRIKES);
	} else if (m->b.refuse.why == TW_REFUSED_LIES && master) {
		tw_worker_stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "the master removed this worker: another cell got from it what cannot "
			   "be; check the memory and the processor of this machine, and that all "
			   "processes are the same program, then join again");
	} else if (m->b.refuse.why == TW_REFUSED_STUCK && master) {
		tw_worker_stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "the master removed this worker because it made no progress; is this "
			   "machine overloaded, or much slower than the others?  Start it again to "
			   "join again, or use a longer cluster.stuck");
	}
}

void tw_worker_view(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	w->me.view = m->b.view.number;
	if (m->h.view > w->me.id.generation) {
		tw_worker_reset(w, ctx, m->h.view);
		w->leases.asked = true; /* a new generation deals to everybody unasked */
	} else {
		tw_worker_resend(w, ctx); /* a master that took over has not heard it */
	}
	places(w, ctx, m);
	tw_duties_home(&w->duties, ctx, TW_ALL_SHARDS);
	if (m->h.view == w->me.id.generation) /* rounds just end */
		w->leases.draining = !m->b.view.running && !tw_worker_rounds(w);
	tw_worker_advance(w, ctx);
}

/* The master counts us among its members although we have left: our last word was lost, or was
 * overtaken by an earlier one. */
void tw_worker_still_member(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_welcome *b = &m->b.welcome;
	const bool invited = m->h.type == TW_WELCOME && b->boot == ctx->boot;

	if (invited && b->incarnation > w->me.id.incarnation) {
		w->me.id = (struct tw_identity){ b->slot, b->incarnation, m->h.view };
		w->leases.done_count = 0;
	} else if (!invited && m->h.incarnation != w->me.id.incarnation) {
		return;
	}
	w->me.bye = TW_FLAG_LEAVE;
	tw_worker_leave_again(w, ctx);
}
