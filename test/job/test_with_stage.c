/* SPDX-License-Identifier: Apache-2.0 */
/* test_with_stage.c - shards on the nodes of the cells that compute their stages: the bits of
 * servers, no traffic of parameters, and what happens when such a node is lost. */
#include "job/pipes.h"
#include "job/watcher.h"
#include "job/reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MLP          "model: {layers: [linear 24, relu, linear 20, relu, linear 10]}\n"

/* --- without faults ----------------------------------------------------------------------- */

static const char *lanes = ""; /* of the stages, as the section cluster has them */

static struct pipe_run *placed(enum tw_world_kind world, const char *strategy, const char *place,
			       const char *memory)
{
	return pipe_run(world,
			MLP
			"data: {source: digits, count: 320, tests: 40, batch: 8, accumulate: 4}\n"
			"train: {epochs: 2, seed: 5}\nupdate: {rule: momentum, rate: 0.02}\n"
			"cluster: {stages: 3, shards: 7, place: %s%s}\nstrategy: {%s}\n"
			"checkpoint: {every: 0s, memory: %s}\n",
			place, lanes, strategy, memory);
}

static void the_place_changes_no_bit(void **state)
{
	static const char *const strategies[] = {
		"gate: bsp, pipeline: gpipe",
		"gate: bsp, pipeline: 1f1b-flush",
		"name: pipedream-2bw",
		"gate: async, pipeline: {schedule: pipedream, vertical: true}",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		struct pipe_run *servers = placed(TW_WORLD_SIM, strategies[k], "servers", "64MiB");
		struct pipe_run *cells = placed(TW_WORLD_SIM, strategies[k], "with-stage", "64MiB");
		struct pipe_run *threads =
			placed(TW_WORLD_THREADS, strategies[k], "with-stage", "64MiB");
		const uint64_t traffic =
			(uint64_t)cells->ran.totals.updates * 2 * cells->floats * sizeof(float);

		pipe_same(servers, cells, strategies[k]);
		pipe_same(servers, threads, strategies[k]);
		/* every update would carry a gradient up and parameters down */
		if (cells->ran.bytes_sent + traffic > servers->ran.bytes_sent)
			fail_msg("%s: %llu bytes, and %llu with servers", strategies[k],
				 (unsigned long long)cells->ran.bytes_sent,
				 (unsigned long long)servers->ran.bytes_sent);
		pipe_free(servers);
		pipe_free(cells);
		pipe_free(threads);
	}
}

/* The shards of a stage are with its first lane; the others' gradients travel there. */
static void shards_are_with_the_first_lane(void **state)
{
	static const char *const strategies[] = { "gate: bsp, pipeline: gpipe",
						  "gate: bsp, pipeline: 1f1b-flush" };

	(void)state;
	lanes = ", lanes: [2, 1, 3]";
	for (size_t k = 0; k < COUNT(strategies); k++) {
		struct pipe_run *servers = placed(TW_WORLD_SIM, strategies[k], "servers", "64MiB");
		struct pipe_run *cells = placed(TW_WORLD_SIM, strategies[k], "with-stage", "64MiB");
		struct pipe_run *threads =
			placed(TW_WORLD_THREADS, strategies[k], "with-stage", "64MiB");

		pipe_same(servers, cells, strategies[k]);
		pipe_same(servers, threads, strategies[k]);
		assert_true(cells->ran.bytes_sent < servers->ran.bytes_sent);
		pipe_free(servers);
		pipe_free(cells);
		pipe_free(threads);
	}
	lanes = "";
}

/* Only digests are known of a vector that is not held whole. */
static void large_vectors_have_the_same_digest(void **state)
{
	char text[TW_DIGEST_TEXT];
	struct pipe_run *whole, *parts;

	(void)state;
	whole = placed(TW_WORLD_SIM, "gate: bsp, pipeline: gpipe", "with-stage", "64MiB");
	parts = placed(TW_WORLD_SIM, "gate: bsp, pipeline: gpipe", "with-stage", "0B");
	assert_int_equal(parts->status, TW_OK);
	assert_null(parts->ran.totals.vector);
	tw_digest_bytes(whole->vector, whole->floats * sizeof(float), text);
	assert_string_equal(parts->ran.totals.parameters_digest, text);
	tw_digest_bytes(NULL, 0, text);
	assert_string_equal(parts->ran.totals.buffers_digest, text);
	pipe_free(whole);
	pipe_free(parts);
}

/* --- faults ------------------------------------------------------------------------------- */

/* A run that a watcher has seen; it fails the test where something is wrong. */
static uint64_t watched(const char *strategy, const char *memory, const char *fault, bool back)
{
	struct trial t;
	struct tw_ran ran;
	struct watcher *w;
	enum tw_status st;
	uint64_t events;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		   "data: {source: none, samples: 24, batch: 1%s}\n"
		   "train: {epochs: 2, evaluate: 1}\nupdate: {rate: 0.01}\n"
		   "cluster: {stages: 3, place: with-stage, wait: 20s%s}\nstrategy: {name: %s}\n"
		   "checkpoint: {every: 2s, memory: %s}\n"
		   "sim: {compute: {law: exponential, mean: 600ms}, latency: 5ms, jitter: 4ms, "
		   "closed_limit: 50ms, save_time: 20ms, faults: [%s]}\n",
		   *lanes && strcmp(strategy, "pipedream") != 0 ? ", accumulate: 3" : "", lanes,
		   strategy, memory, fault);
	w = watcher_new(&t.job->plan, false);
	t.observer = watcher_note;
	t.observer_arg = w;
	st = trial_run(&t, &tw_heap_system, watcher_store(w), &ran);
	if (st != TW_OK && (back || st != TW_INTERRUPTED))
		fail_msg("%s, memory %s, %s: %s: %s", strategy, memory, fault, tw_status_name(st),
			 ran.error.text);
	if (st == TW_OK)
		watcher_judge(w, &ran.totals);
	if (watcher_wrong(w))
		fail_msg("%s, memory %s, %s: %s", strategy, memory, fault, watcher_wrong(w));
	/* all shards go back together: none lacks what another has */
	if (st == TW_OK && (ran.totals.lost_updates || ran.totals.applied < 48))
		fail_msg("%s, memory %s, %s: %llu updates are lost, %g samples are in", strategy,
			 memory, fault, (unsigned long long)ran.totals.lost_updates,
			 ran.totals.applied);
	events = ran.events;
	tw_totals_release(&ran.totals);
	watcher_free(w);
	trial_close(&t);
	return events;
}

static void lost_nodes_end_nothing(void **state)
{
	static const char *const strategies[] = { "gpipe", "pipedream", "pipedream-2bw" };
	static const char *const nodes[] = { "worker 0.0", "worker 0.1", "worker 0.2", "master" };
	static const char *const memories[] = { "64MiB", "0B" };

	(void)state;
	for (size_t i = 0; i < COUNT(strategies); i++) {
		const uint64_t events = watched(strategies[i], "64MiB", "", true);

		for (size_t k = 0; k < COUNT(nodes); k++)
			for (uint64_t e = 1 + k; e < events; e++) {
				const char *memory = memories[e % 2];
				char fault[100];

				snprintf(fault, sizeof fault,
					 "{crash: %s, event: %llu, restart: 200ms}", nodes[k],
					 (unsigned long long)e);
				watched(strategies[i], memory, fault, true);
				snprintf(fault, sizeof fault, "{crash: %s, event: %llu}", nodes[k],
					 (unsigned long long)e);
				if (k < 3 && e % 3 == 0)
					watched(strategies[i], memory, fault, false);
			}
	}
}

/* A lane without shards takes none along, and is replaced; one with shards sends all back. */
static void lost_lanes_end_nothing(void **state)
{
	static const char *const strategies[] = { "pipedream", "pipedream-flush" };

	(void)state;
	lanes = ", lanes: [2, 1, 2]";
	for (size_t i = 0; i < COUNT(strategies); i++) {
		const uint64_t events = watched(strategies[i], "64MiB", "", true);

		for (uint32_t cell = 0; cell < 5; cell++)
			for (uint64_t e = 1 + cell; e < events; e += 7) {
				char fault[100];

				snprintf(fault, sizeof fault,
					 "{crash: worker 0.%u, event: %llu, restart: 200ms}", cell,
					 (unsigned long long)e);
				watched(strategies[i], e % 2 ? "64MiB" : "0B", fault, true);
				snprintf(fault, sizeof fault, "{crash: worker 0.%u, event: %llu}",
					 cell, (unsigned long long)e);
				if (e % 3 == 0)
					watched(strategies[i], "64MiB", fault, false);
			}
	}
	lanes = "";
}

static void broken_links_end_nothing(void **state)
{
	static const char *const faults[] = {
		"{reset: worker 0.0, to: worker 0.1, at: %gs}",
		"{reset: worker 0.2, to: master, at: %gs}",
		"{partition: worker 0.1, from: everybody, at: %gs, lasts: 20s}",
		"{partition: worker 0.0, from: worker 0.1, at: %gs, lasts: 40s}",
		"{partition: worker 0.1, from: master, at: %gs, lasts: 30s}",
		"{slow: worker 0.1, factor: 9, at: %gs, lasts: 3s}",
	};

	(void)state;
	for (size_t f = 0; f < COUNT(faults); f++)
		for (double at = 0.1; at < 12; at += 0.7) {
			char text[120];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof text, faults[f], at);
#pragma GCC diagnostic pop
			watched(f % 2 ? "pipedream-flush" : "pipedream", "64MiB", text, true);
		}
}

/* --- refused ------------------------------------------------------------------------------ */

static void what_makes_no_sense_is_refused(void **state)
{
	static const struct {
		const char *more, *says;
	} list[] = {
		{ "cluster: {place: with-stage}\n", "cluster.place: only stages have nodes" },
		{ "cluster: {place: with-stage, stages: 2, workers: 2}\nstrategy: {pipeline: "
		  "gpipe, gate: bsp}\n",
		  "cluster.workers: with place: with-stage the parameters of a stage are on one" },
		{ "cluster: {place: with-stage, stages: 2, servers: 1}\nstrategy: {pipeline: "
		  "gpipe, gate: bsp}\n",
		  "cluster.servers: with place: with-stage the nodes of the stages hold" },
		{ "cluster: {place: with-stage, stages: 2}\nstrategy: {pipeline: gpipe, gate: "
		  "bsp}\ncheckpoint: {cut: running}\n",
		  "checkpoint.cut: with place: with-stage all stages go back" },
		{ "cluster: {place: with-stages, stages: 2}\n", "with-stage" },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(list); k++) {
		struct tw_error why = { 0 };
		struct tw_job *job = NULL;
		char text[600];

		snprintf(text, sizeof text, "data: {source: digits}\n" MLP "%s", list[k].more);
		assert_int_equal(tw_job_read_text("job", text, strlen(text), NULL, 0, NULL,
						  TW_WORLD_SIM, &job, &why),
				 TW_BAD_INPUT);
		if (!strstr(why.text, list[k].says))
			fail_msg("'%s' says '%s'", list[k].more, why.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_place_changes_no_bit),
		cmocka_unit_test(shards_are_with_the_first_lane),
		cmocka_unit_test(large_vectors_have_the_same_digest),
		cmocka_unit_test(lost_nodes_end_nothing),
		cmocka_unit_test(lost_lanes_end_nothing),
		cmocka_unit_test(broken_links_end_nothing),
		cmocka_unit_test(what_makes_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
