/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - rows to predict or to score, for a model that is known by its facts alone: the data
 * that it was trained on need not be there. */
#ifndef TW_DATA_FORMAT_ROWS_H
#define TW_DATA_FORMAT_ROWS_H

#include "data/data.h"
#include "data/warn.h"

/* What a model was trained on.  Copied where needed: it may go after tw_rows_open. */
struct tw_rows_facts {
	uint32_t rank, shape[TW_DATA_RANK]; /* of a sample, as in tw_data */
	enum tw_value kind;                 /* of the training samples; warnings only */
	uint32_t classes, targets;          /* one of them is 0 */
	struct tw_names names;
	const struct tw_columns *columns; /* of a table; NULL: all features are numbers */
};

struct tw_rows_request {
	struct tw_heap *heap;
	/* CSV, NPY, IDX, or one PNG or JPEG image, which is cut to the model's size; gzipped or
	 * not.  "-" is standard input.  A pipe or /dev/stdin is read to its end, at most the
	 * machine's memory. */
	const char *file;
	/* Instead of what `file` contains: CSV without a header, with all columns of the training
	 * file but the labels', in their order.  `file` is what sentences call it.  NULL: none. */
	const char *text;
	size_t bytes;
	/* File of the labels or values in NPY or IDX, which have them apart; NULL or "": none.
	 * A CSV file has them as a column. */
	const char *answers;
	const char *format; /* "csv", "npy", "idx" or "image"; NULL or "": as the first bytes say */
	/* Of CSV: one character or "tab"; NULL or "": tab for .tsv, else as in training, else a
	 * comma. */
	const char *separator;
	bool score; /* every row must have an answer that the model knows */
};

/* Rows, not normalised.  All of it is memory of `data`, so it dies with tw_data_close. */
struct tw_rows {
	/* The rows are data->test, and there are no other sets.  Shape, classes, targets and names
	 * are the model's; kind is the file's.  The caller sets scale and shift, from memory that
	 * lives as long or that tw_data_keep_room gave, before tw_data_fill.  The fingerprint is 0.
	 * Rows without an answer have label 0 and targets 0. */
	struct tw_data *data;
	uint64_t count;       /* rows, at least 1; row i was number i + 1 of the file */
	uint64_t answers;     /* rows whose answer is known; 0: the file has none */
	const uint8_t *known; /* for each row: is its answer known?  NULL if answers is 0 */
	/* Columns of a CSV file that the model does not know (an id, say), as printable UTF-8:
	 * column k of row i is cell[i * extras + k]. */
	uint32_t extras;
	const char *const *extra; /* their names, NULL behind the last */
	const char *const *cell;
	struct tw_warnings warnings; /* what the user should hear */
};

/* Read them.  TW_BAD_INPUT: the file is not what the model takes; the sentence has file, line and
 * column, or both counts of columns and the names that are missing.  TW_NO_MEMORY, TW_IO.
 * On failure *out is empty. */
enum tw_status tw_rows_open(const struct tw_rows_facts *facts,
			    const struct tw_rows_request *request, struct tw_rows *out,
			    struct tw_error *why);

#endif
