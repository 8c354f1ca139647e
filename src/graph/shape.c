/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - sizes and names of shapes, and the slow way from one layout to another. */
#include "graph/shape.h"

#include <stdio.h>

size_t tw_shape_size(const struct tw_shape *s)
{
	size_t n = 1;

	for (uint32_t k = 0; k < s->rank; k++)
		n *= s->d[k];
	return n;
}

bool tw_shape_same(const struct tw_shape *a, const struct tw_shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (uint32_t k = 0; k < a->rank; k++)
		if (a->d[k] != b->d[k])
			return false;
	return true;
}

const char *tw_shape_text(const struct tw_shape *s, char out[40])
{
	if (s->rank == 0)
		snprintf(out, 40, "nothing");
	else if (s->rank == 1)
		snprintf(out, 40, "%u", (unsigned)s->d[0]);
	else if (s->rank == 2)
		snprintf(out, 40, "%ux%u", (unsigned)s->d[0], (unsigned)s->d[1]);
	else
		snprintf(out, 40, "%ux%ux%u", (unsigned)s->d[0], (unsigned)s->d[1],
			 (unsigned)s->d[2]);
	return out;
}

const char *tw_layout_name(enum tw_layout layout)
{
	switch (layout) {
	case TW_LAYOUT_LAST:
		return "last";
	case TW_LAYOUT_BLOCK16:
		return "block16";
	default:
		return "plain";
	}
}

/* Where value (channel, pixel) of a sample lies. */
static size_t place(enum tw_layout layout, size_t channels, size_t pixels, size_t c, size_t p)
{
	switch (layout) {
	case TW_LAYOUT_LAST:
		return p * channels + c;
	case TW_LAYOUT_BLOCK16:
		return (c / 16 * pixels + p) * 16 + c % 16;
	default:
		return c * pixels + p;
	}
}

void tw_layout_move(const struct tw_shape *s, uint32_t batch, enum tw_layout from, const float *in,
		    enum tw_layout to, float *out)
{
	const size_t size = tw_shape_size(s);
	const size_t channels = s->d[0], pixels = size / channels;

	for (uint32_t b = 0; b < batch; b++, in += size, out += size)
		for (size_t c = 0; c < channels; c++)
			for (size_t p = 0; p < pixels; p++)
				out[place(to, channels, pixels, c, p)] =
					in[place(from, channels, pixels, c, p)];
}
