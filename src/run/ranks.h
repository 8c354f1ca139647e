/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - a job on the ranks of an MPI: rank 0 runs it, the others follow.
 *
 * Rank 0 has the master, and sends the job as text and the data set to those that do not have it.
 * By default every rank has a worker, and the shards are spread over all ranks. */
#ifndef TW_RUN_RANKS_H
#define TW_RUN_RANKS_H

#include "actor/cluster.h"
#include "run/launcher.h"
#include "run/placement.h"
#include "spec/job.h"

struct tw_ranks;

/* Join the other ranks by the MPI of the launcher.  The caller is the main thread; afterwards the
 * process must not fork.  TW_BAD_INPUT: this launcher and this build do not fit. */
enum tw_status tw_ranks_open(const struct tw_launcher *l, const struct tw_log *log,
			     const _Atomic int *signals, struct tw_ranks **out,
			     struct tw_error *why);
/* Run `program` in a thread beside the one that calls MPI, until the programs of all ranks have
 * returned.  Returns the program's code.  Frees r. */
int tw_ranks_main(struct tw_ranks *r, int (*program)(void *arg), void *arg);

/* For the program. */
uint32_t tw_ranks_rank(const struct tw_ranks *r);
uint32_t tw_ranks_count(const struct tw_ranks *r);
/* What struct tw_run_request wants as `interrupted`. */
const _Atomic int *tw_ranks_interrupts(const struct tw_ranks *r);

/* Rank 0, by tw_run: give the job to all ranks and wait until they have opened it. */
enum tw_status tw_ranks_begin(struct tw_ranks *r, const struct tw_job *job,
			      const struct tw_engine *engine, struct tw_error *why);
/* ... the actors of rank 0; after tw_ranks_begin. */
enum tw_status tw_ranks_cast(struct tw_ranks *r, const struct tw_plan *p, struct tw_placement *out);
/* ... run them.  As tw_threads_run. */
enum tw_status tw_ranks_run(struct tw_ranks *r, const struct tw_cluster *cluster,
			    const struct tw_plan *p, struct tw_ran *ran);
/* ... the run is over, for all ranks. */
void tw_ranks_over(struct tw_ranks *r);

/* Other ranks: do what rank 0 orders until it ends; rank 0 hears of what fails, and *why has it.
 * `engine` and `desk` (may be NULL) compute instead of the job's own, and stay the caller's. */
enum tw_status tw_ranks_follow(struct tw_ranks *r, struct tw_engine *engine, struct tw_desk *desk,
			       struct tw_error *why);
/* ... of one order only, for benches; false: rank 0 has ended. */
bool tw_ranks_follow_once(struct tw_ranks *r, struct tw_engine *engine);

/* For benches, on all ranks at once: the floors of world/mpi/mpi_plugin.h, 0.0 without memory; the
 * sum of a number over all ranks; and the least of each of n. */
double tw_ranks_floor_exchange(struct tw_ranks *r, size_t n, size_t block, unsigned times,
			       tw_floor_pass pass);
double tw_ranks_floor_reduce(struct tw_ranks *r, size_t n, unsigned times);
double tw_ranks_sum(struct tw_ranks *r, double x);
void tw_ranks_least(struct tw_ranks *r, double *x, size_t n);
/* ... and seconds of the last sums that actors had the MPI library make, at most `most`, the newest
 * first: from asking to having it, on this rank. */
size_t tw_ranks_sums_took(const struct tw_ranks *r, double *out, size_t most);

#endif
