/* SPDX-License-Identifier: Apache-2.0 */
/* channel_sums.h - a batch seen channel by channel in any layout, and sums over all its values. */
#ifndef TW_GRAPH_CHANNEL_SUMS_H
#define TW_GRAPH_CHANNEL_SUMS_H

#include "graph/op.h"

/* A batch as `batch` times `blocks` runs of `rows` rows; a row has one value of each of `inner`
 * channels: block b has channels b * inner and on. */
struct tw_channels {
	size_t batch, blocks, rows, inner, channels;
	size_t lanes; /* sums that are kept apart: inner, or LANES where a row is one value */
	double count; /* values of one channel */
};

struct tw_channels tw_channels_of(const struct tw_op_site *site); /* of in[0] */

/* Where sums are made: parts of an op's scratch. */
struct tw_channel_sums {
	double *total;    /* 2 * lanes */
	float *sum;       /* 2 * lanes: one stretch */
	float *shift;     /* lanes */
	float *factor[3]; /* channels each: the op's own */
};

size_t tw_channel_sums_bytes(const struct tw_channels *v);
struct tw_channel_sums tw_channel_sums_in(const struct tw_channels *v, void *scratch);

/* Over the batch of block b, with d = x - shift and u = g, or d where g is NULL: total[i] = sum of
 * u and total[lanes + i] = sum of u * d for channel i of the block.  shift has a value per lane. */
void tw_channel_sums_add(const struct tw_channels *v, size_t b, const float *x, const float *g,
			 const struct tw_channel_sums *p);

/* The compiler knows the usual widths of a row. */
#define TW_CHANNELS_SIZED(width, call)                                                             \
	switch (width) {                                                                           \
	case 1:                                                                                    \
		call(1);                                                                           \
		break;                                                                             \
	case 16:                                                                                   \
		call(16);                                                                          \
		break;                                                                             \
	case 32:                                                                                   \
		call(32);                                                                          \
		break;                                                                             \
	case 64:                                                                                   \
		call(64);                                                                          \
		break;                                                                             \
	default:                                                                                   \
		call(width);                                                                       \
	}

#endif
