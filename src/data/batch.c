/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c - samples become floats that a network reads, moved, mirrored and shaken if asked.
 *
 * What is drawn for a sample depends on its global position alone: u64 b = 0 says how far it moves
 * (low half: x, high half: y), b = 1 whether it is mirrored; gauss element i is the noise of
 * feature i.  An image is mirrored first, then moved; behind it are zeros (raw ones, which the
 * normalisation then treats like any other). */
#include "data/data.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <string.h>

TW_CLONED_STATIC(void, from_bytes,
		 (float *restrict out, const uint8_t *restrict raw, const float *restrict scale,
		  const float *restrict shift, size_t n),
		 (out, raw, scale, shift, n))
{
	const size_t whole = n / 64 * 64;

	for (size_t i = 0; i < whole; i++)
		out[i] = (float)raw[i] * scale[i] + shift[i];
	/* the rest as a whole step too, which makes some values again, rather than one by one */
	for (size_t i = n < 64 ? 0 : n - 64; i < n && whole < n; i++)
		out[i] = (float)raw[i] * scale[i] + shift[i];
}

TW_CLONED_STATIC(void, from_floats,
		 (float *restrict out, const float *restrict raw, const float *restrict scale,
		  const float *restrict shift, size_t n),
		 (out, raw, scale, shift, n))
{
	for (size_t i = 0; i < n; i++)
		out[i] = raw[i] * scale[i] + shift[i];
}

struct motion {
	int64_t right, down;
	bool mirror;
};

/* n values from feature `from` of the sample to feature `to` of the network's. */
static void copy(const struct tw_data *d, const void *sample, size_t from, size_t to, size_t n,
		 float *x)
{
	const float *scale = d->scale + to, *shift = d->shift + to;

	if (d->kind == TW_VALUE_U8)
		from_bytes(x + to, (const uint8_t *)sample + from, scale, shift, n);
	else
		from_floats(x + to, (const float *)sample + from, scale, shift, n);
}

/* As copy, but from the last of n values to the first. */
static void copy_back(const struct tw_data *d, const void *sample, size_t from, size_t to, size_t n,
		      float *x)
{
	const uint8_t *bytes = (const uint8_t *)sample + from;
	const float *floats = (const float *)sample + from;

	if (d->kind == TW_VALUE_U8)
		for (size_t i = 0; i < n; i++)
			x[to + i] = (float)bytes[n - 1 - i] * d->scale[to + i] + d->shift[to + i];
	else
		for (size_t i = 0; i < n; i++)
			x[to + i] = floats[n - 1 - i] * d->scale[to + i] + d->shift[to + i];
}

/* Raw zeros. */
static void blank(const struct tw_data *d, size_t to, size_t n, float *x)
{
	memcpy(x + to, d->shift + to, n * sizeof *x);
}

static void move_row(const struct tw_data *d, const void *sample, size_t row, size_t source,
		     const struct motion *m, float *x)
{
	const size_t width = d->shape[2], left = m->right > 0 ? (size_t)m->right : 0;
	const size_t seen = width - (size_t)(m->right < 0 ? -m->right : m->right);
	const size_t to = row * width + left;
	/* the columns of the source that are seen begin where the move cut it off */
	const size_t first = m->right < 0 ? (size_t)-m->right : 0;

	blank(d, row * width, left, x);
	blank(d, to + seen, width - left - seen, x);
	if (m->mirror)
		copy_back(d, sample, source * width + (width - first - seen), to, seen, x);
	else
		copy(d, sample, source * width + first, to, seen, x);
}

static void move_image(const struct tw_data *d, const void *sample, const struct motion *m,
		       float *x)
{
	const size_t height = d->shape[1], width = d->shape[2];

	for (size_t row = 0; row < (size_t)d->shape[0] * height; row++) {
		const int64_t y = (int64_t)(row % height) - m->down;

		if (y < 0 || y >= (int64_t)height)
			blank(d, row * width, width, x);
		else
			move_row(d, sample, row, row - (size_t)(row % height) + (size_t)y, m, x);
	}
}

/* A whole number in -most..most. */
static int64_t spread(uint32_t draw, uint32_t most)
{
	return (int64_t)((uint64_t)draw * (2 * (uint64_t)most + 1) >> 32) - (int64_t)most;
}

static struct motion draw_motion(const struct tw_data_options *o, const struct tw_rng *rng,
				 uint64_t position)
{
	struct motion m = { 0 };

	if (o->shift) {
		const uint64_t draw = tw_rng_u64(rng, position, 0);

		m.right = spread((uint32_t)draw, o->shift);
		m.down = spread((uint32_t)(draw >> 32), o->shift);
	}
	m.mirror = o->flip && (tw_rng_u64(rng, position, 1) & 1);
	return m;
}

#define NOISE_STEP 1024

static void add_noise(const struct tw_rng *rng, uint64_t position, float deviation, float *x,
		      size_t n)
{
	float g[NOISE_STEP];

	for (size_t i = 0; i < n; i += NOISE_STEP) {
		const size_t some = n - i < NOISE_STEP ? n - i : NOISE_STEP;

		tw_rng_gauss_fill(rng, position, i, g, some);
		tw_vec_axpy(x + i, deviation, g, some);
	}
}

void tw_data_answers(const struct tw_data *d, const struct tw_batch *b, uint32_t *label,
		     float *target)
{
	const size_t labels = tw_data_labels(d);

	if (d->targets)
		for (uint32_t k = 0; k < b->count; k++)
			memcpy(target + (size_t)k * d->targets,
			       b->set->target + b->index[k] * d->targets,
			       d->targets * sizeof *target);
	else
		for (uint32_t k = 0; k < b->count; k++)
			memcpy(label + k * labels, b->set->label + b->index[k] * labels,
			       labels * sizeof *label);
}

void tw_data_fill(const struct tw_data *d, const struct tw_batch *b,
		  const struct tw_data_options *augment, uint64_t seed, float *x, uint32_t *label,
		  float *target)
{
	const size_t width = d->features * (d->kind == TW_VALUE_U8 ? 1 : sizeof(float));
	const bool moves = augment && (augment->shift || augment->flip);
	const bool shakes = augment && augment->noise > 0;
	struct tw_rng rng = { { 0, 0 } };

	if (moves || shakes)
		rng = tw_rng_make(seed, TW_RNG_AUGMENT);
	for (uint32_t k = 0; k < b->count; k++) {
		const void *sample = (const uint8_t *)b->set->value + b->index[k] * width;
		float *to = x + (size_t)k * d->features;

		if (moves) {
			const struct motion m = draw_motion(augment, &rng, b->position + k);

			move_image(d, sample, &m, to);
		} else {
			copy(d, sample, 0, 0, d->features, to);
		}
		if (shakes)
			add_noise(&rng, b->position + k, (float)augment->noise, to, d->features);
	}
	tw_data_answers(d, b, label, target);
}
