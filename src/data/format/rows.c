/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - rows for a model: the file is read by its format, then held against the model. */
#include "data/format/rows.h"
#include "data/format/series_rows.h"
#include "data/format/idx.h"
#include "data/input.h"
#include "data/data_memory.h"
#include "data/format/npy_set.h"
#include "data/format/picture/picture.h"
#include "data/format/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum format { CSV, NPY, IDX, IMAGE, FORMATS };
static const char *const format_names[FORMATS] = { "csv", "npy", "idx", "image" };

struct reading {
	const struct tw_rows_facts *facts;
	const struct tw_rows_request *request;
	struct tw_heap *heap;
	struct tw_data *d;
	struct tw_rows *out;
	struct tw_error *why;
	char shown[240]; /* the file, for sentences */
};

static bool given(const char *text)
{
	return text && text[0];
}

/* --- which format ----------------------------------------------------------------------------- */

static enum tw_status format_of(const struct reading *r, struct tw_input *in, const char *asked,
				enum format *out)
{
	uint8_t b[TW_INPUT_AHEAD];
	size_t n = 0;
	enum tw_status st;

	for (int k = 0; given(asked) && k < FORMATS; k++)
		if (!strcmp(asked, format_names[k])) {
			*out = (enum format)k;
			return TW_OK;
		}
	if (given(asked))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "there is no format '%.40s'; csv, npy, idx and image are accepted",
			       asked);
	st = tw_input_peek(in, b, &n, r->why);
	if (st != TW_OK)
		return st;
	if (n >= 4 && (memcmp(b, "PK\3\4", 4) == 0 || memcmp(b, "PAR1", 4) == 0))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: is %s; CSV, NPY, IDX or an image is needed", tw_input_name(in),
			       b[1] == 'K' ? "a ZIP file, such as .xlsx and .npz are"
					   : "a Parquet file");
	*out = tw_picture_begins(b, n)                    ? IMAGE
	       : n >= 6 && memcmp(b, "\x93NUMPY", 6) == 0 ? NPY
	       : n >= 4 && !b[0] && !b[1]                 ? IDX
							  : CSV;
	return TW_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* The separator where the request names none. */
static char usual_separator(const struct reading *r)
{
	const char *name = r->request->file;
	size_t n = strlen(name);

	if (n > 3 && !strcmp(name + n - 3, ".gz"))
		n -= 3;
	if (n > 4 && !strncmp(name + n - 4, ".tsv", 4))
		return '\t';
	return r->facts->names.separator ? r->facts->names.separator : ',';
}

/* Names for classes that have none: their numbers. */
static enum tw_status number_classes(struct reading *r)
{
	enum { ROOM = 8 };
	const uint32_t count = r->facts->classes;
	void *memory = NULL;
	const char **list;
	char *text;
	const enum tw_status st =
		tw_data_keep_room(r->d, (uint64_t)count + 1, sizeof *list + ROOM, &memory, r->why);

	if (st != TW_OK)
		return st;
	list = memory;
	text = (char *)(list + count + 1);
	for (uint32_t k = 0; k < count; k++, text += ROOM) {
		snprintf(text, ROOM, "%u", k % 10000000);
		list[k] = text;
	}
	list[count] = NULL;
	r->d->names.answer = list;
	return TW_OK;
}

static enum tw_status class_words(struct reading *r, struct tw_words *w)
{
	enum tw_status st = TW_OK;

	tw_words_init(w, r->heap, TW_CLASSES_MAX);
	if (r->facts->classes && !r->d->names.answer)
		st = number_classes(r);
	if (st == TW_OK && r->facts->classes)
		st = tw_words_names(w, r->d->names.answer);
	if (st == TW_NO_MEMORY)
		return tw_data_keep_no_memory(r->why, "classes", r->facts->classes);
	if (st != TW_OK || w->count != r->facts->classes)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "the model has %u classes, but names for %u different ones (at "
			       "most %u are accepted)",
			       r->facts->classes, w->count, TW_CLASSES_MAX);
	return TW_OK;
}

/* Columns by place although they have names, or names taken for data: the user may not know. */
static void warn_place(const struct reading *r, const struct tw_table *t)
{
	const struct tw_columns *columns = r->d->columns;

	if (t->numbered)
		tw_warn(&r->out->warnings,
			"%.100s:1: the first row counts upwards and is read as data; remove it "
			"if these are the names of the columns",
			r->shown);
	if (!columns->named || t->header)
		return;
	tw_warn(&r->out->warnings,
		"%.100s: has no header, so its columns are taken in the order of the training: "
		"%.40s%s%.40s%s",
		r->shown, columns->column[0].name, columns->count > 1 ? ", " : "",
		columns->count > 1 ? columns->column[1].name : "",
		columns->count > 2 ? ", ..." : "");
}

/* Values that are not there, and words that the training did not have. */
static void warn_cells(const struct reading *r, uint64_t unknown, uint64_t missing)
{
	if (unknown)
		tw_warn(&r->out->warnings,
			"%.100s: %" PRIu64 " cell%s words that the training set did not have; %s "
			"as another word",
			r->shown, unknown, unknown == 1 ? " has" : "s have",
			unknown == 1 ? "it counts" : "they count");
	if (missing)
		tw_warn(&r->out->warnings,
			"%.100s: %" PRIu64 " cell%s what the model card says (missing: %s)",
			r->shown, missing,
			missing == 1 ? " is missing, and becomes" : "s are missing, and become",
			tw_missing_names[r->d->columns->missing]);
}

/* A model that knows no columns has numbers, and the label where it says. */
static enum tw_status plain_columns(struct reading *r)
{
	const struct tw_names *n = &r->d->names;
	const uint32_t features = (uint32_t)r->d->features;
	struct tw_columns *columns = tw_data_keep_small(r->d, sizeof *columns);
	uint32_t *label = tw_data_keep_small(r->d, sizeof *label);
	struct tw_column *c = tw_data_keep_small(r->d, (size_t)features * sizeof *columns->column);

	if (!columns || !label || !c)
		return tw_data_keep_no_memory(r->why, "columns", (uint64_t)features * sizeof *c);
	*label = n->place && n->place <= features + 1 ? n->place : features + 1;
	*columns = (struct tw_columns){
		.column = c,
		.count = features,
		.named = n->column != NULL,
		.all = features + 1,
		.label = label,
		.labels = 1,
		.missing = TW_MISSING_REFUSE,
		.raws = features,
	};
	for (uint32_t k = 0; k < features; k++) {
		c[k].name = n->column ? n->column[k] : NULL;
		c[k].place = k + 1 + (k + 1 >= *label);
	}
	r->d->columns = columns;
	return TW_OK;
}

/* `text`: memory of the data set, as tw_table_read takes it. */
static enum tw_status read_table(struct reading *r, struct tw_table_facts *facts, char *text,
				 size_t bytes)
{
	struct tw_table table = { 0 };
	struct tw_words words;
	uint64_t unknown = 0, missing = 0;
	enum tw_status st;

	facts->use = r->request->score ? TW_TABLE_SCORE : TW_TABLE_PREDICT;
	facts->classes = r->facts->classes > 0;
	facts->warnings = &r->out->warnings;
	r->d->kind = TW_VALUE_F32;
	st = class_words(r, &words);
	if (st == TW_OK)
		st = tw_table_read(facts, text, bytes, &words, r->d, &table, r->why);
	tw_words_release(&words);
	if (st == TW_OK)
		st = tw_columns_encode(r->d, r->d->columns, &table.samples, &unknown, &missing,
				       r->why);
	if (st != TW_OK)
		return st;
	if (facts->header != TW_HEADER_NO)
		warn_place(r, &table);
	warn_cells(r, unknown, missing);
	if (table.known && !table.answers)
		tw_warn(&r->out->warnings,
			"%.100s: has a column of answers, but none that the model knows; they are "
			"left out",
			r->shown);
	r->d->test = table.samples;
	r->out->answers = table.answers;
	r->out->known = table.answers ? table.known : NULL;
	r->out->extras = table.extras;
	r->out->extra = table.extra;
	r->out->cell = table.cell;
	return TW_OK;
}

static enum tw_status read_csv(struct reading *r, struct tw_input *in)
{
	struct tw_table_facts facts = {
		.name = tw_input_name(in),
		.separator = usual_separator(r),
	};
	char *text = NULL;
	size_t bytes = 0;
	enum tw_status st = TW_OK;

	if (given(r->request->separator))
		st = tw_separator_parse(r->request->separator, &facts.separator, r->why);
	if (st != TW_OK)
		return st;
	if (given(r->request->answers))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: is CSV, which has the answers in a column; a separate file "
			       "of answers is only for NPY and IDX",
			       tw_input_name(in));
	if (r->facts->targets > 1 && !r->facts->columns)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: is CSV, and the model predicts %u values for each row; give "
			       "an NPY file",
			       tw_input_name(in), r->facts->targets);
	r->d->columns = (struct tw_columns *)r->facts->columns; /* it is only read */
	if (!r->d->columns)
		st = plain_columns(r);
	if (st == TW_OK)
		st = tw_input_all(in, &text, &bytes, r->why);
	if (st != TW_OK)
		return st;
	if (tw_series_width(r->d->columns)) {
		st = tw_series_model_rows(r->heap, r->d->columns, facts.name, r->facts->names.label,
					  facts.separator, &text, &bytes, r->why);
		facts.separator = ',';
	}
	tw_data_keep_adopt(r->d, text);
	return st == TW_OK ? read_table(r, &facts, text, bytes) : st;
}

static enum tw_status read_text(struct reading *r)
{
	struct tw_table_facts facts = {
		.name = r->request->file,
		.separator = ',',
		.header = TW_HEADER_NO,
	};
	const size_t bytes = r->request->bytes;
	void *text = NULL;
	enum tw_status st = tw_data_keep_room(r->d, bytes + 1, 1, &text, r->why);

	if (st != TW_OK)
		return st;
	memcpy(text, r->request->text, bytes);
	((char *)text)[bytes] = 0;
	snprintf(r->shown, sizeof r->shown, "%s", r->request->file);
	r->d->columns = (struct tw_columns *)r->facts->columns; /* it is only read */
	if (!r->d->columns)
		st = plain_columns(r);
	return st == TW_OK ? read_table(r, &facts, text, bytes) : st;
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* "3x28x28" */
static const char *show_shape(uint32_t rank, const uint32_t *shape, char out[48])
{
	if (rank == 3)
		snprintf(out, 48, "%ux%ux%u", shape[0], shape[1], shape[2]);
	else
		snprintf(out, 48, "%u", shape[0]);
	return out;
}

/* Samples of the model's shape, or flat. */
static enum tw_status check_shape(struct reading *r, const char *name, const struct tw_data *file)
{
	const struct tw_rows_facts *f = r->facts;
	char has[48], wants[48];

	if (file->features == r->d->features &&
	    (file->rank == 1 ||
	     (f->rank == 3 && memcmp(file->shape, f->shape, sizeof f->shape) == 0)))
		return TW_OK;
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s: its samples are %s values, but the model takes %s (or that many flat: "
		       "%zu)",
		       name, show_shape(file->rank, file->shape, has),
		       show_shape(f->rank, f->shape, wants), r->d->features);
}

/* Labels as they are in the file become classes: by name if all names are whole numbers, else by
 * number from 0. */
static enum tw_status classify(struct reading *r, const char *name, struct tw_samples *s)
{
	struct tw_words words;
	uint32_t *label = (uint32_t *)s->label; /* our own memory, not yet shown */
	void *known = NULL;
	enum tw_status st = class_words(r, &words);
	const bool whole = st == TW_OK && tw_words_whole(&words);

	if (st == TW_OK)
		st = tw_data_keep_room(r->d, s->count, 1, &known, r->why);
	for (uint64_t i = 0; st == TW_OK && i < s->count; i++) {
		char text[16];
		const struct tw_csv_field f = {
			.at = text,
			.bytes = (size_t)snprintf(text, sizeof text, "%u", label[i]),
		};
		uint32_t class = label[i];
		const bool ok =
			whole ? tw_words_find(&words, &f, &class) : class < r->facts->classes;

		if (!ok && r->request->score)
			st = tw_fail(r->why, TW_BAD_INPUT,
				     "%s: label %" PRIu64 " (from 1) is %u, which is not one of "
				     "the model's %u classes",
				     name, i + 1, label[i], r->facts->classes);
		((uint8_t *)known)[i] = ok;
		label[i] = ok ? class : 0;
		r->out->answers += ok;
	}
	tw_words_release(&words);
	r->out->known = r->out->answers ? known : NULL;
	return st;
}

static enum tw_status read_answers(struct reading *r, struct tw_samples *s)
{
	const struct tw_npy_pair pair = { r->shown, false, r->facts->classes };
	struct tw_input *in = NULL;
	enum format format = CSV;
	void *known = NULL;
	enum tw_status st = tw_input_open_stream(r->heap, r->request->answers, &in, r->why);

	if (st == TW_OK)
		st = format_of(r, in, "", &format);
	if (st == TW_OK && format != NPY && (format != IDX || r->facts->targets))
		st = tw_fail(r->why, TW_BAD_INPUT, "%s: is not an NPY%s file; %s are needed",
			     tw_input_name(in), r->facts->targets ? "" : " or IDX",
			     r->facts->targets ? "values" : "labels");
	if (st == TW_OK)
		st = format == NPY ? tw_npy_answers(in, &pair, r->d, s, r->why)
				   : tw_idx_labels(in, r->shown, r->d, s, r->why);
	if (st == TW_OK && r->facts->classes)
		st = classify(r, tw_input_name(in), s);
	tw_input_close(in);
	if (st != TW_OK || r->facts->classes)
		return st;
	st = tw_data_keep_room(r->d, s->count, 1, &known, r->why);
	if (st != TW_OK)
		return st;
	r->out->known = memset(known, 1, s->count);
	r->out->answers = s->count;
	return TW_OK;
}

/* Zeros, so that scoring reads something. */
static enum tw_status no_answers(struct reading *r, struct tw_samples *s)
{
	const uint64_t each = (r->facts->targets ? r->facts->targets : 1) * sizeof(float);
	void *zeros = NULL;
	enum tw_status st;

	if (r->request->score)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: has no answers; a file with them (NPY%s) is needed, too",
			       r->shown, r->facts->targets ? "" : " or IDX");
	st = tw_data_keep_room(r->d, s->count, each, &zeros, r->why);
	if (st != TW_OK)
		return st;
	memset(zeros, 0, s->count * each);
	if (r->facts->targets)
		s->target = zeros;
	else
		s->label = zeros;
	return TW_OK;
}

static enum tw_status read_array(struct reading *r, struct tw_input *in, enum format format)
{
	struct tw_data *d = r->d;
	const struct tw_data model = *d;
	struct tw_data file;
	enum tw_status st;

	st = format == NPY ? tw_npy_samples(in, true, d, &d->test, r->why)
			   : tw_idx_samples(in, true, d, &d->test, r->why);
	file = *d;
	d->rank = model.rank;
	d->features = model.features;
	memcpy(d->shape, model.shape, sizeof d->shape);
	if (st == TW_OK)
		st = check_shape(r, tw_input_name(in), &file);
	if (st != TW_OK)
		return st;
	return given(r->request->answers) ? read_answers(r, &d->test) : no_answers(r, &d->test);
}

/* --- one image -------------------------------------------------------------------------------- */

/* As sources of images do it: scaled to the model's size, and cut. */
static enum tw_status fit_image(struct reading *r, const struct tw_picture *p)
{
	const uint32_t *shape = r->facts->shape;
	void *value = NULL;
	enum tw_status st = tw_data_keep_room(r->d, 1, r->d->features, &value, r->why);

	if (st == TW_OK &&
	    tw_picture_fit(r->heap, p, shape[0], shape[1], shape[2], value) != TW_PICTURE_GOOD)
		st = tw_data_keep_no_memory(r->why, r->shown, r->d->features);
	if (st != TW_OK)
		return st;
	r->d->kind = TW_VALUE_U8;
	r->d->test = (struct tw_samples){ .count = 1, .value = value };
	return no_answers(r, &r->d->test);
}

static enum tw_status check_image(struct reading *r)
{
	const struct tw_rows_facts *f = r->facts;
	char wants[48];

	if (f->rank != TW_DATA_RANK || (f->shape[0] != 1 && f->shape[0] != 3))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: is an image, but the model takes %s values; images have 1 or 3 "
			       "channels, height and width",
			       r->shown, show_shape(f->rank, f->shape, wants));
	if (r->request->score || given(r->request->answers))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: is one image, and no file has its answer; an image can be "
			       "predicted, and scoring needs NPY or IDX with answers",
			       r->shown);
	return TW_OK;
}

static enum tw_status read_image(struct reading *r, struct tw_input *in)
{
	char said[TW_PICTURE_SAID] = "", *bytes = NULL;
	struct tw_picture p;
	size_t n = 0;
	enum tw_status st = check_image(r);
	enum tw_picture_status got;

	if (st == TW_OK)
		st = tw_input_all(in, &bytes, &n, r->why);
	if (st != TW_OK)
		return st;
	got = tw_picture_read(r->heap, (const uint8_t *)bytes, n, &p, said);
	r->heap->put(r->heap, bytes);
	if (got == TW_PICTURE_NO_MEMORY)
		return tw_data_keep_no_memory(r->why, r->shown, n);
	if (got != TW_PICTURE_GOOD)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: cannot be read%s%s; a whole PNG or JPEG file of at most 2^26 "
			       "pixels is needed",
			       r->shown, said[0] ? ": " : "", said);
	st = fit_image(r, &p);
	r->heap->put(r->heap, p.pixel);
	return st;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Pixels divided by 255 before, for a model that knows bytes. */
static void warn_range(const struct reading *r)
{
	const struct tw_data *d = r->d;
	const uint64_t n = d->test.count * d->features;
	const float *v = d->test.value;
	bool fraction = false;

	if (r->facts->kind != TW_VALUE_U8 || d->kind != TW_VALUE_F32)
		return;
	for (uint64_t i = 0; i < n; i++) {
		if (v[i] < 0 || v[i] > 1)
			return;
		fraction |= v[i] > 0 && v[i] < 1;
	}
	if (fraction)
		tw_warn(&r->out->warnings,
			"%.100s: all values are between 0 and 1, but the model was trained on "
			"bytes; give them as 0 to 255",
			r->shown);
}

static enum tw_status take_facts(struct reading *r)
{
	const struct tw_rows_facts *f = r->facts;
	uint64_t shape[TW_DATA_RANK];
	enum tw_status st;

	if ((f->rank != 1 && f->rank != TW_DATA_RANK) || (f->classes > 0) == (f->targets > 0) ||
	    f->classes > TW_CLASSES_MAX)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "the model takes samples of %u dimensions and predicts %u classes, "
			       "%u values; rows or images, and one of both, are accepted",
			       f->rank, f->classes, f->targets);
	for (uint32_t k = 0; k < TW_DATA_RANK; k++)
		shape[k] = f->shape[k];
	st = tw_data_keep_shape(r->d, "the model", f->rank, shape, r->why);
	r->d->classes = f->classes;
	r->d->targets = f->targets;
	return st == TW_OK ? tw_names_copy(r->d, &f->names, r->d->features,
					   f->classes ? f->classes : f->targets, r->why)
			   : st;
}

static enum tw_status read_file(struct reading *r)
{
	struct tw_input *in = NULL;
	enum format format = CSV;
	enum tw_status st = tw_input_open_stream(r->heap, r->request->file, &in, r->why);

	if (st == TW_OK) {
		snprintf(r->shown, sizeof r->shown, "%s", tw_input_name(in));
		st = format_of(r, in, r->request->format, &format);
	}
	if (st == TW_OK)
		st = format == CSV     ? read_csv(r, in)
		     : format == IMAGE ? read_image(r, in)
				       : read_array(r, in, format);
	tw_input_close(in);
	return st;
}

enum tw_status tw_rows_open(const struct tw_rows_facts *facts,
			    const struct tw_rows_request *request, struct tw_rows *out,
			    struct tw_error *why)
{
	struct reading r = {
		.facts = facts,
		.request = request,
		.heap = request->heap,
		.d = tw_heap_zeros(request->heap, sizeof *r.d),
		.out = out,
		.why = why,
	};
	enum tw_status st;

	memset(out, 0, sizeof *out);
	if (!r.d)
		return tw_data_keep_no_memory(why, request->file, sizeof *r.d);
	r.d->heap = request->heap;
	st = take_facts(&r);
	if (st == TW_OK)
		st = request->text ? read_text(&r) : read_file(&r);
	if (st != TW_OK) {
		tw_data_close(r.d);
		memset(out, 0, sizeof *out);
		return st;
	}
	warn_range(&r);
	r.d->columns = NULL; /* they are the caller's */
	out->data = r.d;
	out->count = r.d->test.count;
	return TW_OK;
}
