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
#include "node/duty/online/online.h"
#include "node/duty/round/round.h"
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

/* master_workers.c */
uint32_t tw_master_new_incarnation(struct master *m, struct tw_context *ctx);
/* Nobody is in.  TW_NO_MEMORY leaves what release gives back. */
enum tw_status tw_master_members_init(struct membership *all, struct tw_heap *heap, uint32_t slots);
void tw_master_member_release(struct member *e, struct tw_heap *heap);
void tw_master_members_release(struct membership *all, struct tw_heap *heap);
/* A worker that is whole becomes the member of this slot, on this node. */
void tw_master_take_in(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t node,
		       uint32_t boot);
/* WELCOME, once more to one cell. */
void tw_master_welcome_cell(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t cell);
void tw_master_refuse_node(struct tw_context *ctx, uint32_t node, uint32_t incarnation,
			   enum tw_refusal why);
/* Where the shards are, to one worker. */
void tw_master_places(struct master *m, struct tw_context *ctx, uint32_t slot, bool running);
/* Every member, and who of them has no work, to one shard. */
void tw_master_full_view(struct master *m, struct tw_context *ctx, uint32_t shard);
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
/* A member that has not worked yet gets its part of a cut, as somebody new. */
void tw_master_welcome_again(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_master_remove(struct master *m, struct tw_context *ctx, uint32_t slot,
		      enum tw_member_state state);

/* master_servers.c */
/* What a shard was told and may have lost, once more. */
void tw_master_resync_shard(struct master *m, struct tw_context *ctx, uint32_t shard);
/* This node is to let the shard go, if it has it in this incarnation or an earlier one. */
void tw_master_unhost(struct tw_context *ctx, uint32_t node, uint32_t shard, uint32_t incarnation);
void tw_master_lose_shards(struct master *m, struct tw_context *ctx, uint32_t node);
/* A server asks to leave. */
void tw_master_server_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Servers that leave and host nothing any more may go; the last one does not go alone. */
void tw_master_servers_go(struct master *m, struct tw_context *ctx);
void tw_master_server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);

/* master_shards.c */
/* PHASE_GATHER, until every shard is hosted and enough workers are here. */
void tw_master_gather(struct master *m, struct tw_context *ctx);
/* PHASE_AGREE, until every shard has confirmed. */
void tw_master_agreed(struct master *m, struct tw_context *ctx);

/* master_calm.c */
/* Nobody has work: make replicas that differ equal.  True: they are. */
bool tw_calm(struct master *m, struct tw_context *ctx);
/* Replicas are equal: the next generation begins, with copies for those who need them. */
void tw_calm_reform(struct master *m, struct tw_context *ctx);
/* Training begins: replicas hear of each other. */
void tw_calm_begin(struct master *m, struct tw_context *ctx);
/* All replicas are equal: the first one speaks, whoever joined first. */
void tw_calm_speaker(struct master *m);
/* A replica has gone. */
void tw_calm_lost(struct master *m, struct tw_context *ctx);
/* TW_HAVE, of a formation that settles or takes a mean. */
void tw_calm_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* All views are pinned: take their mean. */
void tw_calm_view(struct master *m, struct tw_context *ctx);
/* What the shards of a replica were told and may have lost, once more. */
void tw_calm_resync(struct master *m, struct tw_context *ctx, uint32_t slot);
/* Whose replica is waited for?  False: nobody's. */
bool tw_calm_waits(const struct master *m, uint32_t *slot);

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
/* Say to one shard whether this member has work. */
bool tw_deal_idle_to(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard,
		     uint32_t flags);
/* Nobody gets more work: whoever has none is not to be waited for. */
void tw_deal_no_more(struct master *m, struct tw_context *ctx);
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot);
bool tw_deal_adopt(struct master *m, struct tw_context *ctx, uint32_t slot,
		   const struct tw_range *list, size_t count);
/* A new generation: nobody holds anything; what was held is dealt again. */
void tw_deal_forget(struct master *m, struct tw_context *ctx);

/* master_verdicts.c: where the master judges contributions for all shards (tw_plan_judges);
 * elsewhere these do nothing */
enum tw_status tw_verdicts_init(struct master *m);
void tw_verdicts_release(struct master *m);
/* A new generation: nothing is known, nothing is collected. */
void tw_verdicts_reset(struct master *m);
/* All shards are here, maybe others than before: go on from what they have. */
void tw_verdicts_agree(struct master *m, struct tw_context *ctx);
/* The last set once more, for a shard that may not have heard of it; before any view. */
void tw_verdicts_to(struct master *m, struct tw_context *ctx, uint32_t shard);
/* Shards hear of members when they agree: before that they may have to complete the last set. */
static inline bool tw_verdicts_come_first(const struct master *m)
{
	return m->phase == PHASE_GATHER && tw_plan_judges(m->plan);
}
/* TW_HAVE: a shard has a contribution, or has carried out a set. */
void tw_verdicts_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* This member has come, gone, become idle or has work again. */
void tw_verdicts_active(struct master *m, uint32_t slot);
/* Judge what is due. */
void tw_verdicts_give(struct master *m, struct tw_context *ctx);

/* master_replicas.c: where each worker holds a replica of all shards; elsewhere these do nothing */
enum tw_status tw_replicas_init(struct master *m);
void tw_replicas_release(struct master *m);
/* The node that speaks for all: that of a live member, the one with a replica first; 0: none. */
uint32_t tw_replicas_speaker(const struct master *m);
/* The first replica that is ready, if possible one that has the view of the best evaluation. */
uint32_t tw_replicas_next_speaker(const struct master *m);
/* All replicas but the speaker's are to be copied from it. */
void tw_replicas_copy_all(struct master *m);
/* Ask for the replicas that are not there.  True: all are ready. */
bool tw_replicas_bring(struct master *m, struct tw_context *ctx);
/* TIMER_COPY: some may have been lost on the way. */
void tw_replicas_bring_again(struct master *m);
/* Is somebody's copy on its way? */
bool tw_replicas_asked(const struct master *m);
/* A shard of a replica was taken. */
void tw_replica_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A member is not live any more; its leases and its stripe are not given back yet. */
void tw_replica_lost(struct master *m, struct tw_context *ctx, uint32_t slot);
/* Its shard does not have the round that this generation begins with. */
void tw_replica_behind(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* What the shards of a replica were told and may have lost, once more. */
void tw_replica_resync(struct master *m, struct tw_context *ctx, uint32_t slot);
/* Who is in, to the shards of one replica: its own worker. */
void tw_replica_view(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard);
/* All views are kept: replicas that differ from the speaker's are not what they should be. */
void tw_replicas_compare(struct master *m, struct tw_context *ctx);

/* master_restore.c */
/* Choose a server for every shard that has none, and fetch the newest cut. */
void tw_cut_assign(struct master *m, struct tw_context *ctx);
/* HOST for this node, without what it is taken from. */
struct tw_msg *tw_cut_host_message(struct master *m, struct tw_context *ctx, uint32_t shard,
				   uint32_t node);
/* HOST as it was assigned; not before its part was read. */
void tw_cut_host(struct master *m, struct tw_context *ctx, uint32_t shard);
/* Parts of a large cut may be read, if there is room for them. */
void tw_cut_read_next(struct master *m, struct tw_context *ctx);
/* Ask for the newest cut. */
void tw_cut_load(struct master *m, struct tw_context *ctx);
void tw_cut_loaded(struct master *m, struct tw_context *ctx, uint64_t cut,
		   const struct tw_part *parts, size_t count, enum tw_status status);

/* --- master_takeover.c ---------------------------------------------------------------------- */

/* A worker is back that knew an earlier master: what do its shards have? */
void tw_takeover_joined(struct master *m, struct tw_context *ctx, uint32_t slot);
/* A shard tells.  True: its books are the newest so far, and are to be taken. */
bool tw_takeover_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* True: it is decided what the run goes on from, or there is nothing to decide. */
bool tw_takeover(struct master *m, struct tw_context *ctx);

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
/* The worker is no member any more: its cells begin anew. */
void tw_cells_lost(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_cells_down(struct master *m, struct tw_context *ctx, uint32_t node);
/* Where cells hold shards: this node is there with this boot (0: it is gone).  Shards that it had
 * before are lost; those that it has are told again what they may have missed. */
void tw_cells_hold(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot);
/* The cell that is to hold this shard, if all cells of the worker are there; else NULL. */
const struct cell_info *tw_cell_of_shard(const struct master *m, uint32_t shard);
/* Is a shard elsewhere than the cell that computes its stage? */
bool tw_cells_misplaced(const struct master *m);
void tw_cells_up(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot);

#endif
