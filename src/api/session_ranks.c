/* SPDX-License-Identifier: Apache-2.0 */
/* session_ranks.c - a session on the ranks of an MPI: its loop's thread is the one that calls MPI,
 * from the first call to the last.  Rank 0 runs the job, the others follow it. */
#include "api/session.h"

#include "run/ranks.h"

#include <semaphore.h>
#include <unistd.h>

/* While it is opened: the caller's. */
struct meeting {
	struct thalweg_session *s;
	const struct tw_launcher *launcher;
	sem_t known;
	enum tw_status status; /* known: have the ranks met? */
};

struct program {
	struct thalweg_session *s;
	struct tw_ranks *ranks;
};

enum tw_status tw_session_launcher(struct tw_launcher *out, struct tw_error *why)
{
	tw_launcher_find((const char *const *)environ, out);
	if (out->mpi && out->tasks)
		return TW_OK;
	return tw_fail(
		why, TW_BAD_INPUT,
		"address mpi: no MPI launcher has started this process%s%s; start it with "
		"mpirun -n 4 PROGRAM, or mpiexec of MPICH (thalweg doctor says which are here)",
		out->name ? ", but " : "", out->name ? out->name : "");
}

/* Beside the loop, on a thread of the ranks'. */
static int run(void *arg)
{
	const struct program *p = arg;
	struct thalweg_session *s = p->s;

	if (tw_ranks_rank(p->ranks)) {
		tw_ranks_follow(p->ranks, s->job->engine, s->desk, &s->why);
	} else {
		s->job->ranks = p->ranks;
		tw_api_train(s->job, s->directory, s->flags, s->desk, 0, &s->why);
		s->job->ranks = NULL;
	}
	return 0;
}

static void *loop(void *arg)
{
	struct meeting *m = arg;
	struct program p = { .s = m->s };
	const enum tw_status st =
		tw_ranks_open(m->launcher, &p.s->job->log, &p.s->job->stop, &p.ranks, &p.s->why);

	pthread_setname_np(pthread_self(), "session");
	m->status = st;
	sem_post(&m->known); /* *m is gone from here on */
	if (st == TW_OK)
		tw_ranks_main(p.ranks, run, &p);
	tw_session_ended(p.s);
	return NULL;
}

enum tw_status tw_session_ranks(struct thalweg_session *s, const struct tw_launcher *l,
				struct tw_error *why)
{
	struct meeting m = { .s = s, .launcher = l };
	enum tw_status st;

	sem_init(&m.known, 0, 0);
	st = tw_session_start(s, loop, &m, why);
	if (st == TW_OK) {
		while (sem_wait(&m.known) != 0)
			continue;
		st = m.status;
		if (st != TW_OK) {
			pthread_join(s->loop, NULL);
			tw_session_unlist(s);
			tw_session_await(s);
			*why = s->why;
		}
	}
	sem_destroy(&m.known);
	return st;
}
