/* SPDX-License-Identifier: Apache-2.0 */
/* part_file.c - a part of a cut as the bytes of a file, and back. */
#include "job/part_file.h"

#include "node/part.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
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

/* The header, or NULL if the arrays cannot be told apart by name or there is no memory. */
static char *header_text(const struct tw_array *arrays, size_t count)
{
	json_t *header = json_object();
	size_t at = 0;
	char *text;

	for (size_t k = 0; header && k < count; k++) {
		const struct tw_array *a = &arrays[k];
		const size_t to = at + data_bytes(a);
		char name[100];
		json_t *row;

		if (a->kind == TW_FLOATS)
			snprintf(name, sizeof name, "%s[%" PRIu64 ":%" PRIu64 "]", a->name, a->from,
				 a->from + a->n);
		else
			snprintf(name, sizeof name, "%s", a->name);
		row = json_pack("{s:s, s:[I], s:[I, I]}", "dtype",
				a->kind == TW_FLOATS ? "F32" : "U8", "shape", (json_int_t)a->n,
				"data_offsets", (json_int_t)at, (json_int_t)to);
		if (strpbrk(a->name, "[]") || (a->kind == TW_BYTES && a->from) ||
		    json_object_get(header, name) || json_object_set_new(header, name, row)) {
			json_decref(header);
			return NULL;
		}
		at = to;
	}
	text = json_dumps(header, JSON_COMPACT);
	json_decref(header);
	return text;
}

static enum tw_status to_safetensors(struct tw_heap *heap, const struct tw_array *arrays,
				     size_t count, struct tw_block **out)
{
	char *header = header_text(arrays, count);
	uint64_t length;
	struct tw_block *b;
	size_t all, at;

	if (!header)
		return TW_REFUSED;
	length = (strlen(header) + 7) / 8 * 8; /* padded with spaces, so that data is aligned */
	all = at = sizeof length + length;
	for (size_t k = 0; k < count; k++)
		all += data_bytes(&arrays[k]);
	b = tw_block_new(heap, all);
	if (b) {
		memcpy(b->data, &length, sizeof length);
		memset(b->data + sizeof length, ' ', length);
		memcpy(b->data + sizeof length, header, strlen(header));
		for (size_t k = 0; k < count; k++) {
			const size_t n = data_bytes(&arrays[k]);

			if (n)
				memcpy(b->data + at, arrays[k].at, n);
			at += n;
		}
	}
	free(header);
	*out = b;
	return b ? TW_OK : TW_NO_MEMORY;
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

static bool read_row(const char *name, json_t *row, const uint8_t *data, size_t bytes, size_t *at,
		     struct tw_array *a)
{
	json_int_t n, from, to;
	const char *dtype;

	if (json_unpack(row, "{s:s, s:[I], s:[I, I]}", "dtype", &dtype, "shape", &n, "data_offsets",
			&from, &to) ||
	    n < 0 || from < 0 || to < from || (size_t)from != *at || (size_t)to > bytes)
		return false;
	a->kind = strcmp(dtype, "F32") == 0 ? TW_FLOATS : TW_BYTES;
	a->n = (uint64_t)n;
	a->at = data + *at;
	if (a->kind == TW_BYTES && strcmp(dtype, "U8") != 0)
		return false;
	*at = (size_t)to;
	return a->n <= bytes && data_bytes(a) == (size_t)(to - from) && read_name(name, a);
}

static enum tw_status from_safetensors(struct tw_heap *heap, const uint8_t *bytes, size_t len,
				       struct tw_block **out)
{
	enum tw_status status = TW_OK;
	struct tw_array *arrays;
	uint64_t length;
	json_t *header, *row;
	const char *name;
	size_t count = 0, at = 0, data;

	if (len < sizeof length)
		return TW_BAD_BYTES;
	memcpy(&length, bytes, sizeof length);
	if (length > len - sizeof length)
		return TW_BAD_BYTES;
	data = sizeof length + length;
	header = json_loadb((const char *)bytes + sizeof length, length, 0, NULL);
	if (!json_is_object(header)) {
		json_decref(header);
		return TW_BAD_BYTES;
	}
	arrays = tw_heap_zeros(heap, (json_object_size(header) + 1) * sizeof *arrays);
	if (!arrays)
		status = TW_NO_MEMORY;
	json_object_foreach(header, name, row)
	{
		if (status != TW_OK || strcmp(name, "__metadata__") == 0)
			continue;
		if (!read_row(name, row, bytes + data, len - data, &at, &arrays[count++]))
			status = TW_BAD_BYTES;
	}
	if (status == TW_OK && at != len - data)
		status = TW_BAD_BYTES;
	if (status == TW_OK) {
		*out = tw_part_pack(heap, arrays, count);
		status = *out ? TW_OK : TW_NO_MEMORY;
	}
	heap->put(heap, arrays);
	json_decref(header);
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
