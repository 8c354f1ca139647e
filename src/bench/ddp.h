/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.h - two processes of PyTorch under DistributedDataParallel over Gloo. */
#ifndef TW_BENCH_DDP_H
#define TW_BENCH_DDP_H

#include "bench/torch_notes.h"

#define TW_DDP_SIZE 2

/* All zeros: not there. */
struct tw_ddp {
	struct tw_torch rank[TW_DDP_SIZE];
	char folder[100]; /* where they find each other; "" none */
};

/* Start them with the Python that has PyTorch, and make the net.  Close in any case. */
enum tw_status tw_ddp_open(struct tw_ddp *d, const char *python,
			   const struct tw_net_step_facts *net, size_t parameters,
			   struct tw_error *why);
void tw_ddp_close(struct tw_ddp *d);
/* So many steps of each, together; seconds per step of the slower. */
enum tw_status tw_ddp_steps(struct tw_ddp *d, const char *net, unsigned steps, double *seconds,
			    struct tw_error *why);

#endif
