/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - events per second of the simulator, and the memory of ten thousand workers. */
#include "bench/bench.h"

#include "job/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS       5
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

/* What the child writes to its pipe when it could not do its work. */
static void tell(int fd, const struct tw_error *why)
{
	if (write(fd, why->text, strlen(why->text)) < 0)
		_exit(2);
}

/* In a process of its own, so that the peak is of this run alone. */
static enum tw_status peak_memory(const struct tw_log *log, double *out, struct tw_error *why)
{
	char text[500];
	struct rusage usage;
	int pipes[2], state;
	ssize_t n;
	pid_t child;

	if (pipe(pipes))
		return tw_fail(why, TW_IO, "no pipe: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		struct tw_error cause = { .status = TW_OK };
		json_t *result = NULL;
		const enum tw_status status = simulate(large, log, &result, &cause);

		if (status != TW_OK)
			tell(pipes[1], &cause);
		_exit(status == TW_OK ? 0 : 1);
	}
	close(pipes[1]);
	if (child < 0) {
		close(pipes[0]);
		return tw_fail(why, TW_IO, "no process: %s", strerror(errno));
	}
	n = read(pipes[0], text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	close(pipes[0]);
	while (wait4(child, &state, 0, &usage) < 0)
		if (errno != EINTR)
			return tw_fail(why, TW_IO, "the child is lost: %s", strerror(errno));
	if (!WIFEXITED(state) || WEXITSTATUS(state))
		return tw_fail(why, TW_IO, "10,000 workers did not run: %s",
			       *text ? text : "the process died");
	*out = (double)usage.ru_maxrss * 1024.0;
	return TW_OK;
}

static enum tw_status sim(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const struct tw_log *log = how->log;
	const struct tw_log quiet = { .sink = log->sink, .arg = log->arg, .level = TW_WARNING };
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
