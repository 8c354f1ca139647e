/* SPDX-License-Identifier: Apache-2.0 */
/* stage_times.h - how long the passes of each stage take on this machine. */
#ifndef TW_QUERY_STAGE_TIMES_H
#define TW_QUERY_STAGE_TIMES_H

#include "spec/job.h"
#include "strategy/pipeline.h"

/* The median seconds of forward and backward of each stage of a finished plan on `batch` samples,
 * one stage after the other; the other deeds and links are 0.  At least `least` runs of each.
 * `out` has one for each stage. */
enum tw_status tw_stage_times(const struct tw_plan *plan, const struct tw_engine *e, uint32_t batch,
			      unsigned least, struct tw_pipe_times *out, struct tw_error *why);
/* The same for any stages that follow each other through the whole model: of each, cuts, `sends`,
 * `returns`, `stash` and `scratch` are looked at. */
enum tw_status tw_pass_times(const struct tw_stage *stage, uint32_t stages,
			     const struct tw_engine *e, uint32_t batch, unsigned least,
			     struct tw_pipe_times *out, struct tw_error *why);

#endif
