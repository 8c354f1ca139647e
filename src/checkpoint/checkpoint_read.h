/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_read.h - a checkpoint on disk (checkpoint_directory.h), checked to its last byte. */
#ifndef TW_CHECKPOINT_CHECKPOINT_READ_H
#define TW_CHECKPOINT_CHECKPOINT_READ_H

#include "actor/actor.h"

#include <jansson.h>

struct tw_cut_files {
	struct tw_heap *heap;
	int fd; /* the cut's directory; -1: none */
	json_t *manifest;
	uint64_t number;
	struct tw_part *part;
	size_t parts;
	char why[200]; /* after TW_BAD_BYTES: which file, and what is wrong with it */
};

/* The name of the part of what is frozen, and the field of the manifest that has its row: actors do
 * not have it, so it is not in the list of parts. */
#define TW_CUT_FROZEN "frozen"

/* ckpt-<n> gives n; anything else, also ckpt-<n>.new, gives 0. */
uint64_t tw_cut_number(const char *name);
/* Numbers of the cuts under a directory, newest first, in *out for free().  TW_IO: see errno. */
enum tw_status tw_cut_list(int at, uint64_t **out, size_t *count);

/* Open the cut's directory and check its manifest against DONE; the parts are not read yet.
 * Release in any case. */
enum tw_status tw_cut_open(struct tw_heap *heap, int at, const char *name,
			   struct tw_cut_files *out);
/* Read every part and check it; of those parts of shards that hold none of the parameters from..to
 * only the head (node/checkpoint_part.h), unless these are 0..UINT64_MAX.  Heads are of files that
 * are checked to their last byte as well, unless `trusted`: they were before. */
enum tw_status tw_cut_parts_of(struct tw_cut_files *c, uint64_t from, uint64_t to, bool trusted);
/* The parameters of one shard, in its file. */
struct tw_cut_range {
	uint64_t from, to;
	uint64_t offset; /* of the first float */
	const char *file;
	int fd; /* -1: it is opened when it is read */
};
/* Check every part to its last byte without keeping any, and list where the parameters are, in
 * order; *out from the heap, for tw_cut_ranges_free.  TW_BAD_BYTES: also where some are missing. */
enum tw_status tw_cut_ranges(struct tw_cut_files *c, struct tw_cut_range **out, size_t *count);
void tw_cut_ranges_free(struct tw_heap *heap, struct tw_cut_range *range, size_t count);
/* Read the parameters from..from+n. */
enum tw_status tw_cut_floats(struct tw_cut_files *c, const struct tw_cut_range *range, size_t count,
			     uint64_t from, uint64_t n, float *out);
/* A sentence about one of its files; gives TW_BAD_BYTES. */
enum tw_status tw_cut_bad(struct tw_cut_files *c, const char *file, const char *what);
/* Do these parts, or their heads, have the master's and all of `all` parameters, each once?  Hashes
 * do not say so where somebody made them. */
enum tw_status tw_cut_is_whole(struct tw_heap *heap, const struct tw_part *parts, size_t count,
			       uint64_t all); /* TW_BAD_BYTES, TW_NO_MEMORY */
void tw_cut_release(struct tw_cut_files *c);
void tw_cut_drop_parts(struct tw_heap *heap, struct tw_part *part, size_t parts);

#endif
