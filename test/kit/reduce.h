/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h - the moves of a reduction made over arrays, one at a time: what peers must come to.
 *
 * Something that is added has a vector, a weight and a divisor.  Added to nothing, it is taken as
 * it is.  Added to something, that becomes weight/divide of both together; its weight is the sum,
 * and its divisor the weight.  The operations are those of slice_update.c. */
#ifndef TW_TEST_KIT_REDUCE_H
#define TW_TEST_KIT_REDUCE_H

#include "strategy/reduction.h"

#include <stdbool.h>

struct kit_sum {
	float *v; /* NULL: nothing */
	float weight, divide;
};

/* Number k of the reductions whose moves are made by messages, in every world; NULL: no more. */
const struct tw_reduction *kit_reduction_at(size_t k);

struct kit_reduction {
	const struct tw_reduction *r;
	uint32_t peers, chunks;
	size_t n;
	const float *const *in; /* peers vectors of n */
	const float *weight, *divide;
	struct kit_sum *has;  /* peers * chunks */
	struct kit_sum *mail; /* chunks * from * to * SEND and GIVE */
	uint32_t *made;       /* moves: peers * chunks */
};

void kit_reduction_init(struct kit_reduction *k);
void kit_reduction_release(struct kit_reduction *k);
/* The next move of this peer for this chunk.  False: it waits, or has none left. */
bool kit_reduction_step(struct kit_reduction *k, uint32_t peer, uint32_t chunk);
bool kit_reduction_ended(const struct kit_reduction *k);

/* All moves.  out: peers vectors of n; weight_out and divide_out: one of each for every chunk, the
 * same on all peers. */
void kit_reduce(const struct tw_reduction *r, uint32_t peers, size_t n, const float *const *in,
		const float *weight, const float *divide, float **out, float *weight_out,
		float *divide_out);

#endif
