/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - what the files of the master do for one another; its state is in master_state.h.
 *
 * All of them are entered by the master's handlers alone, do not wait, and act through ctx. */
#ifndef TW_NODE_MASTER_MASTER_H
#define TW_NODE_MASTER_MASTER_H

#include "node/duty/batch/batch.h"
#include "node/duty/checkpoint/checkpoint.h"
#include "node/duty/deal/deal.h"
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/duty/finish/finish.h"
#include "node/duty/host/host.h"
#include "node/duty/mix/mix.h"
#include "node/duty/online/online.h"
#include "node/duty/round/round.h"
#include "node/duty/verdict/verdict.h"
#include "node/duty/watch/watch.h"
#include "node/kernel/ledger.h"
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"
#include "node/kernel/phase.h"
#include "node/master/master_state.h"

/* master_phases.c */
void tw_master_drive(struct master *m, struct tw_context *ctx);

/* master_generation.c */
uint64_t tw_master_new_generation(struct master *m, struct tw_context *ctx);

/* master_words.c: what is said to workers, ... */
uint32_t tw_master_new_incarnation(struct master *m, struct tw_context *ctx);
/* WELCOME, and once more to one cell. */
void tw_master_welcome(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_master_welcome_cell(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t cell);
/* A member that has not worked yet gets its part of a cut, as somebody new. */
void tw_master_welcome_again(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_master_refuse_node(struct tw_context *ctx, uint32_t node, uint32_t incarnation,
			   enum tw_refusal why);
/* Where the shards are, to one worker. */
void tw_master_places(struct master *m, struct tw_context *ctx, uint32_t slot, bool running);
/* ... to shards, ... */
/* A worker as a shard knows it: the cells that speak to the shard, the lanes of its stage in order.
 * Returns how many. */
uint32_t tw_master_name_senders(const struct master *m, const struct tw_member *who, uint32_t shard,
				struct tw_member *out);
/* Every member, and who of them has no work, to one shard; who is in, to a replica's: its own
 * worker. */
void tw_master_full_view(struct master *m, struct tw_context *ctx, uint32_t shard);
void tw_replica_view(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard);
/* ... and to servers: this node is to let the shard go, if it has it in this incarnation or an
 * earlier one; or is to take it:  HOST, without what it is taken from. */
void tw_master_unhost(struct tw_context *ctx, uint32_t node, uint32_t shard, uint32_t incarnation);
struct tw_msg *tw_master_host_message(struct master *m, struct tw_context *ctx, uint32_t shard,
				      uint32_t node);

/* master_workers.c */
/* Nobody is in.  TW_NO_MEMORY leaves what release gives back. */
enum tw_status tw_master_members_init(struct membership *all, struct tw_heap *heap, uint32_t slots);
void tw_master_member_release(struct member *e, struct tw_heap *heap);
void tw_master_members_release(struct membership *all, struct tw_heap *heap);
/* A worker that is whole becomes the member of this slot, on this node. */
void tw_master_take_in(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t node,
		       uint32_t boot);
/* Is it from a worker that is a member now?  One that is not is told so. */
bool tw_master_from_member(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A worker that knows nothing. */
void tw_master_admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A worker that outlived an earlier master, or whose connection was made anew. */
void tw_master_rejoin(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_reconnected(struct master *m, struct tw_context *ctx, uint32_t slot);
/* A worker goes: cleanly, to start over, or before it knew that it was in. */
void tw_master_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A member is removed; its cell on this node, or it itself, is told why. */
void tw_master_expel(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t node,
		     enum tw_refusal why);
/* A shard says of a worker that its contributions are not finite, again and again. */
void tw_master_let_go(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_remove(struct master *m, struct tw_context *ctx, uint32_t slot,
		      enum tw_member_state state);

/* --- master_cells.c ------------------------------------------------------------------------- */

enum tw_status tw_cells_init(struct master *m);
void tw_cells_release(struct master *m);
/* A place that is vacant, of the worker that misses fewest: its slot, and whom to wait for. */
void tw_cells_missing(const struct master *m, uint32_t *slot, struct tw_addr *whom);
/* The cells of this member, to the world. */
void tw_cells_name(struct master *m, struct tw_context *ctx, const struct tw_member *who);
/* A cell asks to join. */
void tw_cells_admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A cell says of another one of its worker that it says what cannot be. */
void tw_cells_accused(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A place is taken, or is vacant again; or that of this node, which is no member's. */
void tw_cells_put(struct master *m, struct tw_context *ctx, struct cell_info *c, bool here);
void tw_cells_vacate(struct master *m, struct tw_context *ctx, uint32_t node);
/* The worker is no member any more: its cells begin anew. */
void tw_cells_lost(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_cells_down(struct master *m, struct tw_context *ctx, uint32_t node);
/* Where cells hold shards: this node is there with this boot (0: it is gone).  Shards that it had
 * before are lost; those that it has are told again what they may have missed. */
void tw_cells_hold(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot);
/* Is a shard elsewhere than the cell that computes its stage? */
bool tw_cells_misplaced(const struct master *m);
void tw_cells_up(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot);

#endif
