/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - what stands behind a thalweg_session; for the files of this folder.
 *
 * One thread runs the job (the *loop*), callers are at its desk.
 *
 *  (1) a session that callers may use stands in a table of this process, with the number of calls
 *      that are inside; closing takes it out, and waits until they have returned.  So a call with
 *      a session that was closed is refused without looking at its memory.
 *  (2) `why`, `result` and the parameters are written by the loop before the desk is over, and
 *      read after that. */
#ifndef TW_API_SESSION_H
#define TW_API_SESSION_H

#include "api/handle.h"

#include <sys/types.h>

struct thalweg_session {
	struct tw_heap *heap;
	/* Workers of this process, or simulated ones; of a join only log, result and stop. */
	struct thalweg_job *job;
	struct tw_session_join *join; /* NULL: the job is ours */
	struct tw_desk *desk;
	char *directory; /* NULL: nothing is kept */
	unsigned flags;
	bool simulated;
	bool scores;     /* the caller has test samples */
	bool own_steps;  /* it answers with new parameters */
	bool keeps;      /* of a join: it wants the model at the end */
	bool any_steps;  /* ... or gradients, as the job says */
	uint64_t number; /* of the session in this process */
	pid_t pid;
	struct tw_plan plan; /* for rate and progress */
	struct thalweg_session_facts facts;
	pthread_t loop;
	_Atomic bool over;
	struct tw_error why; /* how it ended (2) */
	/* (2), of a join: the model as it came, and its floats; NULL: it does not have it */
	struct tw_block *model;
	size_t floats;
	pthread_mutex_t lock;
	/* guarded by lock */
	char reason[400]; /* of thalweg_fail; "": none */
	uint64_t *last;   /* by worker: version of its last step, and 1 */
	size_t lasts;
	double loss; /* of the last step that was answered */
};

/* session_table.c */

/* Put it into the table (1); TW_NO_ROOM: there are as many as there may be. */
enum tw_status tw_session_enlist(struct thalweg_session *s, struct tw_error *why);
/* Enter a call.  TW_BAD_INPUT: it is NULL or closed; TW_REFUSED: it is another process's.  After
 * TW_OK leave it. */
enum tw_status tw_session_enter(struct thalweg_session *s, const char *function,
				struct tw_error *why);
void tw_session_leave(const struct thalweg_session *s);
/* The caller is inside: take it out, so that nobody else comes in.  False: somebody else did. */
bool tw_session_unlist(struct thalweg_session *s);
/* ... and wait until all others have left. */
void tw_session_await(const struct thalweg_session *s);

/* session_join.c */

struct tw_own_layout;
/* Check the request and begin to join: the loop's thread asks the master.  Returns when the
 * master's job is here and fits the layout, or never will. */
enum tw_status tw_session_join(struct thalweg_session *s, const struct thalweg_session_request *q,
			       const struct tw_own_layout *layout, struct tw_error *why);
void tw_session_join_free(struct tw_session_join *j); /* NULL is allowed */

/* session_ranks.c */

struct tw_launcher;
/* Which launcher has started this process.  TW_BAD_INPUT: none that speaks to an MPI. */
enum tw_status tw_session_launcher(struct tw_launcher *out, struct tw_error *why);
/* Start the loop, which meets the other ranks; returns when it has, or cannot. */
enum tw_status tw_session_ranks(struct thalweg_session *s, const struct tw_launcher *l,
				struct tw_error *why);

/* session_loop.c */

/* What every session needs once its job is known.  TW_BAD_INPUT: its answers are not what the job's
 * rule takes. */
enum tw_status tw_session_prepare(struct thalweg_session *s, const struct tw_job *job,
				  const struct tw_engine *engine, struct tw_error *why);
/* Put it into the table and start its loop. */
enum tw_status tw_session_start(struct thalweg_session *s, void *(*loop)(void *), void *arg,
				struct tw_error *why);
/* The loop has ended with s->why: callers hear of it. */
void tw_session_ended(struct thalweg_session *s);

#endif
