/* SPDX-License-Identifier: Apache-2.0 */
/* pipe_loop.h - whole vectors and gradients for a serial loop beside a run in stages. */
#ifndef TW_TEST_JOB_PIPE_LOOP_H
#define TW_TEST_JOB_PIPE_LOOP_H

#include "job/pipes.h"

/* Memory for whole vectors and for a gradient. */
struct loop {
	const struct tw_engine *e;
	size_t n;
	float *w, *g, *own, *sum; /* w: as the run begins */
	void *scratch;
};

float *floats(size_t n); /* zeros; the caller frees them */
struct loop loop_of(const struct pipe_run *r);
void loop_free(struct loop *l);
/* Of so many samples from a position on, at w, into l->g. */
void gradient(struct loop *l, const float *w, uint64_t from, uint32_t count);

#endif
