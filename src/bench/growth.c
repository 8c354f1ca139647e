/* SPDX-License-Identifier: Apache-2.0 */
/* growth.c - how cost grows: time of an event and memory against simulated workers, time of a step
 * and memory against parameters.  Each size runs in a process of its own, so its peak is of that
 * size alone. */
#include "bench/bench.h"

#include "base/machine/clock.h"
#include "base/machine/memory_room.h"
#include "bench/harness/children.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS   3
#define PATIENCE 3600.0 /* seconds for the largest */

/* --- workers -------------------------------------------------------------------------------- */

static const uint32_t crowds[] = { 100, 1000, 10000, 100000, 300000 };
#define CROWDS      (sizeof crowds / sizeof crowds[0])
#define FLOOR       1000u        /* the workers that others are compared with */
#define LEAST_STEPS 100000u      /* of all workers: a run with fewer is too short to time */
#define TIME_MOST   2.0          /* times the floor's event, with the largest crowd ... */
#define BYTES_MOST  2147483648.0 /* ... which has at most this much memory */

/* --- parameters ----------------------------------------------------------------------------- */

static const uint32_t hidden[] = { 12, 109, 680, 2789, 9610 }; /* 10^4 to 10^8 parameters */
#define SIZES       (sizeof hidden / sizeof hidden[0])
#define INPUTS      784u
#define CLASSES     10u
#define BATCH       64u
#define WORK        2e8 /* parameters times steps of a run ... */
#define STEPS_LEAST 8   /* ... and at least these */
#define WARM        2
#define BYTES_EACH  40 /* of a parameter: less free memory, and this size is not tried */

static uint64_t parameters_of(uint64_t h)
{
	return (INPUTS + 1) * h + (h + 1) * h + (h + 1) * CLASSES;
}

/* --- one size, in a process ----------------------------------------------------------------- */

struct size {
	char job[600];
	double effort; /* 1; less for a try that need not be exact */
	enum tw_world_kind world;
	struct tw_log log;
	/* in the child: updates of the first shard, and when the last one was */
	double *between;
	size_t steps, seen;
	int64_t last;
	double *seconds; /* shared: of an event or a step */
};

static bool observe(void *arg, const struct tw_note *n)
{
	struct size *s = arg;
	int64_t now;

	if (n->kind != TW_NOTE_UPDATE || n->shard != 0)
		return true;
	now = tw_clock();
	if (s->seen && s->seen <= s->steps)
		s->between[s->seen - 1] = (double)(now - s->last) / (double)TW_SECOND;
	s->last = now;
	s->seen++;
	return true;
}

static enum tw_status run_size(void *arg, size_t number, struct tw_error *why)
{
	struct size *s = arg;
	const bool steps = s->world == TW_WORLD_THREADS;
	const struct tw_run_request request = { .log = &s->log,
						.observer = steps ? observe : NULL,
						.observer_arg = s };
	struct tw_job *job = NULL;
	json_t *result = NULL;
	enum tw_status status;

	s->between = tw_heap_zeros(&tw_heap_system, (s->steps + 1) * sizeof *s->between);
	if (!s->between)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the times");
	status = tw_job_read_text("bench", s->job, strlen(s->job), NULL, 0, NULL, s->world, &job,
				  why);
	if (status == TW_OK)
		status = tw_run(&request, job, &result, why);
	if (status != TW_OK)
		return status;
	if (steps && s->seen < WARM + 2)
		return tw_fail(why, TW_BAD_BYTES, "only %zu updates were made", s->seen);
	*s->seconds = steps ? tw_median(s->between + WARM, s->seen - 1 - WARM)
			    : json_number_value(json_object_get(result, "seconds")) /
				      json_number_value(json_object_get(result, "events"));
	return TW_OK;
}

/* Seconds of an event or a step, and the most memory that the process had. */
static enum tw_status measure(struct size *s, double *seconds, double *bytes, struct tw_error *why)
{
	struct tw_children c;
	enum tw_status status = tw_children_init(&c, 1, why);

	if (status != TW_OK)
		return status;
	s->seconds = tw_shared_new(sizeof *s->seconds);
	if (!s->seconds)
		status = tw_fail(why, TW_NO_MEMORY, "no memory for a figure");
	if (status == TW_OK)
		status = tw_children_add(&c, run_size, s, why);
	if (status == TW_OK)
		status = tw_children_wait(&c, PATIENCE, why);
	if (status == TW_OK) {
		*seconds = *s->seconds;
		*bytes = (double)c.child[0].peak;
	}
	tw_shared_free(s->seconds, sizeof *s->seconds);
	tw_children_release(&c);
	return status;
}

/* --- against workers ------------------------------------------------------------------------ */

static void crowd(struct size *s, uint32_t workers)
{
	const uint32_t least = (uint32_t)(s->effort * LEAST_STEPS);

	s->world = TW_WORLD_SIM;
	snprintf(s->job, sizeof s->job,
		 "model: {quadratic: {dimension: 10, noise: 0.1}}\n"
		 "data: {source: none, samples: %u, batch: 1}\n"
		 "train: {epochs: 3}\n"
		 "update: {rule: sgd, rate: 0.0001}\n"
		 "cluster: {workers: %u, shards: 1}\n"
		 "strategy: asgd\n"
		 "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.2}, "
		 "latency: 100us, bandwidth: 10Gbit/s}\n",
		 workers < least ? least : workers, workers);
}

static enum tw_status report_crowd(json_t *cases, uint32_t workers, const double *time,
				   const double *floor, double bytes, unsigned rounds,
				   struct tw_error *why)
{
	const double ratio = tw_paired(time, floor, rounds);
	double here[TW_BENCH_ROUNDS], there[TW_BENCH_ROUNDS];
	json_t *more = json_pack("{s:i, s:i, s:f, s:f}", "workers", (int)workers, "floor_workers",
				 (int)FLOOR, "bytes", bytes, "bytes_per_worker", bytes / workers);
	char name[40];

	if (more && workers == crowds[CROWDS - 1]) {
		json_object_set_new(more, "target_most", json_real(TIME_MOST));
		json_object_set_new(more, "target_most_bytes", json_real(BYTES_MOST));
	}
	memcpy(here, time, sizeof here);
	memcpy(there, floor, sizeof there);
	snprintf(name, sizeof name, "growth-workers-%u", workers);
	return tw_bench_paired(cases, name, tw_median(here, rounds), "s/event",
			       tw_median(there, rounds), ratio, more, why);
}

static enum tw_status against_workers(const struct tw_bench_how *how, struct size *s,
				      unsigned rounds, json_t *cases, struct tw_error *why)
{
	double time[CROWDS][TW_BENCH_ROUNDS], bytes[CROWDS] = { 0 };
	enum tw_status status = TW_OK;
	size_t count = 0, floor = 0;

	while (count < CROWDS && (!how->size || crowds[count] <= how->size))
		count++;
	while (floor + 1 < count && crowds[floor] < FLOOR)
		floor++;
	for (unsigned i = 0; i < rounds && status == TW_OK; i++)
		for (size_t k = 0; k < count && status == TW_OK; k++) {
			tw_log_line(how->log, TW_DEBUG, "bench", "growth: %u workers, round %u",
				    crowds[k], i + 1);
			crowd(s, crowds[k]);
			status = measure(s, &time[k][i], &bytes[k], why);
		}
	for (size_t k = 0; k < count && status == TW_OK; k++)
		status =
			report_crowd(cases, crowds[k], time[k], time[floor], bytes[k], rounds, why);
	return status;
}

/* --- against parameters --------------------------------------------------------------------- */

static void network(struct size *s, uint32_t h)
{
	const double steps = s->effort * WORK / (double)parameters_of(h);

	s->world = TW_WORLD_THREADS;
	s->steps = (size_t)fmax(STEPS_LEAST, steps) + WARM + 1;
	snprintf(s->job, sizeof s->job,
		 "data: {source: digits, count: 2048, tests: 64, batch: %u}\n"
		 "model: {name: mlp, hidden: [%u, %u]}\n"
		 "train: {epochs: 0, steps: %zu, evaluate: 0}\n"
		 "update: {rule: sgd, rate: 0.001}\n"
		 "cluster: {workers: 1}\n"
		 "strategy: ssgd\n",
		 BATCH, h, h, s->steps);
}

static enum tw_status report_network(json_t *cases, size_t k, double *time, double bytes,
				     unsigned rounds, struct tw_error *why)
{
	const double n = (double)parameters_of(hidden[k]), step = tw_median(time, rounds);
	char name[40];

	snprintf(name, sizeof name, "growth-parameters-1e%zu", k + 4);
	return tw_bench_paired(cases, name, step, "s/step", 0, 0,
			       json_pack("{s:f, s:f, s:f, s:f}", "parameters", n,
					 "ns_per_parameter", 1e9 * step / n, "bytes", bytes,
					 "bytes_per_parameter", bytes / n),
			       why);
}

static enum tw_status against_parameters(const struct tw_bench_how *how, struct size *s,
					 unsigned rounds, json_t *cases, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (size_t k = 0; k < SIZES && status == TW_OK; k++) {
		const uint64_t n = parameters_of(hidden[k]);
		double time[TW_BENCH_ROUNDS], bytes = 0;

		if (how->size && n > how->size)
			break;
		if (tw_memory_room().bytes / BYTES_EACH < n)
			return tw_bench_note(how, why,
					     "growth: %.0e parameters were not tried, because "
					     "there is not enough free memory (%s)",
					     (double)n, tw_memory_room().by);
		network(s, hidden[k]);
		for (unsigned i = 0; i < rounds && status == TW_OK; i++) {
			tw_log_line(how->log, TW_DEBUG, "bench",
				    "growth: %llu parameters, round %u", (unsigned long long)n,
				    i + 1);
			status = measure(s, &time[i], &bytes, why);
		}
		if (status == TW_OK)
			status = report_network(cases, k, time, bytes, rounds, why);
	}
	return status;
}

static enum tw_status growth(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	struct size s = {
		.effort = how->size ? 0.02 : 1,
		.log = { .sink = how->log->sink, .arg = how->log->arg, .level = TW_WARNING },
	};
	enum tw_status status = against_workers(how, &s, rounds, cases, why);

	if (status == TW_OK)
		status = against_parameters(how, &s, rounds, cases, why);
	if (status != TW_OK)
		return status;
	return tw_bench_note(
		how, why,
		"growth-workers: wall time of one event of the simulator, joining included, with "
		"so many workers (floor: with %u of them); asgd on a quadratic of dimension 10, 3 "
		"steps of each worker and at least %u in all.  growth-parameters: time of one step "
		"of an MLP 784-h-h-10 with batches of %u in threads, one worker, ssgd.  bytes: the "
		"most memory of the process",
		FLOOR, 3 * LEAST_STEPS, BATCH);
}

const struct tw_bench tw_bench_growth = {
	.name = "growth",
	.help = "time of an event against workers, of a step against parameters; memory of both",
	.run = growth,
};
