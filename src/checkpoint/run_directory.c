/* SPDX-License-Identifier: Apache-2.0 */
/* run_directory.c - the directory of a run: whose it is, what is in it, and that nobody else writes
 * to it. */
#include "checkpoint/run_directory.h"

#include "base/machine/regular_file.h"
#include "spec/field.h"
#include "checkpoint/files.h"
#include "base/json_lines.h"
#include "checkpoint/checkpoint_directory.h"
#include "checkpoint/checkpoint_remove.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESULT_MOST ((size_t)64 << 20)
#define HEAD        "# A run of thalweg; world %s; job %s"
#define DEFAULTS    "; defaults %d."

struct tw_run_directory {
	int fd, lock;
	struct tw_json_lines lines; /* log.jsonl */
	const struct tw_log *log;
	char *path, *job_text; /* job_text: behind the head line */
	bool resumes;
};

/* The commands that make runs of that world. */
static const char *verb_name(const char *world)
{
	if (strcmp(world, "tcp") == 0)
		return "`thalweg serve` or `thalweg train --processes`";
	if (strcmp(world, "mpi") == 0)
		return "`thalweg train` on MPI ranks";
	return strcmp(world, "sim") == 0 ? "`thalweg sim`" : "`thalweg train`";
}

/* Is the directory wrong, or has this process run out of something? */
static enum tw_status because(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM ? TW_IO : TW_BAD_INPUT;
}

static enum tw_status lock_it(struct tw_run_directory *r, struct tw_error *why)
{
	r->lock = tw_regular_open(r->fd, "lock", O_RDWR | O_CREAT, 0666);
	if (r->lock < 0)
		return tw_fail(why, because(errno),
			       "%s/lock cannot be written: %s; give another --run DIR", r->path,
			       tw_cause(errno));
	if (flock(r->lock, LOCK_EX | LOCK_NB) == 0)
		return TW_OK;
	if (errno == EWOULDBLOCK)
		return tw_fail(why, TW_REFUSED,
			       "another run is using %s; wait for it, or give another --run DIR",
			       r->path);
	return tw_fail(why, TW_IO, "%s cannot be locked: %s", r->path, strerror(errno));
}

static bool has(const struct tw_run_directory *r, const char *name)
{
	return faccessat(r->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- is it one at all? --- */

/* What says that a directory is a run's. */
static bool is_sign(const char *name)
{
	return strcmp(name, "job.yaml") == 0 || strcmp(name, "log.jsonl") == 0 ||
	       strcmp(name, "result.json") == 0 || strncmp(name, "ckpt-", 5) == 0;
}

bool tw_run_directory_knows(const char *name, unsigned depth)
{
	static const char *const others[] = { "lock",    "diverged", "restarts",
					      "cluster", ".cluster", "lost+found" };
	const char *end = strrchr(name, '.');

	if (depth > 0)
		return tw_cut_knows(name, depth - 1);
	for (size_t k = 0; k < sizeof others / sizeof *others; k++)
		if (strcmp(name, others[k]) == 0)
			return true;
	return is_sign(name) || (end && strcmp(end, ".new") == 0); /* see tw_file_beside */
}

/* --- whose directory is it? --- */

struct owner {
	struct tw_block *file; /* job.yaml; text is behind its first line */
	const char *text;
	char world[16];
	struct tw_sha hash;
};

static enum tw_status read_owner(struct tw_run_directory *r, struct owner *o, struct tw_error *why)
{
	const enum tw_status status =
		tw_file_read(r->fd, "job.yaml", 4 * TW_JOB_BYTES_MAX, &tw_heap_system, &o->file);
	const char *line;
	char hash[TW_SHA_TEXT] = "";

	if (status != TW_OK)
		return tw_fail(why, status, "%s/job.yaml cannot be read: %s", r->path,
			       status == TW_IO || status == TW_BAD_INPUT ? tw_cause(errno)
									 : tw_status_name(status));
	line = (const char *)o->file->data;
	if (sscanf(line, "# A run of thalweg; world %15[a-z]; job %64[0-9a-f].", o->world, hash) !=
		    2 ||
	    !tw_sha_read(hash, &o->hash) || !strchr(line, '\n')) {
		tw_block_drop(o->file);
		if (strlen(hash) == 16)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s holds a run of an earlier version of thalweg, which "
				       "this one cannot resume; give another --run DIR",
				       r->path);
		return tw_fail(why, TW_BAD_INPUT,
			       "%s is not the directory of a run (its job.yaml was not written by "
			       "one); give another --run DIR",
			       r->path);
	}
	o->text = strchr(line, '\n') + 1;
	return TW_OK;
}

enum tw_status tw_run_directory_check(const char *path, struct tw_error *why)
{
	struct tw_run_directory r = { .path = (char *)path, .fd = tw_folder_at(AT_FDCWD, path) };
	struct owner o = { .file = NULL };
	enum tw_status status = TW_OK;
	char odd[TW_ODD];

	if (r.fd >= 0 && has(&r, "job.yaml"))
		status = read_owner(&r, &o, why);
	else if (!tw_folder_is_ours(path, is_sign, tw_run_directory_knows, odd))
		status = tw_fail(
			why, TW_BAD_INPUT,
			"--run: %.300s is neither empty nor the directory of a run (it has %s, and "
			"no job.yaml, log.jsonl or ckpt-<n>); give a new or an empty directory, or "
			"that of a run",
			path, odd);
	if (status == TW_OK)
		tw_block_drop(o.file);
	if (r.fd >= 0)
		close(r.fd);
	return status;
}

bool tw_run_directory_is_former(const char *path)
{
	struct tw_run_directory r = { .path = (char *)path };
	struct owner o = { .file = NULL };
	int defaults = 1;
	bool former;

	r.fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r.fd < 0)
		return false;
	former = has(&r, "job.yaml") && read_owner(&r, &o, NULL) == TW_OK;
	if (former) {
		const char *line = (const char *)o.file->data, *end = strchr(line, ';');

		while (end && end < o.text && sscanf(end, DEFAULTS, &defaults) != 1)
			end = strchr(end + 1, ';');
		former = defaults < 2;
		tw_block_drop(o.file);
	}
	close(r.fd);
	return former;
}

/* A line of an explained job: "  rate: 0.1" inside "update:" is at update.rate. */
struct line {
	char path[200], text[160];
	bool value; /* a field, not the head of a mapping */
};

/* The line at *text, which moves on; l->path is that of the line before it.  False at the end. */
static bool next_line(const char **text, struct line *l)
{
	const char *at = *text;
	const size_t len = strcspn(at, "\n"), deep = strspn(at, " ") / 2;
	const char *key = at + strspn(at, " "), *colon = memchr(key, ':', len - (size_t)(key - at));
	size_t n = 0;

	if (!*at)
		return false;
	*text = at + len + (at[len] == '\n');
	snprintf(l->text, sizeof l->text, "%.*s", (int)(len - (size_t)(key - at)), key);
	if (*key == '-' || !colon) { /* an entry of a list is at the list's path */
		l->value = true;
		return true;
	}
	for (size_t k = 0; k < deep && l->path[n]; k++)
		n += strcspn(l->path + n, ".") + (l->path[n + strcspn(l->path + n, ".")] == '.');
	l->path[n] = '\0';
	if (n && l->path[n - 1] != '.' && n + 1 < sizeof l->path) {
		l->path[n++] = '.';
		l->path[n] = '\0';
	}
	snprintf(l->path + n, sizeof l->path - n, "%.*s", (int)(colon - key), key);
	l->value = colon[1] == ' ';
	return true;
}

/* Is there a line like this in the text?  *other has the one of the same path, if any. */
static bool contains(const char *text, const struct line *l, struct line *other)
{
	struct line x = { .value = false };

	other->text[0] = '\0';
	while (next_line(&text, &x)) {
		if (!x.value || strcmp(x.path, l->path) != 0)
			continue;
		if (strcmp(x.text, l->text) == 0)
			return true;
		*other = x;
	}
	return false;
}

/* The first field that differs and may not: in one text or the other it has no equal.  False: there
 * is none. */
static bool difference(const struct tw_run_directory *r, const struct tw_job *job, const char *old,
		       char *out, size_t room)
{
	const bool diverged = has(r, "diverged");
	const char *now = r->job_text;

	for (int turn = 0; turn < 2; turn++) {
		const char *mine = turn ? old : now, *theirs = turn ? now : old;
		struct line l = { .value = false }, other;

		while (next_line(&mine, &l)) {
			if (!l.value || contains(theirs, &l, &other) ||
			    (tw_field_is_remedy(l.path) ? diverged
							: tw_field_may_change(job, l.path)))
				continue;
			snprintf(out, room, "%s: %s%s%s there, %s%s%s here", l.path,
				 turn || *other.text ? "'" : "",
				 turn          ? l.text
				 : *other.text ? other.text
					       : "nothing",
				 turn || *other.text ? "'" : "", turn ? "" : "'",
				 turn ? "nothing" : l.text, turn ? "" : "'");
			return true;
		}
	}
	return false;
}

/* Samples that the finished run has dealt, as its result says; 0: it does not say. */
static double dealt_before(const struct tw_run_directory *r, const struct tw_job *job)
{
	struct tw_block *file = NULL;
	json_t *result;
	double epochs;

	if (tw_file_read(r->fd, "result.json", RESULT_MOST, &tw_heap_system, &file) != TW_OK)
		return 0.0;
	result = json_loadb((const char *)file->data, file->bytes, 0, NULL);
	epochs = json_number_value(json_object_get(result, "epochs"));
	json_decref(result);
	tw_block_drop(file);
	return epochs * (double)job->plan.problem.samples;
}

/* Does the job say another length than the finished run's, and is there more to do by it? */
static bool is_longer(const struct tw_run_directory *r, const struct owner *o,
		      const struct tw_job *job)
{
	struct line l = { .value = false }, other;
	const char *now = r->job_text;
	bool differs = false;

	while (next_line(&now, &l))
		differs = differs ||
			  (l.value && tw_field_is_length(l.path) && !contains(o->text, &l, &other));
	return differs && (double)job->plan.dealing.positions > dealt_before(r, job) + 0.5;
}

static enum tw_status compare_owner(const struct tw_run_directory *r, const struct owner *o,
				    const struct tw_job *job, struct tw_error *why)
{
	const char *remedy = "give another --run DIR, or --again to start over in this one";
	char what[640];

	if (strcmp(o->world, tw_job_world(job->world)) != 0)
		return tw_fail(why, TW_BAD_INPUT, "%s holds a run of %s; %s", r->path,
			       verb_name(o->world), remedy);
	snprintf(what, sizeof what, "%s", job->data.from ? "the data has changed" : "its fields");
	if (difference(r, job, o->text, what, sizeof what) ||
	    !tw_sha_same(&o->hash, &job->plan.checkpoint.job_hash))
		return tw_fail(why, TW_BAD_INPUT, "%s holds a run of another job (%s); %s", r->path,
			       what, remedy);
	if (has(r, "result.json") && !is_longer(r, o, job))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s holds a finished run; --again starts it over, --run DIR "
			       "keeps it, a larger train.epochs continues it",
			       r->path);
	return TW_OK;
}

/* --- starting --- */

static enum tw_status start_over(struct tw_run_directory *r, struct tw_error *why)
{
	enum tw_status status;
	size_t cuts = 0;

	tw_log_line(r->log, TW_WARNING, "run",
		    "starting over in %s: its result, log and checkpoints are removed", r->path);
	status = tw_dir_store_clear(r->path, r->log, &cuts, why);
	if (status != TW_OK)
		return status;
	unlinkat(r->fd, "log.jsonl", 0);
	unlinkat(r->fd, "diverged", 0);
	unlinkat(r->fd, "restarts", 0);
	if (unlinkat(r->fd, "result.json", 0) && errno != ENOENT)
		return tw_fail(why, TW_IO, "%s/result.json cannot be removed: %s", r->path,
			       strerror(errno));
	return TW_OK;
}

static enum tw_status write_job(struct tw_run_directory *r, const struct tw_job *job,
				struct tw_error *why)
{
	char *text = NULL;
	enum tw_status status;
	char hash[TW_SHA_TEXT];
	char defaults[32] = ".";
	int n;

	if (!job->former)
		snprintf(defaults, sizeof defaults, DEFAULTS, TW_JOB_DEFAULTS);
	n = asprintf(&text, HEAD "%s\n%s", tw_job_world(job->world),
		     tw_sha_text(&job->plan.checkpoint.job_hash, hash), defaults, r->job_text);

	if (n < 0)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	status = tw_file_replace(r->fd, "job.yaml", text, (size_t)n);
	free(text);
	if (status != TW_OK)
		return tw_fail(why, status, "%s/job.yaml cannot be written: %s", r->path,
			       tw_cause(errno));
	return TW_OK;
}

/* A finished run that is trained further is no longer finished. */
static enum tw_status reopen(struct tw_run_directory *r, struct tw_error *why)
{
	if (!has(r, "result.json"))
		return TW_OK;
	tw_log_line(r->log, TW_INFO, "run", "%s holds a finished run: training it further",
		    r->path);
	if (unlinkat(r->fd, "result.json", 0))
		return tw_fail(why, TW_IO, "%s/result.json cannot be removed: %s", r->path,
			       strerror(errno));
	return TW_OK;
}

static enum tw_status settle(struct tw_run_directory *r, const struct tw_job *job, bool again,
			     struct tw_error *why)
{
	struct owner o = { .file = NULL };
	enum tw_status status;

	if (!has(r, "job.yaml")) {
		if (has(r, "result.json") || has(r, "log.jsonl"))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s has files of a run but no job.yaml; give another --run "
				       "DIR",
				       r->path);
		return write_job(r, job, why);
	}
	status = read_owner(r, &o, why);
	if (status != TW_OK)
		return status;
	if (again) {
		status = start_over(r, why);
	} else {
		status = compare_owner(r, &o, job, why);
		if (status == TW_OK)
			status = reopen(r, why);
		r->resumes = true;
	}
	tw_block_drop(o.file);
	return status == TW_OK ? write_job(r, job, why) : status;
}

/* A log with a second name, perhaps elsewhere, would change under that name, too. */
static enum tw_status own_log(const struct tw_run_directory *r)
{
	struct tw_block *file = NULL;
	enum tw_status status;
	struct stat st;

	if (fstatat(r->fd, "log.jsonl", &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode) ||
	    st.st_nlink < 2)
		return TW_OK;
	status = tw_file_read(r->fd, "log.jsonl", SIZE_MAX, &tw_heap_system, &file);
	if (status == TW_OK)
		status = tw_file_replace(r->fd, "log.jsonl", file->data, file->bytes);
	tw_block_drop(file);
	return status;
}

static enum tw_status open_log(struct tw_run_directory *r, struct tw_error *why)
{
	int fd;

	r->lines = (struct tw_json_lines){ .log = r->log, .patient = true };
	snprintf(r->lines.name, sizeof r->lines.name, "%s/log.jsonl", r->path);
	fd = own_log(r) != TW_OK
		     ? -1
		     : tw_regular_open(r->fd, "log.jsonl", O_WRONLY | O_CREAT | O_APPEND, 0666);
	r->lines.file = fd < 0 ? NULL : fdopen(fd, "a");
	if (!r->lines.file) {
		const int cause = errno;

		if (fd >= 0)
			close(fd);
		return tw_fail(why, tw_not_regular(cause) ? TW_BAD_INPUT : TW_IO,
			       "%s/log.jsonl cannot be written: %s", r->path, tw_cause(cause));
	}
	return TW_OK;
}

enum tw_status tw_run_directory_open(const char *path, const struct tw_job *job, bool again,
				     const struct tw_log *log, struct tw_run_directory **out,
				     struct tw_error *why)
{
	struct tw_run_directory *r = calloc(1, sizeof *r);
	enum tw_status status;
	size_t bytes;

	if (!r || !(r->path = strdup(path))) {
		free(r);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the run directory");
	}
	r->log = log;
	r->fd = r->lock = -1;
	status = tw_job_text(job, &r->job_text, &bytes);
	if (status != TW_OK)
		tw_fail(why, status, "no memory for the job");
	else if (tw_folder_make(path) != TW_OK || (r->fd = tw_folder_at(AT_FDCWD, path)) < 0)
		status = tw_fail(why, because(errno),
				 "%s cannot be made: %s; give another --run DIR", path,
				 strerror(errno));
	if (status == TW_OK)
		status = lock_it(r, why);
	if (status == TW_OK)
		status = settle(r, job, again, why);
	if (status == TW_OK)
		status = open_log(r, why);
	if (status != TW_OK) {
		tw_run_directory_close(r);
		return status;
	}
	*out = r;
	return TW_OK;
}

void tw_run_directory_close(struct tw_run_directory *r)
{
	if (!r)
		return;
	tw_json_lines_close(&r->lines);
	if (r->lock >= 0)
		close(r->lock);
	if (r->fd >= 0)
		close(r->fd);
	free(r->job_text);
	free(r->path);
	free(r);
}

bool tw_run_directory_resumes(const struct tw_run_directory *r)
{
	return r->resumes;
}

const char *tw_run_directory_path(const struct tw_run_directory *r)
{
	return r->path;
}

const char *tw_run_directory_job_text(const struct tw_run_directory *r)
{
	return r->job_text;
}

double tw_run_directory_cut_time(const struct tw_run_directory *r, uint64_t cut)
{
	const int fd = tw_regular_open(r->fd, "log.jsonl", O_RDONLY, 0);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char *line = NULL;
	size_t room = 0;
	double at = 0.0;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return 0.0;
	}
	while (getline(&line, &room, f) > 0) {
		json_t *o = strstr(line, "\"checkpoint\"") ? json_loads(line, 0, NULL) : NULL;
		const char *event = json_string_value(json_object_get(o, "event"));

		if (event && strcmp(event, "checkpoint") == 0 &&
		    json_integer_value(json_object_get(o, "checkpoint")) == (json_int_t)cut)
			at = json_number_value(json_object_get(o, "time"));
		json_decref(o);
	}
	free(line);
	fclose(f);
	return at;
}

void tw_run_directory_log(struct tw_run_directory *r, json_t *line)
{
	tw_json_lines_put(&r->lines, line);
	json_decref(line);
}

enum tw_status tw_run_directory_diverged(struct tw_run_directory *r)
{
	static const char text[] = "This run diverged.  Run it again with a lower update.rate.\n";

	return tw_file_replace(r->fd, "diverged", text, sizeof text - 1);
}

uint32_t tw_run_directory_restarts(const struct tw_run_directory *r, double rate)
{
	struct tw_block *file = NULL;
	uint32_t restarts = 0;
	double of = 0.0;

	if (tw_file_read(r->fd, "restarts", 100, &tw_heap_system, &file) != TW_OK)
		return 0;
	if (sscanf((const char *)file->data, "%" SCNu32 " restarts of a run with update.rate=%lf",
		   &restarts, &of) != 2 ||
	    of != rate)
		restarts = 0; /* another rate was given by hand: that is a new beginning */
	tw_block_drop(file);
	return restarts;
}

enum tw_status tw_run_directory_restarted(struct tw_run_directory *r, uint32_t restarts,
					  double rate)
{
	char text[100];
	const int n =
		snprintf(text, sizeof text,
			 "%" PRIu32 " restarts of a run with update.rate=%.17g\n", restarts, rate);

	return tw_file_replace(r->fd, "restarts", text, (size_t)n);
}

enum tw_status tw_run_directory_finish(struct tw_run_directory *r, const json_t *result,
				       struct tw_error *why)
{
	char *text = json_dumps(result, JSON_INDENT(1));
	enum tw_status status;

	if (!text)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the result");
	status = tw_file_replace(r->fd, "result.json", text, strlen(text));
	free(text);
	if (status == TW_OK)
		unlinkat(r->fd, "diverged", 0);
	if (status != TW_OK)
		return tw_fail(why, status, "%s/result.json cannot be written: %s", r->path,
			       tw_cause(errno));
	return TW_OK;
}
