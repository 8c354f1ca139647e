/* SPDX-License-Identifier: Apache-2.0 */
/* processes.c - processes that this one has started: watched, told to end, none left behind. */
#include "cli/processes.h"

#include "cli/signals.h"
#include "cli/verb.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LOOK_NS 20000000 /* between two looks at who is over */

enum tw_status tw_processes_init(struct tw_processes *p, const struct tw_log *log, size_t room,
				 struct tw_error *why)
{
	*p = (struct tw_processes){ .log = log, .room = room };
	pthread_mutex_init(&p->lock, NULL);
	p->list = tw_heap_zeros(&tw_heap_system, room * sizeof *p->list);
	return p->list ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for %zu processes", room);
}

void tw_processes_release(struct tw_processes *p)
{
	tw_heap_system.put(&tw_heap_system, p->list);
	pthread_mutex_destroy(&p->lock);
}

/* --- starting --------------------------------------------------------------------------------- */

pid_t tw_processes_fork(struct tw_processes *p, int death, struct tw_error *why, const char *name,
			...)
{
	const int fd[] = { TW_CHILD_NOTHING, TW_CHILD_OURS, TW_CHILD_OURS };
	struct tw_process *mine = &p->list[p->count];
	va_list args;
	pid_t pid;

	HOLDS(1, p->count < p->room && !p->watched);
	va_start(args, name);
	vsnprintf(mine->name, sizeof mine->name, name, args);
	va_end(args);
	pid = tw_child_fork(&mine->child, &(struct tw_child_how){ .fd = fd,
								  .death = death,
								  .deaf = true,
								  .term = tw_signals_stop });
	if (pid < 0)
		tw_fail(why, TW_IO, "cannot start %s: %s", mine->name, strerror(errno));
	if (pid > 0)
		p->count++;
	return pid;
}

/* --- watching --------------------------------------------------------------------------------- */

static void tell(const struct tw_processes *p, const struct tw_process *one)
{
	const int pid = (int)one->child.pid, code = one->child.code, by = one->child.signal;

	if (p->ending || code == 0)
		return;
	if (by)
		tw_log_line(p->log, TW_WARNING, one->name,
			    "process %d was killed by signal %d (%s)", pid, by, strsignal(by));
	else
		/* one that was interrupted ended as it should */
		tw_log_line(p->log, code == TW_EXIT_INTERRUPTED ? TW_DEBUG : TW_WARNING, one->name,
			    "process %d ended with exit code %d", pid, code);
}

bool tw_processes_look(struct tw_processes *p)
{
	bool all = true;

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->count; i++) {
		struct tw_process *one = &p->list[i];
		const bool before = one->child.over, now = tw_child_look(&one->child);

		if (now && !before)
			tell(p, one);
		all = all && now;
	}
	pthread_mutex_unlock(&p->lock);
	return all;
}

static void pause_briefly(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

static void *watch(void *arg)
{
	struct tw_processes *p = arg;

	pthread_setname_np(pthread_self(), "processes");
	while (!p->stop && !tw_processes_look(p))
		pause_briefly();
	return NULL;
}

enum tw_status tw_processes_watch(struct tw_processes *p, struct tw_error *why)
{
	const int failed = pthread_create(&p->watcher, NULL, watch, p);

	p->watched = !failed;
	return failed ? tw_fail(why, TW_NO_MEMORY, "%s: %s", TW_NO_THREAD, strerror(failed))
		      : TW_OK;
}

/* --- ending ----------------------------------------------------------------------------------- */

void tw_processes_signal(struct tw_processes *p, int signal_)
{
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->count; i++)
		tw_child_signal(&p->list[i].child, signal_);
	pthread_mutex_unlock(&p->lock);
}

void tw_processes_end(struct tw_processes *p, double seconds)
{
	double left = seconds;

	if (p->watched) {
		p->stop = true;
		pthread_join(p->watcher, NULL);
		p->watched = false;
	}
	while (!tw_processes_look(p) && left > 0.0) {
		pause_briefly();
		left -= LOOK_NS * 1e-9;
	}
	if (tw_processes_look(p))
		return;
	for (size_t i = 0; i < p->count; i++)
		if (!p->list[i].child.over && !p->ending)
			tw_log_line(p->log, TW_WARNING, p->list[i].name,
				    "process %d did not end within %.0f s and is killed",
				    (int)p->list[i].child.pid, seconds);
	p->ending = true;
	tw_processes_signal(p, SIGKILL);
	while (!tw_processes_look(p))
		pause_briefly();
}

/* How bad an exit code is. */
static int weight(int code)
{
	return code >= TW_EXIT_SIGNAL        ? 4
	       : code == TW_EXIT_INTERRUPTED ? 1
	       : code == TW_EXIT_WRONG       ? 3
	       : code == TW_EXIT_DONE        ? 0
					     : 2;
}

int tw_processes_code(const struct tw_processes *p)
{
	int worst = TW_EXIT_DONE;

	for (size_t i = 0; i < p->count; i++)
		if (weight(p->list[i].child.code) > weight(worst))
			worst = p->list[i].child.code;
	return worst;
}
