/* SPDX-License-Identifier: Apache-2.0 */
/* half.c - IEEE half and bfloat16, in integers and one float addition, without branches.
 *
 *	half	 sign 1, exponent 5 (bias 15), fraction 10	bfloat16  the upper half of a float
 *
 * Infinities stay infinite and NaNs stay NaN (quiet, with the upper bits of their fraction);
 * finite values that would round to infinity become the largest finite value. */
#include "vec/vec.h"
#include "vec/clone.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

INLINE float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

INLINE uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

INLINE uint16_t to_half(float x)
{
	const uint32_t all = bits_of(x), u = all & 0x7fffffff, sign = all >> 16 & 0x8000;
	/* 2^-14 and above: move the bias, round the 13 lower bits to even */
	const uint32_t normal = least((u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13, 0x7bff);
	/* below: adding 1/2 lets the adder round to multiples of 2^-24; kept small so that nothing
	 * strange is ever added */
	const float small = float_of(least(u, 113u << 23));
	const uint32_t tiny = bits_of(small + 0.5f) - bits_of(0.5f);
	const uint32_t finite = u < 113u << 23 ? tiny : normal;
	const uint32_t strange = 0x7c00 | (u > 0x7f800000 ? 0x200 | (u >> 13 & 0x3ff) : 0);

	return (uint16_t)(sign | (u < 0x7f800000 ? finite : strange));
}

INLINE float from_half(uint16_t h)
{
	const uint32_t u = (uint32_t)(h & 0x7fff) << 13, exponent = u & 0xf800000;
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	const uint32_t normal = u + (112u << 23), strange = u + (224u << 23);
	const uint32_t tiny = bits_of(float_of(u + (113u << 23)) - float_of(113u << 23));
	const uint32_t finite = exponent == 0 ? tiny : normal;

	return float_of(sign | (exponent == 0xf800000 ? strange : finite));
}

INLINE uint16_t to_brain(float x)
{
	const uint32_t all = bits_of(x), u = all & 0x7fffffff, sign = all >> 16 & 0x8000;
	const uint32_t finite = least((u + 0x7fff + (u >> 16 & 1)) >> 16, 0x7f7f);
	const uint32_t strange = u >> 16 | (u > 0x7f800000 ? 0x40 : 0);

	return (uint16_t)(sign | (u < 0x7f800000 ? finite : strange));
}

TW_CLONED(void, tw_vec_to_fp16, (uint16_t * out, const float *x, size_t n), (out, x, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = to_half(x[i]);
}

TW_CLONED(void, tw_vec_from_fp16, (float *out, const uint16_t *x, size_t n), (out, x, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = from_half(x[i]);
}

TW_CLONED(void, tw_vec_to_bf16, (uint16_t * out, const float *x, size_t n), (out, x, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = to_brain(x[i]);
}

TW_CLONED(void, tw_vec_from_bf16, (float *out, const uint16_t *x, size_t n), (out, x, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = float_of((uint32_t)x[i] << 16);
}
