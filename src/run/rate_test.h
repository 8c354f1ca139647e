/* SPDX-License-Identifier: Apache-2.0 */
/* rate_test.h - update.rate: auto: a short test of rates on the first batches. */
#ifndef TW_RUN_RATE_TEST_H
#define TW_RUN_RATE_TEST_H

#include "base/machine/log.h"
#include "spec/job.h"

/* At most so many rates are tried for at most so many steps each, whatever the job. */
#define TW_RATE_TRIALS 7
#define TW_RATE_STEPS  32

/* Where the job says `auto`, find a rate and put it into the job, as if it had been written there:
 * with the job's rule, decay, clip and rates of layers, from the initial weights, on the first
 * batches, gradients as late as an asynchronous gate makes them.  Serial, so the same engine gives
 * the same rate everywhere.  Before tw_job_finish_plan.  The log (may be NULL) says what was found.
 * TW_NO_MEMORY, or what the engine says. */
enum tw_status tw_job_find_rate(struct tw_job *job, const struct tw_engine *engine,
				const struct tw_log *log, struct tw_error *why);
/* The same for a run in a directory: one that is resumed has its rate already. */
enum tw_status tw_job_find_rate_in(struct tw_job *job, const struct tw_engine *engine,
				   const char *dir, const struct tw_log *log, struct tw_error *why);

/* The same for a job without an engine, before other processes get copies of it. */
enum tw_status tw_job_settle_rate(struct tw_job *job, const struct tw_log *log,
				  struct tw_error *why);

#endif
