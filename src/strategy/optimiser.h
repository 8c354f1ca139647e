/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.h - batch methods: which direction to search from a point, by commands over vectors
 * that others hold (base/command.h).
 *
 * What all methods have in common, the line search and when to stop, is in descent.h, which calls a
 * method.  A method sees numbers and the names of vectors only.  Every function is pure but for the
 * state, which is plain numbers: it is saved with a checkpoint as it is.  Nothing allocates, waits,
 * reads a clock or can fail. */
#ifndef TW_STRATEGY_OPTIMISER_H
#define TW_STRATEGY_OPTIMISER_H

#include "base/command.h"
#include "base/variant.h"

#include <stddef.h>

/* Vectors that every method has. */
enum {
	TW_VECTOR_GRADIENT = TW_VECTOR_POINT + 1, /* at the point */
	TW_VECTOR_BASE,                           /* where the line search began ... */
	TW_VECTOR_BEFORE,                         /* ... and the gradient there */
	TW_VECTOR_DIRECTION,
	TW_VECTOR_OWN /* the first of the method's own */
};

/* What is known of the line search that has just ended. */
struct tw_moved {
	double step;
	double slope, slope_before; /* along the direction, at its end and at its beginning */
	double square;              /* gradient . gradient, now */
	double square_before;       /* ... and where the search began */
	bool renews;                /* the next direction starts from a gradient of another batch */
};

/* The direction, as far as numbers say. */
struct tw_heading {
	double slope; /* gradient . direction; not below 0: the direction is of no use */
	double step;  /* to try first */
};

struct tw_optimiser {
	TW_VARIANT;
	double curvature; /* of the line search, unless the job says otherwise */

	size_t (*state_bytes)(const void *options); /* zeros at first; NULL: 0 */
	uint32_t (*vectors)(const void *options);   /* of its own; NULL: 0 */
	uint32_t (*commands)(const void *options);  /* the most in one list */
	/* Forget what was learnt of earlier points: begin again with the steepest descent.
	 * NULL: it learns nothing. */
	void (*forget)(const void *options, void *state);
	/* The point has moved, and both gradients are of one batch: commands that keep what is to
	 * be known of it later.  NULL: nothing. */
	void (*keep)(const void *options, void *state, const struct tw_moved *m,
		     struct tw_commands *out);
	/* Commands whose results `direct` needs; none, if it writes none.  NULL: none. */
	void (*look)(const void *options, const void *state, struct tw_commands *out);
	/* With these results, write commands that make TW_VECTOR_DIRECTION. */
	struct tw_heading (*direct)(const void *options, void *state, const struct tw_moved *m,
				    const double *result, struct tw_commands *out);
};

static inline size_t tw_optimiser_bytes(const struct tw_optimiser *o, const void *options)
{
	return o->state_bytes ? o->state_bytes(options) : 0;
}
static inline uint32_t tw_optimiser_vectors(const struct tw_optimiser *o, const void *options)
{
	return o->vectors ? o->vectors(options) : 0;
}
static inline void tw_optimiser_forget(const struct tw_optimiser *o, const void *options,
				       void *state)
{
	if (o->forget)
		o->forget(options, state);
}

TW_REGISTRY(optimiser, tw_optimiser);

#endif
