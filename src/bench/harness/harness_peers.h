/* SPDX-License-Identifier: Apache-2.0 */
/* harness_peers.h - two workers without a server, each a process, and the process of the master. */
#ifndef TW_BENCH_HARNESS_PEERS_H
#define TW_BENCH_HARNESS_PEERS_H

#include "actor/engine.h"
#include "base/machine/log.h"
#include "spec/job.h"

#define TW_PEERS 2

struct tw_harness_peers {
	/* Of a world tcp without servers, for TW_PEERS workers or for one of as many stages. */
	struct tw_job *job;
	/* Connected by socket pairs, as `train --processes`; else by loopback.  Not for stages. */
	bool pair;
	struct tw_log log;
	/* Called in each process: what the worker of this number computes with, or for TW_PEERS the
	 * master.  It ends with the process.  Which stage is whose, the master decides. */
	enum tw_status (*engine)(void *arg, uint32_t worker, struct tw_engine **out,
				 struct tw_error *why);
	void *arg;
};

/* Run the job until it is over, at most so many seconds; no process is left. */
enum tw_status tw_harness_peers_run(struct tw_harness_peers *h, double seconds,
				    struct tw_error *why);

#endif
