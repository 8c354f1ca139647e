/* SPDX-License-Identifier: Apache-2.0 */
/* figures_worker.c - what a cell counts of itself, and tells: notes here, FIGURES to the master.
 * The numbers in brackets are those of README.md. */
#include "node/duty/figures/figures.h"
#include "node/kernel/duty.h"
#include "node/worker/worker.h"

#include <stddef.h>

/* What a cell tells of itself, for results and metrics; anew with every identity. */
struct stage_counts {
	struct tw_stage_work work;
	int64_t first, last;       /* when it began its first, and ended its last move */
	uint64_t tests, pin, from; /* evaluations that it passed on; the last of them */
	uint64_t moves;            /* made when the timer of its figures last fired */
	uint32_t waits;            /* for this cell, as it told then; UINT32_MAX: none */
	bool watched;              /* that timer is set */
};

struct figures_worker {
	struct stage_counts counts;
};

#define REPORT TW_SECOND

static void tell(struct worker *w, struct tw_context *ctx)
{
	const struct stage_counts *c = &w->figures->counts;

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STAGE,
					.slot = w->me.id.slot,
					.incarnation = w->me.id.incarnation,
					.stage = &(struct tw_stage_note){ .cell = w->me.cell,
									  .first = c->first,
									  .last = c->last,
									  .work = c->work } });
}

/* The master need not hear which cell it is: it knows who has which place. */
static void report(struct worker *w, struct tw_context *ctx, uint64_t asked)
{
	const struct stage_counts *c = &w->figures->counts;
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

static void watch(struct worker *w, struct tw_context *ctx)
{
	struct stage_counts *c = &w->figures->counts;

	if (!c->watched)
		tw_timer(ctx, TW_TIMER_FIGURES, REPORT);
	c->watched = true;
}

void tw_figures_worker_passed(struct worker *w, struct tw_context *ctx,
			      const struct tw_body_eval *what)
{
	struct stage_counts *c = &w->figures->counts;

	c->tests++;
	c->pin = what->pin;
	c->from = what->from;
	watch(w, ctx);
}

/* --- moves ----------------------------------------------------------------------------------- */

void tw_figures_worker_begins(struct worker *w, struct tw_context *ctx, const int64_t *forward,
			      const struct tw_stage_held *held)
{
	struct stage_counts *c = &w->figures->counts;
	struct tw_stage_work *most = &c->work;

	if (!c->work.forwards && forward)
		c->first = *forward;
	most->depth = held->depth > most->depth ? held->depth : most->depth;
	most->versions = held->versions > most->versions ? held->versions : most->versions;
	most->memory = held->bytes > most->memory ? held->bytes : most->memory;
	watch(w, ctx);
}

void tw_figures_worker_forwarded(struct worker *w, struct tw_context *ctx, int64_t began)
{
	struct stage_counts *c = &w->figures->counts;

	c->work.forwards++;
	c->last = tw_now(ctx);
	c->work.forward_time += c->last - began;
}

int64_t tw_figures_worker_backwarded(struct worker *w, struct tw_context *ctx, int64_t began)
{
	struct stage_counts *c = &w->figures->counts;

	c->work.backwards++;
	c->last = tw_now(ctx);
	c->work.backward_time += c->last - began;
	tell(w, ctx);
	return c->last;
}

void tw_figures_worker_sent(struct worker *w, uint64_t bytes)
{
	w->figures->counts.work.sent += bytes;
}

void tw_figures_worker_updated(struct worker *w, int64_t took)
{
	w->figures->counts.work.updates++;
	w->figures->counts.work.update_time += took;
}

/* --- the duty -------------------------------------------------------------------------------- */

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	report(actor, ctx, m->b.ask.number);
}

/* Nothing is done as this one. */
static void renew(void *actor, struct tw_context *ctx)
{
	struct worker *w = actor;

	w->figures->counts = (struct stage_counts){ .waits = UINT32_MAX };
	watch(w, ctx);
}

/* The cell of its worker that it waits for; UINT32_MAX: none. */
static uint32_t waits_for(const struct worker *w)
{
	struct tw_wait wait;

	return tw_worker_waits(w, &wait) && wait.whom.role == TW_WORKER ? wait.whom.index
									: UINT32_MAX;
}

static void timer(void *actor, struct tw_context *ctx, uint32_t which)
{
	struct worker *w = actor;
	struct stage_counts *c = &w->figures->counts;
	const uint64_t moves = c->work.forwards + c->work.backwards + c->tests;
	const bool moved = moves != c->moves;
	const uint32_t waits = moved ? UINT32_MAX : waits_for(w); /* (6) */

	if (which != TW_TIMER_FIGURES)
		return;
	c->watched = false;
	if (!tw_worker_is_member(w) || (!moved && waits == c->waits)) /* (5) */
		return;
	c->moves = moves;
	c->waits = waits;
	report(w, ctx, 0);
	watch(w, ctx);
}

const struct tw_duty tw_figures_worker = {
	.name = "figures",
	.bytes = sizeof(struct figures_worker),
	.place = offsetof(struct worker, figures),
	.hears = TW_HEARS(TW_ASK),
	.wanted = tw_plan_is_staged,
	.message = message,
	.renew = renew,
	.timer = timer,
};
