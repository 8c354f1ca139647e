/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - XXH3-128 as 32 hexadecimal digits. */
#include "base/digest.h"

#include <stdio.h>
#include <xxhash.h>

static XXH3_state_t *state_of(const struct tw_digest *d)
{
	return (XXH3_state_t *)(void *)d;
}

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

struct tw_digest *tw_digest_new(void)
{
	XXH3_state_t *state = XXH3_createState();

	if (state)
		XXH3_128bits_reset(state);
	return (struct tw_digest *)(void *)state;
}

void tw_digest_free(struct tw_digest *d)
{
	XXH3_freeState(state_of(d));
}

void tw_digest_reset(struct tw_digest *d)
{
	XXH3_128bits_reset(state_of(d));
}

void tw_digest_add(struct tw_digest *d, const void *bytes, size_t len)
{
	if (len)
		XXH3_128bits_update(state_of(d), bytes, len);
}

void tw_digest_text(const struct tw_digest *d, char out[TW_DIGEST_TEXT])
{
	hex(XXH3_128bits_digest(state_of(d)), out);
}
