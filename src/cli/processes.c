/* SPDX-License-Identifier: Apache-2.0 */
/* processes.c - processes that this one has started: watched, told to end, none left behind. */
#include "cli/processes.h"

#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

static void begin_child(pid_t parent, int death)
{
	const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	prctl(PR_SET_PDEATHSIG, death);
	if (getppid() != parent) /* it died before we asked to be told */
		_exit(TW_EXIT_FAILED);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN); /* both go to all of a terminal; who started us tells us */
	signal(SIGTERM, SIG_DFL);
	if (nothing >= 0) {
		dup2(nothing, STDIN_FILENO);
		close(nothing);
	}
}

pid_t tw_processes_fork(struct tw_processes *p, int death, struct tw_error *why, const char *name,
			...)
{
	struct tw_process *mine = &p->list[p->count];
	const pid_t parent = getpid();
	sigset_t all, before;
	va_list args;
	pid_t pid;

	HOLDS(1, p->count < p->room && !p->watched);
	va_start(args, name);
	vsnprintf(mine->name, sizeof mine->name, name, args);
	va_end(args);
	sigemptyset(&all);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGHUP);
	sigprocmask(SIG_BLOCK, &all, &before);
	pid = fork();
	if (pid == 0)
		begin_child(parent, death);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		tw_fail(why, TW_IO, "cannot start %s: %s", mine->name, strerror(errno));
	if (pid > 0) {
		mine->pid = pid;
		p->count++;
	}
	return pid;
}

/* --- watching --------------------------------------------------------------------------------- */

static void take(struct tw_processes *p, struct tw_process *child, int state)
{
	child->over = true;
	child->code = WIFEXITED(state) ? WEXITSTATUS(state) : TW_EXIT_SIGNAL + WTERMSIG(state);
	if (p->ending || child->code == 0)
		return;
	if (WIFSIGNALED(state))
		tw_log_line(p->log, TW_WARNING, child->name,
			    "process %d was killed by signal %d (%s)", (int)child->pid,
			    WTERMSIG(state), strsignal(WTERMSIG(state)));
	else
		/* one that was interrupted ended as it should */
		tw_log_line(p->log, child->code == TW_EXIT_INTERRUPTED ? TW_DEBUG : TW_WARNING,
			    child->name, "process %d ended with exit code %d", (int)child->pid,
			    child->code);
}

bool tw_processes_look(struct tw_processes *p)
{
	bool all = true;
	int state;

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->count; i++) {
		struct tw_process *child = &p->list[i];

		if (!child->over && waitpid(child->pid, &state, WNOHANG) == child->pid)
			take(p, child, state);
		all = all && child->over;
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
		if (!p->list[i].over)
			kill(p->list[i].pid, signal_);
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
		if (!p->list[i].over && !p->ending)
			tw_log_line(p->log, TW_WARNING, p->list[i].name,
				    "process %d has not ended after %.0f s: it is killed",
				    (int)p->list[i].pid, seconds);
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
		if (weight(p->list[i].code) > weight(worst))
			worst = p->list[i].code;
	return worst;
}
