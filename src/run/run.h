/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - a job, run in its world, with its directory, to its result. */
#ifndef TW_RUN_RUN_H
#define TW_RUN_RUN_H

#include "actor/cluster.h"
#include "spec/job.h"
#include "run/ranks.h"
#include "run/tcp_setup.h"
#include "metrics/progress.h"

#include <jansson.h>

struct tw_run_request {
	const char *dir;      /* run directory; NULL: nothing is kept */
	bool again;           /* start over where a run is finished */
	const char *metrics;  /* file of JSON lines; NULL: none */
	const char *trace;    /* timeline for Perfetto; not on ranks; NULL: none */
	uint32_t threads;     /* sim: compute pool; 0: as the job says */
	uint64_t checkpoints; /* stop as if interrupted after this many; 0: never */
	const struct tw_log *log;
	const _Atomic int *interrupted; /* signals so far; may be NULL */
	tw_progress_show show;          /* may be NULL */
	void *show_arg;
	struct tw_engine
		*engine;      /* runs instead of the job's own, stays the caller's; may be NULL */
	struct tw_desk *desk; /* computes in its place (world/desk.h); may be NULL */
	float *vector;        /* for TW_OK: all elements of what is evaluated; may be NULL */
	tw_observer observer; /* sees every note; false interrupts; may be NULL */
	void *observer_arg;
	struct tw_tcp_setup *net; /* the world tcp: how others reach us; else NULL */
	struct tw_ranks *ranks;   /* the world mpi: we are rank 0; else NULL */
};

/* Run the job, which tw_job_read made, in the world it was read for.  *result is the caller's
 * reference; it is made for TW_OK and, with "interrupted": true, for TW_INTERRUPTED (then the
 * checkpoint in it is where a second run resumes), and with "diverged": true for a TW_REFUSED
 * whose *why says that training diverged.  Otherwise it is NULL and *why has the sentence;
 * TW_BAD_INPUT and TW_ABSENT mean that the request was wrong. */
enum tw_status tw_run(const struct tw_run_request *r, struct tw_job *job, json_t **result,
		      struct tw_error *why);

/* Open the engine and finish the plan without running: for --explain.  The result says what
 * tw_run would refuse for the plan's sake. */
enum tw_status tw_run_check(struct tw_job *job, struct tw_error *why);
/* Pin the instruction set by its name, before anything else runs; this wins over THALWEG_ISA. */
enum tw_status tw_run_isa(const char *name, struct tw_error *why);

#endif
