/* SPDX-License-Identifier: Apache-2.0 */
/* fp16.c - IEEE half precision: 11 significant bits, values beyond 65504 become 65504. */
#include "strategy/codec/half.h"

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	(void)options, (void)state, (void)of;
	return tw_half_encode(tw_vec_to_fp16, x, n, out, len);
}

static enum tw_status decode(const void *options, const uint8_t *bytes, size_t len, float *out,
			     size_t n)
{
	(void)options;
	return tw_half_decode(tw_vec_from_fp16, bytes, len, out, n);
}

const struct tw_codec tw_codec_fp16 = {
	.name = "fp16",
	.help = "two bytes per value: 11 significant bits, at most 65504",
	.traits = TW_CODEC_DOWN,
	.bound = tw_half_bound,
	.encode = encode,
	.decode = decode,
};
