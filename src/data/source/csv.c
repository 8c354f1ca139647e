/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - tables with one or more columns that are to be predicted: a class, or values. */
#include "data/format/series_rows.h"
#include "data/format/table_set.h"

#include <string.h>

struct options {
	struct tw_table_options table;
	const char *separator, *group, *time;
	uint32_t header, positions;
};

static const char *const headers[] = { "auto", "yes", "no", NULL };

static const struct tw_option rows[] = {
	TW_OPTION_AS(struct options, table.file, "file", TW_TEXT, NULL, NULL, 0, 0,
		     "CSV file of the training samples, gzipped or not"),
	TW_OPTION_AS(struct options, table.test_file, "test_file", TW_TEXT, "", NULL, 0, 0,
		     "CSV file of the test samples, matched by column names; without it the share "
		     "`test` of the training file is held out"),
	TW_TABLE_LABEL_ROW(struct options, table),
	TW_OPTION_CHOICE(struct options, header, "header", "auto", headers,
			 "whether the first row has the column names; auto: yes if it has no "
			 "numbers"),
	TW_OPTION(struct options, separator, TW_TEXT, ",", NULL, 0, 0,
		  "separator of the columns: one character, or tab"),
	TW_TABLE_ROWS(struct options, table),
	TW_OPTION(struct options, group, TW_TEXT, "", NULL, 0, 0,
		  "the column that says which series a row is of: rows with the same word are one "
		  "sample, whose label they share",
		  .example = "patient"),
	TW_OPTION(struct options, time, TW_TEXT, "", NULL, 0, 0,
		  "the column that rows of a series are ordered by: numbers, or dates such as "
		  "2024-05-31",
		  .example = "hour"),
	TW_OPTION(struct options, positions, TW_U32, "0", "rows", 0, 65536,
		  "rows that a series may have; 0: as many as the longest has", .example = "50"),
	TW_OPTION_END,
};

/* The options of the table as one of series has them; `table` must stay first. */
static enum tw_status to_series(struct tw_heap *heap, const struct tw_table_options *table,
				const char *name, char **text, size_t *bytes, struct tw_error *why)
{
	const struct options *o = (const struct options *)table;
	struct tw_series_wishes wishes = {
		.name = name,
		.group = o->group,
		.time = o->time,
		.label = table->label,
		.drop = table->drop,
		.positions = o->positions,
	};
	char *wide = NULL;
	size_t n = 0;
	enum tw_status st = tw_separator_parse(o->separator, &wishes.separator, why);

	if (st == TW_OK)
		st = tw_series_rows(heap, &wishes, *text, *bytes, &wide, &n, why);
	if (st != TW_OK)
		return st;
	heap->put(heap, *text);
	*text = wide;
	*bytes = n;
	return TW_OK;
}

static enum tw_status check_series(const struct options *o, struct tw_error *why)
{
	const struct tw_table_options *t = &o->table;
	const char *name = strcmp(t->columns, "all") != 0       ? "columns"
			   : strcmp(t->categories, "[]") != 0   ? "categories"
			   : strcmp(t->numbers, "[]") != 0      ? "numbers"
			   : *t->weight                         ? "weight"
			   : t->hold_by > TW_HOLD_CLASS         ? "hold.by"
			   : t->missing == TW_MISSING_INDICATOR ? "missing"
								: NULL;

	if (!*o->group || !*o->time)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%s: a table of series needs both group and time; name the column of "
			"%s, too",
			*o->group ? "time" : "group", *o->group ? "times" : "the series");
	if (name)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: is of tables whose rows are samples, and with group many rows "
			       "are one; leave this out",
			       name);
	if (*t->test_file && !o->positions)
		return tw_fail(why, TW_BAD_INPUT,
			       "positions: must be given beside test_file: the most rows that a "
			       "series of either file may have");
	return TW_OK;
}

/* Rows with the same word in a column are one sample. */
static enum tw_status open_series(const struct options *o, const struct tw_source_site *site,
				  struct tw_data *out, struct tw_error *why)
{
	const struct tw_table_files files = {
		.options = &o->table,
		.what = "a CSV file",
		.header = TW_HEADER_YES,
		.separator = ',',
		.convert = to_series,
		.series = true,
	};
	const enum tw_status st = check_series(o, why);

	return st == TW_OK ? tw_table_set_open(&files, site, out, why) : st;
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	struct tw_table_files files = {
		.options = &o->table,
		.what = "a CSV file",
		.header = (enum tw_header)o->header,
	};
	enum tw_status st;

	if (*o->group || *o->time)
		return open_series(o, site, out, why);
	if (o->positions)
		return tw_fail(why, TW_BAD_INPUT,
			       "positions: is of series; give group and time, or leave this out");
	st = tw_separator_parse(o->separator, &files.separator, why);
	return st == TW_OK ? tw_table_set_open(&files, site, out, why) : st;
}

#define HELD_OUT  "batch: 32, class_weights: auto, validation: 0.15, evaluate: validation"
#define ALL_ROWS  "batch: 32, class_weights: auto"
#define MANY_ROWS "batch: 128, class_weights: auto"
#define LAYERS_2                                                                                   \
	"model:    {name: mlp, hidden: [100, 100], activation: silu}  # two hidden layers\n"
#define BESIDE                                                                                     \
	"model:    {name: mlp, hidden: [100], activation: silu, shortcut: true}  # beside a "      \
	"linear model\n"
#define LINEAR "model:    {name: mlp, hidden: []}  # no hidden layer: a linear model\n"
#define LITTLE_DECAY                                                                               \
	"# it has few parameters: large batches, a large rate, little decay, and many epochs\n"    \
	"update:   {rule: adamw, rate: 0.1, decay: 0.02, schedule: {kind: cosine}}\n"
#define DECAY_OF(decay)                                                                            \
	"# under a strong decay the hidden layer does little where there is little to learn\n"     \
	"update:   {rule: adamw, rate: 0.005, decay: " decay ", schedule: {kind: cosine}}\n"
#define ONE_THREAD "cluster:  {workers: 1}  # one thread; more divide each epoch\n"
#define EPOCHS(n)                                                                                  \
	"# no rows are held out for validation: all of the epochs, and the test set scored once\n" \
	"train:    {epochs: " n ", evaluate: " n "}\n"
#define STRONG_DECAY                                                                               \
	"# a strong weight decay: tables are small\n"                                              \
	"update:   {rule: adamw, rate: 0.005, decay: 1.5, schedule: {kind: cosine}}\n"

static const struct tw_source_model models[] = {
	{ "two hidden layers",
	  LAYERS_2
	  "# the best evaluation by the validation set, one every 15 epochs: of many, the "
	  "best is\n"
	  "# often luck; two that are no better end the run\n"
	  "train:    {epochs: 60, evaluate: 15, keep: best, patience: 2}\n" STRONG_DECAY ONE_THREAD,
	  HELD_OUT },
	/* those that are tried */
	{ "two hidden layers", LAYERS_2 EPOCHS("60") STRONG_DECAY ONE_THREAD, ALL_ROWS },
	{ "a linear model", LINEAR EPOCHS("120") LITTLE_DECAY ONE_THREAD, MANY_ROWS },
	{ "a hidden layer beside a linear model with decay 5",
	  BESIDE EPOCHS("60") DECAY_OF("5") ONE_THREAD, ALL_ROWS },
	{ "a hidden layer beside a linear model with decay 3",
	  BESIDE EPOCHS("60") DECAY_OF("3") ONE_THREAD, ALL_ROWS },
	{ 0 },
};

const struct tw_source tw_source_csv = {
	.name = "csv",
	.help = "tables: columns of numbers, words or dates, and one or more to predict",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".csv" }, { ".tsv", "separator: tab" }, { 0 } },
	.models = models,
	.splits = true,
	.test_option = "test_file",
	.open = open_files,
};
