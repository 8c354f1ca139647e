/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - hints that memory will be touched soon.  They change nothing but time.
 *
 * A function that does nothing but this looks to gcc as if it had no effect, and calls of it are
 * dropped; so this one is always inlined, and whoever calls it is either called through a pointer
 * or does other work as well. */
#ifndef TW_BASE_FETCH_H
#define TW_BASE_FETCH_H

#include <stddef.h>

/* All cache lines of `bytes` at `at`; NULL is allowed. */
static inline __attribute__((always_inline)) void tw_fetch(const void *at, size_t bytes)
{
	for (size_t k = 0; k < bytes; k += 64)
		__builtin_prefetch((const char *)at + k);
}

#endif
