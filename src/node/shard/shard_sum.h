/* SPDX-License-Identifier: Apache-2.0 */
/* shard_sum.h - what the sums of a shard have in common, whatever they are of: how its reducers are
 * opened, and what they ask.  Their client (reducer_client.who) is the shard. */
#ifndef TW_NODE_SHARD_SHARD_SUM_H
#define TW_NODE_SHARD_SHARD_SUM_H

#include "node/reducer/reducer.h"
#include "node/shard/shard.h"

/* A reducer of vectors as long as the slice, which is there; NULL: no memory. */
struct reducer *tw_shard_sum_new(struct shard *s, const struct reducer_client *by,
				 const struct tw_reduction *reduction, uint32_t attempt);
/* Functions of struct reducer_client. */
struct tw_msg *tw_shard_sum_message(const void *who, struct tw_context *ctx, uint32_t node);
bool tw_shard_sum_plausible(const void *who, const struct tw_body_reduce *b);
void tw_shard_sum_failed(void *who, struct tw_context *ctx, enum tw_status st);
/* What this shard adds to a sum of parameters: a version, or a view.  False: NULL, it is not here.
 */
bool tw_shard_sum_of_parameters(struct tw_block *b, bool unchecked, struct reducer_input *out);
/* HAVE: the sum is complete here, and this is said of it. */
void tw_shard_sum_tell(const struct shard *s, struct tw_context *ctx, const struct reducer *r,
		       const struct tw_body_reduce *has, uint32_t flags);

#endif
