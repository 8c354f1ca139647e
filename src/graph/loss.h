/* SPDX-License-Identifier: Apache-2.0 */
/* loss.h - the end of a network: how wrong its predictions are.
 *
 * One file per loss in loss/; a file defines `const struct tw_loss tw_loss_<file>` (`-` in the name
 * is `_` in the symbol).  A loss is an op of graph/op.h, so programs run it and the suite of ops
 * tests it: its values against `reference`, its gradient against differences of `reference`.  The
 * rest of the table says which data it fits; no other code knows a loss by its name. */
#ifndef TW_GRAPH_LOSS_H
#define TW_GRAPH_LOSS_H

#include "graph/graph.h"

/* What is compared with the predictions.  `forward` says TW_BAD_INPUT to anything else. */
enum tw_loss_takes {
	TW_LOSS_LABELS = 1,  /* labels of any number of classes, one output for each class */
	TW_LOSS_PAIR = 2,    /* labels of two classes, one output for both */
	TW_LOSS_TARGETS = 4, /* target values, one output for each */
	TW_LOSS_UNIT = 8,    /* of target values only those from 0 to 1 */
};

struct tw_loss {
	struct tw_op op; /* must stay first; traits have TW_OP_LOSS */
	uint32_t takes;  /* of enum tw_loss_takes */
	bool judges;     /* predictions are right or wrong: it counts `correct` for labels, and for
			    targets that are all 0 or 1; else `correct` is -1 */
	bool usual;      /* the default loss for such data if the job names none; exactly one
			    for labels and one for any target values */
};

TW_REGISTRY(loss, tw_loss);
/* The usual one for labels, or for target values. */
const struct tw_loss *tw_loss_usual(bool labels);
/* The loss that an op with TW_OP_LOSS is. */
static inline const struct tw_loss *tw_loss_of(const struct tw_op *op)
{
	return (const struct tw_loss *)op;
}
/* The loss that a finished graph ends with. */
static inline const struct tw_loss *tw_graph_loss(const struct tw_graph *g)
{
	return tw_loss_of(g->node[g->nodes - 1].op);
}

#endif
