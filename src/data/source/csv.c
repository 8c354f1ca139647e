/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - tables with one or more columns that are to be predicted: a class, or values. */
#include "data/input.h"
#include "data/data_memory.h"
#include "data/format/table.h"

#include <inttypes.h>
#include <stdio.h>

struct options {
	const char *file, *test_file, *label, *separator, *columns, *drop, *categories, *numbers;
	const char *weight, *hold_column;
	uint32_t header, task, missing, category_limit, hold_by;
};

static const char *const headers[] = { "auto", "yes", "no", NULL };
static const char *const holds[] = {
	[TW_HOLD_RANDOM] = "random",
	[TW_HOLD_CLASS] = "class",
	[TW_HOLD_COLUMN] = "column",
	[TW_HOLD_GROUP] = "group",
	[TW_HOLD_TIME] = "time",
	[TW_HOLD_FILE] = "file",
	NULL,
};
static const char *const tasks[] = { "auto", "classes", "values", NULL };

static const struct tw_option rows[] = {
	TW_OPTION(struct options, file, TW_TEXT, NULL, NULL, 0, 0,
		  "CSV file of the training samples, gzipped or not"),
	TW_OPTION(struct options, test_file, TW_TEXT, "", NULL, 0, 0,
		  "CSV file of the test samples, matched by column names; without it the share "
		  "`test` of the training file is held out"),
	TW_OPTION(struct options, label, TW_WORDS, "last", NULL, 0, 0,
		  "the column to predict: its name in the header, its number from 1, or last; a "
		  "list of them where several values are predicted"),
	TW_OPTION_CHOICE(struct options, header, "header", "auto", headers,
			 "whether the first row has the column names; auto: yes if it has no "
			 "numbers"),
	TW_OPTION(struct options, separator, TW_TEXT, ",", NULL, 0, 0,
		  "separator of the columns: one character, or tab"),
	TW_OPTION_CHOICE(struct options, task, "task", "auto", tasks,
			 "whether the label is a class (a word or whole number) or a value; auto: "
			 "classes if it has words, or few whole numbers"),
	TW_OPTION(struct options, columns, TW_WORDS, "all", NULL, 0, 0,
		  "the columns to learn from, by name or number; all: every column but the label",
		  .example = "[age, job]"),
	TW_OPTION(struct options, drop, TW_WORDS, "[]", NULL, 0, 0,
		  "columns not to learn from, by name or number", .example = "[name, phone]"),
	TW_OPTION(struct options, categories, TW_WORDS, "[]", NULL, 0, 0,
		  "columns that are categories although they have numbers", .example = "[zip]"),
	TW_OPTION(struct options, numbers, TW_WORDS, "[]", NULL, 0, 0,
		  "columns that are numbers to learn from, although they number the rows",
		  .example = "[id]"),
	TW_OPTION(struct options, category_limit, TW_U32, "50", "words", 1, 100000,
		  "a column with more different words than this is not read"),
	TW_OPTION_CHOICE(struct options, missing, "missing", "mean", tw_missing_names,
			 "what a missing number becomes: the mean or median of the training set, "
			 "0, or the mean with another input that is 1 (indicator); or the row is "
			 "left out (drop), or the table refused"),
	TW_OPTION(struct options, weight, TW_TEXT, "", NULL, 0, 0,
		  "a column of weights: how much a training sample counts; divided by their mean "
		  "over the training set, and no input"),
	TW_OPTION_CHOICE(struct options, hold_by, "hold.by", "random", holds,
			 "how validation and test sets are held out: at random; the same share of "
			 "each class; as a column says (train, validation, test); rows with the "
			 "same word in a column together (group); the last ones by a column "
			 "(time); or the test set has a file (test_file)"),
	TW_OPTION_AS(struct options, hold_column, "hold.column", TW_TEXT, "", NULL, 0, 0,
		     "the column of hold.by: column, group or time"),
	TW_OPTION_END,
};

static enum tw_status whole_file(const struct tw_source_site *site, const char *name, char **text,
				 size_t *bytes, struct tw_error *why)
{
	struct tw_input *in = NULL;
	enum tw_status st = tw_input_open(site->heap, site->base, name, &in, why);

	if (st != TW_OK)
		return st;
	tw_input_listen(in, site->listener);
	st = tw_input_all(in, text, bytes, why);
	tw_input_close(in);
	return st;
}

/* Classes that are whole numbers are called by their value: 7, whether the file says 07 or +7. */
#define NUMBER_ROOM 24

static enum tw_status keep_classes(const struct tw_words *words, const uint32_t *rank,
				   struct tw_data *d, struct tw_error *why)
{
	const bool whole = tw_words_whole(words);
	const size_t each = sizeof(struct tw_csv_field) + (whole ? NUMBER_ROOM : 0);
	struct tw_csv_field *name = d->heap->get(d->heap, d->classes * each);
	enum tw_status st;
	char *text;

	if (!name)
		return tw_data_keep_no_memory(why, "csv", d->classes * each);
	text = (char *)(name + d->classes);
	for (uint32_t i = 0; i < words->count; i++) {
		char *at = text + (size_t)rank[i] * NUMBER_ROOM;
		int64_t v = 0;

		name[rank[i]] = words->word[i];
		if (!whole || !tw_field_whole(&words->word[i], &v))
			continue;
		name[rank[i]] = (struct tw_csv_field){
			.at = at,
			.bytes = (size_t)snprintf(at, NUMBER_ROOM, "%" PRId64, v),
		};
	}
	st = tw_names_keep(d, name, d->classes, &d->names.answer, why);
	d->heap->put(d->heap, name);
	return st;
}

/* From numbers of words to classes in sorted order. */
static enum tw_status rank_labels(const struct tw_words *words, struct tw_data *d,
				  struct tw_error *why)
{
	const size_t bytes = 2 * (size_t)words->count * sizeof(uint32_t);
	uint32_t *rank = d->heap->get(d->heap, bytes);
	uint32_t *label = (uint32_t *)d->train.label; /* our own memory, not yet shown */
	enum tw_status st;

	if (!rank)
		return tw_data_keep_no_memory(why, "csv", bytes);
	d->classes = tw_words_rank(words, rank + words->count, rank);
	for (uint64_t i = 0; i < d->train.count; i++)
		label[i] = rank[label[i]];
	st = keep_classes(words, rank, d, why);
	d->heap->put(d->heap, rank);
	return st;
}

static enum tw_status read_train(const struct options *o, const struct tw_source_site *site,
				 struct tw_table_facts *facts, struct tw_data *out,
				 struct tw_error *why)
{
	struct tw_table table = { 0 };
	struct tw_words words;
	char *text = NULL;
	size_t bytes;
	enum tw_status st = whole_file(site, o->file, &text, &bytes, why);

	if (st != TW_OK)
		return st;
	tw_words_init(&words, site->heap, TW_CLASSES_MAX);
	facts->name = o->file;
	st = tw_table_read(facts, text, bytes, &words, out, &table, why);
	out->train = table.samples;
	if (st == TW_OK)
		st = tw_table_warn(facts, &table, &words, out, why);
	facts->classes = table.classes;
	out->hold = facts->wishes->hold;
	out->hold_key = table.key;
	if (st == TW_OK && table.classes)
		st = rank_labels(&words, out, why);
	else if (st == TW_OK)
		out->targets = out->columns->labels;
	tw_words_release(&words);
	site->heap->put(site->heap, text);
	return st;
}

static enum tw_status read_test(const struct options *o, const struct tw_source_site *site,
				struct tw_table_facts *facts, struct tw_data *out,
				struct tw_error *why)
{
	struct tw_table table = { 0 };
	struct tw_words words;
	char *text = NULL;
	size_t bytes;
	enum tw_status st = whole_file(site, o->test_file, &text, &bytes, why);

	if (st != TW_OK)
		return st;
	tw_words_init(&words, site->heap, TW_CLASSES_MAX);
	facts->name = o->test_file;
	facts->use = TW_TABLE_TEST;
	if (facts->classes && tw_words_names(&words, out->names.answer) != TW_OK)
		st = tw_data_keep_no_memory(why, "csv", out->classes);
	if (st == TW_OK)
		st = tw_table_read(facts, text, bytes, &words, out, &table, why);
	out->test = table.samples;
	tw_words_release(&words);
	site->heap->put(site->heap, text);
	return st;
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	const struct tw_table_wishes wishes = {
		.label = o->label,
		.task = (enum tw_task)o->task,
		.columns = o->columns,
		.drop = o->drop,
		.categories = o->categories,
		.numbers = o->numbers,
		.limit = o->category_limit,
		.missing = (enum tw_missing)o->missing,
		.weight = o->weight,
		.hold = (enum tw_hold)o->hold_by,
		.hold_column = o->hold_column,
	};
	struct tw_table_facts facts = {
		.header = (enum tw_header)o->header,
		.wishes = &wishes,
		.warnings = site->warnings,
		.notes = site->notes,
		.listener = site->listener,
	};
	enum tw_status st;

	if (!o->file || !o->file[0])
		return tw_fail(why, TW_BAD_INPUT, "file: must be given: a CSV file");
	if (o->hold_by == TW_HOLD_FILE && !(o->test_file && o->test_file[0]))
		return tw_fail(why, TW_BAD_INPUT,
			       "hold.by: file needs a file of test samples; give test_file");
	st = tw_separator_parse(o->separator, &facts.separator, why);
	if (st != TW_OK)
		return st;
	out->kind = TW_VALUE_F32;
	st = read_train(o, site, &facts, out, why);
	if (st == TW_OK && o->hold_by == TW_HOLD_CLASS && !out->classes)
		st = tw_fail(why, TW_BAD_INPUT,
			     "hold.by: class needs classes, and %.200s predicts values", o->file);
	if (st == TW_OK && o->test_file && o->test_file[0])
		st = read_test(o, site, &facts, out, why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_csv = {
	.name = "csv",
	.help = "tables: columns of numbers, words or dates, and one or more to predict",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".csv" }, { ".tsv", "separator: tab" }, { 0 } },
	.usual =
		"model:    {name: mlp, hidden: [100, 100], activation: silu}  # two hidden layers\n"
		"# the best evaluation by the validation set, one every 15 epochs: of many, the "
		"best is\n"
		"# often luck; two that are no better end the run\n"
		"train:    {epochs: 60, evaluate: 15, keep: best, patience: 2}\n"
		"# a strong weight decay: tables are small\n"
		"update:   {rule: adamw, rate: 0.005, decay: 1.5, schedule: {kind: cosine}}\n"
		"cluster:  {workers: 1}  # one thread; more divide each epoch\n",
	.usual_data = "batch: 32, class_weights: auto, validation: 0.15, evaluate: validation",
	.splits = true,
	.test_option = "test_file",
	.open = open_files,
};
