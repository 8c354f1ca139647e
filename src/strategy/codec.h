/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - how does a vector travel? */
#ifndef TW_STRATEGY_CODEC_H
#define TW_STRATEGY_CODEC_H

#include "base/rng.h"
#include "base/status.h"
#include "base/variant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tw_codec_traits {
	TW_CODEC_LOSSLESS = 1, /* decode(encode(x)) == x, bit for bit */
	TW_CODEC_IDENTITY =
		2, /* the bytes are the floats themselves: used in place, never copied */
	TW_CODEC_REMEMBERS = 4,  /* what a step drops, a later step sends (has a residual) */
	TW_CODEC_DOWN = 8,       /* may carry parameters down, not only gradients up */
	TW_CODEC_PER_SLICE = 16, /* what is sent of a value depends on the others of its slice.
				    Without this, results do not depend on the number of shards
				    (with a scale per tile: on borders at multiples of it) */
	/* What is sent does not add up to what was given: */
	TW_CODEC_MOMENTUM = 32, /* it has momentum of its own, for a rule without */
	TW_CODEC_FADES = 64, /* what it keeps decays: for deltas, where the next makes up for it */
};

/* What an encoding is of, besides its values. */
struct tw_encoding {
	const struct tw_rng *rng;
	uint64_t draw;   /* names the draws (a of rng.h): the first sample position of a
			   contribution, or TW_DRAW_DOWN and the version of a view */
	uint64_t first;  /* x[0] is this element of the whole vector: a draw for x[i] is for
			   first + i (b of rng.h), so no two shards draw the same */
	double progress; /* of the run, in epochs: position of the first sample / size; of a view,
			    what is applied */
};
#define TW_DRAW_DOWN (UINT64_C(1) << 63)

struct tw_codec {
	TW_VARIANT; /* traits: of enum tw_codec_traits */

	/* Bytes of state for n values, zero at the start; NULL: 0.  If it REMEMBERS, the residual
	 * comes first, n floats.  What was not applied is added to it between two encodings, and
	 * all of the state is in the worker's part of a checkpoint. */
	size_t (*state_bytes)(const void *options, size_t n);
	/* The room that encoding n values takes, no less than the longest encoding. */
	size_t (*bound)(const void *options, size_t n);
	/* What an encoding of n values usually takes, for predictions; 0: that depends on the
	 * values.  NULL: all of `bound`, whatever the values are. */
	double (*usual)(const void *options, size_t n);
	/* Encode n values.  *len is the room at `out` and becomes the length used; TW_NO_ROOM if it
	 * was less than bound(n), and nothing has changed.  A codec that REMEMBERS is given finite
	 * values only; of others, what has a value that is not finite is refused by decode. */
	enum tw_status (*encode)(const void *options, void *state, const struct tw_encoding *of,
				 const float *x, size_t n, uint8_t *out, size_t *len);
	/* Decode exactly n values from exactly len bytes; TW_BAD_BYTES for any other length and
	 * for bytes that hold a value that is not finite.  `out` is rubbish then.  NULL: the codec
	 * is sparse (call tw_codec_decode). */
	enum tw_status (*decode)(const void *options, const uint8_t *bytes, size_t len, float *out,
				 size_t n);

	/* A sparse codec, which sends few of the values, has both of these instead of `decode`.
	 * `check` refuses what decode must refuse, and says how many values were sent.  `add` does
	 * out[i] = fmaf(scale, value, out[i]) for each of those, and takes time for those alone;
	 * only for bytes that passed the check. */
	enum tw_status (*check)(const void *options, const uint8_t *bytes, size_t len, size_t n,
				size_t *sent);
	void (*add)(const void *options, const uint8_t *bytes, size_t len, float scale, float *out,
		    size_t n);
};

/* `state_bytes` of a codec that keeps a residual and nothing else. */
static inline size_t tw_residual_bytes(const void *options, size_t n)
{
	(void)options;
	return n * sizeof(float);
}

TW_REGISTRY(codec, tw_codec);
/* `decode` of any codec. */
enum tw_status tw_codec_decode(const struct tw_codec *codec, const void *options,
			       const uint8_t *bytes, size_t len, float *out, size_t n);

#endif
