/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - posix_spawn in a folder, output kept for the sentence, and an end after some time.
 *
 * The child leads a process group of its own, so that its children end with it. */
#include "data/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define TAIL 400

/* The last bytes of what the child said. */
struct tail {
	char text[TAIL + 1];
	size_t bytes;
};

static int64_t clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void keep_tail(struct tail *t, const char *text, size_t n)
{
	if (n >= TAIL) {
		text += n - TAIL;
		n = TAIL;
	}
	if (t->bytes + n > TAIL) {
		const size_t drop = t->bytes + n - TAIL;

		memmove(t->text, t->text + drop, t->bytes - drop);
		t->bytes -= drop;
	}
	memcpy(t->text + t->bytes, text, n);
	t->bytes += n;
}

/* What it said last; a sentence makes one line of it. */
static const char *line_of(struct tail *t)
{
	while (t->bytes > 0 && (unsigned char)t->text[t->bytes - 1] <= ' ')
		t->bytes--;
	t->text[t->bytes] = 0;
	return t->bytes ? t->text : "it said nothing";
}

static int spawn(const char *folder, const char *const *argv, int out, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t how;
	sigset_t none;
	int rc;

	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&how);
	sigemptyset(&none);
	rc = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, out, 1);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&files, out, 2);
	if (rc == 0)
		rc = posix_spawn_file_actions_addchdir_np(&files, folder);
	if (rc == 0)
		rc = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(&how, &none);
	if (rc == 0)
		rc = posix_spawnp(pid, argv[0], &files, &how, (char *const *)argv, environ);
	posix_spawnattr_destroy(&how);
	posix_spawn_file_actions_destroy(&files);
	return rc;
}

/* Listen until the child closes its output or the time is over: false. */
static bool listen_to(int in, int64_t until, struct tail *t)
{
	char text[4096];

	for (;;) {
		const int64_t left = until - clock_ms();
		struct pollfd p = { .fd = in, .events = POLLIN };
		ssize_t n;

		if (left <= 0)
			return false;
		if (poll(&p, 1, left > 60000 ? 60000 : (int)left) <= 0)
			continue;
		n = read(in, text, sizeof text);
		if (n > 0)
			keep_tail(t, text, (size_t)n);
		else if (n == 0 || errno != EINTR)
			return true;
	}
}

/* Its output may be closed and it still runs: wait no longer than agreed. */
static bool reap(pid_t pid, int64_t until, int *status)
{
	for (;;) {
		const pid_t got = waitpid(pid, status, WNOHANG);

		if (got == pid)
			return true;
		if (got < 0 && errno != EINTR) {
			*status = -1;
			return true;
		}
		if (clock_ms() >= until)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
}

static enum tw_status judge(const char *name, int status, struct tail *t, struct tw_error *why)
{
	if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return TW_OK;
	if (status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return tw_fail(why, TW_ABSENT, "%s: cannot be run: %s", name, line_of(t));
	if (status != -1 && WIFSIGNALED(status))
		return tw_fail(why, TW_IO, "%s: was ended by signal %d: %s", name, WTERMSIG(status),
			       line_of(t));
	return tw_fail(why, TW_IO, "%s: failed: %s", name, line_of(t));
}

enum tw_status tw_child_run(const char *folder, const char *const *argv, int seconds,
			    struct tw_error *why)
{
	const int64_t until = clock_ms() + (int64_t)seconds * 1000;
	struct tail t = { .bytes = 0 };
	int ends[2], rc, status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return tw_fail(why, TW_IO, "%s: no pipe to it: %s", argv[0], strerror(errno));
	rc = spawn(folder, argv, ends[1], &pid);
	close(ends[1]);
	if (rc != 0) {
		close(ends[0]);
		return tw_fail(why, rc == ENOENT ? TW_ABSENT : TW_IO, "%s: cannot be run: %s",
			       argv[0], strerror(rc));
	}
	if (listen_to(ends[0], until, &t) && reap(pid, until, &status)) {
		close(ends[0]);
		return judge(argv[0], status, &t, why);
	}
	kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	close(ends[0]);
	return tw_fail(why, TW_IO, "%s: was not done after %d seconds: %s", argv[0], seconds,
		       line_of(&t));
}
