/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - which sample stands at a position of the endless row of shuffled epochs. */
#ifndef TW_ENGINE_ORDER_H
#define TW_ENGINE_ORDER_H

#include "actor/engine.h"
#include "base/rng.h"

/* Position p is place p % samples of epoch p / samples; each epoch is a permutation of its own. */
static inline uint64_t tw_order_sample(const struct tw_rng *shuffle, uint64_t samples,
				       uint64_t epoch, uint64_t place)
{
	return tw_rng_permute(shuffle, epoch, samples, place);
}

/* A batch is some samples of one epoch. */
static inline bool tw_order_is_batch(uint64_t samples, const struct tw_inputs *in)
{
	return in->count > 0 && in->count <= samples && in->from % samples <= samples - in->count;
}

static inline bool tw_order_cancelled(const struct tw_inputs *in)
{
	return in->cancel && atomic_load_explicit(in->cancel, memory_order_relaxed);
}

#endif
