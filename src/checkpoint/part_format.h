/* SPDX-License-Identifier: Apache-2.0 */
/* part_format.h - a part of a cut as the bytes of a file, and back.
 *
 * Parts that actors packed (node/checkpoint_part.h) become safetensors: u64 length of the header,
 * the header as JSON, the data. An array of floats is the F32 tensor "name[from:to]", named by its
 * parameter range; an array of bytes is the U8 tensor "name". Anything else is kept as it is. */
#ifndef TW_CHECKPOINT_PART_FORMAT_H
#define TW_CHECKPOINT_PART_FORMAT_H

#include "actor/actor.h"

#include <sys/uio.h>

enum tw_part_encoding { TW_PART_RAW, TW_PART_SAFETENSORS, TW_PART_ENCODINGS };

/* A part as the bytes of a file, in pieces that are not copied. */
struct tw_part_image {
	enum tw_part_encoding encoding;
	const struct iovec *piece; /* in order */
	size_t pieces, bytes;
	bool ranged; /* it holds the parameters from..to */
	uint64_t from, to;
	struct tw_heap *heap;
	void *memory;           /* of the pieces */
	struct tw_block *head;  /* what comes before the first array; NULL: none */
	struct tw_block *whole; /* the part itself: a reference */
};

/* Choose an encoding and make the image.  TW_NO_MEMORY. */
enum tw_status tw_part_encode(struct tw_heap *heap, const struct tw_part *part,
			      struct tw_part_image *out);
void tw_part_image_release(struct tw_part_image *image);
/* The bytes the actors gave, bit for bit, as a new reference; TW_BAD_BYTES, TW_NO_MEMORY. */
enum tw_status tw_part_decode(struct tw_heap *heap, enum tw_part_encoding encoding,
			      struct tw_block *file, struct tw_block **out);
/* Its head (node/checkpoint_part.h), from a file of which no more is read: TW_IO (errno is set),
 * TW_BAD_BYTES, TW_NO_MEMORY.  Only of safetensors. */
enum tw_status tw_part_read_head(struct tw_heap *heap, int fd, struct tw_block **out);
/* Where the floats of this array are in such a file: its first float is element *from, and lies at
 * byte *offset.  TW_ABSENT: it has no such array. */
enum tw_status tw_part_find_floats(struct tw_heap *heap, int fd, const char *name, uint64_t *from,
				   uint64_t *n, uint64_t *offset);
/* Bytes of a file from a place on: TW_IO (errno is set), TW_BAD_BYTES: it is shorter. */
enum tw_status tw_part_read_at(int fd, void *to, size_t bytes, uint64_t from);
const char *tw_part_encoding_name(enum tw_part_encoding encoding);
bool tw_part_encoding_find(const char *name, enum tw_part_encoding *out);
/* "parameters-0-1250.safetensors" for a part that holds these, whoever kept it; "worker 3" becomes
 * "worker-3.safetensors". */
void tw_part_file_name(const char *part, const struct tw_part_image *image, char out[80]);
/* Could it have made this name for a part of a checkpoint? */
bool tw_part_file_known(const char *file);

#endif
