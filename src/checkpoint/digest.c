/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - XXH3-128 as 32 hexadecimal digits. */
#include "checkpoint/digest.h"

#include <stdio.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digests are over little-endian floats");

static void hex(XXH128_hash_t hash, char out[TW_DIGEST_TEXT])
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, hash);
	for (size_t i = 0; i < sizeof c.digest; i++)
		snprintf(out + 2 * i, 3, "%02x", c.digest[i]);
}

void tw_digest_bytes(const void *bytes, size_t len, char out[TW_DIGEST_TEXT])
{
	hex(XXH3_128bits(bytes, len), out);
}

enum tw_status tw_digest_floats(struct tw_block *const *vector, const size_t *border,
				uint32_t shards, size_t from, size_t to, char out[TW_DIGEST_TEXT])
{
	XXH3_state_t *state = XXH3_createState();
	enum tw_status status = TW_OK;

	if (!state)
		return TW_NO_MEMORY;
	XXH3_128bits_reset(state);
	for (uint32_t k = 0; k < shards && status == TW_OK; k++) {
		const size_t a = border[k] > from ? border[k] : from;
		const size_t b = border[k + 1] < to ? border[k + 1] : to;

		if (a >= b)
			continue;
		if (!vector[k] || vector[k]->bytes < (b - border[k]) * sizeof(float))
			status = TW_BAD_BYTES;
		else
			XXH3_128bits_update(state, tw_block_floats(vector[k]) + (a - border[k]),
					    (b - a) * sizeof(float));
	}
	if (status == TW_OK)
		hex(XXH3_128bits_digest(state), out);
	XXH3_freeState(state);
	return status;
}
