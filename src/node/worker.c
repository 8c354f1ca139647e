/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - who a worker is: how it joins, stays, is let go and leaves.
 *
 *  (1) identity is (slot, incarnation), given by the master; one who was removed is fenced and
 *      joins again as somebody new.
 *  (2) whatever is open (contributions, requests, leases that are done) is kept and sent again when
 *      a connection is made anew; everything said twice is understood once.
 *  (3) a word of a newer generation makes it forget everything of the older one.
 *  (4) it obeys the newest master only. */
#include "node/worker.h"

enum { TIMER_LOST = 1, TIMER_PLACE };

#define ASK_AGAIN TW_SECOND /* for a place in a cluster that is full */

/* --- saying --------------------------------------------------------------------------------- */

struct tw_msg *tw_worker_to_master(struct worker *w, struct tw_context *ctx, enum tw_type type)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), type);

	if (!m)
		return NULL;
	m->h.from = w->me.id.slot;
	m->h.incarnation = w->me.id.incarnation;
	m->h.view = w->me.id.generation;
	return m;
}

/* Fresh: I know nothing.  Otherwise: I am still here, and these leases are mine. */
static void hello(struct worker *w, struct tw_context *ctx, bool fresh)
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
					     .boot = ctx->boot };
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

/* --- joining, leaving and starting anew --------------------------------------------------------- */

/* (3) */
void tw_worker_reset(struct worker *w, struct tw_context *ctx, uint64_t generation)
{
	w->me.id.generation = generation;
	tw_worker_reset_leases(&w->leases);
	tw_step_abandon(w, ctx);
	tw_step_forget_past(w);
	tw_worker_reset_building(&w->building);
	tw_kept_forget_drift(w);
	tw_exchange_reset(&w->exchange);
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
static void leave_again(struct worker *w, struct tw_context *ctx)
{
	tw_worker_resend_done(w, ctx);
	goodbye(w, ctx);
}

/* It is not a member any more.  True: it wanted to leave, and is gone. */
static bool drop_out(struct worker *w, struct tw_context *ctx)
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

static void start_again(struct worker *w, struct tw_context *ctx)
{
	tw_exchange_renew(&w->exchange);
	tw_kept_forget_momentum(w);
	w->leases.last = 0;
	if (!drop_out(w, ctx))
		hello(w, ctx, true);
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
	tw_timer(ctx, TIMER_PLACE, ASK_AGAIN);
}

static void stop(struct worker *w, struct tw_context *ctx)
{
	w->me.was = w->me.state;
	w->me.state = WORKER_OVER;
	if (tw_worker_busy(w))
		ctx->world->cancel(ctx, &w->step.compute);
}

/* --- hearing the master -------------------------------------------------------------------------- */

static void places(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_place *list = m->tail ? (const void *)m->tail->data : NULL;

	for (size_t k = 0; k < m->h.tail / sizeof *list; k++)
		if (tw_exchange_place(&w->exchange, ctx, &list[k], tw_worker_round(w)) &&
		    tw_exchange_is_down(&w->exchange, list[k].node))
			tw_timer(ctx, TIMER_LOST, w->plan->crew.limit);
}

/* What it keeps, from its slot's part of a checkpoint.  False: it cannot go on. */
static bool restore(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	enum tw_status st = TW_OK;

	if (m->payload && tw_plan_worker_keeps(w->plan))
		st = tw_kept_restore(w, tw_msg_payload(m), m->h.payload);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for worker %u's part of a checkpoint",
			   w->me.id.slot);
		return false;
	}
	if (st != TW_OK)
		tw_say(ctx, TW_WARNING,
		       "worker %u's part of checkpoint %llu cannot be used (%s): what it kept "
		       "itself, momentum, the state of its local rule or what its codec owes, is "
		       "lost and begins at 0",
		       w->me.id.slot, (unsigned long long)m->b.welcome.cut, tw_status_name(st));
	return true;
}

static void welcome(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_welcome *b = &m->b.welcome;

	/* (1): incarnations are never reused; and a master that died may have said this before the
	 * next one took us as we were (4) */
	if (b->incarnation >> 20 < w->me.term || b->incarnation <= w->me.id.incarnation ||
	    b->boot != ctx->boot || b->slot >= w->plan->crew.workers)
		return;
	if (w->me.state != WORKER_LEAVING)
		w->me.state = WORKER_MEMBER;
	w->me.id.slot = b->slot;
	w->me.id.incarnation = b->incarnation;
	tw_named(ctx, w->me.id.slot, w->me.id.incarnation);
	w->bad_seq = 0;
	w->steps = w->samples = 0; /* the master has counted what the one before did */
	/* as the master that made it counts */
	w->leases.last = (uint64_t)(b->incarnation >> 20) << 20;
	tw_worker_reset(w, ctx, m->h.view);
	tw_exchange_renew(&w->exchange);
	if (!restore(w, ctx, m))
		return;
	places(w, ctx, m);
	w->leases.asked = true; /* a newcomer is dealt to unasked */
	w->eval.wanted = w->eval.wanted && w->eval.incarnation == w->me.id.incarnation;
	tw_worker_ask_pinned(w, ctx);
	tw_worker_advance(w, ctx);
}

static void refused(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const bool master = m->from.role == TW_MASTER;

	if (m->h.incarnation != w->me.id.incarnation)
		return;
	if (m->b.refuse.why == TW_REFUSED_FENCED) {
		start_again(w, ctx);
	} else if (m->b.refuse.why == TW_REFUSED_FULL && master) {
		wait_for_place(w, ctx);
	} else if (m->b.refuse.why == TW_REFUSED_NUMBERS && master && tw_worker_is_member(w)) {
		stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "its contributions were not finite %d times in a row, while those of "
			   "others were: check this machine's memory, its processor and its data; "
			   "it may join again",
			   TW_STRIKES);
	} else if (m->b.refuse.why == TW_REFUSED_STUCK && master) {
		stop(w, ctx);
		tw_give_up(ctx, TW_CANCELLED,
			   "it made no progress for so long that the master removed it: is this "
			   "machine overloaded, or much slower than the others?  Start it again to "
			   "join again, or use a longer cluster.stuck");
	}
}

static void resend_to_master(struct worker *w, struct tw_context *ctx)
{
	tw_worker_resend_leases(w, ctx);
	tw_worker_ask_pinned(w, ctx);
}

static void view(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	if (!tw_worker_is_member(w) || m->h.view < w->me.id.generation ||
	    m->b.view.number < w->me.view)
		return;
	w->me.view = m->b.view.number;
	if (m->h.view > w->me.id.generation) {
		tw_worker_reset(w, ctx, m->h.view);
		w->leases.asked = true; /* a new generation deals to everybody unasked */
	} else {
		resend_to_master(w, ctx); /* a master that took over has not heard it */
	}
	places(w, ctx, m);
	tw_worker_ask_pinned(w, ctx);         /* the places it needs may only be known now */
	if (m->h.view == w->me.id.generation) /* rounds just end */
		w->leases.draining = !m->b.view.running && !tw_worker_rounds(w);
	tw_worker_advance(w, ctx);
}

static void snap(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *out;

	if (!tw_worker_is_member(w) || m->h.view != w->me.id.generation)
		return;
	out = tw_worker_to_master(w, ctx, TW_PART);
	if (!out)
		return;
	out->b.part = (struct tw_body_part){ .cut = m->b.snap.cut, .slot = w->me.id.slot };
	out->payload = tw_kept_part(w);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for worker %u's part of a cut",
			   w->me.id.slot);
		return;
	}
	out->h.payload = (uint32_t)out->payload->bytes;
	tw_send(ctx, out);
}

/* --- the actor -------------------------------------------------------------------------------- */

/* Every shard of the plan holds a range for every worker. */
static enum tw_status open_exchange(struct worker *w)
{
	const uint32_t count = w->plan->problem.shards;
	uint32_t *shards = tw_heap_zeros(w->heap, count * sizeof *shards);
	enum tw_status st;

	if (!shards)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < count; k++)
		shards[k] = k;
	st = tw_exchange_open(&w->exchange, w->heap, w->plan, &w->me.id, shards, count);
	w->heap->put(w->heap, shards);
	return st;
}

static struct tw_actor *worker_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct worker *w = tw_heap_zeros(heap, sizeof *w);

	if (!w)
		return NULL;
	w->plan = a->plan;
	w->heap = heap;
	w->me.index = w->me.id.slot = a->index;
	if (open_exchange(w) == TW_OK && tw_step_open(w) == TW_OK && tw_eval_open(w) == TW_OK &&
	    tw_kept_open(w) == TW_OK)
		return (struct tw_actor *)w;
	tw_worker_class.free((struct tw_actor *)w);
	return NULL;
}

static void worker_free(struct tw_actor *a)
{
	struct worker *w = (struct worker *)a;

	if (!w)
		return;
	tw_worker_reset_building(&w->building);
	tw_eval_close(w);
	tw_step_close(w);
	tw_kept_close(w);
	tw_exchange_close(&w->exchange);
	w->heap->put(w->heap, w->leases.held);
	w->heap->put(w->heap, w->leases.done);
	w->heap->put(w->heap, w);
}

static void worker_start(struct tw_actor *a, struct tw_context *ctx)
{
	hello((struct worker *)a, ctx, true);
}

/* The master counts us among its members although we have left: our last word was lost, or was
 * overtaken by an earlier one. */
static void still_member(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
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
	leave_again(w, ctx);
}

static void worker_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct worker *w = (struct worker *)a;

	if (w->me.state == WORKER_OVER || !tw_hears(ctx, m))
		return;
	if (w->me.state == WORKER_LEFT) {
		if (m->h.type == TW_WELCOME || m->h.type == TW_VIEW || m->h.type == TW_LEASE)
			still_member(w, ctx, m);
		return;
	}
	switch (m->h.type) {
	case TW_WELCOME:
		welcome(w, ctx, m);
		break;
	case TW_REFUSE:
		refused(w, ctx, m);
		break;
	case TW_VIEW:
		view(w, ctx, m);
		break;
	case TW_LEASE:
		tw_worker_lease(w, ctx, m);
		break;
	case TW_PARAMS:
	case TW_UNCHANGED:
		tw_worker_params(w, ctx, m);
		break;
	case TW_ACK:
		tw_worker_ack(w, ctx, m);
		break;
	case TW_EVAL:
		tw_worker_evaluate(w, ctx, m);
		break;
	case TW_SNAP:
		snap(w, ctx, m);
		break;
	case TW_BYE:
		stop(w, ctx);
		break;
	default:
		break;
	}
}

static void worker_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	struct worker *w = (struct worker *)a;

	if (c == &w->eval.compute) {
		tw_worker_evaluated(w, ctx);
		return;
	}
	tw_step_computed(w, ctx);
	tw_worker_advance(w, ctx);
}

static void worker_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	struct worker *w = (struct worker *)a;

	if (node == 0) {
		w->since = tw_now(ctx);
		return;
	}
	tw_exchange_down(&w->exchange, node);
	if (tw_exchange_is_down(&w->exchange, node))
		tw_timer(ctx, TIMER_LOST, w->plan->crew.limit);
}

/* A server is silent for us, and the master has not moved its shards: others must not wait for
 * us.  Leave, and ask again later, or as soon as the server can be reached. */
static void worker_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct worker *w = (struct worker *)a;
	struct tw_msg *m;

	if (w->me.state == WORKER_OVER || w->me.state == WORKER_LEFT)
		return;
	if (!tw_worker_is_member(w)) {
		hello(w, ctx, true);
		return;
	}
	if (timer != TIMER_LOST || !tw_exchange_is_down(&w->exchange, UINT32_MAX))
		return;
	m = tw_worker_to_master(w, ctx, TW_BYE);
	if (!m)
		return;
	tw_send(ctx, m);
	if (!drop_out(w, ctx))
		tw_timer(ctx, TIMER_LOST, w->plan->crew.limit);
}

/* The master can be reached again, or a newer one can. */
static void master_up(struct worker *w, struct tw_context *ctx, uint32_t boot)
{
	if (w->me.state == WORKER_OVER) {
		if (boot <= w->me.id.incarnation >> 20)
			return;
		w->me.state = w->me.was; /* it had stopped, and goes on */
		start_again(w, ctx);
		return;
	}
	/* leases of a master before this one, still on their way, are void (4) */
	w->me.term = boot;
	if (w->leases.last < (uint64_t)boot << 20)
		w->leases.last = (uint64_t)boot << 20;
	hello(w, ctx, !tw_worker_is_member(w));
	if (tw_worker_is_member(w))
		resend_to_master(w, ctx);
}

/* (2) */
static void worker_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct worker *w = (struct worker *)a;

	if (w->me.state == WORKER_LEFT) {
		if (node == 0)
			leave_again(w, ctx);
	} else if (node == 0) {
		master_up(w, ctx, boot);
	} else if (w->me.state != WORKER_OVER) {
		tw_exchange_up(&w->exchange, ctx, node, tw_worker_round(w));
		if (tw_worker_is_member(w))
			tw_worker_ask_pinned(w, ctx);
		else
			hello(w, ctx, true);
	}
}

static void worker_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct worker *w = (struct worker *)a;

	if (w->me.state == WORKER_LEFT)
		return;
	if (!tw_worker_is_member(w)) {
		tw_worker_go(w, ctx);
		return;
	}
	w->me.state = WORKER_LEAVING;
	tw_worker_advance(w, ctx);
}

static bool worker_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	return tw_worker_waits((const struct worker *)a, out);
}

const struct tw_actor_class tw_worker_class = {
	.name = "worker",
	.new = worker_new,
	.free = worker_free,
	.start = worker_start,
	.message = worker_message,
	.timer = worker_timer,
	.computed = worker_computed,
	.down = worker_down,
	.up = worker_up,
	.interrupt = worker_interrupt,
	.waiting = worker_waiting,
};
