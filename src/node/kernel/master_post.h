/* SPDX-License-Identifier: Apache-2.0 */
/* master_post.h - messages of the master; NULL: see tw_msg_to. */
#ifndef TW_NODE_KERNEL_MASTER_POST_H
#define TW_NODE_KERNEL_MASTER_POST_H

#include "node/master/master_state.h"

/* To one of the cells of a worker. */
struct tw_msg *tw_master_to_cell(struct master *m, struct tw_context *ctx, uint32_t slot,
				 uint32_t cell, enum tw_type type);
/* To a worker, or to the first of its cells. */
struct tw_msg *tw_master_to_worker(struct master *m, struct tw_context *ctx, uint32_t slot,
				   enum tw_type type);
struct tw_msg *tw_master_to_shard(struct master *m, struct tw_context *ctx, uint32_t shard,
				  enum tw_type type);
/* To a shard of this member's replica. */
struct tw_msg *tw_replica_to_shard(struct master *m, struct tw_context *ctx, uint32_t slot,
				   uint32_t shard, enum tw_type type);
/* ASK: a shard is to tell its state; of replicas, all before a generation begins. */
bool tw_master_ask(struct master *m, struct tw_context *ctx, uint32_t shard, uint32_t flags);
/* Say to one shard whether this member has work. */
bool tw_deal_idle_to(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard,
		     uint32_t flags);

#endif
