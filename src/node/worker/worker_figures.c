/* SPDX-License-Identifier: Apache-2.0 */
/* worker_figures.c - what a cell counts of itself, and tells: notes here, FIGURES to the master. */
#include "node/worker/worker.h"

#define REPORT TW_SECOND /* between two that nobody has asked for */

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

static void note(struct worker *w, struct tw_context *ctx)
{
	const struct worker_stage *s = w->stage;
	const struct stage_counts *c = &s->counts;

	tw_note(ctx, &(struct tw_note){
			     .kind = TW_NOTE_STAGE,
			     .slot = w->me.id.slot,
			     .incarnation = w->me.id.incarnation,
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

/* The master need not know the cell: it knows who has which place. */
static void report(struct worker *w, struct tw_context *ctx, uint64_t asked)
{
	struct stage_counts *c = &w->stage->counts;
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_FIGURES);
	const int64_t now = tw_now(ctx);

	if (!m)
		return;
	c->told = now;
	m->h.flags = TW_FLAG_FREE;
	m->b.figures = (struct tw_body_figures){
		.asked = asked,
		.forwards = c->forwards,
		.backwards = c->backwards,
		.forward_time = (uint64_t)c->forward_time,
		.backward_time = (uint64_t)c->backward_time,
		.began = c->forwards ? (uint64_t)(now - c->first) : 0,
		.ended = c->forwards ? (uint64_t)(now - c->last) : 0,
		.updates = c->updates,
		.update_time = (uint64_t)c->update_time,
		.sent = c->sent,
		.memory = c->memory,
		.depth = c->depth,
		.versions = c->versions,
	};
	tw_send(ctx, m);
}

void tw_stage_tell(struct worker *w, struct tw_context *ctx)
{
	const struct stage_counts *c = &w->stage->counts;

	note(w, ctx);
	if (!c->told || tw_now(ctx) - c->told >= REPORT)
		report(w, ctx, 0);
}

void tw_stage_asked(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	if (w->stage && tw_worker_is_member(w) && m->h.incarnation == w->me.id.incarnation)
		report(w, ctx, m->b.ask.number);
}
