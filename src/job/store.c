/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - cuts as directories: ckpt-<n>/ is complete or it is not there.
 *
 *  (1) a directory named ckpt-<n> was renamed from ckpt-<n>.new after everything in it was synced;
 *  (2) DONE holds the hash of manifest.json, which holds the hash of every part: no byte of a cut
 *      can change unnoticed;
 *  (3) an older cut is removed only after a newer one is complete, and never by a failed save. */
#include "job/store.h"

#include "job/digest.h"
#include "job/files.h"
#include "job/part_file.h"
#include "node/part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MANIFEST_MOST ((size_t)64 << 20)
#define PARTS_MOST    1000000
#define TOLD          16

struct dir_store {
	struct tw_store store; /* must stay first */
	struct tw_heap *heap;
	const struct tw_store_facts *facts;
	const struct tw_log *log;
	struct tw_error error; /* of the last save */
	double seconds;        /* spent before this process, up to the cut that was loaded */
	struct tw_store_counts counts; /* likewise */
	const struct tw_ran *ran;      /* what this process counts; may be NULL */
	uint64_t told[TOLD];           /* refused cuts that were said, 0 for none; a ring */
	size_t tells;
	int64_t began;
	int fd;
	char dir[];
};

static double seconds_now(const struct dir_store *d)
{
	struct timespec t;

	if (!d->began)
		return d->seconds;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return d->seconds +
	       (double)((int64_t)t.tv_sec * TW_SECOND + t.tv_nsec - d->began) / (double)TW_SECOND;
}

/* ckpt-<n> gives n; anything else, also ckpt-<n>.new, gives 0. */
static uint64_t cut_number(const char *name)
{
	uint64_t n = 0;

	if (strncmp(name, "ckpt-", 5) != 0 || name[5] == '0')
		return 0;
	for (name += 5; *name >= '0' && *name <= '9' && n < UINT64_MAX / 16; name++)
		n = 10 * n + (uint64_t)(*name - '0');
	return *name ? 0 : n;
}

/* ckpt-<n>.new and ckpt-<n>.old; ckpt-<n>.refused where n is not above `refused`. */
static bool leftover(const char *name, uint64_t refused)
{
	const char *dot = strrchr(name, '.');
	char number[40];

	if (strncmp(name, "ckpt-", 5) != 0 || !dot || dot - name >= (ptrdiff_t)sizeof number)
		return false;
	snprintf(number, sizeof number, "%.*s", (int)(dot - name), name);
	return strcmp(dot, ".new") == 0 || strcmp(dot, ".old") == 0 ||
	       (strcmp(dot, ".refused") == 0 && cut_number(number) <= refused);
}

static int newest_first(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

/* Numbers of the cuts under fd, newest first, in *out for free(). */
static enum tw_status list_cuts(int at, uint64_t **out, size_t *count)
{
	const int fd = tw_folder_at(at, ".");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t *list = NULL;
	const struct dirent *e;
	size_t n = 0;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return TW_IO;
	}
	while ((e = readdir(d))) {
		const uint64_t cut = cut_number(e->d_name);
		uint64_t *more;

		if (!cut)
			continue;
		more = realloc(list, (n + 1) * sizeof *list);
		if (!more) {
			free(list);
			closedir(d);
			return TW_NO_MEMORY;
		}
		list = more;
		list[n++] = cut;
	}
	closedir(d);
	if (n)
		qsort(list, n, sizeof *list, newest_first);
	*out = list;
	*count = n;
	return TW_OK;
}

static void remove_leftovers(int at, uint64_t refused)
{
	const int fd = tw_folder_at(at, ".");
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d)))
		if (leftover(e->d_name, refused))
			tw_folder_remove(at, e->d_name);
	closedir(d);
}

/* A cut loses its name before it loses its files, so that (1) holds at every instant. */
static enum tw_status remove_cut(int at, uint64_t cut)
{
	char name[40], old[48];

	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	snprintf(old, sizeof old, "%s.old", name);
	tw_folder_remove(at, old);
	if (renameat(at, name, at, old))
		return errno == ENOENT ? TW_OK : TW_IO;
	return tw_folder_remove(at, old);
}

/* --- saving --- */

static enum tw_status save_failed(struct dir_store *d, uint64_t cut, const char *what)
{
	const char *cause = strerror(errno);

	tw_fail(&d->error, TW_IO,
		"checkpoint %" PRIu64
		" cannot be written to %s (%s: %s); what was saved before it is intact",
		cut, d->dir, what, cause);
	tw_log_line(d->log, TW_ERROR, "checkpoint", "%s", d->error.text);
	return TW_IO;
}

static struct tw_store_counts counts_now(const struct dir_store *d)
{
	struct tw_store_counts c = d->counts;

	if (d->ran) {
		c.bytes_sent += d->ran->bytes_sent;
		c.bytes_received += d->ran->bytes_received;
		c.events += d->ran->events;
	}
	return c;
}

/* How far the run was, as the master's part says; without one, nothing. */
static void describe(json_t *manifest, const struct tw_part *parts, size_t count)
{
	struct tw_master_part m;
	json_t *rows;

	if (tw_master_part_read(parts, count, &m) != TW_OK)
		return;
	rows = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "round", (json_int_t)m.round,
			 "generation", (json_int_t)m.generation, "steps", (json_int_t)m.steps,
			 "applied_samples", (json_int_t)m.samples, "redealt", (json_int_t)m.redealt,
			 "dropped", (json_int_t)m.dropped, "workers", (json_int_t)m.workers,
			 "shards", (json_int_t)m.shards);
	json_object_update(manifest, rows);
	json_decref(rows);
}

static json_t *manifest_of(const struct dir_store *d, uint64_t cut)
{
	const struct tw_store_counts c = counts_now(d);
	char hash[20];

	snprintf(hash, sizeof hash, "%016" PRIx64, d->facts->job_hash);
	return json_pack("{s:i, s:s, s:I, s:s, s:s, s:I, s:f, s:I, s:I, s:I, s:[], s:s}", "format",
			 TW_STORE_FORMAT, "program", "thalweg " TW_VERSION, "cut", (json_int_t)cut,
			 "job_hash", hash, "isa", d->facts->isa, "threads",
			 (json_int_t)d->facts->threads, "seconds", seconds_now(d), "bytes_sent",
			 (json_int_t)c.bytes_sent, "bytes_received", (json_int_t)c.bytes_received,
			 "events", (json_int_t)c.events, "parts", "job", d->facts->job_text);
}

static enum tw_status save_part(struct dir_store *d, int fd, uint64_t cut,
				const struct tw_part *part, json_t *manifest)
{
	char file[80], hash[TW_DIGEST_TEXT];
	struct tw_part_image image;
	enum tw_status status;
	json_t *row;

	status = tw_part_encode(d->heap, part, &image);
	if (status != TW_OK)
		return status;
	tw_part_file_name(part->name, &image, file);
	tw_digest_bytes(image.bytes->data, image.bytes->bytes, hash);
	row = json_pack("{s:s, s:s, s:s, s:I, s:s}", "name", part->name, "file", file, "encoding",
			tw_part_encoding_name(image.encoding), "bytes",
			(json_int_t)image.bytes->bytes, "xxh3_128", hash);
	if (row && image.ranged) {
		json_object_set_new(row, "from", json_integer((json_int_t)image.from));
		json_object_set_new(row, "to", json_integer((json_int_t)image.to));
	}
	if (!row || json_array_append_new(json_object_get(manifest, "parts"), row))
		status = TW_NO_MEMORY;
	else if (tw_file_write(fd, file, image.bytes->data, image.bytes->bytes) != TW_OK)
		status = save_failed(d, cut, file);
	tw_block_drop(image.bytes);
	return status;
}

static enum tw_status save_manifest(struct dir_store *d, int fd, uint64_t cut,
				    const json_t *manifest)
{
	char *text = json_dumps(manifest, JSON_INDENT(1));
	char done[TW_DIGEST_TEXT + 1];
	enum tw_status status = TW_OK;

	if (!text)
		return TW_NO_MEMORY;
	tw_digest_bytes(text, strlen(text), done);
	strcat(done, "\n");
	if (tw_file_write(fd, "manifest.json", text, strlen(text)) != TW_OK)
		status = save_failed(d, cut, "manifest.json");
	else if (tw_file_write(fd, "DONE", done, strlen(done)) != TW_OK || fsync(fd))
		status = save_failed(d, cut, "DONE");
	free(text);
	return status;
}

static enum tw_status save_into(struct dir_store *d, const char *folder, uint64_t cut,
				const struct tw_part *parts, size_t count)
{
	json_t *manifest = manifest_of(d, cut);
	enum tw_status status = TW_OK;
	int fd;

	if (!manifest)
		return TW_NO_MEMORY;
	describe(manifest, parts, count);
	fd = mkdirat(d->fd, folder, 0777) ? -1 : tw_folder_at(d->fd, folder);
	if (fd < 0)
		status = save_failed(d, cut, folder);
	for (size_t i = 0; i < count && status == TW_OK; i++)
		status = save_part(d, fd, cut, &parts[i], manifest);
	if (status == TW_OK)
		status = save_manifest(d, fd, cut, manifest);
	if (fd >= 0)
		close(fd);
	json_decref(manifest);
	return status;
}

/* Cut `cut` is complete: of those before it `keep` - 1 stay; those after it were refused when this
 * run went on from an earlier one, and must not be taken for its future. */
static void prune(struct dir_store *d, uint64_t cut)
{
	uint64_t *list = NULL;
	size_t count = 0, kept = 0;

	if (list_cuts(d->fd, &list, &count) != TW_OK)
		return;
	for (size_t i = 0; i < count; i++) {
		if (list[i] > cut) {
			char name[40], away[52];

			snprintf(name, sizeof name, "ckpt-%" PRIu64, list[i]);
			snprintf(away, sizeof away, "%s.refused", name);
			tw_folder_remove(d->fd, away);
			renameat(d->fd, name, d->fd, away);
		} else if (++kept > (d->facts->keep ? d->facts->keep : 1)) {
			remove_cut(d->fd, list[i]);
		}
	}
	free(list);
	remove_leftovers(d->fd, cut);
}

/* The new cut takes the name; one that had it (of a history rolled back) goes only then. */
static enum tw_status give_name(int at, const char *fresh, const char *name)
{
	char old[48];

	snprintf(old, sizeof old, "%s.old", name);
	tw_folder_remove(at, old);
	if (renameat(at, name, at, old) && errno != ENOENT)
		return TW_IO;
	if (renameat(at, fresh, at, name) || fsync(at)) {
		const int cause = errno;

		renameat(at, old, at, name);
		errno = cause;
		return TW_IO;
	}
	tw_folder_remove(at, old);
	return TW_OK;
}

static enum tw_status dir_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
			       size_t count)
{
	struct dir_store *d = (struct dir_store *)s;
	char name[40], fresh[48];
	enum tw_status status;

	d->error = (struct tw_error){ .status = TW_OK };
	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	snprintf(fresh, sizeof fresh, "%s.new", name);
	tw_folder_remove(d->fd, fresh);
	status = save_into(d, fresh, cut, parts, count);
	if (status == TW_OK && give_name(d->fd, fresh, name) != TW_OK)
		status = save_failed(d, cut, name);
	if (status != TW_OK) {
		tw_folder_remove(d->fd, fresh);
		if (status == TW_NO_MEMORY)
			tw_fail(&d->error, status, "no memory to write checkpoint %" PRIu64, cut);
		return status;
	}
	for (size_t i = 0; i < TOLD; i++)
		if (d->told[i] == cut)
			d->told[i] = 0;
	prune(d, cut);
	return TW_OK;
}

/* --- loading --- */

struct loading {
	struct tw_part *part;
	size_t count;
	double seconds;
	struct tw_store_counts counts;
	char why[200]; /* what is wrong with the cut */
};

static enum tw_status bad(struct loading *l, const char *file, const char *what)
{
	snprintf(l->why, sizeof l->why, "%.80s %s", file, what);
	return TW_BAD_BYTES;
}

static enum tw_status read_checked(struct dir_store *d, int fd, const char *file, size_t most,
				   struct tw_block **out, struct loading *l)
{
	const enum tw_status status = tw_file_read(fd, file, most, d->heap, out);

	switch (status) {
	case TW_OK:
	case TW_NO_MEMORY:
		return status;
	case TW_ABSENT:
		return bad(l, file, "is missing");
	case TW_BAD_BYTES:
		return bad(l, file, "is too long");
	default:
		return bad(l, file, strerror(errno));
	}
}

static enum tw_status read_manifest(struct dir_store *d, int fd, json_t **out, struct loading *l)
{
	struct tw_block *text = NULL, *done = NULL;
	char hash[TW_DIGEST_TEXT];
	enum tw_status status;

	status = read_checked(d, fd, "DONE", TW_DIGEST_TEXT, &done, l);
	if (status == TW_OK)
		status = read_checked(d, fd, "manifest.json", MANIFEST_MOST, &text, l);
	if (status == TW_OK) {
		tw_digest_bytes(text->data, text->bytes, hash);
		if (done->bytes != TW_DIGEST_TEXT || done->data[TW_DIGEST_TEXT - 1] != '\n' ||
		    memcmp(done->data, hash, TW_DIGEST_TEXT - 1) != 0)
			status = bad(l, "manifest.json", "does not match DONE");
	}
	if (status == TW_OK) {
		*out = json_loadb((const char *)text->data, text->bytes, 0, NULL);
		if (!*out)
			status = bad(l, "manifest.json", "is not JSON");
	}
	tw_block_drop(text);
	tw_block_drop(done);
	return status;
}

static enum tw_status read_part(struct dir_store *d, int fd, json_t *row, struct tw_part *out,
				struct loading *l)
{
	const char *name, *file, *encoding, *hash;
	struct tw_part_image image = { .bytes = NULL };
	char seen[TW_DIGEST_TEXT];
	enum tw_status status;
	json_int_t bytes;

	if (json_unpack(row, "{s:s, s:s, s:s, s:I, s:s}", "name", &name, "file", &file, "encoding",
			&encoding, "bytes", &bytes, "xxh3_128", &hash) ||
	    strlen(name) >= sizeof out->name || strchr(file, '/') || bytes < 0)
		return bad(l, "manifest.json", "has a part that makes no sense");
	if (!tw_part_encoding_find(encoding, &image.encoding))
		return bad(l, file, "has an encoding that this version does not know");
	status = read_checked(d, fd, file, (size_t)bytes, &image.bytes, l);
	if (status != TW_OK)
		return status;
	tw_digest_bytes(image.bytes->data, image.bytes->bytes, seen);
	if (image.bytes->bytes < (size_t)bytes)
		status = bad(l, file, "is truncated");
	else if (strcmp(seen, hash) != 0)
		status = bad(l, file, "does not match its hash");
	else if ((status = tw_part_decode(d->heap, &image, &out->bytes)) == TW_BAD_BYTES)
		status = bad(l, file, "is not a part");
	if (status == TW_OK)
		strcpy(out->name, name);
	tw_block_drop(image.bytes);
	return status;
}

static void drop_parts(struct tw_heap *heap, struct tw_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tw_block_drop(parts[i].bytes);
	heap->put(heap, parts);
}

static enum tw_status check_manifest(struct dir_store *d, uint64_t cut, json_t *m,
				     struct loading *l)
{
	const char *hash, *isa;
	json_int_t number, format, sent, received, events;
	char mine[20];

	if (json_unpack(m, "{s:I, s:I, s:s, s:s, s:F, s:I, s:I, s:I}", "format", &format, "cut",
			&number, "job_hash", &hash, "isa", &isa, "seconds", &l->seconds,
			"bytes_sent", &sent, "bytes_received", &received, "events", &events))
		return bad(l, "manifest.json", "lacks a field");
	l->counts =
		(struct tw_store_counts){ (uint64_t)sent, (uint64_t)received, (uint64_t)events };
	if (format != TW_STORE_FORMAT)
		return bad(l, "manifest.json", "is of another version of the format");
	if ((uint64_t)number != cut)
		return bad(l, "manifest.json", "is of another checkpoint");
	snprintf(mine, sizeof mine, "%016" PRIx64, d->facts->job_hash);
	if (strcmp(mine, hash) != 0)
		return bad(l, "manifest.json", "is of another job");
	if (strcmp(isa, d->facts->isa) != 0)
		tw_log_line(d->log, TW_WARNING, "checkpoint",
			    "checkpoint %" PRIu64 " was made with --isa %s and goes on with %s: "
			    "the last digits may differ from a run that was not stopped",
			    cut, isa, d->facts->isa);
	return TW_OK;
}

static enum tw_status load_parts(struct dir_store *d, int fd, json_t *rows, struct loading *l)
{
	const size_t count = json_array_size(rows);
	enum tw_status status = TW_OK;

	if (!json_is_array(rows) || count > PARTS_MOST)
		return bad(l, "manifest.json", "lacks its parts");
	l->part = tw_heap_zeros(d->heap, (count ? count : 1) * sizeof *l->part);
	if (!l->part)
		return TW_NO_MEMORY;
	l->count = count;
	for (size_t i = 0; i < count && status == TW_OK; i++)
		status = read_part(d, fd, json_array_get(rows, i), &l->part[i], l);
	if (status != TW_OK)
		drop_parts(d->heap, l->part, count);
	return status;
}

static enum tw_status load_cut(struct dir_store *d, uint64_t cut, struct loading *l)
{
	json_t *manifest = NULL;
	enum tw_status status;
	char name[40];
	int fd;

	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	fd = tw_folder_at(d->fd, name);
	if (fd < 0)
		return bad(l, name, strerror(errno));
	status = read_manifest(d, fd, &manifest, l);
	if (status == TW_OK)
		status = check_manifest(d, cut, manifest, l);
	if (status == TW_OK)
		status = load_parts(d, fd, json_object_get(manifest, "parts"), l);
	json_decref(manifest);
	close(fd);
	return status;
}

/* A run loads more than once; what is wrong with a cut is said once. */
static bool first_told(struct dir_store *d, uint64_t cut)
{
	for (size_t i = 0; i < TOLD; i++)
		if (d->told[i] == cut)
			return false;
	d->told[d->tells++ % TOLD] = cut;
	return true;
}

static enum tw_status dir_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
			       size_t *count)
{
	struct dir_store *d = (struct dir_store *)s;
	enum tw_status status;
	uint64_t *list = NULL;
	size_t cuts = 0;

	status = list_cuts(d->fd, &list, &cuts);
	if (status != TW_OK)
		return status;
	*cut = 0;
	*parts = NULL;
	*count = 0;
	for (size_t i = 0; i < cuts; i++) {
		struct loading l = { .part = NULL };

		status = load_cut(d, list[i], &l);
		if (status == TW_OK) {
			*cut = list[i];
			*parts = l.part;
			*count = l.count;
			if (!d->began) { /* later it is this process's own */
				d->seconds = l.seconds;
				d->counts = l.counts;
			}
			break;
		}
		if (status == TW_NO_MEMORY)
			break;
		if (first_told(d, list[i]))
			tw_log_line(d->log, TW_WARNING, "checkpoint",
				    "%s/ckpt-%" PRIu64 " is refused: %s; %s", d->dir, list[i],
				    l.why,
				    i + 1 < cuts ? "using the one before it"
						 : "there is none before it");
		status = TW_OK;
	}
	free(list);
	return status;
}

static void dir_loaded_free(struct tw_store *s, struct tw_part *parts, size_t count)
{
	if (parts)
		drop_parts(((struct dir_store *)s)->heap, parts, count);
}

/* --- opening --- */

enum tw_status tw_dir_store_open(struct tw_heap *heap, const char *dir,
				 const struct tw_store_facts *facts, const struct tw_log *log,
				 struct tw_store **out, struct tw_error *why)
{
	const int fd = tw_folder_at(AT_FDCWD, dir);
	struct dir_store *d;

	if (fd < 0)
		return tw_fail(why, TW_IO, "%s cannot be opened: %s", dir, strerror(errno));
	d = tw_heap_zeros(heap, sizeof *d + strlen(dir) + 1);
	if (!d) {
		close(fd);
		return tw_fail(why, TW_NO_MEMORY, "no memory to open %s", dir);
	}
	*d = (struct dir_store){
		.store = { .save = dir_save, .load = dir_load, .loaded_free = dir_loaded_free },
		.heap = heap,
		.facts = facts,
		.log = log,
		.fd = fd,
	};
	strcpy(d->dir, dir);
	remove_leftovers(fd, 0);
	*out = &d->store;
	return TW_OK;
}

void tw_dir_store_close(struct tw_store *s)
{
	struct dir_store *d = (struct dir_store *)s;

	if (!d)
		return;
	close(d->fd);
	d->heap->put(d->heap, d);
}

const struct tw_error *tw_dir_store_error(const struct tw_store *s)
{
	return &((const struct dir_store *)s)->error;
}

double tw_dir_store_seconds(const struct tw_store *s)
{
	return ((const struct dir_store *)s)->seconds;
}

void tw_dir_store_began(struct tw_store *s, int64_t began)
{
	((struct dir_store *)s)->began = began;
}

struct tw_store_counts tw_dir_store_counts(const struct tw_store *s)
{
	return ((const struct dir_store *)s)->counts;
}

void tw_dir_store_counted(struct tw_store *s, const struct tw_ran *ran)
{
	((struct dir_store *)s)->ran = ran;
}

enum tw_status tw_dir_store_clear(const char *dir, size_t *count, struct tw_error *why)
{
	enum tw_status status = TW_OK;
	uint64_t *list = NULL;
	size_t cuts = 0;
	int fd;

	fd = tw_folder_at(AT_FDCWD, dir);
	if (fd < 0 || list_cuts(fd, &list, &cuts) != TW_OK)
		status = tw_fail(why, TW_IO, "%s cannot be read: %s", dir, strerror(errno));
	for (size_t i = 0; i < cuts && status == TW_OK; i++)
		if (remove_cut(fd, list[i]) != TW_OK)
			status = tw_fail(why, TW_IO, "%s/ckpt-%" PRIu64 " cannot be removed: %s",
					 dir, list[i], strerror(errno));
	if (count)
		*count = cuts;
	if (fd >= 0) {
		remove_leftovers(fd, UINT64_MAX);
		close(fd);
	}
	free(list);
	return status;
}
