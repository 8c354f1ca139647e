/* SPDX-License-Identifier: Apache-2.0 */
/* table_header.c - the first row of a table: header or data, and what each column is. */
#include "data/data_memory.h"
#include "data/format/table_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- is it a header? -------------------------------------------------------------------------- */

bool tw_table_no_name(const struct tw_csv_field *f)
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

bool tw_table_is_missing(const struct tw_csv_field *f, bool number)
{
	static const char *const words[] = { "na",   "n/a",  "nan", "null", "<na>",
					     "#n/a", "none", "-",   "?",    NULL };
	const char *p = f->at;
	size_t n = f->bytes;

	while (n && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	/* the last words of the list may be categories */
	for (size_t k = 0; words[k] && (number || k < 6); k++)
		if (n == strlen(words[k]) && strncasecmp(p, words[k], n) == 0)
			return true;
	return n == 0;
}

/* Is the first row a header?  Its columns but the label's (which may be words in every row) say
 * so: all numbers, or none; some of each is for the user to decide. */
static enum tw_status guess_header(struct tw_table_reader *r, const struct tw_csv_field *row,
				   bool *header)
{
	uint32_t numbers = 0, other = 0;
	float v;

	for (uint32_t k = 0; k < r->columns; k++) {
		if (r->to[k] == TW_TO_LABEL)
			continue;
		if (tw_field_number(&row[k], &v))
			numbers++;
		else
			other = k + 1;
	}
	*header = other != 0;
	if (other == 0 || (numbers == 0 && !tw_table_no_name(&row[other - 1])))
		return TW_OK;
	r->csv.column = other;
	return tw_table_wrong(
		r, &row[other - 1],
		tw_table_for_model(r)
			? "a finite number is needed"
			: "a finite number is needed (or header: yes, if this row has "
			  "names)");
}

/* Does the row count upwards by one, as columns that have only a number would? */
static bool counts(const struct tw_table_reader *r, const struct tw_csv_field *row)
{
	int64_t first = 0, v = 0;

	for (uint32_t k = 0; k < r->columns; k++)
		if (!tw_field_whole(&row[k], k ? &v : &first) || (k && v != first + k))
			return false;
	return r->columns >= 3;
}

/* --- the training file ------------------------------------------------------------------------ */

static bool called(const struct tw_csv_field *f, const char *name)
{
	return f->bytes == strlen(name) && memcmp(f->at, name, f->bytes) == 0;
}

bool tw_list_next(const char **at, struct tw_csv_field *out)
{
	const char *p = *at, *end;
	const bool list = *p == '[' || *p == ',';

	if (*p == ']')
		return false;
	p += strspn(p, list ? "[, " : " ");
	end = list ? p + strcspn(p, ",]") : p + strlen(p);
	*at = end;
	while (end > p && end[-1] == ' ')
		end--;
	*out = (struct tw_csv_field){ .at = p, .bytes = (size_t)(end - p) };
	return end > p;
}

/* A column that is said by its place, from 1; 0: by its name. */
static enum tw_status by_number(const struct tw_table_reader *r, const char *field,
				const struct tw_csv_field *word, uint32_t *out)
{
	int64_t v = 0;

	*out = 0;
	if (!strcmp(field, "label") && called(word, "last")) {
		*out = r->columns;
		return TW_OK;
	}
	if (word->at[0] < '0' || word->at[0] > '9' || !tw_field_whole(word, &v))
		return TW_OK;
	if (v < 1 || v > r->columns)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s: there is no column %.*s in %s; it has columns 1 to %u", field,
			       (int)(word->bytes < 40 ? word->bytes : 40), word->at, r->csv.name,
			       r->columns);
	*out = (uint32_t)v;
	return TW_OK;
}

enum tw_status tw_table_named(const struct tw_table_reader *r, const char *field,
			      const struct tw_csv_field *word, const struct tw_csv_field *row,
			      uint32_t *out)
{
	const bool header = r->out->header;
	const char *last = strcmp(field, "label") ? "" : ", or `last`";
	const enum tw_status st = by_number(r, field, word, out);
	char shown[TW_FIELD_SHOWN];

	if (st != TW_OK || *out)
		return st;
	for (uint32_t k = 0; header && k < r->columns; k++)
		if (row[k].bytes == word->bytes && !memcmp(row[k].at, word->at, word->bytes)) {
			*out = k + 1;
			return TW_OK;
		}
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s: %s %s '%s'; a name in its header%s a number from 1 to %u%s is "
		       "accepted",
		       field, r->csv.name, header ? "has no column" : "has no header to look up",
		       tw_field_show(word, shown), *last ? "," : " or", r->columns, last);
}

/* The columns that the label names by their place (`row` NULL), or by their names; *named: there
 * are such. */
static enum tw_status find_labels(struct tw_table_reader *r, const struct tw_csv_field *row,
				  bool *named)
{
	const char *at = r->facts->wishes->label;
	struct tw_csv_field word;
	enum tw_status st = TW_OK;

	r->labels = 0;
	for (uint32_t k = 0; k < r->columns; k++)
		r->to[k] = TW_TO_NOTHING;
	for (uint32_t n = 0; st == TW_OK && tw_list_next(&at, &word); n++) {
		uint32_t column = 0;

		st = row ? tw_table_named(r, "label", &word, row, &column)
			 : by_number(r, "label", &word, &column);
		*named |= st == TW_OK && !column;
		if (st != TW_OK || !column)
			continue;
		if (r->to[column - 1] == TW_TO_LABEL)
			return tw_fail(r->why, TW_BAD_INPUT,
				       "label: column %u of %s is named twice", column,
				       r->csv.name);
		r->to[column - 1] = TW_TO_LABEL;
		r->which[column - 1] = n;
		r->labels++;
	}
	if (st == TW_OK && row && (r->labels == 0 || r->labels >= r->columns))
		return tw_fail(r->why, TW_BAD_INPUT,
			       "label: names %s columns of %s; at least one must be left for "
			       "input, and one to predict",
			       r->labels ? "all" : "none of the", r->csv.name);
	return st;
}

static void clean(const struct tw_table_reader *r, struct tw_csv_field *row)
{
	for (uint32_t k = 0; k < r->columns; k++)
		tw_name_clean(&row[k]);
}

/* A label's name is looked up in the header, which there must then be; its place is known
 * without. */
static enum tw_status settle_header(struct tw_table_reader *r, struct tw_csv_field *row)
{
	const enum tw_header asked = r->facts->header;
	bool named = false, *header = &r->out->header;
	enum tw_status st = find_labels(r, NULL, &named);

	*header = asked == TW_HEADER_YES || (asked == TW_HEADER_AUTO && named);
	if (st == TW_OK && asked == TW_HEADER_AUTO && !named)
		st = guess_header(r, row, header);
	r->out->numbered = asked == TW_HEADER_AUTO && !*header && counts(r, row);
	if (st == TW_OK && *header)
		clean(r, row);
	return st == TW_OK ? find_labels(r, row, &named) : st;
}

/* Two columns of one name cannot be told apart. */
static enum tw_status twice(const struct tw_table_reader *r, uint32_t a, uint32_t b,
			    const struct tw_csv_field *name)
{
	char shown[TW_FIELD_SHOWN];

	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:1: columns %u and %u are both called '%s'; each column needs a name of "
		       "its own",
		       r->csv.name, a + 1, b + 1, tw_field_show(name, shown));
}

/* Each name must be text, and no other column may have it too. */
static enum tw_status check_names(struct tw_table_reader *r, const struct tw_csv_field *row)
{
	struct tw_words seen;
	enum tw_status st = TW_OK;

	tw_words_init(&seen, r->d->heap, TW_WORDS_MOST);
	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++) {
		uint32_t number = 0;

		r->csv.column = k + 1;
		if (!tw_name_valid(row[k].at, row[k].bytes)) {
			st = tw_table_wrong(r, &row[k], tw_name_needed);
			break;
		}
		st = tw_words_number(&seen, &row[k], &number);
		if (st != TW_OK)
			st = tw_data_keep_no_memory(r->why, r->csv.name, row[k].bytes);
		else if (number < k)
			st = twice(r, number, k, &row[k]);
	}
	tw_words_release(&seen);
	return st;
}

/* The names of the columns to predict, in their order. */
static enum tw_status keep_label_names(struct tw_table_reader *r, const struct tw_csv_field *row)
{
	struct tw_heap *heap = r->d->heap;
	struct tw_csv_field *name = heap->get(heap, r->labels * sizeof *name);
	enum tw_status st;

	if (!name)
		return tw_data_keep_no_memory(r->why, r->csv.name, r->labels * sizeof *name);
	for (uint32_t k = 0; k < r->columns; k++)
		if (r->to[k] == TW_TO_LABEL)
			name[r->which[k]] = row[k];
	st = tw_names_keep(r->d, name, r->labels, &r->d->names.answer, r->why);
	if (st == TW_OK)
		r->d->names.label = r->d->names.answer[0];
	heap->put(heap, name);
	return st;
}

enum tw_status tw_table_find_roles(struct tw_table_reader *r, const struct tw_csv_field *row)
{
	const struct tw_table_wishes *w = r->facts->wishes;
	const char *at = w->weight;
	const bool keyed = w->hold >= TW_HOLD_COLUMN && w->hold <= TW_HOLD_TIME;
	struct tw_csv_field word;
	enum tw_status st = TW_OK;

	if (tw_list_next(&at, &word))
		st = tw_table_named(r, "weight", &word, row, &r->weight_column);
	at = w->hold_column;
	if (st == TW_OK && keyed != tw_list_next(&at, &word))
		return tw_fail(r->why, TW_BAD_INPUT,
			       keyed ? "hold.column: must be given: the column that rows are held "
				       "out by"
				     : "hold.column: is valid only with hold.by: column, group or "
				       "time");
	if (st == TW_OK && keyed)
		st = tw_table_named(r, "hold.column", &word, row, &r->key_column);
	if (st == TW_OK && ((r->weight_column && r->to[r->weight_column - 1] == TW_TO_LABEL) ||
			    (r->key_column && r->to[r->key_column - 1] == TW_TO_LABEL)))
		st = tw_fail(r->why, TW_BAD_INPUT, "%s: is the column to predict; name another one",
			     r->weight_column && r->to[r->weight_column - 1] == TW_TO_LABEL
				     ? "weight"
				     : "hold.column");
	return st;
}

/* --- files that are matched with it ----------------------------------------------------------- */

/* The names that the file may have: column k of those that are read is number k, the labels come
 * behind, and then the columns that are not read. */
static enum tw_status list_names(struct tw_table_reader *r, struct tw_words *w)
{
	const struct tw_names *n = &r->d->names;
	const struct tw_columns *columns = r->d->columns;
	const uint32_t labelled = columns->count + columns->labels;
	uint32_t wanted = 0;

	for (uint32_t k = 0; k < labelled + columns->count; k++) {
		const bool label = k >= columns->count && k < labelled;
		const struct tw_column *c = &columns->column[label ? 0 : k % labelled];
		const char *name = !label                ? c->name
				   : columns->labels > 1 ? n->answer[k - columns->count]
							 : n->label;
		const struct tw_csv_field f = { .at = name, .bytes = name ? strlen(name) : 0 };
		uint32_t number = wanted;

		if (!name || (!label && tw_column_is_read(c) != (k < columns->count)))
			continue;
		if (tw_words_number(w, &f, &number) != TW_OK)
			return tw_data_keep_no_memory(r->why, r->csv.name, columns->count);
		if (number != wanted++)
			return tw_fail(r->why, TW_BAD_INPUT,
				       "%s: cannot be matched: the model has two columns '%.60s'",
				       r->csv.name, name);
	}
	return TW_OK;
}

/* Does the row hold the names?  All of them do for numbers that are names; one does otherwise. */
static bool holds_names(struct tw_table_reader *r, const struct tw_csv_field *row,
			const struct tw_words *w)
{
	uint32_t found = 0, numbers = 0, at;
	float v;

	for (uint32_t k = 0; k < r->columns; k++) {
		struct tw_csv_field f = row[k];

		while (f.bytes && (f.at[0] == ' ' || f.at[0] == '\t')) {
			f.at++;
			f.bytes--;
		}
		while (f.bytes && (f.at[f.bytes - 1] == ' ' || f.at[f.bytes - 1] == '\t'))
			f.bytes--;
		found += tw_words_find(w, &f, &at) && at < r->reads;
		numbers += tw_field_number(&f, &v);
	}
	return found >= r->reads || (found > 0 && numbers < r->columns);
}

/* Words in the first row may be data. */
static bool has_words(const struct tw_columns *columns)
{
	uint32_t k = 0;

	while (k < columns->count && columns->column[k].type == TW_COLUMN_NUMBER)
		k++;
	return k < columns->count;
}

static enum tw_status find_header(struct tw_table_reader *r, const struct tw_csv_field *row,
				  const struct tw_words *w)
{
	if (r->facts->header != TW_HEADER_AUTO) {
		r->out->header = r->facts->header == TW_HEADER_YES;
		return TW_OK;
	}
	r->out->header = w && holds_names(r, row, w);
	return r->out->header || has_words(r->d->columns) ? TW_OK
							  : guess_header(r, row, &r->out->header);
}

/* Both files of a job have a header, or none has. */
static enum tw_status same_header(struct tw_table_reader *r)
{
	const bool trained = r->d->columns->named;

	if (r->facts->use != TW_TABLE_TEST || trained == r->out->header)
		return TW_OK;
	return tw_fail(
		r->why, TW_BAD_INPUT,
		trained ? "%s:1: has no header, but the training file has one; give both the "
			  "same, so that columns can be matched by name"
			: "%s:1: begins with a header, but the training file has none; give "
			  "both the same (or header: no, if this row is data)",
		r->csv.name);
}

/* 'a', 'b' and 3 more: names of columns that the file lacks; how many they are. */
static uint32_t missing_names(const struct tw_table_reader *r, const uint8_t *seen, char *out,
			      size_t room)
{
	const struct tw_columns *columns = r->d->columns;
	uint32_t missing = 0, shown = 0;
	size_t n = 0;

	out[0] = 0;
	for (uint32_t k = 0, at = 0; k < columns->count; k++) {
		const char *name = columns->column[k].name;

		if (!tw_column_is_read(&columns->column[k]) || seen[at++])
			continue;
		if (shown == missing++ && n + strlen(name) + 24 < room) {
			n += (size_t)snprintf(out + n, room - n, "%s'%s'", n ? ", " : "", name);
			shown++;
		}
	}
	if (shown < missing)
		snprintf(out + n, room - n, " and %u more", missing - shown);
	return missing;
}

/* "4 columns (separated by ',')": how the first row was taken apart. */
#define COUNTED 60
static const char *counted(const struct tw_table_reader *r, char out[COUNTED])
{
	const char separator[] = { '\'', r->facts->separator, '\'', 0 };

	snprintf(out, COUNTED, "%u column%s (separated by %s)", r->columns,
		 r->columns == 1 ? "" : "s", r->facts->separator == '\t' ? "tabs" : separator);
	return out;
}

static enum tw_status lacks(const struct tw_table_reader *r, const uint8_t *seen)
{
	const struct tw_columns *columns = r->d->columns;
	char names[240], has[COUNTED];
	uint32_t label = 0;

	if (missing_names(r, seen, names, sizeof names) > 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %s, but lacks %s of the %u columns of the training; %s",
			       r->csv.name, counted(r, has), names, r->reads,
			       r->columns == 1 && tw_table_for_model(r)
				       ? "--separator names another separator"
				       : "their order does not matter");
	if (r->labels == columns->labels || (r->facts->use == TW_TABLE_PREDICT && r->labels == 0))
		return TW_OK;
	while (seen[r->reads + label])
		label++;
	snprintf(names, sizeof names, "%.60s",
		 columns->labels > 1 ? r->d->names.answer[label]
		 : r->d->names.label ? r->d->names.label
				     : "(label)");
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:1: has no column '%s', which is %s to predict; it is needed here",
		       r->csv.name, names, columns->labels > 1 ? "one of those" : "the one");
}

/* Column k of the file is column c of the model. */
static void send_to(struct tw_table_reader *r, uint32_t k, uint32_t c)
{
	r->which[k] = c;
	r->to[k] = r->d->columns->column[c].type == TW_COLUMN_NUMBER ? r->slot[c] : TW_TO_COLUMN;
}

/* What is known of the names of a model: `first` is the column of the file that has it, `of` the
 * model's column. */
struct seen {
	uint8_t *seen;
	uint32_t *first, *of;
};

static enum tw_status match_each(struct tw_table_reader *r, struct tw_csv_field *row,
				 const struct tw_words *w, struct seen *s)
{
	const uint32_t wanted = r->reads + r->d->columns->labels;

	for (uint32_t k = 0; k < r->columns; k++) {
		uint32_t at;

		const bool known = tw_words_find(w, &row[k], &at);

		if (known && at >= wanted && !tw_table_for_model(r))
			continue; /* it was not read for the training, either */
		if (!known || at >= wanted) {
			r->to[k] = TW_TO_EXTRA;
			row[r->out->extras++] = row[k]; /* never beyond k */
			continue;
		}
		if (s->seen[at])
			return twice(r, s->first[at], k, &row[k]);
		s->seen[at] = 1;
		s->first[at] = k;
		if (at < r->reads) {
			send_to(r, k, s->of[at]);
		} else {
			r->to[k] = TW_TO_LABEL;
			r->which[k] = at - r->reads;
			r->labels++;
		}
	}
	return TW_OK;
}

/* A job's test file may have columns that the training file has not: they are not read. */
static void warn_extras(const struct tw_table_reader *r, const struct tw_csv_field *extra)
{
	char names[200], shown[TW_FIELD_SHOWN];
	uint32_t k = 0;
	size_t n = 0;

	for (; k < r->out->extras && n + TW_FIELD_SHOWN + 24 < sizeof names; k++)
		n += (size_t)snprintf(names + n, sizeof names - n, "%s'%s'", k ? ", " : "",
				      tw_field_show(&extra[k], shown));
	if (k < r->out->extras)
		snprintf(names + n, sizeof names - n, " and %u more", r->out->extras - k);
	tw_warn(r->facts->warnings,
		"%s:1: the training file has no column %s; such columns are ignored", r->csv.name,
		names);
}

static enum tw_status keep_extras(struct tw_table_reader *r, struct tw_csv_field *extra)
{
	if (!tw_table_for_model(r)) {
		warn_extras(r, extra);
		r->out->extras = 0;
		return TW_OK;
	}
	for (uint32_t k = 0; k < r->out->extras; k++)
		tw_name_print((char *)extra[k].at, extra[k].bytes);
	return tw_names_keep(r->d, extra, r->out->extras, &r->out->extra, r->why);
}

static enum tw_status by_name(struct tw_table_reader *r, struct tw_csv_field *row,
			      const struct tw_words *w)
{
	struct tw_heap *heap = r->d->heap;
	const struct tw_columns *columns = r->d->columns;
	const size_t names = (size_t)r->reads + columns->labels;
	struct seen s = { .seen = tw_heap_zeros(heap, names) };
	enum tw_status st = TW_OK;

	s.first = heap->get(heap, 2 * names * sizeof *s.first);
	s.of = s.first ? s.first + names : NULL;
	if (!s.seen || !s.first)
		st = tw_data_keep_no_memory(r->why, r->csv.name, 2 * names * sizeof *s.first);
	for (uint32_t c = 0, n = 0; st == TW_OK && c < columns->count; c++)
		if (tw_column_is_read(&columns->column[c]))
			s.of[n++] = c;
	r->labels = 0;
	clean(r, row);
	if (st == TW_OK)
		st = match_each(r, row, w, &s);
	if (st == TW_OK)
		st = lacks(r, s.seen);
	if (st == TW_OK && r->out->extras)
		st = keep_extras(r, row);
	heap->put(heap, s.seen);
	heap->put(heap, s.first);
	return st;
}

/* By place there are the labels, or there are not, and all other columns of the training file. */
static enum tw_status check_count(const struct tw_table_reader *r)
{
	const struct tw_columns *columns = r->d->columns;
	const uint32_t all = columns->all, rest = all - columns->labels;
	const char *hint = columns->named ? "; columns are matched by name if the first row "
					    "has the names of the training"
					  : "";
	char has[COUNTED];

	if (r->columns == all || (r->columns == rest && r->facts->use == TW_TABLE_PREDICT))
		return TW_OK;
	counted(r, has);
	if (r->facts->use == TW_TABLE_TEST)
		return tw_fail(r->why, TW_BAD_INPUT, "%s:1: has %s, but the training file has %u",
			       r->csv.name, has, all);
	if (r->facts->use == TW_TABLE_SCORE)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %s, but %u are needed: %u values, and the answer as "
			       "column %u%s",
			       r->csv.name, has, all, rest, columns->label[0], hint);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:1: has %s, but the model takes %u, or %u with the answer as column "
		       "%u%s",
		       r->csv.name, has, rest, all, columns->label[0], hint);
}

/* Labels stand at their places, if there are as many columns as in the training file. */
static void place_labels(struct tw_table_reader *r)
{
	const struct tw_columns *columns = r->d->columns;

	r->labels = r->columns == columns->all ? columns->labels : 0;
	for (uint32_t k = 0; k < r->columns; k++)
		r->to[k] = TW_TO_NOTHING;
	for (uint32_t k = 0; k < r->labels; k++) {
		r->to[columns->label[k] - 1] = TW_TO_LABEL;
		r->which[columns->label[k] - 1] = k;
	}
}

/* The other columns stand in the order of the training file. */
static void by_place(struct tw_table_reader *r)
{
	const struct tw_columns *columns = r->d->columns;

	for (uint32_t c = 0; c < columns->count; c++) {
		uint32_t k = columns->column[c].place - 1;

		if (!tw_column_is_read(&columns->column[c]))
			continue;
		for (uint32_t i = 0; !r->labels && i < columns->labels; i++)
			k -= columns->label[i] < columns->column[c].place;
		send_to(r, k, c);
	}
}

/* Match with the names that `w` has; NULL: there are none. */
static enum tw_status match(struct tw_table_reader *r, struct tw_csv_field *row,
			    const struct tw_words *w)
{
	enum tw_status st;

	place_labels(r);
	st = find_header(r, row, w);
	r->out->numbered = st == TW_OK && !r->out->header && counts(r, row);
	if (st == TW_OK)
		st = same_header(r);
	if (st != TW_OK)
		return st;
	if (w && r->out->header)
		return by_name(r, row, w);
	st = check_count(r);
	if (st == TW_OK)
		by_place(r);
	return st;
}

enum tw_status tw_table_match(struct tw_table_reader *r, struct tw_csv_field *row)
{
	struct tw_words w;
	enum tw_status st;

	if (r->facts->use == TW_TABLE_TRAIN) {
		st = settle_header(r, row);
		if (st == TW_OK && r->out->header)
			st = check_names(r, row);
		if (st == TW_OK)
			st = tw_table_find_roles(r, row);
		return st == TW_OK && r->out->header ? keep_label_names(r, row) : st;
	}
	if (!r->d->columns->named)
		return match(r, row, NULL);
	tw_words_init(&w, r->d->heap, TW_WORDS_MOST);
	st = list_names(r, &w);
	if (st == TW_OK)
		st = match(r, row, &w);
	tw_words_release(&w);
	return st;
}
