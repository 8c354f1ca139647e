/* SPDX-License-Identifier: Apache-2.0 */
/* model_card_columns.c - the columns of a table in a model card: written, copied, read.
 *
 * What was read is hostile: places, words and numbers are checked, and the columns must make as
 * many inputs as the network has. */
#include "checkpoint/model_card_columns.h"

#include "data/format/csv.h"

#include <math.h>
#include <string.h>

static const char *const orders[] = {
	[TW_DATE_MONTH_FIRST] = "month-first",
	[TW_DATE_DAY_FIRST] = "day-first",
	NULL,
};

/* --- writing --- */

static json_t *words_json(const struct tw_column *c)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < c->words; k++)
		json_array_append_new(list, json_string(c->word[k]));
	return list;
}

static json_t *fill_json(const struct tw_column *c)
{
	json_t *list = json_array();

	for (uint32_t k = 0; k < tw_column_raws(c); k++)
		json_array_append_new(list, json_real((double)c->fill[k]));
	return list;
}

static json_t *column_json(const struct tw_column *c)
{
	json_t *o = json_pack("{s:s, s:I}", "type", tw_column_types[c->type], "place",
			      (json_int_t)c->place);

	if (c->name)
		json_object_set_new(o, "name", json_string(c->name));
	if (c->type == TW_COLUMN_CATEGORY) {
		json_object_set_new(o, "words", words_json(c));
		return o;
	}
	json_object_set_new(o, "fill", fill_json(c));
	if (c->indicator)
		json_object_set_new(o, "indicator", json_true());
	if (c->type == TW_COLUMN_DATE) {
		json_object_set_new(o, "order", json_string(orders[c->order]));
		json_object_set_new(o, "time", json_boolean(c->has_time));
	}
	return o;
}

json_t *tw_card_columns_json(const struct tw_columns *columns)
{
	json_t *labels = json_array(), *list = json_array();

	for (uint32_t k = 0; k < columns->labels; k++)
		json_array_append_new(labels, json_integer(columns->label[k]));
	for (uint32_t k = 0; k < columns->count; k++)
		if (tw_column_is_read(&columns->column[k]))
			json_array_append_new(list, column_json(&columns->column[k]));
	return json_pack("{s:s, s:b, s:I, s:o, s:o}", "missing", tw_missing_names[columns->missing],
			 "header", (int)columns->named, "all", (json_int_t)columns->all, "labels",
			 labels, "list", list);
}

/* --- copying --- */

static enum tw_status copy_column(const struct tw_column *from, struct tw_arena *keep,
				  struct tw_column *to)
{
	const char **word;

	*to = *from;
	if (from->name && !(to->name = tw_arena_text(keep, from->name)))
		return TW_NO_MEMORY;
	if (!from->word)
		return TW_OK;
	to->word = word = tw_arena_get(keep, ((size_t)from->words + 1) * sizeof *word);
	for (uint32_t k = 0; word && k < from->words; k++)
		if (!(word[k] = tw_arena_text(keep, from->word[k])))
			return TW_NO_MEMORY;
	return word ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_card_columns_copy(const struct tw_columns *from, struct tw_arena *keep,
				    struct tw_columns **out)
{
	struct tw_columns *c = tw_arena_get(keep, sizeof *c);
	uint32_t *label = tw_arena_get(keep, from->labels * sizeof *label);
	enum tw_status st = TW_OK;

	if (!c || !label)
		return TW_NO_MEMORY;
	*c = *from;
	c->column = tw_arena_get(keep, from->count * sizeof *c->column);
	if (!c->column)
		return TW_NO_MEMORY;
	memcpy(label, from->label, from->labels * sizeof *label);
	c->label = label;
	c->count = 0;
	for (uint32_t k = 0; k < from->count && st == TW_OK; k++)
		if (tw_column_is_read(&from->column[k]))
			st = copy_column(&from->column[k], keep, &c->column[c->count++]);
	*out = c;
	return st;
}

/* --- reading --- */

struct reading {
	struct tw_arena *keep;
	struct tw_columns *c;
	struct tw_error *why;
};

static enum tw_status wrong(const struct reading *r, const char *what)
{
	return tw_fail(r->why, TW_BAD_BYTES, "%s", what);
}

static enum tw_status no_memory(const struct reading *r)
{
	return tw_fail(r->why, TW_NO_MEMORY, "no memory for the model card");
}

static bool choose(const json_t *from, const char *const *names, uint32_t count, uint32_t *out)
{
	const char *text = json_string_value(from);

	for (*out = 0; text && *out < count; ++*out)
		if (strcmp(text, names[*out]) == 0)
			return true;
	return false;
}

static bool read_number(const json_t *from, uint32_t most, uint32_t *out)
{
	const json_int_t v = json_integer_value(from);

	*out = (uint32_t)v;
	return json_is_integer(from) && v >= 1 && v <= (json_int_t)most;
}

static enum tw_status read_text(const struct reading *r, const json_t *from, const char **out)
{
	const char *text = json_string_value(from);

	if (!text || strlen(text) != json_string_length(from) || !tw_name_valid(text, strlen(text)))
		return wrong(r, "has a name or word that is not text");
	*out = tw_arena_text(r->keep, text);
	return *out ? TW_OK : no_memory(r);
}

static enum tw_status read_words(const struct reading *r, const json_t *list, struct tw_column *c)
{
	const size_t n = json_array_size(list);
	const char **word = tw_arena_get(r->keep, (n + 1) * sizeof *word);
	struct tw_words seen;
	enum tw_status st = TW_OK;

	if (!json_is_array(list) || n > (1u << 24))
		return wrong(r, "has a category without its words");
	if (!word)
		return no_memory(r);
	for (size_t k = 0; k < n && st == TW_OK; k++)
		st = read_text(r, json_array_get(list, k), &word[k]);
	if (st != TW_OK)
		return st;
	c->word = word;
	c->words = (uint32_t)n;
	tw_words_init(&seen, r->keep->heap, TW_WORDS_MOST);
	if (tw_words_names(&seen, word) != TW_OK)
		st = no_memory(r);
	else if (seen.count != n)
		st = wrong(r, "has a word twice in one category");
	tw_words_release(&seen);
	return st;
}

static enum tw_status read_fill(const struct reading *r, const json_t *list, struct tw_column *c)
{
	const uint32_t n = tw_column_raws(c);

	if (!json_is_array(list) || json_array_size(list) != n)
		return wrong(r, "does not say what a missing value becomes");
	for (uint32_t k = 0; k < n; k++) {
		const json_t *v = json_array_get(list, k);

		c->fill[k] = (float)json_number_value(v);
		if (!json_is_number(v) || !isfinite(c->fill[k]))
			return wrong(r, "does not say what a missing value becomes");
	}
	return TW_OK;
}

static enum tw_status read_column(const struct reading *r, const json_t *o, struct tw_column *c)
{
	const json_t *name = json_object_get(o, "name");
	uint32_t type, order = 0;
	enum tw_status st = TW_OK;

	if (!choose(json_object_get(o, "type"), tw_column_types, TW_COLUMN_DATE + 1, &type))
		return wrong(r, "has one of a type that this version does not know");
	c->type = (enum tw_column_type)type;
	if (!read_number(json_object_get(o, "place"), r->c->all, &c->place))
		return wrong(r, "has one at a place that does not exist");
	if ((name != NULL) != r->c->named)
		return wrong(r, "has one without a name, or a name without a header");
	if (name)
		st = read_text(r, name, &c->name);
	if (st != TW_OK)
		return st;
	if (c->type == TW_COLUMN_CATEGORY)
		return read_words(r, json_object_get(o, "words"), c);
	if (c->type == TW_COLUMN_DATE && !choose(json_object_get(o, "order"), orders, 2, &order))
		return wrong(r, "has dates in an order that this version does not know");
	c->order = (enum tw_date_order)order;
	c->has_time = c->type == TW_COLUMN_DATE && json_is_true(json_object_get(o, "time"));
	c->indicator = json_is_true(json_object_get(o, "indicator"));
	return read_fill(r, json_object_get(o, "fill"), c);
}

static enum tw_status read_labels(const struct reading *r, const json_t *list, uint32_t labels)
{
	uint32_t *label;

	if (!json_is_array(list) || json_array_size(list) != labels)
		return wrong(r, "has another number of labels than there are");
	label = tw_arena_get(r->keep, labels * sizeof *label);
	if (!label)
		return no_memory(r);
	for (uint32_t k = 0; k < labels; k++)
		if (!read_number(json_array_get(list, k), r->c->all, &label[k]))
			return wrong(r, "has a label at a place that does not exist");
	r->c->label = label;
	r->c->labels = labels;
	return TW_OK;
}

/* Is the place free?  Columns are in ascending order; labels are few. */
static bool fits(const struct tw_columns *c, uint32_t k)
{
	for (uint32_t i = 0; i < c->labels; i++)
		if (c->label[i] == c->column[k].place)
			return false;
	return k == 0 || c->column[k].place > c->column[k - 1].place;
}

static enum tw_status read_list(const struct reading *r, const json_t *list,
				const struct tw_data *d)
{
	struct tw_columns *c = r->c;
	const size_t n = json_array_size(list);
	uint64_t inputs = 0;
	enum tw_status st = TW_OK;

	if (!json_is_array(list) || n < 1 || n > d->features)
		return wrong(r, "is not a list of columns");
	c->column = tw_arena_get(r->keep, n * sizeof *c->column);
	if (!c->column)
		return no_memory(r);
	for (; c->count < n && st == TW_OK; c->count++) {
		st = read_column(r, json_array_get(list, c->count), &c->column[c->count]);
		if (st == TW_OK && !fits(c, c->count))
			st = wrong(r, "has two at one place, or not in their order");
		if (st == TW_OK) {
			inputs += tw_column_inputs(&c->column[c->count]);
			c->raws += tw_column_raws(&c->column[c->count]);
		}
	}
	if (st == TW_OK && inputs != d->features)
		return wrong(r, "make another number of inputs than the network has");
	return st;
}

enum tw_status tw_card_columns_read(const json_t *from, const struct tw_data *d,
				    struct tw_arena *keep, struct tw_columns **out,
				    struct tw_error *why)
{
	struct tw_columns *c = tw_arena_get(keep, sizeof *c);
	const struct reading r = { keep, c, why };
	uint32_t missing;
	enum tw_status st;

	if (!c)
		return no_memory(&r);
	c->named = json_is_true(json_object_get(from, "header"));
	if (!choose(json_object_get(from, "missing"), tw_missing_names, TW_MISSING_REFUSE + 1,
		    &missing))
		return wrong(&r, "do not say what a missing value becomes");
	c->missing = (enum tw_missing)missing;
	if (!read_number(json_object_get(from, "all"), TW_WORDS_MOST, &c->all))
		return wrong(&r, "do not say how many there are");
	st = read_labels(&r, json_object_get(from, "labels"), d->classes ? 1 : d->targets);
	if (st == TW_OK)
		st = read_list(&r, json_object_get(from, "list"), d);
	*out = c;
	return st;
}
