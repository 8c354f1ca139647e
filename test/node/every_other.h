/* SPDX-License-Identifier: Apache-2.0 */
/* every_other.h - a codec that remembers, for tests only: it sends every other value, and owes the
 * rest until the next time.
 *
 * Bytes: u32 parity, then the float of each value whose index has that parity.  State: the residual
 * of n floats, then u32 parity of the next encoding: both must survive, or bits change.  Integers
 * stay integers, so sums are exact. */
#ifndef TW_TEST_EVERY_OTHER_H
#define TW_TEST_EVERY_OTHER_H

#include "strategy/codec.h"

#include <math.h>
#include <string.h>

static size_t every_other_state(const void *options, size_t n)
{
	(void)options;
	return n * sizeof(float) + sizeof(uint32_t);
}

static size_t every_other_sent(size_t n, uint32_t parity)
{
	return (n + 1 - parity) / 2;
}

static size_t every_other_bound(const void *options, size_t n)
{
	(void)options;
	return sizeof(uint32_t) + every_other_sent(n, 0) * sizeof(float);
}

static enum tw_status every_other_encode(const void *options, void *state,
					 const struct tw_encoding *of, const float *x, size_t n,
					 uint8_t *out, size_t *len)
{
	float *owed = state;
	uint32_t parity, next;

	(void)of;
	if (*len < every_other_bound(options, n))
		return TW_NO_ROOM;
	memcpy(&parity, owed + n, sizeof parity);
	next = !parity;
	memcpy(owed + n, &next, sizeof next);
	memcpy(out, &parity, sizeof parity);
	for (size_t i = 0; i < n; i++) {
		owed[i] += x[i];
		if (i % 2 != parity)
			continue;
		memcpy(out + sizeof parity + i / 2 * sizeof(float), &owed[i], sizeof(float));
		owed[i] = 0.0f;
	}
	*len = sizeof parity + every_other_sent(n, parity) * sizeof(float);
	return TW_OK;
}

static enum tw_status every_other_decode(const void *options, const uint8_t *bytes, size_t len,
					 float *out, size_t n)
{
	uint32_t parity;

	(void)options;
	if (len < sizeof parity)
		return TW_BAD_BYTES;
	memcpy(&parity, bytes, sizeof parity);
	if (parity > 1 || len != sizeof parity + every_other_sent(n, parity) * sizeof(float))
		return TW_BAD_BYTES;
	for (size_t i = 0; i < n; i++) {
		out[i] = 0.0f;
		if (i % 2 == parity)
			memcpy(&out[i], bytes + sizeof parity + i / 2 * sizeof(float),
			       sizeof(float));
		if (!isfinite(out[i]))
			return TW_BAD_BYTES;
	}
	return TW_OK;
}

static const struct tw_codec every_other = {
	.name = "every-other",
	.help = "for tests",
	.traits = TW_CODEC_REMEMBERS,
	.state_bytes = every_other_state,
	.bound = every_other_bound,
	.encode = every_other_encode,
	.decode = every_other_decode,
};

#endif
