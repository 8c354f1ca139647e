/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - the exchange in each world, and what they have in common. */
#ifndef TW_BENCH_EXCHANGE_H
#define TW_BENCH_EXCHANGE_H

#include "bench/bench.h"
#include "bench/harness/null_engine.h"
#include "spec/job.h"

#define TW_EXCHANGE_WARM 8 /* first exchanges, left out: buffers are touched for the first time */

/* The job whose only work is the exchange, `steps` times by each worker. */
enum tw_status tw_exchange_job(enum tw_world_kind world, uint32_t workers, uint32_t steps,
			       size_t parameters, struct tw_job **job, struct tw_error *why);
/* In one process. */
enum tw_status tw_exchange_threads(const struct tw_bench_how *how, json_t *cases,
				   struct tw_error *why);
/* Between two processes: a socket pair, loopback, TLS over loopback. */
enum tw_status tw_exchange_tcp(const struct tw_bench_how *how, json_t *cases, struct tw_error *why);

/* Between two MPI ranks. */
enum tw_status tw_exchange_mpi(const struct tw_bench_how *how, json_t *cases, struct tw_error *why);

#endif
