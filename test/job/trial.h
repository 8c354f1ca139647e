/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h - a small cluster with the real actors, to be run again and again by tests. */
#ifndef TW_TEST_JOB_TRIAL_H
#define TW_TEST_JOB_TRIAL_H

#include "run/placement.h"
#include "spec/job.h"

struct trial {
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_placement cast;
	bool resume;
	bool loud;                /* the log goes to stderr */
	const struct tw_log *log; /* where it goes instead; may be NULL */
	tw_observer observer;
	void *observer_arg;
	const _Atomic int *interrupted;
};

/* Read the job and make its actors' seats, or fail the test. */
void trial_open(struct trial *t, enum tw_world_kind world, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void trial_close(struct trial *t);
/* Run it, with its memory from `heap` and cuts in `store` (NULL: in memory).  A
 * simulated run that does not end within a virtual day ends with TW_REFUSED, and one in threads
 * that does not end within a minute kills the program. */
enum tw_status trial_run(const struct trial *t, struct tw_heap *heap, struct tw_store *store,
			 struct tw_ran *ran);

/* Presets with servers and without an optimiser that the world accepts, in order; NULL after the
 * last.  Those without are
 * compared with these where reductions are tested. */
const char *trial_preset(enum tw_world_kind world, size_t k);

#endif
