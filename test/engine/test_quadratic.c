/* SPDX-License-Identifier: Apache-2.0 */
/* test_quadratic.c - engines against finite differences, their formulas, and their promises: pure,
 * indifferent to cuts and threads, and ready to give up. */
#include "engine/quadratic.h"
#include "base/arena.h"
#include "base/refusing.h"
#include "base/rng.h"
#include "base/machine/isa.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MOST 3000

static struct tw_engine *quadratic(const struct tw_quadratic_options *o, uint64_t samples,
				   uint64_t seed)
{
	struct tw_engine *e = tw_quadratic_open(&tw_heap_system, o, samples, seed);

	assert_non_null(e);
	return e;
}

static struct tw_engine *squares(const struct tw_least_squares_options *o, uint64_t samples,
				 uint64_t seed)
{
	struct tw_engine *e = tw_least_squares_open(&tw_heap_system, o, samples, seed);

	assert_non_null(e);
	return e;
}

static const double one_to_two[] = { 0.25, 2 }, unit[] = { 1 };
#define WIDE                                                                                       \
	{                                                                                          \
		one_to_two, 2                                                                      \
	}
#define ROUND                                                                                      \
	{                                                                                          \
		unit, 1                                                                            \
	}

/* Compute with the parameters in one piece. */
static struct tw_score gradient(const struct tw_engine *e, const float *w, uint64_t from,
				uint32_t count, float *g)
{
	const struct tw_piece whole = { w, 0, e->trainable + e->buffers };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &whole, .pieces = 1 };
	struct tw_score score = { 0 };
	void *scratch = malloc(e->scratch_bytes + 1);

	assert_int_equal(e->class->gradient(e, scratch, &in, g, &score), TW_OK);
	assert_int_equal(score.samples, count);
	assert_true(score.correct == -1);
	free(scratch);
	return score;
}

static double evaluate(const struct tw_engine *e, const float *w, uint64_t from, uint32_t count)
{
	const struct tw_piece whole = { w, 0, e->trainable + e->buffers };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &whole, .pieces = 1 };
	struct tw_score score = { 0 };
	void *scratch = malloc(e->scratch_bytes + 1);

	assert_int_equal(e->class->evaluate(e, scratch, &in, &score), TW_OK);
	assert_int_equal(score.samples, count);
	free(scratch);
	return score.loss;
}

static void random_point(uint64_t seed, float *w, size_t n)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_TEST);

	tw_rng_gauss_fill(&r, 0, 0, w, n);
}

/* Central differences are exact for quadratics but for rounding. */
static void check_differences(const struct tw_engine *e, const float *g, float *w, double share)
{
	for (size_t i = 0; i < e->trainable; i++) {
		const float kept = w[i];
		double up, down, step;

		w[i] = kept + 0.25f;
		step = w[i];
		up = evaluate(e, w, 0, (uint32_t)e->tests);
		w[i] = kept - 0.25f;
		step -= w[i];
		down = evaluate(e, w, 0, (uint32_t)e->tests);
		w[i] = kept;
		assert_true(fabs(share * (up - down) / step - g[i]) < 1e-4);
	}
}

static void gradients_are_slopes_of_the_loss(void **state)
{
	const struct tw_quadratic_options q = { .dimension = 37, .curvature = WIDE, .target = 2 };
	const struct tw_least_squares_options dense = { .dimension = 13, .noise = 0.5 };
	const struct tw_least_squares_options split = { .dimension = 13,
							.noise = 0.5,
							.blocks = 4 };
	struct tw_engine *e[3] = { quadratic(&q, 10, 1), squares(&dense, 40, 2),
				   squares(&split, 40, 3) };
	float w[64], g[64];

	for (int k = 0; k < 3; k++) {
		const struct tw_engine *one = e[k];
		double loss;

		random_point((uint64_t)k, w, one->trainable);
		/* the whole epoch, so that the mean is over the test set of least squares */
		loss = gradient(one, w, one->samples, (uint32_t)one->samples, g).loss;
		check_differences(one, g, w, 1.0 / (double)one->tests);
		assert_true(fabs(loss / (double)one->samples -
				 evaluate(one, w, 0, (uint32_t)one->tests) / (double)one->tests) <
			    1e-9 * loss);
		e[k]->class->close(e[k]);
	}
}

static void the_minimum_is_where_it_should_be(void **state)
{
	const struct tw_quadratic_options o = { .dimension = 50, .curvature = WIDE, .target = 3 };
	struct tw_engine *e = quadratic(&o, 4, 9);
	const struct tw_rng r = tw_rng_make(9, TW_RNG_PROBLEM);
	float t[50], g[50];
	double far = 0;

	tw_rng_gauss_fill(&r, 1, 0, t, 50);
	for (int i = 0; i < 50; i++) {
		t[i] *= 3;
		far += t[i] * t[i];
	}
	assert_true(evaluate(e, t, 0, 1) == 0);
	gradient(e, t, 0, 1, g);
	for (int i = 0; i < 50; i++)
		assert_true(g[i] == 0);
	assert_true(far > 50);
	e->class->close(e);
}

static void curvatures_fill_their_range(void **state)
{
	const struct tw_quadratic_options o = { .dimension = MOST, .curvature = WIDE };
	const struct tw_quadratic_options flat = { .dimension = MOST, .curvature = ROUND };
	struct tw_engine *e = quadratic(&o, 4, 9), *f = quadratic(&flat, 4, 9);
	static float w[MOST], g[MOST];
	double mean = 0, square = 0;

	for (int i = 0; i < MOST; i++)
		w[i] = 1;
	gradient(e, w, 0, 1, g);
	for (int i = 0; i < MOST; i++) {
		assert_true(g[i] >= 0.25f && g[i] <= 2);
		mean += g[i] / MOST;
		square += g[i] * g[i] / MOST;
	}
	assert_true(fabs(mean - 1.125) < 5 * 1.75 / sqrt(12 * MOST));
	assert_true(fabs(square - mean * mean - 1.75 * 1.75 / 12) < 0.02);
	gradient(f, w, 0, 1, g);
	for (int i = 0; i < MOST; i++)
		assert_true(g[i] == 1);
	assert_true(evaluate(f, w, 0, 1) == 0.5 * MOST);
	e->class->close(e);
	f->class->close(f);
}

/* The formula of quadratic.c, written again with one element at a time. */
static void noise_is_drawn_for_samples(void **state)
{
	const struct tw_quadratic_options o = {
		.dimension = 1500, .curvature = WIDE, .noise = 0.3, .buffers = 5
	};
	const uint64_t samples = 12, seed = 77;
	struct tw_engine *e = quadratic(&o, samples, seed);
	const struct tw_rng problem = tw_rng_make(seed, TW_RNG_PROBLEM);
	const struct tw_rng shuffle = tw_rng_make(seed, TW_RNG_SHUFFLE);
	const struct tw_rng draw = tw_rng_make(seed, TW_RNG_NOISE);
	static float w[1505], g[1505];

	random_point(5, w, 1505);
	for (uint64_t from = 0; from < 36; from += 4) {
		gradient(e, w, from, 4, g);
		for (uint64_t i = 0; i < 1505; i++) {
			const float a = (float)(0.25 + 1.75 * tw_rng_uniform(&problem, 0, i));
			float s = 0, want;

			for (uint64_t k = from; k < from + 4; k++) {
				const uint64_t id =
					tw_rng_permute(&shuffle, k / samples, samples, k % samples);

				s += (float)tw_rng_gauss(&draw, k / samples * samples + id, i);
			}
			want = i < 1500 ? a * (w[i] - 0.0f) + (float)(0.3 / 4) * s
					: 0.1f * (0.25f * s - w[i]);
			assert_true(g[i] == want);
		}
	}
	e->class->close(e);
}

/* Over an epoch every sample is met once, whatever the batches; epochs differ. */
static void epochs_permute_the_samples(void **state)
{
	const struct tw_quadratic_options o = { .dimension = 1, .curvature = ROUND, .noise = 1 };
	enum { SAMPLES = 257 };
	struct tw_engine *e = quadratic(&o, SAMPLES, 3);
	const struct tw_rng draw = tw_rng_make(3, TW_RNG_NOISE);
	uint64_t order[3][SAMPLES];
	const float w = 0;

	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		bool met[SAMPLES] = { false };

		for (uint64_t place = 0; place < SAMPLES; place++) {
			uint64_t id = 0;
			float g;

			gradient(e, &w, epoch * SAMPLES + place, 1, &g);
			while (id < SAMPLES &&
			       (float)tw_rng_gauss(&draw, epoch * SAMPLES + id, 0) != g)
				id++;
			assert_true(id < SAMPLES && !met[id]);
			met[id] = true;
			order[epoch][place] = id;
		}
	}
	assert_memory_not_equal(order[0], order[1], sizeof order[0]);
	assert_memory_not_equal(order[1], order[2], sizeof order[0]);
	e->class->close(e);
}

static void noise_has_its_mean_and_size(void **state)
{
	const struct tw_quadratic_options o = { .dimension = 100,
						.curvature = ROUND,
						.noise = 0.7 };
	enum { SAMPLES = 2000 };
	struct tw_engine *e = quadratic(&o, SAMPLES, 8);
	const float w[100] = { 0 };
	double mean = 0, square = 0, batch = 0;
	float g[100];

	for (uint64_t p = 0; p < SAMPLES; p++) {
		gradient(e, w, p, 1, g);
		for (int i = 0; i < 100; i++) {
			mean += g[i];
			square += g[i] * g[i];
		}
	}
	for (uint64_t p = 0; p < SAMPLES; p += 16) {
		gradient(e, w, p, 16, g);
		for (int i = 0; i < 100; i++)
			batch += g[i] * g[i];
	}
	assert_true(fabs(mean / (100 * SAMPLES)) < 5 * 0.7 / sqrt(100 * SAMPLES));
	assert_true(fabs(square / (100 * SAMPLES) / 0.49 - 1) < 5 * sqrt(2.0 / (100 * SAMPLES)));
	assert_true(fabs(batch / (100 * SAMPLES / 16) / 0.49 * 16 - 1) <
		    5 * sqrt(2.0 / (100 * SAMPLES / 16)));
	e->class->close(e);
}

/* Cut the parameters at random and compare with one piece. */
static void check_cuts(const struct tw_engine *e, uint64_t trial)
{
	const struct tw_rng r = tw_rng_make(trial, TW_RNG_TEST);
	const size_t all = e->trainable + e->buffers;
	static float w[MOST], g[MOST], h[MOST];
	struct tw_piece piece[41];
	float *copy[41];
	size_t pieces = 0, at = 0;
	struct tw_score one, two;
	void *scratch = malloc(e->scratch_bytes + 1);

	random_point(trial, w, all);
	while (at < all) {
		size_t n = 1 + tw_rng_u64(&r, 1, pieces) % (1 + all / (1 + trial % 20));

		if (pieces == 40 || n > all - at)
			n = all - at;
		copy[pieces] = malloc(n * sizeof *w); /* so that a read beside a piece is seen */
		memcpy(copy[pieces], w + at, n * sizeof *w);
		piece[pieces] = (struct tw_piece){ copy[pieces], at, n };
		pieces++;
		at += n;
	}
	const struct tw_inputs in = { .from = 3, .count = 5, .piece = piece, .pieces = pieces };
	const struct tw_inputs test = { .from = 0, .count = 1, .piece = piece, .pieces = pieces };

	one = gradient(e, w, 3, 5, g);
	assert_int_equal(e->class->gradient(e, scratch, &in, h, &two), TW_OK);
	assert_memory_equal(g, h, all * sizeof *g);
	assert_true(one.loss == two.loss);
	assert_int_equal(e->class->evaluate(e, scratch, &test, &two), TW_OK);
	assert_true(two.loss == evaluate(e, w, 0, 1));
	while (pieces)
		free(copy[--pieces]);
	free(scratch);
}

static void cuts_do_not_matter(void **state)
{
	const struct tw_quadratic_options q = {
		.dimension = 2500, .curvature = WIDE, .noise = 0.1, .target = 1, .buffers = 33
	};
	const struct tw_quadratic_options quiet = { .dimension = 1029,
						    .curvature = WIDE,
						    .buffers = 3 };
	const struct tw_least_squares_options dense = { .dimension = 900, .noise = 0.5 };
	const struct tw_least_squares_options split = { .dimension = 900,
							.noise = 0.5,
							.blocks = 7 };
	struct tw_engine *e[] = { quadratic(&q, 10, 1), quadratic(&quiet, 10, 1),
				  squares(&dense, 40, 2), squares(&split, 40, 3) };
	const enum tw_isa best = tw_isa();

	for (int isa = TW_ISA_PLAIN; isa <= (int)best; isa++) {
		tw_isa_pin((enum tw_isa)isa);
		for (int k = 0; k < 4; k++)
			for (uint64_t trial = 0; trial < 60; trial++)
				check_cuts(e[k], trial);
	}
	for (int k = 0; k < 4; k++)
		e[k]->class->close(e[k]);
}

static void instruction_sets_do_not_matter(void **state)
{
	const struct tw_quadratic_options q = {
		.dimension = 1001, .curvature = WIDE, .noise = 0.1, .target = 1, .buffers = 3
	};
	const struct tw_least_squares_options l = { .dimension = 301, .noise = 0.5 };
	const enum tw_isa best = tw_isa();
	static float w[1004], g[2][1004];
	double loss[2];

	random_point(1, w, 1004);
	for (int kind = 0; kind < 2; kind++) {
		for (int isa = TW_ISA_PLAIN; isa <= (int)best; isa++) {
			const int k = isa > 0;
			struct tw_engine *e;

			tw_isa_pin((enum tw_isa)isa);
			e = kind ? squares(&l, 30, 4) : quadratic(&q, 30, 4);
			loss[k] = gradient(e, w, 7, 9, g[k]).loss;
			if (k) {
				assert_true(loss[0] == loss[1]);
				assert_memory_equal(g[0], g[1],
						    (e->trainable + e->buffers) * sizeof(float));
			}
			e->class->close(e);
		}
	}
}

struct job {
	const struct tw_engine *e;
	const float *w;
	uint64_t first;
	float *out; /* 50 gradients */
};

static void *compute(void *arg)
{
	const struct job *j = arg;
	const size_t all = j->e->trainable + j->e->buffers;

	for (uint64_t k = 0; k < 50; k++)
		gradient(j->e, j->w, j->first + 4 * k, 4, j->out + k * all);
	return NULL;
}

static void threads_do_not_matter(void **state)
{
	const struct tw_quadratic_options q = { .dimension = 100, .curvature = WIDE, .noise = 0.1 };
	const struct tw_least_squares_options l = { .dimension = 100, .blocks = 3 };

	for (int kind = 0; kind < 2; kind++) {
		struct tw_engine *e = kind ? squares(&l, 200, 5) : quadratic(&q, 200, 5);
		static float alone[5000], beside[4][5000], w[100];
		struct job job[4];
		pthread_t thread[4];

		random_point(2, w, 100);
		for (int k = 0; k < 4; k++) {
			job[k] = (struct job){ e, w, 0, beside[k] };
			assert_int_equal(pthread_create(&thread[k], NULL, compute, &job[k]), 0);
		}
		compute(&(struct job){ e, w, 0, alone });
		for (int k = 0; k < 4; k++) {
			pthread_join(thread[k], NULL);
			assert_memory_equal(alone, beside[k], sizeof alone);
		}
		e->class->close(e);
	}
}

static void nobody_waits_for_what_nobody_wants(void **state)
{
	const struct tw_quadratic_options q = { .dimension = 9, .curvature = ROUND, .noise = 0.1 };
	const struct tw_quadratic_options quiet = { .dimension = 9, .curvature = ROUND };
	const struct tw_least_squares_options l = { .dimension = 9 };
	struct tw_engine *e[] = { quadratic(&q, 10, 5), quadratic(&quiet, 10, 5),
				  squares(&l, 10, 5) };
	float w[9] = { 0 }, g[9], scratch[40];
	const struct tw_piece piece = { w, 0, 9 };
	_Atomic bool cancel = true;
	const struct tw_inputs in = { .count = 1, .piece = &piece, .pieces = 1, .cancel = &cancel };
	struct tw_score score;

	for (int k = 0; k < 3; k++) {
		assert_true(e[k]->scratch_bytes <= sizeof scratch);
		cancel = true;
		assert_int_equal(e[k]->class->gradient(e[k], scratch, &in, g, &score),
				 TW_CANCELLED);
		assert_int_equal(e[k]->class->evaluate(e[k], scratch, &in, &score), TW_CANCELLED);
		cancel = false;
		assert_int_equal(e[k]->class->gradient(e[k], scratch, &in, g, &score), TW_OK);
		assert_int_equal(e[k]->class->evaluate(e[k], scratch, &in, &score), TW_OK);
		e[k]->class->close(e[k]);
	}
}

static void *raise_flag(void *arg)
{
	usleep(20000); /* until the batch is well under way */
	atomic_store((_Atomic bool *)arg, true);
	return NULL;
}

/* A batch that would take minutes ends soon after the flag was raised in its middle. */
static void a_long_batch_is_given_up(void **state)
{
	const struct tw_quadratic_options q = { .dimension = 2000,
						.curvature = ROUND,
						.noise = 0.1 };
	struct tw_engine *e = quadratic(&q, 1u << 31, 5);
	static float w[2000], g[2000];
	const struct tw_piece piece = { w, 0, 2000 };
	_Atomic bool cancel = false;
	const struct tw_inputs in = {
		.count = 1u << 31, .piece = &piece, .pieces = 1, .cancel = &cancel
	};
	struct tw_score score;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, raise_flag, &cancel), 0);
	assert_int_equal(e->class->gradient(e, NULL, &in, g, &score), TW_CANCELLED);
	pthread_join(thread, NULL);
	e->class->close(e);
}

static void impossible_batches_are_refused(void **state)
{
	static const struct {
		uint64_t from;
		uint32_t count;
		bool good, tests_good; /* of 10 samples; 10 tests */
	} cases[] = {
		{ 0, 0, false, false },           { 0, 10, true, true },
		{ 0, 11, false, false },          { 5, 5, true, true },
		{ 5, 6, false, false },           { 19, 1, true, false },
		{ 19, 2, false, false },          { 10, 10, true, false },
		{ UINT64_MAX, 1, true, false },   { 9, 1, true, true },
		{ 3, 4000000000u, false, false },
	};
	const struct tw_quadratic_options q = { .dimension = 3, .curvature = ROUND };
	const struct tw_least_squares_options l = { .dimension = 3 };
	struct tw_engine *e[] = { quadratic(&q, 10, 5), squares(&l, 10, 5) };
	float w[3] = { 0 }, g[3], scratch[6];
	const struct tw_piece piece = { w, 0, 3 };
	struct tw_score score;

	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const struct tw_inputs in = {
			.from = cases[k].from, .count = cases[k].count, .piece = &piece, .pieces = 1
		};

		for (int j = 0; j < 2; j++)
			assert_int_equal(e[j]->class->gradient(e[j], scratch, &in, g, &score),
					 cases[k].good ? TW_OK : TW_BAD_INPUT);
		assert_int_equal(e[1]->class->evaluate(e[1], scratch, &in, &score),
				 cases[k].tests_good ? TW_OK : TW_BAD_INPUT);
	}
	for (int j = 0; j < 2; j++)
		e[j]->class->close(e[j]);
}

static void beginnings_are_as_asked(void **state)
{
	const struct tw_quadratic_options o = {
		.dimension = 1000, .curvature = ROUND, .start = 5, .spread = 2, .buffers = 10
	};
	const struct tw_quadratic_options same = { .dimension = 1000,
						   .curvature = ROUND,
						   .start = 5 };
	const struct tw_least_squares_options l = { .dimension = 1000, .start = -2 };
	struct tw_engine *e = quadratic(&o, 4, 6), *f = quadratic(&same, 4, 6),
			 *s = squares(&l, 4, 6);
	float all[1010], part[1010];
	double mean = 0, square = 0;

	assert_int_equal(e->class->init(e, 0, 1010, all), TW_OK);
	for (int i = 0; i < 1000; i++) {
		mean += all[i] / 1000;
		square += (all[i] - 5) * (all[i] - 5) / 1000;
	}
	for (int i = 1000; i < 1010; i++)
		assert_true(all[i] == 0);
	assert_true(fabs(mean - 5) < 0.3 && fabs(square - 4) < 1);
	for (size_t from = 0; from <= 1010; from += 101)
		for (size_t n = 0; n <= 1010 - from; n += 67) {
			assert_int_equal(e->class->init(e, from, n, part), TW_OK);
			assert_memory_equal(part, all + from, n * sizeof *all);
		}
	assert_int_equal(e->class->init(e, 1000, 11, part), TW_BAD_INPUT);
	assert_int_equal(f->class->init(f, 0, 1000, all), TW_OK);
	assert_int_equal(s->class->init(s, 0, 1000, part), TW_OK);
	for (int i = 0; i < 1000; i++)
		assert_true(all[i] == 5 && part[i] == -2);
	e->class->close(e);
	f->class->close(f);
	s->class->close(s);
}

static void tensors_are_cut_evenly(void **state)
{
	for (uint64_t cuts = 0; cuts <= 50; cuts++)
		for (uint64_t buffers = 0; buffers < 4; buffers += 3) {
			const struct tw_quadratic_options o = { .dimension = 50,
								.curvature = ROUND,
								.buffers = buffers,
								.tensors = cuts };
			struct tw_engine *e = quadratic(&o, 4, 6);
			const size_t want = cuts ? cuts : 1;

			assert_int_equal(e->tensors, want + (buffers ? 1 : 0));
			assert_int_equal(e->tensor[0], 0);
			for (size_t k = 0; k < want; k++) {
				const size_t n = e->tensor[k + 1] - e->tensor[k];

				assert_true(n == 50 / want || n == 50 / want + 1);
			}
			assert_int_equal(e->tensor[want], 50);
			assert_int_equal(e->tensor[e->tensors], 50 + buffers);
			e->class->close(e);
		}
}

/* With disjoint supports a sample's gradient is zero outside its block. */
static void blocks_are_disjoint(void **state)
{
	const struct tw_least_squares_options o = { .dimension = 23, .noise = 1, .blocks = 5 };
	struct tw_engine *e = squares(&o, 40, 3);
	const float w[23] = { 0 };
	int seen[5] = { 0 };
	float g[23];

	for (uint64_t p = 0; p < 40; p++) {
		size_t low = 23, high = 0, block = 5;

		gradient(e, w, p, 1, g);
		for (size_t i = 0; i < 23; i++)
			if (g[i] != 0) {
				low = i < low ? i : low;
				high = i + 1;
			}
		for (size_t k = 0; k < 5; k++)
			if (low == 23 * k / 5 && high == 23 * (k + 1) / 5)
				block = k;
		assert_true(block < 5);
		seen[block]++;
	}
	for (int k = 0; k < 5; k++)
		assert_int_equal(seen[k], 8);
	e->class->close(e);
}

/* Without label noise descent finds the truth, where the loss is zero. */
static void least_squares_can_be_solved(void **state)
{
	const struct tw_least_squares_options o = { .dimension = 8 };
	struct tw_engine *e = squares(&o, 64, 3);
	const struct tw_rng r = tw_rng_make(3, TW_RNG_PROBLEM);
	float w[8] = { 0 }, g[8], truth[8];
	const double first = evaluate(e, w, 0, 64);

	for (uint64_t step = 0; step < 500; step++) {
		gradient(e, w, 64 * step, 64, g);
		for (int i = 0; i < 8; i++)
			w[i] -= 0.3f * g[i];
	}
	tw_rng_gauss_fill(&r, 0, 0, truth, 8);
	for (int i = 0; i < 8; i++)
		assert_true(fabsf(w[i] - truth[i]) < 1e-5f);
	assert_true(evaluate(e, w, 0, 64) < 1e-8 * first);
	assert_true(evaluate(e, truth, 0, 64) < 1e-20 * first);
	e->class->close(e);
}

/* Too many rows to keep are drawn again, to the same bits. */
static void rows_drawn_again_are_the_same(void **state)
{
	const struct tw_least_squares_options o = { .dimension = 1 << 20, .noise = 1, .start = 1 };
	struct tw_engine *few = squares(&o, 2, 3), *many = squares(&o, 40, 3);
	float *w = malloc(sizeof *w << 20);

	assert_true(many->scratch_bytes > few->scratch_bytes);
	random_point(1, w, 1 << 20);
	for (uint64_t s = 0; s < 2; s++)
		assert_true(evaluate(few, w, s, 1) == evaluate(many, w, s, 1));
	free(w);
	few->class->close(few);
	many->class->close(many);
}

static void every_request_may_fail(void **state)
{
	for (int kind = 0; kind < 2; kind++)
		for (unsigned nth = 1;; nth++) {
			const struct tw_quadratic_options q = { .dimension = 10,
								.curvature = ROUND };
			const struct tw_least_squares_options l = { .dimension = 10 };
			struct refusing h = REFUSING(nth);
			struct tw_engine *e = kind ? tw_least_squares_open(&h.heap, &l, 5, 1)
						   : tw_quadratic_open(&h.heap, &q, 5, 1);

			assert_int_equal(e != NULL, h.calls < nth);
			if (e)
				e->class->close(e);
			assert_int_equal(h.live, 0);
			if (h.calls < nth)
				break;
		}
}

static void rows_have_sound_defaults(void **state)
{
	struct tw_quadratic_options q;
	struct tw_least_squares_options l;
	struct tw_error why = { 0 };
	struct tw_arena keep;

	memset(&q, 0xff, sizeof q);
	memset(&l, 0xff, sizeof l);
	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_quadratic_rows, &q, &keep, &why), TW_OK);
	assert_int_equal(tw_option_defaults(tw_least_squares_rows, &l, &keep, &why), TW_OK);
	assert_int_equal(q.dimension, 100);
	assert_int_equal(q.curvature.count, 2);
	assert_true(q.noise == 0 && q.start == 1 && q.spread == 0 && q.target == 0);
	assert_true(q.buffers == 0 && q.tensors == 0);
	assert_true(l.dimension == 10 && l.noise == 0 && l.blocks == 0 && l.start == 0);
	tw_arena_release(&keep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gradients_are_slopes_of_the_loss),
		cmocka_unit_test(the_minimum_is_where_it_should_be),
		cmocka_unit_test(curvatures_fill_their_range),
		cmocka_unit_test(noise_is_drawn_for_samples),
		cmocka_unit_test(epochs_permute_the_samples),
		cmocka_unit_test(noise_has_its_mean_and_size),
		cmocka_unit_test(cuts_do_not_matter),
		cmocka_unit_test(instruction_sets_do_not_matter),
		cmocka_unit_test(threads_do_not_matter),
		cmocka_unit_test(nobody_waits_for_what_nobody_wants),
		cmocka_unit_test(a_long_batch_is_given_up),
		cmocka_unit_test(impossible_batches_are_refused),
		cmocka_unit_test(beginnings_are_as_asked),
		cmocka_unit_test(tensors_are_cut_evenly),
		cmocka_unit_test(blocks_are_disjoint),
		cmocka_unit_test(least_squares_can_be_solved),
		cmocka_unit_test(rows_drawn_again_are_the_same),
		cmocka_unit_test(every_request_may_fail),
		cmocka_unit_test(rows_have_sound_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
