/* SPDX-License-Identifier: Apache-2.0 */
/* table_warn.c - readings of a training file that are probably not meant.
 *
 * What is not read, or probably not meant, is said once. */
#include "data/format/table.h"
#include "data/data_memory.h"
#include "data/warn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SHOWN     200
#define MANY      10           /* classes that nobody wonders about */
#define FEW       3            /* values that could be classes */
#define FEW_AMONG UINT64_C(20) /* in so many rows */

struct look {
	const struct tw_table_facts *facts;
	const struct tw_table *table;
	const struct tw_data *d;
	uint64_t rows;
	const float *value;
};

/* "column 2 (width), column 5 and 3 more": columns of a type; how many there are. */
static size_t list(const struct look *l, bool (*is)(const struct tw_column *c), char out[SHOWN])
{
	const struct tw_columns *columns = l->d->columns;
	size_t found = 0, shown = 0, n = 0;

	out[0] = 0;
	for (uint32_t k = 0; k < columns->count; k++) {
		const struct tw_column *c = &columns->column[k];
		const char *name = c->name ? c->name : "";
		const struct tw_csv_field f = { .at = name, .bytes = strlen(name) };
		char text[TW_FIELD_SHOWN];

		if (!is(c))
			continue;
		if (shown == found++ && n + TW_FIELD_SHOWN + 48 < SHOWN) {
			n += (size_t)snprintf(out + n, SHOWN - n, "%scolumn %u%s%s%s",
					      n ? ", " : "", c->place, name[0] ? " (" : "",
					      tw_field_show(&f, text), name[0] ? ")" : "");
			shown++;
		}
	}
	if (shown < found)
		snprintf(out + n, SHOWN - n, " and %zu more", found - shown);
	return found;
}

static bool is_identifier(const struct tw_column *c)
{
	return c->type == TW_COLUMN_IDENTIFIER;
}

static bool is_text(const struct tw_column *c)
{
	return c->type == TW_COLUMN_TEXT;
}

static bool is_empty(const struct tw_column *c)
{
	return c->type == TW_COLUMN_CONSTANT;
}

static bool is_large(const struct tw_column *c)
{
	return c->type == TW_COLUMN_DROPPED && c->distinct > 0;
}

static bool is_constant(const struct tw_column *c)
{
	return c->type == TW_COLUMN_NUMBER && c->constant;
}

/* What is not read, and why. */
static void warn_columns(const struct look *l)
{
	const struct tw_table_facts *facts = l->facts;
	char columns[SHOWN];

	if (list(l, is_identifier, columns))
		tw_warn(facts->notes,
			"%.100s: %s numbers or names the rows, and is not read (an identifier); "
			"data.numbers or data.categories would read it",
			facts->name, columns);
	if (list(l, is_text, columns))
		tw_warn(facts->notes, "%.100s: %s is text, and is not read", facts->name, columns);
	if (list(l, is_empty, columns))
		tw_warn(facts->notes,
			"%.100s: %s has the same word in all rows, or nothing, and is not read",
			facts->name, columns);
	if (list(l, is_large, columns))
		tw_warn(facts->notes,
			"%.100s: %s has more than %u different words, and is not read; "
			"data.category_limit raises that",
			facts->name, columns, facts->wishes->limit);
	if (list(l, is_constant, columns))
		tw_warn(facts->warnings,
			"%.100s: %s: every row has the same value, so the model learns nothing "
			"from it; name it in data.drop",
			facts->name, columns);
	if (l->table->dropped)
		tw_warn(facts->notes,
			"%.100s: %" PRIu64 " rows lack a value and are left out (missing: drop)",
			facts->name, l->table->dropped);
}

/* 0, 1, 2, ... is what pandas calls columns without names. */
static void warn_header(const struct look *l)
{
	if (l->table->numbered)
		tw_warn(l->facts->warnings,
			"%.100s:1: the first row has the numbers %.0f, %.0f, ... and is read "
			"as data; write header: yes if these are the names of the columns, "
			"else header: no",
			l->facts->name, (double)l->value[0], (double)l->value[1]);
}

/* More classes than a tenth of the samples: values, or another column, are probably meant. */
static void warn_classes(const struct look *l, const struct tw_words *words)
{
	bool numbers = true, fraction = false;
	int64_t whole;
	float v;

	if (words->count <= 2 || (uint64_t)words->count * 10 <= l->rows)
		return;
	for (uint32_t k = 0; k < words->count && numbers; k++) {
		numbers = tw_field_number(&words->word[k], &v);
		fraction |= !tw_field_whole(&words->word[k], &whole);
	}
	if (words->count <= MANY && !(numbers && fraction))
		return;
	tw_warn(l->facts->warnings,
		"%.100s: column %u%s%.60s%s has %u different classes in %" PRIu64 " rows; write %s",
		l->facts->name, l->d->names.place, l->d->names.label ? " (" : "",
		l->d->names.label ? l->d->names.label : "", l->d->names.label ? ")" : "",
		words->count, l->rows,
		numbers ? "task: values if numbers are to be predicted"
			: "another label if this is not the column to predict");
}

/* Two or three whole values are classes, as a rule. */
static void warn_values(const struct look *l)
{
	float seen[FEW];
	size_t n = 0;

	if (l->rows < FEW_AMONG)
		return;
	for (uint64_t i = 0; i < l->rows; i++) {
		const float v = l->table->samples.target[i];
		size_t k = 0;

		while (k < n && seen[k] != v)
			k++;
		if (k < n)
			continue;
		if (n == FEW || v != floorf(v))
			return;
		seen[n++] = v;
	}
	tw_warn(l->facts->warnings,
		"%.100s: column %u%s%.60s%s has only %zu different values, all whole; write task: "
		"classes if they stand for classes",
		l->facts->name, l->d->names.place, l->d->names.label ? " (" : "",
		l->d->names.label ? l->d->names.label : "", l->d->names.label ? ")" : "", n);
}

enum tw_status tw_table_warn(const struct tw_table_facts *facts, const struct tw_table *table,
			     const struct tw_words *words, const struct tw_data *d,
			     struct tw_error *why)
{
	const struct look l = {
		.facts = facts,
		.table = table,
		.d = d,
		.rows = table->samples.count,
		.value = table->samples.value,
	};

	if (!facts->warnings)
		return TW_OK;
	warn_header(&l);
	if (table->classes)
		warn_classes(&l, words);
	else if (!table->classes && d->columns->labels == 1)
		warn_values(&l);
	warn_columns(&l);
	return TW_OK;
}
