/* SPDX-License-Identifier: Apache-2.0 */
/* batch_worker.c - the worker's side of a batch method: its leases are portions of an evaluation,
 * and several of them may be held.  Steps, pushes and answers are those of every worker. */
#include "node/duty/batch/batch.h"
#include "node/kernel/duty.h"
#include "node/kernel/leasing.h"
#include "node/worker/worker.h"

/* Portions of evaluations that are over are void.  True: this one is held already, under another
 * number, which the master does not know any more. */
static bool replaces(struct worker *w, struct tw_context *ctx, const struct tw_body_lease *b)
{
	struct worker_leases *l = &w->leases;

	if (l->count && l->held[0].round != b->round)
		tw_worker_end_rounds(w, ctx);
	for (uint32_t k = 0; k < l->count; k++)
		if (l->held[k].from == b->range.from && l->held[k].next == l->held[k].from &&
		    !(tw_worker_busy(w) && l->held[k].id == w->step.compute.id)) {
			l->held[k].id = b->range.lease;
			return true;
		}
	return false;
}

static const struct tw_leasing leasing = { .name = "portion",
					   .replaces = replaces,
					   .closes = true };

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_optimises(plan);
}

const struct tw_duty tw_batch_worker = {
	.name = "batch",
	.seat = &leasing,
	.wanted = wanted,
};
