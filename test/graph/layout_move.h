/* SPDX-License-Identifier: Apache-2.0 */
/* layout_move.h - batches from one layout to another by plain loops, to compare oneDNN with. */
#ifndef TW_TEST_GRAPH_LAYOUT_MOVE_H
#define TW_TEST_GRAPH_LAYOUT_MOVE_H

#include "graph/shape.h"

void layout_move(const struct tw_shape *s, uint32_t batch, enum tw_layout from, const float *in,
		 enum tw_layout to, float *out);

#endif
