/* SPDX-License-Identifier: Apache-2.0 */
/* forge.h - other samples of the same XXH3-64: why data sets are not known by it.
 *
 * XXH3-64 of a long input takes blocks of 16 stripes of 64 bytes.  A stripe has eight lanes of 64
 * bits.  For lane i of stripe n, with its value v and the public secret k at byte 8(n + i):
 *
 *	acc[i ^ 1] += v
 *	acc[i]     += low32(v ^ k) * high32(v ^ k)
 *
 * So a block is known by two sums per lane, S of the values and P of the products, and by nothing
 * else.  Twelve stripes may be anything; four repair the sums of every lane:
 *
 *	stripe 12: low 2^32 - 1, high q   \  with P = q (2^32 - 1) + r: they give all of P
 *	stripe 13: low 1,        high r   /
 *	stripe 14: high 0, low free       \  both products are 0: they give any S
 *	stripe 15: low 0, high free       /  */
#ifndef TW_TEST_DATA_FORGE_H
#define TW_TEST_DATA_FORGE_H

#define XXH_INLINE_ALL /* for its secret */
#include <xxhash.h>

#include "data/data.h"

#include <stdlib.h>
#include <string.h>

#define FORGE_BLOCK 1024u
#define FORGE_FROM  36u /* bytes that were hashed before the values: seven facts and a count */

static inline uint64_t forge_word(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof v);
	return v;
}

static inline uint64_t forge_product(uint64_t key)
{
	return (key & UINT32_MAX) * (key >> 32);
}

/* Make other bytes of a block: all inverted but the last four stripes. */
static inline bool forge_block(uint8_t *block)
{
	for (size_t i = 0; i < 8; i++) {
		uint64_t sum = 0, products = 0, k[16], v[16], x;

		for (size_t n = 0; n < 16; n++) {
			uint8_t *at = block + 64 * n + 8 * i;

			k[n] = forge_word(XXH3_kSecret + 8 * (n + i));
			v[n] = forge_word(at);
			sum += v[n];
			products += forge_product(v[n] ^ k[n]);
			if (n >= 12)
				continue;
			v[n] = ~v[n];
			sum -= v[n];
			products -= forge_product(v[n] ^ k[n]);
		}
		if (products / UINT32_MAX > UINT32_MAX) /* one of 2^32 lanes */
			return false;
		v[12] = k[12] ^ (products / UINT32_MAX << 32 | UINT32_MAX);
		v[13] = k[13] ^ (products % UINT32_MAX << 32 | 1);
		sum -= v[12] + v[13];
		x = (sum - k[15]) & UINT32_MAX;
		v[14] = (k[14] >> 32 << 32) | x;
		v[15] = (sum - v[14]) >> 32 << 32 | (k[15] & UINT32_MAX);
		for (size_t n = 0; n < 16; n++)
			memcpy(block + 64 * n + 8 * i, &v[n], sizeof v[n]);
	}
	return true;
}

/* Forge the bytes of a training set; returns how many of them are in whole blocks. */
static inline size_t forge_values(uint8_t *values, size_t bytes)
{
	size_t forged = 0;

	for (size_t at = FORGE_BLOCK; at + FORGE_BLOCK <= FORGE_FROM + bytes; at += FORGE_BLOCK)
		forged += forge_block(values + at - FORGE_FROM) ? FORGE_BLOCK : 0;
	return forged;
}

/* XXH3-64 of what a data set once was known by: shape, values and labels of all sets. */
static inline uint64_t forge_xxh(const struct tw_data *d)
{
	const uint32_t facts[] = { d->rank,           d->shape[0], d->shape[1], d->shape[2],
				   (uint32_t)d->kind, d->classes,  d->targets };
	const struct tw_samples *const sets[] = { &d->train, &d->test, &d->validation };
	const size_t width = d->features * (d->kind == TW_VALUE_U8 ? 1 : sizeof(float));
	const size_t answer = (d->targets ? d->targets : 1) * sizeof(float);
	size_t n = sizeof facts, at = 0;
	uint8_t *stream;
	uint64_t hash;

	for (int k = 0; k < 3; k++)
		n += sizeof sets[k]->count + sets[k]->count * (width + answer);
	stream = malloc(n);
	if (!stream)
		return 0;
	memcpy(stream, facts, sizeof facts);
	at += sizeof facts;
	for (int k = 0; k < 3; k++) {
		const struct tw_samples *s = sets[k];

		memcpy(stream + at, &s->count, sizeof s->count);
		at += sizeof s->count;
		if (!s->count)
			continue;
		memcpy(stream + at, s->value, s->count * width);
		at += s->count * width;
		memcpy(stream + at, d->targets ? (const void *)s->target : s->label,
		       s->count * answer);
		at += s->count * answer;
	}
	hash = XXH3_64bits(stream, n);
	free(stream);
	return hash;
}

/* The head of a set's bytes (data/format/set_file.h) says that it is the set of this fingerprint.
 * */
static inline void forge_head(uint8_t *set, const struct tw_sha *fingerprint)
{
	uint64_t hash;

	memcpy(set + 64, fingerprint, sizeof *fingerprint);
	hash = XXH3_64bits(set, 120);
	memcpy(set + 120, &hash, sizeof hash);
}

#endif
