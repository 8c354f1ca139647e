/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c - runs the cells of a comparison as processes, and keeps what they came to. */
#include "compare/cells.h"

#include "base/machine/child.h"
#include "base/machine/cores.h"
#include "base/machine/regular_file.h"
#include "checkpoint/checkpoint_remove.h"
#include "checkpoint/files.h"
#include "checkpoint/run_directory.h"
#include "metrics/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_ROOM 4200
#define NEW_FILE  (O_CREAT | O_EXCL | O_CLOEXEC)

/* A process at work on a cell. */
struct slot {
	struct tw_child child;
	const struct tw_compare_cell *cell; /* NULL: free */
	int64_t began;
};

struct failure {
	struct tw_sha key;
	char text[300];
	struct failure *next;
};

struct tw_cells {
	const struct tw_comparison *comparison;
	struct tw_cells_how how;
	char dir[PATH_ROOM - 120]; /* absolute: processes run elsewhere */
	int at, cells, lock;       /* the directory, and what is in it */
	struct slot *slot;
	struct failure *failures;
	struct tw_cells_progress now;
	double spent; /* seconds of the processes that finished */
	size_t ran;   /* so many */
};

/* --- folders --- */

static const char *const files[] = { "job.yaml", "result.json", "stderr", "log.jsonl" };

/* What the folder of a cell has, and the run below it. */
static bool cell_knows(const char *name, unsigned depth)
{
	if (depth > 0)
		return tw_run_directory_knows(name, depth - 1);
	for (size_t k = 0; k < sizeof files / sizeof *files; k++)
		if (strcmp(name, files[k]) == 0)
			return true;
	return strcmp(name, "run") == 0;
}

static void folder_name(const struct tw_compare_cell *cell, bool draft, char out[40])
{
	char key[TW_SHA_TEXT];

	snprintf(out, 40, "%s%.32s", draft ? "." : "", tw_sha_text(&cell->key, key));
}

void tw_cells_path(const struct tw_cells *s, const struct tw_compare_cell *cell, const char *file,
		   char *out)
{
	char name[40];

	folder_name(cell, false, name);
	snprintf(out, PATH_ROOM, "%s/cells/%s/%s", s->dir, name, file);
}

static void draft_path(const struct tw_cells *s, const struct tw_compare_cell *cell,
		       const char *file, char *out)
{
	char name[40];

	folder_name(cell, true, name);
	snprintf(out, PATH_ROOM, "%s/cells/%s/%s", s->dir, name, file);
}

/* A file of a cell, to be read. */
static int open_file(const struct tw_cells *s, const struct tw_compare_cell *cell, bool draft,
		     const char *file)
{
	char name[40];
	int at, fd, cause;

	folder_name(cell, draft, name);
	at = tw_folder_at(s->cells, name);
	fd = at < 0 ? -1 : tw_regular_open(at, file, O_RDONLY, 0);
	cause = errno;
	if (at >= 0)
		close(at);
	errno = cause;
	return fd;
}

int tw_cells_file(const struct tw_cells *s, const struct tw_compare_cell *cell, const char *file)
{
	return open_file(s, cell, false, file);
}

static bool is_kept(const struct tw_cells *s, const struct tw_compare_cell *cell)
{
	static const char *const name[] = { "result.json", "log.jsonl" };
	bool kept = true;

	for (size_t k = 0; k < 2 && kept; k++) {
		const int fd = tw_cells_file(s, cell, name[k]);

		kept = fd >= 0;
		if (kept)
			close(fd);
	}
	return kept;
}

static bool is_sign(const char *name)
{
	return strcmp(name, "cells") == 0 || strcmp(name, "report.json") == 0;
}

static bool directory_knows(const char *name, unsigned depth)
{
	return depth == 0 && (strcmp(name, "lock") == 0 || strcmp(name, "lost+found") == 0);
}

/* The directory, which may be a link; nothing in it may. */
static enum tw_status enter(struct tw_cells *s, struct tw_error *why)
{
	const char *dir = s->how.dir;
	char *whole, odd[TW_ODD];

	if (!tw_folder_is_ours(dir, is_sign, directory_knows, odd))
		return tw_fail(why, TW_BAD_INPUT,
			       "--run: %.200s is neither empty nor the directory of a comparison "
			       "(it has %s, and no cells or report.json); give a new or an empty "
			       "directory, or that of a comparison",
			       dir, odd);
	if (tw_folder_make(dir) != TW_OK || (s->at = tw_folder_at(AT_FDCWD, dir)) < 0 ||
	    (mkdirat(s->at, "cells", 0777) && errno != EEXIST) ||
	    (s->cells = tw_folder_at(s->at, "cells")) < 0)
		return tw_fail(why, TW_BAD_INPUT, "--run %.200s: the directory cannot be made: %s",
			       dir, tw_cause(errno));
	whole = realpath(dir, NULL);
	if (whole && strlen(whole) < sizeof s->dir)
		snprintf(s->dir, sizeof s->dir, "%s", whole);
	free(whole);
	return *s->dir ? TW_OK
		       : tw_fail(why, TW_BAD_INPUT, "--run %.200s: is no usable directory", dir);
}

enum tw_status tw_cells_open(const struct tw_comparison *c, const struct tw_cells_how *how,
			     struct tw_cells **out, struct tw_error *why)
{
	struct tw_cells *s = calloc(1, sizeof *s);
	enum tw_status st;

	if (!s || !(s->slot = calloc(how->jobs, sizeof *s->slot))) {
		free(s);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the comparison");
	}
	*out = s;
	s->comparison = c;
	s->how = *how;
	s->at = s->cells = s->lock = -1;
	s->now.left = -1;
	st = enter(s, why);
	if (st != TW_OK)
		return st;
	s->lock = tw_regular_open(s->at, "lock", O_CREAT | O_RDWR, 0666);
	if (s->lock < 0)
		return tw_fail(why, tw_not_regular(errno) ? TW_BAD_INPUT : TW_IO,
			       "%.200s/lock: cannot be opened: %s", how->dir, tw_cause(errno));
	if (flock(s->lock, LOCK_EX | LOCK_NB) != 0)
		return tw_fail(why, TW_REFUSED,
			       "%.200s: another comparison uses this directory now; wait for it, "
			       "or give another --run DIR",
			       how->dir);
	return TW_OK;
}

void tw_cells_close(struct tw_cells *s)
{
	if (!s)
		return;
	while (s->failures) {
		struct failure *f = s->failures;

		s->failures = f->next;
		free(f);
	}
	if (s->lock >= 0)
		close(s->lock);
	if (s->cells >= 0)
		close(s->cells);
	if (s->at >= 0)
		close(s->at);
	free(s->slot);
	free(s);
}

/* --- failures --- */

const char *tw_cells_failure(const struct tw_cells *s, const struct tw_compare_cell *cell)
{
	for (const struct failure *f = s->failures; f; f = f->next)
		if (tw_sha_same(&f->key, &cell->key))
			return f->text;
	return NULL;
}

/* The last line of what it said. */
static void last_line(int fd, char *out, size_t room)
{
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[600];

	*out = '\0';
	while (f && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			snprintf(out, room, "%.290s",
				 strncmp(line, "thalweg: ", 9) == 0 ? line + 9 : line);
	}
	if (f)
		fclose(f);
	else if (fd >= 0)
		close(fd);
}

static void failed(struct tw_cells *s, const struct slot *slot)
{
	struct failure *f = calloc(1, sizeof *f);

	s->now.failed++;
	if (!f)
		return;
	f->key = slot->cell->key;
	last_line(open_file(s, slot->cell, true, "stderr"), f->text, sizeof f->text);
	if (!*f->text)
		snprintf(f->text, sizeof f->text, "its process ended with code %d",
			 slot->child.code);
	f->next = s->failures;
	s->failures = f;
	tw_log_line(s->how.log, TW_WARNING, "", "%s, seed %llu: %s",
		    s->comparison->row[slot->cell->row].label, (unsigned long long)slot->cell->seed,
		    f->text);
}

/* --- starting --- */

static enum tw_status cannot(const char *path, struct tw_error *why)
{
	return tw_fail(why, TW_IO, "%.300s: cannot be written: %s", path, strerror(errno));
}

/* The folder of the cell with its job, and the three descriptors of its process. */
static enum tw_status prepare(struct tw_cells *s, const struct tw_compare_cell *cell, int fd[3],
			      struct tw_error *why)
{
	char path[PATH_ROOM], name[40];
	int at = -1;

	draft_path(s, cell, "", path);
	folder_name(cell, true, name);
	if (tw_make_way(s->cells, name, cell_knows, s->how.log) != TW_OK ||
	    mkdirat(s->cells, name, 0777) || (at = tw_folder_at(s->cells, name)) < 0)
		return cannot(path, why);
	for (int k = 0; k < 3; k++) {
		fd[k] = openat(at, files[k], NEW_FILE | (k ? O_WRONLY : O_RDWR), 0666);
		if (fd[k] < 0) {
			const int error = errno;

			close(at);
			errno = error;
			draft_path(s, cell, files[k], path);
			return cannot(path, why);
		}
	}
	close(at);
	draft_path(s, cell, files[0], path);
	if (tw_file_add(fd[0], cell->text, strlen(cell->text)) != TW_OK ||
	    lseek(fd[0], 0, SEEK_SET) != 0)
		return cannot(path, why);
	return TW_OK;
}

static enum tw_status start(struct tw_cells *s, struct slot *slot,
			    const struct tw_compare_cell *cell, struct tw_error *why)
{
	const struct tw_comparison *c = s->comparison;
	const bool sim = c->world == TW_COMPARE_SIM;
	const uint32_t cores = tw_cores();
	int fd[3] = { -1, -1, -1 }, failure = 0;
	char log[PATH_ROOM], run[PATH_ROOM], threads[16];
	const char *argv[20];
	size_t n = 0;
	enum tw_status st = prepare(s, cell, fd, why);
	const struct tw_child_how how = {
		.fd = fd,
		.folder = c->folder[c->row[cell->row].file],
		.death = SIGKILL,
		.group = true,
	};

	draft_path(s, cell, "log.jsonl", log);
	draft_path(s, cell, "run", run);
	snprintf(threads, sizeof threads, "%u", s->how.jobs < cores ? cores / s->how.jobs : 1);
	argv[n++] = "/proc/self/exe"; /* this very program, even if its file was replaced */
	argv[n++] = sim ? "sim" : "train";
	for (const char *const *w = (const char *const[]){ "-", "--json", "--quiet", "--isa",
							   c->isa, "--log", log, NULL };
	     *w; w++)
		argv[n++] = *w;
	argv[n++] = sim ? "--threads" : "--run";
	argv[n++] = sim ? threads : run;
	if (c->world == TW_COMPARE_PROCESSES)
		argv[n++] = "--processes";
	argv[n] = NULL;
	if (st == TW_OK) {
		failure = tw_child_exec(&slot->child, &how, argv);
		if (failure)
			st = tw_fail(why, TW_IO, "no process can be started: %s",
				     strerror(failure));
	}
	for (int k = 0; k < 3; k++)
		if (fd[k] >= 0)
			close(fd[k]);
	if (st == TW_OK) {
		slot->cell = cell;
		slot->began = tw_clock();
		s->now.label = c->row[cell->row].label;
		s->now.running++;
	}
	return st;
}

/* --- finishing --- */

/* 0: finished, 1: diverged, -1: neither. */
static int outcome(int code, int fd)
{
	json_t *result = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);
	const bool diverged = json_is_true(json_object_get(result, "diverged"));
	const bool whole = result && !json_is_true(json_object_get(result, "interrupted"));

	json_decref(result);
	if (fd >= 0)
		close(fd);
	if (diverged)
		return 1;
	return whole && code == 0 ? 0 : -1;
}

static enum tw_status put_in_place(struct tw_cells *s, const struct tw_compare_cell *cell,
				   struct tw_error *why)
{
	char from[40], to[40], path[PATH_ROOM], odd[TW_ODD];
	int at;

	folder_name(cell, true, from);
	folder_name(cell, false, to);
	at = tw_folder_at(s->cells, from);
	if (at >= 0) {
		tw_folder_remove(at, "run", tw_run_directory_knows, odd);
		close(at);
	}
	/* what has no result is not a cell */
	if (tw_make_way(s->cells, to, cell_knows, s->how.log) == TW_OK &&
	    renameat(s->cells, from, s->cells, to) == 0)
		return TW_OK;
	tw_cells_path(s, cell, "", path);
	return cannot(path, why);
}

static enum tw_status finish(struct tw_cells *s, struct slot *slot, struct tw_error *why)
{
	const int came = outcome(slot->child.code, open_file(s, slot->cell, true, "result.json"));
	enum tw_status st = TW_OK;

	if (came < 0)
		failed(s, slot);
	else
		st = put_in_place(s, slot->cell, why);
	s->now.diverged += came > 0;
	s->now.done++;
	s->now.running--;
	s->spent += (double)(tw_clock() - slot->began) / 1e9;
	s->ran++;
	*slot = (struct slot){ 0 };
	return st;
}

/* --- the loop --- */

static void show(struct tw_cells *s)
{
	const double mean = s->ran ? s->spent / (double)s->ran : -1;

	s->now.left =
		mean < 0 ? -1 : mean * (double)(s->now.all - s->now.done) / (double)s->how.jobs;
	if (s->how.show)
		s->how.show(s->how.show_arg, &s->now);
}

static bool stopped(const struct tw_cells *s)
{
	return s->how.interrupted && atomic_load(s->how.interrupted) > 0;
}

static void end_all(struct tw_cells *s)
{
	for (uint32_t k = 0; k < s->how.jobs; k++)
		if (s->slot[k].cell) {
			tw_child_kill(&s->slot[k].child);
			s->slot[k] = (struct slot){ 0 };
			s->now.running--;
		}
}

/* Is the same run under way for another row?  When it is done, it is kept for both. */
static bool is_running(const struct tw_cells *s, const struct tw_compare_cell *cell)
{
	for (uint32_t k = 0; k < s->how.jobs; k++)
		if (s->slot[k].cell && tw_sha_same(&s->slot[k].cell->key, &cell->key))
			return true;
	return false;
}

/* Give free places work, and look who is done; *next is the first cell without. */
static enum tw_status turn(struct tw_cells *s, const struct tw_compare_cell *const *cell, size_t n,
			   size_t *next, bool *moved, struct tw_error *why)
{
	enum tw_status st = TW_OK;

	*moved = false;
	for (uint32_t k = 0; k < s->how.jobs && st == TW_OK; k++) {
		struct slot *slot = &s->slot[k];

		if (slot->cell && tw_child_look(&slot->child)) {
			st = finish(s, slot, why);
			*moved = true;
		}
		while (st == TW_OK && !slot->cell && *next < n && is_kept(s, cell[*next])) {
			s->now.done++;
			s->now.kept++;
			(*next)++;
		}
		if (st == TW_OK && !slot->cell && *next < n && !is_running(s, cell[*next]))
			st = start(s, slot, cell[(*next)++], why);
	}
	return st;
}

enum tw_status tw_cells_run(struct tw_cells *s, const struct tw_compare_cell *const *cell, size_t n,
			    size_t later, struct tw_error *why)
{
	enum tw_status st = TW_OK;
	size_t next = 0;
	bool moved = false;
	long ns = 1000000;

	s->now.all = s->now.done + n + later;
	while (st == TW_OK && (next < n || s->now.running) && !stopped(s)) {
		st = turn(s, cell, n, &next, &moved, why);
		show(s);
		ns = moved ? 1000000 : ns < 20000000 ? ns * 2 : ns;
		if (s->now.running && !moved)
			nanosleep(&(struct timespec){ 0, ns }, NULL);
	}
	end_all(s);
	if (st == TW_OK && stopped(s))
		st = tw_fail(why, TW_INTERRUPTED,
			     "interrupted with %zu of %zu runs done; run the same command again "
			     "to resume",
			     s->now.done, s->now.all);
	return st;
}
