/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h - replicas add up the contributions of a round.  README.md says how. */
#ifndef TW_NODE_DUTY_REDUCE_REDUCE_H
#define TW_NODE_DUTY_REDUCE_REDUCE_H

#include "node/kernel/duty.h"

struct shard;

extern const struct tw_duty tw_reduce_shard;

/* A sum that the world was asked for is made (tw_actor_class.summed). */
void tw_reduce_summed(struct shard *s, struct tw_context *ctx, uint64_t key, struct tw_block *sum,
		      struct tw_block *more);

#endif
