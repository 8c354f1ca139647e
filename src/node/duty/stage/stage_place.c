/* SPDX-License-Identifier: Apache-2.0 */
/* stage_place.c - a cell gets its place: all parts of the worker that depend on it are made anew
 * (7).  The numbers in brackets are those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/duty/stage/stage_state.h"

/* Parts of a cell that had another place before. */
static enum tw_status exchange_parts(struct worker *w, uint32_t cell)
{
	const struct exchange before = w->exchange;
	enum tw_status st;

	w->exchange.node_down = NULL; /* which servers cannot be reached stays known */
	tw_worker_reset_building(&w->building);
	tw_stage_leave(w);
	tw_worker_close_parts(w);
	w->step = (struct worker_step){ .state = STEP_IDLE };
	w->kept = (struct worker_kept){ 0 };
	w->shard = NULL;
	w->exchange = (struct exchange){ 0 };
	st = tw_stage_take(w, cell);
	if (st == TW_OK)
		st = tw_worker_open_parts(w);
	if (w->exchange.node_down) {
		w->heap->put(w->heap, w->exchange.node_down);
		w->exchange.node_down = before.node_down;
	} else {
		w->heap->put(w->heap, before.node_down);
	}
	return st;
}

bool tw_stage_welcomed(struct worker *w, struct tw_context *ctx, uint32_t cell)
{
	if (!w->stage || (w->part && w->me.cell == cell))
		return true;
	if (tw_worker_busy(w) || tw_eval_worker_is_busy(w)) {
		w->stage->moves = true;
		return false;
	}
	if (exchange_parts(w, cell) == TW_OK)
		return true;
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for stage %u of the model",
		   tw_plan_stage_of(w->plan, cell));
	return false;
}

enum tw_status tw_stage_wish(struct worker *w, uint32_t place)
{
	const uint32_t cells = tw_plan_cells(w->plan);
	const bool wishes = place < w->plan->crew.workers * cells;
	enum tw_status st;

	if (!w->stage)
		return TW_OK;
	st = tw_stage_open(w);
	w->me.cell = wishes ? place % cells : UINT32_MAX;
	if (wishes)
		w->me.index = w->me.id.slot = place / cells;
	return st == TW_OK && wishes ? tw_stage_take(w, place % cells) : st;
}
