/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - a job of the public header: opened, checked, closed, and its tensors. */
#include "api/handle.h"
#include "base/machine/isa.h"
#include "run/rate_test.h"
#include "run/open_engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- tensors ---------------------------------------------------------------------------------- */

static enum tw_status lay_out(struct thalweg_job *h)
{
	if (tw_tensors_of_engine(h->heap, h->engine, &h->layout) != TW_OK)
		return TW_NO_MEMORY;
	h->tensor = tw_heap_zeros(h->heap, h->layout.tensors * sizeof *h->tensor);
	for (size_t k = 0; h->tensor && k < h->layout.tensors; k++) {
		const struct tw_tensor *from = &h->layout.tensor[k];
		struct thalweg_tensor *t = &h->tensor[k];

		t->name = from->name;
		t->rank = from->rank;
		memcpy(t->shape, from->d, sizeof t->shape);
		t->from = from->from;
		t->count = from->n;
		t->buffer = from->buffer;
	}
	return h->tensor ? TW_OK : TW_NO_MEMORY;
}

size_t thalweg_tensors(const struct thalweg_job *job, const struct thalweg_tensor **out)
{
	if (!job)
		return 0;
	if (out)
		*out = job->tensor;
	return job->layout.tensors;
}

/* --- opening ---------------------------------------------------------------------------------- */

#define OWN_SETS 4 /* what an engine says about itself */

static enum tw_status check(const struct thalweg_request *q, struct tw_error *why)
{
	if (!q->path == !q->text)
		return tw_fail(why, TW_BAD_INPUT, "a request has a path or a text: give %s",
			       q->path ? "only one of them" : "one of them");
	if (q->path && strcmp(q->path, "-") == 0)
		return tw_fail(
			why, TW_BAD_INPUT,
			"-: the library does not read standard input; give a path or a text");
	if (q->world != THALWEG_THREADS && q->world != THALWEG_SIM)
		return tw_fail(why, TW_BAD_INPUT,
			       "there is no world number %d; use "
			       "THALWEG_THREADS or THALWEG_SIM",
			       (int)q->world);
	if (q->sets && !q->set)
		return tw_fail(why, TW_BAD_INPUT, "%zu overrides, but set is NULL", q->sets);
	for (size_t k = 0; k < q->sets; k++)
		if (!q->set[k])
			return tw_fail(why, TW_BAD_INPUT, "override number %zu is NULL", k);
	return tw_isa_check(why);
}

/* What the job must know of the engine, as overrides. */
static size_t describe_engine(const struct thalweg_engine *e, char text[OWN_SETS][64])
{
	if (!e)
		return 0;
	snprintf(text[0], 64, "model.external.parameters=%zu", e->parameters);
	snprintf(text[1], 64, "model.external.buffers=%zu", e->buffers);
	snprintf(text[2], 64, "model.external.samples=%" PRIu64, e->samples);
	snprintf(text[3], 64, "model.external.tests=%" PRIu64, e->tests);
	return OWN_SETS;
}

static enum tw_status read_with(struct thalweg_job *h, const struct thalweg_request *q,
				const struct tw_api_how *how, const char *const *set,
				struct tw_error *why)
{
	const struct tw_job_text from = {
		.name = "job",
		.text = q->text,
		.bytes = q->text ? strlen(q->text) : 0,
		.set = set,
		.sets = q->sets + how->owns,
		.environ_ = q->environment ? (const char *const *)environ : NULL,
		.ranks = how->ranks,
	};
	const enum tw_world_kind world = how->ranks                ? TW_WORLD_MPI
					 : q->world == THALWEG_SIM ? TW_WORLD_SIM
								   : TW_WORLD_THREADS;

	return q->path ? tw_job_read_file(q->path, &from, world, &h->job, why)
		       : tw_job_read_changed(&from, world, &h->job, why);
}

static enum tw_status read_job(struct thalweg_job *h, const struct thalweg_request *q,
			       const struct tw_api_how *how, struct tw_error *why)
{
	const char **set = h->heap->get(h->heap, (q->sets + how->owns + 1) * sizeof *set);
	enum tw_status st;

	if (!set)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the overrides");
	for (size_t k = 0; k < q->sets; k++)
		set[k] = q->set[k];
	for (size_t k = 0; k < how->owns; k++)
		set[q->sets + k] = how->own[k];
	st = read_with(h, q, how, set, why);
	h->heap->put(h->heap, set);
	return st;
}

uint32_t tw_api_batch(const struct tw_job *job)
{
	return job->data.global_batch ? job->data.global_batch : job->data.batch;
}

static enum tw_status open_engine(struct thalweg_job *h, const struct thalweg_engine *own,
				  tw_api_engine engine, void *arg, struct tw_error *why)
{
	enum tw_status st;

	if (own && (tw_plan_update(&h->job->plan)->rule->traits & TW_RULE_OUTSIDE))
		st = tw_fail(why, TW_BAD_INPUT,
			     "update.rule: an engine's function computes gradients, and this rule "
			     "takes new parameters; use another rule, or a session (own_steps)");
	else if (own)
		st = tw_outer_open(h->heap, own, tw_api_batch(h->job), h->job->train.seed,
				   &h->outer, &h->engine, why);
	else if (engine)
		st = engine(arg, h->job, h->heap, &h->engine, why);
	else
		st = tw_job_open_engine(h->job, h->heap, &h->engine, why);
	if ((own || engine) && st == TW_OK)
		tw_job_divide(h->job, h->engine);
	if (st == TW_OK)
		st = tw_job_find_rate(h->job, h->engine, &h->log, why);
	if (st == TW_OK)
		st = tw_job_finish_plan(h->job, h->engine, why);
	if (st == TW_OK && lay_out(h) != TW_OK)
		st = tw_fail(why, TW_NO_MEMORY, "no memory for the tensors");
	return st;
}

enum tw_level tw_api_level(int verbosity)
{
	return verbosity < 0 ? TW_WARNING : verbosity > 0 ? TW_DEBUG : TW_INFO;
}

static enum tw_status begin(struct thalweg_job *h, const struct thalweg_request *q,
			    const struct tw_api_how *how, struct tw_error *why)
{
	enum tw_status st = check(q, why);

	h->listen = q->listen;
	h->user = q->user;
	h->log = (struct tw_log){
		.sink = q->listen ? tw_api_log : NULL,
		.arg = h,
		.level = tw_api_level(q->verbosity),
	};
	if (st == TW_OK)
		st = read_job(h, q, how, why);
	if (st == TW_OK) {
		h->plan = h->job->plan;
		st = open_engine(h, q->engine, how->engine, how->arg, why);
	}
	return st;
}

enum tw_status tw_api_open(const struct thalweg_request *request, const struct tw_api_how *how,
			   struct thalweg_job **out, struct tw_error *why)
{
	struct thalweg_job *h = tw_heap_zeros(&tw_heap_system, sizeof *h);
	enum tw_status st;

	if (!h || pthread_mutex_init(&h->voice, NULL) != 0) {
		tw_heap_system.put(&tw_heap_system, h);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	}
	h->heap = &tw_heap_system;
	st = begin(h, request, how, why);
	if (st != TW_OK) {
		thalweg_close(h);
		return st;
	}
	*out = h;
	return TW_OK;
}

enum thalweg_status thalweg_open(const struct thalweg_request *request, struct thalweg_job **out,
				 struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	char text[OWN_SETS][64];
	const char *own[OWN_SETS];
	struct tw_api_how how = { .own = own };

	if (!request || !out)
		return tw_api_null(why, "thalweg_open", request ? "out" : "request");
	how.owns = describe_engine(request->engine, text);
	for (size_t k = 0; k < how.owns; k++)
		own[k] = text[k];
	if (tw_api_open(request, &how, out, &said) != TW_OK)
		return tw_api_fail(why, &said);
	return tw_api_done(why);
}

void thalweg_close(struct thalweg_job *h)
{
	if (!h)
		return;
	tw_tensors_release(&h->layout);
	if (h->engine)
		h->engine->class->close(h->engine);
	tw_outer_close(h->outer);
	tw_job_free(h->job);
	pthread_mutex_destroy(&h->voice);
	tw_heap_system.put(&tw_heap_system, h->tensor);
	tw_heap_system.put(&tw_heap_system, h->vector);
	json_decref(h->result);
	free(h->json);
	tw_heap_system.put(&tw_heap_system, h);
}
