/* SPDX-License-Identifier: Apache-2.0 */
/* fp32.c - the values as they are.
 *
 * Bytes: n IEEE single floats, little endian. */
#include "strategy/codec.h"
#include "vec/vec.h"

#include <string.h>

_Static_assert(sizeof(float) == 4, "the wire's floats are the memory's");

static size_t bound(const void *options, size_t n)
{
	(void)options;
	return n * sizeof(float);
}

/* memory <-> wire; `to` and `from` do not overlap */
static void carry(void *to, const void *from, size_t n)
{
	if (n)
		memcpy(to, from, n * sizeof(float));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, (uint8_t *)to + 4 * i, sizeof bits);
		bits = __builtin_bswap32(bits);
		memcpy((uint8_t *)to + 4 * i, &bits, sizeof bits);
	}
#endif
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	(void)state, (void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	carry(out, x, n);
	*len = bound(options, n);
	return TW_OK;
}

static enum tw_status decode(const void *options, const uint8_t *bytes, size_t len, float *out,
			     size_t n)
{
	(void)options;
	if (len % sizeof(float) || len / sizeof(float) != n)
		return TW_BAD_BYTES;
	carry(out, bytes, n);
	return tw_vec_finite(out, n) ? TW_OK : TW_BAD_BYTES;
}

const struct tw_codec tw_codec_fp32 = {
	.name = "fp32",
	.help = "four bytes per value, exact",
	.traits = TW_CODEC_LOSSLESS | TW_CODEC_IDENTITY | TW_CODEC_DOWN,
	.bound = bound,
	.encode = encode,
	.decode = decode,
};
