/* SPDX-License-Identifier: Apache-2.0 */
/* job_fields.c - the fields of one job: found, set, told; refused or warned of at their place. */
#include "spec/field.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *tw_job_world(enum tw_world_kind world)
{
	static const char *const names[] = {
		[TW_WORLD_SIM] = "sim",
		[TW_WORLD_THREADS] = "threads",
		[TW_WORLD_TCP] = "tcp",
		[TW_WORLD_MPI] = "mpi",
	};

	return names[world];
}

struct tw_field *tw_job_field(const struct tw_job *job, const char *path)
{
	for (size_t k = 0; k < job->fields; k++)
		if (strcmp(job->field[k].path, path) == 0)
			return (struct tw_field *)&job->field[k];
	return NULL;
}

bool tw_job_given(const struct tw_job *job, const char *path)
{
	const struct tw_field *f = tw_job_field(job, path);

	return f && f->from && f->from->origin != TW_FROM_PRESET;
}

/* The word for a number that is not there; NULL: there must be one. */
static const char *word_of(const struct tw_option *row)
{
	if (row->type == TW_F64 && row->standard && strcmp(row->standard, "none") == 0)
		return row->standard;
	return row->unset;
}

void tw_field_accepts(const struct tw_option *row, char *out, size_t room)
{
	size_t n;

	tw_option_accepts(row, out, room);
	n = strlen(out);
	if (word_of(row))
		snprintf(out + n, room - n, " or %s", word_of(row));
}

enum tw_status tw_field_set(const struct tw_option *row, void *base, const char *text,
			    struct tw_arena *keep, struct tw_error *why)
{
	struct tw_error said = { 0 };
	const size_t n = strlen(row->name);
	const char *reason = said.text;
	enum tw_status st;

	if (word_of(row) && strcmp(text, word_of(row)) == 0) {
		*(double *)((char *)base + row->offset) = (double)NAN;
		return TW_OK;
	}
	st = tw_option_set(row, base, text, keep, &said);
	if (st == TW_OK)
		return TW_OK;
	if (strncmp(reason, row->name, n) == 0 && strncmp(reason + n, ": ", 2) == 0)
		reason += n + 2;
	return tw_fail(why, st, "%s%s%s", reason, word_of(row) ? ", or " : "",
		       word_of(row) ? word_of(row) : "");
}

const char *tw_field_text(const struct tw_option *row, const void *base, struct tw_arena *keep)
{
	const void *at = (const char *)base + row->offset;
	const bool list = row->type == TW_F64S;
	const size_t room = list ? ((const struct tw_f64s *)at)->count * 32 + 3 : 300;
	char *text;

	if (word_of(row) && isnan(*(const double *)at))
		return word_of(row);
	text = tw_arena_get(keep, room);
	if (text)
		tw_option_text(row, base, text, room);
	return text;
}

bool tw_field_is_length(const char *path)
{
	static const char *const names[] = { "train.epochs", "train.steps", "train.updates",
					     "train.time", NULL };

	for (size_t k = 0; names[k]; k++)
		if (strcmp(names[k], path) == 0)
			return true;
	return false;
}

bool tw_field_is_remedy(const char *path)
{
	return strcmp(path, "update.rate") == 0 || strcmp(path, "update.clip") == 0 ||
	       strcmp(path, "update.global_clip") == 0;
}

bool tw_field_may_change(const struct tw_job *job, const char *path)
{
	const struct tw_field *f = tw_job_field(job, path);
	const uint32_t kind = job->update.schedule.kind;

	if (f && f->follows)
		return true;
	if (tw_job_divides(job) && strcmp(path, "cluster.workers") == 0)
		return false; /* subsets follow from it */
	if (tw_schedule_by_update(kind) && strcmp(path, "cluster.workers") == 0)
		return false; /* so does the number of an update */
	if (tw_field_is_length(path))
		/* unless the rate at every moment follows from it */
		return kind != TW_SCHEDULE_COSINE && kind != TW_SCHEDULE_LINEAR;
	return strncmp(path, "cluster.", 8) == 0 || strncmp(path, "checkpoint.", 11) == 0 ||
	       strncmp(path, "compare.", 8) == 0 || strncmp(path, "train.until.", 12) == 0 ||
	       strncmp(path, "train.on_divergence.", 20) == 0 ||
	       strcmp(path, "train.evaluate") == 0 || strcmp(path, "train.keep") == 0 ||
	       strcmp(path, "train.measure") == 0 || strcmp(path, "train.patience") == 0 ||
	       strcmp(path, "train.gap") == 0 || strcmp(path, "sim.threads") == 0 ||
	       strncmp(path, "train.warm.", 11) == 0 || /* who begins, of those in cluster: */
	       tw_field_is_remedy(path); /* run_directory.c allows them only after a divergence */
}

/* How far two paths lead the same way, in names: "a.b.c" and "a.b.d" agree for two. */
static size_t agree(const char *a, const char *b)
{
	size_t names = 0;

	for (; *a && *a == *b; a++, b++)
		names += *a == '.';
	return names;
}

/* Where a field was given; where it was not, its nearest neighbour; else the file. */
static const char *place_of(const struct tw_job *job, const char *path)
{
	const struct tw_field *f = tw_job_field(job, path);
	const char *place = job->file;
	size_t most = 0;

	if (f && f->from)
		return f->from->place;
	for (size_t k = 0; k < job->fields; k++)
		if (job->field[k].from && agree(job->field[k].path, path) > most) {
			most = agree(job->field[k].path, path);
			place = job->field[k].from->place;
		}
	return place;
}

enum tw_status tw_job_refuse(const struct tw_job *job, struct tw_error *why, const char *path,
			     const char *format, ...)
{
	char reason[480];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof reason, format, args);
	va_end(args);
	return tw_fail(why, TW_BAD_INPUT, "%.300s: %s: %s", place_of(job, path), path, reason);
}

enum tw_status tw_job_warn(struct tw_job *job, const char *format, ...)
{
	const char **list = tw_arena_get(&job->arena, (job->warnings + 1) * sizeof *list);
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!list || !(list[job->warnings] = tw_arena_text(&job->arena, text)))
		return TW_NO_MEMORY;
	if (job->warnings)
		memcpy(list, job->warning, job->warnings * sizeof *list);
	job->warning = list;
	job->warnings++;
	return TW_OK;
}
