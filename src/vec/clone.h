/* SPDX-License-Identifier: Apache-2.0 */
/* clone.h - one loop, compiled for each instruction set, chosen at run time.
 *
 *	TW_CLONED(void, tw_vec_add, (float *y, const float *x, size_t n), (y, x, n))
 *	{
 *		for (size_t i = 0; i < n; i++)
 *			y[i] += x[i];
 *	}
 *
 * defines tw_vec_add with that body for AVX-512, AVX2+FMA and the baseline.  TW_CLONED_STATIC
 * does the same for a file-local kernel (a rule's own step). */
#ifndef TW_VEC_CLONE_H
#define TW_VEC_CLONE_H

#include "base/machine/isa.h"

/* gcc only: clang knows neither all of these names nor the vector width. */
#if defined(__x86_64__) && !defined(__clang__)
#define TW_TARGET_AVX512                                                                           \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,"                  \
			      "prefer-vector-width=512"),                                          \
		       noinline))
#define TW_TARGET_AVX2 __attribute__((target("avx2,fma,f16c"), noinline))
#define TW_CLONED_AS(scope, type, name, params, args)                                              \
	static inline __attribute__((always_inline)) type name##_body params;                      \
	TW_TARGET_AVX512 static type name##_avx512 params                                          \
	{                                                                                          \
		return name##_body args;                                                           \
	}                                                                                          \
	TW_TARGET_AVX2 static type name##_avx2 params                                              \
	{                                                                                          \
		return name##_body args;                                                           \
	}                                                                                          \
	__attribute__((noinline)) static type name##_plain params                                  \
	{                                                                                          \
		return name##_body args;                                                           \
	}                                                                                          \
	scope type name params                                                                     \
	{                                                                                          \
		switch (tw_isa()) {                                                                \
		case TW_ISA_AVX512:                                                                \
			return name##_avx512 args;                                                 \
		case TW_ISA_AVX2:                                                                  \
			return name##_avx2 args;                                                   \
		default:                                                                           \
			return name##_plain args;                                                  \
		}                                                                                  \
	}                                                                                          \
	static inline __attribute__((always_inline)) type name##_body params
#else
#define TW_CLONED_AS(scope, type, name, params, args)                                              \
	static inline __attribute__((always_inline)) type name##_body params;                      \
	scope type name params                                                                     \
	{                                                                                          \
		return name##_body args;                                                           \
	}                                                                                          \
	static inline __attribute__((always_inline)) type name##_body params
#endif
#define TW_CLONED(type, name, params, args)        TW_CLONED_AS(, type, name, params, args)
#define TW_CLONED_STATIC(type, name, params, args) TW_CLONED_AS(static, type, name, params, args)

#endif
