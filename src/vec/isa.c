/* SPDX-License-Identifier: Apache-2.0 */
/* isa.c - what the machine has, found once before main, and what kernels are told to use. */
#include "vec/clone.h"

enum tw_isa tw_isa_now = TW_ISA_PLAIN;

static enum tw_isa best(void)
{
#if defined(__x86_64__) && !defined(__clang__) /* see TW_CLONED */
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
	    !__builtin_cpu_supports("f16c"))
		return TW_ISA_PLAIN;
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
		return TW_ISA_AVX512;
	return TW_ISA_AVX2;
#else
	return TW_ISA_PLAIN;
#endif
}

__attribute__((constructor)) static void find(void)
{
	tw_isa_now = best();
}

bool tw_isa_pin(enum tw_isa isa)
{
	if (isa > best())
		return false;
	tw_isa_now = isa;
	return true;
}

const char *tw_isa_name(enum tw_isa isa)
{
	switch (isa) {
	case TW_ISA_AVX512:
		return "avx512";
	case TW_ISA_AVX2:
		return "avx2";
	default:
		return "plain";
	}
}
