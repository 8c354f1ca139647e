/* SPDX-License-Identifier: Apache-2.0 */
/* worker_figures.c - what a cell counts of itself, and tells: notes here, FIGURES to the master.
 *
 *  (1) a timer looks once a second.  If the cell has made moves since, or waits for another cell
 *      than it has told, it tells.  If not, all is told, and the timer rests until it computes.
 *  (2) pipelines wait all the time, for a moment: only a wait in which it made no move since the
 *      last look is told. */
#include "node/worker/worker.h"

#define REPORT TW_SECOND

static bool is_among(struct tw_block *const *list, uint32_t count, const struct tw_block *b)
{
	for (uint32_t k = 0; k < count; k++)
		if (list[k] == b)
			return true;
	return !b;
}

/* What it holds, at its most: versions, inputs and stashes. */
void tw_stage_count_memory(struct worker *w)
{
	struct worker_stage *s = w->stage;
	struct tw_stage_work *c = &s->counts.work;
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

void tw_stage_tell(struct worker *w, struct tw_context *ctx)
{
	const struct worker_stage *s = w->stage;
	const struct stage_counts *c = &s->counts;

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STAGE,
					.slot = w->me.id.slot,
					.incarnation = w->me.id.incarnation,
					.stage = &(struct tw_stage_note){ .cell = s->cell,
									  .first = c->first,
									  .last = c->last,
									  .work = c->work } });
}

/* The master need not hear which cell it is: it knows who has which place. */
static void report(struct worker *w, struct tw_context *ctx, uint64_t asked)
{
	const struct stage_counts *c = &w->stage->counts;
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_FIGURES);
	const int64_t now = tw_now(ctx);

	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.figures = (struct tw_body_figures){
		.asked = asked,
		.began = c->work.forwards ? (uint64_t)(now - c->first) : 0,
		.ended = c->work.forwards ? (uint64_t)(now - c->last) : 0,
		.work = c->work,
		.pin = c->pin,
		.from = c->from,
		.waits = c->waits,
	};
	tw_send(ctx, m);
}

void tw_stage_forget_counts(struct worker *w, struct tw_context *ctx)
{
	w->stage->counts = (struct stage_counts){ .waits = UINT32_MAX };
	tw_stage_watch(w, ctx);
}

void tw_stage_watch(struct worker *w, struct tw_context *ctx)
{
	struct stage_counts *c = &w->stage->counts;

	if (!c->watched)
		tw_timer(ctx, TW_TIMER_FIGURES, REPORT);
	c->watched = true;
}

void tw_stage_passed(struct worker *w, struct tw_context *ctx, const struct tw_body_eval *what)
{
	struct stage_counts *c = &w->stage->counts;

	c->tests++;
	c->pin = what->pin;
	c->from = what->from;
	tw_stage_watch(w, ctx);
}

/* The cell of its worker that it waits for; UINT32_MAX: none. */
static uint32_t waits_for(const struct worker *w)
{
	struct tw_wait wait;

	return tw_worker_waits(w, &wait) && wait.whom.role == TW_WORKER ? wait.whom.index
									: UINT32_MAX;
}

void tw_stage_figures_due(struct worker *w, struct tw_context *ctx)
{
	struct stage_counts *c = &w->stage->counts;
	const uint64_t moves = c->work.forwards + c->work.backwards + c->tests;
	const bool moved = moves != c->moves;
	const uint32_t waits = moved ? UINT32_MAX : waits_for(w); /* (2) */

	c->watched = false;
	if (!tw_worker_is_member(w) || (!moved && waits == c->waits)) /* (1) */
		return;
	c->moves = moves;
	c->waits = waits;
	report(w, ctx, 0);
	tw_stage_watch(w, ctx);
}

void tw_stage_asked(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	if (w->stage && tw_worker_is_member(w) && m->h.incarnation == w->me.id.incarnation)
		report(w, ctx, m->b.ask.number);
}
