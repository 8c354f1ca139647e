/* SPDX-License-Identifier: Apache-2.0 */
/* worker_stage.c - a cell makes the moves of its schedule: what it reads, computes and sends on.
 * The rules are in worker_stage.h. */
#include "node/worker/worker.h"

#include <math.h>
#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

static void *carve(uint8_t **at, size_t bytes)
{
	void *here = *at;

	*at += (bytes + 15) / 16 * 16;
	return here;
}

/* Arrays of all flights and versions; `at` NULL: only how many bytes they take. */
static size_t lay_out(struct worker_stage *s, uint32_t holders, uint8_t *room)
{
	uint8_t *at = room;
	const size_t views = holders * sizeof(struct tw_block *);
	const size_t bases = holders * sizeof(struct tw_stamp);

	s->flight = carve(&at, s->window * sizeof *s->flight);
	s->version = carve(&at, s->versions * sizeof *s->version);
	s->early = carve(&at, (s->window + 2) * sizeof *s->early);
	s->closed = carve(&at, s->cells * sizeof *s->closed);
	s->run.view = carve(&at, views);
	for (uint32_t k = 0; k < s->window; k++) {
		struct tw_block **view = carve(&at, views);
		struct tw_stamp *base = carve(&at, bases);

		if (room)
			s->flight[k] = (struct flight){ .view = view, .base = base };
	}
	for (uint32_t k = 0; k < s->versions; k++) {
		struct tw_block **view = carve(&at, views);
		struct tw_stamp *base = carve(&at, bases);

		if (room)
			s->version[k] = (struct stage_version){ .view = view, .base = base };
	}
	return (size_t)(at - room);
}

/* Versions of the past are kept where the schedule asks for them by number. */
static bool reads_past(const struct worker *w)
{
	const struct tw_staging *p = &w->plan->staging;
	const struct tw_pipe_shape shape = tw_plan_pipe_shape(w->plan);

	return tw_pipeline_reads(p->schedule, p->options, &shape, 0) != TW_PIPE_NEWEST;
}

enum tw_status tw_stage_open(struct worker *w, uint32_t cell)
{
	const struct tw_staging *p = &w->plan->staging;
	struct worker_stage *s = tw_heap_zeros(w->heap, sizeof *s);
	struct worker_stage sizes;

	if (!s)
		return TW_NO_MEMORY;
	w->stage = s;
	s->plan = &p->stage[cell];
	s->cell = cell;
	s->cells = p->stages;
	s->shape = tw_plan_pipe_shape(w->plan);
	s->total = UINT64_MAX;
	s->window = p->stage[cell ? cell - 1 : 0].keeps.depth; /* (2) */
	s->versions = reads_past(w) ? s->plan->keeps.versions + 1 : 0;
	sizes = *s;
	s->room = tw_heap_zeros(w->heap, lay_out(&sizes, s->plan->shards, NULL) + 16);
	s->stashes = tw_pool_new(w->heap, s->plan->stash);
	s->outs = tw_pool_new(w->heap, s->plan->sends * sizeof(float));
	s->backs = tw_pool_new(w->heap, s->plan->returns * sizeof(float));
	if (!s->room || !s->stashes || !s->outs || !s->backs)
		return TW_NO_MEMORY;
	lay_out(s, s->plan->shards, s->room);
	return TW_OK;
}

static void drop_views(struct tw_block **view, uint32_t holders)
{
	for (uint32_t k = 0; k < holders; k++) {
		tw_block_drop(view[k]);
		view[k] = NULL;
	}
}

static void land(struct flight *f, uint32_t holders)
{
	drop_views(f->view, holders);
	tw_block_drop(f->x);
	tw_block_drop(f->dy);
	tw_block_drop(f->stash);
	*f = (struct flight){ .view = f->view, .base = f->base };
}

static void end_run(struct worker *w)
{
	struct stage_run *r = &w->stage->run;

	drop_views(r->view, w->exchange.holders);
	tw_block_drop(r->x);
	tw_block_drop(r->dy);
	tw_block_drop(r->stash);
	tw_block_drop(r->out);
	*r = (struct stage_run){ .view = r->view };
}

/* Nothing is in flight; the next stream begins. */
static void begin_stream(struct worker_stage *s)
{
	s->total = UINT64_MAX;
	s->next = s->forwards = s->backwards = s->newest = 0;
	s->ranges = 0;
	s->waits_version = false;
}

void tw_stage_reset(struct worker *w)
{
	struct worker_stage *s = w->stage;

	for (uint32_t k = 0; k < s->window; k++)
		land(&s->flight[k], w->exchange.holders);
	for (uint32_t k = 0; k < s->versions; k++)
		drop_views(s->version[k].view, w->exchange.holders);
	begin_stream(s);
	s->stream = s->told = 0;
	s->seq_before = w->exchange.seq;
	memset(s->closed, 0, s->cells * sizeof *s->closed);
}

void tw_stage_close(struct worker *w)
{
	struct worker_stage *s = w->stage;

	if (!s)
		return;
	if (s->room && s->stashes && s->outs && s->backs) {
		tw_stage_reset(w);
		end_run(w);
		tw_stage_forget_early(s);
		tw_block_drop(s->test_x);
	}
	tw_pool_free(s->stashes);
	tw_pool_free(s->outs);
	tw_pool_free(s->backs);
	w->heap->put(w->heap, s->room);
	w->heap->put(w->heap, s);
	w->stage = NULL;
}

/* --- versions ----------------------------------------------------------------------------- */

/* (4): what came is the next version; those that no forward will read are let go. */
static void keep_version(struct worker *w)
{
	const struct tw_staging *p = &w->plan->staging;
	struct worker_stage *s = w->stage;
	const uint64_t oldest = tw_pipeline_reads(p->schedule, p->options, &s->shape, s->forwards);
	struct stage_version last = s->version[s->versions - 1];

	drop_views(last.view, w->exchange.holders);
	memmove(s->version + 1, s->version, (s->versions - 1) * sizeof *s->version);
	last.number = s->newest;
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		last.view[k] = tw_block_keep(w->exchange.holder[k].view);
		last.base[k] = w->exchange.holder[k].seen;
	}
	s->version[0] = last;
	for (uint32_t k = 1; k < s->versions; k++)
		if (s->version[k].number < oldest)
			drop_views(s->version[k].view, w->exchange.holders);
}

void tw_stage_fetched(struct worker *w, struct tw_context *ctx)
{
	struct worker_stage *s = w->stage;

	if (s->waits_version) {
		s->newest++;
		s->counts.updates++;
		s->counts.update_time += tw_now(ctx) - s->waits_since;
	}
	s->waits_version = false;
	if (s->versions && s->forwards)
		keep_version(w);
}

static const struct stage_version *find_version(const struct worker_stage *s, uint64_t number)
{
	for (uint32_t k = 0; k < s->versions; k++)
		if (s->version[k].view[0] && s->version[k].number == number)
			return &s->version[k];
	return NULL;
}

/* Ask for what a micro-batch of this round needs; true: the newest is here. */
static bool has_newest(struct worker *w, struct tw_context *ctx, uint64_t round)
{
	struct exchange *x = &w->exchange;
	const bool rounds = tw_worker_rounds(w);
	bool all = true;

	for (uint32_t k = 0; k < x->holders; k++) {
		struct holder *h = &x->holder[k];
		const bool old = !h->view || (rounds && h->round < round);

		if (old && h->request == TW_REQUEST_NONE && h->known) {
			w->since = tw_now(ctx);
			tw_exchange_pull(x, ctx, h, round);
		}
		all = all && !old && h->request == TW_REQUEST_NONE;
	}
	return all;
}

/* The views that FORWARD of a micro-batch reads, into its flight.  False: they are not here yet. */
static bool look(struct worker *w, struct tw_context *ctx, struct flight *f)
{
	const struct tw_staging *p = &w->plan->staging;
	struct worker_stage *s = w->stage;
	const uint64_t number =
		tw_pipeline_reads(p->schedule, p->options, &s->shape, f->what.micro);
	const struct stage_version *v = NULL;

	if (number == TW_PIPE_NEWEST || !s->forwards) {
		if (!has_newest(w, ctx, f->what.round))
			return false;
		if (s->versions && !s->forwards)
			keep_version(w);
	} else if (!(v = find_version(s, number))) {
		return false;
	}
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct holder *h = &w->exchange.holder[k];

		f->view[k] = tw_block_keep(v ? v->view[k] : h->view);
		f->base[k] = v ? v->base[k] : h->seen;
	}
	return true;
}

/* --- counting ----------------------------------------------------------------------------- */

static bool is_among(struct tw_block *const *list, uint32_t count, const struct tw_block *b)
{
	for (uint32_t k = 0; k < count; k++)
		if (list[k] == b)
			return true;
	return !b;
}

/* What it holds, at its most: versions, inputs and stashes. */
static void count_memory(struct worker *w)
{
	struct worker_stage *s = w->stage;
	struct stage_counts *c = &s->counts;
	struct tw_block *seen[64 * 4];
	uint32_t versions = 0, depth = 0;
	size_t bytes = 0;

	if (!w->exchange.holders)
		return;
	seen[versions++] = w->exchange.holder[0].view;
	for (uint32_t k = 0; k < s->window; k++) {
		const struct flight *f = &s->flight[k];

		if (f->view[0] && !is_among(seen, versions, f->view[0]) && versions < 64 * 4)
			seen[versions++] = f->view[0];
		depth += f->forwarded || f == s->run.of;
		if (f->forwarded || f == s->run.of)
			bytes += (f->x ? f->x->bytes : 0) + s->plan->stash;
	}
	for (uint32_t k = 0; k < s->versions; k++)
		if (!is_among(seen, versions, s->version[k].view[0]) && versions < 64 * 4)
			seen[versions++] = s->version[k].view[0];
	bytes += versions * s->plan->floats * sizeof(float);
	c->depth = depth > c->depth ? depth : c->depth;
	c->versions = versions > c->versions ? versions : c->versions;
	c->memory = bytes > c->memory ? bytes : c->memory;
}

static void tell(struct worker *w, struct tw_context *ctx)
{
	const struct worker_stage *s = w->stage;
	const struct stage_counts *c = &s->counts;

	tw_note(ctx, &(struct tw_note){
			     .kind = TW_NOTE_STAGE,
			     .slot = w->me.id.slot,
			     .stage = &(struct tw_stage_note){ .cell = s->cell,
							       .forwards = c->forwards,
							       .backwards = c->backwards,
							       .forward_time = c->forward_time,
							       .backward_time = c->backward_time,
							       .first = c->first,
							       .last = c->last,
							       .updates = c->updates,
							       .update_time = c->update_time,
							       .sent = c->sent,
							       .depth = c->depth,
							       .versions = c->versions,
							       .memory = c->memory } });
}

/* --- the first cell: which samples -------------------------------------------------------- */

static bool stops(const struct worker *w)
{
	return w->leases.draining || w->me.state == WORKER_LEAVING;
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

	if (rounds ? s->forwards % s->shape.micros != 0 : w->leases.dry || stops(w))
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
	struct held *h = stops(w) ? NULL : tw_worker_current(w);
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
	count_memory(w);
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
	if (!look(w, ctx, f)) {
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
		if (!has_newest(w, ctx, f->what.round))
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
		drop_views(f->view, w->exchange.holders);
	tw_stage_send_act(w, ctx, &f->what, s->run.out);
	s->counts.forwards++;
	s->counts.forward_time += tw_now(ctx) - s->run.began;
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
	land(f, w->exchange.holders);
	tw_worker_contribute(w, ctx, &done, w->step.gradient);
	/* adding it up takes its time, too */
	s->counts.last = tw_now(ctx);
	s->counts.backward_time += s->counts.last - s->run.began;
	tell(w, ctx);
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
	end_run(w);
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
		drop_views(s->version[k].view, w->exchange.holders);
	begin_stream(s);
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

	if (s->earlies)
		tw_stage_hear_early(w, ctx);
	while (make_move(w, ctx))
		;
	tw_stage_tell_closed(w, ctx);
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

	if (m.deed == TW_FORWARD && s->cell) {
		out->whom = tw_stage_cell(w, s->cell - 1);
		out->why = "activations of micro-batch";
	} else if (m.deed == TW_BACKWARD && s->cell + 1 < s->cells) {
		out->whom = tw_stage_cell(w, s->cell + 1);
		out->why = "gradients of micro-batch";
	} else {
		return false;
	}
	out->step = m.micro;
	return true;
}
