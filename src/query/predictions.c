/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.c - what a network says of rows, as a table. */
#include "query/predictions.h"

#include "data/format/npy.h"
#include "checkpoint/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const tw_predictions_formats[] = {
	[TW_PREDICTIONS_CSV] = "csv",
	[TW_PREDICTIONS_JSONL] = "jsonl",
	[TW_PREDICTIONS_NPY] = "npy",
	NULL,
};

#define MANY 2000 /* columns whose names are all compared */

struct tw_predictions {
	const struct tw_predictions_request *request;
	struct tw_predictions_facts facts;
	enum tw_predictions_format format;
	FILE *f;
	char fresh[4200]; /* what the file is called until it is whole; "" none */
	bool nameless;    /* it gets that name when it is written */
	int cause;        /* the first errno of writing */
	uint32_t values;  /* numbers of one row: probabilities, values or outputs */
	bool classes;     /* a class is named */
	char **name;      /* of the columns behind `row`: extras, what is predicted, numbers */
	size_t names;
	size_t extras, truths; /* columns */
	bool first;            /* nothing of this line is written yet */
	float *row;            /* `values` of them */
	size_t at;             /* the next name of this line */
	uint64_t silent;       /* rows with an output that is not a number */
};

/* --- names of columns --- */

static const struct tw_data *model(const struct tw_predictions *p)
{
	return &p->facts.trained->card->data;
}

/* A name that another column has already gets a mark behind it. */
static bool taken(const struct tw_predictions *p, const char *name, size_t upto)
{
	if (strcmp(name, "row") == 0)
		return true;
	for (size_t k = 0; k < upto; k++)
		if (strcmp(p->name[k], name) == 0)
			return true;
	return false;
}

static enum tw_status add_name(struct tw_predictions *p, const char *before, const char *name)
{
	/* of very many only the input's columns and the few behind them: classes differ anyway */
	const size_t most = p->names < MANY ? p->names : p->extras + 3;
	char text[2 * TW_NAME_MOST + 40];

	snprintf(text, sizeof text - 8, "%s%s", before, name);
	while (strlen(text) < sizeof text - 2 && taken(p, text, most))
		strcat(text, "_");
	p->name[p->names] = strdup(text);
	return p->name[p->names++] ? TW_OK : TW_NO_MEMORY;
}

/* What value k of a row is called. */
static const char *value_name(const struct tw_predictions *p, uint32_t k, char out[32])
{
	const struct tw_data *d = model(p);
	const bool own = p->facts.trained->card->task == TW_CARD_INPUT;

	if (p->request->raw) {
		snprintf(out, 32, "output_%u", k);
		return out;
	}
	if (p->classes)
		return tw_name_answer(&d->names, k, out);
	if (own && d->names.column)
		return d->names.column[k];
	if (!own && d->names.answer)
		return d->names.answer[k];
	snprintf(out, 32, "value_%u", k);
	return out;
}

/* Prefix of the name of a predicted value, so that it is not taken for the truth. */
static const char *value_prefix(const struct tw_predictions *p)
{
	if (p->request->raw || p->facts.trained->card->task == TW_CARD_INPUT)
		return "";
	return p->classes ? "p_" : p->values > 1 ? "predicted_" : "predicted";
}

static enum tw_status name_columns(struct tw_predictions *p)
{
	const struct tw_rows *extra = p->facts.extra;
	const char *prefix = value_prefix(p);
	enum tw_status st = TW_OK;
	char text[32];

	p->extras = extra ? extra->extras : 0;
	p->truths = !p->facts.answers || p->facts.trained->card->task == TW_CARD_INPUT ? 0
		    : p->classes                                                       ? 1
				 : model(p)->targets;
	p->name = calloc(p->extras + p->truths + p->values + 3, sizeof *p->name);
	if (!p->name)
		return TW_NO_MEMORY;
	for (size_t k = 0; k < p->extras && st == TW_OK; k++)
		st = add_name(p, "", extra->extra[k]);
	if (st == TW_OK && p->classes)
		st = add_name(p, "", "predicted");
	if (st == TW_OK && p->classes && p->truths)
		st = add_name(p, "", "truth");
	if (st == TW_OK && p->classes && !p->request->raw)
		st = add_name(p, "", "probability");
	for (uint32_t k = 0; k < p->values && st == TW_OK; k++)
		st = add_name(p, prefix,
			      strcmp(prefix, "predicted") == 0 ? "" : value_name(p, k, text));
	for (uint32_t k = 0; !p->classes && k < p->truths && st == TW_OK; k++)
		st = add_name(p, p->truths > 1 ? "truth_" : "truth",
			      p->truths > 1 ? value_name(p, k, text) : "");
	return st;
}

/* --- cells --- */

static void csv_text(FILE *f, const char *text)
{
	if (!strpbrk(text, ",\"\r\n") && *text != ' ' &&
	    (!*text || text[strlen(text) - 1] != ' ')) {
		fputs(text, f);
		return;
	}
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', f);
		fputc(*text, f);
	}
	fputc('"', f);
}

static void json_text(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', f);
		if ((unsigned char)*text < 0x20)
			fprintf(f, "\\u%04x", *text);
		else
			fputc(*text, f);
	}
	fputc('"', f);
}

/* What stands before the next cell. */
static void begin_cell(struct tw_predictions *p)
{
	const char *name = p->first ? "row" : p->name[p->at++];

	if (p->format == TW_PREDICTIONS_CSV) {
		if (!p->first)
			fputc(',', p->f);
	} else {
		fputc(p->first ? '{' : ',', p->f);
		json_text(p->f, name);
		fputc(':', p->f);
	}
	p->first = false;
}

static void text_cell(struct tw_predictions *p, const char *text)
{
	begin_cell(p);
	(p->format == TW_PREDICTIONS_CSV ? csv_text : json_text)(p->f, text);
}

static void number_cell(struct tw_predictions *p, float v)
{
	begin_cell(p);
	if (isnan(v) && p->format == TW_PREDICTIONS_CSV)
		fputs("nan", p->f); /* whatever its sign is */
	else if (isfinite(v) || p->format == TW_PREDICTIONS_CSV)
		fprintf(p->f, "%.9g", (double)v);
	else
		fputs("null", p->f);
}

static void empty_cell(struct tw_predictions *p)
{
	begin_cell(p);
	if (p->format == TW_PREDICTIONS_JSONL)
		fputs("null", p->f);
}

/* --- lines --- */

static void truth(struct tw_predictions *p, uint64_t row)
{
	const struct tw_predictions_facts *a = &p->facts;
	const struct tw_data *d = model(p);
	char number[TW_NAME_NUMBER];

	if (!p->truths)
		return;
	if (a->known && !a->known[row])
		for (size_t k = 0; k < p->truths; k++)
			empty_cell(p);
	else if (p->classes)
		text_cell(p, tw_name_answer(&d->names, a->set->label[row], number));
	else
		for (size_t k = 0; k < p->truths; k++)
			number_cell(p, a->set->target[row * d->targets + k]);
}

static void line(struct tw_predictions *p, uint64_t row, const float *y)
{
	const struct tw_predictions_facts *a = &p->facts;
	const bool silent = tw_trained_silent(a->trained, y);
	const uint32_t best = p->classes ? tw_trained_class(a->trained, y) : 0;
	char number[TW_NAME_NUMBER];

	p->silent += silent;
	if (p->request->raw)
		memcpy(p->row, y, p->values * sizeof *y);
	else
		tw_trained_read(a->trained, y, p->row);
	if (p->format == TW_PREDICTIONS_NPY) {
		fwrite(p->row, sizeof *p->row, p->values, p->f);
		return;
	}
	p->first = true;
	p->at = 0;
	begin_cell(p);
	fprintf(p->f, "%" PRIu64, row + 1);
	for (size_t k = 0; k < p->extras; k++)
		text_cell(p, a->extra->cell[row * p->extras + k]);
	if (p->classes && silent)
		empty_cell(p);
	else if (p->classes)
		text_cell(p, tw_name_answer(&model(p)->names, best, number));
	if (p->classes)
		truth(p, row);
	if (p->classes && !p->request->raw && silent)
		empty_cell(p);
	else if (p->classes && !p->request->raw)
		number_cell(p, p->row[best]);
	for (uint32_t k = 0; k < p->values; k++)
		number_cell(p, p->row[k]);
	if (!p->classes)
		truth(p, row);
	fputs(p->format == TW_PREDICTIONS_JSONL ? "}\n" : "\n", p->f);
}

void tw_predictions_add(struct tw_predictions *p, uint64_t from, uint32_t count,
			const float *output)
{
	const uint32_t n = p->facts.trained->outputs;

	for (uint32_t k = 0; k < count && !p->cause; k++) {
		line(p, from + k, output + (size_t)k * n);
		if (ferror(p->f))
			p->cause = errno ? errno : EIO;
	}
}

static void header(struct tw_predictions *p)
{
	char head[TW_NPY_HEAD];
	size_t n;

	if (p->format == TW_PREDICTIONS_CSV) {
		fputs("row", p->f);
		for (size_t k = 0; k < p->names; k++) {
			fputc(',', p->f);
			csv_text(p->f, p->name[k]);
		}
		fputc('\n', p->f);
	}
	if (p->format != TW_PREDICTIONS_NPY)
		return;
	n = tw_npy_head("<f4", 2, (const uint64_t[]){ p->facts.set->count, p->values }, head);
	fwrite(head, 1, n, p->f);
}

/* --- where it goes --- */

static enum tw_status find_format(const struct tw_predictions_request *r,
				  enum tw_predictions_format *out, struct tw_error *why)
{
	const char *dot = r->to ? strrchr(r->to, '.') : NULL;
	const char *name = r->format && *r->format ? r->format : dot ? dot + 1 : NULL;

	*out = TW_PREDICTIONS_CSV;
	for (int k = 0; name && tw_predictions_formats[k]; k++)
		if (strcmp(name, tw_predictions_formats[k]) == 0) {
			*out = (enum tw_predictions_format)k;
			return TW_OK;
		}
	if (!r->to || r->any)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: %.300s ends with neither .csv nor .jsonl nor .npy; name it so, or add "
		       "--format",
		       r->flag, r->to);
}

enum tw_status tw_predictions_check(const struct tw_predictions_request *r, struct tw_error *why)
{
	enum tw_predictions_format format;
	struct stat there;

	if (r->to && stat(r->to, &there) == 0) {
		if (S_ISDIR(there.st_mode))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: %.300s is a directory; name a file in it, such as "
				       "predictions.csv",
				       r->flag, r->to);
		if (!S_ISREG(there.st_mode))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: %.300s is not a regular file; leave %s out to "
				       "write to standard output",
				       r->flag, r->to, r->flag);
		if (!r->force)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: %.300s exists already; --force overwrites it", r->flag,
				       r->to);
	}
	return find_format(r, &format, why);
}

static FILE *open_nameless(const char *to)
{
	const char *slash = strrchr(to, '/');
	char folder[4096] = ".";
	int at, fd;
	FILE *f;

	if (slash)
		snprintf(folder, sizeof folder, "%.*s", slash > to ? (int)(slash - to) : 1, to);
	at = tw_folder_at(AT_FDCWD, folder);
	fd = at < 0 ? -1 : tw_file_nameless(at);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f && fd >= 0)
		close(fd);
	if (at >= 0)
		close(at);
	return f;
}

static enum tw_status open_file(struct tw_predictions *p, struct tw_error *why)
{
	const struct tw_predictions_request *r = p->request;

	if (!r->to) {
		p->f = r->out;
		return TW_OK;
	}
	if (tw_file_beside(r->to, p->fresh, sizeof p->fresh))
		p->f = open_nameless(r->to);
	p->nameless = p->f != NULL;
	if (!p->f && p->fresh[0])
		p->f = fopen(p->fresh, "wxe");
	if (p->f)
		return TW_OK;
	p->fresh[0] = '\0';
	return tw_fail(why, TW_BAD_INPUT, "%s: %.300s cannot be written: %s", r->flag, r->to,
		       strerror(errno));
}

enum tw_status tw_predictions_open(const struct tw_predictions_request *r,
				   const struct tw_predictions_facts *facts,
				   struct tw_predictions **out, struct tw_error *why)
{
	const struct tw_card *card = facts->trained->card;
	struct tw_predictions *p = calloc(1, sizeof *p);
	enum tw_status st;

	if (!p)
		return tw_fail(why, TW_NO_MEMORY, "no memory for predictions");
	p->request = r;
	p->facts = *facts;
	p->classes = card->task == TW_CARD_CLASSES;
	p->values = r->raw ? facts->trained->outputs : tw_trained_values(facts->trained);
	st = find_format(r, &p->format, why);
	if (st == TW_OK && !(p->row = malloc(p->values * sizeof *p->row)))
		st = TW_NO_MEMORY;
	if (st == TW_OK)
		st = name_columns(p);
	if (st == TW_OK)
		st = open_file(p, why);
	if (st != TW_OK) {
		tw_predictions_close(p, false, NULL);
		return st == TW_NO_MEMORY ? tw_fail(why, st, "no memory for predictions") : st;
	}
	errno = 0;
	header(p);
	*out = p;
	return TW_OK;
}

static enum tw_status finish(struct tw_predictions *p, bool whole, struct tw_error *why)
{
	const struct tw_predictions_request *r = p->request;

	if (!p->f)
		return TW_OK;
	if ((fflush(p->f) || ferror(p->f)) && !p->cause)
		p->cause = errno ? errno : EIO;
	if (!p->fresh[0]) {
		errno = p->cause;
		if (p->cause && p->cause != EPIPE)
			return tw_fail(why, TW_IO, "standard output cannot be written: %s",
				       strerror(p->cause));
		return p->cause ? TW_IO : TW_OK;
	}
	if (fsync(fileno(p->f)) && !p->cause)
		p->cause = errno;
	if (whole && p->nameless && !p->cause &&
	    tw_file_name(fileno(p->f), AT_FDCWD, p->fresh) != TW_OK)
		p->cause = errno;
	if (fclose(p->f) && !p->cause)
		p->cause = errno;
	if (whole && !p->cause && rename(p->fresh, r->to))
		p->cause = errno;
	if (whole && !p->cause)
		return TW_OK;
	unlink(p->fresh);
	return whole ? tw_fail(why, TW_IO, "%s: %.300s cannot be written: %s", r->flag, r->to,
			       strerror(p->cause))
		     : TW_OK;
}

enum tw_status tw_predictions_close(struct tw_predictions *p, bool whole, struct tw_error *why)
{
	enum tw_status st;
	int cause;

	if (!p)
		return TW_OK;
	if (whole && p->silent && p->request->log)
		tw_log_line(p->request->log, TW_WARNING, "predictions",
			    "%" PRIu64 " of %" PRIu64 " rows have outputs that are not numbers: "
			    "their values are too large, or the parameters are unusable",
			    p->silent, p->facts.set->count);
	st = finish(p, whole, why);
	cause = errno;
	for (size_t k = 0; p->name && k < p->names; k++)
		free(p->name[k]);
	free(p->name);
	free(p->row);
	free(p);
	errno = cause;
	return st;
}
