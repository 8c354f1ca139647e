/* SPDX-License-Identifier: Apache-2.0 */
/* inner.h - what the files of a program share: its net, its steps and the memory planner.
 *
 * A net is the graph with reorders as items of their own; a program is a list of steps made from
 * it.  While steps are made, their places are numbers of storages; the planner turns storages into
 * offsets in the arena. */
#ifndef TW_GRAPH_INNER_H
#define TW_GRAPH_INNER_H

#include "base/arena.h"
#include "graph/graph.h"

/* Primitives made so far, and what oneDNN calls the implementation of one of them. */
uint32_t tw_onednn_count(const struct tw_onednn *kit);
const char *tw_onednn_implementation(const struct tw_onednn *kit, uint32_t id);
/* What it is for, as far as oneDNN knows: reorders serve either way. */
enum tw_onednn_way { TW_KIT_FORWARD = 1, TW_KIT_BACKWARD = 2, TW_KIT_BOTH = 3 };
enum tw_onednn_way tw_onednn_way(const struct tw_onednn *kit, uint32_t id);

/* One storage for the planner: how long, from which step to which (inclusive), and where. */
struct tw_plan_entry {
	size_t bytes;         /* a multiple of TW_ALIGN */
	uint32_t first, last; /* steps */
	size_t from;          /* written by tw_plan_place */
};
/* Give every entry its place: largest first, each at the lowest offset at which it meets nothing
 * that lives at the same time.  *bytes is the end of the furthest. */
enum tw_status tw_plan_place(struct tw_heap *heap, struct tw_plan_entry *entry, size_t count,
			     size_t *bytes);

enum tw_item_kind {
	TW_ITEM_INPUT,
	TW_ITEM_OP,
	TW_ITEM_REORDER, /* in[0] in another layout */
};

struct tw_item {
	enum tw_item_kind kind;
	uint32_t node; /* of a reorder: whose value it moves */
	uint32_t in[TW_OP_INS], ins;
	uint32_t readers, last_reader;
	enum tw_layout layout; /* of its value */
	bool needs;            /* the gradient of its value is needed */
	bool passes;           /* its value is that of in[0], forward and backward */
	bool taken;            /* a ReLU that in[0] applies */
	bool handed;           /* a ReLU that its only reader applies; it passes */
	struct tw_op_site site;
	void *kernel;
	struct tw_op_memory memory;
	uint32_t primitive, back;      /* of a reorder, both ways */
	uint32_t kit_first, kit_last;  /* the primitives that its op made */
	size_t value, saved, gradient; /* places, while steps are made */
};

/* Items whose values cross a border of a part. */
struct tw_border {
	uint32_t item[TW_CROSSING_MAX], items;
};

struct tw_lowered {
	const struct tw_graph *graph;
	enum tw_program_kind kind;
	struct tw_graph_part part;
	uint32_t batch;
	uint64_t seed;
	struct tw_item *item;
	uint32_t items;
	uint32_t first, end; /* the part's: first <= i < end; item 0, the input, is never one */
	struct tw_border in, out;
};

/* Items of the whole graph in order, layouts chosen, reorders put in, ReLUs taken, needs known;
 * then the part's items and borders.  Memory is `keep`'s. */
enum tw_status tw_lowered_make(struct tw_lowered *net, struct tw_arena *keep, struct tw_error *why);
/* Items before `border` that are read behind it, in order; TW_ABSENT: it cannot be cut there. */
enum tw_status tw_lowered_border(const struct tw_lowered *net, uint32_t border,
				 struct tw_border *out);
/* Find the part of a net that is made; TW_ABSENT: it cannot be cut there. */
enum tw_status tw_lowered_cut(struct tw_lowered *net);
/* Kernels and primitives of the part's items. */
enum tw_status tw_lowered_prepare(struct tw_lowered *net, struct tw_onednn *kit,
				  struct tw_arena *keep, struct tw_error *why);
bool tw_item_has(const struct tw_lowered *net, const struct tw_item *item, uint32_t trait);
/* Does it have parameters that change? */
static inline bool tw_node_learns(const struct tw_graph_node *n)
{
	return n->form.parameters > 0 && !n->frozen;
}
/* Its op's backward is called with a gradient. */
bool tw_item_goes_back(const struct tw_lowered *net, const struct tw_item *item);
size_t tw_item_floats(const struct tw_lowered *net, const struct tw_item *item); /* of its value */

enum tw_step_kind {
	TW_STEP_FORWARD,
	TW_STEP_BACKWARD,
	TW_STEP_REORDER, /* out = in[0] in another layout */
	TW_STEP_ADD,     /* out += in[0] */
	TW_STEP_SUM,     /* out = in[0] + in[1] */
	TW_STEP_ZERO,    /* the changes of a node that nothing depends on */
	TW_STEP_COPY,    /* out = in[0], which crosses a border; nothing where they are one */
};

/* A place is a storage's number, later what TW_PLACE makes of its home and its offset in bytes (or
 * the number of the value that crosses); or one of these. */
#define TW_PLACE_NONE  SIZE_MAX
#define TW_PLACE_INPUT (SIZE_MAX - 1) /* the run's x */

enum tw_home {
	TW_HOME_ARENA, /* so the place of most is its offset */
	TW_HOME_STASH,
	TW_HOME_IN, /* these are the run's, and only read ... */
	TW_HOME_OUT_GRADIENT,
	TW_HOME_OUT, /* ... or only written there */
	TW_HOME_IN_GRADIENT,
};
#define TW_HOME_SHIFT          56
#define TW_PLACE(home, offset) ((size_t)(home) << TW_HOME_SHIFT | (offset))

struct tw_step {
	enum tw_step_kind kind;
	uint32_t item;
	uint32_t primitive;
	size_t in[TW_OP_INS], out;
	size_t out_gradient, in_gradient[TW_OP_INS];
	size_t saved, scratch;
	size_t floats; /* of an addition */
};

struct tw_storage {
	struct tw_plan_entry plan;
	const char *what;
	uint32_t node;
	uint32_t holders; /* gradients that are in it and were not used yet */
	bool touched;
	enum tw_home home;
	uint32_t value; /* of those that cross */
};

/* Which lists of steps there are. */
enum tw_list_kind {
	TW_LIST_ALL,     /* forward and backward in one run */
	TW_LIST_FORWARD, /* forward alone */
	TW_LIST_TURN,    /* forward up to the turn, backward from there in another run */
	TW_LISTS,
};

struct tw_steps {
	struct tw_lowered *net;
	enum tw_list_kind kind;
	struct tw_step *step;
	uint32_t steps, turn; /* forward steps are those before the turn */
	struct tw_storage *storage;
	uint32_t storages;
};
/* A list of steps of a prepared net, with the storages they touch and when, and where these are at
 * home; arrays are `work`'s, and places are still numbers of storages. */
enum tw_status tw_steps_make(struct tw_steps *s, struct tw_lowered *net, enum tw_list_kind kind,
			     struct tw_arena *work);

struct tw_list {
	struct tw_step *step;
	uint32_t steps, turn;
	struct tw_program_plan plan;
};
/* Make the steps of a list and place their storages; `keep` has what stays. */
enum tw_status tw_list_make(struct tw_list *list, struct tw_lowered *net, enum tw_list_kind kind,
			    struct tw_heap *heap, struct tw_arena *keep);

struct tw_program {
	struct tw_heap *heap;
	struct tw_arena keep;
	struct tw_onednn *kit;
	struct tw_lowered net;
	struct tw_list list[TW_LISTS]; /* those that its kind has; the others are empty */
	size_t before[2]; /* trainable, buffers: from a tensor's place to that in a gradient */
	double products;
};
/* The list that a program is described by. */
static inline const struct tw_list *tw_program_list(const struct tw_program *p)
{
	return &p->list[p->net.kind == TW_PROGRAM_EVALUATE ? TW_LIST_FORWARD : TW_LIST_ALL];
}

#endif
