/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - what engines ask of the positions that they are given. */
#ifndef TW_ENGINE_ORDER_H
#define TW_ENGINE_ORDER_H

#include "actor/engine.h"
#include "base/order.h"

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
