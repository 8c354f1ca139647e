/* SPDX-License-Identifier: Apache-2.0 */
/* master_roster.h - who is there, as the master knows. */
#ifndef TW_NODE_KERNEL_MASTER_ROSTER_H
#define TW_NODE_KERNEL_MASTER_ROSTER_H

#include "node/master/master_state.h"

/* Does every shard have it?  *lacks is the number of one that had not when it was last asked: it is
 * asked first, so that as many questions as there are shards cost two walks over them, and not one
 * each. */
bool tw_master_every_shard(const struct master *m, uint32_t *lacks,
			   bool (*has)(const struct master *m, uint32_t shard));
/* How many servers are here to stay; does this one (by number) leave? */
uint32_t tw_servers_staying(const struct master *m);
static inline bool tw_server_leaves(const struct master *m, uint32_t server)
{
	return m->server[server].state == SERVER_LEAVING;
}
/* How many are here at all? */
uint32_t tw_master_servers_live(const struct master *m);
/* Somebody outlived a master before us: there is more to lose than time. */
void tw_master_heard_survivor(struct master *m);
/* Are workers too few to train with? */
static inline bool tw_master_too_few(const struct master *m)
{
	return tw_master_live(m) < m->plan->crew.min || tw_master_live(m) == 0;
}
/* Is some shard kept as it was when it outlived a master? */
bool tw_master_adopted_any(const struct master *m);
/* Steps and samples that the shards have applied, by their last word: the mean over shards. */
void tw_master_applied(const struct master *m, uint64_t *steps, uint64_t *samples);

/* Who was removed from this slot, because it was stuck or has lied, is not let in again before it
 * was started again.  Is this node such a one? */
void tw_master_bar(struct master *m, uint32_t slot, uint32_t node, uint32_t boot);
bool tw_master_is_barred(const struct master *m, uint32_t node, uint32_t boot);

struct cell_info *tw_cell_at(const struct master *m, uint32_t slot, uint32_t cell);
/* The place that this node has; NULL: none.  And the slot of a place, and which cell it is. */
struct cell_info *tw_cell_on(const struct master *m, uint32_t node);
uint32_t tw_cell_slot(const struct master *m, const struct cell_info *c);
uint32_t tw_cell_number(const struct master *m, const struct cell_info *c);
/* The cell that is to hold this shard, if all cells of the worker are there; else NULL. */
const struct cell_info *tw_cell_of_shard(const struct master *m, uint32_t shard);
/* Is this the node of the live member in this slot, or of one of its cells? */
bool tw_master_is_of(const struct master *m, uint32_t node, uint32_t slot);
/* The slot of the member on this node; UINT32_MAX: none. */
uint32_t tw_master_slot_at(const struct master *m, uint32_t node);

/* It has none, or one that is not what it should be, and gets a copy. */
void tw_replica_is_none(struct master *m, uint32_t slot);
/* All replicas but the speaker's are to be copied from it. */
void tw_replicas_copy_all(struct master *m);
/* Is somebody's copy on its way? */
bool tw_replicas_asked(const struct master *m);
/* The node that speaks for all: that of a live member, the one with a replica first; 0: none. */
uint32_t tw_replicas_speaker(const struct master *m);
/* The first replica that is ready, if possible one that has the view of the best evaluation. */
uint32_t tw_replicas_next_speaker(const struct master *m);
/* A number for a formation or a copy that is greater than all before, across masters, too. */
uint32_t tw_replicas_new_attempt(struct master *m, const struct tw_context *ctx);
/* Is the replica of every live member ready? */
static inline bool tw_replicas_ready(const struct master *m)
{
	return !tw_master_has_replicas(m) || m->replicas.ready == tw_master_live(m);
}
/* The replica of this member has what the run goes on from. */
void tw_replica_is_ready(struct master *m, uint32_t slot);
/* The first replica that is ready, from this slot on; TW_NO_SLOT: none. */
uint32_t tw_replicas_next(const struct master *m, uint32_t slot);
/* Has this shard of a member's replica said so; have all of its shards? */
bool tw_replica_said(const struct master *m, uint32_t slot, uint32_t shard, enum replica_word word);
static inline bool tw_replica_said_all(const struct master *m, uint32_t slot,
				       enum replica_word word)
{
	return m->member[slot].replica.heard[word] == m->plan->problem.shards;
}
/* It says so; false: it has said so before, or is no member's. */
bool tw_replica_says(struct master *m, uint32_t node, uint32_t shard, enum replica_word word);
/* This replica, or every one, is asked for this word anew. */
void tw_replica_ask_anew(struct master *m, uint32_t slot, enum replica_word word);
void tw_replicas_ask_anew(struct master *m, enum replica_word word);
/* The first replica that is ready and has not said so; TW_NO_SLOT: all have. */
uint32_t tw_replicas_owes(const struct master *m, enum replica_word word);
/* Has every replica that is ready said it? */
static inline bool tw_replicas_all(const struct master *m, enum replica_word word)
{
	return !tw_master_has_replicas(m) || m->replicas.full[word] >= m->replicas.ready;
}

#endif
