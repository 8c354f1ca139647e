/* SPDX-License-Identifier: Apache-2.0 */
/* init_job.c - a job file for a table, with comments that say what was found in it. */
#include "query/init_models.h"

#include "base/json.h"
#include "checkpoint/files.h"
#include "spec/field.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PATH 4096

struct init {
	const struct tw_init_request *request;
	const struct tw_source *source;
	const struct tw_source_file *kind;
	char to[PATH], file[PATH]; /* the job, and the data as the job names it */
};

/* --- which files --- */

static bool ends(const char *path, const char *suffix)
{
	const size_t n = strlen(path), k = strlen(suffix);
	const size_t gz = n > 3 && strcasecmp(path + n - 3, ".gz") == 0 ? 3 : 0;

	return n - gz > k && strncasecmp(path + n - gz - k, suffix, k) == 0;
}

static enum tw_status find_source(struct init *i, struct tw_error *why)
{
	for (size_t k = 0; tw_source_all[k]; k++)
		for (const struct tw_source_file *f = tw_source_all[k]->files; f && f->suffix; f++)
			if (tw_source_all[k]->models && ends(i->request->data, f->suffix)) {
				i->source = tw_source_all[k];
				i->kind = f;
				return TW_OK;
			}
	return tw_fail(why, TW_BAD_INPUT,
		       "init: %.300s is not the name of a table; a file that ends with .csv, .tsv, "
		       ".csv.gz or .tsv.gz is accepted",
		       i->request->data);
}

/* A job beside its data names it without its folder; one elsewhere names all of the path. */
static enum tw_status find_paths(struct init *i, struct tw_error *why)
{
	const char *data = i->request->data, *slash = strrchr(data, '/');
	const char *name = slash ? slash + 1 : data;
	const size_t stem = strlen(name) - strlen(strcasestr(name, i->kind->suffix));
	char *whole;

	if (strlen(data) + 8 >= PATH || strlen(i->request->to) + 8 >= PATH)
		return tw_fail(why, TW_BAD_INPUT, "init: the path is too long");
	if (!*i->request->to) {
		snprintf(i->to, PATH, "%.*s%.*s.yaml", (int)(name - data), data, (int)stem, name);
		snprintf(i->file, PATH, "%s", name);
		return TW_OK;
	}
	snprintf(i->to, PATH, "%s", i->request->to);
	if (!strchr(i->to, '/') || *data == '/') {
		snprintf(i->file, PATH, "%s", data);
		return TW_OK;
	}
	whole = realpath(data, NULL);
	if (whole)
		snprintf(i->file, PATH, "%s", whole);
	free(whole);
	return i->file[0] ? TW_OK
			  : tw_fail(why, TW_BAD_INPUT, "init: %.300s cannot be opened: %s", data,
				    strerror(errno));
}

/* --- the text --- */

/* A value as YAML takes it back. */
static void put_value(FILE *f, const char *text)
{
	const bool plain = *text &&
			   strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
					"XYZ0123456789_./") == strlen(text) &&
			   *text != '.';

	if (plain) {
		fputs(text, f);
		return;
	}
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', f);
		fputc(*text, f);
	}
	fputc('"', f);
}

/* `rows`: that are trained on, of which a batch has no more; 0: not known yet. */
static void put_data(FILE *f, const struct init *i, const struct tw_source_model *model,
		     long long rows)
{
	static const char batch[] = "batch: ";
	const char *at = model->data;

	fprintf(f, "data:\n  source: %s\n  file: ", i->source->name);
	put_value(f, i->file);
	fputs("\n  label: ", f);
	put_value(f, *i->request->label ? i->request->label : "last");
	fputc('\n', f);
	if (i->kind->also)
		fprintf(f, "  %s\n", i->kind->also);
	while (*at) {
		const size_t n = strcspn(at, ",");

		if (rows && strncmp(at, batch, sizeof batch - 1) == 0 &&
		    strtoll(at + sizeof batch - 1, NULL, 10) > rows)
			fprintf(f, "  %s%lld  # as many as the training rows\n", batch, rows);
		else
			fprintf(f, "  %.*s\n", (int)n, at);
		at += n + strspn(at + n, ", ");
	}
}

/* The data of the job with that model: what was found is said of exactly this. */
static enum tw_status describe(const struct init *i, const struct tw_source_model *model,
			       json_t **data, struct tw_error *why)
{
	struct tw_job *job = NULL;
	char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	enum tw_status st;

	if (!f)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	put_data(f, i, model, 0);
	fputs(model->sections, f);
	fclose(f);
	st = tw_job_read_text(i->to, text, bytes, NULL, 0, NULL, TW_WORLD_THREADS, &job, why);
	free(text);
	if (st == TW_OK)
		st = tw_query_data(job, data, why);
	tw_job_free(job);
	return st;
}

static const char *text_of(const json_t *o, const char *name)
{
	const char *t = json_string_value(json_object_get(o, name));

	return t ? t : "";
}

/* One line may have any name in it, and must stay a comment. */
static void put_comment(FILE *f, const char *before, const char *text)
{
	fprintf(f, "# %s", before);
	for (; *text; text++)
		fputc((unsigned char)*text < 0x20 ? ' ' : *text, f);
	fputc('\n', f);
}

static void put_columns(FILE *f, const json_t *types)
{
	const json_t *c;
	size_t k;

	json_array_foreach(types, k, c)
	{
		const long long inputs = json_integer_value(json_object_get(c, "inputs"));
		char line[600];

		snprintf(line, sizeof line, "  %-20.255s %s%s", text_of(c, "name"),
			 text_of(c, "type"), inputs ? "" : ", not read");
		put_comment(f, "", line);
		if (k == 99) {
			fprintf(f, "#   and %zu more\n", json_array_size(types) - k - 1);
			break;
		}
	}
}

static void put_comments(FILE *f, const char *before, const json_t *sentences)
{
	const json_t *one;
	size_t k;

	json_array_foreach(sentences, k, one) put_comment(f, before, json_string_value(one));
}

static enum tw_status cannot_write(const struct init *i, int cause, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT, "init: %.300s %s%s", i->to,
		       cause == EEXIST ? "exists already; --force overwrites it"
				       : "cannot be written: ",
		       cause == EEXIST ? "" : strerror(cause));
}

/* Before anything is tried. */
static enum tw_status check_free(const struct init *i, struct tw_error *why)
{
	return i->request->force || access(i->to, F_OK) != 0 ? TW_OK : cannot_write(i, EEXIST, why);
}

static enum tw_status write_job(const struct init *i, const json_t *data,
				const struct tw_source_model *model, const json_t *trial,
				struct tw_error *why)
{
	FILE *f = fopen(i->to, i->request->force ? "we" : "wxe");

	if (!f)
		return cannot_write(i, errno, why);
	fprintf(f, "# thalweg train %s\n", i->to);
	put_comments(f, "", json_object_get(data, "notes"));
	put_comments(f, "warning: ", json_object_get(data, "warnings"));
	fputs("# The columns (thalweg help data.categories, data.numbers and data.drop change "
	      "them):\n",
	      f);
	put_columns(f, json_object_get(data, "types"));
	put_data(f, i, model, tw_whole_at(data, "train"));
	put_comments(f, "", json_object_get(trial, "notes"));
	fputs(model->sections, f);
	if (fclose(f) == 0)
		return TW_OK;
	return tw_fail(why, TW_IO, "init: %.300s cannot be written: %s", i->to, strerror(errno));
}

/* The job that a sentence names is not written: there is nothing to look up in it. */
static void forget_place(const struct init *i, struct tw_error *why)
{
	const size_t n = strlen(i->to);
	char text[sizeof why->text];
	const char *rest;

	if (strncmp(why->text, i->to, n) != 0 || why->text[n] != ':')
		return;
	rest = why->text + n + 1;
	rest += strspn(rest, "0123456789:");
	snprintf(text, sizeof text, "init:%s%s", *rest == ' ' ? "" : " ", rest);
	snprintf(why->text, sizeof why->text, "%s", text);
}

static void put_trial(FILE *f, const void *arg, const struct tw_source_model *model,
		      const char *fold, long long rows)
{
	put_data(f, arg, model, rows);
	fprintf(f, "  fold: %s\n%s", fold, model->sections);
}

static enum tw_status choose_model(const struct init *i, const json_t *data,
				   const struct tw_source_model **out, json_t **trial,
				   struct tw_error *why)
{
	const struct tw_init_trials t = {
		.name = i->to,
		.model = i->source->models + 1,
		.put = put_trial,
		.arg = i,
		.rows = tw_whole_at(data, "train") + tw_whole_at(data, "validation"),
		.inputs = (long long)json_integer_value(
			json_array_get(json_object_get(data, "shape"), 0)),
		.show = i->request->show,
		.show_arg = i->request->show_arg,
	};

	enum tw_status st = TW_OK;

	*out = NULL;
	*trial = NULL;
	if (!i->request->quick)
		st = tw_init_choose(&t, out, trial, why);
	if (!*out)
		*out = i->source->models; /* the usual one */
	return st;
}

enum tw_status tw_query_init(const struct tw_init_request *r, json_t **out, struct tw_error *why)
{
	struct init i = { .request = r };
	const struct tw_source_model *model = NULL;
	json_t *data = NULL, *trial = NULL;
	enum tw_status st = find_source(&i, why);

	if (st == TW_OK)
		st = find_paths(&i, why);
	if (st == TW_OK)
		st = describe(&i, i.source->models, &data, why);
	if (st == TW_OK)
		st = check_free(&i, why);
	if (st == TW_OK)
		st = choose_model(&i, data, &model, &trial, why);
	if (st == TW_OK && model != i.source->models) { /* it holds other rows out */
		json_decref(data);
		data = NULL;
		st = describe(&i, model, &data, why);
	}
	if (st != TW_OK)
		forget_place(&i, why);
	if (st == TW_OK)
		st = write_job(&i, data, model, trial, why);
	if (st != TW_OK) {
		json_decref(data);
		json_decref(trial);
		return st;
	}
	*out = json_pack("{s:s, s:o, s:o}", "to", i.to, "data", data, "trial",
			 trial ? trial : json_null());
	return *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the result");
}
