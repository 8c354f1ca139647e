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

/* Is the first row a header?  Its columns but the label's (which may be words in every row) say
 * so: all numbers, or none; some of each is for the user to decide. */
static enum tw_status guess_header(struct tw_table_reader *r, const struct tw_csv_field *row,
				   bool *header)
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

/* The label's column where it is said by place; *named: it is said by name. */
static enum tw_status label_place(struct tw_table_reader *r, bool *named)
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

static enum tw_status label_by_name(struct tw_table_reader *r, const struct tw_csv_field *row)
{
	const char *label = r->facts->label;
	const bool header = r->out->header;

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
	enum tw_status st = label_place(r, &named);

	*header = asked == TW_HEADER_YES || (asked == TW_HEADER_AUTO && named);
	if (st == TW_OK && asked == TW_HEADER_AUTO && !named)
		st = guess_header(r, row, header);
	r->out->numbered = asked == TW_HEADER_AUTO && !*header && counts(r, row);
	if (st == TW_OK && *header)
		clean(r, row);
	return st == TW_OK && named ? label_by_name(r, row) : st;
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

/* The features' names and the label's. */
static enum tw_status keep_names(struct tw_table_reader *r, struct tw_csv_field *row)
{
	struct tw_names *names = &r->d->names;
	const char *const *label = NULL;
	const struct tw_csv_field last = row[r->label - 1];
	enum tw_status st = check_names(r, row);

	if (st != TW_OK)
		return st;
	memmove(row + r->label - 1, row + r->label, (r->columns - r->label) * sizeof *row);
	st = tw_names_keep(r->d, row, r->features, &names->column, r->why);
	if (st == TW_OK)
		st = tw_names_keep(r->d, &last, 1, &label, r->why);
	if (st != TW_OK)
		return st;
	names->label = label[0];
	if (!r->facts->classes)
		names->answer = label;
	return TW_OK;
}

/* The columns are the features in their order, and the label among them where there is one. */
static void by_place(struct tw_table_reader *r)
{
	for (uint32_t k = 0, feature = 0; k < r->columns; k++)
		r->to[k] = k + 1 == r->label ? TW_TO_LABEL : feature++;
}

/* --- files that are matched with it ----------------------------------------------------------- */

/* The names that the file may have: feature k is number k, the label comes behind. */
static enum tw_status list_names(struct tw_table_reader *r, struct tw_words *w)
{
	const struct tw_names *n = &r->d->names;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k <= r->features && st == TW_OK; k++) {
		const char *name = k < r->features ? n->column[k] : n->label;
		const struct tw_csv_field f = { .at = name, .bytes = name ? strlen(name) : 0 };
		uint32_t number = k;

		if (name && tw_words_number(w, &f, &number) != TW_OK)
			st = tw_data_keep_no_memory(r->why, r->csv.name, r->features);
		else if (number != k)
			st = tw_fail(r->why, TW_BAD_INPUT,
				     "%s: cannot be matched: the model has two columns '%.60s'",
				     r->csv.name, name);
	}
	return st;
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
		found += tw_words_find(w, &f, &at) && at < r->features;
		numbers += tw_field_number(&f, &v);
	}
	return found >= r->features || (found > 0 && numbers < r->columns);
}

static enum tw_status find_header(struct tw_table_reader *r, const struct tw_csv_field *row,
				  const struct tw_words *w)
{
	if (r->facts->header != TW_HEADER_AUTO) {
		r->out->header = r->facts->header == TW_HEADER_YES;
		return TW_OK;
	}
	r->out->header = w && holds_names(r, row, w);
	return r->out->header ? TW_OK : guess_header(r, row, &r->out->header);
}

/* Both files of a job have a header, or none has. */
static enum tw_status same_header(struct tw_table_reader *r)
{
	const bool trained = r->d->names.column != NULL;

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

/* 'a', 'b' and 3 more: names of features that no column has; how many they are. */
static uint32_t missing_names(const struct tw_table_reader *r, const uint8_t *seen, char *out,
			      size_t room)
{
	uint32_t missing = 0, shown = 0;
	size_t n = 0;

	out[0] = 0;
	for (uint32_t k = 0; k < r->features; k++) {
		const char *name = r->d->names.column[k];

		if (seen[k])
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
	char names[240], has[COUNTED];

	if (missing_names(r, seen, names, sizeof names) > 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %s, but lacks %s of the %u columns of the training; %s",
			       r->csv.name, counted(r, has), names, r->features,
			       r->columns == 1 && tw_table_for_model(r)
				       ? "--separator names another separator"
				       : "their order does not matter");
	if (r->label || r->facts->use == TW_TABLE_PREDICT)
		return TW_OK;
	return tw_fail(
		r->why, TW_BAD_INPUT,
		"%s:1: has no column '%.60s', which is the one to predict; it is needed here",
		r->csv.name, r->d->names.label ? r->d->names.label : "(label)");
}

static enum tw_status match_each(struct tw_table_reader *r, struct tw_csv_field *row,
				 const struct tw_words *w, uint8_t *seen)
{
	for (uint32_t k = 0; k < r->columns; k++) {
		uint32_t at;

		if (!tw_words_find(w, &row[k], &at)) {
			r->to[k] = TW_TO_EXTRA;
			row[r->out->extras++] = row[k]; /* never beyond k */
			continue;
		}
		if (at < r->features ? seen[at] : r->label != 0) {
			uint32_t first = 0;

			while (r->to[first] != (at < r->features ? at : TW_TO_LABEL))
				first++;
			return twice(r, first, k, &row[k]);
		}
		if (at < r->features)
			seen[at] = 1;
		else
			r->label = k + 1;
		r->to[k] = at < r->features ? at : TW_TO_LABEL;
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
	uint8_t *seen = tw_heap_zeros(heap, r->features);
	enum tw_status st;

	if (!seen)
		return tw_data_keep_no_memory(r->why, r->csv.name, r->features);
	r->label = 0;
	clean(r, row);
	st = match_each(r, row, w, seen);
	if (st == TW_OK)
		st = lacks(r, seen);
	if (st == TW_OK && r->out->extras)
		st = keep_extras(r, row);
	heap->put(heap, seen);
	return st;
}

/* By place there is the label, or there is not, and no other column. */
static enum tw_status check_count(const struct tw_table_reader *r)
{
	const uint32_t all = r->features + 1;
	const char *hint = r->d->names.column ? "; columns are matched by name if the first row "
						"has the names of the training"
					      : "";

	char has[COUNTED];

	if (r->columns == all || (r->columns == r->features && r->facts->use == TW_TABLE_PREDICT))
		return TW_OK;
	counted(r, has);
	if (r->facts->use == TW_TABLE_TEST)
		return tw_fail(r->why, TW_BAD_INPUT, "%s:1: has %s, but the training file has %u",
			       r->csv.name, has, all);
	if (r->facts->use == TW_TABLE_SCORE)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %s, but %u are needed: %u values, and the answer as "
			       "column %u%s",
			       r->csv.name, has, all, r->features, r->usual, hint);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:1: has %s, but the model takes %u, or %u with the answer as column "
		       "%u%s",
		       r->csv.name, has, r->features, all, r->usual, hint);
}

/* Match with the names that `w` has; NULL: there are none. */
static enum tw_status match(struct tw_table_reader *r, struct tw_csv_field *row,
			    const struct tw_words *w)
{
	enum tw_status st;

	r->label = r->columns == r->features + 1 ? r->usual : 0;
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
	const struct tw_names *names = &r->d->names;
	struct tw_words w;
	enum tw_status st;

	if (r->facts->use == TW_TABLE_TRAIN) {
		st = settle_header(r, row);
		if (st == TW_OK)
			by_place(r);
		return st == TW_OK && r->out->header ? keep_names(r, row) : st;
	}
	r->usual = names->place && names->place <= r->features + 1 ? names->place : r->features + 1;
	if (!names->column)
		return match(r, row, NULL);
	tw_words_init(&w, r->d->heap, TW_WORDS_MOST);
	st = list_names(r, &w);
	if (st == TW_OK)
		st = match(r, row, &w);
	tw_words_release(&w);
	return st;
}
