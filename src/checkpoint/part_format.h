/* SPDX-License-Identifier: Apache-2.0 */
/* part_format.h - a part of a cut as the bytes of a file, and back.
 *
 * Parts that actors packed (node/checkpoint_part.h) become safetensors: u64 length of the header,
 * the header as JSON, the data. An array of floats is the F32 tensor "name[from:to]", named by its
 * parameter range; an array of bytes is the U8 tensor "name". Anything else is kept as it is. */
#ifndef TW_CHECKPOINT_PART_FORMAT_H
#define TW_CHECKPOINT_PART_FORMAT_H

#include "actor/actor.h"

enum tw_part_encoding { TW_PART_RAW, TW_PART_SAFETENSORS, TW_PART_ENCODINGS };

struct tw_part_image {
	enum tw_part_encoding encoding;
	struct tw_block *bytes; /* a reference */
	bool ranged;            /* it holds the parameters from..to */
	uint64_t from, to;
};

/* Choose an encoding and make the image; the caller drops out->bytes. */
enum tw_status tw_part_encode(struct tw_heap *heap, const struct tw_part *part,
			      struct tw_part_image *out);
/* The bytes the actors gave, bit for bit, as a new reference; TW_BAD_BYTES, TW_NO_MEMORY. */
enum tw_status tw_part_decode(struct tw_heap *heap, const struct tw_part_image *image,
			      struct tw_block **out);
const char *tw_part_encoding_name(enum tw_part_encoding encoding);
bool tw_part_encoding_find(const char *name, enum tw_part_encoding *out);
/* "parameters-0-1250.safetensors" for a part that holds these, whoever kept it; "worker 3" becomes
 * "worker-3.safetensors". */
void tw_part_file_name(const char *part, const struct tw_part_image *image, char out[80]);

#endif
