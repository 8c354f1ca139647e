/* SPDX-License-Identifier: Apache-2.0 */
/* function.h - engines that minimise a function from the literature on optimisation, in any
 * dimension; every sample has the same loss. */
#ifndef TW_ENGINE_FUNCTION_H
#define TW_ENGINE_FUNCTION_H

#include "actor/engine.h"
#include "base/heap.h"
#include "base/option.h"

/* model: {function: {...}} */
struct tw_function_options {
	uint32_t name; /* which function: the order of the row's choices */
	uint64_t dimension;
	double start; /* of every parameter; NAN: where the literature begins */
};
extern const struct tw_option tw_function_rows[];

/* `samples` training samples in an epoch.  NULL without memory. */
struct tw_engine *tw_function_open(struct tw_heap *heap, const struct tw_function_options *o,
				   uint64_t samples, uint64_t seed);

#endif
