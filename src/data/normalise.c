/* SPDX-License-Identifier: Apache-2.0 */
/* normalise.c - scale and shift of every feature, from the training set, in doubles and in the
 * samples' order: the same bits on every machine. */
#include "data/split.h"
#include "data/data_memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What is known of a feature, or of a channel. */
struct column {
	double mean, square;   /* square: sum of squared distances from the mean */
	uint64_t sum, squares; /* of bytes */
	float low, high;
};

struct work {
	struct tw_data *d;
	struct column *column;
	size_t columns, run; /* a run of so many features shares a column */
	float *scale, *shift;
};

/* Sums over a run of bytes: whole numbers, so exact in any order. */
static void add_run(struct column *at, const uint8_t *v, size_t n)
{
	uint64_t sum = 0, squares = 0;
	uint8_t low = 255, high = 0;

	for (size_t k = 0; k < n; k++) {
		sum += v[k];
		squares += (uint32_t)v[k] * v[k];
		low = v[k] < low ? v[k] : low;
		high = v[k] > high ? v[k] : high;
	}
	at->sum += sum;
	at->squares += squares;
	at->low = low < at->low ? low : at->low;
	at->high = high > at->high ? high : at->high;
}

static void measure_bytes(const struct work *w)
{
	const uint8_t *v = w->d->train.value;
	const uint64_t values = w->d->train.count * w->run;

	for (size_t c = 0; c < w->columns; c++)
		w->column[c] = (struct column){ .low = 255 };
	for (uint64_t i = 0; i < w->d->train.count; i++)
		for (size_t c = 0; c < w->columns; c++, v += w->run)
			add_run(&w->column[c], v, w->run);
	for (size_t c = 0; c < w->columns; c++) {
		struct column *at = &w->column[c];
		const unsigned __int128 all = (unsigned __int128)values * at->squares -
					      (unsigned __int128)at->sum * at->sum;

		at->mean = (double)at->sum / (double)values;
		at->square = (double)all / (double)values;
	}
}

/* Floats take two walks: the mean, then the distances from it. */
static void measure_floats(const struct work *w)
{
	const float *v = w->d->train.value;
	const uint64_t n = w->d->train.count;
	const double values = (double)n * (double)w->run;

	for (size_t c = 0; c < w->columns; c++)
		w->column[c] = (struct column){ .low = v[c * w->run], .high = v[c * w->run] };
	for (uint64_t i = 0; i < n; i++)
		for (size_t c = 0; c < w->columns; c++)
			for (size_t k = 0; k < w->run; k++, v++) {
				struct column *at = &w->column[c];

				at->mean += (double)*v;
				at->low = *v < at->low ? *v : at->low;
				at->high = *v > at->high ? *v : at->high;
			}
	for (size_t c = 0; c < w->columns; c++)
		w->column[c].mean /= values;
	v = w->d->train.value;
	for (uint64_t i = 0; i < n; i++)
		for (size_t c = 0; c < w->columns; c++)
			for (size_t k = 0; k < w->run; k++, v++) {
				const double away = (double)*v - w->column[c].mean;

				w->column[c].square += away * away;
			}
}

/* A constant column becomes 0, whatever it is in other sets. */
static void settle(const struct column *c, enum tw_normalise how, double values, float *scale,
		   float *shift)
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

static enum tw_status measure(struct work *w, enum tw_normalise how, struct tw_error *why)
{
	struct tw_data *d = w->d;
	const double values = (double)d->train.count * (double)w->run;

	w->column = d->heap->get(d->heap, w->columns * sizeof *w->column);
	if (!w->column)
		return tw_data_keep_no_memory(why, "normalise", w->columns * sizeof *w->column);
	if (d->kind == TW_VALUE_U8)
		measure_bytes(w);
	else
		measure_floats(w);
	for (size_t f = 0; f < d->features; f++) {
		settle(&w->column[f / w->run], how, values, &w->scale[f], &w->shift[f]);
		if (d->as_is && d->as_is[f] && w->scale[f] != 0) {
			w->scale[f] = 1;
			w->shift[f] = 0;
		}
	}
	d->heap->put(d->heap, w->column);
	for (size_t f = 0; f < d->features; f++)
		if (!isfinite(w->scale[f]) || !isfinite(w->shift[f]))
			return tw_fail(why, TW_BAD_INPUT,
				       "normalise: value %zu (from 1) of the samples varies too "
				       "little for its size to be normalised in floats; use none",
				       f + 1);
	return TW_OK;
}

static void plain(const struct work *w, float scale)
{
	for (size_t f = 0; f < w->d->features; f++) {
		w->scale[f] = scale;
		w->shift[f] = 0;
	}
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
	if (how == TW_NORMALISE_NONE)
		plain(&w, 1);
	else if (how == TW_NORMALISE_UNIT && d->kind == TW_VALUE_U8)
		plain(&w, 1.0f / 255);
	else
		st = measure(&w, how, why);
	d->scale = w.scale;
	d->shift = w.shift;
	return st;
}
