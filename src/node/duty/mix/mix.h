/* SPDX-License-Identifier: Apache-2.0 */
/* mix.h - replicas that differ while they train.  README.md says what they tell each other. */
#ifndef TW_NODE_DUTY_MIX_MIX_H
#define TW_NODE_DUTY_MIX_MIX_H

#include "node/kernel/duty.h"

struct master;
struct reducer;
struct shard;

/* Named by master.c and shard.c alone. */
extern const struct tw_duty tw_mix_master, tw_mix_shard;

/* Has the master told with whom it acts together? */
bool tw_mix_is_formed(const struct shard *s);
/* COMMIT: is it of the mean of all parameters?  Then that is adopted. */
bool tw_mix_adopts(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* The parameters become the mean that was added up; TW_NO_MEMORY changes nothing. */
enum tw_status tw_mix_take_mean(struct shard *s, const struct reducer *r);
/* A round was applied: a formation may have waited for that. */
void tw_mix_round_over(struct shard *s, struct tw_context *ctx);
/* For which other replica does it wait?  False: for none. */
bool tw_mix_waits(const struct shard *s, struct tw_wait *out);

/* --- the master's side.  Where replicas do not differ these do nothing. ----------------------- */

/* Nobody has work: make replicas that differ equal.  True: they are. */
bool tw_mix_master_calm(struct master *m, struct tw_context *ctx);
/* Replicas are equal: the next generation begins, with copies for those who need them. */
void tw_mix_master_reform(struct master *m, struct tw_context *ctx);
/* Training begins: replicas hear of each other. */
void tw_mix_master_begin(struct master *m, struct tw_context *ctx);
/* All replicas are equal: the first one speaks, whoever joined first. */
void tw_mix_master_speaker(struct master *m);
/* A replica has gone. */
void tw_mix_master_lost(struct master *m, struct tw_context *ctx);
/* HAVE, of a formation that settles or takes a mean. */
void tw_mix_master_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* All views are pinned: take their mean. */
void tw_mix_master_view(struct master *m, struct tw_context *ctx);
/* What the shards of a replica were told and may have lost, once more. */
void tw_mix_master_resync(struct master *m, struct tw_context *ctx, uint32_t slot);
/* Whose replica is waited for, and for what?  False: nobody's. */
bool tw_mix_master_waits(const struct master *m, uint32_t *slot, const char **why);

#endif
