/* SPDX-License-Identifier: Apache-2.0 */
/* predict.c - thalweg predict PATH --data FILE: what a trained network says of rows. */
#include "cli/query_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct predict_flags {
	struct tw_texts set;
	bool json, force, raw;
	uint32_t input, format;
	const char *data, *answers, *separator, *to, *job;
};

static const char *const inputs[] = { "auto", "csv", "npy", "idx", "image", NULL };
static const char *const formats[] = { "auto", "csv", "jsonl", "npy", NULL };

static void print(const json_t *r)
{
	const long long answers = (long long)json_integer_value(json_object_get(r, "answers"));

	printf("%-12s %s\n", "checkpoint", json_string_value(json_object_get(r, "checkpoint")));
	printf("%-12s %s\n", "written", json_string_value(json_object_get(r, "to")));
	printf("%-12s %lld", "rows", (long long)json_integer_value(json_object_get(r, "rows")));
	if (answers)
		printf(", %lld with an answer", answers);
	putchar('\n');
}

static enum tw_status check(const struct predict_flags *f, const char *to, struct tw_error *why)
{
	if (!to && f->json)
		return tw_fail(why, TW_BAD_INPUT,
			       "--json: the rows go to standard output; write them to a file with "
			       "--to FILE, or as JSON with --format jsonl");
	if (!to && f->force)
		return tw_fail(why, TW_BAD_INPUT, "--force needs --to FILE");
	if (f->set.count && !*f->job)
		return tw_fail(why, TW_BAD_INPUT,
			       "--set needs --job JOB: it changes a field "
			       "of that job");
	return TW_OK;
}

static int predict(const struct tw_call *call)
{
	const struct predict_flags *f = call->flags;
	const bool file = *f->to && strcmp(f->to, "-") != 0;
	const struct tw_predict_request request = {
		.path = call->word[0],
		.job = *f->job ? f->job : NULL,
		.words = { f->set.at, f->set.count, (const char *const *)environ },
		.data = f->data,
		.answers = f->answers,
		.separator = f->separator,
		.data_format = f->input ? inputs[f->input] : "",
		.to = file ? f->to : NULL,
		.out = stdout,
		.format = f->format ? formats[f->format] : "",
		.force = f->force,
		.raw = f->raw,
		.log = call->log,
	};
	struct tw_error why = { .status = TW_OK };
	json_t *r = NULL;
	enum tw_status st = check(f, request.to, &why);

	if (st == TW_OK)
		st = tw_query_predict(&request, &r, &why);
	if (st == TW_IO && !why.text[0] && errno == EPIPE)
		return TW_EXIT_FAILED; /* the reader has what it wanted */
	if (st != TW_OK)
		return tw_query_failed(call, &why);
	if (file)
		return tw_query_show(r, f->json, print);
	json_decref(r);
	return TW_EXIT_DONE;
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct predict_flags, data, "data", TW_TEXT, "", "FILE", 0, 0,
		"the rows: CSV, NPY or IDX, gzipped or not, or one PNG or JPEG image; - is "
		"standard input"),
	TW_FLAG(struct predict_flags, answers, "answers", TW_TEXT, "", "FILE", 0, 0,
		"file with the labels or values of the NPY or IDX rows, if they are known"),
	TW_FLAG(struct predict_flags, separator, "separator", TW_TEXT, "", "TEXT", 0, 0,
		"separator of the columns of CSV rows: one character, or tab (default: as in "
		"training)"),
	{ .option = TW_OPTION_CHOICE(struct predict_flags, input, "input", "auto", inputs,
				     "format of the rows; auto: detect it from their first bytes"),
	  .value = "NAME" },
	TW_FLAG(struct predict_flags, to, "to", TW_TEXT, "", "FILE", 0, 0,
		"file to write: .csv, .jsonl or .npy (default: standard output)"),
	{ .option = TW_OPTION_CHOICE(struct predict_flags, format, "format", "auto", formats,
				     "output format; auto: as the file's name says, else csv"),
	  .value = "NAME" },
	TW_SWITCH(struct predict_flags, raw, "raw",
		  "write the raw outputs of the network instead of probabilities"),
	TW_SWITCH(struct predict_flags, force, "force", "overwrite an existing file"),
	TW_FLAG(struct predict_flags, job, "job", TW_TEXT, "", "JOB", 0, 0,
		"the job of a safetensors file that has no model card"),
	TW_FLAG_MANY(struct predict_flags, set, "set", "PATH=VALUE",
		     "override a field of that job; may be repeated"),
	TW_SWITCH(struct predict_flags, json, "json",
		  "print what was written as one JSON object; needs --to"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg predict runs/iris --data new.csv", "a class and its probability per row" },
	{ "thalweg predict iris.safetensors --data new.csv --to out.csv",
	  "from an exported file, to a file" },
	{ "head -n 6 new.csv | thalweg predict runs/iris --data - --format jsonl",
	  "the first five rows from standard input, as JSON lines" },
	{ "thalweg predict runs/pets --data cat.jpg", "one image" },
	{ 0 },
};

const struct tw_verb tw_verb_predict = {
	.name = "predict",
	.words = "PATH",
	.help = "predict the answers of new rows",
	.about = "Computes the predictions of a trained network for new rows.  PATH is a run\n"
		 "directory (its newest complete checkpoint), one checkpoint of it, or a\n"
		 "safetensors file that `thalweg export` wrote.  The training data is not\n"
		 "needed: the model card has the normalisation, the columns and the classes.  If\n"
		 "both files have a header, columns are matched by name.  Each row gives one\n"
		 "line, in order: its number, columns that the network does not know (an id, for\n"
		 "example), the class with its probability or the values, the true answer if the\n"
		 "rows have it, and the probability of every class.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct predict_flags),
	.least = 1,
	.most = 1,
	.run = predict,
};
