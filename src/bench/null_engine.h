/* SPDX-License-Identifier: Apache-2.0 */
/* null_engine.h - an engine whose gradients cost nothing, so that what is left is the exchange. */
#ifndef TW_BENCH_NULL_ENGINE_H
#define TW_BENCH_NULL_ENGINE_H

#include "actor/engine.h"

#define TW_IDLE_CALLS 4096

struct tw_null_engine {
	struct tw_engine engine; /* must stay first */
	size_t tensor[2];
	_Atomic size_t calls;
	int64_t at[TW_IDLE_CALLS]; /* when the first calls came, ns of CLOCK_MONOTONIC */
};

/* An engine of so many parameters, in the caller's storage.  A gradient buffer is filled the first
 * time it is seen and left alone afterwards. */
void tw_null_engine_init(struct tw_null_engine *e, size_t parameters, uint64_t samples);

#endif
