/* SPDX-License-Identifier: Apache-2.0 */
/* test_cost.c - predicted costs are those that the simulator counts.  test_full_cost.c has all
 * presets on three networks with 2 to 64 workers. */
#include "job/cost_tools.h"
#include "job/peer_costs.h"
#include "job/reading.h"
#include "job/trial.h"
#include "query/plan_density.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define SMALL_MODEL                                                                                \
	"data: {source: none, samples: 1280, batch: 2}\nmodel: {quadratic: {dimension: 2000}}\n"

#define SENT_MODEL                                                                                 \
	"data: {source: digits, count: 800, tests: 10, batch: 20, placement: on-demand}\n"         \
	"model: {layers: [linear 10]}\n"

static const char middling[] =
	"{compute: {law: log-normal, median: 10ms, sigma: 0.2}, latency: 200us, bandwidth: "
	"60Mbit/s}";

static void presets_take_as_long_as_predicted(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++)
		if (!has_optimiser(p) && !has_stages(p) && !cost_is_beyond(p->name, 8))
			cost_compare(&(struct cost_job){ SMALL_MODEL, short_strategy(p), middling,
							 "", 8, 40 },
				     0.15);
}

/* What the cost functions distinguish, on links from idle to full and under all laws. */
static void all_kinds_of_exchange_take_as_long_as_predicted(void **state)
{
	static const char *const strategies[] = {
		"ssgd",
		"asgd",
		"{name: averaging, push: 3}",
		"{name: easgd, push: 4}",
		"{name: asgd, push: 2, fetch: 4}",
		"{name: asgd, codec: {up: int8, down: fp16}}",
		"{name: ssgd, codec: {up: randomk}}",
	};
	static const char *const sims[] = {
		"{compute: {law: constant, mean: 10ms}, latency: 100us, bandwidth: 1Gbit/s}",
		"{compute: {law: exponential, mean: 10ms}, latency: 2ms, bandwidth: 20Mbit/s}",
		"{compute: {law: uniform, mean: 10ms}, latency: 1ms, bandwidth: 8Mbit/s, "
		"apply_rate: 1e6}",
	};

	for (size_t s = 0; s < sizeof sims / sizeof sims[0]; s++)
		for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
			for (uint32_t n = 2; n <= 32; n *= 4)
				cost_compare(&(struct cost_job){ SMALL_MODEL, strategies[k],
								 sims[s], "", n, 80 },
					     0.15);
}

/* Samples that are sent: where links carry them while workers compute, and where they do not. */
static void samples_take_as_long_as_predicted(void **state)
{
	static const char *const strategies[] = { "ssgd", "asgd", "{name: averaging, push: 3}" };
	static const char *const bandwidths[] = { "1Gbit/s", "50Mbit/s", "10Mbit/s" };
	char sim[120];

	for (size_t s = 0; s < sizeof bandwidths / sizeof bandwidths[0]; s++)
		for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
			snprintf(sim, sizeof sim,
				 "{compute: {law: constant, mean: 10ms}, latency: 100us, "
				 "bandwidth: %s}",
				 bandwidths[s]);
			cost_compare(
				&(struct cost_job){ SENT_MODEL, strategies[k], sim, "", 4, 60 },
				0.15);
		}
}

/* What the link cannot carry is named, and so is what would be fewer bytes. */
static void samples_that_cost_more_than_they_save(void **state)
{
	struct cost_job j = {
		SENT_MODEL, "ssgd", "{compute: {law: constant, mean: 10ms}, bandwidth: 1Gbit/s}",
		"",         4,      60
	};
	const double sample = 784 + 4;
	struct tw_cost c;

	cost_predict(&j, &c);
	assert_true(c.slower == 1);
	assert_true(c.step_samples >= 20 * sample && c.step_samples < 20 * sample + 200);
	assert_true(c.copies == 4 * 800 * sample);
	assert_true(c.run_samples == 1e6 * 20 * sample); /* of steps; by far more than copies */
	j.sim = "{compute: {law: constant, mean: 10ms}, bandwidth: 10Mbit/s}";
	j.model = "data: {source: none, samples: 8000, batch: 1000, placement: on-demand}\n"
		  "model: {quadratic: {dimension: 10}}\n";
	cost_predict(&j, &c);
	/* four batches of numbers of 8 bytes through one card: 4 * 8000 * 8 / 1e7 s */
	assert_true(c.slower > 2 && c.step > 0.0256 && c.limit == TW_LIMIT_LINK);
	j.model = "data: {source: digits, count: 800, tests: 10, batch: 20}\n"
		  "model: {layers: [linear 10]}\n";
	cost_predict(&j, &c);
	assert_true(c.step_samples == 0 && c.run_samples == 0 && c.copies == 0);
}

/* test_full_cost.c has more workers. */
static void rounds_without_a_server_take_as_long_as_predicted(void **state)
{
	peer_cost_rounds(SMALL_MODEL, 2, 8, 80);
	peer_cost_rounds(cost_models[0], 2, 2, 6);
}

static void a_sum_among_peers_takes_what_its_reduction_says(void **state)
{
	peer_cost_sums(cost_models[0], 9);
}

/* --- what depends on the gradients ------------------------------------------------------------ */

static const char sparse_job[] =
	"data: {source: digits, count: 4000, tests: 100, batch: 16}\n"
	"model: {name: mlp, hidden: [64]}\n"
	"train: {epochs: %u, seed: 3, evaluate: 0}\nupdate: {rate: 0.05}\n"
	"cluster: {workers: %u}\nstrategy: {name: strom}\n"
	"sim: {compute: {law: constant, mean: 10ms}, latency: 1ms, bandwidth: 1Mbit/s}\n";

/* A codec whose bytes depend on the gradients: they are measured over the first steps of one
 * worker.  With the bytes that the simulator counts, so is the time. */
static void a_measured_density_predicts_a_mesh(void **state)
{
	for (uint32_t workers = 2; workers <= 8; workers *= 2) {
		double bytes[2], values[2], seconds[2], steps[2], per_value;
		struct tw_plan_density first;
		struct tw_cost said;
		struct trial t;

		for (uint32_t k = 0; k < 2; k++) {
			struct tw_ran ran;

			trial_open(&t, TW_WORLD_SIM, sparse_job, k + 1, workers);
			t.job->plan.dealing.warm_until = t.job->plan.dealing.warm_workers = 0;
			first = tw_plan_density(t.engine, &t.job->plan, 16);
			assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
			bytes[k] = (double)ran.totals.tally.up_encoded;
			values[k] = (double)ran.totals.tally.up_values;
			seconds[k] = (double)ran.virtual_ns * 1e-9;
			steps[k] = (double)ran.totals.steps;
			tw_totals_release(&ran.totals);
			if (k == 0)
				trial_close(&t);
		}
		assert_true(fabs(first.per_value / (bytes[0] / values[0]) - 1) < 0.25);
		per_value = (bytes[1] - bytes[0]) / (values[1] - values[0]);
		tw_cost_predict(&t.job->plan, &t.job->sim, t.engine, per_value, &said);
		assert_null(said.unknown);
		assert_true(fabs(said.step * (steps[1] - steps[0]) / workers /
					 (seconds[1] - seconds[0]) -
				 1) < 0.15);
		tw_cost_predict(&t.job->plan, &t.job->sim, t.engine, 0, &said);
		assert_non_null(strstr(said.unknown, "depends on the gradients"));
		trial_close(&t);
	}
}

static void mixings_cost_what_the_simulator_shows(void **state)
{
	peer_cost_mixings(cost_models[2], 5);
}

/* Of all bytes that are sent, the busiest of N peers sends and receives this share. */
static void the_busiest_peer_has_its_share_of_the_bytes(void **state)
{
	static const struct {
		const char *strategy;
		double share;
	} cases[] = {
		{ "{gate: bsp, topology: ring}", 2.0 / 8 },
		{ "{gate: bsp, topology: direct}", 2.0 / 8 },
		{ "{gate: bsp, topology: tree}", 3.0 / 7 }, /* 2 log2 N of 2 (N - 1) vectors */
	};

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		const struct cost_job j = { cost_models[0], cases[k].strategy, middling, "", 8, 4 };
		struct cost_counted seen;
		struct tw_cost said;

		cost_predict(&j, &said);
		cost_count(&j, &seen);
		assert_true(fabs(said.busiest_bytes / (cases[k].share * seen.bytes_per_step) - 1) <
			    0.01);
		assert_true(said.server_memory == 0);
	}
}

static void several_servers_share_the_bytes(void **state)
{
	static const char *const clusters[] = { ", shards: 4", ", servers: 2",
						", servers: 3, shards: 7" };
	static const char *const strategies[] = { "ssgd", "asgd", "backup" };

	for (size_t c = 0; c < 3; c++)
		for (size_t k = 0; k < 3; k++)
			cost_compare(&(struct cost_job){ SMALL_MODEL, strategies[k], middling,
							 clusters[c], 16, 40 },
				     0.15);
}

static void bytes_and_staleness_are_as_predicted(void **state)
{
	static const char *const strategies[] = {
		"ssgd", "asgd", "backup", "softsync", "{name: local-sgd, push: 3}", "ssp"
	};

	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		const struct cost_job j = { SMALL_MODEL, strategies[k], middling, "", 8, 40 };
		struct cost_counted seen;
		struct tw_cost said;

		cost_predict(&j, &said);
		cost_count(&j, &seen);
		assert_true(fabs(said.busiest_bytes / seen.bytes_per_step - 1) < 0.05);
		assert_true(fabs(said.staleness - seen.staleness) < 0.05 * seen.staleness + 0.01);
	}
}

/* --- exchanges that fetch first --------------------------------------------------------------- */

static void elastic_staleness(const char *strategy, const char *sim, const char *cluster,
			      uint32_t workers)
{
	const struct cost_job j = { SMALL_MODEL, strategy, sim, cluster, workers, 3600 / workers };
	struct cost_counted seen;
	struct tw_cost said;

	cost_predict(&j, &said);
	cost_count(&j, &seen);
	if (!(fabs(said.staleness - seen.staleness) <= 0.15 * seen.staleness))
		fail_msg("%s with %u workers%s, sim: %s: staleness %g was predicted, and is %g",
			 strategy, workers, cluster, sim, said.staleness, seen.staleness);
}

/* Workers that began together stay together where computing always takes the same time, and are
 * anywhere in their cycles where it does not; full cards keep them apart. */
static void elastic_exchanges_are_as_stale_as_predicted(void **state)
{
	static const char *const strategies[] = {
		"{name: easgd, push: 1}", "{name: easgd, push: 2}", "{name: easgd, push: 5}",
		"{name: eamsgd, push: 1}", "{name: eamsgd, push: 3}"
	};
	static const char *const sims[] = {
		"{compute: {law: constant, mean: 20ms}, latency: 2ms, bandwidth: 1Gbit/s}",
		"{compute: {law: constant, mean: 10ms}, latency: 1ms, bandwidth: 0bit/s}",
		"{compute: {law: log-normal, median: 20ms, sigma: 0.2}, latency: 2ms, bandwidth: "
		"1Gbit/s}",
		"{compute: {law: exponential, mean: 20ms}, latency: 3ms, bandwidth: 200Mbit/s}",
		"{compute: {law: uniform, mean: 10ms}, latency: 1ms, jitter: 1ms, bandwidth: "
		"20Mbit/s}",
		"{compute: {law: gamma, mean: 20ms, shape: 4}, latency: 2ms, bandwidth: 1Gbit/s, "
		"speeds: [1, 2]}",
	};

	(void)state;
	for (size_t s = 0; s < sizeof sims / sizeof sims[0]; s++)
		for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
			elastic_staleness(strategies[k], sims[s], "", 12);
			if (k % 2)
				elastic_staleness(strategies[k], sims[s], ", servers: 2, shards: 4",
						  24);
		}
}

/* In phase, of any two workers one comes first: (N - 1) / 2, whatever the period is. */
static void workers_in_phase_are_late_by_half_of_the_others(void **state)
{
	(void)state;
	for (uint32_t workers = 2; workers <= 32; workers *= 2)
		for (uint32_t push = 1; push <= 16; push *= 4) {
			char strategy[60];
			struct tw_cost said;

			snprintf(strategy, sizeof strategy, "{name: easgd, push: %u}", push);
			cost_predict(&(struct cost_job){ SMALL_MODEL, strategy,
							 "{compute: {law: constant, mean: 20ms}, "
							 "latency: 2ms, bandwidth: 10Gbit/s}",
							 "", workers, 1 },
				     &said);
			assert_true(fabs(said.staleness - (workers - 1) / 2.0) < 0.02 * workers);
		}
}

/* The run as a whole, with its beginning and its end. */
static void a_run_is_as_stale_as_planned(void **state)
{
	struct tw_cost said;
	struct tw_ran ran;
	struct trial t;
	double seen;

	(void)state;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 5126}}\n"
		   "data: {source: none, samples: 6000, batch: 4}\n"
		   "train: {epochs: 0, steps: 1500, seed: 77}\nupdate: {rate: 0.0001}\n"
		   "cluster: {workers: 12, servers: 2}\nstrategy: {name: easgd, push: 5}\n"
		   "checkpoint: {every: 0s}\n"
		   "sim: {compute: {law: constant, mean: 20ms}, latency: 0.002011s, bandwidth: "
		   "1209.167Mbit/s}\n");
	tw_cost_predict(&t.job->plan, &t.job->sim, t.engine, 0, &said);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	seen = (double)ran.totals.tally.staleness_sum / (double)ran.totals.tally.staleness_count;
	assert_true(fabs(said.staleness / seen - 1) < 0.15);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

/* --- one machine ----------------------------------------------------------------------------- */

/* Samples per second of one worker whose messages take no time. */
static double alone(const char *compute)
{
	char sim[200];
	struct cost_counted seen;

	snprintf(sim, sizeof sim, "{compute: %s, latency: 0s, bandwidth: 0bit/s}", compute);
	cost_count(&(struct cost_job){ SMALL_MODEL, "asgd", sim, "", 1, 300 }, &seen);
	return seen.samples_per_second;
}

static double together(const char *strategy, const char *compute, double bandwidth)
{
	char sim[200];
	struct cost_counted seen;

	snprintf(sim, sizeof sim, "{compute: %s, latency: 1ms, bandwidth: %.0fbit/s}", compute,
		 bandwidth);
	cost_count(&(struct cost_job){ SMALL_MODEL, strategy, sim, "", 8, 60 }, &seen);
	return seen.samples_per_second;
}

static double crossover(const char *strategy, const char *compute)
{
	char text[600];
	struct trial t;
	double bits;

	snprintf(text, sizeof text,
		 SMALL_MODEL "cluster: {workers: 8}\nstrategy: %s\nsim: {compute: %s, latency: "
			     "1ms}\n",
		 strategy, compute);
	trial_open(&t, TW_WORLD_SIM, "%s", text);
	bits = tw_cost_crossover(&t.job->plan, &t.job->sim, t.engine, 0);
	trial_close(&t);
	return bits;
}

static void one_machine_is_faster_below_the_crossover_and_slower_above(void **state)
{
	static const char *const strategies[] = { "ssgd", "asgd", "{name: averaging, push: 4}",
						  "{name: ssgd, codec: {up: int8, down: bf16}}" };
	static const char compute[] = "{law: log-normal, median: 10ms, sigma: 0.2}";
	const double one = alone(compute);

	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		const double bits = crossover(strategies[k], compute);

		assert_true(isfinite(bits) && bits > 1000);
		assert_true(together(strategies[k], compute, bits * 1.2) > one);
		assert_true(together(strategies[k], compute, bits / 1.2) < one);
	}
}

static void latency_alone_can_make_one_machine_faster(void **state)
{
	assert_true(isinf(crossover("ssgd", "{law: constant, mean: 100us}")));
	assert_true(together("ssgd", "{law: constant, mean: 100us}", 0) <
		    alone("{law: constant, mean: 100us}"));
}

/* --- what is not predicted ------------------------------------------------------------------- */

static void what_is_not_modelled_has_a_reason_instead_of_figures(void **state)
{
	static const struct {
		const char *strategy, *sim, *reason;
		uint32_t workers;
	} cases[] = {
		{ "{name: fasgd, skip: {push: 0.1, fetch: 0.1}}", middling, "skipped", 4 },
		{ "{name: asgd, codec: {up: threshold}}", middling, "threshold", 4 },
		{ "backup", middling, "half of their workers", 2 },
		{ "{name: fedasync, push: 4, adaptive: true}", "{speeds: [1, 2]}", "adaptive", 4 },
		{ "asgd", "{stragglers: {count: 1, slower: 2, on: 1s, off: 1s}}", "come and go",
		  4 },
		{ "asgd", "{random: {crashes: 1}}", "faults", 4 },
		{ "asgd", "{compute: {by_sample: [1, 2]}}", "longer than others", 4 },
		{ "downpour", middling, "computing on", 4 },
		{ "ringmaster", middling, "too late", 4 },
		{ "rennala", middling, "too late", 4 },
		{ "malenia", middling, "too late", 4 },
		{ "{name: streaming-diloco, push: 4, fragments: 1, delay: 1}", middling, "in turn",
		  4 },
		{ "{name: averaging, average_state: true}\nupdate: {rule: momentum}", middling,
		  "averaged state", 4 },
	};

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		const struct cost_job j = { SMALL_MODEL, cases[k].strategy, cases[k].sim,
					    "",          cases[k].workers,  1 };
		struct tw_cost said;

		cost_predict(&j, &said);
		if (!said.unknown || !strstr(said.unknown, cases[k].reason))
			fail_msg("%s: %s", cases[k].strategy, said.unknown ? said.unknown : "-");
	}
}

static void a_density_is_what_a_threshold_sends(void **state)
{
	struct tw_cost with, without;

	cost_predict(&(struct cost_job){ SMALL_MODEL,
					 "{name: asgd, codec: {up: threshold, up_density: "
					 "0.01}}",
					 middling, "", 4, 1 },
		     &with);
	cost_predict(&(struct cost_job){ SMALL_MODEL, "asgd", middling, "", 4, 1 }, &without);
	assert_null(with.unknown);
	assert_true(with.busiest_bytes < 0.6 * without.busiest_bytes);
}

/* --- memory ---------------------------------------------------------------------------------- */

static void rules_and_policies_count_in_memory(void **state)
{
	/* vectors of 8,000 bytes beyond those of asgd, with 8 workers */
	static const struct {
		const char *strategy;
		double server, worker;
	} cases[] = {
		{ "multi-asgd", 16, 0 }, { "nag-asgd", 2, 0 }, { "dc-asgd", 8, 0 },
		{ "dana-slim", 0, 1 },   { "ssgd", 7, 0 },
	};
	struct tw_cost plain, peer;

	cost_predict(&(struct cost_job){ SMALL_MODEL, "asgd", middling, "", 8, 1 }, &plain);
	/* a worker and a replica: two versions, a contribution and the sum */
	cost_predict(&(struct cost_job){ SMALL_MODEL, "{gate: bsp, topology: tree}", middling, "",
					 8, 1 },
		     &peer);
	assert_true(fabs((peer.worker_memory - plain.worker_memory) / 8000 - 4) < 0.3);
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_cost c;

		cost_predict(
			&(struct cost_job){ SMALL_MODEL, cases[k].strategy, middling, "", 8, 1 },
			&c);
		assert_true(fabs((c.server_memory - plain.server_memory) / 8000 - cases[k].server) <
			    0.3);
		assert_true(fabs((c.worker_memory - plain.worker_memory) / 8000 - cases[k].worker) <
			    0.3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_take_as_long_as_predicted),
		cmocka_unit_test(all_kinds_of_exchange_take_as_long_as_predicted),
		cmocka_unit_test(samples_take_as_long_as_predicted),
		cmocka_unit_test(samples_that_cost_more_than_they_save),
		cmocka_unit_test(rounds_without_a_server_take_as_long_as_predicted),
		cmocka_unit_test(a_measured_density_predicts_a_mesh),
		cmocka_unit_test(a_sum_among_peers_takes_what_its_reduction_says),
		cmocka_unit_test(mixings_cost_what_the_simulator_shows),
		cmocka_unit_test(the_busiest_peer_has_its_share_of_the_bytes),
		cmocka_unit_test(several_servers_share_the_bytes),
		cmocka_unit_test(bytes_and_staleness_are_as_predicted),
		cmocka_unit_test(elastic_exchanges_are_as_stale_as_predicted),
		cmocka_unit_test(workers_in_phase_are_late_by_half_of_the_others),
		cmocka_unit_test(a_run_is_as_stale_as_planned),
		cmocka_unit_test(one_machine_is_faster_below_the_crossover_and_slower_above),
		cmocka_unit_test(latency_alone_can_make_one_machine_faster),
		cmocka_unit_test(what_is_not_modelled_has_a_reason_instead_of_figures),
		cmocka_unit_test(a_density_is_what_a_threshold_sends),
		cmocka_unit_test(rules_and_policies_count_in_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
