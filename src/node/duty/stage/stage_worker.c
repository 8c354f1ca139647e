/* SPDX-License-Identifier: Apache-2.0 */
/* stage_worker.c - a cell makes the moves of its schedule: what it computes and sends on.  The
 * rules are in README.md; stage_memory.c has what it keeps. */
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"

#include <stddef.h>

static bool is_first(const struct worker *w)
{
	return w->me.cell == 0;
}

static bool is_last_stage(const struct stage_worker *s)
{
	return s->post.stage + 1 == s->shape.stages;
}

/* Micro-batches of its own in the stream; UINT64_MAX: no end is known. */
static uint64_t own_total(const struct stage_worker *s)
{
	return s->total == UINT64_MAX ? s->total : tw_pipe_own(&s->post, s->total);
}

/* --- computing ---------------------------------------------------------------------------- */

static void no_memory(struct worker *w, struct tw_context *ctx)
{
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for stage %u of the model", w->stage->post.stage);
}

static void compute(struct worker *w, struct tw_context *ctx, const struct flight *f,
		    struct tw_block *const *view)
{
	struct stage_worker *s = w->stage;
	struct stage_run *r = &s->run;
	struct tw_compute *c = &w->step.compute;
	struct tw_stage_held held;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct tw_holding *range = &w->exchange.holder[k].range;

		r->view[k] = tw_block_keep(view[k]);
		w->step.piece[k] =
			(struct tw_piece){ tw_block_floats(r->view[k]), range->from, range->n };
	}
	*c = (struct tw_compute){
		.pass = { .kind = r->back ? TW_PASS_BACKWARD : TW_PASS_FORWARD,
			  .first = w->part->first,
			  .last = w->part->last,
			  .x = r->x ? tw_block_floats(r->x) : NULL,
			  .dy = r->dy ? tw_block_floats(r->dy) : NULL,
			  .stash = r->stash ? r->stash->data : NULL,
			  .y = !r->back && r->out ? tw_block_floats(r->out) : NULL,
			  .dx = r->back && r->out ? tw_block_floats(r->out) : NULL },
		.again = r->back,
		.share = r->back ? w->part->backward : w->part->forward,
		.scratch = w->part->scratch,
		.in = { .from = f->what.from,
			.count = f->what.count,
			.piece = w->step.piece,
			.pieces = w->exchange.holders },
		.gradient = r->back ? tw_block_floats(w->step.gradient) : NULL,
		.epoch_position = f->what.from,
		.id = f->what.lease,
	};
	c->in.cancel = &c->cancel;
	w->step.state = STEP_COMPUTING;
	r->began = tw_now(ctx);
	held = tw_stage_holds(w);
	tw_figures_worker_begins(w, ctx, r->back ? NULL : &r->began, &held);
	ctx->world->compute(ctx, c);
}

/* Of micro-batch k of its own.  True: the move is under way. */
static bool forward(struct worker *w, struct tw_context *ctx, uint64_t k)
{
	struct stage_worker *s = w->stage;
	struct flight *f = &s->flight[k % s->window];
	const bool first = is_first(w), last = is_last_stage(s);

	if (first && !f->known && !tw_stage_take_samples(w, ctx, tw_pipe_micro(&s->post, k), f))
		return false;
	if (!f->known)
		return false;
	if (!tw_stage_look(w, ctx, f)) {
		f->known = !first; /* the lease may be another one by then */
		return false;
	}
	f->stash = w->part->stash ? tw_pool_take(s->stashes) : NULL;
	s->run.out = last ? NULL : tw_pool_take(s->outs);
	if ((w->part->stash && !f->stash) || (!last && !s->run.out)) {
		no_memory(w, ctx);
		return false;
	}
	s->run.of = f;
	s->run.own = k;
	s->run.back = false;
	s->run.x = tw_block_keep(f->x);
	s->run.stash = tw_block_keep(f->stash);
	s->forwards++;
	s->next++;
	if (first)
		tw_stage_samples_begun(w, ctx, &f->what);
	compute(w, ctx, f, f->view);
	return true;
}

/* Rounds: is it the last micro-batch of its group that this cell has? */
static bool ends_group(const struct stage_worker *s, const struct flight *f)
{
	return f->what.micro % s->shape.micros + s->post.lanes >= f->what.group;
}

/* Does the backward of this micro-batch complete a contribution? */
static bool completes(const struct worker *w, const struct flight *f)
{
	const struct stage_worker *s = w->stage;

	return w->building.micros + 1 >= s->post.micros ||
	       tw_pipe_own(&s->post, f->what.micro) + 1 == own_total(s) ||
	       (tw_worker_rounds(w) && ends_group(s, f)) || w->building.ranges >= TW_RANGES - 1;
}

static bool backward(struct worker *w, struct tw_context *ctx, uint64_t k)
{
	struct stage_worker *s = w->stage;
	struct flight *f = &s->flight[k % s->window];
	const bool stashes =
		tw_pipeline_stashes(w->plan->staging.schedule, w->plan->staging.options);

	if (!f->forwarded || (!is_last_stage(s) && !f->dy))
		return false;
	if (completes(w, f) &&
	    (tw_exchange_asks(&w->exchange) || !tw_exchange_has_credit(&w->exchange))) /* (4) */
		return false;
	if (!stashes) {
		if (!tw_stage_has_newest(w, ctx, f->what.round))
			return false;
		for (uint32_t h = 0; h < w->exchange.holders; h++) {
			tw_block_drop(f->view[h]);
			f->view[h] = tw_block_keep(w->exchange.holder[h].view);
		}
	}
	s->run.out = s->post.stage ? tw_pool_take(s->backs) : NULL;
	if ((s->post.stage && !s->run.out) || !tw_step_take_gradient(w)) {
		no_memory(w, ctx);
		return false;
	}
	s->run.of = f;
	s->run.own = k;
	s->run.back = true;
	s->run.x = tw_block_keep(f->x);
	s->run.dy = tw_block_keep(f->dy);
	s->run.stash = tw_block_keep(f->stash);
	s->next++;
	compute(w, ctx, f, f->view);
	return true;
}

/* --- computed ----------------------------------------------------------------------------- */

static void forwarded(struct worker *w, struct tw_context *ctx, struct flight *f)
{
	struct stage_worker *s = w->stage;
	const bool keeps = tw_pipeline_stashes(w->plan->staging.schedule, w->plan->staging.options);

	f->forwarded = true;
	if (is_last_stage(s))
		f->loss = w->step.compute.score.loss;
	if (!keeps)
		tw_stage_drop_views(f->view, w->exchange.holders);
	tw_stage_send_act(w, ctx, &f->what, s->run.out);
	tw_figures_worker_forwarded(w, ctx, s->run.began);
}

/* (10): what is contributed by now goes up to here. */
static void keep_mark(struct worker *w)
{
	struct stage_worker *s = w->stage;

	if (!w->building.micros)
		s->mark[w->exchange.seq % (TW_CREDITS + 1)] =
			tw_stage_mark(s->stream, tw_pipe_micro(&s->post, s->backwards));
}

/* Rounds: lanes of this stage that push in the round of this contribution; 0: it is alone. */
static uint32_t pushers(const struct worker *w)
{
	const struct stage_worker *s = w->stage;

	if (s->post.lanes < 2 || !tw_worker_rounds(w))
		return 0;
	return s->group < s->post.lanes ? s->group : s->post.lanes;
}

static void backwarded(struct worker *w, struct tw_context *ctx, struct flight *f)
{
	struct stage_worker *s = w->stage;
	const struct tw_computed done = { .position = f->what.from,
					  .lease = f->what.lease,
					  .round = f->what.round,
					  .nominal = f->what.nominal,
					  .loss = f->loss,
					  .count = f->what.count,
					  .last = tw_worker_rounds(w) && ends_group(s, f) };

	tw_stage_send_grad(w, ctx, f, s->run.out);
	s->backwards++;
	s->group = f->what.group;
	if (is_first(w))
		tw_stage_is_back(w, ctx, f->what.micro, f->loss);
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		w->shard[k].base = f->base[k];
	tw_stage_land(f, w->exchange.holders);
	tw_worker_contribute(w, ctx, &done, w->step.gradient);
	keep_mark(w);
	/* adding it up takes its time, too */
	s->waits_since = tw_figures_worker_backwarded(w, ctx, s->run.began);
	s->waits_version = s->waits_version || tw_exchange_asks(&w->exchange);
}

static void computed(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;
	const enum tw_status status = w->step.compute.status;
	const bool wanted = w->step.state == STEP_COMPUTING;

	w->step.state = STEP_IDLE;
	if (wanted && status == TW_OK) {
		struct flight *f = &s->flight[s->run.own % s->window];

		if (s->run.back)
			backwarded(w, ctx, f);
		else
			forwarded(w, ctx, f);
	} else if (wanted && status != TW_CANCELLED) {
		tw_give_up(ctx, status, "stage %u of the model could not be computed: %s",
			   s->post.stage, tw_status_name(status));
	}
	tw_stage_end_run(w);
}

/* Nothing is computed any more: a cell that is to be another one asks again (7). */
static void move_on(struct worker *w, struct tw_context *ctx)
{
	if (!w->stage->moves || tw_worker_busy(w) || tw_eval_worker_is_busy(w))
		return;
	w->stage->moves = false;
	if (w->me.state == WORKER_OUTSIDE || w->me.state == WORKER_WAITING)
		tw_worker_hello(w, ctx, true);
}

/* --- what next ---------------------------------------------------------------------------- */

/* All micro-batches of a stream that has ended are back: contribute what is left, and begin the
 * next one.  False: that has to wait. */
static bool finish_stream(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;

	if (w->building.micros &&
	    (tw_exchange_asks(&w->exchange) || !tw_exchange_has_credit(&w->exchange)))
		return false;
	if (is_first(w) && s->deal.back < s->total) /* other lanes are not done */
		return false;
	tw_worker_flush(w, ctx);
	keep_mark(w);
	for (uint32_t k = 0; k < s->versions; k++)
		tw_stage_drop_views(s->version[k].view, w->exchange.holders);
	tw_stage_begin_stream(s);
	s->stream++;
	tw_stage_hear_early(w, ctx); /* (5) */
	return true;
}

/* True: there may be more to do at once. */
static bool make_move(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;
	struct tw_pipe_move m;

	if (tw_worker_busy(w))
		return false;
	if (s->backwards == own_total(s))
		return finish_stream(w, ctx);
	m = w->plan->staging.schedule->move(&s->post, s->next);
	if (m.deed == TW_UPDATE || !tw_pipe_move_counts(&s->post, &m, own_total(s))) {
		s->next++;
		return true;
	}
	if (m.deed == TW_BACKWARD) {
		backward(w, ctx, m.micro);
		return false;
	}
	if (forward(w, ctx, m.micro))
		return false;
	/* the stream may have ended just now: moves behind this one can be made then */
	return s->total != UINT64_MAX && m.micro >= own_total(s);
}

/* Dealing to others may end the stream, and with it what this cell waits for. */
static void make_moves(struct worker *w, struct tw_context *ctx)
{
	const struct stage_worker *s = w->stage;
	uint64_t total;

	do {
		total = s->total;
		while (make_move(w, ctx))
			;
		if (is_first(w))
			tw_stage_deal_others(w, ctx);
	} while (s->total != total);
}

static void advance(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;
	uint64_t stream;

	do {
		stream = s->stream;
		if (s->early.count)
			tw_stage_hear_early(w, ctx);
		make_moves(w, ctx);
	} while (s->stream != stream && s->early.count);
	tw_stage_tell_closed(w, ctx);
	if (s->liar != UINT32_MAX) {
		tw_stage_accuse(w, ctx);
		return;
	}
	if (is_first(w) && tw_stage_stops(w) && !tw_stage_is_busy(w))
		tw_worker_give_back(w, ctx);
}

bool tw_stage_is_busy(const struct worker *w)
{
	return tw_worker_busy(w) || w->stage->forwards || w->stage->deal.next || w->building.micros;
}

/* Up to here every cell is closed. */
static uint64_t closed(const struct worker *w)
{
	const struct stage_worker *s = w->stage;
	uint64_t least = tw_stage_own_closed(w);

	for (uint32_t c = 1; c < s->cells; c++)
		least = s->closed[c] < least ? s->closed[c] : least;
	return least;
}

static bool waits(const struct worker *w, struct tw_wait *out)
{
	const struct stage_worker *s = w->stage;
	const struct tw_pipe_move m = w->plan->staging.schedule->move(&s->post, s->next);
	const uint64_t micro = tw_pipe_micro(&s->post, m.micro);
	uint32_t cell;

	if (m.deed == TW_FORWARD && s->post.stage) {
		cell = tw_plan_cell_for(w->plan, s->post.stage - 1, micro);
		out->why = "activations of micro-batch";
	} else if (m.deed == TW_FORWARD && !is_first(w)) {
		cell = 0;
		out->why = "the samples of micro-batch";
	} else if (m.deed == TW_BACKWARD && !is_last_stage(s)) {
		cell = tw_plan_cell_for(w->plan, s->post.stage + 1, micro);
		out->why = "gradients of micro-batch";
	} else {
		return false;
	}
	out->whom = (struct tw_addr){ s->roster[cell].node, TW_WORKER, (uint16_t)cell };
	out->step = micro;
	return true;
}

/* --- the seat ------------------------------------------------------------------------------- */

/* What of an evaluation this cell computes: from what the one before has computed to what the next
 * one needs. */
static void tests(const struct worker *w, uint32_t count, struct tw_eval_part *out)
{
	const struct stage_worker *s = w->stage;

	*out = (struct tw_eval_part){ .first = w->part->first,
				      .last = w->part->last,
				      .scratch = w->part->scratch,
				      .in = s->test_x,
				      .passes_on = !is_last_stage(s) };
	if (out->passes_on)
		out->floats = tw_model_cut_floats(w->part->out, count, false);
}

/* A cell passes on what it has computed to the next one. */
static void passed(struct worker *w, struct tw_context *ctx, const struct tw_eval_passed *p)
{
	if (p->done)
		tw_figures_worker_passed(w, ctx, &p->what);
	if (p->block)
		tw_stage_send_act(w, ctx,
				  &(struct tw_body_act){ .pin = p->what.pin,
							 .from = p->what.from,
							 .nominal = 1,
							 .count = p->what.count },
				  p->block);
}

static uint64_t begun(const struct worker *w)
{
	return tw_stage_mark(w->stage->stream, w->stage->deal.next);
}

const struct tw_driver tw_stage_driver = {
	.name = "schedule",
	.advance = advance,
	.computed = computed,
	.rested = move_on,
	.tests = tests,
	.passed = passed,
	.fetched = tw_stage_fetched,
	.welcomed = tw_stage_roster,
	.renewed = tw_links_renew,
	.reset = tw_stage_reset,
	.waits = waits,
	.closed = closed,
	.begun = begun,
	.pushers = pushers,
};

/* --- the duty ------------------------------------------------------------------------------ */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_is_staged(plan);
}

const struct tw_duty tw_stage_worker = {
	.name = "stage",
	.bytes = sizeof(struct stage_worker),
	.place = offsetof(struct worker, stage),
	.wanted = wanted,
};
