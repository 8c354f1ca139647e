/* SPDX-License-Identifier: Apache-2.0 */
/* regular_file.c - opens what must be a regular file.
 *
 * The kind is looked at before opening, because opening alone can do something to a device, and
 * again afterwards, because the name may have been given to something else in between.  The second
 * look is the one that counts; O_NONBLOCK keeps the opening itself from waiting. */
#include "base/machine/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Numbers of our own, above all that the system has. */
enum { IS_FOLDER = 30001, IS_FIFO, IS_SOCKET, IS_DEVICE, IS_LINK, IS_OTHER };

static int refuse(mode_t mode)
{
	errno = S_ISDIR(mode)                    ? IS_FOLDER
		: S_ISFIFO(mode)                 ? IS_FIFO
		: S_ISSOCK(mode)                 ? IS_SOCKET
		: S_ISCHR(mode) || S_ISBLK(mode) ? IS_DEVICE
		: S_ISLNK(mode)                  ? IS_LINK
						 : IS_OTHER;
	return -1;
}

bool tw_not_regular(int number)
{
	return number >= IS_FOLDER && number <= IS_OTHER;
}

bool tw_is_link(int number)
{
	return number == IS_LINK;
}

const char *tw_cause(int number)
{
	switch (number) {
	case IS_FOLDER:
		return "it is a directory, not a regular file";
	case IS_FIFO:
		return "it is a FIFO, not a regular file";
	case IS_SOCKET:
		return "it is a socket, not a regular file";
	case IS_DEVICE:
		return "it is a device, not a regular file";
	case IS_LINK:
		return "it is a symbolic link, which is not followed";
	case IS_OTHER:
		return "it is not a regular file";
	default:
		return strerror(number);
	}
}

int tw_regular_check(int at, const char *name, bool absent)
{
	struct stat st;

	if (fstatat(at, name, &st, at == AT_FDCWD ? 0 : AT_SYMLINK_NOFOLLOW))
		return absent && errno == ENOENT ? 0 : -1;
	return S_ISREG(st.st_mode) ? 0 : refuse(st.st_mode);
}

int tw_regular_keep(int fd)
{
	struct stat st;
	int cause;

	if (fstat(fd, &st) == 0) {
		if (S_ISREG(st.st_mode) &&
		    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0)
			return fd;
		if (!S_ISREG(st.st_mode))
			refuse(st.st_mode);
	}
	cause = errno;
	close(fd);
	errno = cause;
	return -1;
}

int tw_regular_open(int at, const char *name, int flags, unsigned mode)
{
	const int follow = at == AT_FDCWD ? 0 : O_NOFOLLOW;
	int fd;

	if (tw_regular_check(at, name, flags & O_CREAT))
		return -1;
	fd = openat(at, name, flags | follow | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
	return fd < 0 ? -1 : tw_regular_keep(fd);
}

/* The descriptor that a name of /dev stands for; -1 for other names. */
static int standing_for(const char *path)
{
	static const char *const standard[] = { "/dev/stdin", "/dev/stdout", "/dev/stderr" };
	char *end;
	long n;

	for (int k = 0; k < 3; k++)
		if (strcmp(path, standard[k]) == 0)
			return k;
	if (strncmp(path, "/dev/fd/", 8) != 0 || path[8] < '0' || path[8] > '9')
		return -1;
	n = strtol(path + 8, &end, 10);
	return *end == 0 && n < 1 << 20 ? (int)n : -1;
}

static FILE *stream_on(int fd, const char *mode)
{
	FILE *f = fd < 0 ? NULL : fdopen(fd, mode);
	const int cause = errno;

	if (fd >= 0 && !f)
		close(fd);
	errno = cause;
	return f;
}

FILE *tw_regular_stream(const char *path, const char *mode)
{
	const int from = standing_for(path), how = *mode == 'a' ? O_APPEND : O_TRUNC;

	if (from >= 0)
		return stream_on(fcntl(from, F_DUPFD_CLOEXEC, 3), mode);
	if (strcmp(path, "/dev/null") == 0)
		return fopen(path, *mode == 'a' ? "ae" : "we");
	return stream_on(tw_regular_open(AT_FDCWD, path, O_WRONLY | O_CREAT | how, 0666), mode);
}

int tw_regular_input(const char *path)
{
	const int from = standing_for(path);

	if (from >= 0)
		return fcntl(from, F_DUPFD_CLOEXEC, 3);
	return tw_regular_open(AT_FDCWD, path, O_RDONLY, 0);
}
