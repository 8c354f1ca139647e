/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - what is counted for people: README.md says what, and in which order messages go.  The
 * only header of this folder that others include. */
#ifndef TW_NODE_DUTY_FIGURES_FIGURES_H
#define TW_NODE_DUTY_FIGURES_FIGURES_H

#include "actor/cluster.h"

struct cell_info;
struct master;
struct tw_duty;
struct worker;

/* Named by master.c and worker.c alone. */
extern const struct tw_duty tw_figures_master, tw_figures_worker;

/* --- the master's side: cells ---------------------------------------------------------------- */

/* Ask all cells, before the run ends; has every one answered that was asked? */
void tw_figures_master_ask(struct master *m, struct tw_context *ctx);
bool tw_figures_master_complete(const struct master *m);
/* This cell once more, if it has not answered. */
void tw_figures_master_ask_cell(struct master *m, struct tw_context *ctx, struct cell_info *c);
/* Somebody else has this place: nothing is expected of it, and nothing known. */
void tw_figures_master_forget(struct master *m, const struct cell_info *c);
/* Which cell of this worker the others wait for, as they say: the first one waits for it, or for
 * one that waits for it; or it has the chunk of an evaluation. */
uint32_t tw_figures_master_culprit(const struct master *m, uint32_t slot);

/* --- the master's side: throughput without the tail ------------------------------------------ */

/* Every shard has told its state; something is dealt; a worker finds nothing left to deal. */
void tw_figures_steady_agreed(struct master *m);
void tw_figures_steady_dealt(struct master *m, struct tw_context *ctx);
void tw_figures_steady_dry(struct master *m, struct tw_context *ctx);
struct tw_steady tw_figures_steady(const struct master *m);

/* --- the worker's side: a cell of a pipeline ------------------------------------------------- */

/* What a cell holds: micro-batches in flight, versions of its parameters, bytes of all. */
struct tw_stage_held {
	uint32_t depth, versions;
	size_t bytes;
};
/* It begins a move (`forward`: when, NULL: it is none), and holds that; has made one forward that
 * began then, or one backward, which returns the time of it. */
void tw_figures_worker_begins(struct worker *w, struct tw_context *ctx, const int64_t *forward,
			      const struct tw_stage_held *held);
void tw_figures_worker_forwarded(struct worker *w, struct tw_context *ctx, int64_t began);
int64_t tw_figures_worker_backwarded(struct worker *w, struct tw_context *ctx, int64_t began);
/* It sent so many bytes of values; an update took so long. */
void tw_figures_worker_sent(struct worker *w, uint64_t bytes);
void tw_figures_worker_updated(struct worker *w, int64_t took);
/* It has passed on, or scored, a chunk of an evaluation. */
void tw_figures_worker_passed(struct worker *w, struct tw_context *ctx,
			      const struct tw_body_eval *what);

#endif
