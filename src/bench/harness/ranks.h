/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - benches on the ranks of an MPI: all ranks run the same bench, and rank 0 reports. */
#ifndef TW_BENCH_RANKS_H
#define TW_BENCH_RANKS_H

#include "bench/bench.h"
#include "bench/harness/null_engine.h"
#include "run/ranks.h"

/* TW_BAD_INPUT: another number of ranks was started than `wanted`. */
enum tw_status tw_bench_ranks(const struct tw_bench_how *how, uint32_t wanted,
			      struct tw_error *why);
/* Run the job of a null engine on all ranks.  *period: tw_null_engine_period of this rank, 0.0
 * where no worker was. */
enum tw_status tw_bench_ranks_null(const struct tw_bench_how *how, const struct tw_null_job *q,
				   size_t warm, double *period, struct tw_error *why);

#endif
