/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - digests of parameters, whatever they are divided into. */
#ifndef TW_CHECKPOINT_DIGEST_H
#define TW_CHECKPOINT_DIGEST_H

#include "actor/actor.h"
#include "base/constants.h"
#include "base/digest.h"

/* Of floats from..to of a vector that lies in one block per shard, little endian, in layout order,
 * with the constants that stand among them (NULL: none): the same text however many shards there
 * are, and whatever is frozen.  border has shards + 1 entries.  TW_NO_MEMORY, or TW_BAD_BYTES if a
 * block is shorter than its shard. */
enum tw_status tw_digest_floats(struct tw_block *const *vector, const size_t *border,
				uint32_t shards, size_t from, size_t to,
				const struct tw_constants *constants, char out[TW_DIGEST_TEXT]);

#endif
