/* SPDX-License-Identifier: Apache-2.0 */
/* raw_reduce.h - the floors of an all-reduce between two: the bytes and the passes, and nothing
 * else. */
#ifndef TW_BENCH_RAW_REDUCE_H
#define TW_BENCH_RAW_REDUCE_H

#include "bench/baseline/raw_socket.h"

/* Seconds until two processes have the sum of two vectors of n values, the median of `times`; over
 * a socket pair or loopback. */
enum tw_status tw_raw_reduce(enum tw_raw_kind kind, size_t n, unsigned times, double *out,
			     struct tw_error *why);

/* Seconds of two threads: each adds up one half (two reads and a write for each value), then each
 * makes the SGD pass over a replica of its own (again two reads and a write). */
struct tw_raw_memory {
	double sum, update;
	double cpu, wall; /* of all updates of one of them: less CPU time means a busy machine */
};
enum tw_status tw_raw_memory(size_t n, unsigned times, struct tw_raw_memory *out,
			     struct tw_error *why);

#endif
