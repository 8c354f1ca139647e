/* SPDX-License-Identifier: Apache-2.0 */
/* verb_hints.c - what people type where a verb belongs, and the command that they mean. */
#include "cli/verb_hints.h"

#include "spec/help/hint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESUME "run the same command again to resume: "

const struct tw_verb_hint tw_verb_hints[] = {
	{ "run", "train JOB", NULL },
	{ "start", "train JOB", NULL },
	{ "fit", "train JOB", NULL },
	{ "launch", "train JOB", NULL },
	{ "learn", "train JOB", NULL },
	{ "resume", "train JOB", RESUME },
	{ "continue", "train JOB", RESUME },
	{ "restart", "train JOB --again", NULL },
	{ "evaluate", "eval PATH", NULL },
	{ "test", "eval PATH", NULL },
	{ "score", "eval PATH", NULL },
	{ "simulate", "sim JOB", NULL },
	{ "infer", "predict PATH --data FILE", NULL },
	{ "inference", "predict PATH --data FILE", NULL },
	{ "apply", "predict PATH --data FILE", NULL },
	{ "sample", "generate PATH --prompt TEXT", NULL },
	{ "complete", "generate PATH --prompt TEXT", NULL },
	{ "write", "generate PATH --prompt TEXT", NULL },
	{ "save", "export PATH --to FILE", NULL },
	{ "convert", "export PATH --to FILE", NULL },
	{ "show", "inspect PATH", NULL },
	{ "info", "inspect PATH", NULL },
	{ "summary", "inspect PATH", NULL },
	{ "status", "inspect PATH", NULL },
	{ "check", "train JOB --explain", NULL },
	{ "validate", "train JOB --explain", NULL },
	{ "explain", "train JOB --explain", NULL },
	{ "master", "serve JOB", NULL },
	{ "server", "serve JOB", NULL },
	{ "worker", "join ADDRESS", NULL },
	{ "connect", "join ADDRESS", NULL },
	{ "tune", "compare JOB --tune update.rate=0.01,0.1", NULL },
	{ "sweep", "compare JOB --vary update.rate=0.01,0.1", NULL },
	{ "benchmark", "bench", NULL },
	{ "download", "data fetch mnist", NULL },
	{ "fetch", "data fetch mnist", NULL },
	{ "list", "help strategies", NULL },
	{ "strategies", "help strategies", NULL },
	{ "layers", "help layers", NULL },
	{ "options", "help options", NULL },
	{ "man", "help --man", NULL },
	{ "version", "--version", NULL },
	{ "keygen", "key", NULL },
	{ NULL },
};

static bool is_directory(const char *path)
{
	struct stat s;

	return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The command, with `next` in place of its word in capitals; a directory is no job, but that of a
 * run. */
static void fill(const char *command, const char *next, char *out, size_t room)
{
	const size_t at = strcspn(command, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
	const size_t n = strspn(command + at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

	if (n == 3 && next && is_directory(next)) /* JOB */
		snprintf(out, room, "%s --run %.150s", command, next);
	else if (n && next && *next != '-')
		snprintf(out, room, "%.*s%.150s%s", (int)at, command, next, command + at + n);
	else
		snprintf(out, room, "%s", command);
}

static bool is_job(const char *word)
{
	const char *dot = strrchr(word, '.');

	return dot && (strcasecmp(dot, ".yaml") == 0 || strcasecmp(dot, ".yml") == 0);
}

bool tw_verb_hint(const char *word, const char *next, char *out, size_t room)
{
	char command[250], file[450];

	for (const struct tw_verb_hint *h = tw_verb_hints; h->theirs; h++) {
		if (strcasecmp(h->theirs, word) != 0)
			continue;
		fill(h->ours, next, command, sizeof command);
		snprintf(out, room, "%s`thalweg %s`", h->note ? h->note : "use ", command);
		return true;
	}
	if (!is_job(word) && tw_hint_file(word, file, sizeof file))
		snprintf(out, room, "it %s", file);
	else if (is_directory(word))
		snprintf(out, room, "`thalweg inspect %.150s` shows the run of a directory", word);
	else if (is_job(word) || strchr(word, '/') || access(word, F_OK) == 0)
		snprintf(out, room, "to train a job, use `thalweg train %.150s`", word);
	else
		return false;
	return true;
}
