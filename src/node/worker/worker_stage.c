/* SPDX-License-Identifier: Apache-2.0 */
/* worker_stage.c - a cell makes the moves of its schedule: what it computes and sends on.  The
 * rules are in worker_stage.h; worker_stage_memory.c has what it keeps. */
#include "node/worker/worker.h"

/* --- the first cell: which samples -------------------------------------------------------- */

static bool stops(const struct worker *w)
{
	return w->leases.draining || w->me.state == WORKER_LEAVING;
}

/* A round needs whole groups: who leaves completes the one that it has begun. */
static bool begins_nothing(const struct worker *w)
{
	const struct worker_stage *s = w->stage;
	const bool within = tw_worker_rounds(w) && s->forwards % s->shape.micros != 0;

	return stops(w) && !(within && w->me.state == WORKER_LEAVING);
}

/* Nothing more is begun in this stream. */
static void end_stream(struct worker *w, struct tw_context *ctx)
{
	struct worker_stage *s = w->stage;

	if (!s->forwards || s->total != UINT64_MAX)
		return;
	s->total = s->forwards;
	tw_stage_send_act(w, ctx, &(struct tw_body_act){ .stream = s->stream, .micro = s->total },
			  NULL);
}

/* There is no lease to take samples of.  A stream ends where nobody knows when the next one comes,
 * or where the next one is of another group. */
static void without_lease(struct worker *w, struct tw_context *ctx)
{
	const struct worker_stage *s = w->stage;
	const bool rounds = tw_worker_rounds(w);

	if (rounds ? s->forwards % s->shape.micros != 0 || w->me.state == WORKER_LEAVING
		   : w->leases.dry || stops(w))
		end_stream(w, ctx);
	if (!stops(w) && (!rounds || !w->exchange.outs))
		tw_worker_want(w, ctx);
}

/* A contribution names TW_RANGES ranges at most: a group that has so many ends there. */
static bool is_scattered(struct worker *w, uint64_t lease)
{
	struct worker_stage *s = w->stage;

	if (s->forwards % s->shape.micros == 0)
		s->ranges = 0;
	if (!s->ranges || s->range_lease != lease)
		s->ranges++;
	s->range_lease = lease;
	return s->ranges >= TW_RANGES && s->shape.micros > 1;
}

/* The next samples of the leases into the flight; false: there are none now. */
static bool take_samples(struct worker *w, struct tw_context *ctx, uint64_t micro, struct flight *f)
{
	const uint64_t samples = w->plan->problem.samples;
	struct held *h = begins_nothing(w) ? NULL : tw_worker_current(w);
	uint64_t most;

	if (!h) {
		without_lease(w, ctx);
		return false;
	}
	most = samples - h->next % samples; /* no batch is of two epochs */
	most = most < h->to - h->next ? most : h->to - h->next;
	f->known = true;
	f->what = (struct tw_body_act){ .stream = w->stage->stream,
					.micro = micro,
					.from = h->next,
					.round = h->round,
					.nominal = h->nominal,
					.count = most < h->batch ? (uint32_t)most : h->batch,
					.lease = (uint32_t)h->id };
	f->what.last = f->what.from + f->what.count == h->to;
	return true;
}

/* The flight begins: its samples are not to be taken again. */
static void samples_begun(struct worker *w, struct tw_context *ctx, const struct flight *f)
{
	struct held *h = tw_worker_current(w);

	h->next += f->what.count;
	if (is_scattered(w, h->id)) {
		w->stage->total = f->what.micro + 1;
		tw_stage_send_act(w, ctx,
				  &(struct tw_body_act){ .stream = w->stage->stream,
							 .micro = w->stage->total },
				  NULL);
	}
	if (!tw_worker_rounds(w) && tw_worker_positions_left(w) <= h->batch)
		tw_worker_want(w, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STEP,
					.slot = w->me.id.slot,
					.incarnation = w->me.id.incarnation,
					.seq = w->exchange.seq,
					.from = f->what.from,
					.count = f->what.count });
}

/* --- computing ---------------------------------------------------------------------------- */

static void no_memory(struct worker *w, struct tw_context *ctx)
{
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for stage %u of the model", w->stage->cell);
}

static void compute(struct worker *w, struct tw_context *ctx, const struct flight *f,
		    struct tw_block *const *view)
{
	struct worker_stage *s = w->stage;
	struct stage_run *r = &s->run;
	struct tw_compute *c = &w->step.compute;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct tw_holding *range = &w->exchange.holder[k].range;

		r->view[k] = tw_block_keep(view[k]);
		w->step.piece[k] =
			(struct tw_piece){ tw_block_floats(r->view[k]), range->from, range->n };
	}
	*c = (struct tw_compute){
		.pass = { .kind = r->back ? TW_PASS_BACKWARD : TW_PASS_FORWARD,
			  .first = s->plan->first,
			  .last = s->plan->last,
			  .x = r->x ? tw_block_floats(r->x) : NULL,
			  .dy = r->dy ? tw_block_floats(r->dy) : NULL,
			  .stash = r->stash ? r->stash->data : NULL,
			  .y = !r->back && r->out ? tw_block_floats(r->out) : NULL,
			  .dx = r->back && r->out ? tw_block_floats(r->out) : NULL },
		.again = r->back,
		.share = r->back ? s->plan->backward : s->plan->forward,
		.scratch = s->plan->scratch,
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
	if (!s->counts.forwards && !r->back)
		s->counts.first = r->began;
	tw_stage_count_memory(w);
	tw_stage_watch(w, ctx);
	ctx->world->compute(ctx, c);
}

/* True: the move is under way. */
static bool forward(struct worker *w, struct tw_context *ctx, uint64_t micro)
{
	struct worker_stage *s = w->stage;
	struct flight *f = &s->flight[micro % s->window];
	const bool first = s->cell == 0, last = s->cell + 1 == s->cells;

	if (first && !f->known && !take_samples(w, ctx, micro, f))
		return false;
	if (!f->known)
		return false;
	if (!tw_stage_look(w, ctx, f)) {
		f->known = !first; /* the lease may be another one by then */
		return false;
	}
	f->stash = s->plan->stash ? tw_pool_take(s->stashes) : NULL;
	s->run.out = last ? NULL : tw_pool_take(s->outs);
	if ((s->plan->stash && !f->stash) || (!last && !s->run.out)) {
		no_memory(w, ctx);
		return false;
	}
	s->run.of = f;
	s->run.micro = micro;
	s->run.back = false;
	s->run.x = tw_block_keep(f->x);
	s->run.stash = tw_block_keep(f->stash);
	s->forwards++;
	s->next++;
	if (first)
		samples_begun(w, ctx, f);
	compute(w, ctx, f, f->view);
	return true;
}

/* Does the backward of this micro-batch complete a contribution? */
static bool completes(const struct worker *w, const struct flight *f)
{
	const struct worker_stage *s = w->stage;

	return w->building.micros + 1 >= s->shape.micros || f->what.micro + 1 == s->total ||
	       (tw_worker_rounds(w) && f->what.last) || w->building.ranges >= TW_RANGES - 1;
}

static bool backward(struct worker *w, struct tw_context *ctx, uint64_t micro)
{
	struct worker_stage *s = w->stage;
	struct flight *f = &s->flight[micro % s->window];
	const bool stashes =
		tw_pipeline_stashes(w->plan->staging.schedule, w->plan->staging.options);

	if (!f->forwarded || (s->cell + 1 < s->cells && !f->dy))
		return false;
	if (completes(w, f) &&
	    (tw_exchange_asks(&w->exchange) || !tw_exchange_has_credit(&w->exchange))) /* (4) */
		return false;
	if (!stashes) {
		if (!tw_stage_has_newest(w, ctx, f->what.round))
			return false;
		for (uint32_t k = 0; k < w->exchange.holders; k++) {
			tw_block_drop(f->view[k]);
			f->view[k] = tw_block_keep(w->exchange.holder[k].view);
		}
	}
	s->run.out = s->cell ? tw_pool_take(s->backs) : NULL;
	if ((s->cell && !s->run.out) || !tw_step_take_gradient(w)) {
		no_memory(w, ctx);
		return false;
	}
	s->run.of = f;
	s->run.micro = micro;
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
	struct worker_stage *s = w->stage;
	const bool keeps = tw_pipeline_stashes(w->plan->staging.schedule, w->plan->staging.options);

	f->forwarded = true;
	if (s->cell + 1 == s->cells)
		f->loss = w->step.compute.score.loss;
	if (!keeps)
		tw_stage_drop_views(f->view, w->exchange.holders);
	tw_stage_send_act(w, ctx, &f->what, s->run.out);
	s->counts.forwards++;
	s->counts.last = tw_now(ctx);
	s->counts.forward_time += s->counts.last - s->run.began;
}

/* The first cell: samples of its lease are in what is contributed. */
static void count_step(struct worker *w, struct tw_context *ctx, const struct flight *f)
{
	struct held *h = tw_worker_held(w, f->what.lease);

	if (h)
		h->backed += f->what.count;
	w->steps++;
	w->samples += f->what.count;
	w->losses += f->what.count;
	w->loss += f->loss;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_GRADIENT,
					.slot = w->me.id.slot,
					.count = f->what.count,
					.from = f->what.from,
					.value = f->loss });
}

static void backwarded(struct worker *w, struct tw_context *ctx, struct flight *f)
{
	struct worker_stage *s = w->stage;
	const struct tw_computed done = { .position = f->what.from,
					  .lease = f->what.lease,
					  .round = f->what.round,
					  .nominal = f->what.nominal,
					  .loss = f->loss,
					  .count = f->what.count,
					  .last = f->what.last };

	tw_stage_send_grad(w, ctx, f, s->run.out);
	s->backwards++;
	s->counts.backwards++;
	if (!s->cell)
		count_step(w, ctx, f);
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		w->shard[k].base = f->base[k];
	tw_stage_land(f, w->exchange.holders);
	tw_worker_contribute(w, ctx, &done, w->step.gradient);
	/* adding it up takes its time, too */
	s->counts.last = tw_now(ctx);
	s->counts.backward_time += s->counts.last - s->run.began;
	tw_stage_tell(w, ctx);
	s->waits_version = s->waits_version || tw_exchange_asks(&w->exchange);
	s->waits_since = s->counts.last;
}

void tw_stage_computed(struct worker *w, struct tw_context *ctx)
{
	struct worker_stage *s = w->stage;
	const enum tw_status status = w->step.compute.status;
	const bool wanted = w->step.state == STEP_COMPUTING;

	w->step.state = STEP_IDLE;
	if (wanted && status == TW_OK) {
		struct flight *f = &s->flight[s->run.micro % s->window];

		if (s->run.back)
			backwarded(w, ctx, f);
		else
			forwarded(w, ctx, f);
	} else if (wanted && status != TW_CANCELLED) {
		tw_give_up(ctx, status, "stage %u of the model could not be computed: %s", s->cell,
			   tw_status_name(status));
	}
	tw_stage_end_run(w);
}

void tw_stage_move_on(struct worker *w, struct tw_context *ctx)
{
	if (!w->stage->moves || tw_worker_busy(w) || w->eval.busy)
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
	struct worker_stage *s = w->stage;

	if (w->building.micros &&
	    (tw_exchange_asks(&w->exchange) || !tw_exchange_has_credit(&w->exchange)))
		return false;
	tw_worker_flush(w, ctx);
	for (uint32_t k = 0; k < s->versions; k++)
		tw_stage_drop_views(s->version[k].view, w->exchange.holders);
	tw_stage_begin_stream(s);
	s->stream++;
	return true;
}

/* True: there may be more to do at once. */
static bool make_move(struct worker *w, struct tw_context *ctx)
{
	struct worker_stage *s = w->stage;
	struct tw_pipe_move m;

	if (tw_worker_busy(w))
		return false;
	if (s->backwards == s->total)
		return finish_stream(w, ctx);
	m = w->plan->staging.schedule->move(&s->shape, s->cell, s->next);
	if (m.deed == TW_UPDATE || !tw_pipe_move_counts(&m, s->shape.micros, s->total)) {
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
	return s->total != UINT64_MAX && m.micro >= s->total;
}

void tw_stage_advance(struct worker *w, struct tw_context *ctx)
{
	struct worker_stage *s = w->stage;
	uint64_t stream;

	do {
		stream = s->stream;
		if (s->earlies)
			tw_stage_hear_early(w, ctx);
		while (make_move(w, ctx))
			;
	} while (s->stream != stream && s->earlies);
	tw_stage_tell_closed(w, ctx);
	if (s->liar != UINT32_MAX) {
		tw_stage_accuse(w, ctx);
		return;
	}
	if (!s->cell && stops(w) && !tw_stage_is_busy(w))
		tw_worker_give_back(w, ctx);
}

bool tw_stage_is_busy(const struct worker *w)
{
	return tw_worker_busy(w) || w->stage->forwards || w->building.micros;
}

uint64_t tw_stage_closed(const struct worker *w)
{
	const struct worker_stage *s = w->stage;
	uint64_t least = tw_exchange_closed(&w->exchange) - s->seq_before;

	for (uint32_t c = 1; c < s->cells; c++)
		least = s->closed[c] < least ? s->closed[c] : least;
	return least;
}

bool tw_stage_waits(const struct worker *w, struct tw_wait *out)
{
	const struct worker_stage *s = w->stage;
	const struct tw_pipe_move m = w->plan->staging.schedule->move(&s->shape, s->cell, s->next);
	uint32_t cell;

	if (m.deed == TW_FORWARD && s->cell) {
		cell = tw_plan_cell_for(w->plan, s->cell - 1, m.micro);
		out->why = "activations of micro-batch";
	} else if (m.deed == TW_BACKWARD && s->cell + 1 < s->cells) {
		cell = tw_plan_cell_for(w->plan, s->cell + 1, m.micro);
		out->why = "gradients of micro-batch";
	} else {
		return false;
	}
	out->whom = (struct tw_addr){ s->roster[cell].node, TW_WORKER, (uint16_t)cell };
	out->step = m.micro;
	return true;
}
