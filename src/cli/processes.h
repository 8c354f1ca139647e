/* SPDX-License-Identifier: Apache-2.0 */
/* processes.h - processes that this one has started: watched, told to end, none left behind. */
#ifndef TW_CLI_PROCESSES_H
#define TW_CLI_PROCESSES_H

#include "base/machine/child.h"
#include "base/heap.h"
#include "base/machine/log.h"
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct tw_process {
	struct tw_child child;
	char name[40]; /* "worker process 2" */
};

struct tw_processes {
	const struct tw_log *log;
	struct tw_process *list;
	size_t count, room;
	pthread_mutex_t
		lock; /* who is over, against signals for a number that is another's by now */
	_Atomic bool ending; /* their ends are expected from now on */
	pthread_t watcher;
	bool watched;
	_Atomic bool stop;
};

enum tw_status tw_processes_init(struct tw_processes *p, const struct tw_log *log, size_t room,
				 struct tw_error *why);
/* Fork, before there is any thread or engine: 0 in the child, else its number, -1 with a sentence.
 * The child gets `death` when we die; it does not hear Ctrl-C, which a terminal sends to
 * everybody, and its standard input is empty.  It must leave by _exit. */
pid_t tw_processes_fork(struct tw_processes *p, int death, struct tw_error *why, const char *name,
			...) __attribute__((format(printf, 4, 5)));
/* From now on log each process that dies, and how; starts a thread. */
enum tw_status tw_processes_watch(struct tw_processes *p, struct tw_error *why);
/* Update which processes have ended; true: all have. */
bool tw_processes_look(struct tw_processes *p);
void tw_processes_signal(struct tw_processes *p, int signal_);
/* Wait for all; after `seconds`, or at once for 0, end them.  Also ends the watching. */
void tw_processes_end(struct tw_processes *p, double seconds);
/* The worst of their exit codes: killed, wrong request, failed, interrupted, done. */
int tw_processes_code(const struct tw_processes *p);
void tw_processes_release(struct tw_processes *p); /* after the end */

#endif
