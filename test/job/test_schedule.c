/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - the rate of every update is the schedule's for what its shard had applied,
 * whoever computed the gradient, when, and on which samples.  Whole methods with schedules are in
 * test_serial.c, and workers that step by themselves in test_averaging.c. */
#include "job/serial.h"
#include "spec/field.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define SHARDS    4
#define POSITIONS 1024

/* What is in each shard, and in its bucket, by position; and the rates of its updates. */
struct books {
	const struct tw_plan *plan;
	double (*rate)(double epoch);
	uint8_t applied[SHARDS][POSITIONS], arrived[SHARDS][POSITIONS];
	uint64_t updates[SHARDS], twice,
		late;       /* late: updates whose samples are of before a change */
	double least, most; /* rates */
	char wrong[200];
};

static uint64_t samples_of(const struct books *b, uint32_t shard)
{
	uint64_t count = 0;

	for (size_t k = 0; k < POSITIONS; k++)
		count += b->applied[shard][k];
	return count;
}

static void updated(struct books *b, const struct tw_note *n)
{
	const uint32_t s = n->shard;
	const double epoch = (double)samples_of(b, s) / (double)b->plan->problem.samples;
	const double should = b->rate(epoch);

	if (fabs(n->update.rate - should) > 1e-6 * should && !b->wrong[0])
		snprintf(b->wrong, sizeof b->wrong, "shard %u at epoch %g: rate %g, not %g", s,
			 epoch, n->update.rate, should);
	for (size_t k = 0; k < POSITIONS; k++) {
		b->late += b->arrived[s][k] &&
			   b->rate((double)k / (double)b->plan->problem.samples) > 2 * should;
		b->twice += b->arrived[s][k] && b->applied[s][k];
		b->applied[s][k] |= b->arrived[s][k];
	}
	memset(b->arrived[s], 0, POSITIONS);
	b->updates[s]++;
}

static bool books_note(void *arg, const struct tw_note *n)
{
	struct books *b = arg;

	if (n->kind == TW_NOTE_APPLY) {
		assert_true(n->shard < SHARDS && n->from + n->count <= POSITIONS);
		memset(b->arrived[n->shard] + n->from, 1, n->count);
	}
	if (n->kind == TW_NOTE_UPDATE) {
		b->least = fmin(b->least, n->update.rate);
		b->most = fmax(b->most, n->update.rate);
		if (b->rate)
			updated(b, n);
	}
	return true;
}

static void books_run(struct books *b, struct outcome *o, const char *text,
		      double (*rate)(double epoch))
{
	*b = (struct books){ .rate = rate, .least = INFINITY };
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	b->plan = &o->job->plan;
	outcome_run(o, &(const struct watch){ .observer = books_note, .arg = b });
	if (b->wrong[0])
		fail_msg("%s\n%s", b->wrong, text);
}

/* --- one worker that is eight times slower -------------------------------------------------- */

static double a_tenth_after_one(double epoch)
{
	return epoch < 1 ? 0.1 : 0.01;
}

/* What was reported: the last update of this run came at 0.1, 400 samples after the change. */
static void a_straggler_has_the_rate_of_the_others(void **state)
{
	static const char *const strategies[] = { "asgd", "{name: ssp, lead: 20}",
						  "{name: softsync, collect: 4}",
						  "{name: dc-asgd, lambda: 0.1}", "fasgd" };
	static struct books b;

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++)
		for (uint32_t shards = 1; shards <= SHARDS; shards += 3) {
			struct outcome o;
			char text[1000];

			snprintf(text, sizeof text,
				 "model: {quadratic: {dimension: 4, noise: 0}}\n"
				 "data: {source: none, samples: 400, batch: 1}\n"
				 "train: {epochs: 2, seed: 3}\n"
				 "update: {rate: 0.1, schedule: {kind: step, factor: 0.1, at: "
				 "[1]}}\n"
				 "cluster: {workers: 8, shards: %u}\nstrategy: %s\n"
				 "sim: {compute: {law: constant, mean: 100ms}, stragglers: {count: "
				 "1, slower: 8}, latency: 0s, bandwidth: 0bit/s}\n",
				 shards, strategies[k]);
			books_run(&b, &o, text, a_tenth_after_one);
			for (uint32_t s = 0; s < shards; s++) {
				assert_int_equal(samples_of(&b, s), 800);
				assert_int_equal(b.updates[s], k == 2 ? 200 : 800);
			}
			assert_true(b.late > 0); /* the straggler came after the change */
			outcome_close(&o);
		}
}

/* --- every kind, every gate, faults --------------------------------------------------------- */

static double by_steps(double epoch)
{
	return 0.05 * pow(0.5, floor(epoch / 0.7 + 1e-9));
}

static double by_cosine(double epoch)
{
	return 0.05 * (0.1 + 0.9 * 0.5 * (1 + cos(M_PI * fmin(epoch / 4, 1))));
}

static double by_line(double epoch)
{
	const double warm = epoch < 1.3 ? 0.2 + 0.8 * epoch / 1.3 : 1;

	return 0.05 * (1 - 0.9 * fmin(epoch / 4, 1)) * warm;
}

static const struct {
	const char *text;
	double (*rate)(double epoch);
} kinds[] = { { "{kind: step, every: 0.7, factor: 0.5}", by_steps },
	      { "{kind: cosine, final: 0.1}", by_cosine },
	      { "{kind: linear, final: 0.1, warmup: 1.3, warmup_from: 0.2}", by_line } };

static void rates_are_of_what_is_applied(void **state)
{
	static const char *const strategies[] = {
		"asgd",
		"{name: asgd, push: 2}",
		"{name: ssp, lead: 2}",
		"{name: ssp, lead: 3, cache: true}",
		"{name: softsync, collect: 3}",
		"dc-asgd",
		"nag-asgd",
		"downpour",
		"{name: easgd, push: 2}",
		"{name: fedbuff, push: 2, collect: 3}",
		"ssgd",
		"{name: backup, extra: 2}",
		"{name: averaging, push: 2}",
	};
	static const char *const faults[] = {
		"",
		", stragglers: {count: 2, slower: 9}",
		", closed_limit: 200ms, faults: [{crash: worker 1, at: 900ms, restart: 400ms}, "
		"{leave: worker 3, at: 1500ms}]",
	};
	static struct books b;
	uint64_t late = 0, twice = 0;

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++)
		for (size_t i = 0; i < COUNT(kinds); i++)
			for (size_t f = 0; f < COUNT(faults); f++) {
				struct outcome o;
				char text[1200];

				snprintf(text, sizeof text,
					 "model: {quadratic: {dimension: 8, noise: 0.1}}\n"
					 "data: {source: none, samples: 80, batch: 2}\n"
					 "train: {epochs: 4, seed: %zu}\n"
					 "update: {rate: 0.05, schedule: %s}\n"
					 "cluster: {workers: 5, shards: %zu, wait: 20s}\n"
					 "strategy: %s\n"
					 "sim: {compute: {law: exponential, mean: 100ms}, latency: "
					 "3ms%s}\n",
					 k + 1, kinds[i].text, 1 + (k + i) % SHARDS, strategies[k],
					 faults[f]);
				books_run(&b, &o, text, kinds[i].rate);
				late += b.late;
				twice += b.twice;
				outcome_close(&o);
			}
	assert_true(late > 0 && twice > 0); /* both were met */
}

/* --- by the number of the update ------------------------------------------------------------- */

static double epochs_of_update;

static double by_root(double epoch)
{
	return 0.05 / sqrt(1 + epoch / epochs_of_update);
}

static double by_number(double epoch)
{
	return 0.05 / (1 + epoch / epochs_of_update);
}

/* Each update has its number, from 1 on, whatever goes into one. */
static void updates_are_numbered(void **state)
{
	static const struct {
		const char *strategy;
		unsigned samples; /* of an update */
		uint32_t accumulate;
	} rows[] = {
		{ "asgd", 2, 1 },
		{ "asgd", 6, 3 },
		{ "{name: softsync, collect: 3}", 6, 1 },
		{ "ssgd", 10, 1 },
		{ "{name: backup, extra: 2}", 6, 1 },
	};
	static struct books b;

	(void)state;
	for (size_t k = 0; k < 2 * COUNT(rows); k++) {
		const unsigned each = rows[k / 2].samples;
		struct outcome o;
		char text[1000];

		snprintf(text, sizeof text,
			 "model: {quadratic: {dimension: 8, noise: 0.1}}\n"
			 "data: {source: none, samples: 120, batch: 2, accumulate: %u}\n"
			 "train: {epochs: 4, seed: %zu}\n"
			 "update: {rate: 0.05, schedule: {kind: %s}}\n"
			 "cluster: {workers: 5, shards: 2}\nstrategy: %s\n"
			 "sim: {compute: {law: exponential, mean: 100ms}, latency: 3ms}\n",
			 rows[k / 2].accumulate, k + 1, k % 2 ? "inverse" : "inverse-root",
			 rows[k / 2].strategy);
		epochs_of_update = each / 120.0;
		books_run(&b, &o, text, k % 2 ? by_number : by_root);
		assert_true(fabs(b.most - 0.05) < 1e-8);
		/* the last one: all samples but its own are applied, or were dropped as late */
		assert_true(b.least < (k < 8 ? 1.03 : 1.5) * (k % 2 ? by_number : by_root)(4) &&
			    b.least > 0);
		outcome_close(&o);
	}
}

/* With curvature 1 and rate 1 / t the parameters are the mean of the points that the gradients
 * lead to: a closed form, with one worker or in rounds. */
static void one_over_t_is_the_running_mean(void **state)
{
	enum { DIMENSION = 6, SAMPLES = 60, EPOCHS = 2 };

	(void)state;
	for (unsigned workers = 1; workers <= 3; workers += 2) {
		double mean[DIMENSION] = { 0 };
		float zero[DIMENSION] = { 0 }, g[DIMENSION];
		const struct tw_piece piece = { zero, 0, DIMENSION };
		struct outcome o;
		char text[800];
		void *scratch;

		snprintf(text, sizeof text,
			 "model: {quadratic: {dimension: 6, curvature: [1], noise: 0.5}}\n"
			 "data: {source: none, samples: 60, batch: 1}\n"
			 "train: {epochs: 2, seed: 7}\n"
			 "update: {rule: sgd, rate: 1, schedule: {kind: inverse}}\n"
			 "cluster: {workers: %u}\nstrategy: ssgd\n",
			 workers);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		scratch = calloc(1, o.engine->scratch_bytes + 1);
		for (uint64_t p = 0; p < SAMPLES * EPOCHS; p++) {
			const struct tw_inputs in = {
				.from = p, .count = 1, .piece = &piece, .pieces = 1
			};
			struct tw_score score;

			assert_int_equal(
				o.engine->class->gradient(o.engine, scratch, &in, g, &score),
				TW_OK);
			for (int i = 0; i < DIMENSION; i++)
				mean[i] -= (double)g[i] / (SAMPLES * EPOCHS);
		}
		assert_false(tw_field_may_change(o.job, "cluster.workers"));
		outcome_run(&o, NULL);
		for (int i = 0; i < DIMENSION; i++)
			assert_true(fabs((double)o.vector[i] - mean[i]) < 1e-5);
		free(scratch);
		outcome_close(&o);
	}
}

/* --- replicas without servers --------------------------------------------------------------- */

/* Each counts what all of them have applied: a rate that falls to 0 is nearly there at the end. */
static void replicas_know_how_far_the_run_is(void **state)
{
	static const char *const strategies[] = { "ring", "tree", "d-psgd", "gossip", "strom" };
	static struct books b;

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		struct outcome o;
		char text[800];

		snprintf(text, sizeof text,
			 "model: {quadratic: {dimension: 8, noise: 0.1}}\n"
			 "data: {source: none, samples: 200, batch: 2}\n"
			 "train: {epochs: 5, seed: 1}\n"
			 "update: {rate: 0.1, schedule: {kind: linear, final: 0}}\n"
			 "cluster: {workers: 5, servers: 0, shards: 2}\nstrategy: %s\n"
			 "sim: {compute: {law: exponential, mean: 100ms}, latency: 3ms}\n",
			 strategies[k]);
		books_run(&b, &o, text, NULL);
		if (!(b.least <= 0.1 * 0.03 && b.least > 0 && b.most > 0.1 * 0.98 &&
		      b.most < 0.101))
			fail_msg("%s: rates from %g to %g", strategies[k], b.most, b.least);
		outcome_close(&o);
	}
}

/* --- checkpoints ---------------------------------------------------------------------------- */

static void a_stopped_run_goes_on_with_its_rate(void **state)
{
	static const char *const strategies[] = { "asgd",
						  "dana",
						  "dana-slim",
						  "{name: ssp, lead: 3, cache: true}",
						  "{name: softsync, collect: 3}",
						  "{name: easgd, push: 3}",
						  "{name: eamsgd, push: 3}",
						  "{name: async-diloco, push: 3}",
						  "ssgd" };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++)
		for (size_t i = 0; i < COUNT(kinds); i++) {
			struct outcome o;
			char text[1000];

			snprintf(text, sizeof text,
				 "model: {quadratic: {dimension: 8, noise: 0.1}}\n"
				 "data: {source: none, samples: 80, batch: 2}\n"
				 "train: {epochs: 4, seed: %zu}\n"
				 "update: {rate: 0.05, schedule: %s}\n"
				 "checkpoint: {every: 730ms, cut: drain}\n"
				 "cluster: {workers: 4, shards: %zu}\nstrategy: %s\n"
				 "sim: {compute: {law: exponential, mean: 100ms}, stragglers: "
				 "{count: 1, slower: 4}, latency: 3ms}\n",
				 k + 1, kinds[i].text, 1 + i, strategies[k]);
			outcome_of(&o, TW_WORLD_SIM, "%s", text);
			outcome_stops_change_nothing(&o, text, NULL);
			outcome_close(&o);
		}
}

/* --- one worker ----------------------------------------------------------------------------- */

/* For one worker nothing is late: whatever its period, however it sends, it is plain descent. */
static void one_worker_follows_the_schedule(void **state)
{
	static const char *const strategies[] = {
		"asgd",
		"{name: ssp, lead: 4, cache: true}",
		"{gate: async, send: delta, push: 1, outer: {rule: add}}",
		"{gate: async, send: delta, push: 4, outer: {rule: add}}",
		"{gate: async, send: delta, push: 2, fetch: 6, outer: {rule: add}}",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++)
		for (size_t i = 0; i < COUNT(kinds); i++) {
			struct outcome o, plain;
			const char *format = "model: {quadratic: {dimension: 8, noise: 0.1}}\n"
					     "data: {source: none, samples: 80, batch: 2}\n"
					     "train: {epochs: 4, seed: 5}\n"
					     "update: {rule: sgd, rate: 0.05, schedule: %s}\n"
					     "cluster: {workers: 1, shards: 2}\nstrategy: %s\n";

			outcome_of(&plain, TW_WORLD_SIM, format, kinds[i].text, "ssgd");
			outcome_of(&o, TW_WORLD_SIM, format, kinds[i].text, strategies[k]);
			for (size_t p = 0; p < o.n; p++) /* base - (base - x) rounds */
				if (fabs((double)o.vector[p] - (double)plain.vector[p]) > 1e-6)
					fail_msg("%s, %s: parameter %zu is %g, not %g",
						 strategies[k], kinds[i].text, p,
						 (double)o.vector[p], (double)plain.vector[p]);
			if (k < 2)
				assert_string_equal(o.digest, plain.digest);
			outcome_close(&plain);
			outcome_close(&o);
		}
}

/* Workers that write the shared vector by themselves take the rate that they were told. */
static void one_hogwild_worker_follows_the_schedule(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(kinds); i++) {
		struct outcome o, plain;
		const char *format = "model: {quadratic: {dimension: 8, noise: 0.1}}\n"
				     "data: {source: none, samples: 80, batch: 2}\n"
				     "train: {epochs: 4, seed: 5}\n"
				     "update: {rule: sgd, rate: 0.05, schedule: %s}\n"
				     "cluster: {workers: 1, shards: 2}\nstrategy: %s\n";

		outcome_of(&plain, TW_WORLD_THREADS, format, kinds[i].text, "ssgd");
		outcome_of(&o, TW_WORLD_THREADS, format, kinds[i].text, "hogwild");
		assert_string_equal(o.digest, plain.digest);
		outcome_close(&plain);
		outcome_close(&o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_straggler_has_the_rate_of_the_others),
		cmocka_unit_test(rates_are_of_what_is_applied),
		cmocka_unit_test(updates_are_numbered),
		cmocka_unit_test(one_over_t_is_the_running_mean),
		cmocka_unit_test(replicas_know_how_far_the_run_is),
		cmocka_unit_test(a_stopped_run_goes_on_with_its_rate),
		cmocka_unit_test(one_worker_follows_the_schedule),
		cmocka_unit_test(one_hogwild_worker_follows_the_schedule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
