/* SPDX-License-Identifier: Apache-2.0 */
/* input.h - a file that is read from its beginning to its end, inflated where it is gzip. */
#ifndef TW_DATA_INPUT_H
#define TW_DATA_INPUT_H

#include "base/heap.h"
#include "base/status.h"
#include "data/listener.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which files may be opened.  A job that came from a master names paths, and a process that joined
 * must not open them just because the master says so: a master could make it train on any file that
 * its user can read. */
enum tw_reach_how {
	TW_REACH_ALL,    /* as named; relative paths begin at `folder`, "" is here */
	TW_REACH_WITHIN, /* the file of that name in `folder`, wherever the path says it is */
	TW_REACH_NONE,
};
struct tw_reach {
	enum tw_reach_how how;
	const char *folder;
};
/* The folder `name` as a path.  WITHIN: that of its last part, and really inside; false: there is
 * none, it lies elsewhere, it may not be opened, or its path is too long. */
#define TW_REACH_PATH 4096
bool tw_reach_folder(const struct tw_reach *r, const char *name, char out[TW_REACH_PATH]);

struct tw_input;

/* Open `name` as far as `reach` (NULL: all, from here) allows.  TW_BAD_INPUT where it is missing,
 * is not a regular file or may not be read; TW_REFUSED where nothing may be opened.  WITHIN, no
 * link and no .. leads out of the folder. */
enum tw_status tw_input_open(struct tw_heap *heap, const struct tw_reach *reach, const char *name,
			     struct tw_input **out, struct tw_error *why);
/* The same for what the user named on the command line: "-" is standard input, and pipes, sockets
 * and terminals are accepted too.  Those are read to their end at once, inflated, and cannot be
 * larger than the machine's memory; what is read afterwards comes from there. */
enum tw_status tw_input_open_stream(struct tw_heap *heap, const char *name, struct tw_input **out,
				    struct tw_error *why);
/* Tell how much of the file was read; the listener must stay until the close.  NULL: nobody.  Who
 * reads a stream, whose size nobody knows, is told nothing. */
void tw_input_listen(struct tw_input *in, const struct tw_data_listener *listener);
void tw_input_close(struct tw_input *in); /* NULL is allowed */
/* The path for sentences; a very long one is cut at its front. */
const char *tw_input_name(const struct tw_input *in);
/* No more bytes than this can come out of it in all: the file's size, or what gzip could make of
 * it.  Code that trusts a header checks it against this before it allocates memory. */
uint64_t tw_input_most(const struct tw_input *in);
bool tw_input_exact(const struct tw_input *in);  /* tw_input_most is the very size */
uint64_t tw_input_at(const struct tw_input *in); /* bytes read so far (after inflating) */
/* Its first bytes (after inflating) without taking them: at most TW_INPUT_AHEAD, *n says how many
 * there are.  Only before anything was read. */
#define TW_INPUT_AHEAD 8
enum tw_status tw_input_peek(struct tw_input *in, uint8_t out[TW_INPUT_AHEAD], size_t *n,
			     struct tw_error *why);
/* Exactly n bytes.  TW_BAD_INPUT where it ends before: the sentence says where, and that `what`
 * was expected. */
enum tw_status tw_input_read(struct tw_input *in, void *to, size_t n, const char *what,
			     struct tw_error *why);
/* As many as there are, at most n: *got is less only at the end. */
enum tw_status tw_input_up_to(struct tw_input *in, void *to, size_t n, size_t *got,
			      struct tw_error *why);
/* Nothing may follow: TW_BAD_INPUT with the place where something does. */
enum tw_status tw_input_end(struct tw_input *in, struct tw_error *why);
/* All of the file as memory that is read when it is used, for munmap; it stays good after the
 * close.  TW_BAD_INPUT: it is gzip, empty, or no file. */
enum tw_status tw_input_map(const struct tw_input *in, const void **at, uint64_t *bytes,
			    struct tw_error *why);
/* All that is left, as memory of the heap with one zero byte behind it. */
enum tw_status tw_input_all(struct tw_input *in, char **out, size_t *bytes, struct tw_error *why);

#endif
