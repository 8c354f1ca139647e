/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - tables with one or more columns that are to be predicted: a class, or values. */
#include "data/format/table_set.h"

struct options {
	struct tw_table_options table;
	const char *separator;
	uint32_t header;
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
	TW_OPTION_END,
};

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	struct tw_table_files files = {
		.options = &o->table,
		.what = "a CSV file",
		.header = (enum tw_header)o->header,
	};
	const enum tw_status st = tw_separator_parse(o->separator, &files.separator, why);

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
