/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_mpi.c - two MPI ranks add up vectors, by the MPI library and by our own messages,
 * against a bare MPI_Iallreduce of as many floats. */
#include "bench/allreduce.h"
#include "bench/harness/ranks.h"

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

/* Seconds of a whole round. */
static enum tw_status measure(const struct tw_bench_how *how, const char *strategy,
			      size_t parameters, double *out, struct tw_error *why)
{
	const struct tw_null_job q = { .parameters = parameters,
				       .workers = RANKS,
				       .steps = STEPS + WARM,
				       .strategy = strategy,
				       .shards = 1 };
	const enum tw_status status = tw_bench_ranks_null(how, &q, WARM, out, why);

	if (status == TW_OK && !(*out > 0.0))
		return tw_fail(why, TW_BAD_BYTES, "the rounds did not happen");
	return status;
}

/* Seconds from the moment when the last rank asks for a sum to the moment when it has it: what a
 * rank waits for another that asks later is no part of adding up. */
static enum tw_status sums(const struct tw_bench_how *how, double *out, struct tw_error *why)
{
	double took[STEPS];
	const size_t count = tw_ranks_sums_took(how->ranks, took, STEPS);

	if (tw_ranks_sum(how->ranks, (double)count) != (double)count * RANKS || !count)
		return tw_fail(why, TW_BAD_BYTES, "the ranks have not made as many sums");
	tw_ranks_least(how->ranks, took, count);
	*out = tw_median(took, count);
	return TW_OK;
}

struct rounds {
	double ours[KINDS][TW_BENCH_ROUNDS], floor[TW_BENCH_ROUNDS];
};

static enum tw_status turn(const struct tw_bench_how *how, size_t parameters, struct rounds *r,
			   unsigned i, struct tw_error *why)
{
	enum tw_status status;

	r->floor[i] = tw_ranks_floor_reduce(how->ranks, parameters, TIMES);
	status = measure(how, "{gate: bsp, topology: library}", parameters, &r->ours[LIBRARY][i],
			 why);
	if (status == TW_OK)
		status = sums(how, &r->ours[SUM][i], why);
	if (status == TW_OK)
		status = measure(how, "{gate: bsp, topology: direct}", parameters,
				 &r->ours[DIRECT][i], why);
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
		"allreduce-mpi-library: from the moment when the last replica asks for the sum to "
		"the moment when it has it (`schedule: library`).  The two rounds also have the "
		"wait for the slower replica, the check of the gradient, the word to and from the "
		"master and the SGD update.  Floor: MPI_Iallreduce of as many floats after a "
		"barrier, tested without rest, and nothing else");
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
