/* SPDX-License-Identifier: Apache-2.0 */
/* product.h - matrix products of oneDNN over views: rows and columns that lie anywhere. */
#ifndef TW_GRAPH_OP_PRODUCT_H
#define TW_GRAPH_OP_PRODUCT_H

#include "graph/onednn.h"

#include <stdint.h>

/* n x m values; the next one of a column, and of a row, is so far away. */
static inline dnnl_memory_desc_t tw_product_view(size_t n, size_t m, size_t down, size_t right)
{
	const dnnl_dims_t d = { (dnnl_dim_t)n, (dnnl_dim_t)m };
	const dnnl_dims_t strides = { (dnnl_dim_t)down, (dnnl_dim_t)right };
	dnnl_memory_desc_t md;

	dnnl_memory_desc_init_by_strides(&md, 2, d, dnnl_f32, strides);
	return md;
}

/* Put c = a b, or c += a b if it `adds`, into the kit, to be run with a, b and c. */
static inline enum tw_status tw_product_add(struct tw_onednn *kit, dnnl_memory_desc_t a,
					    dnnl_memory_desc_t b, dnnl_memory_desc_t c, bool adds,
					    uint32_t *id, size_t *pad)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	dnnl_primitive_desc_t pd;
	const enum tw_status st = tw_onednn_product(kit, &a, &b, &c, adds, &pd);

	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, id, pad) : st;
}

/* oneDNN's handles know no const; sources are only read. */
static inline void *tw_product_source(const float *p)
{
	return (void *)(uintptr_t)p;
}

#endif
