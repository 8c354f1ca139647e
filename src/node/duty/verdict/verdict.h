/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - gates that drop what is late, with several shards: the master judges each
 * contribution once, for all of them.  README.md says what this promises, and in which order
 * messages go.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_VERDICT_VERDICT_H
#define TW_NODE_DUTY_VERDICT_VERDICT_H

#include "actor/cluster.h"

struct master;
struct shard;
struct tw_duty;

/* Named by master.c and shard.c alone. The shard's holds the seat of the taker (kernel/taker.h). */
extern const struct tw_duty tw_verdict_master, tw_verdict_shard;

/* --- the master's side.  Where it does not judge (tw_plan_judges) these do nothing. ----------- */

/* A new generation: nothing is known, nothing is collected. */
void tw_verdict_master_reset(struct master *m);
/* All shards are here, maybe others than before: go on from what they have. */
void tw_verdict_master_agree(struct master *m, struct tw_context *ctx);
/* The last set once more, for a shard that may not have heard of it; before any view. */
void tw_verdict_master_to(struct master *m, struct tw_context *ctx, uint32_t shard);
/* Shards hear of members when they agree: before that they may have to complete the last set. */
bool tw_verdict_master_comes_first(const struct master *m);
/* This member has come, gone, become idle or has work again. */
void tw_verdict_master_active(struct master *m, uint32_t slot);
/* Judge what is due. */
void tw_verdict_master_give(struct master *m, struct tw_context *ctx);
/* A number that changes when something was judged, or a set was sent. */
uint64_t tw_verdict_master_progress(const struct master *m);

/* --- a shard's side --------------------------------------------------------------------------- */

/* The master has asked what it has: all that waits is told again. */
void tw_verdict_shard_tell_again(struct shard *s, struct tw_context *ctx);

#endif
