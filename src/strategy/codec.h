/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - how does a vector travel? */
#ifndef TW_STRATEGY_CODEC_H
#define TW_STRATEGY_CODEC_H

#include "base/option.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_codec_traits {
	TW_CODEC_LOSSLESS = 1, /* decode(encode(x)) == x, bit for bit */
	TW_CODEC_IDENTITY =
		2, /* the bytes are the floats themselves: used in place, never copied */
	TW_CODEC_REMEMBERS = 4, /* what a step drops, a later step sends (has a residual) */
	TW_CODEC_DOWN = 8,      /* may carry parameters down, not only gradients up */
};

struct tw_codec {
	const char *name, *help;
	const struct tw_option *options;
	size_t options_bytes;
	uint32_t traits;

	/* Bytes of state for n values, zero at the start; NULL: 0.  If it REMEMBERS, the residual
	 * comes first, n floats.  What was not applied is added to it between two encodings, and
	 * all of the state is in the worker's part of a checkpoint. */
	size_t (*state_bytes)(const void *options, size_t n);
	/* The longest encoding of n values. */
	size_t (*bound)(const void *options, size_t n);
	/* Encode n finite values.  *len is the room at `out` and becomes the length used;
	 * TW_NO_ROOM if it was less than bound(n).  `draw` names the draws (a: first sample
	 * position; b: element). */
	enum tw_status (*encode)(const void *options, void *state, const struct tw_rng *rng,
				 uint64_t draw, const float *x, size_t n, uint8_t *out,
				 size_t *len);
	/* Decode exactly n values from exactly len bytes; TW_BAD_BYTES for any other length and
	 * for bytes that hold a value that is not finite.  `out` is rubbish then. */
	enum tw_status (*decode)(const void *options, const uint8_t *bytes, size_t len, float *out,
				 size_t n);
};

extern const struct tw_codec *const tw_codec_all[];
const struct tw_codec *tw_codec_find(const char *name);

#endif
