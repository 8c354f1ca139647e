/* SPDX-License-Identifier: Apache-2.0 */
/* host.h - where shards are, and from which one state all go on. README.md says what this promises,
 * and in which order messages go. The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_HOST_HOST_H
#define TW_NODE_DUTY_HOST_HOST_H

#include "actor/cluster.h"

struct master;
struct shard;
struct tw_duty;
struct tw_part;

/* Named by master.c and shard.c alone. */
extern const struct tw_duty tw_host_master, tw_host_shard;

/* --- places --------------------------------------------------------------------------------- */

/* Ask for the newest checkpoint; it is here. */
void tw_host_load(struct master *m, struct tw_context *ctx);
void tw_host_loaded(struct master *m, struct tw_context *ctx, uint64_t cut,
		    const struct tw_part *parts, size_t count, enum tw_status status);
/* What a shard was told and may have lost, once more. */
void tw_host_resync(struct master *m, struct tw_context *ctx, uint32_t shard);
/* This node is gone, and the shards that it had. */
void tw_host_lose(struct master *m, struct tw_context *ctx, uint32_t node);
/* A server is there; or asks to leave. */
void tw_host_server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_host_server_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Servers that leave and host nothing any more may go; the last one does not go alone. */
void tw_host_servers_go(struct master *m, struct tw_context *ctx);
/* STATE, and HOSTED. */
void tw_host_shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_host_shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);

/* --- agreement ------------------------------------------------------------------------------ */

/* PHASE_GATHER, until every shard is hosted and enough workers are here. */
void tw_host_gather(struct master *m, struct tw_context *ctx);
/* PHASE_AGREE, until every shard has confirmed. */
void tw_host_agreed(struct master *m, struct tw_context *ctx);
/* A worker is back that knew an earlier master: what do its shards have? */
void tw_host_came_back(struct master *m, struct tw_context *ctx, uint32_t slot);

/* --- replicas; where there are none these do nothing ------------------------------------------ */

/* Ask for the replicas that are not there.  True: all are ready. */
bool tw_host_bring(struct master *m, struct tw_context *ctx);
/* TIMER_COPY: some may have been lost on the way. */
void tw_host_bring_again(struct master *m);
/* A member is not live any more; its leases and its stripe are not given back yet. */
void tw_host_lost(struct master *m, struct tw_context *ctx, uint32_t slot);
/* What the shards of a replica were told and may have lost, once more. */
void tw_host_resync_replica(struct master *m, struct tw_context *ctx, uint32_t slot);
/* All views are kept: replicas that differ from the speaker's are not what they should be. */
void tw_host_compare(struct master *m, struct tw_context *ctx);

/* --- a shard's side --------------------------------------------------------------------------- */

/* HOST: take the range, or let it go. */
void tw_host_shard_host(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* Give back all memory but the shard itself; only its generation and its term stay known. */
void tw_host_shard_let_go(struct shard *s);
/* STATE: what is applied, or will be; `asked` is the number of the master's question, or 0. */
void tw_host_shard_tell(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags);
/* GIVE: send a copy to another node.  COPY: become one. */
void tw_host_shard_give(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
void tw_host_shard_copy(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* After a COMMIT: give copies that waited for it. */
void tw_host_shard_give_late(struct shard *s, struct tw_context *ctx);

#endif
