/* SPDX-License-Identifier: Apache-2.0 */
/* test_rng.c - Philox against its published answers, and the draws against what they claim. */
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Random123, kat_vectors, "philox4x32 10". */
static void philox_gives_the_published_answers(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], answer[4];
	} known[] = {
		{ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
		  { 0xffffffff, 0xffffffff },
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
		  { 0xa4093822, 0x299f31d0 },
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};

	for (size_t k = 0; k < 3; k++) {
		uint32_t out[4];

		tw_philox(known[k].key, known[k].counter, out);
		assert_memory_equal(out, known[k].answer, sizeof out);
	}
}

static void streams_and_counters_differ(void **state)
{
	enum { SEEDS = 20, PURPOSES = TW_RNG_TEST, A = 5, B = 5 };
	static uint64_t seen[SEEDS * PURPOSES * A * B];
	size_t n = 0;

	for (uint64_t seed = 0; seed < SEEDS; seed++)
		for (int purpose = 1; purpose <= PURPOSES; purpose++) {
			const struct tw_rng r =
				tw_rng_make(seed << (seed % 2 ? 33 : 0), (enum tw_purpose)purpose);

			for (uint64_t a = 0; a < A; a++)
				for (uint64_t b = 0; b < B; b++)
					seen[n++] = tw_rng_u64(&r, a << 30, b << 30);
		}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			assert_true(seen[i] != seen[j]);
}

static void uniforms_are_uniform(void **state)
{
	const struct tw_rng r = tw_rng_make(5, TW_RNG_TEST);
	enum { N = 400000, BINS = 100 };
	uint32_t bin[BINS] = { 0 };
	double chi = 0;

	for (uint64_t k = 0; k < N; k++) {
		const double u = tw_rng_uniform(&r, k % 7, k);

		assert_true(u > 0 && u < 1);
		bin[(int)(u * BINS)]++;
	}
	for (int k = 0; k < BINS; k++) {
		const double d = bin[k] - (double)N / BINS;

		chi += d * d / ((double)N / BINS);
	}
	assert_true(chi > 50 && chi < 160); /* 99 degrees of freedom, five deviations */
}

/* Box and Muller from the cipher's words with libm, as the textbook has it. */
static double textbook_gauss(const struct tw_rng *r, uint64_t a, uint64_t b)
{
	const uint32_t key[2] = { r->key[0] ^ 0x67617573u, r->key[1] };
	const uint64_t block = b / 4;
	const uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)a,
				      (uint32_t)(a >> 32) };
	uint32_t x[4];

	tw_philox(key, counter, x);
	const uint32_t *p = x + (b & 2);
	const double radius = sqrt(-2 * log((p[0] + 0.5) / 4294967296.0));
	const double angle = 2 * acos(-1.0) * ((p[1] + 0.5) / 4294967296.0);

	return radius * (b & 1 ? sin(angle) : cos(angle));
}

static void gauss_is_box_and_muller(void **state)
{
	const struct tw_rng r = tw_rng_make(6, TW_RNG_TEST);

	for (uint64_t a = 0; a < 4; a++)
		for (uint64_t b = 0; b < 100000; b++) {
			const double want = textbook_gauss(&r, a << 33, b),
				     got = tw_rng_gauss(&r, a << 33, b);

			assert_true(fabs(want - got) < 1e-13);
		}
}

static void gauss_has_its_moments(void **state)
{
	const struct tw_rng r = tw_rng_make(7, TW_RNG_TEST);
	enum { N = 1000000 };
	double m1 = 0, m2 = 0, m3 = 0, m4 = 0, lag = 0, last = 0;

	for (uint64_t k = 0; k < N; k++) {
		const double g = tw_rng_gauss(&r, k >> 10, k & 1023);

		m1 += g;
		m2 += g * g;
		m3 += g * g * g;
		m4 += g * g * g * g;
		lag += g * last;
		last = g;
	}
	/* five standard deviations of each estimate */
	assert_true(fabs(m1 / N) < 5 * sqrt(1.0 / N));
	assert_true(fabs(m2 / N - 1) < 5 * sqrt(2.0 / N));
	assert_true(fabs(m3 / N) < 5 * sqrt(15.0 / N));
	assert_true(fabs(m4 / N - 3) < 5 * sqrt(96.0 / N));
	assert_true(fabs(lag / N) < 5 * sqrt(1.0 / N));
}

static void a_fill_is_its_elements(void **state)
{
	static const uint64_t firsts[] = {
		0, 1, 2, 3, 4, 255, 256, 1000003, (UINT64_C(1) << 34) - 9
	};
	static const uint64_t lengths[] = { 0, 1, 2, 3, 4, 5, 7, 8, 255, 256, 257, 259, 600, 1025 };
	const struct tw_rng r = tw_rng_make(8, TW_RNG_TEST);
	float out[1026];

	for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++)
		for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
			const uint64_t n = lengths[k];

			out[n] = 77;
			tw_rng_gauss_fill(&r, 3 + f, firsts[f], out, n);
			assert_true(out[n] == 77);
			for (uint64_t i = 0; i < n; i++)
				assert_true(out[i] ==
					    (float)tw_rng_gauss(&r, 3 + f, firsts[f] + i));
		}
}

static void permutations_are_bijections(void **state)
{
	const struct tw_rng r = tw_rng_make(9, TW_RNG_SHUFFLE);
	static bool met[70000];

	for (uint64_t size = 1; size < 70000; size += size < 300 ? 1 : size / 3 + 17)
		for (uint64_t epoch = 0; epoch < 3; epoch++) {
			memset(met, 0, sizeof met);
			for (uint64_t i = 0; i < size; i++) {
				const uint64_t p = tw_rng_permute(&r, epoch, size, i);

				assert_true(p < size && !met[p]);
				met[p] = true;
			}
		}
	/* and numbers near the end of the type come back in range */
	for (uint64_t i = 0; i < 1000; i++)
		assert_true(tw_rng_permute(&r, 1, UINT64_MAX - 5, UINT64_MAX - 6 - i) <
			    UINT64_MAX - 5);
}

/* Over many epochs each place is visited by each sample about equally often. */
static void permutations_look_drawn(void **state)
{
	enum { SIZE = 10, EPOCHS = 20000 };
	const struct tw_rng r = tw_rng_make(10, TW_RNG_SHUFFLE);
	uint32_t count[SIZE][SIZE] = { { 0 } };
	double chi = 0;

	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
		for (uint64_t i = 0; i < SIZE; i++)
			count[i][tw_rng_permute(&r, epoch, SIZE, i)]++;
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++) {
			const double d = count[i][j] - (double)EPOCHS / SIZE;

			chi += d * d / ((double)EPOCHS / SIZE);
		}
	assert_true(chi < 81 + 5 * sqrt(2 * 81) + 20); /* 81 degrees of freedom */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(philox_gives_the_published_answers),
		cmocka_unit_test(streams_and_counters_differ),
		cmocka_unit_test(uniforms_are_uniform),
		cmocka_unit_test(gauss_is_box_and_muller),
		cmocka_unit_test(gauss_has_its_moments),
		cmocka_unit_test(a_fill_is_its_elements),
		cmocka_unit_test(permutations_are_bijections),
		cmocka_unit_test(permutations_look_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
