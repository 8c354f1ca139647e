/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - what maxpool and avgpool share: options, shapes, the slow truth, samples. */
#ifndef TW_GRAPH_OP_POOL_H
#define TW_GRAPH_OP_POOL_H

#include "graph/op.h"
#include "graph/op/window.h"

#include <math.h>

struct tw_pool_options {
	struct tw_extent size, stride, pad;
};

static const struct tw_option tw_pool_rows[] = {
	TW_OPTION(struct tw_pool_options, size, TW_EXTENT, NULL, "pixels", 1, 255,
		  "height and width of the window"),
	TW_OPTION(struct tw_pool_options, stride, TW_EXTENT, "0", "pixels", 0, 255,
		  "pixels from one window to the next; 0: the window's size"),
	TW_OPTION(
		struct tw_pool_options, pad, TW_EXTENT, "0", "pixels", 0, 127,
		"pixels added around each plane; a maximum ignores them, a mean counts them as 0"),
	TW_OPTION_END
};

static inline struct tw_window tw_pool_window(const struct tw_pool_options *o)
{
	struct tw_window w = { o->size, o->stride, o->pad };

	if (!w.stride.h)
		w.stride.h = w.size.h;
	if (!w.stride.w)
		w.stride.w = w.size.w;
	return w;
}

static inline enum tw_status tw_pool_form(const void *options, const struct tw_shape *in,
					  struct tw_op_form *f, struct tw_error *why)
{
	const struct tw_window w = tw_pool_window(options);
	const enum tw_status st = tw_window_slide(&w, in, in->d[0], &f->out, why);

	if (st != TW_OK)
		return st;
	if (2 * w.pad.h > w.size.h || 2 * w.pad.w > w.size.w)
		return tw_fail(why, TW_BAD_INPUT,
			       "pad %" PRIu32 "x%" PRIu32
			       " is more than half of the window of %" PRIu32 "x%" PRIu32,
			       w.pad.h, w.pad.w, w.size.h, w.size.w);
	f->flops = (double)tw_shape_size(&f->out) * w.size.h * w.size.w;
	return TW_OK;
}

/* What the loops need to know of a site. */
struct tw_pool_frame {
	struct tw_window w;
	struct tw_planes in, out;
};

static inline struct tw_pool_frame tw_pool_frame(const struct tw_op_site *site)
{
	return (struct tw_pool_frame){
		.w = tw_pool_window(site->options),
		.in = tw_planes_of(&site->in[0], site->batch, site->in_layout[0]),
		.out = tw_planes_of(&site->out, site->batch, site->out_layout),
	};
}

/* Where tap (r, q) of the first window in row y of plane `o` lies, or would lie. */
static inline ptrdiff_t tw_pool_at(const struct tw_pool_frame *f, size_t o, size_t y, size_t r,
				   size_t q)
{
	const ptrdiff_t row = (ptrdiff_t)(o * f->in.h + y * f->w.stride.h + r) - f->w.pad.h;

	return (row * (ptrdiff_t)f->in.w + (ptrdiff_t)q - f->w.pad.w) * (ptrdiff_t)f->in.inner;
}

/* A NaN is larger than everything. */
#define TW_POOL_LARGER(v, best) ((v) > (best) || (v) != (v))

/* The slow truth: the largest or the mean of one window of one plane. */
static inline double tw_pool_one(const struct tw_window *w, const double *x, size_t h, size_t wide,
				 size_t v, size_t u, bool largest)
{
	double best = largest ? -INFINITY : 0;
	size_t r0, r1, q0, q1;

	tw_window_taps(v, w->size.h, w->stride.h, w->pad.h, h, &r0, &r1);
	tw_window_taps(u, w->size.w, w->stride.w, w->pad.w, wide, &q0, &q1);
	for (size_t r = r0; r < r1; r++)
		for (size_t q = q0; q < q1; q++) {
			const double value = x[(v * w->stride.h + r - w->pad.h) * wide +
					       u * w->stride.w + q - w->pad.w];

			if (!largest)
				best += value / ((double)w->size.h * w->size.w);
			else if (TW_POOL_LARGER(value, best))
				best = value;
		}
	return best;
}

static inline void tw_pool_slow(const struct tw_op_site *site, const double *x, double *out,
				bool largest)
{
	const struct tw_window w = tw_pool_window(site->options);
	const size_t planes = (size_t)site->batch * site->out.d[0];

	for (size_t p = 0; p < planes; p++, x += (size_t)site->in[0].d[1] * site->in[0].d[2])
		for (size_t v = 0; v < site->out.d[1]; v++)
			for (size_t u = 0; u < site->out.d[2]; u++)
				*out++ = tw_pool_one(&w, x, site->in[0].d[1], site->in[0].d[2], v,
						     u, largest);
}

static const struct tw_op_sample tw_pool_samples[] = {
	{ "2", { 3, { 3, 4, 6 } } },
	{ "2x2", { 3, { 20, 5, 7 } } },
	{ "2", { 3, { 16, 4, 5 } } },
	{ "3 stride 2 pad 1", { 3, { 5, 7, 6 } } },
	{ "3x2 stride 1x3", { 3, { 32, 5, 8 } } },
	{ "2x3 stride 3 pad 1", { 3, { 1, 4, 5 } } },
	{ "3 stride 1 pad 1", { 3, { 2, 1, 2 } } },
	{ NULL },
};

/* PyTorch's module of that name. */
static inline void tw_pool_torch(const char *name, const void *options, char text[TW_TORCH_ROOM])
{
	const struct tw_window w = tw_pool_window(options);

	snprintf(text, TW_TORCH_ROOM, "nn.%s((%u, %u), stride=(%u, %u), padding=(%u, %u))", name,
		 w.size.h, w.size.w, w.stride.h, w.stride.w, w.pad.h, w.pad.w);
}

/* What the two say of themselves alike. */
#define TW_POOL_OP                                                                                 \
	.ins = 1, .options = tw_pool_rows, .positional = 1,                                        \
	.options_bytes = sizeof(struct tw_pool_options), .samples = tw_pool_samples,               \
	.form = tw_pool_form

#endif
