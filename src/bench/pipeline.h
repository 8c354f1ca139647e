/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline.h - the pipeline in each world, and what they have in common. */
#ifndef TW_BENCH_PIPELINE_H
#define TW_BENCH_PIPELINE_H

#include "bench/bench.h"
#include "spec/job.h"

#define TW_PIPELINE_STEPS 32 /* micro-batches of a run */
#define TW_PIPELINE_WARM  8  /* of these, left out */
#define TW_PIPELINE_BATCH 64
#define TW_PIPELINE_WIDTH 2048 /* of the three hidden layers */

/* A job that trains the large MLP. */
struct tw_pipeline_job {
	enum tw_world_kind world;
	const char *strategy; /* as in a job file */
	uint32_t accumulate;
	size_t width;     /* of hidden layers */
	bool with_stages; /* parameters are where their stage is */
};
enum tw_status tw_pipeline_job_read(const struct tw_pipeline_job *q, struct tw_job **job,
				    struct tw_error *why);
/* Samples per second of one worker in one process. */
enum tw_status tw_pipeline_alone(const struct tw_bench_how *how, size_t width, double *rate,
				 struct tw_error *why);
/* In one process. */
enum tw_status tw_pipeline_threads(const struct tw_bench_how *how, json_t *cases,
				   struct tw_error *why);
/* Between two processes. */
enum tw_status tw_pipeline_tcp(const struct tw_bench_how *how, json_t *cases, struct tw_error *why);

#endif
