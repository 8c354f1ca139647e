/* SPDX-License-Identifier: Apache-2.0 */
/* line_search.h - the line search of Moré and Thuente (1994): a step along a descent direction
 * that satisfies the strong Wolfe conditions
 *
 *	f(a) <= f(0) + sufficient a f'(0)	and	|f'(a)| <= curvature |f'(0)|
 *
 * It asks for the value and the slope at one step after the other, and is a plain struct of
 * numbers: it may be copied and saved. */
#ifndef TW_STRATEGY_LINE_SEARCH_H
#define TW_STRATEGY_LINE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

enum tw_search_state {
	TW_SEARCH_GOES_ON, /* evaluate at `step` */
	TW_SEARCH_FOUND,   /* the step evaluated last satisfies both conditions */
	TW_SEARCH_STUCK,   /* the interval is as short as numbers allow: `best` is the best step */
};

/* A step that was evaluated. */
struct tw_search_end {
	double step, value, slope;
};

struct tw_search {
	double sufficient, curvature;
	double step;                /* evaluate here */
	double value, slope;        /* at step 0 */
	struct tw_search_end best;  /* the lowest value so far; step 0 at first */
	struct tw_search_end other; /* the other end of the interval */
	double low, high;           /* the next step lies in between */
	double width, width_before; /* of the interval, now and two steps ago */
	double top;                 /* no step is longer */
	uint32_t bracketed, second; /* the interval is known to have a minimiser; the second stage:
				       a step of sufficient decrease and positive slope was seen */
};

/* From a point of this value, in a direction of this slope (below 0), with this first step. */
void tw_search_begin(struct tw_search *s, double value, double slope, double step,
		     double sufficient, double curvature);
/* What was found at `step`.  Value or slope may be infinite or NAN: the step was too long. */
enum tw_search_state tw_search_next(struct tw_search *s, double value, double slope);

#endif
