/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a whole CSV file as rows of raw values (data/columns.h), with labels or targets.
 *
 * The first file (TW_TABLE_TRAIN) decides what there is to know: columns, their names and types,
 * classes.  Every other file is matched with it: by name where both have a header, else by
 * place. */
#ifndef TW_DATA_FORMAT_TABLE_H
#define TW_DATA_FORMAT_TABLE_H

#include "data/format/csv.h"
#include "data/source.h"

enum tw_header { TW_HEADER_AUTO, TW_HEADER_YES, TW_HEADER_NO };

enum tw_table_use {
	TW_TABLE_TRAIN,   /* all columns but the label are features */
	TW_TABLE_TEST,    /* a test set of the same job: both files have a header or none has */
	TW_TABLE_SCORE,   /* rows for a model; each has its answer */
	TW_TABLE_PREDICT, /* rows for a model; answers may be missing or unknown */
};

enum tw_task { TW_TASK_AUTO, TW_TASK_CLASSES, TW_TASK_VALUES };

/* TRAIN: which columns are read, and as what.  Lists are "[a, b]" or one word; a word is a name in
 * the header, or a number from 1; "": none. */
struct tw_table_wishes {
	const char *label; /* also "last" */
	enum tw_task task;
	const char *columns; /* to read; "all" */
	const char *drop, *categories, *numbers;
	bool numeric;       /* all columns but the label are numbers to learn from */
	uint32_t limit;     /* most words of a category */
	const char *weight; /* the column of weights; "": none */
	enum tw_hold hold;
	const char *hold_column; /* COLUMN, GROUP, TIME: its column */
	enum tw_missing missing;
};

/* How the file is to be read. */
struct tw_table_facts {
	const char *name; /* of the file, for sentences */
	enum tw_table_use use;
	char separator;
	enum tw_header header;
	bool header_is_no_line;               /* of the file, whose first line is the next row */
	const struct tw_table_wishes *wishes; /* TRAIN */
	bool classes; /* the label names a class; else it is a number.  TRAIN: the wishes say it */
	struct tw_warnings *warnings, *notes;    /* NULL: nobody listens */
	const struct tw_data_listener *listener; /* NULL: nobody */
};

/* What came of it; memory of the data set. */
struct tw_table {
	struct tw_samples samples; /* with labels (or targets) in any case; 0 where unknown */
	bool header;               /* the first row was one */
	bool classes;              /* there are labels, not targets */
	bool numbered; /* the first row was guessed to be data, and alone counts: 0, 1, 2, ... */
	const uint8_t *known; /* for each row: its answer is known; NULL: there are none */
	uint64_t answers;     /* rows whose answer is known */
	const double *key;    /* TRAIN: what rows are held out by; NULL: nothing */
	uint64_t dropped;     /* rows that lack a value (missing: drop) */
	/* SCORE and PREDICT: columns that the model does not know, as printable UTF-8.  Cell k of
	 * row i is cell[i * extras + k]; it points into `text`. */
	uint32_t extras;
	const char *const *extra; /* their names, NULL behind the last */
	const char **cell;
};

/* Read `text` (bytes of it, and a zero byte behind; it changes).
 * TRAIN: sets d->features, shape, columns and names; new words go to `words`, labels are words'
 * numbers; the text must outlive `words`.
 * Others: d->columns, classes, targets and names say what is accepted, and `words` are the names
 * of the classes in their order (tw_words_names).  The text must outlive out->cell. */
enum tw_status tw_table_read(const struct tw_table_facts *facts, char *text, size_t bytes,
			     struct tw_words *words, struct tw_data *d, struct tw_table *out,
			     struct tw_error *why);

/* Say what is odd about a training file that was read; `words` as it left them. */
enum tw_status tw_table_warn(const struct tw_table_facts *facts, const struct tw_table *table,
			     const struct tw_words *words, const struct tw_data *d,
			     struct tw_error *why);

/* The separator of columns as users write it: one character, or tab. */
enum tw_status tw_separator_parse(const char *text, char *out, struct tw_error *why);

#endif
