/* SPDX-License-Identifier: Apache-2.0 */
/* ddp.h - two processes of PyTorch under DistributedDataParallel over Gloo. */
#ifndef TW_BENCH_DDP_H
#define TW_BENCH_DDP_H

#include "bench/baseline/torch_notes.h"

#define TW_DDP_SIZE 2

/* All zeros: not there. */
struct tw_ddp {
	struct tw_torch rank[TW_DDP_SIZE];
	char folder[100]; /* where they find each other; "" none */
};

/* The net that is compared: 784-512-512-10. */
extern const struct tw_net_step_facts tw_ddp_net;

/* Start them with the Python that has PyTorch.  Close in any case. */
enum tw_status tw_ddp_open(struct tw_ddp *d, const char *python, struct tw_error *why);
void tw_ddp_close(struct tw_ddp *d);
/* Make the net, which must have so many parameters. */
enum tw_status tw_ddp_make(struct tw_ddp *d, const struct tw_net_step_facts *net, size_t parameters,
			   struct tw_error *why);
/* Make a vector, whose steps are all-reduces of it and nothing else; the time of so many is that
 * many times their median. */
enum tw_status tw_ddp_vector(struct tw_ddp *d, const char *name, size_t floats,
			     struct tw_error *why);
/* So many steps of each, together; seconds per step of the slower. */
enum tw_status tw_ddp_steps(struct tw_ddp *d, const char *net, unsigned steps, double *seconds,
			    struct tw_error *why);

#endif
