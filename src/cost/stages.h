/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - what a cell of a worker holds while it computes its stage. */
#ifndef TW_COST_STAGES_H
#define TW_COST_STAGES_H

#include "node/plan.h"

/* Bytes of a cell's memory, by what they are for. */
struct tw_stage_memory {
	double versions;    /* of the parameters that are still read */
	double gradients;   /* the one that is computed, and the sum of a group */
	double activations; /* inputs and stashes of micro-batches in flight */
	double waiting;     /* inputs that may come before they are needed */
	double scratch;     /* of a computation, with what it sends */
};

struct tw_stage_memory tw_cost_stage_memory(const struct tw_plan *p, uint32_t stage);

static inline double tw_stage_memory_sum(const struct tw_stage_memory *m)
{
	return m->versions + m->gradients + m->activations + m->waiting + m->scratch;
}

#endif
