/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - a verb on the ranks of an MPI: rank 0 speaks, the others follow in silence. */
#include "cli/ranks.h"

#include "cli/run_job.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "run/run.h"

#include <time.h>
#include <unistd.h>

struct training {
	const struct tw_call *call;
	struct tw_ranks *ranks;
	const char *dir;
};

static int lead(const struct training *t)
{
	const struct tw_work_flags *f = t->call->flags;
	struct tw_error why = { .status = TW_OK };
	struct tw_job *job = NULL;
	enum tw_status status = tw_work_read_ranks(t->call, t->call->word[0], TW_WORLD_MPI, t->dir,
						   tw_ranks_count(t->ranks), &job, &why);

	if (status == TW_OK)
		status = f->explain ? tw_work_explain(job, &why)
				    : tw_work_run_ranks(t->call, job, t->dir, t->ranks, &why);
	tw_job_free(job);
	return status == TW_OK ? TW_EXIT_DONE : tw_exit_for(t->call, &why);
}

static int follow(const struct training *t)
{
	const struct tw_work_flags *f = t->call->flags;
	struct tw_error why = { .status = TW_OK };

	tw_terminal_child(t->call->terminal);
	if (*f->isa && tw_run_isa(f->isa, &why) != TW_OK)
		tw_log_line(t->call->log, TW_ERROR, "", "%s", why.text); /* rank 0 fails as well */
	tw_ranks_follow(t->ranks, NULL, NULL, &why); /* rank 0 says what failed */
	return TW_EXIT_DONE;
}

static int train(struct tw_ranks *ranks, void *arg)
{
	struct training *t = arg;

	t->ranks = ranks;
	return tw_ranks_rank(t->ranks) ? follow(t) : lead(t);
}

/* All ranks find the same thing wrong; one of them says it. */
static int refuse(const struct tw_call *call, const struct tw_launcher *l,
		  const struct tw_error *why)
{
	if (!l->rank)
		return tw_exit_for(call, why);
	/* a launcher may end the others as soon as one has failed */
	nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
	return why->status == TW_BAD_INPUT ? TW_EXIT_WRONG : TW_EXIT_FAILED;
}

struct calling {
	struct tw_ranks *ranks;
	int (*program)(struct tw_ranks *r, void *arg);
	void *arg;
};

static int call_program(void *arg)
{
	const struct calling *c = arg;

	return c->program(c->ranks, c->arg);
}

static int open_and_call(const struct tw_call *call, const struct tw_launcher *l,
			 int (*program)(struct tw_ranks *r, void *arg), void *arg)
{
	struct calling c = { .program = program, .arg = arg };
	struct tw_error why = { .status = TW_OK };

	if (tw_ranks_open(l, call->log, tw_signals_count_ranks(), &c.ranks, &why) != TW_OK)
		return refuse(call, l, &why);
	return tw_ranks_main(c.ranks, call_program, &c);
}

int tw_ranks_call(const struct tw_call *call, int (*program)(struct tw_ranks *r, void *arg),
		  void *arg)
{
	struct tw_launcher l;

	tw_launcher_find((const char *const *)environ, &l);
	return open_and_call(call, &l, program, arg);
}

int tw_ranks_train(const struct tw_call *call, const struct tw_launcher *l, const char *dir)
{
	struct training t = { .call = call, .dir = dir };

	return open_and_call(call, l, train, &t);
}
