/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - thalweg inspect PATH: layers and memory of a job, or what a checkpoint holds. */
#include "cli/query_output.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct inspect_flags {
	struct tw_texts set;
	bool json;
	struct tw_describe_request job;
};

static void cell(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	if (json_is_number(v))
		printf(" %11.4g", json_number_value(v));
	else
		printf(" %11s", "-");
}

static void bytes_line(const json_t *o, const char *label, const char *name)
{
	char bytes[24];

	printf("  %-24s %12lld  %s\n", label, tw_whole_at(o, name),
	       tw_query_bytes(tw_number_at(o, name), bytes));
}

static void print_counts(const json_t *o)
{
	printf("%-12s %lld trained, ", "parameters", tw_whole_at(o, "parameters"));
	if (tw_whole_at(o, "frozen"))
		printf("%lld frozen, ", tw_whole_at(o, "frozen"));
	printf("%lld buffers", tw_whole_at(o, "buffers"));
}

/* --- a job --- */

static void print_layers(const json_t *o)
{
	const json_t *row;
	size_t k;

	printf("\n%-12s %-32s %-12s %12s %10s   %s\n", "layer", "text", "output", "parameters",
	       "MFLOP", "stage border, values");
	json_array_foreach(json_object_get(o, "layers"), k, row)
	{
		printf("%-12s %-32s %-12s %12lld %10.4g",
		       *tw_query_text(row, "number") ? tw_query_text(row, "number") : "loss",
		       tw_query_text(row, "text"), tw_query_text(row, "output"),
		       tw_whole_at(row, "parameters") + tw_whole_at(row, "buffers"),
		       tw_number_at(row, "mflop"));
		if (json_is_string(json_object_get(row, "cut")))
			printf("   %s, %lld", tw_query_text(row, "cut"),
			       tw_whole_at(row, "crosses"));
		if (json_is_true(json_object_get(row, "frozen")))
			printf("   frozen");
		printf("\n");
	}
	printf("%-12s %-32s %-12s %12lld %10.4g\n", "all", "", "",
	       tw_whole_at(o, "parameters") + tw_whole_at(o, "frozen") + tw_whole_at(o, "buffers"),
	       tw_number_at(o, "mflop"));
	printf("\nmodel.stages lists borders of stages; so many values of a sample cross there\n");
}

static void print_measured(const json_t *o)
{
	const json_t *row, *v;
	size_t k, i;

	printf("\n%-12s %-32s %10s\n", "layer", "text", "ms");
	json_array_foreach(json_object_get(o, "layers"), k, row)
		printf("%-12s %-32s %10.4f\n", tw_query_text(row, "number"),
		       tw_query_text(row, "text"), tw_number_at(row, "ms"));
	printf("\n%-8s %-32s %-8s %s\n", "stages", "model.stages", "faster", "ms of each stage");
	json_array_foreach(json_object_get(o, "stages"), k, row)
	{
		char borders[200] = "[";
		size_t at = 1;

		json_array_foreach(json_object_get(row, "borders"), i, v) at +=
			(size_t)snprintf(borders + at, sizeof borders - at, "%s%s", i ? ", " : "",
					 json_string_value(v));
		printf("%-8lld %s%-*s %-8.2f", tw_whole_at(row, "stages"), borders, 32 - (int)at,
		       "]", tw_number_at(row, "faster"));
		json_array_foreach(json_object_get(row, "seconds"), i, v)
			printf(" %.3f", json_number_value(v) * 1e3);
		printf("\n");
	}
}

static void print_memory(const json_t *o)
{
	const json_t *m = json_object_get(o, "memory");

	printf("\nmemory of one worker, batch of %lld\n", tw_whole_at(o, "batch"));
	bytes_line(m, "arena", "arena_bytes");
	bytes_line(m, "arena without reuse", "without_reuse_bytes");
	bytes_line(m, "batch", "batch_bytes");
	bytes_line(m, "parameters", "parameter_bytes");
	bytes_line(m, "gradient", "gradient_bytes");
	bytes_line(m, "scratch, arena included", "scratch_bytes");
}

static void print_plan(const json_t *o)
{
	const json_t *row;
	size_t k;

	printf("\n%-24s %12s %12s %6s %6s\n", "buffer", "offset", "bytes", "first", "last");
	json_array_foreach(json_object_get(o, "plan"), k, row)
	{
		char name[120];

		snprintf(name, sizeof name, "%s%s%s", tw_query_text(row, "layer"),
			 *tw_query_text(row, "layer") ? " " : "", tw_query_text(row, "what"));
		printf("%-24s %12lld %12lld %6lld %6lld\n", name, tw_whole_at(row, "offset"),
		       tw_whole_at(row, "bytes"), tw_whole_at(row, "first"),
		       tw_whole_at(row, "last"));
	}
	printf("\nsteps\n");
	json_array_foreach(json_object_get(o, "steps"), k, row)
		printf("%s\n", json_string_value(row));
}

static void print_job(const json_t *o)
{
	const json_t *d = json_object_get(o, "data");
	char shape[100];

	printf("%-12s %s\n", "job", tw_query_text(o, "job"));
	printf("%-12s %s, %lld workers\n", "strategy", tw_query_text(o, "strategy"),
	       tw_whole_at(o, "workers"));
	printf("%-12s %s%s%s\n", "model", tw_query_text(o, "model"),
	       json_object_get(o, "about") ? ": " : "",
	       json_object_get(o, "about") ? tw_query_text(o, "about") : "");
	print_counts(o);
	printf("\n");
	if (!d) {
		printf("%-12s %lld in an epoch, batch of %lld\n", "samples",
		       tw_whole_at(o, "samples"), tw_whole_at(o, "batch"));
		return;
	}
	printf("%-12s %s, %s, %lld train, %lld validation, %lld test\n", "data",
	       tw_query_text(d, "source"), tw_query_shape(json_object_get(d, "shape"), shape),
	       tw_whole_at(d, "train"), tw_whole_at(d, "validation"), tw_whole_at(d, "test"));
	print_layers(o);
	print_memory(o);
	if (json_object_get(o, "stages"))
		print_measured(o);
	if (json_object_get(o, "plan"))
		print_plan(o);
}

/* --- a snapshot --- */

static void print_tensors(const json_t *o)
{
	const json_t *row;
	size_t k;

	printf("\n%-28s %-16s %11s %11s %11s %11s %10s\n", "tensor", "shape", "mean", "deviation",
	       "min", "max", "not finite");
	json_array_foreach(json_object_get(o, "tensors"), k, row)
	{
		char shape[100];

		printf("%-28s %-16s", tw_query_text(row, "name"),
		       tw_query_shape(json_object_get(row, "shape"), shape));
		cell(row, "mean");
		cell(row, "deviation");
		cell(row, "min");
		cell(row, "max");
		cell(row, "not_finite");
		putchar('\n');
	}
}

/* "a, b, c, ..." of a list of texts. */
static void print_names(const char *label, const json_t *list)
{
	const json_t *name;
	size_t k;

	if (!json_array_size(list))
		return;
	printf("%-12s ", label);
	json_array_foreach(list, k, name)
	{
		printf("%s%s", k ? ", " : "", k < 12 ? json_string_value(name) : "...");
		if (k == 12)
			break;
	}
	putchar('\n');
}

/* What the network takes and gives. */
static void print_card(const json_t *o)
{
	const json_t *c = json_object_get(o, "card"), *in = json_object_get(c, "input");
	const json_t *out = json_object_get(c, "output"), *d = json_object_get(c, "data");
	char shape[100];

	if (!c) {
		printf("%-12s none: predict needs --job JOB\n", "card");
		return;
	}
	if (!in) {
		printf("%-12s a model whose network is not known: %s\n", "card",
		       tw_query_text(c, "task"));
		return;
	}
	printf("%-12s %s of %s, normalised: %s%s\n", "takes",
	       tw_query_shape(json_object_get(in, "shape"), shape), tw_query_text(in, "values"),
	       tw_query_text(json_object_get(c, "normalise"), "name"),
	       json_is_true(json_object_get(json_object_get(c, "network"), "standalone"))
		       ? " (by its first layer)"
		       : "");
	print_names("columns", json_object_get(in, "columns"));
	printf("%-12s %s", "predicts", tw_query_text(c, "task"));
	if (json_object_get(out, "label"))
		printf(", %s", tw_query_text(out, "label"));
	printf("; outputs mean: %s\n", tw_query_text(out, "reading"));
	print_names(tw_whole_at(out, "classes") ? "classes" : "targets",
		    json_object_get(out, "names"));
	printf("%-12s %s, %lld train, %lld validation, %lld test, fingerprint %s\n", "trained on",
	       tw_query_text(d, "source"), tw_whole_at(d, "train"), tw_whole_at(d, "validation"),
	       tw_whole_at(d, "test"), tw_query_text(d, "fingerprint"));
}

static void print_checkpoint(const json_t *o)
{
	const json_t *row;
	char bytes[24];
	size_t k;

	printf("%-12s %s\n", "checkpoint", tw_query_text(o, "path"));
	printf("%-12s %s by %s, isa %s\n", "written", tw_query_text(o, "written"),
	       tw_query_text(o, "program"), tw_query_text(o, "isa"));
	printf("%-12s %s in %s, rule %s, %lld workers, %lld shards\n", "strategy",
	       tw_query_text(o, "strategy"), tw_query_text(o, "world"), tw_query_text(o, "rule"),
	       tw_whole_at(o, "workers"), tw_whole_at(o, "shards"));
	printf("%-12s ", "work");
	if (json_is_number(json_object_get(o, "epochs")))
		printf("%.4g epochs, ", tw_number_at(o, "epochs"));
	printf("%lld steps, %lld samples, %.3g s\n", tw_whole_at(o, "steps"),
	       tw_whole_at(o, "applied_samples"), tw_number_at(o, "seconds"));
	print_counts(o);
	printf("; here is %s\n", tw_query_text(o, "evaluated"));
	print_card(o);
	printf("\n%-44s %12s\n", "file", "size");
	json_array_foreach(json_object_get(o, "files"), k, row)
		printf("%-44s %12s\n", tw_query_text(row, "file"),
		       tw_query_bytes(tw_number_at(row, "bytes"), bytes));
	print_tensors(o);
}

static void print_file(const json_t *o)
{
	const json_t *v;
	const char *name;
	char bytes[24];

	printf("%-12s %s\n", "file", tw_query_text(o, "path"));
	printf("%-12s %s, %lld values\n", "size", tw_query_bytes(tw_number_at(o, "bytes"), bytes),
	       tw_whole_at(o, "values"));
	json_object_foreach((json_t *)json_object_get(o, "metadata"), name,
			    v) if (strcmp(name, "pytorch") !=
				   0) /* many lines: export prints them */
		printf("%-12s %s\n", name, json_string_value(v));
	print_card(o);
	print_tensors(o);
}

/* --- either --- */

static enum tw_status look_at_job(const struct tw_call *call, json_t **out, struct tw_error *why)
{
	const struct inspect_flags *f = call->flags;
	const struct tw_query_words words = { f->set.at, f->set.count,
					      (const char *const *)environ };
	struct tw_job *job = NULL;
	enum tw_status st = tw_query_job(call->word[0], &words, &job, why);

	if (st == TW_OK)
		st = tw_query_describe(job, &f->job, out, why);
	tw_job_free(job);
	return st;
}

static enum tw_status look_at_snapshot(const struct tw_call *call, json_t **out,
				       struct tw_error *why)
{
	const struct inspect_flags *f = call->flags;
	struct tw_snapshot *s = NULL;
	enum tw_status st;

	if (f->job.plan || f->job.measure || f->set.count)
		return tw_fail(why, TW_BAD_INPUT, "--%s needs a job file; %s is not called *.yaml",
			       f->job.plan      ? "plan"
			       : f->job.measure ? "measure"
						: "set",
			       call->word[0]);
	st = tw_snapshot_open(call->word[0], call->log, &s, why);
	if (st == TW_OK)
		st = tw_query_snapshot(s, out, why);
	tw_snapshot_close(s);
	return st;
}

static int inspect(const struct tw_call *call)
{
	const struct inspect_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	const char *kind;
	json_t *o = NULL;

	if ((tw_query_is_job(call->word[0]) ? look_at_job : look_at_snapshot)(call, &o, &why) !=
	    TW_OK)
		return tw_query_failed(call, &why);
	kind = tw_query_text(o, "kind");
	return tw_query_show(o, f->json,
			     strcmp(kind, "job") == 0          ? print_job
			     : strcmp(kind, "checkpoint") == 0 ? print_checkpoint
							       : print_file);
}

static const struct tw_flag flags[] = {
	TW_SWITCH(struct inspect_flags, job.plan, "plan",
		  "for a job: every buffer of the memory plan, and every step"),
	TW_SWITCH(struct inspect_flags, job.measure, "measure",
		  "for a job: the time of each layer on this machine, and stages of equal time"),
	TW_FLAG_MANY(struct inspect_flags, set, "set", "PATH=VALUE",
		     "override a field of the job: data.batch=128; may be repeated"),
	TW_SWITCH(struct inspect_flags, json, "json", "print it as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg inspect examples/lenet-mnist.yaml", "layers, shapes, costs, memory" },
	{ "thalweg inspect examples/lenet-mnist.yaml --plan",
	  "where and when each buffer is in memory, and which kernels run" },
	{ "thalweg inspect examples/lenet-mnist.yaml --measure",
	  "how long each layer takes, and model.stages that balance a pipeline" },
	{ "thalweg inspect runs/lenet-mnist", "its newest checkpoint: files and tensors" },
	{ "thalweg inspect model.safetensors --json", "tensors of a file, as JSON" },
	{ 0 },
};

const struct tw_verb tw_verb_inspect = {
	.name = "inspect",
	.words = "PATH",
	.help = "show what is in a job, a run directory, a checkpoint or a safetensors file",
	.about = "For a job file (*.yaml, *.yml, or - for standard input): its layers with\n"
		 "shapes, parameters and work per sample (forward), where model.stages may cut\n"
		 "it, and the memory that one worker needs.  For a run directory or a\n"
		 "checkpoint: where it comes from, its files and its tensors.  For a\n"
		 "safetensors file: its tensors and metadata.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct inspect_flags),
	.least = 1,
	.most = 1,
	.run = inspect,
};
