/* SPDX-License-Identifier: Apache-2.0 */
/* projection.c - the nearest point of a box or of a ball. */
#include "strategy/projection.h"
#include "vec/vec.h"

#include <math.h>

static void into_box(float low, float high, float *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		w[i] = w[i] < low ? low : w[i];
		w[i] = w[i] > high ? high : w[i];
	}
}

static void into_ball(double radius, float *w, size_t n)
{
	const double norm = sqrt(tw_vec_square(w, n));

	if (!(norm > radius) || !isfinite(norm))
		return;
	for (size_t i = 0; i < n; i++)
		w[i] = (float)((double)w[i] * (radius / norm));
}

void tw_project(const struct tw_projection *p, float *w, size_t n)
{
	if (tw_projection_is_box(p))
		into_box(p->low, p->high, w, n);
	if (tw_projection_is_ball(p))
		into_ball(p->ball, w, n);
}
