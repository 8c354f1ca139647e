/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - which positions are dealt, open and done, who asks for more, and whether any are left.
 *
 * Whoever deals (dealer.h) keeps its books here.  The members' parts are struct holding and
 * enum appetite; what is the run's is struct dealing. */
#ifndef TW_NODE_KERNEL_LEDGER_H
#define TW_NODE_KERNEL_LEDGER_H

#include "node/kernel/dealer.h"
#include "node/master/master_state.h"

/* Samples of one push of a worker. */
uint32_t tw_deal_unit(const struct master *m);
/* Samples per step of this worker, by its rank among the live ones. */
uint32_t tw_deal_batch(const struct master *m, uint32_t slot);
/* Is nothing left to deal: all positions are taken, or the run is to end? */
bool tw_deal_exhausted(const struct master *m);
/* Of this many updates of a slice and contributions to it, the updates that count: where a replica
 * applies the contributions of its own worker only, and counts all, one of each worker is an update
 * of all replicas. */
double tw_master_updates(const struct master *m, double updates, double contributions);

/* --- who asks --------------------------------------------------------------------------------- */

void tw_deal_appetite(struct master *m, uint32_t slot, enum appetite to);
/* A worker asks for work. */
void tw_deal_asks(struct master *m, uint32_t slot);
/* Was it told that there is no work, and waits for some? */
static inline bool tw_deal_was_told(const struct member *e)
{
	return e->appetite == APPETITE_DRY || e->appetite == APPETITE_EARLY;
}

/* --- positions and leases --------------------------------------------------------------------- */

/* These positions are dealt; or they are to be dealt again. */
enum tw_status tw_deal_take(struct master *m, uint64_t from, uint64_t to);
enum tw_status tw_deal_give_back(struct master *m, uint64_t from, uint64_t to);
/* This member holds a lease.  False: there is no memory, and the run is given up. */
bool tw_deal_open(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		  uint64_t from, uint64_t to);
/* Its lease number k, or the one that begins at this position, is void; what is in it is not given
 * back. */
void tw_deal_close_lease(struct master *m, uint32_t slot, uint32_t k);
void tw_deal_close(struct master *m, uint32_t slot, uint64_t from);
/* LEASE to this member; an empty one says that there is nothing. */
void tw_deal_send(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t id,
		  uint64_t from, uint64_t to);
/* The same for the round after this one: it follows the lease `before` (0: none). */
void tw_deal_send_next(struct master *m, struct tw_context *ctx, uint32_t slot,
		       struct tw_range range, uint32_t before);
/* The world hears what was dealt, and how far the run is. */
void tw_deal_note(struct tw_context *ctx, uint32_t slot, uint64_t from, uint64_t to);
void tw_deal_note_progress(struct master *m, struct tw_context *ctx);
/* This member has work to do from now on. */
void tw_deal_busy(struct master *m, struct tw_context *ctx, struct member *e);
/* It has finished what it was asked for last, which has so many samples. */
void tw_deal_finished(struct master *m, struct tw_context *ctx, struct member *e, uint64_t samples);
/* Something of its first contribution is done: where nobody has finished anything, this shows how
 * long so many samples take, at most. */
void tw_deal_showed(struct master *m, const struct member *e, int64_t took, uint64_t samples);
/* Some member has something to do since `since`: it may be late from some time after it on. */
void tw_master_may_be_due(struct master *m, int64_t since);
/* Members may owe a part of a checkpoint that they did not owe before. */
static inline void tw_master_owes_part(struct master *m)
{
	if (m->phase == PHASE_SNAP)
		m->pace.earliest = 0;
}

#endif
