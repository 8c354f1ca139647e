/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_full.c - a process without a free descriptor: who knocks waits, and nobody spins. */
/* labels: threads */
#include "world/tcp_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static _Atomic unsigned attempts;

/* In the place of the library's: what the loop asks of the kernel is counted. */
int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags)
{
	attempts++;
	return (int)syscall(SYS_accept4, fd, address.__sockaddr__, length, flags);
}

static int64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (int64_t)at.tv_sec * TW_SECOND + at.tv_nsec;
}

static rlim_t allow_files(rlim_t count)
{
	struct rlimit files;
	rlim_t before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	before = files.rlim_cur;
	files.rlim_cur = count;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	return before;
}

static unsigned lines_with(struct party *p, const char *text)
{
	unsigned count = 0;

	pthread_mutex_lock(&p->lock);
	for (const char *at = p->lines; (at = strstr(at, text)) != NULL; at++)
		count++;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static void who_knocks_waits(void **state)
{
	static const char full[] = "cannot accept another connection: Too many open files; waiting";
	struct tw_msg m = raw_greet();
	struct party serve;
	int64_t began, took;
	rlim_t before;
	unsigned tried;
	int fd;

	party_serve(&serve, NULL);
	serve.master.fake.message = ends_at_done;
	party_run(&serve);
	fd = raw_socket();
	before = allow_files(0);
	attempts = 0;
	began = now();
	assert_true(raw_connect(fd, party_port(&serve)));
	for (int k = 0; k < 1000 && (lines_with(&serve, full) == 0 || attempts < 3); k++)
		nanosleep(&(struct timespec){ .tv_nsec = 10 * MS }, NULL);
	tried = attempts;
	took = now() - began;
	allow_files(before);
	/* tried every half second, said every five */
	assert_true(tried >= 3);
	assert_true(tried <= 1 + took / (TW_SECOND / 2));
	assert_true(lines_with(&serve, full) >= 1);
	assert_true(lines_with(&serve, full) <= 1 + took / (5 * TW_SECOND));
	/* it was not forgotten */
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_TERMS);
	raw_end(fd);
	party_close(&serve);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_knocks_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
