/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - thalweg eval PATH: trained parameters, scored on data. */
#include "base/json.h"
#include "cli/query_output.h"

#include <stdio.h>
#include <unistd.h>

struct eval_flags {
	struct tw_texts set;
	bool json, force;
	uint32_t on;
	const char *job, *predictions, *data, *answers, *separator;
};

/* In the order of enum tw_data_set. */
static const char *const sets[] = { "test", "validation", "train", NULL };

static void print(const json_t *r)
{
	const json_t *accuracy = json_object_get(r, "accuracy"), *loss = json_object_get(r, "loss");
	const json_t *data = json_object_get(r, "data");

	if (json_is_number(loss))
		printf("%-12s %.6g\n", "loss", json_number_value(loss));
	else
		printf("%-12s not a number\n", "loss");
	if (json_is_number(accuracy))
		printf("%-12s %.6g\n", "accuracy", json_number_value(accuracy));
	printf("%-12s %lld of %s%s%s\n", "samples", tw_whole_at(r, "samples"), data ? "" : "the ",
	       json_string_value(data ? data : json_object_get(r, "set")), data ? "" : " set");
	printf("%-12s %.3g s, %.4g samples/s\n", "time", tw_number_at(r, "seconds"),
	       tw_number_at(r, "samples_per_second"));
	printf("%-12s %s\n", "digest", tw_text_at(r, "parameters_digest"));
	printf("%-12s %s\n", "checkpoint", tw_text_at(r, "checkpoint"));
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
	TW_SWITCH(struct eval_flags, force, "force",
		  "let --predictions overwrite an existing file"),
	TW_SWITCH(struct eval_flags, json, "json", "print the result as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg eval runs/lenet-mnist", "loss and accuracy of the newest checkpoint" },
	{ "thalweg eval runs/lenet-mnist/ckpt-3 --on train --json",
	  "an earlier checkpoint on the training set; the result as JSON" },
	{ "thalweg eval runs/iris --data unseen.csv", "on other rows that have answers" },
	{ "thalweg eval model.safetensors --job examples/lenet-mnist.yaml --predictions out.csv",
	  "a file, for example from PyTorch, with every prediction" },
	{ 0 },
};

const struct tw_verb tw_verb_eval = {
	.name = "eval",
	.words = "PATH",
	.help = "score trained parameters on the test set or on other data",
	.about = "Scores trained parameters on data.  PATH is a run directory (its newest\n"
		 "complete checkpoint), one checkpoint of it, or a safetensors file.  A\n"
		 "checkpoint contains its job; relative paths in the job start at the folder of\n"
		 "the job file.  Values are normalised and classes are numbered as in training.\n"
		 "If the test set was drawn from data that has changed since, name other data\n"
		 "with --data FILE or --set data.test_file=FILE.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct eval_flags),
	.least = 1,
	.most = 1,
	.run = eval,
};
