/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h - a batch method drives the run: README.md says what it promises, and in which order
 * messages go.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_BATCH_BATCH_H
#define TW_NODE_DUTY_BATCH_BATCH_H

#include "actor/cluster.h"

struct master;
struct tw_duty;

/* Named by master.c, shard.c and worker.c alone.  They hold the seats of dealer, taker and leasing
 * (kernel/dealer.h, taker.h, leasing.h). */
extern const struct tw_duty tw_batch_master, tw_batch_shard, tw_batch_worker;

/* --- the master's side.  In a run without a batch method these do nothing. ------------------- */

/* What it has done, and how many updates these are. */
void tw_batch_master_totals(const struct master *m, struct tw_totals *t);

#endif
