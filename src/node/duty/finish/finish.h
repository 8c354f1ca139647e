/* SPDX-License-Identifier: Apache-2.0 */
/* finish.h - the end of a run: README.md says what it promises, and in which order messages go.
 * The only header of this folder that others include. */
#ifndef TW_NODE_DUTY_FINISH_FINISH_H
#define TW_NODE_DUTY_FINISH_FINISH_H

#include "actor/cluster.h"

struct master;
struct tw_duty;

/* Named by master.c alone. */
extern const struct tw_duty tw_finish_master;

/* PHASE_COUNT, from its beginning on: fetch the final vectors and tallies, then score them. */
void tw_finish_master_count(struct master *m, struct tw_context *ctx);
/* The checkpoint to stop at is kept: what there is is counted, nothing is scored, and the run ends
 * as interrupted. */
void tw_finish_master_interrupted(struct master *m);
/* The run is over, with this status: tell workers and the world. */
void tw_finish_master_end(struct master *m, struct tw_context *ctx, enum tw_status status);
/* A number that changes when another vector comes, or is digested. */
uint64_t tw_finish_master_progress(const struct master *m);

#endif
