/* SPDX-License-Identifier: Apache-2.0 */
/* round.h - rounds: contributions are staged on all shards, and committed as one set.  README.md
 * says what this promises, and in which order messages go.  The only header of this folder that
 * others include. */
#ifndef TW_NODE_DUTY_ROUND_ROUND_H
#define TW_NODE_DUTY_ROUND_ROUND_H

#include "actor/cluster.h"

struct contribution;
struct master;
struct shard;
struct tw_duty;

/* Named by master.c and shard.c alone.  They hold the seats of the dealer and, unless replicas add
 * up rounds, of the taker (kernel/dealer.h, taker.h). */
extern const struct tw_duty tw_round_master, tw_round_shard;

/* --- the master's side.  In a run without rounds these do nothing. ---------------------------- */

/* Is some worker late for a round that is over, and has not come home? */
bool tw_round_master_is_late(const struct master *m);
/* The last COMMIT, for a shard that may not have heard of it; not after its state was asked. */
void tw_round_master_commit_to(struct master *m, struct tw_context *ctx, uint32_t shard);
/* Shards outlived a master: the last COMMIT may have reached some of them only.  All are told what
 * is in it. */
void tw_round_master_complete(struct master *m, struct tw_context *ctx);

/* Of replicas: who adds up the round which is open, and since when?  False: nobody does now. */
bool tw_round_master_forms(const struct master *m, uint32_t *attempt, int64_t *since);
/* The member of this slot goes, with its replica.  What the replica has said still counts. */
void tw_round_master_lost(struct master *m, uint32_t slot);
/* FORM once more, for a replica that may not have heard of it. */
void tw_round_master_form_to(struct master *m, struct tw_context *ctx, uint32_t slot,
			     uint32_t shard);

/* --- a shard's side, for those who add up what is staged (duty/reduce).  Only with rounds. ---- */

/* What a taker does whose contributions wait for their round: see kernel/taker.h. */
bool tw_round_is_late_push(struct shard *s, struct tw_context *ctx, uint32_t slot,
			   const struct tw_msg *m);
enum tw_status tw_round_take(struct shard *s, struct tw_context *ctx, struct contribution *c,
			     const struct tw_msg *m);
void tw_round_reject(struct shard *s, struct tw_context *ctx, uint32_t slot,
		     const struct tw_msg *m);
/* What this worker has staged; NULL: nothing. */
const struct contribution *tw_round_staged(const struct shard *s, uint32_t slot);
/* Is it finite?  TW_BAD_BYTES: no.  It is looked at once. */
enum tw_status tw_round_check_staged(const struct shard *s, struct contribution *c);
/* What is staged for this worker is not finite: it is refused, though it was taken. */
void tw_round_refuse_staged(struct shard *s, struct tw_context *ctx, uint32_t slot);
/* What the worker has staged, which is closed now; NULL: nothing. */
struct contribution *tw_round_unstaged(struct shard *s, uint32_t slot, bool applied);
/* The round is applied, with this number of contributions: the next one begins. */
void tw_round_over(struct shard *s, struct tw_context *ctx, uint32_t count);

#endif
