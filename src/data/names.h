/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - what columns and classes are called, and how a table of such rows is written. */
#ifndef TW_DATA_NAMES_H
#define TW_DATA_NAMES_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_NAME_MOST 255u /* bytes of a name */

struct tw_data;
struct tw_csv_field;

/* Names that a source knows.  Each list has NULL behind its last name.  All of it is memory of the
 * data set (or constant), and every name passes tw_name_valid.  A column's name may be "" (pandas
 * writes its index so), a class's may not. */
struct tw_names {
	/* Of the features, data->features of them, all different; samples of rank 1 only.
	 * NULL: unknown, columns are known by their place. */
	const char *const *column;
	/* Of the classes (data->classes of them, all different, in the order of labels) or of the
	 * targets (data->targets).  NULL: unknown; a class is then called by its number from 0. */
	const char *const *answer;
	const char *label; /* the column that is predicted; NULL: unknown */
	/* How the table was written.  Its first row was a header where `column` is known. */
	char separator; /* between columns; 0: the samples are from no table */
	uint32_t place; /* column of the label in the table, from 1; 0: from no table */
};

extern const char *const tw_names_digits[]; /* "0" to "9" */

/* At most TW_NAME_MOST bytes of UTF-8 that may be shown as they are (base/printable.h). */
bool tw_name_valid(const char *text, size_t bytes);
extern const char tw_name_needed[]; /* the same as the end of a sentence */
/* What may not be shown becomes '?', byte by byte. */
void tw_name_print(char *text, size_t bytes);
/* A column's name as a header has it, made what it is called: no blanks around it, and a blank for
 * each tab and line end in it.  Changes the text that `f` points to. */
void tw_name_clean(struct tw_csv_field *f);
/* Copy `count` names into one piece of d's memory. */
enum tw_status tw_names_keep(struct tw_data *d, const struct tw_csv_field *name, uint64_t count,
			     const char *const **out, struct tw_error *why);
/* The same into small memory (data_memory.h): there may be any number of such lists. */
enum tw_status tw_names_keep_small(struct tw_data *d, const struct tw_csv_field *name,
				   uint64_t count, const char *const **out, struct tw_error *why);
/* Copy all of `from`: `columns` and `answers` names, where they are known.  Takes at most three
 * places of d's memory. */
enum tw_status tw_names_copy(struct tw_data *d, const struct tw_names *from, uint64_t columns,
			     uint64_t answers, struct tw_error *why);
/* What class or target k is called: its name, or else its number from 0, written to `out`. */
#define TW_NAME_NUMBER 16
const char *tw_name_answer(const struct tw_names *n, uint32_t k, char out[TW_NAME_NUMBER]);

#endif
