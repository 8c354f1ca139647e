/* SPDX-License-Identifier: Apache-2.0 */
/* test_with_stage.c - shards on the nodes of the cells that compute their stages: the bits of
 * servers, no traffic of parameters, and what happens when such a node is lost. */
#include "job/pipes.h"
#include "job/stage_faults.h"
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

static void lost_nodes_end_nothing(void **state)
{
	(void)state;
	assert_true(stage_faults_crashes(1, 7) > 2500);
}

/* A lane without shards takes none along, and is replaced; one with shards sends all back. */
static void lost_lanes_end_nothing(void **state)
{
	(void)state;
	assert_true(stage_faults_lanes(1, 11) > 500);
}

static void broken_links_end_nothing(void **state)
{
	(void)state;
	assert_true(stage_faults_links(1) > 100);
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
