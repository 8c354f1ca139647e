/* SPDX-License-Identifier: Apache-2.0 */
/* part_format.c - a part of a cut as the bytes of a file, and back. */
#include "checkpoint/part_format.h"

#include "model/safetensors.h"
#include "node/checkpoint_part.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The header of a file with these arrays, and a piece for each of them. */
static enum tw_status to_safetensors(struct tw_heap *heap, const struct tw_array *arrays,
				     size_t count, struct tw_part_image *out)
{
	struct tw_safe_tensor *t = heap->get(heap, (count + 1) * (sizeof *t + NAME_ROOM));
	struct iovec *piece = heap->get(heap, (count + 1) * sizeof *piece);
	enum tw_status status = t && piece ? TW_OK : TW_NO_MEMORY;
	char *names = t ? (char *)(t + count + 1) : NULL;

	for (size_t k = 0; k < count && status == TW_OK; k++)
		if (!to_tensor(&arrays[k], names + k * NAME_ROOM, &t[k]))
			status = TW_REFUSED;
	if (status == TW_OK)
		status = tw_safe_write_head(heap, t, count, NULL, &out->head);
	if (status == TW_OK) {
		piece[0] = (struct iovec){ out->head->data, out->head->bytes };
		for (size_t k = 0; k < count; k++)
			piece[1 + k] = (struct iovec){ (void *)(uintptr_t)t[k].data, t[k].bytes };
		out->memory = piece;
		out->piece = piece;
		out->pieces = 1 + count;
	} else {
		heap->put(heap, piece);
	}
	heap->put(heap, t);
	return status;
}

/* As it is, in one piece. */
static enum tw_status to_raw(struct tw_part_image *out)
{
	struct iovec *piece = out->heap->get(out->heap, sizeof *piece);

	if (!piece)
		return TW_NO_MEMORY;
	*piece = (struct iovec){ out->whole->data, out->whole->bytes };
	out->encoding = TW_PART_RAW;
	out->memory = piece;
	out->piece = piece;
	out->pieces = 1;
	return TW_OK;
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

	*out = (struct tw_part_image){ .encoding = TW_PART_SAFETENSORS,
				       .heap = heap,
				       .whole = tw_block_keep(part->bytes) };
	status = tw_part_unpack(part->bytes->data, part->bytes->bytes, heap, &arrays, &count);
	if (status == TW_OK) {
		const struct tw_array *w = tw_part_find(arrays, count, "parameters");

		status = to_safetensors(heap, arrays, count, out);
		if (status == TW_OK && w && w->kind == TW_FLOATS && is_shard(part->name)) {
			out->ranged = true;
			out->from = w->from;
			out->to = w->from + w->n;
		}
		heap->put(heap, arrays);
	}
	if (status != TW_OK && status != TW_NO_MEMORY)
		status = to_raw(out);
	for (size_t k = 0; k < out->pieces; k++)
		out->bytes += out->piece[k].iov_len;
	if (status != TW_OK)
		tw_part_image_release(out);
	return status;
}

void tw_part_image_release(struct tw_part_image *image)
{
	tw_block_drop(image->head);
	tw_block_drop(image->whole);
	image->heap->put(image->heap, image->memory);
	*image = (struct tw_part_image){ .heap = image->heap };
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

/* The arrays of a file, from the heap. */
static enum tw_status list_arrays(struct tw_heap *heap, const struct tw_safe *s,
				  struct tw_array **out)
{
	struct tw_array *arrays = tw_heap_zeros(heap, (s->tensors + 1) * sizeof *arrays);
	enum tw_status status = arrays ? TW_OK : TW_NO_MEMORY;

	for (size_t k = 0; k < s->tensors && status == TW_OK; k++)
		if (!to_array(&s->tensor[k], &arrays[k]))
			status = TW_BAD_BYTES;
	if (status == TW_OK)
		*out = arrays;
	else
		heap->put(heap, arrays);
	return status;
}

static enum tw_status from_safetensors(struct tw_heap *heap, const uint8_t *bytes, size_t len,
				       struct tw_block **out)
{
	struct tw_array *arrays = NULL;
	enum tw_status status;
	struct tw_safe s;

	status = tw_safe_read(heap, bytes, len, &s, NULL);
	if (status != TW_OK)
		return status;
	status = list_arrays(heap, &s, &arrays);
	if (status == TW_OK) {
		*out = tw_part_pack(heap, arrays, s.tensors);
		status = *out ? TW_OK : TW_NO_MEMORY;
	}
	heap->put(heap, arrays);
	tw_safe_release(&s);
	return status;
}

enum tw_status tw_part_decode(struct tw_heap *heap, enum tw_part_encoding encoding,
			      struct tw_block *file, struct tw_block **out)
{
	if (encoding == TW_PART_SAFETENSORS)
		return from_safetensors(heap, file->data, file->bytes, out);
	*out = tw_block_keep(file);
	return TW_OK;
}

/* --- heads --- */

enum tw_status tw_part_read_at(int fd, void *to, size_t bytes, uint64_t from)
{
	uint8_t *at = to;

	while (bytes) {
		const ssize_t n = pread(fd, at, bytes, (off_t)from);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return TW_IO;
		if (n == 0)
			return TW_BAD_BYTES; /* it became shorter */
		at += n;
		from += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return TW_OK;
}

/* The header with its length before it, as a block. */
static enum tw_status read_header(struct tw_heap *heap, int fd, uint64_t whole,
				  struct tw_block **out)
{
	uint64_t length;
	enum tw_status status = whole < sizeof length
					? TW_BAD_BYTES
					: tw_part_read_at(fd, &length, sizeof length, 0);

	if (status != TW_OK)
		return status;
	if (length > TW_SAFE_HEADER || length > whole - sizeof length)
		return TW_BAD_BYTES;
	*out = tw_block_new(heap, sizeof length + length);
	return *out ? tw_part_read_at(fd, (*out)->data, sizeof length + length, 0) : TW_NO_MEMORY;
}

/* Arrays of bytes are read into `room`; floats are not. */
static enum tw_status read_bytes(int fd, const struct tw_safe *s, const uint8_t *base,
				 struct tw_array *arrays, uint8_t *room)
{
	enum tw_status status = TW_OK;

	for (size_t k = 0; k < s->tensors && status == TW_OK; k++) {
		arrays[k].at = NULL;
		if (arrays[k].kind != TW_BYTES)
			continue;
		status = tw_part_read_at(fd, room, s->tensor[k].bytes,
					 (uint64_t)(s->tensor[k].data - base));
		arrays[k].at = room;
		room += s->tensor[k].bytes;
	}
	return status;
}

static enum tw_status make_head(struct tw_heap *heap, int fd, const struct tw_safe *s,
				const uint8_t *base, struct tw_block **out)
{
	struct tw_array *arrays = NULL;
	enum tw_status status = list_arrays(heap, s, &arrays);
	uint8_t *room = NULL;
	size_t bytes = 1;

	for (size_t k = 0; status == TW_OK && k < s->tensors; k++)
		bytes += arrays[k].kind == TW_BYTES ? s->tensor[k].bytes : 0;
	if (status == TW_OK && !(room = heap->get(heap, bytes)))
		status = TW_NO_MEMORY;
	if (status == TW_OK)
		status = read_bytes(fd, s, base, arrays, room);
	if (status == TW_OK && !(*out = tw_part_pack_head(heap, arrays, s->tensors)))
		status = TW_NO_MEMORY;
	heap->put(heap, room);
	heap->put(heap, arrays);
	return status;
}

/* A file's header, looked into; the block holds it, and is the caller's. */
static enum tw_status open_header(struct tw_heap *heap, int fd, struct tw_block **header,
				  struct tw_safe *s)
{
	struct stat file;
	enum tw_status status = fstat(fd, &file) ? TW_IO : TW_OK;

	if (status == TW_OK)
		status = read_header(heap, fd, (uint64_t)file.st_size, header);
	if (status == TW_OK)
		status = tw_safe_read_head(heap, (*header)->data, (*header)->bytes,
					   (uint64_t)file.st_size, s, NULL);
	return status;
}

enum tw_status tw_part_read_head(struct tw_heap *heap, int fd, struct tw_block **out)
{
	struct tw_block *header = NULL;
	struct tw_safe s;
	enum tw_status status = open_header(heap, fd, &header, &s);

	if (status == TW_OK) {
		status = make_head(heap, fd, &s, header->data, out);
		tw_safe_release(&s);
	}
	tw_block_drop(header);
	return status;
}

enum tw_status tw_part_find_floats(struct tw_heap *heap, int fd, const char *name, uint64_t *from,
				   uint64_t *n, uint64_t *offset)
{
	struct tw_block *header = NULL;
	struct tw_array *arrays = NULL;
	struct tw_safe s;
	enum tw_status status = open_header(heap, fd, &header, &s);
	const struct tw_array *a;

	if (status == TW_OK) {
		status = list_arrays(heap, &s, &arrays);
		a = status == TW_OK ? tw_part_find(arrays, s.tensors, name) : NULL;
		if (status == TW_OK && (!a || a->kind != TW_FLOATS))
			status = TW_ABSENT;
		if (status == TW_OK) {
			*from = a->from;
			*n = a->n;
			*offset = (uint64_t)(s.tensor[a - arrays].data - header->data);
		}
		heap->put(heap, arrays);
		tw_safe_release(&s);
	}
	tw_block_drop(header);
	return status;
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

bool tw_part_file_known(const char *file)
{
	static const char *const words[] = { "frozen", "master", "parameters", "shard", "worker" };

	for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
		const size_t n = strlen(words[k]);
		const char *end = file + n;

		if (strncmp(file, words[k], n) != 0)
			continue;
		end += strspn(end, "-.0123456789");
		for (size_t i = 0; i < TW_PART_ENCODINGS; i++)
			if (end[-1] == '.' && strcmp(end, encodings[i].suffix) == 0)
				return true;
	}
	return false;
}
