/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - what the columns of a table are, and the inputs that a network gets of them.
 *
 * A reader leaves one float for a number or a category (the number of its word, NAN: missing, -1: a
 * word that is not known) and several for a date.  These are the *raw* values.  The inputs are made
 * of them after the split, by what the training set says: means of missing values, the words that
 * have an input.  A model card keeps all of it, so that other rows become inputs in the same
 * way. */
#ifndef TW_DATA_COLUMNS_H
#define TW_DATA_COLUMNS_H

#include "base/status.h"
#include "data/format/date.h"

struct tw_data;
struct tw_samples;
struct tw_warnings;

enum tw_column_type {
	TW_COLUMN_NUMBER,
	TW_COLUMN_CATEGORY, /* an input for each word, and one for all others and missing ones */
	TW_COLUMN_DATE,     /* an input for each part */
	/* These are not read. */
	TW_COLUMN_TEXT,       /* words that are nearly all different */
	TW_COLUMN_CONSTANT,   /* words that are all the same, or nothing */
	TW_COLUMN_IDENTIFIER, /* a number or word for each row */
	TW_COLUMN_DROPPED,    /* as the job says */
};
extern const char *const tw_column_types[]; /* "number"; NULL at the end */

enum tw_missing {
	TW_MISSING_MEAN,
	TW_MISSING_MEDIAN,
	TW_MISSING_ZERO,
	TW_MISSING_INDICATOR, /* the mean, and an input that says so */
	TW_MISSING_DROP,      /* a row that lacks a value is left out */
	TW_MISSING_REFUSE,
};
extern const char *const tw_missing_names[]; /* "mean"; NULL at the end */

struct tw_column {
	const char *name; /* in the header; NULL: there is none */
	enum tw_column_type type;
	uint32_t place;           /* in the training file, from 1 */
	bool has_time;            /* DATE: the hour is a part */
	enum tw_date_order order; /* DATE */
	bool constant;            /* NUMBER: it is the same in all rows of the training file */
	bool indicator;           /* there is an input that is 1 where it is missing */
	/* CATEGORY: the words in their order, NULL behind the last.  A reader of the training file
	 * lists all that it has; after the split those of the training set are left. */
	const char *const *word;
	uint32_t words;
	float fill[TW_DATE_PARTS]; /* what a missing number, or part of a date, becomes */
	uint64_t missing;          /* in the training set; for people */
	uint64_t distinct;         /* words of a column that is not read; for people */
};

struct tw_columns {
	struct tw_column *column; /* in the order of the training file, without the label's */
	uint32_t count;
	bool named;   /* the training file has a header */
	uint32_t all; /* columns of the training file, with the label's */
	/* Places of the columns to predict, from 1. */
	const uint32_t *label;
	uint32_t labels;
	enum tw_missing missing;
	uint32_t raws; /* floats of a row as it is read */
};

static inline bool tw_column_is_read(const struct tw_column *c)
{
	return c->type <= TW_COLUMN_DATE;
}
/* Floats of a column as it is read, and inputs that are made of it. */
uint32_t tw_column_raws(const struct tw_column *c);
uint64_t tw_column_inputs(const struct tw_column *c);
/* All inputs of a row. */
uint64_t tw_columns_inputs(const struct tw_columns *c);

/* Decide by d->train what inputs d->columns become, and make them of the raw values of all sets:
 * sets features, shape, the features' names and d->as_is.  Says in `notes` what was done about
 * missing values. */
enum tw_status tw_columns_fit(struct tw_data *d, struct tw_warnings *notes, struct tw_error *why);
/* Make inputs of the raw values of a set that was read for a model with such columns; d->features
 * are theirs.  *unknown: words that have no input, *missing: values that are missing. */
enum tw_status tw_columns_encode(struct tw_data *d, const struct tw_columns *columns,
				 struct tw_samples *s, uint64_t *unknown, uint64_t *missing,
				 struct tw_error *why);

#endif
