/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - the figures of a run and of a cell, as rows (node/figure.h).
 *
 * A new figure that shards count is a field of struct tw_tally, its increment, and a row.  Then it
 * is in STATE and in checkpoints, is added up, and is shown where the row says. */
#ifndef TW_NODE_FIGURES_H
#define TW_NODE_FIGURES_H

#include "actor/cluster.h"
#include "node/figure.h"
#include "node/plan.h"

/* What figures are computed from. */
struct tw_outcome {
	const struct tw_plan *plan;
	const struct tw_totals *totals;   /* of a run ... */
	uint32_t shards;                  /* ... with so many */
	const struct tw_stage_work *work; /* of a cell ... */
	int64_t span;                     /* ... in this time of all cells, ns */
};

extern const struct tw_figure tw_result_figures[]; /* struct tw_ran */
extern const struct tw_figure tw_work_figures[];   /* struct tw_stage_work */

/* Add the figures of another shard. */
static inline void tw_tally_add(struct tw_tally *to, const struct tw_tally *t)
{
	tw_figures_add(tw_result_figures, offsetof(struct tw_ran, totals.tally), sizeof *t, to, t);
}
static inline void tw_stage_work_add(struct tw_stage_work *to, const struct tw_stage_work *w)
{
	tw_figures_add(tw_work_figures, 0, sizeof *w, to, w);
}

#endif
