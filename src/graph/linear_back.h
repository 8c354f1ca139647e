/* SPDX-License-Identifier: Apache-2.0 */
/* linear_back.h - the two backward products of a linear layer, over padded copies where that pays.
 */
#ifndef TW_GRAPH_LINEAR_BACK_H
#define TW_GRAPH_LINEAR_BACK_H

#include "graph/op.h"

/* So many rows of the weights are multiplied at a time, whatever pieces they lie in: so their
 * borders change no bit, and only rows at a border are copied, at most 4 MiB. */
static inline uint32_t tw_linear_rows(const struct tw_op_site *site)
{
	const uint32_t fit = (UINT32_C(1) << 20) / tw_shape_width(&site->in[0]) / 64 * 64;
	const uint32_t rows = fit < 64 ? 64 : fit;

	return rows < tw_shape_width(&site->out) ? rows : tw_shape_width(&site->out);
}

struct tw_linear_back {
	uint32_t weights, data; /* primitives; data: for the first rows of the weights ... */
	uint32_t more, rest;    /* ... for further rows, and for those that are left */
	uint32_t rows;          /* of the weights, at a time */
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
