/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - a worker whose model is cut: a cell computes one stage, and makes the moves of its
 * schedule.  README.md says what this promises, and in which order messages go.  The only header of
 * this folder that others include. */
#ifndef TW_NODE_DUTY_STAGE_STAGE_H
#define TW_NODE_DUTY_STAGE_STAGE_H

#include "node/kernel/driver.h"
#include "node/kernel/early.h"

struct tw_duty;
struct worker;

/* Named by worker.c alone.  The driver holds that seat (kernel/driver.h). */
extern const struct tw_duty tw_stage_worker;
extern const struct tw_driver tw_stage_driver;

/* A cell that wishes for this place, which is most likely the one that it gets.  Of a worker that
 * computes the whole model these do nothing. */
enum tw_status tw_stage_wish(struct worker *w, uint32_t place);
void tw_stage_close(struct worker *w);
/* WELCOME: it becomes that cell of its worker, with all parts that depend on it.  False: it cannot
 * yet, and asks again when what it computes is done. */
bool tw_stage_welcomed(struct worker *w, struct tw_context *ctx, uint32_t cell);

/* The cell of this worker on this node; UINT32_MAX: none, or this one. */
uint32_t tw_stage_cell_at(const struct worker *w, uint32_t node);
/* The connection to this cell was made anew. */
void tw_stage_reconnected(struct worker *w, struct tw_context *ctx, uint32_t cell, uint32_t boot);
/* ACT, GRAD, CLOSED, HEARD: the door, what comes too early for it, and what comes of those that it
 * lets in. */
enum tw_door tw_stage_door(const struct worker *w, const struct tw_msg *m);
void tw_stage_early(struct worker *w, const struct tw_msg *m);
void tw_stage_hears(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
/* TW_TIMER_HEARD: tell cells what has come from them, if nothing else did. */
void tw_stage_idle(struct worker *w, struct tw_context *ctx);

#endif
