/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - events per second of the simulator, the memory of ten thousand workers, and what an event
 * costs where there are a hundred thousand, or as many shards as there can be. */
#include "bench/bench.h"

#include "bench/harness/children.h"
#include "run/run.h"

#include <string.h>

#define ROUNDS       5
#define PATIENCE     3600.0       /* seconds for the largest run */
#define EVENTS_FLOOR 500000.0     /* handlers entered per second */
#define MEMORY_FLOOR 4294967296.0 /* bytes */

static const char small[] = "model: {quadratic: {dimension: 10, noise: 0.1}}\n"
			    "data: {source: none, samples: 100000, batch: 1}\n"
			    "train: {epochs: 3}\n"
			    "update: {rule: sgd, rate: 0.0001}\n"
			    "cluster: {workers: 1000, shards: 1}\n"
			    "strategy: asgd\n"
			    "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.2}, "
			    "latency: 100us, bandwidth: 10Gbit/s}\n";

static const char large[] = "model: {quadratic: {dimension: 10000}}\n"
			    "data: {source: none, samples: 30000, batch: 1}\n"
			    "train: {epochs: 1}\n"
			    "update: {rule: sgd, rate: 0.00001}\n"
			    "cluster: {workers: 10000, shards: 1}\n"
			    "strategy: asgd\n"
			    "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.2}, "
			    "latency: 100us, bandwidth: 100Gbit/s}\n";

/* --- a hundred thousand workers -------------------------------------------------- */

#define FEW          1000u
#define MANY         100000u
#define LEAST        0.5 /* of the handlers per second that few workers enter */
#define CROWD_ROUNDS 3

static const struct {
	const char *name, *strategy;
} crowds[] = {
	{ "asgd", "asgd" },
	{ "ssp", "ssp" },
	{ "softsync", "softsync" },
	{ "ssgd", "ssgd" },
};

static void crowd(char *text, size_t room, const char *strategy, uint32_t workers, uint32_t all)
{
	snprintf(text, room,
		 "model: {quadratic: {dimension: 10, noise: 0.1}}\n"
		 "data: {source: none, samples: %u, batch: 1}\n"
		 "train: {epochs: 3}\n"
		 "update: {rule: sgd, rate: 0.0001}\n"
		 "cluster: {workers: %u, shards: 1}\n"
		 "strategy: %s\n"
		 "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.2}, "
		 "latency: 100us, bandwidth: 10Gbit/s}\n",
		 all, workers, strategy);
}

/* --- as many shards as there can be ------------------------------------------------ */

#define FEW_SHARDS   64u
#define MANY_SHARDS  65535u
#define SHARDS_LEAST (1 / 1.5) /* of the handlers per second of few shards */
#define FEW_RUNS     20        /* one run with few shards is too short to time */

static void split(char *text, size_t room, uint32_t shards)
{
	snprintf(text, room,
		 "model: {quadratic: {dimension: %u}}\n"
		 "data: {source: none, samples: 20, batch: 1}\n"
		 "cluster: {workers: 2, shards: %u}\n"
		 "strategy: ssgd\n",
		 MANY_SHARDS, shards);
}

static enum tw_status simulate(const char *text, const struct tw_log *log, json_t **result,
			       struct tw_error *why)
{
	const struct tw_run_request request = { .log = log };
	struct tw_job *job = NULL;
	enum tw_status status;

	status = tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM, &job,
				  why);
	if (status == TW_OK)
		status = tw_run(&request, job, result, why);
	tw_job_free(job);
	return status;
}

static enum tw_status run_large(void *arg, size_t number, struct tw_error *why)
{
	json_t *result = NULL;

	return simulate(large, arg, &result, why);
}

/* In a process of its own, so that the peak is of this run alone. */
static enum tw_status peak_memory(struct tw_log *log, double *out, struct tw_error *why)
{
	struct tw_error cause = { .status = TW_OK };
	struct tw_children c;
	enum tw_status status = tw_children_init(&c, 1, why);

	if (status != TW_OK)
		return status;
	status = tw_children_add(&c, run_large, log, &cause);
	if (status == TW_OK)
		status = tw_children_wait(&c, PATIENCE, &cause);
	if (status == TW_OK)
		*out = (double)c.child[0].peak;
	tw_children_release(&c);
	return status == TW_OK ? TW_OK
			       : tw_fail(why, status, "10,000 workers did not run: %s", cause.text);
}

/* Handlers entered per second, from the first to the last. */
static enum tw_status rate_of(const char *text, const struct tw_log *log, double *out,
			      struct tw_error *why)
{
	json_t *r = NULL;
	const enum tw_status status = simulate(text, log, &r, why);

	if (status == TW_OK)
		*out = json_number_value(json_object_get(r, "events")) /
		       json_number_value(json_object_get(r, "seconds"));
	json_decref(r);
	return status;
}

static enum tw_status measure_crowd(const struct tw_bench_how *how, const char *what,
				    const char *strategy, uint32_t many, const struct tw_log *quiet,
				    json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : CROWD_ROUNDS;
	double few_[TW_BENCH_ROUNDS], many_[TW_BENCH_ROUNDS], ratio;
	char text[600], name[40];
	enum tw_status status = TW_OK;

	for (unsigned i = 0; i < rounds && status == TW_OK; i++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "sim: %s with %u and %u workers", what,
			    FEW, many);
		crowd(text, sizeof text, strategy, FEW, many);
		status = rate_of(text, quiet, &few_[i], why);
		crowd(text, sizeof text, strategy, many, many);
		if (status == TW_OK)
			status = rate_of(text, quiet, &many_[i], why);
	}
	if (status != TW_OK)
		return status;
	snprintf(name, sizeof name, "sim-crowd-%s", what);
	ratio = tw_paired(many_, few_, rounds);
	return tw_bench_paired(cases, name, tw_median(many_, rounds), "events/s",
			       tw_median(few_, rounds), ratio,
			       json_pack("{s:f, s:i, s:i}", "target_least", LEAST, "workers",
					 (int)many, "floor_workers", (int)FEW),
			       why);
}

static enum tw_status measure_crowds(const struct tw_bench_how *how, const struct tw_log *quiet,
				     json_t *cases, struct tw_error *why)
{
	const uint32_t many = how->size ? (uint32_t)how->size : MANY;
	enum tw_status status = TW_OK;

	for (size_t k = 0; k < sizeof crowds / sizeof crowds[0] && status == TW_OK; k++)
		status = measure_crowd(how, crowds[k].name, crowds[k].strategy, many, quiet, cases,
				       why);
	if (status != TW_OK)
		return status;
	return tw_bench_note(
		how, why,
		"sim-crowd: handlers per second that %u simulated workers enter (floor: "
		"%u workers on the same samples), joining included; a quadratic of "
		"dimension 10",
		many, FEW);
}

/* Handlers per second over as many runs. */
static enum tw_status rate_of_shards(uint32_t shards, unsigned runs, const struct tw_log *log,
				     double *out, struct tw_error *why)
{
	enum tw_status status = TW_OK;
	double rate = 0.0, time = 0.0; /* of one event, added up */
	char text[300];

	split(text, sizeof text, shards);
	for (unsigned i = 0; i < runs && status == TW_OK; i++) {
		status = rate_of(text, log, &rate, why);
		time += 1.0 / rate;
	}
	*out = runs / time;
	return status;
}

static enum tw_status measure_shards(const struct tw_bench_how *how, const struct tw_log *quiet,
				     json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : CROWD_ROUNDS;
	double few[TW_BENCH_ROUNDS], many[TW_BENCH_ROUNDS];
	enum tw_status status = TW_OK;

	for (unsigned i = 0; i < rounds && status == TW_OK; i++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "sim: %u and %u shards", FEW_SHARDS,
			    MANY_SHARDS);
		status = rate_of_shards(FEW_SHARDS, FEW_RUNS, quiet, &few[i], why);
		if (status == TW_OK)
			status = rate_of_shards(MANY_SHARDS, 1, quiet, &many[i], why);
	}
	if (status == TW_OK)
		status = tw_bench_paired(cases, "sim-shards", tw_median(many, rounds), "events/s",
					 tw_median(few, rounds), tw_paired(many, few, rounds),
					 json_pack("{s:f, s:i, s:i}", "target_least", SHARDS_LEAST,
						   "shards", (int)MANY_SHARDS, "floor_shards",
						   (int)FEW_SHARDS),
					 why);
	if (status != TW_OK)
		return status;
	return tw_bench_note(how, why,
			     "sim-shards: handlers per second with %u shards (floor: the same job "
			     "with %u), ssgd with 2 workers on a quadratic of dimension %u",
			     MANY_SHARDS, FEW_SHARDS, MANY_SHARDS);
}

static enum tw_status sim(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const struct tw_log *log = how->log;
	struct tw_log quiet = { .sink = log->sink, .arg = log->arg, .level = TW_WARNING };
	double rate[ROUNDS], bytes = 0.0;
	enum tw_status status;

	tw_log_line(log, TW_DEBUG, "bench", "sim: memory of 10,000 workers");
	status = peak_memory(&quiet, &bytes, why);
	for (size_t i = 0; i < ROUNDS && status == TW_OK; i++) {
		tw_log_line(log, TW_DEBUG, "bench", "sim: events, round %zu of %d", i + 1, ROUNDS);
		status = rate_of(small, &quiet, &rate[i], why);
	}
	if (status == TW_OK)
		status = tw_bench_case(cases, "sim-events", tw_median(rate, ROUNDS), "events/s",
				       EVENTS_FLOOR, why);
	if (status == TW_OK)
		status = tw_bench_case(cases, "sim-memory", bytes, "bytes", MEMORY_FLOOR, why);
	if (status == TW_OK)
		status = measure_shards(how, &quiet, cases, why);
	if (status == TW_OK)
		status = measure_crowds(how, &quiet, cases, why);
	return status;
}

const struct tw_bench tw_bench_sim = {
	.name = "sim",
	.help = "events per second with 1,000 workers, 65,535 shards, 100,000 workers; memory",
	.run = sim,
};
