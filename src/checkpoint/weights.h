/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - initial weights from a safetensors file of another program: what model.weights names.
 *
 * Tensors are taken by their names.  Where no name is the model's, they are taken by order and
 * shape, module by module: in the order of the file, or in that of the names (fc2 before fc10),
 * whichever fits.  What was done is said. */
#ifndef TW_CHECKPOINT_WEIGHTS_H
#define TW_CHECKPOINT_WEIGHTS_H

#include "checkpoint/snapshot.h"
#include "data/warn.h"

struct tw_weights_request {
	const char *path;
	const struct tw_graph *graph;
	bool partial;             /* tensors that are missing or of another shape are drawn */
	uint64_t seed;            /* ... from this seed */
	struct tw_warnings *said; /* what was taken otherwise than by name; NULL: dropped */
};
/* *out has all elements, from the heap.  TW_BAD_INPUT: the file is of another model; with `partial`
 * only where nothing of it fits, or two orders fit that differ. */
enum tw_status tw_weights_read(const struct tw_weights_request *r, struct tw_heap *heap,
			       float **out, struct tw_error *why);

#endif
