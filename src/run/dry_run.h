/* SPDX-License-Identifier: Apache-2.0 */
/* dry_run.h - a job in the simulator without computing: how long it takes there. */
#ifndef TW_RUN_DRY_RUN_H
#define TW_RUN_DRY_RUN_H

#include "spec/job.h"

/* Seconds of virtual time of a job whose plan is finished.  Gradients are zeros; messages, their
 * sizes and the order of everything are those of the job. */
enum tw_status tw_dry_run(const struct tw_job *job, const struct tw_engine *engine, double *seconds,
			  struct tw_error *why);

#endif
