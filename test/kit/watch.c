/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - what this process has open, and what happens to files, as the kernel sees it. */
#include "kit/watch.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <cmocka.h>

int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

int watch_on(const char *path, enum watching what)
{
	const uint32_t reading = IN_OPEN | IN_ACCESS;
	const uint32_t changing = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE;
	const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	assert_true(watch >= 0);
	assert_true(inotify_add_watch(watch, path,
				      what == READING ? reading : reading | changing) >= 0);
	return watch;
}

bool was_touched(int watch)
{
	char events[4096];
	bool any = false;

	while (read(watch, events, sizeof events) > 0)
		any = true;
	return any;
}
