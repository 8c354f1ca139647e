/* SPDX-License-Identifier: Apache-2.0 */
/* set_inner.h - what the files that read and write sets share (format/set_*.c). */
#ifndef TW_DATA_FORMAT_SET_INNER_H
#define TW_DATA_FORMAT_SET_INNER_H

#include "data/format/set_file.h"

#include <stddef.h>

#define TW_SET_VERSION 3u
#define TW_SET_SETS    3
#define TW_SET_PARTS   (2 * TW_SET_SETS + 1)
#define TW_SET_WEIGHTS (2 * TW_SET_SETS) /* the part that has them */
#define TW_SET_WEIGHED 256u
#define TW_SET_TOKENS  512u

struct tw_set_head {
	char magic[8];
	uint32_t version, rank, shape[TW_DATA_RANK], kind, classes, targets;
	uint64_t count[TW_SET_SETS];
	struct tw_sha fingerprint;
	uint64_t bytes, names, statistics, hash;
};
_Static_assert(sizeof(struct tw_set_head) == TW_SET_HEAD, "the head has no gaps");
_Static_assert(offsetof(struct tw_set_head, count) == 40 &&
		       offsetof(struct tw_set_head, hash) == 120,
	       "the head is laid out as the header says");
_Static_assert(sizeof(struct tw_column_facts) == 24 && sizeof(struct tw_target_facts) == 16,
	       "statistics are used as they lie");

/* Where everything lies.  Part 2k are values of set k, 2k + 1 its labels or targets. */
struct tw_set_piece {
	uint64_t from, bytes;
};
struct tw_set_layout {
	struct tw_set_piece names, part[TW_SET_PARTS], statistics;
	uint64_t end;
};

extern const char tw_set_magic[8];

/* Set k, and the array of a part; bytes of one sample in a part, and how many samples (or weights)
 * it has. */
struct tw_samples *tw_set_samples(struct tw_data *d, int k);
const void *tw_set_part(const struct tw_data *d, int k);
size_t tw_set_width(const struct tw_data *d, int part);
uint64_t tw_set_count(const struct tw_set_head *h, int part);
/* Bytes of the statistics. */
uint64_t tw_set_statistics(const struct tw_data *d);
/* Where everything lies; `d` has the head's shape.  False: nothing can be that long. */
bool tw_set_lay_out(const struct tw_set_head *h, const struct tw_data *d,
		    struct tw_set_layout *out);
/* The head of a set as it is in memory, with or without statistics. */
void tw_set_make_head(const struct tw_data *d, bool statistics, struct tw_set_head *h,
		      struct tw_set_layout *lie);

/* Read and check the head; d gets its shape, and *lie says where everything is.  An origin without
 * fingerprint takes any. */
enum tw_status tw_set_take_head(const struct tw_set_origin *from, struct tw_set_head *h,
				struct tw_data *d, struct tw_set_layout *lie, struct tw_error *why);
/* d->packed was set: unpack it. */
enum tw_status tw_set_take_names(const struct tw_set_origin *from, struct tw_data *d,
				 struct tw_error *why);
/* Part k of the body lies there. */
void tw_set_put_part(struct tw_data *d, const struct tw_set_head *h, int k, const void *at);

/* Are values, labels and weights what they may be, and the fingerprint this one? */
enum tw_status tw_set_check_body(const char *name, const struct tw_data *d,
				 const struct tw_sha *fingerprint, struct tw_error *why);
/* Labels are numbers of classes. */
enum tw_status tw_set_check_labels(const char *name, const struct tw_data *d, struct tw_error *why);
/* Measure the training set; `to` has tw_set_statistics(d) bytes and begins at a multiple of 8. */
enum tw_status tw_set_measure(const struct tw_data *d, uint8_t *to, struct tw_error *why);

#endif
