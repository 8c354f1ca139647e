/* SPDX-License-Identifier: Apache-2.0 */
/* memory_check.h - does a process have the memory that its part of a job needs? */
#ifndef TW_RUN_MEMORY_CHECK_H
#define TW_RUN_MEMORY_CHECK_H

#include "spec/job.h"

/* What a process is in a job. */
enum tw_memory_part {
	TW_MEMORY_ALL,    /* everything: threads */
	TW_MEMORY_MASTER, /* the master, with the first server where there are servers */
	TW_MEMORY_SERVER,
	TW_MEMORY_WORKER, /* a worker, or one cell of it, with the shards that are on its node */
};

/* TW_BAD_INPUT with a sentence where it would surely run out of memory: only what it cannot do
 * without is counted.  `place`: of a cell, if it is known; UINT32_MAX: the one that needs least.
 * After tw_job_finish_plan. */
enum tw_status tw_memory_check(const struct tw_job *job, const struct tw_engine *engine,
			       enum tw_memory_part part, uint32_t place, struct tw_error *why);

#endif
