/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.h - the two halves of bench allreduce: a vector alone, and a net that trains. */
#ifndef TW_BENCH_ALLREDUCE_H
#define TW_BENCH_ALLREDUCE_H

#include "bench/bench.h"
#include "bench/baseline/ddp.h"

/* Two processes of PyTorch, if there are any, and the sentence of the first failure. */
struct tw_allreduce_theirs {
	struct tw_ddp ddp;
	bool there;
	struct tw_error lost;
};

/* The MLP of `bench scale` by two processes without a server, against PyTorch's DDP. */
enum tw_status tw_allreduce_training(const struct tw_bench_how *how,
				     struct tw_allreduce_theirs *theirs, json_t *cases,
				     struct tw_error *why);

/* Between MPI ranks. */
enum tw_status tw_allreduce_mpi(const struct tw_bench_how *how, json_t *cases,
				struct tw_error *why);

#endif
