/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - rows of a CSV file; the first row decides how many columns there are.
 *
 *  (1) a value is stored only for a field that is not empty, so there are never more of them than
 *      (bytes + 1) / 2: that, or rows times columns if it is less, is the room asked for. */
#include "data/table.h"
#include "data/keep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
	const struct tw_table_facts *facts;
	struct tw_csv csv;
	struct tw_words *words;
	struct tw_data *d;
	struct tw_error *why;
	uint32_t columns, label; /* label: its column, from 1 */
	float *value, *target;
	uint32_t *class;
	uint64_t rows, row_room, values, value_room;
};

static const char name_needed[] = "a name is at most 255 bytes of UTF-8 without control characters";

static enum tw_status wrong(const struct reader *r, const struct tw_field *f, const char *what)
{
	char shown[TW_FIELD_SHOWN];

	if (f->bytes == 0)
		return tw_fail(r->why, TW_BAD_INPUT, "%s:%" PRIu64 ": column %u: is empty; %s",
			       r->csv.name, r->csv.line, r->csv.column, what);
	return tw_fail(r->why, TW_BAD_INPUT, "%s:%" PRIu64 ": column %u: '%s' is not accepted; %s",
		       r->csv.name, r->csv.line, r->csv.column, tw_field_show(f, shown), what);
}

/* The columns of the first row and the rows at most, without touching the text. */
static uint64_t survey(struct reader *r, const char *text, const char *end)
{
	uint64_t columns = 1, rows = 1;
	bool quotes = false, first = true;

	for (const char *p = text; p < end; p++) {
		if (*p == '\n' || *p == '\r') {
			rows += *p == '\n' || p + 1 == end || p[1] != '\n';
			first = first && quotes;
		} else if (first && *p == '"') {
			quotes = !quotes;
		} else if (first && !quotes && *p == r->facts->separator) {
			columns++;
		}
	}
	r->row_room = rows;
	return columns;
}

static enum tw_status make_room(struct reader *r, size_t bytes)
{
	const uint64_t most = (uint64_t)bytes / 2 + 1;
	void *room = NULL;
	enum tw_status st;

	if (r->row_room > most)
		r->row_room = most;
	if (__builtin_mul_overflow(r->row_room, (uint64_t)(r->columns - 1), &r->value_room) ||
	    r->value_room > most)
		r->value_room = most;
	st = tw_keep_room(r->d, r->value_room, sizeof(float), &room, r->why);
	if (st != TW_OK)
		return st;
	r->value = room;
	st = tw_keep_room(r->d, r->row_room, sizeof(float), &room, r->why);
	if (st == TW_OK && r->facts->classes)
		r->class = room;
	else
		r->target = room;
	return st;
}

static enum tw_status take_class(struct reader *r, const struct tw_field *f)
{
	uint32_t known;
	enum tw_status st;

	if (f->bytes == 0)
		return wrong(r, f, "a class is needed");
	if (r->facts->test) {
		if (tw_words_find(r->words, f, &r->class[r->rows]))
			return TW_OK;
		return wrong(r, f, "only classes of the training file are accepted");
	}
	known = r->words->count;
	st = tw_words_number(r->words, f, &r->class[r->rows]);
	if (r->words->count > known && !tw_name_valid(f->at, f->bytes))
		return wrong(r, f, name_needed);
	if (st == TW_NO_ROOM)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:%" PRIu64
			       ": column %u: is class number %u; at most %u different "
			       "classes are accepted (task: values takes numbers)",
			       r->csv.name, r->csv.line, r->csv.column, TW_CLASSES_MAX + 1,
			       TW_CLASSES_MAX);
	return st == TW_OK ? st : tw_keep_no_memory(r->why, r->csv.name, f->bytes);
}

static enum tw_status take(struct reader *r, const struct tw_field *f)
{
	const bool label = r->csv.column == r->label;
	float v;

	HOLDS(1, r->rows < r->row_room || f->bytes == 0);
	if (label && r->facts->classes)
		return take_class(r, f);
	if (!tw_field_number(f, &v))
		return wrong(r, f, "a finite number is needed");
	if (label) {
		r->target[r->rows] = v;
		return TW_OK;
	}
	HOLDS(1, r->values < r->value_room);
	r->value[r->values++] = v;
	return TW_OK;
}

static enum tw_status ragged(const struct reader *r, const struct tw_field *f)
{
	if (f->last && r->csv.column == 1 && f->bytes == 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:%" PRIu64 ": is blank; blank lines are accepted at the end only",
			       r->csv.name, r->csv.line);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:%" PRIu64 ": has %s%u columns, but the first row has %u", r->csv.name,
		       r->csv.line, f->last ? "" : "more than ", r->csv.column, r->columns);
}

static enum tw_status read_row(struct reader *r)
{
	struct tw_field f;
	enum tw_status st;

	do {
		st = tw_csv_field(&r->csv, &f, r->why);
		if (st == TW_OK && f.last != (r->csv.column == r->columns))
			st = ragged(r, &f);
		if (st == TW_OK)
			st = take(r, &f);
	} while (st == TW_OK && !f.last);
	r->rows += st == TW_OK;
	return st;
}

static bool called(const struct tw_field *f, const char *name)
{
	return f->bytes == strlen(name) && memcmp(f->at, name, f->bytes) == 0;
}

/* The label's column where it is said by place; *named: it is said by name. */
static enum tw_status label_place(struct reader *r, bool *named)
{
	const char *label = r->facts->label;
	char *end;
	unsigned long v;

	*named = false;
	if (!strcmp(label, "last")) {
		r->label = r->columns;
		return TW_OK;
	}
	v = label[0] >= '0' && label[0] <= '9' ? strtoul(label, &end, 10) : 0;
	if (label[0] < '0' || label[0] > '9' || *end) {
		*named = true;
		return TW_OK;
	}
	if (v < 1 || v > r->columns)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "label: there is no column %.40s in %s; it has columns 1 to %u",
			       label, r->csv.name, r->columns);
	r->label = (uint32_t)v;
	return TW_OK;
}

static enum tw_status label_by_name(struct reader *r, const struct tw_field *row, bool header)
{
	const char *label = r->facts->label;

	for (uint32_t k = 0; header && k < r->columns; k++)
		if (called(&row[k], label)) {
			r->label = k + 1;
			return TW_OK;
		}
	return tw_fail(r->why, TW_BAD_INPUT,
		       "label: %s %s '%.60s'; a name in its header, a number from 1 to %u, or "
		       "`last` is accepted",
		       r->csv.name, header ? "has no column" : "has no header to look up", label,
		       r->columns);
}

/* A number that is out of range, or a word for a missing value: no column is called so. */
static bool no_name(const struct tw_field *f)
{
	static const char *const words[] = {
		"nan", "inf", "infinity", "na", "n/a", "null", "none"
	};
	const char *p = f->at;
	size_t n = f->bytes;

	for (; n && (*p == ' ' || *p == '\t' || *p == '-' || *p == '+'); n--)
		p++;
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	for (size_t k = 0; k < sizeof words / sizeof *words; k++)
		if (n == strlen(words[k]) && strncasecmp(p, words[k], n) == 0)
			return true;
	for (size_t k = 0; k < n; k++)
		if (!strchr("0123456789+-.eE", p[k]) || !p[k])
			return false;
	return n == 0 || strchr("0123456789.", *p);
}

/* Is the first row a header?  Its columns but the label's (which may be words in every row) say
 * so: all numbers, or none; some of each is for the user to decide. */
static enum tw_status guess_header(struct reader *r, const struct tw_field *row, bool *header)
{
	uint32_t numbers = 0, other = 0;
	float v;

	for (uint32_t k = 0; k < r->columns; k++) {
		if (k + 1 == r->label)
			continue;
		if (tw_field_number(&row[k], &v))
			numbers++;
		else
			other = k + 1;
	}
	*header = other != 0;
	if (other == 0 || (numbers == 0 && !no_name(&row[other - 1])))
		return TW_OK;
	r->csv.column = other;
	return wrong(r, &row[other - 1],
		     "a finite number is needed (or header: yes, if this row has names)");
}

/* A label's name is looked up in the header, which there must then be; its place is known
 * without. */
static enum tw_status settle_header(struct reader *r, struct tw_field *row, bool *header)
{
	const enum tw_header asked = r->facts->header;
	bool named = false;
	enum tw_status st = label_place(r, &named);

	*header = asked == TW_HEADER_YES || (asked == TW_HEADER_AUTO && named);
	if (st == TW_OK && asked == TW_HEADER_AUTO && !named)
		st = guess_header(r, row, header);
	for (uint32_t k = 0; st == TW_OK && *header && k < r->columns; k++)
		tw_name_clean(&row[k]);
	return st == TW_OK && named ? label_by_name(r, row, *header) : st;
}

/* Each name must be text, and no other column may have it too. */
static enum tw_status check_names(struct reader *r, const struct tw_field *row)
{
	struct tw_words seen;
	char shown[TW_FIELD_SHOWN];
	enum tw_status st = TW_OK;

	tw_words_init(&seen, r->d->heap, TW_WORDS_MOST);
	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++) {
		uint32_t number = 0;

		r->csv.column = k + 1;
		if (!tw_name_valid(row[k].at, row[k].bytes)) {
			st = wrong(r, &row[k], name_needed);
			break;
		}
		st = tw_words_number(&seen, &row[k], &number);
		if (st != TW_OK)
			st = tw_keep_no_memory(r->why, r->csv.name, row[k].bytes);
		else if (number < k)
			st = tw_fail(r->why, TW_BAD_INPUT,
				     "%s:1: columns %u and %u are both called '%s'; each column "
				     "needs a name of its own",
				     r->csv.name, number + 1, k + 1, tw_field_show(&row[k], shown));
	}
	tw_words_release(&seen);
	return st;
}

/* The features' names and the label's, from the header of the training file. */
static enum tw_status keep_names(struct reader *r, struct tw_field *row)
{
	struct tw_names *names = &r->d->names;
	const char *const *all = NULL;
	const struct tw_field label = row[r->label - 1];
	enum tw_status st = check_names(r, row);

	if (st != TW_OK)
		return st;
	memmove(row + r->label - 1, row + r->label, (r->columns - r->label) * sizeof *row);
	st = tw_names_keep(r->d, row, r->columns - 1, &names->column, r->why);
	if (st == TW_OK)
		st = tw_names_keep(r->d, &label, 1, &all, r->why);
	if (st != TW_OK)
		return st;
	names->label = all[0];
	if (!r->facts->classes)
		names->answer = all;
	return TW_OK;
}

/* Read the first row; as data too, unless it is a header. */
static enum tw_status first_row(struct reader *r, struct tw_field *row, size_t bytes)
{
	enum tw_status st = TW_OK;
	bool header = false;

	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++) {
		st = tw_csv_field(&r->csv, &row[k], r->why);
		if (st == TW_OK && row[k].last != (k + 1 == r->columns))
			st = ragged(r, &row[k]);
	}
	if (st == TW_OK)
		st = settle_header(r, row, &header);
	if (st == TW_OK && header && !r->facts->test)
		st = keep_names(r, row);
	if (st == TW_OK)
		st = make_room(r, bytes);
	for (uint32_t k = 0; k < r->columns && st == TW_OK && !header; k++) {
		r->csv.column = k + 1;
		st = take(r, &row[k]);
	}
	r->rows += st == TW_OK && !header;
	return st;
}

static enum tw_status check_columns(struct reader *r, uint64_t columns)
{
	if (columns < 2 || columns > TW_WORDS_MOST)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %" PRIu64
			       " column(s); at least two are needed (a value and "
			       "the label), separated by '%c'",
			       r->csv.name, columns, r->facts->separator);
	r->columns = (uint32_t)columns;
	if (r->facts->test && columns - 1 != r->d->features)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %u columns, but the training file has %zu", r->csv.name,
			       r->columns, r->d->features + 1);
	return TW_OK;
}

static enum tw_status read_all(struct reader *r, size_t bytes)
{
	struct tw_heap *heap = r->d->heap;
	struct tw_field *row = heap->get(heap, r->columns * sizeof *row);
	enum tw_status st;

	if (!row)
		return tw_keep_no_memory(r->why, r->csv.name, r->columns * sizeof *row);
	st = first_row(r, row, bytes);
	heap->put(heap, row);
	while (st == TW_OK && !tw_csv_done(&r->csv))
		st = read_row(r);
	if (st == TW_OK && r->rows == 0)
		st = tw_fail(r->why, TW_BAD_INPUT,
			     "%s: has no rows of data; at least one is needed", r->csv.name);
	return st;
}

enum tw_status tw_table_read(const struct tw_table_facts *facts, char *text, size_t bytes,
			     struct tw_words *words, struct tw_data *d, struct tw_samples *s,
			     struct tw_error *why)
{
	struct reader r = { .facts = facts, .words = words, .d = d, .why = why };
	enum tw_status st;

	tw_csv_init(&r.csv, facts->name, facts->separator, text, bytes);
	if (tw_csv_done(&r.csv))
		return tw_fail(why, TW_BAD_INPUT, "%s: is empty; rows of numbers are needed",
			       facts->name);
	st = check_columns(&r, survey(&r, r.csv.next, r.csv.end));
	if (st == TW_OK)
		st = read_all(&r, bytes);
	if (st == TW_OK && !facts->test) {
		const uint64_t features = r.columns - 1;

		d->names.separator = facts->separator;
		d->names.place = r.label;
		st = tw_keep_shape(d, facts->name, 1, &features, why);
	}
	*s = (struct tw_samples){
		.count = r.rows,
		.value = r.value,
		.label = r.class,
		.target = r.target,
	};
	return st;
}
