/* SPDX-License-Identifier: Apache-2.0 */
/* avgpool.c - the mean of each window of a plane, in every layout.
 *
 * It divides by the whole window, zeros of the padding included, as PyTorch does by default. */
#include "graph/op/pool.h"
#include "vec/clone.h"

#include <string.h>

struct pixels {
	size_t n, inner; /* pixels, and values of each */
};

/* to[p * to_step] += share * from[p * from_step] for n pixels of `inner` values. */
static inline __attribute__((always_inline)) void add(float *restrict to, size_t to_step,
						      const float *restrict from, size_t from_step,
						      struct pixels some, float share)
{
	if (some.inner == 1) { /* no loop within the loop */
		for (size_t p = 0; p < some.n; p++)
			to[p * to_step] += share * from[p * from_step];
		return;
	}
	for (size_t p = 0; p < some.n; p++)
		for (size_t i = 0; i < some.inner; i++)
			to[p * to_step + i] += share * from[p * from_step + i];
}

/* Row v of the windows of plane o: to it from the taps' pixels or, going `back`, from it to them
 * their share. */
static inline __attribute__((always_inline)) void add_row(const struct tw_pool_frame *f, size_t o,
							  size_t v, float *to, const float *from,
							  bool back, float share)
{
	const size_t inner = f->in.inner, step = f->w.stride.w * inner;
	size_t r0, r1, u0, u1;

	tw_window_taps(v, f->w.size.h, f->w.stride.h, f->w.pad.h, f->in.h, &r0, &r1);
	for (size_t r = r0; r < r1; r++)
		for (size_t q = 0; q < f->w.size.w; q++) {
			ptrdiff_t at;

			tw_window_span(q, f->w.stride.w, f->w.pad.w, f->in.w, f->out.w, &u0, &u1);
			at = tw_pool_at(f, o, v, r, q) + (ptrdiff_t)(u0 * step);
			if (back)
				add(to + at, step, from + u0 * inner, inner,
				    (struct pixels){ u1 - u0, inner }, share);
			else
				add(to + u0 * inner, inner, from + at, step,
				    (struct pixels){ u1 - u0, inner }, share);
		}
}

static inline float share_of(const struct tw_pool_frame *f)
{
	return 1.0f / (float)(f->w.size.h * f->w.size.w);
}

TW_CLONED_STATIC(void, mean_any, (const struct tw_pool_frame *f, const float *x, float *y),
		 (f, x, y))
{
	const size_t wide = f->out.w * f->in.inner;
	const float share = share_of(f);

	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t v = 0; v < f->out.h; v++, y += wide) {
			memset(y, 0, wide * sizeof *y);
			add_row(f, o, v, y, x, false, 1);
			for (size_t i = 0; i < wide; i++)
				y[i] *= share;
		}
}

TW_CLONED_STATIC(void, mean_back, (const struct tw_pool_frame *f, const float *dy, float *dx),
		 (f, dy, dx))
{
	const size_t wide = f->out.w * f->in.inner;
	const float share = share_of(f);

	memset(dx, 0, tw_planes_size(&f->in) * sizeof *dx);
	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t v = 0; v < f->out.h; v++, dy += wide)
			add_row(f, o, v, dx, dy, true, share);
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct tw_pool_frame f = tw_pool_frame(site);

	mean_any(&f, run->in[0], run->out);
	return TW_OK;
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct tw_pool_frame f = tw_pool_frame(site);

	if (site->wants[0])
		mean_back(&f, run->out_gradient, run->in_gradient[0]);
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	tw_pool_slow(site, in[0], out, false);
}

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct tw_window w = tw_pool_window(site->options);

	tw_window_c(&w, out);
	tw_window_c_loops("f", "f + 1", "0", "sum += x[(c * H + h) * W + w]", "(sum / (KH * KW))",
			  out);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	tw_pool_torch("AvgPool2d", options, text);
}

static const struct tw_op avgpool = {
	.name = "avgpool",
	.help = "the mean of each window: avgpool 2, avgpool 3x3 stride 2 pad 1",
	.traits = TW_OP_FOLLOWS_LAYOUT,
	TW_POOL_OP,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_avgpool = { (const struct tw_op *const[]){ &avgpool,
										  NULL } };
