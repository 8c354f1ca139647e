/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - thalweg bench: how fast it is on this machine, against what the machine allows. */
#include "bench/bench.h"

#include "cli/summary.h"
#include "cli/verb.h"

#include <string.h>

struct bench_flags {
	bool json;
};

static const struct tw_bench *find(const char *name)
{
	for (size_t i = 0; tw_bench_all[i]; i++)
		if (strcmp(tw_bench_all[i]->name, name) == 0)
			return tw_bench_all[i];
	return NULL;
}

static int no_such_bench(const struct tw_call *call, const char *name)
{
	const char *names[16], *near;
	size_t n = 0;

	for (; n < 15 && tw_bench_all[n]; n++)
		names[n] = tw_bench_all[n]->name;
	names[n] = NULL;
	near = tw_nearest(name, names);
	tw_log_line(call->log, TW_ERROR, "", "there is no bench '%s'%s%s%s", name,
		    near ? "; did you mean " : "", near ? near : "",
		    near ? "?" : "; `thalweg bench --help` lists them");
	return TW_EXIT_WRONG;
}

static int bench(const struct tw_call *call)
{
	const struct bench_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;
	enum tw_status status;
	const struct tw_bench *one = NULL;

	if (call->words && !(one = find(call->word[0])))
		return no_such_bench(call, call->word[0]);
	status = tw_bench_run(one, call->log, &result, &why);
	if (status != TW_OK)
		return tw_exit_for(call, &why);
	if (f->json)
		tw_print_json(result);
	else
		tw_print_cases(result);
	json_decref(result);
	return TW_EXIT_DONE;
}

static const struct tw_flag flags[] = {
	TW_FLAG(struct bench_flags, json, "json", TW_BOOL, "false", NULL, 0, 0,
		"print the cases as one JSON object"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg bench", "all benches, as a table" },
	{ "thalweg bench exchange --json", "push, apply and pull in threads, for a program" },
	{ 0 },
};

const struct tw_verb tw_verb_bench = {
	.name = "bench",
	.words = "[WHAT]",
	.help = "measure this machine: exchange, sim or codec; all without a word",
	.about =
		"Measures against floors taken in the same run, in medians of interleaved rounds:\n"
		"exchange (push, apply and pull of 14.6 million parameters in threads, against "
		"one\n"
		"SGD pass and one copy), sim (events per second; memory of 10,000 workers) and "
		"codec\n"
		"(encode and decode against an SGD pass over the same values).\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct bench_flags),
	.most = 1,
	.run = bench,
};
