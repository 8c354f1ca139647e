/* SPDX-License-Identifier: Apache-2.0 */
/* frame_hash_avx2.c - the hash of frames with AVX2. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("avx2")
#define XXH_VECTOR 2 /* of xxhash.h: XXH_AVX2 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "wire/frame_hash.h"

static void update(XXH3_state_t *state, const void *bytes, size_t len)
{
	XXH3_64bits_update(state, bytes, len);
}

static uint64_t whole(const void *bytes, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, len, seed);
}

const struct tw_frame_hash tw_frame_hash_avx2 = { .update = update, .whole = whole };
#else
typedef int tw_frame_hash_avx2_is_not_here; /* a file may not be empty */
#endif
