/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - thalweg export PATH --to FILE: trained parameters for other programs. */
#include "base/json.h"
#include "cli/query_output.h"
#include "checkpoint/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct export_flags {
	bool json, force, standalone;
	uint32_t format;
	const char *to;
};

/* "auto", then in the order of enum tw_export_format. */
static const char *const formats[] = { "auto", "safetensors", "npy", "c", NULL };

static enum tw_export_format format_of(const struct export_flags *f)
{
	const char *end = strrchr(f->to, '.');

	if (f->format)
		return (enum tw_export_format)(f->format - 1);
	return end && strcmp(end, ".c") == 0 ? TW_EXPORT_C : TW_EXPORT_SAFETENSORS;
}

static void print(const json_t *r)
{
	char bytes[24];

	printf("%-12s %s\n", "checkpoint", tw_text_at(r, "checkpoint"));
	printf("%-12s %s (%s)\n", "written", tw_text_at(r, "to"), tw_text_at(r, "format"));
	printf("%-12s %lld, %s\n", "tensors", tw_whole_at(r, "tensors"),
	       tw_query_bytes(tw_number_at(r, "bytes"), bytes));
}

/* A program that loads the file: the network's source is ours, and has lines. */
static void print_source(const json_t *source, const char *to)
{
	json_t *name = json_string(to); /* NULL: it is not UTF-8 */
	char *quoted = json_dumps(name, JSON_ENCODE_ANY);

	if (json_is_string(source))
		printf("\nimport safetensors.torch\n%snet.load_state_dict("
		       "safetensors.torch.load_file(%s))\nnet.eval()\n",
		       json_string_value(source), quoted ? quoted : "\"FILE\"");
	else
		printf("%-12s no source: PyTorch lacks some of the layers\n", "PyTorch");
	free(quoted);
	json_decref(name);
}

static int export(const struct tw_call *call)
{
	const struct export_flags *f = call->flags;
	const struct tw_export_request request = {
		.path = call->word[0],
		.to = f->to,
		.format = format_of(f),
		.standalone = f->standalone,
		.force = f->force,
		.log = call->log,
	};
	struct tw_error why = { .status = TW_OK };
	json_t *r = NULL, *source;
	int code;

	if (!*f->to)
		tw_fail(&why, TW_BAD_INPUT,
			"export needs --to FILE.safetensors, --to FILE.c, or --to DIR --format "
			"npy");
	else
		tw_export(&request, &r, &why);
	if (why.status != TW_OK)
		return tw_query_failed(call, &why);
	source = json_copy(json_object_get(r, "pytorch"));
	code = tw_query_show(r, f->json, print);
	if (!f->json && f->standalone && request.format == TW_EXPORT_SAFETENSORS)
		print_source(source, f->to);
	json_decref(source);
	return code;
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct export_flags, to, "to", TW_TEXT, "", "FILE", 0, 0,
		"file to write; with --format npy a directory"),
	{ .option = TW_OPTION_CHOICE(struct export_flags, format, "format", "auto", formats,
				     "safetensors; npy: one file per tensor, named after the "
				     "tensor; c: C source that predicts; auto: c if the name ends "
				     "with .c, else safetensors"),
	  .value = "NAME" },
	TW_SWITCH(struct export_flags, standalone, "standalone",
		  "add the normalisation to the network as layer 0, and print PyTorch code for it"),
	TW_SWITCH(struct export_flags, force, "force", "overwrite existing files"),
	TW_SWITCH(struct export_flags, json, "json", "print what was written as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg export runs/lenet-mnist --to lenet.safetensors",
	  "for PyTorch: load_state_dict(safetensors.torch.load_file(...))" },
	{ "thalweg export runs/lenet-mnist --standalone --to lenet.safetensors",
	  "the same for inputs as the data files have them: 0 to 255" },
	{ "thalweg export runs/lenet-mnist --to lenet.c",
	  "one C file that predicts: cc -O2 -DMODEL_MAIN lenet.c -lm" },
	{ "thalweg export runs/lenet-mnist/ckpt-3 --to weights --format npy",
	  "for NumPy, from one checkpoint" },
	{ 0 },
};

const struct tw_verb tw_verb_export = {
	.name = "export",
	.words = "PATH",
	.help = "write trained parameters as safetensors, npy or C",
	.about = "Writes the evaluated parameters, buffers included, under the names that\n"
		 "PyTorch's nn.Sequential gives them.  PATH is a run directory, a checkpoint or\n"
		 "a safetensors file.  A failed export leaves no incomplete file, and existing\n"
		 "files are overwritten only with --force.  A safetensors file contains the\n"
		 "model card as metadata, so that `thalweg predict` and `thalweg eval` need\n"
		 "nothing else.  A C file contains the parameters, the normalisation and the\n"
		 "network, and needs only the C library; its first lines say how to call it.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct export_flags),
	.least = 1,
	.most = 1,
	.run = export,
};
