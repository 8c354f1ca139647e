/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_directory.c - cuts as directories: ckpt-<n>/ is complete or it is not there.
 *
 *  (1) a directory named ckpt-<n> was renamed from ckpt-<n>.new after everything in it was synced;
 *  (2) DONE holds the hash of manifest.json, which holds the hash of every part: no byte of a cut
 *      can change unnoticed;
 *  (3) an older cut is removed only after a newer one is complete, and never by a failed save;
 *  (4) only files of a checkpoint are removed, and no link is followed: what else has one of its
 *      names stays, under another name if it is in the way. */
#include "checkpoint/checkpoint_directory.h"

#include "base/machine/clock.h"
#include "base/machine/regular_file.h"
#include "checkpoint/checkpoint_read.h"
#include "checkpoint/checkpoint_remove.h"
#include "checkpoint/digest.h"
#include "checkpoint/files.h"
#include "checkpoint/part_format.h"
#include "node/checkpoint_part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOLD 16

struct dir_store {
	struct tw_store store; /* must stay first */
	struct tw_heap *heap;
	const struct tw_store_facts *facts;
	const struct tw_log *log;
	struct tw_error error; /* of the last save */
	double seconds;        /* spent before this process, up to the cut that was loaded */
	struct tw_store_counts counts; /* likewise */
	const struct tw_ran *ran;      /* what this process counts; may be NULL */
	struct told {                  /* numbers of cuts that were said, 0 for none; a ring */
		uint64_t cut[TOLD];
		size_t tells;
	} refused, kept;
	int64_t began;
	uint64_t making;             /* the cut whose folder is there, and not complete; 0: none */
	json_t *rows;                /* of its manifest, by the names of parts */
	uint64_t checked;            /* all bytes of this cut were checked; 0: of none */
	char frozen[TW_DIGEST_TEXT]; /* hash of the file of what is frozen; "": not known yet */
	int fd;
	char dir[];
};

static double seconds_now(const struct dir_store *d)
{
	const int64_t lasted = d->began ? tw_clock() - d->began : 0;

	return d->seconds + (double)lasted / (double)TW_SECOND;
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
	       (strcmp(dot, ".refused") == 0 && tw_cut_number(number) <= refused &&
		tw_cut_number(number));
}

static void remove_leftovers(int at, uint64_t refused, const struct tw_log *log)
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
			tw_cut_make_way(at, e->d_name, log);
	closedir(d);
}

/* A cut loses its name before it loses its files, so that (1) holds at every instant. */
static enum tw_status remove_cut(int at, uint64_t cut, const struct tw_log *log)
{
	char name[40], old[48], odd[TW_ODD];

	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	snprintf(old, sizeof old, "%s.old", name);
	if (tw_folder_look(at, name, tw_cut_knows, odd) == TW_REFUSED)
		return tw_cut_make_way(at, name, log);
	if (tw_cut_make_way(at, old, log) != TW_OK)
		return TW_IO;
	if (renameat(at, name, at, old))
		return errno == ENOENT ? TW_OK : TW_IO;
	return tw_cut_make_way(at, old, log);
}

/* Something is said of a cut: is it the first time?  A run loads and saves more than once. */
static bool first_told(struct told *t, uint64_t cut)
{
	for (size_t i = 0; i < TOLD; i++)
		if (t->cut[i] == cut)
			return false;
	t->cut[t->tells++ % TOLD] = cut;
	return true;
}

/* --- saving --- */

static enum tw_status save_failed(struct dir_store *d, uint64_t cut, const char *what)
{
	const char *cause = tw_cause(errno);

	tw_fail(&d->error, TW_IO,
		"checkpoint %" PRIu64
		" cannot be written to %s (%s: %s); what was saved before it is intact",
		cut, d->dir, what, cause);
	tw_log_line(d->log, TW_WARNING, "checkpoint", "%s", d->error.text);
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
	const struct tw_store_facts *f = d->facts;
	const struct tw_store_counts c = counts_now(d);
	char hash[TW_SHA_TEXT];
	json_t *m;

	tw_sha_text(&d->facts->job_hash, hash);
	m = json_pack("{s:i, s:s, s:I, s:s, s:s, s:I, s:f, s:I, s:I, s:I, s:[], s:s, s:s}",
		      "format", TW_STORE_FORMAT, "program", "thalweg " TW_VERSION, "cut",
		      (json_int_t)cut, "job_hash", hash, "isa", f->isa, "threads",
		      (json_int_t)f->threads, "seconds", seconds_now(d), "bytes_sent",
		      (json_int_t)c.bytes_sent, "bytes_received", (json_int_t)c.bytes_received,
		      "events", (json_int_t)c.events, "parts", "job_file",
		      f->job_file ? f->job_file : "", "job", f->job_text);
	if (m && f->epoch_samples)
		json_object_set_new(m, "epoch_samples", json_integer((json_int_t)f->epoch_samples));
	if (m && f->layout)
		json_object_set(m, "layout", f->layout);
	if (m && f->card)
		json_object_set(m, "card", f->card);
	return m;
}

static void digest_pieces(const struct tw_part_image *image, struct tw_digest *d,
			  char hash[TW_DIGEST_TEXT])
{
	for (size_t k = 0; k < image->pieces; k++)
		tw_digest_add(d, image->piece[k].iov_base, image->piece[k].iov_len);
	tw_digest_text(d, hash);
}

static json_t *row_of(const struct tw_part *part, const struct tw_part_image *image,
		      const char *file, const char *hash)
{
	json_t *row = json_pack("{s:s, s:s, s:s, s:I, s:s}", "name", part->name, "file", file,
				"encoding", tw_part_encoding_name(image->encoding), "bytes",
				(json_int_t)image->bytes, "xxh3_128", hash);

	if (row && image->ranged) {
		json_object_set_new(row, "from", json_integer((json_int_t)image->from));
		json_object_set_new(row, "to", json_integer((json_int_t)image->to));
	}
	return row;
}

static void folder_name(uint64_t cut, char out[48])
{
	snprintf(out, 48, "ckpt-%" PRIu64 ".new", cut);
}

/* Write the part, and keep its row for the manifest. */
static enum tw_status save_part(struct dir_store *d, uint64_t cut, const struct tw_part *part)
{
	struct tw_digest *digest = tw_digest_new();
	char folder[48], file[80], hash[TW_DIGEST_TEXT];
	struct tw_part_image image;
	enum tw_status status;
	int fd;

	if (!digest)
		return TW_NO_MEMORY;
	status = tw_part_encode(d->heap, part, &image);
	if (status != TW_OK) {
		tw_digest_free(digest);
		return status;
	}
	folder_name(cut, folder);
	fd = tw_folder_at(d->fd, folder);
	tw_part_file_name(part->name, &image, file);
	digest_pieces(&image, digest, hash);
	if (json_object_set_new(d->rows, part->name, row_of(part, &image, file, hash)))
		status = TW_NO_MEMORY;
	else if (fd < 0 || tw_file_write_pieces(fd, file, image.piece, image.pieces) != TW_OK)
		status = save_failed(d, cut, file);
	if (fd >= 0)
		close(fd);
	tw_part_image_release(&image);
	tw_digest_free(digest);
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

/* What there is of a cut that was not completed goes. */
static void forget_making(struct dir_store *d)
{
	char folder[48];

	folder_name(d->making, folder);
	if (d->making)
		tw_cut_make_way(d->fd, folder, d->log);
	d->making = 0;
	json_decref(d->rows);
	d->rows = NULL;
}

/* The folder of the cut that is made now. */
static enum tw_status begin_making(struct dir_store *d, uint64_t cut)
{
	char folder[48];

	if (d->making == cut)
		return TW_OK;
	forget_making(d);
	folder_name(cut, folder);
	d->rows = json_object();
	if (!d->rows)
		return TW_NO_MEMORY;
	if (tw_cut_make_way(d->fd, folder, d->log) != TW_OK || mkdirat(d->fd, folder, 0777))
		return save_failed(d, cut, folder);
	d->making = cut;
	return TW_OK;
}

/* The parts that were put before have rows already. */
static enum tw_status save_parts(struct dir_store *d, uint64_t cut, const struct tw_part *parts,
				 size_t count, json_t *manifest)
{
	json_t *list = json_object_get(manifest, "parts");
	enum tw_status status = TW_OK;

	for (size_t i = 0; i < count && status == TW_OK; i++) {
		if (parts[i].bytes)
			status = save_part(d, cut, &parts[i]);
		if (status == TW_OK &&
		    json_array_append(list, json_object_get(d->rows, parts[i].name)))
			status = json_object_get(d->rows, parts[i].name) ? TW_NO_MEMORY
									 : TW_BAD_INPUT;
	}
	return status;
}

/* What is frozen, as a part of its own; bytes NULL: nothing is, or there is no memory. */
static struct tw_part frozen_part(const struct dir_store *d)
{
	const struct tw_constants *c = &d->facts->constants;
	const struct tw_array all = { .name = "parameters",
				      .from = d->facts->moving,
				      .n = c->floats,
				      .kind = TW_FLOATS,
				      .at = c->floats ? c->piece[0].at : NULL };
	struct tw_part part = { .name = TW_CUT_FROZEN };

	if (c->floats)
		part.bytes = tw_part_pack(d->heap, &all, 1);
	return part;
}

static enum tw_status save_frozen(struct dir_store *d, uint64_t cut, json_t *manifest)
{
	struct tw_part part = frozen_part(d);
	enum tw_status status;

	if (!d->facts->constants.floats)
		return TW_OK;
	status = part.bytes ? save_part(d, cut, &part) : TW_NO_MEMORY;
	tw_block_drop(part.bytes);
	if (status == TW_OK &&
	    json_object_set(manifest, TW_CUT_FROZEN, json_object_get(d->rows, TW_CUT_FROZEN)))
		status = TW_NO_MEMORY;
	return status;
}

static enum tw_status save_all(struct dir_store *d, uint64_t cut, const struct tw_part *parts,
			       size_t count)
{
	json_t *manifest = manifest_of(d, cut);
	enum tw_status status;
	char folder[48];
	int fd;

	if (!manifest)
		return TW_NO_MEMORY;
	describe(manifest, parts, count);
	status = save_parts(d, cut, parts, count, manifest);
	if (status == TW_OK)
		status = save_frozen(d, cut, manifest);
	folder_name(cut, folder);
	fd = tw_folder_at(d->fd, folder);
	if (status == TW_OK && fd < 0)
		status = save_failed(d, cut, folder);
	if (status == TW_OK)
		status = save_manifest(d, fd, cut, manifest);
	if (fd >= 0)
		close(fd);
	json_decref(manifest);
	return status;
}

/* One that has files of others stays, with all that is in it. */
static void remove_old(struct dir_store *d, uint64_t cut)
{
	char name[40], odd[TW_ODD];

	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	if (tw_folder_look(d->fd, name, tw_cut_knows, odd) != TW_REFUSED)
		remove_cut(d->fd, cut, d->log);
	else if (first_told(&d->kept, cut))
		tw_log_line(d->log, TW_WARNING, "checkpoint", "%s/%s is kept: %s", d->dir, name,
			    odd);
}

/* Cut `cut` is complete: of those before it `keep` - 1 stay; those after it were refused when this
 * run went on from an earlier one, and must not be taken for its future. */
static void prune(struct dir_store *d, uint64_t cut)
{
	uint64_t *list = NULL;
	size_t count = 0, kept = 0;

	if (tw_cut_list(d->fd, &list, &count) != TW_OK)
		return;
	for (size_t i = 0; i < count; i++) {
		if (list[i] > cut) {
			char name[40], away[52];

			snprintf(name, sizeof name, "ckpt-%" PRIu64, list[i]);
			snprintf(away, sizeof away, "%s.refused", name);
			tw_cut_make_way(d->fd, away, d->log);
			renameat(d->fd, name, d->fd, away);
		} else if (++kept > (d->facts->keep ? d->facts->keep : 1)) {
			remove_old(d, list[i]);
		}
	}
	free(list);
	remove_leftovers(d->fd, cut, d->log);
}

/* The new cut takes the name; one that had it (of a history rolled back) goes only then. */
static enum tw_status give_name(int at, const char *fresh, const char *name,
				const struct tw_log *log)
{
	char old[48], odd[TW_ODD];

	snprintf(old, sizeof old, "%s.old", name);
	if (tw_folder_look(at, name, tw_cut_knows, odd) == TW_REFUSED)
		tw_cut_make_way(at, name, log);
	if (tw_cut_make_way(at, old, log) != TW_OK ||
	    (renameat(at, name, at, old) && errno != ENOENT))
		return TW_IO;
	if (renameat(at, fresh, at, name) || fsync(at)) {
		const int cause = errno;

		renameat(at, old, at, name);
		errno = cause;
		return TW_IO;
	}
	tw_cut_make_way(at, old, log);
	return TW_OK;
}

/* Nothing of it stays. */
static enum tw_status unsaved(struct dir_store *d, uint64_t cut, enum tw_status status)
{
	forget_making(d);
	if (status == TW_NO_MEMORY)
		tw_fail(&d->error, status, "no memory to write checkpoint %" PRIu64, cut);
	return status;
}

static enum tw_status dir_put(struct tw_store *s, uint64_t cut, const struct tw_part *part)
{
	struct dir_store *d = (struct dir_store *)s;
	enum tw_status status;

	d->error = (struct tw_error){ .status = TW_OK };
	status = begin_making(d, cut);
	if (status == TW_OK)
		status = save_part(d, cut, part);
	return status == TW_OK ? TW_OK : unsaved(d, cut, status);
}

static enum tw_status dir_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
			       size_t count)
{
	struct dir_store *d = (struct dir_store *)s;
	char name[40], fresh[48];
	enum tw_status status;

	d->error = (struct tw_error){ .status = TW_OK };
	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	folder_name(cut, fresh);
	status = begin_making(d, cut);
	if (status == TW_OK)
		status = save_all(d, cut, parts, count);
	if (status == TW_OK && give_name(d->fd, fresh, name, d->log) != TW_OK)
		status = save_failed(d, cut, name);
	if (status != TW_OK)
		return unsaved(d, cut, status);
	d->making = 0; /* the folder has its name */
	forget_making(d);
	if (d->checked == cut) /* one of a history rolled back */
		d->checked = 0;
	for (size_t i = 0; i < TOLD; i++)
		if (d->refused.cut[i] == cut)
			d->refused.cut[i] = 0;
	prune(d, cut);
	return TW_OK;
}

/* --- loading --- */

struct loading {
	struct tw_cut_files cut;
	double seconds;
	struct tw_store_counts counts;
};

static enum tw_status check_manifest(struct dir_store *d, uint64_t cut, struct loading *l)
{
	json_int_t sent, received, events;
	const char *hash, *isa;
	char mine[TW_SHA_TEXT];

	if (json_unpack(l->cut.manifest, "{s:s, s:s, s:F, s:I, s:I, s:I}", "job_hash", &hash, "isa",
			&isa, "seconds", &l->seconds, "bytes_sent", &sent, "bytes_received",
			&received, "events", &events))
		return tw_cut_bad(&l->cut, "manifest.json", "lacks a field");
	l->counts =
		(struct tw_store_counts){ (uint64_t)sent, (uint64_t)received, (uint64_t)events };
	if (l->cut.number != cut)
		return tw_cut_bad(&l->cut, "manifest.json", "is of another checkpoint");
	if (strcmp(tw_sha_text(&d->facts->job_hash, mine), hash) != 0)
		return tw_cut_bad(&l->cut, "manifest.json", "is of another job");
	if (strcmp(isa, d->facts->isa) != 0)
		tw_log_line(d->log, TW_WARNING, "checkpoint",
			    "checkpoint %" PRIu64 " was made with --isa %s and resumes with %s: "
			    "the last digits may differ from a run that was not stopped",
			    cut, isa, d->facts->isa);
	return TW_OK;
}

static enum tw_status hash_frozen(struct dir_store *d)
{
	struct tw_part part = frozen_part(d);
	struct tw_digest *digest = tw_digest_new();
	struct tw_part_image image;
	enum tw_status status = TW_NO_MEMORY;

	if (part.bytes && digest)
		status = tw_part_encode(d->heap, &part, &image);
	if (status == TW_OK) {
		digest_pieces(&image, digest, d->frozen);
		tw_part_image_release(&image);
	}
	tw_block_drop(part.bytes);
	tw_digest_free(digest);
	return status;
}

/* Training goes on with the frozen values of the job: they must be those of the cut. */
static enum tw_status check_frozen(struct dir_store *d, struct loading *l)
{
	const json_t *row = json_object_get(l->cut.manifest, TW_CUT_FROZEN);
	const char *hash = json_string_value(json_object_get(row, "xxh3_128"));
	enum tw_status status = TW_OK;

	if (!d->facts->constants.floats)
		return TW_OK;
	if (!d->frozen[0])
		status = hash_frozen(d);
	if (status != TW_OK || (hash && strcmp(hash, d->frozen) == 0))
		return status;
	snprintf(l->cut.why, sizeof l->cut.why,
		 "its frozen values are not those that the job has now: the file of model.weights "
		 "has changed since; give it back, or use --again");
	return TW_BAD_INPUT;
}

static enum tw_status load_cut(struct dir_store *d, uint64_t cut, uint64_t from, uint64_t to,
			       struct loading *l)
{
	enum tw_status status;
	char name[40];

	snprintf(name, sizeof name, "ckpt-%" PRIu64, cut);
	status = tw_cut_open(d->heap, d->fd, name, &l->cut);
	if (status == TW_OK)
		status = check_manifest(d, cut, l);
	if (status == TW_OK)
		status = tw_cut_parts_of(&l->cut, from, to, d->checked == cut);
	if (status == TW_OK)
		status = check_frozen(d, l);
	if (status == TW_OK)
		d->checked = cut;
	return status;
}

static enum tw_status dir_look(struct tw_store *s, uint64_t from, uint64_t to, uint64_t *cut,
			       struct tw_part **parts, size_t *count)
{
	struct dir_store *d = (struct dir_store *)s;
	enum tw_status status;
	uint64_t *list = NULL;
	size_t cuts = 0;

	d->error = (struct tw_error){ .status = TW_OK };
	status = tw_cut_list(d->fd, &list, &cuts);
	if (status != TW_OK)
		return tw_fail(&d->error, status, "the checkpoints in %s cannot be read: %s",
			       d->dir, strerror(errno));
	*cut = 0;
	*parts = NULL;
	*count = 0;
	for (size_t i = 0; i < cuts; i++) {
		struct loading l;

		status = load_cut(d, list[i], from, to, &l);
		if (status == TW_OK) {
			*cut = list[i];
			*parts = l.cut.part;
			*count = l.cut.parts;
			l.cut.part = NULL; /* the caller's now */
			if (!d->began) {   /* later it is this process's own */
				d->seconds = l.seconds;
				d->counts = l.counts;
			}
			tw_cut_release(&l.cut);
			break;
		}
		if (status == TW_BAD_BYTES && first_told(&d->refused, list[i]))
			tw_log_line(d->log, TW_WARNING, "checkpoint",
				    "%s/ckpt-%" PRIu64 " is refused: %s; %s", d->dir, list[i],
				    l.cut.why,
				    i + 1 < cuts ? "using the one before it"
						 : "there is none before it");
		if (status == TW_NO_MEMORY)
			tw_fail(&d->error, status, "no memory to read %s/ckpt-%" PRIu64, d->dir,
				list[i]);
		else if (status != TW_BAD_BYTES)
			tw_fail(&d->error, status, "%s/ckpt-%" PRIu64 " cannot be read: %s", d->dir,
				list[i], l.cut.why);
		tw_cut_release(&l.cut);
		if (status != TW_BAD_BYTES)
			break;
		status = TW_OK;
	}
	free(list);
	return status;
}

static enum tw_status dir_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
			       size_t *count)
{
	return dir_look(s, 0, UINT64_MAX, cut, parts, count);
}

static void dir_loaded_free(struct tw_store *s, struct tw_part *parts, size_t count)
{
	if (parts)
		tw_cut_drop_parts(((struct dir_store *)s)->heap, parts, count);
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
		.store = { .save = dir_save,
			   .load = dir_load,
			   .loaded_free = dir_loaded_free,
			   .put = dir_put,
			   .look = dir_look },
		.heap = heap,
		.facts = facts,
		.log = log,
		.fd = fd,
	};
	strcpy(d->dir, dir);
	remove_leftovers(fd, 0, log);
	*out = &d->store;
	return TW_OK;
}

void tw_dir_store_close(struct tw_store *s)
{
	struct dir_store *d = (struct dir_store *)s;

	if (!d)
		return;
	forget_making(d);
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

enum tw_status tw_dir_store_clear(const char *dir, const struct tw_log *log, size_t *count,
				  struct tw_error *why)
{
	enum tw_status status = TW_OK;
	uint64_t *list = NULL;
	size_t cuts = 0;
	int fd;

	fd = tw_folder_at(AT_FDCWD, dir);
	if (fd < 0 || tw_cut_list(fd, &list, &cuts) != TW_OK)
		status = tw_fail(why, TW_IO, "%s cannot be read: %s", dir, strerror(errno));
	for (size_t i = 0; i < cuts && status == TW_OK; i++)
		if (remove_cut(fd, list[i], log) != TW_OK)
			status = tw_fail(why, TW_IO, "%s/ckpt-%" PRIu64 " cannot be removed: %s",
					 dir, list[i], strerror(errno));
	if (count)
		*count = cuts;
	if (fd >= 0) {
		remove_leftovers(fd, UINT64_MAX, log);
		close(fd);
	}
	free(list);
	return status;
}
