/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - whole files that survive a power cut, and directories that go as a whole. */
#include "checkpoint/files.h"

#include "base/machine/memory_room.h"
#include "base/machine/regular_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define SURELY ((size_t)64 << 20) /* bytes of memory that nobody asks for */

int tw_folder_at(int at, const char *name)
{
	const int follow = at == AT_FDCWD ? 0 : O_NOFOLLOW;
	const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
	const int cause = errno;

	if (fd < 0 && (!tw_regular_check(at, name, true) || !tw_is_link(errno)))
		errno = cause;
	return fd;
}

enum tw_status tw_file_add(int fd, const void *bytes, size_t len)
{
	const char *from = bytes;

	while (len > 0) {
		const ssize_t n = write(fd, from, len < (1u << 30) ? len : 1u << 30);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return TW_IO;
		from += n;
		len -= (size_t)n;
	}
	return TW_OK;
}

static enum tw_status write_all(int fd, const struct iovec *piece, size_t pieces)
{
	for (size_t k = 0; k < pieces; k++)
		if (tw_file_add(fd, piece[k].iov_base, piece[k].iov_len) != TW_OK)
			return TW_IO;
	return fsync(fd) ? TW_IO : TW_OK;
}

static enum tw_status open_trouble(void)
{
	return tw_not_regular(errno) ? TW_BAD_INPUT : TW_IO;
}

static struct iovec piece_of(const void *bytes, size_t len)
{
	return (struct iovec){ .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
}

enum tw_status tw_file_write(int at, const char *name, const void *bytes, size_t len)
{
	const struct iovec all = piece_of(bytes, len);

	return tw_file_write_pieces(at, name, &all, 1);
}

enum tw_status tw_file_write_pieces(int at, const char *name, const struct iovec *piece,
				    size_t pieces)
{
	const int fd = tw_regular_open(at, name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	enum tw_status status;
	int cause;

	if (fd < 0)
		return open_trouble();
	status = write_all(fd, piece, pieces);
	cause = errno;
	if (close(fd) && status == TW_OK) {
		cause = errno;
		status = TW_IO;
	}
	if (status != TW_OK)
		unlinkat(at, name, 0);
	errno = cause;
	return status;
}

int tw_file_nameless(int at)
{
	if (access("/proc/self/fd", X_OK)) /* then it could not be given a name */
		return -1;
	return openat(at, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

enum tw_status tw_file_name(int fd, int at, const char *name)
{
	char from[40];

	snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, from, at, name, AT_SYMLINK_FOLLOW) ? TW_IO : TW_OK;
}

bool tw_file_beside(const char *name, char *out, size_t room)
{
	uint32_t dice = 0;

	if (getrandom(&dice, sizeof dice, 0) != sizeof dice)
		dice = (uint32_t)getpid();
	if ((size_t)snprintf(out, room, "%s.%08" PRIx32 ".new", name, dice) < room)
		return true;
	errno = ENAMETOOLONG;
	return false;
}

/* A new file under this name, whole or not at all. */
static enum tw_status write_new(int at, const char *name, tw_file_fill fill, void *arg)
{
	int fd = tw_file_nameless(at), cause;
	const bool nameless = fd >= 0;
	enum tw_status status;

	if (!nameless)
		fd = openat(at, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return TW_IO;
	status = fill(arg, fd);
	if (status == TW_OK && fsync(fd))
		status = TW_IO;
	if (status == TW_OK && nameless)
		status = tw_file_name(fd, at, name);
	cause = errno;
	if (close(fd) && status == TW_OK) {
		cause = errno;
		status = TW_IO;
	}
	if (status != TW_OK && !nameless)
		unlinkat(at, name, 0);
	errno = cause;
	return status;
}

static enum tw_status fill_piece(void *arg, int fd)
{
	const struct iovec *all = arg;

	return tw_file_add(fd, all->iov_base, all->iov_len);
}

enum tw_status tw_file_replace(int at, const char *name, const void *bytes, size_t len)
{
	struct iovec all = piece_of(bytes, len);

	return tw_file_replace_by(at, name, fill_piece, &all);
}

enum tw_status tw_file_replace_by(int at, const char *name, tw_file_fill fill, void *arg)
{
	char beside[300];
	enum tw_status status;
	int cause;

	if (!tw_file_beside(name, beside, sizeof beside))
		return TW_IO;
	if (tw_regular_check(at, name, true) && !tw_is_link(errno))
		return open_trouble(); /* renaming would put an end to a device */
	status = write_new(at, beside, fill, arg);
	if (status != TW_OK)
		return status;
	if (renameat(at, beside, at, name)) {
		cause = errno;
		unlinkat(at, beside, 0);
		errno = cause;
		return TW_IO;
	}
	return fsync(at) ? TW_IO : TW_OK;
}

static enum tw_status read_all(int fd, uint8_t *to, size_t len)
{
	while (len > 0) {
		const ssize_t n = read(fd, to, len < (1u << 30) ? len : 1u << 30);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return TW_IO;
		to += n;
		len -= (size_t)n;
	}
	return TW_OK;
}

/* Is there room for so much?  Memory that is promised and not there ends the process. */
static bool has_room(size_t bytes)
{
	return bytes <= SURELY || bytes < tw_memory_room().bytes;
}

/* Of a file that is longer than `most` its beginning, if `some` says so. */
static enum tw_status read_file(int fd, size_t most, bool some, struct tw_heap *heap,
				struct tw_block **out, uint64_t *whole)
{
	struct tw_block *b = NULL;
	enum tw_status status;
	struct stat st;
	size_t n;

	if (fstat(fd, &st))
		return TW_IO;
	*whole = (uint64_t)st.st_size;
	if (*whole > most && !some)
		return TW_BAD_BYTES;
	n = *whole > most ? most : (size_t)*whole;
	if (!has_room(n) || !(b = tw_block_new(heap, n + 1)))
		return TW_NO_MEMORY;
	status = read_all(fd, b->data, n);
	if (status != TW_OK) {
		tw_block_drop(b);
		return status;
	}
	b->data[n] = 0;
	b->bytes = n;
	*out = b;
	return TW_OK;
}

static enum tw_status open_and_read(int at, const char *name, size_t most, bool some,
				    struct tw_heap *heap, struct tw_block **out, uint64_t *whole)
{
	const int fd = tw_regular_open(at, name, O_RDONLY, 0);
	enum tw_status status;

	if (fd < 0)
		return errno == ENOENT ? TW_ABSENT : open_trouble();
	status = read_file(fd, most, some, heap, out, whole);
	close(fd);
	return status;
}

enum tw_status tw_file_begin(int at, const char *name, size_t most, struct tw_heap *heap,
			     struct tw_block **out, uint64_t *whole)
{
	return open_and_read(at, name, most, true, heap, out, whole);
}

enum tw_status tw_file_read(int at, const char *name, size_t most, struct tw_heap *heap,
			    struct tw_block **out)
{
	uint64_t whole;

	return open_and_read(at, name, most, false, heap, out, &whole);
}

/* --- whole directories --- */

static bool is_folder(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

struct walk {
	tw_known_name known;
	bool removes; /* otherwise it only looks */
	char *odd;
};

static enum tw_status walk_folder(const struct walk *w, int at, const char *name, unsigned depth);

static enum tw_status walk_entry(const struct walk *w, int at, const char *name, unsigned depth)
{
	if (!w->known(name, depth)) {
		snprintf(w->odd, TW_ODD, "%.80s in it is not a file of ours", name);
		return TW_REFUSED;
	}
	if (is_folder(at, name))
		return walk_folder(w, at, name, depth + 1);
	return w->removes && unlinkat(at, name, 0) ? TW_IO : TW_OK;
}

static enum tw_status walk_folder(const struct walk *w, int at, const char *name, unsigned depth)
{
	const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	enum tw_status status = TW_OK;
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return TW_IO;
	}
	while (status == TW_OK && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			status = walk_entry(w, fd, e->d_name, depth);
	closedir(d);
	if (status == TW_OK && w->removes && unlinkat(at, name, AT_REMOVEDIR))
		status = TW_IO;
	return status;
}

enum tw_status tw_folder_look(int at, const char *name, tw_known_name known, char odd[TW_ODD])
{
	const struct walk looking = { .known = known, .odd = odd };
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? TW_OK : TW_IO;
	if (!S_ISDIR(st.st_mode)) {
		snprintf(odd, TW_ODD, "it is %s",
			 S_ISLNK(st.st_mode) ? "a symbolic link" : "no directory");
		return TW_REFUSED;
	}
	return walk_folder(&looking, at, name, 0);
}

enum tw_status tw_folder_remove(int at, const char *name, tw_known_name known, char odd[TW_ODD])
{
	const struct walk removing = { .known = known, .removes = true, .odd = odd };
	const enum tw_status status = tw_folder_look(at, name, known, odd);

	if (status != TW_OK || !is_folder(at, name))
		return status;
	return walk_folder(&removing, at, name, 0);
}

bool tw_folder_is_ours(const char *path, bool (*is_sign)(const char *name), tw_known_name known,
		       char odd[TW_ODD])
{
	DIR *d = opendir(path);
	bool foreign = false, ours = !d;
	const struct dirent *e;

	while (!ours && (e = readdir(d))) {
		ours = is_sign(e->d_name);
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    known(e->d_name, 0))
			continue;
		foreign = true;
		snprintf(odd, TW_ODD, "%.100s", e->d_name);
	}
	if (d)
		closedir(d);
	return ours || !foreign;
}

enum tw_status tw_folder_make(const char *path)
{
	char part[4096];
	struct stat st;

	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
		errno = ENAMETOOLONG;
		return TW_IO;
	}
	for (char *s = part + 1; *s; s++) {
		if (*s != '/')
			continue;
		*s = 0;
		if (mkdir(part, 0777) && errno != EEXIST)
			return TW_IO;
		*s = '/';
	}
	if (mkdir(part, 0777) && errno != EEXIST)
		return TW_IO;
	if (stat(part, &st))
		return TW_IO;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return TW_IO;
	}
	return TW_OK;
}
