/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - plain and gzipped files through one door, with the ends checked.
 *
 * zlib's own gz functions take a file that lost its tail for one that ended, and take plain bytes
 * behind a gzip member for nothing; here both are refused.  zlib's memory comes from the heap. */
#include "data/input.h"

#include "base/grow.h"
#include "base/machine/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#define BUFFER (1u << 16)
#define SHOWN  240
#define RATIO  1040 /* deflate makes at most 1032 bytes of one */

struct tw_input {
	struct tw_heap *heap;
	int fd; /* -1: all of it is in memory */
	char *memory;
	bool stream;                             /* nobody knows its size */
	bool gzip, ended;                        /* ended: after a member's end and nothing else */
	uint64_t size, at;                       /* of the file; bytes handed out */
	uint64_t into;                           /* bytes read from the file */
	const struct tw_data_listener *listener; /* NULL: nobody */
	z_stream z;
	bool inflating;
	uint8_t *first, *last;         /* bytes of the buffer or the memory that nobody has taken */
	uint8_t ahead[TW_INPUT_AHEAD]; /* what was peeked at: these are the next bytes */
	size_t ahead_at, ahead_end;
	char shown[SHOWN];
	uint8_t buffer[BUFFER];
};

static void show(const char *path, char out[SHOWN])
{
	const size_t n = strlen(path);

	if (n < SHOWN)
		memcpy(out, path, n + 1);
	else
		snprintf(out, SHOWN, "...%s", path + n - (SHOWN - 4));
}

const char *tw_input_name(const struct tw_input *in)
{
	return in->shown;
}

uint64_t tw_input_most(const struct tw_input *in)
{
	uint64_t most;

	if (!in->gzip || in->stream)
		return in->size;
	return __builtin_mul_overflow(in->size, (uint64_t)RATIO, &most) ? UINT64_MAX : most;
}

bool tw_input_exact(const struct tw_input *in)
{
	return !in->gzip && !in->stream;
}

uint64_t tw_input_at(const struct tw_input *in)
{
	return in->at;
}

static enum tw_status trouble(const struct tw_input *in, struct tw_error *why)
{
	return tw_fail(why, TW_IO, "%s: cannot be read: %s", in->shown, strerror(errno));
}

/* Wait until a stream that does not block has something. */
static bool ready(const struct tw_input *in)
{
	struct pollfd p = { .fd = in->fd, .events = POLLIN };

	return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

/* As many bytes of the file as come at once; *got 0 at its end. */
static enum tw_status pull(struct tw_input *in, void *to, size_t n, size_t *got,
			   struct tw_error *why)
{
	const uint64_t before = in->into / TW_HEARD_EVERY;
	ssize_t k;

	if (in->fd < 0) {
		*got = 0;
		return TW_OK;
	}
	if (in->listener && n > TW_HEARD_EVERY)
		n = TW_HEARD_EVERY;
	do
		k = read(in->fd, to, n < (1u << 30) ? n : 1u << 30);
	while (k < 0 && (errno == EINTR || (in->stream && errno == EAGAIN && ready(in))));
	if (k < 0)
		return trouble(in, why);
	*got = (size_t)k;
	in->into += (size_t)k;
	if (in->listener && in->into / TW_HEARD_EVERY > before)
		in->listener->heard(in->listener->arg, in->shown, "reading", in->into, in->size);
	return TW_OK;
}

void tw_input_listen(struct tw_input *in, const struct tw_data_listener *listener)
{
	in->listener = listener && listener->heard && !in->stream ? listener : NULL;
}

static enum tw_status refill(struct tw_input *in, struct tw_error *why)
{
	size_t got = 0;
	enum tw_status st;

	if (in->first < in->last)
		return TW_OK;
	st = pull(in, in->buffer, BUFFER, &got, why);
	if (st == TW_OK) {
		in->first = in->buffer;
		in->last = in->buffer + got;
	}
	return st;
}

static void *z_get(void *heap, unsigned items, unsigned each)
{
	struct tw_heap *h = heap;

	return each && items > SIZE_MAX / each ? NULL : tw_heap_zeros(h, (size_t)items * each);
}

static void z_put(void *heap, void *memory)
{
	struct tw_heap *h = heap;

	h->put(h, memory);
}

static enum tw_status start_inflating(struct tw_input *in, struct tw_error *why)
{
	in->z = (z_stream){ .zalloc = z_get, .zfree = z_put, .opaque = in->heap };
	if (inflateInit2(&in->z, 15 + 16) != Z_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for inflating it", in->shown);
	in->inflating = true;
	return TW_OK;
}

static enum tw_status damaged(const struct tw_input *in, const char *how, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: byte %" PRIu64 ": its gzip data %s; a whole gzip file is needed",
		       in->shown, in->into - (uint64_t)(in->last - in->first), how);
}

/* What stands behind a member: nothing, or another member. */
static enum tw_status next_member(struct tw_input *in, struct tw_error *why)
{
	enum tw_status st = refill(in, why);

	if (st != TW_OK)
		return st;
	if (in->first == in->last) {
		in->ended = true;
		return TW_OK;
	}
	if (*in->first != 0x1f)
		return damaged(in, "is followed by bytes that are not gzip", why);
	inflateReset(&in->z);
	return TW_OK;
}

/* Inflate up to n bytes; *got is 0 only at the end. */
static enum tw_status inflate_some(struct tw_input *in, void *to, size_t n, size_t *got,
				   struct tw_error *why)
{
	const unsigned most = n < (1u << 30) ? (unsigned)n : 1u << 30;
	enum tw_status st = TW_OK;

	in->z.next_out = to;
	in->z.avail_out = most;
	while (st == TW_OK && !in->ended && in->z.avail_out == most) {
		int rc;

		st = refill(in, why);
		if (st != TW_OK)
			break;
		if (in->first == in->last)
			return damaged(in, "is truncated", why);
		in->z.next_in = in->first;
		in->z.avail_in = (unsigned)(in->last - in->first);
		rc = inflate(&in->z, Z_NO_FLUSH);
		in->first = in->last - in->z.avail_in;
		if (rc == Z_MEM_ERROR)
			return tw_fail(why, TW_NO_MEMORY, "%s: no memory for inflating it",
				       in->shown);
		if (rc == Z_STREAM_END)
			st = next_member(in, why);
		else if (rc != Z_OK && rc != Z_BUF_ERROR)
			return damaged(in, "is damaged", why);
	}
	*got = most - in->z.avail_out;
	return st;
}

/* Up to n bytes; *got is 0 only at the end. */
static enum tw_status some(struct tw_input *in, void *to, size_t n, size_t *got,
			   struct tw_error *why)
{
	enum tw_status st = TW_OK;

	if (n == 0) {
		*got = 0;
	} else if (in->ahead_at < in->ahead_end) {
		*got = in->ahead_end - in->ahead_at < n ? in->ahead_end - in->ahead_at : n;
		memcpy(to, in->ahead + in->ahead_at, *got);
		in->ahead_at += *got;
	} else if (in->gzip) {
		st = inflate_some(in, to, n, got, why);
	} else if (in->first < in->last) {
		*got = (size_t)(in->last - in->first) < n ? (size_t)(in->last - in->first) : n;
		memcpy(to, in->first, *got);
		in->first += *got;
	} else {
		st = pull(in, to, n, got, why);
	}
	if (st == TW_OK)
		in->at += *got;
	return st;
}

enum tw_status tw_input_peek(struct tw_input *in, uint8_t out[TW_INPUT_AHEAD], size_t *n,
			     struct tw_error *why)
{
	size_t have = (size_t)(in->last - in->first), got = 1;

	if (!in->gzip) { /* opening has filled the buffer */
		*n = have < TW_INPUT_AHEAD ? have : TW_INPUT_AHEAD;
		memcpy(out, in->first, *n);
		return TW_OK;
	}
	have = 0;
	while (have < TW_INPUT_AHEAD && got > 0) {
		const enum tw_status st =
			some(in, in->ahead + have, TW_INPUT_AHEAD - have, &got, why);

		if (st != TW_OK)
			return st;
		have += got;
	}
	in->ahead_end = have;
	in->at = 0;
	memcpy(out, in->ahead, have);
	*n = have;
	return TW_OK;
}

enum tw_status tw_input_up_to(struct tw_input *in, void *to, size_t n, size_t *got,
			      struct tw_error *why)
{
	size_t more = 1;

	*got = 0;
	while (*got < n && more > 0) {
		const enum tw_status st = some(in, (uint8_t *)to + *got, n - *got, &more, why);

		if (st != TW_OK)
			return st;
		*got += more;
	}
	return TW_OK;
}

enum tw_status tw_input_read(struct tw_input *in, void *to, size_t n, const char *what,
			     struct tw_error *why)
{
	const uint64_t from = in->at;
	size_t got;
	const enum tw_status st = tw_input_up_to(in, to, n, &got, why);

	if (st != TW_OK || got == n)
		return st;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: ends at byte %" PRIu64 ", but %s (%zu bytes from byte %" PRIu64
		       ") should be there",
		       in->shown, in->at, what, n, from);
}

enum tw_status tw_input_end(struct tw_input *in, struct tw_error *why)
{
	const uint64_t end = in->at;
	size_t got = 0;
	char byte;
	const enum tw_status st = some(in, &byte, 1, &got, why);

	if (st != TW_OK || got == 0)
		return st;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: continues after byte %" PRIu64 ", where its header says it ends",
		       in->shown, end);
}

/* Twice the room, or at first the very size where that is known. */
static enum tw_status grow(struct tw_input *in, char **at, size_t used, size_t *room,
			   struct tw_error *why)
{
	const uint64_t most = tw_input_most(in);
	uint64_t wanted = *room ? (uint64_t)*room * 2 : BUFFER;

	if (tw_input_exact(in) && *room == 0)
		wanted = most + 2; /* one for the zero, one to see that it does not go on */
	if (wanted > SIZE_MAX / 2 || (in->stream && used > in->size))
		return tw_fail(why, TW_NO_MEMORY, "%s: is too large for memory", in->shown);
	if (!tw_grow(in->heap, at, room, used, (size_t)wanted, 1))
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for %" PRIu64 " bytes", in->shown,
			       wanted);
	return TW_OK;
}

enum tw_status tw_input_all(struct tw_input *in, char **out, size_t *bytes, struct tw_error *why)
{
	enum tw_status st = TW_OK;
	char *at = NULL;
	size_t room = 0, used = 0;

	if (in->memory && (char *)in->first == in->memory) {
		*bytes = (size_t)(in->last - in->first);
		*out = in->memory;
		in->memory = NULL;
		in->first = in->last;
		return TW_OK;
	}
	for (;;) {
		size_t got = 0;

		if (used + 1 >= room)
			st = grow(in, &at, used, &room, why);
		if (st == TW_OK)
			st = some(in, at + used, room - 1 - used, &got, why);
		if (st != TW_OK) {
			in->heap->put(in->heap, at);
			return st;
		}
		if (got == 0)
			break;
		used += got;
	}
	at[used] = 0;
	*out = at;
	*bytes = used;
	return TW_OK;
}

/* --- how far it reaches ----------------------------------------------------------------------- */

/* The last part of a path, without slashes behind it; false: it names no file. */
static bool last_part(const char *name, char out[TW_REACH_PATH])
{
	size_t end = strlen(name), from;

	while (end > 0 && name[end - 1] == '/')
		end--;
	for (from = end; from > 0 && name[from - 1] != '/';)
		from--;
	if (end - from >= TW_REACH_PATH)
		return false;
	memcpy(out, name + from, end - from);
	out[end - from] = 0;
	return out[0] && strcmp(out, ".") != 0 && strcmp(out, "..") != 0;
}

static bool join_path(const struct tw_reach *r, const char *name, char out[TW_REACH_PATH])
{
	const bool alone = !r || !r->folder[0] || (r->how == TW_REACH_ALL && name[0] == '/');
	const int n = snprintf(out, TW_REACH_PATH, "%s%s%s", alone ? "" : r->folder,
			       alone ? "" : "/", name);

	return n >= 0 && n < TW_REACH_PATH;
}

bool tw_reach_folder(const struct tw_reach *r, const char *name, char out[TW_REACH_PATH])
{
	char last[TW_REACH_PATH], path[TW_REACH_PATH];
	char *folder, *found;
	bool inside;
	size_t n;

	if (!r || r->how == TW_REACH_ALL)
		return join_path(r, name, out);
	if (r->how == TW_REACH_NONE || !last_part(name, last) || !join_path(r, last, path))
		return false;
	folder = realpath(r->folder, NULL);
	found = realpath(path, NULL);
	n = folder ? strlen(folder) : 0;
	while (n > 1 && folder[n - 1] == '/')
		n--;
	inside = folder && found && strncmp(folder, found, n) == 0 && (found[n] == '/' || n == 1) &&
		 strlen(found) < TW_REACH_PATH;
	if (inside)
		strcpy(out, found);
	free(folder);
	free(found);
	return inside;
}

/* Where the kernel cannot keep a path within a folder: an old one, or in a sandbox. */
static int open_checked(const struct tw_reach *r, const char *name, int flags)
{
	char path[TW_REACH_PATH];
	struct stat s;

	if (tw_reach_folder(r, name, path))
		return open(path, flags | O_NOFOLLOW);
	errno = join_path(r, name, path) && lstat(path, &s) == 0 ? EXDEV : ENOENT;
	return -1;
}

/* In its folder, whatever links are there; -1 with errno. */
static int open_within(const struct tw_reach *r, const char *name)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	const struct open_how how = {
		.flags = (uint64_t)flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	const int at = open(r->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd, error;

	if (at < 0)
		return -1;
	fd = (int)syscall(SYS_openat2, at, name, &how, sizeof how);
	error = errno;
	close(at);
	errno = error;
	if (fd < 0 && (error == ENOSYS || error == EPERM))
		fd = open_checked(r, name, flags);
	return fd < 0 ? -1 : tw_regular_keep(fd);
}

static enum tw_status open_plain(struct tw_input *in, const struct tw_reach *r, const char *name,
				 const char *path, struct tw_error *why)
{
	const bool within = r && r->how == TW_REACH_WITHIN;
	struct stat s;

	in->fd = within ? open_within(r, name) : tw_regular_open(AT_FDCWD, path, O_RDONLY, 0);
	if (in->fd < 0 && (errno == EXDEV || errno == ELOOP) && within)
		return tw_fail(why, TW_BAD_INPUT, "%s: is a link that leads out of its folder",
			       in->shown);
	if (in->fd < 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot be opened: %s", in->shown,
			       tw_cause(errno));
	if (fstat(in->fd, &s) != 0)
		return trouble(in, why);
	in->size = (uint64_t)s.st_size;
	return TW_OK;
}

/* A plain file, or anything that bytes come out of until it ends. */
static enum tw_status open_stream(struct tw_input *in, const char *path, struct tw_error *why)
{
	const bool standard = strcmp(path, "-") == 0;
	struct stat s;

	if (standard)
		show("standard input", in->shown);
	in->fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			  : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (in->fd < 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot be opened: %s", in->shown,
			       strerror(errno));
	if (fstat(in->fd, &s) != 0)
		return trouble(in, why);
	if (S_ISDIR(s.st_mode) || S_ISBLK(s.st_mode))
		return tw_fail(why, TW_BAD_INPUT, "%s: is %s; a file or a pipe is needed",
			       in->shown, S_ISDIR(s.st_mode) ? "a folder" : "a disk");
	in->stream = standard || !S_ISREG(s.st_mode);
	in->size = in->stream ? (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE)
			      : (uint64_t)s.st_size;
	return TW_OK;
}

/* All of the stream, so that its size is known. */
static enum tw_status into_memory(struct tw_input *in, struct tw_error *why)
{
	char *text = NULL;
	size_t bytes = 0;
	const enum tw_status st = tw_input_all(in, &text, &bytes, why);

	if (st != TW_OK)
		return st;
	close(in->fd);
	in->fd = -1;
	in->gzip = in->stream = false;
	in->memory = text;
	in->first = (uint8_t *)text;
	in->last = in->first + bytes;
	in->size = bytes;
	in->at = 0;
	return TW_OK;
}

/* How a path is opened. */
struct way {
	bool stream;                  /* anything that bytes come out of */
	const struct tw_reach *reach; /* else a plain file within this, ... */
	const char *last;             /* ... where it has this name */
};

static enum tw_status open_with(struct tw_heap *heap, const char *path, const struct way *w,
				struct tw_input **out, struct tw_error *why)
{
	struct tw_input *in = heap->get(heap, sizeof *in);
	enum tw_status st;

	if (!in)
		return tw_fail(why, TW_NO_MEMORY, "%.240s: no memory for reading it", path);
	memset(in, 0, offsetof(struct tw_input, buffer));
	in->heap = heap;
	in->first = in->last = in->buffer;
	show(path, in->shown);
	st = w->stream ? open_stream(in, path, why) : open_plain(in, w->reach, w->last, path, why);
	if (st == TW_OK)
		st = refill(in, why);
	/* the rest of a magic number may come later out of a pipe */
	if (st == TW_OK && in->stream && in->last - in->first == 1 && in->first[0] == 0x1f) {
		size_t got = 0;

		st = pull(in, in->buffer + 1, BUFFER - 1, &got, why);
		in->last += got;
	}
	if (st == TW_OK && in->last - in->first >= 2 && in->first[0] == 0x1f &&
	    in->first[1] == 0x8b) {
		in->gzip = true;
		st = start_inflating(in, why);
	}
	if (st == TW_OK && in->stream)
		st = into_memory(in, why);
	if (st == TW_OK)
		*out = in;
	else
		tw_input_close(in);
	return st;
}

/* `name` as it is looked for, and the whole path. */
static enum tw_status place(const struct tw_reach *r, const char *name, char last[TW_REACH_PATH],
			    char path[TW_REACH_PATH], struct tw_error *why)
{
	char shown[SHOWN];

	show(name, shown);
	if (r && r->how == TW_REACH_NONE)
		return tw_fail(why, TW_REFUSED, "%s: is named by the master, and not opened here",
			       shown);
	if (r && r->how == TW_REACH_WITHIN) {
		if (!last_part(name, last))
			return tw_fail(why, TW_BAD_INPUT, "%s: does not end in a file's name",
				       shown);
		name = last;
	}
	if (!join_path(r, name, path))
		return tw_fail(why, TW_BAD_INPUT, "%s: a path may have at most %d characters",
			       shown, TW_REACH_PATH - 1);
	return TW_OK;
}

enum tw_status tw_input_open(struct tw_heap *heap, const struct tw_reach *reach, const char *name,
			     struct tw_input **out, struct tw_error *why)
{
	char path[TW_REACH_PATH], last[TW_REACH_PATH];
	const enum tw_status st = place(reach, name, last, path, why);
	const struct way plain = { .reach = reach, .last = last };

	return st == TW_OK ? open_with(heap, path, &plain, out, why) : st;
}

enum tw_status tw_input_open_stream(struct tw_heap *heap, const char *name, struct tw_input **out,
				    struct tw_error *why)
{
	return open_with(heap, name, &(struct way){ .stream = true }, out, why);
}

enum tw_status tw_input_map(const struct tw_input *in, const void **at, uint64_t *bytes,
			    struct tw_error *why)
{
	void *map;

	if (in->gzip)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: is gzipped, and has to be read at any place; unzip it",
			       in->shown);
	if (in->fd < 0 || in->size == 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: is empty", in->shown);
	map = mmap(NULL, (size_t)in->size, PROT_READ, MAP_SHARED, in->fd, 0);
	if (map == MAP_FAILED)
		return tw_fail(why, TW_BAD_INPUT, "%s: cannot be mapped: %s", in->shown,
			       strerror(errno));
	*at = map;
	*bytes = in->size;
	return TW_OK;
}

void tw_input_close(struct tw_input *in)
{
	if (!in)
		return;
	if (in->inflating)
		inflateEnd(&in->z);
	if (in->fd >= 0)
		close(in->fd);
	in->heap->put(in->heap, in->memory);
	in->heap->put(in->heap, in);
}
