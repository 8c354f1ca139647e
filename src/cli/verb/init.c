/* SPDX-License-Identifier: Apache-2.0 */
/* init.c - thalweg init: a job for a table. */
#include "cli/query_output.h"
#include "cli/signals.h"
#include "cli/terminal.h"

#include <stdio.h>

struct init_flags {
	const char *label, *to;
	bool force, quick, json;
};

static void print_all(const json_t *o, const char *name, const char *label)
{
	const json_t *sentence;
	size_t k;

	json_array_foreach(json_object_get(o, name), k, sentence)
		printf("%-12s %s\n", label, json_string_value(sentence));
}

static void print_init(const json_t *o)
{
	const char *to = json_string_value(json_object_get(o, "to"));

	print_all(json_object_get(o, "data"), "notes", "note");
	print_all(json_object_get(o, "data"), "warnings", "warning");
	print_all(json_object_get(o, "trial"), "notes", "note");
	printf("%-12s %s; train it with: thalweg train %s\n", "job", to, to);
}

static void show(void *arg, const char *text)
{
	tw_terminal_line(arg, text);
}

static int init(const struct tw_call *call)
{
	const struct init_flags *f = call->flags;
	const struct tw_init_request request = {
		.data = call->word[0],
		.label = f->label,
		.to = f->to,
		.force = f->force,
		.quick = f->quick,
		.show = call->terminal->tty && !call->quiet ? show : NULL,
		.show_arg = call->terminal,
	};
	enum tw_status st;
	struct tw_error why = { .status = TW_OK };
	json_t *o = NULL;

	tw_signals_say("thalweg: interrupted before the job was written\n");
	st = tw_query_init(&request, &o, &why);
	tw_signals_early(false); /* nothing is left to do that could be lost */
	tw_terminal_clear(call->terminal);
	if (st != TW_OK)
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
	TW_FLAG(struct init_flags, quick, "quick", TW_BOOL, "false", NULL, 0, 0,
		"try no models: write the usual one, two hidden layers"),
	TW_FLAG(struct init_flags, json, "json", TW_BOOL, "false", NULL, 0, 0,
		"print the result as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg init pumps.csv --label state", "write pumps.yaml" },
	{ "thalweg init pumps.csv --label state --to jobs/pumps.yaml", "write it elsewhere" },
	{ "thalweg init pumps.csv --label state --quick", "write it without trying models" },
	{ 0 },
};

const struct tw_verb tw_verb_init = {
	.name = "init",
	.words = "PATH",
	.help = "write a job for a table",
	.about =
		"Looks at a CSV file, and writes a job that predicts one of its columns: what the\n"
		"columns are found to be, and a network, a rule and a schedule.  Small tables\n"
		"need different ones, so it tries a few: each is trained on four fifths of the\n"
		"rows and scored on the last fifth, five times, and the least loss is chosen.\n"
		"Rows that the job tests on are not looked at.  Tables that are too small or too\n"
		"large for that get the usual two hidden layers, and so does --quick.  Change the\n"
		"job as you like.  A job that names the file and the column in its section data,\n"
		"and nothing else, trains the usual model.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct init_flags),
	.least = 1,
	.most = 1,
	.works = true,
	.run = init,
};
