/* SPDX-License-Identifier: Apache-2.0 */
/* meter.c - runs a test and writes down the CPU time of it and of the processes that it waited for.
 *
 * meter FILE BUDGET COMMAND...: FILE gets one line, "SECONDS BUDGET".  What the command reads,
 * prints and returns is its own: meter ends with its exit code or by its signal.  A process that
 * nobody waits for, such as a daemon, does not count.  test/tally.py reads the files. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int trouble(const char *what)
{
	fprintf(stderr, "meter: %s: %s\n", what, strerror(errno));
	return 127;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static int write_down(const char *file, const char *budget, const struct rusage *used)
{
	FILE *f = fopen(file, "w");

	if (!f)
		return -1;
	fprintf(f, "%.2f %s\n", seconds(used->ru_utime) + seconds(used->ru_stime), budget);
	return fclose(f);
}

int main(int argc, char **argv)
{
	struct rusage used;
	int status;

	if (argc < 4) {
		fputs("usage: meter FILE BUDGET COMMAND...\n", stderr);
		return 2;
	}
	const pid_t child = fork();

	if (child < 0)
		return trouble("fork");
	if (child == 0) {
		/* CTest kills what takes too long */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execvp(argv[3], argv + 3);
		_exit(trouble(argv[3]));
	}
	signal(SIGINT, SIG_IGN); /* from a terminal, the test gets it, too */
	signal(SIGQUIT, SIG_IGN);
	while (wait4(child, &status, 0, &used) < 0)
		if (errno != EINTR)
			return trouble("wait4");
	if (write_down(argv[1], argv[2], &used))
		return trouble(argv[1]);
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}
