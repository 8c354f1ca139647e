/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c - train on the tasks of a Slurm step as processes that may die: task 0 serves, the others
 * join. */
#include "cli/tasks.h"

#include "cli/join_modes.h"
#include "cli/terminal.h"
#include "run/run.h"

#include <stdlib.h>
#include <unistd.h>

#define PATIENCE   (60 * INT64_C(1000000000)) /* nobody starts task 0 again */
#define FIRST_PORT 10000
#define PORTS      20000

static unsigned long number_of(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : 0;
}

/* Steps that share a machine must not meet: each has a port of its own. */
static uint16_t port_of_step(void)
{
	const unsigned long step = 64 * number_of("SLURM_JOB_ID") + number_of("SLURM_STEP_ID");

	return (uint16_t)(FIRST_PORT + step % PORTS);
}

static enum tw_status find(struct tw_rendezvous *where, struct tw_error *why)
{
	const enum tw_status status =
		tw_rendezvous_find(NULL, (const char *const *)environ, where, why);

	if (status != TW_OK)
		return status;
	if (!getenv("MASTER_PORT"))
		where->master.port = port_of_step();
	return tw_rendezvous_need(where, why);
}

int tw_tasks_train(const struct tw_call *call, const struct tw_launcher *l,
		   const struct tw_tasks_flags *flags)
{
	const struct tw_join_flags f = {
		.work = *(const struct tw_work_flags *)call->flags,
		.link = { .listen = "",
			  .key = flags->key,
			  .certificate = "",
			  .certificate_key = "",
			  .authority = "",
			  .http = "off",
			  .http_host = "",
			  .insecure = flags->insecure },
		.as = TW_JOIN_WORKER,
		.workers = 1,
		.patience = PATIENCE,
		.job = call->word[0],
		.data = "",
		.copy = "",
		.allow_path = true, /* the job is this user's own */
		.save = "",
		.ranked = true,
		.tasks = l->tasks,
		.silent = true,
	};
	struct tw_call own = *call;
	struct tw_error why = { .status = TW_OK };
	struct tw_rendezvous where;
	struct tw_link link;
	enum tw_status status = tw_link_open(&link, &f.link, call->log, &why);
	int code;

	own.flags = &f;
	if (status == TW_OK)
		status = find(&where, &why);
	if (status == TW_OK && *f.work.isa)
		status = tw_run_isa(f.work.isa, &why);
	if (l->rank)
		tw_terminal_child(call->terminal);
	if (status != TW_OK)
		code = tw_exit_for(&own, &why);
	else if (l->rank)
		code = tw_join_alone(&own, &link, &where.master);
	else
		code = tw_join_lead(&own, &link, &where);
	tw_link_close(&link);
	return code;
}
