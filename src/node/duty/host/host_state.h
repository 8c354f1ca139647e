/* SPDX-License-Identifier: Apache-2.0 */
/* host_state.h - what the master knows of shards and replicas that outlived another one, and what
 * the files of this folder do for one another. */
#ifndef TW_NODE_DUTY_HOST_HOST_STATE_H
#define TW_NODE_DUTY_HOST_HOST_STATE_H

#include "node/duty/host/host.h"
#include "node/master/master.h"

/* What replicas have that outlived a master (host_takeover.c). */
struct host_master {
	bool stated; /* somebody has told: shard_info has its books, host_cut its generation */
	bool over;   /* it is decided */
};

/* --- host_restore.c ------------------------------------------------------------------------- */

/* Choose a server for every shard that has none, and fetch the newest checkpoint. */
void tw_host_assign(struct master *m, struct tw_context *ctx);
/* HOST as it was assigned; not before its part was read. */
void tw_host_send(struct master *m, struct tw_context *ctx, uint32_t shard);
/* Parts of a large checkpoint may be read, if there is room for them. */
void tw_host_read_next(struct master *m, struct tw_context *ctx);

/* --- host_shards.c -------------------------------------------------------------------------- */

/* Nobody hosts the shards of this node any more; false: it had none. */
bool tw_host_drop(struct master *m, uint32_t node);

/* --- host_replicas.c: where each worker holds a replica of all shards; elsewhere nothing ------ */

/* Whoever is asked for is asked for again, as if it had not been. */
void tw_host_ask_no_more(struct master *m);
/* A shard of a replica was taken. */
void tw_host_replica_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);

/* --- host_lost.c ---------------------------------------------------------------------------- */

/* Its shard does not have the round that this generation begins with. */
void tw_host_behind(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);

/* --- host_takeover.c ------------------------------------------------------------------------ */

/* A shard tells.  True: its books are the newest so far, and are to be taken. */
bool tw_host_takeover_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* True: it is decided what the run goes on from, or there is nothing to decide. */
bool tw_host_takeover(struct master *m, struct tw_context *ctx);

#endif
