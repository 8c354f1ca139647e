/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - the seat of the one who drives a worker: what it computes next.
 *
 * There is one holder per plan, chosen when the worker opens: step after step of the whole model
 * (worker_answer.c), or the moves of a stage's schedule (duty/stage).  NULL: nothing is to be
 * done. */
#ifndef TW_NODE_KERNEL_DRIVER_H
#define TW_NODE_KERNEL_DRIVER_H

#include "actor/cluster.h"

struct tw_eval_passed;
struct worker;

/* Layers of an evaluation. */
struct tw_eval_part {
	uint32_t first, last;
	size_t scratch;
	struct tw_block *in; /* what another cell has computed; NULL: the samples themselves */
	bool passes_on;      /* so many floats, to another cell */
	size_t floats;
};

struct tw_driver {
	const char *name;
	/* A member goes on with whatever can go on. */
	void (*advance)(struct worker *w, struct tw_context *ctx);
	/* A computation of training is made; then, whatever was computed: what was put off may be
	 * done. */
	void (*computed)(struct worker *w, struct tw_context *ctx);
	void (*rested)(struct worker *w, struct tw_context *ctx);
	/* Of so many test samples, what it computes.  NULL: the whole model. */
	void (*tests)(const struct worker *w, uint32_t count, struct tw_eval_part *out);
	/* A range of test samples is computed; what is passed on stays the caller's. */
	void (*passed)(struct worker *w, struct tw_context *ctx, const struct tw_eval_passed *what);
	/* All shards have answered. */
	void (*fetched)(struct worker *w, struct tw_context *ctx);
	/* WELCOME: it is somebody else from now on; then, when all else has been reset. */
	void (*welcomed)(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
	void (*renewed)(struct worker *w);
	/* A generation begins: nothing of the one before is left. */
	void (*reset)(struct worker *w);
	/* For whom it waits; false: for nobody that it knows of. */
	bool (*waits)(const struct worker *w, struct tw_wait *out);
	/* Contributions that are closed, and that were begun, by the same count. */
	uint64_t (*closed)(const struct worker *w);
	uint64_t (*begun)(const struct worker *w);
	/* Who pushes the contribution of this worker to a shard, as PUSH says it. */
	uint32_t (*pushers)(const struct worker *w);
};

#endif
