/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - thalweg train JOB: the job on this machine, in threads. */
#include "cli/work.h"

#include <stdio.h>
#include <string.h>

/* runs/<the job file's name without folder and suffix>. */
static void default_run(const char *job, char *out, size_t room)
{
	const char *slash = strrchr(job, '/'), *base = slash ? slash + 1 : job;
	const char *dot = strrchr(base, '.');
	const size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);

	if (strcmp(job, "-") == 0)
		snprintf(out, room, "runs/stdin");
	else
		snprintf(out, room, "runs/%.*s", (int)len, base);
}

static int train(const struct tw_call *call)
{
	struct tw_work_flags f = *(const struct tw_work_flags *)call->flags;
	struct tw_call mine = *call;
	char dir[4096];

	f.trace = ""; /* the simulator's; `train` has no such flag */
	mine.flags = &f;
	default_run(call->word[0], dir, sizeof dir);
	return tw_work(&mine, TW_WORLD_THREADS, *f.run ? f.run : dir);
}

static const struct tw_flag flags[] = {
	TW_WORK_FLAGS("run directory (default: runs/ and the job file's name)"),
	TW_FLAG_END,
};

static const struct tw_example examples[] = {
	{ "thalweg train examples/hogwild.yaml",
	  "train in threads; keep everything in runs/hogwild" },
	{ "thalweg train examples/ssgd.yaml --again --json", "start over, result for a program" },
	{ "thalweg train examples/asgd.yaml --explain", "what the preset and the defaults are" },
	{ 0 },
};

const struct tw_verb tw_verb_train = {
	.name = "train",
	.words = "JOB",
	.help = "train on this machine, one thread per worker",
	.about = "Trains the job on this machine with one compute thread per worker.  JOB is a "
		 "YAML\n"
		 "file, or - for standard input.  The run directory keeps the job, checkpoints, "
		 "log and\n"
		 "result; running again goes on where it was stopped.  Interrupt once to "
		 "checkpoint and\n"
		 "stop, twice to stop at once.\n",
	.example = examples,
	.flags = flags,
	.flags_bytes = sizeof(struct tw_work_flags),
	.least = 1,
	.most = 1,
	.run = train,
};
