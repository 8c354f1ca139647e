/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_state.h - what the master knows of checkpoints, for the files of this folder.  The
 * numbers in brackets are those of README.md. */
#ifndef TW_NODE_DUTY_CHECKPOINT_CHECKPOINT_STATE_H
#define TW_NODE_DUTY_CHECKPOINT_CHECKPOINT_STATE_H

#include "node/duty/checkpoint/checkpoint.h"
#include "node/master/master.h"

/* The one under way.  tw_checkpoint_master_abort resets it.
 *
 *  - the store has the parts of the first `written` shards, and writes that of the next one if
 *    `writing`; the first `asked_for` were asked.
 *  - `whole` is the number of live members all of whose parts are here. */
struct checkpoint_making {
	uint64_t number; /* 0: none */
	bool running;    /* collected while training continues */
	bool writing;    /* the store has not answered for the last part */
	uint32_t asked_for, written, whole;
	struct tw_block **shard;     /* parts, by shard ... */
	struct tw_block **cell;      /* ... and by slot and cell; NULL: workers keep nothing */
	struct tw_spans closed;      /* at the SNAP */
	struct passed passed;        /* the same: what of it was passed over */
	struct tw_master_part asked; /* the master's part, as it was then */
};

struct checkpoint_master {
	struct checkpoint_making now;
	uint64_t made;             /* by this master */
	uint64_t stored;           /* number of the last one that the store was to complete */
	uint64_t begun;            /* number of the last one of which the store got a part */
	bool final;                /* the one at the end is made, or being made */
	int64_t period;            /* between two, where checkpoint.every leaves no time to train */
	uint64_t closed_before;    /* positions closed in the drained one before */
	struct tw_block **restore; /* by slot and cell: what workers begin with; NULL as above */
};

/* The place of a cell in the lists of workers' parts. */
static inline size_t tw_checkpoint_place(const struct master *m, uint32_t slot, uint32_t cell)
{
	return (size_t)slot * tw_plan_cells(m->plan) + cell;
}

/* --- checkpoint_save.c ------------------------------------------------------------------------ */

/* How long after one the next is due. */
int64_t tw_checkpoint_save_period(const struct master *m);
/* PART, from a shard or a worker. */
void tw_checkpoint_save_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* What this shard was asked for and may not have heard, once more. */
void tw_checkpoint_save_ask_shard(struct master *m, struct tw_context *ctx, uint32_t shard);
/* This member is in; or it is out. */
void tw_checkpoint_save_joined(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_checkpoint_save_lost(struct master *m, uint32_t slot);

/* --- checkpoint_parts.c ----------------------------------------------------------------------- */

/* Ranges of positions from the array of this name.  TW_BAD_BYTES, TW_NO_MEMORY. */
enum tw_status tw_checkpoint_spans(const struct tw_array *list, size_t count, const char *name,
				   struct tw_spans *to);

#endif
