/* SPDX-License-Identifier: Apache-2.0 */
/* conv.h - what the files of the convolution share: its options, descriptors, the three ways to the
 * gradient of its input, and the second way to that of its weights. */
#ifndef TW_GRAPH_CONV_H
#define TW_GRAPH_CONV_H

#include "graph/op.h"

struct tw_conv_options {
	uint32_t filters;
	struct tw_extent size, stride, pad;
	uint32_t groups;
	bool bias;
};

/* Descriptors of a site: weights in PyTorch's order, and `any` for oneDNN to choose. */
struct tw_conv_shapes {
	dnnl_memory_desc_t in, out, plain, any, bias;
	dnnl_dims_t stride, pad;
};

/* How the gradient of the input is computed: see conv_data.c. */
enum tw_conv_way { TW_CONV_DIRECT, TW_CONV_TURNED, TW_CONV_FOLDED };

/* From layouts.c, where the measurements are. */
enum tw_conv_way tw_conv_way_for(const struct tw_op_site *site);

struct tw_conv_data {
	enum tw_conv_way way;
	uint32_t primitive;
	uint32_t order, order_again;         /* reorders of weights; TW_KIT_NONE where none */
	size_t first_at, second_at, rows_at; /* in scratch, behind the scratchpad */
};

/* *scratch becomes the bytes that a run needs.  `hint` is forward's. */
enum tw_status tw_conv_data_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				    const struct tw_conv_shapes *s,
				    const_dnnl_primitive_desc_t hint, struct tw_conv_data *d,
				    size_t *scratch);
enum tw_status tw_conv_data_run(const struct tw_op_site *site, const struct tw_conv_data *d,
				const struct tw_op_run *run);

/* May the gradient of the weights be computed as in conv_weights.c, and does it pay?  From
 * layouts.c, too. */
bool tw_conv_unfolds(const struct tw_op_site *site);

struct tw_conv_weights {
	uint32_t first, more;            /* products: of the first samples, of further ones */
	uint32_t plain;                  /* reorder of their sum */
	uint32_t samples;                /* at a time */
	size_t sum_at, bias_at, rows_at; /* in scratch, behind the scratchpad */
};

/* *scratch becomes the bytes that a run needs. */
enum tw_status tw_conv_weights_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				       const struct tw_conv_shapes *s, struct tw_conv_weights *w,
				       size_t *scratch);
enum tw_status tw_conv_weights_run(const struct tw_op_site *site, const struct tw_conv_weights *w,
				   const struct tw_op_run *run);

#endif
