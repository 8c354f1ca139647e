/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c - from a row of a table of refusals to a sentence with its place. */
#include "spec/refuse.h"

#include "node/refusals.h"
#include "spec/field.h"
#include "spec/help/suggest.h"
#include "strategy/refusals.h"

#include <string.h>

const struct tw_refusal_row *const tw_idle_all[] = { tw_idle_optimiser, tw_idle_delta,
						     tw_idle_online,    tw_idle_data,
						     tw_idle_sim,       NULL };

/* Does the field of a row stand for this one? */
static bool covers(const char *field, const char *path)
{
	const size_t n = strlen(field);

	if (field[n - 1] != '.')
		return strcmp(path, field) == 0;
	return strncmp(path, field, n) == 0 && strcmp(path + n, "name") != 0;
}

/* Of the fields that a row stands for the first that the user gave, or the last; NULL: none. */
static const struct tw_field *blamed(const struct tw_job *job, const struct tw_refusal_row *r)
{
	const struct tw_field *f = NULL;

	for (size_t k = 0; k < job->fields && !(f && tw_job_given(job, f->path)); k++)
		if (covers(r->field, job->field[k].path))
			f = &job->field[k];
	return f;
}

static enum tw_status refuse(const struct tw_job *job, const struct tw_refusal_row *r,
			     const struct tw_field *f, struct tw_error *why)
{
	const char *path = f ? f->path : r->field, *place;
	char sentence[480];

	tw_suggest(job, r->sentence, sentence, sizeof sentence);
	if (!r->because)
		return tw_job_refuse(job, why, path, "%s", sentence);
	place = tw_job_place(job, r->because);
	if (f && f->from && (f->from->origin != TW_FROM_PRESET || place == job->file))
		place = f->from->place;
	return tw_fail(why, TW_BAD_INPUT, "%.300s: %s: %s", place, path, sentence);
}

enum tw_status tw_job_refuse_rows(const struct tw_job *job, const struct tw_refusal_row *rows,
				  bool idle, struct tw_error *why)
{
	for (const struct tw_refusal_row *r = rows; r->when; r++) {
		const struct tw_field *f;

		if (!tw_facts_are(&job->facts, r->when))
			continue;
		f = blamed(job, r);
		if (!idle || (f && tw_job_given(job, f->path)))
			return refuse(job, r, f, why);
	}
	return TW_OK;
}

void tw_job_silence_idle(struct tw_job *job)
{
	for (size_t t = 0; tw_idle_all[t]; t++)
		for (const struct tw_refusal_row *r = tw_idle_all[t]; r->when; r++) {
			const bool idle = tw_facts_are(&job->facts, r->when);

			for (size_t k = 0; idle && k < job->fields; k++)
				if (covers(r->field, job->field[k].path))
					((struct tw_field *)&job->field[k])->silent = true;
		}
}
