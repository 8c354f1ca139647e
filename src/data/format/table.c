/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - rows of a CSV file; the first row decides how many columns there are.
 *
 *  (1) a field takes a separator or a line end, so there are at most bytes + 1 of them: what these
 *      can make, or rows times what a row makes if it is less, is the room asked for.
 *  (2) a row's values are stored when the row is whole.
 *  (3) a cell that is kept as text had a separator or a line end behind it, or the file's end. */
#include "data/format/table.h"
#include "data/data_memory.h"
#include "data/format/table_inner.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The columns of the first row and the rows at most, without touching the text. */
static uint64_t survey(struct tw_table_reader *r, const char *text, const char *end)
{
	uint64_t columns = 1, rows = 1;
	bool quotes = false;
	const char *p = text;

	for (; p < end && (quotes || (*p != '\n' && *p != '\r')); p++) {
		if (*p == '"')
			quotes = !quotes;
		columns += !quotes && *p == r->facts->separator;
		rows += *p == '\n' || (*p == '\r' && (p + 1 == end || p[1] != '\n'));
	}
	for (const char *q = p; q < end && (q = memchr(q, '\n', (size_t)(end - q))); q++)
		rows++;
	for (const char *q = p; q < end && (q = memchr(q, '\r', (size_t)(end - q))); q++)
		rows += q + 1 == end || q[1] != '\n';
	r->row_room = rows;
	return columns;
}

/* Room for `count` things, or for `most` if the file cannot hold more. */
static enum tw_status room_for(struct tw_table_reader *r, uint64_t count, uint64_t most,
			       size_t each, uint64_t *room, void **out)
{
	*room = count < most ? count : most;
	return tw_data_keep_room(r->d, *room, each, out, r->why);
}

/* Raw values that one field can make. */
static uint32_t widest(const struct tw_columns *columns)
{
	uint32_t most = 1;

	for (uint32_t k = 0; k < columns->count; k++)
		if (tw_column_raws(&columns->column[k]) > most)
			most = tw_column_raws(&columns->column[k]);
	return most;
}

static enum tw_status make_room(struct tw_table_reader *r, size_t bytes)
{
	const uint64_t fields = (uint64_t)bytes + 1, rows = r->row_room;
	void *value = NULL, *answer = NULL, *known = NULL, *cell = NULL, *weight = NULL;
	void *key = NULL;
	uint64_t values, cells;
	enum tw_status st;

	if (__builtin_mul_overflow(rows, (uint64_t)r->raws, &values))
		values = UINT64_MAX;
	if (__builtin_mul_overflow(rows, (uint64_t)r->out->extras, &cells))
		cells = UINT64_MAX;
	st = room_for(r, values, fields * widest(r->d->columns), sizeof(float), &r->value_room,
		      &value);
	if (st == TW_OK)
		st = room_for(r, rows, fields, r->answers * sizeof(float), &r->row_room, &answer);
	if (st == TW_OK && r->weight_column)
		st = tw_data_keep_room(r->d, r->row_room, sizeof(float), &weight, r->why);
	if (st == TW_OK && r->key_column)
		st = tw_data_keep_room(r->d, r->row_room, sizeof(double), &key, r->why);
	if (st == TW_OK && tw_table_for_model(r) && r->labels)
		st = tw_data_keep_room(r->d, r->row_room, 1, &known, r->why);
	if (st == TW_OK && cells)
		st = room_for(r, cells, fields, sizeof(char *), &r->cell_room, &cell);
	if (st != TW_OK)
		return st;
	r->value = value;
	if (r->out->classes)
		r->class = answer;
	else
		r->target = answer;
	r->known = known;
	r->weight = weight;
	r->key = key;
	r->out->cell = cell;
	return TW_OK;
}

/* The class of that name; whole numbers by their value. */
static bool find_class(const struct tw_table_reader *r, const struct tw_csv_field *f, uint32_t *out)
{
	char text[24];
	int64_t v;

	if (tw_words_find(r->words, f, out))
		return true;
	if (!r->whole || !tw_field_whole(f, &v))
		return false;
	return tw_words_find(r->words,
			     &(struct tw_csv_field){
				     .at = text,
				     .bytes = (size_t)snprintf(text, sizeof text, "%" PRId64, v),
			     },
			     out);
}

static enum tw_status new_class(struct tw_table_reader *r, const struct tw_csv_field *f)
{
	const uint32_t known = r->words->count;
	const enum tw_status st = tw_words_number(r->words, f, &r->class[r->rows]);

	if (r->words->count > known && !tw_name_valid(f->at, f->bytes))
		return tw_table_wrong(r, f, tw_name_needed);
	if (st == TW_NO_ROOM)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:%" PRIu64
			       ": column %u: is class number %u; at most %u different "
			       "classes are accepted (task: values takes numbers)",
			       r->csv.name, r->csv.line, r->csv.column, TW_CLASSES_MAX + 1,
			       TW_CLASSES_MAX);
	return st == TW_OK ? st : tw_data_keep_no_memory(r->why, r->csv.name, f->bytes);
}

/* "only a, b and c are accepted": the classes as far as they fit. */
static enum tw_status unknown_class(const struct tw_table_reader *r, const struct tw_csv_field *f)
{
	char what[200];
	size_t n = (size_t)snprintf(what, sizeof what, "the classes of the training are");
	uint32_t k = 0;

	for (; k < r->words->count && n + r->words->word[k].bytes + 24 < sizeof what; k++)
		n += (size_t)snprintf(what + n, sizeof what - n, "%s %.*s", k ? "," : "",
				      (int)r->words->word[k].bytes, r->words->word[k].at);
	if (k < r->words->count)
		snprintf(what + n, sizeof what - n, " and %u more", r->words->count - k);
	return tw_table_wrong(r, f, what);
}

/* A row without its answer: left out, or refused with what is needed. */
static enum tw_status no_answer(struct tw_table_reader *r, const struct tw_csv_field *f,
				const char *what)
{
	if (tw_table_for_model(r) || r->d->columns->missing != TW_MISSING_DROP)
		return tw_table_wrong(r, f, what);
	r->lacks = true;
	return TW_OK;
}

static enum tw_status take_class(struct tw_table_reader *r, const struct tw_csv_field *f)
{
	const bool may_lack = r->facts->use == TW_TABLE_PREDICT;

	if (f->bytes == 0 && !may_lack)
		return no_answer(r, f, "a class is needed");
	if (r->facts->use == TW_TABLE_TRAIN)
		return new_class(r, f);
	r->class[r->rows] = 0;
	if (!find_class(r, f, &r->class[r->rows])) {
		if (!may_lack)
			return unknown_class(r, f);
		r->unknown = true;
	}
	return TW_OK;
}

static enum tw_status take_target(struct tw_table_reader *r, const struct tw_csv_field *f,
				  uint32_t which)
{
	float *to = &r->target[r->rows * r->answers + which];

	if (tw_field_number(f, to))
		return TW_OK;
	*to = 0;
	if (r->facts->use == TW_TABLE_PREDICT) {
		r->unknown = true;
		return TW_OK;
	}
	return tw_table_is_missing(f, true) ? no_answer(r, f, "a finite number is needed")
					    : tw_table_wrong(r, f, "a finite number is needed");
}

/* The field becomes a text of its own in place: what stood behind it was read already. */
static void take_cell(struct tw_table_reader *r, const struct tw_csv_field *f)
{
	HOLDS(3, r->cells < r->cell_room);
	((char *)f->at)[f->bytes] = 0;
	tw_name_print((char *)f->at, f->bytes);
	r->out->cell[r->cells++] = f->at;
}

/* A feature without its value. */
static enum tw_status take_missing(struct tw_table_reader *r, const struct tw_csv_field *f,
				   float *to, uint32_t n)
{
	const enum tw_missing how = r->d->columns->missing;

	if (how == TW_MISSING_REFUSE)
		return tw_table_wrong(r, f,
				      "missing values are refused here (data.missing of the job)");
	if (how == TW_MISSING_DROP && tw_table_for_model(r))
		return tw_table_wrong(r, f,
				      "the model was trained without rows that lack a value "
				      "(missing: drop), and cannot predict one");
	r->lacks |= how == TW_MISSING_DROP;
	for (uint32_t k = 0; k < n; k++)
		to[k] = NAN;
	return TW_OK;
}

static enum tw_status no_number(struct tw_table_reader *r, const struct tw_csv_field *f,
				uint32_t to)
{
	if (tw_table_is_missing(f, true))
		return take_missing(r, f, &r->row[to], 1);
	if (memchr(f->at, ',', f->bytes))
		return tw_table_wrong(
			r, f, "a finite number with a decimal point and no commas is needed");
	return tw_table_wrong(r, f, "a finite number is needed");
}

static enum tw_status take_word(struct tw_table_reader *r, struct tw_csv_field f, uint32_t c)
{
	float *to = &r->row[r->slot[c]];
	uint32_t number = 0;

	while (f.bytes && (f.at[0] == ' ' || f.at[0] == '\t')) {
		f.at++;
		f.bytes--;
	}
	while (f.bytes && (f.at[f.bytes - 1] == ' ' || f.at[f.bytes - 1] == '\t'))
		f.bytes--;
	if (tw_table_is_missing(&f, false))
		return take_missing(r, &f, to, 1);
	if (r->facts->use != TW_TABLE_TRAIN) {
		*to = tw_words_find(&r->word[c], &f, &number) ? (float)number : -1;
		return TW_OK;
	}
	if (tw_words_number(&r->word[c], &f, &number) != TW_OK)
		return tw_data_keep_no_memory(r->why, r->csv.name, f.bytes);
	*to = (float)number;
	return TW_OK;
}

static enum tw_status take_date(struct tw_table_reader *r, const struct tw_csv_field *f, uint32_t c)
{
	const struct tw_column *column = &r->d->columns->column[c];
	const uint32_t n = tw_column_raws(column);
	float *to = &r->row[r->slot[c]], part[TW_DATE_PARTS];
	struct tw_date date;

	if (tw_table_is_missing(f, true))
		return take_missing(r, f, to, n);
	if (!tw_date_parse(f, column->order, &date))
		return tw_table_wrong(r, f, "a date such as 2024-12-31 is needed");
	tw_date_split(&date, part);
	memcpy(to, part, n * sizeof *to);
	return TW_OK;
}

static enum tw_status take_weight(struct tw_table_reader *r, const struct tw_csv_field *f)
{
	float *to = &r->weight[r->rows];

	if (tw_field_number(f, to) && *to >= 0)
		return TW_OK;
	return tw_table_wrong(r, f, "a weight is a number from 0 on");
}

/* What the row is held out by. */
static enum tw_status take_key(struct tw_table_reader *r, const struct tw_csv_field *f)
{
	static const char *const sets[] = { "test", "validation", "train" };
	double *to = &r->key[r->rows];
	struct tw_date date;
	uint32_t number = 0;
	float v;

	if (r->facts->wishes->hold == TW_HOLD_GROUP) {
		if (tw_words_number(&r->groups, f, &number) != TW_OK)
			return tw_data_keep_no_memory(r->why, r->csv.name, f->bytes);
		*to = number;
		return TW_OK;
	}
	if (r->facts->wishes->hold == TW_HOLD_TIME) {
		if (tw_date_parse(f, TW_DATE_MONTH_FIRST, &date))
			*to = tw_date_hours(&date);
		else if (tw_field_number(f, &v))
			*to = (double)v;
		else
			return tw_table_wrong(r, f,
					      "hold.by: time needs a date such as 2024-12-31, or a "
					      "number");
		return TW_OK;
	}
	for (int k = 0; k < 3; k++)
		if (f->bytes == strlen(sets[k]) && !memcmp(f->at, sets[k], f->bytes)) {
			*to = k;
			return TW_OK;
		}
	return tw_table_wrong(r, f, "hold.by: column needs train, validation or test");
}

static enum tw_status take_other(struct tw_table_reader *r, const struct tw_csv_field *f,
				 uint32_t to)
{
	const uint32_t which = r->which[r->csv.column - 1];

	if (to < r->raws)
		return tw_field_number(f, &r->row[to]) ? TW_OK : no_number(r, f, to);
	HOLDS(1, r->rows < r->row_room);
	if (to == TW_TO_COLUMN)
		return r->d->columns->column[which].type == TW_COLUMN_DATE
			       ? take_date(r, f, which)
			       : take_word(r, *f, which);
	if (to == TW_TO_LABEL)
		return r->class ? take_class(r, f) : take_target(r, f, which);
	if (to == TW_TO_EXTRA && r->out->cell)
		take_cell(r, f);
	return TW_OK;
}

/* Nearly all fields are numbers of features. */
static inline enum tw_status take(struct tw_table_reader *r, const struct tw_csv_field *f)
{
	const uint32_t to = r->to[r->csv.column - 1];
	enum tw_status st = TW_OK;

	if (to < r->raws && tw_field_number(f, &r->row[to]) && r->csv.column != r->key_column)
		return TW_OK;
	if (r->csv.column == r->weight_column)
		return take_weight(r, f);
	if (r->csv.column == r->key_column)
		st = take_key(r, f);
	return st == TW_OK ? take_other(r, f, to) : st;
}

static inline void end_row(struct tw_table_reader *r)
{
	HOLDS(1, r->values + r->raws <= r->value_room && r->rows < r->row_room);
	if (r->lacks) {
		r->lacks = false;
		r->out->dropped++;
		return;
	}
	memcpy(r->value + r->values, r->row, r->raws * sizeof *r->row);
	r->values += r->raws;
	if (!r->labels && r->class)
		r->class[r->rows] = 0;
	else if (!r->labels)
		memset(&r->target[r->rows * r->answers], 0, r->answers * sizeof *r->target);
	else
		r->out->answers += !r->unknown;
	if (r->known)
		r->known[r->rows] = !r->unknown;
	r->unknown = false;
	r->rows++;
}

/* The next field, if it is a feature and a plain number: then it is taken. */
static inline bool take_number(struct tw_table_reader *r, struct tw_csv_field *f)
{
	const uint32_t k = r->csv.inside ? r->csv.column : 0;

	return k < r->columns && r->to[k] < r->raws && k + 1 != r->key_column &&
	       tw_csv_number(&r->csv, f, &r->row[r->to[k]]);
}

static enum tw_status read_row(struct tw_table_reader *r)
{
	struct tw_csv_field f;
	enum tw_status st = TW_OK;

	do {
		const bool taken = take_number(r, &f);

		if (!taken)
			st = tw_csv_field(&r->csv, &f, r->why);
		if (st == TW_OK && f.last != (r->csv.column == r->columns))
			st = tw_table_ragged(r, &f);
		if (st == TW_OK && !taken)
			st = take(r, &f);
	} while (st == TW_OK && !f.last);
	if (st == TW_OK)
		end_row(r);
	return st;
}

/* Where the raw values of each column begin, and the words that are known. */
static enum tw_status lay_out(struct tw_table_reader *r)
{
	const struct tw_columns *columns = r->d->columns;
	struct tw_heap *heap = r->d->heap;

	r->slot = heap->get(heap, columns->count * sizeof *r->slot);
	r->word = heap->get(heap, columns->count * sizeof *r->word);
	if (!r->slot || !r->word) {
		heap->put(heap, r->slot);
		heap->put(heap, r->word);
		r->slot = NULL;
		r->word = NULL;
		return tw_data_keep_no_memory(r->why, r->csv.name,
					      columns->count * sizeof *r->word);
	}
	for (uint32_t k = 0; k < columns->count; k++)
		tw_words_init(&r->word[k], heap, TW_WORDS_MOST);
	for (uint32_t k = 0; k < columns->count; k++) {
		const struct tw_column *c = &columns->column[k];

		r->slot[k] = r->raws;
		r->raws += tw_column_raws(c);
		r->reads += tw_column_is_read(c);
		if (c->word && tw_words_names(&r->word[k], c->word) != TW_OK)
			return tw_data_keep_no_memory(r->why, r->csv.name, c->words);
	}
	r->row = heap->get(heap, (size_t)r->raws * sizeof *r->row + 1);
	return r->row ? TW_OK : tw_data_keep_no_memory(r->why, r->csv.name, r->raws);
}

/* TRAIN: columns go where their types say. */
static void send_columns(struct tw_table_reader *r)
{
	const struct tw_columns *columns = r->d->columns;

	for (uint32_t c = 0; c < columns->count; c++) {
		const uint32_t k = columns->column[c].place - 1;

		r->which[k] = c;
		if (tw_column_is_read(&columns->column[c]))
			r->to[k] = columns->column[c].type == TW_COLUMN_NUMBER ? r->slot[c]
									       : TW_TO_COLUMN;
	}
}

static enum tw_status settle_columns(struct tw_table_reader *r, struct tw_csv_field *row)
{
	const bool train = r->facts->use == TW_TABLE_TRAIN;
	enum tw_status st = train ? TW_OK : lay_out(r);

	if (st == TW_OK)
		st = tw_table_match(r, row);
	if (st == TW_OK && train)
		st = tw_table_find_types(r, row);
	if (st == TW_OK && train)
		st = lay_out(r);
	if (st == TW_OK && train)
		send_columns(r);
	r->answers = r->out->classes ? 1 : train ? r->labels : r->d->targets;
	return st;
}

/* Read the first row; as data too, unless it is a header. */
static enum tw_status first_row(struct tw_table_reader *r, struct tw_csv_field *row, size_t bytes)
{
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++) {
		st = tw_csv_field(&r->csv, &row[k], r->why);
		if (st == TW_OK && row[k].last != (k + 1 == r->columns))
			st = tw_table_ragged(r, &row[k]);
	}
	if (st == TW_OK)
		st = settle_columns(r, row);
	if (st == TW_OK)
		st = make_room(r, bytes);
	if (st != TW_OK || r->out->header)
		return st;
	for (uint32_t k = 0; k < r->columns && st == TW_OK; k++) {
		r->csv.column = k + 1;
		st = take(r, &row[k]);
	}
	if (st == TW_OK)
		end_row(r);
	return st;
}

/* The first row has one column: which separator would give the most? */
static enum tw_status one_column(const struct tw_table_reader *r)
{
	static const char *const name[] = { ";", "tab", ",", "|" };
	static const char mark[] = ";\t,|";
	unsigned most = 0, best = 0;
	char advice[60] = "";

	for (unsigned k = 0; k < sizeof mark - 1; k++) {
		unsigned found = 0;

		for (const char *p = r->csv.next; p < r->csv.end && *p != '\n' && *p != '\r'; p++)
			found += *p == mark[k];
		if (found > most && mark[k] != r->facts->separator) {
			most = found;
			best = k;
		}
	}
	if (most)
		snprintf(advice, sizeof advice, "; separator: '%s' would give %u", name[best],
			 most + 1);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:1: has one column; at least two are needed (a value and the label), "
		       "separated by '%c'%s",
		       r->csv.name, r->facts->separator, advice);
}

static enum tw_status check_columns(struct tw_table_reader *r, uint64_t columns)
{
	if (columns < 2 && !tw_table_for_model(r))
		return one_column(r);
	if (columns > TW_WORDS_MOST)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:1: has %" PRIu64 " columns; at most %u are accepted",
			       r->csv.name, columns, (unsigned)TW_WORDS_MOST);
	r->columns = (uint32_t)columns;
	return TW_OK;
}

/* Say how much of the text was parsed, if that is TW_HEARD_EVERY more than *told. */
static void tell(const struct tw_table_reader *r, size_t bytes, size_t *told)
{
	const struct tw_data_listener *l = r->facts->listener;
	const size_t done = bytes - (size_t)(r->csv.end - r->csv.next);

	if (done - *told < TW_HEARD_EVERY)
		return;
	*told = done;
	if (l && l->heard)
		l->heard(l->arg, r->csv.name, "parsing", done, bytes);
}

static enum tw_status read_all(struct tw_table_reader *r, size_t bytes)
{
	struct tw_heap *heap = r->d->heap;
	struct tw_csv_field *row = heap->get(heap, r->columns * sizeof *row);
	size_t told = 0;
	enum tw_status st;

	if (!row)
		return tw_data_keep_no_memory(r->why, r->csv.name, r->columns * sizeof *row);
	st = first_row(r, row, bytes);
	heap->put(heap, row);
	while (st == TW_OK && !tw_csv_done(&r->csv)) {
		st = read_row(r);
		tell(r, bytes, &told);
	}
	if (st == TW_OK && r->rows == 0)
		st = tw_fail(r->why, TW_BAD_INPUT, "%s: has no rows %s; at least one is needed",
			     r->csv.name, r->out->dropped ? "without missing values" : "of data");
	return st;
}

/* Rows that all count upwards are data. */
static bool second_counts(const struct tw_table_reader *r)
{
	const float *v = r->value + r->raws;
	uint32_t k = 1;

	while (k < r->raws && v[k] == v[0] + (float)k)
		k++;
	return k == r->raws;
}

/* The words of all categories, as they are numbered. */
static enum tw_status keep_words(struct tw_table_reader *r)
{
	struct tw_columns *columns = r->d->columns;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < columns->count && st == TW_OK; k++) {
		struct tw_column *c = &columns->column[k];

		if (c->type != TW_COLUMN_CATEGORY)
			continue;
		c->words = r->word[k].count;
		st = tw_names_keep_small(r->d, r->word[k].word, c->words, &c->word, r->why);
	}
	return st;
}

/* What is needed while reading alone. */
static enum tw_status read_with_scratch(struct tw_table_reader *r, size_t bytes)
{
	struct tw_heap *heap = r->d->heap;
	const size_t room = 2 * (size_t)r->columns * sizeof *r->to;
	enum tw_status st;

	r->to = heap->get(heap, room);
	if (!r->to)
		return tw_data_keep_no_memory(r->why, r->csv.name, room);
	r->which = r->to + r->columns;
	tw_words_init(&r->groups, heap, TW_WORDS_MOST);
	for (uint32_t k = 0; k < r->columns; k++)
		r->to[k] = TW_TO_NOTHING;
	st = read_all(r, bytes);
	if (st == TW_OK && r->facts->use == TW_TABLE_TRAIN)
		st = keep_words(r);
	for (uint32_t k = 0; r->word && k < r->d->columns->count; k++)
		tw_words_release(&r->word[k]);
	tw_words_release(&r->groups);
	heap->put(heap, r->word);
	heap->put(heap, r->slot);
	heap->put(heap, r->row);
	heap->put(heap, r->to);
	return st;
}

enum tw_status tw_table_read(const struct tw_table_facts *facts, char *text, size_t bytes,
			     struct tw_words *words, struct tw_data *d, struct tw_table *out,
			     struct tw_error *why)
{
	struct tw_table_reader r = {
		.facts = facts,
		.words = words,
		.whole = facts->use != TW_TABLE_TRAIN && tw_words_whole(words),
		.d = d,
		.out = out,
		.why = why,
	};
	enum tw_status st;

	*out = (struct tw_table){ .classes = facts->classes };
	if (bytes >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2)))
		return tw_fail(why, TW_BAD_INPUT, "%s: is UTF-16; save it as UTF-8", facts->name);
	tw_csv_init(&r.csv, facts->name, facts->separator, text, bytes);
	r.csv.after -= facts->header_is_no_line;
	if (tw_csv_done(&r.csv))
		return tw_fail(why, TW_BAD_INPUT, "%s: is empty; rows of numbers are needed",
			       facts->name);
	st = check_columns(&r, survey(&r, r.csv.next, r.csv.end));
	if (st == TW_OK)
		st = read_with_scratch(&r, bytes);
	if (st == TW_OK && facts->use == TW_TABLE_TRAIN) {
		const uint64_t features = d->columns->raws = r.raws;

		d->names.separator = facts->separator;
		d->names.place = d->columns->label[0];
		st = tw_data_keep_shape(d, facts->name, 1, &features, why);
	}
	out->samples = (struct tw_samples){
		.count = r.rows,
		.value = r.value,
		.label = r.class,
		.target = r.target,
		.weight = r.weight,
	};
	out->key = r.key;
	out->known = r.known;
	out->numbered = st == TW_OK && out->numbered && r.rows > 1 && !second_counts(&r);
	return st;
}

enum tw_status tw_separator_parse(const char *text, char *out, struct tw_error *why)
{
	if (!strcmp(text, "tab") || !strcmp(text, "\\t")) {
		*out = '\t';
		return TW_OK;
	}
	if (text[0] && !text[1] && !isalnum((unsigned char)text[0]) &&
	    !strchr("\"\r\n.+-", text[0])) {
		*out = text[0];
		return TW_OK;
	}
	return tw_fail(why, TW_BAD_INPUT,
		       "separator: needs one character that is not a letter, digit, quote, "
		       "point or sign, or tab; not '%.20s'",
		       text);
}
