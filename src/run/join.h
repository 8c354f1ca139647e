/* SPDX-License-Identifier: Apache-2.0 */
/* join.h - a process that joins a run: a worker, or a server with shards. */
#ifndef TW_RUN_JOIN_H
#define TW_RUN_JOIN_H

#include "run/tcp_setup.h"
#include "run/transfer.h"

#include <jansson.h>

struct tw_join_request {
	bool server;                     /* host shards; else a worker */
	const struct tw_address *master; /* where; NULL with master_fd */
	struct tw_tcp_setup *net;
	int64_t patience; /* ns without a master before it gives up; 0: never */
	const struct tw_log *log;
	const _Atomic int *interrupted; /* may be NULL */
	void (*prepared)(
		void); /* called when job and data are here and it asks to join; may be NULL */
	const char *metrics;            /* file of JSON lines; NULL: none */
	const char *trace;              /* timeline for Perfetto; NULL: none */
	struct tw_transfer_paths paths; /* what may be opened of what the master's job names */
	/* Where a worker listens if the job has no servers: sets net->listen.  Called when the job
	 * is known; NULL: it has inherited pairs. */
	enum tw_status (*listen)(void *arg, struct tw_error *why);
	void *listen_arg;
	bool listens;     /* the user has said where: not for a worker of a job with servers */
	const char *save; /* a new file for the model when the run is over; NULL: none */
	/* Takes the model when the run is over, as safetensors; NULL: nobody does. */
	enum tw_status (*keep)(void *arg, const struct tw_engine *e, struct tw_block *model,
			       struct tw_error *why);
	void *keep_arg;
	/* started by `train --processes`: the job is here, the connections are inherited */
	struct tw_job *job; /* NULL: the master sends it */
	int master_fd;      /* -1: none */
	const struct tw_tcp_route *route;
	size_t routes;
	uint32_t wish;            /* as in struct tw_tcp_options */
	struct tw_engine *engine; /* computes instead of the job's own, stays the caller's; NULL */
	/* A caller computes: the job and its engine are here; compare them with the caller's model,
	 * tell them which samples he has, and give the desk that he is at, which stays his.  NULL:
	 * this process computes. */
	enum tw_status (*outside)(void *arg, struct tw_job *job, struct tw_engine *e,
				  struct tw_desk **desk, struct tw_error *why);
	void *outside_arg;
};

/* Join, work, and end when the run does, when the user interrupts (a worker leaves cleanly: TW_OK)
 * or when the master is lost for good.  *result is the caller's: the master's result with "role",
 * or, for one that left before, what it has done itself. */
enum tw_status tw_join(const struct tw_join_request *q, json_t **result, struct tw_error *why);

#endif
