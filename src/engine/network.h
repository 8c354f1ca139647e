/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - the engine of real networks: a graph, a data set, and batches between them. */
#ifndef TW_ENGINE_NETWORK_H
#define TW_ENGINE_NETWORK_H

#include "actor/engine.h"
#include "data/data.h"
#include "graph/graph.h"

struct tw_network_facts {
	struct tw_data *data; /* closed with the engine, and where opening fails */
	struct tw_data_options options;
	struct tw_graph *graph; /* finished, its loss last; freed like the data */
	uint64_t seed;
	uint32_t batch; /* samples of the usual training batch */
	uint32_t most;  /* of the largest there may be, when others are gone; 0: batch */
	float *weights; /* initial weights of all elements, with those that are frozen, from the
			   heap (taken); NULL: drawn */
	bool online;    /* a gradient brings the score of an evaluation before it */
	bool own_input; /* what is to be predicted is the input itself, as the network sees it */
};

/* Programs for the training batch and for evaluation are made now, those of other sizes when they
 * are first met. */
enum tw_status tw_network_open(struct tw_heap *heap, const struct tw_network_facts *facts,
			       struct tw_engine **out, struct tw_error *why);

/* NULL for other engines. */
const struct tw_graph *tw_network_graph(const struct tw_engine *e);
const struct tw_data *tw_network_data(const struct tw_engine *e);
/* The program of that kind for a batch of that size, made if need be; NULL without memory. */
struct tw_program *tw_network_program(const struct tw_engine *e, enum tw_program_kind kind,
				      uint32_t batch);

/* Score samples from..from+count of any set at `in` (its from and count); `prediction` (may be
 * NULL) gets in->count * (outputs of the network) values. */
enum tw_status tw_network_score(const struct tw_engine *e, void *scratch,
				const struct tw_samples *set, const struct tw_inputs *in,
				float *prediction, struct tw_score *score);
/* A gradient with its time: what `clock` counts is added to spent[node] of the graph. */
enum tw_status tw_network_profile(const struct tw_engine *e, void *scratch,
				  const struct tw_inputs *in, float *gradient,
				  struct tw_score *score, int64_t (*clock)(void), int64_t *spent);
/* The node before a cut. */
uint32_t tw_network_cut_node(const struct tw_engine *e, size_t cut);
/* Samples that an evaluation computes at once; what is left at the end is fewer. */
uint32_t tw_network_portion(const struct tw_engine *e);

#endif
