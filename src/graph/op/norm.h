/* SPDX-License-Identifier: Apache-2.0 */
/* norm.h - what layernorm and groupnorm share: some values to mean 0 and variance 1, and back. */
#ifndef TW_GRAPH_OP_NORM_H
#define TW_GRAPH_OP_NORM_H

#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

TW_CLONED_STATIC(void, tw_norm_from_mean,
		 (const float *restrict x, float mean, size_t n, float *restrict y),
		 (x, mean, n, y))
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] - mean;
}

/* y becomes x - mean; mean and 1 / deviation go to place[0] and place[1]. */
static inline void tw_norm_center(const float *x, size_t n, float epsilon, float *y, float place[2])
{
	place[0] = (float)(tw_vec_sum(x, n) / (double)n);
	tw_norm_from_mean(x, place[0], n, y);
	place[1] = (float)(1.0 / sqrt(tw_vec_square(y, n) / (double)n + (double)epsilon));
}

TW_CLONED_STATIC(void, tw_norm_slope,
		 (const float *restrict unit, const float *restrict weighted, float inverse,
		  float mean, float along, size_t n, float *restrict dx),
		 (unit, weighted, inverse, mean, along, n, dx))
{
	for (size_t i = 0; i < n; i++)
		dx[i] = inverse * (weighted[i] - mean - unit[i] * along);
}

/* The gradient of x, from the normalised values and the gradient times the weights. */
static inline void tw_norm_back(const float *unit, const float *weighted, float inverse, size_t n,
				float *dx)
{
	tw_norm_slope(unit, weighted, inverse, (float)(tw_vec_sum(weighted, n) / (double)n),
		      (float)(tw_vec_dot(weighted, unit, n) / (double)n), n, dx);
}

#endif
