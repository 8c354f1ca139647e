/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - a caller's loop at the desk of a run: tasks, answers, the end. */
#include "api/session.h"

#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum thalweg_status thalweg_session_facts(struct thalweg_session *s,
					  struct thalweg_session_facts *facts,
					  struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (tw_session_enter(s, "thalweg_session_facts", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (facts)
		*facts = s->facts;
	else
		tw_fail(&said, TW_BAD_INPUT, "thalweg_session_facts: facts is NULL");
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* Is there room for what is known of a worker?  The lock is held. */
static bool remembers(struct thalweg_session *s, uint32_t worker)
{
	const size_t before = s->lasts;

	if (worker < before)
		return true;
	if (!TW_GROW(s->heap, s->last, s->lasts, before, (size_t)worker + 1))
		return false;
	memset(s->last + before, 0, (s->lasts - before) * sizeof *s->last);
	return true;
}

/* Updates of others since this worker's last step. */
static double stale(struct thalweg_session *s, const struct tw_about *about)
{
	const uint64_t now = about->version;
	double between = 0;

	pthread_mutex_lock(&s->lock);
	if (remembers(s, about->worker)) {
		uint64_t *last = &s->last[about->worker];

		if (*last && now > *last)
			between = (double)(now - *last);
		*last = now + 1;
	}
	pthread_mutex_unlock(&s->lock);
	return between;
}

static double progress(const struct tw_plan *p, uint64_t applied)
{
	const double all = (double)p->dealing.positions, share = (double)applied / all;

	if (p->dealing.positions > UINT64_MAX / 4) /* only time or a loss ends it */
		return NAN;
	return share < 1.0 ? share : 1.0;
}

static void fill(struct thalweg_session *s, const struct tw_task *t, struct thalweg_task *out)
{
	*out = (struct thalweg_task){
		.id = t->id,
		.work = t->score ? THALWEG_SCORE : THALWEG_STEP,
		.worker = t->about.worker,
		.sample = t->sample,
		.count = t->count,
		.epoch = t->epoch,
		.parameters = t->parameters,
		.vector = t->vector,
		.version = t->about.version,
		.staleness = t->score ? 0.0 : stale(s, &t->about),
		.progress = progress(&s->plan, t->about.applied),
		.rate = (double)tw_plan_rate(&s->plan, t->about.applied),
		.now = (double)t->about.now / (double)TW_SECOND,
	};
}

/* Without test samples an evaluation says what the last step said. */
static void score_itself(struct thalweg_session *s, const struct tw_task *t)
{
	struct tw_desk_answer a = { .correct = -1 };

	pthread_mutex_lock(&s->lock);
	a.loss = s->loss;
	pthread_mutex_unlock(&s->lock);
	tw_desk_answer(s->desk, t->id, &a);
}

static enum thalweg_got next(struct thalweg_session *s, unsigned ms, float *into,
			     struct thalweg_task *task, struct tw_error *why)
{
	struct tw_task t;

	for (;;) {
		switch (tw_desk_take(s->desk, (int64_t)ms * 1000000, into, &t)) {
		case TW_DESK_OVER:
			if (atomic_load(&s->over))
				*why = s->why; /* (2) */
			else
				tw_fail(why, TW_CANCELLED, "the session was closed");
			return THALWEG_END;
		case TW_DESK_NOTHING:
			return THALWEG_IDLE;
		case TW_DESK_NO_MEMORY:
			tw_fail(why, TW_NO_MEMORY,
				"thalweg_next: no memory for the parameters of a task");
			return THALWEG_IDLE;
		case TW_DESK_TASK:
			if (t.score && !s->scores) {
				score_itself(s, &t);
				continue;
			}
			fill(s, &t, task);
			return THALWEG_TASK;
		}
	}
}

enum thalweg_got thalweg_next(struct thalweg_session *s, unsigned ms, float *into,
			      struct thalweg_task *task, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	enum thalweg_got got = THALWEG_END;

	if (tw_session_enter(s, "thalweg_next", &said) == TW_OK) {
		if (task)
			got = next(s, ms, into, task, &said);
		else
			tw_fail(&said, TW_BAD_INPUT, "thalweg_next: task is NULL");
		tw_session_leave(s);
	}
	tw_api_fail(why, &said);
	return got;
}

static enum tw_status not_open(const char *function, const struct thalweg_task *task,
			       struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: task %llu is not an open task of this session: it was answered "
		       "already, the session ended, or it is another session's",
		       function, (unsigned long long)task->id);
}

static enum tw_status done(struct thalweg_session *s, const struct thalweg_task *task,
			   const struct thalweg_answer *answer, struct tw_block *lent,
			   struct tw_error *why)
{
	const struct tw_desk_answer a = { .vector = answer->vector,
					  .lent = lent,
					  .loss = answer->loss,
					  .correct = answer->correct };
	uint64_t count = 0;
	bool score = false;
	enum tw_status st;

	if (!tw_desk_knows(s->desk, task->id, &score, &count))
		return not_open("thalweg_done", task, why);
	if (score && answer->correct > (double)count)
		return tw_fail(why, TW_BAD_INPUT,
			       "thalweg_done: correct is %g, but the task has only %llu samples; "
			       "the task is still open",
			       answer->correct, (unsigned long long)count);
	if (!score && isfinite(a.loss)) {
		pthread_mutex_lock(&s->lock);
		s->loss = a.loss;
		pthread_mutex_unlock(&s->lock);
	}
	st = tw_desk_answer(s->desk, task->id, &a);
	if (st == TW_BAD_INPUT)
		return not_open("thalweg_done", task, why);
	if (st != TW_OK)
		return tw_fail(why, st,
			       "nobody wants this answer any more: its samples are dealt again, "
			       "or were not needed");
	if (!isfinite(a.loss))
		return tw_fail(why, TW_REFUSED,
			       "thalweg_done: the loss is not finite; what is not finite in the "
			       "vector is refused where it is applied");
	return TW_OK;
}

enum thalweg_status thalweg_done(struct thalweg_session *s, const struct thalweg_task *task,
				 const struct thalweg_answer *answer, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (tw_session_enter(s, "thalweg_done", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!task || !answer)
		tw_fail(&said, TW_BAD_INPUT, "thalweg_done: %s is NULL", task ? "answer" : "task");
	else
		done(s, task, answer, NULL, &said);
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

/* --- vectors that are lent -------------------------------------------------------------------- */

static size_t vector_bytes(const struct thalweg_session *s)
{
	return (s->facts.parameters + s->facts.buffers) * sizeof(float);
}

enum thalweg_status thalweg_vector_new(struct thalweg_session *s, struct thalweg_vector **out,
				       struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (tw_session_enter(s, "thalweg_vector_new", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!out)
		tw_fail(&said, TW_BAD_INPUT, "thalweg_vector_new: out is NULL");
	else if (!(*out = (struct thalweg_vector *)tw_block_new(s->heap, vector_bytes(s))))
		tw_fail(&said, TW_NO_MEMORY, "thalweg_vector_new: no memory for a vector");
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

float *thalweg_vector_floats(struct thalweg_vector *v)
{
	return v ? tw_block_floats((struct tw_block *)v) : NULL;
}

int thalweg_vector_busy(const struct thalweg_vector *v)
{
	const struct tw_block *b = (const struct tw_block *)v;

	return b && atomic_load_explicit(&b->refs, memory_order_acquire) > 1;
}

void thalweg_vector_free(struct thalweg_vector *v)
{
	tw_block_drop((struct tw_block *)v);
}

enum thalweg_status thalweg_done_with(struct thalweg_session *s, const struct thalweg_task *task,
				      const struct thalweg_answer *answer, struct thalweg_vector *v,
				      struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	struct tw_block *lent = (struct tw_block *)v;

	if (tw_session_enter(s, "thalweg_done_with", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!task || !answer || !v)
		tw_fail(&said, TW_BAD_INPUT, "thalweg_done_with: %s is NULL",
			!task     ? "task"
			: !answer ? "answer"
				  : "vector");
	else if (lent->bytes != vector_bytes(s))
		tw_fail(&said, TW_BAD_INPUT,
			"thalweg_done_with: the vector is of a session with another number of "
			"floats; the task is still open");
	else if (thalweg_vector_busy(v))
		tw_fail(&said, TW_BAD_INPUT,
			"thalweg_done_with: the vector is busy: it was lent before, and is still "
			"read; use another one.  The task is still open");
	else
		done(s, task, answer, lent, &said);
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

enum thalweg_status thalweg_fail(struct thalweg_session *s, const struct thalweg_task *task,
				 const char *reason, struct thalweg_error *why)
{
	const struct tw_desk_answer a = { .status = TW_REFUSED };
	struct tw_error said = { .status = TW_OK };
	uint64_t count;
	bool score;

	if (tw_session_enter(s, "thalweg_fail", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!task || !reason) {
		tw_fail(&said, TW_BAD_INPUT, "thalweg_fail: %s is NULL", task ? "reason" : "task");
	} else if (!tw_desk_knows(s->desk, task->id, &score, &count)) {
		not_open("thalweg_fail", task, &said);
	} else {
		pthread_mutex_lock(&s->lock);
		if (!s->reason[0])
			snprintf(s->reason, sizeof s->reason, "%s", *reason ? reason : "no reason");
		pthread_mutex_unlock(&s->lock);
		tw_desk_answer(s->desk, task->id, &a);
	}
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

/* --- the end ---------------------------------------------------------------------------------- */

void thalweg_session_stop(struct thalweg_session *s)
{
	struct tw_error none = { .status = TW_OK };

	if (tw_session_enter(s, "thalweg_session_stop", &none) != TW_OK)
		return;
	thalweg_stop(s->job);
	tw_session_leave(s);
}

/* Is the run over, and is there what the caller wants? */
static enum tw_status after_end(const struct thalweg_session *s, const char *function, bool there,
				const char *what, struct tw_error *why)
{
	if (!atomic_load(&s->over))
		return tw_fail(why, TW_ABSENT, "%s: the run is not over: call it after THALWEG_END",
			       function);
	if (!there)
		return tw_fail(why, TW_ABSENT, "%s: there %s: %s", function, what,
			       s->why.text[0] ? s->why.text : "the run ended early");
	return TW_OK;
}

enum thalweg_status thalweg_session_result(struct thalweg_session *s, struct thalweg_result *result,
					   struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (tw_session_enter(s, "thalweg_session_result", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!result)
		tw_fail(&said, TW_BAD_INPUT, "thalweg_session_result: result is NULL");
	else if (after_end(s, "thalweg_session_result", s->job->json, "is no result", &said) ==
		 TW_OK)
		tw_api_result(s->job, result);
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

/* One that joined has the model as its master exported it. */
static enum tw_status save_joined(const struct thalweg_session *s, const char *path,
				  struct tw_error *why)
{
	static const char me[] = "thalweg_session_save";
	const enum tw_status st = after_end(s, me, true, "", why);

	if (st != TW_OK)
		return st;
	if (s->model)
		return tw_api_write(path, s->model, why);
	if (!s->keeps)
		return tw_fail(why, TW_ABSENT,
			       "%s: a session that joins fetches the model only if its request "
			       "says `keep`; set it, or name a file as `save`",
			       me);
	return tw_fail(why, TW_ABSENT, "%s: there are no parameters: %s", me,
		       s->why.text[0] ? s->why.text : "it left before the run was over");
}

enum thalweg_status thalweg_session_save(struct thalweg_session *s, const char *path,
					 struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (tw_session_enter(s, "thalweg_session_save", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!path)
		tw_fail(&said, TW_BAD_INPUT, "thalweg_session_save: path is NULL");
	else if (s->join)
		save_joined(s, path, &said);
	else if (after_end(s, "thalweg_session_save", s->job->vector, "are no parameters", &said) ==
		 TW_OK)
		tw_api_save(s->job, path, &said);
	tw_session_leave(s);
	return tw_api_fail(why, &said);
}

const float *thalweg_session_parameters(struct thalweg_session *s, size_t *count)
{
	struct tw_error none = { .status = TW_OK };
	const float *at = NULL;

	if (count)
		*count = 0;
	if (tw_session_enter(s, "thalweg_session_parameters", &none) != TW_OK)
		return NULL;
	if (atomic_load(&s->over) && s->join) {
		at = s->job->vector;
		if (count && at)
			*count = s->floats;
	} else if (atomic_load(&s->over)) {
		at = thalweg_parameters(s->job, count);
	}
	tw_session_leave(s);
	return at;
}
