/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c - named tensors as one block that others can read. */
#include "model/safe_inner.h"

#include <string.h>

static json_t *row_of(const struct tw_safe_tensor *t, uint64_t from, const char *type)
{
	json_t *shape = json_array(), *row;

	for (uint32_t k = 0; k < t->rank; k++)
		json_array_append_new(shape, json_integer((json_int_t)t->d[k]));
	row = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape, "data_offsets",
			(json_int_t)from, (json_int_t)(from + t->bytes));
	if (row && json_array_size(shape) == t->rank)
		return row;
	json_decref(row);
	return NULL;
}

static enum tw_status add_row(json_t *header, const struct tw_safe_tensor *t, uint64_t from)
{
	uint64_t count, bytes;
	const struct tw_safe_kind *kind = tw_safe_kinds;
	json_t *row;

	while (kind->name && (kind->type != t->type || t->type == TW_SAFE_OTHER))
		kind++;
	if (!kind->name || t->rank > TW_SAFE_RANK || !tw_safe_name_good(t->name) ||
	    strcmp(t->name, TW_SAFE_METADATA) == 0 ||
	    !tw_safe_measure(t, kind->bytes, &count, &bytes) || bytes != t->bytes ||
	    bytes > (uint64_t)INT64_MAX - from || json_object_get(header, t->name))
		return TW_BAD_INPUT;
	for (uint32_t k = 0; k < t->rank; k++)
		if (t->d[k] > INT64_MAX)
			return TW_BAD_INPUT;
	row = row_of(t, from, kind->name);
	if (!row)
		return TW_NO_MEMORY;
	/* what remains to go wrong is a name that is not UTF-8 */
	return json_object_set_new(header, t->name, row) ? TW_BAD_INPUT : TW_OK;
}

static enum tw_status make_header(const struct tw_safe_tensor *tensor, size_t tensors,
				  const char *metadata, json_t *header, uint64_t *data)
{
	enum tw_status status = tensors > TW_SAFE_TENSORS ? TW_BAD_INPUT : TW_OK;

	if (status == TW_OK && metadata) {
		json_t *m = json_loads(metadata, JSON_REJECT_DUPLICATES, NULL);

		if (!tw_safe_only_strings(m) || json_object_set(header, TW_SAFE_METADATA, m))
			status = TW_BAD_INPUT;
		json_decref(m);
	}
	*data = 0;
	for (size_t k = 0; k < tensors && status == TW_OK; k++) {
		status = add_row(header, &tensor[k], *data);
		*data += tensor[k].bytes;
	}
	return status;
}

/* The header with room for `data` bytes behind it. */
static struct tw_block *lay_out(struct tw_heap *heap, const json_t *header, size_t letters,
				uint64_t data)
{
	const uint64_t length = (letters + 7) / 8 * 8; /* spaces, so that the data is aligned */
	struct tw_block *b = tw_block_new(heap, sizeof length + length + data);
	char *at;

	if (!b)
		return NULL;
	memcpy(b->data, &length, sizeof length);
	at = (char *)b->data + sizeof length;
	memset(at, ' ', length);
	if (json_dumpb(header, at, letters, JSON_COMPACT) == letters)
		return b;
	tw_block_drop(b);
	return NULL;
}

/* `data`: of the tensors; `room`: for so much of it. */
static enum tw_status write_header(struct tw_heap *heap, const struct tw_safe_tensor *tensor,
				   size_t tensors, const char *metadata, bool room, uint64_t *data,
				   struct tw_block **out)
{
	json_t *header = json_object();
	enum tw_status status;
	size_t letters;

	if (!header)
		return TW_NO_MEMORY;
	status = make_header(tensor, tensors, metadata, header, data);
	if (status == TW_OK) {
		letters = json_dumpb(header, NULL, 0, JSON_COMPACT);
		if (letters > TW_SAFE_HEADER - 8)
			status = TW_BAD_INPUT;
		else if (!letters || !(*out = lay_out(heap, header, letters, room ? *data : 0)))
			status = TW_NO_MEMORY;
	}
	json_decref(header);
	return status;
}

enum tw_status tw_safe_write(struct tw_heap *heap, const struct tw_safe_tensor *tensor,
			     size_t tensors, const char *metadata, struct tw_block **out)
{
	uint64_t data = 0;
	enum tw_status status = write_header(heap, tensor, tensors, metadata, true, &data, out);
	uint8_t *at;

	if (status != TW_OK)
		return status;
	at = (*out)->data + (*out)->bytes - data;
	for (size_t k = 0; k < tensors; k++) {
		if (tensor[k].bytes)
			memcpy(at, tensor[k].data, tensor[k].bytes);
		at += tensor[k].bytes;
	}
	return TW_OK;
}

enum tw_status tw_safe_write_head(struct tw_heap *heap, const struct tw_safe_tensor *tensor,
				  size_t tensors, const char *metadata, struct tw_block **out)
{
	uint64_t data = 0;

	return write_header(heap, tensor, tensors, metadata, false, &data, out);
}
