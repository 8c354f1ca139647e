/* SPDX-License-Identifier: Apache-2.0 */
/* run_job.c - what the verbs that run a job have in common: a job, a world, a result. */
#include "cli/run_job.h"

#include "checkpoint/run_directory.h"
#include "cli/signals.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "run/run.h"
#include "spec/field.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tw_work_dir(const char *job, char *out, size_t room)
{
	const char *slash = strrchr(job, '/'), *base = slash ? slash + 1 : job;
	const char *dot = strrchr(base, '.');
	const size_t len = dot && dot > base ? (size_t)(dot - base) : strlen(base);

	if (strcmp(job, "-") == 0)
		snprintf(out, room, "runs/stdin");
	else
		snprintf(out, room, "runs/%.*s", (int)len, base);
}

static enum tw_status check_flags(const struct tw_work_flags *f, const char *dir,
				  struct tw_error *why)
{
	if (f->explain && f->json)
		return tw_fail(why, TW_BAD_INPUT,
			       "--explain prints the job as YAML: leave out --json");
	if (!dir && f->checkpoints)
		return tw_fail(why, TW_BAD_INPUT,
			       "--checkpoints needs --run DIR: without it there is nothing to "
			       "resume from");
	if (!dir && f->again)
		return tw_fail(why, TW_BAD_INPUT,
			       "--again needs --run DIR: nothing is kept "
			       "without it");
	return *f->isa ? tw_run_isa(f->isa, why) : TW_OK;
}

enum tw_status tw_work_explain(struct tw_job *job, struct tw_error *why)
{
	const enum tw_status status = tw_run_check(job, why);

	if (status == TW_OK)
		tw_job_explain(job, stdout);
	return status;
}

/* Run it with the verb's flags, and print the result. */
static enum tw_status run(const struct tw_call *call, struct tw_job *job,
			  struct tw_run_request *request, struct tw_error *why)
{
	const struct tw_work_flags *f = call->flags;
	json_t *result = NULL;
	enum tw_status status;

	request->again = f->again;
	request->metrics = *f->log ? f->log : NULL;
	request->trace = f->trace && *f->trace ? f->trace : NULL;
	request->threads = f->threads;
	request->checkpoints = f->checkpoints;
	request->log = call->log;
	request->show = call->quiet ? NULL : tw_terminal_show;
	request->show_arg = call->terminal;
	status = tw_run(request, job, &result, why);
	tw_terminal_clear(call->terminal);
	if (result && f->json)
		tw_print_json(result);
	else if (result && (status == TW_OK || status == TW_INTERRUPTED))
		tw_print_summary(result);
	if (status == TW_INTERRUPTED)
		tw_fail(why, status, "interrupted %s",
			json_is_string(json_object_get(result, "checkpoint"))
				? "after a checkpoint; run the same command again to resume"
				: "before the first checkpoint; run the same command again to "
				  "start over");
	json_decref(result);
	return status;
}

enum tw_status tw_work_run(const struct tw_call *call, struct tw_job *job, const char *dir,
			   struct tw_tcp_setup *net, struct tw_error *why)
{
	struct tw_run_request request = { .dir = dir,
					  .interrupted = tw_signals_count(dir != NULL),
					  .net = net };

	return run(call, job, &request, why);
}

enum tw_status tw_work_run_ranks(const struct tw_call *call, struct tw_job *job, const char *dir,
				 struct tw_ranks *ranks, struct tw_error *why)
{
	struct tw_run_request request = { .dir = dir,
					  .interrupted = tw_ranks_interrupts(ranks),
					  .ranks = ranks };

	return run(call, job, &request, why);
}

enum tw_status tw_work_read_ranks(const struct tw_call *call, const char *path,
				  enum tw_world_kind world, const char *dir, uint32_t ranks,
				  struct tw_job **out, struct tw_error *why)
{
	const struct tw_work_flags *f = call->flags;
	const struct tw_job_text how = { .set = f->set.at,
					 .sets = f->set.count,
					 .environ_ = (const char *const *)environ,
					 .ranks = ranks,
					 .former = dir && !f->again &&
						   tw_run_directory_is_former(dir) };
	enum tw_status status = check_flags(f, dir, why);

	if (status == TW_OK)
		status = tw_job_read_file(path, &how, world, out, why);
	if (status == TW_OK)
		(*out)->listener = (struct tw_data_listener){ tw_terminal_reading, call->terminal };
	if (status == TW_OK && (*out)->compare.given)
		status = tw_job_warn(*out, "section compare: is ignored here; only thalweg compare "
					   "uses it");
	return status;
}

enum tw_status tw_work_read(const struct tw_call *call, const char *path, enum tw_world_kind world,
			    const char *dir, struct tw_job **out, struct tw_error *why)
{
	return tw_work_read_ranks(call, path, world, dir, 0, out, why);
}

int tw_work(const struct tw_call *call, enum tw_world_kind world, const char *dir)
{
	const struct tw_work_flags *f = call->flags;
	struct tw_error why = { .status = TW_OK };
	struct tw_job *job = NULL;
	enum tw_status status;

	status = tw_work_read(call, call->word[0], world, dir, &job, &why);
	if (status == TW_OK)
		status = f->explain ? tw_work_explain(job, &why)
				    : tw_work_run(call, job, dir, NULL, &why);
	tw_job_free(job);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(call, &why);
}
