/* SPDX-License-Identifier: Apache-2.0 */
/* int8.c - one byte per value and a scale per tile, rounded up or down at random.
 *
 *	q = floor(x / scale + u), scale = max|x| of the tile / 127, u drawn from [0, 1)
 *
 * so that the mean of what is decoded is x, and nothing has to be remembered.  Tiles begin with the
 * slice: results do not depend on shards whose borders are multiples of the tile.
 *
 * Bytes, tile by tile: f32 scale, then one signed byte per value. */
#include "strategy/sparse.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>

#define MOST 4096 /* values of a tile */

struct int8_options {
	uint32_t tile;
};

static const struct tw_option rows[] = { TW_OPTION(struct int8_options, tile, TW_U32, "256",
						   "values", 8, MOST, "values that share a scale"),
					 TW_OPTION_END };

static size_t bound(const void *options, size_t n)
{
	const size_t tile = ((const struct int8_options *)options)->tile;

	return n + (n + tile - 1) / tile * sizeof(float);
}

/* --- draws ---------------------------------------------------------------------------------- */

/* Elements are drawn for in groups.  Philox names a group, and a mixing function makes its words
 * from that: enough for rounding, and ten times as fast. */
#define GROUP 256

TW_CLONED_STATIC(void, expand, (uint64_t named, uint32_t *out), (named, out))
{
	for (uint32_t i = 0; i < GROUP; i++) {
		uint32_t x = (uint32_t)named + i * UINT32_C(0x9e3779b9);

		x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
		x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
		out[i] = x ^ x >> 16 ^ (uint32_t)(named >> 32);
	}
}

/* For elements first .. first + n; the draw of the first one is at the address returned. */
static const uint32_t *draw(const struct tw_encoding *of, uint64_t first, size_t n, uint32_t *room)
{
	const uint64_t from = first / GROUP, to = (first + n + GROUP - 1) / GROUP;

	for (uint64_t g = from; g < to; g++)
		expand(tw_rng_u64(of->rng, of->draw, g), room + (g - from) * GROUP);
	return room + first % GROUP;
}

/* --- tiles ---------------------------------------------------------------------------------- */

/* The bits of max|x|; beyond those of FLT_MAX where a value is not finite. */
TW_CLONED_STATIC(int32_t, largest, (const float *x, size_t n), (x, n))
{
	int32_t most = 0;

	for (size_t i = 0; i < n; i++) {
		int32_t bits;

		memcpy(&bits, &x[i], sizeof bits);
		bits &= 0x7fffffff;
		most = bits > most ? bits : most;
	}
	return most;
}

TW_CLONED_STATIC(void, narrow,
		 (int8_t * out, const float *x, const uint32_t *drawn, float per, size_t n),
		 (out, x, drawn, per, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float u = (float)(int32_t)(drawn[i] >> 8) * 0x1p-24f;
		/* from 1 to 255, so that cutting off the fraction rounds down */
		const float up = fmaf(x[i], per, 128.0f) + u;

		out[i] = (int8_t)((int32_t)(up < 255.0f ? up : 255.0f) - 128);
	}
}

TW_CLONED_STATIC(void, widen, (float *out, const int8_t *q, float scale, size_t n),
		 (out, q, scale, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = (float)q[i] * scale;
}

/* What is too small to be scaled counts as 0; what is not finite has a scale that is refused. */
static float scale_of(const float *x, size_t n)
{
	const int32_t bits = largest(x, n);
	float most;

	memcpy(&most, &bits, sizeof most);
	if (!(most <= FLT_MAX))
		return NAN;
	return most < 1e-35f ? 0.0f : fminf(most / 127.0f, FLT_MAX / 128.0f);
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const size_t tile = ((const struct int8_options *)options)->tile;
	uint32_t room[MOST + 2 * GROUP];
	int8_t q[MOST];

	(void)state;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	for (size_t at = 0; at < n; at += tile) {
		const size_t m = n - at < tile ? n - at : tile;
		const float scale = scale_of(x + at, m);

		tw_put_f32(out, scale);
		if (scale > 0.0f)
			narrow(q, x + at, draw(of, of->first + at, m, room), 1.0f / scale, m);
		else
			memset(q, 0, m);
		memcpy(out + sizeof(float), q, m);
		out += sizeof(float) + m;
	}
	*len = bound(options, n);
	return TW_OK;
}

static enum tw_status decode(const void *options, const uint8_t *bytes, size_t len, float *out,
			     size_t n)
{
	const size_t tile = ((const struct int8_options *)options)->tile;

	if (len != bound(options, n))
		return TW_BAD_BYTES;
	for (size_t at = 0; at < n; at += tile) {
		const size_t m = n - at < tile ? n - at : tile;
		const float scale = tw_get_f32(bytes);

		if (!(scale >= 0.0f && scale <= FLT_MAX / 128.0f))
			return TW_BAD_BYTES;
		widen(out + at, (const int8_t *)bytes + sizeof(float), scale, m);
		bytes += sizeof(float) + m;
	}
	return TW_OK;
}

const struct tw_codec tw_codec_int8 = {
	.name = "int8",
	.help = "one byte per value and a scale per tile, rounded at random without bias",
	.options = rows,
	.options_bytes = sizeof(struct int8_options),
	.traits = TW_CODEC_DOWN,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
