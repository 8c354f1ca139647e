/* SPDX-License-Identifier: Apache-2.0 */
/* slice_vectors.h - the named vectors of a slice, where an optimiser drives the run: lists of
 * commands over them (base/command.h), and portions of an evaluation that are added up.
 *
 *  (1) vector 0 is `w` of the slice; a list that writes it makes a new version.
 *  (2) a list is carried out once: `number` is that of the last one, and its results are kept.
 *  (3) portions are added in the order of their numbers, in double, so the sum has the same bits
 *      whoever computed them and whenever they came.  Those that come before their turn wait.
 *  (4) a portion is in the sum at most once; a value that is not finite makes the result NAN.
 *  (5) vectors are blocks of the slice's pool.  A copy is another reference.  A command that writes
 *      a vector with several references, or with a reader, writes a new block.  So no pass of a
 *      list only copies.
 *
 * A slice of another plan has none of this, and nothing here does anything then. */
#ifndef TW_NODE_SLICE_VECTORS_H
#define TW_NODE_SLICE_VECTORS_H

#include "actor/message.h"
#include "base/command.h"
#include "node/slice_steps.h"

struct slice;

/* A portion that waits for its turn. */
struct slice_portion {
	struct tw_block *block; /* a reference; NULL: added, not here, or of no use */
	const float *g;
	double loss;
	bool here;
};

struct slice_vectors {
	struct tw_block **at; /* vector k, from 1 on (5); NULL: the plan has none */
	uint32_t count;       /* vector 0 included */
	uint64_t number;      /* (2) */
	/* the list that is carried out: what vectors are after it, and what is done */
	struct tw_block **next;
	struct slice_step *step;
	uint32_t steps;
	double (*lanes)[TW_STEP_LANES];
	double *result;
	uint32_t results, room; /* of the last list; the most that are kept */
	/* the evaluation */
	struct slice_portion *portion;
	uint64_t portions, folded; /* in all; in the sum */
	double *sum;
	double loss;
	bool open, bad; /* bad: some value was not finite */
};

enum tw_status tw_vectors_init(struct slice *s);
void tw_vectors_release(struct slice *s);
/* May this list be carried out: does it name vectors and kinds that there are? */
bool tw_vectors_valid(const struct slice *s, const struct tw_command *list, size_t count);
/* Carry it out.  TW_NO_MEMORY: nothing has changed. */
enum tw_status tw_vectors_run(struct slice *s, const struct tw_command *list, size_t count,
			      uint64_t number);
/* The evaluation begins: no portion is there. */
void tw_vectors_open(struct slice *s);
/* Is this portion still to come? */
bool tw_vectors_wants(const struct slice *s, uint64_t portion);
/* Here it is; `g` lies in the block, of which a reference is kept while it waits. */
void tw_vectors_fold(struct slice *s, uint64_t portion, struct tw_block *block, const float *g,
		     double loss);

#endif
