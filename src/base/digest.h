/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - XXH3-128 as 32 hexadecimal digits, of bytes that may come one piece after another. */
#ifndef TW_BASE_DIGEST_H
#define TW_BASE_DIGEST_H

#include "base/status.h"

#include <stddef.h>

#define TW_DIGEST_TEXT 33

void tw_digest_bytes(const void *bytes, size_t len, char out[TW_DIGEST_TEXT]);

/* The same of pieces, in order.  NULL without memory; freeing NULL is allowed. */
struct tw_digest;
struct tw_digest *tw_digest_new(void);
void tw_digest_free(struct tw_digest *d);
/* Nothing was added. */
void tw_digest_reset(struct tw_digest *d);
void tw_digest_add(struct tw_digest *d, const void *bytes, size_t len);
/* Of what was added so far. */
void tw_digest_text(const struct tw_digest *d, char out[TW_DIGEST_TEXT]);

#endif
