/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - checkpoints: README.md says what they promise, and in which order messages go.
 * The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_CHECKPOINT_CHECKPOINT_H
#define TW_NODE_DUTY_CHECKPOINT_CHECKPOINT_H

#include "actor/cluster.h"

struct master;
struct tw_duty;
struct tw_master_part;
struct tw_plan;

/* Named by master.c, shard.c and worker.c alone. */
extern const struct tw_duty tw_checkpoint_master, tw_checkpoint_shard, tw_checkpoint_worker;

/* --- the master's side: making one ----------------------------------------------------------- */

/* The run has drained.  Is a checkpoint to be made before anything else? */
bool tw_checkpoint_master_wants(const struct master *m);
/* Begin one: of a run that has drained (PHASE_SNAP from then on), or while it goes on. */
void tw_checkpoint_master_begin(struct master *m, struct tw_context *ctx);
/* Is one under way? */
bool tw_checkpoint_master_is_making(const struct master *m);
/* PHASE_SNAP: save it if all parts are here. */
void tw_checkpoint_master_check(struct master *m, struct tw_context *ctx);
/* The store has answered, for a part or for the whole. */
void tw_checkpoint_master_saved(struct master *m, struct tw_context *ctx, uint64_t cut,
				enum tw_status status);
/* The one under way is let go; nothing of it is kept. */
void tw_checkpoint_master_abort(struct master *m);
/* The same, and one that was made at the end was not at the end. */
void tw_checkpoint_master_go_back(struct master *m);
/* What this worker was asked for and may not have heard, once more. */
void tw_checkpoint_master_ask_worker(struct master *m, struct tw_context *ctx, uint32_t slot);
/* Is a part of this member missing, as far as it has to give one? */
bool tw_checkpoint_master_owes(const struct master *m, uint32_t slot);
/* A number that changes when another part comes, or is with the store. */
uint64_t tw_checkpoint_master_progress(const struct master *m);

/* --- the master's side: what is in one -------------------------------------------------------- */

/* Parts of shards, as the store gave them; the parts are borrowed until they are closed. */
struct tw_checkpoint_source {
	struct tw_array *list; /* of a head, the floats are at NULL */
	size_t count;
	struct tw_block *part;
};

struct tw_checkpoint_sources {
	struct tw_checkpoint_source *at;
	size_t count;
};

/* Those of `parts` that are of shards.  TW_BAD_BYTES: one of them is malformed, or there is none;
 * TW_NO_MEMORY.  Always to be closed. */
enum tw_status tw_checkpoint_open(struct tw_heap *heap, const struct tw_part *parts, size_t count,
				  struct tw_checkpoint_sources *out);
void tw_checkpoint_close(struct tw_heap *heap, struct tw_checkpoint_sources *s);
/* The part of shard s, whatever the borders were when the parts were made; the floats of its range
 * are here.  `others`: they were made with another number of workers, and what belongs to single
 * workers is left out.  TW_BAD_BYTES: they do not have all of it; TW_NO_MEMORY. */
enum tw_status tw_checkpoint_assemble(struct tw_heap *heap, const struct tw_plan *plan,
				      const struct tw_checkpoint_sources *s, uint32_t shard,
				      bool others, struct tw_block **out);

/* What the run has done is what this checkpoint says, whose head is `head`; head NULL: the run
 * is at its beginning.  TW_BAD_BYTES, TW_NO_MEMORY. */
enum tw_status tw_checkpoint_master_restore(struct master *m, const struct tw_part *parts,
					    size_t count, const struct tw_master_part *head);
/* What a cell of a worker begins with; NULL: it begins blank. */
struct tw_block *tw_checkpoint_master_kept(const struct master *m, uint32_t slot, uint32_t cell);
/* Is this the part of a worker, or the last one of its cells?  Then *slot begins with it. */
bool tw_checkpoint_master_keep(struct master *m, const struct tw_part *part, uint32_t *slot);
/* All workers begin blank. */
void tw_checkpoint_master_forget_kept(struct master *m);

#endif
