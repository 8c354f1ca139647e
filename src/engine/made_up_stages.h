/* SPDX-License-Identifier: Apache-2.0 */
/* made_up_stages.h - stages of the made-up models: equal runs of their elements, and one float per
 * sample that crosses each cut. */
#ifndef TW_ENGINE_MADE_UP_STAGES_H
#define TW_ENGINE_MADE_UP_STAGES_H

#include "actor/engine.h"
#include "base/heap.h"

/* n k / parts, without n k overflowing. */
static inline size_t tw_made_up_border(uint64_t n, uint64_t parts, uint64_t k)
{
	return n / parts * k + n % parts * k / parts;
}

/* The stages + 1 cuts of an engine whose trainable, buffers and cost are set, from the heap; NULL
 * without memory. */
struct tw_model_cut *tw_made_up_cuts(struct tw_heap *heap, const struct tw_engine *e,
				     uint64_t stages);

/* A pass as these engines see it. */
struct tw_made_up_pass {
	uint32_t first, last;
	bool begins, ends, forward, back; /* forward: y or the loss comes out */
};
/* False: there is no such pass, or something is missing that it reads or writes. */
bool tw_made_up_pass(const struct tw_engine *e, const struct tw_inputs *in,
		     const struct tw_pass *pass, const float *change, struct tw_made_up_pass *out);
/* The gap behind `count` floats that cross. */
void tw_made_up_gap(float *at, uint32_t count);

#endif
