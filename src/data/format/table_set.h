/* SPDX-License-Identifier: Apache-2.0 */
/* table_set.h - what sources of tables share: options, and a training and a test set from files. */
#ifndef TW_DATA_FORMAT_TABLE_SET_H
#define TW_DATA_FORMAT_TABLE_SET_H

#include "data/format/table.h"

struct tw_table_options {
	const char *file, *test_file, *label, *columns, *drop, *categories, *numbers;
	const char *weight, *hold_column;
	uint32_t task, missing, category_limit, hold_by;
};

extern const char *const tw_table_holds[], *const tw_table_tasks[];
/* Their rows, for a source whose options have them as the member f. */
#define TW_TABLE_LABEL_ROW(s, f)                                                                   \
	TW_OPTION_AS(                                                                              \
		s, f.label, "label", TW_WORDS, "last", NULL, 0, 0,                                 \
		"the column to predict: its name in the header, its number from 1, or last; a "    \
		"list of them where several values are predicted")
#define TW_TABLE_ROWS(s, f)                                                                        \
	TW_OPTION_CHOICE(                                                                          \
		s, f.task, "task", "auto", tw_table_tasks,                                         \
		"whether the label is a class (a word or whole number) or a value; auto: "         \
		"classes if it has words, or few whole numbers"),                                  \
		TW_OPTION_AS(s, f.columns, "columns", TW_WORDS, "all", NULL, 0, 0,                 \
			     "the columns to learn from, by name or number; all: every column "    \
			     "but the label",                                                      \
			     .example = "[age, job]"),                                             \
		TW_OPTION_AS(s, f.drop, "drop", TW_WORDS, "[]", NULL, 0, 0,                        \
			     "columns not to learn from, by name or number",                       \
			     .example = "[name, phone]"),                                          \
		TW_OPTION_AS(s, f.categories, "categories", TW_WORDS, "[]", NULL, 0, 0,            \
			     "columns that are categories although they have numbers",             \
			     .example = "[zip]"),                                                  \
		TW_OPTION_AS(                                                                      \
			s, f.numbers, "numbers", TW_WORDS, "[]", NULL, 0, 0,                       \
			"columns that are numbers to learn from, although they number the rows",   \
			.example = "[id]"),                                                        \
		TW_OPTION_AS(s, f.category_limit, "category_limit", TW_U32, "50", "words", 1,      \
			     100000, "a column with more different words than this is not read"),  \
		TW_OPTION_CHOICE(                                                                  \
			s, f.missing, "missing", "mean", tw_missing_names,                         \
			"what a missing number becomes: the mean or median of the training set, "  \
			"0, or the mean with another input that is 1 (indicator); or the row is "  \
			"left out (drop), or the table refused"),                                  \
		TW_OPTION_AS(s, f.weight, "weight", TW_TEXT, "", NULL, 0, 0,                       \
			     "a column of weights: how much a training sample counts; divided by " \
			     "their mean "                                                         \
			     "over the training set, and no input"),                               \
		TW_OPTION_CHOICE(                                                                  \
			s, f.hold_by, "hold.by", "random", tw_table_holds,                         \
			"how validation and test sets are held out: at random; the same share of " \
			"each class; as a column says (train, validation, test); rows with the "   \
			"same word in a column together (group); the last ones by a column "       \
			"(time); or the test set has a file (test_file)"),                         \
		TW_OPTION_AS(s, f.hold_column, "hold.column", TW_TEXT, "", NULL, 0, 0,             \
			     "the column of hold.by: column, group or time")

/* The files of a source. */
struct tw_table_files {
	const struct tw_table_options *options;
	const char *what; /* "a CSV file", for sentences */
	enum tw_header header;
	char separator;
	bool header_is_no_line; /* the first line of the file is the first row behind it */
	bool series; /* the table that `convert` makes is one of series (series_rows.h) */
	/* From the file's text to that of a table, with a zero byte behind it: memory of the heap
	 * takes the place of *text, which is the caller's, or NULL, if it fails, too.  NULL: it
	 * is one. */
	enum tw_status (*convert)(struct tw_heap *heap, const struct tw_table_options *options,
				  const char *name, char **text, size_t *bytes,
				  struct tw_error *why);
};

/* As `open` of a source (data/source.h). */
enum tw_status tw_table_set_open(const struct tw_table_files *files,
				 const struct tw_source_site *site, struct tw_data *out,
				 struct tw_error *why);

#endif
