/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - windows that slide over a plane, for convolutions and pools. */
#ifndef TW_GRAPH_OP_WINDOW_H
#define TW_GRAPH_OP_WINDOW_H

#include "graph/op.h"

#include <inttypes.h>

struct tw_window {
	struct tw_extent size, stride, pad;
};

/* A batch as `outer` planes of h * w pixels, each of `inner` values that lie together. */
struct tw_planes {
	size_t outer, h, w, inner;
};

static inline struct tw_planes tw_planes_of(const struct tw_shape *s, uint32_t batch,
					    enum tw_layout layout)
{
	struct tw_planes p = { .outer = batch, .h = s->d[1], .w = s->d[2], .inner = 1 };

	if (layout == TW_LAYOUT_LAST)
		p.inner = s->d[0];
	else if (layout == TW_LAYOUT_BLOCK16)
		p.inner = 16;
	p.outer *= s->d[0] / p.inner;
	return p;
}

static inline size_t tw_planes_size(const struct tw_planes *p)
{
	return p->outer * p->h * p->w * p->inner;
}

/* Out positions o of a line of `outs` for which tap k of the window lies inside the line of `ins`:
 * o in [*from, *to). */
static inline void tw_window_span(size_t k, size_t stride, size_t pad, size_t ins, size_t outs,
				  size_t *from, size_t *to)
{
	*from = k < pad ? (pad - k + stride - 1) / stride : 0;
	*to = ins + pad > k ? (ins + pad - k + stride - 1) / stride : 0;
	if (*to > outs)
		*to = outs;
	if (*from > *to)
		*from = *to;
}

/* Taps [*from, *to) of the window at out position o that lie inside the line. */
static inline void tw_window_taps(size_t o, size_t size, size_t stride, size_t pad, size_t ins,
				  size_t *from, size_t *to)
{
	const size_t start = o * stride; /* in the padded line */

	*from = start < pad ? pad - start : 0;
	*to = ins + pad > start ? ins + pad - start : 0;
	if (*to > size)
		*to = size;
	if (*from > *to)
		*from = *to;
}

/* The window in the C source of a layer: names for its numbers. */
static inline void tw_window_c(const struct tw_window *w, FILE *out)
{
	fprintf(out, "\tenum { KH = %u, KW = %u, SH = %u, SW = %u, PH = %u, PW = %u };\n\n",
		w->size.h, w->size.w, w->stride.h, w->stride.w, w->pad.h, w->pad.w);
}

/* There: for each place (f, r, q) of the output `sum` begins with `start`, `body` is done for each
 * channel c in [from, to) and each tap (a, b) that lies inside, at (h, w), and the place gets
 * `last`. */
static inline void tw_window_c_loops(const char *from, const char *to, const char *start,
				     const char *body, const char *last, FILE *out)
{
	fprintf(out,
		"\tfor (int f = 0; f < MC; f++)\n"
		"\tfor (int r = 0; r < MH; r++)\n"
		"\tfor (int q = 0; q < MW; q++) {\n"
		"\t\tdouble sum = %s;\n\n"
		"\t\tfor (int c = %s; c < %s; c++)\n"
		"\t\tfor (int a = 0; a < KH; a++)\n"
		"\t\tfor (int b = 0; b < KW; b++) {\n"
		"\t\t\tconst int h = r * SH + a - PH, w = q * SW + b - PW;\n\n"
		"\t\t\tif (h >= 0 && h < H && w >= 0 && w < W)\n"
		"\t\t\t\t%s;\n"
		"\t\t}\n"
		"\t\ty[(f * MH + r) * MW + q] = (float)%s;\n"
		"\t}\n",
		start, from, to, body, last);
}

/* The shape behind windows over `in`, `channels` deep; refuses what does not fit. */
static inline enum tw_status tw_window_slide(const struct tw_window *w, const struct tw_shape *in,
					     uint32_t channels, struct tw_shape *out,
					     struct tw_error *why)
{
	char text[40];
	uint64_t room[2];

	if (in->rank != 3)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs channels x height x width, not %s values in a row",
			       tw_shape_text(in, text));
	if (!w->size.h || !w->size.w || !w->stride.h || !w->stride.w)
		return tw_fail(why, TW_BAD_INPUT, "size and stride must be at least 1x1");
	if (w->pad.h >= w->size.h || w->pad.w >= w->size.w)
		return tw_fail(why, TW_BAD_INPUT,
			       "pad %" PRIu32 "x%" PRIu32
			       " must be smaller than the window of %" PRIu32 "x%" PRIu32,
			       w->pad.h, w->pad.w, w->size.h, w->size.w);
	room[0] = (uint64_t)in->d[1] + 2 * (uint64_t)w->pad.h;
	room[1] = (uint64_t)in->d[2] + 2 * (uint64_t)w->pad.w;
	if (w->size.h > room[0] || w->size.w > room[1])
		return tw_fail(why, TW_BAD_INPUT,
			       "a window of %" PRIu32 "x%" PRIu32
			       " does not fit into %s with pad %" PRIu32 "x%" PRIu32,
			       w->size.h, w->size.w, tw_shape_text(in, text), w->pad.h, w->pad.w);
	*out = (struct tw_shape){ 3,
				  { channels, (uint32_t)((room[0] - w->size.h) / w->stride.h + 1),
				    (uint32_t)((room[1] - w->size.w) / w->stride.w + 1) } };
	return TW_OK;
}

#endif
