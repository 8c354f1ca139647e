/* SPDX-License-Identifier: Apache-2.0 */
/* local_cluster.h - a whole cluster of processes on this machine: `train --processes`. */
#ifndef TW_CLI_LOCAL_CLUSTER_H
#define TW_CLI_LOCAL_CLUSTER_H

#include "cli/verb.h"
#include "spec/job.h"

/* Fork the job's workers and further servers, connected by socket pairs, run the master here, and
 * print the result.  The verb's flags begin with struct tw_work_flags.  Nothing may have started a
 * thread.  Returns, in this process only, when all others have ended. */
enum tw_status tw_local_run(const struct tw_call *call, struct tw_job *job, const char *dir,
			    struct tw_error *why);

#endif
