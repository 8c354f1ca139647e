/* SPDX-License-Identifier: Apache-2.0 */
/* series_rows.h - a table with a row for each time becomes one with a row for each series.
 *
 * Rows with the same word in the column `group` are one series, in the order of the column `time`.
 * Of it comes a row with how many rows it had, then all features of the first time, of the second
 * and so on, 0 behind the last, and the label, which all its rows share.  The columns are called
 *
 *	length of GROUP by TIME, x@1, y@1, x@2, y@2, ..., LABEL
 *
 * and that is all that a model card has to keep: from these names rows to predict are read in the
 * same way. */
#ifndef TW_DATA_FORMAT_SERIES_ROWS_H
#define TW_DATA_FORMAT_SERIES_ROWS_H

#include "data/columns.h"

#include "base/heap.h"

struct tw_series_wishes {
	const char *name; /* of the file, for sentences */
	char separator;
	const char *group, *time; /* columns, by name */
	const char *label;        /* by name; "last"; "": there is none */
	const char *drop;         /* "[a, b]": columns that are left out */
	/* Rows that a series may have; 0: as many as the longest has. */
	uint32_t positions;
	/* For a model: these features, whose label need not be there; the column `group` comes,
	 * too, so that people see which series is which. */
	const struct tw_columns *model;
};

/* Write the table as text, RFC 4180 with commas and a zero byte behind; *out is the heap's.
 * `text` changes. */
enum tw_status tw_series_rows(struct tw_heap *heap, const struct tw_series_wishes *wishes,
			      char *text, size_t bytes, char **out, size_t *out_bytes,
			      struct tw_error *why);

/* Features of each position, where these are columns of series; else 0. */
uint32_t tw_series_width(const struct tw_columns *columns);
/* Rows that a model of series reads.  *wide: the text is such rows already. */
enum tw_status tw_series_model_rows(struct tw_heap *heap, const struct tw_columns *columns,
				    const char *name, const char *label, char separator,
				    char **text, size_t *bytes, struct tw_error *why);

#endif
