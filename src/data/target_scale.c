/* SPDX-License-Identifier: Apache-2.0 */
/* target_scale.c - how large are the values that a network is to predict? */
#include "data/data.h"

#include <math.h>

#define FAR_ABOVE 10.0 /* a root mean square, or a deviation, that calls for other rates */
#define FAR_BELOW 0.01

/* Mean and deviation of one target over the training set. */
static struct tw_target_scale measure(const struct tw_data *d, uint32_t target)
{
	const float *at = d->train.target + target;
	double mean = 0, square = 0;

	for (uint64_t i = 0; i < d->train.count; i++, at += d->targets) {
		const double away = *at - mean;

		mean += away / (double)(i + 1);
		square += away * (*at - mean);
	}
	return (struct tw_target_scale){ .target = target,
					 .mean = mean,
					 .deviation = sqrt(square / (double)d->train.count) };
}

/* How many times larger, or smaller, than usual; 0: it is usual. */
static double distance(const struct tw_target_scale *s)
{
	const double size = hypot(s->mean, s->deviation);

	if (size > FAR_ABOVE)
		return size;
	return s->deviation > 0 && s->deviation < FAR_BELOW ? 1 / s->deviation : 0;
}

bool tw_data_targets_are_far(const struct tw_data *d, struct tw_target_scale *out)
{
	double most = 0;

	for (uint32_t k = 0; d->train.target && d->train.count && k < d->targets; k++) {
		const struct tw_target_scale s = measure(d, k);

		if (distance(&s) > most) {
			most = distance(&s);
			*out = s;
		}
	}
	return most > 0;
}
