/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.h - which layout an op runs in: a table keyed by op, shape class and instruction set.
 *
 * The rows come from measurements (see layouts.c); nothing is timed at run time, so that the same
 * net gives the same bits on every machine of a kind. */
#ifndef TW_GRAPH_LAYOUTS_H
#define TW_GRAPH_LAYOUTS_H

#include "graph/shape.h"

/* What a convolution from `ins` to `outs` channels reads and writes. */
void tw_layout_conv(uint32_t ins, uint32_t outs, uint32_t groups, enum tw_layout *in,
		    enum tw_layout *out);

#endif
