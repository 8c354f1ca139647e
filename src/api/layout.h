/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - a caller's tensors, checked and copied. */
#ifndef TW_API_LAYOUT_H
#define TW_API_LAYOUT_H

#include "thalweg.h"

#include "base/heap.h"
#include "base/status.h"
#include "model/safetensors.h"

struct tw_own_layout {
	struct tw_heap *heap;
	/* In the order of the vector; the first `trained` are trained.  Names are the caller's. */
	struct tw_safe_tensor *tensor;
	size_t tensors, trained;
	size_t parameters, buffers; /* floats */
};

/* What the caller says of his model; `whose` begins sentences: "the engine". */
struct tw_layout_given {
	const char *whose;
	const struct thalweg_tensor *tensor;
	size_t tensors;             /* 0: "parameters" and, if there are any, "buffers" */
	size_t parameters, buffers; /* floats */
};

/* Release *out in any case. */
enum tw_status tw_layout_take(struct tw_heap *heap, const struct tw_layout_given *given,
			      struct tw_own_layout *out, struct tw_error *why);
void tw_layout_release(struct tw_own_layout *l);

/* Where tensors say themselves which of them are buffers: how many floats there are of each.
 * TW_BAD_INPUT: a buffer stands before a trainable tensor. */
enum tw_status tw_layout_count(const struct thalweg_tensor *tensor, size_t tensors,
			       size_t *parameters, size_t *buffers, struct tw_error *why);

#endif
