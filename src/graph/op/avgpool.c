/* SPDX-License-Identifier: Apache-2.0 */
/* avgpool.c - the mean of each window of a plane, in every layout.
 *
 * It divides by the whole window, zeros of the padding included, as PyTorch does by default. */
#include "graph/op/pool.h"
#include "vec/clone.h"

#include <string.h>

/* y[p] += x[p * step], or the other way round: n pixels of `inner` values. */
static inline __attribute__((always_inline)) void gather(float *restrict y, const float *restrict x,
							 size_t n, size_t step, size_t inner)
{
	for (size_t p = 0; p < n; p++)
		for (size_t i = 0; i < inner; i++)
			y[p * inner + i] += x[p * step + i];
}

static inline __attribute__((always_inline)) void spread(float *restrict dx,
							 const float *restrict dy, float share,
							 size_t n, size_t step, size_t inner)
{
	for (size_t p = 0; p < n; p++)
		for (size_t i = 0; i < inner; i++)
			dx[p * step + i] += share * dy[p * inner + i];
}

TW_CLONED_STATIC(void, mean_any, (const struct tw_pool_frame *f, const float *x, float *y),
		 (f, x, y))
{
	const size_t inner = f->in.inner, wide = f->out.w * inner;
	const size_t step = f->w.stride.w * inner;
	const float share = 1.0f / (float)(f->w.size.h * f->w.size.w);
	size_t r0, r1, u0, u1;

	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t v = 0; v < f->out.h; v++, y += wide) {
			memset(y, 0, wide * sizeof *y);
			tw_window_taps(v, f->w.size.h, f->w.stride.h, f->w.pad.h, f->in.h, &r0,
				       &r1);
			for (size_t r = r0; r < r1; r++)
				for (size_t q = 0; q < f->w.size.w; q++) {
					tw_window_span(q, f->w.stride.w, f->w.pad.w, f->in.w,
						       f->out.w, &u0, &u1);
					gather(y + u0 * inner,
					       x + tw_pool_at(f, o, v, r, q) +
						       (ptrdiff_t)(u0 * step),
					       u1 - u0, step, inner);
				}
			for (size_t i = 0; i < wide; i++)
				y[i] *= share;
		}
}

TW_CLONED_STATIC(void, mean_back, (const struct tw_pool_frame *f, const float *dy, float *dx),
		 (f, dy, dx))
{
	const size_t inner = f->in.inner, wide = f->out.w * inner;
	const size_t step = f->w.stride.w * inner;
	const float share = 1.0f / (float)(f->w.size.h * f->w.size.w);
	size_t r0, r1, u0, u1;

	memset(dx, 0, tw_planes_size(&f->in) * sizeof *dx);
	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t v = 0; v < f->out.h; v++, dy += wide) {
			tw_window_taps(v, f->w.size.h, f->w.stride.h, f->w.pad.h, f->in.h, &r0,
				       &r1);
			for (size_t r = r0; r < r1; r++)
				for (size_t q = 0; q < f->w.size.w; q++) {
					tw_window_span(q, f->w.stride.w, f->w.pad.w, f->in.w,
						       f->out.w, &u0, &u1);
					spread(dx + tw_pool_at(f, o, v, r, q) +
						       (ptrdiff_t)(u0 * step),
					       dy + u0 * inner, share, u1 - u0, step, inner);
				}
		}
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

static const struct tw_op avgpool = {
	.name = "avgpool",
	.help = "the mean of each window: avgpool 2, avgpool 3x3 stride 2 pad 1",
	.traits = TW_OP_FOLLOWS_LAYOUT,
	.ins = 1,
	.options = tw_pool_rows,
	.positional = 1,
	.options_bytes = sizeof(struct tw_pool_options),
	.samples = tw_pool_samples,
	.form = tw_pool_form,
	.forward = forward,
	.backward = backward,
	.reference = reference,
};

const struct tw_op_family tw_op_family_avgpool = { (const struct tw_op *const[]){ &avgpool,
										  NULL } };
