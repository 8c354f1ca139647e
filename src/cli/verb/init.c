/* SPDX-License-Identifier: Apache-2.0 */
/* init.c - thalweg init: a job for a table. */
#include "cli/query_output.h"

#include <stdio.h>

struct init_flags {
	const char *label, *to;
	bool force, json;
};

static void print_init(const json_t *o)
{
	const json_t *notes = json_object_get(json_object_get(o, "data"), "notes"), *note;
	const char *to = json_string_value(json_object_get(o, "to"));
	size_t k;

	json_array_foreach(notes, k, note) printf("%-12s %s\n", "note", json_string_value(note));
	printf("%-12s %s; train it with: thalweg train %s\n", "job", to, to);
}

static int init(const struct tw_call *call)
{
	const struct init_flags *f = call->flags;
	const struct tw_init_request request = {
		.data = call->word[0],
		.label = f->label,
		.to = f->to,
		.force = f->force,
	};
	struct tw_error why = { .status = TW_OK };
	json_t *o = NULL;

	if (tw_query_init(&request, &o, &why) != TW_OK)
		return tw_query_failed(call, &why);
	return tw_query_show(o, f->json, print_init);
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct init_flags, label, "label", TW_TEXT, "", "COLUMN", 0, 0,
		"the column to predict, by its name or its number from 1 (default: the last)"),
	TW_FLAG(struct init_flags, to, "to", TW_TEXT, "", "FILE", 0, 0,
		"the job file (default: the table's name with .yaml, beside it)"),
	TW_FLAG(struct init_flags, force, "force", TW_BOOL, "false", NULL, 0, 0,
		"overwrite the job file"),
	TW_FLAG(struct init_flags, json, "json", TW_BOOL, "false", NULL, 0, 0,
		"print the result as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg init pumps.csv --label state", "write pumps.yaml" },
	{ "thalweg init pumps.csv --label state --to jobs/pumps.yaml", "write it elsewhere" },
	{ 0 },
};

const struct tw_verb tw_verb_init = {
	.name = "init",
	.words = "PATH",
	.help = "write a job for a table",
	.about =
		"Looks at a CSV file, and writes a job that predicts one of its columns: what the\n"
		"columns are found to be, and a network, a rule and a schedule that suit most\n"
		"tables.  Change it as you like.  A job that names the file and the\n"
		"column in its section data, and nothing else, trains the same.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct init_flags),
	.least = 1,
	.most = 1,
	.works = true,
	.run = init,
};
