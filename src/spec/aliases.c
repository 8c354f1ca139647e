/* SPDX-License-Identifier: Apache-2.0 */
/* aliases.c - fields that stand for others (base/option.h): one of both is given, one explained. */
#include "spec/field.h"

#include <string.h>

static struct tw_field *stood_for(struct tw_job *job, const struct tw_field *alias)
{
	for (size_t k = 0; k < job->fields; k++)
		if (job->field[k].base == alias->base &&
		    strcmp(job->field[k].row->name, alias->row->stands_for) == 0)
			return (struct tw_field *)&job->field[k];
	return NULL;
}

static bool has_default(struct tw_job *job, const struct tw_field *f)
{
	const char *text = tw_field_text(f->row, f->base, &job->arena);

	return text && strcmp(text, f->row->standard) == 0;
}

/* An alias goes instead of the field that it stands for; only one of them is explained. */
static enum tw_status complete_alias(struct tw_job *job, struct tw_field *alias,
				     struct tw_error *why)
{
	struct tw_field *of = stood_for(job, alias);
	const bool given = tw_job_given(job, of->path);
	struct tw_error said = { 0 };
	const char *text;

	if (given && tw_job_given(job, alias->path) && !has_default(job, alias))
		return tw_job_refuse(job, why, alias->path,
				     "cannot be combined with %s; leave one out", of->path);
	if (given && tw_field_set(alias->row, alias->base, alias->row->standard, &job->arena,
				  &said) != TW_OK)
		return tw_job_refuse(job, why, alias->path, "%s", said.text);
	alias->silent = has_default(job, alias);
	of->silent = !alias->silent;
	if (alias->silent)
		return TW_OK;
	if (alias->row->convert(alias->base, job->cluster.workers, &said) != TW_OK)
		return tw_job_refuse(job, why, alias->path, "%s", said.text);
	text = tw_field_text(of->row, of->base, &job->arena);
	if (!text || tw_field_set(of->row, of->base, text, &job->arena, &said) != TW_OK)
		return tw_job_refuse(job, why, alias->path, "stands for %s, which %s", of->path,
				     said.text);
	return TW_OK;
}

enum tw_status tw_job_complete_aliases(struct tw_job *job, struct tw_error *why)
{
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < job->fields && st == TW_OK; k++)
		if (job->field[k].row->stands_for)
			st = complete_alias(job, (struct tw_field *)&job->field[k], why);
	return st;
}
