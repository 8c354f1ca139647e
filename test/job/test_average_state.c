/* SPDX-License-Identifier: Apache-2.0 */
/* test_average_state.c - the state of the workers' rule, averaged with the parameters: where it
 * travels, what it is, and who must not see it.  test_averaging.c compares the arithmetic. */
#include "checkpoint/snapshot.h"
#include "job/deltas.h"
#include "kit/scratch.h"
#include "run/run.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define JOB                                                                                        \
	"model: {quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, spread: 0.5, "        \
	"buffers: 5}}\n"                                                                           \
	"data: {source: none, samples: 100, batch: 3}\n"                                           \
	"train: {epochs: 4, seed: %u}\nupdate: {%s}\n"                                             \
	"cluster: {workers: %u, shards: %u, servers: %u, wait: 20s}\n"                             \
	"strategy: {name: averaging, push: %u%s}\ncheckpoint: {every: %s}\n"                       \
	"sim: {compute: {law: uniform, mean: 100ms, spread: 0.5}, latency: 3ms, threads: 1%s}\n"

/* What workers are sent. */
struct ears {
	const struct tw_problem *p;
	uint32_t workers, push, arrays;
	uint64_t answers, positive, largest_count;
	bool exact;             /* every count must be that of its round */
	uint64_t expected[400]; /* by round */
};

/* The last n floats of an answer are the second moments, whatever the codec of the rest is. */
static void hears_state(void *arg, uint32_t slot, const struct tw_msg *m)
{
	struct ears *e = arg;
	const size_t n = e->p->border[m->h.shard + 1] - e->p->border[m->h.shard];
	const float *tail;

	(void)slot;
	if (m->h.type != TW_PARAMS)
		return;
	if (m->b.params.pin) { /* what is evaluated has no state behind it */
		assert_int_equal(m->h.payload, n * sizeof(float));
		return;
	}
	assert_true(m->h.payload > e->arrays * n * sizeof(float));
	tail = (const float *)(tw_msg_payload(m) + m->h.payload) - n;
	for (size_t i = 0; e->arrays && i < n; i++) {
		float v;

		memcpy(&v, tail + i, sizeof v);
		assert_true(v >= 0.0f && isfinite(v));
		e->positive += v > 0.0f;
	}
	e->answers++;
	if (m->b.params.count > e->largest_count)
		e->largest_count = m->b.params.count;
	if (e->exact)
		assert_int_equal(m->b.params.count, e->expected[m->b.params.round]);
}

static void second_moments_are_never_negative(void **state)
{
	static const char *const codecs[] = { "", ", codec: {up: fp16}",
					      ", codec: {up: bf16, down: fp16}" };
	static const char *const faults[] = {
		"",
		", faults: [{crash: worker 1, at: 900ms, restart: 400ms}]",
		", faults: [{crash: server 0, at: 1300ms, restart: 200ms}]",
		", faults: [{crash: master, at: 1100ms, restart: 300ms}]",
		", faults: [{crash: worker 0, at: 500ms}, {crash: server 1, at: 2s, restart: 1s}]",
	};

	(void)state;
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct ears e = { .arrays = 2 };
		struct outcome o;
		char text[2048], more[100];

		snprintf(more, sizeof more, ", average_state: true%s", codecs[seed % 3]);
		snprintf(text, sizeof text, JOB, seed,
			 seed % 2 ? "rule: adamw, rate: 0.03" : "rule: adam, rate: 0.03",
			 2 + seed % 4, 2 + seed % 6, 2u, 1 + seed % 7, more, "700ms",
			 faults[seed % 5]);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		e.p = &o.job->plan.problem;
		outcome_run(&o, &(const struct watch){ .worker_hears = hears_state, .arg = &e });
		assert_true(e.answers > 4 && e.positive > 100 && e.largest_count > 3);
		outcome_close(&o);
	}
}

/* Steps of the stripe [from, to): no batch is of two epochs. */
static uint64_t steps_of(uint64_t from, uint64_t to)
{
	uint64_t steps = 0;

	while (from < to) {
		const uint64_t epoch = (from / 100 + 1) * 100;
		const uint64_t end = from + 3 < epoch ? from + 3 : epoch;

		from = end < to ? end : to;
		steps++;
	}
	return steps;
}

/* Workers whose stripe crosses an epoch make one step more: the state has then seen as many as the
 * one that has seen most. */
static void the_count_is_the_largest(void **state)
{
	(void)state;
	for (uint32_t workers = 1; workers <= 5; workers += 2) {
		const uint32_t push = 4;
		struct ears e = { .arrays = 2, .exact = true };
		struct outcome o;
		char text[2048];
		uint64_t at = 0, round = 0, uneven = 0;

		snprintf(text, sizeof text, JOB, workers, "rule: adamw, rate: 0.03", workers, 3u,
			 1u, push, ", average_state: true", "0s", "");
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		e.p = &o.job->plan.problem;
		while (at < 400) {
			uint64_t most = 0, least = UINT64_MAX;

			for (uint32_t k = 0; k < workers && at < 400; k++) {
				const uint64_t to = at + 3 * push < 400 ? at + 3 * push : 400;
				const uint64_t steps = steps_of(at, to);

				most = steps > most ? steps : most;
				least = steps < least ? steps : least;
				at = to;
			}
			uneven += most != least;
			e.expected[round + 1] = e.expected[round] + most;
			round++;
		}
		assert_true(workers == 1 || uneven);
		outcome_run(&o, &(const struct watch){ .worker_hears = hears_state, .arg = &e });
		assert_int_equal(e.largest_count,
				 e.expected[round - (e.largest_count != e.expected[round])]);
		outcome_close(&o);
	}
}

static const struct {
	const char *update;
	struct delta_formula f;
} rules[] = {
	{ "rule: adamw, rate: 0.03, decay: 0.1",
	  { .near = NEAR_ADAMW, .rate = 0.03, .decay = 0.1f } },
	{ "rule: momentum, momentum: 0.9, rate: 0.05",
	  { .near = NEAR_MOMENTUM, .rate = 0.05, .momentum = 0.9f } },
	{ "rule: nag, momentum: 0.8, rate: 0.05",
	  { .near = NEAR_NAG, .rate = 0.05, .momentum = 0.8f } },
};

/* What a worker loses when it dies is with the shards: whoever takes its place ends where one that
 * never died would have, bit for bit; without average_state it does not. */
static void a_joiner_has_state_and_count(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(rules); k++)
		for (uint32_t at = 300; at < 8000; at += 700)
			for (int averages = 0; averages < 2; averages++) {
				struct delta_formula f = rules[k].f;
				char text[2048], faults[120];
				struct outcome o;
				float *w;
				bool same;

				f.outer = OUTER_AVERAGE;
				f.outer_rate = 1;
				f.push = 5;
				f.average_state = averages;
				snprintf(faults, sizeof faults,
					 ", faults: [{crash: worker 0, at: %ums, restart: 150ms}]",
					 at);
				snprintf(text, sizeof text, JOB, at, rules[k].update, 1u, 2u, 1u,
					 f.push, averages ? ", average_state: true" : "", "0s",
					 faults);
				outcome_open(&o, text, NULL, TW_WORLD_SIM);
				w = calloc(o.n, sizeof *w);
				assert_non_null(w);
				rounds_alone(&o, &f, NULL, w);
				outcome_run(&o, NULL);
				same = memcmp(w, o.vector, o.n * sizeof *w) == 0;
				/* nothing is kept yet in the first round, and only nag's rate and
				 * momentum in a first step */
				if (same != (averages || at < 500))
					fail_msg("%s, dies at %u ms, average_state %d: %s",
						 rules[k].update, at, averages,
						 same ? "as if nothing was lost"
						      : "ends elsewhere");
				free(w);
				outcome_close(&o);
			}
}

/* A server dies: shards and workers go back to a checkpoint, and end where they would have. */
static void a_rollback_changes_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT(rules); k++)
		for (uint32_t at = 700; at < 6000; at += 530) {
			struct delta_formula f = rules[k].f;
			char text[2048], faults[120];
			struct outcome o;
			float *w;

			f.outer = OUTER_AVERAGE;
			f.outer_rate = 1;
			f.push = 4;
			f.average_state = true;
			snprintf(faults, sizeof faults,
				 ", faults: [{crash: server 1, at: %ums, restart: 150ms}]", at);
			snprintf(text, sizeof text, JOB, at, rules[k].update, 3u, 5u, 2u, f.push,
				 ", average_state: true", "900ms", faults);
			outcome_open(&o, text, NULL, TW_WORLD_SIM);
			w = calloc(o.n, sizeof *w);
			assert_non_null(w);
			rounds_alone(&o, &f, NULL, w);
			outcome_run(&o, NULL);
			if (memcmp(w, o.vector, o.n * sizeof *w) != 0)
				fail_msg("%s, the server dies at %u ms: ends elsewhere",
					 rules[k].update, at);
			free(w);
			outcome_close(&o);
		}
}

/* A checkpoint goes on with another number of shards. */
static void borders_do_not_matter(void **state)
{
	static const uint32_t shards[] = { 1, 2, 7, 16 };
	const char *const updates[] = { "rule: adamw, rate: 0.03", "rule: nag, rate: 0.05" };

	(void)state;
	for (size_t u = 0; u < COUNT(updates); u++)
		for (size_t a = 0; a < COUNT(shards); a++)
			for (size_t b = 0; b < COUNT(shards); b++) {
				struct tw_store *store = tw_memory_store_new(&tw_heap_system);
				struct outcome whole, part, again;
				char text[2048], other[40];
				const char *set[] = { other, NULL };

				assert_non_null(store);
				snprintf(other, sizeof other, "cluster.shards=%u", shards[b]);
				snprintf(text, sizeof text, JOB, 7u, updates[u], 3u, shards[a], 1u,
					 4u, ", average_state: true", "900ms", "");
				outcome_open(&whole, text, NULL, TW_WORLD_SIM);
				outcome_run(&whole, NULL);
				outcome_open(&part, text, NULL, TW_WORLD_SIM);
				outcome_run(&part, &(const struct watch){ .store = store,
									  .stop_after = 2 });
				outcome_open(&again, text, set, TW_WORLD_SIM);
				assert_int_equal(again.job->plan.problem.shards, shards[b]);
				outcome_run(&again, &(const struct watch){ .store = store,
									   .resume = true });
				assert_memory_equal(whole.vector, again.vector,
						    whole.n * sizeof(float));
				outcome_close(&again);
				outcome_close(&part);
				outcome_close(&whole);
				tw_memory_store_free(store);
			}
}

/* Digests, results and snapshots, which exports are made from, are of the parameters alone. */
static void nobody_else_sees_it(void **state)
{
	static const struct tw_log quiet = { .sink = NULL };

	(void)state;
	for (int averages = 0; averages < 2; averages++) {
		struct tw_error why = { 0 };
		struct tw_snapshot *s = NULL;
		float *vector;
		json_t *result = NULL;
		struct outcome o;
		char text[2048], dir[64], digest[TW_DIGEST_TEXT];

		snprintf(text, sizeof text, JOB, 3u, "rule: adamw, rate: 0.03", 3u, 2u, 1u, 4u,
			 averages ? ", average_state: true" : "", "900ms", "");
		folder_make(dir);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		if (tw_run(&(struct tw_run_request){ .dir = dir, .log = &quiet }, o.job, &result,
			   &why) != TW_OK ||
		    tw_snapshot_open(dir, &quiet, &s, &why) != TW_OK)
			fail_msg("%s", why.text);
		assert_int_equal(s->count, o.engine->trainable + o.engine->buffers);
		vector = malloc(s->count * sizeof *vector);
		assert_int_equal(tw_snapshot_floats(s, 0, s->count, vector, &why), TW_OK);
		tw_digest_bytes(vector, o.engine->trainable * sizeof(float), digest);
		assert_string_equal(
			digest, json_string_value(json_object_get(result, "parameters_digest")));
		tw_digest_bytes(vector + o.engine->trainable, o.engine->buffers * sizeof(float),
				digest);
		assert_string_equal(digest,
				    json_string_value(json_object_get(result, "buffers_digest")));
		free(vector);
		json_decref(result);
		tw_snapshot_close(s);
		outcome_close(&o);
		assert_true(folder_remove(dir));
	}
}

/* Every slice is longer by two arrays, there and back, and nothing else changes. */
static void the_bytes_are_counted(void **state)
{
	uint64_t bytes[2], answers[2];

	(void)state;
	for (uint32_t averages = 0; averages < 2; averages++) {
		struct ears e = { .arrays = 2 * averages };
		struct outcome o;
		char text[2048];

		snprintf(text, sizeof text, JOB, 3u, "rule: adamw, rate: 0.03", 3u, 1u, 1u, 4u,
			 averages ? ", average_state: true" : "", "0s", "");
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		e.p = &o.job->plan.problem;
		outcome_run(&o, &(const struct watch){ .worker_hears = hears_state, .arg = &e });
		bytes[averages] = o.ran.bytes_sent;
		answers[averages] = e.answers;
		outcome_close(&o);
	}
	assert_int_equal(answers[0], answers[1]);
	/* 34 stripes of 12 samples are pushed */
	assert_int_equal(bytes[1] - bytes[0], (34 + answers[0]) * 2 * 42 * sizeof(float));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(second_moments_are_never_negative),
		cmocka_unit_test(the_count_is_the_largest),
		cmocka_unit_test(a_joiner_has_state_and_count),
		cmocka_unit_test(a_rollback_changes_nothing),
		cmocka_unit_test(borders_do_not_matter),
		cmocka_unit_test(nobody_else_sees_it),
		cmocka_unit_test(the_bytes_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
