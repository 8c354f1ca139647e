/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h - train on the tasks of a Slurm step as processes that may die: task 0 serves, the others
 * join. */
#ifndef TW_CLI_TASKS_H
#define TW_CLI_TASKS_H

#include "cli/verb.h"
#include "run/launcher.h"

/* Who is let in: a key, or anybody. */
struct tw_tasks_flags {
	const char *key;
	bool insecure;
};

/* The verb's flags begin with struct tw_work_flags.  Returns the exit code of this task. */
int tw_tasks_train(const struct tw_call *call, const struct tw_launcher *l,
		   const struct tw_tasks_flags *flags);

#endif
