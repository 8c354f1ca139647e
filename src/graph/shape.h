/* SPDX-License-Identifier: Apache-2.0 */
/* shape.h - the shape of one sample's values between two layers, and how a batch lies in memory. */
#ifndef TW_GRAPH_SHAPE_H
#define TW_GRAPH_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_RANK_MAX 3

struct tw_shape {
	uint32_t rank; /* 1: features; 2: positions, features; 3: channels, height, width */
	uint32_t d[TW_RANK_MAX]; /* none is 0 */
};

/* How a batch of rank 3 lies in memory; others are always PLAIN.  No layout pads anything. */
enum tw_layout {
	TW_LAYOUT_PLAIN,   /* sample, channel, row, column: what data has and what flatten gives */
	TW_LAYOUT_LAST,    /* sample, row, column, channel */
	TW_LAYOUT_BLOCK16, /* sample, channel / 16, row, column, channel % 16; only where 16 divides
			      the channels */
};

/* Values of one sample. */
size_t tw_shape_size(const struct tw_shape *s);
/* Features of one position: all of them but for rank 2, which has d[0] positions. */
uint32_t tw_shape_width(const struct tw_shape *s);
/* How many positions a sample has: 1 but for rank 2. */
uint32_t tw_shape_positions(const struct tw_shape *s);
bool tw_shape_same(const struct tw_shape *a, const struct tw_shape *b);
/* "20x24x24", "500". */
const char *tw_shape_text(const struct tw_shape *s, char out[40]);
const char *tw_layout_name(enum tw_layout layout);

#endif
