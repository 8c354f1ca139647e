/* SPDX-License-Identifier: Apache-2.0 */
/* both_ways.h - an op that goes along a sequence, made to go along it in both directions.
 *
 * Whoever has one knows only the first direction; the other one is the same op on the positions
 * that each sample has, from the last to the first, with parameters of its own behind those of the
 * first.  The features of both are side by side.  What is padded stays where it is.
 *
 * An op has both where its options begin with struct tw_ways. */
#ifndef TW_GRAPH_BOTH_WAYS_H
#define TW_GRAPH_BOTH_WAYS_H

#include "graph/op.h"

struct tw_ways {
	uint32_t direction; /* enum tw_direction */
};
enum tw_direction { TW_FORWARD_ONLY, TW_BOTH_DIRECTIONS };
extern const char *const tw_directions[]; /* NULL at the end */

/* Room of a kernel before that of the op. */
#define TW_WAYS_KERNEL (4 * TW_ALIGN)

static inline bool tw_goes_both_ways(const void *options)
{
	return ((const struct tw_ways *)options)->direction == TW_BOTH_DIRECTIONS;
}

/* Place of the k-th position that a direction comes to, of a sample of this length. */
static inline size_t tw_way_place(bool back, size_t k, size_t length)
{
	return back && k < length ? length - 1 - k : k;
}

/* As of struct tw_op; `one` goes along the sequence once. */
enum tw_status tw_ways_form(const struct tw_op *one, const void *options, const struct tw_shape *in,
			    struct tw_op_form *form, struct tw_error *why);
enum tw_status tw_ways_prepare(const struct tw_op *one, const struct tw_op_site *site,
			       struct tw_onednn *kit, void *kernel, struct tw_op_memory *need);
enum tw_status tw_ways_forward(const struct tw_op *one, const struct tw_op_site *site,
			       const void *kernel, const struct tw_op_run *run);
enum tw_status tw_ways_backward(const struct tw_op *one, const struct tw_op_site *site,
				const void *kernel, const struct tw_op_run *run);

#endif
