/* SPDX-License-Identifier: Apache-2.0 */
/* target_scale.c - how large are the values that a network is to predict? */
#include "data/data.h"
#include "data/data_memory.h"

#include <math.h>

#define FAR_ABOVE 10.0 /* a root mean square, or a deviation, that calls for other rates */
#define FAR_BELOW 0.01

/* Of all targets: what is known, or else measured in memory that the caller puts back. */
static enum tw_status find(const struct tw_data *d, const struct tw_target_facts **out,
			   struct tw_target_facts **measured, struct tw_error *why)
{
	enum tw_status st;

	*measured = NULL;
	*out = d->known.target;
	if (*out)
		return TW_OK;
	*measured = d->heap->get(d->heap, d->targets * sizeof **measured);
	if (!*measured)
		return tw_data_keep_no_memory(why, "targets", d->targets * sizeof **measured);
	*out = *measured;
	st = tw_statistics_targets(d, *measured, why);
	if (st == TW_OK)
		return TW_OK;
	d->heap->put(d->heap, *measured);
	*measured = NULL;
	return st;
}

#define LEAST_SCALE 1e-15 /* squares of scales are floats */
#define MOST_SCALE  1e15

enum tw_status tw_data_scale_targets(struct tw_data *d, struct tw_error *why)
{
	const struct tw_target_facts *facts = NULL;
	struct tw_target_facts *measured = NULL;
	void *room = NULL;
	float *scale;
	enum tw_status st;

	if (!d->targets || !d->train.count)
		return TW_OK;
	st = tw_data_keep_room(d, d->targets, 2 * sizeof *scale, &room, why);
	if (st == TW_OK)
		st = find(d, &facts, &measured, why);
	if (st != TW_OK)
		return st;
	scale = room;
	for (uint32_t k = 0; k < d->targets; k++) {
		const double deviation = facts[k].deviation;
		const bool varies = deviation > LEAST_SCALE && deviation < MOST_SCALE;

		scale[k] = varies ? (float)deviation : 1;
		scale[d->targets + k] = (float)facts[k].mean;
	}
	d->heap->put(d->heap, measured);
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
	const struct tw_target_facts *facts;
	struct tw_target_facts *measured;
	struct tw_error quiet = { 0 };
	double most = 0;

	if (!d->targets || !d->train.count || find(d, &facts, &measured, &quiet) != TW_OK)
		return false;
	for (uint32_t k = 0; k < d->targets; k++) {
		const struct tw_target_scale s = { k, facts[k].mean, facts[k].deviation };

		if (distance(&s) > most) {
			most = distance(&s);
			*out = s;
		}
	}
	d->heap->put(d->heap, measured);
	return most > 0;
}
