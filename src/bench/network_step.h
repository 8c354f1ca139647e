/* SPDX-License-Identifier: Apache-2.0 */
/* network_step.h - a training step of a net with all it needs in memory: no data set, no exchange.
 * */
#ifndef TW_BENCH_NETWORK_STEP_H
#define TW_BENCH_NETWORK_STEP_H

#include "base/arena.h"
#include "graph/graph.h"

/* A net that can be made here and in PyTorch (torch_bench.py) alike. */
struct tw_net_step_facts {
	const char *name;
	const char *zoo;    /* its name in the zoo */
	const char *hidden; /* the zoo's option of that name, a JSON list too; NULL: has none */
	struct tw_shape in;
	uint32_t batch;
	bool tokens;               /* it reads bytes, and predicts the next ones */
	const char *const *layers; /* text of its layers instead of the zoo's, NULL at the end */
};

struct tw_net_step {
	const struct tw_net_step_facts *facts;
	struct tw_arena arena;
	struct tw_graph *graph;
	struct tw_program *program;
	/* From the heap, for the arena does not align: */
	void *memory; /* the program's arena */
	float *x, *w, *g;
	uint32_t *label;
	const float **parameter;
	double loss;      /* of the last step, mean */
	double cpu, wall; /* seconds of all steps */
	double best;      /* of the quickest step; 0: none yet */
};

/* Build it with random inputs and labels.  Close in any case. */
enum tw_status tw_net_step_open(struct tw_net_step *n, const struct tw_net_step_facts *facts,
				struct tw_error *why);
void tw_net_step_close(struct tw_net_step *n);
/* Forward, cross-entropy, backward, and plain SGD on all parameters, so many times; seconds per
 * step. */
enum tw_status tw_net_steps(struct tw_net_step *n, unsigned steps, double *seconds,
			    struct tw_error *why);

#endif
