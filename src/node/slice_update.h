/* SPDX-License-Identifier: Apache-2.0 */
/* slice_update.h - contributions, and the one way in which they change a slice.
 *
 *	verify and stage → commit, or unstage
 *
 *  (1) an update reads the version before and writes the next one beside it, unless nobody else
 *      holds the version before: then it is changed in place.
 *  (2) nothing is written before all memory is there: an update happens whole or not at all.
 *  (3) a step of the line that has nothing to do (weight 1, no decay, no correction) is left out
 *      and does not change a bit by being left out.
 *  (4) what is staged is committed as it is, or dropped: no second pass over the parameters.  What
 *      is staged of a sum is committed only if all parts are; each went through the line with its
 *      own weight and divisor, which are the same if their senders are honest.  Between staging
 *      and commit nothing else is applied, so the rate is the same.
 *  (5) a sparse contribution changes the values that it has, and no others are read or written;
 *      where (1) asks for another block, the version before is copied into it first.  Either way
 *      the bits are those of the line over the decoded contribution. */
#ifndef TW_NODE_SLICE_UPDATE_H
#define TW_NODE_SLICE_UPDATE_H

#include "node/slice.h"

/* A stretch of a vector that does not lie in one piece. */
struct slice_part {
	size_t from, n;
	const float *at;
};

/* One contribution to one slice. */
struct contribution {
	uint32_t slot, incarnation;
	uint64_t seq, tau;
	struct tw_block *block; /* a reference ... */
	const float *g;         /* ... to what holds these n floats; NULL: it lies in parts, is
				   sparse, is part of another, or brings nothing for this slice */
	const struct slice_part *part; /* valid during the commit, in order and without gaps; the
					  contribution is alone in its update */
	uint32_t parts;
	bool unchecked;       /* nobody has looked yet whether g is finite */
	const uint8_t *coded; /* sparse: the codec's bytes for the trainable values, checked; the
				   block begins with the floats of the buffers */
	size_t coded_bytes;
	struct tw_block *wire; /* tw_plan_gathers: what g was decoded from, as it came; NULL: g is
				    what came */
	size_t wire_at, wire_bytes;
	size_t values;     /* trainable values that were sent; the others are 0 */
	const float *sent; /* what its worker computed on, valid during the commit; NULL: not
				   known, it is taken to be what there is now */
	struct tw_body_push push;
	uint32_t flags;             /* tw_plan_judges: of its PUSH ... */
	uint8_t fault;              /* ... enum contribution_fault ... */
	bool closed;                /* ... and its worker does not wait for the verdict */
	struct contribution *spare; /* the next one of those that are not in use, or of its worker's
				       that wait for a verdict */
};

/* Why a contribution cannot be applied here. */
enum contribution_fault { FAULT_NONE, FAULT_NUMBERS, FAULT_FENCED };

/* May a push of a sparse codec be committed as it came (5)?  Where the line is no more than
 * w - rate * g, and the contribution is needed only once. */
bool tw_slice_update_takes_sparse(const struct slice *s, const struct tw_body_push *push);
/* Is the slice of a push finite?  TW_BAD_BYTES: no.  Where the line is no more than w - rate * g,
 * the same pass over memory makes the next version and stages it (slice.h, (5)). */
enum tw_status tw_slice_update_verify_and_stage(struct slice *s, const struct tw_body_push *push,
						const float *g);
/* A part of a sum that is complete, which the caller may commit as a whole later: it goes through
 * the line while it is in the cache.  `c` has one part, and weight and divide of the sum.
 * Where the line keeps something between updates, or there is no memory, all of it is left to the
 * commit.  True: the commit needs no value of this part (part.at may be NULL then), unless what is
 * staged is dropped. */
bool tw_slice_update_stage_part(struct slice *s, struct contribution *c);
/* Drop what is staged, if anything is: it was not committed. */
void tw_slice_update_unstage(struct slice *s);
/* Add one contribution to another of the same version: *into becomes their mean by weight, and *c
 * has no vector any more.  TW_NO_MEMORY: nothing has changed. */
enum tw_status tw_slice_update_fold(struct slice *s, struct contribution *into,
				    struct contribution *c);
/* Run contributions through the line as one update, which counts them and remembers their
 * positions; those that are part of others are behind these.  Their references stay the caller's.
 * Where none has a vector, they bring nothing for this slice, and are only counted.  `live` workers
 * share the running statistics.  On TW_NO_MEMORY nothing has changed (slice.h, (6)). */
enum tw_status tw_slice_update_commit(struct slice *s, struct tw_context *ctx,
				      struct contribution *const *c, uint32_t count, uint32_t live);
/* The books of one contribution that its worker has applied by itself: counts, history, version. */
enum tw_status tw_slice_update_count(struct slice *s, struct tw_context *ctx,
				     struct contribution *c);

#endif
