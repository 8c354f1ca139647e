/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - a job is trained: the listener hears of it, and the result in both forms. */
#include "api/handle.h"

#include "base/machine/cores.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what the listener hears ------------------------------------------------------------------ */

static void tell(struct thalweg_job *h, const struct thalweg_event *event)
{
	int enough;

	pthread_mutex_lock(&h->voice);
	enough = h->listen(h->user, event);
	pthread_mutex_unlock(&h->voice);
	if (enough)
		thalweg_stop(h);
}

void tw_api_log(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct thalweg_job *h = arg;
	const struct thalweg_event event = {
		.kind = THALWEG_LOG,
		.level = (enum thalweg_level)level,
		.who = who,
		.line = line,
		.loss = NAN,
		.accuracy = NAN,
		.seconds_left = -1.0,
	};

	tell(h, &event);
}

static double known(double accuracy)
{
	return accuracy < 0.0 ? NAN : accuracy;
}

/* Called with the world's lock for notes held, like note() below: `last` needs no other. */
static void show(void *arg, const struct tw_progress *p)
{
	struct thalweg_job *h = arg;
	const bool endless = p->positions > UINT64_MAX / 4; /* only time or a loss ends it */

	h->last = (struct thalweg_event){
		.kind = THALWEG_PROGRESS,
		.seconds = p->seconds,
		.epochs = p->epochs,
		.samples = (uint64_t)p->samples,
		.total = endless ? 0 : p->positions,
		.samples_per_second = p->rate,
		.seconds_left = endless ? -1.0 : p->left,
		.loss = p->loss,
		.accuracy = known(p->accuracy),
		.staleness = p->staleness,
		.workers = p->live,
	};
	tell(h, &h->last);
}

static bool note(void *arg, const struct tw_note *n)
{
	struct thalweg_job *h = arg;
	struct thalweg_event event = h->last;

	if (n->kind == TW_NOTE_EVAL) {
		event.kind = THALWEG_EVALUATION;
		event.loss = n->eval.loss;
		event.accuracy = known(n->eval.accuracy);
		event.samples = (uint64_t)n->eval.point.samples;
		event.epochs = n->eval.point.samples / (double)h->engine->samples;
		event.staleness = n->eval.point.staleness >= 0.0 ? n->eval.point.staleness : 0.0;
		tell(h, &event);
	} else if (n->kind == TW_NOTE_CUT && h->kept) {
		event.kind = THALWEG_CHECKPOINT;
		event.checkpoint = n->cut.number;
		tell(h, &event);
	}
	return true;
}

void thalweg_stop(struct thalweg_job *job)
{
	if (job)
		atomic_store(&job->stop, 1);
}

/* --- the result ------------------------------------------------------------------------------- */

static double real(const json_t *r, const char *name)
{
	const json_t *value = json_object_get(r, name);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static uint64_t count(const json_t *r, const char *name)
{
	const json_t *value = json_object_get(r, name);

	if (json_is_string(value)) /* beyond what JSON libraries call an integer */
		return strtoull(json_string_value(value), NULL, 10);
	return (uint64_t)json_integer_value(value);
}

void tw_api_result(const struct thalweg_job *h, struct thalweg_result *out)
{
	const json_t *r = h->result;
	const char *digest = json_string_value(json_object_get(r, "parameters_digest"));

	*out = (struct thalweg_result){
		.loss = real(r, "loss"),
		.accuracy = real(r, "accuracy"),
		.epochs = real(r, "epochs"),
		.updates = real(r, "updates"),
		.steps = count(r, "steps"),
		.samples = count(r, "samples"),
		.seconds = real(r, "seconds"),
		.samples_per_second = real(r, "samples_per_second"),
		.staleness = real(json_object_get(r, "staleness"), "mean"),
		.workers = (uint32_t)count(r, "workers"),
		.interrupted = json_is_true(json_object_get(r, "interrupted")),
		.checkpoint = json_string_value(json_object_get(r, "checkpoint")),
		.json = h->json,
	};
	snprintf(out->digest, sizeof out->digest, "%s", digest ? digest : "");
}

/* --- training --------------------------------------------------------------------------------- */

struct training {
	struct thalweg_job *h;
	const char *directory;
	unsigned flags;
	uint32_t threads; /* of the simulator; 0: as the job says */
	float *vector;
};

static enum tw_status run(void *arg, struct tw_desk *desk, struct tw_error *why)
{
	const struct training *t = arg;
	struct thalweg_job *h = t->h;
	const struct tw_run_request request = {
		.dir = t->directory,
		.again = (t->flags & THALWEG_AGAIN) != 0,
		.threads = t->threads,
		.log = &h->log,
		.interrupted = h->ranks ? tw_ranks_interrupts(h->ranks) : &h->stop,
		.ranks = h->ranks,
		.show = h->listen ? show : NULL,
		.show_arg = h,
		.engine = h->engine,
		.desk = desk,
		.vector = t->vector,
		.observer = h->listen ? note : NULL,
		.observer_arg = h,
	};

	return tw_run(&request, h->job, &h->result, why);
}

/* One for each task that the world asks for at a time. */
static uint32_t servers(const struct tw_job *job)
{
	if (job->world != TW_WORLD_SIM)
		return job->plan.crew.workers;
	return job->sim.threads ? job->sim.threads : tw_cores();
}

static enum tw_status run_outer(struct training *t, struct tw_error *why)
{
	struct thalweg_job *h = t->h;
	const enum tw_status st = tw_outer_train(h->outer, h->engine, servers(h->job), run, t, why);
	const char *function = "";
	const int code = tw_outer_failure(h->outer, &function);

	if (st == TW_OK || st == TW_INTERRUPTED || !code)
		return st;
	*why = (struct tw_error){ .status = TW_OK };
	return tw_fail(why, TW_REFUSED, "the engine's function %s returned %d", function, code);
}

static void forget(struct thalweg_job *h)
{
	h->heap->put(h->heap, h->vector);
	h->vector = NULL;
	free(h->json);
	h->json = NULL;
	json_decref(h->result);
	h->result = NULL;
}

enum tw_status tw_api_train(struct thalweg_job *h, const char *directory, unsigned flags,
			    struct tw_desk *desk, uint32_t threads, struct tw_error *why)
{
	struct training t = { .h = h, .directory = directory, .flags = flags, .threads = threads };
	enum tw_status st;

	forget(h);
	t.vector = h->heap->get(h->heap, tw_engine_floats(h->engine) * sizeof *t.vector);
	if (!t.vector)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the parameters");
	h->job->plan = h->plan;
	h->kept = directory != NULL;
	h->last = (struct thalweg_event){ .loss = NAN, .accuracy = NAN, .seconds_left = -1.0 };
	st = h->outer ? run_outer(&t, why) : run(&t, desk, why);
	if (st == TW_INTERRUPTED && !why->text[0])
		tw_fail(why, st, "stopped as asked%s",
			directory ? " after a checkpoint; train again to resume" : "");
	if (h->result)
		h->json = json_dumps(h->result, JSON_COMPACT);
	if (st == TW_OK && !h->json)
		st = tw_fail(why, TW_NO_MEMORY, "no memory for the result");
	if (st == TW_OK)
		h->vector = t.vector;
	else
		h->heap->put(h->heap, t.vector);
	return st;
}

enum tw_status tw_api_check_directory(const char *directory, unsigned flags, struct tw_error *why)
{
	if (flags & ~(unsigned)THALWEG_AGAIN)
		return tw_fail(why, TW_BAD_INPUT,
			       "unknown flags %#x; the only flag is "
			       "THALWEG_AGAIN",
			       flags);
	if (flags & THALWEG_AGAIN && !directory)
		return tw_fail(why, TW_BAD_INPUT,
			       "THALWEG_AGAIN needs a directory: nothing is kept without one");
	if (directory && !*directory)
		return tw_fail(why, TW_BAD_INPUT,
			       "the directory's path is empty; give NULL to "
			       "keep nothing");
	return TW_OK;
}

enum thalweg_status thalweg_train(struct thalweg_job *h, const char *directory, unsigned flags,
				  struct thalweg_result *result, struct thalweg_error *why)
{
	struct tw_error said = { .status = TW_OK };
	enum tw_status st = tw_api_check_directory(directory, flags, &said);

	if (!h)
		return tw_api_null(why, "thalweg_train", "job");
	if (st != TW_OK)
		return tw_api_fail(why, &said);
	st = tw_api_train(h, directory, flags, NULL, 0, &said);
	atomic_store(&h->stop, 0);
	if (result && h->json && (st == TW_OK || st == TW_INTERRUPTED))
		tw_api_result(h, result);
	return st == TW_OK ? tw_api_done(why) : tw_api_fail(why, &said);
}
