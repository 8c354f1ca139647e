/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - thalweg join: a worker, or a server with shards, in a cluster that is there. */
#include "cli/join_modes.h"
#include "spec/oversubscription.h"
#include "query/query.h"
#include "run/run.h"
#include "checkpoint/export.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const roles[] = { "worker", "server", NULL };

/* Where ranks are told apart, all have the same command; else what only rank 0 reads is wrong. */
static enum tw_status check_flags(const struct tw_join_flags *f, enum tw_rendezvous_source source,
				  struct tw_error *why)
{
	if (*f->work.trace && (source != TW_WHERE_ARGUMENT || f->workers > 1))
		return tw_fail(why, TW_BAD_INPUT,
			       "--trace is for one process: give ADDRESS and no --workers, and "
			       "each process a file of its own");
	if (source != TW_WHERE_ARGUMENT && *f->save)
		return tw_fail(why, TW_BAD_INPUT,
			       "--save needs ADDRESS: without it every rank would write the "
			       "same file; rank 0 has the run directory (thalweg export)");
	if (source != TW_WHERE_ARGUMENT)
		return TW_OK;
	if (*f->job || *f->work.run || f->work.set.count)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--job, --run and --set are for rank 0 of a cluster that is found in "
			"the environment; with ADDRESS the job comes from the master");
	return TW_OK;
}

/* Said before anybody is dialled. */
static enum tw_status check_paths(const struct tw_join_flags *f, struct tw_error *why)
{
	struct stat s;

	if (*f->data && f->allow_path)
		return tw_fail(why, TW_BAD_INPUT,
			       "--data and --allow-path cannot be combined: --data searches "
			       "only DIR, and --allow-path opens any path that the job names");
	if (*f->data && stat(f->data, &s) != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "--data: %.300s cannot be opened: %s; name a directory that has the "
			       "job's data files",
			       f->data, strerror(errno));
	if (*f->data && !S_ISDIR(s.st_mode))
		return tw_fail(
			why, TW_BAD_INPUT,
			"--data: %.300s is not a directory; name one that has the job's data "
			"files",
			f->data);
	return *f->save ? tw_save_check(f->save, why) : TW_OK;
}

static int enter(const struct tw_call *call, struct tw_link *link,
		 const struct tw_rendezvous *where)
{
	struct tw_join_flags f = *(const struct tw_join_flags *)call->flags;
	struct tw_call own = *call;

	own.flags = &f;
	f.ranked = !call->words;
	if (f.ranked && tw_rendezvous_leads(where))
		return tw_join_lead(&own, link, where);
	if (*f.job || *f.work.run || f.work.set.count || (f.ranked && *f.link.listen && !f.as))
		tw_log_line(
			call->log, TW_INFO, "",
			"--job, --run, --set and a worker's --listen are for rank 0, which runs "
			"the master; this process gets the job from it");
	if (f.ranked && !f.as)
		f.link.listen = "";
	if (f.workers > 1)
		return tw_join_many(&own, link, &where->master);
	return tw_join_alone(&own, link, &where->master);
}

static int join(const struct tw_call *call)
{
	const struct tw_join_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	struct tw_rendezvous where;
	struct tw_link link;
	enum tw_status status;
	int code;

	status = tw_link_open(&link, &f->link, call->log, &why);
	if (status == TW_OK)
		status = tw_rendezvous_find(call->words ? call->word[0] : NULL,
					    (const char *const *)environ, &where, &why);
	if (status == TW_OK && (call->words || !tw_rendezvous_leads(&where)))
		status = tw_rendezvous_need(&where, &why);
	if (status == TW_OK)
		status = check_flags(f, where.source, &why);
	if (status == TW_OK)
		status = check_paths(f, &why);
	if (status == TW_OK && *f->work.isa)
		status = tw_run_isa(f->work.isa, &why);
	code = status == TW_OK ? enter(call, &link, &where) : tw_exit_for(call, &why);
	tw_link_close(&link);
	return code;
}

static const struct tw_flag flags[] = {
	{ .option = TW_OPTION_CHOICE(struct tw_join_flags, as, "as", "worker", roles,
				     "role of this process: worker, or server (holds a part of "
				     "the parameters)"),
	  .value = "ROLE" },
	TW_TRACE_FLAG("write a timeline of this process for Perfetto (Chrome's trace format)"),
	TW_FLAG(struct tw_join_flags, workers, "workers", TW_U32, "1", "N", 1, TW_CROWD_PROCESSES,
		"number of workers to start, each a process"),
	TW_LINK_FLAGS(struct tw_join_flags, link,
		      "server, or worker of a job without servers: the address where workers "
		      "reach it (default: a free port; on this machine only if the master is)",
		      "port on this machine for /metrics and /health (default: off)"),
	TW_SWITCH(struct tw_join_flags, link.insecure, "insecure",
		  "as --listen, and rank 0: accept other machines without key or certificates"),
	TW_FLAG(struct tw_join_flags, patience, "patience", TW_TIME, "10min", "TIME", 0, 0,
		"give up if no master answers for this long; 0s: never"),
	TW_FLAG(struct tw_join_flags, data, "data", TW_TEXT, "", "DIR", 0, 0,
		"look for the job's data files by name in DIR before asking the master for them"),
	TW_FLAG(struct tw_join_flags, copy, "copy", TW_TEXT, "", "FILE.tws", 0, 0,
		"the run's data set on this machine, as `thalweg data import` wrote it: it must "
		"have the run's fingerprint"),
	TW_SWITCH(struct tw_join_flags, allow_path, "allow-path",
		  "open the files that the master's job names, at any path; only for a master "
		  "you trust"),
	TW_FLAG(struct tw_join_flags, save, "save", TW_TEXT, "", "FILE", 0, 0,
		"write the model to this safetensors file when the run ends"),
	TW_SWITCH(struct tw_join_flags, work.json, "json", "print the result as one JSON object"),
	TW_FLAG(struct tw_join_flags, work.log, "log", TW_TEXT, "", "FILE", 0, 0,
		"append metrics as JSON lines; a file, /dev/stdout, /dev/stderr or /dev/null"),
	TW_FLAG(struct tw_join_flags, work.isa, "isa", TW_TEXT, "", "NAME", 0, 0,
		"use at most this instruction set: plain, avx2 or avx512"),
	TW_FLAG(struct tw_join_flags, job, "job", TW_TEXT, "", "JOB", 0, 0,
		"rank 0: the job that its master runs"),
	TW_FLAG(struct tw_join_flags, work.run, "run", TW_TEXT, "", "DIR", 0, 0,
		"rank 0: run directory (default: runs/ plus the job file's name)"),
	TW_FLAG_MANY(struct tw_join_flags, work.set, "set", "PATH=VALUE",
		     "rank 0: override a field of the job; may be repeated"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg join master.example.org --key cluster.key", "join that master as a worker" },
	{ "thalweg join localhost --workers 4", "four workers, each a process" },
	{ "thalweg join localhost --as server", "join as a server, which holds a part of the "
						"parameters" },
	{ "thalweg join master --key cluster.key --data /data/sets",
	  "use data files that are already on this machine" },
	{ "srun -n 8 thalweg join --job job.yaml --key cluster.key",
	  "under Slurm: rank 0 runs the master, and all eight ranks train" },
	{ 0 },
};

const struct tw_verb tw_verb_join = {
	.name = "join",
	.words = "[ADDRESS]",
	.help = "join a cluster as a worker, or as a server",
	.about = "Joins the cluster whose master (`thalweg serve`) is at ADDRESS: HOST or\n"
		 "HOST:PORT; the default port is 7433.  The job comes from the master; the data\n"
		 "comes from the cache or from the master.  A file that the job names is opened\n"
		 "here only if --data or --allow-path allows it.  A process that loses the\n"
		 "master waits for it and reconnects by itself.  Interrupt once to leave\n"
		 "cleanly, twice to stop at once.\n"
		 "Without ADDRESS, the address comes from the environment: the first host of\n"
		 "SLURM_JOB_NODELIST, or MASTER_ADDR, with MASTER_PORT.  Rank 0 (RANK, or\n"
		 "SLURM_PROCID) then runs the master of --job, and a worker as well.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct tw_join_flags),
	.most = 1,
	.works = true,
	.run = join,
};
