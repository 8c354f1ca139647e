/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_watchdog.c - a process that waits for what never comes ends all the same. */
#include "world/mpi/mpi_inner.h"

#include <time.h>
#include <unistd.h>

/* The newest watchdog of the process, which it ends: there is one at a time. */
static struct watchdog {
	_Atomic unsigned number; /* grows when another one, or none, takes its place */
	int seconds, code;
	const struct tw_log *log;
	const char *why;
} watchdog;

static void *watch(void *arg)
{
	const unsigned mine = watchdog.number;

	(void)arg;
	for (int k = 0; k < watchdog.seconds * 10; k++) {
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
		if (watchdog.number != mine)
			return NULL;
	}
	if (watchdog.why)
		tw_log_line(watchdog.log, TW_ERROR, "", "%s", watchdog.why);
	_exit(watchdog.code);
}

void tw_mpi_watchdog(int seconds, int code, const struct tw_log *log, const char *why)
{
	pthread_t thread;

	watchdog.number++;
	if (!seconds)
		return;
	watchdog.seconds = seconds;
	watchdog.code = code;
	watchdog.log = log;
	watchdog.why = why;
	if (pthread_create(&thread, NULL, watch, NULL) == 0)
		pthread_detach(thread);
	else
		alarm((unsigned)seconds); /* its default ends the process as well */
}
