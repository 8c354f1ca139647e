/* SPDX-License-Identifier: Apache-2.0 */
/* linear_back.h - the two backward products of a linear layer, over padded copies where that pays.
 */
#ifndef TW_GRAPH_LINEAR_BACK_H
#define TW_GRAPH_LINEAR_BACK_H

#include "graph/op.h"

struct tw_linear_back {
	uint32_t weights, data; /* primitives; of padded data: for the first rows of the weights */
	uint32_t more, rest;    /* of padded data: for further rows, and for those that are left */
	bool weights_padded, data_padded;
	size_t copies_at; /* in scratch, behind the scratchpad of the primitives */
};

/* Make the primitives; *scratch becomes what tw_linear_back_run needs. */
enum tw_status tw_linear_back_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				      struct tw_linear_back *l, size_t *scratch);
/* Gradients of the weights, and of the inputs if somebody wants them. */
enum tw_status tw_linear_back_run(const struct tw_op_site *site, const struct tw_linear_back *l,
				  const struct tw_op_run *run);

#endif
