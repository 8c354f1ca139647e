/* SPDX-License-Identifier: Apache-2.0 */
/* worker_parts.c - the memory of a worker's parts: opened, closed, and exchanged when it becomes
 * another cell. */
#include "node/worker/worker.h"

/* Every shard of the plan holds a range for every worker, or for one cell of it; for a cell without
 * a place none does. */
static enum tw_status open_exchange(struct worker *w)
{
	const struct worker_stage *s = w->stage;
	enum tw_status st;

	if (!s)
		return tw_exchange_open(&w->exchange, w->heap, w->plan, &w->me.id, NULL,
					w->plan->problem.shards);
	st = tw_exchange_open(&w->exchange, w->heap, w->plan, &w->me.id,
			      s->plan ? s->plan->shard : NULL, s->plan ? s->plan->shards : 0);
	if (s->plan) {
		w->exchange.lane = s->post.lane;
		w->exchange.lanes = s->post.lanes;
	}
	return st;
}

enum tw_status tw_worker_open_parts(struct worker *w)
{
	bool all = open_exchange(w) == TW_OK;

	if (!w->stage || w->stage->plan)
		all = all && tw_step_open(w) == TW_OK && tw_duties_open(&w->duties) == TW_OK &&
		      tw_kept_open(w) == TW_OK;
	return all ? TW_OK : TW_NO_MEMORY;
}

void tw_worker_close_parts(struct worker *w)
{
	tw_duties_close(&w->duties);
	tw_step_close(w);
	tw_kept_close(w);
	tw_exchange_close(&w->exchange);
}

enum tw_status tw_worker_take_cell(struct worker *w, uint32_t cell)
{
	const struct exchange before = w->exchange;
	enum tw_status st;

	if (w->stage->plan && w->stage->cell == cell)
		return TW_OK;
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

enum tw_status tw_worker_open_cell(struct worker *w, uint32_t place)
{
	const uint32_t cells = tw_plan_cells(w->plan);
	const bool wishes = place < w->plan->crew.workers * cells;
	const uint32_t cell = wishes ? place % cells : UINT32_MAX;
	enum tw_status st = tw_stage_open(w, cell);

	if (wishes)
		w->me.index = w->me.id.slot = place / cells;
	return st == TW_OK && wishes ? tw_stage_take(w, cell) : st;
}
