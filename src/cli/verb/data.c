/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - thalweg data list|fetch|check|show|import|verify: where samples come from. */
#include "cli/query_output.h"
#include "base/json.h"
#include "cli/summary.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct data_flags {
	struct tw_texts set;
	bool json;
	const char *cache, *path, *to;
	uint32_t count;
};

static const char *cache_of(const struct data_flags *f, char *out, size_t room)
{
	if (*f->cache)
		snprintf(out, room, "%s", f->cache);
	else if (!tw_data_cache(out, room))
		out[0] = '\0';
	return out;
}

static enum tw_status find_cache(const struct data_flags *f, char *out, size_t room,
				 struct tw_error *why)
{
	if (*cache_of(f, out, room))
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "there is no cache: set HOME or XDG_CACHE_HOME, or give --cache DIR");
}

static const struct tw_recipe *find(const char *name)
{
	const struct tw_source *source = tw_source_find(name);

	return source ? source->recipe : NULL;
}

static enum tw_status no_such_set(const char *name, struct tw_error *why)
{
	const char *names[32], *near;
	size_t n = 0;

	for (size_t k = 0; n < 31 && tw_source_all[k]; k++)
		if (tw_source_all[k]->recipe)
			names[n++] = tw_source_all[k]->name;
	names[n] = NULL;
	near = tw_nearest(name, names);
	return tw_fail(why, TW_BAD_INPUT, "there is no data set '%.80s' to fetch%s%s%s", name,
		       near ? "; did you mean " : "", near ? near : "",
		       near ? "?" : "; `thalweg data list` lists them");
}

/* --- list --- */

static enum tw_status list(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	char cache[4096];
	json_t *o = tw_query_sources(cache_of(f, cache, sizeof cache));
	const json_t *row;
	size_t k;

	if (!o)
		return tw_fail(why, TW_NO_MEMORY, "no memory");
	if (f->json) {
		tw_print_json(o);
		json_decref(o);
		return TW_OK;
	}
	printf("sources of samples (data.source in a job)\n");
	json_array_foreach(json_object_get(o, "sources"), k, row)
		printf("  %-10s %s\n", tw_query_text(row, "name"), tw_query_text(row, "help"));
	printf("\ndata sets that can be fetched, in %s\n",
	       *cache ? cache : "no cache: give --cache DIR");
	json_array_foreach(json_object_get(o, "fetchable"), k, row)
		printf("  %-10s %-8s %s (needs %s)\n", tw_query_text(row, "name"),
		       tw_query_text(row, "state"), tw_query_text(row, "help"),
		       tw_query_text(row, "needs"));
	json_decref(o);
	return TW_OK;
}

/* --- fetch --- */

static enum tw_status fetch(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	const char *name = call->word[1];
	char cache[4096], shown[24];
	uint64_t bytes = 0;

	if (!find(name))
		return no_such_set(name, why);
	if (find_cache(f, cache, sizeof cache, why) != TW_OK ||
	    tw_data_fetch(name, *f->path ? f->path : NULL, cache, &bytes, why) != TW_OK)
		return why->status;
	if (f->json) {
		json_t *o = json_pack("{s:s, s:s, s:I}", "name", name, "cache", cache, "bytes",
				      (json_int_t)bytes);

		tw_print_json(o);
		json_decref(o);
	} else {
		printf("%s is in %s/%s, %s\n", name, cache, name,
		       tw_query_bytes((double)bytes, shown));
	}
	return TW_OK;
}

/* --- check --- */

static enum tw_status read_job(const struct tw_call *call, struct tw_job **out,
			       struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	const struct tw_query_words words = { f->set.at, f->set.count,
					      (const char *const *)environ };

	return tw_query_job(call->word[1], &words, out, why);
}

static void print_set(const json_t *o, const char *name)
{
	const json_t *list = json_object_get(json_object_get(o, "occurrences"), name), *n;
	size_t k;

	printf("%-12s %lld", name, tw_whole_at(o, name));
	if (tw_whole_at(o, name) && json_array_size(list) <= 100) {
		printf(list ? "; of each class:" : "");
		json_array_foreach(list, k, n) printf(" %lld", (long long)json_integer_value(n));
	}
	putchar('\n');
}

/* Names that are 0, 1, 2, ... say nothing. */
static bool numbers_alone(const json_t *list)
{
	const json_t *name;
	size_t k;

	json_array_foreach(list, k, name)
	{
		char number[24];

		snprintf(number, sizeof number, "%zu", k);
		if (strcmp(json_string_value(name), number) != 0)
			return false;
	}
	return true;
}

/* "length, width and 3 more" */
static void print_names(const json_t *list, const char *what)
{
	const size_t most = 12, n = json_array_size(list);

	if (n == 0 || numbers_alone(list))
		return;
	printf("%-12s", what);
	for (size_t k = 0; k < n && k < most; k++)
		printf("%s %s", k ? "," : "", json_string_value(json_array_get(list, k)));
	if (n > most)
		printf(" and %zu more", n - most);
	putchar('\n');
}

/* "category, 4 words, 12 missing: 5 inputs" */
static void print_type(const json_t *c)
{
	const long long inputs = json_integer_value(json_object_get(c, "inputs"));
	const long long missing = json_integer_value(json_object_get(c, "missing"));
	const long long words = json_integer_value(json_object_get(c, "words"));

	printf("  %-3lld %-20s %s", (long long)json_integer_value(json_object_get(c, "column")),
	       tw_query_text(c, "name"), tw_query_text(c, "type"));
	if (words)
		printf(", %lld words", words);
	if (missing)
		printf(", %lld missing", missing);
	if (inputs != 1)
		printf(inputs ? ": %lld inputs" : ": not read%.0lld", inputs);
	putchar('\n');
}

/* A plain table of numbers is told by its names. */
static bool all_numbers(const json_t *types)
{
	const json_t *c;
	size_t k;

	json_array_foreach(types, k, c)
	{
		if (strcmp(tw_query_text(c, "type"), "number") != 0 ||
		    json_integer_value(json_object_get(c, "missing")))
			return false;
	}
	return true;
}

static void print_types(const json_t *types)
{
	const size_t most = 100, n = json_array_size(types);

	printf("columns\n");
	for (size_t k = 0; k < n && k < most; k++)
		print_type(json_array_get(types, k));
	if (n > most)
		printf("  and %zu more\n", n - most);
}

static void print_counts(const json_t *o)
{
	char shape[100];
	const json_t *w, *types = json_object_get(o, "types");
	size_t k;

	printf("%-12s %s, %s of %s\n", "source", tw_query_text(o, "source"),
	       tw_query_shape(json_object_get(o, "shape"), shape), tw_query_text(o, "values"));
	if (json_object_get(o, "tokens"))
		printf("%-12s the next of %lld tokens, at each position\n", "predicts",
		       tw_whole_at(o, "classes"));
	else
		printf("%-12s %lld classes, %lld targets\n", "predicts", tw_whole_at(o, "classes"),
		       tw_whole_at(o, "targets"));
	if (types && !all_numbers(types))
		print_types(types);
	else
		print_names(json_object_get(o, "columns"), "columns");
	print_names(json_object_get(o, "answers"),
		    tw_whole_at(o, "classes") ? "classes" : "targets");
	print_set(o, "train");
	print_set(o, "validation");
	print_set(o, "test");
	printf("%-12s %s\n", "fingerprint", tw_query_text(o, "fingerprint"));
	json_array_foreach(json_object_get(o, "notes"), k, w)
		printf("%-12s %s\n", "note", json_string_value(w));
	json_array_foreach(json_object_get(o, "warnings"), k, w)
		printf("%-12s %s\n", "warning", json_string_value(w));
}

static enum tw_status check_job(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	struct tw_job *job = NULL;
	json_t *o = NULL;
	enum tw_status st = read_job(call, &job, why);

	if (st == TW_OK)
		st = tw_query_data(job, &o, why);
	tw_job_free(job);
	if (st == TW_OK)
		tw_query_show(o, f->json, print_counts);
	return st;
}

static enum tw_status check(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	const char *name = call->word[1];
	char cache[4096];

	if (tw_query_is_job(name))
		return check_job(call, why);
	if (!find(name))
		return no_such_set(name, why);
	if (f->set.count)
		return tw_fail(why, TW_BAD_INPUT, "--set needs a job file; %s is a data set", name);
	if (find_cache(f, cache, sizeof cache, why) != TW_OK ||
	    tw_data_verify(name, cache, why) != TW_OK)
		return why->status;
	if (f->json) {
		json_t *o = json_pack("{s:s, s:s, s:s}", "name", name, "cache", cache, "state",
				      "whole");

		tw_print_json(o);
		json_decref(o);
	} else {
		printf("%s in %s/%s is intact\n", name, cache, name);
	}
	return TW_OK;
}

/* --- show --- */

/* Light and dark by ten letters, two to a pixel, or letters would look tall. */
static void draw(const json_t *image, size_t high, size_t wide)
{
	static const char ink[] = " .:-=+*#%@";

	for (size_t y = 0; y < high; y++) {
		for (size_t x = 0; x < wide; x++) {
			const double v = json_number_value(json_array_get(image, y * wide + x));
			const char c = ink[(int)(v * 9.0 + 0.5)];

			putchar(c);
			putchar(c);
		}
		putchar('\n');
	}
}

static void print_images(const json_t *o)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(o, "samples"), k, row)
	{
		printf("sample %zu", k);
		if (json_object_get(row, "label"))
			printf(", label %lld", tw_whole_at(row, "label"));
		putchar('\n');
		draw(json_object_get(row, "image"), tw_count_at(o, "height"),
		     tw_count_at(o, "width"));
	}
}

static enum tw_status show(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	struct tw_job *job = NULL;
	json_t *o = NULL;
	enum tw_status st = read_job(call, &job, why);

	if (st == TW_OK)
		st = tw_query_images(job, f->count, &o, why);
	tw_job_free(job);
	if (st == TW_OK)
		tw_query_show(o, f->json, print_images);
	return st;
}

/* --- sets on disk --- */

static void print_set_file(const json_t *o)
{
	char shown[24];

	printf("%s: %s, %lld train, %lld validation, %lld test, fingerprint %s\n",
	       tw_query_text(o, "file"), tw_query_bytes((double)tw_whole_at(o, "bytes"), shown),
	       tw_whole_at(o, "train"), tw_whole_at(o, "validation"), tw_whole_at(o, "test"),
	       tw_query_text(o, "fingerprint"));
}

static void print_imported(const json_t *o)
{
	const json_t *w;
	size_t k;

	print_set_file(o);
	json_array_foreach(json_object_get(o, "notes"), k, w)
		printf("%-12s %s\n", "note", json_string_value(w));
	json_array_foreach(json_object_get(o, "warnings"), k, w)
		printf("%-12s %s\n", "warning", json_string_value(w));
	printf("to train on it: data: {source: %s, file: %s}\n", tw_query_text(o, "source"),
	       tw_query_text(o, "file"));
}

static enum tw_status import(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	struct tw_job *job = NULL;
	json_t *o = NULL;
	enum tw_status st;

	if (!*f->to)
		return tw_fail(why, TW_BAD_INPUT,
			       "data import needs --to FILE.tws: the file that it writes");
	st = read_job(call, &job, why);
	if (st == TW_OK) {
		job->listener = (struct tw_data_listener){ tw_terminal_reading, call->terminal };
		st = tw_query_import(job, f->to, &o, why);
	}
	tw_job_free(job);
	if (st == TW_OK)
		tw_query_show(o, f->json, print_imported);
	return st;
}

static void print_verified(const json_t *o)
{
	print_set_file(o);
	printf("it is what it claims to be\n");
}

static enum tw_status verify(const struct tw_call *call, struct tw_error *why)
{
	const struct data_flags *f = call->flags;
	json_t *o = NULL;
	const enum tw_status st = tw_query_verify(call->word[1], &o, why);

	if (st == TW_OK)
		tw_query_show(o, f->json, print_verified);
	return st;
}

/* --- the verb --- */

static const struct part {
	const char *name, *words;
	size_t count; /* of words, its own included */
	enum tw_status (*run)(const struct tw_call *call, struct tw_error *why);
} parts[] = {
	{ "list", "", 1, list },
	{ "fetch", " NAME", 2, fetch },
	{ "check", " NAME|JOB", 2, check },
	{ "show", " JOB", 2, show },
	{ "import", " JOB --to FILE.tws", 2, import },
	{ "verify", " FILE.tws", 2, verify },
};
#define PARTS (sizeof parts / sizeof parts[0])

static const char *word_at(size_t k)
{
	return k < PARTS ? parts[k].name : NULL;
}

static int data(const struct tw_call *call)
{
	const struct part *p = NULL;
	struct tw_error why = { .status = TW_OK };
	const char *names[PARTS + 1] = { NULL }, *near;

	for (size_t k = 0; k < PARTS; k++) {
		names[k] = parts[k].name;
		if (strcmp(parts[k].name, call->word[0]) == 0)
			p = &parts[k];
	}
	near = p ? NULL : tw_nearest(call->word[0], names);
	if (!p)
		tw_fail(&why, TW_BAD_INPUT,
			"data does not take '%s'%s%s; it takes list, fetch, "
			"check, show, import or verify",
			call->word[0], near ? "; did you mean " : "", near ? near : "");
	else if (call->words != p->count)
		tw_fail(&why, TW_BAD_INPUT, "usage: thalweg data %s%s", p->name, p->words);
	else
		p->run(call, &why);
	return why.status == TW_OK ? TW_EXIT_DONE : tw_query_failed(call, &why);
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct data_flags, cache, "cache", TW_TEXT, "", "DIR", 0, 0,
		"folder of the fetched data sets (default: $XDG_CACHE_HOME/thalweg or "
		"~/.cache/thalweg)"),
	TW_FLAG(struct data_flags, path, "path", TW_TEXT, "", "DIR", 0, 0,
		"fetch: copy the set's files from this folder, gzipped or not, instead of "
		"downloading them"),
	TW_FLAG(struct data_flags, to, "to", TW_TEXT, "", "FILE", 0, 0,
		"import: the new file, which ends with .tws"),
	TW_FLAG_MANY(struct data_flags, set, "set", "PATH=VALUE",
		     "override a field of the job: data.path=/data/mnist; may be repeated"),
	TW_FLAG(struct data_flags, count, "count", TW_U32, "3", "N", 1, 1000,
		"show: number of samples"),
	TW_SWITCH(struct data_flags, json, "json", "print the result as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg data list", "the sources, and the data sets that are fetched" },
	{ "thalweg data fetch mnist", "put MNIST into the cache, checked by its hashes" },
	{ "thalweg data fetch mnist --path ~/mnist", "the same from IDX files in a folder" },
	{ "thalweg data fetch moby-dick", "a novel to train networks on text with" },
	{ "thalweg data check examples/lenet-mnist.yaml", "open a job's data and count it" },
	{ "thalweg data show examples/lenet-mnist.yaml --count 2", "draw two images as text" },
	{ "thalweg data import examples/lenet-mnist.yaml --to mnist.tws",
	  "the data of a job as one file, which later jobs read from the disk" },
	{ "thalweg data verify mnist.tws", "compare all of such a file with its fingerprint" },
	{ 0 },
};

const struct tw_verb tw_verb_data = {
	.name = "data",
	.words = "WHAT",
	.help = "list, fetch, check, show or import data sets",
	.about = "`data list` lists the sources of samples and the data sets that are fetched.\n"
		 "`data fetch NAME` puts a data set into the cache, completely or not at all.\n"
		 "`data check NAME` compares a fetched set with its hashes; `data check JOB`\n"
		 "opens a job's data and counts its samples.  `data show JOB` draws some\n"
		 "training images.  `data import JOB --to FILE.tws` writes the data of a job,\n"
		 "divided as the job says, into one file that later jobs read from the disk\n"
		 "while they train; `data verify FILE.tws` looks at all of it.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct data_flags),
	.least = 1,
	.most = 2,
	.word_at = word_at,
	.run = data,
};
