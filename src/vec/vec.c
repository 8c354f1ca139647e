/* SPDX-License-Identifier: Apache-2.0 */
/* vec.c - the kernels, each its plain loop.
 *
 * `ivdep` tells the compiler what the header promises: arrays are the same or apart, so no
 * element is read after another one was written, and no check for overlap is needed. */
#include "vec/vec.h"
#include "vec/clone.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define APART _Pragma("GCC ivdep")

/* 1 for an infinity or a NaN, else 0. */
static inline __attribute__((always_inline)) int32_t strange(float x)
{
	int32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return (bits & 0x7fffffff) > 0x7f7fffff;
}

void tw_vec_copy(float *out, const float *x, size_t n)
{
	if (n)
		memcpy(out, x, n * sizeof *out);
}

TW_CLONED(void, tw_vec_fill, (float *out, float value, size_t n), (out, value, n))
{
	for (size_t i = 0; i < n; i++)
		out[i] = value;
}

TW_CLONED(void, tw_vec_relu, (float *y, size_t n), (y, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = y[i] < 0 ? 0 : y[i];
}

TW_CLONED(void, tw_vec_add, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] += x[i];
}

TW_CLONED(unsigned, tw_vec_add_to, (float *out, const float *x, const float *y, size_t n),
	  (out, x, y, n))
{
	int32_t first = 0, second = 0;

	APART
	for (size_t i = 0; i < n; i++) {
		first |= strange(x[i]);
		second |= strange(y[i]);
		out[i] = x[i] + y[i];
	}
	return (first ? TW_VEC_FIRST : 0) | (second ? TW_VEC_SECOND : 0);
}

TW_CLONED(void, tw_vec_sum_rows, (float *out, const float *x, size_t rows, size_t n),
	  (out, x, rows, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		out[i] = x[i];
	while (--rows) {
		x += n;
		APART
		for (size_t i = 0; i < n; i++)
			out[i] += x[i];
	}
}

TW_CLONED(void, tw_vec_axpy, (float *y, float a, const float *x, size_t n), (y, a, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
}

TW_CLONED(unsigned, tw_vec_axpby_to,
	  (float *out, float a, const float *x, float b, const float *y, size_t n),
	  (out, a, x, b, y, n))
{
	int32_t first = 0, second = 0;

	APART
	for (size_t i = 0; i < n; i++) {
		first |= strange(x[i]);
		second |= strange(y[i]);
		out[i] = fmaf(b, y[i], a * x[i]);
	}
	return (first ? TW_VEC_FIRST : 0) | (second ? TW_VEC_SECOND : 0);
}

TW_CLONED(void, tw_vec_approach,
	  (float *out, const float *w, const float *here, const float *there, size_t n),
	  (out, w, here, there, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		out[i] = fmaf(0.5f, there[i] - here[i], w[i]);
}

TW_CLONED(void, tw_vec_scale, (float *y, float a, size_t n), (y, a, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = a * y[i];
}

TW_CLONED(void, tw_vec_scale_to, (float *out, float a, const float *x, size_t n), (out, a, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		out[i] = a * x[i];
}

TW_CLONED(void, tw_vec_sub, (float *out, const float *x, const float *y, size_t n), (out, x, y, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		out[i] = x[i] - y[i];
}

/* Long enough for a full speed loop, short enough to leave early. */
#define FINITE_TILE 4096

/* Four stretches are read side by side: a core gets twice as much out of memory as from one. */
TW_CLONED(bool, tw_vec_finite, (const float *x, size_t n), (x, n))
{
	const size_t each = n / 4;
	const float *x1 = x + each, *x2 = x1 + each, *x3 = x2 + each;
	int32_t bad = 0;

	for (size_t from = 0; from < each; from += FINITE_TILE) {
		const size_t to = each - from < FINITE_TILE ? each : from + FINITE_TILE;

		for (size_t i = from; i < to; i++)
			bad |= strange(x[i]) | strange(x1[i]) | strange(x2[i]) | strange(x3[i]);
		if (bad)
			return false;
	}
	for (size_t i = 4 * each; i < n; i++)
		bad |= strange(x[i]);
	return !bad;
}

/* One step; the count of strange gradients is free where it is not asked for. */
static inline __attribute__((always_inline)) int32_t step(float *out, const float *w,
							  const float *g, float share, float rate,
							  size_t n)
{
	int32_t bad = 0;

	APART
	for (size_t i = 0; i < n; i++) {
		bad |= strange(g[i]);
		out[i] = fmaf(-rate, share * g[i], w[i]);
	}
	return bad;
}

/* Store past the caches: a tile is computed in the first-level cache and leaves from there in
 * 16-byte stores, which the processor joins to whole lines.  `out` is aligned to 64.  While the
 * stores drain, the reads of the tile after the next few are begun: together as fast as reading
 * alone, for which larger tiles were 20 % too slow. */
#define STREAM_TILE  256
#define STREAM_AHEAD 1024

static inline __attribute__((always_inline)) void leave(float *out, const float *tile, size_t n)
{
#if defined(__x86_64__)
	for (size_t i = 0; i < n; i += 4)
		_mm_stream_ps(out + i, _mm_load_ps(tile + i));
#else
	memcpy(out, tile, n * sizeof *out);
#endif
}

static inline __attribute__((always_inline)) int32_t step_stream(float *out, const float *w,
								 const float *g, float share,
								 float rate, size_t n)
{
	_Alignas(64) float tile[STREAM_TILE];
	const size_t off = (uintptr_t)out / sizeof *out % 16;
	const size_t head = off ? 16 - off : 0;
	size_t i = head < n ? head : n;
	int32_t bad = step(out, w, g, share, rate, i);

	for (; n - i >= STREAM_TILE; i += STREAM_TILE) {
		if (n - i >= STREAM_AHEAD + STREAM_TILE)
			for (size_t k = STREAM_AHEAD; k < STREAM_AHEAD + STREAM_TILE; k += 16) {
				__builtin_prefetch(w + i + k);
				__builtin_prefetch(g + i + k);
			}
		bad |= step(tile, w + i, g + i, share, rate, STREAM_TILE);
		leave(out + i, tile, STREAM_TILE);
	}
#if defined(__x86_64__)
	_mm_sfence(); /* whoever is told of the vector next must see it */
#endif
	return bad | step(out + i, w + i, g + i, share, rate, n - i);
}

TW_CLONED_STATIC(int32_t, sgd,
		 (float *out, const float *w, const float *g, float share, float rate, size_t n),
		 (out, w, g, share, rate, n))
{
	return step(out, w, g, share, rate, n);
}

TW_CLONED_STATIC(int32_t, sgd_stream,
		 (float *out, const float *w, const float *g, float share, float rate, size_t n),
		 (out, w, g, share, rate, n))
{
	return step_stream(out, w, g, share, rate, n);
}

/* Stretches are taken from the last to the first.  Backward made the first layer's gradient last,
 * so it is met while it is in the cache; and the forward pass to come finds the first layer there.
 * Each value is what it was: 4 % of a step of 784-512-512-10. */
#define STRETCH 32768

/* What is to be streamed must be worth the fence. */
#define STREAM_LEAST (8 * STREAM_TILE)

static bool sgd_any(float *out, const float *w, const float *g, float share, float rate, size_t n,
		    bool stream)
{
	const bool aligned = (uintptr_t)out % sizeof *out == 0;
	int32_t bad = 0;

	if (stream && aligned && n >= STREAM_LEAST)
		return sgd_stream(out, w, g, share, rate, n) == 0;
	for (size_t end = n, from; end; end = from) {
		from = end > STRETCH ? (end - STRETCH) / 16 * 16 : 0;
		bad |= sgd(out + from, w + from, g + from, share, rate, end - from);
	}
	return bad == 0;
}

bool tw_vec_sgd_finite(float *out, const float *w, const float *g, float rate, size_t n,
		       bool stream)
{
	return sgd_any(out, w, g, 1.0f, rate, n, stream);
}

void tw_vec_sgd_share(float *out, const float *w, const float *g, float share, float rate, size_t n,
		      bool stream)
{
	sgd_any(out, w, g, share, rate, n, stream);
}

void tw_vec_sgd(float *out, const float *w, const float *g, float rate, size_t n, bool stream)
{
	sgd_any(out, w, g, 1.0f, rate, n, stream);
}

#define LANES 16

/* sum over i of term(i), in lanes. */
#define REDUCE(n, term)                                                                            \
	double lane[LANES] = { 0 }, sum = 0;                                                       \
	size_t at = 0;                                                                             \
                                                                                                   \
	for (; n - at >= LANES; at += LANES)                                                       \
		for (size_t k = 0; k < LANES; k++)                                                 \
			lane[k] += term(at + k);                                                   \
	for (size_t k = 0; at + k < n; k++)                                                        \
		lane[k] += term(at + k);                                                           \
	for (size_t k = 0; k < LANES; k++)                                                         \
		sum += lane[k];                                                                    \
	return sum

#define PRODUCT(i)  ((double)x[i] * (double)y[i])
#define ITSELF(i)   ((double)x[i])
#define SQUARE(i)   ((double)x[i] * (double)x[i])
#define DISTANCE(i) (((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]))

TW_CLONED(double, tw_vec_dot, (const float *x, const float *y, size_t n), (x, y, n))
{
	REDUCE(n, PRODUCT);
}

TW_CLONED(double, tw_vec_sum, (const float *x, size_t n), (x, n))
{
	REDUCE(n, ITSELF);
}

TW_CLONED(double, tw_vec_square, (const float *x, size_t n), (x, n))
{
	REDUCE(n, SQUARE);
}

TW_CLONED(double, tw_vec_distance, (const float *x, const float *y, size_t n), (x, y, n))
{
	REDUCE(n, DISTANCE);
}
