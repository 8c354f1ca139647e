/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a whole CSV file as rows of floats and a column of labels or targets. */
#ifndef TW_DATA_TABLE_H
#define TW_DATA_TABLE_H

#include "data/csv.h"
#include "data/source.h"

enum tw_header { TW_HEADER_AUTO, TW_HEADER_YES, TW_HEADER_NO };

/* How the file is to be read. */
struct tw_table_facts {
	const char *name; /* of the file, for sentences */
	char separator;
	enum tw_header header;
	const char *label; /* "last", a number from 1, or a name in the header */
	bool classes;      /* the label names a class; else it is a number */
	/* A test file: the words and shape are those of the training file. */
	bool test;
};

/* Read `text` (bytes of it; it changes and must outlive `words`) into *s, with memory of `d`.  For
 * a training file d->features is set and new words go to `words`; labels are words' numbers.  For
 * a test file all must be known. */
enum tw_status tw_table_read(const struct tw_table_facts *facts, char *text, size_t bytes,
			     struct tw_words *words, struct tw_data *d, struct tw_samples *s,
			     struct tw_error *why);

#endif
