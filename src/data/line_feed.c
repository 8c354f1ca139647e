/* SPDX-License-Identifier: Apache-2.0 */
/* line_feed.c - lines that come as they come.
 *
 *  (1) whoever waits looks at *stop ten times a second.
 *  (2) the last line of what ends needs no line end; one of a file that is followed does, because
 *      it may go on. */
#include "data/line_feed.h"

#include "base/grow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY 100 /* ms */
#define PIECE      (64u << 10)
#define LEAST      (4u << 10) /* room that is read into */

struct tw_feed {
	struct tw_heap *heap;
	char name[300];
	int fd, listener; /* -1: none */
	bool own, follow, repeats;
	bool ended, passing; /* passing over a line that is too long */
	char *text;          /* from..to are read and not given yet */
	size_t from, to, room;
	size_t looked; /* no line end before it */
	uint64_t number;
};

static enum tw_status no_such(struct tw_error *why, const char *name, const char *what)
{
	return tw_fail(why, TW_BAD_INPUT, "%.200s: %s; -, tcp:PORT, a file or a FIFO is needed",
		       name, what);
}

/* --- opening --------------------------------------------------------------------------------- */

static enum tw_status listen_at(struct tw_feed *f, const char *port, struct tw_error *why)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	const int yes = 1;
	char *end;
	const unsigned long number = strtoul(port, &end, 10);

	if (*port < '0' || *port > '9' || *end || !number || number > 65535)
		return no_such(why, f->name, "has no port from 1 to 65535");
	at.sin_port = htons((uint16_t)number);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (f->listener >= 0)
		setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&at, sizeof at) < 0 ||
	    listen(f->listener, 1) < 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot listen on 127.0.0.1: %s", f->name,
			       strerror(errno));
	return TW_OK;
}

static enum tw_status open_path(struct tw_feed *f, const struct tw_reach *reach, const char *name,
				struct tw_error *why)
{
	char path[TW_REACH_PATH];
	struct stat s;
	const char *folder = reach && *name != '/' ? reach->folder : "";
	const size_t last = strlen(folder);
	const int n = snprintf(path, sizeof path, "%s%s%s", folder,
			       last && folder[last - 1] != '/' ? "/" : "", name);

	if (n < 0 || (size_t)n >= sizeof path)
		return no_such(why, f->name, "has too long a path");
	/* a FIFO without a writer does not hold up the opening; reading waits for one */
	f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	f->own = true;
	if (f->fd < 0)
		return no_such(why, f->name, strerror(errno));
	if (fstat(f->fd, &s) < 0 || S_ISDIR(s.st_mode))
		return no_such(why, f->name, "is a folder");
	f->repeats = S_ISREG(s.st_mode);
	if (f->follow && !f->repeats)
		return tw_fail(why, TW_BAD_INPUT,
			       "follow: %.200s is no regular file, and is read until its writer "
			       "closes it; leave this out",
			       f->name);
	return TW_OK;
}

enum tw_status tw_feed_open(struct tw_heap *heap, const struct tw_reach *reach, const char *name,
			    bool follow, struct tw_feed **out, struct tw_error *why)
{
	struct tw_feed *f;
	struct stat s;
	enum tw_status st = TW_OK;

	if (reach && reach->how != TW_REACH_ALL)
		return tw_fail(why, TW_REFUSED,
			       "%.200s: only the process that has the master reads "
			       "a stream",
			       name);
	f = tw_heap_zeros(heap, sizeof *f);
	if (!f)
		return tw_fail(why, TW_NO_MEMORY, "%.200s: no memory to read it", name);
	*f = (struct tw_feed){ .heap = heap, .fd = -1, .listener = -1, .follow = follow };
	snprintf(f->name, sizeof f->name, "%s", strcmp(name, "-") == 0 ? "standard input" : name);
	if (strcmp(name, "-") == 0) {
		f->fd = STDIN_FILENO;
		f->repeats = fstat(f->fd, &s) == 0 && S_ISREG(s.st_mode);
		if (follow && !f->repeats)
			st = tw_fail(why, TW_BAD_INPUT,
				     "follow: standard input is no regular file; leave this out");
	} else if (strncmp(name, "tcp:", 4) == 0) {
		st = follow ? tw_fail(why, TW_BAD_INPUT,
				      "follow: a connection does not grow behind its end; leave "
				      "this out")
			    : listen_at(f, name + 4, why);
	} else {
		st = open_path(f, reach, name, why);
	}
	if (st != TW_OK) {
		tw_feed_close(f);
		return st;
	}
	*out = f;
	return TW_OK;
}

void tw_feed_close(struct tw_feed *f)
{
	if (!f)
		return;
	if (f->fd >= 0 && f->own)
		close(f->fd);
	if (f->listener >= 0)
		close(f->listener);
	f->heap->put(f->heap, f->text);
	f->heap->put(f->heap, f);
}

/* --- reading --------------------------------------------------------------------------------- */

/* (1) False: stopped. */
static bool wait_for(int fd, const _Atomic bool *stop)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!atomic_load_explicit(stop, memory_order_relaxed)) {
		if (fd < 0) {
			poll(NULL, 0, LOOK_EVERY);
			return true;
		}
		if (poll(&p, 1, LOOK_EVERY) > 0)
			return true;
	}
	return false;
}

/* A FIFO that nobody has opened for writing yet is at its end, and says so. */
static bool had_no_writer(const struct tw_feed *f)
{
	struct stat s;

	return f->own && !f->number && !f->to && fstat(f->fd, &s) == 0 && S_ISFIFO(s.st_mode);
}

static enum tw_status fill(struct tw_feed *f, const _Atomic bool *stop, struct tw_error *why)
{
	if (f->listener >= 0 && f->fd < 0) {
		if (!wait_for(f->listener, stop))
			return TW_ABSENT;
		f->fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
		f->own = true;
		if (f->fd < 0)
			return tw_fail(why, TW_IO, "%s: nobody could connect: %s", f->name,
				       strerror(errno));
	}
	if (f->from) {
		memmove(f->text, f->text + f->from, f->to - f->from);
		f->to -= f->from;
		f->looked -= f->from;
		f->from = 0;
	}
	if (!TW_GROW(f->heap, f->text, f->room, f->to, f->to + (f->room ? LEAST : PIECE)))
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for a line", f->name);
	for (;;) {
		ssize_t n;

		if (!wait_for(f->fd, stop))
			return TW_ABSENT;
		n = read(f->fd, f->text + f->to, f->room - f->to);
		if (n > 0) {
			f->to += (size_t)n;
			return TW_OK;
		}
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return tw_fail(why, TW_IO, "%s: cannot be read: %s", f->name,
				       strerror(errno));
		if (n == 0 && !f->follow && !had_no_writer(f)) {
			f->ended = true;
			return TW_OK;
		}
		if (!wait_for(-1, stop))
			return TW_ABSENT;
	}
}

/* What is read so far of a line that is too long is let go. */
static void pass_over(struct tw_feed *f)
{
	f->passing = true;
	f->from = f->looked = f->to;
}

enum tw_status tw_feed_line(struct tw_feed *f, const _Atomic bool *stop, char **line, size_t *bytes,
			    struct tw_error *why)
{
	for (;;) {
		char *end = f->text ? memchr(f->text + f->looked, '\n', f->to - f->looked) : NULL;
		const bool over = f->passing;
		enum tw_status st;

		f->looked = f->to;
		if (!end && f->ended && f->from < f->to) /* (2) */
			end = f->text + f->to;
		if (end) {
			*line = f->text + f->from;
			*bytes = (size_t)(end - *line);
			f->from = f->looked = (size_t)(end - f->text) + (end < f->text + f->to);
			f->number++;
			f->passing = false;
			if (*bytes && (*line)[*bytes - 1] == '\r')
				--*bytes;
			return over ? TW_NO_ROOM : TW_OK;
		}
		if (f->ended)
			return TW_ABSENT;
		if (f->to - f->from > TW_LINE_MOST)
			pass_over(f);
		st = fill(f, stop, why);
		if (st != TW_OK)
			return st;
	}
}

uint64_t tw_feed_number(const struct tw_feed *f)
{
	return f->number;
}
