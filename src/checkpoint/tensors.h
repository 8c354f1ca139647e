/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.h - which tensors a parameter vector is made of: their names, shapes and places.
 *
 * Every checkpoint keeps it, so that parameters can be looked at and exported where neither the
 * data set nor the network is at hand. */
#ifndef TW_CHECKPOINT_TENSORS_H
#define TW_CHECKPOINT_TENSORS_H

#include "actor/engine.h"
#include "base/heap.h"

#include <jansson.h>

#define TW_TENSOR_RANK  8
#define TW_TENSOR_NAME  64
#define TW_TENSOR_SHAPE 180 /* room for a shape as text */
#define TW_TENSORS_MOST 65536u

struct tw_tensor {
	char name[TW_TENSOR_NAME];
	uint32_t rank;
	uint64_t d[TW_TENSOR_RANK];
	bool buffer;
	bool frozen;    /* trainable, and never changed */
	size_t from, n; /* floats of the model's vector */
	size_t stored;  /* place in the vector that a run moves and a checkpoint keeps: the same,
			   but what is frozen stands behind everything else */
};

/* In order of the model's vector, without gaps: the trainable ones, then the buffers. */
struct tw_tensors {
	struct tw_heap *heap;
	struct tw_tensor *tensor;
	size_t tensors;
	size_t trainable, buffers; /* floats; what is frozen is trainable here */
	size_t frozen;             /* floats of `trainable` */
};

/* The tensors of a network or of a caller's model by name; of any other engine "parameters" and,
 * where it has some, "buffers".
 * TW_NO_MEMORY. */
enum tw_status tw_tensors_of_engine(struct tw_heap *heap, const struct tw_engine *e,
				    struct tw_tensors *out);
struct tw_graph;
enum tw_status tw_tensors_of_graph(struct tw_heap *heap, const struct tw_graph *g,
				   struct tw_tensors *out);
/* As JSON and back: [{"name", "shape", "buffer", "frozen" where it is}, ...].  Reading:
 * TW_BAD_BYTES. */
json_t *tw_tensors_json(const struct tw_tensors *l);
enum tw_status tw_tensors_read(struct tw_heap *heap, const json_t *list, struct tw_tensors *out);
void tw_tensors_release(struct tw_tensors *l);

const struct tw_tensor *tw_tensors_find(const struct tw_tensors *l, const char *name);
/* "20x1x5x5", "500". */
const char *tw_tensors_shape(const struct tw_tensor *t, char out[TW_TENSOR_SHAPE]);

#endif
