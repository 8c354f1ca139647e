/* SPDX-License-Identifier: Apache-2.0 */
/* layout_move.c - batches from one layout to another by plain loops, to compare oneDNN with. */
#include "graph/layout_move.h"

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

void layout_move(const struct tw_shape *s, uint32_t batch, enum tw_layout from, const float *in,
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
