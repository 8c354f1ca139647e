/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - whole files that survive a power cut, and directories that go as a whole. */
#ifndef TW_CHECKPOINT_FILES_H
#define TW_CHECKPOINT_FILES_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

/* The directory as a descriptor, or -1 with errno. */
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
 * others have beside it stays.  What is at `name` must be a regular file, or nothing:
 * TW_BAD_INPUT. */
enum tw_status tw_file_replace(int at, const char *name, const void *bytes, size_t len);
/* The same, with what `fill` writes to the descriptor by tw_file_add; where it fails, nothing
 * changes, and its status is given back. */
typedef enum tw_status (*tw_file_fill)(void *arg, int fd);
enum tw_status tw_file_replace_by(int at, const char *name, tw_file_fill fill, void *arg);
enum tw_status tw_file_add(int fd, const void *bytes, size_t len); /* TW_IO: see errno */
/* The whole file as a block with one reference and a zero byte behind its `bytes`.  TW_ABSENT,
 * TW_IO (errno is set), TW_NO_MEMORY; TW_BAD_BYTES if it is longer than `most`; TW_BAD_INPUT if
 * it is not a regular file (errno is set: base/regular_file.h). */
enum tw_status tw_file_read(int at, const char *name, size_t most, struct tw_heap *heap,
			    struct tw_block **out);
/* Remove the directory and the plain files in it.  One that is not there counts as removed. */
enum tw_status tw_folder_remove(int at, const char *name);
/* Make a directory and those above it; TW_OK if it is there already.  TW_IO: see errno. */
enum tw_status tw_folder_make(const char *path);

#endif
