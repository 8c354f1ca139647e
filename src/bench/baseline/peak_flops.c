/* SPDX-License-Identifier: Apache-2.0 */
/* peak_flops.c - the most floating-point operations per second that one core does.
 *
 * Fourteen sums that wait for nothing but themselves: more than two units with a latency of four
 * or five cycles need, fewer than there are registers. */
#include "bench/baseline/peak_flops.h"

#include "metrics/progress.h"
#include "vec/clone.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <math.h>
#include <stddef.h>

#define SUMS   14
#define TURNS  20000
#define BURSTS 8

/* The sums stay in registers and are used: neither the compiler nor the machine may skip any. */
#define CHAIN(vector, set, fma, add)                                                               \
	vector s[SUMS], x = set(0.999f);                                                           \
	_Pragma("GCC unroll 14") for (int i = 0; i < SUMS; i++) s[i] = set(1.0f + (float)i);       \
	for (int k = 0; k < TURNS; k++) {                                                          \
		_Pragma("GCC unroll 14") for (int i = 0; i < SUMS; i++) s[i] = fma(s[i], x, x);    \
		__asm__ volatile("" : "+x"(x));                                                    \
	}                                                                                          \
	_Pragma("GCC unroll 14") for (int i = 1; i < SUMS; i++) s[0] = add(s[0], s[i]);            \
	__asm__ volatile("" : : "x"(s[0]))

#if defined(__x86_64__)
TW_TARGET_AVX512 static double burst_avx512(void)
{
	CHAIN(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps);
	return 2.0 * 16 * SUMS * TURNS;
}

TW_TARGET_AVX2 static double burst_avx2(void)
{
	CHAIN(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps);
	return 2.0 * 8 * SUMS * TURNS;
}

/* The baseline has no fused multiply-add: one of each. */
static inline __m128 multiply_add(__m128 s, __m128 x, __m128 y)
{
	return _mm_add_ps(_mm_mul_ps(s, x), y);
}

static double burst_plain(void)
{
	CHAIN(__m128, _mm_set1_ps, multiply_add, _mm_add_ps);
	return 2.0 * 4 * SUMS * TURNS;
}
#else
/* Whatever the compiler makes of it. */
static double burst_plain(void)
{
	float s[SUMS][4], x = 0.999f, sum = 0.0f;

	for (int i = 0; i < SUMS; i++)
		for (int l = 0; l < 4; l++)
			s[i][l] = 1.0f + (float)(i + l);
	for (int k = 0; k < TURNS; k++)
		for (int i = 0; i < SUMS; i++)
			for (int l = 0; l < 4; l++)
				s[i][l] = fmaf(s[i][l], x, x);
	for (int i = 0; i < SUMS; i++)
		for (int l = 0; l < 4; l++)
			sum += s[i][l];
	__asm__ volatile("" : : "r"(&sum) : "memory");
	return 2.0 * 4 * SUMS * TURNS;
}
#endif

static double burst(void)
{
	switch (tw_isa()) {
#if defined(__x86_64__)
	case TW_ISA_AVX512:
		return burst_avx512();
	case TW_ISA_AVX2:
		return burst_avx2();
#endif
	default:
		return burst_plain();
	}
}

double tw_peak_now(void)
{
	double best = 0.0;

	for (size_t i = 0; i < BURSTS; i++) {
		const int64_t began = tw_clock();
		const double operations = burst();
		const double rate = operations * (double)TW_SECOND / (double)(tw_clock() - began);

		if (rate > best)
			best = rate;
	}
	return best;
}
