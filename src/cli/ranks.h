/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.h - a verb on the ranks of an MPI. */
#ifndef TW_CLI_RANKS_H
#define TW_CLI_RANKS_H

#include "cli/verb.h"
#include "run/launcher.h"
#include "run/ranks.h"

/* Train the job on the ranks that the launcher has started, with the run directory `dir` on rank 0.
 * The verb's flags begin with struct tw_work_flags.  Returns the exit code of this rank. */
int tw_ranks_train(const struct tw_call *call, const struct tw_launcher *l, const char *dir);

/* Call `program` on all ranks that the launcher has started; returns its code on this rank. */
int tw_ranks_call(const struct tw_call *call, int (*program)(struct tw_ranks *r, void *arg),
		  void *arg);

#endif
