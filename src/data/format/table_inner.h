/* SPDX-License-Identifier: Apache-2.0 */
/* table_inner.h - a table while it is read: table.c has the rows, table_header.c the first one,
 * table_types.c what the columns are. */
#ifndef TW_DATA_FORMAT_TABLE_INNER_H
#define TW_DATA_FORMAT_TABLE_INNER_H

#include "data/format/table.h"
#include "data/warn.h"

/* Where a column goes: a number to the raw value of that number, or to one of these. */
#define TW_TO_COLUMN  (UINT32_MAX - 3) /* a category or a date: column which[k] of d->columns */
#define TW_TO_LABEL   (UINT32_MAX - 2) /* answer which[k] */
#define TW_TO_EXTRA   (UINT32_MAX - 1)
#define TW_TO_NOTHING UINT32_MAX /* not decided yet, or not read */

struct tw_table_reader {
	const struct tw_table_facts *facts;
	struct tw_csv csv;
	struct tw_words *words;
	bool whole; /* all words are whole numbers */
	struct tw_data *d;
	struct tw_table *out;
	struct tw_error *why;
	uint32_t columns;                   /* of this file */
	uint32_t labels;                    /* of them, those to predict */
	uint32_t *to, *which;               /* for each column: where its values go */
	uint32_t reads;                     /* columns of d->columns that are read */
	uint32_t raws;                      /* raw values of a row */
	uint32_t answers;                   /* targets of a row; 1 of a class */
	uint32_t *slot;                     /* for each column of d->columns: its first raw value */
	struct tw_words *word;              /* ... and the words of a category */
	float *row;                         /* the values of the row that is read */
	bool lacks;                         /* this row lacks a value, and is left out */
	bool unknown;                       /* this row lacks an answer */
	uint32_t weight_column, key_column; /* TRAIN, from 1; 0: none */
	float *value, *target, *weight;
	double *key;
	struct tw_words groups; /* the words of the column `key` */
	uint32_t *class;
	uint8_t *known;
	uint64_t rows, row_room, values, value_room, cells, cell_room;
};

/* TW_BAD_INPUT: the field is not accepted; `what` is. */
enum tw_status tw_table_wrong(const struct tw_table_reader *r, const struct tw_csv_field *f,
			      const char *what);
/* TW_BAD_INPUT: the row that the field ends has another number of columns. */
enum tw_status tw_table_ragged(const struct tw_table_reader *r, const struct tw_csv_field *f);
/* Is it a number that is out of range, or a word for a missing value?  No column is called so. */
bool tw_table_no_name(const struct tw_csv_field *f);
/* Is there nothing, or a word that says so?  `number`: where numbers are expected. */
bool tw_table_is_missing(const struct tw_csv_field *f, bool number);
/* From the first row: is it a header, which columns are labels, where does each column go?  Sets
 * r->labels, r->to, names (TRAIN), out->header, out->extra.  TRAIN: features are not decided. */
enum tw_status tw_table_match(struct tw_table_reader *r, struct tw_csv_field *row);
/* TRAIN, after that: look at all rows (the first is `row`) for what the columns are.  Sets
 * d->columns and out->classes.  The text stays as it is. */
enum tw_status tw_table_find_types(struct tw_table_reader *r, const struct tw_csv_field *row);
/* TRAIN: the columns of weights and keys; `row` are the names in the header. */
enum tw_status tw_table_find_roles(struct tw_table_reader *r, const struct tw_csv_field *row);
/* Words of a list "[a, b]", or one: the next of *at, without blanks; false: there is none. */
bool tw_list_next(const char **at, struct tw_csv_field *out);
/* The column that a word of a list names, from 1; `row` are the names in the header. */
enum tw_status tw_table_named(const struct tw_table_reader *r, const char *field,
			      const struct tw_csv_field *word, const struct tw_csv_field *row,
			      uint32_t *out);

static inline bool tw_table_for_model(const struct tw_table_reader *r)
{
	return r->facts->use >= TW_TABLE_SCORE;
}

#endif
