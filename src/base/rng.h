/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - Philox 4x32-10: numbers drawn for a thing, never by whoever happens to draw.
 *
 * A stream is (seed, purpose); a draw names its counter (a, b).  There is no state to keep, so a
 * sample dealt again, or to another worker, sees the same noise. */
#ifndef TW_BASE_RNG_H
#define TW_BASE_RNG_H

#include <stdint.h>

enum tw_purpose {
	TW_RNG_INIT = 1, /* a: tensor, b: element */
	TW_RNG_SHUFFLE,  /* a: epoch, b: round of the permutation */
	TW_RNG_NOISE,    /* a: sample, b: element: an engine's gradient noise */
	TW_RNG_PROBLEM,  /* a: what, b: element: an engine's made-up problem */
	TW_RNG_CODEC,    /* a: first sample position, b: element */
	TW_RNG_SKIP,     /* a: slot, b: step: B-FASGD's coin */
	TW_RNG_SIM,      /* a: node or link, b: event */
	TW_RNG_FAULT,    /* a: fault, b: field */
	TW_RNG_TEST,     /* the tests' own */
	TW_RNG_DROPOUT,  /* a: sample position, b: layer << 32 | element / 4 */
	TW_RNG_AUGMENT,  /* a: sample position, b: what is drawn; gauss: element */
	TW_RNG_SPLIT,    /* a permutation: which samples are held out */
	TW_RNG_PARTNER,  /* a: rank of a replica, b: number of its exchange */
	TW_RNG_ACT,      /* a: first sample position, b: stage << 33 | back << 32, and element */
	TW_RNG_GENERATE, /* a: which token of those generated, b: 0 */
	TW_RNG_PLAN,     /* a: what of a plan, b: which; the seed is the number of a start */
};

struct tw_rng {
	uint32_t key[2];
};

/* Ten rounds of Philox 4x32 on `blocks` blocks at once: word w of block i is x[w * blocks + i], so
 * that with a constant number of them the loop is a plain vector one, for its caller's target. */
static inline __attribute__((always_inline)) void tw_philox_rounds(const uint32_t key[2],
								   uint32_t *x, uint32_t blocks)
{
	uint32_t k0 = key[0], k1 = key[1];

	for (int round = 0; round < 10; round++) {
		for (uint32_t i = 0; i < blocks; i++) {
			const uint64_t p = (uint64_t)0xD2511F53u * x[i];
			const uint64_t q = (uint64_t)0xCD9E8D57u * x[2 * blocks + i];

			x[i] = (uint32_t)(q >> 32) ^ x[blocks + i] ^ k0;
			x[2 * blocks + i] = (uint32_t)(p >> 32) ^ x[3 * blocks + i] ^ k1;
			x[blocks + i] = (uint32_t)q;
			x[3 * blocks + i] = (uint32_t)p;
		}
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}

/* The block cipher itself, for one block. */
void tw_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

struct tw_rng tw_rng_make(uint64_t seed, enum tw_purpose purpose);
uint64_t tw_rng_u64(const struct tw_rng *r, uint64_t a, uint64_t b);
double tw_rng_uniform(const struct tw_rng *r, uint64_t a, uint64_t b); /* in (0, 1), both open */
double tw_rng_gauss(const struct tw_rng *r, uint64_t a, uint64_t b);   /* mean 0, variance 1 */
/* Fill out[0..n) with gauss draws for elements first..first+n of `a`. */
void tw_rng_gauss_fill(const struct tw_rng *r, uint64_t a, uint64_t first, float *out, uint64_t n);
/* A bijection of [0, size) for `a` (a small Feistel network with cycle walking): the epoch's
 * shuffled order without an array of it. */
uint64_t tw_rng_permute(const struct tw_rng *r, uint64_t a, uint64_t size, uint64_t i);

#endif
