/* SPDX-License-Identifier: Apache-2.0 */
/* test_error_feedback.c - what every codec with a residual promises of whole runs: the parameters,
 * less the rate times what is owed, are where uncompressed steps along the same gradients lead. */
#include "job/trial.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DIMENSION 600
#define WORKERS   3
#define RATE      0.05

/* --- an engine whose gradients are added up ------------------------------------------------- */

static const struct tw_engine_class *real;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* sim computes on several threads */
static double all[DIMENSION];

static enum tw_status add_up(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			     float *gradient, struct tw_score *score)
{
	const enum tw_status st = real->gradient(e, scratch, in, gradient, score);

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < DIMENSION; i++)
		all[i] += (double)gradient[i];
	pthread_mutex_unlock(&lock);
	return st;
}

/* --- runs ----------------------------------------------------------------------------------- */

struct ran {
	float w[DIMENSION];
	double owed[DIMENSION]; /* by all workers */
	struct tw_tally tally;
};

/* What workers owe in the last checkpoint. */
static void add_residuals(struct tw_store *store, double *owed)
{
	struct tw_part *parts;
	uint64_t cut;
	size_t count;

	assert_int_equal(store->load(store, &cut, &parts, &count), TW_OK);
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a;
		struct tw_array *list;
		size_t arrays;

		if (strncmp(parts[k].name, "worker ", 7) != 0)
			continue;
		assert_int_equal(tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes,
						&tw_heap_system, &list, &arrays),
				 TW_OK);
		a = tw_part_find(list, arrays, "residual");
		for (size_t i = 0; a && i < a->n; i++)
			owed[i] += (double)((const float *)a->at)[i];
		tw_heap_system.put(&tw_heap_system, list);
	}
	store->loaded_free(store, parts, count);
}

static void run(const char *strategy, const char *codec, uint32_t workers, uint32_t shards,
		struct ran *out)
{
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	struct tw_engine_class adding;
	struct tw_ran ran;
	struct trial t;
	size_t at = 0;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, noise: 0.01}}\n"
		   "data: {source: none, samples: 96, batch: 2}\n"
		   "train: {epochs: 1, seed: 5}\nupdate: {rate: %g}\n"
		   "cluster: {workers: %u, servers: 1, shards: %u}\n"
		   "strategy: {name: %s, codec: {%s}}\n"
		   "sim: {compute: {law: exponential, mean: 20ms}, latency: 1ms}\n",
		   DIMENSION, RATE, workers, shards, strategy, codec);
	memset(all, 0, sizeof all);
	memset(out, 0, sizeof *out);
	real = t.engine->class;
	adding = *real;
	adding.gradient = add_up;
	t.engine->class = &adding;
	t.job->plan.checkpoint.final = true;
	assert_int_equal(trial_run(&t, &tw_heap_system, store, &ran), TW_OK);
	for (uint32_t s = 0; s < shards; s++) {
		const size_t n = t.job->plan.problem.border[s + 1] - t.job->plan.problem.border[s];

		memcpy(out->w + at, tw_block_floats(ran.totals.vector[s]), n * sizeof(float));
		at += n;
	}
	assert_int_equal(at, DIMENSION);
	out->tally = ran.totals.tally;
	tw_totals_release(&ran.totals);
	add_residuals(store, out->owed);
	tw_memory_store_free(store);
	t.engine->class = real;
	trial_close(&t);
}

struct method {
	const char *strategy;
	double share; /* of one contribution in an update */
};

/* x - rate * mean(e) = x0 - rate * the sum of mean gradients; asynchronous: sums, not means. */
static void follows_sgd(const struct method *m, const char *codec, uint32_t shards)
{
	double owed = 0;
	struct ran r;

	run(m->strategy, codec, WORKERS, shards, &r);
	for (size_t i = 0; i < DIMENSION; i++) {
		const double by = RATE * m->share;
		const double want = 1 - by * all[i]; /* the quadratic starts at 1 */
		const double is = (double)r.w[i] - by * r.owed[i];

		if (fabs(is - want) > 1e-6 * fmax(1.0, by * fabs(r.owed[i])))
			fail_msg("%s, %s: %zu is %.9f, not %.9f", m->strategy, codec, i, is, want);
		owed += fabs(r.owed[i]);
	}
	assert_true(owed > 0.1); /* there was something to make up for */
}

static void the_virtual_iterate_follows_sgd(void **state)
{
	static const struct method methods[] = { { "asgd", 1 },
						 { "ssp", 1 },
						 { "ssgd", 1.0 / WORKERS },
						 { "softsync, collect: 1", 1 } };
	unsigned pairs = 0;

	(void)state;
	for (size_t m = 0; m < sizeof methods / sizeof methods[0]; m++)
		for (size_t k = 0; tw_codec_all[k]; k++) {
			const struct tw_codec *c = tw_codec_all[k];
			char codec[80];

			if ((c->traits & (TW_CODEC_REMEMBERS | TW_CODEC_MOMENTUM |
					  TW_CODEC_FADES)) != TW_CODEC_REMEMBERS)
				continue;
			for (uint32_t shards = 1; shards <= 3; shards += 2, pairs++) {
				snprintf(codec, sizeof codec, "up: %s", c->name);
				follows_sgd(&methods[m], codec, shards);
			}
			for (const struct tw_option *o = c->options; o && o->name; o++)
				for (size_t i = 0; o->type == TW_CHOICE && o->choices[i]; i++) {
					snprintf(codec, sizeof codec, "up: %s, up_%s: %s", c->name,
						 o->name, o->choices[i]);
					follows_sgd(&methods[m], codec, 1);
				}
		}
	assert_true(pairs >= 30);
}

/* All values sent: sgd, bit for bit. */
static void topk_of_all_is_sgd(void **state)
{
	static const char *const strategies[] = { "ssgd", "asgd", "ssp" };

	for (size_t k = 0; k < 3; k++) {
		struct ran plain, top;

		run(strategies[k], "up: fp32", k ? 1 : WORKERS, 2, &plain);
		run(strategies[k], "up: topk, up_share: 1", k ? 1 : WORKERS, 2, &top);
		assert_memory_equal(plain.w, top.w, sizeof plain.w);
		for (size_t i = 0; i < DIMENSION; i++)
			assert_true(top.owed[i] == 0.0);
	}
}

/* Bytes and density are what the codec's format says: 48 pushes, each to one shard. */
static void bytes_are_counted(void **state)
{
	enum { FEW = DIMENSION / 100 };
	static const struct {
		const char *codec;
		uint64_t each, sent;
	} cases[] = { { "up: fp32", 4 * DIMENSION, DIMENSION },
		      { "up: fp16", 2 * DIMENSION, DIMENSION },
		      { "up: int8", DIMENSION + 3 * 4, DIMENSION },
		      { "up: onebit", DIMENSION / 8 + 2 * 4, DIMENSION },
		      { "up: onebit, up_means: two", DIMENSION / 8 + 2 * 8, DIMENSION },
		      { "up: onebit, up_means: two, up_tile: 100", 6 * (8 + 13), DIMENSION },
		      { "up: topk, up_share: 0.01", 4 + 8 * FEW, FEW },
		      { "up: randomk, up_share: 0.01", 8 + 4 * FEW, FEW },
		      { "up: threshold, up_tau: 1e12", 8, 0 },
		      { "up: threshold, up_tau: 1e12, up_coding: rice", 9, 0 } };

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		for (size_t m = 0; m < 2; m++) { /* added as they come, and decoded */
			struct ran r;

			run(m ? "ssgd" : "asgd", cases[k].codec, WORKERS, 1, &r);
			assert_int_equal(r.tally.up_slices, 48);
			assert_int_equal(r.tally.up_raw, (uint64_t)48 * 4 * DIMENSION);
			assert_int_equal(r.tally.up_encoded, 48 * cases[k].each);
			assert_int_equal(r.tally.up_values, (uint64_t)48 * DIMENSION);
			assert_int_equal(r.tally.up_sent, 48 * cases[k].sent);
			assert_true(r.tally.down_raw >= r.tally.up_raw / WORKERS);
			assert_int_equal(r.tally.down_encoded, r.tally.down_raw);
		}
}

static double loss_of(const char *codec, uint32_t epochs)
{
	struct tw_ran ran;
	struct trial t;
	double loss;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, curvature: [0.1, 1]}}\n"
		   "data: {source: none, samples: 300, batch: 1}\n"
		   "train: {epochs: %u, seed: 5, evaluate: 0}\nupdate: {rate: 0.02}\n"
		   "cluster: {workers: %d}\nstrategy: {name: asgd, codec: {%s}}\n"
		   "sim: {compute: {law: exponential, mean: 20ms}, latency: 1ms}\n",
		   DIMENSION, epochs, WORKERS, codec);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	loss = ran.totals.loss;
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return loss;
}

/* A bit for each value is enough: without noise both rules go on to the minimum, as fast as without
 * a codec within a factor of the epochs. */
static void one_bit_converges(void **state)
{
	static const char *const codecs[] = { "up: onebit", "up: onebit, up_means: two",
					      "up: onebit, up_means: two, up_tile: 64" };
	const double early = loss_of("up: fp32", 1), late = loss_of("up: fp32", 10);

	(void)state;
	for (size_t k = 0; k < sizeof codecs / sizeof codecs[0]; k++) {
		const double loss = loss_of(codecs[k], 20);

		if (!(loss < 10 * late && loss < 1e-3 * early))
			fail_msg("%s: loss %g after 20 epochs; fp32: %g after one, %g after ten",
				 codecs[k], loss, early, late);
	}
}

/* The way down in one byte per value, drawn per version: close to the run without. */
static void parameters_come_down_in_bytes(void **state)
{
	struct ran plain, r;

	run("asgd", "down: fp32", WORKERS, 2, &plain);
	run("asgd", "down: int8", WORKERS, 2, &r);
	assert_true(r.tally.down_encoded < r.tally.down_raw * 27 / 100);
	for (size_t i = 0; i < DIMENSION; i++)
		assert_true(fabsf(r.w[i] - plain.w[i]) < 0.05f * (1 + fabsf(plain.w[i])));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_virtual_iterate_follows_sgd),
		cmocka_unit_test(topk_of_all_is_sgd),
		cmocka_unit_test(bytes_are_counted),
		cmocka_unit_test(one_bit_converges),
		cmocka_unit_test(parameters_come_down_in_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
