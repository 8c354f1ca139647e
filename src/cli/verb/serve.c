/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - thalweg serve JOB: the master of a cluster, which others join. */
#include "cli/cluster.h"
#include "cli/run_job.h"

struct serve_flags {
	struct tw_work_flags work;
	struct tw_link_flags link;
};

static enum tw_status run(const struct tw_call *call, struct tw_job *job, const char *dir,
			  struct tw_error *why)
{
	const struct serve_flags *f = call->flags;
	struct tw_address address;
	struct tw_link link;
	enum tw_status status;

	status = tw_link_open(&link, &f->link, call->log, why);
	if (status == TW_OK)
		status = tw_address_parse(*f->link.listen ? f->link.listen : "127.0.0.1", TW_PORT,
					  &address, why);
	if (status == TW_OK)
		status = tw_link_listen(&link, &address, why);
	if (status == TW_OK)
		status = tw_link_serve(&link, call, job, dir, TW_HTTP_PORT, why);
	tw_link_close(&link);
	return status;
}

static int serve(const struct tw_call *call)
{
	const struct serve_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	struct tw_job *job = NULL;
	enum tw_status status;
	char standard[4096];
	const char *dir = *f->work.run ? f->work.run : standard;

	tw_work_dir(call->word[0], standard, sizeof standard);
	status = tw_work_read(call, call->word[0], TW_WORLD_TCP, dir, &job, &why);
	if (status == TW_OK)
		status = f->work.explain ? tw_work_explain(job, &why) : run(call, job, dir, &why);
	tw_job_free(job);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}

static const struct tw_flag flags[] = {
	TW_WORK_FLAGS("run directory (default: runs/ plus the job file's name)"),
	TW_TRACE_FLAG("write a timeline of this process for Perfetto (Chrome's trace format)"),
	TW_LINK_FLAGS(struct serve_flags, link,
		      "address where others join: HOST:PORT, or :PORT for all addresses "
		      "(default: 127.0.0.1:7433)",
		      "port on this machine for /metrics and /health (default: 7434 or a free "
		      "one)"),
	TW_SWITCH(struct serve_flags, link.insecure, "insecure",
		  "accept other machines without key or certificates"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg serve job.yaml", "workers on this machine join with: thalweg join localhost" },
	{ "thalweg serve job.yaml --listen :7433 --key cluster.key",
	  "workers on other machines can join if they have the key" },
	{ "thalweg serve job.yaml --listen :7433 --certificate node.pem --certificate-key "
	  "node.key --authority ca.pem",
	  "the same with certificates" },
	{ 0 },
};

const struct tw_verb tw_verb_serve = {
	.name = "serve",
	.words = "JOB",
	.help = "run the master of a cluster, which workers join over TCP",
	.about = "Runs the master and the first server of a cluster.  Workers, and further\n"
		 "servers if the job has more than one, join it over TCP; serve prints the\n"
		 "command for that.  If the job has no servers, serve runs the master only, and\n"
		 "workers connect to each other, too.  Training starts when there are enough\n"
		 "workers (cluster.min, cluster.wait) and continues when workers come, leave or\n"
		 "die.  The run directory keeps the job, checkpoints, log and result.  Interrupt\n"
		 "once to checkpoint and stop (exit code 75), twice to stop at once.  Run the\n"
		 "same command again to resume from the last checkpoint; processes that had\n"
		 "joined reconnect by themselves.  Without a key it listens on this machine\n"
		 "only.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct serve_flags),
	.least = 1,
	.most = 1,
	.works = true,
	.run = serve,
};
