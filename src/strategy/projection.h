/* SPDX-License-Identifier: Apache-2.0 */
/* projection.h - a convex set that the parameters are kept in: after every update they become the
 * nearest point of it (Zinkevich 2003: w = P(w - rate * g)).
 *
 * The box is one interval for every parameter; its nearest point is found element by element, so a
 * part of the vector may be projected alone.  The ball is of the whole vector. */
#ifndef TW_STRATEGY_PROJECTION_H
#define TW_STRATEGY_PROJECTION_H

#include <stdbool.h>
#include <stddef.h>

struct tw_projection {
	double ball;     /* largest Euclidean norm; 0: any */
	float low, high; /* of every parameter; low == high: any */
};

static inline bool tw_projection_is_box(const struct tw_projection *p)
{
	return p->low < p->high;
}
static inline bool tw_projection_is_ball(const struct tw_projection *p)
{
	return p->ball > 0;
}

/* w[0..n) becomes the nearest point: of the box, or, where w is the whole vector, of the ball.  The
 * norm is then at most `ball`, but for the rounding of each element.  What is in the set stays, bit
 * for bit; NaN stays NaN, and a vector whose norm is not finite is in no ball and stays as it is.
 */
void tw_project(const struct tw_projection *p, float *w, size_t n);

#endif
