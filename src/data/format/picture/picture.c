/* SPDX-License-Identifier: Apache-2.0 */
/* picture.c - pictures of either format, and how they are cut to one size. */
#include "data/format/picture/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct tw_picture_format *const formats[] = { &tw_picture_png, &tw_picture_jpeg,
							   NULL };

static const struct tw_picture_format *format_of(const uint8_t *bytes, size_t n)
{
	const struct tw_picture_format *const *f = formats;

	while (*f && (n < (*f)->magic_bytes || memcmp(bytes, (*f)->magic, (*f)->magic_bytes) != 0))
		f++;
	return *f;
}

bool tw_picture_begins(const uint8_t *bytes, size_t n)
{
	return format_of(bytes, n) != NULL;
}

static uint64_t pixels(const struct tw_picture_look *l)
{
	return (uint64_t)l->width * l->height;
}

enum tw_picture_status tw_picture_look(const uint8_t *bytes, size_t n, struct tw_picture_look *out,
				       char said[TW_PICTURE_SAID])
{
	const struct tw_picture_format *f = format_of(bytes, n);
	enum tw_picture_status st;

	said[0] = 0;
	if (n == 0)
		return TW_PICTURE_EMPTY;
	if (!f)
		return TW_PICTURE_FOREIGN;
	st = f->look(bytes, n, out, said);
	if (st != TW_PICTURE_GOOD)
		return st;
	if (pixels(out) > TW_PICTURE_MOST)
		return TW_PICTURE_LARGE;
	if (pixels(out) == 0 || pixels(out) > TW_PICTURE_RATIO * n) {
		snprintf(said, TW_PICTURE_SAID, "%zu bytes for %ux%u pixels", n, out->width,
			 out->height);
		return TW_PICTURE_BROKEN;
	}
	return TW_PICTURE_GOOD;
}

enum tw_picture_status tw_picture_read(struct tw_heap *heap, const uint8_t *bytes, size_t n,
				       struct tw_picture *out, char said[TW_PICTURE_SAID])
{
	struct tw_picture_look l;
	enum tw_picture_status st = tw_picture_look(bytes, n, &l, said);
	struct tw_picture p;

	if (st != TW_PICTURE_GOOD)
		return st;
	p = (struct tw_picture){ .width = l.width,
				 .height = l.height,
				 .channels = l.colour ? 3 : 1 };
	p.pixel = heap->get(heap, pixels(&l) * p.channels);
	if (!p.pixel)
		return TW_PICTURE_NO_MEMORY;
	st = format_of(bytes, n)->decode(bytes, n, &p, said);
	if (st == TW_PICTURE_GOOD)
		*out = p;
	else
		heap->put(heap, p.pixel);
	return st;
}

/* --- to one size ------------------------------------------------------------------------------ */

/* Which pixels of a side a target pixel is made of, and how much of each. */
struct taps {
	uint32_t first, count;
	double *weight; /* they add up to 1 */
};

/* A side of the picture and of the target, whose pixel k is centred at start + (k + 0.5) * step. */
struct side {
	uint32_t from, to;
	double start, step, reach; /* reach: of the triangle to each side */
};

static struct side side_of(uint32_t from, uint32_t to, double step)
{
	return (struct side){ .from = from,
			      .to = to,
			      .start = (from - to * step) / 2,
			      .step = step,
			      .reach = step > 1 ? step : 1 };
}

static uint32_t most_taps(const struct side *s)
{
	return (uint32_t)(2 * s->reach) + 3;
}

static void weigh(const struct side *s, uint32_t k, struct taps *t)
{
	const double centre = s->start + (k + 0.5) * s->step;
	const double low = floor(centre - s->reach), high = ceil(centre + s->reach);
	const uint32_t first = low > 0 ? (uint32_t)low : 0;
	const uint32_t end = high < s->from ? (uint32_t)high : s->from;
	double sum = 0;

	t->first = first;
	t->count = 0;
	for (uint32_t i = first; i < end && t->count < most_taps(s); i++) {
		const double far = fabs(i + 0.5 - centre) / s->reach;

		t->weight[t->count] = far < 1 ? 1 - far : 0;
		sum += t->weight[t->count++];
	}
	for (uint32_t i = 0; i < t->count; i++)
		t->weight[i] /= sum;
}

/* A row of the target before it is as narrow: all columns, weighted sums of the rows. */
static void sum_rows(const struct tw_picture *p, const struct taps *t, double *row)
{
	const size_t stride = (size_t)p->width * p->channels;

	memset(row, 0, stride * sizeof *row);
	for (uint32_t i = 0; i < t->count; i++) {
		const uint8_t *from = p->pixel + (t->first + i) * stride;

		for (size_t x = 0; x < stride; x++)
			row[x] += t->weight[i] * from[x];
	}
}

static uint8_t sum_columns(const double *row, uint32_t channels, const struct taps *t)
{
	double sum = 0.5;

	for (uint32_t i = 0; i < t->count; i++)
		sum += t->weight[i] * row[(size_t)(t->first + i) * channels];
	return sum < 255 ? (uint8_t)sum : 255;
}

/* As many planes as the picture has. */
static void scale(const struct tw_picture *p, const struct side *h, const struct side *w,
		  struct taps *of_row, struct taps *of_column, double *row, uint8_t *out)
{
	const size_t plane = (size_t)h->to * w->to;

	for (uint32_t x = 0; x < w->to; x++)
		weigh(w, x, &of_column[x]);
	for (uint32_t y = 0; y < h->to; y++) {
		weigh(h, y, of_row);
		sum_rows(p, of_row, row);
		for (uint32_t c = 0; c < p->channels; c++)
			for (uint32_t x = 0; x < w->to; x++)
				out[c * plane + (size_t)y * w->to + x] =
					sum_columns(row + c, p->channels, &of_column[x]);
	}
}

static void to_planes(const struct tw_picture *p, uint8_t *out)
{
	const size_t plane = (size_t)p->width * p->height;

	for (size_t i = 0; i < plane; i++)
		for (uint32_t c = 0; c < p->channels; c++)
			out[c * plane + i] = p->pixel[i * p->channels + c];
}

/* One piece of memory for the row and all weights. */
static enum tw_picture_status scale_with_room(struct tw_heap *heap, const struct tw_picture *p,
					      uint32_t height, uint32_t width, uint8_t *out)
{
	const double tall = (double)p->height / height, wide = (double)p->width / width;
	const double step = tall < wide ? tall : wide;
	const struct side h = side_of(p->height, height, step);
	const struct side w = side_of(p->width, width, step);
	const size_t row = (size_t)p->width * p->channels;
	const size_t weights = most_taps(&h) + (size_t)width * most_taps(&w);
	double *room = heap->get(heap, (row + weights) * sizeof *room);
	struct taps *column = heap->get(heap, width * sizeof *column);
	struct taps one = { 0 };

	if (column && room) {
		one.weight = room + row;
		for (uint32_t x = 0; x < width; x++)
			column[x].weight = one.weight + most_taps(&h) + (size_t)x * most_taps(&w);
		scale(p, &h, &w, &one, column, room, out);
	}
	heap->put(heap, room);
	heap->put(heap, column);
	return column && room ? TW_PICTURE_GOOD : TW_PICTURE_NO_MEMORY;
}

/* In place: the shares of ITU-R 601, in 65536ths. */
static struct tw_picture to_grey(const struct tw_picture *p)
{
	struct tw_picture grey = *p;

	for (size_t i = 0; i < (size_t)p->width * p->height; i++) {
		const uint8_t *c = p->pixel + 3 * i;

		grey.pixel[i] =
			(uint8_t)((19595u * c[0] + 38470u * c[1] + 7471u * c[2] + 32768u) >> 16);
	}
	grey.channels = 1;
	return grey;
}

enum tw_picture_status tw_picture_fit(struct tw_heap *heap, const struct tw_picture *p,
				      uint32_t channels, uint32_t height, uint32_t width,
				      uint8_t *out)
{
	const struct tw_picture like = channels == 1 && p->channels == 3 ? to_grey(p) : *p;
	const size_t plane = (size_t)height * width;

	if (like.width == width && like.height == height)
		to_planes(&like, out);
	else if (scale_with_room(heap, &like, height, width, out) != TW_PICTURE_GOOD)
		return TW_PICTURE_NO_MEMORY;
	for (uint32_t c = like.channels; c < channels; c++)
		memcpy(out + c * plane, out, plane);
	return TW_PICTURE_GOOD;
}
