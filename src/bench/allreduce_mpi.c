/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_mpi.c - two MPI ranks add up vectors, by the MPI library and by our own messages,
 * against a bare MPI_Iallreduce of as many floats. */
#include "bench/allreduce.h"
#include "bench/ranks.h"

#include <stdio.h>
#include <string.h>

#define PARAMETERS 14600000u
#define RANKS      2
#define ROUNDS     5
#define STEPS      24 /* of one round ... */
#define WARM       8  /* ... after these */
#define TIMES      15 /* of the floor in one round */
#define TARGET     1.15

enum { SUM, LIBRARY, DIRECT, KINDS };
static const char *const names[KINDS] = {
	[SUM] = "allreduce-mpi-library",
	[LIBRARY] = "allreduce-mpi-library-round",
	[DIRECT] = "allreduce-mpi-direct-round",
};

static enum tw_status read_job(const char *schedule, size_t parameters, struct tw_job **job,
			       struct tw_error *why)
{
	char text[400];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: %zu}}\n"
		 "data: {source: none, samples: %d, batch: 1}\n"
		 "train: {epochs: 1}\n"
		 "update: {rule: sgd, rate: 0.01}\n"
		 "cluster: {workers: %d, shards: 1}\n"
		 "strategy: {gate: bsp, topology: %s}\n",
		 parameters, (STEPS + WARM) * RANKS, RANKS, schedule);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, TW_WORLD_MPI, job, why);
}

/* Seconds of a whole round. */
static enum tw_status measure(const struct tw_bench_how *how, const char *schedule,
			      size_t parameters, double *out, struct tw_error *why)
{
	struct tw_null_engine *idle = tw_heap_zeros(&tw_heap_system, sizeof *idle);
	struct tw_job *job = NULL;
	enum tw_status status = TW_OK;

	if (!idle)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	tw_null_engine_init(idle, parameters, (STEPS + WARM) * RANKS);
	if (!tw_ranks_rank(how->ranks))
		status = read_job(schedule, parameters, &job, why);
	if (status == TW_OK)
		status = tw_bench_ranks_run(how, job, &idle->engine, why);
	if (status == TW_OK)
		*out = tw_bench_ranks_period(idle, WARM, STEPS);
	if (status == TW_OK && !(*out > 0.0))
		status = tw_fail(why, TW_BAD_BYTES, "the rounds did not happen");
	tw_job_free(job);
	tw_heap_system.put(&tw_heap_system, idle);
	return status;
}

struct rounds {
	double ours[KINDS][TW_BENCH_ROUNDS], floor[TW_BENCH_ROUNDS];
};

static enum tw_status turn(const struct tw_bench_how *how, size_t parameters, struct rounds *r,
			   unsigned i, struct tw_error *why)
{
	double took[STEPS];
	size_t count;
	enum tw_status status;

	r->floor[i] = tw_ranks_floor_reduce(how->ranks, parameters, TIMES);
	status = measure(how, "library", parameters, &r->ours[LIBRARY][i], why);
	count = tw_ranks_sums_took(how->ranks, took, STEPS);
	r->ours[SUM][i] = tw_median(took, count);
	if (status == TW_OK)
		status = measure(how, "direct", parameters, &r->ours[DIRECT][i], why);
	return status;
}

static enum tw_status report(const struct tw_bench_how *how, struct rounds *r, unsigned rounds,
			     json_t *cases, struct tw_error *why)
{
	double floor[TW_BENCH_ROUNDS];
	enum tw_status status = TW_OK;

	for (int k = 0; k < KINDS && status == TW_OK; k++) {
		const double ratio = tw_paired(r->ours[k], r->floor, rounds);

		memcpy(floor, r->floor, rounds * sizeof *floor);
		status = tw_bench_paired(
			cases, names[k], tw_median(r->ours[k], rounds), "s",
			tw_median(floor, rounds), ratio,
			k == SUM ? json_pack("{s:f}", "target_most", TARGET) : NULL, why);
	}
	if (status != TW_OK)
		return status;
	return tw_bench_note(
		how, why,
		"allreduce-mpi-library: from the moment when a replica asks for the sum to the "
		"moment when it has it (`schedule: library`).  The two rounds also have the check "
		"of the gradient, the word to and from the master and the SGD update.  Floor: "
		"MPI_Iallreduce of as many floats, tested without rest, and nothing else");
}

enum tw_status tw_allreduce_mpi(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	const size_t parameters = how->size ? how->size : PARAMETERS;
	struct rounds r;
	enum tw_status status = tw_bench_ranks(how, RANKS, why);

	for (unsigned i = 0; i < rounds && status == TW_OK; i++)
		status = turn(how, parameters, &r, i, why);
	if (status != TW_OK || tw_ranks_rank(how->ranks))
		return status;
	return report(how, &r, rounds, cases, why);
}
