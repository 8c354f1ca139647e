/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - from raw values of a table to inputs of a network.
 *
 *  (1) whatever is decided here is decided by the training set alone.
 *  (2) raw values of a category are numbers of its words, -1 or NAN; the inputs of a row are
 *      finite. */
#include "data/columns.h"
#include "data/data_memory.h"
#include "data/format/csv.h"
#include "data/warn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tw_column_types[] = {
	[TW_COLUMN_NUMBER] = "number",     [TW_COLUMN_CATEGORY] = "category",
	[TW_COLUMN_DATE] = "date",         [TW_COLUMN_TEXT] = "text",
	[TW_COLUMN_CONSTANT] = "constant", [TW_COLUMN_IDENTIFIER] = "identifier",
	[TW_COLUMN_DROPPED] = "dropped",   NULL,
};
const char *const tw_missing_names[] = {
	[TW_MISSING_MEAN] = "mean",
	[TW_MISSING_MEDIAN] = "median",
	[TW_MISSING_ZERO] = "zero",
	[TW_MISSING_INDICATOR] = "indicator",
	[TW_MISSING_DROP] = "drop",
	[TW_MISSING_REFUSE] = "refuse",
	NULL,
};

static uint32_t parts_of(const struct tw_column *c)
{
	return c->type == TW_COLUMN_DATE ? TW_DATE_PARTS - !c->has_time : 1;
}

uint32_t tw_column_raws(const struct tw_column *c)
{
	return tw_column_is_read(c) ? parts_of(c) : 0;
}

uint64_t tw_column_inputs(const struct tw_column *c)
{
	if (!tw_column_is_read(c))
		return 0;
	return c->type == TW_COLUMN_CATEGORY ? (uint64_t)c->words + 1 : parts_of(c) + c->indicator;
}

uint64_t tw_columns_inputs(const struct tw_columns *c)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < c->count; k++)
		n += tw_column_inputs(&c->column[k]);
	return n;
}

/* --- what the training set says --------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* What stands for a missing value: in `v`, n values that are not missing (in any order after). */
static float stand_in(enum tw_missing how, float *v, uint64_t n)
{
	double mean = 0;

	if (how == TW_MISSING_ZERO || n == 0)
		return 0;
	if (how == TW_MISSING_MEDIAN) {
		qsort(v, n, sizeof *v, ascending);
		return n % 2 ? v[n / 2] : (float)(((double)v[n / 2 - 1] + (double)v[n / 2]) / 2);
	}
	for (uint64_t i = 0; i < n; i++)
		mean += ((double)v[i] - mean) / (double)(i + 1);
	return (float)mean;
}

/* Numbers and parts of dates: what missing ones become. */
static void fit_values(const struct tw_samples *s, uint32_t raws, uint32_t at, enum tw_missing how,
		       float *room, struct tw_column *c)
{
	for (uint32_t p = 0; p < parts_of(c); p++) {
		const float *v = (const float *)s->value + at + p;
		uint64_t n = 0;

		for (uint64_t i = 0; i < s->count; i++, v += raws)
			if (!isnan(*v))
				room[n++] = *v;
		c->missing = s->count - n;
		c->fill[p] = stand_in(how, room, n);
	}
	c->indicator = how == TW_MISSING_INDICATOR && c->missing > 0;
}

/* The words of the training set, in order; `now` says what each word's number becomes. */
static enum tw_status fit_words(struct tw_data *d, const struct tw_samples *s, uint32_t raws,
				uint32_t at, struct tw_column *c, struct tw_error *why)
{
	struct tw_heap *heap = d->heap;
	const float *v = (const float *)s->value + at;
	uint32_t *rank = heap->get(heap, ((size_t)c->words + 1) * 3 * sizeof *rank);
	struct tw_csv_field *name = heap->get(heap, ((size_t)c->words + 1) * sizeof *name);
	struct tw_words all;
	uint32_t left = 0;
	enum tw_status st = TW_OK;

	tw_words_init(&all, heap, TW_WORDS_MOST);
	if (!rank || !name || tw_words_names(&all, c->word) != TW_OK) {
		st = tw_data_keep_no_memory(why, "categories", c->words);
	} else {
		uint32_t *seen = rank + c->words + 1, *order = seen + c->words + 1;

		memset(seen, 0, ((size_t)c->words + 1) * sizeof *seen);
		for (uint64_t i = 0; i < s->count; i++, v += raws)
			if (*v >= 0)
				seen[(uint32_t)*v] = 1;
			else
				c->missing++;
		tw_words_rank(&all, order, rank); /* `order` has the words in theirs */
		for (uint32_t k = 0; k < c->words; k++)
			if (seen[order[k]])
				name[left++] = all.word[order[k]];
		st = tw_names_keep_small(d, name, left, &c->word, why);
		c->words = left;
	}
	tw_words_release(&all);
	heap->put(heap, name);
	heap->put(heap, rank);
	return st;
}

/* From the numbers that words had in the file to those that they have now. */
static enum tw_status renumber(struct tw_data *d, const char *const *before, uint32_t count,
			       const struct tw_column *c, uint32_t at, struct tw_error *why)
{
	struct tw_samples *const sets[] = { &d->train, &d->test, &d->validation };
	struct tw_heap *heap = d->heap;
	float *now = heap->get(heap, ((size_t)count + 1) * sizeof *now);
	struct tw_words left;
	enum tw_status st = TW_OK;

	tw_words_init(&left, heap, TW_WORDS_MOST);
	if (!now || tw_words_names(&left, c->word) != TW_OK)
		st = tw_data_keep_no_memory(why, "categories", count);
	for (uint32_t k = 0; st == TW_OK && k < count; k++) {
		const struct tw_csv_field f = { .at = before[k], .bytes = strlen(before[k]) };
		uint32_t number;

		now[k] = tw_words_find(&left, &f, &number) ? (float)number : -1;
	}
	for (size_t s = 0; st == TW_OK && s < 3; s++) {
		float *value = (float *)sets[s]->value; /* ours: nobody has seen it yet */

		for (uint64_t i = 0; i < sets[s]->count; i++) {
			float *v = &value[i * d->features + at];

			if (*v >= 0)
				*v = now[(uint32_t)*v];
		}
	}
	tw_words_release(&left);
	heap->put(heap, now);
	return st;
}

static enum tw_status fit_column(struct tw_data *d, struct tw_columns *columns, uint32_t at,
				 float *room, struct tw_column *c, struct tw_error *why)
{
	const char *const *before = c->word;
	const uint32_t words = c->words;
	enum tw_status st;

	if (c->type != TW_COLUMN_CATEGORY) {
		fit_values(&d->train, columns->raws, at, columns->missing, room, c);
		return TW_OK;
	}
	st = fit_words(d, &d->train, columns->raws, at, c, why);
	return st == TW_OK ? renumber(d, before, words, c, at, why) : st;
}

/* --- names ------------------------------------------------------------------------------------ */

#define NAME_ROOM (TW_NAME_MOST + 1)

/* What input k of a column is called: "colour=red", "since.month"; it fits into `room`. */
static void input_name(const struct tw_column *c, uint32_t k, char out[NAME_ROOM])
{
	const char *tail = k < parts_of(c) ? tw_date_parts[k] : "missing";
	int n;

	if (c->type == TW_COLUMN_NUMBER && k == 0) {
		snprintf(out, NAME_ROOM, "%s", c->name);
		return;
	}
	if (c->type == TW_COLUMN_CATEGORY)
		n = snprintf(out, NAME_ROOM, "%s=%s", c->name, k < c->words ? c->word[k] : "?");
	else
		n = snprintf(out, NAME_ROOM, "%s.%s", c->name,
			     c->type == TW_COLUMN_NUMBER ? "missing" : tail);
	if (n >= (int)NAME_ROOM)
		snprintf(out, NAME_ROOM, "column %u, input %u", c->place, k + 1);
}

/* Two inputs may be called the same, as with columns "a=b" and "a" with a word "b": the second gets
 * a number. */
static enum tw_status add_name(struct tw_words *w, char *text, struct tw_error *why)
{
	char base[NAME_ROOM];

	if (strlen(text) < NAME_ROOM - 12)
		strcpy(base, text);
	else
		snprintf(base, sizeof base, "input %u", w->count + 1);
	for (unsigned again = 2;; again++) {
		const struct tw_csv_field f = { .at = text, .bytes = strlen(text) };
		const uint32_t count = w->count;
		uint32_t number;

		if (tw_words_number(w, &f, &number) != TW_OK)
			return tw_data_keep_no_memory(why, "names", f.bytes);
		if (number == count)
			return TW_OK;
		snprintf(text, NAME_ROOM, "%.*s#%u", (int)NAME_ROOM - 12, base, again);
	}
}

static enum tw_status name_inputs(struct tw_data *d, const struct tw_columns *columns,
				  uint64_t inputs, struct tw_error *why)
{
	struct tw_heap *heap = d->heap;
	char *text = heap->get(heap, (size_t)inputs * NAME_ROOM);
	struct tw_words w;
	enum tw_status st = text ? TW_OK : tw_data_keep_no_memory(why, "names", inputs);

	tw_words_init(&w, heap, TW_WORDS_MOST);
	for (uint32_t k = 0, at = 0; k < columns->count && st == TW_OK; k++)
		for (uint32_t i = 0; i < tw_column_inputs(&columns->column[k]) && st == TW_OK;
		     i++, at++) {
			input_name(&columns->column[k], i, text + (size_t)at * NAME_ROOM);
			st = add_name(&w, text + (size_t)at * NAME_ROOM, why);
		}
	if (st == TW_OK)
		st = tw_names_keep(d, w.word, w.count, &d->names.column, why);
	tw_words_release(&w);
	heap->put(heap, text);
	return st;
}

/* --- inputs ----------------------------------------------------------------------------------- */

/* What was seen on the way. */
struct counts {
	uint64_t unknown, missing;
};

static float *encode_column(const struct tw_column *c, const float *raw, float *x,
			    struct counts *seen)
{
	bool missing;

	if (!tw_column_is_read(c))
		return x; /* it has no raw value: behind the last row there is nothing */
	missing = isnan(*raw);
	seen->missing += missing;
	if (c->type == TW_COLUMN_CATEGORY) {
		const bool known = *raw >= 0 && *raw < (float)c->words;

		memset(x, 0, ((size_t)c->words + 1) * sizeof *x);
		x[known ? (uint32_t)*raw : c->words] = 1;
		seen->unknown += !known && !missing;
		return x + c->words + 1;
	}
	for (uint32_t p = 0; p < parts_of(c); p++)
		*x++ = isnan(raw[p]) ? c->fill[p] : raw[p];
	if (c->indicator)
		*x++ = missing;
	return x;
}

static void encode_rows(const struct tw_columns *columns, const float *raw, uint64_t rows, float *x,
			struct counts *seen)
{
	for (uint64_t i = 0; i < rows; i++)
		for (uint32_t k = 0; k < columns->count; k++) {
			const struct tw_column *c = &columns->column[k];

			x = encode_column(c, raw, x, seen);
			raw += tw_column_raws(c);
		}
}

/* Are the inputs the raw values, but for missing ones? */
static bool same_layout(const struct tw_columns *columns)
{
	for (uint32_t k = 0; k < columns->count; k++)
		if (columns->column[k].type == TW_COLUMN_CATEGORY || columns->column[k].indicator)
			return false;
	return true;
}

enum tw_status tw_columns_encode(struct tw_data *d, const struct tw_columns *columns,
				 struct tw_samples *s, uint64_t *unknown, uint64_t *missing,
				 struct tw_error *why)
{
	struct counts seen = { 0 };
	void *raw = (void *)s->value, *x = raw; /* ours: nobody has seen it yet */
	enum tw_status st = TW_OK;

	if (s->count && !same_layout(columns))
		st = tw_data_keep_room(d, s->count, tw_columns_inputs(columns) * sizeof(float), &x,
				       why);
	if (st != TW_OK)
		return st;
	encode_rows(columns, raw, s->count, x, &seen);
	if (x != raw)
		tw_data_keep_drop(d, raw);
	s->value = x;
	*unknown = seen.unknown;
	*missing = seen.missing;
	return TW_OK;
}

/* Inputs that are 0 or 1 are not scaled: a rare word would become a large number. */
static enum tw_status mark_as_is(struct tw_data *d, const struct tw_columns *columns,
				 struct tw_error *why)
{
	void *room = NULL;
	uint8_t *at;
	enum tw_status st;

	if (same_layout(columns))
		return TW_OK;
	st = tw_data_keep_room(d, d->features, 1, &room, why);
	if (st != TW_OK)
		return st;
	d->as_is = at = room;
	for (uint32_t k = 0; k < columns->count; k++) {
		const struct tw_column *c = &columns->column[k];
		const uint32_t parts = c->type == TW_COLUMN_CATEGORY ? 0 : tw_column_raws(c);
		const uint32_t inputs = (uint32_t)tw_column_inputs(c);

		for (uint32_t i = 0; i < inputs; i++)
			*at++ = i >= parts;
	}
	return TW_OK;
}

/* "column age has 12 missing values, column job 3": as far as they fit. */
static void note_missing(const struct tw_columns *columns, struct tw_warnings *notes)
{
	static const char *const become[] = {
		[TW_MISSING_MEAN] = "the column's mean",
		[TW_MISSING_MEDIAN] = "the column's median",
		[TW_MISSING_ZERO] = "0",
		[TW_MISSING_INDICATOR] = "the column's mean, and another input says so",
	};
	char list[140];
	uint32_t found = 0, shown = 0;
	size_t n = 0;

	if (columns->missing >= TW_MISSING_DROP)
		return;
	for (uint32_t k = 0; k < columns->count; k++) {
		const struct tw_column *c = &columns->column[k];
		char place[16];

		if (!c->missing || !tw_column_is_read(c))
			continue;
		snprintf(place, sizeof place, "%u", c->place);
		if (shown == found++ && n + 70 < sizeof list) {
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%.40s (%" PRIu64 ")",
					      n ? ", " : "", c->name ? c->name : place, c->missing);
			shown++;
		}
	}
	if (shown < found)
		snprintf(list + n, sizeof list - n, " and %u more", found - shown);
	if (found)
		tw_warn(notes,
			"missing values in column %s become %s (missing: %s); in a category they "
			"have an input of their own",
			list, become[columns->missing], tw_missing_names[columns->missing]);
}

enum tw_status tw_columns_fit(struct tw_data *d, struct tw_warnings *notes, struct tw_error *why)
{
	struct tw_columns *columns = d->columns;
	struct tw_samples *const sets[] = { &d->train, &d->test, &d->validation };
	struct tw_heap *heap = d->heap;
	float *room = heap->get(heap, (size_t)d->train.count * sizeof *room + 1);
	uint64_t inputs, unknown, missing;
	enum tw_status st = TW_OK;

	if (!room)
		return tw_data_keep_no_memory(why, "columns", d->train.count * sizeof *room);
	for (uint32_t k = 0, at = 0; k < columns->count && st == TW_OK; k++) {
		struct tw_column *c = &columns->column[k];

		if (tw_column_is_read(c))
			st = fit_column(d, columns, at, room, c, why);
		at += tw_column_raws(c);
	}
	heap->put(heap, room);
	if (st != TW_OK)
		return st;
	inputs = tw_columns_inputs(columns);
	for (size_t s = 0; s < 3 && st == TW_OK; s++)
		st = tw_columns_encode(d, columns, sets[s], &unknown, &missing, why);
	if (st == TW_OK)
		st = tw_data_keep_shape(d, "the columns", 1, &inputs, why);
	if (st == TW_OK)
		st = mark_as_is(d, columns, why);
	if (st == TW_OK && columns->named)
		st = name_inputs(d, columns, inputs, why);
	note_missing(columns, notes);
	return st;
}
