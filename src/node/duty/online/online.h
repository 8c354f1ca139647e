/* SPDX-License-Identifier: Apache-2.0 */
/* online.h - online learning: a sample is predicted, scored, then learnt from; README.md says what
 * it promises.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_ONLINE_ONLINE_H
#define TW_NODE_DUTY_ONLINE_ONLINE_H

#include "actor/cluster.h"

struct master;
struct tw_duty;
struct worker;

/* Named by master.c alone. */
extern const struct tw_duty tw_online_master;

/* --- the master's side.  In a run that is not online these do nothing. ----------------------- */

/* These positions may have been learnt from, and come back: no later prediction of them counts. */
void tw_online_master_spoilt(struct master *m, struct tw_context *ctx, uint64_t from, uint64_t to);
void tw_online_master_totals(const struct master *m, struct tw_totals *t);

/* --- the worker's side ----------------------------------------------------------------------- */

/* A gradient on these samples has come, whose loss is that of their predictions. */
void tw_online_worker_predicted(struct worker *w, struct tw_context *ctx,
				const struct tw_compute *c);

#endif
