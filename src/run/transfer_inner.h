/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_inner.h - what follows a data set, or the header of a caller's model, if the job names a
 * file of initial weights.
 *
 *	 0  8  "TWFIRST\x1a"
 *	 8  8  how many values
 *	16 32  SHA-256 of the values
 *	48  8  XXH3-64 of the 48 bytes before: tells damage, and nothing more
 *	56     the values, f32, little endian
 *
 * It follows the bytes of the set (data/format/set_file.h) and is never in the cache: the
 * same data may be trained on from other values. */
#ifndef TW_RUN_TRANSFER_INNER_H
#define TW_RUN_TRANSFER_INNER_H

#include "base/sha256.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

struct tw_first_head {
	char magic[8];
	uint64_t count;
	struct tw_sha values;
	uint64_t hash;
};
_Static_assert(sizeof(struct tw_first_head) == 56, "as above");

static inline void tw_first_seal(struct tw_first_head *h)
{
	memcpy(h->magic, "TWFIRST\x1a", sizeof h->magic);
	h->hash = XXH3_64bits(h, offsetof(struct tw_first_head, hash));
}

static inline int tw_first_whole(const struct tw_first_head *h)
{
	return memcmp(h->magic, "TWFIRST\x1a", sizeof h->magic) == 0 &&
	       h->hash == XXH3_64bits(h, offsetof(struct tw_first_head, hash));
}

#endif
