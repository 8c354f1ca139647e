/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - whole files that survive a power cut, and directories that go as a whole. */
#ifndef TW_CHECKPOINT_FILES_H
#define TW_CHECKPOINT_FILES_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* The directory as a descriptor, or -1 with errno (base/machine/regular_file.h).  As there, only a
 * name in the working directory may be a symbolic link. */
int tw_folder_at(int at, const char *name);
/* Write `len` bytes to a new file and sync it.  On failure the file is gone and errno is set.
 * TW_BAD_INPUT where there is something that is not a regular file; tw_cause has the text. */
enum tw_status tw_file_write(int at, const char *name, const void *bytes, size_t len);
/* The same of several pieces, one after the other. */
enum tw_status tw_file_write_pieces(int at, const char *name, const struct iovec *piece,
				    size_t pieces);
/* A file in this folder that has no name until it is whole: nothing of it stays behind, whatever
 * ends us.  -1 with errno; also where the file system has none. */
int tw_file_nameless(int at);
enum tw_status tw_file_name(int fd, int at, const char *name); /* TW_IO: see errno */
/* A name beside this one that nobody else uses.  False: it is too long. */
bool tw_file_beside(const char *name, char *out, size_t room);
/* Write beside `name`, sync, rename over it, sync the directory: old or new, never half.  What
 * others have beside it stays.  What is at `name` must be a regular file, a link, whose place is
 * taken and whose target stays as it is, or nothing: TW_BAD_INPUT. */
enum tw_status tw_file_replace(int at, const char *name, const void *bytes, size_t len);
/* The same, with what `fill` writes to the descriptor by tw_file_add; it may read from it, too.
 * Where it fails, nothing changes, and its status is given back. */
typedef enum tw_status (*tw_file_fill)(void *arg, int fd);
enum tw_status tw_file_replace_by(int at, const char *name, tw_file_fill fill, void *arg);
enum tw_status tw_file_add(int fd, const void *bytes, size_t len); /* TW_IO: see errno */
/* The first `most` bytes of a file, or all of it, as below; *whole is how many it has. */
enum tw_status tw_file_begin(int at, const char *name, size_t most, struct tw_heap *heap,
			     struct tw_block **out, uint64_t *whole);
/* The whole file as a block with one reference and a zero byte behind its `bytes`.  TW_ABSENT,
 * TW_IO (errno is set), TW_NO_MEMORY (before any of it is read); TW_BAD_BYTES if it is longer than
 * `most`; TW_BAD_INPUT if it is not a regular file (errno is set: base/machine/regular_file.h). */
enum tw_status tw_file_read(int at, const char *name, size_t most, struct tw_heap *heap,
			    struct tw_block **out);
/* Is a file or folder of this name, so many folders deep (0: directly), one of those that may be
 * removed? */
typedef bool (*tw_known_name)(const char *name, unsigned depth);
#define TW_ODD 160
/* Remove the directory with what is in it, if all of that has a known name.  Otherwise TW_REFUSED,
 * and everything stays: odd says why, also where it is not a directory.  Links are not followed.
 * One that is not there counts as removed.  TW_IO: see errno. */
enum tw_status tw_folder_remove(int at, const char *name, tw_known_name known, char odd[TW_ODD]);
/* Would tw_folder_remove refuse it? */
enum tw_status tw_folder_look(int at, const char *name, tw_known_name known, char odd[TW_ODD]);
/* Is the directory not there, or empty but for known names, or does it have a name that is a sign
 * of its use?  Otherwise odd is the name of a file in it.  One that cannot be read is left to
 * whoever opens it: true. */
bool tw_folder_is_ours(const char *path, bool (*is_sign)(const char *name), tw_known_name known,
		       char odd[TW_ODD]);
/* Make a directory and those above it; TW_OK if it is there already.  TW_IO: see errno. */
enum tw_status tw_folder_make(const char *path);

#endif
