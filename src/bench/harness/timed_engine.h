/* SPDX-License-Identifier: Apache-2.0 */
/* timed_engine.h - an engine around another that notes when it was asked, and a heap that counts.
 * */
#ifndef TW_BENCH_TIMED_ENGINE_H
#define TW_BENCH_TIMED_ENGINE_H

#include "actor/engine.h"
#include "base/heap.h"

struct tw_timed {
	struct tw_engine engine; /* must stay first; all figures are the inner one's */
	const struct tw_engine *inner;
	int64_t *at; /* when gradients were asked for, ns of CLOCK_MONOTONIC */
	size_t room;
	_Atomic size_t calls;
	/* CPU time of threads between one gradient and their next, and how often that was seen */
	_Atomic int64_t between_ns;
	_Atomic size_t betweens;
	_Atomic int64_t cpu_ns, wall_ns; /* of gradients, which wait for nothing */
};

/* In the caller's storage; `at` has room for the first calls.  The inner engine stays the
 * caller's. */
void tw_timed_init(struct tw_timed *t, const struct tw_engine *inner, int64_t *at, size_t room);
/* Gradients per second of all threads together, without the first `warm` calls and without the
 * last `tail`, when some threads may be done; 0 where too few were made.  Sorts `at`. */
double tw_timed_rate(struct tw_timed *t, size_t warm, size_t tail);
/* CPU time of the calling thread, ns. */
int64_t tw_timed_cpu(void);
/* CPU seconds that a thread spent between two gradients: what is not the engine's. */
double tw_timed_between(const struct tw_timed *t);

/* The system's memory, counted. */
struct tw_counted {
	struct tw_heap heap; /* must stay first */
	_Atomic size_t now, most;
};
void tw_counted_init(struct tw_counted *c);

#endif
