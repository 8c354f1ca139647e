/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_mpi.c - push + apply + pull between two MPI ranks, against the same bytes and the same
 * pass by plain calls of MPI; and what ranks cost that have nothing to do. */
#include "bench/exchange.h"
#include "bench/harness/ranks.h"
#include "vec/vec.h"

#include <time.h>

#define PARAMETERS  14600000u
#define ROUNDS      5
#define STEPS       24           /* of one round, without the first 8 */
#define TIMES       15           /* plain exchanges of one round */
#define BLOCK       (256u << 10) /* values: 1 MiB, as the pieces of ours */
#define IDLE        3            /* seconds */
#define TARGET      1.3          /* at most */
#define TARGET_IDLE 0.05         /* of a core, at most */

static void pass(float *w, const float *g, size_t n)
{
	tw_vec_sgd(w, w, g, 0.01f, n, false);
}

static enum tw_status turn(const struct tw_bench_how *how, size_t parameters, double *ours,
			   double *floor, struct tw_error *why)
{
	const struct tw_null_job q = { .parameters = parameters,
				       .workers = 1,
				       .steps = STEPS + TW_EXCHANGE_WARM,
				       .strategy = "asgd" };
	enum tw_status status;
	double mine = 0.0;

	*floor = tw_ranks_floor_exchange(how->ranks, parameters, BLOCK, TIMES, pass);
	status = tw_bench_ranks_null(how, &q, TW_EXCHANGE_WARM, &mine, why);
	*ours = tw_ranks_sum(how->ranks, mine); /* only one rank has the worker */
	if (status == TW_OK && (!(*ours > 0.0) || !(*floor > 0.0)))
		status = tw_fail(why, TW_BAD_BYTES, "the exchanges did not happen");
	return status;
}

/* CPU time of this process while nothing happens, as a share of a core. */
static double idle_share(const struct tw_bench_how *how)
{
	struct timespec a, b;
	const struct timespec rest = { .tv_sec = IDLE };

	tw_ranks_sum(how->ranks, 0.0); /* together */
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	nanosleep(&rest, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	return ((double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec)) / IDLE;
}

static enum tw_status report(const struct tw_bench_how *how, double *ours, double *floor,
			     unsigned rounds, double idle, json_t *cases, struct tw_error *why)
{
	const double ratio = tw_paired(ours, floor, rounds);
	enum tw_status status = tw_bench_paired(cases, "exchange-mpi", tw_median(ours, rounds),
						"s per exchange", tw_median(floor, rounds), ratio,
						json_pack("{s:f}", "target_most", TARGET), why);

	if (status == TW_OK)
		status = tw_bench_paired(cases, "idle-mpi", idle, "of a core", 0.0, 0.0,
					 json_pack("{s:f}", "target_most", TARGET_IDLE), why);
	if (status != TW_OK)
		return status;
	return tw_bench_note(how, why,
			     "exchange-mpi: rank 0 has the shards and rank 1 a worker whose "
			     "gradients cost nothing.  Floor: plain calls of MPI that send the "
			     "same bytes both ways at once in blocks of 1 MiB and make the same "
			     "SGD pass over each.  idle-mpi: CPU time of a rank that has nothing "
			     "to do, the mean over all ranks.  The ratio is the median over the "
			     "rounds");
}

enum tw_status tw_exchange_mpi(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	const size_t parameters = how->size ? how->size : PARAMETERS;
	double ours[TW_BENCH_ROUNDS], floor[TW_BENCH_ROUNDS], idle;
	enum tw_status status = tw_bench_ranks(how, 2, why);

	for (unsigned i = 0; i < rounds && status == TW_OK; i++)
		status = turn(how, parameters, &ours[i], &floor[i], why);
	if (status != TW_OK)
		return status;
	idle = tw_ranks_sum(how->ranks, idle_share(how)) / tw_ranks_count(how->ranks);
	return tw_ranks_rank(how->ranks) ? TW_OK
					 : report(how, ours, floor, rounds, idle, cases, why);
}
