/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - the worker as an actor: what it is told, by whom, and which part of it hears it. */
#include "node/worker/worker.h"
#include "base/fetch.h"
#include "node/duty/batch/batch.h"
#include "node/duty/checkpoint/checkpoint.h"
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/duty/samples/samples.h"
#include "node/well_formed.h"

static const struct tw_duty *const duties[] = { &tw_eval_worker,
						&tw_figures_worker,
						&tw_batch_worker,
						&tw_checkpoint_worker,
						&tw_stage_worker,
						&tw_samples_worker,
						NULL };

static struct tw_actor *worker_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct worker *w = tw_heap_zeros(heap, sizeof *w + tw_duties_bytes(duties, a->plan));

	if (!w)
		return NULL;
	tw_duties_place(&w->duties, w, duties, a->plan, w + 1);
	w->plan = a->plan;
	w->driver = tw_plan_is_staged(w->plan) ? &tw_stage_driver : &tw_driver_step;
	w->leasing = tw_duties_seat(&w->duties);
	if (!w->leasing)
		w->leasing = tw_worker_rounds(w) ? &tw_leasing_round : &tw_leasing_stream;
	w->heap = heap;
	w->me.index = w->me.id.slot = a->index;
	if (tw_stage_wish(w, a->index) == TW_OK && tw_worker_open_parts(w) == TW_OK)
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
	tw_stage_close(w);
	tw_worker_close_parts(w);
	w->heap->put(w->heap, w->leases.held);
	w->heap->put(w->heap, w->leases.done);
	w->heap->put(w->heap, w->leases.again);
	w->heap->put(w->heap, w);
}

/* --- what it is told ---------------------------------------------------------------------- */

static void worker_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_worker_hello((struct worker *)a, ctx, true);
}

static void worker_soon(const struct tw_actor *a, const struct tw_msg *m)
{
	const struct worker *w = (const struct worker *)a;

	tw_fetch(w->exchange.holder, sizeof *w->exchange.holder);
	tw_fetch(w->exchange.slices, TW_CREDITS * sizeof *w->exchange.slices);
	tw_fetch(w->leases.held, sizeof *w->leases.held);
	tw_fetch(w->shard, sizeof *w->shard);
	if (!m) {
		tw_fetch(w->step.piece, sizeof *w->step.piece);
		tw_fetch(w->step.gradient, 2 * sizeof *w->step.gradient);
		tw_fetch(w->step.pool, 128);
	}
}

/* The welcome of somebody that it can become.  Incarnations are never reused; and a master that
 * died may have said this before the next one took us as we were. */
static bool is_invited(const struct worker *w, const struct tw_context *ctx,
		       const struct tw_body_welcome *b)
{
	return b->incarnation >> 20 >= w->me.term && b->incarnation > w->me.id.incarnation &&
	       b->boot == ctx->boot && b->slot < w->plan->crew.workers &&
	       (!w->stage || b->cell < tw_plan_cells(w->plan));
}

/* The door: is it for who we are, in the generation that we are in?  What the master says of a
 * later one begins it. */
static enum tw_door worker_door(const struct worker *w, const struct tw_context *ctx,
				const struct tw_msg *m)
{
	const struct tw_identity *me = &w->me.id;
	const bool member = tw_worker_is_member(w);
	const bool ours = member && m->h.incarnation == me->incarnation;
	enum tw_door is = TW_DOOR_NOW;
	bool now = true;

	switch (m->h.type) {
	case TW_PARAMS:
	case TW_UNCHANGED:
	case TW_ACK:
		now = ours && m->h.view == me->generation;
		break;
	case TW_LEASE:
		now = ours && m->h.view >= me->generation;
		break;
	case TW_VIEW:
		now = member && m->h.view >= me->generation && m->b.view.number >= w->me.view;
		break;
	case TW_SNAP:
		now = member && m->h.view == me->generation;
		break;
	case TW_ASK:
	case TW_SAMPLES:
		now = ours;
		break;
	case TW_EVAL:
		is = m->h.incarnation > me->incarnation ? TW_DOOR_EARLY : TW_DOOR_NOW;
		now = ours;
		break;
	case TW_WELCOME:
		now = is_invited(w, ctx, &m->b.welcome);
		break;
	case TW_REFUSE:
		now = m->h.incarnation == me->incarnation;
		break;
	case TW_ACT:
	case TW_GRAD:
	case TW_CLOSED:
	case TW_HEARD:
		is = w->stage ? tw_stage_door(w, m) : TW_DOOR_VOID;
		now = member;
		break;
	default:
		break;
	}
	return is != TW_DOOR_NOW || now ? is : TW_DOOR_VOID;
}

static void hear(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	switch (m->h.type) {
	case TW_WELCOME:
		tw_worker_welcome(w, ctx, m);
		break;
	case TW_REFUSE:
		tw_worker_refused(w, ctx, m);
		break;
	case TW_VIEW:
		tw_worker_view(w, ctx, m);
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
	case TW_ACT:
	case TW_GRAD:
	case TW_CLOSED:
	case TW_HEARD:
		tw_stage_hears(w, ctx, m);
		break;
	case TW_ASK:
	case TW_SNAP:
		tw_duties_message(&w->duties, ctx, m);
		break;
	case TW_SAMPLES:
		tw_duties_message(&w->duties, ctx, m);
		tw_worker_advance(w, ctx);
		break;
	case TW_EVAL:
		if (m->h.view > w->me.id.generation)
			tw_worker_reset(w, ctx, m->h.view);
		tw_duties_message(&w->duties, ctx, m);
		break;
	case TW_BYE:
		tw_worker_stop(w, ctx);
		break;
	default:
		break;
	}
}

static void worker_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct worker *w = (struct worker *)a;

	if (w->me.state == WORKER_OVER || !tw_hears(ctx, m) || !tw_well_formed(w->plan, m))
		return;
	if (w->me.state == WORKER_LEFT) {
		if (m->h.type == TW_WELCOME || m->h.type == TW_VIEW || m->h.type == TW_LEASE)
			tw_worker_still_member(w, ctx, m);
		return;
	}
	switch (worker_door(w, ctx, m)) {
	case TW_DOOR_NOW:
		hear(w, ctx, m);
		break;
	case TW_DOOR_EARLY:
		if (m->h.type == TW_EVAL)
			tw_eval_worker_early(w, m);
		else
			tw_stage_early(w, m);
		break;
	case TW_DOOR_VOID:
		break;
	}
}

static void worker_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	struct worker *w = (struct worker *)a;

	if (node == 0) {
		w->since = tw_now(ctx);
		return;
	}
	if (tw_stage_cell_at(w, node) != UINT32_MAX && tw_worker_is_member(w)) {
		tw_worker_start_again(w, ctx);
		return;
	}
	tw_exchange_down(&w->exchange, node);
	if (tw_exchange_is_down(&w->exchange, node))
		tw_timer(ctx, TW_TIMER_LOST, w->plan->crew.limit);
}

/* A server is silent for us, and the master has not moved its shards: others must not wait for
 * us.  Leave, and ask again later, or as soon as the server can be reached. */
static void worker_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct worker *w = (struct worker *)a;
	struct tw_msg *m;

	if (w->me.state == WORKER_OVER || w->me.state == WORKER_LEFT)
		return;
	if (timer == TW_TIMER_HEARD) {
		tw_stage_idle(w, ctx);
		return;
	}
	if (timer >= TW_TIMER_FIGURES) {
		tw_duties_timer(&w->duties, ctx, timer);
		return;
	}
	if (!tw_worker_is_member(w)) {
		tw_worker_hello(w, ctx, true);
		return;
	}
	if (timer != TW_TIMER_LOST || !tw_exchange_is_down(&w->exchange, UINT32_MAX))
		return;
	m = tw_worker_to_master(w, ctx, TW_BYE);
	if (!m)
		return;
	tw_send(ctx, m);
	if (!tw_worker_drop_out(w, ctx))
		tw_timer(ctx, TW_TIMER_LOST, w->plan->crew.limit);
}

/* The master can be reached again, or a newer one can. */
static void master_up(struct worker *w, struct tw_context *ctx, uint32_t boot)
{
	if (w->me.state == WORKER_OVER) {
		if (boot <= w->me.id.incarnation >> 20)
			return;
		w->me.state = w->me.was; /* it had stopped, and goes on */
		tw_worker_start_again(w, ctx);
		return;
	}
	/* leases of a master before this one, still on their way, are void (4) */
	w->me.term = boot;
	if (w->leases.last < (uint64_t)boot << 20)
		w->leases.last = (uint64_t)boot << 20;
	tw_worker_hello(w, ctx, !tw_worker_is_member(w));
	if (tw_worker_is_member(w))
		tw_worker_resend(w, ctx);
}

/* (2) */
static void worker_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct worker *w = (struct worker *)a;

	if (w->me.state == WORKER_LEFT) {
		if (node == 0)
			tw_worker_leave_again(w, ctx);
	} else if (node == 0) {
		master_up(w, ctx, boot);
	} else if (w->me.state != WORKER_OVER) {
		const uint32_t cell = tw_stage_cell_at(w, node);
		bool holds;

		if (cell != UINT32_MAX)
			tw_stage_reconnected(w, ctx, cell, boot);
		/* another cell of this worker may have the parameters of this one, too */
		holds = tw_exchange_up(&w->exchange, ctx, node, tw_worker_round(w));
		if (tw_worker_is_member(w) && (holds || cell == UINT32_MAX))
			tw_duties_home(&w->duties, ctx, TW_ALL_SHARDS);
		else if (!tw_worker_is_member(w) && cell == UINT32_MAX)
			tw_worker_hello(w, ctx, true);
	}
}

static void worker_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct worker *w = (struct worker *)a;

	if (w->me.state == WORKER_LEFT)
		return;
	/* the first cell of a worker lets it finish what it has begun; without another one, nothing
	 * can be finished */
	if (!tw_worker_is_member(w) || w->me.cell) {
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
	.bytes = sizeof(struct worker),
	.soon = worker_soon,
	.timer = worker_timer,
	.computed = tw_step_computed,
	.down = worker_down,
	.up = worker_up,
	.interrupt = worker_interrupt,
	.waiting = worker_waiting,
};
