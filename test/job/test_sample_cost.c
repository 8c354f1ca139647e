/* SPDX-License-Identifier: Apache-2.0 */
/* test_sample_cost.c - samples that take longer than others in the simulator, and what methods that
 * do not wait for the slowest make of them. */
#include "engine/order.h"
#include "job/trial.h"
#include "run/open_engine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS           INT64_C(1000000)
#define LABELS       10
#define SLOW         7 /* the label that takes longer */

/* --- what a run costs --- */

#define MADE_UP                                                                                    \
	"model: {quadratic: {dimension: 5}}\n"                                                     \
	"data: {source: none, samples: 60, batch: %u}\n"                                           \
	"train: {epochs: 2, seed: 3}\ncluster: {workers: 1}\nstrategy: ssgd\n"                     \
	"sim: {compute: {mean: 100ms%s}, latency: 0s, bandwidth: 0bit/s}\n"

static int64_t time_of(uint32_t batch, const char *compute, struct tw_totals *totals)
{
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM, MADE_UP, batch, compute);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	if (totals)
		*totals = ran.totals;
	else
		tw_totals_release(&ran.totals);
	trial_close(&t);
	return ran.virtual_ns;
}

/* An epoch has every sample once, whatever the order: its time is the sum. */
static void a_step_takes_the_mean_of_its_samples(void **state)
{
	(void)state;
	assert_int_equal(time_of(1, "", NULL), 120 * 100 * MS);
	assert_int_equal(time_of(1, ", by_sample: [1, 2, 3, 4.5]", NULL), 2 * 15 * 1050 * MS);
	assert_int_equal(time_of(60, ", by_sample: [1, 2, 3, 4.5]", NULL), 2 * 2625 * MS / 10);
	assert_int_equal(time_of(60, ", by_sample: [1, 2, 3, 4.5], per_sample: true", NULL),
			 2 * 15 * 1050 * MS);
	/* batches are drawn from the epoch: their times differ, their sum does not */
	assert_true(llabs(time_of(4, ", by_sample: [1, 2, 3, 4.5]", NULL) -
			  2 * 15 * 2625 * MS / 10) < MS / 1000);
}

/* Factors of 1 are no factors, and with one worker factors change times and nothing else. */
static void only_times_change(void **state)
{
	static const char *const other[] = { ", by_sample: [1]", ", by_sample: [0.5, 7, 3]" };
	struct tw_totals plain, t;
	const int64_t time = time_of(4, "", &plain);

	(void)state;
	for (size_t k = 0; k < COUNT(other); k++) {
		const int64_t now = time_of(4, other[k], &t);

		assert_int_equal(now == time, k == 0);
		assert_memory_equal(t.vector[0]->data, plain.vector[0]->data, 5 * sizeof(float));
		tw_totals_release(&t);
	}
	tw_totals_release(&plain);
}

/* --- the bias of those who do not wait --- */

#define DIGITS                                                                                     \
	"model: {name: mlp, hidden: [2]}\n"                                                        \
	"data: {source: digits, count: 990, tests: 20, batch: 1}\n"                                \
	"train: {epochs: 1, seed: %u, evaluate: 0}\nupdate: {rate: 0.01}\n"                        \
	"cluster: {workers: %u, shards: 1}\nstrategy: %s\n"                                        \
	"sim: {compute: {by_label: [1, 1, 1, 1, 1, 1, 1, 4]}}\n"

/* Which labels were applied. */
struct applied {
	const struct tw_samples *train;
	struct tw_order order;
	uint64_t of[LABELS], all;
};

static bool see(void *arg, const struct tw_note *n)
{
	struct applied *a = arg;

	for (uint64_t i = n->from; n->kind == TW_NOTE_APPLY && i < n->from + n->count; i++) {
		const uint64_t s = tw_order_sample(&a->order, i);

		a->of[a->train->label[s]]++;
		a->all++;
	}
	return true;
}

/* Adds to *a; returns how many samples of an epoch have the slow label. */
static uint64_t apply(uint32_t workers, unsigned seed, const char *strategy, struct applied *a)
{
	struct tw_data *data = NULL;
	struct tw_error why = { 0 };
	struct tw_ran ran;
	struct trial t;
	uint64_t slow = 0;

	trial_open(&t, TW_WORLD_SIM, DIGITS, seed, workers, strategy);
	assert_int_equal(tw_job_open_data(t.job, &tw_heap_system, &data, &why), TW_OK);
	a->train = tw_data_set(data, TW_SET_TRAIN);
	a->order = tw_order_make(seed, a->train->count);
	assert_int_equal(a->train->count, 990);
	t.observer = see;
	t.observer_arg = a;
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	for (uint64_t k = 0; k < a->train->count; k++)
		slow += a->train->label[k] == SLOW;
	tw_totals_release(&ran.totals);
	trial_close(&t);
	tw_data_close(data);
	return slow;
}

static void with_full_rounds_nothing_is_missing(void **state)
{
	struct applied a = { .all = 0 };
	const uint64_t slow = apply(5, 1, "ssgd", &a);

	(void)state;
	assert_int_equal(a.all, 990);
	assert_int_equal(a.of[SLOW], slow);
}

static double choose(double n, uint32_t k)
{
	double c = 1.0;

	for (uint32_t i = 0; i < k; i++)
		c *= (n - i) / (i + 1);
	return c;
}

/* A round has `workers` samples of a shuffled epoch, s of them slow with the chances of drawing
 * without putting back, and loses min(s, extra) of these: mean and variance of what is left. */
static void expected(double samples, double slow, uint32_t workers, uint32_t extra, double *mean,
		     double *variance)
{
	double square = 0.0;

	*mean = 0.0;
	for (uint32_t s = 0; s <= workers; s++) {
		const double chance = choose(slow, s) * choose(samples - slow, workers - s) /
				      choose(samples, workers);
		const double left = s > extra ? s - extra : 0.0;

		*mean += chance * left;
		square += chance * left * left;
	}
	*variance = square - *mean * *mean;
}

static void backup_workers_prefer_quick_samples(void **state)
{
	static const struct {
		uint32_t workers, extra;
	} row[] = { { 3, 1 }, { 5, 1 }, { 9, 1 }, { 9, 2 } };

	(void)state;
	for (size_t k = 0; k < COUNT(row); k++) {
		const uint32_t counted = row[k].workers - row[k].extra;
		struct applied a = { .all = 0 };
		double mean, variance, rounds, share, formula, error;
		uint64_t slow = 0;
		char strategy[100];

		snprintf(strategy, sizeof strategy, "{name: backup, extra: %u, abandon: true}",
			 row[k].extra);
		for (unsigned seed = 1; seed <= 12; seed++)
			slow = apply(row[k].workers, seed, strategy, &a);
		rounds = (double)a.all / counted;
		expected(990, (double)slow, row[k].workers, row[k].extra, &mean, &variance);
		share = (double)a.of[SLOW] / (double)a.all;
		formula = mean / counted;
		error = sqrt(variance / rounds) / counted;
		printf("%u workers, %u of them extra: %.4f of the samples are slow, %.4f of those "
		       "applied (formula: %.4f, standard error %.4f)\n",
		       row[k].workers, row[k].extra, (double)slow / 990, share, formula, error);
		assert_int_equal(a.all, 12 * 990 / row[k].workers * counted);
		assert_true(fabs(share - formula) < 4 * error);
		assert_true(share < 0.75 * (double)slow / 990);
		/* every other label gains */
		for (uint32_t l = 0; l < LABELS; l++)
			assert_true(l == SLOW || (double)a.of[l] / (double)a.all > share);
	}
}

/* Late workers that go on computing are biased the same way. */
static void without_abandoning_it_is_the_same(void **state)
{
	struct applied a = { .all = 0 };
	uint64_t slow = 0;

	(void)state;
	for (unsigned seed = 1; seed <= 6; seed++)
		slow = apply(5, seed, "backup", &a);
	printf("5 workers, 1 of them extra, without abandon: %.4f of those applied\n",
	       (double)a.of[SLOW] / (double)a.all);
	assert_true((double)a.of[SLOW] / (double)a.all < 0.75 * (double)slow / 990);
}

/* --- refusals that need the data --- */

static void refused(const char *text, const char *says)
{
	struct tw_engine *engine = NULL;
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;

	assert_int_equal(tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_OK);
	assert_int_equal(tw_job_open_engine(job, &tw_heap_system, &engine, &why), TW_BAD_INPUT);
	assert_null(engine);
	if (!strstr(why.text, says))
		fail_msg("'%s' lacks '%s'", why.text, says);
	tw_job_free(job);
}

static void factors_without_samples(void **state)
{
	(void)state;
	refused("model: {name: mlp, hidden: [2]}\ndata: {source: digits, count: 20, tests: 5, "
		"batch: 4}\n"
		"sim: {compute: {by_label: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]}}\n",
		"sim.compute.by_label: has 11 factors, but the data has only 10 labels");
	refused("model: {quadratic: {dimension: 5}}\ndata: {samples: 2}\n"
		"sim: {compute: {by_sample: [1, 2, 3]}}\n",
		"sim.compute.by_sample: has 3 factors, but there are only 2 samples");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_step_takes_the_mean_of_its_samples),
		cmocka_unit_test(only_times_change),
		cmocka_unit_test(with_full_rounds_nothing_is_missing),
		cmocka_unit_test(backup_workers_prefer_quick_samples),
		cmocka_unit_test(without_abandoning_it_is_the_same),
		cmocka_unit_test(factors_without_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
