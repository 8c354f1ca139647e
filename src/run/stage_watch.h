/* SPDX-License-Identifier: Apache-2.0 */
/* stage_watch.h - says when one stage of a pipeline holds up the others, and where to cut instead.
 *
 * A stage's time is what its passes take for a micro-batch, divided by its lanes.  When over a
 * minute of the world's clock the slowest stage takes more than 15 % more than the mean, one line
 * of the log says so. */
#ifndef TW_RUN_STAGE_WATCH_H
#define TW_RUN_STAGE_WATCH_H

#include "base/machine/log.h"
#include "metrics/stage_figures.h"
#include "spec/job.h"

struct tw_stage_watch;

/* NULL without memory.  The job, its engine and the figures must outlive it. */
struct tw_stage_watch *tw_stage_watch_new(const struct tw_job *job, const struct tw_engine *engine,
					  struct tw_stage_figures *figures,
					  const struct tw_log *log);
void tw_stage_watch_free(struct tw_stage_watch *w);
/* Hears every note after the figures have, one at a time. */
void tw_stage_watch_note(struct tw_stage_watch *w, const struct tw_note *n);

#endif
