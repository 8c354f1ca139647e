/* SPDX-License-Identifier: Apache-2.0 */
/* pipes.h - runs of models that are cut into stages, and what was seen of them. */
#ifndef TW_TEST_JOB_PIPES_H
#define TW_TEST_JOB_PIPES_H

#include "job/trial.h"
#include "metrics/stage_figures.h"

#define PIPE_TAUS   4096 /* contributions of a shard that are remembered */
#define PIPE_SHARDS 32

struct pipe_run {
	struct trial t;
	struct tw_ran ran;
	enum tw_status status;
	float *vector; /* the final one, whole; NULL: there is none */
	size_t floats;
	struct tw_stage_figures *figures; /* NULL: the job has no stages */
	/* by shard: contributions in the order in which they were applied */
	uint32_t tau[PIPE_SHARDS][PIPE_TAUS];
	uint16_t slot[PIPE_SHARDS][PIPE_TAUS]; /* ... whose they were: tw_plan_senders */
	uint32_t taus[PIPE_SHARDS];
	uint64_t last[PIPE_SHARDS][2]; /* the last of them: slot and incarnation, seq */
	tw_observer also;              /* hears every note, one at a time; may be NULL */
	void *also_arg;
};

/* Read the job; run it. */
struct pipe_run *pipe_open(enum tw_world_kind world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void pipe_go(struct pipe_run *r);
/* Both. */
struct pipe_run *pipe_run(enum tw_world_kind world, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void pipe_free(struct pipe_run *r);
/* Same parameters and buffers, same loss and accuracy, bit for bit?  Fails the test with `what`. */
void pipe_same(const struct pipe_run *a, const struct pipe_run *b, const char *what);

#endif
