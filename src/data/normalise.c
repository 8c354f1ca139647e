/* SPDX-License-Identifier: Apache-2.0 */
/* normalise.c - scale and shift of every feature, from what is known of the training set. */
#include "data/split.h"
#include "data/data_memory.h"
#include "data/format/series_rows.h"

#include <math.h>

struct work {
	struct tw_data *d;
	size_t columns, run; /* a run of so many features shares a column */
	float *scale, *shift;
};

/* A constant column becomes 0, whatever it is in other sets. */
static void settle(const struct tw_column_facts *c, enum tw_normalise how, double values,
		   float *scale, float *shift)
{
	double s = 0, origin = 0;

	if (c->high > c->low) {
		s = how == TW_NORMALISE_UNIT ? 1 / ((double)c->high - (double)c->low)
					     : 1 / sqrt(c->square / values);
		origin = how == TW_NORMALISE_UNIT ? (double)c->low : c->mean;
	}
	*scale = (float)s;
	*shift = (float)(-origin * s);
}

static enum tw_status scale_by(struct work *w, const struct tw_column_facts *column,
			       enum tw_normalise how, struct tw_error *why)
{
	const struct tw_data *d = w->d;
	const double values = (double)d->train.count * (double)w->run;

	for (size_t f = 0; f < d->features; f++) {
		settle(&column[f / w->run], how, values, &w->scale[f], &w->shift[f]);
		if (d->as_is && d->as_is[f] && w->scale[f] != 0) {
			w->scale[f] = 1;
			w->shift[f] = 0;
		}
	}
	for (size_t f = 0; f < d->features; f++)
		if (!isfinite(w->scale[f]) || !isfinite(w->shift[f]))
			return tw_fail(why, TW_BAD_INPUT,
				       "normalise: value %zu (from 1) of the samples varies too "
				       "little for its size to be normalised in floats; use none",
				       f + 1);
	return TW_OK;
}

/* By what is known, or else by what is measured. */
static enum tw_status measure(struct work *w, enum tw_normalise how, struct tw_error *why)
{
	struct tw_data *d = w->d;
	const struct tw_column_facts *known =
		w->columns == d->features ? d->known.feature : d->known.channel;
	struct tw_columns_wanted cut = { w->columns, w->run, NULL };
	enum tw_status st;

	if (known)
		return scale_by(w, known, how, why);
	cut.out = d->heap->get(d->heap, w->columns * sizeof *cut.out);
	if (!cut.out)
		return tw_data_keep_no_memory(why, "normalise", w->columns * sizeof *cut.out);
	st = tw_statistics_measure(d, &cut, 1, why);
	if (st == TW_OK)
		st = scale_by(w, cut.out, how, why);
	d->heap->put(d->heap, cut.out);
	return st;
}

static void plain(const struct work *w, float scale)
{
	for (size_t f = 0; f < w->d->features; f++) {
		w->scale[f] = scale;
		w->shift[f] = 0;
	}
}

/* What is known of one feature of series, over all times that there are. */
struct feature {
	double mean, square, count;
	float low, high;
};

struct walk {
	struct feature *feature;
	size_t width;
};

static enum tw_status see_series(void *arg, uint64_t i, const struct tw_sample *s,
				 struct tw_error *why)
{
	const struct walk *w = arg;
	const float *x = s->value;
	const size_t n = (size_t)x[0] * w->width;

	(void)i;
	(void)why;
	for (size_t k = 0; k < n; k++) {
		struct feature *f = &w->feature[k % w->width];
		const double from_mean = (double)x[1 + k] - f->mean;

		f->low = f->count > 0 && f->low < x[1 + k] ? f->low : x[1 + k];
		f->high = f->count > 0 && f->high > x[1 + k] ? f->high : x[1 + k];
		f->mean += from_mean / ++f->count;
		f->square += from_mean * ((double)x[1 + k] - f->mean);
	}
	return TW_OK;
}

/* The length stays as it is; a feature has one scale at all positions. */
static enum tw_status by_feature(struct work *w, size_t width, enum tw_normalise how,
				 struct tw_error *why)
{
	struct tw_data *d = w->d;
	struct walk walk = { tw_heap_zeros(d->heap, width * sizeof *walk.feature), width };
	enum tw_status st;

	if (!walk.feature)
		return tw_data_keep_no_memory(why, "normalise", width * sizeof *walk.feature);
	st = tw_samples_walk(d, &d->train, 0, UINT64_MAX, see_series, &walk, why);
	w->scale[0] = 1;
	w->shift[0] = 0;
	for (size_t k = 0; k + 1 < d->features && st == TW_OK; k++) {
		const struct feature *f = &walk.feature[k % width];
		const struct tw_column_facts facts = {
			.mean = f->mean, .square = f->square, .low = f->low, .high = f->high
		};

		settle(&facts, how, f->count, &w->scale[1 + k], &w->shift[1 + k]);
		if (!isfinite(w->scale[1 + k]) || !isfinite(w->shift[1 + k]))
			st = tw_fail(why, TW_BAD_INPUT,
				     "normalise: feature %zu (from 1) of the series varies too "
				     "little for its size to be normalised in floats; use none",
				     k + 1);
	}
	d->heap->put(d->heap, walk.feature);
	return st;
}

enum tw_status tw_normalise(struct tw_data *d, enum tw_normalise how, struct tw_error *why)
{
	struct work w = { .d = d, .columns = d->features, .run = 1 };
	void *room = NULL;
	enum tw_status st = tw_data_keep_room(d, d->features, 2 * sizeof(float), &room, why);

	if (st != TW_OK)
		return st;
	w.scale = room;
	w.shift = w.scale + d->features;
	if (d->tokens)
		how = TW_NORMALISE_NONE;
	if (how == TW_NORMALISE_STANDARD && d->rank == 3) {
		w.columns = d->shape[0];
		w.run = d->features / w.columns;
	}
	if (how != TW_NORMALISE_NONE && tw_series_width(d->columns))
		st = by_feature(&w, tw_series_width(d->columns), how, why);
	else if (how == TW_NORMALISE_NONE)
		plain(&w, 1);
	else if (how == TW_NORMALISE_UNIT && d->kind == TW_VALUE_U8)
		plain(&w, 1.0f / 255);
	else
		st = measure(&w, how, why);
	d->scale = w.scale;
	d->shift = w.shift;
	return st;
}
