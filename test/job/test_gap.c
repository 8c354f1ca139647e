/* SPDX-License-Identifier: Apache-2.0 */
/* test_gap.c - train.gap: how far the parameters moved between what a worker was sent and what its
 * contribution was applied to, against a serial loop and against what the notes show. */
#include "job/trial.h"

#include "job/oracle_tools.h"
#include "kit/near.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DIMENSION = 6, UPDATES = 400, MOST = UPDATES + 64 };

/* A job with 2 shards of 3 values, without noise: what it does can be computed by hand. */
#define JOB                                                                                        \
	"model: {quadratic: {dimension: 6, curvature: [0.7], noise: 0, start: 1}}\n"               \
	"data: {source: none, samples: 1000000, batch: 1}\n"                                       \
	"train: {updates: 400, seed: 5, gap: true}\n"                                              \
	"update: {rate: 0.05}\ncluster: {workers: %u, shards: 2}\nstrategy: %s\n"                  \
	"checkpoint: {every: 0s}\n"

/* The parameters before every update, by gradient descent on 0.35 w^2, where
 * update t uses the gradient of the parameters tau[t] updates before. */
static void descend(const uint64_t *tau, size_t updates, double w[][DIMENSION])
{
	for (size_t i = 0; i < DIMENSION; i++)
		w[0][i] = 1;
	for (size_t t = 0; t < updates; t++)
		for (size_t i = 0; i < DIMENSION; i++)
			w[t + 1][i] = w[t][i] - 0.05 * 0.7 * w[t - tau[t]][i];
}

struct seen {
	uint64_t tau[2][MOST]; /* by shard and version */
	uint64_t updates[2];
	double squares, most; /* of what the notes show: sum, and largest mean of a contribution */
	uint64_t values;
};

static bool see(void *arg, const struct tw_note *note)
{
	struct seen *s = arg;
	double square = 0;

	if (note->kind != TW_NOTE_APPLY)
		return true;
	assert_true(note->version < MOST && note->shard < 2 && note->apply.before &&
		    note->apply.sent);
	s->tau[note->shard][note->version] = note->apply.tau;
	s->updates[note->shard]++;
	for (size_t i = 0; i < note->apply.n; i++)
		square += pow((double)note->apply.before[i] - (double)note->apply.sent[i], 2);
	s->squares += square;
	s->values += note->apply.n;
	s->most = fmax(s->most, square / (double)note->apply.n);
	return true;
}

static struct tw_tally run(enum tw_world_kind world, uint32_t workers, const char *strategy,
			   struct seen *seen)
{
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, world, JOB, workers, strategy);
	*seen = (struct seen){ .values = 0 };
	t.observer = see;
	t.observer_arg = seen;
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return ran.totals.tally;
}

static double rms(const struct tw_tally *t)
{
	return sqrt(t->gap / (double)t->gap_values);
}

/* The sum over all contributions of squares from the serial loop, which knows only staleness. */
static void as_the_serial_loop_says(uint32_t workers)
{
	static double w[MOST + 1][DIMENSION];
	static struct seen seen;
	const struct tw_tally t = run(TW_WORLD_SIM, workers, "asgd", &seen);
	double squares = 0, most = 0;

	for (uint32_t s = 0; s < 2; s++) {
		descend(seen.tau[s], seen.updates[s], w);
		for (size_t k = 0; k < seen.updates[s]; k++) {
			double square = 0;

			for (size_t i = 3 * s; i < 3 * (s + 1); i++)
				square += pow(w[k][i] - w[k - seen.tau[s][k]][i], 2);
			squares += square;
			most = fmax(most, square / 3);
		}
	}
	assert_int_equal(t.gap_values, 3 * (seen.updates[0] + seen.updates[1]));
	assert_true(squares > 0 && most > 0);
	NEAR_SHARE(t.gap, squares, 1e-4, "sum of squares");
	NEAR_SHARE(t.gap_most, most, 1e-4, "largest mean square");
}

static void late_gradients_have_the_gap_of_a_serial_loop(void **state)
{
	(void)state;
	for (uint32_t workers = 2; workers <= 9; workers++)
		as_the_serial_loop_says(workers);
}

/* Whatever a worker is sent: a look-ahead, or parameters that a codec rounded. */
static void the_gap_is_to_what_was_sent(void **state)
{
	static const char *const strategies[] = {
		"asgd",
		"dana",
		"nag-asgd",
		"softsync",
		"ssp",
		"{name: asgd, codec: {down: fp16}}",
		"{name: diloco, push: 3}",
	};
	static struct seen seen;

	(void)state;
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		const struct tw_tally t = run(TW_WORLD_SIM, 4, strategies[k], &seen);

		assert_int_equal(t.gap_values, seen.values);
		NEAR_SHARE(1 + t.gap, 1 + seen.squares, 1e-9, strategies[k]);
		NEAR_SHARE(1 + t.gap_most, 1 + seen.most, 1e-9, strategies[k]);
	}
}

static void nothing_moves_between_rounds(void **state)
{
	static struct seen seen;

	(void)state;
	for (int world = TW_WORLD_SIM; world <= TW_WORLD_THREADS; world++) {
		const struct tw_tally t = run((enum tw_world_kind)world, 3, "ssgd", &seen);

		assert_true(t.gap_values > 0 && t.gap == 0 && t.gap_most == 0);
	}
}

/* One worker is never late; its rounded parameters differ from those that are kept. */
static void one_worker_has_the_gap_of_its_codec(void **state)
{
	static struct seen seen;
	struct tw_tally t = run(TW_WORLD_SIM, 1, "asgd", &seen);

	(void)state;
	assert_true(t.gap_values > 0 && t.gap == 0);
	t = run(TW_WORLD_SIM, 1, "{name: asgd, codec: {down: fp16}}", &seen);
	assert_true(rms(&t) > 0 && sqrt(t.gap_most) < 1.0 / 2048);
}

/* In threads nobody knows the staleness beforehand, but the notes have all that is measured. */
static void threads_measure_it_too(void **state)
{
	static struct seen seen;
	const struct tw_tally t = run(TW_WORLD_THREADS, 3, "asgd", &seen);

	(void)state;
	assert_int_equal(t.gap_values, seen.values);
	NEAR_SHARE(1 + t.gap, 1 + seen.squares, 1e-9, "sum of squares");
	NEAR_SHARE(1 + t.gap_most, 1 + seen.most, 1e-9, "largest mean square");
}

static void it_is_off_unless_it_is_asked_for(void **state)
{
	struct tw_ran ran;
	struct trial t;

	(void)state;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 6}}\n"
		   "data: {source: none, samples: 100}\n"
		   "cluster: {workers: 3}\nstrategy: asgd\n");
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	tw_totals_release(&ran.totals);
	assert_true(ran.totals.tally.contributions > 0 && ran.totals.tally.gap_values == 0);
	trial_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_gradients_have_the_gap_of_a_serial_loop),
		cmocka_unit_test(the_gap_is_to_what_was_sent),
		cmocka_unit_test(nothing_moves_between_rounds),
		cmocka_unit_test(one_worker_has_the_gap_of_its_codec),
		cmocka_unit_test(threads_measure_it_too),
		cmocka_unit_test(it_is_off_unless_it_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
