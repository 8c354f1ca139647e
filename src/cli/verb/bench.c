/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - thalweg bench: how fast it is on this machine, against what the machine allows. */
#include "bench/bench.h"
#include "bench/saved.h"

#include "cli/ranks.h"
#include "cli/signals.h"
#include "cli/summary.h"
#include "cli/verb.h"
#include "run/run.h"

#include <stdio.h>
#include <string.h>

struct bench_flags {
	bool json;
	const char *python, *isa, *save, *against;
	uint32_t world, repeat;
};

enum { IN_THREADS, IN_TCP, IN_MPI };
static const char *const worlds[] = {
	[IN_THREADS] = "threads", [IN_TCP] = "tcp", [IN_MPI] = "mpi", NULL
};

static const struct tw_bench *find(const char *name)
{
	for (size_t i = 0; tw_bench_all[i]; i++)
		if (strcmp(tw_bench_all[i]->name, name) == 0)
			return tw_bench_all[i];
	return NULL;
}

static const char *word_at(size_t k)
{
	return tw_bench_all[k] ? tw_bench_all[k]->name : NULL;
}

static int no_such_bench(const struct tw_call *call, const char *name)
{
	const char *names[16] = { NULL }, *near;

	for (size_t n = 0; n < 15 && word_at(n); n++)
		names[n] = word_at(n);
	near = tw_nearest(name, names);
	tw_log_line(call->log, TW_ERROR, "", "there is no bench '%s'%s%s%s", name,
		    near ? "; did you mean " : "", near ? near : "",
		    near ? "?" : "; `thalweg bench --help` lists them");
	return TW_EXIT_WRONG;
}

static void print_notes(const json_t *result)
{
	const json_t *note;
	size_t i;

	json_array_foreach(json_object_get(result, "notes"), i, note)
	{
		printf("%s%s\n", i ? "" : "\n", json_string_value(note));
	}
}

/* Files first: a bench takes minutes, and must not end with one that cannot be used. */
static enum tw_status look_at_files(const struct bench_flags *f, json_t **saved,
				    struct tw_error *why)
{
	json_t *none = json_array();
	enum tw_status status = *f->save ? tw_bench_save(f->save, none, why) : TW_OK;

	json_decref(none);
	if (status == TW_OK && *f->against)
		status = tw_bench_saved(f->against, saved, why);
	return status;
}

static enum tw_status measure(const struct tw_bench *one, const struct tw_bench_how *how,
			      uint32_t times, json_t *results, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	for (uint32_t k = 0; k < times && status == TW_OK; k++) {
		json_t *result = NULL;

		status = tw_bench_run(one, how, &result, why);
		if (status == TW_OK && json_array_append_new(results, result))
			status = tw_fail(why, TW_NO_MEMORY, "no memory for the results");
	}
	return status;
}

/* What the runs came to, on stdout and in files. */
static enum tw_status report(const struct bench_flags *f, const json_t *saved,
			     const json_t *results, struct tw_error *why)
{
	json_t *all = NULL, *rows = NULL;
	enum tw_status status = *f->save ? tw_bench_save(f->save, results, why) : TW_OK;

	if (status == TW_OK && f->repeat > 1)
		status = tw_bench_medians(results, &all, why);
	else if (status == TW_OK)
		all = json_incref(json_array_get(results, 0));
	if (status == TW_OK && saved)
		status = tw_bench_against(saved, results, &rows, why);
	if (status == TW_OK && rows)
		status = tw_bench_against_notes(saved, all, json_object_get(all, "notes"), why);
	if (status == TW_OK && rows)
		json_object_set(all, "against", rows);
	if (status == TW_OK && f->json) {
		tw_print_json(all);
	} else if (status == TW_OK) {
		tw_print_cases(all);
		if (rows)
			tw_print_against(rows, json_array_size(saved), f->against);
		print_notes(all);
	}
	json_decref(rows);
	json_decref(all);
	return status;
}

/* Run it, and print what it came to; a rank other than 0 only takes part. */
static int run(const struct tw_call *call, const struct tw_bench *one,
	       const struct tw_bench_how *how, bool prints)
{
	const struct bench_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	json_t *saved = NULL, *results = json_array();
	enum tw_status status = prints ? look_at_files(f, &saved, &why) : TW_OK;

	if (status == TW_OK)
		status = measure(one, how, f->repeat, results, &why);
	if (status == TW_OK && prints)
		status = report(f, saved, results, &why);
	json_decref(saved);
	json_decref(results);
	return status != TW_OK && prints ? tw_exit_for(call, &why) : TW_EXIT_DONE;
}

struct on_ranks {
	const struct tw_call *call;
	const struct tw_bench *one;
	struct tw_bench_how how;
};

static int rank_main(struct tw_ranks *ranks, void *arg)
{
	struct on_ranks *r = arg;

	r->how.ranks = ranks;
	return run(r->call, r->one, &r->how, tw_ranks_rank(ranks) == 0);
}

static bool has_world(const struct tw_bench *one, uint32_t world)
{
	const struct tw_bench *other = world == IN_TCP ? &tw_bench_pipeline : &tw_bench_allreduce;

	return world == IN_THREADS || one == &tw_bench_exchange || one == other;
}

static int bench(const struct tw_call *call)
{
	const struct bench_flags *f = call->flags;
	const struct tw_bench_how how = {
		.log = call->log,
		.python = *f->python ? f->python : NULL,
		.world = f->world == IN_TCP   ? TW_WORLD_TCP
			 : f->world == IN_MPI ? TW_WORLD_MPI
					      : TW_WORLD_THREADS,
	};
	struct tw_error why = { .status = TW_OK };
	const struct tw_bench *one = NULL;

	tw_signals_early(false);
	if (*f->isa && tw_run_isa(f->isa, &why) != TW_OK)
		return tw_exit_for(call, &why);
	if (call->words && !(one = find(call->word[0])))
		return no_such_bench(call, call->word[0]);
	if (!has_world(one, f->world)) {
		tw_log_line(call->log, TW_ERROR, "",
			    "--world tcp is for `thalweg bench exchange` and `thalweg bench "
			    "pipeline`, --world mpi for `thalweg bench exchange` and `thalweg "
			    "bench allreduce`; the other benches have one world");
		return TW_EXIT_WRONG;
	}
	if (f->world == IN_MPI)
		return tw_ranks_call(call, rank_main,
				     &(struct on_ranks){ .call = call, .one = one, .how = how });
	return run(call, one, &how, true);
}

static const struct tw_flag flags[] = {
	TW_SWITCH(struct bench_flags, json, "json", "print the cases as one JSON object"),
	TW_FLAG(struct bench_flags, python, "python", TW_TEXT, "", "PROGRAM", 0, 0,
		"Python with PyTorch, for compute, scale and allreduce (default: /usr/bin/python3, "
		"or the one in PATH)"),
	TW_FLAG(struct bench_flags, isa, "isa", TW_TEXT, "", "NAME", 0, 0,
		"use at most these instructions: plain, avx2 or avx512; PyTorch and its libraries "
		"do, too"),
	TW_FLAG(struct bench_flags, repeat, "repeat", TW_U32, "1", "N", 1, 1000,
		"measure this many times, and print the medians"),
	TW_FLAG(struct bench_flags, save, "save", TW_TEXT, "", "FILE", 0, 0,
		"append what was measured to this file, a JSON line for each time"),
	TW_FLAG(struct bench_flags, against, "against", TW_TEXT, "", "FILE", 0, 0,
		"compare with what --save kept there, and say which differences are within "
		"noise; that takes at least 4 runs in all, such as 3 saved ones"),
	{ .option =
		  TW_OPTION_CHOICE(struct bench_flags, world, "world", "threads", worlds,
				   "exchange: in threads, between two processes over sockets (tcp) "
				   "or between two MPI ranks (mpi); allreduce: mpi; pipeline: tcp"),
	  .value = "WORLD" },
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg bench", "all benches, as a table" },
	{ "thalweg bench exchange --json", "push, apply and pull in threads; the result as JSON" },
	{ "thalweg bench exchange --world tcp",
	  "the same between two processes, with and without TLS" },
	{ "mpirun -n 2 thalweg bench exchange --world mpi",
	  "between two MPI ranks, against plain calls of MPI" },
	{ "thalweg bench allreduce", "two workers without a server, compared with PyTorch's Gloo" },
	{ "mpirun -n 2 thalweg bench allreduce --world mpi",
	  "sums of two MPI ranks, against a bare MPI_Iallreduce" },
	{ "thalweg bench pipeline --world tcp",
	  "two stages in two processes, against a bare socket and against one process" },
	{ "thalweg bench connections", "500 and 2,000 worker processes on one server" },
	{ "thalweg bench codec --isa avx2", "encode and decode as on a machine without AVX-512" },
	{ "thalweg bench growth", "how time and memory grow with workers and with parameters" },
	{ "thalweg bench session", "what a step of a caller's own loop costs" },
	{ "thalweg bench compute", "a training step of nine networks, compared with PyTorch" },
	{ "thalweg bench compute --repeat 3 --save before.jsonl",
	  "keep three runs of a build, to compare another one with" },
	{ "thalweg bench compute --repeat 3 --against before.jsonl",
	  "the same bench of another build: what became faster, and what is within noise" },
	{ 0 },
};

const struct tw_verb tw_verb_bench = {
	.name = "bench",
	.words = "[WHAT]",
	.help = "measure this machine: compute, scale, exchange, allreduce, connections, "
		"optimiser, pipeline, session, sim, growth or codec; all of them if none is named",
	.about = "Measures each case against a floor in the same run, and prints medians of\n"
		 "interleaved rounds.  compute: a training step of nine networks against\n"
		 "PyTorch's, one thread each, and against one core's peak.  scale: workers in\n"
		 "threads against one that exchanges nothing, and against PyTorch's DDP.\n"
		 "exchange: push, apply and pull of 14.6 million parameters in threads, against\n"
		 "one SGD pass and one copy; with --world tcp between two processes, against the\n"
		 "same bytes and the same pass over a bare socket and over a bare TLS\n"
		 "connection; under mpirun -n 2 with --world mpi between two ranks, against plain\n"
		 "calls of MPI.  allreduce: two workers without a server add up 14.6 million "
		 "values\n"
		 "and update, between processes against Gloo's all-reduce through PyTorch, and in\n"
		 "threads against the passes over memory; and an MLP against PyTorch's DDP.\n"
		 "connections: 500 worker processes on one server, then 2,000:\n"
		 "memory of a connection, and CPU time of an update against that with 10\n"
		 "workers.  sim: events per second, memory of 10,000 workers, and events per\n"
		 "second of 65,535 shards against those of 64, and of 100,000 workers against\n"
		 "those of 1,000.  growth: time of an event against 100 to 300,000 simulated\n"
		 "workers, time of a step against 10^4 to 10^8 parameters, and the memory of\n"
		 "both.  codec: encode and decode against an SGD pass over the\n"
		 "same values.  optimiser: one iteration of each optimiser on shards of 14.6\n"
		 "million parameters, against the passes over memory of the textbook.\n"
		 "pipeline: a large network in two stages against one worker,\n"
		 "and its idle time and memory against its schedule; with --world tcp in two\n"
		 "processes, its activations against the same bytes over a bare socket, and its\n"
		 "samples per second against one process.  session: a step of a caller's own loop\n"
		 "with 14.6 million parameters, against the built-in engine's step and 1.2 copies\n"
		 "of the vector; and next and done of a tiny model.  Without PyTorch, only\n"
		 "Thalweg's own figures are shown.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct bench_flags),
	.most = 1,
	.word_at = word_at,
	.works = true,
	.run = bench,
};
