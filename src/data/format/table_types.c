/* SPDX-License-Identifier: Apache-2.0 */
/* table_types.c - what the columns of a training file are, by a look at all of its rows.
 *
 * The types are those of the whole file, as its header is; what depends on values (means, the words
 * that get an input) is decided by the training set alone, after the split. */
#include "data/data_memory.h"
#include "data/format/table_inner.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LEAST      3       /* rows before anything is odd about columns */
#define EXACT      0x1p24f /* whole numbers below this are floats of their own */
#define WORD_MOST  100u    /* bytes of a category */
#define FEW        10u     /* whole numbers that are classes in any case ... */
#define SOME       100u    /* ... or if each has this many rows on the average: */
#define ROWS_EACH  UINT64_C(10)
#define COUNT_MOST TW_CLASSES_MAX /* words are counted up to here */

enum wish { WISH_NONE, WISH_LABEL, WISH_CATEGORY, WISH_NUMBER, WISH_DROP };

/* What was seen of a column. */
struct look {
	enum wish wish;
	uint64_t present, missing, numbers, commas;
	bool dates, month_first, day_first, has_time, slashes;
	bool whole;    /* numbers have no fraction */
	bool odd;      /* a word is too long for a category, or not printable */
	bool blanks;   /* a word has a blank inside */
	bool constant; /* all cells are the first one */
	bool increasing, numbering;
	float first_number, before;
	struct tw_csv_field first;
	uint64_t wrong_line; /* of the first cell that is not a number; 0: all are */
	struct tw_csv_field wrong;
	bool counts, again, many; /* words are counted; some were not; there are more */
	struct tw_words words;
};

struct survey {
	struct tw_table_reader *r;
	struct look *look;
	const struct tw_csv_field *row; /* the first */
	uint64_t rows;
};

/* --- looking ---------------------------------------------------------------------------------- */

static struct tw_csv_field trimmed(struct tw_csv_field f)
{
	while (f.bytes && (f.at[0] == ' ' || f.at[0] == '\t')) {
		f.at++;
		f.bytes--;
	}
	while (f.bytes && (f.at[f.bytes - 1] == ' ' || f.at[f.bytes - 1] == '\t'))
		f.bytes--;
	return f;
}

static enum tw_status count_word(struct survey *s, struct look *l, const struct tw_csv_field *f)
{
	uint32_t number;
	const enum tw_status st = l->many ? TW_OK : tw_words_number(&l->words, f, &number);

	l->many |= st == TW_NO_ROOM;
	return st == TW_NO_MEMORY ? tw_data_keep_no_memory(s->r->why, s->r->csv.name, f->bytes)
				  : TW_OK;
}

/* "1,5": what other countries make of 1.5. */
static bool has_comma(const struct tw_csv_field *f)
{
	char text[40];
	const char *comma = memchr(f->at, ',', f->bytes);
	struct tw_csv_field point = { .at = text, .bytes = f->bytes };
	float v;

	if (!comma || f->bytes >= sizeof text)
		return false;
	memcpy(text, f->at, f->bytes);
	text[comma - f->at] = '.';
	return tw_field_number(&point, &v);
}

static void look_at_number(struct look *l, float v)
{
	const uint64_t i = l->numbers++;
	const bool whole = (l->whole || l->increasing) && v == floorf(v);

	if (i == 0)
		l->first_number = v;
	l->whole &= whole;
	if (l->numbering && v != l->first_number + (float)i && v < EXACT)
		l->numbering = false;
	if (!whole || (i > 0 && (v < EXACT ? v <= l->before : v < l->before)))
		l->increasing = false;
	l->before = v;
}

static void look_at_word(struct survey *s, struct look *l, const struct tw_csv_field *f)
{
	struct tw_date date = { 0 };

	l->commas += has_comma(f);
	if (!l->wrong_line) {
		l->wrong_line = s->r->csv.line;
		l->wrong = *f;
	}
	if (l->dates && l->month_first)
		l->month_first = tw_date_parse(f, TW_DATE_MONTH_FIRST, &date);
	if (l->dates && l->day_first)
		l->day_first = tw_date_parse(f, TW_DATE_DAY_FIRST, &date);
	l->dates = l->month_first || l->day_first;
	l->has_time |= date.has_time;
	l->slashes |= date.slashes;
	l->odd |= f->bytes > WORD_MOST || !tw_name_valid(f->at, f->bytes);
	l->blanks |= memchr(f->at, ' ', f->bytes) != NULL;
}

/* `number`: it is this one, and has no blanks; NULL: nobody knows. */
static enum tw_status look_at(struct survey *s, uint32_t column, const struct tw_csv_field *field,
			      const float *number)
{
	struct look *l = &s->look[column];
	const struct tw_csv_field f = number ? *field : trimmed(*field);
	float v = number ? *number : 0;

	if (l->wish == WISH_DROP)
		return TW_OK;
	if (number || tw_field_number(&f, &v)) {
		look_at_number(l, v);
	} else if (tw_table_is_missing(&f, l->numbers > 0)) {
		l->missing++;
		return TW_OK;
	} else {
		look_at_word(s, l, &f);
		l->again |= !l->counts && l->present > 0;
		l->counts = true;
	}
	if (l->present++ == 0)
		l->first = f;
	else if (l->constant)
		l->constant = f.bytes == l->first.bytes && !memcmp(f.at, l->first.at, f.bytes);
	return l->counts && !l->again ? count_word(s, l, &f) : TW_OK;
}

/* The same for columns whose first cells were numbers: now all words are counted. */
static enum tw_status look_again(struct survey *s, uint32_t column,
				 const struct tw_csv_field *field, const float *number)
{
	struct look *l = &s->look[column];
	const struct tw_csv_field f = trimmed(*field);

	(void)number;
	return l->again && !tw_table_is_missing(&f, true) ? count_word(s, l, &f) : TW_OK;
}

/* Hand all fields of the file to `see`, and leave the text as it is. */
static enum tw_status walk(struct survey *s,
			   enum tw_status (*see)(struct survey *s, uint32_t column,
						 const struct tw_csv_field *f, const float *number))
{
	struct tw_table_reader *r = s->r;
	const struct tw_csv before = r->csv;
	enum tw_status st = TW_OK;
	struct tw_csv_field f;
	float number;

	s->rows = 0;
	for (uint32_t k = 0; !r->out->header && k < r->columns && st == TW_OK; k++)
		st = see(s, k, &s->row[k], NULL);
	s->rows += !r->out->header;
	r->csv.looks = true;
	while (st == TW_OK && !tw_csv_done(&r->csv)) {
		do {
			const bool plain = tw_csv_number(&r->csv, &f, &number);

			if (!plain)
				st = tw_csv_field(&r->csv, &f, r->why);
			if (st == TW_OK && f.last != (r->csv.column == r->columns))
				st = tw_table_ragged(r, &f);
			if (st == TW_OK)
				st = see(s, r->csv.column - 1, &f, plain ? &number : NULL);
		} while (st == TW_OK && !f.last);
		s->rows++;
	}
	r->csv = before;
	return st;
}

/* --- wishes ----------------------------------------------------------------------------------- */

static enum tw_status wish_for(struct survey *s, const char *field, const char *list,
			       enum wish wish)
{
	struct tw_table_reader *r = s->r;
	struct tw_csv_field word;
	enum tw_status st = TW_OK;

	while (st == TW_OK && tw_list_next(&list, &word)) {
		uint32_t column = 0;
		char shown[TW_FIELD_SHOWN];

		st = tw_table_named(r, field, &word, s->row, &column);
		if (st != TW_OK)
			break;
		if (s->look[column - 1].wish == WISH_LABEL)
			return tw_fail(r->why, TW_BAD_INPUT,
				       "%s: '%s' is the column to predict; name others here", field,
				       tw_field_show(&word, shown));
		if (wish != WISH_NONE && s->look[column - 1].wish > WISH_LABEL)
			return tw_fail(r->why, TW_BAD_INPUT,
				       "%s: '%s' is named by another field, too (columns, drop, "
				       "categories, numbers), and both cannot be",
				       field, tw_field_show(&word, shown));
		s->look[column - 1].wish = wish;
	}
	return st;
}

static enum tw_status take_wishes(struct survey *s)
{
	const struct tw_table_wishes *w = s->r->facts->wishes;
	const bool all = strcmp(w->columns, "all") == 0;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < s->r->columns; k++) {
		s->look[k].wish = s->r->to[k] == TW_TO_LABEL ? WISH_LABEL
				  : w->numeric               ? WISH_NUMBER
				  : all                      ? WISH_NONE
							     : WISH_DROP;
		s->look[k].dates = s->look[k].month_first = s->look[k].day_first = true;
		s->look[k].whole = s->look[k].constant = true;
		s->look[k].increasing = s->look[k].numbering = true;
		tw_words_init(&s->look[k].words, s->r->d->heap, COUNT_MOST);
	}
	if (!all)
		st = wish_for(s, "columns", w->columns, WISH_NONE);
	if (st == TW_OK)
		st = wish_for(s, "categories", w->categories, WISH_CATEGORY);
	if (st == TW_OK)
		st = wish_for(s, "numbers", w->numbers, WISH_NUMBER);
	if (st == TW_OK)
		st = wish_for(s, "drop", w->drop, WISH_DROP);
	/* weights, groups and sets are no inputs; a time may be one */
	if (st == TW_OK && s->r->weight_column)
		s->look[s->r->weight_column - 1].wish = WISH_DROP;
	if (st == TW_OK && s->r->key_column && w->hold != TW_HOLD_TIME)
		s->look[s->r->key_column - 1].wish = WISH_DROP;
	for (uint32_t k = 0; k < s->r->columns; k++)
		s->look[k].counts = (s->look[k].wish == WISH_LABEL && w->task == TW_TASK_AUTO) ||
				    s->look[k].wish == WISH_CATEGORY;
	return st;
}

/* --- deciding --------------------------------------------------------------------------------- */

static bool one_of(const struct tw_csv_field *name, const char *const *list)
{
	while (*list &&
	       (strlen(*list) != name->bytes || strncasecmp(*list, name->at, name->bytes) != 0))
		list++;
	return *list != NULL;
}

/* Is it a number of the row, by its name and its values? */
static bool numbers_rows(const struct survey *s, uint32_t k)
{
	static const char *const ids[] = { "id",     "index",  "idx",        "row", "rowid",
					   "row_id", "rownum", "row_number", NULL };
	const struct look *l = &s->look[k];
	const struct tw_csv_field *name = &s->row[k];

	if (!s->r->out->header || l->missing || s->rows < LEAST)
		return false;
	if (name->bytes == 0 || (name->bytes > 9 && !memcmp(name->at, "Unnamed: ", 9)))
		return l->numbering && (l->first_number == 0 || l->first_number == 1);
	return l->increasing && one_of(name, ids);
}

/* A column that is numbers but for some cells: most probably these are wrong. */
static enum tw_status stray(struct survey *s, uint32_t k)
{
	const struct look *l = &s->look[k];
	const struct tw_csv_field *name = &s->row[k];
	const bool named = s->r->out->header && name->bytes;
	char what[160], shown[TW_FIELD_SHOWN], called[TW_FIELD_SHOWN];

	if (l->commas)
		snprintf(what, sizeof what, " with a decimal point and no commas is needed");
	else
		snprintf(what, sizeof what,
			 " is needed, as in %" PRIu64 " other rows (or name the column in "
			 "data.categories or data.drop)",
			 l->numbers);
	return tw_fail(s->r->why, TW_BAD_INPUT,
		       "%s:%" PRIu64 ": column %u%s%s%s: '%s' is not accepted; a finite number%s",
		       s->r->csv.name, l->wrong_line, k + 1, named ? " (" : "",
		       named ? tw_field_show(name, called) : "", named ? ")" : "",
		       tw_field_show(&l->wrong, shown), what);
}

static enum tw_column_type type_of_words(const struct survey *s, const struct look *l)
{
	const uint64_t words = l->words.count;
	const bool different = l->present >= LEAST && (l->many || words * 2 > l->present);

	if (l->present == 0 || (words == 1 && l->missing == 0))
		return TW_COLUMN_CONSTANT;
	if (l->odd || (different && l->blanks && words > 2 * FEW))
		return TW_COLUMN_TEXT;
	if (l->present >= LEAST && (l->many || words == l->present))
		return l->blanks ? TW_COLUMN_TEXT : TW_COLUMN_IDENTIFIER;
	if (words > s->r->facts->wishes->limit)
		return different ? l->blanks ? TW_COLUMN_TEXT : TW_COLUMN_IDENTIFIER
				 : TW_COLUMN_DROPPED;
	return TW_COLUMN_CATEGORY;
}

static enum tw_status type_of(struct survey *s, uint32_t k, enum tw_column_type *out)
{
	const struct look *l = &s->look[k];
	const uint32_t limit = s->r->facts->wishes->limit;

	if (l->wish == WISH_DROP) {
		*out = TW_COLUMN_DROPPED;
	} else if (l->wish == WISH_NUMBER) {
		*out = TW_COLUMN_NUMBER;
	} else if (l->wish == WISH_CATEGORY) {
		*out = TW_COLUMN_CATEGORY;
		if (l->odd || l->many || l->words.count > limit)
			return tw_fail(s->r->why, TW_BAD_INPUT,
				       "categories: column %u of %s has %u different words, and "
				       "category_limit is %u; raise that, or drop the column",
				       k + 1, s->r->csv.name, l->words.count, limit);
	} else if (l->present && l->numbers == l->present) {
		*out = numbers_rows(s, k) ? TW_COLUMN_IDENTIFIER : TW_COLUMN_NUMBER;
	} else if ((l->present && l->numbers * 2 >= l->present) ||
		   (l->commas && l->numbers + l->commas == l->present)) {
		return stray(s, k);
	} else if (l->present && l->dates && !l->numbers) {
		*out = TW_COLUMN_DATE;
	} else {
		*out = type_of_words(s, l);
	}
	return TW_OK;
}

/* Classes or values: what the column to predict looks like. */
static bool finds_classes(const struct survey *s, const struct look *l, char *why, size_t room)
{
	const uint64_t words = l->words.count;
	const char *many = l->many ? "more than " : "";

	if (l->numbers < l->present) {
		snprintf(why, room, "has words");
		return true;
	}
	if (l->whole && !l->many &&
	    (words <= FEW || (words <= SOME && words * ROWS_EACH <= l->present))) {
		snprintf(why, room, "has %" PRIu64 " different whole numbers", words);
		return true;
	}
	snprintf(why, room, l->whole ? "has %s%" PRIu64 " different numbers" : "has decimals%.0s",
		 many, words);
	return false;
}

static enum tw_status find_task(struct survey *s)
{
	struct tw_table_reader *r = s->r;
	const enum tw_task task = r->facts->wishes->task;
	char why[80] = "", name[80] = "";
	uint32_t label = 0;

	while (r->to[label] != TW_TO_LABEL)
		label++;
	r->out->classes = task == TW_TASK_CLASSES;
	if (r->labels > 1 && task == TW_TASK_CLASSES)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "label: %u columns to predict must be values, and task is classes",
			       r->labels);
	if (r->labels > 1 || task != TW_TASK_AUTO)
		return TW_OK;
	r->out->classes = finds_classes(s, &s->look[label], why, sizeof why);
	if (r->out->header)
		snprintf(name, sizeof name, " (%.60s)", r->d->names.label);
	tw_warn(r->facts->notes, "predicts %s, because column %u%s %s (task: %s)",
		r->out->classes ? "classes" : "values", label + 1, name, why,
		r->out->classes ? "classes" : "values");
	return TW_OK;
}

/* --- the columns ------------------------------------------------------------------------------ */

static enum tw_status note_column(struct survey *s, uint32_t k, struct tw_column *c)
{
	const struct look *l = &s->look[k];
	const struct tw_csv_field *name = &s->row[k];
	char *text;

	c->place = k + 1;
	c->has_time = l->has_time;
	c->order = l->month_first ? TW_DATE_MONTH_FIRST : TW_DATE_DAY_FIRST;
	/* pixels of images are often 0 */
	c->constant = l->constant && l->numbers > 0 && l->first_number != 0 && s->rows >= LEAST &&
		      l->missing == 0;
	c->distinct = l->words.count;
	if (!s->r->out->header)
		return TW_OK;
	text = tw_data_keep_small(s->r->d, name->bytes + 1);
	if (!text)
		return tw_data_keep_no_memory(s->r->why, s->r->csv.name, name->bytes);
	memcpy(text, name->at, name->bytes);
	c->name = text;
	return TW_OK;
}

/* A date that can be read in two ways is read in one, and that is said. */
static void warn_dates(const struct survey *s, uint32_t k, const struct tw_column *c)
{
	const struct look *l = &s->look[k];
	char shown[TW_FIELD_SHOWN];

	if (c->type == TW_COLUMN_DATE && l->slashes && l->month_first && l->day_first)
		tw_warn(s->r->facts->warnings,
			"%.100s: column %u: dates such as %s can be read in two ways, and are read "
			"as month/day/year; write them as 2024-12-31",
			s->r->csv.name, k + 1, tw_field_show(&l->first, shown));
}

static enum tw_status list_columns(struct survey *s, struct tw_columns *columns, uint32_t *label)
{
	struct tw_table_reader *r = s->r;
	enum tw_status st = TW_OK;
	uint32_t read = 0;

	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++) {
		struct tw_column *c = &columns->column[columns->count];

		if (r->to[k] == TW_TO_LABEL) {
			label[r->which[k]] = k + 1;
			continue;
		}
		columns->count++;
		st = note_column(s, k, c);
		if (st == TW_OK)
			st = type_of(s, k, &c->type);
		if (st == TW_OK)
			warn_dates(s, k, c);
		read += st == TW_OK && tw_column_is_read(c);
	}
	if (st == TW_OK && read == 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: no column is left to learn from: %s; data.categories and "
			       "data.numbers name columns to read in any case",
			       r->csv.name,
			       columns->count == 1 ? tw_column_types[columns->column[0].type]
						   : "all are constant, text, identifiers or "
						     "dropped");
	return st;
}

static enum tw_status make_columns(struct survey *s)
{
	struct tw_table_reader *r = s->r;
	struct tw_columns *columns = tw_data_keep_small(r->d, sizeof *columns);
	uint32_t *label = tw_data_keep_small(r->d, r->labels * sizeof *label);
	const size_t room = (r->columns - r->labels) * sizeof *columns->column;

	if (!columns || !label || !(columns->column = tw_data_keep_small(r->d, room)))
		return tw_data_keep_no_memory(r->why, r->csv.name, room);
	columns->named = r->out->header;
	columns->all = r->columns;
	columns->label = label;
	columns->labels = r->labels;
	columns->missing = r->facts->wishes->missing;
	r->d->columns = columns;
	return list_columns(s, columns, label);
}

enum tw_status tw_table_find_types(struct tw_table_reader *r, const struct tw_csv_field *row)
{
	struct tw_heap *heap = r->d->heap;
	struct survey s = { .r = r, .row = row };
	enum tw_status st;
	bool again = false;

	s.look = tw_heap_zeros(heap, r->columns * sizeof *s.look);
	if (!s.look)
		return tw_data_keep_no_memory(r->why, r->csv.name, r->columns * sizeof *s.look);
	st = take_wishes(&s);
	if (st == TW_OK)
		st = walk(&s, look_at);
	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++)
		again |= s.look[k].again;
	if (st == TW_OK && again)
		st = walk(&s, look_again);
	if (st == TW_OK && s.rows == 0)
		st = tw_fail(r->why, TW_BAD_INPUT,
			     "%s: has no rows of data; at least one is needed", r->csv.name);
	if (st == TW_OK)
		st = find_task(&s);
	if (st == TW_OK)
		st = make_columns(&s);
	r->row_room = s.rows > 0 ? s.rows : 1;
	for (uint32_t k = 0; k < r->columns; k++)
		tw_words_release(&s.look[k].words);
	heap->put(heap, s.look);
	return st;
}
