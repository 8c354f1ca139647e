/* SPDX-License-Identifier: Apache-2.0 */
/* conv.h - what the files of the convolution share: its options, descriptors, and the three ways
 * to the gradient of its input. */
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

#endif
