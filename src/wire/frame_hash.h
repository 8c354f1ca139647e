/* SPDX-License-Identifier: Apache-2.0 */
/* frame_hash.h - the hash of frames, by the widest vectors the machine has; only for frame_*.c.
 *
 * Hashing is most of what frames cost beside the bytes themselves: for 58 MB through a socket pair,
 * both sides together, about 5.5 ms of processor time with SSE2 and 3.5 ms with AVX2, beside 12 ms
 * without.  The value is the same by all. */
#ifndef TW_WIRE_FRAME_HASH_H
#define TW_WIRE_FRAME_HASH_H

#define XXH_STATIC_LINKING_ONLY
#include <stdint.h>
#include <sys/uio.h>
#include <xxhash.h>

struct tw_frame_hash {
	void (*update)(XXH3_state_t *state, const void *bytes, size_t len);
	uint64_t (*whole)(const void *bytes, size_t len, uint64_t seed);
};

const struct tw_frame_hash *tw_frame_hash(void);
/* Of body and tail only: where the stream answers for the payload. */
uint64_t tw_frame_hash_trusting(const struct iovec rest[2], uint64_t seed);

/* The compiler must be able to make code for a machine that may not be this one. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TW_FRAME_HASH_WIDE
extern const struct tw_frame_hash tw_frame_hash_avx2, tw_frame_hash_avx512;
#endif

#endif
