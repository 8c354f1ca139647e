/* SPDX-License-Identifier: Apache-2.0 */
/* caller.h - somebody outside who computes: an engine of ours that is asked by sample numbers. */
#ifndef TW_TEST_KIT_CALLER_H
#define TW_TEST_KIT_CALLER_H

#include "world/desk.h"

#include <pthread.h>

/* What the engine computes for these samples; the mean loss.  Aborts where it cannot. */
double caller_gradient(const struct tw_engine *e, const uint64_t *sample, uint64_t count,
		       uint64_t epoch, const float *w, float *g);
/* Test samples from this one on: mean loss, and how many are right (-1: none). */
double caller_score(const struct tw_engine *e, uint64_t from, uint64_t count, const float *w,
		    double *correct);

/* A thread that serves a desk so. */
struct caller {
	const struct tw_engine *engine;
	struct tw_desk *desk;
	pthread_t thread;
};
void caller_start(struct caller *c, const struct tw_engine *e);
void caller_stop(struct caller *c); /* and its desk is gone */

#endif
