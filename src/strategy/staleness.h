/* SPDX-License-Identifier: Apache-2.0 */
/* staleness.h - how is a late gradient corrected?  Works on one tile of a shard at a time. */
#ifndef TW_STRATEGY_STALENESS_H
#define TW_STRATEGY_STALENESS_H

#include "base/status.h"
#include "base/variant.h"
#include "vec/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_STALENESS_ARRAYS 4

enum tw_staleness_traits {
	TW_STALENESS_SENT = 1,      /* reads what this worker was sent: the shard remembers it */
	TW_STALENESS_OBSERVES = 2,  /* wants to see the direction of every update */
	TW_STALENESS_DECAY = 4,     /* writes a factor for the weight decay, element by element */
	TW_STALENESS_STATISTIC = 8, /* has a statistic (B-FASGD's mean of v) */
	TW_STALENESS_SCALES = 16,   /* only multiplies the whole gradient by one number */
};

/* One tile of one contribution.  All pointers are to n floats. */
struct tw_correction {
	float *g;          /* in: the raw gradient (a mean); out: corrected */
	const float *w;    /* the parameters now (what the rule keeps, not what it shows) */
	const float *sent; /* what this worker computed on; NULL without TW_STALENESS_SENT */
	float *decay;      /* out: factors for the decay; NULL when there is no decay or the trait
				 is missing */
	float *array[TW_STALENESS_ARRAYS]; /* the policy's own arrays, zero at the start */
	size_t n;
	uint64_t tau;     /* updates since the version it was computed on */
	uint64_t count;   /* corrections so far on this shard, this one included */
	float rate_max;   /* the largest rate of the schedule */
	double statistic; /* out, added to: sum over the tile (TW_STALENESS_STATISTIC) */
};

struct tw_staleness {
	TW_VARIANT;       /* traits: of enum tw_staleness_traits */
	uint32_t arrays;  /* how many of `array` it uses */
	const char *open; /* an F64 option that 0 leaves open: then the job fills in the
			     staleness that its gate makes on average; it has an
			     effect from 1 on, so that less is refused; NULL: none */

	/* NULL: the gradient stays as it is. */
	void (*correct)(const void *options, struct tw_correction *c);
	/* After an update: `direction` is what the rule multiplied with the rate; `count` updates
	 * so far, this one included.  `array` as in the correction. */
	void (*observe)(const void *options, float *const *array, const float *direction, size_t n,
			uint64_t count);
};

/* TW_STALENESS_SCALES: the gradient counts `factor` times, and so does the weight decay. */
static inline void tw_correction_scale(struct tw_correction *c, float factor)
{
	if (factor != 1.0f)
		tw_vec_scale(c->g, factor, c->n);
	if (c->decay)
		tw_vec_fill(c->decay, factor, c->n);
}

TW_REGISTRY(staleness, tw_staleness);

#endif
