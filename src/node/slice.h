/* SPDX-License-Identifier: Apache-2.0 */
/* slice.h - a range of the parameters with everything that is kept for it: the arrays of the rule
 * and of the staleness policy, its version, what went into it, and its part of a checkpoint.
 *
 * Parameters are held as slices. A server's shard is a slice with workers and a gate
 * (node/shard/shard.h); a peer will hold all slices of its own replica. A slice knows no message,
 * no member and no gate's verdict. Only the line changes its parameters (node/slice_update.h).
 *
 *  (1) version.n counts updates and never goes back.  version.incarnation is the holder's: it sets
 *      it once, after tw_slice_init.
 *  (2) `w` is what the rule keeps.  A block that has another holder is not written: the next
 *      version is a new block.  Under a lock-free gate `w` is one block, and workers write it.
 *  (3) `view` was made from this version and these arrays, or it is empty.
 *  (4) what all workers see is made once per version.  Where each sees another vector, it is made
 *      from own[slot], which is there from tw_slice_welcome to tw_slice_leave.
 *  (5) `next` was made from `w` and next.g by the line, or from parts of a sum as they came.
 *      Either the commit of that one contribution takes it, or tw_slice_update_unstage drops it.
 *      Nothing else reads it.
 *  (6) an update happens whole or not at all.  Without memory nothing but `view` and `next` has
 *      changed.
 *  (7) the state (tw_plan_state_arrays) is behind the parameters in `w`.  It is averaged and sent
 *      to workers, but is no part of what is evaluated, kept as the result, decayed or encoded.
 *  (8) tw_slice_restore of what tw_slice_pack made gives the same bits, counts and history, in
 *      whatever process and for whatever holder.
 *
 * tw_slice_init sets all fields, tw_slice_release clears all but the first three.  One thread at a
 * time enters a slice, except for what (2) says of lock-free gates. */
#ifndef TW_NODE_SLICE_H
#define TW_NODE_SLICE_H

#include "node/plan.h"
#include "node/slice_vectors.h"

#define TW_TILE 8192 /* floats: 32 KiB, stays in cache from hook to hook */

/* What went into the parameters. */
struct slice_history {
	uint64_t corrections, contributions;
	double statistic;
	struct tw_spans applied, twice; /* positions */
};

/* What was made from this version to be shown; NULL until it is asked for. */
struct slice_view {
	struct tw_block *shown;   /* what all see; == w unless the rule has its own view */
	struct tw_block *wire;    /* shown, encoded */
	struct tw_block *decoded; /* what workers decode from wire */
	bool moved;               /* this version showed another vector before */
};

/* The next version, made by the pass that checked a contribution, or part by part from a sum. */
struct slice_next {
	struct tw_block *w; /* NULL: none is staged */
	const float *g;     /* what it was made from; NULL: from parts ... */
	size_t values;      /* ... which have so many trainable values so far */
	bool none;          /* there was no memory: all of it is left to the commit */
};

/* The view of the best evaluation so far, of n floats or more (plan.keeping); NULL: none. */
struct slice_kept {
	struct tw_block *view;
	struct tw_kept of; /* pin 0 exactly if there is no view */
};

/* What the rule keeps for one worker (TW_RULE_PER_WORKER). */
struct slice_own {
	struct tw_block *array; /* zeros when it came; NULL: it is not here */
	float before;           /* the rate of its last update; 0: there was none */
};

struct slice {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	uint32_t index;            /* number of the range; its holder is shard `index` */
	size_t from, n, trainable; /* the range; the first `trainable` of it are not buffers */
	size_t all;                /* floats of `w`: n, then n of each array of the state */
	bool streams;              /* too large for the caches */
	bool quiet;                /* the master tells what happens to all replicas of it */
	float rate_max;            /* the largest rate of the schedule */

	struct tw_version version;
	uint64_t round;       /* rounds committed */
	uint32_t state_count; /* steps that the state has seen */
	struct slice_history history;
	struct tw_tally tally;

	struct tw_pool *pool; /* blocks of `all` floats */
	struct tw_block *w;
	struct slice_view view;
	struct slice_next next;
	struct slice_kept kept;
	float *array[TW_RULE_ARRAYS], *policy[TW_STALENESS_ARRAYS];
	struct slice_own *own;        /* by slot; NULL unless the rule keeps one per worker */
	struct slice_vectors vectors; /* where an optimiser drives the run */
	float *tile;                  /* 4 tiles of scratch, each ... */
	size_t stride;                /* ... as long as this: TW_TILE, or all there is */
	float *sorted;                /* scratch for a value of each worker; NULL: never sorted */
};

/* --- slice.c -------------------------------------------------------------------------------- */

/* An empty slice: no memory, nothing to release. */
void tw_slice_empty(struct slice *s, const struct tw_plan *plan, struct tw_heap *heap,
		    uint32_t index);
/* All memory of range s->index, at version 0 with arrays of zeros; `w` is not set.  On TW_NO_MEMORY
 * the slice is empty as before. */
enum tw_status tw_slice_init(struct slice *s);
/* Give back all memory; the slice is empty then.  Blocks that others hold stay theirs. */
void tw_slice_release(struct slice *s);

/* Keep this view instead of what is kept; takes a reference over.  NULL: none. */
void tw_slice_keep(struct slice *s, struct tw_block *view, const struct tw_kept *of);
/* The parameters become the view that is kept; TW_NO_MEMORY changes nothing. */
enum tw_status tw_slice_take_kept(struct slice *s);

/* Has the rule's array for this worker, zeros if it is new (rules without one: nothing to do). */
enum tw_status tw_slice_welcome(struct slice *s, uint32_t slot);
/* The worker goes for good: the rule takes its array back, which may change what others see. */
void tw_slice_leave(struct slice *s, uint32_t slot);
/* Does the slice keep an array for this worker? */
bool tw_slice_keeps(const struct slice *s, uint32_t slot);

/* How far the run is, in epochs: the samples that are applied here, each counted once, whatever
 * was dealt and however often. */
static inline double tw_slice_progress(const struct slice *s)
{
	return tw_plan_progress(s->plan, tw_spans_total(&s->history.applied));
}
/* The rate that the schedule gives then: that of the next update. */
static inline float tw_slice_rate(const struct slice *s)
{
	return tw_plan_rate(s->plan, tw_spans_total(&s->history.applied));
}
/* A new reference to the parameters as they are now, a copy if workers write them lock-free; NULL
 * without memory. */
struct tw_block *tw_slice_snapshot(struct slice *s);

/* The parameters become what this block has, in `s->n` floats; takes the block over.  The version
 * stays, and shows another vector now. */
void tw_slice_replace(struct slice *s, struct tw_block *w);
/* The parameters move by half of the way from `here` to `there`.  TW_NO_MEMORY: they have not. */
enum tw_status tw_slice_approach(struct slice *s, const float *here, const float *there);

/* --- slice_view.c --------------------------------------------------------------------------- */

/* What travels, and what a worker will decode from it: references of the caller. */
struct slice_answer {
	struct tw_block *wire, *decoded;
};

/* Does each worker see another vector? */
bool tw_slice_shows_each(const struct slice *s);
/* What this worker sees now, encoded.  `decoded` is NULL where what it will see is unknown,
 * because others write meanwhile (lock-free).  TW_NO_MEMORY: nothing is in *out. */
enum tw_status tw_slice_show(struct slice *s, uint32_t slot, struct slice_answer *out);
void tw_slice_answer_drop(struct slice_answer *a);
/* Forget what was made to be shown: parameters or arrays change. */
static inline void tw_slice_hide(struct slice *s)
{
	tw_block_drop(s->view.shown);
	tw_block_drop(s->view.wire);
	tw_block_drop(s->view.decoded);
	s->view.shown = s->view.wire = s->view.decoded = NULL;
}

/* --- slice_part.c --------------------------------------------------------------------------- */

/* The slice as a part of a checkpoint (node/checkpoint_part.h), in a new block; NULL without
 * memory. */
struct tw_block *tw_slice_pack(struct slice *s);
/* Could tw_slice_restore make this slice, which may be empty, what the part says?  `finite`: its
 * parameters and its state must be, too.  Nothing is changed; TW_BAD_BYTES: no. */
enum tw_status tw_slice_look(struct slice *s, const uint8_t *bytes, size_t len, bool finite);
/* Make a slice that tw_slice_init just made what the part says; the bytes may be hostile.  When it
 * fails, the slice may only be released. */
enum tw_status tw_slice_restore(struct slice *s, const uint8_t *bytes, size_t len);

/* --- slice_history.c ------------------------------------------------------------------------ */

struct contribution;

/* One contribution is applied: what it says of itself is added to the tally. */
void tw_slice_count(struct slice *s, const struct tw_account *a);
/* These contributions are applied: count and note each, and remember its positions.  TW_NO_MEMORY:
 * nothing was changed. */
enum tw_status tw_slice_record(struct slice *s, struct tw_context *ctx,
			       struct contribution *const *c, uint32_t count);

#endif
