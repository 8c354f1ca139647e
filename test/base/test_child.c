/* SPDX-License-Identifier: Apache-2.0 */
/* test_child.c - children start as asked, are waited for once, and do not outlive us. */
#include "base/machine/child.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static const struct tw_child_how plain;

static void no_child_is_left(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static int shell(struct tw_child *c, const struct tw_child_how *how, const char *script)
{
	return tw_child_exec(c, how, (const char *const[]){ "sh", "-c", script, NULL });
}

/* What the script says on descriptor `fd`, run as `how`. */
static void hear(const struct tw_child_how *how, int fd, const char *script, char *out, size_t room)
{
	int ends[2], own[3] = { TW_CHILD_NOTHING, TW_CHILD_NOTHING, TW_CHILD_NOTHING };
	struct tw_child_how mine = *how;
	struct tw_child c = { 0 };
	size_t n = 0;
	ssize_t more;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	own[fd] = ends[1];
	mine.fd = own;
	assert_int_equal(shell(&c, &mine, script), 0);
	close(ends[1]);
	while ((more = read(ends[0], out + n, room - 1 - n)) > 0)
		n += (size_t)more;
	out[n] = 0;
	close(ends[0]);
	assert_true(tw_child_wait(&c, INFINITY));
	assert_int_equal(c.code, 0);
}

static void codes_are_told(void **state)
{
	struct tw_child c = { 0 };

	assert_int_equal(shell(&c, &plain, "exit 7"), 0);
	assert_true(tw_child_wait(&c, 30.0));
	assert_int_equal(c.code, 7);
	assert_true(c.peak > 4096);
	assert_int_equal(shell(&c, &plain, "kill -9 $$"), 0);
	assert_true(tw_child_wait(&c, INFINITY));
	assert_int_equal(c.code, TW_CHILD_SIGNAL + SIGKILL);
	if (tw_child_fork(&c, &plain) == 0)
		_exit(3);
	assert_true(tw_child_wait(&c, INFINITY));
	assert_int_equal(c.code, 3);
	assert_true(tw_child_look(&c)); /* and again: it is over for good */
	assert_int_equal(c.code, 3);
	no_child_is_left();
}

static void what_cannot_run_says_why(void **state)
{
	const struct tw_child_how nowhere = { .folder = "/there is no such folder" };
	struct tw_child c = { 0 };

	assert_int_equal(
		tw_child_exec(&c, &plain, (const char *const[]){ "no-such-program", NULL }),
		ENOENT);
	assert_int_equal(tw_child_exec(&c, &plain, (const char *const[]){ "/etc/passwd", NULL }),
			 EACCES);
	assert_int_equal(shell(&c, &nowhere, "true"), ENOENT);
	no_child_is_left();
}

static void descriptors_and_folder_are_as_asked(void **state)
{
	const struct tw_child_how there = { .folder = "/usr" };
	char text[200];

	hear(&there, 1, "pwd; cat", text, sizeof text); /* cat: nothing to read */
	assert_string_equal(text, "/usr\n");
	hear(&plain, 2, "echo out; echo err >&2", text, sizeof text);
	assert_string_equal(text, "err\n");
}

/* A child that is given our own standard descriptors in another order gets them so. */
static void descriptors_may_be_low_ones(void **state)
{
	char path[] = "/tmp/thalweg-child-XXXXXX", text[20];
	const int file = mkstemp(path), out = dup(1), err = dup(2),
		  swapped[] = { TW_CHILD_OURS, 2, 1 };
	const struct tw_child_how how = { .fd = swapped };
	struct tw_child c = { 0 };
	int code;

	assert_true(file >= 0 && out >= 0 && err >= 0);
	unlink(path);
	fflush(stdout);
	fflush(stderr);
	dup2(file, 2);
	code = shell(&c, &how, "echo first");
	tw_child_wait(&c, INFINITY);
	dup2(err, 2);
	close(out);
	close(err);
	assert_int_equal(code, 0);
	assert_int_equal(pread(file, text, sizeof text, 0), 6);
	assert_memory_equal(text, "first\n", 6);
	close(file);
}

static void waiting_ends_in_time(void **state)
{
	struct timespec a, b;
	struct tw_child c = { 0 };

	assert_true(tw_child_look(&c)); /* none */
	assert_int_equal(shell(&c, &plain, "exec sleep 600"), 0);
	assert_false(tw_child_look(&c));
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_false(tw_child_wait(&c, 0.05));
	clock_gettime(CLOCK_MONOTONIC, &b);
	assert_true((double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9 >= 0.05);
	tw_child_signal(&c, SIGTERM);
	assert_true(tw_child_wait(&c, INFINITY));
	assert_int_equal(c.code, TW_CHILD_SIGNAL + SIGTERM);
	tw_child_signal(&c, SIGKILL); /* nobody */
	tw_child_kill(&c);
	assert_int_equal(c.code, TW_CHILD_SIGNAL + SIGTERM);
	no_child_is_left();
}

static void a_group_ends_whole(void **state)
{
	const struct tw_child_how leader = { .group = true };
	const int own[3] = { TW_CHILD_NOTHING, TW_CHILD_NOTHING, TW_CHILD_NOTHING };
	struct tw_child_how how = leader;
	struct tw_child c = { 0 };
	int ends[2], fd[3];
	char one;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	memcpy(fd, own, sizeof fd);
	fd[1] = ends[1];
	how.fd = fd;
	assert_int_equal(shell(&c, &how, "sleep 600 & echo; wait"), 0);
	close(ends[1]);
	assert_int_equal(read(ends[0], &one, 1), 1);
	tw_child_kill(&c);
	/* both ends of the pipe that the grandchild had are closed: it is gone, too */
	assert_int_equal(read(ends[0], &one, 1), 0);
	close(ends[0]);
	no_child_is_left();
}

static void a_deaf_child_ignores_the_terminal(void **state)
{
	const struct tw_child_how deaf = { .deaf = true };
	char text[400];

	hear(&deaf, 1, "kill -INT $$; kill -HUP $$; echo here", text, sizeof text);
	assert_string_equal(text, "here\n");
}

static volatile sig_atomic_t caught;
static void catch (int signal_)
{
	caught++;
}

/* What we do with signals is not what a program does that we start. */
static void signals_are_as_programs_expect(void **state)
{
	struct sigaction mine = { .sa_handler = catch }, before;
	sigset_t blocked, mask;
	char text[400], *at;
	uint64_t bits;

	sigaction(SIGTERM, &mine, &before);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigprocmask(SIG_BLOCK, &blocked, &mask);
	hear(&plain, 1, "grep Sig[BI] /proc/self/status", text, sizeof text);
	at = strstr(text, "SigBlk:");
	assert_non_null(at);
	assert_int_equal(strtoull(at + 7, NULL, 16), 0);
	at = strstr(text, "SigIgn:");
	assert_non_null(at);
	bits = strtoull(at + 7, NULL, 16);
	assert_int_equal(bits & (UINT64_C(1) << (SIGPIPE - 1)), 0);
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	assert_true(sigismember(&blocked, SIGUSR1)); /* and ours are ours again */
	assert_false(sigismember(&blocked, SIGTERM));
	sigprocmask(SIG_SETMASK, &mask, NULL);
	sigaction(SIGTERM, &before, NULL);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(caught, 0);
}

/* The middle process starts a child, says its number and is killed: the child must not stay. */
static void it_does_not_outlive_us(void **state)
{
	const struct tw_child_how tied = { .death = SIGKILL };
	struct tw_child middle = { 0 };
	int ends[2];
	char one;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	if (tw_child_fork(&middle, &plain) == 0) {
		struct tw_child last = { 0 };

		if (tw_child_fork(&last, &tied) == 0)
			for (;;)
				pause();
		if (write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &one, 1), 1);
	tw_child_kill(&middle);
	alarm(60);
	assert_int_equal(read(ends[0], &one, 1), 0); /* the last one that had the pipe is gone */
	alarm(0);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_told),
		cmocka_unit_test(what_cannot_run_says_why),
		cmocka_unit_test(descriptors_and_folder_are_as_asked),
		cmocka_unit_test(descriptors_may_be_low_ones),
		cmocka_unit_test(waiting_ends_in_time),
		cmocka_unit_test(a_group_ends_whole),
		cmocka_unit_test(a_deaf_child_ignores_the_terminal),
		cmocka_unit_test(signals_are_as_programs_expect),
		cmocka_unit_test(it_does_not_outlive_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
