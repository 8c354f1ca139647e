/* SPDX-License-Identifier: Apache-2.0 */
/* target_scale.c - how large are the values that a network is to predict? */
#include "data/data.h"
#include "data/data_memory.h"

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

#define LEAST_SCALE 1e-15 /* squares of scales are floats */
#define MOST_SCALE  1e15

enum tw_status tw_data_scale_targets(struct tw_data *d, struct tw_error *why)
{
	void *room = NULL;
	float *scale;
	enum tw_status st = TW_OK;

	if (!d->targets || !d->train.count)
		return TW_OK;
	st = tw_data_keep_room(d, d->targets, 2 * sizeof *scale, &room, why);
	if (st != TW_OK)
		return st;
	scale = room;
	for (uint32_t k = 0; k < d->targets; k++) {
		const struct tw_target_scale s = measure(d, k);
		const bool varies = s.deviation > LEAST_SCALE && s.deviation < MOST_SCALE;

		scale[k] = varies ? (float)s.deviation : 1;
		scale[d->targets + k] = (float)s.mean;
	}
	d->target_scale = scale;
	d->target_shift = scale + d->targets;
	return TW_OK;
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
