/* SPDX-License-Identifier: Apache-2.0 */
/* sign.c - one bit per value, the rest of the value owed to the next step (Seide et al. 2014).
 *
 * Bytes: f32 scale, then ceil(n / 8) bytes; bit i % 8 of byte i / 8 is set where the value is
 * negative.  Little endian.
 *
 * For test/add_variant.sh: a codec with a residual. */
#include "strategy/codec.h"

#include <math.h>
#include <string.h>

static size_t state_bytes(const void *options, size_t n)
{
	(void)options;
	return n * sizeof(float);
}

static size_t bound(const void *options, size_t n)
{
	(void)options;
	return sizeof(float) + (n + 7) / 8;
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	float *owed = state, scale;
	double sum = 0;

	(void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	for (size_t i = 0; i < n; i++) {
		owed[i] += x[i];
		sum += (double)fabsf(owed[i]);
	}
	scale = n ? (float)(sum / (double)n) : 0.0f;
	memcpy(out, &scale, sizeof scale);
	memset(out + sizeof scale, 0, (n + 7) / 8);
	for (size_t i = 0; i < n; i++) {
		const bool minus = owed[i] < 0.0f;

		if (minus)
			out[sizeof scale + i / 8] |= (uint8_t)(1u << (i % 8));
		owed[i] -= minus ? -scale : scale;
	}
	*len = bound(options, n);
	return TW_OK;
}

static enum tw_status decode(const void *options, const uint8_t *bytes, size_t len, float *out,
			     size_t n)
{
	float scale;

	if (len != bound(options, n))
		return TW_BAD_BYTES;
	memcpy(&scale, bytes, sizeof scale);
	if (!isfinite(scale))
		return TW_BAD_BYTES;
	for (size_t i = 0; i < n; i++)
		out[i] = bytes[sizeof scale + i / 8] >> (i % 8) & 1 ? -scale : scale;
	return TW_OK;
}

const struct tw_codec tw_codec_sign = {
	.name = "sign",
	.help = "one bit per value and a common length; what is left over is sent later",
	.traits = TW_CODEC_REMEMBERS | TW_CODEC_PER_SLICE,
	.state_bytes = state_bytes,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
