/* SPDX-License-Identifier: Apache-2.0 */
/* desk.h - where computations wait for somebody outside the library, and answers come back.
 *
 * A world with a desk (struct tw_cluster) runs no engine: it offers what its actors compute here.
 * Callers take tasks and answer them, on threads of their own; an answer calls the world back on
 * the thread that gave it.  Only gradients and evaluations of the whole model are offered.
 *
 *  (1) an errand is in one place at a time: in line, or with a caller.  Offered errands are
 *      answered once, or withdrawn while they are in line.
 *  (2) nothing is called with the desk's lock held.
 *  (3) what a task points to does not change and stays until it is answered.
 *  (4) an evaluation of more samples than `most` is several tasks, one after the other, before
 *      anything else that is in line. */
#ifndef TW_WORLD_DESK_H
#define TW_WORLD_DESK_H

#include "actor/actor.h"

struct tw_desk;

/* `engine` gives the sizes and the order of samples, and outlives the desk; `most`: samples of one
 * task at most, and no gradient is of more; numbers of tasks follow `first`.  NULL without
 * memory. */
struct tw_desk *tw_desk_new(struct tw_heap *heap, const struct tw_engine *engine, uint64_t most,
			    uint64_t first);
void tw_desk_free(struct tw_desk *d); /* nothing may be in line or with a caller; NULL is allowed */

/* --- for worlds --- */

struct tw_errand {
	struct tw_compute *c; /* score and gradient are written, status when it is answered */
	/* It is answered; the errand is its owner's again.  By the caller's thread. */
	void (*answered)(struct tw_errand *e);
	/* the desk's */
	struct tw_errand *next, *before;
	uint64_t scored; /* samples of an evaluation so far ... */
	struct tw_score sum;
	int64_t taken; /* CLOCK_MONOTONIC, ns; 0: not yet */
};

void tw_desk_offer(struct tw_desk *d, struct tw_errand *e);
/* True: nobody has begun it, and nobody will; it is not answered. */
bool tw_desk_withdraw(struct tw_desk *d, struct tw_errand *e);
/* Offer it and wait for the answer: its status, TW_CANCELLED once the desk is shut. */
enum tw_status tw_desk_run(struct tw_desk *d, struct tw_compute *c);

/* --- for callers --- */

struct tw_task {
	uint64_t id;
	bool score; /* test samples; else a step */
	const uint64_t *sample;
	uint64_t count, epoch;
	const float *parameters;
	float *vector; /* a step's: room for the answer */
	struct tw_about about;
};

enum tw_desk_got { TW_DESK_OVER, TW_DESK_TASK, TW_DESK_NOTHING, TW_DESK_NO_MEMORY };
/* Wait up to `ns`.  The parameters are copied to `into` (one pass), or where it is NULL and they
 * are in several pieces, to memory of the desk's. */
enum tw_desk_got tw_desk_take(struct tw_desk *d, int64_t ns, float *into, struct tw_task *out);

struct tw_desk_answer {
	enum tw_status status; /* not TW_OK: it could not be computed; the rest is not looked at */
	const float *vector;   /* copied; NULL: task.vector has it */
	/* Not NULL: has it, as long as the desk's vectors.  It is not copied: a reference is taken,
	 * and nobody may write there until that is dropped. */
	struct tw_block *lent;
	double loss, correct; /* mean loss; how many were right, < 0: unknown */
};
/* TW_CANCELLED: nobody wanted it any more.  TW_BAD_INPUT: no open task has this number. */
enum tw_status tw_desk_answer(struct tw_desk *d, uint64_t id, const struct tw_desk_answer *a);
/* The task with this number, if it is open: a step?  Its samples. */
bool tw_desk_knows(struct tw_desk *d, uint64_t id, bool *score, uint64_t *count);
/* How often parameters were put together or copied for a caller, and answers copied from one. */
void tw_desk_copied(struct tw_desk *d, uint64_t *parameters, uint64_t *vectors);
/* The run is over: takes end. */
void tw_desk_over(struct tw_desk *d);
/* Nobody is to take any more: takes end. */
void tw_desk_shut(struct tw_desk *d);
/* ... and nobody is inside any more: open tasks are answered with TW_CANCELLED. */
void tw_desk_void(struct tw_desk *d);

#endif
