/* SPDX-License-Identifier: Apache-2.0 */
/* test_rollback.c - a server dies while workers step by themselves: all go back to a checkpoint,
 * and what they keep (an optimiser's state, parameters of their own, buffers) goes back with them.
 *
 * In rounds of all workers the bits do not depend on time.  So the run that lost a server ends with
 * the bits of a run that was resumed from that checkpoint, and of one that lost nothing. */
#include "job/serial.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CUTS         64
#define MS           INT64_C(1000000)

#define ADAMW "rule: adamw, rate: 0.03, decay: 0.1, schedule: {kind: cosine}"

static const struct {
	const char *strategy, *update, *data;
} methods[] = {
	{ "name: diloco, push: 5", ADAMW, "" },
	{ "name: diloco, push: 2", ADAMW, ", accumulate: 2" },
	{ "name: averaging, push: 4", ADAMW, "" },
	{ "name: local-sgd, push: 3", ADAMW, "" },
	{ "name: post-local-sgd, push: 6, push_after: 1.4", ADAMW, "" },
	{ "name: bmuf, push: 3", ADAMW, "" },
	{ "name: update-based, push: 3", "rule: momentum, rate: 0.05, momentum: 0.8", "" },
	{ "gate: bsp, send: delta, push: 4, merge: elastic, elasticity: 0.8, outer: {rule: add, "
	  "scale: 1}",
	  ADAMW, "" },
	{ "gate: bsp, send: delta, push: 3, merge: elastic, alpha: 0.05, outer: {rule: add, scale: "
	  "1}",
	  "rule: nag, momentum: 0.7, rate: 0.05", ", accumulate: 2" },
	{ "gate: bsp, send: delta, push: 4, merge: mix, alpha: 0.3, outer: {rule: average}", ADAMW,
	  "" },
};

/* The last: more than the master may hold, where the outer rule has an array. */
static const char *const cuts[] = { "drain", "running", "drain, memory: 168B" };

/* --- one run --- */

/* What a run was seen to do. */
struct sight {
	uint64_t rolled;    /* rollbacks */
	uint64_t cut;       /* the last one's; 0: to the beginning */
	uint64_t committed; /* rounds of shard 0 */
	uint64_t steps;     /* since then */
	bool inside;        /* a rollback came when a round had begun */
};

static bool see(void *arg, const struct tw_note *n)
{
	struct sight *s = arg;

	if (n->kind == TW_NOTE_ROLLBACK) {
		s->rolled++;
		s->cut = n->cut.number;
		s->inside = s->inside || s->steps;
	} else if (n->kind == TW_NOTE_COMMIT && n->shard == 0) {
		s->committed++;
		s->steps = 0;
	} else if (n->kind == TW_NOTE_STEP) {
		s->steps++;
	}
	return true;
}

static void describe(size_t method, size_t cut, unsigned seed, const char *fault, char text[2048])
{
	const int len =
		snprintf(text, 2048,
			 "model: {quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, "
			 "spread: 0.5, buffers: 5, tensors: 3}}\n"
			 "data: {source: none, samples: 100, batch: 3%s}\n"
			 "train: {epochs: 4.17, seed: %u}\n"
			 "update: {%s}\n"
			 "cluster: {workers: 3, shards: 4, servers: 2}\n"
			 "strategy: {%s}\n"
			 "checkpoint: {every: 400ms, cut: %s}\n"
			 "sim: {compute: {law: uniform, mean: 100ms, spread: 0.5}, latency: 5ms, "
			 "jitter: 3ms, closed_limit: 50ms, save_time: 20ms, threads: 1%s}\n",
			 methods[method].data, seed, methods[method].update,
			 methods[method].strategy, cuts[cut], fault);

	assert_true(len > 0 && len < 2048);
}

static void run(struct outcome *o, const char *text, struct watch watch, struct sight *seen)
{
	*seen = (struct sight){ .rolled = 0 };
	watch.observer = see;
	watch.arg = seen;
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	outcome_run(o, &watch);
}

/* The bits of a run that was stopped at this cut and resumed from it, the caller's to free. */
static float *resumed(const char *text, uint64_t cut, size_t n)
{
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	float *vector = malloc(n * sizeof *vector);
	struct outcome part, rest;
	struct sight seen;

	assert_true(store && vector);
	run(&part, text, (struct watch){ .store = store, .stop_after = cut }, &seen);
	assert_int_equal(part.ran.totals.cut, cut);
	outcome_close(&part);
	run(&rest, text, (struct watch){ .store = store, .resume = true }, &seen);
	assert_int_equal(rest.n, n);
	memcpy(vector, rest.vector, n * sizeof *vector);
	outcome_close(&rest);
	tw_memory_store_free(store);
	return vector;
}

/* --- all of them --- */

struct tally {
	uint64_t runs, rolled, inside, cuts, from_scratch;
};

static void same(const float *a, const float *b, size_t n, const char *what, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (memcmp(&a[i], &b[i], sizeof a[i]) != 0)
			fail_msg("element %zu is %.9g, but %.9g in %s\n%s", i, (double)a[i],
				 (double)b[i], what, text);
}

/* A server dies at every so many ms, for good (the other takes its shards) or for a moment. */
static void kill_all_over(size_t method, size_t cut, unsigned seed, int64_t stride,
			  struct tally *tally)
{
	float *again[CUTS] = { NULL };
	struct outcome whole;
	struct sight seen;
	char quiet[2048];

	describe(method, cut, seed, "", quiet);
	run(&whole, quiet, (struct watch){ .store = NULL }, &seen);
	assert_int_equal(seen.rolled, 0);
	if (whole.ran.totals.cut < 3)
		fail_msg("only %llu checkpoints\n%s", (unsigned long long)whole.ran.totals.cut,
			 quiet);
	for (int64_t at = 1 + seed % stride, turn = 0; at * MS < whole.ran.virtual_ns;
	     at += stride, turn++) {
		struct outcome hurt;
		char fault[100], text[2048];

		snprintf(fault, sizeof fault, ", faults: [{crash: server %d, at: %lldms%s}]",
			 (int)(turn / 2 % 2), (long long)at, turn % 2 ? ", restart: 150ms" : "");
		describe(method, cut, seed, fault, text);
		run(&hurt, text, (struct watch){ .store = NULL }, &seen);
		same(hurt.vector, whole.vector, whole.n, "a run that loses nobody", text);
		tally->runs++;
		tally->rolled += seen.rolled;
		tally->inside += seen.inside;
		tally->from_scratch += seen.rolled && !seen.cut;
		/* one that does not drain is no place to stop, and nothing follows the last */
		if (seen.cut && !strncmp(cuts[cut], "drain", 5) &&
		    seen.cut < whole.ran.totals.cut) {
			assert_true(seen.cut < CUTS);
			if (!again[seen.cut]) {
				again[seen.cut] = resumed(quiet, seen.cut, whole.n);
				tally->cuts++;
			}
			same(hurt.vector, again[seen.cut], whole.n, "the resumed run", text);
		}
		outcome_close(&hurt);
	}
	for (size_t k = 0; k < CUTS; k++)
		free(again[k]);
	outcome_close(&whole);
}

static void a_lost_server_is_a_resumed_run(void **state)
{
	struct tally tally = { .runs = 0 };

	(void)state;
	for (size_t m = 0; m < COUNT(methods); m++)
		for (size_t c = 0; c < COUNT(cuts); c++)
			for (unsigned seed = 1; seed <= 3; seed++)
				kill_all_over(m, c, seed, 107, &tally);
	printf("%llu runs, %llu rollbacks, %llu in the middle of a round, %llu to the beginning, "
	       "%llu resumed runs\n",
	       (unsigned long long)tally.runs, (unsigned long long)tally.rolled,
	       (unsigned long long)tally.inside, (unsigned long long)tally.from_scratch,
	       (unsigned long long)tally.cuts);
	/* or it was no test */
	assert_true(tally.inside * 2 > tally.runs);
	assert_true(tally.cuts > 3 * COUNT(methods) * COUNT(cuts));
	assert_true(tally.from_scratch > COUNT(methods));
}

/* The comparison can fail: the optimiser's state matters to the bits. */
static void what_workers_keep_matters(void **state)
{
	struct outcome a, b;
	struct sight seen;
	char text[2048];

	(void)state;
	describe(0, 0, 1, "", text);
	run(&a, text, (struct watch){ .store = NULL }, &seen);
	/* a worker that is new has no state to go back to */
	describe(0, 0, 1, ", faults: [{crash: worker 1, at: 900ms, restart: 1ms}]", text);
	run(&b, text, (struct watch){ .store = NULL }, &seen);
	assert_true(memcmp(a.vector, b.vector, a.n * sizeof *a.vector) != 0);
	outcome_close(&a);
	outcome_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lost_server_is_a_resumed_run),
		cmocka_unit_test(what_workers_keep_matters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
