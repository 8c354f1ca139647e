/* SPDX-License-Identifier: Apache-2.0 */
/* stage_memory.c - what a cell keeps: flights, versions of its parameters, counts;
 * README.md has the rules. */
#include "node/duty/figures/figures.h"
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"

#include <string.h>

/* --- memory ------------------------------------------------------------------------------- */

static void *carve(uint8_t **at, size_t bytes)
{
	void *here = *at;

	*at += (bytes + 15) / 16 * 16;
	return here;
}

/* Arrays of all flights and versions; `room` NULL: only how many bytes they take. */
static size_t lay_out(struct stage_worker *s, uint32_t holders, uint8_t *room)
{
	uint8_t *at = room;
	const size_t views = holders * sizeof(struct tw_block *);
	const size_t bases = holders * sizeof(struct tw_stamp);

	s->flight = carve(&at, s->window * sizeof *s->flight);
	s->version = carve(&at, s->versions * sizeof *s->version);
	s->closed = carve(&at, s->cells * sizeof *s->closed);
	s->deal.of = carve(&at, s->deal.span * sizeof *s->deal.of);
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

/* (9): micro-batches that may be on their way through all stages. */
static uint32_t span_of(const struct tw_plan *p)
{
	const struct tw_stage *first = &p->staging.stage[0];

	if (first->lanes > 1 && p->staging.schedule->traits & TW_PIPELINE_FLUSHES)
		return p->dealing.accumulate;
	return first->lanes * first->keeps.depth;
}

/* (2): what a stage gets at most before it has sent something back.  Where it gets that from
 * several cells, or shares it with others, one may be ahead of another as far as the span goes. */
static uint32_t window_of(const struct tw_plan *p, uint32_t stage)
{
	const struct tw_stage *s = &p->staging.stage[stage];

	if (p->staging.cells == p->staging.stages)
		return p->staging.stage[stage ? stage - 1 : 0].keeps.depth;
	return (span_of(p) + s->lanes - 1) / s->lanes;
}

enum tw_status tw_stage_open(struct worker *w)
{
	const struct tw_staging *p = &w->plan->staging;
	struct stage_worker *s = w->stage;

	if (!s)
		return TW_OK;
	s->cells = tw_plan_cells(w->plan);
	s->shape = tw_plan_pipe_shape(w->plan);
	s->total = UINT64_MAX;
	s->liar = UINT32_MAX;
	for (uint32_t k = 0; k < p->stages; k++)
		if (window_of(w->plan, k) > s->early_room)
			s->early_room = window_of(w->plan, k);
	s->early_room += 3 + s->cells; /* ends of streams, an evaluation, CLOSED of each */
	tw_early_init(&s->early, s->cells, s->early_room);
	s->roster = tw_heap_zeros(w->heap, s->cells * sizeof *s->roster);
	s->named = tw_heap_zeros(w->heap, s->cells * sizeof *s->named);
	return s->roster && s->named && tw_links_open(w) == TW_OK ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_stage_take(struct worker *w, uint32_t cell)
{
	const struct tw_staging *p = &w->plan->staging;
	struct stage_worker *s = w->stage, sizes;

	s->post = tw_pipeline_post(p->schedule, &s->shape, cell);
	w->part = &p->stage[s->post.stage];
	w->me.cell = cell;
	w->me.lane = s->post.lane;
	w->me.lanes = s->post.lanes;
	s->window = window_of(w->plan, s->post.stage);
	s->deal.span = cell ? 0 : span_of(w->plan);
	s->versions = reads_past(w) ? w->part->keeps.versions + 1 : 0;
	sizes = *s;
	s->room = tw_heap_zeros(w->heap, lay_out(&sizes, w->part->shards, NULL) + 16);
	s->stashes = tw_pool_new(w->heap, w->part->stash);
	s->outs = tw_pool_new(w->heap, w->part->sends * sizeof(float));
	s->backs = tw_pool_new(w->heap, w->part->returns * sizeof(float));
	if (!s->room || !s->stashes || !s->outs || !s->backs || tw_stage_open_codec(w) != TW_OK)
		return TW_NO_MEMORY;
	lay_out(s, w->part->shards, s->room);
	return TW_OK;
}

void tw_stage_drop_views(struct tw_block **view, uint32_t holders)
{
	for (uint32_t k = 0; k < holders; k++) {
		tw_block_drop(view[k]);
		view[k] = NULL;
	}
}

void tw_stage_land(struct flight *f, uint32_t holders)
{
	tw_stage_drop_views(f->view, holders);
	tw_block_drop(f->x);
	tw_block_drop(f->dy);
	tw_block_drop(f->stash);
	*f = (struct flight){ .view = f->view, .base = f->base };
}

void tw_stage_end_run(struct worker *w)
{
	struct stage_run *r = &w->stage->run;

	tw_stage_drop_views(r->view, w->exchange.holders);
	tw_block_drop(r->x);
	tw_block_drop(r->dy);
	tw_block_drop(r->stash);
	tw_block_drop(r->out);
	*r = (struct stage_run){ .view = r->view };
}

/* Nothing is in flight; the next stream begins. */
void tw_stage_begin_stream(struct stage_worker *s)
{
	s->total = UINT64_MAX;
	s->next = s->forwards = s->backwards = s->newest = 0;
	s->deal.next = s->deal.back = s->deal.ranges = 0;
	s->waits_version = false;
}

void tw_stage_reset(struct worker *w)
{
	struct stage_worker *s = w->stage;

	if (!w->part)
		return;
	for (uint32_t k = 0; k < s->window; k++)
		tw_stage_land(&s->flight[k], w->exchange.holders);
	for (uint32_t k = 0; k < s->versions; k++)
		tw_stage_drop_views(s->version[k].view, w->exchange.holders);
	tw_stage_begin_stream(s);
	tw_links_reset(w);
	s->stream = s->told = 0;
	memset(s->mark, 0, sizeof s->mark);
	memset(s->closed, 0, s->cells * sizeof *s->closed);
}

void tw_stage_leave(struct worker *w)
{
	struct stage_worker *s = w->stage;

	if (!s)
		return;
	if (s->room && s->stashes && s->outs && s->backs) {
		tw_stage_reset(w);
		tw_stage_end_run(w);
	}
	tw_block_drop(s->test_x);
	tw_pool_free(s->stashes);
	tw_pool_free(s->outs);
	tw_pool_free(s->backs);
	tw_stage_close_codec(w);
	w->heap->put(w->heap, s->room);
	w->part = NULL;
	s->room = NULL;
	s->stashes = s->outs = s->backs = NULL;
	s->test_x = NULL;
	s->window = s->versions = 0;
}

void tw_stage_close(struct worker *w)
{
	struct stage_worker *s = w->stage;

	if (!s)
		return;
	tw_stage_leave(w);
	tw_links_close(w);
	tw_early_forget(&s->early, w->heap);
	w->heap->put(w->heap, s->roster);
	w->heap->put(w->heap, s->named);
}

/* --- versions ----------------------------------------------------------------------------- */

/* (4): what came is the next version; those that no forward will read are let go. */
static void keep_version(struct worker *w)
{
	const struct tw_staging *p = &w->plan->staging;
	struct stage_worker *s = w->stage;
	const uint64_t oldest = tw_pipeline_reads(p->schedule, p->options, &s->shape, s->forwards);
	struct stage_version last = s->version[s->versions - 1];

	tw_stage_drop_views(last.view, w->exchange.holders);
	memmove(s->version + 1, s->version, (s->versions - 1) * sizeof *s->version);
	last.number = s->newest;
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		last.view[k] = tw_block_keep(w->exchange.holder[k].view);
		last.base[k] = w->exchange.holder[k].seen;
	}
	s->version[0] = last;
	for (uint32_t k = 1; k < s->versions; k++)
		if (s->version[k].number < oldest)
			tw_stage_drop_views(s->version[k].view, w->exchange.holders);
}

void tw_stage_fetched(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;

	if (s->waits_version) {
		s->newest++;
		tw_figures_worker_updated(w, tw_now(ctx) - s->waits_since);
	}
	s->waits_version = false;
	if (s->versions && s->forwards)
		keep_version(w);
}

static const struct stage_version *find_version(const struct stage_worker *s, uint64_t number)
{
	for (uint32_t k = 0; k < s->versions; k++)
		if (s->version[k].view[0] && s->version[k].number == number)
			return &s->version[k];
	return NULL;
}

/* Ask for what a micro-batch of this round needs; true: the newest is here. */
bool tw_stage_has_newest(struct worker *w, struct tw_context *ctx, uint64_t round)
{
	struct exchange *x = &w->exchange;
	const bool rounds = tw_worker_rounds(w);
	/* it was without work, and others went on meanwhile; numbered versions are one worker's */
	const bool due = w->building.fetch_due && !w->stage->versions;
	bool all = true;

	for (uint32_t k = 0; k < x->holders; k++) {
		struct holder *h = &x->holder[k];
		const bool old = !h->view || (rounds && h->round < round) || due;

		if (old && h->request == TW_REQUEST_NONE && h->known) {
			w->since = tw_now(ctx);
			tw_exchange_pull(x, ctx, h, round);
		}
		all = all && !old && h->request == TW_REQUEST_NONE;
	}
	w->building.fetch_due = false;
	return all;
}

/* The views that FORWARD of a micro-batch reads, into its flight.  False: they are not here yet. */
bool tw_stage_look(struct worker *w, struct tw_context *ctx, struct flight *f)
{
	const struct tw_staging *p = &w->plan->staging;
	struct stage_worker *s = w->stage;
	const uint64_t number =
		tw_pipeline_reads(p->schedule, p->options, &s->shape, f->what.micro);
	const struct stage_version *v = NULL;

	if (number == TW_PIPE_NEWEST || !s->forwards) {
		if (!tw_stage_has_newest(w, ctx, f->what.round))
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

uint64_t tw_stage_own_closed(const struct worker *w)
{
	const struct stage_worker *s = w->stage;

	if (!w->exchange.outs && !w->building.micros)
		return tw_stage_mark(s->stream, tw_pipe_micro(&s->post, s->backwards));
	return s->mark[tw_exchange_closed(&w->exchange) % (TW_CREDITS + 1)];
}

/* --- what it holds ------------------------------------------------------------------------- */

static bool is_among(struct tw_block *const *list, uint32_t count, const struct tw_block *b)
{
	for (uint32_t k = 0; k < count; k++)
		if (list[k] == b)
			return true;
	return !b;
}

/* Versions, inputs and stashes. */
struct tw_stage_held tw_stage_holds(const struct worker *w)
{
	const struct stage_worker *s = w->stage;
	struct tw_stage_held held = { 0 };
	struct tw_block *seen[64 * 4];

	if (!w->exchange.holders)
		return held;
	seen[held.versions++] = w->exchange.holder[0].view;
	for (uint32_t k = 0; k < s->window; k++) {
		const struct flight *f = &s->flight[k];

		if (f->view[0] && !is_among(seen, held.versions, f->view[0]) &&
		    held.versions < 64 * 4)
			seen[held.versions++] = f->view[0];
		held.depth += f->forwarded || f == s->run.of;
		if (f->forwarded || f == s->run.of)
			held.bytes += (f->x ? f->x->bytes : 0) + w->part->stash;
	}
	for (uint32_t k = 0; k < s->versions; k++)
		if (!is_among(seen, held.versions, s->version[k].view[0]) && held.versions < 64 * 4)
			seen[held.versions++] = s->version[k].view[0];
	held.bytes += held.versions * w->part->floats * sizeof(float);
	return held;
}
