/* SPDX-License-Identifier: Apache-2.0 */
/* tools.c - see tools.h. */
#include "strategy/tools.h"
#include "base/arena.h"
#include "base/rng.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct tw_arena arena;

static void forget(void)
{
	tw_arena_release(&arena);
}

static struct tw_arena *keep(void)
{
	if (!arena.heap) {
		tw_arena_init(&arena, &tw_heap_system);
		atexit(forget);
	}
	return &arena;
}

void *options_given(const struct tw_option *rows, size_t bytes, ...)
{
	void *base = tw_arena_get(keep(), bytes ? bytes : 1);
	struct tw_error why = { TW_OK };
	const char *name;
	va_list pairs;

	assert_non_null(base);
	if (rows && tw_option_defaults(rows, base, keep(), &why) != TW_OK)
		fail_msg("%s", why.text);
	va_start(pairs, bytes);
	while ((name = va_arg(pairs, const char *))) {
		const struct tw_option *row = tw_option_find(rows, name);

		assert_non_null(row);
		if (tw_option_set(row, base, va_arg(pairs, const char *), keep(), &why) != TW_OK)
			fail_msg("%s", why.text);
	}
	va_end(pairs);
	return base;
}

void gauss(float *out, size_t n, uint64_t what, float scale)
{
	const struct tw_rng rng = tw_rng_make(7, TW_RNG_TEST);

	tw_rng_gauss_fill(&rng, what, 0, out, n);
	for (size_t i = 0; i < n; i++)
		out[i] *= scale;
}

uint32_t pick(uint64_t what, uint32_t most)
{
	const struct tw_rng rng = tw_rng_make(8, TW_RNG_TEST);

	return (uint32_t)(tw_rng_u64(&rng, what, 0) % most);
}

void edges(float *out, size_t n, uint64_t what, float largest)
{
	const float edge[] = { 0.0f, FLT_TRUE_MIN, FLT_MIN, 1e-30f, 1e-10f,
			       1.0f, 3.0f,         1e5f,    1e20f,  largest };
	const struct tw_rng rng = tw_rng_make(9, TW_RNG_TEST);

	for (size_t i = 0; i < n; i++) {
		const uint64_t r = tw_rng_u64(&rng, what, i);
		const float x = edge[(r >> 1) % (sizeof edge / sizeof *edge)];

		out[i] = r & 1 ? -x : x;
	}
}

bool same_bits(const float *a, const float *b, size_t n)
{
	return n == 0 || !memcmp(a, b, n * sizeof *a);
}

bool all_finite(const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return false;
	return true;
}

bool isa_next(int *isa)
{
	static enum tw_isa best;

	if (*isa < 0)
		best = tw_isa();
	if (++*isa <= (int)best)
		return tw_isa_pin((enum tw_isa) * isa);
	tw_isa_pin(best);
	return false;
}

bool near_to(double a, double b, double within, const char *file, int line)
{
	const double room = within * fmax(1.0, fabs(b));

	if (fabs(a - b) <= room)
		return true;
	print_error("%s:%d: %.17g is not within %g of %.17g\n", file, line, a, room, b);
	return false;
}
