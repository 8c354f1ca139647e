/* SPDX-License-Identifier: Apache-2.0 */
/* frame_hash.c - which vectors hash the frames on this machine. */
#include "wire/frame_hash.h"

#include "base/machine/isa.h"

static void update(XXH3_state_t *state, const void *bytes, size_t len)
{
	XXH3_64bits_update(state, bytes, len);
}

static uint64_t whole(const void *bytes, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, len, seed);
}

static const struct tw_frame_hash plain = { .update = update, .whole = whole };

const struct tw_frame_hash *tw_frame_hash(void)
{
#ifdef TW_FRAME_HASH_WIDE
	if (tw_isa() == TW_ISA_AVX512)
		return &tw_frame_hash_avx512;
	if (tw_isa() == TW_ISA_AVX2)
		return &tw_frame_hash_avx2;
#endif
	return &plain;
}

uint64_t tw_frame_hash_trusting(const struct iovec rest[2], uint64_t seed)
{
	XXH3_state_t state;

	XXH3_64bits_reset_withSeed(&state, seed);
	for (int i = 0; i < 2; i++)
		if (rest[i].iov_len)
			XXH3_64bits_update(&state, rest[i].iov_base, rest[i].iov_len);
	return XXH3_64bits_digest(&state);
}
