/* SPDX-License-Identifier: Apache-2.0 */
/* test_subsets.c - data.deal: who is dealt which samples, with and without faults; what is computed
 * with them; and runs that resume. */
#include "job/serial.h"
#include "world/memory_store.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SLOTS        8
#define MOST         2000

static const struct kind {
	const char *strategy;
	bool rounds;
	uint32_t push;
} kinds[] = {
	{ "asgd", false, 1 },
	{ "ssgd", true, 1 },
	{ "{name: ssp, lead: 1}", false, 1 },
	{ "{name: softsync, collect: 2}", false, 1 },
	{ "{name: backup, extra: 1}", true, 1 },
	{ "{name: downpour, push: 2, fetch: 2}", false, 2 },
	{ "{name: local-sgd, push: 3}", true, 3 },
	{ "{name: async-diloco, push: 2}", false, 2 },
	{ "{name: easgd, push: 2}", false, 2 },
};

/* What a run was seen to do.  Whose a position is follows from the rule of base/order.h, which
 * test_order.c compares with plain lists. */
struct view {
	struct tw_subsets subsets;
	bool live[SLOTS], was_gone[SLOTS];
	unsigned foreign,
		returned;       /* dealt of others' subsets; own again after its slot was empty */
	unsigned applied[MOST]; /* by the first shard */
	unsigned dropped[MOST];
	const char *complaint;
	pthread_mutex_t lock;
};

static void saw_deal(struct view *v, const struct tw_note *n)
{
	const struct tw_cell c = tw_subsets_cell(&v->subsets, n->from);

	if (n->from + n->count > c.to)
		v->complaint = "a range is of two cells";
	if (c.subset == n->slot)
		v->returned += v->was_gone[n->slot];
	else if (v->live[c.subset])
		v->complaint = "a subset was dealt to another worker than its own";
	v->foreign += c.subset != n->slot;
}

static bool see(void *arg, const struct tw_note *n)
{
	struct view *v = arg;

	pthread_mutex_lock(&v->lock);
	if (n->kind == TW_NOTE_DEAL)
		saw_deal(v, n);
	if (n->kind == TW_NOTE_VIEW) {
		v->was_gone[n->slot] = v->was_gone[n->slot] || n->view.state != TW_LIVE;
		v->live[n->slot] = n->view.state == TW_LIVE;
	}
	for (uint64_t i = n->from; i < n->from + n->count && i < MOST; i++) {
		v->applied[i] += n->kind == TW_NOTE_APPLY && n->shard == 0;
		v->dropped[i] += n->kind == TW_NOTE_DROP && n->shard == UINT32_MAX;
	}
	pthread_mutex_unlock(&v->lock);
	return true;
}

static void text_of(const struct kind *k, uint32_t workers, unsigned seed, const char *sim,
		    char out[2048])
{
	snprintf(out, 2048,
		 "data: {samples: %u, batch: 3, deal: %s}\n"
		 "model: {least-squares: {dimension: 9}}\n"
		 "train: {epochs: %s, seed: %u}\n"
		 "update: {rate: 0.02}\n"
		 "cluster: {workers: %u, servers: 2, shards: 2}\n"
		 "checkpoint: {every: %s}\n"
		 "strategy: %s\n"
		 "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.6}%s}\n",
		 workers * 20 + seed % 7, seed % 2 ? "partition" : "blocks", seed % 3 ? "3" : "2.4",
		 seed, workers, seed % 5 ? "0s" : "700ms", k->strategy, sim);
}

static void run(const char *text, const char *const *set, enum tw_world_kind world, struct view *v,
		struct outcome *o)
{
	*v = (struct view){ .lock = PTHREAD_MUTEX_INITIALIZER };
	outcome_open(o, text, set, world);
	v->subsets = o->job->plan.dealing.subsets;
	assert_int_equal(v->subsets.count, o->job->cluster.workers);
	assert_true(o->job->plan.dealing.positions <= MOST);
	outcome_run(o, &(const struct watch){ .observer = see, .arg = v });
	if (v->complaint)
		fail_msg("%s\n%s", v->complaint, text);
}

/* Every position is applied: once in rounds, unless it was dropped for being late; elsewhere what a
 * worker had pushed when it died may be pushed again by another. */
static void all_applied(const struct view *v, const struct outcome *o, const struct kind *k,
			const char *text)
{
	uint64_t more = 0;

	for (uint64_t i = 0; i < o->job->plan.dealing.positions; i++) {
		const unsigned times = v->applied[i] + (k->rounds ? v->dropped[i] : 0);

		if (!times || (k->rounds && times != 1))
			fail_msg("position %llu was applied %u times, dropped %u times\n%s",
				 (unsigned long long)i, v->applied[i], v->dropped[i], text);
		more += times - 1;
	}
	assert_true(more <= o->ran.totals.repeated);
	assert_int_equal(o->ran.totals.dealt, o->job->plan.dealing.positions);
}

static void workers_get_their_own_samples(void **state)
{
	struct view v;
	char text[2048];

	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++)
		for (uint32_t workers = 2; workers <= SLOTS; workers += 2) {
			struct outcome o;

			text_of(&kinds[k], workers, (unsigned)(k + workers), "", text);
			run(text, NULL, TW_WORLD_SIM, &v, &o);
			assert_int_equal(v.foreign, 0);
			assert_int_equal(v.subsets.unit, 3 * kinds[k].push);
			all_applied(&v, &o, &kinds[k], text);
			outcome_close(&o);
		}
}

static void and_so_do_threads(void **state)
{
	struct view v;
	char text[2048];

	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		struct outcome o;

		text_of(&kinds[k], 4, (unsigned)k, "", text);
		run(text, (const char *const[]){ "cluster.stuck=0s", NULL }, TW_WORLD_THREADS, &v,
		    &o);
		assert_int_equal(v.foreign, 0);
		all_applied(&v, &o, &kinds[k], text);
		outcome_close(&o);
	}
}

/* Workers die and come back, or not: their samples are trained in any case. */
static void samples_of_the_dead_are_trained(void **state)
{
	unsigned foreign = 0, returned = 0;
	struct view v;
	char text[2048], sim[200];

	(void)state;
	for (unsigned seed = 1; seed <= 40; seed++)
		for (size_t k = 0; k < COUNT(kinds); k++) {
			const uint32_t workers = 3 + seed % 4, dies = seed % workers;
			struct outcome o;

			snprintf(sim, sizeof sim,
				 ", closed_limit: 100ms, faults: [{crash: worker %u, at: %ums%s}, "
				 "{leave: worker %u, at: %ums}]",
				 dies, 100 + 37 * seed, seed % 3 ? ", restart: 400ms" : "",
				 (dies + 1) % workers, 300 + 61 * (seed % 20));
			text_of(&kinds[k], workers, seed, sim, text);
			run(text, NULL, TW_WORLD_SIM, &v, &o);
			all_applied(&v, &o, &kinds[k], text);
			foreign += v.foreign;
			returned += v.returned;
			outcome_close(&o);
		}
	assert_true(foreign > 1000 && returned > 500);
}

/* Whoever dies: it ends, and nobody gets what another has. */
static void any_node_may_die(void **state)
{
	struct view v;
	char text[2048], sim[200];

	(void)state;
	for (unsigned seed = 1; seed <= 30; seed++)
		for (size_t k = 0; k < COUNT(kinds); k++) {
			struct outcome o;

			snprintf(sim, sizeof sim,
				 ", closed_limit: 100ms, faults: [{crash: %s, at: %ums, restart: "
				 "300ms}, {crash: worker %u, at: %ums, restart: 200ms}]",
				 seed % 2 ? "master" : "server 1", 200 + 53 * seed, seed % 4,
				 150 + 71 * (seed % 17));
			text_of(&kinds[k], 4, seed, sim, text);
			run(text, (const char *const[]){ "checkpoint.every=500ms", NULL },
			    TW_WORLD_SIM, &v, &o);
			assert_int_equal(o.ran.totals.dealt, o.job->plan.dealing.positions);
			outcome_close(&o);
		}
}

/* The gradient at a position is that of the sample which stands there. */
static void engines_follow_the_order(void **state)
{
	static const char *const models[] = {
		"data: {samples: 61, batch: 1%s}\nmodel: {least-squares: {dimension: 7}}\n",
		"data: {source: digits, samples: 61, batch: 1, prefetch: 2%s}\n"
		"model: {layers: [linear 10]}\n",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(models); k++) {
		struct outcome plain, own;
		char text[1024];
		float *a, *b;

		snprintf(text, sizeof text, models[k], "");
		outcome_open(&plain, text, NULL, TW_WORLD_THREADS);
		snprintf(text, sizeof text, models[k], ", deal: blocks");
		outcome_open(&own, text, (const char *const[]){ "cluster.workers=4", NULL },
			     TW_WORLD_THREADS);
		a = calloc(own.engine->trainable, 2 * sizeof *a);
		b = a + own.engine->trainable;
		for (uint64_t p = 0; p < 2 * 61; p++) {
			const uint64_t sample = tw_order_sample(&own.engine->order, p);
			const struct tw_engine *e[] = { own.engine, plain.engine };
			float *const out[] = { a, b };
			uint64_t at[] = { p, p - p % 61 };

			while (tw_order_sample(&plain.engine->order, at[1]) != sample)
				at[1]++;
			for (int i = 0; i < 2; i++) {
				float *w = calloc(e[i]->trainable, sizeof *w);
				void *scratch = calloc(1, e[i]->scratch_bytes + 1);
				const struct tw_piece piece = { w, 0, e[i]->trainable };
				const struct tw_inputs in = {
					.from = at[i], .count = 1, .piece = &piece, .pieces = 1
				};
				struct tw_score score;

				assert_int_equal(
					e[i]->class->gradient(e[i], scratch, &in, out[i], &score),
					TW_OK);
				free(scratch);
				free(w);
			}
			assert_memory_equal(a, b, own.engine->trainable * sizeof *a);
		}
		free(a);
		outcome_close(&plain);
		outcome_close(&own);
	}
}

/* Rounds: every worker's next samples of its own range, in the order of its own permutation. */
static void rounds_are_a_plain_loop(void **state)
{
	enum { N = 3, DIMENSION = 5, BATCH = 4, SAMPLES = 50, EPOCHS = 4 };
	const char *text = "data: {samples: 50, batch: 4, deal: blocks}\n"
			   "model: {least-squares: {dimension: 5}}\n"
			   "train: {epochs: 4, seed: 9}\nupdate: {rate: 0.125}\n"
			   "cluster: {workers: 3}\nstrategy: ssgd\n";
	float w[DIMENSION], g[DIMENSION], sum[DIMENSION];
	const struct tw_piece piece = { w, 0, DIMENSION };
	struct outcome o;
	void *scratch;

	(void)state;
	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	scratch = calloc(1, o.engine->scratch_bytes + 1);
	assert_int_equal(o.engine->class->init(o.engine, 0, DIMENSION, w), TW_OK);
	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
		uint64_t left[N] = { 17, 17, 16 }, place = epoch * SAMPLES;

		while (left[0]) {
			const bool full = left[N - 1] >= BATCH;
			float weight = 0;

			memset(sum, 0, sizeof sum);
			for (int k = 0; k < N; k++) {
				const uint64_t take = full ? BATCH : left[k];
				const struct tw_inputs in = { .from = place,
							      .count = (uint32_t)take,
							      .piece = &piece,
							      .pieces = 1 };
				struct tw_score score;

				left[k] -= take;
				place += take;
				if (!take)
					continue;
				assert_int_equal(o.engine->class->gradient(o.engine, scratch, &in,
									   g, &score),
						 TW_OK);
				weight += (float)take / BATCH;
				for (int i = 0; i < DIMENSION; i++)
					sum[i] += g[i] * ((float)take / BATCH);
			}
			for (int i = 0; i < DIMENSION; i++)
				w[i] -= 0.125f * (sum[i] / weight);
		}
		assert_int_equal(place, (epoch + 1) * SAMPLES);
	}
	outcome_run(&o, NULL);
	for (int i = 0; i < DIMENSION; i++)
		assert_true(o.vector[i] - w[i] < 1e-6f && w[i] - o.vector[i] < 1e-6f);
	free(scratch);
	outcome_close(&o);
}

static void resuming_changes_nothing(void **state)
{
	const char *const set[] = { "checkpoint.every=300ms", NULL };
	char text[2048];

	(void)state;
	for (size_t k = 0; k < COUNT(kinds); k++) {
		struct outcome whole;

		text_of(&kinds[k], 4, (unsigned)k + 1, "", text);
		outcome_open(&whole, text, set, TW_WORLD_SIM);
		outcome_run(&whole, NULL);
		outcome_stops_change_nothing(&whole, text, set);
		outcome_close(&whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_get_their_own_samples),
		cmocka_unit_test(and_so_do_threads),
		cmocka_unit_test(samples_of_the_dead_are_trained),
		cmocka_unit_test(any_node_may_die),
		cmocka_unit_test(engines_follow_the_order),
		cmocka_unit_test(rounds_are_a_plain_loop),
		cmocka_unit_test(resuming_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
