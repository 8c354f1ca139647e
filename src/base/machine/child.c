/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - fork, exec, wait. */
#include "base/machine/child.h"

#include "base/machine/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS 5000000 /* between two looks at a child */

/* --- in the child: nothing that takes a lock ------------------------------------------------- */

/* Where the child's descriptor `k` comes from, as one above the three; -1 with errno. */
static int source_of(int from)
{
	const int fd = from == TW_CHILD_NOTHING ? open("/dev/null", O_RDWR | O_CLOEXEC) : from;

	return fd >= 0 && fd <= 2 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
}

static bool set_descriptors(const int *fd)
{
	int from[3];

	for (int k = 0; k < 3; k++)
		if (fd[k] != TW_CHILD_OURS && (from[k] = source_of(fd[k])) < 0)
			return false;
	for (int k = 0; k < 3; k++)
		if (fd[k] != TW_CHILD_OURS && dup2(from[k], k) < 0)
			return false;
	return true;
}

static bool prepare(const struct tw_child_how *how, pid_t parent)
{
	if (how->death)
		prctl(PR_SET_PDEATHSIG, how->death);
	if (how->death && getppid() != parent) /* it died before we asked to be told */
		_exit(1);
	signal(SIGINT, how->deaf ? SIG_IGN : SIG_DFL);
	if (how->deaf)
		signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, how->term ? how->term : SIG_DFL);
	return (!how->group || setpgid(0, 0) == 0) && (!how->fd || set_descriptors(how->fd)) &&
	       (!how->folder || chdir(how->folder) == 0);
}

/* --- starting -------------------------------------------------------------------------------- */

/* *ready: in the child, whether it is as `how` says; errno says what was in the way. */
static pid_t begin(struct tw_child *c, const struct tw_child_how *how, sigset_t *before,
		   bool *ready)
{
	const pid_t parent = getpid();
	sigset_t all;
	pid_t pid;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, before);
	pid = fork();
	if (pid == 0)
		*ready = prepare(how, parent);
	if (pid > 0) {
		*c = (struct tw_child){ .pid = pid, .group = how->group };
		if (how->group) /* whichever of us is first: it has its group from now on */
			setpgid(pid, pid);
	}
	return pid;
}

pid_t tw_child_fork(struct tw_child *c, const struct tw_child_how *how)
{
	bool ready = true;
	sigset_t before;
	const pid_t pid = begin(c, how, &before, &ready);
	const int error = errno;

	if (!ready)
		_exit(1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return pid;
}

/* Becomes the program, or says through `tell` why not: it is closed by exec. */
static _Noreturn void become(const char *const *argv, bool ready, int tell)
{
	sigset_t none;
	int error;

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (ready)
		execvp(argv[0], (char *const *)argv);
	error = errno;
	while (write(tell, &error, sizeof error) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* What the child says before it has become the program: nothing, if it has. */
static int heard(int fd)
{
	int error = 0;
	ssize_t n;

	do
		n = read(fd, &error, sizeof error);
	while (n < 0 && errno == EINTR);
	return n == sizeof error ? error : 0;
}

int tw_child_exec(struct tw_child *c, const struct tw_child_how *how, const char *const *argv)
{
	bool ready = true;
	sigset_t before;
	int ends[2], error;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return errno;
	/* not one of the three that the child is given */
	const int tell = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);

	if (tell < 0) {
		error = errno;
		close(ends[0]);
		close(ends[1]);
		return error;
	}
	pid = begin(c, how, &before, &ready);
	error = errno;
	if (pid == 0)
		become(argv, ready, tell);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	close(tell);
	if (pid > 0)
		error = heard(ends[0]);
	close(ends[0]);
	if (pid > 0 && error)
		tw_child_wait(c, INFINITY);
	return error;
}

/* --- watching -------------------------------------------------------------------------------- */

static bool reap(struct tw_child *c, int flags)
{
	struct rusage used;
	int state = 0;
	pid_t pid;

	if (!c->pid || c->over)
		return true;
	do
		pid = wait4(c->pid, &state, flags, &used);
	while (pid < 0 && errno == EINTR);
	if (pid == 0)
		return false;
	c->over = true;
	c->signal = pid > 0 && WIFSIGNALED(state) ? WTERMSIG(state) : 0;
	c->code = pid < 0 ? -1 : c->signal ? TW_CHILD_SIGNAL + c->signal : WEXITSTATUS(state);
	c->peak = pid < 0 ? 0 : (uint64_t)used.ru_maxrss * 1024;
	return true;
}

bool tw_child_look(struct tw_child *c)
{
	return reap(c, WNOHANG);
}

bool tw_child_wait(struct tw_child *c, double seconds)
{
	const int64_t began = tw_clock();

	if (isinf(seconds))
		return reap(c, 0);
	while (!tw_child_look(c)) {
		if (tw_clock_seconds(began) >= seconds)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return true;
}

void tw_child_signal(const struct tw_child *c, int signal_)
{
	if (c->pid && !c->over)
		kill(c->group ? -c->pid : c->pid, signal_);
}

void tw_child_kill(struct tw_child *c)
{
	tw_child_signal(c, SIGKILL);
	reap(c, 0);
}
