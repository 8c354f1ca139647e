/* SPDX-License-Identifier: Apache-2.0 */
/* onebit.c - a bit for each value, and what it stands for once per tile; the rest is kept.
 *
 *	r = r + x; send for each r of a tile
 *		means: one   sign(r) times the mean of |r| (EF-signSGD, Karimireddy et al. 2019)
 *		means: two   the mean of those r that have its sign (1-bit SGD, Seide et al. 2014)
 *	r = r - what was sent
 *
 * Seide's means are those of a column of a matrix.  A codec sees a flat slice, so here they are
 * those of a tile.  0 counts as positive.  Tiles begin with the slice: results do not depend on
 * shards whose borders are multiples of the tile.
 *
 * Bytes, tile by tile: what the bits stand for, then a bit per value, from the lowest of each byte
 * on, set where the value is negative; bits left over are 0.
 *
 *	means: one   f32, the mean of |r|
 *	means: two   f32, the mean of the positive ones; f32, the mean of the negative ones, at
 *	             most 0; of none it is 0 */
#include "strategy/sparse.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>

#define MOST 4096 /* values of a tile */

enum means { ONE, TWO };
static const char *const counts[] = { [ONE] = "one", [TWO] = "two", NULL };

struct onebit_options {
	uint32_t tile, means;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct onebit_options, tile, TW_U32, "512", "values", 8, MOST,
		  "values that share a mean, or two"),
	TW_OPTION_CHOICE(struct onebit_options, means, "means", "one", counts,
			 "one: a value travels as its sign times the mean size of its tile, as in "
			 "EF-signSGD; two: as the mean of the values of its sign in its tile, as "
			 "in 1-bit SGD (Seide et al. 2014, by column there)"),
	TW_OPTION_END
};

/* What a bit stands for. */
struct levels {
	float plus, minus;
};

/* Bytes in front of the bits. */
static size_t head_bytes(const struct onebit_options *o)
{
	return (o->means == TWO ? 2 : 1) * sizeof(float);
}

static size_t tile_bytes(const struct onebit_options *o, size_t n)
{
	return head_bytes(o) + (n + 7) / 8;
}

static size_t bound(const void *options, size_t n)
{
	const struct onebit_options *o = options;
	const size_t tile = o->tile;

	return n / tile * tile_bytes(o, tile) + (n % tile ? tile_bytes(o, n % tile) : 0);
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

/* r = r + x; sums of |r|, of the values that are not negative and of the others; returns how many
 * the latter are. */
TW_CLONED_STATIC(uint32_t, collect_two, (float *r, const float *x, size_t n, double sum[2]),
		 (r, x, n, sum))
{
	double plus[16] = { 0 }, minus[16] = { 0 };
	float above[MOST]; /* r, or 0 where it is negative: without branches in the sums */
	uint32_t below = 0;
	size_t at = 0;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		r[i] += x[i];
		above[i] = r[i] < 0.0f ? 0.0f : r[i];
		below += r[i] < 0.0f;
	}
	for (; n - at >= 16; at += 16) {
		for (size_t k = 0; k < 16; k++)
			plus[k] += (double)above[at + k];
		for (size_t k = 0; k < 16; k++)
			minus[k] += (double)(above[at + k] - r[at + k]);
	}
	for (size_t k = 0; at + k < n; k++) {
		/* cppcheck-suppress uninitvar ; all below n are written */
		plus[k] += (double)above[at + k];
		minus[k] += (double)(above[at + k] - r[at + k]);
	}
	sum[0] = sum[1] = 0;
	for (size_t k = 0; k < 16; k++) {
		sum[0] += plus[k];
		sum[1] += minus[k];
	}
	return below;
}

/* r = r + x, and what the bits of this tile stand for. */
static struct levels levels_of(const struct onebit_options *o, float *r, const float *x, size_t n)
{
	double sum[2];
	uint32_t below;
	float scale;

	if (o->means == ONE) {
		scale = (float)collect(r, x, n);
		return (struct levels){ scale, -scale };
	}
	below = collect_two(r, x, n, sum);
	return (struct levels){ below < n ? (float)(sum[0] / (double)(n - below)) : 0.0f,
				below ? -(float)(sum[1] / (double)below) : 0.0f };
}

/* r = r - what is sent; 1 in `minus` where that is negative. */
TW_CLONED_STATIC(void, split, (float *r, uint8_t *minus, struct levels l, size_t n),
		 (r, minus, l, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		minus[i] = r[i] < 0.0f;
		r[i] -= r[i] < 0.0f ? l.minus : l.plus;
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

TW_CLONED_STATIC(void, unpack, (float *out, const uint8_t *bits, struct levels l, size_t n),
		 (out, bits, l, n))
{
	uint32_t plus, minus;

	memcpy(&plus, &l.plus, sizeof plus);
	memcpy(&minus, &l.minus, sizeof minus);
	for (size_t at = 0; at < n; at += 8) {
		const uint32_t eight = bits[at / 8];
		uint32_t to[8];

		for (unsigned k = 0; k < 8; k++)
			to[k] = plus ^ ((plus ^ minus) & -(eight >> k & 1));
		if (n - at >= 8)
			memcpy(out + at, to, sizeof to);
		else
			memcpy(out + at, to, (n - at) * sizeof *to);
	}
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const struct onebit_options *o = options;
	const size_t tile = o->tile;
	uint8_t minus[MOST + 8];
	float *const owed = state;

	(void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	for (size_t at = 0; at < n; at += tile) {
		const size_t m = n - at < tile ? n - at : tile;
		const struct levels l = levels_of(o, owed + at, x + at, m);

		tw_put_f32(out, l.plus);
		if (o->means == TWO)
			tw_put_f32(out + sizeof(float), l.minus);
		split(owed + at, minus, l, m);
		memset(minus + m, 0, 8);
		pack(out + head_bytes(o), minus, (m + 7) / 8);
		out += tile_bytes(o, m);
	}
	*len = bound(options, n);
	return TW_OK;
}

static struct levels read_levels(const struct onebit_options *o, const uint8_t *bytes)
{
	const float plus = tw_get_f32(bytes);

	return (struct levels){ plus, o->means == TWO ? tw_get_f32(bytes + sizeof(float)) : -plus };
}

static enum tw_status decode(const void *options, const uint8_t *bytes, size_t len, float *out,
			     size_t n)
{
	const struct onebit_options *o = options;
	const size_t tile = o->tile, head = head_bytes(o);

	if (len != bound(options, n))
		return TW_BAD_BYTES;
	for (size_t at = 0; at < n; at += tile) {
		const size_t m = n - at < tile ? n - at : tile;
		const struct levels l = read_levels(o, bytes);

		if (!(l.plus >= 0.0f && l.plus <= FLT_MAX) ||
		    !(l.minus <= 0.0f && l.minus >= -FLT_MAX) ||
		    (m % 8 && bytes[head + m / 8] >> (m % 8)))
			return TW_BAD_BYTES;
		unpack(out + at, bytes + head, l, m);
		bytes += tile_bytes(o, m);
	}
	return TW_OK;
}

const struct tw_codec tw_codec_onebit = {
	.name = "onebit",
	.help = "a bit for each value and a mean, or one for each sign, for each tile; the rest is "
		"kept (EF-signSGD; with means: two 1-bit SGD)",
	.options = rows,
	.options_bytes = sizeof(struct onebit_options),
	.traits = TW_CODEC_REMEMBERS,
	.state_bytes = tw_residual_bytes,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
