/* SPDX-License-Identifier: Apache-2.0 */
/* series_rows.c - see series_rows.h.
 *
 *  (1) fields stay where they are in the text until the new one is written.
 *  (2) series come in the order in which the file has the first row of each. */
#include "data/format/series_rows.h"

#include "base/grow.h"
#include "data/format/csv.h"
#include "data/format/table_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_OF "length of "
#define BY        " by "
#define FIRST     "@1"
#define CELLS_MAX (UINT64_C(1) << 28)

struct row {
	uint32_t group;
	uint64_t line;
	struct tw_csv_field time;
	int64_t whole;
	float number;
	enum { WHOLE, NUMBER, TEXT } by;
	size_t cells; /* of its first cell */
};

struct reading {
	struct tw_heap *heap;
	const struct tw_series_wishes *wishes;
	struct tw_csv csv;
	struct tw_csv_field *column, *cell;
	size_t columns, column_room, cells, cell_room;
	uint32_t group, time, label; /* columns; label: `columns` if there is none */
	uint32_t *feature;           /* columns of features, in their order */
	uint32_t features;
	struct row *row;
	size_t rows, row_room;
	struct tw_words groups;
	uint32_t *count; /* rows of each series */
	uint32_t positions;
	char *out;
	size_t used, room;
	struct tw_error *why;
};

static enum tw_status no_memory(const struct reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "%s: no memory for its series", r->wishes->name);
}

static bool is_called(const struct tw_csv_field *f, const char *name)
{
	return f->bytes == strlen(name) && memcmp(f->at, name, f->bytes) == 0;
}

/* --- columns ---------------------------------------------------------------------------------- */

static enum tw_status find(const struct reading *r, const char *option, const char *name,
			   uint32_t *out)
{
	for (uint32_t k = 0; k < r->columns; k++)
		if (is_called(&r->column[k], name)) {
			*out = k;
			return TW_OK;
		}
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s: %.200s has no column '%.60s'; a table of series needs a first row with "
		       "the names of its columns",
		       option, r->wishes->name, name);
}

static bool dropped(const struct reading *r, const struct tw_csv_field *f)
{
	const char *list = r->wishes->drop ? r->wishes->drop : "";
	struct tw_csv_field word;

	while (tw_list_next(&list, &word))
		if (word.bytes == f->bytes && memcmp(word.at, f->at, f->bytes) == 0)
			return true;
	return false;
}

/* All columns that have no other role. */
static enum tw_status find_features(struct reading *r)
{
	const char *list = r->wishes->drop ? r->wishes->drop : "";
	struct tw_csv_field word;
	uint32_t unused;

	while (tw_list_next(&list, &word)) {
		char name[TW_FIELD_SHOWN];
		const enum tw_status st = find(r, "drop", tw_field_show(&word, name), &unused);

		if (st != TW_OK)
			return st;
	}
	for (uint32_t k = 0; k < r->columns; k++)
		if (k != r->group && k != r->time && k != r->label && !dropped(r, &r->column[k]))
			r->feature[r->features++] = k;
	return r->features ? TW_OK
			   : tw_fail(r->why, TW_BAD_INPUT,
				     "%s: has no column beside group, time and label, so there is "
				     "nothing to learn from",
				     r->wishes->name);
}

/* Those that the model has, by name. */
static enum tw_status find_model(struct reading *r)
{
	const struct tw_columns *model = r->wishes->model;
	const uint32_t width = tw_series_width(model);
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < width && st == TW_OK; k++) {
		char name[TW_NAME_MOST + 1];

		snprintf(name, sizeof name, "%.*s",
			 (int)(strlen(model->column[1 + k].name) - strlen(FIRST)),
			 model->column[1 + k].name);
		st = find(r, "data", name, &r->feature[r->features++]);
	}
	return st;
}

static enum tw_status find_label(struct reading *r)
{
	const char *label = r->wishes->label;
	enum tw_status st = TW_OK;

	r->label = (uint32_t)r->columns;
	if (!label || !*label)
		return TW_OK;
	if (strcmp(label, "last") == 0) {
		r->label = (uint32_t)r->columns - 1;
		return TW_OK;
	}
	if (r->wishes->model) {
		for (uint32_t k = 0; k < r->columns; k++)
			if (is_called(&r->column[k], label))
				r->label = k;
		return TW_OK;
	}
	if (label[0] == '[')
		return tw_fail(r->why, TW_BAD_INPUT,
			       "label: a series has one label, which all its rows share; name one "
			       "column");
	st = find(r, "label", label, &r->label);
	return st;
}

static enum tw_status read_header(struct reading *r)
{
	enum tw_status st = TW_OK;
	struct tw_csv_field f = { .last = false };

	while (st == TW_OK && !f.last) {
		if (tw_csv_done(&r->csv))
			return tw_fail(r->why, TW_BAD_INPUT, "%s: has no rows", r->wishes->name);
		st = tw_csv_field(&r->csv, &f, r->why);
		if (st == TW_OK &&
		    !TW_GROW(r->heap, r->column, r->column_room, r->columns, r->columns + 1))
			st = no_memory(r);
		if (st == TW_OK)
			r->column[r->columns++] = f;
	}
	if (st != TW_OK)
		return st;
	r->feature = r->heap->get(r->heap, (r->columns + 1) * sizeof *r->feature);
	if (!r->feature)
		return no_memory(r);
	st = find(r, "group", r->wishes->group, &r->group);
	if (st == TW_OK)
		st = find(r, "time", r->wishes->time, &r->time);
	if (st == TW_OK)
		st = find_label(r);
	if (st == TW_OK && (r->label == r->group || r->label == r->time || r->group == r->time))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "group, time and label must be three columns of %.200s; name others",
			       r->wishes->name);
	if (st != TW_OK)
		return st;
	return r->wishes->model ? find_model(r) : find_features(r);
}

/* --- rows ------------------------------------------------------------------------------------- */

static enum tw_status bad_cell(const struct reading *r, uint64_t line, uint32_t column,
			       const struct tw_csv_field *f, const char *what)
{
	char shown[TW_FIELD_SHOWN], name[TW_FIELD_SHOWN];

	return tw_fail(r->why, TW_BAD_INPUT, "%s:%" PRIu64 ": column %s: '%s' %s", r->wishes->name,
		       line, tw_field_show(&r->column[column], name), tw_field_show(f, shown),
		       what);
}

static void read_time(struct row *row)
{
	row->by = tw_field_whole(&row->time, &row->whole)     ? WHOLE
		  : tw_field_number(&row->time, &row->number) ? NUMBER
							      : TEXT;
}

/* The cells of a row are there; what they must be. */
static enum tw_status take_row(struct reading *r, uint64_t line, size_t from)
{
	const struct tw_csv_field *cell = r->cell + from;
	struct row row = { .line = line, .time = cell[r->time], .cells = from };
	float unused;

	if (!cell[r->group].bytes)
		return bad_cell(r, line, r->group, &cell[r->group],
				"names no series; each row needs one");
	if (!row.time.bytes)
		return bad_cell(r, line, r->time, &row.time, "is no time; each row needs one");
	for (uint32_t k = 0; k < r->features; k++)
		if (!tw_field_number(&cell[r->feature[k]], &unused))
			return bad_cell(r, line, r->feature[k], &cell[r->feature[k]],
					"is no finite number, and each time of a series needs one; "
					"name the column in drop, or leave the row out");
	if (tw_words_number(&r->groups, &cell[r->group], &row.group) != TW_OK ||
	    !TW_GROW(r->heap, r->row, r->row_room, r->rows, r->rows + 1))
		return no_memory(r);
	read_time(&row);
	r->row[r->rows++] = row;
	return TW_OK;
}

static enum tw_status read_row(struct reading *r)
{
	const size_t from = r->cells;
	struct tw_csv_field f = { .last = false };
	uint64_t line = 0;

	while (!f.last) {
		const enum tw_status st = tw_csv_field(&r->csv, &f, r->why);

		if (st != TW_OK)
			return st;
		line = r->csv.line;
		if (!TW_GROW(r->heap, r->cell, r->cell_room, r->cells, r->cells + 1))
			return no_memory(r);
		r->cell[r->cells++] = f;
	}
	if (r->cells - from != r->columns)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:%" PRIu64 ": has %zu columns, but the first row has %zu",
			       r->wishes->name, line, r->cells - from, r->columns);
	return take_row(r, line, from);
}

/* --- order ------------------------------------------------------------------------------------ */

static int by_text(const struct tw_csv_field *a, const struct tw_csv_field *b)
{
	const size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
	const int way = n ? memcmp(a->at, b->at, n) : 0;

	return way ? way : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Rows of one kind: see settle_times. */
static int in_order(const void *x, const void *y)
{
	const struct row *a = x, *b = y;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->by == WHOLE && a->whole != b->whole)
		return a->whole < b->whole ? -1 : 1;
	if (a->by == NUMBER && a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return by_text(&a->time, &b->time);
}

/* All times are whole numbers, or all are numbers, or all are words, such as dates. */
static void settle_times(struct reading *r)
{
	int by = WHOLE;

	for (size_t k = 0; k < r->rows; k++)
		by = (int)r->row[k].by > by ? (int)r->row[k].by : by;
	for (size_t k = 0; k < r->rows; k++) {
		if (by == NUMBER && r->row[k].by == WHOLE)
			r->row[k].number = (float)r->row[k].whole;
		r->row[k].by = by;
	}
	qsort(r->row, r->rows, sizeof *r->row, in_order);
}

/* Rows one after the other are of different times, and of one label. */
static enum tw_status check_series(struct reading *r)
{
	for (size_t k = 1; k < r->rows; k++) {
		const struct row *a = &r->row[k - 1], *b = &r->row[k];
		const struct tw_csv_field *one = r->cell + a->cells, *two = r->cell + b->cells;

		if (a->group != b->group)
			continue;
		if (in_order(a, b) == 0)
			return bad_cell(r, b->line > a->line ? b->line : a->line, r->time, &b->time,
					"is the time of another row of this series, too");
		if (r->label < r->columns && by_text(&one[r->label], &two[r->label]) != 0)
			return bad_cell(r, b->line, r->label, &two[r->label],
					"is another label than that of other rows of this series; "
					"all rows of a series share one");
	}
	return TW_OK;
}

static enum tw_status count_rows(struct reading *r)
{
	char shown[TW_FIELD_SHOWN];
	uint32_t longest = 0;

	r->count = r->heap->get(r->heap, ((size_t)r->groups.count + 1) * sizeof *r->count);
	if (!r->count)
		return no_memory(r);
	memset(r->count, 0, ((size_t)r->groups.count + 1) * sizeof *r->count);
	for (size_t k = 0; k < r->rows; k++) {
		const uint32_t g = r->row[k].group;

		r->count[g]++;
		longest = r->count[g] > r->count[longest] ? g : longest;
	}
	r->positions = r->wishes->positions ? r->wishes->positions : r->count[longest];
	if (r->count[longest] > r->positions)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: series '%s' has %u rows, and %s at most %u%s", r->wishes->name,
			       tw_field_show(&r->groups.word[longest], shown), r->count[longest],
			       r->wishes->model ? "the model takes" : "data.positions allows",
			       r->positions, r->wishes->model ? "; leave some out" : "; raise it");
	if ((uint64_t)r->positions * r->features * r->groups.count > CELLS_MAX)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: %u series of up to %u rows of %u features are too many values "
			       "for a table; use fewer",
			       r->wishes->name, r->groups.count, r->positions, r->features);
	return TW_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static enum tw_status put(struct reading *r, const char *bytes, size_t n)
{
	if (!TW_GROW(r->heap, r->out, r->room, r->used, r->used + n + 1))
		return no_memory(r);
	memcpy(r->out + r->used, bytes, n);
	r->used += n;
	r->out[r->used] = 0;
	return TW_OK;
}

/* In quotes, with `tail` behind it. */
static enum tw_status put_text(struct reading *r, const char *front, const struct tw_csv_field *f,
			       const char *tail)
{
	enum tw_status st = put(r, "\"", 1);

	if (st == TW_OK)
		st = put(r, front, strlen(front));
	for (size_t k = 0; k < f->bytes && st == TW_OK; k++) {
		st = put(r, &f->at[k], 1);
		if (st == TW_OK && f->at[k] == '"')
			st = put(r, "\"", 1);
	}
	if (st == TW_OK)
		st = put(r, tail, strlen(tail));
	return st == TW_OK ? put(r, "\"", 1) : st;
}

static enum tw_status write_header(struct reading *r)
{
	const struct tw_csv_field time = { .at = r->wishes->time,
					   .bytes = strlen(r->wishes->time) };
	char front[2 * TW_NAME_MOST];
	enum tw_status st = TW_OK;

	if (r->wishes->model)
		st = put_text(r, "", &r->column[r->group], "");
	if (st == TW_OK && r->wishes->model)
		st = put(r, ",", 1);
	snprintf(front, sizeof front, LENGTH_OF "%.200s" BY, r->wishes->group);
	if (st == TW_OK)
		st = put_text(r, front, &time, "");
	for (uint32_t t = 0; t < r->positions && st == TW_OK; t++)
		for (uint32_t k = 0; k < r->features && st == TW_OK; k++) {
			char tail[16];

			snprintf(tail, sizeof tail, "@%u", t + 1);
			st = put(r, ",", 1);
			if (st == TW_OK)
				st = put_text(r, "", &r->column[r->feature[k]], tail);
		}
	if (st == TW_OK && r->label < r->columns) {
		st = put(r, ",", 1);
		if (st == TW_OK)
			st = put_text(r, "", &r->column[r->label], "");
	}
	return st == TW_OK ? put(r, "\n", 1) : st;
}

/* The series whose rows begin at `row`. */
static enum tw_status write_series(struct reading *r, const struct row *row)
{
	const uint32_t n = r->count[row->group];
	char length[16];
	enum tw_status st = TW_OK;

	if (r->wishes->model)
		st = put_text(r, "", &r->groups.word[row->group], "");
	if (st == TW_OK && r->wishes->model)
		st = put(r, ",", 1);
	if (st == TW_OK)
		st = put(r, length, (size_t)snprintf(length, sizeof length, "%u", n));
	for (uint32_t t = 0; t < r->positions && st == TW_OK; t++)
		for (uint32_t k = 0; k < r->features && st == TW_OK; k++) {
			const struct tw_csv_field *f =
				t < n ? &r->cell[row[t].cells + r->feature[k]] : NULL;

			st = put(r, ",", 1);
			if (st == TW_OK)
				st = f ? put(r, f->at, f->bytes) : put(r, "0", 1);
		}
	if (st == TW_OK && r->label < r->columns) {
		st = put(r, ",", 1);
		if (st == TW_OK)
			st = put_text(r, "", &r->cell[row->cells + r->label], "");
	}
	return st == TW_OK ? put(r, "\n", 1) : st;
}

static enum tw_status check_wishes(const struct tw_series_wishes *w, struct tw_error *why)
{
	const char *const name[] = { "group", "time" }, *const is[] = { w->group, w->time };

	for (size_t k = 0; k < 2; k++)
		if (!*is[k] || strlen(is[k]) > 100 || strstr(is[k], BY))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: needs the name of a column, of at most 100 bytes and "
				       "without ' by ', not '%.60s'",
				       name[k], is[k]);
	return TW_OK;
}

enum tw_status tw_series_rows(struct tw_heap *heap, const struct tw_series_wishes *wishes,
			      char *text, size_t bytes, char **out, size_t *out_bytes,
			      struct tw_error *why)
{
	struct reading r = { .heap = heap, .wishes = wishes, .why = why };
	enum tw_status st = check_wishes(wishes, why);

	if (st != TW_OK)
		return st;
	tw_words_init(&r.groups, heap, TW_WORDS_MOST);
	tw_csv_init(&r.csv, wishes->name, wishes->separator, text, bytes);
	st = read_header(&r);
	while (st == TW_OK && !tw_csv_done(&r.csv))
		st = read_row(&r);
	if (st == TW_OK && !r.rows)
		st = tw_fail(why, TW_BAD_INPUT, "%s: has no rows behind its names", wishes->name);
	if (st == TW_OK) {
		settle_times(&r);
		st = check_series(&r);
	}
	if (st == TW_OK)
		st = count_rows(&r);
	if (st == TW_OK)
		st = write_header(&r);
	for (size_t k = 0; k < r.rows && st == TW_OK; k += r.count[r.row[k].group])
		st = write_series(&r, &r.row[k]);
	tw_words_release(&r.groups);
	heap->put(heap, r.column);
	heap->put(heap, r.cell);
	heap->put(heap, r.feature);
	heap->put(heap, r.row);
	heap->put(heap, r.count);
	if (st != TW_OK) {
		heap->put(heap, r.out);
		return st;
	}
	*out = r.out;
	*out_bytes = r.used;
	return TW_OK;
}

/* --- what names say --------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *tail)
{
	const size_t n = strlen(name), m = strlen(tail);

	return n > m && memcmp(name + n - m, tail, m) == 0;
}

uint32_t tw_series_width(const struct tw_columns *columns)
{
	uint32_t width = 0;

	if (!columns || !columns->named || columns->count < 2 ||
	    strncmp(columns->column[0].name, LENGTH_OF, strlen(LENGTH_OF)) != 0 ||
	    !strstr(columns->column[0].name, BY))
		return 0;
	for (uint32_t k = 1; k < columns->count; k++)
		if (columns->column[k].type != TW_COLUMN_NUMBER ||
		    !strchr(columns->column[k].name, '@'))
			return 0;
	while (1 + width < columns->count && ends_with(columns->column[1 + width].name, FIRST))
		width++;
	return width && (columns->count - 1) % width == 0 ? width : 0;
}

/* Does the text's first row name the length, as this table is written? */
static bool is_wide(const char *text, size_t bytes, const char *name)
{
	const char *end = memchr(text, '\n', bytes);
	const size_t n = strlen(name), all = end ? (size_t)(end - text) : bytes;

	for (size_t k = 0; k + n <= all; k++)
		if (memcmp(text + k, name, n) == 0)
			return true;
	return false;
}

enum tw_status tw_series_model_rows(struct tw_heap *heap, const struct tw_columns *columns,
				    const char *name, const char *label, char separator,
				    char **text, size_t *bytes, struct tw_error *why)
{
	const uint32_t width = tw_series_width(columns);
	const char *of = columns->column[0].name;
	char group[TW_NAME_MOST + 1], time[TW_NAME_MOST + 1], *wide = NULL;
	struct tw_series_wishes wishes = {
		.name = name,
		.separator = separator,
		.group = group,
		.time = time,
		.label = label,
		.model = columns,
		.positions = (columns->count - 1) / width,
	};
	const char *by = strstr(of, BY);
	size_t n = 0;
	enum tw_status st;

	if (is_wide(*text, *bytes, of))
		return TW_OK;
	snprintf(group, sizeof group, "%.*s", (int)(by - of - (ptrdiff_t)strlen(LENGTH_OF)),
		 of + strlen(LENGTH_OF));
	snprintf(time, sizeof time, "%s", by + strlen(BY));
	st = tw_series_rows(heap, &wishes, *text, *bytes, &wide, &n, why);
	if (st != TW_OK)
		return st;
	heap->put(heap, *text);
	*text = wide;
	*bytes = n;
	return TW_OK;
}
