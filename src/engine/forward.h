/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - a trained network without the data it was trained on: rows in, outputs out.
 *
 * Parameters that are too many for memory are read stage after stage: those of one are in memory,
 * while a block of rows goes through it, and what crosses to the next stage is kept in between.
 * The outputs are the same bits. */
#ifndef TW_ENGINE_FORWARD_H
#define TW_ENGINE_FORWARD_H

#include "actor/engine.h"
#include "data/data.h"
#include "graph/graph.h"

struct tw_forward_facts {
	const struct tw_graph *graph; /* finished, its loss last; outlives it, like the vector */
	const float *vector; /* all elements, trainable and buffers; NULL: read by `load` */
	/* Read elements from..from+n. */
	enum tw_status (*load)(void *arg, size_t from, size_t n, float *out);
	void *load_arg;
	uint64_t memory; /* with load: bytes of parameters at once, at least those of one layer; and
			    of what crosses between stages */
	/* Whose rows: shape, kind, scale, shift; outlives it. */
	const struct tw_data *data;
	uint32_t batch; /* rows computed at once */
	bool own_input; /* what is to be predicted is the input itself */
};

struct tw_forward;
enum tw_status tw_forward_open(struct tw_heap *heap, const struct tw_forward_facts *facts,
			       struct tw_forward **out, struct tw_error *why);
void tw_forward_close(struct tw_forward *f); /* NULL is allowed */
/* Rows that should be asked for at once: whole batches, and outputs of a few megabytes; so many
 * that parameters which are read again for each block are read seldom. */
uint32_t tw_forward_block(const struct tw_forward *f);

/* Compute rows from..from+count of `set`: `prediction` (may be NULL) gets count * outputs values.
 * Rows are taken `batch` at a time from row 0 on, so `from` must be a multiple of it: then a row's
 * outputs are the same bits however many rows are asked for at once.  The score of these rows is
 * added to *score (may be NULL), with the same bits for every multiple of tw_forward_block; loss
 * and correct mean nothing where their answers do not. */
enum tw_status tw_forward_run(struct tw_forward *f, const struct tw_samples *set, uint64_t from,
			      uint32_t count, float *prediction, struct tw_score *score);

#endif
