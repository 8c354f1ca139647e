/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_part.c - packing and unpacking of named arrays; the layout is in checkpoint_part.h. */
#include "node/checkpoint_part.h"

#include <string.h>

struct entry {
	char name[40];
	uint64_t from, n;
	uint32_t kind, zero;
	uint64_t offset;
};
_Static_assert(sizeof(struct entry) == 72, "part entry");

struct head {
	char magic[8];
	uint32_t count, zero;
};

static const char magic[8] = "TWPART1", head_magic[8] = "TWHEAD1";

static size_t rounded(size_t bytes)
{
	return (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
}

static size_t array_bytes(uint32_t kind, uint64_t n)
{
	return kind == TW_FLOATS ? n * sizeof(float) : n;
}

/* Bytes of an array that are in the block. */
static size_t kept_bytes(const struct tw_array *a, bool only_head)
{
	return only_head && a->kind == TW_FLOATS ? 0 : array_bytes(a->kind, a->n);
}

static struct tw_block *pack(struct tw_heap *heap, const struct tw_array *arrays, size_t count,
			     bool only_head)
{
	size_t at = rounded(sizeof(struct head) + count * sizeof(struct entry));
	struct head head = { .count = (uint32_t)count };
	struct tw_block *b;
	size_t whole = at;

	for (size_t k = 0; k < count; k++)
		whole += rounded(kept_bytes(&arrays[k], only_head));
	b = tw_block_new(heap, whole);
	if (!b)
		return NULL;
	memset(b->data, 0, at);
	memcpy(head.magic, only_head ? head_magic : magic, sizeof magic);
	memcpy(b->data, &head, sizeof head);
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a = &arrays[k];
		const size_t bytes = kept_bytes(a, only_head);
		const bool absent = only_head && a->kind == TW_FLOATS;
		struct entry e = {
			.from = a->from, .n = a->n, .kind = a->kind, .offset = absent ? 0 : at
		};

		memcpy(e.name, a->name, sizeof e.name);
		e.name[sizeof e.name - 1] = '\0';
		memcpy(b->data + sizeof head + k * sizeof e, &e, sizeof e);
		if (bytes)
			memcpy(b->data + at, a->at, bytes);
		memset(b->data + at + bytes, 0, rounded(bytes) - bytes);
		at += rounded(bytes);
	}
	return b;
}

struct tw_block *tw_part_pack(struct tw_heap *heap, const struct tw_array *arrays, size_t count)
{
	return pack(heap, arrays, count, false);
}

struct tw_block *tw_part_pack_head(struct tw_heap *heap, const struct tw_array *arrays,
				   size_t count)
{
	return pack(heap, arrays, count, true);
}

/* Does the data of an array lie in the block? */
static bool is_inside(const struct entry *e, size_t len)
{
	return e->n <= len && e->offset <= len && e->offset % sizeof(float) == 0 &&
	       array_bytes(e->kind, e->n) <= len - e->offset;
}

static enum tw_status unpack(const uint8_t *bytes, size_t len, bool only_head, struct tw_heap *heap,
			     struct tw_array **arrays, size_t *count)
{
	struct tw_array *list;
	struct head head;

	if (len < sizeof head)
		return TW_BAD_BYTES;
	memcpy(&head, bytes, sizeof head);
	if (memcmp(head.magic, only_head ? head_magic : magic, sizeof magic) != 0 ||
	    head.count > TW_PART_ARRAYS_MAX ||
	    len < sizeof head + head.count * sizeof(struct entry))
		return TW_BAD_BYTES;
	list = tw_heap_zeros(heap, (head.count ? head.count : 1) * sizeof *list);
	if (!list)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < head.count; k++) {
		struct tw_array *a = &list[k];
		struct entry e;
		bool absent;

		memcpy(&e, bytes + sizeof head + k * sizeof e, sizeof e);
		absent = only_head && e.kind == TW_FLOATS;
		if ((e.kind != TW_FLOATS && e.kind != TW_BYTES) ||
		    (!absent && !is_inside(&e, len)) || e.from > UINT64_MAX - e.n ||
		    !memchr(e.name, '\0', sizeof e.name)) {
			heap->put(heap, list);
			return TW_BAD_BYTES;
		}
		memcpy(a->name, e.name, sizeof a->name);
		a->from = e.from;
		a->n = e.n;
		a->kind = e.kind;
		a->at = absent ? NULL : bytes + e.offset;
	}
	*arrays = list;
	*count = head.count;
	return TW_OK;
}

enum tw_status tw_part_unpack(const uint8_t *bytes, size_t len, struct tw_heap *heap,
			      struct tw_array **arrays, size_t *count)
{
	return unpack(bytes, len, false, heap, arrays, count);
}

enum tw_status tw_part_unpack_head(const uint8_t *bytes, size_t len, struct tw_heap *heap,
				   struct tw_array **arrays, size_t *count)
{
	const bool only_head =
		len >= sizeof head_magic && memcmp(bytes, head_magic, sizeof head_magic) == 0;

	return unpack(bytes, len, only_head, heap, arrays, count);
}

const struct tw_array *tw_part_find(const struct tw_array *arrays, size_t count, const char *name)
{
	for (size_t k = 0; k < count; k++)
		if (strcmp(arrays[k].name, name) == 0)
			return &arrays[k];
	return NULL;
}

enum tw_status tw_master_part_read(const struct tw_part *parts, size_t count,
				   struct tw_master_part *out)
{
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a;
		struct tw_array *arrays;
		enum tw_status st;
		size_t n;

		if (strcmp(parts[k].name, "master") != 0)
			continue;
		st = tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes, &tw_heap_system,
				    &arrays, &n);
		if (st != TW_OK)
			return st;
		a = tw_part_find(arrays, n, "master");
		st = a && a->kind == TW_BYTES && a->n == sizeof *out ? TW_OK : TW_BAD_BYTES;
		if (st == TW_OK)
			memcpy(out, a->at, sizeof *out);
		tw_heap_system.put(&tw_heap_system, arrays);
		return st;
	}
	return TW_ABSENT;
}

int64_t tw_master_release_time(const struct tw_part *parts, size_t count)
{
	struct tw_master_part part;

	return tw_master_part_read(parts, count, &part) == TW_OK ? part.release : 0;
}
