/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h - which positions are dealt, and whether any are left. */
#ifndef TW_NODE_KERNEL_LEDGER_H
#define TW_NODE_KERNEL_LEDGER_H

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
/* Some member has something to do since `since`: it may have to be looked at (6 in
 * master_stuck.c). */
void tw_master_may_be_due(struct master *m, int64_t since);

#endif
