/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - a trained network without the data it was trained on: rows in, outputs out. */
#ifndef TW_ENGINE_FORWARD_H
#define TW_ENGINE_FORWARD_H

#include "actor/engine.h"
#include "data/data.h"
#include "graph/graph.h"

struct tw_forward_facts {
	const struct tw_graph *graph; /* finished, its loss last; outlives it, like the vector */
	const float *vector;          /* all elements, trainable and buffers */
	/* Whose rows: shape, kind, scale, shift; outlives it. */
	const struct tw_data *data;
	uint32_t batch; /* rows computed at once */
	bool own_input; /* what is to be predicted is the input itself */
};

struct tw_forward;
enum tw_status tw_forward_open(struct tw_heap *heap, const struct tw_forward_facts *facts,
			       struct tw_forward **out, struct tw_error *why);
void tw_forward_close(struct tw_forward *f); /* NULL is allowed */

/* Compute rows from..from+count of `set`: `prediction` (may be NULL) gets count * outputs values.
 * Rows are taken `batch` at a time from row 0 on, so `from` must be a multiple of it: then a row's
 * outputs are the same bits however many rows are asked for at once.  *score (may be NULL) is
 * that of these rows; loss and correct mean nothing where their answers do not. */
enum tw_status tw_forward_run(struct tw_forward *f, const struct tw_samples *set, uint64_t from,
			      uint32_t count, float *prediction, struct tw_score *score);

#endif
