/* SPDX-License-Identifier: Apache-2.0 */
/* slow.h - a whole graph by its ops' references, in double: what programs are compared with. */
#ifndef TW_TEST_GRAPH_SLOW_H
#define TW_TEST_GRAPH_SLOW_H

#include "graph/graph.h"

struct slow {
	const struct tw_graph *graph;
	uint32_t batch;
	bool train;
	uint64_t seed;
	const struct tw_op_batch *facts;
	double *value[TW_NODES_MAX]; /* of each node, after slow_loss */
	double *vector;              /* parameters; change them and ask again */
};
void slow_init(struct slow *s, const struct tw_graph *g, enum tw_program_kind kind, uint32_t batch,
	       uint64_t seed, const float *x, const float *vector, const struct tw_op_batch *facts);
void slow_release(struct slow *s);
double slow_loss(struct slow *s); /* mean over the batch */
/* The derivative by element i of the vector, from a central difference. */
double slow_gradient(struct slow *s, size_t i);

#endif
