/* SPDX-License-Identifier: Apache-2.0 */
/* json-lines.c - tables as lines of JSON: an object for each row. */
#include "data/format/json_rows.h"
#include "data/format/table_set.h"

struct options {
	struct tw_table_options table;
};

static const struct tw_option rows[] = {
	TW_OPTION_AS(struct options, table.file, "file", TW_TEXT, NULL, NULL, 0, 0,
		     "file of the training samples: each line is a JSON object, whose fields are "
		     "columns; gzipped or not"),
	TW_OPTION_AS(struct options, table.test_file, "test_file", TW_TEXT, "", NULL, 0, 0,
		     "file of the test samples, with the same fields; without it the share `test` "
		     "of the training samples is held out"),
	TW_TABLE_LABEL_ROW(struct options, table),
	TW_TABLE_ROWS(struct options, table),
	TW_OPTION_END,
};

static enum tw_status to_table(struct tw_heap *heap, const struct tw_table_options *options,
			       const char *name, char **text, size_t *bytes, struct tw_error *why)
{
	const struct tw_json_wishes wishes = {
		.name = name,
		.drop = options->drop,
		.columns = options->columns,
	};
	char *table = NULL;
	size_t n = 0;
	const enum tw_status st = tw_json_rows(heap, &wishes, *text, *bytes, &table, &n, why);

	heap->put(heap, *text);
	*text = table;
	*bytes = n;
	return st;
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	const struct tw_table_files files = {
		.options = &o->table,
		.what = "a file of lines of JSON",
		.header = TW_HEADER_YES,
		.separator = ',',
		.header_is_no_line = true,
		.convert = to_table,
	};

	return tw_table_set_open(&files, site, out, why);
}

const struct tw_source tw_source_json_lines = {
	.name = "json-lines",
	.help = "tables as lines of JSON: an object for each row, its fields are columns",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".jsonl" }, { ".ndjson" }, { 0 } },
	.splits = true,
	.test_option = "test_file",
	.open = open_files,
};
