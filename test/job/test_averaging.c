/* SPDX-License-Identifier: Apache-2.0 */
/* test_averaging.c - every method that pushes deltas against a serial loop of its formula, bit for
 * bit, and against what it must be equal to. */
#include "job/deltas.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A method: fields of a job, and what they should mean.  The loop fills in what depends on the
 * number of workers and on the period. */
struct row {
	const char *name, *strategy; /* a map without its braces */
	const char *update, *data;
	struct delta_formula f;
	double gain, elasticity, per_worker; /* aliases of momentum, alpha and scale */
	uint32_t fetches;                    /* pushes per fetch; 0: 1 */
	uint32_t least;                      /* workers it needs */
};

#define AVERAGE .outer = OUTER_AVERAGE, .outer_rate = 1
#define SGD     .near = NEAR_SGD, .rate = 0.1
#define COSINE  "schedule: {kind: cosine}"
#define DROP    "schedule: {kind: step, at: [1.37], factor: 0.3}"

static const struct row in_rounds[] = {
	{ "averaging", "name: averaging", "rate: 0.1", "", { SGD, AVERAGE }, .gain = 0 },
	{ "averaging, accumulate, decay, cosine",
	  "name: averaging",
	  "rate: 0.1, decay: 0.05, " COSINE,
	  ", accumulate: 2",
	  { SGD, AVERAGE, .decay = 0.05f, .cosine = true },
	  .gain = 0 },
	{ "averaging, rate",
	  "name: averaging, outer: {rate: 0.4}",
	  "rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_AVERAGE, .outer_rate = 0.4f },
	  .gain = 0 },
	{ "averaging, clip",
	  "name: averaging",
	  "rate: 0.1, clip: 0.8, decay: 0.01",
	  ", accumulate: 2",
	  { SGD, AVERAGE, .clip = 0.8f, .decay = 0.01f },
	  .gain = 0 },
	{ "averaging, mix",
	  "name: averaging, merge: mix, alpha: 0.3",
	  "rate: 0.1",
	  "",
	  { SGD, AVERAGE, .merge = MERGE_MIX, .alpha = 0.3f },
	  .gain = 0 },
	{ "update-based",
	  "name: update-based",
	  "rate: 0.1, " DROP,
	  "",
	  { SGD, .outer = OUTER_ADD, .drop = 1.37 },
	  .per_worker = 1 },
	{ "update-based, own scale",
	  "name: update-based, outer: {scale: 0.07}",
	  "rate: 0.1",
	  ", accumulate: 3",
	  { SGD, .outer = OUTER_ADD, .outer_rate = 0.07f },
	  .gain = 0 },
	{ "local-sgd", "name: local-sgd", "rate: 0.1", "global", { SGD, AVERAGE }, .gain = 0 },
	{ "local-sgd, momentum",
	  "name: local-sgd",
	  "rule: momentum, momentum: 0.8, rate: 0.05, decay: 0.01, " COSINE,
	  "",
	  { .near = NEAR_MOMENTUM,
	    .momentum = 0.8f,
	    .rate = 0.05,
	    AVERAGE,
	    .decay = 0.01f,
	    .cosine = true },
	  .gain = 0 },
	{ "local-sgd, nag",
	  "name: local-sgd",
	  "rule: nag, momentum: 0.8, rate: 0.05, " DROP,
	  ", accumulate: 2",
	  { .near = NEAR_NAG, .momentum = 0.8f, .rate = 0.05, AVERAGE, .drop = 1.37 },
	  .gain = 0 },
	{ "post-local-sgd",
	  "name: post-local-sgd",
	  "rate: 0.1, " DROP,
	  "",
	  { SGD, AVERAGE, .drop = 1.37, .push_after = 1.37 },
	  .gain = 0 },
	{ "post-local-sgd, own epoch, momentum",
	  "name: post-local-sgd, push_after: 0.8",
	  "rate: 0.05, rule: momentum, momentum: 0.8",
	  ", accumulate: 2",
	  { .near = NEAR_MOMENTUM, .momentum = 0.8f, .rate = 0.05, AVERAGE, .push_after = 0.8 },
	  .gain = 0 },
	{ "bmuf",
	  "name: bmuf",
	  "rate: 0.05",
	  "",
	  { .near = NEAR_SGD,
	    .rate = 0.05,
	    .outer = OUTER_BMUF,
	    .outer_rate = 1,
	    .nesterov = true },
	  .gain = 1 },
	{ "bmuf, classical",
	  "name: bmuf, outer: {momentum: 0.6, rate: 0.9, nesterov: false}",
	  "rate: 0.05, decay: 0.1",
	  ", accumulate: 2",
	  { .near = NEAR_SGD,
	    .rate = 0.05,
	    .decay = 0.1f,
	    .outer = OUTER_BMUF,
	    .outer_rate = 0.9f,
	    .outer_momentum = 0.6f },
	  .gain = 0 },
	{ "bmuf, nesterov, momentum",
	  "name: bmuf, outer: {momentum: 0.6, rate: 0.9}",
	  "rate: 0.05, rule: momentum, momentum: 0.5",
	  "",
	  { .near = NEAR_MOMENTUM,
	    .momentum = 0.5f,
	    .rate = 0.05,
	    .outer = OUTER_BMUF,
	    .outer_rate = 0.9f,
	    .outer_momentum = 0.6f,
	    .nesterov = true },
	  .gain = 0 },
	{ "diloco",
	  "name: diloco",
	  "rate: 0.03, decay: 0.1, " COSINE,
	  "",
	  { .near = NEAR_ADAMW,
	    .rate = 0.03,
	    .decay = 0.1f,
	    .cosine = true,
	    .outer = OUTER_NESTEROV,
	    .outer_rate = 0.7f,
	    .outer_momentum = 0.9f },
	  .gain = 0 },
	{ "diloco, sgd",
	  "name: diloco, outer: {rate: 0.5, momentum: 0.4}",
	  "rate: 0.1, rule: sgd",
	  ", accumulate: 2",
	  { SGD, .outer = OUTER_NESTEROV, .outer_rate = 0.5f, .outer_momentum = 0.4f },
	  .gain = 0 },
	{ "averaging, state of momentum",
	  "name: averaging, average_state: true",
	  "rule: momentum, momentum: 0.9, rate: 0.05",
	  "",
	  { .near = NEAR_MOMENTUM, .momentum = 0.9f, .rate = 0.05, AVERAGE, .average_state = true },
	  .gain = 0 },
	{ "averaging, state of adamw",
	  "name: averaging, average_state: true",
	  "rule: adamw, rate: 0.03, decay: 0.1, " COSINE,
	  ", accumulate: 2",
	  { .near = NEAR_ADAMW,
	    .rate = 0.03,
	    .decay = 0.1f,
	    .cosine = true,
	    AVERAGE,
	    .average_state = true },
	  .gain = 0 },
	{ "diloco, state, shares of a global batch",
	  "name: diloco, average_state: true",
	  "rate: 0.03, decay: 0.1",
	  "global",
	  { .near = NEAR_ADAMW,
	    .rate = 0.03,
	    .decay = 0.1f,
	    .outer = OUTER_NESTEROV,
	    .outer_rate = 0.7f,
	    .outer_momentum = 0.9f,
	    .average_state = true },
	  .gain = 0 },
	{ "update-based, state of nag",
	  "name: update-based, average_state: true",
	  "rule: nag, momentum: 0.8, rate: 0.05, " DROP,
	  ", accumulate: 2",
	  { .near = NEAR_NAG,
	    .momentum = 0.8f,
	    .rate = 0.05,
	    .outer = OUTER_ADD,
	    .drop = 1.37,
	    .average_state = true },
	  .per_worker = 1 },
	{ "bmuf, state, post-local switch",
	  "name: bmuf, push_after: 0.8, average_state: true, outer: {momentum: 0.6, rate: 0.9}",
	  "rate: 0.05, rule: momentum, momentum: 0.5",
	  "",
	  { .near = NEAR_MOMENTUM,
	    .momentum = 0.5f,
	    .rate = 0.05,
	    .outer = OUTER_BMUF,
	    .outer_rate = 0.9f,
	    .outer_momentum = 0.6f,
	    .nesterov = true,
	    .push_after = 0.8,
	    .average_state = true },
	  .gain = 0 },
	{ "elastic in rounds",
	  "gate: bsp, send: delta, merge: elastic, elasticity: 0.8, outer: {rule: add, scale: 1}",
	  "rule: sgd, rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_ADD, .outer_rate = 1, .merge = MERGE_ELASTIC },
	  .elasticity = 0.8 },
	{ "elastic in rounds, nag",
	  "gate: bsp, send: delta, merge: elastic, alpha: 0.05, outer: {rule: add, scale: 1}",
	  "rule: nag, momentum: 0.7, rate: 0.05, decay: 0.02",
	  ", accumulate: 2",
	  { .near = NEAR_NAG,
	    .momentum = 0.7f,
	    .rate = 0.05,
	    .decay = 0.02f,
	    .outer = OUTER_ADD,
	    .outer_rate = 1,
	    .merge = MERGE_ELASTIC,
	    .alpha = 0.05f },
	  .gain = 0 },
};

static const struct row at_once[] = {
	{ "easgd",
	  "name: easgd",
	  "rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_ADD, .outer_rate = 1, .merge = MERGE_ELASTIC },
	  .elasticity = 0.9 },
	{ "easgd, alpha, decay, cosine",
	  "name: easgd, alpha: 0.2",
	  "rate: 0.1, decay: 0.05, " COSINE,
	  ", accumulate: 2",
	  { SGD, .decay = 0.05f, .cosine = true, .outer = OUTER_ADD, .outer_rate = 1,
	    .merge = MERGE_ELASTIC, .alpha = 0.2f },
	  .gain = 0 },
	{ "eamsgd",
	  "name: eamsgd",
	  "rate: 0.01",
	  "",
	  { .near = NEAR_NAG,
	    .momentum = 0.99f,
	    .rate = 0.01,
	    .outer = OUTER_ADD,
	    .outer_rate = 1,
	    .merge = MERGE_ELASTIC },
	  .elasticity = 0.9 },
	{ "eamsgd, drop",
	  "name: eamsgd, alpha: 0.1",
	  "rate: 0.05, momentum: 0.5, " DROP,
	  "",
	  { .near = NEAR_NAG,
	    .momentum = 0.5f,
	    .rate = 0.05,
	    .drop = 1.37,
	    .outer = OUTER_ADD,
	    .outer_rate = 1,
	    .merge = MERGE_ELASTIC,
	    .alpha = 0.1f },
	  .gain = 0 },
	{ "async-diloco",
	  "name: async-diloco",
	  "rate: 0.03, decay: 0.1",
	  "",
	  { .near = NEAR_ADAMW,
	    .rate = 0.03,
	    .decay = 0.1f,
	    .outer = OUTER_DELAYED,
	    .outer_rate = 0.7f,
	    .outer_momentum = 0.9f },
	  .gain = 0 },
	{ "async-diloco, sgd",
	  "name: async-diloco, outer: {rate: 0.5, momentum: 0.3}",
	  "rate: 0.1, rule: sgd, " COSINE,
	  ", accumulate: 2",
	  { SGD, .cosine = true, .outer = OUTER_DELAYED, .outer_rate = 0.5f,
	    .outer_momentum = 0.3f },
	  .gain = 0 },
	{ "fedbuff",
	  "name: fedbuff, collect: 3",
	  "rate: 0.1",
	  "",
	  { SGD, AVERAGE, .power = 0.5 },
	  .least = 3 },
	{ "fedbuff, rate",
	  "name: fedbuff, collect: 2, power: 0.7, outer: {rate: 0.4}",
	  "rate: 0.1, rule: momentum, momentum: 0.6",
	  ", accumulate: 2",
	  { .near = NEAR_MOMENTUM,
	    .momentum = 0.6f,
	    .rate = 0.1,
	    .outer = OUTER_AVERAGE,
	    .outer_rate = 0.4f,
	    .power = (double)0.7f },
	  .least = 2 },
	{ "fedasync",
	  "name: fedasync",
	  "rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_AVERAGE, .outer_rate = 0.6f, .power = 0.5 },
	  .gain = 0 },
	{ "fedasync, switch",
	  "name: fedasync, push_after: 0.8",
	  "rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_AVERAGE, .outer_rate = 0.6f, .power = 0.5, .push_after = 0.8 },
	  .gain = 0 },
	{ "add, async",
	  "gate: async, send: delta, outer: {rule: add, scale: 0.3}",
	  "rule: sgd, rate: 0.1, decay: 0.05",
	  "",
	  { SGD, .decay = 0.05f, .outer = OUTER_ADD, .outer_rate = 0.3f },
	  .gain = 0 },
	{ "add, async, rare fetches",
	  "gate: async, send: delta, outer: {rule: add, scale: 0.3}",
	  "rule: sgd, rate: 0.1",
	  ", accumulate: 2",
	  { SGD, .outer = OUTER_ADD, .outer_rate = 0.3f },
	  .fetches = 3 },
	{ "average, async, mix",
	  "gate: async, send: delta, merge: mix, alpha: 0.4, outer: {rule: average, rate: 0.5}",
	  "rule: momentum, momentum: 0.5, rate: 0.1",
	  "",
	  { .near = NEAR_MOMENTUM,
	    .momentum = 0.5f,
	    .rate = 0.1,
	    .outer = OUTER_AVERAGE,
	    .outer_rate = 0.5f,
	    .merge = MERGE_MIX,
	    .alpha = 0.4f },
	  .gain = 0 },
	{ "add, ssp",
	  "gate: ssp, lead: 1, send: delta, outer: {rule: add, per_worker: 1}",
	  "rule: sgd, rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_ADD },
	  .per_worker = 1 },
	{ "average, ssp",
	  "gate: ssp, lead: 2, send: delta, outer: {rule: average}",
	  "rule: sgd, rate: 0.1, " COSINE,
	  "global",
	  { SGD, AVERAGE, .cosine = true },
	  .gain = 0 },
	{ "bmuf, async",
	  "gate: async, send: delta, outer: {rule: bmuf, momentum: 0.5, rate: 0.4}",
	  "rule: sgd, rate: 0.1",
	  "",
	  { SGD, .outer = OUTER_BMUF, .outer_rate = 0.4f, .outer_momentum = 0.5f,
	    .nesterov = true },
	  .gain = 0 },
};

/* Some workers are too late for their round. */
static const struct row with_backup[] = {
	{ "averaging, backup",
	  "gate: backup, extra: 1, send: delta, outer: {rule: average}",
	  "rule: momentum, momentum: 0.6, rate: 0.1",
	  "",
	  { .near = NEAR_MOMENTUM, .momentum = 0.6f, .rate = 0.1, AVERAGE },
	  .least = 3 },
	{ "diloco, backup, abandon",
	  "gate: backup, extra: 1, abandon: true, send: delta, outer: {rule: nesterov}",
	  "rule: adamw, rate: 0.03, " COSINE,
	  ", accumulate: 2",
	  { .near = NEAR_ADAMW,
	    .rate = 0.03,
	    .cosine = true,
	    .outer = OUTER_NESTEROV,
	    .outer_rate = 0.7f,
	    .outer_momentum = 0.9f },
	  .least = 3 },
};

static const char *const laws[] = {
	"{law: constant, mean: 100ms}",
	"{law: uniform, mean: 100ms, spread: 0.5}",
	"{law: exponential, mean: 100ms}",
};
static const char *const links[] = {
	"latency: 0s",
	"latency: 7ms, jitter: 5ms",
	"latency: 1ms, bandwidth: 100kbit/s, apply_rate: 2000",
};

/* The row's formula for so many workers and such a period. */
static struct delta_formula formula_of(const struct row *r, uint32_t workers, uint32_t push)
{
	struct delta_formula f = r->f;

	f.push = push;
	f.fetch = r->fetches ? r->fetches * push : 0;
	if (r->gain > 0)
		f.outer_momentum = 1.0f - f.outer_rate / ((float)r->gain * (float)workers);
	if (r->elasticity > 0)
		f.alpha = (float)(r->elasticity / workers);
	if (r->per_worker > 0)
		f.outer_rate = (float)r->per_worker / (float)workers;
	return f;
}

static void text_of(const struct row *r, uint32_t workers, uint32_t shards, uint32_t push,
		    uint64_t turn, char *text, size_t room)
{
	static const char *const models[] = {
		"quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, spread: 0.5, target: "
		"0.5}",
		"quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, spread: 0.5, buffers: "
		"5, tensors: 3}",
		"least-squares: {dimension: 23, noise: 0.1}",
	};
	const bool global = !strcmp(r->data, "global");
	char fetch[40] = "";
	int len;

	if (r->fetches)
		snprintf(fetch, sizeof fetch, ", fetch: %u", r->fetches * push);
	len = snprintf(text, room,
		       "model: {%s}\n"
		       "data: {source: none, samples: 100, %s%s}\n"
		       "train: {epochs: 4.17, seed: %llu}\n"
		       "update: {%s}\n"
		       "cluster: {workers: %u, shards: %u, servers: %u}\n"
		       "strategy: {%s, push: %u%s}\n"
		       "checkpoint: {every: 0s}\n"
		       "sim: {compute: %s, %s, stragglers: {count: 1, slower: 3}, threads: 1}\n",
		       turn % 2 ? models[1] : models[turn % 4],
		       global ? "global_batch: 11" : "batch: 3", global ? "" : r->data,
		       (unsigned long long)turn + 1, r->update, workers, shards, shards > 1 ? 2 : 1,
		       r->strategy, push, fetch, laws[turn % COUNT(laws)],
		       links[turn / 3 % COUNT(links)]);
	assert_true(len > 0 && (size_t)len < room);
}

static uint64_t try_row(const struct row *r, uint32_t workers, uint32_t shards, uint32_t push,
			uint64_t turn)
{
	const struct delta_formula f = formula_of(r, workers, push);
	char text[2048], label[160];

	text_of(r, workers, shards, push, turn, text, sizeof text);
	snprintf(label, sizeof label, "%s, %u workers, %u shards, push %u, seed %llu", r->name,
		 workers, shards, push, (unsigned long long)turn + 1);
	return deltas_agree(label, text, &f);
}

/* Laws, links, seeds and buffers take turns. */
static uint64_t try_rows(const struct row *rows, size_t count, bool stale)
{
	static const uint32_t workers[] = { 1, 3, 8 }, shards[] = { 1, 2, 7, 16 };
	static const uint32_t periods[] = { 1, 2, 5 };
	uint64_t turn = 0;

	for (size_t k = 0; k < count; k++) {
		uint64_t largest = 0;

		for (size_t w = 0; w < COUNT(workers); w++)
			for (size_t s = 0; s < COUNT(shards); s++)
				for (size_t p = 0; p < COUNT(periods); p++, turn++) {
					if (workers[w] < rows[k].least)
						continue;
					const uint32_t least = rows[k].f.push_after > 0 ? 3 : 1;
					const uint32_t push =
						periods[p] < least ? least : periods[p];
					const uint64_t tau = try_row(&rows[k], workers[w],
								     shards[s], push, turn);

					largest = tau > largest ? tau : largest;
				}
		assert_int_equal(largest > 0, stale); /* or the runs were no test */
		turn++;
	}
	return turn;
}

static void every_method_in_rounds_is_its_formula(void **state)
{
	(void)state;
	try_rows(in_rounds, COUNT(in_rounds), false);
}

static void late_workers_change_no_formula(void **state)
{
	(void)state;
	try_rows(with_backup, COUNT(with_backup), true);
}

static void every_method_without_rounds_is_its_formula(void **state)
{
	(void)state;
	try_rows(at_once, COUNT(at_once), true);
}

/* A loop that forgets one thing must not agree: the comparison can fail. */
static void a_wrong_formula_is_noticed(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(in_rounds) + COUNT(at_once); k++) {
		const struct row *r =
			k < COUNT(in_rounds) ? &in_rounds[k] : &at_once[k - COUNT(in_rounds)];
		const struct delta_formula right = formula_of(r, 3, 4);
		struct delta_formula wrong[5] = { right, right, right, right, right };
		char text[2048];

		wrong[0].push = 5;
		wrong[1].outer_rate *= 1.00001f;
		wrong[2].rate *= 1.00001;
		wrong[3].merge = right.merge == MERGE_REPLACE ? MERGE_MIX : MERGE_REPLACE;
		wrong[3].alpha = 0.01f;
		wrong[4].average_state = !right.average_state;
		text_of(r, 3, 2, 4, 2 * k + 1, text, sizeof text);
		deltas_agree(r->name, text, &right);
		/* only a state can be averaged, and the loop can do it in rounds only */
		const bool stateful = right.near != NEAR_SGD && k < COUNT(in_rounds);
		for (size_t i = 0; i < COUNT(wrong) - !stateful; i++)
			if (!deltas_differ(text, &wrong[i], NULL))
				fail_msg("%s: wrong formula %zu is not noticed", r->name, i);
	}
}

/* What workers keep, local parameters, buffers and a look-ahead's rate too, is theirs again in a
 * run that was stopped. */
static void stopping_does_not_matter(void **state)
{
	const char *const set[] = { "checkpoint.every=900ms", NULL };

	(void)state;
	for (size_t k = 0; k < COUNT(in_rounds) + COUNT(at_once); k++) {
		const struct row *r =
			k < COUNT(in_rounds) ? &in_rounds[k] : &at_once[k - COUNT(in_rounds)];
		struct outcome whole, part, again;
		char text[2048];

		text_of(r, 3, 2, 4, 2 * k + 1, text, sizeof text);
		outcome_open(&whole, text, set, TW_WORLD_SIM);
		outcome_run(&whole, NULL);
		assert_true(whole.ran.totals.cut >= 4);
		for (uint64_t stop = 1; stop <= 3; stop++) {
			struct tw_store *store = tw_memory_store_new(&tw_heap_system);

			assert_non_null(store);
			outcome_open(&part, text, set, TW_WORLD_SIM);
			outcome_run(&part,
				    &(const struct watch){ .store = store, .stop_after = stop });
			outcome_close(&part);
			outcome_open(&again, text, set, TW_WORLD_SIM);
			outcome_run(&again,
				    &(const struct watch){ .store = store, .resume = true });
			if (memcmp(whole.vector, again.vector, whole.n * sizeof(float)) != 0)
				fail_msg("%s: ends elsewhere if stopped after %llu cuts\n%s",
					 r->name, (unsigned long long)stop, text);
			outcome_close(&again);
			tw_memory_store_free(store);
		}
		outcome_close(&whole);
	}
}

/* --- what is equal to what ---------------------------------------------------------------- */

#define SAME                                                                                       \
	"model: {quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, spread: 0.5}}\n"      \
	"data: {source: none, samples: 192, batch: 4%s}\n"                                         \
	"train: {epochs: 3, seed: %u}\ncheckpoint: {every: 0s}\n"                                  \
	"sim: {compute: {law: uniform, mean: 100ms, spread: 0.5}, threads: 1}\n"                   \
	"update: {%s}\ncluster: {workers: %u, shards: %u}\nstrategy: %s\n"

static double distance(const float *a, const float *b, size_t n)
{
	double worst = 0;

	for (size_t i = 0; i < n; i++)
		worst = fmax(worst,
			     fabs((double)a[i] - (double)b[i]) / fmax(1, fabs((double)b[i])));
	return worst;
}

/* How far apart two strategies end, relative to the parameters. */
static double apart(const char *data, const char *update, uint32_t workers, const char *one,
		    const char *other)
{
	struct outcome a, b;
	double worst;

	outcome_of(&a, TW_WORLD_SIM, SAME, data, 5u, update, workers, 3u, one);
	outcome_of(&b, TW_WORLD_SIM, SAME, data, 5u, update, workers, 2u, other);
	worst = distance(a.vector, b.vector, a.n);
	outcome_close(&a);
	outcome_close(&b);
	return worst;
}

/* In exact arithmetic; in floats w - mean(w - w_i) and w - rate mean(g_i) round differently. */
static void averaging_every_step_is_synchronous(void **state)
{
	static const char *const linear[] = {
		"rule: sgd, rate: 0.1",
		"rule: sgd, rate: 0.1, decay: 0.05",
		"rule: momentum, momentum: 0.8, rate: 0.05",
	};
	static const char *const deltas[] = {
		"{name: averaging, push: 1}",
		"{name: local-sgd, push: 1}",
		"{name: update-based, push: 1}",
		"{name: diloco, push: 1, outer: {rate: 1, momentum: 0}}",
		"{name: post-local-sgd, push: 16, push_after: 3}",
	};

	(void)state;
	for (size_t u = 0; u < COUNT(linear); u++)
		for (size_t k = 0; k < COUNT(deltas); k++)
			for (uint32_t workers = 1; workers <= 8; workers *= 2)
				for (int accumulate = 0; accumulate < 2; accumulate++) {
					const char *data = accumulate ? ", accumulate: 3" : "";
					const double far =
						apart(data, linear[u], workers, deltas[k], "ssgd");

					if (!(far < 1e-6))
						fail_msg("%s, %s, %u workers%s: %g from ssgd",
							 deltas[k], linear[u], workers, data, far);
				}
	/* and not at any period */
	assert_true(apart("", linear[0], 4, "{name: averaging, push: 4}", "ssgd") > 1e-4);
}

/* Whatever the near rule: its state stays where it is. */
static void one_worker_that_averages_is_alone(void **state)
{
	static const char *const updates[] = {
		"rule: sgd, rate: 0.1, schedule: {kind: cosine}",
		"rule: momentum, momentum: 0.9, rate: 0.02, decay: 0.1, schedule: {kind: cosine}",
		"rule: adamw, rate: 0.02, decay: 0.1, schedule: {kind: linear, warmup: 0.5}",
	};
	static const char *const strategies[] = {
		"{name: averaging, push: 1}",
		"{name: averaging, push: 3}",
		"{name: averaging, push: 16}",
		"{name: diloco, push: 5, outer: {rate: 1, momentum: 0}}",
		"{name: bmuf, push: 5, outer: {momentum: 0}}",
		"{gate: async, send: delta, push: 4, outer: {rule: add}}",
	};

	(void)state;
	for (size_t u = 0; u < COUNT(updates); u++)
		for (size_t k = 0; k < COUNT(strategies); k++)
			for (int accumulate = 0; accumulate < 2; accumulate++) {
				const char *data = accumulate ? ", accumulate: 3" : "";
				const double far =
					apart(data, updates[u], 1, strategies[k], "ssgd");

				if (!(far < 1e-5)) /* of up to 144 steps, adamw's of ratios */
					fail_msg("%s, %s%s: %g from one worker's ssgd",
						 strategies[k], updates[u], data, far);
			}
}

static void some_methods_are_averaging_bit_for_bit(void **state)
{
	static const char *const same[] = {
		"{name: bmuf, push: %u, outer: {momentum: 0, rate: 1, nesterov: false}}",
		"{name: bmuf, push: %u, outer: {momentum: 0, rate: 1, nesterov: true}}",
		"{name: diloco, push: %u, outer: {rate: 1, momentum: 0}}",
		"{name: local-sgd, push: %u}",
		"{gate: bsp, send: delta, push: %u, merge: mix, alpha: 0, outer: {rule: average}}",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(same); k++)
		for (uint32_t workers = 1; workers <= 5; workers += 2)
			for (uint32_t push = 1; push <= 7; push += 3) {
				char one[100], other[100];
				double far;

				snprintf(one, sizeof one, same[k], push);
				snprintf(other, sizeof other, "{name: averaging, push: %u}", push);
				far = apart("", "rule: momentum, rate: 0.05, decay: 0.1", workers,
					    one, other);
				if (far != 0)
					fail_msg("%s, %u workers: %g from averaging", one, workers,
						 far);
			}
}

/* The vectors that workers start their blocks at are equal: BMUF's look-ahead W - momentum v is
 * DiLoCo's theta.  So every gradient is computed at the same vector.  What is evaluated is not the
 * same: BMUF's W is behind its look-ahead by momentum v. */
static void block_momentum_looks_ahead_to_diloco(void **state)
{
	static const char *const text[] = {
		"{name: bmuf, push: 3, outer: {momentum: %g, rate: %g}}",
		"{name: diloco, push: 3, outer: {momentum: %g, rate: "
		"%g}}"
	};
	static const double numbers[][2] = { { 0.9, 0.7 }, { 0.5, 1 }, { 0.75, 0.3 } };

	(void)state;
	for (size_t k = 0; k < COUNT(numbers); k++) {
		struct outcome o[2];
		struct spy spy[2];
		uint64_t batches = 0;

		for (int i = 0; i < 2; i++) {
			char strategy[100], job[1000];

			snprintf(strategy, sizeof strategy, text[i], numbers[k][0], numbers[k][1]);
			snprintf(job, sizeof job, SAME, "", 3u, "rule: sgd, rate: 0.05", 4u, 2u,
				 strategy);
			outcome_open(&o[i], job, NULL, TW_WORLD_SIM);
			spy_open(&spy[i], &o[i]);
			outcome_run(&o[i], NULL);
		}
		for (uint64_t at = 0; at < spy[0].path.positions; at++) {
			assert_int_equal(!spy[0].path.at[at], !spy[1].path.at[at]);
			if (!spy[0].path.at[at])
				continue;
			batches++;
			assert_true(distance(spy[0].path.at[at], spy[1].path.at[at], o[0].n) <
				    1e-6);
		}
		assert_int_equal(batches, 144);
		assert_true(distance(o[0].vector, o[1].vector, o[0].n) > 1e-4);
		for (int i = 0; i < 2; i++) {
			spy_close(&spy[i], &o[i]);
			outcome_close(&o[i]);
		}
	}
}

/* --- springs ------------------------------------------------------------------------------ */

#define DIMENSION 6
#define SLOTS     4
#define SEQS      600

/* What happened to one contribution, of a job with one shard. */
struct pull_of_spring {
	float own[DIMENSION];    /* the worker's parameters in a step after it */
	float before[DIMENSION]; /* the centre before it was added */
	uint64_t version;
	bool stepped, applied, at_rest; /* at_rest: the step's rate was 0 */
};

/* The steps and applies of a run, as they were noted. */
struct springs {
	struct pull_of_spring of[SLOTS][SEQS];
	uint64_t from[SLOTS][SEQS]; /* the position of that step ... */
	uint64_t done[SLOTS][SEQS]; /* ... and the samples that were applied when it began */
	uint64_t applied;
	uint64_t last[SLOTS];
	uint32_t steps[SLOTS][SEQS];
	uint32_t events;
	struct {
		uint32_t slot;
		uint64_t from;
		uint32_t count;
	} step[8192];
};

static bool springs_note(void *arg, const struct tw_note *note)
{
	struct springs *z = arg;

	if (note->kind == TW_NOTE_STEP) {
		assert_true(note->slot < SLOTS && note->step.clock < SEQS && z->events < 8192);
		z->from[note->slot][note->step.clock] = note->from;
		z->done[note->slot][note->step.clock] = z->applied;
		z->of[note->slot][note->step.clock].stepped = true;
		z->last[note->slot] = note->step.clock;
		z->step[z->events].slot = note->slot;
		z->step[z->events].from = note->from;
		z->step[z->events++].count = note->count;
	}
	if (note->kind == TW_NOTE_APPLY) {
		struct pull_of_spring *p = &z->of[note->slot][note->seq];

		assert_true(note->slot < SLOTS && note->seq < SEQS && note->apply.n == DIMENSION);
		memcpy(p->before, note->apply.before, sizeof p->before);
		p->version = note->version;
		p->applied = true;
		z->applied += note->count;
	}
	return true;
}

#define SPRINGS                                                                                    \
	"model: {quadratic: {dimension: 6, curvature: [0.5, 1], noise: 1}}\n"                      \
	"data: {source: none, samples: 48, batch: 1}\n"                                            \
	"train: {epochs: %u, seed: %u}\ncheckpoint: {every: 0s}\n"                                 \
	"sim: {compute: {law: exponential, mean: 100ms}, latency: 3ms, threads: 1}\n"              \
	"cluster: {workers: 4, shards: 1}\nupdate: {%s}\nstrategy: {%s}\n"

static void springs_run(struct springs *z, struct outcome *o, struct spy *spy, const char *text)
{
	*z = (struct springs){ .events = 0 };
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	o->job->plan.gaps = true;
	spy_open(spy, o);
	outcome_run(o, &(const struct watch){ .observer = springs_note, .arg = z });
	for (uint32_t k = 0; k < SLOTS; k++)
		for (uint64_t seq = 0; seq < SEQS; seq++) {
			struct pull_of_spring *p = &z->of[k][seq];

			if (!p->stepped)
				continue;
			memcpy(p->own, spy->path.at[z->from[k][seq]], sizeof p->own);
			/* the rate is 0 from epoch 1 on: of a round's samples, or of what was
			 * applied when it fetched, which is after its step before */
			p->at_rest = (o->job->plan.gate->traits & TW_GATE_ROUNDS)
					     ? z->from[k][seq] >= 48
					     : seq && z->done[k][seq - 1] >= 48;
		}
}

static struct springs springs;

/* Nothing goes to the centre or comes from it: workers are descents of their own. */
static void without_springs_workers_are_alone(void **state)
{
	struct outcome o;
	struct spy spy;
	char text[1000];

	(void)state;
	for (uint32_t seed = 1; seed <= 3; seed++) {
		float first[DIMENSION], x[SLOTS][DIMENSION];
		void *scratch;

		snprintf(text, sizeof text, SPRINGS, 4u, seed, "rate: 0.1",
			 "name: easgd, push: 3, alpha: 0");
		springs_run(&springs, &o, &spy, text);
		assert_int_equal(spy.real->class->init(spy.real, 0, DIMENSION, first), TW_OK);
		assert_memory_equal(o.vector, first, sizeof first); /* the centre */
		scratch = calloc(1, spy.real->scratch_bytes + 1);
		assert_non_null(scratch);
		for (uint32_t k = 0; k < SLOTS; k++)
			memcpy(x[k], first, sizeof first);
		for (uint32_t k = 0; k < springs.events; k++) {
			float *const mine = x[springs.step[k].slot];
			const struct tw_piece piece = { mine, 0, DIMENSION };
			const struct tw_inputs in = { .from = springs.step[k].from,
						      .count = springs.step[k].count,
						      .piece = &piece,
						      .pieces = 1 };
			struct tw_score score;
			float g[DIMENSION];

			assert_memory_equal(spy.path.at[in.from], mine, sizeof first);
			assert_int_equal(
				spy.real->class->gradient(spy.real, scratch, &in, g, &score),
				TW_OK);
			for (size_t i = 0; i < DIMENSION; i++)
				mine[i] = fmaf(-0.1f, g[i], mine[i]);
		}
		assert_true(distance(x[0], x[1], DIMENSION) > 1e-3);
		free(scratch);
		spy_close(&spy, &o);
		outcome_close(&o);
	}
}

/* At rest, what a spring takes from a worker it gives to the centre; and all become equal. */
static void springs_lose_nothing(void **state)
{
	struct outcome o;
	struct spy spy;
	char text[1000];

	(void)state;
	for (uint32_t seed = 1; seed <= 3; seed++) {
		uint64_t pulls = 0;
		double largest = 0;

		snprintf(text, sizeof text, SPRINGS, 8u, seed,
			 "rate: 0.3, schedule: {kind: step, at: [1], factor: 0}",
			 "name: easgd, push: 2, alpha: 0.3");
		springs_run(&springs, &o, &spy, text);
		for (uint32_t k = 0; k < SLOTS; k++) {
			const struct pull_of_spring *of = springs.of[k];

			for (uint64_t seq = 1; seq <= springs.last[k]; seq++) {
				const float *after = o.vector;

				/* one push between them, and no step with a rate */
				if (!of[seq - 1].at_rest || !of[seq].stepped)
					continue;
				assert_true(of[seq].applied);
				for (uint32_t q = 0; q < SLOTS; q++)
					for (uint64_t j = 1; j < SEQS; j++)
						if (springs.of[q][j].applied &&
						    springs.of[q][j].version == of[seq].version + 1)
							after = springs.of[q][j].before;
				for (size_t i = 0; i < DIMENSION; i++) {
					const double gave =
						(double)of[seq - 1].own[i] - (double)of[seq].own[i];
					const double took =
						(double)after[i] - (double)of[seq].before[i];

					if (!(fabs(gave - took) < 1e-6))
						fail_msg("seed %u, worker %u, push %llu: it gave "
							 "%g, and the centre took %g",
							 seed, k, (unsigned long long)seq, gave,
							 took);
					largest = fmax(largest, fabs(gave));
				}
				pulls++;
			}
			assert_true(distance(of[springs.last[k]].own, o.vector, DIMENSION) < 1e-3);
		}
		assert_true(pulls > 100 && largest > 1e-2);
		spy_close(&spy, &o);
		outcome_close(&o);
	}
}

/* In rounds the sum of all and the centre is there to be seen; all become its mean. */
static void springs_end_at_the_mean(void **state)
{
	struct outcome o;
	struct spy spy;
	char text[1000];

	(void)state;
	for (uint32_t seed = 1; seed <= 3; seed++) {
		double sum[DIMENSION] = { 0 };
		uint64_t rounds = 0;

		snprintf(text, sizeof text, SPRINGS, 16u, seed,
			 "rule: sgd, rate: 0.3, schedule: {kind: step, at: [1], factor: 0}",
			 "gate: bsp, send: delta, push: 2, merge: elastic, alpha: 0.15, outer: "
			 "{rule: add}");
		springs_run(&springs, &o, &spy, text);
		for (uint64_t seq = 0; seq < springs.last[0]; seq++) {
			if (!springs.of[0][seq].at_rest)
				continue;
			rounds++;
			for (size_t i = 0; i < DIMENSION; i++) {
				/* the contribution that follows finds the centre of this round */
				double all = (double)springs.of[0][seq + 1].before[i];

				for (uint32_t k = 0; k < SLOTS; k++)
					all += (double)springs.of[k][seq].own[i];
				if (rounds == 1)
					sum[i] = all;
				if (!(fabs(all - sum[i]) < 1e-5))
					fail_msg("seed %u: the sum is %g, and was %g", seed, all,
						 sum[i]);
			}
		}
		assert_int_equal(rounds, 89); /* 15 epochs of 6, but the last is not looked at */
		for (size_t i = 0; i < DIMENSION; i++) {
			assert_true(fabs((double)o.vector[i] - sum[i] / (SLOTS + 1)) < 1e-5);
			for (uint32_t k = 0; k < SLOTS; k++)
				assert_true(fabs((double)springs.of[k][springs.last[k]].own[i] -
						 sum[i] / (SLOTS + 1)) < 1e-5);
		}
		spy_close(&spy, &o);
		outcome_close(&o);
	}
}

/* --- where averaging ends ----------------------------------------------------------------- */

/* f_k = h_k / 2 (w - c_k)^2, one for each of two workers: a round's stripes are of `stripe`
 * positions, and slot order tells whose they are. */
struct two {
	struct tw_engine engine; /* must stay first */
	uint64_t stripe;
};

static const float curvature[] = { 1, 3 }, centre[] = { 0, 1 };

static enum tw_status two_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	(void)e, (void)from;
	for (size_t i = 0; i < n; i++)
		out[i] = 2;
	return TW_OK;
}

static enum tw_status two_gradient(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, float *gradient,
				   struct tw_score *score)
{
	const struct two *t = (const struct two *)e;
	const uint64_t k = in->from / t->stripe % 2;

	(void)scratch;
	assert_int_equal((in->from + in->count - 1) / t->stripe % 2, k);
	gradient[0] = curvature[k] * (in->piece[0].at[0] - centre[k]);
	*score = (struct tw_score){ .loss = 0, .correct = -1, .samples = in->count };
	return TW_OK;
}

static enum tw_status two_evaluate(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, struct tw_score *score)
{
	(void)e, (void)scratch;
	*score = (struct tw_score){ .loss = 0, .correct = -1, .samples = in->count };
	return TW_OK;
}

static const struct tw_engine_class two_class = {
	.name = "two", .init = two_init, .gradient = two_gradient, .evaluate = two_evaluate
};

/* Where two workers with these functions end. */
static double rest_of(uint32_t steps, uint32_t batch, const char *strategy)
{
	struct two two;
	struct tw_engine *real;
	struct outcome o;
	char text[1000];
	double rest;

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 1, noise: 0}}\n"
		 "data: {source: none, samples: %u, batch: %u}\n"
		 "train: {epochs: 200}\ncheckpoint: {every: 0s}\nupdate: {rule: sgd, rate: 0.2}\n"
		 "sim: {compute: {law: exponential, mean: 100ms}, threads: 1}\n"
		 "cluster: {workers: 2, shards: 1}\nstrategy: {%s, push: %u}\n",
		 2 * steps * batch, batch, strategy, steps);
	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	real = o.engine;
	two = (struct two){ *real, (uint64_t)steps * batch };
	two.engine.class = &two_class;
	o.engine = &two.engine;
	outcome_run(&o, NULL);
	rest = (double)o.vector[0];
	o.engine = real;
	outcome_close(&o);
	return rest;
}

/* Sum of q_i c_i / sum of q_i, q_i = 1 - (1 - rate h_i)^H: what momentum is over it does not
 * matter. */
static void averaging_drifts_as_it_must(void **state)
{
	static const struct {
		uint32_t steps;
		double rest;
	} known[] = { { 1, 0.75 }, { 2, 0.70 }, { 5, 0.595495 }, { 20, 0.502899 } };
	static const char *const strategies[] = {
		"name: averaging",
		"name: update-based",
		"name: bmuf, outer: {momentum: 0.5}",
		"name: bmuf, outer: {momentum: 0.5, nesterov: false}",
		"name: diloco, outer: {momentum: 0.5, rate: 0.7}",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(known); k++) {
		double above = 0, below = 0;

		for (int i = 0; i < 2; i++) {
			const double q = 1 - pow(1 - 0.2 * (double)curvature[i], known[k].steps);

			above += q * (double)centre[i];
			below += q;
		}
		assert_true(fabs(above / below - known[k].rest) < 1e-6);
		for (size_t i = 0; i < COUNT(strategies); i++)
			for (uint32_t batch = 1; batch <= 3; batch += 2) {
				const double rest = rest_of(known[k].steps, batch, strategies[i]);

				if (!(fabs(rest - above / below) < 1e-6))
					fail_msg("%s, %u steps: ends at %.7f, not %.7f",
						 strategies[i], known[k].steps, rest,
						 above / below);
			}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_in_rounds_is_its_formula),
		cmocka_unit_test(every_method_without_rounds_is_its_formula),
		cmocka_unit_test(late_workers_change_no_formula),
		cmocka_unit_test(a_wrong_formula_is_noticed),
		cmocka_unit_test(stopping_does_not_matter),
		cmocka_unit_test(averaging_every_step_is_synchronous),
		cmocka_unit_test(one_worker_that_averages_is_alone),
		cmocka_unit_test(some_methods_are_averaging_bit_for_bit),
		cmocka_unit_test(block_momentum_looks_ahead_to_diloco),
		cmocka_unit_test(without_springs_workers_are_alone),
		cmocka_unit_test(springs_lose_nothing),
		cmocka_unit_test(springs_end_at_the_mean),
		cmocka_unit_test(averaging_drifts_as_it_must),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
