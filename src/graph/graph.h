/* SPDX-License-Identifier: Apache-2.0 */
/* graph.h - a network: nodes built once, then programs of it for batches of one size.
 *
 * A node is an op with options and inputs; node 0 is the input.  Nodes are added in an order in
 * which each comes after its inputs, and the last node added is the loss.  The parameter vector is
 * all trainable tensors in order of nodes, then all buffers in order of nodes.
 *
 * What is frozen is not in it.  Frozen tensors are a section of their own behind the vector, in
 * order of nodes: whoever computes has them, and nobody else has to know of them. */
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
	bool frozen;                 /* never changes; `from` is behind the vector */
	uint32_t init;               /* the model's number of an initialisation; see model.h */
};

struct tw_graph_node {
	const struct tw_op *op; /* NULL: the input */
	const void *options;    /* the graph's own copy */
	uint32_t in[TW_OP_INS], ins;
	struct tw_op_form form;
	struct tw_shape shape;        /* form.out */
	char name[TW_NAME_ROOM - 20]; /* "4.body.0"; "" without */
	uint32_t tensor[TW_OP_PARAMETERS];
	bool frozen;      /* its trainable tensors are */
	uint32_t readers; /* nodes that have it as input */
	bool tied;        /* its tensor is that of g->table */
};

struct tw_graph {
	struct tw_heap *heap;
	struct tw_arena *keep; /* nodes' options */
	struct tw_graph_node *node;
	uint32_t nodes;
	size_t node_room;
	struct tw_graph_tensor *tensor; /* after tw_graph_finish: trainable ones, frozen or not, by
					   node, then buffers by node */
	uint32_t tensors;
	size_t tensor_room;
	size_t trainable, buffers; /* floats of the vector */
	size_t frozen;             /* floats behind it */
	double flops, products;    /* per sample forward */
	bool lengths; /* samples have lengths: node 0 begins with them (TW_OP_GIVES_LENGTHS) */
	/* The tensor of `table` is that of other nodes, too, the last of which is `tied`: their
	 * gradients are added from the last node to the first.  tied 0: there is none. */
	uint32_t table, tied;
};
/* Floats of the vector, and with those behind it. */
static inline size_t tw_graph_moving(const struct tw_graph *g)
{
	return g->trainable + g->buffers;
}
static inline size_t tw_graph_floats(const struct tw_graph *g)
{
	return g->trainable + g->buffers + g->frozen;
}

struct tw_graph *tw_graph_new(struct tw_heap *heap, const struct tw_shape *in);
void tw_graph_free(struct tw_graph *g);
/* Add a node.  in: op->ins numbers of nodes that are there already; lengths come by themselves.
 *  `options` (op->options_bytes)
 * is copied; texts in it must live as long as the graph.  `init` is noted in its tensors.
 * *why says which shapes do not fit, without place. */
enum tw_status tw_graph_add(struct tw_graph *g, const struct tw_op *op, const void *options,
			    const uint32_t *in, const char *name, uint32_t init, uint32_t *id,
			    struct tw_error *why);
/* Lay out the vector; the last node must be a loss (TW_OP_LOSS), or nothing runs backward. */
enum tw_status tw_graph_finish(struct tw_graph *g, struct tw_error *why);

/* The trainable tensors of these nodes are frozen: no gradient of them is made, and none of what
 * only they would need.  Running statistics go on, as PyTorch's do with requires_grad = False.
 * `node` has an entry for each node; after tw_graph_finish, before any program. */
void tw_graph_freeze(struct tw_graph *g, const bool *node);

/* May this tensor lie in several pieces when a program runs? */
bool tw_graph_in_pieces(const struct tw_graph *g, uint32_t tensor);

/* A part of a graph is everything behind one node, up to and with another.  What crosses its
 * borders is known only when layouts are chosen, so a part is cut out of the lowered network and
 * never lowered alone: layouts, reorders, taken ReLUs and the layer numbers that random draws are
 * keyed by are those of the whole graph. */
#define TW_CROSSING_MAX 8
struct tw_crossing {
	uint32_t node;   /* whose value it is, in the layout that readers behind the cut want */
	uint32_t floats; /* per sample */
	bool back;       /* its gradient comes back */
};
struct tw_graph_cut {
	uint32_t after; /* this node and those before it are before the cut */
	struct tw_crossing value[TW_CROSSING_MAX];
	uint32_t values;
};
/* All places where it can be cut, in order, the first after node 0 and the last after the loss,
 * where nothing crosses.  A graph cannot be cut between an op and a ReLU that the op applies, nor
 * where more than TW_CROSSING_MAX values would cross, nor after a node that the loss does not
 * depend on.  `cut` has room for g->nodes. */
enum tw_status tw_graph_cuts(const struct tw_graph *g, struct tw_graph_cut *cut, uint32_t *cuts);

struct tw_graph_part {
	uint32_t behind, upto; /* nodes; cuts must be possible there; 0 and the loss always are */
};

enum tw_program_kind {
	TW_PROGRAM_TRAIN,    /* forward, loss, backward */
	TW_PROGRAM_EVALUATE, /* forward with running statistics, loss and correct */
	TW_PROGRAM_PASSES,   /* training with forward and backward apart, too: see tw_program_way */
};

/* Where one value lives and when: for `thalweg inspect` and for tests. */
struct tw_program_buffer {
	const char *what; /* "3.out", "3.gradient", "3.saved", "3.scratch" */
	char name[TW_NAME_ROOM];
	size_t from, bytes;   /* in the arena */
	uint32_t first, last; /* steps of the program at which it is written first and read last */
	bool stash;           /* in the stash instead */
};
struct tw_program_plan {
	const struct tw_program_buffer *buffer;
	size_t buffers;
	size_t bytes;    /* of the arena: the largest from + bytes */
	size_t stash;    /* of what lives from the forward to the backward pass; 0: in the arena */
	size_t no_reuse; /* what it would be if nothing were shared */
	uint32_t steps;
};

/* A graph, or a part of one, for batches of exactly `batch` samples.  Never changes once made; any
 * number of threads may run it at the same time, each with its own arena. */
struct tw_program;
enum tw_status tw_program_new(const struct tw_graph *g, enum tw_program_kind kind, uint32_t batch,
			      uint64_t seed, struct tw_program **out, struct tw_error *why);
enum tw_status tw_program_of_part(const struct tw_graph *g, enum tw_program_kind kind,
				  const struct tw_graph_part *part, uint32_t batch, uint64_t seed,
				  struct tw_program **out, struct tw_error *why);
void tw_program_free(struct tw_program *p);
/* Of the arena, of the stash between a forward and a backward pass; aligned to TW_ALIGN. */
size_t tw_program_bytes(const struct tw_program *p);
size_t tw_program_stash_bytes(const struct tw_program *p);
const struct tw_program_plan *tw_program_plan(const struct tw_program *p);
/* Which layouts and primitives were chosen, one line per step. */
void tw_program_describe(const struct tw_program *p, FILE *out);
double tw_program_products(const struct tw_program *p); /* 2 m n k of all products of one run */

/* Which steps of a program run.  Only PASSES has more than the first. */
enum tw_program_way {
	TW_WAY_ALL,      /* forward, and backward in training; of a part it gives no `out` there */
	TW_WAY_FORWARD,  /* forward alone; nothing is kept */
	TW_WAY_STASHING, /* forward alone; what backward reads is left in the stash */
	TW_WAY_STASHED,  /* backward alone, from a stash */
};

struct tw_program_run {
	enum tw_program_way way;
	const float *x;                /* batch * size of the input, PLAIN; not behind a cut */
	const float *const *parameter; /* one pointer per tensor of the graph; of a part its own;
					  NULL: it lies in several pieces (tw_graph_in_pieces) */
	const struct tw_piece *piece;  /* of the parameter vector, where a pointer is NULL */
	size_t pieces;
	float *gradient; /* training: trainable tensors of the part that are not frozen, then
			    buffers */
	/* Values that cross the borders of a part, in order of tw_graph_cut.  Gradients only of
	 * those that have one; the others' pointers are not looked at. */
	const float *in[TW_CROSSING_MAX], *out_gradient[TW_CROSSING_MAX];
	float *out[TW_CROSSING_MAX], *in_gradient[TW_CROSSING_MAX];
	void *stash;
	struct tw_op_batch batch;   /* loss and correct are written through it */
	float *prediction;          /* batch * size of the loss's input, PLAIN; or NULL */
	const _Atomic bool *cancel; /* may be NULL; looked at between nodes */
	/* Where not NULL: what it counts while a node's steps run is added to spent[node]. */
	int64_t (*clock)(void);
	int64_t *spent;
};
/* TW_OK, TW_CANCELLED, TW_NO_MEMORY (only the first time so many threads run at once). */
enum tw_status tw_program_run(struct tw_program *p, void *arena, const struct tw_program_run *run);

#endif
