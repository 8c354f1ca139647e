/* SPDX-License-Identifier: Apache-2.0 */
/* test_digest.c - same seed, same bits: on one core and on two, run again, stopped and resumed. */
#include "job/serial.h"

#include "run/run.h"
#include "checkpoint/checkpoint_directory.h"
#include "job/reading.h"
#include "job/trial.h"
#include "world/memory_store.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Beside the presets as they are. */
static const struct variant {
	const char *strategy, *update, *data;
} variants[] = {
	{ "{name: downpour, push: 3, fetch: 2}", "rate: 0.1", "batch: 3" },
	{ "{name: downpour, push: 2, fetch: 3, local: {rule: momentum}, merge: keep}", "rate: 0.1",
	  "batch: 3" },
	{ "{name: fasgd, skip: {push: 0.2, fetch: 0.5}}", "rate: 0.02", "batch: 3" },
	{ "{name: backup, extra: 2, abandon: true}", "rate: 0.2", "batch: 3, accumulate: 2" },
	{ "{name: ssp, lead: 0}", "rate: 0.02", "global_batch: 19" },
	{ "{name: rudra, n: 2, sum: total}", "rate: 0.02, decay: 0.01, clip: 1", "batch: 3" },
	{ "{name: asgd, push: 2, codec: {up: bf16, down: fp16}}", "rate: 0.02",
	  "batch: 2, accumulate: 2" },
	{ "asgd", "rate: 0.02, rule: adamw, decay: 0.1, schedule: {kind: cosine, warmup: 1}",
	  "batch: 3" },
	{ "dana", "rate: 0.02, decay: 0.1, schedule: {kind: cosine, warmup: 1}", "batch: 3" },
	{ "dana-slim",
	  "rate: 0.02, decay: 0.1, schedule: {kind: step, at: [1, 2], factor: 0.3, warmup: 0.5}",
	  "batch: 2, accumulate: 2" },
	{ "{name: dana-dc, codec: {down: bf16}}", "rate: 0.02", "batch: 3" },
	{ "gap-aware", "rate: 0.02, decay: 0.05", "batch: 3" },
};

static const char *const laws[] = {
	"{law: log-normal, median: 100ms, sigma: 0.4}",
	"{law: exponential, mean: 100ms}",
	"{law: constant, mean: 100ms}",
};
static const char *const links[] = {
	"latency: 0s",
	"latency: 3ms, jitter: 4ms, bandwidth: 1Mbit/s, loss: 0.05, apply_rate: 20000, "
	"load_time: 20ms",
	"latency: 3ms, jitter: 4ms, bandwidth: 1Mbit/s, apply_rate: 20000, load_time: 20ms",
};

/* A cut waits for workers that are late for their round.  One that abandons its computation is not
 * late, but it may have pushed a moment before; if that push is lost on the way it may still be on
 * its link when training goes on after a cut, and keeps what is sent after it waiting: a run that
 * stopped there has not got it.  So links do not lose where workers abandon. */
static const char *link_for(const char *strategy, uint64_t turn)
{
	const bool late = strstr(strategy, "abandon") != NULL;

	return turn % 2 == 0 ? links[0] : links[late ? 2 : 1];
}

struct sort {
	char name[128], text[1600];
};

static void write_sort(struct sort *s, const char *strategy, const char *update, const char *data,
		       uint64_t turn)
{
	static const uint32_t shards[] = { 1, 2, 7, 16 };
	static const uint32_t workers[] = { 8, 3, 8 };
	const struct tw_preset *preset = tw_preset_find(strategy);
	const uint32_t n = shards[turn % 4], some = n > 1 ? 2 : 1;
	const int len = snprintf(
		s->text, sizeof s->text,
		"model: {quadratic: {dimension: 37, noise: 0.3, spread: 0.5, buffers: 5}}\n"
		"data: {source: none, samples: 80, %s}\n"
		"train: {epochs: 3.3, seed: %llu}\nupdate: {%s}\n"
		"cluster: {workers: %u, shards: %u, servers: %u}\nstrategy: %s\n"
		"checkpoint: {every: 300ms}\n"
		"sim: {compute: %s, %s, stragglers: {count: 1, slower: 2}}\n",
		data, (unsigned long long)turn + 1, update, workers[turn % 3], n,
		preset && !has_servers(preset) ? 0 : some, strategy, laws[turn % 3],
		link_for(strategy, turn));

	assert_true(len > 0 && (size_t)len < sizeof s->text);
	snprintf(s->name, sizeof s->name, "%s", strategy);
}

/* Presets without a server, each in some shapes. */
static bool next_peers(struct sort *s, uint64_t turn, size_t rounds)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		if (has_servers(p))
			continue;
		if (turn < 2 * rounds) {
			write_sort(s, p->name, "rate: 0.02", "batch: 3", turn * 5);
			return true;
		}
		turn -= 2 * rounds;
	}
	return false;
}

/* Every preset that sim accepts, and the variants, each in some of its shapes. */
static bool next_sort(struct sort *s, uint64_t *turn, size_t rounds)
{
	size_t presets = 0, k;

	while (trial_preset(TW_WORLD_THREADS, presets))
		presets++;
	k = *turn % (presets + COUNT(variants));
	if (*turn >= rounds * (presets + COUNT(variants)))
		return next_peers(s, (*turn)++ - rounds * (presets + COUNT(variants)), rounds);
	/* one number apart from the other two cycles, or a preset would meet one law only */
	const uint64_t shape = *turn + *turn / (presets + COUNT(variants));

	++*turn;
	if (k < presets && !strcmp(trial_preset(TW_WORLD_THREADS, k), "hogwild"))
		return next_sort(s, turn, rounds);
	if (k < presets)
		write_sort(s, trial_preset(TW_WORLD_THREADS, k), "rate: 0.02", "batch: 3", shape);
	else
		write_sort(s, variants[k - presets].strategy, variants[k - presets].update,
			   variants[k - presets].data, shape);
	return true;
}

#define TWO(what) (unsigned long long)x->what, (unsigned long long)y->what

/* Says what differs and goes on: which methods do and which do not tells most. */
static bool equal(const struct sort *s, const struct outcome *a, const struct outcome *b,
		  const char *how)
{
	const struct tw_totals *x = &a->ran.totals, *y = &b->ran.totals;
	struct tw_tally of_x = x->tally, of_y = y->tally;

	/* what was late for a cut is fenced or dropped after it, unless the run stopped there */
	of_x.fenced = of_y.fenced = of_x.dropped_pushes = of_y.dropped_pushes = 0;
	/* who comes back asks again for what it had */
	of_x.down_slices = of_x.down_raw = of_x.down_encoded = 0;
	of_y.down_slices = of_y.down_raw = of_y.down_encoded = 0;
	if (strcmp(a->digest, b->digest) != 0 ||
	    memcmp(a->vector, b->vector, a->n * sizeof(float)) != 0)
		print_error("%s: another digest %s\n%s", s->name, how, s->text);
	else if (memcmp(&of_x, &of_y, sizeof of_x) != 0)
		print_error(
			"%s: another tally %s: updates %llu, %llu; staleness %llu, %llu; refused "
			"%llu, %llu\n%s",
			s->name, how, TWO(tally.updates), TWO(tally.staleness_sum),
			TWO(tally.refused), s->text);
	else if (x->steps != y->steps || x->samples != y->samples || x->dropped != y->dropped ||
		 x->redealt != y->redealt || x->updates != y->updates || x->loss != y->loss)
		print_error("%s: other totals %s: steps %llu, %llu; samples %llu, %llu; dropped "
			    "%llu, %llu; dealt again %llu, %llu; loss %g, %g\n%s",
			    s->name, how, TWO(steps), TWO(samples), TWO(dropped), TWO(redealt),
			    x->loss, y->loss, s->text);
	else
		return true;
	return false;
}

static void run_on(struct outcome *o, const struct sort *s, const char *threads)
{
	const char *const set[] = { threads, NULL };

	outcome_open(o, s->text, set, TW_WORLD_SIM);
	outcome_run(o, NULL);
}

static void cores_do_not_matter(void **state)
{
	static const char *const threads[] = { "sim.threads=1", "sim.threads=2" };
	struct sort s;
	uint64_t turn = 0, failed = 0;

	(void)state;
	while (next_sort(&s, &turn, 2)) {
		struct outcome first, again;

		run_on(&first, &s, threads[0]);
		for (int k = 1; k < 4; k++) {
			run_on(&again, &s, threads[k % 2]);
			failed += !equal(&s, &first, &again,
					 k % 2 ? "on two cores" : "the second time");
			assert_true(first.ran.events == again.ran.events);
			assert_true(first.ran.virtual_ns == again.ran.virtual_ns);
			outcome_close(&again);
		}
		assert_true(first.ran.totals.cut >= 2);
		outcome_close(&first);
	}
	assert_int_equal(failed, 0);
}

static void seeds_do_matter(void **state)
{
	struct sort s;
	uint64_t turn = 0;

	(void)state;
	while (next_sort(&s, &turn, 2)) {
		const char *const set[] = { "train.seed=4711", NULL };
		struct outcome a, b;

		outcome_open(&a, s.text, NULL, TW_WORLD_SIM);
		outcome_open(&b, s.text, set, TW_WORLD_SIM);
		outcome_run(&a, NULL);
		outcome_run(&b, NULL);
		assert_string_not_equal(a.digest, b.digest);
		outcome_close(&a);
		outcome_close(&b);
	}
}

/* Stop after `first` cuts, go on for `second` more (0: to the end), go on to the end. */
static void resumed(struct outcome *o, const struct sort *s, uint64_t first, uint64_t second)
{
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	struct outcome part;

	assert_non_null(store);
	outcome_open(&part, s->text, NULL, TW_WORLD_SIM);
	outcome_run(&part, &(const struct watch){ .store = store, .stop_after = first });
	outcome_close(&part);
	if (second) {
		outcome_open(&part, s->text, NULL, TW_WORLD_SIM);
		outcome_run(&part, &(const struct watch){
					   .store = store, .resume = true, .stop_after = second });
		outcome_close(&part);
	}
	outcome_open(o, s->text, NULL, TW_WORLD_SIM);
	outcome_run(o, &(const struct watch){ .store = store, .resume = true });
	tw_memory_store_free(store);
}

static void stopping_does_not_matter(void **state)
{
	struct sort s;
	uint64_t turn = 0, failed = 0;

	(void)state;
	while (next_sort(&s, &turn, 2)) {
		struct outcome whole, again;
		uint64_t cuts;

		outcome_open(&whole, s.text, NULL, TW_WORLD_SIM);
		outcome_run(&whole, NULL);
		cuts = whole.ran.totals.cut;
		assert_true(cuts >= 2);
		for (uint64_t first = 1; first < cuts && first <= 3; first++) {
			resumed(&again, &s, first, 0);
			failed += !equal(&s, &whole, &again, "stopped and resumed");
			outcome_close(&again);
		}
		if (cuts >= 3) {
			resumed(&again, &s, 1, 1);
			failed += !equal(&s, &whole, &again, "stopped and resumed twice");
			outcome_close(&again);
		}
		outcome_close(&whole);
	}
	assert_int_equal(failed, 0);
}

/* Where rounds close without the slowest, an answer that is late at a cut would decide who that is.
 * (Links lose messages here.  What is sent again may be on its way for longer than a cut takes, so
 * some seeds beyond these differ: docs/STRATEGIES.md.) */
static void late_answers_do_not_matter(void **state)
{
	static const char *const strategies[] = { "backup", "{name: backup, extra: 2}",
						  "{name: backup, extra: 1, abandon: true}" };
	uint64_t failed = 0;

	(void)state;
	for (uint64_t turn = 1; turn < 99; turn += 4) {
		struct outcome whole;
		struct sort s;

		write_sort(&s, strategies[turn / 7 % 3], "rate: 0.02", "batch: 3", turn);
		outcome_open(&whole, s.text, NULL, TW_WORLD_SIM);
		outcome_run(&whole, NULL);
		for (uint64_t first = 1; first < whole.ran.totals.cut; first++) {
			struct outcome again;

			resumed(&again, &s, first, 0);
			failed += !equal(&s, &whole, &again, "stopped and resumed");
			outcome_close(&again);
		}
		outcome_close(&whole);
	}
	assert_int_equal(failed, 0);
}

/* What workers keep themselves is theirs again, also if they come before it was read. */
static void workers_get_back_what_they_kept(void **state)
{
	static const struct variant keeps[] = {
		{ "dana-slim", "rate: 0.02", "batch: 3" },
		{ "{name: averaging, push: 2}", "rate: 0.02, rule: adamw", "batch: 3" },
		{ "{name: diloco, push: 3}", "rate: 0.02, rule: adam", "batch: 2, accumulate: 2" },
		{ "{name: eamsgd, push: 2}", "rate: 0.02", "batch: 3" },
		{ "{gate: async, send: delta, push: 2, merge: mix, alpha: 0.3, outer: {rule: "
		  "average, "
		  "rate: 0.5}}",
		  "rate: 0.02, rule: momentum", "batch: 3" },
		{ "{name: downpour, push: 2, fetch: 3, local: {rule: momentum}, merge: keep}",
		  "rate: 0.1", "batch: 3" },
	};
	uint64_t failed = 0;

	(void)state;
	for (size_t k = 0; k < COUNT(keeps); k++)
		for (uint64_t turn = 1; turn < 20; turn += 2) {
			struct outcome whole, again;
			struct sort s;

			write_sort(&s, keeps[k].strategy, keeps[k].update, keeps[k].data, turn);
			outcome_open(&whole, s.text, NULL, TW_WORLD_SIM);
			outcome_run(&whole, NULL);
			resumed(&again, &s, 1, 0);
			failed += !equal(&s, &whole, &again, "stopped and resumed");
			outcome_close(&again);
			outcome_close(&whole);
		}
	assert_int_equal(failed, 0);
}

/* The same through directories and results, as a user has it. */
static char *run_in(const struct sort *s, const char *dir, uint64_t checkpoints)
{
	static const struct tw_log quiet = { .sink = NULL };
	const struct tw_run_request r = { .dir = dir, .checkpoints = checkpoints, .log = &quiet };
	struct tw_job *job = good_job(s->text, NULL, TW_WORLD_SIM);
	struct tw_error why = { 0 };
	json_t *result = NULL;
	char *digest;

	if (tw_run(&r, job, &result, &why) != (checkpoints ? TW_INTERRUPTED : TW_OK))
		fail_msg("%s: %s", s->name, why.text);
	digest = checkpoints
			 ? NULL
			 : strdup(json_string_value(json_object_get(result, "parameters_digest")));
	json_decref(result);
	tw_job_free(job);
	return digest;
}

static void stopping_does_not_matter_on_disk(void **state)
{
	struct sort s;
	uint64_t turn = 0, failed = 0;

	(void)state;
	while (next_sort(&s, &turn, 1)) {
		char whole[64], parts[64];
		char *a, *b;

		folder_make(whole);
		folder_make(parts);
		a = run_in(&s, whole, 0);
		run_in(&s, parts, 1);
		b = run_in(&s, parts, 0);
		if (strcmp(a, b) != 0) {
			print_error("%s: another digest resumed from disk\n%s", s.name, s.text);
			failed++;
		}
		free(a), free(b);
		assert_true(folder_remove(whole));
		assert_true(folder_remove(parts));
	}
	assert_int_equal(failed, 0);
}

/* Full sets in slot order: the world does not matter either. */
static void worlds_do_not_matter_to_rounds(void **state)
{
	static const char *const strategies[] = {
		"ssgd",
		"{name: dc-ssgd, lambda: 0.5}",
		"{name: backup, extra: 0}",
		"averaging",
		"{name: update-based, push: 3}",
		"{name: bmuf, push: 2}",
		"{name: averaging, push: 4, push_after: 1}",
		"{name: averaging, push: 3, average_state: true}",
		"{gate: bsp, sum: median}",
		"{gate: bsp, send: delta, push: 2, merge: elastic, "
		"outer: {rule: add}}"
	};
	static const char *const data[] = { "batch: 3", "global_batch: 20",
					    "batch: 2, accumulate: 3" };
	static const uint32_t workers[] = { 1, 2, 3, 8 }, shards[] = { 1, 2, 7, 16 };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++)
		for (size_t d = 0; d < COUNT(data); d++)
			for (size_t w = 0; w < COUNT(workers); w++) {
				char text[1024];
				struct outcome sim, threads;

				snprintf(text, sizeof text,
					 "model: {quadratic: {dimension: 37, noise: 0.3, "
					 "buffers: 5}}\n"
					 "data: {source: none, samples: 80, %s}\n"
					 "train: {epochs: 2.3, seed: %zu}\n"
					 "update: {rate: 0.1, rule: momentum}\n"
					 "cluster: {workers: %u, shards: %u}\nstrategy: %s\n",
					 data[d], k + d + w, workers[w], shards[(k + d + w) % 4],
					 strategies[k]);
				outcome_of(&sim, TW_WORLD_SIM, "%s", text);
				outcome_of(&threads, TW_WORLD_THREADS, "%s", text);
				assert_string_equal(sim.digest, threads.digest);
				assert_memory_equal(sim.vector, threads.vector,
						    sim.n * sizeof(float));
				outcome_close(&sim);
				outcome_close(&threads);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cores_do_not_matter),
		cmocka_unit_test(seeds_do_matter),
		cmocka_unit_test(stopping_does_not_matter),
		cmocka_unit_test(late_answers_do_not_matter),
		cmocka_unit_test(workers_get_back_what_they_kept),
		cmocka_unit_test(stopping_does_not_matter_on_disk),
		cmocka_unit_test(worlds_do_not_matter_to_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
