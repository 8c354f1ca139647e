/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_state.h - what a replica knows of the sum of a round, for the files of this folder. */
#ifndef TW_NODE_DUTY_REDUCE_REDUCE_STATE_H
#define TW_NODE_DUTY_REDUCE_REDUCE_STATE_H

#include "node/duty/round/round.h"
#include "node/shard/shard_sum.h"

struct reduce_shard {
	struct reducer *sum; /* NULL: the shard is not hosted */
};

/* --- reduce_sum.c --------------------------------------------------------------------------- */

/* The reducer of rounds; NULL: no memory. */
struct reducer *tw_reduce_new_sum(struct shard *s);
/* HAVE, if the sum is complete here. */
void tw_reduce_tell(const struct shard *s, struct tw_context *ctx);
/* The contribution of this node's worker to the round; NULL: it is not here yet. */
const struct contribution *tw_reduce_own(const struct shard *s);
/* What is said of a contribution when it is added up. */
struct reducer_input tw_reduce_input_of(const struct contribution *c);
/* The number of the newest formation counts for copies, too. */
void tw_reduce_formed(struct shard *s);

/* --- reduce_commit.c ------------------------------------------------------------------------ */

/* COMMIT: the sum is applied, or, where replicas mix, their mean and the own contribution. */
void tw_reduce_commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

#endif
