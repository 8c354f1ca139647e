/* SPDX-License-Identifier: Apache-2.0 */
/* isa.h - which instruction set this program uses: what the machine has, within a limit. */
#ifndef TW_BASE_ISA_H
#define TW_BASE_ISA_H

#include "base/status.h"

#include <stdbool.h>

enum tw_isa { TW_ISA_PLAIN, TW_ISA_AVX2, TW_ISA_AVX512 };

/* What loops use now: what tw_isa_pin said, or else the best that the machine has and
 * THALWEG_ISA allows. */
extern enum tw_isa tw_isa_now; /* set before main; written by tw_isa_pin only */
static inline enum tw_isa tw_isa(void)
{
	return tw_isa_now;
}
/* Use at most `isa` from now on; false if the machine lacks it.  Call before any thread starts. */
bool tw_isa_pin(enum tw_isa isa);
const char *tw_isa_name(enum tw_isa isa);             /* "avx512", "avx2", "plain" */
bool tw_isa_find(const char *name, enum tw_isa *out); /* false: it is none of these names */
enum tw_isa tw_isa_machine(void);                     /* the best that the machine has */

/* The environment variable THALWEG_ISA limits every program, and what that starts: loops, layouts
 * and oneDNN use at most the instruction set that it names.  It is read once, before main; set to
 * nothing, it is not set.  True: it names one, which may be more than the machine has. */
bool tw_isa_limit(enum tw_isa *out);
/* TW_BAD_INPUT, with a sentence, if it names none. */
enum tw_status tw_isa_check(struct tw_error *why);

#endif
