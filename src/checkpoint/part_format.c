/* SPDX-License-Identifier: Apache-2.0 */
/* part_format.c - a part of a cut as the bytes of a file, and back. */
#include "checkpoint/part_format.h"

#include "model/safetensors.h"
#include "node/checkpoint_part.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *suffix;
} encodings[TW_PART_ENCODINGS] = {
	[TW_PART_RAW] = { "raw", "part" },
	[TW_PART_SAFETENSORS] = { "safetensors", "safetensors" },
};

static size_t data_bytes(const struct tw_array *a)
{
	return a->n * (a->kind == TW_FLOATS ? sizeof(float) : 1);
}

/* --- writing --- */

#define NAME_ROOM 100

/* The array as a tensor; false if its name could not be read back. */
static bool to_tensor(const struct tw_array *a, char name[NAME_ROOM], struct tw_safe_tensor *t)
{
	*t = (struct tw_safe_tensor){ .name = name,
				      .type = a->kind == TW_FLOATS ? TW_SAFE_F32 : TW_SAFE_U8,
				      .rank = 1,
				      .d = { a->n },
				      .data = a->at,
				      .bytes = data_bytes(a) };
	if (a->kind == TW_FLOATS)
		snprintf(name, NAME_ROOM, "%s[%" PRIu64 ":%" PRIu64 "]", a->name, a->from,
			 a->from + a->n);
	else
		snprintf(name, NAME_ROOM, "%s", a->name);
	return !strpbrk(a->name, "[]") && (a->kind == TW_FLOATS || !a->from);
}

static enum tw_status to_safetensors(struct tw_heap *heap, const struct tw_array *arrays,
				     size_t count, struct tw_block **out)
{
	struct tw_safe_tensor *t = heap->get(heap, (count + 1) * (sizeof *t + NAME_ROOM));
	enum tw_status status = TW_OK;
	char *names;

	if (!t)
		return TW_NO_MEMORY;
	names = (char *)(t + count + 1);
	for (size_t k = 0; k < count && status == TW_OK; k++)
		if (!to_tensor(&arrays[k], names + k * NAME_ROOM, &t[k]))
			status = TW_REFUSED;
	if (status == TW_OK)
		status = tw_safe_write(heap, t, count, NULL, out);
	heap->put(heap, t);
	return status;
}

/* Workers may keep parameters of their own; only a shard's are the range's. */
static bool is_shard(const char *part)
{
	return strncmp(part, "shard ", 6) == 0;
}

enum tw_status tw_part_encode(struct tw_heap *heap, const struct tw_part *part,
			      struct tw_part_image *out)
{
	struct tw_array *arrays = NULL;
	enum tw_status status;
	size_t count = 0;

	status = tw_part_unpack(part->bytes->data, part->bytes->bytes, heap, &arrays, &count);
	*out = (struct tw_part_image){ .encoding = TW_PART_RAW };
	if (status == TW_OK) {
		const struct tw_array *w = tw_part_find(arrays, count, "parameters");

		out->encoding = TW_PART_SAFETENSORS;
		status = to_safetensors(heap, arrays, count, &out->bytes);
		if (status == TW_OK && w && w->kind == TW_FLOATS && is_shard(part->name)) {
			out->ranged = true;
			out->from = w->from;
			out->to = w->from + w->n;
		}
		heap->put(heap, arrays);
	}
	if (status == TW_OK || status == TW_NO_MEMORY)
		return status;
	out->encoding = TW_PART_RAW;
	out->bytes = tw_block_keep(part->bytes);
	return TW_OK;
}

/* --- reading --- */

static bool read_name(const char *text, struct tw_array *a)
{
	const char *bracket = strchr(text, '[');
	const size_t len = bracket ? (size_t)(bracket - text) : strlen(text);
	uint64_t to;
	int used = 0;

	if (len >= sizeof a->name || (bracket != NULL) != (a->kind == TW_FLOATS))
		return false;
	memcpy(a->name, text, len);
	if (!bracket)
		return true;
	return sscanf(bracket, "[%" SCNu64 ":%" SCNu64 "]%n", &a->from, &to, &used) == 2 &&
	       used > 0 && !bracket[used] && to >= a->from && to - a->from == a->n;
}

static bool to_array(const struct tw_safe_tensor *t, struct tw_array *a)
{
	if (t->rank != 1 || (t->type != TW_SAFE_F32 && t->type != TW_SAFE_U8))
		return false;
	a->kind = t->type == TW_SAFE_F32 ? TW_FLOATS : TW_BYTES;
	a->n = t->count;
	a->at = t->data;
	return read_name(t->name, a);
}

static enum tw_status from_safetensors(struct tw_heap *heap, const uint8_t *bytes, size_t len,
				       struct tw_block **out)
{
	struct tw_array *arrays;
	enum tw_status status;
	struct tw_safe s;

	status = tw_safe_read(heap, bytes, len, &s, NULL);
	if (status != TW_OK)
		return status;
	arrays = tw_heap_zeros(heap, (s.tensors + 1) * sizeof *arrays);
	status = arrays ? TW_OK : TW_NO_MEMORY;
	for (size_t k = 0; k < s.tensors && status == TW_OK; k++)
		if (!to_array(&s.tensor[k], &arrays[k]))
			status = TW_BAD_BYTES;
	if (status == TW_OK) {
		*out = tw_part_pack(heap, arrays, s.tensors);
		status = *out ? TW_OK : TW_NO_MEMORY;
	}
	heap->put(heap, arrays);
	tw_safe_release(&s);
	return status;
}

enum tw_status tw_part_decode(struct tw_heap *heap, const struct tw_part_image *image,
			      struct tw_block **out)
{
	if (image->encoding == TW_PART_SAFETENSORS)
		return from_safetensors(heap, image->bytes->data, image->bytes->bytes, out);
	*out = tw_block_keep(image->bytes);
	return TW_OK;
}

const char *tw_part_encoding_name(enum tw_part_encoding encoding)
{
	return encodings[encoding].name;
}

bool tw_part_encoding_find(const char *name, enum tw_part_encoding *out)
{
	for (size_t i = 0; i < TW_PART_ENCODINGS; i++)
		if (strcmp(name, encodings[i].name) == 0) {
			*out = (enum tw_part_encoding)i;
			return true;
		}
	return false;
}

void tw_part_file_name(const char *part, const struct tw_part_image *image, char out[80])
{
	const char *suffix = encodings[image->encoding].suffix;
	size_t n = 0;

	if (image->ranged) {
		snprintf(out, 80, "parameters-%" PRIu64 "-%" PRIu64 ".%s", image->from, image->to,
			 suffix);
		return;
	}
	for (; *part && n < 60; part++)
		out[n++] = isalnum((unsigned char)*part) || *part == '.' ? *part : '-';
	snprintf(out + n, 80 - n, ".%s", suffix);
}
