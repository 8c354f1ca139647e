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

/* --- as bytes --------------------------------------------------------------------------------- */

static size_t answers_at(const struct tw_data *d, uint32_t count)
{
	return (count * tw_samples_width(d) + 7) / 8 * 8;
}

static size_t weights_at(const struct tw_data *d, uint32_t count)
{
	return answers_at(d, count) + count * tw_samples_answer(d);
}

size_t tw_data_pack_bytes(const struct tw_data *d, uint32_t count)
{
	return weights_at(d, count) + (d->weighs ? count * sizeof(float) : 0);
}

const float *tw_data_packed_weights(const struct tw_data *d, const uint8_t *packed, uint32_t count)
{
	return d->weighs ? (const float *)(packed + weights_at(d, count)) : NULL;
}

static bool labels_exist(const struct tw_data *d, const struct tw_sample *s)
{
	for (size_t k = 0; !d->targets && k < tw_data_labels(d); k++)
		if (s->label[k] >= d->classes)
			return false;
	return true;
}

/* Packed samples where they lie.  They came from outside, so labels are looked at. */
static enum tw_status point(const struct tw_data *d, const struct tw_batch *b, uint32_t from,
			    uint32_t n, struct tw_sample *out)
{
	const uint8_t *values = b->packed + from * tw_samples_width(d);
	const uint8_t *answers = b->packed + answers_at(d, b->count) + from * tw_samples_answer(d);

	for (uint32_t k = 0; k < n; k++) {
		const void *answer = answers + k * tw_samples_answer(d);

		out[k] = (struct tw_sample){
			.value = values + k * tw_samples_width(d),
			.label = d->targets ? NULL : answer,
			.target = d->targets ? answer : NULL,
		};
		if (!labels_exist(d, &out[k]))
			return TW_BAD_BYTES;
	}
	return TW_OK;
}

/* Samples that are asked for together. */
#define AT_ONCE 32u

static enum tw_status ask(const struct tw_data *d, const struct tw_batch *b, uint32_t from,
			  struct tw_sample *out, uint32_t *n)
{
	struct tw_error quiet = { 0 };

	*n = b->count - from < AT_ONCE ? b->count - from : AT_ONCE;
	if (b->packed)
		return point(d, b, from, *n, out);
	return tw_samples_fill(d, b->set, b->index + from, *n, NULL, out, &quiet);
}

enum tw_status tw_data_pack(const struct tw_data *d, const struct tw_batch *b, uint8_t *out)
{
	const size_t width = tw_samples_width(d), answer = tw_samples_answer(d);
	const size_t end = weights_at(d, b->count);
	uint8_t *value = out, *answers = out + answers_at(d, b->count);
	struct tw_sample s[AT_ONCE];
	uint32_t n;

	memset(out + b->count * width, 0, answers_at(d, b->count) - b->count * width);
	tw_samples_soon(b->set, b->index, b->count);
	for (uint32_t k = 0; k < b->count; k += n) {
		const enum tw_status st = ask(d, b, k, s, &n);

		if (st != TW_OK)
			return st;
		for (uint32_t i = 0; i < n; i++, value += width, answers += answer) {
			memcpy(value, s[i].value, width);
			memcpy(answers, d->targets ? (const void *)s[i].target : s[i].label,
			       answer);
		}
	}
	for (uint32_t k = 0; d->weighs && k < b->count; k++)
		memcpy(out + end + k * sizeof(float), &d->weight[b->index[k]], sizeof(float));
	return TW_OK;
}

static void answer(const struct tw_data *d, const struct tw_sample *s, uint32_t n, uint32_t *label,
		   float *target)
{
	const size_t labels = tw_data_labels(d);

	for (uint32_t k = 0; k < n; k++)
		if (d->targets)
			memcpy(target + (size_t)k * d->targets, s[k].target,
			       d->targets * sizeof *target);
		else
			memcpy(label + k * labels, s[k].label, labels * sizeof *label);
}

enum tw_status tw_data_answers(const struct tw_data *d, const struct tw_batch *b, uint32_t *label,
			       float *target)
{
	struct tw_sample s[AT_ONCE];
	uint32_t n;

	for (uint32_t k = 0; k < b->count; k += n) {
		const enum tw_status st = ask(d, b, k, s, &n);

		if (st != TW_OK)
			return st;
		answer(d, s, n, d->targets ? NULL : label + k * tw_data_labels(d),
		       d->targets ? target + (size_t)k * d->targets : NULL);
	}
	return TW_OK;
}

/* How samples are augmented; `how` NULL: not at all. */
struct change {
	const struct tw_data_options *how;
	struct tw_rng rng;
	bool moves, shakes;
};

static void make(const struct tw_data *d, const struct change *c, const struct tw_sample *s,
		 uint64_t position, float *x)
{
	if (c->moves) {
		const struct motion m = draw_motion(c->how, &c->rng, position);

		move_image(d, s->value, &m, x);
	} else {
		copy(d, s->value, 0, 0, d->features, x);
	}
	if (c->shakes)
		add_noise(&c->rng, position, (float)c->how->noise, x, d->features);
}

enum tw_status tw_data_fill(const struct tw_data *d, const struct tw_batch *b,
			    const struct tw_data_options *augment, uint64_t seed, float *x,
			    uint32_t *label, float *target)
{
	struct change c = {
		.how = augment,
		.moves = augment && (augment->shift || augment->flip),
		.shakes = augment && augment->noise > 0,
	};
	struct tw_sample s[AT_ONCE];
	uint32_t n;

	if (c.moves || c.shakes)
		c.rng = tw_rng_make(seed, TW_RNG_AUGMENT);
	if (!b->packed)
		tw_samples_soon(b->set, b->index, b->count);
	for (uint32_t k = 0; k < b->count; k += n) {
		const enum tw_status st = ask(d, b, k, s, &n);

		if (st != TW_OK)
			return st;
		for (uint32_t i = 0; i < n; i++)
			make(d, &c, &s[i], b->position + k + i, x + (size_t)(k + i) * d->features);
		answer(d, s, n, d->targets ? NULL : label + k * tw_data_labels(d),
		       d->targets ? target + (size_t)k * d->targets : NULL);
	}
	return TW_OK;
}
