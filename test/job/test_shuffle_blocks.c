/* SPDX-License-Identifier: Apache-2.0 */
/* test_shuffle_blocks.c - data.shuffle: {block: n}: leases that end with blocks, engines that read
 * the samples of the order, and runs that apply every position. */
#include "job/serial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST         4096

/* What a run was seen to deal. */
struct view {
	uint64_t samples, block;
	unsigned ranges, split, long_ones; /* ranges that cross a border and end within a block */
	unsigned applied[MOST];            /* by the first shard */
};

static bool see(void *arg, const struct tw_note *n)
{
	struct view *v = arg;

	if (n->kind == TW_NOTE_DEAL) {
		const uint64_t from = n->from % v->samples, to = from + n->count;
		const bool crosses = from / v->block != (to - 1) / v->block;

		v->ranges++;
		v->long_ones += n->count >= v->block;
		v->split += crosses && to % v->block && to != v->samples;
	}
	for (uint64_t i = n->from; i < n->from + n->count && i < MOST; i++)
		v->applied[i] += n->kind == TW_NOTE_APPLY && n->shard == 0;
	return true;
}

static void run(const char *strategy, uint32_t batch, const char *sim, struct view *v,
		struct outcome *o)
{
	char text[1024];

	snprintf(text, sizeof text,
		 "data: {samples: 1000, batch: %u, shuffle: {block: 64}}\n"
		 "model: {least-squares: {dimension: 9}}\ntrain: {epochs: 3, seed: 4}\n"
		 "update: {rate: 0.01}\ncluster: {workers: 3}\nstrategy: %s\n"
		 "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.6}%s}\n",
		 batch, strategy, sim);
	*v = (struct view){ .samples = 1000, .block = 64 };
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	assert_int_equal(o->job->plan.dealing.block, 64);
	outcome_run(o, &(const struct watch){ .observer = see, .arg = v });
	assert_int_equal(o->ran.totals.dealt, 3000);
	for (uint64_t i = 0; i < 3000; i++)
		assert_true(v->applied[i]);
}

/* With batches that fill blocks, no lease takes the beginning of a block behind the end of another;
 * with others it may, because batches are not cut short for it. */
static void leases_end_with_blocks(void **state)
{
	static const struct {
		const char *strategy;
		uint32_t batch;
		bool fills;
	} rows[] = {
		{ "asgd", 4, true },
		{ "asgd", 16, true },
		{ "{name: ssp, lead: 1}", 8, true },
		{ "{gate: async, push: 2, fetch: 2}", 4, true },
		{ "asgd", 12, false },
	};
	struct outcome o;
	struct view v;

	(void)state;
	for (size_t k = 0; k < COUNT(rows); k++) {
		run(rows[k].strategy, rows[k].batch, "", &v, &o);
		assert_true(v.long_ones > 0);
		assert_true(rows[k].fills ? v.split == 0 : v.split > 0);
		for (uint64_t i = 0; i < 3000; i++)
			assert_int_equal(v.applied[i], 1);
		outcome_close(&o);
	}
}

/* Rounds deal a batch at a time; workers that die give back parts of blocks. */
static void all_is_applied_whatever_happens(void **state)
{
	static const char *const strategies[] = { "ssgd", "asgd", "{name: local-sgd, push: 3}" };
	struct outcome o;
	struct view v;

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		run(strategies[k], 8,
		    ", closed_limit: 100ms, faults: [{crash: worker 1, at: 2s, restart: 400ms}, "
		    "{leave: worker 2, at: 3s}]",
		    &v, &o);
		outcome_close(&o);
	}
}

static void gradient_at(const struct tw_engine *e, uint64_t position, float *out)
{
	float *w = calloc(e->trainable, sizeof *w);
	void *scratch = calloc(1, e->scratch_bytes + 1);
	const struct tw_piece piece = { w, 0, e->trainable };
	const struct tw_inputs in = { .from = position, .count = 1, .piece = &piece, .pieces = 1 };
	struct tw_score score;

	assert_int_equal(e->class->gradient(e, scratch, &in, out, &score), TW_OK);
	free(scratch);
	free(w);
}

/* The gradient at a position is that of the sample which stands there by the rule: the same as at
 * the position where it stands without blocks. */
static void engines_follow_the_order(void **state)
{
	static const char *const models[] = {
		"data: {samples: 61, batch: 1%s}\nmodel: {least-squares: {dimension: 7}}\n",
		"data: {source: digits, samples: 61, batch: 1, prefetch: 2%s}\n"
		"model: {layers: [linear 10]}\n",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(models); k++) {
		struct outcome plain, blocks;
		bool seen[61] = { false };
		char text[1024];
		float *a, *b;

		snprintf(text, sizeof text, models[k], "");
		outcome_open(&plain, text, NULL, TW_WORLD_THREADS);
		snprintf(text, sizeof text, models[k], ", shuffle: {block: 8}");
		outcome_open(&blocks, text, NULL, TW_WORLD_THREADS);
		a = calloc(plain.engine->trainable, 2 * sizeof *a);
		b = a + plain.engine->trainable;
		for (uint64_t p = 61; p < UINT64_C(2) * 61; p++) {
			const uint64_t first = p - (p - 61) % 8;
			const uint64_t sample = tw_order_sample(&blocks.engine->order, p);
			uint64_t at = 61;

			assert_int_equal(sample / 8,
					 tw_order_sample(&blocks.engine->order, first) / 8);
			assert_false(seen[sample]);
			seen[sample] = true;
			while (tw_order_sample(&plain.engine->order, at) != sample)
				at++;
			gradient_at(plain.engine, at, a);
			gradient_at(blocks.engine, p, b);
			assert_memory_equal(a, b, plain.engine->trainable * sizeof *a);
		}
		free(a);
		outcome_close(&plain);
		outcome_close(&blocks);
	}
}

/* The same in both worlds, and another order than without blocks. */
static void the_order_is_the_job_s(void **state)
{
	const char *text = "data: {samples: 300, global_batch: 12%s}\n"
			   "model: {least-squares: {dimension: 5}}\n"
			   "train: {epochs: 2, seed: 9}\nupdate: {rate: 0.125}\n"
			   "cluster: {workers: 3}\nstrategy: ssgd\n";
	static const struct {
		const char *block;
		enum tw_world_kind world;
	} rows[] = {
		{ ", shuffle: {block: 30}", TW_WORLD_SIM },
		{ ", shuffle: {block: 30}", TW_WORLD_SIM },
		{ ", shuffle: {block: 30}", TW_WORLD_THREADS },
		{ ", shuffle: {block: 0}", TW_WORLD_SIM },
		{ "", TW_WORLD_SIM },
	};
	float w[COUNT(rows)][5];

	(void)state;
	for (size_t k = 0; k < COUNT(rows); k++) {
		struct outcome o;
		char job[1024];

		snprintf(job, sizeof job, text, rows[k].block);
		outcome_open(&o, job, NULL, rows[k].world);
		outcome_run(&o, NULL);
		memcpy(w[k], o.vector, sizeof w[k]);
		outcome_close(&o);
	}
	assert_memory_equal(w[0], w[1], sizeof w[0]);
	assert_memory_equal(w[0], w[2], sizeof w[0]);
	assert_memory_equal(w[3], w[4], sizeof w[0]);
	assert_memory_not_equal(w[0], w[3], sizeof w[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leases_end_with_blocks),
		cmocka_unit_test(all_is_applied_whatever_happens),
		cmocka_unit_test(engines_follow_the_order),
		cmocka_unit_test(the_order_is_the_job_s),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
