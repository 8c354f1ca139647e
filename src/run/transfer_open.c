/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_open.c - the engine of a job that came as text: its data from here, from the cache, or
 * from who has it.
 *
 *  (0) no path that the job names is opened beyond what struct tw_transfer_paths allows: the job is
 *      the master's, and the files are not.
 *
 *  (1) the cache's file of a set appears whole, under its name, or not at all: it is written beside
 *      it under a lock, checked, synced and renamed.
 *  (2) a process that does not get the lock keeps the set in memory only: another one writes it. */
#include "run/transfer.h"

#include "data/input.h"
#include "data/format/set_file.h"
#include "data/format/set_map.h"
#include "data/format/set_rest.h"
#include "data/split.h"
#include "spec/field.h"
#include "checkpoint/files.h"
#include "run/transfer_inner.h"
#include "run/tensors_file.h"
#include "run/open_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_ROOM 4200

struct taking {
	const struct tw_job *job;
	const struct tw_transfer_paths *paths;
	struct tw_heap *heap;
	struct tw_sha fingerprint;
	uint64_t bytes;
	tw_transfer_receive receive;
	void *arg;
	const struct tw_log *log;
	char folder[PATH_ROOM], name[72], fresh[80]; /* folder "": there is no cache */
	int dir, fd;                                 /* of the cache and of the file; -1: none */
	const char *unkept;  /* why a received set is not in the cache; NULL: it is */
	uint64_t set;        /* bytes of the data set alone */
	struct tw_error own; /* what was wrong with the data as the job names it */
};

/* --- as the job says -------------------------------------------------------------------------- */

/* TW_ABSENT: not here, or another; t->own says which. */
static enum tw_status take_own(struct taking *t, struct tw_data **out)
{
	const struct tw_reach some = {
		.how = t->paths->data ? TW_REACH_WITHIN : TW_REACH_NONE,
		.folder = t->paths->data ? t->paths->data : "",
	};
	const enum tw_status st =
		t->paths->all ? tw_job_open_data(t->job, t->heap, out, &t->own)
			      : tw_job_open_data_at(t->job, &some, t->heap, out, &t->own);
	char found[TW_SHA_SHORT], wanted[TW_SHA_SHORT];

	if (st == TW_NO_MEMORY)
		return st;
	if (st != TW_OK)
		return TW_ABSENT;
	if (tw_sha_same(&(*out)->fingerprint, &t->fingerprint)) {
		tw_log_line(t->log, TW_INFO, "data",
			    "the data set that the job names is on "
			    "this machine");
		return TW_OK;
	}
	tw_fail(&t->own, TW_ABSENT,
		"the data that the job names differs here: its fingerprint is %s, and the "
		"run's is %s",
		tw_sha_short(&(*out)->fingerprint, found), tw_sha_short(&t->fingerprint, wanted));
	tw_data_close(*out);
	*out = NULL;
	return TW_ABSENT;
}

/* --- the cache -------------------------------------------------------------------------------- */

static void find_cache(struct taking *t)
{
	char cache[4096], hex[TW_SHA_TEXT];
	int n;

	snprintf(t->name, sizeof t->name, "%s.tws", tw_sha_text(&t->fingerprint, hex));
	snprintf(t->fresh, sizeof t->fresh, ".%s.new", t->name);
	if (!tw_data_cache(cache, sizeof cache))
		return;
	n = snprintf(t->folder, sizeof t->folder, "%s/sets", cache);
	if (n >= (int)sizeof t->folder)
		t->folder[0] = '\0';
}

/* A set file of this machine is mapped: no more of it is in memory than is used.  `believed`: its
 * head is, as in a job of the user's own; else all of it is looked at.  TW_BAD_INPUT: the options
 * do not fit it. */
static enum tw_status map_set(const struct taking *t, const char *path, bool believed,
			      struct tw_data **out, struct tw_error *why)
{
	const struct tw_source_site site = { .heap = t->heap };
	struct tw_data *d = tw_heap_zeros(t->heap, sizeof *d);
	char found[TW_SHA_SHORT], wanted[TW_SHA_SHORT];
	enum tw_status st;

	if (!d)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a data set");
	d->heap = t->heap;
	st = tw_set_map(&site, path, d, why);
	if (st == TW_BAD_INPUT)
		st = why->status = TW_BAD_BYTES;
	if (st == TW_OK && !tw_sha_same(&d->fingerprint, &t->fingerprint))
		st = tw_fail(why, TW_BAD_BYTES,
			     "%.300s: is another data set: its fingerprint is %s, and the run's is "
			     "%s",
			     path, tw_sha_short(&d->fingerprint, found),
			     tw_sha_short(&t->fingerprint, wanted));
	if (st == TW_OK && !believed)
		st = tw_set_check(path, d, why);
	if (st == TW_OK)
		st = tw_data_fits(path, d, &t->job->data.set, why);
	if (st == TW_OK)
		st = tw_data_prepare(d, &t->job->data.set, NULL, why);
	if (st != TW_OK) {
		tw_data_close(d);
		return st;
	}
	*out = d;
	return TW_OK;
}

/* The file that the user named for this run.  TW_ABSENT: he named none. */
static enum tw_status take_copy(const struct taking *t, struct tw_data **out, struct tw_error *why)
{
	struct tw_error said = { 0 };
	enum tw_status st;

	if (!t->paths->copy)
		return TW_ABSENT;
	st = map_set(t, t->paths->copy, true, out, &said);
	if (st != TW_OK)
		return tw_fail(why, st == TW_NO_MEMORY ? st : TW_BAD_INPUT,
			       "--copy: %.600s; name a file of the run's own set, or leave --copy "
			       "out",
			       said.text);
	tw_log_line(t->log, TW_INFO, "data", "the data set is the copy in %s", t->paths->copy);
	return TW_OK;
}

/* TW_ABSENT: there is nothing in the cache that can be used. */
static enum tw_status take_cached(struct taking *t, struct tw_data **out, struct tw_error *why)
{
	char path[PATH_ROOM + 96];
	struct tw_error said = { 0 };
	enum tw_status st;

	snprintf(path, sizeof path, "%s/%s", t->folder, t->name);
	if (!t->folder[0] || access(path, F_OK))
		return TW_ABSENT;
	st = map_set(t, path, false, out, &said);
	if (st == TW_OK)
		tw_log_line(t->log, TW_INFO, "data", "the data set is in the cache: %s", path);
	if (st == TW_OK || st == TW_NO_MEMORY || st == TW_BAD_INPUT)
		return st == TW_OK ? st : tw_fail(why, st, "%s", said.text);
	tw_log_line(t->log, TW_WARNING, "data", "not taken from the cache: %s", said.text);
	return TW_ABSENT;
}

/* Is the file that we locked still the one of that name? */
static bool still_there(const struct taking *t)
{
	struct stat a, b;

	return fstat(t->fd, &a) == 0 && fstatat(t->dir, t->fresh, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void unkeep(struct taking *t, const char *reason)
{
	if (t->fd >= 0) {
		unlinkat(t->dir, t->fresh, 0);
		close(t->fd);
	}
	t->fd = -1;
	t->unkept = reason;
}

/* A new file for the set; without one it is kept in memory only. */
static void start_file(struct taking *t)
{
	t->unkept = "the cache folder is not known";
	if (!t->folder[0])
		return;
	t->unkept = "the cache cannot be written";
	if (tw_folder_make(t->folder) != TW_OK || (t->dir = tw_folder_at(AT_FDCWD, t->folder)) < 0)
		return;
	t->fd = openat(t->dir, t->fresh, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (t->fd < 0)
		return;
	if (flock(t->fd, LOCK_EX | LOCK_NB) || !still_there(t)) {
		close(t->fd);
		t->fd = -1;
		t->unkept = "another process is putting it there";
		return;
	}
	t->unkept = NULL;
	if (ftruncate(t->fd, 0))
		unkeep(t, "the cache cannot be written");
}

static void append(struct taking *t, uint64_t from, const uint8_t *bytes, size_t n)
{
	while (n > 0 && t->fd >= 0) {
		const ssize_t put = pwrite(t->fd, bytes, n, (off_t)from);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			unkeep(t, put < 0 ? strerror(errno) : "the cache cannot be written");
			return;
		}
		bytes += put;
		from += (uint64_t)put;
		n -= (size_t)put;
	}
}

static void finish_file(struct taking *t)
{
	if (t->fd < 0)
		return;
	if (fsync(t->fd) || renameat(t->dir, t->fresh, t->dir, t->name)) {
		unkeep(t, strerror(errno));
		return;
	}
	fsync(t->dir); /* after a power cut it may have to be received again */
	close(t->fd);
	t->fd = -1;
}

/* --- from who has it -------------------------------------------------------------------------- */

static enum tw_status receive_piece(void *arg, uint64_t from, void *to, size_t bytes,
				    struct tw_error *why)
{
	struct taking *t = arg;
	const enum tw_status st = t->receive(t->arg, from, to, bytes, why);

	if (st == TW_OK)
		append(t, from, to, bytes);
	return st;
}

static enum tw_status receive_set(struct taking *t, struct tw_data **out, struct tw_error *why)
{
	const struct tw_set_origin from = {
		.name = "the data set that was received",
		.read = receive_piece,
		.arg = t,
		.bytes = t->bytes,
		.fingerprint = t->fingerprint,
	};
	char wanted[TW_SHA_SHORT];
	enum tw_status st;

	if (!t->bytes || !t->receive)
		return tw_fail(why, TW_BAD_INPUT,
			       "the run's data set (fingerprint %s) is neither here nor in the "
			       "cache, and no process sends it; %.400s",
			       tw_sha_short(&t->fingerprint, wanted), t->own.text);
	start_file(t);
	st = tw_set_open(t->heap, &from, &t->job->data.set, out, why);
	if (st == TW_OK)
		finish_file(t);
	else
		unkeep(t, NULL);
	if (t->dir >= 0)
		close(t->dir);
	t->dir = -1;
	if (st == TW_OK && t->unkept)
		tw_log_line(t->log, TW_INFO, "data",
			    "the data set was received (%" PRIu64
			    " bytes) and is in memory only: %s",
			    tw_set_bytes(*out), t->unkept);
	else if (st == TW_OK)
		tw_log_line(t->log, TW_INFO, "data",
			    "the data set was received (%" PRIu64
			    " bytes) and is in the cache now: %s/%s",
			    tw_set_bytes(*out), t->folder, t->name);
	return st;
}

/* All but the training samples: these come with the leases. */
static enum tw_status receive_rest(struct taking *t, struct tw_data **out, struct tw_error *why)
{
	const struct tw_set_origin from = {
		.name = "what was received of the data set",
		.read = receive_piece,
		.arg = t,
		.bytes = t->bytes,
		.fingerprint = t->fingerprint,
	};
	enum tw_status st;

	if (t->paths->copy)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--copy: the job has data.placement: on-demand, so samples come with "
			"the leases; leave --copy out");
	if (!t->bytes || !t->receive)
		return tw_fail(why, TW_BAD_INPUT,
			       "data.placement: on-demand: no process sends what a worker needs of "
			       "the data set");
	st = tw_set_rest_open(t->heap, &from, &t->job->data.set, out, &t->set, why);
	if (st == TW_OK)
		tw_log_line(t->log, TW_INFO, "data",
			    "the training samples stay with the master and come with the leases "
			    "(data.placement: on-demand)");
	return st;
}

/* --- initial weights -------------------------------------------------------------------------- */

static enum tw_status receive_head(struct taking *t, uint64_t count, struct tw_first_head *h,
				   struct tw_error *why)
{
	const uint64_t left = t->bytes > t->set ? t->bytes - t->set : 0;
	enum tw_status st;

	if (left < sizeof *h)
		return tw_fail(why, TW_BAD_BYTES,
			       "model.weights: the initial weights of the run should follow "
			       "its data set, but are missing");
	st = t->receive(t->arg, t->set, h, sizeof *h, why);
	if (st != TW_OK)
		return st;
	if (!tw_first_whole(h) || h->count != count || (left - sizeof *h) / sizeof(float) < count)
		return tw_fail(why, TW_BAD_BYTES,
			       "model.weights: the received initial weights are damaged, or "
			       "not the %" PRIu64 " of this model",
			       count);
	return TW_OK;
}

static bool is_hash_of(const void *bytes, size_t n, const struct tw_sha *hash)
{
	struct tw_sha found;

	return tw_sha_of(bytes, n, &found) == TW_OK && tw_sha_same(&found, hash);
}

static enum tw_status receive_values(struct taking *t, const struct tw_first_head *h, float **out,
				     struct tw_error *why)
{
	const size_t bytes = (size_t)h->count * sizeof(float);
	uint8_t *values = t->heap->get(t->heap, bytes);
	enum tw_status st = TW_OK;

	if (!values)
		return tw_fail(why, TW_NO_MEMORY, "model.weights: no memory for %zu bytes", bytes);
	for (size_t at = 0; at < bytes && st == TW_OK;) {
		const size_t n = bytes - at < TW_SET_PIECE ? bytes - at : TW_SET_PIECE;

		st = t->receive(t->arg, t->set + sizeof *h + at, values + at, n, why);
		at += n;
	}
	if (st == TW_OK && !is_hash_of(values, bytes, &h->values))
		st = tw_fail(why, TW_BAD_BYTES,
			     "model.weights: the received initial weights are damaged: their "
			     "hash differs");
	if (st != TW_OK) {
		t->heap->put(t->heap, values);
		return st;
	}
	*out = (float *)values;
	return TW_OK;
}

/* From who has them.  The file that the job names is looked at only where the user allows it. */
static enum tw_status take_first(void *arg, const struct tw_job *job, struct tw_heap *heap,
				 const struct tw_graph *g, float **out, struct tw_error *why)
{
	struct taking *t = arg;
	const uint64_t count = tw_graph_floats(g);
	struct tw_error quiet = { 0 };
	struct tw_first_head h;
	enum tw_status st;

	if (!*job->network.weights)
		return TW_OK;
	if ((!t->bytes || !t->receive) && t->paths->all)
		return tw_job_read_weights(job, heap, g, NULL, out, why);
	if (!t->bytes || !t->receive)
		return tw_fail(why, TW_BAD_INPUT,
			       "model.weights: no process sends the run's initial weights, and "
			       "%.200s is named by the master and not opened here",
			       job->network.weights);
	st = receive_head(t, count, &h, why);
	if (st != TW_OK)
		return st;
	if (!t->paths->all)
		return receive_values(t, &h, out, why);
	st = tw_job_read_weights(job, heap, g, NULL, out, &quiet);
	if (st == TW_NO_MEMORY)
		return tw_fail(why, st, "%s", quiet.text);
	if (st == TW_OK && is_hash_of(*out, (size_t)count * sizeof(float), &h.values))
		return TW_OK;
	heap->put(heap, *out);
	*out = NULL;
	return receive_values(t, &h, out, why);
}

/* --- all of the set --------------------------------------------------------------------------- */

static enum tw_status find_set(struct taking *t, struct tw_data **out, struct tw_error *why)
{
	enum tw_status st;

	find_cache(t);
	st = take_copy(t, out, why);
	if (st != TW_OK && st != TW_ABSENT)
		return st;
	if (st == TW_ABSENT)
		st = take_own(t, out);
	if (st == TW_NO_MEMORY)
		return tw_fail(why, st, "%s", t->own.text);
	if (st == TW_ABSENT)
		st = take_cached(t, out, why);
	if (st == TW_ABSENT)
		st = receive_set(t, out, why);
	if (st == TW_OK)
		t->set = tw_set_bytes(*out);
	return st;
}

/* --- a model that callers compute ------------------------------------------------------------- */

/* Its header, from who has it: t->set bytes. */
static enum tw_status receive_layout(struct taking *t, uint8_t **head, struct tw_error *why)
{
	const uint64_t least = sizeof(uint64_t) + sizeof(struct tw_first_head);
	uint64_t length = 0;
	enum tw_status st;

	if (!t->receive || t->bytes < least)
		return tw_fail(why, TW_BAD_BYTES, "model.tensors: the master does not send them");
	st = t->receive(t->arg, 0, &length, sizeof length, why);
	if (st != TW_OK)
		return st;
	if (length > TW_SAFE_HEADER || length > t->bytes - least)
		return tw_fail(
			why, TW_BAD_BYTES,
			"model.tensors: what the master sends is damaged: a header of %" PRIu64
			" bytes",
			length);
	t->set = sizeof length + length;
	*head = t->heap->get(t->heap, (size_t)t->set);
	if (!*head)
		return tw_fail(why, TW_NO_MEMORY, "model.tensors: no memory for their names");
	for (uint64_t at = 0; at < t->set && st == TW_OK;) {
		const size_t n = t->set - at < TW_SET_PIECE ? (size_t)(t->set - at) : TW_SET_PIECE;

		st = t->receive(t->arg, at, *head + at, n, why);
		at += n;
	}
	return st;
}

static enum tw_status take_outside(struct taking *t, struct tw_engine **out, struct tw_error *why)
{
	struct tw_tensors_sent sent = { .fingerprint = t->fingerprint };
	struct tw_first_head h;
	uint8_t *head = NULL;
	float *values = NULL;
	enum tw_status st = receive_layout(t, &head, why);

	sent.head = head;
	sent.bytes = (size_t)t->set;
	sent.whole = t->bytes - sizeof h;
	/* a worker of a job without servers holds parameters, too */
	if (st == TW_OK && (!t->paths->no_values || tw_plan_has_peers(&t->job->plan))) {
		st = receive_head(t, (sent.whole - t->set) / sizeof(float), &h, why);
		if (st == TW_OK)
			st = receive_values(t, &h, &values, why);
		sent.values = values;
	}
	if (st == TW_OK)
		st = tw_tensors_file_read(t->job, t->heap, &sent, out, why);
	if (st == TW_OK)
		tw_job_divide(t->job, *out);
	t->heap->put(t->heap, values);
	t->heap->put(t->heap, head);
	return st;
}

enum tw_status tw_transfer_open_engine(struct tw_job *job, const struct tw_transfer_paths *paths,
				       const struct tw_sha *fingerprint, uint64_t bytes,
				       tw_transfer_receive receive, void *arg,
				       const struct tw_log *log, struct tw_engine **out,
				       struct tw_error *why)
{
	struct taking t = {
		.job = job,
		.paths = paths,
		.heap = &tw_heap_system,
		.fingerprint = *fingerprint,
		.bytes = bytes,
		.receive = receive,
		.arg = arg,
		.log = log,
		.dir = -1,
		.fd = -1,
	};
	struct tw_data *data = NULL;
	char hex[TW_SHA_SHORT];
	enum tw_status st;

	if (tw_job_is_outside(job))
		return take_outside(&t, out, why);
	if (job->model != TW_MODEL_NETWORK && !tw_sha_none(fingerprint))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: its model generates its samples, but the run has a data "
			       "set of fingerprint %s",
			       job->file, tw_sha_short(fingerprint, hex));
	if (job->model != TW_MODEL_NETWORK)
		return tw_job_open_engine(job, t.heap, out, why);
	st = tw_plan_sends_samples(&job->plan) ? receive_rest(&t, &data, why)
					       : find_set(&t, &data, why);
	if (st != TW_OK)
		return st;
	return tw_job_open_network_on(job, t.heap, data, take_first, &t, out, why);
}
