/* SPDX-License-Identifier: Apache-2.0 */
/* sparseloco.c - for deltas: the largest values of each chunk in two bits, with a memory that fades
 * (SparseLoCo, Sarfi et al. 2025).
 *
 *	r = decay * r + x; of each chunk send the k values of r that are furthest from 0, each as
 *	plus or minus the mean of the larger or of the smaller half of them; r = r - what was sent
 *
 * The halves are those above and below the mean size of the k.  What the decay takes away is never
 * sent.  Chunks begin with the slice: results do not depend on shards whose borders are multiples
 * of the chunk.
 *
 * Bytes, chunk by chunk: f32 smaller mean, f32 larger mean, then 14 bits for each of k values in
 * ascending order of index: 12 of index, 1 for larger, 1 for negative.  Bits are counted from the
 * lowest of each byte; those left over are 0. */
#include "strategy/sparse.h"
#include "vec/clone.h"

#include <math.h>

#define CHUNK 4096
#define BITS  14
#define MEANS (2 * sizeof(float))

struct sparseloco_options {
	uint32_t keep;
	float decay;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct sparseloco_options, keep, TW_U32, "64", "values", 1, CHUNK / 4,
		  "values that are sent of each chunk of 4096"),
	TW_OPTION(struct sparseloco_options, decay, TW_F32, "0.95", NULL, 0, 1,
		  "what is left of the residual at each push"),
	TW_OPTION_END
};

/* Values sent of a chunk of n. */
static size_t sent_of(const void *options, size_t n)
{
	const size_t keep = ((const struct sparseloco_options *)options)->keep;

	return (keep * n + CHUNK - 1) / CHUNK;
}

static size_t chunk_bytes(const void *options, size_t n)
{
	return n ? MEANS + (sent_of(options, n) * BITS + 7) / 8 : 0;
}

static size_t bound(const void *options, size_t n)
{
	return n / CHUNK * chunk_bytes(options, CHUNK) + chunk_bytes(options, n % CHUNK);
}

TW_CLONED_STATIC(void, collect, (float *r, const float *x, float decay, size_t n), (r, x, decay, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		r[i] = fmaf(decay, r[i], x[i]);
}

/* Indices of the k largest, ascending. */
static void pick_largest(const float *r, size_t n, size_t k, uint16_t *index)
{
	struct tw_cut cut = tw_sparse_cut(r, n, k);
	size_t count = 0;

	for (size_t i = 0; i < n && count < k; i++) {
		uint32_t size;

		memcpy(&size, &r[i], sizeof size);
		size &= 0x7fffffff;
		if (size < cut.above || (size == cut.above && !cut.ties))
			continue;
		cut.ties -= size == cut.above;
		index[count++] = (uint16_t)i;
	}
}

/* The mean size of the values below and above the mean of all; sums in order of index. */
static void two_means(const float *r, const uint16_t *index, size_t k, float mean[2], float *middle)
{
	double all = 0, sum[2] = { 0 };
	size_t count[2] = { 0 };

	for (size_t j = 0; j < k; j++)
		all += (double)fabsf(r[index[j]]);
	*middle = (float)(all / (double)k);
	for (size_t j = 0; j < k; j++) {
		const float size = fabsf(r[index[j]]);

		sum[size > *middle] += (double)size;
		count[size > *middle]++;
	}
	for (int half = 0; half < 2; half++)
		mean[half] = count[half] ? (float)(sum[half] / (double)count[half]) : 0.0f;
}

static void put_code(uint8_t *bytes, size_t j, uint32_t code)
{
	for (size_t bit = 0; bit < BITS; bit++)
		if (code >> bit & 1)
			bytes[(j * BITS + bit) / 8] |= (uint8_t)(1u << ((j * BITS + bit) % 8));
}

static uint32_t get_code(const uint8_t *bytes, size_t j)
{
	const size_t at = j * BITS / 8, off = j * BITS % 8;
	uint32_t three = (uint32_t)bytes[at] | (uint32_t)bytes[at + 1] << 8;

	if (off + BITS > 16)
		three |= (uint32_t)bytes[at + 2] << 16;
	return three >> off & ((1u << BITS) - 1);
}

static void encode_chunk(float *r, size_t n, size_t k, uint8_t *out)
{
	uint16_t index[CHUNK / 4];
	float mean[2], middle;

	pick_largest(r, n, k, index);
	two_means(r, index, k, mean, &middle);
	tw_put_f32(out, mean[0]);
	tw_put_f32(out + sizeof(float), mean[1]);
	memset(out + MEANS, 0, (k * BITS + 7) / 8);
	for (size_t j = 0; j < k; j++) {
		float *const at = &r[index[j]];
		const bool larger = fabsf(*at) > middle, negative = *at < 0.0f;

		put_code(out + MEANS, j,
			 index[j] | (uint32_t)larger << 12 | (uint32_t)negative << 13);
		*at -= negative ? -mean[larger] : mean[larger];
	}
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	float *const r = state;

	(void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	collect(r, x, ((const struct sparseloco_options *)options)->decay, n);
	for (size_t at = 0; at < n; at += CHUNK) {
		const size_t m = n - at < CHUNK ? n - at : CHUNK;

		encode_chunk(r + at, m, sent_of(options, m), out);
		out += chunk_bytes(options, m);
	}
	*len = bound(options, n);
	return TW_OK;
}

static bool chunk_is_valid(const uint8_t *bytes, size_t n, size_t k)
{
	const size_t bits = k * BITS;
	uint32_t next = 0;

	for (int half = 0; half < 2; half++) {
		const float mean = tw_get_f32(bytes + half * (int)sizeof(float));

		if (!(mean >= 0.0f) || !isfinite(mean))
			return false;
	}
	if (bits % 8 && bytes[MEANS + bits / 8] >> (bits % 8))
		return false;
	for (size_t j = 0; j < k; j++) {
		const uint32_t i = get_code(bytes + MEANS, j) & (CHUNK - 1);

		if (i < next || i >= n)
			return false;
		next = i + 1;
	}
	return true;
}

static enum tw_status check(const void *options, const uint8_t *bytes, size_t len, size_t n,
			    size_t *sent)
{
	*sent = 0;
	if (len != bound(options, n))
		return TW_BAD_BYTES;
	for (size_t at = 0; at < n; at += CHUNK) {
		const size_t m = n - at < CHUNK ? n - at : CHUNK, k = sent_of(options, m);

		if (!chunk_is_valid(bytes, m, k))
			return TW_BAD_BYTES;
		*sent += k;
		bytes += chunk_bytes(options, m);
	}
	return TW_OK;
}

static void add(const void *options, const uint8_t *bytes, size_t len, float scale, float *out,
		size_t n)
{
	(void)len;
	for (size_t at = 0; at < n; at += CHUNK) {
		const size_t m = n - at < CHUNK ? n - at : CHUNK, k = sent_of(options, m);
		const float mean[2] = { tw_get_f32(bytes), tw_get_f32(bytes + sizeof(float)) };

		for (size_t j = 0; j < k; j++) {
			const uint32_t code = get_code(bytes + MEANS, j);
			float *const to = out + at + (code & (CHUNK - 1));
			const float size = mean[code >> 12 & 1];

			*to = fmaf(scale, code >> 13 ? -size : size, *to);
		}
		bytes += chunk_bytes(options, m);
	}
}

const struct tw_codec tw_codec_sparseloco = {
	.name = "sparseloco",
	.help = "for deltas: the largest of each 4096 values in two bits; what is kept fades",
	.options = rows,
	.options_bytes = sizeof(struct sparseloco_options),
	.traits = TW_CODEC_REMEMBERS | TW_CODEC_FADES,
	.state_bytes = tw_residual_bytes,
	.bound = bound,
	.encode = encode,
	.check = check,
	.add = add,
};
