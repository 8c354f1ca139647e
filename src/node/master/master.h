/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - what the files of the master do for one another; its state is in master_state.h.
 *
 * All of them are entered by the master's handlers alone, do not wait, and act through ctx. */
#ifndef TW_NODE_MASTER_MASTER_H
#define TW_NODE_MASTER_MASTER_H

#include "node/duty/batch/batch.h"
#include "node/duty/checkpoint/checkpoint.h"
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

/* master_deal.c */
extern const struct tw_dealer tw_dealer_stream;
/* Nothing is dealt.  TW_NO_MEMORY leaves what release gives back, here and below. */
enum tw_status tw_deal_init(struct master *m);
void tw_deal_release(struct master *m);
/* master_next.c */
/* How many workers may work now: in a warm start not all of them. */
uint32_t tw_deal_allowed(const struct master *m);
/* Is this a warm start, in which it is not this worker's turn yet? */
bool tw_deal_too_early(const struct master *m, uint32_t slot);
/* The next free range for this worker below `end`, at most `most` long, inside one epoch. */
bool tw_deal_next_range(struct master *m, uint32_t slot, uint64_t end, uint64_t most,
			struct tw_span *out);

/* master_speeds.c */
enum tw_status tw_speeds_init(struct master *m);
/* A member computed so many samples in so many nanoseconds. */
void tw_speed_told(struct master *m, uint32_t slot, uint64_t samples, uint64_t busy);
/* The member is in, or out; one who is out has no speed that counts. */
void tw_speed_seat(struct master *m, uint32_t slot, bool in);
/* Who comes next in this slot is somebody else. */
void tw_speed_forget(struct master *m, uint32_t slot);
/* The most pushes that a lease of this member should last: its speed, and with it the next period,
 * is heard of when it is done. */
uint64_t tw_speed_units(const struct master *m, uint32_t slot);
/* Steps between two pushes of this member. */
uint32_t tw_speed_period(const struct master *m, uint32_t slot);
/* ... which it is told now; 0: as the plan says. */
uint32_t tw_speed_tell(struct master *m, uint32_t slot);
/* The least and the most that anybody was told; 0: nobody was. */
void tw_speed_range(const struct master *m, uint32_t *least, uint32_t *most);
/* For a cut: an array of the plan's slots, the caller's to put back; NULL without memory. */
struct speed *tw_speeds_list(const struct master *m);
/* From such an array of `bytes`; one of other workers is not used. */
void tw_speeds_restore(struct master *m, const void *list, size_t bytes);
/* master_subsets.c: with data.deal, else these do nothing */
enum tw_status tw_orphans_init(struct master *m);
void tw_orphans_release(struct master *m);
/* This slot has a worker now, or has none any more. */
void tw_orphans_seat(struct master *m, uint32_t slot, bool live);
/* These positions are not taken any more; or all may have changed. */
void tw_orphans_came_back(struct master *m, uint64_t from, uint64_t to);
void tw_orphans_restart(struct master *m);
/* Only with data.deal: the next free range below `end` for this worker, in one cell. */
bool tw_orphans_next_range(struct master *m, uint32_t slot, uint64_t end, uint64_t most,
			   struct tw_span *out);
/* May a worker that was told that there is nothing for it get something now? */
bool tw_orphans_may_help(struct master *m);
/* data.placement own: what is next and nobody here can compute is passed over. */
void tw_orphans_pass(struct master *m, struct tw_context *ctx);
/* ... and a round ends where the first epoch does of which samples are left; else at `end`. */
uint64_t tw_orphans_end(const struct master *m, uint64_t end);
/* For a cut: how much was passed over. */
#define TW_PASSED_PART "passed"
struct tw_array tw_orphans_pack(const struct master *m, const struct passed *passed);
void tw_orphans_restore(struct master *m, const struct tw_array *a);

/* master_leases.c */
/* Say to the shards of a gate that holds that this worker has nothing to do, or has again. */
void tw_deal_tell_idle(struct master *m, struct tw_context *ctx, uint32_t slot, bool idle);
/* Everything this worker holds goes back and is dealt again; it asks for nothing. */
void tw_deal_return(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_deal_done(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Nobody gets more work: whoever has none is not to be waited for. */
void tw_deal_no_more(struct master *m, struct tw_context *ctx);
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot);
bool tw_deal_adopt(struct master *m, struct tw_context *ctx, uint32_t slot,
		   const struct tw_range *list, size_t count);
/* A new generation: nobody holds anything; what was held is dealt again. */
void tw_deal_forget(struct master *m, struct tw_context *ctx);

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
