/* SPDX-License-Identifier: Apache-2.0 */
/* null_engine.h - an engine whose gradients cost nothing, so that what is left is the exchange. */
#ifndef TW_BENCH_NULL_ENGINE_H
#define TW_BENCH_NULL_ENGINE_H

#include "actor/engine.h"
#include "spec/job.h"

#define TW_IDLE_CALLS 4096

struct tw_null_engine {
	struct tw_engine engine; /* must stay first */
	size_t tensor[2];
	_Atomic size_t calls;
	int64_t at[TW_IDLE_CALLS]; /* when the first calls came, ns of CLOCK_MONOTONIC */
};

/* An engine of so many parameters, in the caller's storage.  A gradient buffer is filled the first
 * time it is seen and left alone afterwards. */
void tw_null_engine_init(struct tw_null_engine *e, size_t parameters, uint64_t samples);

/* A job for it, whose only work is the exchange. */
struct tw_null_job {
	size_t parameters;
	uint32_t workers, steps; /* gradients of each worker */
	const char *strategy;    /* as in a job file */
	uint32_t shards;         /* 0: the default */
};
enum tw_status tw_null_job_read(const struct tw_null_job *q, enum tw_world_kind world,
				struct tw_job **job, struct tw_error *why);

/* The median of seconds from one gradient to the next, of every `each`-th call (of so many workers
 * that take turns), without the first `warm` of `steps`.  0.0: there were not as many calls. */
double tw_null_engine_period(const struct tw_null_engine *e, size_t each, size_t warm,
			     size_t steps);

#endif
