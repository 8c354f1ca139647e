/* SPDX-License-Identifier: Apache-2.0 */
/* scalar.h - the few scalar helpers that rules and corrections share.
 *
 * A note on `#pragma GCC ivdep` before their loops: arguments overlap only element on element
 * (`out` may be `w`), which the compiler cannot know; without it, it guards every loop and runs
 * the scalar one in place. */
#ifndef TW_STRATEGY_SCALAR_H
#define TW_STRATEGY_SCALAR_H

#include <float.h>
#include <stdint.h>

/* The nearest finite value: an average that once became infinite would stay infinite. */
static inline __attribute__((always_inline)) float tw_tame(float x)
{
	const float low = x > FLT_MAX ? FLT_MAX : x;

	return low < -FLT_MAX ? -FLT_MAX : low;
}

/* base to the n-th by squaring: unlike libm's pow the same bits on every machine. */
static inline double tw_power(double base, uint64_t n)
{
	double result = 1.0;

	for (; n; n >>= 1, base *= base)
		if (n & 1)
			result *= base;
	return result;
}

#endif
