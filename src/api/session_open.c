/* SPDX-License-Identifier: Apache-2.0 */
/* session_open.c - a session is opened: its request checked, its model laid out, its loop started;
 * and closed. */
#include "api/layout.h"
#include "api/session.h"

#include "engine/outside.h"
#include "run/launcher.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN_SETS 4

static _Atomic uint64_t opened; /* sessions of this process so far: numbers of tasks differ */

/* --- the request ------------------------------------------------------------------------------ */

/* What the caller's header has of the request; the first version ended with own_steps. */
static enum tw_status take_request(const struct thalweg_session_request *from,
				   struct thalweg_session_request *out, struct tw_error *why)
{
	const size_t least = offsetof(struct thalweg_session_request, own_steps) + sizeof(int);

	if (from->size < least || from->size > sizeof *out)
		return tw_fail(
			why, TW_BAD_INPUT,
			"thalweg_session_open: size is %zu, but the request has %zu bytes "
			"here; set it to sizeof(struct thalweg_session_request), and compile "
			"with the header of this library (%s)",
			from->size, sizeof *out, TW_VERSION);
	memset(out, 0, sizeof *out);
	memcpy(out, from, from->size);
	return TW_OK;
}

/* All ranks of an MPI have the session. */
static bool is_ranks(const struct thalweg_session_request *q)
{
	return q->address && strcmp(q->address, "mpi") == 0;
}

static bool joins(const struct thalweg_session_request *q)
{
	return q->address && !is_ranks(q);
}

static enum tw_status check(const struct thalweg_session_request *q, struct tw_error *why)
{
	const struct thalweg_layout *l = &q->layout;

	if (is_ranks(q) && !q->job)
		return tw_fail(
			why, TW_BAD_INPUT,
			"address mpi: there is no master to ask; give the job on every rank");
	if (!q->job == !joins(q))
		return tw_fail(why, TW_BAD_INPUT,
			       "thalweg_session_open: a session has a job or the address of a "
			       "master: give %s",
			       q->job ? "only one of them" : "one of them");
	if (is_ranks(q) && q->job->world == THALWEG_SIM)
		return tw_fail(
			why, TW_BAD_INPUT,
			"address mpi: the job's request wants simulated workers; leave one of "
			"them out");
	if (joins(q) && (q->directory || q->flags))
		return tw_fail(why, TW_BAD_INPUT,
			       "directory and flags are for a job of this process; the master has "
			       "the run directory");
	if (!joins(q) && (q->key || q->certificate || q->certificate_key || q->authority))
		return tw_fail(
			why, TW_BAD_INPUT,
			"key and certificates are for a session that joins; leave them NULL");
	if (!joins(q) && (q->save || q->keep || q->patience != 0.0 || q->listen || q->cancel))
		return tw_fail(why, TW_BAD_INPUT,
			       "save, keep, patience, listen and cancel are for a session that "
			       "joins; with a job, the listener is the job's, and the model is "
			       "kept in any case");
	if (joins(q) && l->initial)
		return tw_fail(why, TW_BAD_INPUT,
			       "a session that joins has no initial values: the master has them; "
			       "leave initial NULL");
	if (q->job && q->job->engine)
		return tw_fail(why, TW_BAD_INPUT,
			       "the job's request has an engine; a session's loop computes itself: "
			       "leave one out");
	if (l->tensors && !l->tensor)
		return tw_fail(why, TW_BAD_INPUT, "the layout has %zu tensors, but tensor is NULL",
			       l->tensors);
	if (l->tensors && l->parameters)
		return tw_fail(why, TW_BAD_INPUT,
			       "the layout has tensors and parameters; the tensors say how many "
			       "there are: leave parameters 0");
	if (!l->samples && !joins(q))
		return tw_fail(why, TW_BAD_INPUT, "the layout has no samples; it needs at least 1");
	if (!l->samples && l->tests)
		return tw_fail(why, TW_BAD_INPUT,
			       "the layout has %llu test samples and no samples; give both, or "
			       "neither: then they are those of the master's job",
			       (unsigned long long)l->tests);
	return tw_api_check_directory(q->directory, q->flags, why);
}

/* --- the model -------------------------------------------------------------------------------- */

struct opening {
	const struct thalweg_session_request *q;
	struct tw_own_layout layout;
};

static enum tw_status lay_out(struct opening *o, struct tw_error *why)
{
	const struct thalweg_layout *l = &o->q->layout;
	struct tw_layout_given given = { .whose = "the layout",
					 .tensor = l->tensor,
					 .tensors = l->tensors,
					 .parameters = l->parameters };
	enum tw_status st = TW_OK;

	if (l->tensors)
		st = tw_layout_count(l->tensor, l->tensors, &given.parameters, &given.buffers, why);
	return st == TW_OK ? tw_layout_take(&tw_heap_system, &given, &o->layout, why) : st;
}

static uint64_t tests_of(const struct thalweg_layout *l)
{
	return l->tests ? l->tests : 1;
}

static enum tw_status open_engine(void *arg, struct tw_job *job, struct tw_heap *heap,
				  struct tw_engine **out, struct tw_error *why)
{
	const struct opening *o = arg;
	const struct thalweg_layout *l = &o->q->layout;
	const struct tw_outside_facts facts = {
		.tensor = o->layout.tensor,
		.tensors = o->layout.tensors,
		.trained = o->layout.trained,
		.initial = l->initial,
		.samples = l->samples,
		.tests = tests_of(l),
		.seed = job->train.seed,
	};

	return tw_outside_open(heap, &facts, out, why);
}

static enum tw_status open_job(struct opening *o, uint32_t ranks, struct thalweg_job **out,
			       struct tw_error *why)
{
	const struct thalweg_layout *l = &o->q->layout;
	char text[OWN_SETS][64];
	const char *own[OWN_SETS];

	snprintf(text[0], 64, "model.external.parameters=%zu", o->layout.parameters);
	snprintf(text[1], 64, "model.external.buffers=%zu", o->layout.buffers);
	snprintf(text[2], 64, "model.external.samples=%" PRIu64, l->samples);
	snprintf(text[3], 64, "model.external.tests=%" PRIu64, tests_of(l));
	for (int k = 0; k < OWN_SETS; k++)
		own[k] = text[k];
	return tw_api_open(o->q->job,
			   &(struct tw_api_how){ .own = own,
						 .owns = OWN_SETS,
						 .engine = open_engine,
						 .arg = o,
						 .ranks = ranks },
			   out, why);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void *loop(void *arg)
{
	struct thalweg_session *s = arg;

	pthread_setname_np(pthread_self(), "session");
	tw_api_train(s->job, s->directory, s->flags, s->desk, s->simulated ? 1 : 0, &s->why);
	tw_session_ended(s);
	return NULL;
}

static void free_session(struct thalweg_session *s)
{
	struct tw_heap *heap = &tw_heap_system;

	tw_desk_free(s->desk);
	tw_session_join_free(s->join);
	tw_block_drop(s->model);
	thalweg_close(s->job);
	heap->put(heap, s->last);
	free(s->directory);
	pthread_mutex_destroy(&s->lock);
	heap->put(heap, s);
}

/* Workers of this process, simulated ones, or this process's of many ranks. */
static enum tw_status begin(struct thalweg_session *s, struct opening *o, struct tw_error *why)
{
	const char *directory = o->q->directory;
	struct tw_launcher l = { .tasks = 0 };
	const bool ranks = is_ranks(o->q);
	enum tw_status st = ranks ? tw_session_launcher(&l, why) : TW_OK;

	if (st == TW_OK)
		st = open_job(o, l.tasks, &s->job, why);
	if (st == TW_OK)
		st = tw_session_prepare(s, s->job->job, s->job->engine, why);
	if (st == TW_OK && directory && !(s->directory = strdup(directory)))
		st = tw_fail(why, TW_NO_MEMORY, "no memory for a session");
	if (st != TW_OK)
		return st;
	return ranks ? tw_session_ranks(s, &l, why) : tw_session_start(s, loop, s, why);
}

static enum tw_status open_session(const struct thalweg_session_request *q,
				   struct thalweg_session *s, struct tw_error *why)
{
	struct opening o = { .q = q };
	enum tw_status st = check(q, why);

	s->scores = q->layout.tests > 0;
	s->own_steps = q->own_steps > 0;
	s->any_steps = q->own_steps < 0;
	s->flags = q->flags;
	if (st == TW_OK)
		st = lay_out(&o, why);
	if (st == TW_OK)
		st = q->job ? begin(s, &o, why) : tw_session_join(s, q, &o.layout, why);
	tw_layout_release(&o.layout);
	return st;
}

enum thalweg_status thalweg_session_open(const struct thalweg_session_request *request,
					 struct thalweg_session **out, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	struct thalweg_session_request q;
	struct thalweg_session *s;

	if (!request || !out)
		return tw_api_null(why, "thalweg_session_open", request ? "out" : "request");
	if (take_request(request, &q, &said) != TW_OK)
		return tw_api_fail(why, &said);
	s = tw_heap_zeros(&tw_heap_system, sizeof *s);
	if (!s) {
		tw_fail(&said, TW_NO_MEMORY, "no memory for a session");
		return tw_api_fail(why, &said);
	}
	s->heap = &tw_heap_system;
	s->pid = getpid();
	s->number = atomic_fetch_add(&opened, 1) + 1;
	pthread_mutex_init(&s->lock, NULL);
	if (open_session(&q, s, &said) != TW_OK) {
		free_session(s);
		return tw_api_fail(why, &said);
	}
	*out = s;
	return tw_api_done(why);
}

enum thalweg_status thalweg_session_close(struct thalweg_session *s, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };

	if (!s)
		return tw_api_done(why);
	if (tw_session_enter(s, "thalweg_session_close", &said) != TW_OK)
		return tw_api_fail(why, &said);
	if (!tw_session_unlist(s)) {
		tw_session_leave(s);
		tw_fail(&said, TW_BAD_INPUT,
			"thalweg_session_close: another thread closes it already");
		return tw_api_fail(why, &said);
	}
	atomic_store(&s->job->stop, 2);
	tw_desk_shut(s->desk);
	tw_session_await(s);
	tw_desk_void(s->desk);
	pthread_join(s->loop, NULL);
	free_session(s);
	return tw_api_done(why);
}
