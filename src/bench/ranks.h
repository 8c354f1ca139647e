/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - benches on the ranks of an MPI: all ranks run the same bench, and rank 0 reports. */
#ifndef TW_BENCH_RANKS_H
#define TW_BENCH_RANKS_H

#include "bench/bench.h"
#include "bench/null_engine.h"
#include "run/ranks.h"

/* TW_BAD_INPUT: another number of ranks was started than `wanted`. */
enum tw_status tw_bench_ranks(const struct tw_bench_how *how, uint32_t wanted,
			      struct tw_error *why);
/* Run the job, which only rank 0 has (NULL elsewhere), with this engine on all ranks. */
enum tw_status tw_bench_ranks_run(const struct tw_bench_how *how, struct tw_job *job,
				  struct tw_engine *engine, struct tw_error *why);
/* The median of seconds from one gradient to the next on this rank, of `steps` after `warm`; 0.0:
 * there were not as many. */
double tw_bench_ranks_period(const struct tw_null_engine *idle, size_t warm, size_t steps);

#endif
