/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - thalweg train JOB: the job on this machine, in threads or in processes, or on the ranks
 * that a launcher has started. */
#include "cli/local_cluster.h"
#include "cli/ranks.h"
#include "cli/run_job.h"
#include "cli/tasks.h"

#include <unistd.h>

enum { AUTO, THREADS, TCP, MPI };
static const char *const worlds[] = {
	[AUTO] = "auto", [THREADS] = "threads", [TCP] = "tcp", [MPI] = "mpi", NULL,
};

struct train_flags {
	struct tw_work_flags work;
	bool processes;
	uint32_t world;
	struct tw_tasks_flags tasks;
};

static int in_processes(const struct tw_call *call, const char *dir)
{
	const struct train_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	struct tw_job *job = NULL;
	enum tw_status status;

	status = tw_work_read(call, call->word[0], TW_WORLD_TCP, dir, &job, &why);
	if (status == TW_OK)
		status = f->work.explain ? tw_work_explain(job, &why)
					 : tw_local_run(call, job, dir, &why);
	tw_job_free(job);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}

static int train(const struct tw_call *call)
{
	const struct train_flags *f = call->flags;
	char standard[4096];
	const char *dir = *f->work.run ? f->work.run : standard;
	struct tw_launcher launcher;

	tw_work_dir(call->word[0], standard, sizeof standard);
	tw_launcher_find((const char *const *)environ, &launcher);
	if (f->processes && f->world != AUTO && f->world != TCP) {
		tw_log_line(call->log, TW_ERROR, "",
			    "--processes is --world tcp: leave out one of --processes and --world "
			    "%s",
			    worlds[f->world]);
		return TW_EXIT_WRONG;
	}
	if (*f->work.trace &&
	    (f->world == MPI || (!f->processes && (launcher.name || launcher.tasks > 1)))) {
		tw_log_line(call->log, TW_ERROR, "",
			    "--trace is for threads and for --processes; leave it out on the ranks "
			    "and tasks of a launcher");
		return TW_EXIT_WRONG;
	}
	if (f->world == TCP && !f->processes && launcher.slurm && launcher.tasks > 1)
		return tw_tasks_train(call, &launcher, &f->tasks);
	if (*f->tasks.key || f->tasks.insecure) {
		tw_log_line(call->log, TW_ERROR, "",
			    "--key and --insecure are for tasks of srun --mpi=none with --world "
			    "tcp; leave them out, or see `thalweg serve`");
		return TW_EXIT_WRONG;
	}
	if (f->world == MPI || (f->world == AUTO && !f->processes && launcher.name))
		return tw_ranks_train(call, &launcher, dir);
	return f->processes || f->world == TCP ? in_processes(call, dir)
					       : tw_work(call, TW_WORLD_THREADS, dir);
}

static const struct tw_flag flags[] = {
	TW_WORK_FLAGS("run directory (default: runs/ plus the job file's name)"),
	TW_TRACE_FLAG(
		"write a timeline for Perfetto (Chrome's trace format); with --processes each "
		"process has its own file: FILE, FILE.worker-1, FILE.server-1, ..."),
	TW_SWITCH(struct train_flags, processes, "processes",
		  "start a process for every worker and server instead of threads"),
	{ .option = TW_OPTION_CHOICE(struct train_flags, world, "world", "auto", worlds,
				     "where to train: threads, tcp (processes) or mpi; auto: on "
				     "the ranks of a launcher, else in threads"),
	  .value = "WORLD" },
	TW_FLAG(struct train_flags, tasks.key, "key", TW_TEXT, "", "FILE", 0, 0,
		"tasks of srun --mpi=none with --world tcp: the cluster's key, as `thalweg key` "
		"makes it"),
	TW_SWITCH(struct train_flags, tasks.insecure, "insecure",
		  "the same tasks: connect machines without a key"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg train examples/mlp-digits.yaml --trace timeline.json",
	  "see in ui.perfetto.dev who computed what, and when" },
	{ "thalweg train examples/hogwild.yaml",
	  "train in threads; keep everything in runs/hogwild" },
	{ "thalweg train examples/ssgd.yaml --again --json", "start over; the result as JSON" },
	{ "thalweg train examples/asgd.yaml --explain", "show the fields that the preset and "
							"the defaults set" },
	{ "thalweg train examples/mlp-digits.yaml --processes",
	  "a cluster of processes on this machine, with one command" },
	{ "mpirun -n 8 thalweg train job.yaml", "on eight MPI ranks: each computes, and rank 0 "
						"prints the result" },
	{ "srun --mpi=none -n 8 thalweg train --world tcp --key cluster.key job.yaml",
	  "under Slurm, elastic: task 0 serves, the others join, and tasks may die" },
	{ 0 },
};

const struct tw_verb tw_verb_train = {
	.name = "train",
	.words = "JOB",
	.help = "train in threads or processes of this machine, or on MPI ranks",
	.about = "Trains the job on this machine with one compute thread per worker.  JOB is a\n"
		 "YAML file, or - for standard input.  The run directory keeps the job,\n"
		 "checkpoints, log and result; run the same command again to resume.  Interrupt\n"
		 "once to checkpoint and stop, twice to stop at once.  With --processes every\n"
		 "worker and every server is a process; if one dies, the others continue.\n"
		 "Under mpirun or srun --mpi=pmix|pmi2 it trains on the ranks that were started:\n"
		 "each has a worker, rank 0 prints the result, SIGUSR1 checkpoints and stops.\n"
		 "If a rank dies the run ends; run the same command again to resume.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct train_flags),
	.least = 1,
	.most = 1,
	.works = true,
	.run = train,
};
