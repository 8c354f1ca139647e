/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - reads headers that nobody vouches for. */
#include "model/safe_inner.h"

#include "base/printable.h"
#include "vec/vec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which of tw_safe.memory is what. */
enum { TENSORS, NAMES, TEXT };

const struct tw_safe_kind tw_safe_kinds[] = {
	{ "F32", TW_SAFE_F32, 4 },       { "F64", TW_SAFE_F64, 8 },
	{ "F16", TW_SAFE_F16, 2 },       { "BF16", TW_SAFE_BF16, 2 },
	{ "I64", TW_SAFE_I64, 8 },       { "I32", TW_SAFE_I32, 4 },
	{ "U8", TW_SAFE_U8, 1 },         { "I8", TW_SAFE_OTHER, 1 },
	{ "BOOL", TW_SAFE_OTHER, 1 },    { "I16", TW_SAFE_OTHER, 2 },
	{ "U16", TW_SAFE_OTHER, 2 },     { "U32", TW_SAFE_OTHER, 4 },
	{ "U64", TW_SAFE_OTHER, 8 },     { "F8_E4M3", TW_SAFE_OTHER, 1 },
	{ "F8_E5M2", TW_SAFE_OTHER, 1 }, { NULL },
};

bool tw_safe_measure(const struct tw_safe_tensor *t, uint32_t each, uint64_t *count,
		     uint64_t *bytes)
{
	*count = 1;
	for (uint32_t k = 0; k < t->rank; k++)
		if (__builtin_mul_overflow(*count, t->d[k], count))
			return false;
	return !__builtin_mul_overflow(*count, (uint64_t)each, bytes);
}

bool tw_safe_name_good(const char *name)
{
	return strlen(name) <= TW_SAFE_NAME && tw_is_printable(name);
}

static const char *shown(const char *name, char out[64])
{
	return tw_show_in(name, strlen(name), out, 64);
}

#define BAD(why, ...) tw_fail(why, TW_BAD_BYTES, __VA_ARGS__)

static const struct tw_safe_kind *read_kind(const json_t *row, const char *name,
					    struct tw_error *why)
{
	const char *dtype = json_string_value(json_object_get(row, "dtype"));
	char said[64];

	for (const struct tw_safe_kind *k = tw_safe_kinds; dtype && k->name; k++)
		if (strcmp(dtype, k->name) == 0)
			return k;
	BAD(why,
	    "tensor '%s': dtype must be F32, F64, F16, BF16, I64, I32, U8 or another "
	    "type of safetensors, not '%s'",
	    name, dtype ? shown(dtype, said) : "nothing");
	return NULL;
}

static enum tw_status read_shape(const json_t *row, const char *name, struct tw_safe_tensor *t,
				 struct tw_error *why)
{
	const json_t *shape = json_object_get(row, "shape"), *v;
	size_t k;

	if (!json_is_array(shape) || json_array_size(shape) > TW_SAFE_RANK)
		return BAD(why, "tensor '%s': shape must be a list of at most %d whole numbers",
			   name, TW_SAFE_RANK);
	t->rank = (uint32_t)json_array_size(shape);
	json_array_foreach(shape, k, v)
	{
		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return BAD(why, "tensor '%s': shape must contain only whole numbers from 0",
				   name);
		t->d[k] = (uint64_t)json_integer_value(v);
	}
	return TW_OK;
}

static enum tw_status read_offsets(const json_t *row, const char *name, uint64_t room,
				   uint64_t *from, uint64_t *to, struct tw_error *why)
{
	const json_t *offsets = json_object_get(row, "data_offsets");
	const json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);

	if (json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b) ||
	    json_integer_value(a) < 0 || json_integer_value(b) < json_integer_value(a))
		return BAD(why,
			   "tensor '%s': data_offsets must be two whole numbers, the first not "
			   "larger than the second",
			   name);
	*from = (uint64_t)json_integer_value(a);
	*to = (uint64_t)json_integer_value(b);
	if (*to > room)
		return BAD(why,
			   "tensor '%s' ends at byte %" PRIu64 " of the data, of which there "
			   "are only %" PRIu64,
			   name, *to, room);
	return TW_OK;
}

static enum tw_status read_tensor(const char *full, const json_t *row, const uint8_t *data,
				  uint64_t room, struct tw_safe_tensor *t, struct tw_error *why)
{
	enum tw_status status;
	uint64_t from = 0, to = 0;
	char name[64];
	const struct tw_safe_kind *kind;

	shown(full, name);
	if (!tw_safe_name_good(full))
		return BAD(why,
			   "tensor '%s': a name must have at most %d bytes and no control "
			   "characters",
			   name, TW_SAFE_NAME);
	if (!json_is_object(row) || json_object_size(row) != 3)
		return BAD(why,
			   "tensor '%s': must have dtype, shape and data_offsets, nothing else",
			   name);
	kind = read_kind(row, name, why);
	status = kind ? read_shape(row, name, t, why) : TW_BAD_BYTES;
	if (status == TW_OK)
		status = read_offsets(row, name, room, &from, &to, why);
	if (status != TW_OK)
		return status;
	if (!tw_safe_measure(t, kind->bytes, &t->count, &t->bytes))
		return BAD(why, "tensor '%s': its shape has more elements than can be counted",
			   name);
	if (t->bytes != to - from)
		return BAD(why,
			   "tensor '%s': its shape needs %" PRIu64 " bytes, data_offsets give it "
			   "%" PRIu64,
			   name, t->bytes, to - from);
	t->type = kind->type;
	t->data = data + from;
	return TW_OK;
}

/* By place in the data; tensors without elements before what starts at the same byte, and among
 * themselves in the header's order, which is that of their names in memory. */
static int by_place(const void *a, const void *b)
{
	const struct tw_safe_tensor *x = a, *y = b;

	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	if (!x->bytes != !y->bytes)
		return x->bytes ? 1 : -1;
	return (x->name > y->name) - (x->name < y->name);
}

static enum tw_status check_places(const struct tw_safe *s, const uint8_t *data, uint64_t room,
				   struct tw_error *why)
{
	const uint8_t *at = data;
	char name[64];

	for (size_t k = 0; k < s->tensors; k++) {
		const struct tw_safe_tensor *t = &s->tensor[k];

		if (t->data != at)
			return BAD(why, "tensor '%s' starts at byte %td of the data, %s",
				   shown(t->name, name), t->data - data,
				   t->data < at ? "inside another tensor"
						: "after a gap that belongs to no tensor");
		at += t->bytes;
	}
	if (at != data + room)
		return BAD(why, "%td bytes after the last tensor belong to no tensor",
			   data + room - at);
	return TW_OK;
}

bool tw_safe_only_strings(const json_t *metadata)
{
	const char *key;
	json_t *value;

	if (!json_is_object(metadata))
		return false;
	json_object_foreach((json_t *)metadata, key,
			    value) if (!json_is_string(value)) return false;
	return true;
}

static enum tw_status keep_metadata(struct tw_safe *s, const json_t *metadata, struct tw_error *why)
{
	size_t n;
	char *text;

	if (!tw_safe_only_strings(metadata))
		return BAD(why, "__metadata__ must be an object of strings");
	n = json_dumpb(metadata, NULL, 0, JSON_COMPACT);
	s->memory[TEXT] = text = s->heap->get(s->heap, n + 1);
	if (!text || !n || json_dumpb(metadata, text, n, JSON_COMPACT) != n)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the metadata");
	text[n] = 0;
	s->metadata = text;
	return TW_OK;
}

/* Bytes of all names with their ends. */
static size_t names_bytes(json_t *header)
{
	const char *name;
	json_t *row;
	size_t n = 0;

	json_object_foreach(header, name, row) n += strlen(name) + 1;
	return n;
}

static enum tw_status read_all(struct tw_safe *s, json_t *header, const uint8_t *data,
			       uint64_t room, struct tw_error *why)
{
	const size_t rows = json_object_size(header), letters = names_bytes(header);
	enum tw_status status = TW_OK;
	const char *name;
	json_t *row;
	char *at;

	if (rows > TW_SAFE_TENSORS)
		return BAD(why, "the header has %zu tensors; at most %u are read", rows,
			   TW_SAFE_TENSORS);
	s->memory[TENSORS] = s->tensor = tw_heap_zeros(s->heap, (rows + 1) * sizeof *s->tensor);
	s->memory[NAMES] = at = s->heap->get(s->heap, letters + 1);
	if (!s->tensor || !at)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a header of %zu tensors", rows);
	json_object_foreach(header, name, row)
	{
		if (strcmp(name, TW_SAFE_METADATA) == 0) {
			status = keep_metadata(s, row, why);
		} else {
			struct tw_safe_tensor *t = &s->tensor[s->tensors++];

			t->name = at;
			at = stpcpy(at, name) + 1;
			status = read_tensor(name, row, data, room, t, why);
		}
		if (status != TW_OK)
			return status;
	}
	qsort(s->tensor, s->tensors, sizeof *s->tensor, by_place);
	return check_places(s, data, room, why);
}

/* Of the `whole` bytes of a file the first `n` are here. */
static enum tw_status read_header(const uint8_t *bytes, size_t n, uint64_t whole, json_t **out,
				  size_t *data, struct tw_error *why)
{
	json_error_t e;
	uint64_t length;

	if (n < sizeof length)
		return BAD(why, "%zu bytes are too few for a safetensors file", n);
	memcpy(&length, bytes, sizeof length);
	if (length > whole - sizeof length)
		return BAD(why, "the header claims %" PRIu64 " bytes, but only %" PRIu64 " follow",
			   length, whole - sizeof length);
	if (length > n - sizeof length)
		return BAD(why, "the header is not here");
	if (length > TW_SAFE_HEADER)
		return BAD(why, "the header has %" PRIu64 " bytes; at most %u are read", length,
			   TW_SAFE_HEADER);
	if (length == 0 || bytes[sizeof length] != '{')
		return BAD(why, "the header does not begin with '{'");
	*out = json_loadb((const char *)bytes + sizeof length, length, JSON_REJECT_DUPLICATES, &e);
	if (!*out) {
		char said[64];

		return BAD(why, "the header is not JSON at byte %d: %s", e.position,
			   shown(e.text, said));
	}
	*data = sizeof length + length;
	return TW_OK;
}

enum tw_status tw_safe_read(struct tw_heap *heap, const void *bytes, size_t n, struct tw_safe *out,
			    struct tw_error *why)
{
	return tw_safe_read_head(heap, bytes, n, n, out, why);
}

enum tw_status tw_safe_read_head(struct tw_heap *heap, const void *bytes, size_t n, uint64_t whole,
				 struct tw_safe *out, struct tw_error *why)
{
	struct tw_safe s = { .heap = heap };
	enum tw_status status;
	json_t *header = NULL;
	size_t data = 0;

	status = read_header(bytes, n, whole, &header, &data, why);
	if (status == TW_OK)
		status = read_all(&s, header, (const uint8_t *)bytes + data, whole - data, why);
	json_decref(header);
	if (status != TW_OK)
		tw_safe_release(&s);
	else
		*out = s;
	return status;
}

void tw_safe_release(struct tw_safe *s)
{
	for (size_t k = 0; k < sizeof s->memory / sizeof *s->memory; k++)
		if (s->memory[k])
			s->heap->put(s->heap, s->memory[k]);
	*s = (struct tw_safe){ .heap = s->heap };
}

const struct tw_safe_tensor *tw_safe_find(const struct tw_safe *s, const char *name)
{
	for (size_t k = 0; k < s->tensors; k++)
		if (strcmp(s->tensor[k].name, name) == 0)
			return &s->tensor[k];
	return NULL;
}

/* --- elements --- */

/* Files align nothing: elements go through a buffer that is. */
static void widen(const struct tw_safe_tensor *t, float *out)
{
	union {
		uint16_t half[512];
		double wide[128];
	} few;
	const size_t each = t->type == TW_SAFE_F64 ? 8 : 2, most = sizeof few / each;

	for (uint64_t i = 0; i < t->count; i += most) {
		const size_t n = t->count - i < most ? (size_t)(t->count - i) : most;

		memcpy(&few, t->data + i * each, n * each);
		if (t->type == TW_SAFE_F16)
			tw_vec_from_fp16(out + i, few.half, n);
		else if (t->type == TW_SAFE_BF16)
			tw_vec_from_bf16(out + i, few.half, n);
		else
			for (size_t k = 0; k < n; k++)
				out[i + k] = (float)few.wide[k];
	}
}

enum tw_status tw_safe_floats(const struct tw_safe_tensor *t, float *out)
{
	switch (t->type) {
	case TW_SAFE_F32:
		if (t->bytes)
			memcpy(out, t->data, t->bytes);
		return TW_OK;
	case TW_SAFE_F64:
	case TW_SAFE_F16:
	case TW_SAFE_BF16:
		widen(t, out);
		return TW_OK;
	default:
		return TW_BAD_INPUT;
	}
}
