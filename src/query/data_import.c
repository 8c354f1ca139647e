/* SPDX-License-Identifier: Apache-2.0 */
/* data_import.c - the data of a job becomes one file, which later jobs map. */
#include "query/query.h"

#include "base/json.h"
#include "checkpoint/files.h"
#include "data/format/series_rows.h"
#include "data/format/set_file.h"
#include "data/format/set_map.h"
#include "run/open_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".tws"

struct importing {
	const struct tw_job *job;
	const char *to;
	struct tw_data *data;
	uint64_t bytes;
	struct tw_error *why;
};

static enum tw_status write_set(void *arg, int fd)
{
	struct importing *i = arg;

	return tw_set_write(i->data, i->to, fd, &i->job->listener, &i->bytes, i->why);
}

/* Said before anything is read. */
static enum tw_status check_to(const char *to, struct tw_error *why)
{
	const char *end = strrchr(to, '.');
	struct stat there;

	if (!end || strcmp(end, SUFFIX) != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s does not end with .tws; name a new file that does",
			       *to ? to : "nothing");
	if (lstat(to, &there) == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "--to: %.300s is there already; name a new file, or remove it", to);
	return TW_OK;
}

static enum tw_status write_file(struct importing *i)
{
	const char *slash = strrchr(i->to, '/');
	char folder[4096];
	enum tw_status st;
	int at;

	snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - i->to + 1) : 1,
		 slash ? i->to : ".");
	at = tw_folder_at(AT_FDCWD, folder);
	if (at < 0)
		return tw_fail(i->why, TW_BAD_INPUT,
			       "--to: %.300s cannot be written: %s; name a file in a directory "
			       "that is there",
			       i->to, strerror(errno));
	st = tw_file_replace_by(at, slash ? slash + 1 : i->to, write_set, i);
	if (st != TW_OK && i->why->status == TW_OK)
		tw_fail(i->why, st, "--to: %.300s cannot be written: %s", i->to, strerror(errno));
	close(at);
	return st;
}

/* The source that reads files of this kind. */
static const char *source_of(const char *suffix)
{
	for (size_t k = 0; tw_source_all[k]; k++)
		for (const struct tw_source_file *f = tw_source_all[k]->files; f && f->suffix; f++)
			if (strcmp(f->suffix, suffix) == 0)
				return tw_source_all[k]->name;
	return "";
}

static json_t *describe(const struct tw_data *d, const char *file, uint64_t bytes)
{
	json_t *o = tw_query_counts(d);
	char text[TW_SHA_TEXT];

	tw_json_set(o, "file", json_string(file));
	tw_json_set(o, "source", json_string(source_of(SUFFIX)));
	tw_json_set(o, "bytes", tw_json_count(bytes));
	tw_json_set(o, "fingerprint", json_string(tw_sha_text(&d->fingerprint, text)));
	return o;
}

enum tw_status tw_query_import(const struct tw_job *job, const char *to, json_t **out,
			       struct tw_error *why)
{
	struct importing i = { .job = job, .to = to, .why = why };
	enum tw_status st = check_to(to, why);

	if (st == TW_OK && !job->data.from)
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.300s: data.source: none: the model generates its samples, so there "
			     "is nothing to import",
			     job->file);
	if (st == TW_OK)
		st = tw_job_read_data(job, &tw_heap_system, &i.data, why);
	if (st == TW_OK && tw_series_width(i.data->columns))
		st = tw_fail(why, TW_BAD_INPUT,
			     "%.300s: data.group: a set file does not know which of its values are "
			     "lengths; train from the table itself",
			     job->file);
	if (st == TW_OK)
		st = write_file(&i);
	if (st == TW_OK) {
		*out = describe(i.data, to, i.bytes);
		tw_json_set(*out, "notes", tw_query_warnings(i.data->notes));
		tw_json_set(*out, "warnings", tw_query_warnings(i.data->warnings));
	}
	tw_data_close(i.data);
	return st;
}

enum tw_status tw_query_verify(const char *file, json_t **out, struct tw_error *why)
{
	const struct tw_source_site site = { .heap = &tw_heap_system };
	struct tw_data *d = tw_heap_zeros(site.heap, sizeof *d);
	struct stat s;
	enum tw_status st;

	if (!d)
		return tw_fail(why, TW_NO_MEMORY, "no memory");
	d->heap = site.heap;
	st = tw_set_map(&site, file, d, why);
	if (st == TW_OK)
		st = tw_set_check(file, d, why);
	if (st == TW_OK)
		*out = describe(d, file, stat(file, &s) ? 0 : (uint64_t)s.st_size);
	tw_data_close(d);
	return st;
}
