/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - thalweg sim JOB: the job in the simulator. */
#include "cli/run_job.h"

static int sim(const struct tw_call *call)
{
	const struct tw_work_flags *f = call->flags;

	return tw_work(call, TW_WORLD_SIM, *f->run ? f->run : NULL);
}

static const struct tw_flag flags[] = {
	TW_WORK_FLAGS("keep checkpoints, log and result in this directory (default: keep nothing)"),
	TW_TRACE_FLAG("write a timeline for Perfetto (Chrome's trace format) to a file or "
		      "/dev/stdout"),
	TW_FLAG(struct tw_work_flags, threads, "threads", TW_U32, "0", "N", 0, 1024,
		"number of compute threads; 0: all cores; the result is the same for any number"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg sim examples/asgd.yaml", "simulate a cluster and print a summary" },
	{ "thalweg sim examples/asgd.yaml --set cluster.workers=64 --json",
	  "the same with 64 workers; the result as JSON" },
	{ "thalweg sim examples/dc-asgd.yaml --trace timeline.json",
	  "see in ui.perfetto.dev which worker waited, for what and how long" },
	{ 0 },
};

const struct tw_verb tw_verb_sim = {
	.name = "sim",
	.words = "JOB",
	.help = "run a job in the simulator: virtual time, any number of workers, faults",
	.about = "Runs the job in a deterministic simulator: the same seed gives the same bits,\n"
		 "on any number of cores.  JOB is a YAML file, or - for standard input.  Without\n"
		 "--run nothing is kept; with it, run the same command again to resume from the\n"
		 "last checkpoint.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct tw_work_flags),
	.least = 1,
	.most = 1,
	.works = true,
	.run = sim,
};
