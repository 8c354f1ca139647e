/* SPDX-License-Identifier: Apache-2.0 */
/* isa.c - what the machine has, found once before main, and what kernels are told to use. */
#include "base/machine/isa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tw_isa tw_isa_now = TW_ISA_PLAIN;

static char asked[24]; /* what THALWEG_ISA says, as far as it fits */

enum tw_isa tw_isa_machine(void)
{
#if defined(__x86_64__) && !defined(__clang__) /* see src/vec/clone.h */
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
	const char *text = getenv("THALWEG_ISA");
	enum tw_isa limit;

	tw_isa_now = tw_isa_machine();
	snprintf(asked, sizeof asked, "%s", text ? text : "");
	if (tw_isa_limit(&limit) && limit < tw_isa_now)
		tw_isa_now = limit;
}

bool tw_isa_limit(enum tw_isa *out)
{
	return tw_isa_find(asked, out);
}

enum tw_status tw_isa_check(struct tw_error *why)
{
	enum tw_isa limit;

	if (!*asked || tw_isa_limit(&limit))
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "THALWEG_ISA: needs plain, avx2 or avx512, not '%s'",
		       asked);
}

bool tw_isa_pin(enum tw_isa isa)
{
	if (isa > tw_isa_machine())
		return false;
	tw_isa_now = isa;
	return true;
}

bool tw_isa_find(const char *name, enum tw_isa *out)
{
	for (int isa = TW_ISA_PLAIN; isa <= TW_ISA_AVX512; isa++)
		if (strcmp(name, tw_isa_name((enum tw_isa)isa)) == 0) {
			*out = (enum tw_isa)isa;
			return true;
		}
	return false;
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
