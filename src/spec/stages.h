/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - a model that is cut into stages: the fields that say so, what they need, and the plan
 * that follows. */
#ifndef TW_SPEC_STAGES_H
#define TW_SPEC_STAGES_H

#include "spec/job.h"

/* How many stages and workers there are, where the job leaves it open; before anything counts them.
 * Refuses stages without a schedule. */
enum tw_status tw_job_settle_stages(struct tw_job *job, struct tw_error *why);
/* The cuts, the shards of each stage (their borders are written to job->plan.problem) and what each
 * stage keeps.  `auto` becomes a list of layers.  With a job without stages it does nothing. */
enum tw_status tw_job_plan_stages(struct tw_job *job, const struct tw_engine *engine,
				  struct tw_error *why);

#endif
