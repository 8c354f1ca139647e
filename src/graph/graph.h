/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - a network: nodes built once, then programs of it for batches of one size.
 *
 * A node is an op with options and inputs; node 0 is the input.  Nodes are added in an order in
 * which each comes after its inputs, and the last node added is the loss.  The parameter vector is
 * all trainable tensors in order of nodes, then all buffers in order of nodes. */
#ifndef TW_GRAPH_GRAPH_H
#define TW_GRAPH_GRAPH_H

#include "graph/op.h"

#include <stdatomic.h>
#include <stdio.h>

#define TW_NODES_MAX 4096
#define TW_NAME_ROOM 64

struct tw_graph_tensor {
	char name[TW_NAME_ROOM];     /* "0.weight", "4.body.0.bias" */
	struct tw_op_parameter form; /* shape, fans, fill, buffer */
	uint32_t node, index;        /* whose, and which of its parameters */
	size_t from, n;              /* place in the vector, floats */
	uint32_t init;               /* the model's number of an initialisation; see model.h */
};

struct tw_graph_node {
	const struct tw_op *op; /* NULL: the input */
	const void *options;    /* the graph's own copy */
	uint32_t in[TW_OP_INS];
	struct tw_op_form form;
	struct tw_shape shape;        /* form.out */
	char name[TW_NAME_ROOM - 20]; /* "4.body.0"; "" without */
	uint32_t tensor[TW_OP_PARAMETERS];
	uint32_t readers; /* nodes that have it as input */
};

struct tw_graph {
	struct tw_heap *heap;
	struct tw_arena *keep; /* nodes' options */
	struct tw_graph_node *node;
	uint32_t nodes;
	size_t node_room;
	struct tw_graph_tensor *tensor; /* in order of the vector, after tw_graph_finish */
	uint32_t tensors;
	size_t tensor_room;
	size_t trainable, buffers; /* floats */
	double flops, products;    /* per sample forward */
};

struct tw_graph *tw_graph_new(struct tw_heap *heap, const struct tw_shape *in);
void tw_graph_free(struct tw_graph *g);
/* Add a node.  in: op->ins numbers of nodes that are there already.  `options` (op->options_bytes)
 * is copied; texts in it must live as long as the graph.  `init` is noted in its tensors.
 * *why says which shapes do not fit, without place. */
enum tw_status tw_graph_add(struct tw_graph *g, const struct tw_op *op, const void *options,
			    const uint32_t *in, const char *name, uint32_t init, uint32_t *id,
			    struct tw_error *why);
/* Lay out the vector; the last node must be a loss (TW_OP_LOSS), or nothing runs backward. */
enum tw_status tw_graph_finish(struct tw_graph *g, struct tw_error *why);

enum tw_program_kind {
	TW_PROGRAM_TRAIN,    /* forward, loss, backward */
	TW_PROGRAM_EVALUATE, /* forward with running statistics, loss and correct */
};

/* Where one value lives and when: for `thalweg inspect` and for tests. */
struct tw_program_buffer {
	const char *what; /* "3.out", "3.gradient", "3.saved", "3.scratch" */
	char name[TW_NAME_ROOM];
	size_t from, bytes;   /* in the arena */
	uint32_t first, last; /* steps of the program at which it is written first and read last */
};
struct tw_program_plan {
	const struct tw_program_buffer *buffer;
	size_t buffers;
	size_t bytes;    /* of the arena: the largest from + bytes */
	size_t no_reuse; /* what it would be if nothing were shared */
	uint32_t steps;
};

/* A graph for batches of exactly `batch` samples.  Never changes once made; any number of threads
 * may run it at the same time, each with its own arena. */
struct tw_program;
enum tw_status tw_program_new(const struct tw_graph *g, enum tw_program_kind kind, uint32_t batch,
			      uint64_t seed, struct tw_program **out, struct tw_error *why);
void tw_program_free(struct tw_program *p);
size_t tw_program_bytes(const struct tw_program *p); /* of the arena, aligned to TW_ALIGN */
const struct tw_program_plan *tw_program_plan(const struct tw_program *p);
/* Which layouts and primitives were chosen, one line per step. */
void tw_program_describe(const struct tw_program *p, FILE *out);
double tw_program_products(const struct tw_program *p); /* 2 m n k of all products of one run */

struct tw_program_run {
	const float *x;                /* batch * size of the input, PLAIN */
	const float *const *parameter; /* one pointer per tensor of the graph */
	float *gradient;               /* TRAIN: the whole vector, trainable and buffers */
	struct tw_op_batch batch;      /* loss and correct are written through it */
	float *prediction;             /* batch * size of the loss's input, PLAIN; or NULL */
	const _Atomic bool *cancel;    /* may be NULL; looked at between nodes */
};
/* TW_OK, TW_CANCELLED, TW_NO_MEMORY (only the first time so many threads run at once). */
enum tw_status tw_program_run(struct tw_program *p, void *arena, const struct tw_program_run *run);

#endif
