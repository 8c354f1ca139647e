/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256, by which data sets, jobs and files are known where somebody could gain by
 * making another one of the same hash. Checksums against plain damage stay XXH3
 * (docs/RATIONALE.md). */
#ifndef TW_BASE_SHA256_H
#define TW_BASE_SHA256_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TW_SHA_TEXT  65 /* 64 hexadecimal digits and the end */
#define TW_SHA_SHORT 20 /* 16 of them, "...", and the end */

/* In memory and on a wire: the bytes in the order of FIPS 180-4.  All zeros: there is nothing. */
struct tw_sha {
	uint8_t b[32];
};
_Static_assert(sizeof(struct tw_sha) == 32, "wire field");

/* Of bytes that come piece by piece.  A failure is kept and told by tw_sha_final, which must be
 * called in any case: it lets go of what tw_sha_init took. */
struct tw_sha_run {
	void *digest; /* OpenSSL's; NULL: there was no memory */
};
void tw_sha_init(struct tw_sha_run *r);
void tw_sha_update(struct tw_sha_run *r, const void *bytes, size_t n);
/* TW_NO_MEMORY: *out is all zeros. */
enum tw_status tw_sha_final(struct tw_sha_run *r, struct tw_sha *out);
/* The three in one. */
enum tw_status tw_sha_of(const void *bytes, size_t n, struct tw_sha *out);

static inline bool tw_sha_same(const struct tw_sha *a, const struct tw_sha *b)
{
	return memcmp(a->b, b->b, sizeof a->b) == 0;
}
static inline bool tw_sha_none(const struct tw_sha *a)
{
	return tw_sha_same(a, &(struct tw_sha){ { 0 } });
}
/* 64 small hexadecimal digits; returns `out`. */
const char *tw_sha_text(const struct tw_sha *a, char out[TW_SHA_TEXT]);
/* The first 16 of them and "...", for sentences; returns `out`. */
const char *tw_sha_short(const struct tw_sha *a, char out[TW_SHA_SHORT]);
/* The other way: exactly 64 small digits, and nothing behind them. */
bool tw_sha_read(const char *text, struct tw_sha *out);

#endif
