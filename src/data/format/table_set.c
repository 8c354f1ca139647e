/* SPDX-License-Identifier: Apache-2.0 */
/* table_set.c - a training set and a test set from files that are tables. */
#include "data/format/table_set.h"

#include "data/data_memory.h"
#include "data/input.h"

#include <inttypes.h>
#include <stdio.h>

const char *const tw_table_holds[] = {
	[TW_HOLD_RANDOM] = "random",
	[TW_HOLD_CLASS] = "class",
	[TW_HOLD_COLUMN] = "column",
	[TW_HOLD_GROUP] = "group",
	[TW_HOLD_TIME] = "time",
	[TW_HOLD_FILE] = "file",
	NULL,
};
const char *const tw_table_tasks[] = { "auto", "classes", "values", NULL };

/* The text of a table, from a file of any kind. */
static enum tw_status whole_file(const struct tw_table_files *f, const struct tw_source_site *site,
				 const char *name, char **text, size_t *bytes, struct tw_error *why)
{
	struct tw_input *in = NULL;
	enum tw_status st = tw_input_open(site->heap, site->base, name, &in, why);

	if (st != TW_OK)
		return st;
	tw_input_listen(in, site->listener);
	st = tw_input_all(in, text, bytes, why);
	tw_input_close(in);
	if (st != TW_OK || !f->convert)
		return st;
	st = f->convert(site->heap, f->options, name, text, bytes, why);
	if (st != TW_OK) {
		site->heap->put(site->heap, *text);
		*text = NULL;
	}
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
		return tw_data_keep_no_memory(why, "classes", d->classes * each);
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
		return tw_data_keep_no_memory(why, "classes", bytes);
	d->classes = tw_words_rank(words, rank + words->count, rank);
	for (uint64_t i = 0; i < d->train.count; i++)
		label[i] = rank[label[i]];
	st = keep_classes(words, rank, d, why);
	d->heap->put(d->heap, rank);
	return st;
}

static enum tw_status read_train(const struct tw_table_files *f, const struct tw_source_site *site,
				 struct tw_table_facts *facts, struct tw_data *out,
				 struct tw_error *why)
{
	struct tw_table table = { 0 };
	struct tw_words words;
	char *text = NULL;
	size_t bytes;
	enum tw_status st = whole_file(f, site, f->options->file, &text, &bytes, why);

	if (st != TW_OK)
		return st;
	tw_words_init(&words, site->heap, TW_CLASSES_MAX);
	facts->name = f->options->file;
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

static enum tw_status read_test(const struct tw_table_files *f, const struct tw_source_site *site,
				struct tw_table_facts *facts, struct tw_data *out,
				struct tw_error *why)
{
	struct tw_table table = { 0 };
	struct tw_words words;
	char *text = NULL;
	size_t bytes;
	enum tw_status st = whole_file(f, site, f->options->test_file, &text, &bytes, why);

	if (st != TW_OK)
		return st;
	tw_words_init(&words, site->heap, TW_CLASSES_MAX);
	facts->name = f->options->test_file;
	facts->use = TW_TABLE_TEST;
	if (facts->classes && tw_words_names(&words, out->names.answer) != TW_OK)
		st = tw_data_keep_no_memory(why, "classes", out->classes);
	if (st == TW_OK)
		st = tw_table_read(facts, text, bytes, &words, out, &table, why);
	out->test = table.samples;
	tw_words_release(&words);
	site->heap->put(site->heap, text);
	return st;
}

enum tw_status tw_table_set_open(const struct tw_table_files *f, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct tw_table_options *o = f->options;
	const struct tw_table_wishes wishes = {
		.label = f->series ? "last" : o->label, /* where series_rows.c puts it */
		.task = (enum tw_task)o->task,
		.columns = o->columns,
		.drop = f->series ? "[]" : o->drop,
		.numeric = f->series,
		.categories = o->categories,
		.numbers = o->numbers,
		.limit = o->category_limit,
		.missing = (enum tw_missing)o->missing,
		.weight = o->weight,
		.hold = (enum tw_hold)o->hold_by,
		.hold_column = o->hold_column,
	};
	struct tw_table_facts facts = {
		.header = f->header,
		.separator = f->separator,
		.header_is_no_line = f->header_is_no_line,
		.wishes = &wishes,
		.warnings = site->warnings,
		.notes = site->notes,
		.listener = site->listener,
	};
	enum tw_status st;

	if (!o->file || !o->file[0])
		return tw_fail(why, TW_BAD_INPUT, "file: must be given: %s", f->what);
	if (o->hold_by == TW_HOLD_FILE && !(o->test_file && o->test_file[0]))
		return tw_fail(why, TW_BAD_INPUT,
			       "hold.by: file needs a file of test samples; give test_file");
	out->kind = TW_VALUE_F32;
	st = read_train(f, site, &facts, out, why);
	if (st == TW_OK && o->hold_by == TW_HOLD_CLASS && !out->classes)
		st = tw_fail(why, TW_BAD_INPUT,
			     "hold.by: class needs classes, and %.200s predicts values", o->file);
	if (st == TW_OK && o->test_file && o->test_file[0])
		st = read_test(f, site, &facts, out, why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}
