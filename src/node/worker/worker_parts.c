/* SPDX-License-Identifier: Apache-2.0 */
/* worker_parts.c - the memory of a worker's parts: opened and closed. */
#include "node/worker/worker.h"

/* Every shard of the plan holds a range for every worker, or for one cell of it; for a cell without
 * a place none does. */
static enum tw_status open_exchange(struct worker *w)
{
	const struct tw_stage *part = w->part;
	enum tw_status st;

	if (!tw_plan_is_staged(w->plan))
		return tw_exchange_open(&w->exchange, w->heap, w->plan, &w->me.id, NULL,
					w->plan->problem.shards);
	st = tw_exchange_open(&w->exchange, w->heap, w->plan, &w->me.id, part ? part->shard : NULL,
			      part ? part->shards : 0);
	if (part) {
		w->exchange.lane = w->me.lane;
		w->exchange.lanes = w->me.lanes;
	}
	return st;
}

enum tw_status tw_worker_open_parts(struct worker *w)
{
	bool all = open_exchange(w) == TW_OK;

	if (!tw_plan_is_staged(w->plan) || w->part)
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
