/* SPDX-License-Identifier: Apache-2.0 */
/* slice_steps.h - commands over vectors as steps over memory: stretch by stretch.
 *
 *  (1) all steps are made on one stretch of the vectors after the other, so that what one step
 *      wrote or read is in a cache for the next.
 *  (2) a product is added up in 16 double lanes over TW_STEP_PART elements, element i in lane
 *      i % 16, the lanes in order, and these sums part after part.  So its bits depend on the
 *      vectors alone. */
#ifndef TW_NODE_SLICE_STEPS_H
#define TW_NODE_SLICE_STEPS_H

#include "base/command.h"

#include <stddef.h>

#define TW_STEP_LANES 16
#define TW_STEP_PART  2048

/* Vectors are the same memory or apart; `to` may be any of those that are read.
 *
 *	FILL     to = x            MULTIPLY  to = a b
 *	SCALE    to = x b          GATHER    to = share of the sums
 *	AXPY     to = x a + b      DOT       result += a . b */
struct slice_step {
	uint32_t kind;   /* enum tw_command_kind */
	uint32_t result; /* DOT: which */
	uint32_t brings; /* vectors that it is the first to touch: they come from memory */
	float *to;
	const float *a, *b; /* NULL: not read */
	double x;
};

struct slice_steps {
	const struct slice_step *step;
	uint32_t count;
	uint32_t results;  /* above the largest `result` */
	const double *sum; /* GATHER */
	double share;
};

/* Carry them out on n elements.  Adds to the results of DOT; `lanes` is scratch by result. */
void tw_steps_run(const struct slice_steps *s, size_t n, double (*lanes)[TW_STEP_LANES],
		  double *result);

#endif
