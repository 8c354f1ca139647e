/* SPDX-License-Identifier: Apache-2.0 */
/* json_rows.c - lines of JSON become a table as text.
 *
 *  (1) rows are written while lines are read, with the columns known so far; when all are known,
 *      rows get the commas that they lack.
 *  (2) a table has at most CELLS_EACH cells for a byte of the file: lines that each have fields of
 *      their own would make a table of their square. */
#include "data/format/json_rows.h"

#include "base/arena.h"
#include "base/grow.h"
#include "data/format/csv.h"
#include "data/format/table_inner.h"
#include "data/names.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define CELLS_EACH   16
#define CELLS_ALWAYS 65536
#define DEEPEST      8 /* objects in objects */

/* A text that grows. */
struct text {
	char *at;
	size_t used, room;
};

struct cell {
	const json_t *value; /* NULL: this line has none */
};

struct reading {
	struct tw_heap *heap;
	const struct tw_json_wishes *wishes;
	struct tw_arena names;
	struct tw_words column;
	struct cell *cell; /* of the line that is read, for each column */
	size_t cells;
	struct text rows;
	uint32_t *wide; /* for each line: its columns */
	size_t lines, line_room;
	struct tw_error *why;
};

static enum tw_status no_memory(const struct reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "%s: no memory for its table", r->wishes->name);
}

static enum tw_status put(struct reading *r, struct text *t, const char *bytes, size_t n)
{
	if (!TW_GROW(r->heap, t->at, t->room, t->used, t->used + n + 1))
		return no_memory(r);
	memcpy(t->at + t->used, bytes, n);
	t->used += n;
	return TW_OK;
}

/* In quotes, where it must be; a line end within it becomes a blank, so that a row is a line. */
static enum tw_status put_text(struct reading *r, struct text *t, const char *bytes, size_t n)
{
	enum tw_status st = put(r, t, "\"", 1);

	for (size_t k = 0; k < n && st == TW_OK; k++) {
		const char c = bytes[k] == '\n' || bytes[k] == '\r' ? ' ' : bytes[k];

		st = put(r, t, &c, 1);
		if (st == TW_OK && c == '"')
			st = put(r, t, &c, 1);
	}
	return st == TW_OK ? put(r, t, "\"", 1) : st;
}

static enum tw_status put_value(struct reading *r, const json_t *v)
{
	char number[40];

	if (!v || json_is_null(v))
		return TW_OK;
	if (json_is_string(v))
		return put_text(r, &r->rows, json_string_value(v), json_string_length(v));
	if (json_is_integer(v))
		snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_real(v))
		snprintf(number, sizeof number, "%.17g", json_real_value(v));
	else
		snprintf(number, sizeof number, "%s", json_is_true(v) ? "true" : "false");
	return put(r, &r->rows, number, strlen(number));
}

static bool named(const char *list, const char *name)
{
	struct tw_csv_field word;

	while (tw_list_next(&list, &word))
		if (word.bytes == strlen(name) && memcmp(word.at, name, word.bytes) == 0)
			return true;
	return false;
}

/* Does the job not want it?  Of an object, fields in it may be wanted. */
static bool dropped(const struct reading *r, const char *name)
{
	const struct tw_json_wishes *w = r->wishes;

	return named(w->drop, name) || (strcmp(w->columns, "all") != 0 && !named(w->columns, name));
}

static enum tw_status bad(const struct reading *r, const char *name, const char *what)
{
	char shown[TW_FIELD_SHOWN];
	const struct tw_csv_field f = { .at = name, .bytes = strlen(name) };

	return tw_fail(r->why, TW_BAD_INPUT, "%s:%zu: field '%s' %s", r->wishes->name, r->lines + 1,
		       tw_field_show(&f, shown), what);
}

/* The column of a field, which may be new. */
static enum tw_status find_column(struct reading *r, const char *name, uint32_t *out)
{
	struct tw_csv_field f = { .at = name, .bytes = strlen(name) };
	enum tw_status st;

	if (tw_words_find(&r->column, &f, out))
		return TW_OK;
	if (!f.bytes || !tw_name_valid(name, f.bytes) || strchr(" \t", name[0]) ||
	    strchr(" \t", name[f.bytes - 1]))
		return bad(r, name,
			   "cannot be a column: a name is 1 to 255 bytes of UTF-8 without control "
			   "characters, and no blank begins or ends it");
	f.at = tw_arena_text(&r->names, name);
	if (!f.at || !TW_GROW(r->heap, r->cell, r->cells, r->column.count, r->column.count + 1))
		return no_memory(r);
	st = tw_words_number(&r->column, &f, out);
	if (st != TW_OK)
		return no_memory(r);
	r->cell[*out].value = NULL;
	return TW_OK;
}

static enum tw_status take_object(struct reading *r, const json_t *object, const char *front,
				  unsigned depth);

static enum tw_status take_field(struct reading *r, const char *name, const json_t *value,
				 unsigned depth)
{
	uint32_t column = 0;
	enum tw_status st;

	if (json_is_object(value) && !named(r->wishes->drop, name))
		return take_object(r, value, name, depth + 1);
	if (json_is_array(value) && !dropped(r, name))
		return bad(r, name,
			   "is a list; a number, text, true, false or null is needed, or name the "
			   "field in drop");
	st = find_column(r, name, &column);
	if (st == TW_OK && r->cell[column].value)
		return bad(r, name, "is given twice");
	if (st == TW_OK && !json_is_array(value) && !json_is_object(value))
		r->cell[column].value = value;
	return st;
}

static enum tw_status take_object(struct reading *r, const json_t *object, const char *front,
				  unsigned depth)
{
	void *at = json_object_iter((json_t *)object);
	enum tw_status st = TW_OK;

	if (depth > DEEPEST)
		return bad(r, front, "has objects nested deeper than 8");
	for (; at && st == TW_OK; at = json_object_iter_next((json_t *)object, at)) {
		const char *key = json_object_iter_key(at);
		char name[2 * TW_NAME_MOST + 2];

		if (strlen(key) > TW_NAME_MOST || strlen(front) > TW_NAME_MOST)
			return bad(r, key, "has a name that is longer than 255 bytes");
		snprintf(name, sizeof name, "%s%s%s", front, front[0] ? "." : "", key);
		st = take_field(r, name, json_object_iter_value(at), depth);
	}
	return st;
}

static enum tw_status write_row(struct reading *r)
{
	enum tw_status st = TW_OK;

	if (!TW_GROW(r->heap, r->wide, r->line_room, r->lines, r->lines + 1))
		return no_memory(r);
	for (uint32_t k = 0; k < r->column.count && st == TW_OK; k++) {
		if (k)
			st = put(r, &r->rows, ",", 1);
		if (st == TW_OK)
			st = put_value(r, r->cell[k].value);
	}
	r->wide[r->lines++] = r->column.count;
	return st == TW_OK ? put(r, &r->rows, "\n", 1) : st;
}

static enum tw_status check_cells(const struct reading *r, size_t bytes)
{
	const uint64_t cells = (uint64_t)(r->lines + 1) * r->column.count;

	if (cells <= CELLS_ALWAYS || cells / CELLS_EACH <= bytes)
		return TW_OK;
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:%zu: so far there are %u different fields, and most lines lack most of "
		       "them; lines of one table have the same fields",
		       r->wishes->name, r->lines + 1, r->column.count);
}

static enum tw_status read_line(struct reading *r, const char *line, size_t n)
{
	json_error_t error;
	json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	enum tw_status st;

	if (!object)
		return tw_fail(r->why, TW_BAD_INPUT, "%s:%zu: is no JSON: %.120s at byte %d",
			       r->wishes->name, r->lines + 1, error.text, error.position);
	for (uint32_t k = 0; k < r->column.count; k++)
		r->cell[k].value = NULL;
	if (json_is_object(object))
		st = take_object(r, object, "", 0);
	else
		st = tw_fail(r->why, TW_BAD_INPUT,
			     "%s:%zu: is no object; each line is one, such as {\"age\": 31, "
			     "\"job\": \"clerk\"}",
			     r->wishes->name, r->lines + 1);
	if (st == TW_OK)
		st = write_row(r);
	json_decref(object);
	return st;
}

static bool is_blank(const char *line, size_t n)
{
	size_t k = 0;

	while (k < n && (line[k] == ' ' || line[k] == '\t' || line[k] == '\r'))
		k++;
	return k == n;
}

static enum tw_status read_lines(struct reading *r, const char *text, size_t bytes)
{
	const char *at = text, *end = text + bytes;
	bool blank = false;
	enum tw_status st = TW_OK;

	if (bytes >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		at += 3;
	while (at < end && st == TW_OK) {
		const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
		const size_t n = (size_t)((stop ? stop : end) - line);

		at = stop ? stop + 1 : end;
		if (is_blank(line, n)) {
			blank = true;
			continue;
		}
		if (blank)
			return tw_fail(r->why, TW_BAD_INPUT,
				       "%s:%zu: is blank; blank lines are accepted at the end only",
				       r->wishes->name, r->lines + 1);
		st = read_line(r, line, n);
		if (st == TW_OK)
			st = check_cells(r, bytes);
	}
	if (st == TW_OK && r->lines == 0)
		st = tw_fail(r->why, TW_BAD_INPUT, "%s: is empty; lines of JSON are needed",
			     r->wishes->name);
	if (st == TW_OK && r->column.count < 2)
		st = tw_fail(r->why, TW_BAD_INPUT,
			     "%s: its lines have %s; at least two are needed (a value and the "
			     "label)",
			     r->wishes->name, r->column.count ? "one field" : "no fields");
	return st;
}

/* (1) */
static enum tw_status write_table(struct reading *r, struct text *out)
{
	const char *row = r->rows.at;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < r->column.count && st == TW_OK; k++) {
		const struct tw_csv_field *f = &r->column.word[k];

		if (k)
			st = put(r, out, ",", 1);
		if (st == TW_OK)
			st = put_text(r, out, f->at, f->bytes);
	}
	if (st == TW_OK)
		st = put(r, out, "\n", 1);
	for (size_t i = 0; i < r->lines && st == TW_OK; i++) {
		const char *stop = strchr(row, '\n');

		st = put(r, out, row, (size_t)(stop - row));
		for (uint32_t k = r->wide[i] ? r->wide[i] : 1; k < r->column.count && st == TW_OK;
		     k++)
			st = put(r, out, ",", 1);
		if (st == TW_OK)
			st = put(r, out, "\n", 1);
		row = stop + 1;
	}
	return st;
}

enum tw_status tw_json_rows(struct tw_heap *heap, const struct tw_json_wishes *wishes,
			    const char *text, size_t bytes, char **out, size_t *out_bytes,
			    struct tw_error *why)
{
	struct reading r = { .heap = heap, .wishes = wishes, .why = why };
	struct text table = { NULL };
	enum tw_status st;

	tw_arena_init(&r.names, heap);
	tw_words_init(&r.column, heap, TW_WORDS_MOST);
	st = read_lines(&r, text, bytes);
	if (st == TW_OK)
		st = put(&r, &r.rows, "", 1);
	if (st == TW_OK)
		st = write_table(&r, &table);
	tw_words_release(&r.column);
	tw_arena_release(&r.names);
	heap->put(heap, r.cell);
	heap->put(heap, r.rows.at);
	heap->put(heap, r.wide);
	if (st != TW_OK) {
		heap->put(heap, table.at);
		return st;
	}
	table.at[table.used] = 0;
	*out = table.at;
	*out_bytes = table.used;
	return TW_OK;
}
