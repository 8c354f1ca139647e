/* SPDX-License-Identifier: Apache-2.0 */
/* data_summary.c - the data set of a job: how much there is, and what it looks like. */
#include "query/query.h"

#include "base/json.h"
#include "spec/field.h"
#include "run/open_engine.h"

#include <stdlib.h>

json_t *tw_query_counts(const struct tw_data *d)
{
	json_t *o = json_object(), *shape = json_array();

	for (uint32_t k = 0; k < d->rank; k++)
		json_array_append_new(shape, tw_json_count(d->shape[k]));
	tw_json_set(o, "shape", shape);
	tw_json_set(o, "train", tw_json_count(d->train.count));
	tw_json_set(o, "test", tw_json_count(d->test.count));
	tw_json_set(o, "validation", tw_json_count(d->validation.count));
	tw_json_set(o, "classes", tw_json_count(d->classes));
	tw_json_set(o, "targets", tw_json_count(d->targets));
	return o;
}

static json_t *occurrences(const struct tw_samples *s, uint32_t classes)
{
	uint64_t *n = calloc(classes ? classes : 1, sizeof *n);
	json_t *list = json_array();

	for (uint64_t k = 0; n && s->label && k < s->count; k++)
		n[s->label[k]]++;
	for (uint32_t c = 0; n && c < classes; c++)
		json_array_append_new(list, tw_json_count(n[c]));
	free(n);
	return list;
}

static enum tw_status open_data(const struct tw_job *job, struct tw_data **out,
				struct tw_error *why)
{
	if (!job->data.from)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%.300s: data.source: none: the model generates its samples, so there "
			"is nothing to show",
			job->file);
	return tw_job_open_data(job, &tw_heap_system, out, why);
}

/* A list of names; NULL where they are unknown. */
static json_t *names(const char *const *name)
{
	json_t *list = name ? json_array() : NULL;

	for (; list && *name; name++)
		json_array_append_new(list, json_string(*name));
	return list;
}

json_t *tw_query_warnings(const struct tw_warnings *w)
{
	json_t *list = json_array();

	for (unsigned k = 0; w && k < w->count; k++)
		json_array_append_new(list, json_string(w->text[k]));
	return list;
}

/* The columns of a table: {column, name, type, inputs, missing, words}. */
static json_t *columns(const struct tw_columns *from)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < from->count; k++) {
		const struct tw_column *c = &from->column[k];
		json_t *o = json_object();

		tw_json_set(o, "column", tw_json_count(c->place));
		if (c->name)
			tw_json_set(o, "name", json_string(c->name));
		tw_json_set(o, "type",
			    json_string(c->constant && c->type == TW_COLUMN_NUMBER
						? "constant"
						: tw_column_types[c->type]));
		tw_json_set(o, "inputs", tw_json_count(tw_column_inputs(c)));
		tw_json_set(o, "missing", tw_json_count(c->missing));
		if (c->type == TW_COLUMN_CATEGORY || (c->distinct && !tw_column_is_read(c)))
			tw_json_set(o, "words",
				    tw_json_count(c->type == TW_COLUMN_CATEGORY ? c->words
										: c->distinct));
		json_array_append_new(list, o);
	}
	return list;
}

enum tw_status tw_query_data(const struct tw_job *job, json_t **out, struct tw_error *why)
{
	struct tw_data *d = NULL;
	enum tw_status st;
	char print[TW_SHA_TEXT];
	json_t *o;

	st = open_data(job, &d, why);
	if (st != TW_OK)
		return st;
	o = tw_query_counts(d);
	tw_sha_text(&d->fingerprint, print);
	tw_json_set(o, "source", json_string(job->data.from->name));
	tw_json_set(o, "values", json_string(d->kind == TW_VALUE_U8 ? "bytes" : "floats"));
	tw_json_set(o, "fingerprint", json_string(print));
	if (d->tokens) {
		tw_json_set(o, "tokens", json_true());
	} else if (d->classes) {
		json_t *sets = json_object();

		tw_json_set(sets, "train", occurrences(&d->train, d->classes));
		tw_json_set(sets, "test", occurrences(&d->test, d->classes));
		tw_json_set(sets, "validation", occurrences(&d->validation, d->classes));
		tw_json_set(o, "occurrences", sets);
	}
	if (d->names.column)
		tw_json_set(o, "columns", names(d->names.column));
	if (d->names.answer)
		tw_json_set(o, "answers", names(d->names.answer));
	if (d->names.label)
		tw_json_set(o, "label", json_string(d->names.label));
	if (d->columns)
		tw_json_set(o, "types", columns(d->columns));
	tw_json_set(o, "notes", tw_query_warnings(d->notes));
	tw_json_set(o, "warnings", tw_query_warnings(d->warnings));
	tw_data_close(d);
	*out = o;
	return o ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the description");
}

/* --- images --- */

static double pixel(const struct tw_data *d, const struct tw_sample *sample, size_t at)
{
	const size_t plane = (size_t)d->shape[1] * d->shape[2];
	double sum = 0;

	for (uint32_t c = 0; c < d->shape[0]; c++) {
		const size_t k = c * plane + at;

		sum += d->kind == TW_VALUE_U8 ? (double)((const uint8_t *)sample->value)[k]
					      : (double)((const float *)sample->value)[k];
	}
	return sum / d->shape[0];
}

/* What a list of images is made of. */
struct gallery {
	const struct tw_data *d;
	json_t *list;
};

static enum tw_status add_image(void *arg, uint64_t i, const struct tw_sample *sample,
				struct tw_error *why)
{
	const struct gallery *g = arg;
	const struct tw_data *d = g->d;
	const size_t n = (size_t)d->shape[1] * d->shape[2];
	double low = pixel(d, sample, 0), high = low;
	json_t *row = json_object(), *list = json_array();

	(void)i;
	(void)why;
	for (size_t k = 1; k < n; k++) {
		const double v = pixel(d, sample, k);

		low = v < low ? v : low;
		high = v > high ? v : high;
	}
	for (size_t k = 0; k < n; k++)
		json_array_append_new(
			list,
			json_real(high > low ? (pixel(d, sample, k) - low) / (high - low) : 0.0));
	if (sample->label)
		tw_json_set(row, "label", tw_json_count(*sample->label));
	tw_json_set(row, "image", list);
	json_array_append_new(g->list, row);
	return TW_OK;
}

enum tw_status tw_query_images(const struct tw_job *job, uint32_t count, json_t **out,
			       struct tw_error *why)
{
	struct tw_data *d = NULL;
	enum tw_status st = open_data(job, &d, why);
	struct gallery g = { d, NULL };

	if (st != TW_OK)
		return st;
	if (d->rank != 3) {
		tw_data_close(d);
		return tw_fail(why, TW_BAD_INPUT,
			       "the samples of %.300s are rows of numbers, not "
			       "images",
			       job->file);
	}
	g.list = json_array();
	st = tw_samples_walk(d, &d->train, 0, count, add_image, &g, why);
	*out = json_pack("{s:I, s:I, s:o}", "height", (json_int_t)d->shape[1], "width",
			 (json_int_t)d->shape[2], "samples", g.list);
	tw_data_close(d);
	if (st != TW_OK) {
		json_decref(*out);
		*out = NULL;
		return st;
	}
	return *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for images");
}
