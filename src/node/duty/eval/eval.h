/* SPDX-License-Identifier: Apache-2.0 */
/* eval.h - evaluations at a pinned version: README.md says what they promise, and in which order
 * messages go.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_EVAL_EVAL_H
#define TW_NODE_DUTY_EVAL_EVAL_H

#include "actor/cluster.h"

struct holder;
struct master;
struct shard;
struct tw_duty;
struct worker;

/* Named by master.c, shard.c and worker.c alone. */
extern const struct tw_duty tw_eval_master, tw_eval_shard, tw_eval_worker;

/* --- the master's side ----------------------------------------------------------------------- */

/* Every shard has told its state; `adopted`: some of them outlived a master. */
void tw_eval_master_agreed(struct master *m, bool adopted);
/* A round was committed: evaluate it if another threshold is passed. */
void tw_eval_master_committed(struct master *m, struct tw_context *ctx);
/* More samples are out: tell shards which thresholds they may pass with these. */
void tw_eval_master_ahead(struct master *m, struct tw_context *ctx);
/* How many samples may be dealt beside those that are out, so that no threshold is passed that
 * shards do not know of; at least `unit` where nobody would work otherwise. */
uint64_t tw_eval_master_room(const struct master *m, uint64_t unit);
/* Must the next round wait, because an evaluation is due that cannot begin yet? */
bool tw_eval_master_holds(const struct master *m);
/* Deal chunks, if the views are here. */
void tw_eval_master_go(struct master *m, struct tw_context *ctx);
/* Views that are complete: replicas take their mean; or they are compared, or averaged, and workers
 * may score them. */
void tw_eval_master_average(struct master *m);
void tw_eval_master_viewed(struct master *m, struct tw_context *ctx);
/* All chunks are scored where the best evaluation is kept: it may be that.  False: not now. */
bool tw_eval_master_scored(struct master *m, struct tw_context *ctx);
/* Do shards take the views under way for the best?  No cut may begin, and the run may not end. */
bool tw_eval_master_keeps(const struct master *m);
/* Is there a best evaluation that waits until the cut under way has all its parts? */
bool tw_eval_master_awaits_cut(const struct master *m);
/* How many shards have shown what they keep. */
uint32_t tw_eval_master_shown(const struct master *m);
/* The views that are kept do not belong together: ask for others. */
void tw_eval_master_again(struct master *m, struct tw_context *ctx);
/* A replica became ready: it keeps the view that is awaited, too. */
void tw_eval_master_pin_again(struct master *m, struct tw_context *ctx, uint32_t slot);
/* Another replica speaks for all shards: its views are not known. */
void tw_eval_master_speaker(struct master *m);
void tw_eval_master_abort(struct master *m, struct tw_context *ctx);
/* Shards lose what they kept: the same, and what they were to deliver is not there any more. */
void tw_eval_master_views_gone(struct master *m, struct tw_context *ctx);
/* The last evaluation of the run begins; false: it was made before.  Then: is it made? */
bool tw_eval_master_final(struct master *m, struct tw_context *ctx);
bool tw_eval_master_is_final_made(const struct master *m);
/* PIN to a shard, and to its copies in all replicas. */
void tw_eval_master_send_pin(struct master *m, struct tw_context *ctx, uint32_t shard,
			     const struct tw_body_pin *what);
/* For a checkpoint: thresholds that have an evaluation. */
uint64_t tw_eval_master_evaluated(const struct master *m);
/* The views of this pin are the result of the run; 0: what shards have at the end is. */
uint64_t tw_eval_master_delivers(const struct master *m);
/* The last loss and accuracy, and when train.until was reached. */
void tw_eval_master_totals(const struct master *m, struct tw_totals *t);

/* Views are awaited; all are complete; replicas average them; workers score. */
bool tw_eval_master_awaits(const struct master *m);
bool tw_eval_master_is_complete(const struct master *m);
bool tw_eval_master_averages(const struct master *m);
bool tw_eval_master_scores(const struct master *m);
/* The number of the views under way, and of the chunks of them that are scored. */
uint64_t tw_eval_master_pin(const struct master *m);
uint32_t tw_eval_master_done(const struct master *m);
bool tw_eval_master_has_view(const struct master *m, uint32_t shard);
/* Does this member score a chunk; since when (INT64_MAX: it does not); its first test sample. */
bool tw_eval_master_has_chunk(const struct master *m, uint32_t slot);
int64_t tw_eval_master_since(const struct master *m, uint32_t slot);
uint64_t tw_eval_master_from(const struct master *m, uint32_t slot);
/* Samples of a chunk, about. */
double tw_eval_master_usual(const struct master *m);

/* --- the shard's side ------------------------------------------------------------------------ */

/* The parameters become the view of that pin, if it is kept; 0: they stay.  TW_NO_MEMORY. */
enum tw_status tw_eval_shard_deliver(struct shard *s, uint64_t pin);
/* No view is kept or waited for. */
void tw_eval_shard_forget(struct shard *s);
/* The view of that pin, or of the evaluation under way; NULL: it is not kept. */
struct tw_block *tw_eval_shard_view(const struct shard *s, uint64_t pin);
struct tw_block *tw_eval_shard_first_view(const struct shard *s);
/* The mean of all replicas' views takes the place of the first; takes a reference over. */
void tw_eval_shard_replace(struct shard *s, struct tw_block *mean);

/* --- the worker's side ----------------------------------------------------------------------- */

/* What a cell of a pipeline has computed for the next one; block NULL: nothing. */
struct tw_eval_passed {
	struct tw_body_eval what;
	struct tw_block *block;
	bool done; /* it is scored or passed on, in this event */
};

/* The cell before has computed its part: score what follows from it. */
void tw_eval_worker_want(struct worker *w, struct tw_context *ctx, const struct tw_body_eval *what);
/* It is asked as who it will be: that waits for the welcome. */
void tw_eval_worker_early(struct worker *w, const struct tw_msg *m);
/* A shard's answer with a pinned version. */
void tw_eval_worker_view(struct worker *w, struct tw_context *ctx, struct holder *h,
			 const struct tw_msg *m);
/* The computation is made.  The caller drops the block. */
struct tw_eval_passed tw_eval_worker_computed(struct worker *w, struct tw_context *ctx);
/* It computed the whole score, or is the last cell: tell the master. */
void tw_eval_worker_tell(struct worker *w, struct tw_context *ctx);
bool tw_eval_worker_is_busy(const struct worker *w);

#endif
