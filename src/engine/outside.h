/* SPDX-License-Identifier: Apache-2.0 */
/* outside.h - a model that only its owner can compute: its tensors, its initial values and the
 * number of its samples are known here, and nothing else.
 *
 * Gradients are computed by callers of a desk (world/desk.h). */
#ifndef TW_ENGINE_OUTSIDE_H
#define TW_ENGINE_OUTSIDE_H

#include "actor/engine.h"
#include "base/heap.h"
#include "base/sha256.h"
#include "model/safetensors.h"

struct tw_outside_facts {
	/* In the order of the vector: name, rank, d and count; the first `trained` of them are
	 * trained, the others are buffers.  At least one is trained. */
	const struct tw_safe_tensor *tensor;
	size_t tensors, trained;
	const float *initial;    /* all of them; NULL: zeros */
	uint64_t samples, tests; /* at least 1 each */
	uint64_t seed;
	struct tw_sha fingerprint; /* of what the run's processes must have in common */
	/* Scores test samples where there is no run; may be NULL. */
	enum tw_status (*evaluate)(void *arg, void *scratch, const struct tw_inputs *in,
				   struct tw_score *score);
	void *arg;
	size_t scratch_bytes;
};

/* What the facts point to is copied, but for `arg`.  TW_BAD_INPUT: a value is not finite. */
enum tw_status tw_outside_open(struct tw_heap *heap, const struct tw_outside_facts *facts,
			       struct tw_engine **out, struct tw_error *why);
/* Its tensors, living with it; NULL: the engine is another. */
const struct tw_safe_tensor *tw_outside_tensors(const struct tw_engine *e, size_t *tensors,
						size_t *trained);
/* NULL: the engine is another. */
const struct tw_sha *tw_outside_fingerprint(const struct tw_engine *e);

#endif
