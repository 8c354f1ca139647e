/* SPDX-License-Identifier: Apache-2.0 */
/* join_modes.h - the ways into a cluster: one process, several, or rank 0 with the master. */
#ifndef TW_CLI_JOIN_MODES_H
#define TW_CLI_JOIN_MODES_H

#include "cli/cluster.h"
#include "cli/rendezvous.h"
#include "cli/run_job.h"

enum tw_join_role { TW_JOIN_WORKER, TW_JOIN_SERVER };

struct tw_join_flags {
	struct tw_work_flags work; /* json, log, isa; rank 0: run and set, too */
	struct tw_link_flags link;
	uint32_t as; /* enum tw_join_role */
	uint32_t workers;
	int64_t patience;
	const char *job;
	const char *data, *copy;
	bool allow_path;
	const char *save;
	bool ranked;    /* found in the environment: --listen and --insecure are rank 0's */
	uint32_t tasks; /* that a launcher has started for the job; 0: not known */
	bool silent;    /* rank 0 prints the result, and nobody else */
};

/* All return the exit code; messages and results are printed before. */
/* This process joins the master. */
int tw_join_alone(const struct tw_call *call, struct tw_link *l, const struct tw_address *master);
/* Start flags->workers workers, and wait for them. */
int tw_join_many(const struct tw_call *call, struct tw_link *l, const struct tw_address *master);
/* Rank 0: run the master in this process, and workers in further processes. */
int tw_join_lead(const struct tw_call *call, struct tw_link *l, const struct tw_rendezvous *where);

#endif
