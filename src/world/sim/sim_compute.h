/* SPDX-License-Identifier: Apache-2.0 */
/* sim_compute.h - computations of the simulator: what they cost in virtual time, and the pool of
 * threads that really runs them. */
#ifndef TW_WORLD_SIM_COMPUTE_H
#define TW_WORLD_SIM_COMPUTE_H

#include "actor/actor.h"
#include "base/rng.h"
#include "world/desk.h"
#include "world/scratch.h"
#include "world/sim/sim.h"

#include <pthread.h>

/* One cost of the law in ns, for a thing named by (a, b): never negative. */
double tw_law_draw(const struct tw_sim_options *o, const struct tw_rng *r, uint64_t a, uint64_t b);

/* Two numbers as the counter of a draw. */
static inline uint64_t tw_sim_mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * UINT64_C(0x9E3779B97F4A7C15) + b;

	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

struct event;
struct cell;
enum job_state {
	JOB_QUEUED,  /* in the pool's line */
	JOB_RUNNING, /* some thread has it */
	JOB_DONE,
};
struct job {
	struct tw_compute *c;
	struct cell *cell;
	struct event *event;            /* its completion */
	struct job *next, *before;      /* the cell's list */
	struct job *line, *line_before; /* the pool's line */
	struct job *ahead, *behind;     /* the line of its node's device, while `lined` */
	int64_t began;
	enum job_state state; /* under the pool's lock */
	enum tw_status status;
	bool lazy; /* small: runs in the simulator's own thread when it completes */
	bool cancelled, lined;
};

struct pool {
	const struct tw_engine *engine;
	struct tw_desk *desk; /* computes in its place; NULL: none */
	struct tw_heap *heap;
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct job *first, *last; /* the line */
	struct helper *helper;
	uint32_t helpers;
	struct scratch scratch; /* the simulator's own thread's */
	bool ending, open;
};
/* `threads` in all, the caller's own included; 0: as many as cores.  With a desk these are the
 * tasks that are with callers at a time: where it is 1, they come in the order of virtual time. */
enum tw_status tw_job_pool_start(struct pool *p, const struct tw_engine *engine,
				 struct tw_desk *desk, uint32_t threads, struct tw_heap *heap);
void tw_job_pool_stop(struct pool *p); /* no job may be left in it; stopping twice is allowed */
/* Put the job in line, or leave it for later if it is small. */
void tw_job_submit(struct pool *p, struct job *j);
/* Have the result in j->c: runs it here or waits for it. */
void tw_job_finish(struct pool *p, struct job *j);
/* No thread works on it any more when this returns. */
void tw_job_drop(struct pool *p, struct job *j);

#endif
