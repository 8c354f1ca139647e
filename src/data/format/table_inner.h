/* SPDX-License-Identifier: Apache-2.0 */
/* table_inner.h - a table while it is read: table.c has the rows, table_header.c the first one. */
#ifndef TW_DATA_FORMAT_TABLE_INNER_H
#define TW_DATA_FORMAT_TABLE_INNER_H

#include "data/format/table.h"
#include "data/warn.h"

/* Where a column goes: to the feature of that number, or to one of these. */
#define TW_TO_LABEL   (UINT32_MAX - 2)
#define TW_TO_EXTRA   (UINT32_MAX - 1)
#define TW_TO_NOTHING UINT32_MAX /* not decided yet */

struct tw_table_reader {
	const struct tw_table_facts *facts;
	struct tw_csv csv;
	struct tw_words *words;
	bool whole; /* all words are whole numbers */
	struct tw_data *d;
	struct tw_table *out;
	struct tw_error *why;
	uint32_t columns, features;
	uint32_t label; /* its column, from 1; 0: there is none */
	uint32_t usual; /* the label's column in the training file, from 1 */
	uint32_t *to;   /* for each column: where its values go */
	float *row;     /* the values of the row that is read, in the order of features */
	float *value, *target;
	uint32_t *class;
	uint8_t *known;
	uint64_t rows, row_room, values, value_room, cells, cell_room;
};

/* TW_BAD_INPUT: the field is not accepted; `what` is. */
enum tw_status tw_table_wrong(const struct tw_table_reader *r, const struct tw_csv_field *f,
			      const char *what);
/* Is it a number that is out of range, or a word for a missing value?  No column is called so. */
bool tw_table_no_name(const struct tw_csv_field *f);
/* From the first row: is it a header, which column is the label, where does each column go?  Sets
 * r->label, r->to, names (TRAIN), out->header, out->extra. */
enum tw_status tw_table_match(struct tw_table_reader *r, struct tw_csv_field *row);

static inline bool tw_table_for_model(const struct tw_table_reader *r)
{
	return r->facts->use >= TW_TABLE_SCORE;
}

#endif
