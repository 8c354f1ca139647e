/* SPDX-License-Identifier: Apache-2.0 */
/* table_warn.c - readings of a training file that are probably not meant.
 *
 * Each look at the columns ends as soon as nothing can be found any more, which in an ordinary
 * table is after a few rows. */
#include "data/format/table.h"
#include "data/data_memory.h"
#include "data/warn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define SHOWN     200
#define LEAST     3            /* rows before anything is odd about columns */
#define MANY      10           /* classes that nobody wonders about */
#define EXACT     0x1p24f      /* whole numbers below this are floats of their own */
#define FEW       3            /* values that could be classes */
#define FEW_AMONG UINT64_C(20) /* in so many rows */

struct look {
	const struct tw_table_facts *facts;
	const struct tw_table *table;
	const struct tw_data *d;
	uint64_t rows;
	size_t columns; /* features */
	const float *value;
};

/* What may still be said of a column. */
enum { CONSTANT = 1, NUMBERING = 2, INCREASING = 4 };

/* The column of the file that feature k is, from 1. */
static size_t place(const struct look *l, size_t k)
{
	return k + 1 + (k + 1 >= l->d->names.place);
}

static bool one_of(const char *name, const char *const *list)
{
	while (*list && strcasecmp(*list, name) != 0)
		list++;
	return *list != NULL;
}

/* May the column be a number of the row, by its name? */
static unsigned by_name(const struct look *l, size_t k)
{
	static const char *const ids[] = { "id",     "index",  "idx",        "row", "rowid",
					   "row_id", "rownum", "row_number", NULL };
	const char *name = l->d->names.column ? l->d->names.column[k] : NULL;

	if (!name)
		return 0;
	if (!name[0] || strncmp(name, "Unnamed: ", 9) == 0)
		return NUMBERING;
	return one_of(name, ids) ? INCREASING : 0;
}

/* What row i leaves of `still`. */
static unsigned narrow(unsigned still, float first, float before, float v, uint64_t i)
{
	if (v != first)
		still &= ~(unsigned)CONSTANT;
	if (v != first + (float)i && v < EXACT)
		still &= ~(unsigned)NUMBERING;
	if (v != floorf(v) || (i > 0 && (v < EXACT ? v <= before : v < before)))
		still &= ~(unsigned)INCREASING;
	return still;
}

static void look_at(const struct look *l, uint8_t *still)
{
	size_t left = l->columns;

	for (size_t k = 0; k < l->columns; k++) {
		const float first = l->value[k];

		still[k] = (uint8_t)(by_name(l, k) | (first != 0 ? CONSTANT : 0));
		if (first != 0 && first != 1)
			still[k] &= (uint8_t)~NUMBERING;
	}
	for (uint64_t i = 0; i < l->rows && left > 0; i++) {
		const float *row = l->value + i * l->columns;
		const float *before = i ? row - l->columns : row;

		left = 0;
		for (size_t k = 0; k < l->columns; k++) {
			if (still[k])
				still[k] = (uint8_t)narrow(still[k], l->value[k], before[k], row[k],
							   i);
			left += still[k] != 0;
		}
	}
}

/* "column 2 (width), column 5 and 3 more" of those that are still `what`; how many there are. */
static size_t list(const struct look *l, const uint8_t *still, unsigned what, char out[SHOWN])
{
	size_t found = 0, shown = 0, n = 0;

	out[0] = 0;
	for (size_t k = 0; k < l->columns; k++) {
		const char *name = l->d->names.column ? l->d->names.column[k] : "";
		const struct tw_csv_field f = { .at = name, .bytes = strlen(name) };
		char text[TW_FIELD_SHOWN];

		if (!(still[k] & what))
			continue;
		if (shown == found++ && n + TW_FIELD_SHOWN + 48 < SHOWN) {
			n += (size_t)snprintf(out + n, SHOWN - n, "%scolumn %zu%s%s%s",
					      n ? ", " : "", place(l, k), name[0] ? " (" : "",
					      tw_field_show(&f, text), name[0] ? ")" : "");
			shown++;
		}
	}
	if (shown < found)
		snprintf(out + n, SHOWN - n, " and %zu more", found - shown);
	return found;
}

static enum tw_status warn_columns(const struct look *l, struct tw_error *why)
{
	struct tw_heap *heap = l->d->heap;
	uint8_t *still = heap->get(heap, l->columns);
	char columns[SHOWN];

	if (!still)
		return tw_data_keep_no_memory(why, l->facts->name, l->columns);
	look_at(l, still);
	if (list(l, still, NUMBERING, columns))
		tw_warn(l->facts->warnings,
			"%.100s: %s has no name and numbers the rows; take it out of the file "
			"(pandas: index=False), or the model learns from it",
			l->facts->name, columns);
	if (list(l, still, INCREASING, columns))
		tw_warn(l->facts->warnings,
			"%.100s: %s numbers the rows; take it out of the file, or the model "
			"learns from it",
			l->facts->name, columns);
	if (list(l, still, CONSTANT, columns))
		tw_warn(l->facts->warnings,
			"%.100s: %s: every row has the same value, so the model learns nothing "
			"from it; take it out of the file",
			l->facts->name, columns);
	heap->put(heap, still);
	return TW_OK;
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
		.columns = d->features,
		.value = table->samples.value,
	};

	if (!facts->warnings)
		return TW_OK;
	warn_header(&l);
	if (facts->classes)
		warn_classes(&l, words);
	else
		warn_values(&l);
	return l.rows >= LEAST ? warn_columns(&l, why) : TW_OK;
}
