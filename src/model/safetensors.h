/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - named tensors as bytes: u64 length of the header, the header as JSON, the data.
 *
 * A header is hostile until checked: lengths, names, shapes, offsets that overlap, leave holes or
 * reach beyond the end are refused. */
#ifndef TW_MODEL_SAFETENSORS_H
#define TW_MODEL_SAFETENSORS_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TW_SAFE_RANK    8
#define TW_SAFE_TENSORS 65536u
#define TW_SAFE_HEADER  (16u << 20) /* longest header accepted */

enum tw_safe_type {
	TW_SAFE_F32,
	TW_SAFE_F64,
	TW_SAFE_F16,
	TW_SAFE_BF16,
	TW_SAFE_I64,
	TW_SAFE_I32,
	TW_SAFE_U8,
	TW_SAFE_OTHER
};

struct tw_safe_tensor {
	const char *name;
	enum tw_safe_type type;
	uint32_t rank;
	uint64_t d[TW_SAFE_RANK];
	uint64_t count;      /* elements */
	const uint8_t *data; /* little-endian */
	uint64_t bytes;
};

struct tw_safe {
	struct tw_safe_tensor *tensor; /* in order of their place in the data */
	size_t tensors;
	struct tw_heap *heap;
	void *memory[4];
	const char *metadata; /* "__metadata__" as JSON text, or NULL */
};

/* Look into `bytes`, which must outlive *out.  TW_BAD_BYTES with a sentence that names what is
 * wrong and where (without the file's name: the caller has it). */
enum tw_status tw_safe_read(struct tw_heap *heap, const void *bytes, size_t n, struct tw_safe *out,
			    struct tw_error *why);
/* Look into the first `n` bytes of a file of `whole` bytes, which must hold its header: t->data
 * minus `head` is the place of a tensor's data in the file, and must not be read. */
enum tw_status tw_safe_read_head(struct tw_heap *heap, const void *head, size_t n, uint64_t whole,
				 struct tw_safe *out, struct tw_error *why);
void tw_safe_release(struct tw_safe *s);
const struct tw_safe_tensor *tw_safe_find(const struct tw_safe *s, const char *name);
/* Elements as floats (F32, F64, F16, BF16); TW_BAD_INPUT for other types. */
enum tw_status tw_safe_floats(const struct tw_safe_tensor *t, float *out);

/* Write tensors (name, type, rank, d, data, bytes) in the order given, with `metadata` (JSON text
 * of an object of strings, or NULL) into one block, data aligned to 8 bytes. */
enum tw_status tw_safe_write(struct tw_heap *heap, const struct tw_safe_tensor *tensor,
			     size_t tensors, const char *metadata, struct tw_block **out);
/* Only what comes before the data of the first tensor; their data may be NULL. */
enum tw_status tw_safe_write_head(struct tw_heap *heap, const struct tw_safe_tensor *tensor,
				  size_t tensors, const char *metadata, struct tw_block **out);

#endif
