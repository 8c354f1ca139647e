/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - Philox 4x32-10 (Salmon et al., 2011), and what is drawn from it.
 *
 * Normal numbers come four to a block (element i: block i / 4, lane i % 4) by Box and Muller,
 * with a logarithm, sine and cosine of our own: only + - * / and sqrt in double, without branches,
 * so they run in vectors and give the same bits on every machine, which libm does not promise. */
#include "base/rng.h"
#include "base/machine/isa.h"
#include "base/status.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Kinds of draws that share a stream have keys of their own. */
#define KEY_GAUSS   0x67617573u
#define KEY_PERMUTE 0x7065726du

#define INLINE static inline __attribute__((always_inline))

void tw_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
	uint32_t x[4] = { counter[0], counter[1], counter[2], counter[3] };

	tw_philox_rounds(key, x, 1);
	memcpy(out, x, sizeof x);
}

struct tw_rng tw_rng_make(uint64_t seed, enum tw_purpose purpose)
{
	const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
	uint32_t x[4] = { (uint32_t)purpose, 0, 0, 0 };

	tw_philox_rounds(key, x, 1);
	return (struct tw_rng){ .key = { x[0], x[1] } };
}

/* The block of counter (a, b) for one kind of draw. */
INLINE void block(const struct tw_rng *r, uint32_t kind, uint64_t a, uint64_t b, uint32_t x[4])
{
	const uint32_t key[2] = { r->key[0] ^ kind, r->key[1] };

	x[0] = (uint32_t)b;
	x[1] = (uint32_t)(b >> 32);
	x[2] = (uint32_t)a;
	x[3] = (uint32_t)(a >> 32);
	tw_philox_rounds(key, x, 1);
}

uint64_t tw_rng_u64(const struct tw_rng *r, uint64_t a, uint64_t b)
{
	uint32_t x[4];

	block(r, 0, a, b, x);
	return (uint64_t)x[1] << 32 | x[0];
}

double tw_rng_uniform(const struct tw_rng *r, uint64_t a, uint64_t b)
{
	return ((double)(tw_rng_u64(r, a, b) >> 12) + 0.5) * 0x1p-52;
}

INLINE double from_bits(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

INLINE uint64_t to_bits(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof bits);
	return bits;
}

/* x as a double, by way of the exponent of 2^52: no conversion that some machines lack. */
INLINE double of_u32(uint32_t x)
{
	return from_bits(0x4330000000000000u | x) - 0x1p52;
}

/* Natural logarithm of u in (0, 1]: u = 2^e * m with m in [sqrt(1/2), sqrt(2)), and
 * log m = 2 atanh((m - 1) / (m + 1)). */
INLINE double ln(double u)
{
	const uint64_t one = 0x3ff0000000000000u, root = 0x3fe6a09e667f3bcdu;
	const uint64_t bits = to_bits(u), top = (bits + (one - root)) >> 52; /* e + 1023 */
	const double e = from_bits(0x4330000000000000u | top) - (0x1p52 + 1023);
	const double m = from_bits(bits + one - (top << 52));
	const double s = (m - 1) / (m + 1), z = s * s;
	double p = 2.0 / 21;

	p = p * z + 2.0 / 19;
	p = p * z + 2.0 / 17;
	p = p * z + 2.0 / 15;
	p = p * z + 2.0 / 13;
	p = p * z + 2.0 / 11;
	p = p * z + 2.0 / 9;
	p = p * z + 2.0 / 7;
	p = p * z + 2.0 / 5;
	p = p * z + 2.0 / 3;
	return e * 0.69314718055994530942 + (s * 2 + s * z * p);
}

/* Sine and cosine of the angle that is (x + 1/2) / 2^32 of a turn: the nearest quarter turn, and
 * Taylor's series for the rest, at most an eighth. */
INLINE void turn(uint32_t x, double *sine, double *cosine)
{
	const uint32_t quarter = (x + (1u << 29)) >> 30;
	const double rest = of_u32(x - (quarter << 30) + (1u << 31)) - (0x1p31 - 0.5);
	const double t = rest * (6.28318530717958647693 * 0x1p-32), z = t * t;
	const uint64_t swap = 0 - (uint64_t)(quarter & 1);
	const uint64_t minus_sine = (uint64_t)(quarter & 2) << 62;
	const uint64_t minus_cosine = (uint64_t)((quarter + 1) & 2) << 62;
	double s = -1.0 / 1307674368000, c = -1.0 / 87178291200;

	s = s * z + 1.0 / 6227020800;
	s = s * z - 1.0 / 39916800;
	s = s * z + 1.0 / 362880;
	s = s * z - 1.0 / 5040;
	s = s * z + 1.0 / 120;
	s = s * z - 1.0 / 6;
	s = t + t * z * s;
	c = c * z + 1.0 / 479001600;
	c = c * z - 1.0 / 3628800;
	c = c * z + 1.0 / 40320;
	c = c * z - 1.0 / 720;
	c = c * z + 1.0 / 24;
	c = c * z - 1.0 / 2;
	c = 1 + z * c;
	*sine = from_bits(((to_bits(s) & ~swap) | (to_bits(c) & swap)) ^ minus_sine);
	*cosine = from_bits(((to_bits(c) & ~swap) | (to_bits(s) & swap)) ^ minus_cosine);
}

/* Two normal numbers from two words. */
INLINE void pair(uint32_t x, uint32_t y, double *first, double *second)
{
	const double radius = sqrt(-2 * ln((of_u32(x) + 0.5) * 0x1p-32));
	double sine, cosine;

	turn(y, &sine, &cosine);
	*first = radius * cosine;
	*second = radius * sine;
}

double tw_rng_gauss(const struct tw_rng *r, uint64_t a, uint64_t b)
{
	uint32_t x[4];
	double v[2];

	block(r, KEY_GAUSS, a, b / 4, x);
	pair(x[b & 2], x[(b & 2) + 1], &v[0], &v[1]);
	return v[b & 1];
}

#define BATCH 64
#define FEW   4

/* `blocks` (at most BATCH, and constant) at once, in plain vector loops. */
INLINE void fill_blocks(const struct tw_rng *r, uint64_t a, uint64_t first, uint32_t blocks,
			float *out)
{
	const uint32_t key[2] = { r->key[0] ^ KEY_GAUSS, r->key[1] };
	uint32_t x[4 * BATCH];

	for (uint32_t i = 0; i < blocks; i++) {
		x[i] = (uint32_t)(first + i);
		x[blocks + i] = (uint32_t)((first + i) >> 32);
		x[2 * blocks + i] = (uint32_t)a;
		x[3 * blocks + i] = (uint32_t)(a >> 32);
	}
	tw_philox_rounds(key, x, blocks);
	for (uint32_t half = 0; half < 4; half += 2)
		for (uint32_t i = 0; i < blocks; i++) {
			double v, w;

			pair(x[half * blocks + i], x[(half + 1) * blocks + i], &v, &w);
			out[4 * i + half] = (float)v;
			out[4 * i + half + 1] = (float)w;
		}
}

/* Elements first..first+n: whole batches, and what is left at both ends a few blocks at a time. */
INLINE void fill(const struct tw_rng *r, uint64_t a, uint64_t first, float *out, uint64_t n)
{
	while (n > 0) {
		const uint64_t skip = first % 4;
		uint64_t m = 4 * BATCH;

		if (skip == 0 && n >= m) {
			fill_blocks(r, a, first / 4, BATCH, out);
		} else {
			float few[4 * FEW];

			m = 4 * FEW - skip < n ? 4 * FEW - skip : n;
			fill_blocks(r, a, first / 4, FEW, few);
			memcpy(out, few + skip, m * sizeof *out);
		}
		out += m;
		first += m;
		n -= m;
	}
}

static void fill_plain(const struct tw_rng *r, uint64_t a, uint64_t first, float *out, uint64_t n)
{
	fill(r, a, first, out, n);
}

/* The same operations in wider registers: the same bits. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void fill_avx2(const struct tw_rng *r, uint64_t a,
						      uint64_t first, float *out, uint64_t n)
{
	fill(r, a, first, out, n);
}
#endif

void tw_rng_gauss_fill(const struct tw_rng *r, uint64_t a, uint64_t first, float *out, uint64_t n)
{
#if defined(__x86_64__)
	if (tw_isa() >= TW_ISA_AVX2) {
		fill_avx2(r, a, first, out, n);
		return;
	}
#endif
	fill_plain(r, a, first, out, n);
}

/* Murmur's finaliser: the round function needs to look random, the round keys carry the secret. */
INLINE uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
	return x ^ (x >> 33);
}

#define PERMUTE_ROUNDS 6

/* The domain is the smallest power of two that holds `size`, so a walk takes two steps on average
 * at worst; its halves differ by at most one bit and change in turn. */
uint64_t tw_rng_permute(const struct tw_rng *r, uint64_t a, uint64_t size, uint64_t i)
{
	const unsigned bits = size > 1 ? 64 - (unsigned)__builtin_clzll(size - 1) : 0;
	const unsigned low = bits / 2;
	const uint64_t low_mask = (UINT64_C(1) << low) - 1;
	const uint64_t high_mask = (UINT64_C(1) << (bits - low)) - 1;
	uint64_t key[PERMUTE_ROUNDS];

	HOLDS(1, i < size);
	for (unsigned k = 0; k < PERMUTE_ROUNDS; k += 2) {
		uint32_t x[4];

		block(r, KEY_PERMUTE, a, k / 2, x);
		key[k] = (uint64_t)x[1] << 32 | x[0];
		key[k + 1] = (uint64_t)x[3] << 32 | x[2];
	}
	do {
		uint64_t left = i >> low, right = i & low_mask;

		for (unsigned k = 0; k < PERMUTE_ROUNDS; k += 2) {
			left ^= mix(right ^ key[k]) & high_mask;
			right ^= mix(left ^ key[k + 1]) & low_mask;
		}
		i = left << low | right;
	} while (i >= size);
	return i;
}
