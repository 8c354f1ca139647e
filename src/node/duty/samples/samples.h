/* SPDX-License-Identifier: Apache-2.0 */
/* samples.h - samples that come with the leases (data.placement: on-demand): README.md says what,
 * and in which order messages go.  The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_SAMPLES_SAMPLES_H
#define TW_NODE_DUTY_SAMPLES_SAMPLES_H

#include "actor/cluster.h"

struct held;
struct master;
struct tw_duty;
struct tw_totals;
struct worker;

/* Named by master.c and worker.c alone. */
extern const struct tw_duty tw_samples_master, tw_samples_worker;

/* What was sent, for the totals of a run. */
void tw_samples_master_count(const struct master *m, struct tw_totals *t);

/* Ask for what the leases will need, if it is not here or asked for. */
void tw_samples_worker_ahead(struct worker *w, struct tw_context *ctx);
/* Are the samples of the next step of this lease here?  Else they are asked for. */
bool tw_samples_worker_here(struct worker *w, struct tw_context *ctx, const struct held *lease);
/* They are, and stay where they are until the next step takes others. */
const uint8_t *tw_samples_worker_take(struct worker *w, uint64_t from, uint32_t count);
/* It is given this lease. */
void tw_samples_worker_leased(struct worker *w, const struct held *lease);
/* A new generation: what was asked for in the old one is not answered. */
void tw_samples_worker_reset(struct worker *w);
/* Ask again for what the master may not have heard. */
void tw_samples_worker_resend(struct worker *w, struct tw_context *ctx);
/* Does it wait for samples? */
bool tw_samples_worker_waits(const struct worker *w);

#endif
