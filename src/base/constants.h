/* SPDX-License-Identifier: Apache-2.0 */
/* constants.h - the elements of a model that never change, among those that do.
 *
 * A run moves a vector without them.  The vector of the model, as files, digests and people have
 * it, is the same elements with the constants in their places. */
#ifndef TW_BASE_CONSTANTS_H
#define TW_BASE_CONSTANTS_H

#include "base/piece.h"

/* Their places are those of the model's vector, ascending, and their values lie one behind the
 * other.  All zeros: there are none. */
struct tw_constants {
	const struct tw_piece *piece;
	size_t pieces, floats;
};

/* The model's vector, run after run, while the moving elements come in order: `put` is given them,
 * and each constant as soon as everything before it was given.  Zeros but for `of` at first. */
struct tw_mingling {
	struct tw_constants of;
	size_t next, at; /* constant; place in the model's vector */
};
typedef void (*tw_mingled)(void *arg, const float *values, size_t n);
void tw_mingle(struct tw_mingling *m, const float *values, size_t n, tw_mingled put, void *arg);

/* The moving elements of a model's vector of n; `out` may be `model`. */
void tw_constants_leave_out(const struct tw_constants *c, const float *model, size_t n, float *out);

#endif
