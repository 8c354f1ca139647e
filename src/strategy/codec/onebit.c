/* SPDX-License-Identifier: Apache-2.0 */
/* onebit.c - the sign of each value and a scale per tile; the rest is kept (Seide et al. 2014).
 *
 *	r = r + x; send the sign of r times the mean of |r| over its tile, and r = r - what was sent
 *
 * Tiles begin with the slice: results do not depend on shards whose borders are multiples of the
 * tile.
 *
 * Bytes, tile by tile: f32 scale, then a bit per value, from the lowest of each byte on, set where
 * the value is negative; bits left over are 0. */
#include "strategy/sparse.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

#define MOST 4096 /* values of a tile */

struct onebit_options {
	uint32_t tile;
};

static const struct tw_option rows[] = { TW_OPTION(struct onebit_options, tile, TW_U32, "512",
						   "values", 8, MOST, "values that share a scale"),
					 TW_OPTION_END };

static size_t state_bytes(const void *options, size_t n)
{
	(void)options;
	return n * sizeof(float);
}

static size_t tile_bytes(size_t n)
{
	return sizeof(float) + (n + 7) / 8;
}

static size_t bound(const void *options, size_t n)
{
	const size_t tile = ((const struct onebit_options *)options)->tile;

	return n / tile * tile_bytes(tile) + (n % tile ? tile_bytes(n % tile) : 0);
}

/* r = r + x; the mean of |r|. */
TW_CLONED_STATIC(double, collect, (float *r, const float *x, size_t n), (r, x, n))
{
	double lane[16] = { 0 }, sum = 0;
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		r[i] += x[i];
	for (; n - at >= 16; at += 16)
		for (size_t k = 0; k < 16; k++)
			lane[k] += (double)fabsf(r[at + k]);
	for (size_t k = 0; at + k < n; k++)
		lane[k] += (double)fabsf(r[at + k]);
	for (size_t k = 0; k < 16; k++)
		sum += lane[k];
	return sum / (double)n;
}

/* r = r - what is sent; 1 in `minus` where that is negative. */
TW_CLONED_STATIC(void, split, (float *r, uint8_t *minus, float scale, size_t n),
		 (r, minus, scale, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		minus[i] = r[i] < 0.0f;
		r[i] -= r[i] < 0.0f ? -scale : scale;
	}
}

TW_CLONED_STATIC(void, pack, (uint8_t * out, const uint8_t *minus, size_t bytes),
		 (out, minus, bytes))
{
	for (size_t b = 0; b < bytes; b++) {
		unsigned all = 0;

		for (unsigned k = 0; k < 8; k++)
			all |= (unsigned)minus[8 * b + k] << k;
		out[b] = (uint8_t)all;
	}
}

TW_CLONED_STATIC(void, unpack, (float *out, const uint8_t *bits, float scale, size_t n),
		 (out, bits, scale, n))
{
	uint32_t positive;

	memcpy(&positive, &scale, sizeof positive);
	for (size_t at = 0; at < n; at += 8) {
		const uint32_t eight = bits[at / 8];
		uint32_t to[8];

		for (unsigned k = 0; k < 8; k++)
			to[k] = positive | (eight >> k & 1) << 31;
		memcpy(out + at, to, (n - at < 8 ? n - at : 8) * sizeof *to);
	}
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const size_t tile = ((const struct onebit_options *)options)->tile;
	uint8_t minus[MOST + 8];
	float *const owed = state;

	(void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	for (size_t at = 0; at < n; at += tile) {
		const size_t m = n - at < tile ? n - at : tile;
		const float scale = (float)collect(owed + at, x + at, m);

		tw_put_f32(out, scale);
		split(owed + at, minus, scale, m);
		memset(minus + m, 0, 8);
		pack(out + sizeof(float), minus, (m + 7) / 8);
		out += tile_bytes(m);
	}
	*len = bound(options, n);
	return TW_OK;
}

static enum tw_status decode(const void *options, const uint8_t *bytes, size_t len, float *out,
			     size_t n)
{
	const size_t tile = ((const struct onebit_options *)options)->tile;

	if (len != bound(options, n))
		return TW_BAD_BYTES;
	for (size_t at = 0; at < n; at += tile) {
		const size_t m = n - at < tile ? n - at : tile;
		const float scale = tw_get_f32(bytes);

		if (!(scale >= 0.0f) || !isfinite(scale) ||
		    (m % 8 && bytes[sizeof(float) + m / 8] >> (m % 8)))
			return TW_BAD_BYTES;
		unpack(out + at, bytes + sizeof(float), scale, m);
		bytes += tile_bytes(m);
	}
	return TW_OK;
}

const struct tw_codec tw_codec_onebit = {
	.name = "onebit",
	.help = "the sign of each value and a scale per tile; the rest is kept",
	.options = rows,
	.options_bytes = sizeof(struct onebit_options),
	.traits = TW_CODEC_REMEMBERS,
	.state_bytes = state_bytes,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
