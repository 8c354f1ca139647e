/* SPDX-License-Identifier: Apache-2.0 */
/* sample_line.c - one line of a stream as one sample. */
#include "data/format/sample_line.h"

#include "base/printable.h"
#include "data/format/csv.h"

#include <jansson.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES_MOST (1u << 26)

/* What is said of a line. */
struct line {
	const struct tw_line_wishes *wishes;
	uint64_t number;
	struct tw_error *why;
};

static enum tw_status wrong(const struct line *l, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static enum tw_status wrong(const struct line *l, const char *format, ...)
{
	char text[240];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return tw_fail(l->why, TW_BAD_INPUT, "%.200s:%" PRIu64 ": %s", l->wishes->name, l->number,
		       text);
}

static enum tw_status answer_of(const struct line *l, double x, uint32_t *label, float *target)
{
	const uint32_t classes = l->wishes->classes;

	if (!isfinite(x) || !isfinite((float)x))
		return wrong(l, "its label is no finite number");
	if (!classes) {
		*target = (float)x;
		return TW_OK;
	}
	if (!(x >= 0 && x < classes) || x != floor(x))
		return wrong(l, "its label is %.9g, and a whole number from 0 to %u is needed", x,
			     classes - 1);
	*label = (uint32_t)x;
	return TW_OK;
}

/* --- separated text -------------------------------------------------------------------------- */

static void begin(const struct line *l, char *line, size_t bytes, struct tw_csv *c)
{
	tw_csv_init(c, l->wishes->name, l->wishes->separator, line, bytes);
	c->after = l->number;
}

static bool next_number(struct tw_csv *c, struct tw_csv_field *f, float *x, enum tw_status *st,
			struct tw_error *why)
{
	*st = TW_OK;
	if (tw_csv_number(c, f, x))
		return true;
	*st = tw_csv_field(c, f, why);
	return *st == TW_OK && tw_field_number(f, x);
}

static enum tw_status read_numbers(const struct tw_line_format *f, const struct line *l, char *line,
				   size_t bytes, float *value, uint32_t *label, float *target)
{
	struct tw_csv c;
	enum tw_status st = TW_OK;
	uint32_t at = 0, k = 0;

	begin(l, line, bytes, &c);
	for (; k < f->columns; k++) {
		char shown[TW_FIELD_SHOWN];
		struct tw_csv_field field;
		float x;

		if (!next_number(&c, &field, &x, &st, l->why))
			return st != TW_OK ? st
					   : wrong(l, "column %u: '%s' is no finite number", k + 1,
						   tw_field_show(&field, shown));
		if (k == f->label)
			st = answer_of(l, (double)x, label, target);
		else
			value[at++] = x;
		if (st != TW_OK)
			return st;
		if (field.last != (k + 1 == f->columns))
			break;
	}
	return k == f->columns ? TW_OK
			       : wrong(l, "has %s columns than the %u of the first line",
				       k + 1 == f->columns ? "more" : "fewer", f->columns);
}

/* Which column the word names, from 0; `columns`: none. */
static uint32_t column_of(const char *word, uint32_t columns)
{
	char *end;
	const unsigned long long k = strtoull(word, &end, 10);

	if (strcmp(word, "last") == 0)
		return columns - 1;
	if (strcmp(word, "first") == 0)
		return 0;
	return *word >= '0' && *word <= '9' && !*end && k >= 1 && k <= columns ? (uint32_t)(k - 1)
									       : columns;
}

static bool is_called(const struct tw_csv_field *f, const char *name)
{
	return f->bytes == strlen(name) && memcmp(f->at, name, f->bytes) == 0;
}

static enum tw_status learn_columns(const struct line *l, char *line, size_t bytes,
				    struct tw_line_format *out)
{
	const char *label = l->wishes->label;
	struct tw_csv_field field = { 0 };
	uint32_t named = UINT32_MAX;
	struct tw_csv c;
	enum tw_status st;

	begin(l, line, bytes, &c);
	while (!field.last) {
		float unused;

		st = tw_csv_field(&c, &field, l->why);
		if (st != TW_OK)
			return st;
		if (!tw_field_number(&field, &unused))
			out->header = true;
		if (is_called(&field, label))
			named = out->columns;
		if (++out->columns > FEATURES_MOST)
			return wrong(l, "has more than %u columns", FEATURES_MOST);
	}
	out->label = out->header && named != UINT32_MAX ? named : column_of(label, out->columns);
	if (out->label == out->columns)
		return wrong(l,
			     "has no column '%.60s' for data.label; it has %u: use last, first, "
			     "a number from 1%s",
			     label, out->columns, out->header ? ", or a name of the header" : "");
	if (out->columns < 2)
		return wrong(l, "has one column, and a label and at least one value are needed");
	out->features = out->columns - 1;
	return TW_OK;
}

/* --- JSON ------------------------------------------------------------------------------------ */

static enum tw_status add_value(const struct tw_line_format *f, const struct line *l,
				const char *name, const json_t *v, float *value, uint32_t *at)
{
	const double x = json_is_boolean(v) ? json_is_true(v) : json_number_value(v);

	if (!json_is_number(v) && !json_is_boolean(v))
		return wrong(l, "field '%.60s' has no number", name);
	if (!isfinite((float)x))
		return wrong(l, "field '%.60s' has a number that is too large", name);
	if (*at == f->features)
		return wrong(l, "has more than the %u values of the first line", f->features);
	value[(*at)++] = (float)x;
	return TW_OK;
}

static enum tw_status add_field(const struct tw_line_format *f, const struct line *l,
				const char *name, const json_t *v, float *value, uint32_t *at)
{
	enum tw_status st = TW_OK;

	if (!json_is_array(v))
		return add_value(f, l, name, v, value, at);
	for (size_t k = 0; k < json_array_size(v) && st == TW_OK; k++)
		st = add_value(f, l, name, json_array_get(v, k), value, at);
	return st;
}

static enum tw_status parse(const struct line *l, const char *line, size_t bytes, json_t **out)
{
	json_error_t said;

	*out = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &said);
	if (!*out)
		return wrong(l, "is no JSON: %.100s", tw_show(said.text).text);
	if (json_is_object(*out))
		return TW_OK;
	json_decref(*out);
	return wrong(l, "is JSON, but no object");
}

static enum tw_status read_object(const struct tw_line_format *f, const struct line *l,
				  const char *line, size_t bytes, float *value, uint32_t *label,
				  float *target)
{
	json_t *o = NULL;
	const json_t *answer;
	uint32_t at = 0;
	enum tw_status st = parse(l, line, bytes, &o);

	if (st != TW_OK)
		return st;
	for (uint32_t k = 0; k < f->names && st == TW_OK; k++) {
		const json_t *v = json_object_get(o, f->name[k]);

		st = v ? add_field(f, l, f->name[k], v, value, &at)
		       : wrong(l, "has no field '%.60s'", f->name[k]);
	}
	answer = json_object_get(o, f->answer);
	if (st == TW_OK && at < f->features)
		st = wrong(l, "has %u values, and the first line had %u", at, f->features);
	if (st == TW_OK && !json_is_number(answer))
		st = wrong(l, "its label, field '%.60s', is no number", f->answer);
	if (st == TW_OK)
		st = answer_of(l, json_number_value(answer), label, target);
	json_decref(o);
	return st;
}

static uint32_t size_of(const json_t *v)
{
	return json_is_array(v) ? (uint32_t)json_array_size(v) : 1;
}

/* Is it in the list "[a, b]"? */
static bool listed(const char *list, const char *name)
{
	const size_t n = strlen(name);

	for (const char *p = list; (p = strstr(p, name)); p++)
		if (strchr("[, ", p[-(p > list)]) && strchr("], ", p[n]))
			return true;
	return false;
}

static enum tw_status learn_fields(const struct line *l, const char *line, size_t bytes,
				   struct tw_arena *keep, struct tw_line_format *out)
{
	const struct tw_line_wishes *w = l->wishes;
	const bool all = strcmp(w->columns, "all") == 0;
	json_t *o = NULL, *v;
	const char *name;
	enum tw_status st = parse(l, line, bytes, &o);

	if (st != TW_OK)
		return st;
	out->name = tw_arena_get(keep, (json_object_size(o) + 1) * sizeof *out->name);
	out->answer = tw_arena_text(keep, w->label);
	if (!json_object_get(o, w->label))
		st = wrong(l,
			   "has no field '%.60s' for data.label; give the name of the field with "
			   "the label",
			   w->label);
	json_object_foreach(o, name, v)
	{
		if (strcmp(name, w->label) == 0 || !(all || listed(w->columns, name)))
			continue;
		if (st == TW_OK && out->name &&
		    !(out->name[out->names++] = tw_arena_text(keep, name)))
			st = TW_NO_MEMORY;
		out->features += size_of(v);
	}
	json_decref(o);
	if (!out->name || !out->answer || st == TW_NO_MEMORY)
		return tw_fail(l->why, TW_NO_MEMORY, "%s: no memory for names", w->name);
	if (st == TW_OK && (!out->features || out->features > FEATURES_MOST))
		st = wrong(l, "has no values beside the label; data.columns names them");
	return st;
}

/* --- both ------------------------------------------------------------------------------------ */

enum tw_status tw_line_learn(const struct tw_line_wishes *wishes, char *line, size_t bytes,
			     struct tw_arena *keep, struct tw_line_format *out,
			     struct tw_error *why)
{
	const struct line l = { wishes, 1, why };

	*out = (struct tw_line_format){ .wishes = *wishes, .json = bytes && *line == '{' };
	return out->json ? learn_fields(&l, line, bytes, keep, out)
			 : learn_columns(&l, line, bytes, out);
}

enum tw_status tw_line_read(const struct tw_line_format *f, uint64_t number, char *line,
			    size_t bytes, float *value, uint32_t *label, float *target,
			    struct tw_error *why)
{
	const struct line l = { &f->wishes, number, why };

	return f->json ? read_object(f, &l, line, bytes, value, label, target)
		       : read_numbers(f, &l, line, bytes, value, label, target);
}
