/* SPDX-License-Identifier: Apache-2.0 */
/* test_dgc.c - Deep Gradient Compression of whole runs against a serial loop of its formulas: every
 * worker clips its gradient to 1/sqrt(N) of the limit of the sum, adds it to a velocity, adds that
 * to a residual, and sends the largest values of it. */
#include "job/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define DIMENSION 300
#define WORKERS   4
#define BATCH     2
#define ROUNDS    30
#define SENT      15 /* of DIMENSION: a share of 0.05 */
#define MOMENTUM  0.5f
#define RATE      0.02f

static void open_run(struct trial *t, const char *clip)
{
	trial_open(t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, noise: 0.3}}\n"
		   "data: {source: none, samples: %d, batch: %d}\n"
		   "train: {epochs: 1, seed: 3}\nupdate: {rate: %g, %s}\n"
		   "cluster: {workers: %d, servers: 1, shards: 1}\n"
		   "strategy: {name: ssgd, codec: {up: dgc, up_share: 0.05, up_momentum: %g}}\n"
		   "sim: {compute: {law: constant, mean: 20ms}, latency: 1ms}\n",
		   DIMENSION, WORKERS * BATCH * ROUNDS, BATCH, (double)RATE, clip, WORKERS,
		   (double)MOMENTUM);
}

static void run(const char *clip, float *w)
{
	struct tw_ran ran;
	struct trial t;

	open_run(&t, clip);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	memcpy(w, tw_block_floats(ran.totals.vector[0]), DIMENSION * sizeof *w);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static int further(const void *a, const void *b)
{
	const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);

	return (x < y) - (x > y);
}

/* The serial loop.  Returns how many gradients were clipped. */
static unsigned serially(double limit, float *w)
{
	static float u[WORKERS][DIMENSION], r[WORKERS][DIMENSION];
	const struct tw_piece piece = { w, 0, DIMENSION };
	float g[DIMENSION], sorted[DIMENSION];
	unsigned clipped = 0;
	struct trial t;
	void *scratch;

	open_run(&t, "clip: 0"); /* for its engine */
	scratch = calloc(1, t.engine->scratch_bytes + 1);
	assert_non_null(scratch);
	memset(u, 0, sizeof u);
	memset(r, 0, sizeof r);
	for (size_t i = 0; i < DIMENSION; i++)
		w[i] = 1;
	for (uint64_t step = 0; step < ROUNDS; step++) {
		double sum[DIMENSION] = { 0 };

		for (uint64_t k = 0; k < WORKERS; k++) {
			const struct tw_inputs in = { .from = (step * WORKERS + k) * BATCH,
						      .count = BATCH,
						      .piece = &piece,
						      .pieces = 1 };
			struct tw_score score = { 0 };
			double norm = 0;

			assert_int_equal(
				t.engine->class->gradient(t.engine, scratch, &in, g, &score),
				TW_OK);
			for (size_t i = 0; i < DIMENSION; i++)
				norm += (double)g[i] * (double)g[i];
			norm = sqrt(norm);
			clipped += norm > limit;
			for (size_t i = 0; i < DIMENSION; i++) {
				if (norm > limit)
					g[i] *= (float)(limit / norm);
				u[k][i] = MOMENTUM * u[k][i] + g[i];
				r[k][i] += u[k][i];
			}
			memcpy(sorted, r[k], sizeof sorted);
			qsort(sorted, DIMENSION, sizeof *sorted, further);
			for (size_t i = 0; i < DIMENSION; i++)
				if (fabsf(r[k][i]) >= fabsf(sorted[SENT - 1])) {
					sum[i] += (double)r[k][i];
					u[k][i] = r[k][i] = 0;
				}
		}
		for (size_t i = 0; i < DIMENSION; i++)
			w[i] -= (float)((double)RATE * sum[i] / WORKERS);
	}
	free(scratch);
	trial_close(&t);
	return clipped;
}

static double furthest(const float *a, const float *b)
{
	double most = 0;

	for (size_t i = 0; i < DIMENSION; i++)
		most = fmax(most, fabs((double)a[i] - (double)b[i]));
	return most;
}

static void a_run_is_the_serial_loop(void **state)
{
	float want[DIMENSION], got[DIMENSION];

	assert_int_equal(serially(INFINITY, want), 0);
	run("clip: 0", got);
	assert_true(furthest(want, got) < 1e-5);
}

static void workers_clip_by_the_root_of_their_number(void **state)
{
	const double limit = 12; /* of the sum */
	float want[DIMENSION], got[DIMENSION], other[DIMENSION];
	const unsigned clipped = serially(limit / sqrt(WORKERS), want);

	assert_true(clipped > 10);
	run("global_clip: 12", got);
	assert_true(furthest(want, got) < 1e-5);
	run("clip: 6", other); /* 12 / sqrt(4) */
	assert_memory_equal(got, other, sizeof got);
	run("clip: 12", other);
	assert_true(furthest(want, other) > 1e-3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_the_serial_loop),
		cmocka_unit_test(workers_clip_by_the_root_of_their_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
