/* SPDX-License-Identifier: Apache-2.0 */
/* nets.h - graphs for the tests of programs, and one run of them with its memory. */
#ifndef TW_TEST_GRAPH_NETS_H
#define TW_TEST_GRAPH_NETS_H

#include "graph/graph.h"

/* Add the layer `text` ("linear 5") on top of in[0] (and in[1]); asserts that it fits. */
uint32_t net_layer(struct tw_graph *g, const char *text, uint32_t a, uint32_t b);
/* As above where memory may be refused. */
enum tw_status net_try(struct tw_graph *g, const char *text, uint32_t a, uint32_t b, uint32_t *id,
		       struct tw_error *why);
/* Layers one on top of the other, separated by ';', and the loss last; finished. */
struct tw_graph *net_line(struct tw_heap *heap, const struct tw_shape *in, const char *text);
/* A random network of linear layers, activations and residuals over `features` inputs, ending in
 * the loss; the same for the same seed. */
struct tw_graph *net_random(struct tw_heap *heap, uint64_t seed);
/* As above over images: convolutions, norms, pools and residuals in several layouts. */
struct tw_graph *net_random_image(struct tw_heap *heap, uint64_t seed);

/* Everything that one run needs. */
struct net_run {
	const struct tw_graph *graph;
	struct tw_program *program;
	void *arena;
	size_t arena_bytes;
	float *x, *vector, *gradient, *prediction;
	uint32_t *label;
	float *target;
	const float **parameter;
	double loss, correct;
	struct tw_program_run run;
};
/* Inputs, labels, targets and parameters drawn from `seed`. */
void net_run_init(struct net_run *r, const struct tw_graph *g, enum tw_program_kind kind,
		  uint32_t batch, uint64_t seed);
void net_run_release(struct net_run *r);
void net_run_go(struct net_run *r); /* asserts that it works */

#endif
