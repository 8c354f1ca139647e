/* SPDX-License-Identifier: Apache-2.0 */
/* slice_steps.c - commands over vectors as steps over memory; the rules are in slice_steps.h. */
#include "node/slice_steps.h"
#include "vec/clone.h"

#include <math.h>
#include <string.h>

/* In floats.  A core follows only a few streams of memory at full speed, and vectors that begin on
 * huge pages all want the same places of a cache: read together, two dozen vectors came at a third
 * of the speed of two.  So steps that bring at most STREAMS vectors from memory run tile by tile
 * over a chunk; what the next ones share with them is still in the second cache. */
#define CHUNK   32768
#define TILE    256
#define STREAMS 4

_Static_assert(CHUNK % TW_STEP_PART == 0 && TW_STEP_PART % TILE == 0 && TILE % TW_STEP_LANES == 0,
	       "lanes go on");

#define INLINE static inline __attribute__((always_inline))
#define APART  _Pragma("GCC ivdep")

INLINE void fill(float *to, float x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = x;
}

INLINE void scale(float *to, float x, const float *b, size_t n)
{
	APART
	for (size_t i = 0; i < n; i++)
		to[i] = x * b[i];
}

INLINE void axpy(float *to, float x, const float *a, const float *b, size_t n)
{
	APART
	for (size_t i = 0; i < n; i++)
		to[i] = fmaf(x, a[i], b[i]);
}

INLINE void multiply(float *to, const float *a, const float *b, size_t n)
{
	APART
	for (size_t i = 0; i < n; i++)
		to[i] = a[i] * b[i];
}

INLINE void gather(float *to, const double *sum, double share, size_t n)
{
	APART
	for (size_t i = 0; i < n; i++)
		to[i] = (float)(sum[i] * share);
}

/* Four values at a time: compilers make of longer ones what a machine without them needs. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef double wide __attribute__((vector_size(32), aligned(8), may_alias));

#define WIDEN(x) __builtin_convertvector(*(const four *)(x), wide)

/* One product; two with the same first vector share the work of widening it. */
INLINE void dot(double *lanes, const float *a, const float *b, size_t n)
{
	wide *to = (wide *)lanes;
	wide l0 = to[0], l1 = to[1], l2 = to[2], l3 = to[3];
	size_t i = 0;

	for (; n - i >= TW_STEP_LANES; i += TW_STEP_LANES) {
		l0 += WIDEN(a + i) * WIDEN(b + i);
		l1 += WIDEN(a + i + 4) * WIDEN(b + i + 4);
		l2 += WIDEN(a + i + 8) * WIDEN(b + i + 8);
		l3 += WIDEN(a + i + 12) * WIDEN(b + i + 12);
	}
	to[0] = l0, to[1] = l1, to[2] = l2, to[3] = l3;
	for (size_t k = 0; i + k < n; k++)
		lanes[k] += (double)a[i + k] * (double)b[i + k];
}

INLINE void dot_two(double *lanes, double *other, const float *a, const float *b, const float *c,
		    size_t n)
{
	wide *to = (wide *)lanes, *too = (wide *)other;
	wide l0 = to[0], l1 = to[1], l2 = to[2], l3 = to[3];
	wide m0 = too[0], m1 = too[1], m2 = too[2], m3 = too[3];
	size_t i = 0;

	for (; n - i >= TW_STEP_LANES; i += TW_STEP_LANES) {
		wide x = WIDEN(a + i);

		l0 += x * WIDEN(b + i);
		m0 += x * WIDEN(c + i);
		x = WIDEN(a + i + 4);
		l1 += x * WIDEN(b + i + 4);
		m1 += x * WIDEN(c + i + 4);
		x = WIDEN(a + i + 8);
		l2 += x * WIDEN(b + i + 8);
		m2 += x * WIDEN(c + i + 8);
		x = WIDEN(a + i + 12);
		l3 += x * WIDEN(b + i + 12);
		m3 += x * WIDEN(c + i + 12);
	}
	to[0] = l0, to[1] = l1, to[2] = l2, to[3] = l3;
	too[0] = m0, too[1] = m1, too[2] = m2, too[3] = m3;
	for (size_t k = 0; i + k < n; k++) {
		lanes[k] += (double)a[i + k] * (double)b[i + k];
		other[k] += (double)a[i + k] * (double)c[i + k];
	}
}

INLINE void carry_out(const struct slice_steps *s, const struct slice_step *p, size_t from,
		      size_t n, double (*lanes)[TW_STEP_LANES])
{
	const float x = (float)p->x;

	switch (p->kind) {
	case TW_COMMAND_FILL:
		fill(p->to + from, x, n);
		break;
	case TW_COMMAND_SCALE:
		scale(p->to + from, x, p->b + from, n);
		break;
	case TW_COMMAND_AXPY:
		axpy(p->to + from, x, p->a + from, p->b + from, n);
		break;
	case TW_COMMAND_MULTIPLY:
		multiply(p->to + from, p->a + from, p->b + from, n);
		break;
	case TW_COMMAND_GATHER:
		gather(p->to + from, s->sum + from, s->share, n);
		break;
	default:
		dot(lanes[p->result], p->a + from, p->b + from, n);
	}
}

INLINE bool are_two(const struct slice_step *p, const struct slice_step *q)
{
	return p->kind == TW_COMMAND_DOT && q->kind == TW_COMMAND_DOT && p->a == q->a;
}

/* Steps [first, last) on one tile. */
TW_CLONED_STATIC(void, tile,
		 (const struct slice_steps *s, uint32_t first, uint32_t last, size_t from, size_t n,
		  double (*lanes)[TW_STEP_LANES]),
		 (s, first, last, from, n, lanes))
{
	for (uint32_t k = first; k < last; k++) {
		const struct slice_step *p = &s->step[k];

		if (k + 1 < last && are_two(p, p + 1)) {
			dot_two(lanes[p->result], lanes[p[1].result], p->a + from, p->b + from,
				p[1].b + from, n);
			k++;
		} else if (n == TILE) {
			carry_out(s, p, from, TILE, lanes);
		} else {
			carry_out(s, p, from, n, lanes);
		}
	}
}

/* A part is over: the lanes of its products, in order. */
static void add_up(const struct slice_steps *s, uint32_t first, uint32_t last,
		   double (*lanes)[TW_STEP_LANES], double *result)
{
	for (uint32_t k = first; k < last; k++) {
		const uint32_t r = s->step[k].result;
		double sum = 0;

		if (s->step[k].kind != TW_COMMAND_DOT)
			continue;
		for (size_t i = 0; i < TW_STEP_LANES; i++) {
			sum += lanes[r][i];
			lanes[r][i] = 0;
		}
		result[r] += sum;
	}
}

/* Where the steps end that bring few enough vectors together with step `first`. */
static uint32_t group_end(const struct slice_steps *s, uint32_t first)
{
	uint32_t k = first, streams = 0;

	for (; k < s->count; k++) {
		streams += s->step[k].brings;
		if (streams > STREAMS && k > first)
			break;
	}
	return k;
}

void tw_steps_run(const struct slice_steps *s, size_t n, double (*lanes)[TW_STEP_LANES],
		  double *result)
{
	memset(lanes, 0, s->results * sizeof *lanes);
	for (size_t chunk = 0; chunk < n; chunk += CHUNK) {
		const size_t end = n - chunk < CHUNK ? n : chunk + CHUNK;

		for (uint32_t first = 0, last; first < s->count; first = last) {
			last = group_end(s, first);
			for (size_t from = chunk; from < end; from += TILE) {
				const size_t here = end - from < TILE ? end - from : TILE;

				tile(s, first, last, from, here, lanes);
				if ((from + TILE) % TW_STEP_PART == 0 || from + TILE >= end)
					add_up(s, first, last, lanes, result);
			}
		}
	}
}
