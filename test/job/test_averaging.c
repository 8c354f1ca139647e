/* SPDX-License-Identifier: Apache-2.0 */
/* test_averaging.c - every method that pushes deltas against a serial loop of its formula, bit for
 * bit, and against what it must be equal to. */
#include "job/deltas.h"

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
	const bool global = !strcmp(r->data, "global");
	char fetch[40] = "";
	int len;

	if (r->fetches)
		snprintf(fetch, sizeof fetch, ", fetch: %u", r->fetches * push);
	len = snprintf(text, room,
		       "model: {quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, "
		       "spread: 0.5, target: 0.5%s}}\n"
		       "data: {source: none, samples: 100, %s%s}\n"
		       "train: {epochs: 4.17, seed: %llu}\n"
		       "update: {%s}\n"
		       "cluster: {workers: %u, shards: %u, servers: %u}\n"
		       "strategy: {%s, push: %u%s}\n"
		       "checkpoint: {every: 0s}\n"
		       "sim: {compute: %s, %s, stragglers: {count: 1, slower: 3}, threads: 1}\n",
		       turn % 2 ? ", buffers: 5, tensors: 3" : "",
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

static void every_method_without_rounds_is_its_formula(void **state)
{
	(void)state;
	try_rows(at_once, COUNT(at_once), true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_in_rounds_is_its_formula),
		cmocka_unit_test(every_method_without_rounds_is_its_formula),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
