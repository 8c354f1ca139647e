/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - events per second of the simulator, and the memory of ten thousand workers. */
#include "bench/bench.h"

#include "bench/children.h"
#include "job/run.h"

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

static enum tw_status sim(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const struct tw_log *log = how->log;
	struct tw_log quiet = { .sink = log->sink, .arg = log->arg, .level = TW_WARNING };
	double rate[ROUNDS], bytes = 0.0;
	enum tw_status status;

	tw_log_line(log, TW_DEBUG, "bench", "sim: memory of 10,000 workers");
	status = peak_memory(&quiet, &bytes, why);
	for (size_t i = 0; i < ROUNDS && status == TW_OK; i++) {
		json_t *r = NULL;

		tw_log_line(log, TW_DEBUG, "bench", "sim: events, round %zu of %d", i + 1, ROUNDS);
		status = simulate(small, &quiet, &r, why);
		if (status == TW_OK)
			rate[i] = json_number_value(json_object_get(r, "events")) /
				  json_number_value(json_object_get(r, "seconds"));
		json_decref(r);
	}
	if (status == TW_OK)
		status = tw_bench_case(cases, "sim-events", tw_median(rate, ROUNDS), "events/s",
				       EVENTS_FLOOR, why);
	if (status == TW_OK)
		status = tw_bench_case(cases, "sim-memory", bytes, "bytes", MEMORY_FLOOR, why);
	return status;
}

const struct tw_bench tw_bench_sim = {
	.name = "sim",
	.help = "events per second with 1,000 workers; memory of 10,000",
	.run = sim,
};
