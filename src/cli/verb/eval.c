/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - thalweg eval PATH: trained parameters, scored on data. */
#include "base/json.h"
#include "cli/query_output.h"

#include <stdio.h>
#include <unistd.h>

struct eval_flags {
	struct tw_texts set;
	bool json, force;
	uint32_t on, worst;
	const char *job, *predictions, *data, *answers, *separator;
};

/* In the order of enum tw_data_set. */
static const char *const sets[] = { "test", "validation", "train", NULL };

#define SHOWN_CLASSES 12 /* most columns of a confusion matrix that fit a terminal */
#define NAME_WIDTH    16

static void figure(const char *name, const json_t *value, const char *after)
{
	if (json_is_number(value))
		printf("%-12s %.6g%s\n", name, json_number_value(value), after);
}

/* A name in a column of a table: cut, and the same width whatever its characters are. */
static void name_cell(const char *name, int width, bool right)
{
	size_t bytes = 0;
	int wide = 0;

	for (; name[bytes] && wide < width; wide++)
		for (bytes++; ((unsigned char)name[bytes] & 0xc0) == 0x80;)
			bytes++;
	printf("%*s%.*s%*s", right ? width - wide : 0, "", (int)bytes, name,
	       right ? 0 : width - wide, "");
}

static void print_classes(const json_t *classes)
{
	const json_t *c;
	size_t k;

	printf("\n%-*s %8s %9s %9s %7s %7s\n", NAME_WIDTH, "class", "rows", "predicted",
	       "precision", "recall", "F1");
	json_array_foreach(classes, k, c)
	{
		name_cell(tw_text_at(c, "name"), NAME_WIDTH, false);
		printf(" %8lld %9lld %9.4f %7.4f %7.4f\n", tw_whole_at(c, "rows"),
		       tw_whole_at(c, "predicted"), tw_number_at(c, "precision"),
		       tw_number_at(c, "recall"), tw_number_at(c, "f1"));
	}
}

static void print_matrix(const json_t *matrix, const json_t *classes)
{
	const json_t *row, *cell, *c;
	size_t k, i;

	name_cell("truth\\predicted", NAME_WIDTH, false);
	json_array_foreach(classes, k, c)
	{
		putchar(' ');
		name_cell(tw_text_at(c, "name"), 7, true);
	}
	putchar('\n');
	json_array_foreach(matrix, k, row)
	{
		name_cell(tw_text_at(json_array_get(classes, k), "name"), NAME_WIDTH, false);
		json_array_foreach(row, i, cell)
			printf(" %7lld", (long long)json_integer_value(cell));
		putchar('\n');
	}
}

static void print_mistakes(const json_t *mistakes)
{
	const json_t *m;
	size_t k;

	printf("%-*s %-*s %8s\n", NAME_WIDTH, "truth", NAME_WIDTH, "predicted", "rows");
	json_array_foreach(mistakes, k, m)
	{
		name_cell(tw_text_at(m, "truth"), NAME_WIDTH, false);
		putchar(' ');
		name_cell(tw_text_at(m, "predicted"), NAME_WIDTH, false);
		printf(" %8lld\n", tw_whole_at(m, "rows"));
	}
}

static void print_targets(const json_t *targets)
{
	const json_t *t, *r2;
	size_t k;

	printf("\n%-*s %12s %12s %9s\n", NAME_WIDTH, "target", "MAE", "RMSE", "R^2");
	json_array_foreach(targets, k, t)
	{
		name_cell(tw_text_at(t, "name"), NAME_WIDTH, false);
		printf(" %12.6g %12.6g", tw_number_at(t, "mae"), tw_number_at(t, "rmse"));
		r2 = json_object_get(t, "r2");
		if (json_is_number(r2))
			printf(" %9.4f\n", json_number_value(r2));
		else
			printf(" %9s\n", "-");
	}
}

/* A class's name, a number, or a list of numbers. */
static void answer_cell(const json_t *v)
{
	char text[40];
	const json_t *one;
	size_t k;

	if (json_is_array(v)) {
		json_array_foreach(v, k, one)
			printf("%s%.6g", k ? " " : "[", json_number_value(one));
		printf("]  ");
		return;
	}
	if (json_is_number(v))
		snprintf(text, sizeof text, "%.6g", json_number_value(v));
	name_cell(json_is_number(v)   ? text
		  : json_is_string(v) ? json_string_value(v)
				      : "not a number",
		  NAME_WIDTH, false);
	putchar(' ');
}

static void print_worst(const json_t *worst)
{
	const bool values = json_object_get(json_array_get(worst, 0), "error") != NULL;
	const json_t *w, *off, *cell;
	const char *name;
	size_t k;

	printf("\n%8s %-*s %-*s %s\n", "row", NAME_WIDTH, "truth", NAME_WIDTH, "predicted",
	       values ? "error" : "log loss");
	json_array_foreach(worst, k, w)
	{
		printf("%8lld ", tw_whole_at(w, "row"));
		answer_cell(json_object_get(w, "truth"));
		answer_cell(json_object_get(w, "predicted"));
		off = json_object_get(w, values ? "error" : "log_loss");
		if (json_is_number(off))
			printf("%.6g", json_number_value(off));
		else
			printf("-");
		json_object_foreach(json_object_get(w, "columns"), name, cell)
			printf("  %s %s", name, json_string_value(cell));
		putchar('\n');
	}
}

static void print_tables(const json_t *r)
{
	const json_t *classes = json_object_get(r, "classes"), *note;
	const json_t *targets = json_object_get(r, "targets"), *worst = json_object_get(r, "worst");
	const json_t *mistakes = json_object_get(r, "mistakes");
	size_t k;

	if (classes && json_array_size(classes) <= SHOWN_CLASSES) {
		print_classes(classes);
		putchar('\n');
		print_matrix(json_object_get(r, "confusion"), classes);
	} else if (classes) {
		print_classes(classes);
		putchar('\n');
		print_mistakes(mistakes);
	}
	if (json_array_size(targets) > 1)
		print_targets(targets);
	if (json_array_size(worst))
		print_worst(worst);
	json_array_foreach(json_object_get(r, "notes"), k, note)
		printf("%s%-12s %s\n", k ? "" : "\n", "note", json_string_value(note));
}

static void print(const json_t *r)
{
	const json_t *loss = json_object_get(r, "loss"), *data = json_object_get(r, "data");
	const json_t *is = json_object_get(r, "roc_auc_is");
	char after[200] = "", tokens[60] = "";

	if (json_object_get(r, "tokens"))
		snprintf(tokens, sizeof tokens, " per token, of %lld", tw_whole_at(r, "tokens"));
	if (json_is_number(loss))
		printf("%-12s %.6g\n", "loss", json_number_value(loss));
	else
		printf("%-12s not a number\n", "loss");
	if (json_is_number(json_object_get(r, "balanced_accuracy")))
		snprintf(after, sizeof after, " (balanced %.6g)",
			 tw_number_at(r, "balanced_accuracy"));
	figure("accuracy", json_object_get(r, "accuracy"), after);
	figure("nats", json_object_get(r, "nats"), tokens);
	figure("bits/byte", json_object_get(r, "bits_per_byte"), "");
	figure("bits/token", json_object_get(r, "bits_per_token"), "");
	figure("perplexity", json_object_get(r, "perplexity"), "");
	figure("log loss", json_object_get(r, "log_loss"), "");
	if (is)
		snprintf(after, sizeof after, " (%.180s)", json_string_value(is));
	figure("ROC AUC", json_object_get(r, "roc_auc"), after);
	figure("MAE", json_object_get(r, "mae"), "");
	figure("RMSE", json_object_get(r, "rmse"), "");
	figure("R^2", json_object_get(r, "r2"), "");
	printf("%-12s %lld of %s%s%s\n", "samples", tw_whole_at(r, "samples"), data ? "" : "the ",
	       json_string_value(data ? data : json_object_get(r, "set")), data ? "" : " set");
	printf("%-12s %.3g s, %.4g samples/s\n", "time", tw_number_at(r, "seconds"),
	       tw_number_at(r, "samples_per_second"));
	printf("%-12s %s\n", "digest", tw_text_at(r, "parameters_digest"));
	printf("%-12s %s\n", "checkpoint", tw_text_at(r, "checkpoint"));
	print_tables(r);
}

static int eval(const struct tw_call *call)
{
	const struct eval_flags *f = call->flags;
	const struct tw_eval_request request = {
		.path = call->word[0],
		.job = *f->job ? f->job : NULL,
		.words = { f->set.at, f->set.count, (const char *const *)environ },
		.on = (enum tw_data_set)f->on,
		.data = f->data,
		.answers = f->answers,
		.separator = f->separator,
		.predictions = *f->predictions ? f->predictions : NULL,
		.force = f->force,
		.worst = f->worst,
		.log = call->log,
	};
	struct tw_error why = { .status = TW_OK };
	json_t *r = NULL;

	if (tw_query_eval(&request, &r, &why) != TW_OK)
		return tw_query_failed(call, &why);
	return tw_query_show(r, f->json, print);
}

static const struct tw_flag flags[] = {
	{ .option = TW_OPTION_CHOICE(struct eval_flags, on, "on", "test", sets,
				     "the set to score on: test, validation or train"),
	  .value = "SET" },
	TW_FLAG(struct eval_flags, job, "job", TW_TEXT, "", "JOB", 0, 0,
		"the job that names the data; a safetensors file contains none"),
	TW_FLAG(struct eval_flags, data, "data", TW_TEXT, "", "FILE", 0, 0,
		"score on this file instead: CSV that includes the answers, or NPY or IDX with "
		"--answers"),
	TW_FLAG(struct eval_flags, answers, "answers", TW_TEXT, "", "FILE", 0, 0,
		"file with the labels or values of the NPY or IDX rows of --data"),
	TW_FLAG(struct eval_flags, separator, "separator", TW_TEXT, "", "TEXT", 0, 0,
		"separator of the columns of --data: one character, or tab (default: as in "
		"training)"),
	TW_FLAG_MANY(struct eval_flags, set, "set", "PATH=VALUE",
		     "override a field of the job: data.path=/data/mnist; may be repeated"),
	TW_FLAG(struct eval_flags, predictions, "predictions", TW_TEXT, "", "FILE", 0, 0,
		"write the prediction for each sample to this file: CSV, or as .jsonl or .npy "
		"in its name says"),
	TW_FLAG(struct eval_flags, force, "force", TW_BOOL, "false", NULL, 0, 0,
		"let --predictions overwrite an existing file"),
	TW_FLAG(struct eval_flags, worst, "worst", TW_U32, "0", "ROWS", 0, 100000,
		"list this many rows that are predicted worst"),
	TW_FLAG(struct eval_flags, json, "json", TW_BOOL, "false", NULL, 0, 0,
		"print the result as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg eval runs/lenet-mnist", "loss and accuracy of the newest checkpoint" },
	{ "thalweg eval runs/lenet-mnist/ckpt-3 --on train --json",
	  "an earlier checkpoint on the training set; the result as JSON" },
	{ "thalweg eval runs/iris --data unseen.csv", "on other rows that have answers" },
	{ "thalweg eval runs/gpt --set data.test_file=other.txt", "a text model on another text" },
	{ "thalweg eval runs/iris --worst 20", "and the 20 rows that are predicted worst" },
	{ "thalweg eval model.safetensors --job examples/lenet-mnist.yaml --predictions out.csv",
	  "a file, for example from PyTorch, with every prediction" },
	{ 0 },
};

const struct tw_verb tw_verb_eval = {
	.name = "eval",
	.words = "PATH",
	.help = "score trained parameters on the test set or on other data",
	.about =
		"Scores trained parameters on data.  PATH is a run directory (its newest\n"
		"complete checkpoint), one checkpoint of it, or a safetensors file.  A\n"
		"checkpoint contains its job; relative paths in the job start at the folder of\n"
		"the job file.  Values are normalised and classes are numbered as in training.\n"
		"If the test set was drawn from data that has changed since, name other data\n"
		"with --data FILE or --set data.test_file=FILE.\n\n"
		"Of classes it prints accuracy, balanced accuracy (the mean recall), log loss,\n"
		"ROC AUC (of the second of two classes; else the mean over the classes, each\n"
		"against the rest), precision, recall and F1 of each class, and which classes\n"
		"are taken for which.  Of values: mean absolute error, root of the mean squared\n"
		"error, and R^2.  All of them are those of scikit-learn.  Of the next tokens of a\n"
		"text: nats per token, the same in bits, and perplexity.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct eval_flags),
	.least = 1,
	.most = 1,
	.run = eval,
};
