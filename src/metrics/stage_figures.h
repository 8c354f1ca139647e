/* SPDX-License-Identifier: Apache-2.0 */
/* stage_figures.h - what the cells of workers have told of themselves, the newest of each.
 *
 * They come from cells of this process, and from the master for all.  A cell that gets another
 * identity counts from 0 again; what it did before is added.  Any thread may call these functions.
 */
#ifndef TW_METRICS_STAGE_FIGURES_H
#define TW_METRICS_STAGE_FIGURES_H

#include "node/plan.h"

struct tw_stage_figures;

/* NULL: no memory.  The plan must outlive it. */
struct tw_stage_figures *tw_stage_figures_new(struct tw_heap *heap, const struct tw_plan *plan);
void tw_stage_figures_free(struct tw_stage_figures *f);
/* Takes in notes of the kind STAGE, and no others. */
void tw_stage_figures_note(struct tw_stage_figures *f, const struct tw_note *n);
/* Of this cell so far; all zeros before its first note. */
struct tw_stage_note tw_stage_figures_of(struct tw_stage_figures *f, uint32_t slot, uint32_t cell);
/* Share of the time between the first and the last move of all cells that they idle; 0 before. */
double tw_stage_figures_bubble(struct tw_stage_figures *f);
/* That time, ns of the world's clock. */
int64_t tw_stage_figures_span(struct tw_stage_figures *f);

#endif
