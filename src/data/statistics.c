/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c - means, distances from them and ranges, sample after sample. */
#include "data/statistics.h"
#include "data/data_memory.h"

#include <math.h>

/* --- bytes ------------------------------------------------------------------------------------ */

/* Sums of bytes are whole numbers, so exact in any order. */
struct byte_sums {
	uint64_t sum, squares;
	uint8_t low, high;
};

struct byte_walk {
	const struct tw_columns_wanted *cut;
	size_t cuts;
	struct byte_sums *of; /* of all cuts, one behind the other */
};

static void add_run(struct byte_sums *at, const uint8_t *v, size_t n)
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

static enum tw_status add_bytes(void *arg, uint64_t i, const struct tw_sample *sample,
				struct tw_error *why)
{
	const struct byte_walk *w = arg;
	struct byte_sums *of = w->of;

	(void)i;
	(void)why;
	for (size_t k = 0; k < w->cuts; k++) {
		const struct tw_columns_wanted *cut = &w->cut[k];
		const uint8_t *v = sample->value;

		for (size_t c = 0; c < cut->columns; c++, v += cut->run)
			add_run(of++, v, cut->run);
	}
	return TW_OK;
}

static void settle_bytes(const struct byte_walk *w, uint64_t count)
{
	const struct byte_sums *s = w->of;

	for (size_t k = 0; k < w->cuts; k++)
		for (size_t c = 0; c < w->cut[k].columns; c++, s++) {
			const uint64_t values = count * w->cut[k].run;
			const unsigned __int128 all = (unsigned __int128)values * s->squares -
						      (unsigned __int128)s->sum * s->sum;

			w->cut[k].out[c] = (struct tw_column_facts){
				.mean = (double)s->sum / (double)values,
				.square = (double)all / (double)values,
				.low = s->low,
				.high = s->high,
			};
		}
}

static enum tw_status measure_bytes(const struct tw_data *d, const struct tw_columns_wanted *cut,
				    size_t cuts, struct tw_error *why)
{
	struct byte_walk w = { .cut = cut, .cuts = cuts };
	size_t columns = 0;
	enum tw_status st;

	for (size_t k = 0; k < cuts; k++)
		columns += cut[k].columns;
	w.of = tw_heap_zeros(d->heap, columns * sizeof *w.of);
	if (!w.of)
		return tw_data_keep_no_memory(why, "normalise", columns * sizeof *w.of);
	for (size_t k = 0; k < columns; k++)
		w.of[k].low = 255;
	st = tw_samples_walk(d, &d->train, 0, UINT64_MAX, add_bytes, &w, why);
	if (st == TW_OK)
		settle_bytes(&w, d->train.count);
	d->heap->put(d->heap, w.of);
	return st;
}

/* --- floats ----------------------------------------------------------------------------------- */

struct float_walk {
	const struct tw_columns_wanted *cut;
	size_t cuts;
	uint64_t count;
};

/* Floats take two walks: the mean, then the distances from it. */
static enum tw_status add_floats(void *arg, uint64_t i, const struct tw_sample *sample,
				 struct tw_error *why)
{
	const struct float_walk *w = arg;

	(void)why;
	for (size_t k = 0; k < w->cuts; k++) {
		const struct tw_columns_wanted *cut = &w->cut[k];
		const float *v = sample->value;

		for (size_t c = 0; c < cut->columns; c++) {
			struct tw_column_facts *at = &cut->out[c];

			if (i == 0)
				*at = (struct tw_column_facts){ .low = *v, .high = *v };
			for (size_t n = 0; n < cut->run; n++, v++) {
				at->mean += (double)*v;
				at->low = *v < at->low ? *v : at->low;
				at->high = *v > at->high ? *v : at->high;
			}
		}
	}
	return TW_OK;
}

static enum tw_status add_distances(void *arg, uint64_t i, const struct tw_sample *sample,
				    struct tw_error *why)
{
	const struct float_walk *w = arg;

	(void)why;
	for (size_t k = 0; k < w->cuts; k++) {
		const struct tw_columns_wanted *cut = &w->cut[k];
		const double values = (double)w->count * (double)cut->run;
		const float *v = sample->value;

		for (size_t c = 0; c < cut->columns; c++) {
			struct tw_column_facts *at = &cut->out[c];

			if (i == 0)
				at->mean /= values;
			for (size_t n = 0; n < cut->run; n++, v++) {
				const double away = (double)*v - at->mean;

				at->square += away * away;
			}
		}
	}
	return TW_OK;
}

enum tw_status tw_statistics_measure(const struct tw_data *d, const struct tw_columns_wanted *cut,
				     size_t cuts, struct tw_error *why)
{
	struct float_walk w = { cut, cuts, d->train.count };
	enum tw_status st;

	if (d->kind == TW_VALUE_U8)
		return measure_bytes(d, cut, cuts, why);
	st = tw_samples_walk(d, &d->train, 0, UINT64_MAX, add_floats, &w, why);
	return st == TW_OK ? tw_samples_walk(d, &d->train, 0, UINT64_MAX, add_distances, &w, why)
			   : st;
}

/* --- targets ---------------------------------------------------------------------------------- */

struct target_walk {
	uint32_t targets;
	struct tw_target_facts *out; /* deviation: sum of squared distances, until the end */
};

static enum tw_status add_targets(void *arg, uint64_t i, const struct tw_sample *sample,
				  struct tw_error *why)
{
	const struct target_walk *w = arg;

	(void)why;
	for (uint32_t k = 0; k < w->targets; k++) {
		struct tw_target_facts *at = &w->out[k];
		const double away = sample->target[k] - at->mean;

		at->mean += away / (double)(i + 1);
		at->deviation += away * (sample->target[k] - at->mean);
	}
	return TW_OK;
}

enum tw_status tw_statistics_targets(const struct tw_data *d, struct tw_target_facts *out,
				     struct tw_error *why)
{
	struct target_walk w = { d->targets, out };
	enum tw_status st;

	for (uint32_t k = 0; k < d->targets; k++)
		out[k] = (struct tw_target_facts){ 0 };
	st = tw_samples_walk(d, &d->train, 0, UINT64_MAX, add_targets, &w, why);
	for (uint32_t k = 0; k < d->targets; k++)
		out[k].deviation = sqrt(out[k].deviation / (double)d->train.count);
	return st;
}
