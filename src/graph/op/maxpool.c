/* SPDX-License-Identifier: Apache-2.0 */
/* maxpool.c - the largest value of each window of a plane, in every layout.
 *
 * Which tap of the window was the largest is remembered (saved: a number per output); the first one
 * wins, whatever the layout.  A NaN in a window comes out of it.
 *
 * A ReLU before it may as well come behind it, on a quarter of the values; where it makes 0 of the
 * largest value, no tap gets a gradient. */
#include "graph/op/pool.h"
#include "vec/clone.h"

#include <math.h>
#include <string.h>

#define NO_TAP UINT32_MAX

/* Windows of two by two that do not overlap and need no padding: nearly all there are. */
static bool two_by_two(const struct tw_window *w)
{
	return w->size.h == 2 && w->size.w == 2 && w->stride.h == 2 && w->stride.w == 2 &&
	       !w->pad.h && !w->pad.w;
}

/* The largest of four, and which it was. */
static inline __attribute__((always_inline)) void max_four(float a, float b, float c, float d,
							   bool relu, float *y, uint32_t *tap)
{
	float best = a;
	uint32_t at = 0;

	at = TW_POOL_LARGER(b, best) ? 1 : at;
	best = TW_POOL_LARGER(b, best) ? b : best;
	at = TW_POOL_LARGER(c, best) ? 2 : at;
	best = TW_POOL_LARGER(c, best) ? c : best;
	at = TW_POOL_LARGER(d, best) ? 3 : at;
	best = TW_POOL_LARGER(d, best) ? d : best;
	*y = relu && best < 0 ? 0 : best;
	*tap = relu && best <= 0 ? NO_TAP : at;
}

/* n windows of single values: two rows of 2 n each. */
static inline __attribute__((always_inline)) void max_singles(const float *restrict x0,
							      const float *restrict x1, size_t n,
							      bool relu, float *restrict y,
							      uint32_t *restrict tap)
{
	for (size_t p = 0; p < n; p++)
		max_four(x0[2 * p], x0[2 * p + 1], x1[2 * p], x1[2 * p + 1], relu, &y[p], &tap[p]);
}

/* `wide` values of one window, `inner` from pixel to pixel. */
static inline __attribute__((always_inline)) void max_some(const float *restrict x0,
							   const float *restrict x1, size_t inner,
							   size_t wide, bool relu,
							   float *restrict y,
							   uint32_t *restrict tap)
{
	for (size_t i = 0; i < wide; i++)
		max_four(x0[i], x0[inner + i], x1[i], x1[inner + i], relu, &y[i], &tap[i]);
}

/* Do `some(from, wide)` for all of `inner` values in pieces that the compiler knows the width of.
 * The last piece begins early enough to be whole; values done twice come out the same. */
#define PIECES(inner, some)                                                                        \
	do {                                                                                       \
		if ((inner) >= 16) {                                                               \
			for (size_t i_ = 0; i_ + 16 <= (inner); i_ += 16)                          \
				some(i_, 16);                                                      \
			if ((inner) % 16)                                                          \
				some((inner)-16, 16);                                              \
		} else if ((inner) >= 8) {                                                         \
			some(0, 8);                                                                \
			some((inner)-8, 8);                                                        \
		} else {                                                                           \
			some(0, inner);                                                            \
		}                                                                                  \
	} while (0)

static inline __attribute__((always_inline)) void max_rows(const struct tw_pool_frame *f,
							   const float *x, bool relu, float *y,
							   uint32_t *tap)
{
	const size_t inner = f->in.inner, wide = f->in.w * inner;

	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t r = 0; r < f->out.h; r++) {
			const float *x0 = x + (o * f->in.h + 2 * r) * wide, *x1 = x0 + wide;

			if (inner == 1) {
				max_singles(x0, x1, f->out.w, relu, y, tap);
				y += f->out.w, tap += f->out.w;
				continue;
			}
			for (size_t p = 0; p < f->out.w; p++) {
#define SOME(from, n) max_some(x0 + (from), x1 + (from), inner, n, relu, y + (from), tap + (from))
				PIECES(inner, SOME);
#undef SOME
				x0 += 2 * inner, x1 += 2 * inner;
				y += inner, tap += inner;
			}
		}
}

TW_CLONED_STATIC(void, max_two,
		 (const struct tw_pool_frame *f, const float *x, bool relu, float *y,
		  uint32_t *tap),
		 (f, x, relu, y, tap))
{
	if (relu)
		max_rows(f, x, true, y, tap);
	else
		max_rows(f, x, false, y, tap);
}

/* Tap number `at` against what its windows have so far; n windows, `step` values apart. */
static inline __attribute__((always_inline)) void max_tap(const float *restrict x, size_t n,
							  size_t step, size_t inner, uint32_t at,
							  float *restrict y, uint32_t *restrict tap)
{
	for (size_t p = 0; p < n; p++)
		for (size_t i = 0; i < inner; i++) {
			const float v = x[p * step + i], best = y[p * inner + i];

			tap[p * inner + i] = TW_POOL_LARGER(v, best) ? at : tap[p * inner + i];
			y[p * inner + i] = TW_POOL_LARGER(v, best) ? v : best;
		}
}

TW_CLONED_STATIC(void, max_any,
		 (const struct tw_pool_frame *f, const float *x, bool relu, float *y,
		  uint32_t *tap),
		 (f, x, relu, y, tap))
{
	const size_t inner = f->in.inner, wide = f->out.w * inner;
	const size_t step = f->w.stride.w * inner;
	size_t r0, r1, q0, q1;

	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t v = 0; v < f->out.h; v++, y += wide, tap += wide) {
			tw_window_taps(v, f->w.size.h, f->w.stride.h, f->w.pad.h, f->in.h, &r0,
				       &r1);
			for (size_t u = 0; u < f->out.w; u++) {
				tw_window_taps(u, f->w.size.w, f->w.stride.w, f->w.pad.w, f->in.w,
					       &q0, &q1);
				for (size_t i = 0; i < inner; i++) {
					y[u * inner + i] = -INFINITY;
					tap[u * inner + i] = (uint32_t)(r0 * f->w.size.w + q0);
				}
			}
			for (size_t r = r0; r < r1; r++)
				for (size_t q = 0; q < f->w.size.w; q++) {
					size_t u0, u1;

					tw_window_span(q, f->w.stride.w, f->w.pad.w, f->in.w,
						       f->out.w, &u0, &u1);
					max_tap(x + tw_pool_at(f, o, v, r, q) +
							(ptrdiff_t)(u0 * step),
						u1 - u0, step, inner,
						(uint32_t)(r * f->w.size.w + q), y + u0 * inner,
						tap + u0 * inner);
				}
			for (size_t i = 0; relu && i < wide; i++) {
				tap[i] = y[i] <= 0 ? NO_TAP : tap[i];
				y[i] = y[i] < 0 ? 0 : y[i];
			}
		}
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	const size_t taps = site->batch * tw_shape_size(&site->out) * sizeof(uint32_t);

	if (site->train)
		need->saved = taps;
	else
		need->forward = taps;
	return TW_OK;
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct tw_pool_frame f = tw_pool_frame(site);
	uint32_t *tap = site->train ? run->saved : run->scratch;

	(two_by_two(&f.w) ? max_two : max_any)(&f, run->in[0], site->relu_in, run->out, tap);
	return TW_OK;
}

/* Each of the four gets the gradient or 0. */
static inline __attribute__((always_inline)) void max_singles_back(const float *restrict dy,
								   const uint32_t *restrict tap,
								   size_t n, float *restrict dx0,
								   float *restrict dx1)
{
	for (size_t p = 0; p < n; p++) {
		dx0[2 * p] = tap[p] == 0 ? dy[p] : 0;
		dx0[2 * p + 1] = tap[p] == 1 ? dy[p] : 0;
		dx1[2 * p] = tap[p] == 2 ? dy[p] : 0;
		dx1[2 * p + 1] = tap[p] == 3 ? dy[p] : 0;
	}
}

static inline __attribute__((always_inline)) void max_some_back(
	const float *restrict dy, const uint32_t *restrict tap, size_t wide, float *restrict a,
	float *restrict b, float *restrict c, float *restrict d)
{
	for (size_t i = 0; i < wide; i++) {
		a[i] = tap[i] == 0 ? dy[i] : 0;
		b[i] = tap[i] == 1 ? dy[i] : 0;
		c[i] = tap[i] == 2 ? dy[i] : 0;
		d[i] = tap[i] == 3 ? dy[i] : 0;
	}
}

/* One row of windows; the pixel beyond the last window, if there is one, gets 0. */
static inline __attribute__((always_inline)) void max_row_back(const struct tw_pool_frame *f,
							       const float *dy, const uint32_t *tap,
							       float *dx0, float *dx1)
{
	const size_t inner = f->in.inner;

	if (inner == 1)
		max_singles_back(dy, tap, f->out.w, dx0, dx1);
	else
		for (size_t p = 0; p < f->out.w; p++) {
			const size_t at = p * inner;
			float *a = dx0 + 2 * at, *c = dx1 + 2 * at;

#define SOME(from, n)                                                                              \
	max_some_back(dy + at + (from), tap + at + (from), n, a + (from), a + inner + (from),      \
		      c + (from), c + inner + (from))
			PIECES(inner, SOME);
#undef SOME
		}
	if (f->in.w % 2) {
		memset(dx0 + (f->in.w - 1) * inner, 0, inner * sizeof *dx0);
		memset(dx1 + (f->in.w - 1) * inner, 0, inner * sizeof *dx1);
	}
}

TW_CLONED_STATIC(void, max_two_back,
		 (const struct tw_pool_frame *f, const float *dy, const uint32_t *tap, float *dx),
		 (f, dy, tap, dx))
{
	const size_t wide = f->in.w * f->in.inner, out_wide = f->out.w * f->in.inner;

	for (size_t o = 0; o < f->out.outer; o++) {
		for (size_t r = 0; r < f->out.h; r++) {
			max_row_back(f, dy, tap, dx, dx + wide);
			dy += out_wide, tap += out_wide;
			dx += 2 * wide;
		}
		if (f->in.h % 2) {
			memset(dx, 0, wide * sizeof *dx);
			dx += wide;
		}
	}
}

static void max_any_back(const struct tw_pool_frame *f, const float *dy, const uint32_t *tap,
			 float *dx)
{
	const size_t inner = f->in.inner;

	memset(dx, 0, tw_planes_size(&f->in) * sizeof *dx);
	for (size_t o = 0; o < f->out.outer; o++)
		for (size_t v = 0; v < f->out.h; v++)
			for (size_t u = 0; u < f->out.w; u++)
				for (size_t i = 0; i < inner; i++, dy++, tap++) {
					ptrdiff_t at;

					if (*tap == NO_TAP)
						continue;
					at = tw_pool_at(f, o, v, *tap / f->w.size.w,
							*tap % f->w.size.w);
					dx[at + (ptrdiff_t)(u * f->w.stride.w * inner + i)] += *dy;
				}
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct tw_pool_frame f = tw_pool_frame(site);

	if (!site->wants[0])
		return TW_OK;
	(two_by_two(&f.w) ? max_two_back : max_any_back)(&f, run->out_gradient, run->saved,
							 run->in_gradient[0]);
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	tw_pool_slow(site, in[0], out, true);
	for (size_t i = 0; site->relu_in && i < site->batch * tw_shape_size(&site->out); i++)
		out[i] = out[i] < 0 ? 0 : out[i];
}

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct tw_window w = tw_pool_window(site->options);

	tw_window_c(&w, out);
	tw_window_c_loops("f", "f + 1", "-INFINITY",
			  "sum = x[(c * H + h) * W + w] > sum ? x[(c * H + h) * W + w] : sum",
			  "sum", out);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	tw_pool_torch("MaxPool2d", options, text);
}

static const struct tw_op maxpool = {
	.name = "maxpool",
	.elsewhere = (const char *const[]){ "pool", NULL },
	.help = "the largest value of each window: maxpool 2, maxpool 3x3 stride 2 pad 1",
	.traits = TW_OP_FOLLOWS_LAYOUT | TW_OP_TAKES_RELU_IN,
	TW_POOL_OP,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_maxpool = { (const struct tw_op *const[]){ &maxpool,
										  NULL } };
