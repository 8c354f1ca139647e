/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h - what codecs that send few values have in common: bytes of numbers, the largest
 * values of a vector, and values with their indices.
 *
 * Bytes of a list:	u32 count, `count` u32 indices in ascending order, `count` f32 values.
 * If the top bit of the count is set, it is n, and only the n values follow. */
#ifndef TW_STRATEGY_SPARSE_H
#define TW_STRATEGY_SPARSE_H

#include "strategy/codec.h"

#include <string.h>

/* Little endian, at any address. */
static inline void tw_put_u32(uint8_t *out, uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	memcpy(out, &v, sizeof v);
}

static inline uint32_t tw_get_u32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	v = __builtin_bswap32(v);
#endif
	return v;
}

static inline void tw_put_f32(uint8_t *out, float x)
{
	uint32_t v;

	memcpy(&v, &x, sizeof v);
	tw_put_u32(out, v);
}

static inline float tw_get_f32(const uint8_t *at)
{
	const uint32_t v = tw_get_u32(at);
	float x;

	memcpy(&x, &v, sizeof x);
	return x;
}

/* ceil(share * n), at least 1 where n is not 0. */
size_t tw_sparse_count(double share, size_t n);

/* The k values that are furthest from 0: those beyond `above`, and the first `ties` of those that
 * are as far. Values are compared as the bits of |v|. */
struct tw_cut {
	uint32_t above;
	size_t ties;
};
struct tw_cut tw_sparse_cut(const float *v, size_t n, size_t k);

/* The longest list of at most k of n values. */
size_t tw_list_bound(size_t n, size_t k);
/* Write the k largest of v as a list, without zeros, and set them to 0 in v (and in `also`, unless
 * it is NULL).  Where sending all costs no more, all are sent.  Returns the length. */
size_t tw_list_put(uint8_t *out, float *v, float *also, size_t n, size_t k);
/* `check` and `add` of a codec whose bytes are a list. */
enum tw_status tw_list_check(const void *options, const uint8_t *bytes, size_t len, size_t n,
			     size_t *sent);
void tw_list_add(const void *options, const uint8_t *bytes, size_t len, float scale, float *out,
		 size_t n);

#endif
