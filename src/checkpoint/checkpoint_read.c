/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_read.c - a cut on disk, checked to its last byte: DONE vouches for the manifest, the
 * manifest for every part. */
#include "checkpoint/checkpoint_read.h"

#include "base/grow.h"
#include "base/machine/regular_file.h"
#include "checkpoint/digest.h"
#include "checkpoint/files.h"
#include "checkpoint/part_format.h"
#include "checkpoint/checkpoint_directory.h"
#include "node/checkpoint_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST_MOST ((size_t)64 << 20)
#define PARTS_MOST    1000000
#define PIECE         ((size_t)1 << 20) /* of a file that is checked */

uint64_t tw_cut_number(const char *name)
{
	uint64_t n = 0;

	if (strncmp(name, "ckpt-", 5) != 0 || name[5] == '0')
		return 0;
	for (name += 5; *name >= '0' && *name <= '9' && n < UINT64_MAX / 16; name++)
		n = 10 * n + (uint64_t)(*name - '0');
	return *name ? 0 : n;
}

static int newest_first(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

enum tw_status tw_cut_list(int at, uint64_t **out, size_t *count)
{
	const int fd = tw_folder_at(at, ".");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t *list = NULL;
	const struct dirent *e;
	size_t n = 0, room = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return TW_IO;
	}
	while ((e = readdir(d))) {
		const uint64_t cut = tw_cut_number(e->d_name);

		if (!cut)
			continue;
		if (!TW_GROW(&tw_heap_system, list, room, n, n + 1)) {
			free(list);
			closedir(d);
			return TW_NO_MEMORY;
		}
		list[n++] = cut;
	}
	closedir(d);
	if (n)
		qsort(list, n, sizeof *list, newest_first);
	*out = list;
	*count = n;
	return TW_OK;
}

enum tw_status tw_cut_bad(struct tw_cut_files *c, const char *file, const char *what)
{
	snprintf(c->why, sizeof c->why, "%.80s %s", file, what);
	return TW_BAD_BYTES;
}

/* Where this process has run out of something, nothing is wrong with the cut: no older one may be
 * taken for it. */
static enum tw_status unreadable(struct tw_cut_files *c, const char *file)
{
	const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOMEM;

	snprintf(c->why, sizeof c->why, "%.80s: %s", file, tw_cause(errno));
	return scarce ? TW_IO : TW_BAD_BYTES;
}

static enum tw_status read_checked(struct tw_cut_files *c, const char *file, size_t most,
				   struct tw_block **out)
{
	const enum tw_status status = tw_file_read(c->fd, file, most, c->heap, out);

	switch (status) {
	case TW_OK:
	case TW_NO_MEMORY:
		return status;
	case TW_ABSENT:
		return tw_cut_bad(c, file, "is missing");
	case TW_BAD_BYTES:
		return tw_cut_bad(c, file, "is too long");
	default:
		return unreadable(c, file);
	}
}

static enum tw_status read_manifest(struct tw_cut_files *c)
{
	struct tw_block *text = NULL, *done = NULL;
	char hash[TW_DIGEST_TEXT];
	enum tw_status status;

	status = read_checked(c, "DONE", TW_DIGEST_TEXT, &done);
	if (status == TW_OK)
		status = read_checked(c, "manifest.json", MANIFEST_MOST, &text);
	if (status == TW_OK) {
		tw_digest_bytes(text->data, text->bytes, hash);
		if (done->bytes != TW_DIGEST_TEXT || done->data[TW_DIGEST_TEXT - 1] != '\n' ||
		    memcmp(done->data, hash, TW_DIGEST_TEXT - 1) != 0)
			status = tw_cut_bad(c, "manifest.json", "does not match DONE");
	}
	if (status == TW_OK) {
		c->manifest = json_loadb((const char *)text->data, text->bytes, 0, NULL);
		if (!c->manifest)
			status = tw_cut_bad(c, "manifest.json", "is not JSON");
	}
	tw_block_drop(text);
	tw_block_drop(done);
	return status;
}

static enum tw_status check_format(struct tw_cut_files *c)
{
	json_int_t number, format;

	if (json_unpack(c->manifest, "{s:I, s:I}", "format", &format, "cut", &number) || number < 1)
		return tw_cut_bad(c, "manifest.json", "lacks a field");
	if (format != TW_STORE_FORMAT)
		return tw_cut_bad(c, "manifest.json", "is of another version of the format");
	c->number = (uint64_t)number;
	return TW_OK;
}

enum tw_status tw_cut_open(struct tw_heap *heap, int at, const char *name, struct tw_cut_files *out)
{
	enum tw_status status;

	*out = (struct tw_cut_files){ .heap = heap, .fd = tw_folder_at(at, name) };
	if (out->fd < 0)
		return unreadable(out, name);
	status = read_manifest(out);
	return status == TW_OK ? check_format(out) : status;
}

/* A row of the manifest. */
struct row {
	const char *name, *file, *hash;
	enum tw_part_encoding encoding;
	size_t bytes;
	bool ranged; /* it holds the parameters from..to */
	uint64_t from, to;
};

static enum tw_status read_row(struct tw_cut_files *c, const json_t *row, struct row *out)
{
	json_int_t bytes, from = 0, to = 0;
	const char *encoding;

	*out = (struct row){ .ranged = json_object_get(row, "from") != NULL };
	if (json_unpack((json_t *)row, "{s:s, s:s, s:s, s:I, s:s}", "name", &out->name, "file",
			&out->file, "encoding", &encoding, "bytes", &bytes, "xxh3_128",
			&out->hash) ||
	    (out->ranged && json_unpack((json_t *)row, "{s:I, s:I}", "from", &from, "to", &to)) ||
	    strlen(out->name) >= sizeof c->part->name || strchr(out->file, '/') || bytes < 0 ||
	    from < 0 || to < from)
		return tw_cut_bad(c, "manifest.json", "has a part that makes no sense");
	if (!tw_part_encoding_find(encoding, &out->encoding))
		return tw_cut_bad(c, out->file, "has an encoding that this version does not know");
	out->bytes = (size_t)bytes;
	out->from = (uint64_t)from;
	out->to = (uint64_t)to;
	return TW_OK;
}

static enum tw_status compare_hash(struct tw_cut_files *c, const struct row *r, size_t bytes,
				   const char *seen)
{
	if (bytes < r->bytes)
		return tw_cut_bad(c, r->file, "is truncated");
	return strcmp(seen, r->hash) == 0 ? TW_OK
					  : tw_cut_bad(c, r->file, "does not match its hash");
}

static enum tw_status read_part(struct tw_cut_files *c, const struct row *r, struct tw_part *out)
{
	struct tw_block *file = NULL;
	char seen[TW_DIGEST_TEXT];
	enum tw_status status = read_checked(c, r->file, r->bytes, &file);

	if (status != TW_OK)
		return status;
	tw_digest_bytes(file->data, file->bytes, seen);
	status = compare_hash(c, r, file->bytes, seen);
	if (status == TW_OK)
		status = tw_part_decode(c->heap, r->encoding, file, &out->bytes);
	if (status == TW_BAD_BYTES && !c->why[0])
		tw_cut_bad(c, r->file, "is not a part");
	tw_block_drop(file);
	return status;
}

/* --- heads --- */

/* Check a file to its last byte, some of it at a time. */
static enum tw_status check_file(struct tw_cut_files *c, const struct row *r, int fd)
{
	struct tw_digest *d = tw_digest_new();
	uint8_t *some = c->heap->get(c->heap, PIECE);
	enum tw_status status = d && some ? TW_OK : TW_NO_MEMORY;
	char seen[TW_DIGEST_TEXT];
	size_t bytes = 0;
	ssize_t n = 1;

	while (status == TW_OK && n != 0 && bytes <= r->bytes) {
		n = pread(fd, some, PIECE, (off_t)bytes);
		if (n < 0 && errno != EINTR)
			status = unreadable(c, r->file);
		if (n > 0) {
			tw_digest_add(d, some, (size_t)n);
			bytes += (size_t)n;
		}
	}
	if (status == TW_OK && bytes > r->bytes)
		status = tw_cut_bad(c, r->file, "is too long");
	if (status == TW_OK) {
		tw_digest_text(d, seen);
		status = compare_hash(c, r, bytes, seen);
	}
	c->heap->put(c->heap, some);
	tw_digest_free(d);
	return status;
}

static enum tw_status read_head(struct tw_cut_files *c, const struct row *r, bool trusted,
				struct tw_part *out)
{
	const int fd = tw_regular_open(c->fd, r->file, O_RDONLY, 0);
	enum tw_status status;

	if (fd < 0)
		return errno == ENOENT ? tw_cut_bad(c, r->file, "is missing")
				       : unreadable(c, r->file);
	status = trusted ? TW_OK : check_file(c, r, fd);
	if (status == TW_OK) {
		status = tw_part_read_head(c->heap, fd, &out->bytes);
		if (status == TW_BAD_BYTES)
			tw_cut_bad(c, r->file, "is not a part");
		else if (status == TW_IO)
			status = unreadable(c, r->file);
	}
	close(fd);
	return status;
}

/* --- all of them --- */

/* No part and no file may be named twice: each is kept in memory. */
static enum tw_status check_unique(struct tw_cut_files *c, const json_t *rows, const char *field)
{
	json_t *seen = json_object();
	enum tw_status status = seen ? TW_OK : TW_NO_MEMORY;

	for (size_t k = 0; k < json_array_size(rows) && status == TW_OK; k++) {
		const char *key =
			json_string_value(json_object_get(json_array_get(rows, k), field));

		if (!key)
			continue; /* read_row has a sentence for it */
		if (json_object_get(seen, key))
			status = tw_cut_bad(c, "manifest.json", "names a part twice");
		else if (json_object_set_new(seen, key, json_true()))
			status = TW_NO_MEMORY;
	}
	json_decref(seen);
	return status;
}

static enum tw_status find_rows(struct tw_cut_files *c, const json_t **rows, size_t *count)
{
	enum tw_status status;

	*rows = json_object_get(c->manifest, "parts");
	*count = json_array_size(*rows);
	if (!json_is_array(*rows) || *count > PARTS_MOST)
		return tw_cut_bad(c, "manifest.json", "lacks its parts");
	status = check_unique(c, *rows, "name");
	return status == TW_OK ? check_unique(c, *rows, "file") : status;
}

static enum tw_status list_parts(struct tw_cut_files *c, const json_t **rows)
{
	size_t count;
	const enum tw_status status = find_rows(c, rows, &count);

	if (status != TW_OK)
		return status;
	c->part = tw_heap_zeros(c->heap, (count ? count : 1) * sizeof *c->part);
	if (!c->part)
		return TW_NO_MEMORY;
	c->parts = count;
	return TW_OK;
}

/* The file of what is frozen, if the cut has one. */
static enum tw_status check_frozen(struct tw_cut_files *c)
{
	const json_t *row = json_object_get(c->manifest, TW_CUT_FROZEN);
	enum tw_status status;
	struct row r;
	int fd;

	if (!row)
		return TW_OK;
	status = read_row(c, row, &r);
	if (status != TW_OK)
		return status;
	fd = tw_regular_open(c->fd, r.file, O_RDONLY, 0);
	if (fd < 0)
		return errno == ENOENT ? tw_cut_bad(c, r.file, "is missing")
				       : unreadable(c, r.file);
	status = check_file(c, &r, fd);
	close(fd);
	return status;
}

enum tw_status tw_cut_parts_of(struct tw_cut_files *c, uint64_t from, uint64_t to, bool trusted)
{
	const bool all = from == 0 && to == UINT64_MAX;
	const json_t *rows = NULL;
	enum tw_status status = list_parts(c, &rows);

	for (size_t i = 0; i < c->parts && status == TW_OK; i++) {
		struct row r;

		status = read_row(c, json_array_get(rows, i), &r);
		if (status != TW_OK)
			return status;
		strcpy(c->part[i].name, r.name);
		if (!all && r.ranged && r.encoding == TW_PART_SAFETENSORS &&
		    (r.to <= from || r.from >= to))
			status = read_head(c, &r, trusted, &c->part[i]);
		else
			status = read_part(c, &r, &c->part[i]);
	}
	return status == TW_OK && !trusted ? check_frozen(c) : status;
}

/* --- is it all there? --- */

static int by_place(const void *a, const void *b)
{
	const struct tw_cut_range *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* The parameters of one shard's part. */
static enum tw_status find_shard(struct tw_heap *heap, const struct tw_part *part,
				 struct tw_cut_range *out)
{
	struct tw_array *list = NULL;
	size_t n = 0;
	enum tw_status status =
		tw_part_unpack_head(part->bytes->data, part->bytes->bytes, heap, &list, &n);
	const struct tw_array *a = status == TW_OK ? tw_part_find(list, n, "parameters") : NULL;

	if (status != TW_OK)
		return status;
	if (a && a->kind == TW_FLOATS)
		*out = (struct tw_cut_range){ .from = a->from, .to = a->from + a->n };
	else
		status = TW_BAD_BYTES;
	heap->put(heap, list);
	return status;
}

enum tw_status tw_cut_is_whole(struct tw_heap *heap, const struct tw_part *parts, size_t count,
			       uint64_t all)
{
	struct tw_cut_range *list = tw_heap_zeros(heap, (count + 1) * sizeof *list);
	struct tw_master_part master;
	enum tw_status status = list ? TW_OK : TW_NO_MEMORY;
	uint64_t at = 0;
	size_t n = 0;

	if (status == TW_OK && tw_master_part_read(parts, count, &master) != TW_OK)
		status = TW_BAD_BYTES;
	for (size_t k = 0; k < count && status == TW_OK; k++)
		if (strncmp(parts[k].name, "shard ", 6) == 0)
			status = find_shard(heap, &parts[k], &list[n++]);
	if (status == TW_OK && n)
		qsort(list, n, sizeof *list, by_place);
	for (size_t k = 0; k < n && status == TW_OK; k++) {
		if (list[k].from != at)
			status = TW_BAD_BYTES;
		at = list[k].to;
	}
	heap->put(heap, list);
	return status == TW_OK && at != all ? TW_BAD_BYTES : status;
}

/* --- parameters that are read as they are asked for --- */

#define OPEN_MOST 200 /* files that stay open, so that nobody can remove them */

static int open_part(struct tw_cut_files *c, const char *file)
{
	return tw_regular_open(c->fd, file, O_RDONLY, 0);
}

static enum tw_status find_range(struct tw_cut_files *c, const struct row *r, int fd,
				 struct tw_cut_range *out)
{
	uint64_t n = 0;
	enum tw_status status =
		tw_part_find_floats(c->heap, fd, "parameters", &out->from, &n, &out->offset);

	if (status == TW_ABSENT)
		return tw_cut_bad(c, r->file, "has no parameters");
	if (status == TW_BAD_BYTES)
		return tw_cut_bad(c, r->file, "is not a part");
	if (status == TW_IO)
		return unreadable(c, r->file);
	out->to = out->from + n;
	out->file = r->file;
	return status;
}

/* Check the file; one of a shard goes to the list. */
static enum tw_status look_at_part(struct tw_cut_files *c, const struct row *r,
				   struct tw_cut_range *list, size_t *count)
{
	const int fd = open_part(c, r->file);
	struct tw_cut_range *range = &list[*count];
	enum tw_status status;

	if (fd < 0)
		return errno == ENOENT ? tw_cut_bad(c, r->file, "is missing")
				       : unreadable(c, r->file);
	status = check_file(c, r, fd);
	if (status == TW_OK &&
	    (strncmp(r->name, "shard ", 6) == 0 || strcmp(r->name, TW_CUT_FROZEN) == 0)) {
		status = r->encoding == TW_PART_SAFETENSORS
				 ? find_range(c, r, fd, range)
				 : tw_cut_bad(c, r->file, "has no parameters");
		if (status == TW_OK) {
			range->fd = *count < OPEN_MOST ? fd : -1;
			*count += 1;
			if (range->fd >= 0)
				return TW_OK;
		}
	}
	close(fd);
	return status;
}

static enum tw_status check_ranges(struct tw_cut_files *c, struct tw_cut_range *list, size_t count)
{
	uint64_t at = 0;

	if (count)
		qsort(list, count, sizeof *list, by_place);
	for (size_t k = 0; k < count; k++) {
		if (list[k].from != at)
			return tw_cut_bad(c, "manifest.json", "lacks parameters between its parts");
		at = list[k].to;
	}
	return at ? TW_OK : tw_cut_bad(c, "manifest.json", "has no parameters");
}

enum tw_status tw_cut_ranges(struct tw_cut_files *c, struct tw_cut_range **out, size_t *count)
{
	const json_t *rows, *frozen = json_object_get(c->manifest, TW_CUT_FROZEN);
	size_t parts;
	struct tw_cut_range *list;
	enum tw_status status = find_rows(c, &rows, &parts);

	*count = 0;
	if (status != TW_OK)
		return status;
	list = tw_heap_zeros(c->heap, (parts + 2) * sizeof *list);
	if (!list)
		return TW_NO_MEMORY;
	for (size_t i = 0; i < parts + (frozen != NULL) && status == TW_OK; i++) {
		struct row r;

		status = read_row(c, i < parts ? json_array_get(rows, i) : frozen, &r);
		if (status == TW_OK)
			status = look_at_part(c, &r, list, count);
	}
	if (status == TW_OK)
		status = check_ranges(c, list, *count);
	if (status == TW_OK)
		*out = list;
	else
		tw_cut_ranges_free(c->heap, list, *count);
	return status;
}

void tw_cut_ranges_free(struct tw_heap *heap, struct tw_cut_range *range, size_t count)
{
	for (size_t k = 0; range && k < count; k++)
		if (range[k].fd >= 0)
			close(range[k].fd);
	heap->put(heap, range);
}

static enum tw_status read_range(struct tw_cut_files *c, const struct tw_cut_range *r,
				 uint64_t from, uint64_t to, float *out)
{
	const int fd = r->fd >= 0 ? r->fd : open_part(c, r->file);
	enum tw_status status;

	if (fd < 0)
		return unreadable(c, r->file);
	status = tw_part_read_at(fd, out, (to - from) * sizeof *out,
				 r->offset + (from - r->from) * sizeof *out);
	if (status == TW_IO)
		status = unreadable(c, r->file);
	else if (status == TW_BAD_BYTES)
		tw_cut_bad(c, r->file, "is truncated");
	if (fd != r->fd)
		close(fd);
	return status;
}

enum tw_status tw_cut_floats(struct tw_cut_files *c, const struct tw_cut_range *range, size_t count,
			     uint64_t from, uint64_t n, float *out)
{
	enum tw_status status = TW_OK;

	for (size_t k = 0; k < count && status == TW_OK; k++) {
		const uint64_t a = range[k].from > from ? range[k].from : from;
		const uint64_t b = range[k].to < from + n ? range[k].to : from + n;

		if (a < b)
			status = read_range(c, &range[k], a, b, out + (a - from));
	}
	return status;
}

void tw_cut_drop_parts(struct tw_heap *heap, struct tw_part *part, size_t parts)
{
	for (size_t i = 0; i < parts; i++)
		tw_block_drop(part[i].bytes);
	heap->put(heap, part);
}

void tw_cut_release(struct tw_cut_files *c)
{
	if (c->part)
		tw_cut_drop_parts(c->heap, c->part, c->parts);
	json_decref(c->manifest);
	if (c->fd >= 0)
		close(c->fd);
}
