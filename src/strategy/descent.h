/* SPDX-License-Identifier: Apache-2.0 */
/* descent.h - what every batch method does, as a pure iterator: results of commands in, the next
 * list of commands out (base/command.h).  It never sees a vector.
 *
 *	evaluate → [direction → evaluate, until the line search is content → accepted] → ...
 *
 *  (1) tw_descent_next is called with the results of the list it wrote last, in order; after a list
 *      that ends with EVALUATE when all portions are there.
 *  (2) at TW_DESCENT_ACCEPTED vector 0 is a point that is kept, all lists are done, and the struct
 *      and the method's state are all that is needed to go on: this is where a run is saved.  The
 *      next call needs no results.
 *  (3) a value that is not finite makes the line search try a shorter step.
 *  (4) a direction that does not lead downhill, or along which nothing better is found, makes the
 *      method forget what it has learnt; if the steepest descent fails as well, it is over.
 *
 * Reads no clock, allocates nothing, cannot fail. */
#ifndef TW_STRATEGY_DESCENT_H
#define TW_STRATEGY_DESCENT_H

#include "strategy/line_search.h"
#include "strategy/optimiser.h"

/* How a method is run; the rows are in spec/. */
struct tw_descent_options {
	double l2;                    /* adds l2/2 |w|^2 to the loss */
	double gradient;              /* stop when the gradient's norm is no longer than this */
	double decrease;              /* ... or an iteration's relative decrease is no more */
	uint64_t evaluations;         /* ... or after so many; 0: no limit */
	uint64_t iterations;          /* ... or so many; 0: no limit */
	double sufficient, curvature; /* of the line search; curvature 0: the method's own */
	uint32_t trials;              /* the most evaluations of one line search */
	bool fresh;                   /* every iteration has a batch of its own */
};

enum tw_descent_turn {
	TW_DESCENT_COMMANDS, /* carry out the list */
	TW_DESCENT_ACCEPTED, /* (2) */
	TW_DESCENT_OVER,     /* `why` says why; vector 0 is the result */
};

enum tw_descent_why {
	TW_DESCENT_RUNS,
	TW_DESCENT_GRADIENT,    /* the gradient is short enough */
	TW_DESCENT_DECREASE,    /* an iteration hardly gained anything */
	TW_DESCENT_EVALUATIONS, /* limits */
	TW_DESCENT_ITERATIONS,
	TW_DESCENT_PRECISION,  /* no step along the steepest descent is better */
	TW_DESCENT_NOT_FINITE, /* the initial point has no finite value */
	TW_DESCENT_WHYS
};

/* As it is saved: numbers only. */
struct tw_descent {
	uint32_t stage, why;
	uint64_t iterations, evaluations, restarts, batch;
	double loss;   /* at the point that was accepted last */
	double before; /* ... and at the one before */
	double norm;   /* of the gradient there */
	double slope;  /* of the direction at the base */
	struct tw_moved moved;
	struct tw_search search;
	uint32_t trials;   /* of this line search */
	uint32_t steepest; /* the direction is the steepest descent */
	uint32_t settles;  /* the trial is the best step of a search that is stuck */
	uint32_t pad;
};

/* The method, and where its state is. */
struct tw_descender {
	const struct tw_optimiser *method;
	const void *options;
	const struct tw_descent_options *how;
	struct tw_descent *state;
	void *own; /* the method's */
};

/* The initial state; `own` is zeros. */
void tw_descent_begin(struct tw_descent *d);
/* The most commands that a list has. */
uint32_t tw_descent_commands(const struct tw_optimiser *method, const void *options);
/* Vectors in all. */
static inline uint32_t tw_descent_vectors(const struct tw_optimiser *method, const void *options)
{
	return TW_VECTOR_OWN + tw_optimiser_vectors(method, options);
}
enum tw_descent_turn tw_descent_next(const struct tw_descender *d, const double *result,
				     struct tw_commands *out);
/* For people: "the gradient is short enough". */
const char *tw_descent_why_text(uint32_t why);

#endif
