/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_nodes.c - unequal machines in the simulator: times of closed form, and what is refused.
 */
#include "job/pipes.h"
#include "job/reading.h"
#include "kit/has.h"
#include "kit/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Two stages with a second for each pass, and nothing else that takes time. */
#define TWO                                                                                        \
	"model: {quadratic: {dimension: 16, noise: 0.1, stages: 2}}\n"                             \
	"data: {source: none, samples: 8, batch: 1, accumulate: 8}\n"                              \
	"train: {epochs: 1}\nupdate: {rate: 0.01}\ncluster: {stages: 2, place: with-stage}\n"      \
	"strategy: gpipe\ncheckpoint: {every: 0s}\n"                                               \
	"sim: {compute: {mean: 4s, backward: 1}, latency: 0s, bandwidth: 0bit/s%s}\n"

static double span_of(const char *nodes)
{
	struct pipe_run *r = pipe_run(TW_WORLD_SIM, TWO, nodes);
	const double span = (double)tw_stage_figures_span(r->figures) / 1e9;

	assert_int_equal(r->status, TW_OK);
	pipe_free(r);
	return span;
}

/* M micro-batches with F = B = 1 s on a machine of speed 1: the slower stage decides, the other one
 * fills and drains. */
static void a_slow_machine_computes_its_stage_slowly(void **state)
{
	(void)state;
	NEAR(span_of(""), 2 * (8 + 1), 1e-9);
	NEAR(span_of(", nodes: [{count: 2}]"), 2 * (8 + 1), 1e-9);
	NEAR(span_of(", nodes: [{speed: 1}, {speed: 0.5}]"), 1 + 8 * 4 + 1, 1e-9);
	NEAR(span_of(", nodes: [{speed: 0.5}, {}]"), 2 * 8 + 1 + 1 + 2 * 8, 1e-9);
	NEAR(span_of(", nodes: [{speed: 2}, {speed: 4}]"), 0.5 * 8 + 0.25 + 0.25 + 0.5 * 8, 1e-9);
}

/* A message takes the longer of two latencies, and what a border between groups adds. */
static void latency_is_that_of_the_pair(void **state)
{
	(void)state;
	NEAR(span_of(", nodes: [{latency: 3s}, {}]"), 2 * (8 + 1) + 6, 1e-9);
	NEAR(span_of(", nodes: [{latency: 3s}, {latency: 2s}]"), 2 * (8 + 1) + 6, 1e-9);
	NEAR(span_of(", groups: {latency: 2s}, nodes: [{group: a}, {group: b}]"), 2 * (8 + 1) + 4,
	     1e-9);
	NEAR(span_of(", groups: {latency: 2s}, nodes: [{group: a}, {group: a}]"), 2 * (8 + 1),
	     1e-9);
	NEAR(span_of(", groups: {latency: 2s}, nodes: [{group: a}, {latency: 1s}]"),
	     2 * (8 + 1) + 2 * 3, 1e-9);
}

/* Seconds of a run of two workers that push and fetch 4 MB and compute nearly nothing. */
static double vectors(const char *sim)
{
	struct pipe_run *r =
		pipe_run(TW_WORLD_SIM,
			 "model: {quadratic: {dimension: 1000000}}\n"
			 "data: {source: none, samples: 8, batch: 1}\ntrain: {epochs: 1}\n"
			 "update: {rate: 0.01}\ncluster: {workers: 2, servers: 1}\nstrategy: ssgd\n"
			 "checkpoint: {every: 0s}\n"
			 "sim: {compute: {mean: 1us}, latency: 0s, %s}\n",
			 sim);
	const double seconds = (double)r->ran.virtual_ns / 1e9;

	assert_int_equal(r->status, TW_OK);
	pipe_free(r);
	return seconds;
}

/* Four rounds of 32 Mbit each way: of the narrower card, or of the link of a group, in which
 * messages of two machines come one after the other. */
static void bandwidth_is_that_of_the_narrowest(void **state)
{
	const double each = 4 * 2 * 0.032; /* 1 Gbit/s */

	(void)state;
	NEAR(vectors("bandwidth: 0bit/s, nodes: [{bandwidth: 1Gbit/s, count: 2}]"), each,
	     0.02 * each);
	NEAR(vectors("bandwidth: 100Gbit/s, nodes: [{bandwidth: 1Gbit/s}, {bandwidth: 2Gbit/s}]"),
	     each, 0.05 * each);
	NEAR(vectors("bandwidth: 1Gbit/s, nodes: [{bandwidth: 0bit/s, count: 2}]"), 2 * each,
	     0.15 * 2 * each);
	NEAR(vectors("bandwidth: 0bit/s, groups: {bandwidth: 1Gbit/s}, nodes: [{group: a}, "
		     "{group: b}]"),
	     each, 0.02 * each);
	NEAR(vectors("bandwidth: 0bit/s, groups: {bandwidth: 1Gbit/s}, nodes: [{group: a, count: "
		     "2}]"),
	     2 * each, 0.15 * 2 * each);
}

/* The share of the operations that the first of two stages has. */
static double first_share(const char *nodes)
{
	struct trial t;
	double share;

	trial_open(&t, TW_WORLD_SIM,
		   "data: {source: digits, count: 64, tests: 8, batch: 8}\n"
		   "model: {layers: [linear 128, relu, linear 128, relu, linear 128, relu, linear "
		   "128, relu, linear 128, relu, linear 128, relu, linear 128, relu, linear 128, "
		   "relu, linear 10]}\n"
		   "train: {epochs: 1}\nupdate: {rate: 0.01}\n"
		   "cluster: {stages: 2, place: with-stage}\nstrategy: pipedream\n"
		   "sim: {compute: {mean: 4s}%s}\n",
		   nodes);
	share = t.job->plan.staging.stage[0].forward /
		(t.job->plan.staging.stage[0].forward + t.job->plan.staging.stage[1].forward);
	trial_close(&t);
	return share;
}

/* `model.stages: auto` gives a machine that is twice as slow half as much. */
static void stages_follow_the_speeds_of_machines(void **state)
{
	(void)state;
	NEAR(first_share(", nodes: [{count: 2}]"), first_share(""), 1e-12);
	NEAR(first_share(""), 0.5, 0.1);
	NEAR(first_share(", nodes: [{speed: 0.5}, {speed: 0.25}]"), 2.0 / 3, 0.1);
	NEAR(first_share(", nodes: [{speed: 0.7}, {speed: 2.1}]"), 0.47, 0.05);
}

static void an_explained_job_is_the_job_it_explains(void **state)
{
	struct tw_job *job = NULL, *again = NULL;
	struct tw_error why = { 0 };
	char text[1200], *first, *second;
	size_t bytes, more;

	(void)state;
	snprintf(text, sizeof text, TWO,
		 ", groups: {bandwidth: 1Gbit/s}, nodes: [{speed: 0.3, memory: 3GiB, latency: 5us, "
		 "group: \"rack a\"}, {bandwidth: 10Mbit/s, group: b}]");
	assert_int_equal(tw_job_read_text("job", text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM,
					  &job, &why),
			 TW_OK);
	assert_int_equal(job->sim.machines.count, 2);
	assert_int_equal(job->sim.machines.groups, 2);
	assert_int_equal(tw_job_text(job, &first, &bytes), TW_OK);
	assert_int_equal(
		tw_job_read_text("job", first, bytes, NULL, 0, NULL, TW_WORLD_SIM, &again, &why),
		TW_OK);
	assert_int_equal(tw_job_text(again, &second, &more), TW_OK);
	assert_string_equal(first, second);
	for (uint32_t k = 0; k < 2; k++)
		assert_memory_equal(&job->sim.machines.at[k], &again->sim.machines.at[k],
				    sizeof job->sim.machines.at[k]);
	free(first);
	free(second);
	tw_job_free(job);
	tw_job_free(again);
}

static void bad_nodes_are_refused(void **state)
{
	static const struct {
		const char *sim, *says;
	} cases[] = {
		{ ", nodes: 3", "sim.nodes: needs a list" },
		{ ", nodes: [3, {}]", "sim.nodes[0]: needs a mapping" },
		{ ", nodes: [{}, {sped: 1}]", "did you mean 'speed'?" },
		{ ", nodes: [{}, {speed: 0}]", "sim.nodes[1].speed: needs a number" },
		{ ", nodes: [{}, {speed: [1]}]", "sim.nodes[1].speed: needs a single value" },
		{ ", nodes: [{}, {memory: 8}]", "sim.nodes[1].memory: needs a size" },
		{ ", nodes: [{}, {bandwidth: 1}]", "sim.nodes[1].bandwidth: needs a bandwidth" },
		{ ", nodes: [{}, {latency: 1}]", "sim.nodes[1].latency: needs a time" },
		{ ", nodes: [{count: 0}]", "sim.nodes[0].count: needs a whole number" },
		{ ", nodes: [{}]", "has 1 nodes, and 2 compute in this job" },
		{ ", nodes: [{count: 3}]", "has 3 nodes, and 2 compute in this job" },
		{ ", nodes: [{count: 1000000}, {count: 2}]", "are too many" },
		{ ", nodes: [{count: 2}], speeds: [1]", "cannot be combined with sim.nodes" },
		{ ", nodes: [{count: 2}], stragglers: {count: 1, slower: 2}",
		  "give slow nodes a lower speed" },
		{ ", groups: {bandwidth: 1Gbit/s}", "no node of sim.nodes has a group" },
		{ ", nodes: [{count: 2}], groups: {latency: 1ms}",
		  "no node of sim.nodes has a group" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_job *job = NULL;
		struct tw_error why = { 0 };
		char text[1200];

		snprintf(text, sizeof text, TWO, cases[k].sim);
		if (tw_job_read_text("job", text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM, &job,
				     &why) != TW_BAD_INPUT)
			fail_msg("%s: not refused", cases[k].sim);
		has(why.text, cases[k].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_machine_computes_its_stage_slowly),
		cmocka_unit_test(latency_is_that_of_the_pair),
		cmocka_unit_test(bandwidth_is_that_of_the_narrowest),
		cmocka_unit_test(stages_follow_the_speeds_of_machines),
		cmocka_unit_test(an_explained_job_is_the_job_it_explains),
		cmocka_unit_test(bad_nodes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
