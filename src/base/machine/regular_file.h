/* SPDX-License-Identifier: Apache-2.0 */
/* regular_file.h - opens what must be a regular file. A FIFO, a socket, a device or a directory in
 * its place is refused at once: nothing waits for a writer, and no device is touched.
 *
 * A name in the working directory (AT_FDCWD) is a user's, and may be a symbolic link.  A name below
 * an open directory is ours: there a link is refused like everything else that is not a regular
 * file, so that nothing outside of that directory is ever reached. */
#ifndef TW_BASE_REGULAR_FILE_H
#define TW_BASE_REGULAR_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* As openat(at, name, flags, mode), for regular files alone.  -1 with errno on failure; errno is
 * then of the system or one of ours, and tw_cause has its text. */
int tw_regular_open(int at, const char *name, int flags, unsigned mode);
/* `fd`, opened with O_NONBLOCK, if it is a regular file; its calls wait again.  Else it is closed,
 * and -1 comes with errno. */
int tw_regular_keep(int fd);
/* 0, or -1 with errno: what is at `name` is not a regular file, or cannot be looked at.  Nothing
 * at all is fine where `absent` says so. */
int tw_regular_check(int at, const char *name, bool absent);
/* The names beside files that tw_regular_stream accepts, for sentences and help. */
#define TW_STREAM_NAMES "/dev/stdout, /dev/stderr or /dev/null"
/* As fopen(path, mode) for mode "a" or "w".  Accepts a regular file; /dev/null; and /dev/stdout,
 * /dev/stderr and /dev/fd/N, which are copies of open descriptors, whatever these are.  NULL with
 * errno on failure. */
FILE *tw_regular_stream(const char *path, const char *mode);
/* As open(path, O_RDONLY), for a regular file, or /dev/stdin and /dev/fd/N as above. */
int tw_regular_input(const char *path);

/* Was the refusal ours: the thing is there, but is not a regular file? */
bool tw_not_regular(int number);
/* Was it a symbolic link? */
bool tw_is_link(int number);
/* The text for an errno of the functions above: "it is a FIFO, not a regular file", or what
 * strerror says. */
const char *tw_cause(int number);

#endif
