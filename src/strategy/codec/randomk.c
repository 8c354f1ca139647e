/* SPDX-License-Identifier: Apache-2.0 */
/* randomk.c - values drawn at random, exactly; the others are added up until they are drawn.
 *
 *	r = r + x; of each of k equal stretches of r one value is drawn, sent, and set to 0
 *
 * Both ends draw the same values, so no indices travel.  k is a share of the slice.
 *
 * Bytes: u64 key of the draws, then k f32. */
#include "strategy/sparse.h"
#include "vec/vec.h"

#include <math.h>

#define KEY 8

struct randomk_options {
	double share;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct randomk_options, share, TW_F64, "0.01", NULL, 1e-6, 1.0,
		  "the share of the values that is sent, of each shard"),
	TW_OPTION_END
};

static size_t sent_of(const void *options, size_t n)
{
	return tw_sparse_count(((const struct randomk_options *)options)->share, n);
}

static size_t bound(const void *options, size_t n)
{
	return KEY + sent_of(options, n) * sizeof(float);
}

static struct tw_rng key_at(const uint8_t *bytes)
{
	return (struct tw_rng){ .key = { tw_get_u32(bytes), tw_get_u32(bytes + 4) } };
}

/* The stretches of a slice, one after the other: the value that is drawn from the next one. */
struct stretches {
	struct tw_rng rng;
	size_t k, n, j;
	uint64_t from;  /* of stretch j: floor(j * n / k) ... */
	uint64_t rest;  /* ... and j * n % k */
	uint64_t named; /* two draws */
};

static size_t next_drawn(struct stretches *s)
{
	const uint64_t wide = s->n / s->k, rest = s->rest + s->n % s->k;
	const uint64_t from = s->from, to = from + wide + (rest >= s->k);
	uint32_t u;

	if (s->j % 2 == 0)
		s->named = tw_rng_u64(&s->rng, 0, s->j / 2);
	u = (uint32_t)(s->j++ % 2 ? s->named >> 32 : s->named);
	s->from = to;
	s->rest = rest >= s->k ? rest - s->k : rest;
	return from + (u * (to - from) >> 32);
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const size_t k = sent_of(options, n);
	const uint64_t key = tw_rng_u64(of->rng, of->draw, of->first);
	float *const owed = state;
	struct stretches s;

	if (*len < bound(options, n))
		return TW_NO_ROOM;
	tw_put_u32(out, (uint32_t)key);
	tw_put_u32(out + 4, (uint32_t)(key >> 32));
	s = (struct stretches){ .rng = key_at(out), .k = k, .n = n };
	tw_vec_add(owed, x, n);
	for (size_t j = 0; j < k; j++) {
		const size_t i = next_drawn(&s);

		tw_put_f32(out + KEY + 4 * j, owed[i]);
		owed[i] = 0.0f;
	}
	*len = bound(options, n);
	return TW_OK;
}

static enum tw_status check(const void *options, const uint8_t *bytes, size_t len, size_t n,
			    size_t *sent)
{
	*sent = sent_of(options, n);
	if (len != bound(options, n))
		return TW_BAD_BYTES;
	for (size_t j = 0; j < *sent; j++)
		if (!isfinite(tw_get_f32(bytes + KEY + 4 * j)))
			return TW_BAD_BYTES;
	return TW_OK;
}

static void add(const void *options, const uint8_t *bytes, size_t len, float scale, float *out,
		size_t n)
{
	const size_t k = sent_of(options, n);
	struct stretches s = { .rng = key_at(bytes), .k = k, .n = n };

	(void)len;
	for (size_t j = 0; j < k; j++) {
		float *const to = out + next_drawn(&s);

		*to = fmaf(scale, tw_get_f32(bytes + KEY + 4 * j), *to);
	}
}

const struct tw_codec tw_codec_randomk = {
	.name = "randomk",
	.help = "values drawn at random, exactly; the rest is kept until it is drawn",
	.options = rows,
	.options_bytes = sizeof(struct randomk_options),
	.traits = TW_CODEC_REMEMBERS | TW_CODEC_PER_SLICE,
	.state_bytes = tw_residual_bytes,
	.bound = bound,
	.encode = encode,
	.check = check,
	.add = add,
};
