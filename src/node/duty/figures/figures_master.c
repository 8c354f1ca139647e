/* SPDX-License-Identifier: Apache-2.0 */
/* figures_master.c - what the cells of workers say that they have done.  The numbers in brackets
 * are those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/duty/figures/figures_state.h"
#include "node/figures.h"
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"

#include <stddef.h>

#define PATIENCE (2 * TW_SECOND)

static struct cell_told *told_by(const struct master *m, const struct cell_info *c)
{
	return &m->figures->told[c - m->members.cells.cell];
}

/* Nothing is expected of this cell any more. */
static void settle(struct master *m, struct cell_told *t)
{
	m->figures->untold -= t->asked;
	t->asked = false;
}

static bool plausible(const struct tw_body_figures *f)
{
	const struct tw_stage_work *w = &f->work;

	for (const struct tw_figure *row = tw_work_figures; row->name; row++)
		if (!row->derived && tw_figure_count(row, w) > TW_FIGURE_MOST)
			return false;
	return f->began <= TW_FIGURE_MOST && f->ended <= f->began && w->backwards <= w->forwards &&
	       (uint64_t)(w->forward_time + w->backward_time) <= f->began - f->ended;
}

static void note(struct tw_context *ctx, const struct tw_msg *msg, uint32_t cell)
{
	const struct tw_body_figures *f = &msg->b.figures;
	const int64_t now = tw_now(ctx);
	const struct tw_stage_note told = { .cell = cell,
					    .first = now - (int64_t)f->began,
					    .last = now - (int64_t)f->ended,
					    .work = f->work };

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STAGE,
					.slot = msg->h.from,
					.incarnation = msg->h.incarnation,
					.stage = &told });
}

/* A step takes no longer than if each cell took as long as this one, and backward twice as long as
 * forward. */
static void show(struct master *m, const struct tw_msg *msg)
{
	const struct tw_stage_work *f = &msg->b.figures.work;
	const double took = 3.0 * tw_plan_cells(m->plan) * (double)f->forward_time;

	if (f->forwards && took < (double)TW_FIGURE_MOST && !m->pace.work.count)
		tw_pace_add(&m->pace.work, msg->h.from, (int64_t)took,
			    f->forwards * m->plan->dealing.batch);
}

static void hear_figures(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct cell_info *c = m->figures->told ? tw_cell_on(m, msg->from.node) : NULL;
	struct cell_told *t;

	if (!c || tw_cell_slot(m, c) != msg->h.from) /* (1) */
		return;
	t = told_by(m, c);
	if (msg->b.figures.asked == m->restart.asks)
		settle(m, t);
	t->waits = msg->b.figures.waits;
	t->pin = msg->b.figures.pin;
	t->from = msg->b.figures.from;
	if (plausible(&msg->b.figures)) {
		show(m, msg);
		if (msg->b.figures.work.forwards)
			note(ctx, msg, tw_cell_number(m, c));
		return;
	}
	if (!t->doubted) /* (2) */
		tw_say(ctx, TW_WARNING,
		       "worker %u.%u says figures of itself that cannot be: they are not shown",
		       msg->h.from, tw_cell_number(m, c));
	t->doubted = true;
}

/* The first that has not passed on the chunk; the last one, if all say that they have. */
static uint32_t has_chunk(const struct master *m, uint32_t slot)
{
	const uint32_t last = tw_plan_cells(m->plan) - 1;
	const uint64_t from = tw_eval_master_from(m, slot);
	uint32_t cell = 0;

	while (cell < last && told_by(m, tw_cell_at(m, slot, cell))->pin == tw_eval_master_pin(m) &&
	       told_by(m, tw_cell_at(m, slot, cell))->from == from)
		cell++;
	return cell;
}

/* From this cell so many steps on, each to the one that it waits for; UINT32_MAX: to an end. */
static uint32_t follow(const struct master *m, uint32_t slot, uint32_t cell, uint32_t steps)
{
	while (steps-- && cell < tw_plan_cells(m->plan))
		cell = told_by(m, tw_cell_at(m, slot, cell))->waits;
	return cell < tw_plan_cells(m->plan) ? cell : UINT32_MAX;
}

uint32_t tw_figures_master_culprit(const struct master *m, uint32_t slot)
{
	const uint32_t cells = tw_plan_cells(m->plan);
	uint32_t cell = 0;

	if (tw_eval_master_has_chunk(m, slot))
		return has_chunk(m, slot);
	for (uint32_t k = 0; k < cells; k++) {
		if (follow(m, slot, cell, 1) == UINT32_MAX)
			return cell;
		for (uint32_t n = 1; n <= cells; n++) /* some wait for each other, as they say */
			if (follow(m, slot, cell, n) == cell)
				return cell;
		cell = follow(m, slot, cell, 1);
	}
	return cell;
}

void tw_figures_master_ask_cell(struct master *m, struct tw_context *ctx, struct cell_info *c)
{
	const uint32_t slot = tw_cell_slot(m, c);
	struct tw_msg *msg;

	if (!told_by(m, c)->asked)
		return;
	msg = tw_master_to_cell(m, ctx, slot, tw_cell_number(m, c), TW_ASK);
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FREE;
	msg->h.incarnation = m->member[slot].incarnation;
	msg->b.ask.number = m->restart.asks;
	tw_send(ctx, msg);
}

/* (3) */
void tw_figures_master_ask(struct master *m, struct tw_context *ctx)
{
	const uint32_t cells = tw_plan_cells(m->plan);
	const struct tw_slots *live = &m->members.live;

	if (!m->figures->told)
		return;
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1))
		for (uint32_t c = 0; c < cells; c++) {
			struct cell_info *one = tw_cell_at(m, k, c);

			m->figures->untold += !told_by(m, one)->asked;
			told_by(m, one)->asked = true;
			tw_figures_master_ask_cell(m, ctx, one);
		}
	tw_timer(ctx, TIMER_FIGURES, PATIENCE);
}

bool tw_figures_master_complete(const struct master *m)
{
	return !m->figures->untold;
}

void tw_figures_master_forget(struct master *m, const struct cell_info *c)
{
	struct cell_told *t = told_by(m, c);

	settle(m, t);
	*t = (struct cell_told){ .waits = UINT32_MAX };
}

/* --- the duty -------------------------------------------------------------------------------- */

static enum tw_status open_figures(void *actor)
{
	struct master *m = actor;
	struct figures_master *f = m->figures;
	const size_t cells = (size_t)m->plan->crew.workers * tw_plan_cells(m->plan);

	f->steady.had = tw_heap_zeros(m->heap, m->plan->problem.shards * sizeof *f->steady.had);
	if (tw_plan_is_staged(m->plan))
		f->told = tw_heap_zeros(m->heap, cells * sizeof *f->told);
	return f->steady.had && (f->told || !tw_plan_is_staged(m->plan)) ? TW_OK : TW_NO_MEMORY;
}

static void close_figures(void *actor)
{
	struct master *m = actor;

	m->heap->put(m->heap, m->figures->steady.had);
	m->heap->put(m->heap, m->figures->told);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (msg->h.type == TW_PIN)
		tw_figures_steady_told(actor, msg);
	else
		hear_figures(actor, ctx, msg);
}

/* Nothing is expected of anybody any more (3). */
static void timer(void *actor, struct tw_context *ctx, uint32_t which)
{
	struct master *m = actor;

	(void)ctx;
	for (uint32_t k = 0; which == TIMER_FIGURES && m->figures->untold; k++)
		settle(m, &m->figures->told[k]);
}

const struct tw_duty tw_figures_master = {
	.name = "figures",
	.bytes = sizeof(struct figures_master),
	.place = offsetof(struct master, figures),
	.hears = TW_HEARS(TW_PIN) | TW_HEARS(TW_FIGURES),
	.open = open_figures,
	.close = close_figures,
	.message = message,
	.timer = timer,
};
