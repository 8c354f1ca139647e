/* SPDX-License-Identifier: Apache-2.0 */
/* half.h - codecs of two bytes per value differ only in their two kernels.
 *
 * Bytes: n 16-bit values, little endian.  The kernels work on aligned pieces on the stack
 * where the wire's buffer is not aligned, or the machine's order is another. */
#ifndef TW_STRATEGY_CODEC_HALF_H
#define TW_STRATEGY_CODEC_HALF_H

#include "strategy/codec.h"
#include "vec/vec.h"

#include <string.h>

#define TW_HALF_PIECE 1024

typedef void (*tw_half_narrow)(uint16_t *out, const float *x, size_t n);
typedef void (*tw_half_widen)(float *out, const uint16_t *x, size_t n);

static inline size_t tw_half_bound(const void *options, size_t n)
{
	(void)options;
	return n * sizeof(uint16_t);
}

static inline void tw_half_order(uint16_t *piece, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	for (size_t i = 0; i < n; i++)
		piece[i] = __builtin_bswap16(piece[i]);
#else
	(void)piece, (void)n;
#endif
}

/* Are these the halves as kernels want them? */
static inline bool tw_half_in_place(const uint8_t *bytes)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
	       (uintptr_t)bytes % sizeof(uint16_t) == 0;
}

static inline enum tw_status tw_half_encode(tw_half_narrow narrow, const float *x, size_t n,
					    uint8_t *out, size_t *len)
{
	uint16_t piece[TW_HALF_PIECE];

	if (*len < tw_half_bound(NULL, n))
		return TW_NO_ROOM;
	*len = tw_half_bound(NULL, n);
	if (tw_half_in_place(out)) {
		narrow((uint16_t *)out, x, n);
		return TW_OK;
	}
	for (size_t at = 0; at < n; at += TW_HALF_PIECE) {
		const size_t k = n - at < TW_HALF_PIECE ? n - at : TW_HALF_PIECE;

		narrow(piece, x + at, k);
		tw_half_order(piece, k);
		memcpy(out + 2 * at, piece, 2 * k);
	}
	return TW_OK;
}

static inline enum tw_status tw_half_decode(tw_half_widen widen, const uint8_t *bytes, size_t len,
					    float *out, size_t n)
{
	uint16_t piece[TW_HALF_PIECE];

	if (len % sizeof(uint16_t) || len / sizeof(uint16_t) != n)
		return TW_BAD_BYTES;
	for (size_t at = 0; at < n; at += TW_HALF_PIECE) {
		const size_t k = n - at < TW_HALF_PIECE ? n - at : TW_HALF_PIECE;

		if (tw_half_in_place(bytes)) {
			widen(out + at, (const uint16_t *)bytes + at, k);
		} else {
			memcpy(piece, bytes + 2 * at, 2 * k);
			tw_half_order(piece, k);
			widen(out + at, piece, k);
		}
		if (!tw_vec_finite(out + at, k))
			return TW_BAD_BYTES;
	}
	return TW_OK;
}

#endif
