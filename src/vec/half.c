/* SPDX-License-Identifier: Apache-2.0 */
/* half.c - IEEE half and bfloat16, in integers and one float addition, without branches.
 *
 *	half	 sign 1, exponent 5 (bias 15), fraction 10	bfloat16  the upper half of a float
 *
 * Infinities stay infinite and NaNs stay NaN (quiet, with the upper bits of their fraction);
 * finite values that would round to infinity become the largest finite value. */
#include "vec/vec.h"
#include "vec/clone.h"

#include <float.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

TW_CLONED_STATIC(void, narrow, (uint16_t * out, const float *x, size_t n), (out, x, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = to_half(x[i]);
}

/* The processor's own conversion, eight at a time, after what is finite and too large was made
 * 65504: the same bits (tested), in two thirds of the time.  Returns how many are done. */
#if defined(__x86_64__) && !defined(__clang__)
TW_TARGET_AVX2 static size_t narrow_eights(uint16_t *out, const float *x, size_t n)
{
	const __m256 sign = _mm256_set1_ps(-0.0f), most = _mm256_set1_ps(65504.0f);
	const __m256 finite = _mm256_set1_ps(FLT_MAX);
	size_t i = 0;

	for (; n - i >= 8; i += 8) {
		const __m256 v = _mm256_loadu_ps(x + i), size = _mm256_andnot_ps(sign, v);
		const __m256 large = _mm256_and_ps(_mm256_cmp_ps(size, most, _CMP_GT_OQ),
						   _mm256_cmp_ps(size, finite, _CMP_LE_OQ));
		const __m256 cut = _mm256_or_ps(_mm256_and_ps(sign, v), most);

		_mm_storeu_si128((__m128i *)(out + i),
				 _mm256_cvtps_ph(_mm256_blendv_ps(v, cut, large),
						 _MM_FROUND_TO_NEAREST_INT));
	}
	return i;
}
#else
static size_t narrow_eights(uint16_t *out, const float *x, size_t n)
{
	(void)out, (void)x, (void)n;
	return 0;
}
#endif

void tw_vec_to_fp16(uint16_t *out, const float *x, size_t n)
{
	const size_t done = tw_isa() == TW_ISA_PLAIN ? 0 : narrow_eights(out, x, n);

	narrow(out + done, x + done, n - done);
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
