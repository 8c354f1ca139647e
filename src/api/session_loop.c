/* SPDX-License-Identifier: Apache-2.0 */
/* session_loop.c - the loop of a session: what it needs, its beginning, its end. */
#include "api/session.h"

#include "spec/help/suggest.h"

#include <stdio.h>
#include <string.h>

/* A gradient that is taken for new parameters, or the other way round, would ruin the run. */
static enum tw_status check_steps(struct thalweg_session *s, const struct tw_job *job,
				  struct tw_error *why)
{
	const struct tw_half *update = tw_plan_update(&job->plan);
	const bool outside = update->rule->traits & TW_RULE_OUTSIDE;
	char sentence[400];

	if (s->any_steps)
		s->own_steps = outside;
	if (outside == s->own_steps)
		return TW_OK;
	if (outside)
		return tw_fail(why, TW_BAD_INPUT,
			       "update.rule: with %s the loop takes the steps and answers with new "
			       "parameters; set own_steps of the request, or use another rule",
			       update->rule->name);
	return tw_fail(why, TW_BAD_INPUT, "own_steps: %s",
		       tw_suggest(job,
				  "the loop takes its own steps, and the job's rule takes "
				  "gradients; use update: {rule: [outside rule]} with send: delta, "
				  "or leave own_steps 0",
				  sentence, sizeof sentence));
}

enum tw_status tw_session_prepare(struct thalweg_session *s, const struct tw_job *job,
				  const struct tw_engine *engine, struct tw_error *why)
{
	enum tw_status st = check_steps(s, job, why);

	if (st != TW_OK)
		return st;
	s->simulated = job->world == TW_WORLD_SIM;
	s->plan = job->plan;
	s->facts = (struct thalweg_session_facts){
		.parameters = engine->trainable,
		.buffers = engine->buffers,
		.samples = job->plan.dealing.own ? job->plan.dealing.own : engine->samples,
		.tests = s->scores ? engine->tests : 0,
		.batch = tw_api_batch(job),
		.workers = job->plan.crew.workers,
		.simulated = s->simulated,
		.own_steps = s->own_steps,
	};
	s->desk = tw_desk_new(s->heap, engine, tw_task_most(tw_api_batch(job)), s->number << 32);
	return s->desk ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for a session");
}

enum tw_status tw_session_start(struct thalweg_session *s, void *(*program)(void *), void *arg,
				struct tw_error *why)
{
	enum tw_status st = tw_session_enlist(s, why);
	int failed;

	if (st != TW_OK)
		return st;
	failed = pthread_create(&s->loop, NULL, program, arg);
	if (!failed)
		return TW_OK;
	tw_session_unlist(s);
	tw_session_await(s);
	return tw_fail(why, TW_NO_MEMORY, "%s: %s", TW_NO_THREAD, strerror(failed));
}

void tw_session_ended(struct thalweg_session *s)
{
	pthread_mutex_lock(&s->lock);
	if (s->reason[0] && s->why.status != TW_OK && s->why.status != TW_INTERRUPTED) {
		s->why = (struct tw_error){ .status = TW_OK };
		tw_fail(&s->why, TW_REFUSED, "a task could not be computed: %s", s->reason);
	}
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->over, true);
	if (s->desk)
		tw_desk_over(s->desk);
}
