/* SPDX-License-Identifier: Apache-2.0 */
/* table_say.c - a value or a row of a table is refused: file, line, column, value, reason. */
#include "data/format/table_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* " (width)": what the column is called, where that is known. */
static const char *name_of(const struct tw_table_reader *r, char *out, size_t room)
{
	const struct tw_names *n = &r->d->names;
	const uint32_t k = r->csv.column - 1, to = r->to[k];
	const struct tw_columns *columns = r->d->columns;
	const char *name = NULL;
	char shown[TW_FIELD_SHOWN];

	if (to == TW_TO_LABEL)
		name = columns && columns->labels > 1 && n->answer ? n->answer[r->which[k]]
								   : n->label;
	else if (columns && (to < r->raws || to == TW_TO_COLUMN))
		name = columns->column[r->which[k]].name;
	out[0] = 0;
	if (name && name[0])
		snprintf(out, room, " (%s)",
			 tw_field_show(&(struct tw_csv_field){ .at = name, .bytes = strlen(name) },
				       shown));
	return out;
}

enum tw_status tw_table_wrong(const struct tw_table_reader *r, const struct tw_csv_field *f,
			      const char *what)
{
	char shown[TW_FIELD_SHOWN], name[80];

	name_of(r, name, sizeof name);
	if (f->bytes == 0)
		return tw_fail(r->why, TW_BAD_INPUT, "%s:%" PRIu64 ": column %u%s: is empty; %s",
			       r->csv.name, r->csv.line, r->csv.column, name, what);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:%" PRIu64 ": column %u%s: '%s' is not accepted; %s", r->csv.name,
		       r->csv.line, r->csv.column, name, tw_field_show(f, shown), what);
}

enum tw_status tw_table_ragged(const struct tw_table_reader *r, const struct tw_csv_field *f)
{
	if (f->last && r->csv.column == 1 && f->bytes == 0)
		return tw_fail(r->why, TW_BAD_INPUT,
			       "%s:%" PRIu64 ": is blank; blank lines are accepted at the end only",
			       r->csv.name, r->csv.line);
	return tw_fail(r->why, TW_BAD_INPUT,
		       "%s:%" PRIu64 ": has %s%u columns, but the first row has %u", r->csv.name,
		       r->csv.line, f->last ? "" : "more than ", r->csv.column, r->columns);
}
