/* SPDX-License-Identifier: Apache-2.0 */
/* own_gradient.c - a caller's gradient function: threads that take tasks of the desk and call it.
 *
 *  (1) a thread has scratch of its own; no function is called with another's.
 *  (2) the first failure of a function is kept: it says why the training ended. */
#include "api/handle.h"
#include "api/layout.h"

#include "engine/outside.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

struct tw_outer {
	struct tw_heap *heap;
	struct thalweg_engine own;
	uint64_t most; /* samples of one call, at most */
	pthread_mutex_t alone;
	bool locks; /* `alone` is there */
	_Atomic int failure;
	const char *_Atomic function;
};

static void enter(struct tw_outer *o)
{
	if (o->locks)
		pthread_mutex_lock(&o->alone);
}

static void leave(struct tw_outer *o)
{
	if (o->locks)
		pthread_mutex_unlock(&o->alone);
}

static enum tw_status judge(struct tw_outer *o, int code, const char *function)
{
	int none = 0;

	if (!code)
		return TW_OK;
	if (atomic_compare_exchange_strong(&o->failure, &none, code)) /* (2) */
		atomic_store(&o->function, function);
	return TW_REFUSED;
}

static enum tw_status call_evaluate(struct tw_outer *o, const struct thalweg_batch *b, double *loss,
				    double *correct)
{
	int code;

	*loss = NAN;
	*correct = -1;
	enter(o);
	code = o->own.evaluate(o->own.user, b, loss, correct);
	leave(o);
	return judge(o, code, "evaluate");
}

static enum tw_status call_gradient(struct tw_outer *o, const struct thalweg_batch *b,
				    float *gradient, double *loss)
{
	int code;

	*loss = NAN;
	enter(o);
	code = o->own.gradient(o->own.user, b, gradient, loss);
	leave(o);
	return judge(o, code, "gradient");
}

/* --- tasks ------------------------------------------------------------------------------------ */

struct server {
	struct tw_outer *outer;
	struct tw_desk *desk;
	pthread_t thread;
	void *scratch;
};

static void answer(const struct server *s, const struct tw_task *t)
{
	const struct thalweg_batch batch = { .sample = t->sample,
					     .count = t->count,
					     .epoch = t->epoch,
					     .parameters = t->parameters,
					     .scratch = s->scratch };
	struct tw_desk_answer a = { .correct = -1 };

	a.status = t->score ? call_evaluate(s->outer, &batch, &a.loss, &a.correct)
			    : call_gradient(s->outer, &batch, t->vector, &a.loss);
	tw_desk_answer(s->desk, t->id, &a);
}

static void *serve(void *arg)
{
	const struct server *s = arg;
	enum tw_desk_got got;
	struct tw_task t;

	while ((got = tw_desk_take(s->desk, TW_SECOND, NULL, &t)) != TW_DESK_OVER)
		if (got == TW_DESK_TASK)
			answer(s, &t);
		else if (got == TW_DESK_NO_MEMORY) /* others may give some back */
			usleep(1000);
	return NULL;
}

static void stop(struct server *s, uint32_t count, struct tw_desk *desk)
{
	tw_desk_over(desk);
	for (uint32_t k = 0; k < count; k++) {
		pthread_join(s[k].thread, NULL);
		s->outer->heap->put(s->outer->heap, s[k].scratch);
	}
}

static enum tw_status start(struct tw_outer *o, struct tw_desk *desk, uint32_t count,
			    struct server *s, uint32_t *started, struct tw_error *why)
{
	const size_t bytes = o->own.scratch_bytes;

	for (uint32_t k = 0; k < count; k++) {
		s[k] = (struct server){ .outer = o, .desk = desk };
		s[k].scratch = o->heap->get(o->heap, bytes ? bytes : 1);
		if (!s[k].scratch || pthread_create(&s[k].thread, NULL, serve, &s[k])) {
			o->heap->put(o->heap, s[k].scratch);
			return tw_fail(why, TW_NO_MEMORY, "%s", TW_NO_THREAD);
		}
		(*started)++;
	}
	return TW_OK;
}

enum tw_status tw_outer_train(struct tw_outer *o, const struct tw_engine *engine, uint32_t threads,
			      tw_outer_run run, void *arg, struct tw_error *why)
{
	const uint32_t count = o->locks ? 1 : threads;
	struct server *s = tw_heap_zeros(o->heap, (count + 1) * sizeof *s);
	struct tw_desk *desk = tw_desk_new(o->heap, engine, o->most, 0);
	uint32_t started = 0;
	enum tw_status st = TW_NO_MEMORY;

	if (s && desk) {
		s->outer = o;
		st = start(o, desk, count, s, &started, why);
		if (st == TW_OK)
			st = run(arg, desk, why);
		stop(s, started, desk);
	} else {
		tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	}
	tw_desk_free(desk);
	o->heap->put(o->heap, s);
	return st;
}

/* --- without a run ---------------------------------------------------------------------------- */

/* Scratch: numbers of samples, then the caller's own, from a multiple of TW_ALIGN on. */
static size_t number_bytes(const struct tw_outer *o)
{
	return (o->most * sizeof(uint64_t) + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
}

static enum tw_status evaluate(void *arg, void *scratch, const struct tw_inputs *in,
			       struct tw_score *score)
{
	struct tw_outer *o = arg;
	struct thalweg_batch batch = { .sample = scratch,
				       .parameters = in->piece[0].at,
				       .scratch = (uint8_t *)scratch + number_bytes(o) };
	struct tw_score sum = { .samples = in->count };

	if (in->pieces != 1)
		return TW_BAD_INPUT;
	for (uint64_t done = 0; done < in->count; done += batch.count) {
		double loss, correct;
		enum tw_status st;

		batch.count = in->count - done < o->most ? in->count - done : o->most;
		for (size_t k = 0; k < batch.count; k++)
			((uint64_t *)scratch)[k] = in->from + done + k;
		st = call_evaluate(o, &batch, &loss, &correct);
		if (st != TW_OK)
			return st;
		sum.loss += loss * (double)batch.count;
		sum.correct = correct < 0 || sum.correct < 0 ? -1 : sum.correct + correct;
	}
	*score = sum;
	return TW_OK;
}

/* --- making one ------------------------------------------------------------------------------- */

static enum tw_status check(const struct thalweg_engine *from, struct tw_error *why)
{
	if (!from->gradient || !from->evaluate)
		return tw_fail(why, TW_BAD_INPUT, "the engine has no function %s; give both",
			       from->gradient ? "evaluate" : "gradient");
	if (from->parameters == 0 || from->samples == 0 || from->tests == 0)
		return tw_fail(why, TW_BAD_INPUT, "the engine has no %s; it needs at least 1",
			       !from->parameters ? "parameters"
			       : !from->samples  ? "samples"
						 : "tests");
	return TW_OK;
}

static enum tw_status open_engine(struct tw_outer *o, const struct tw_own_layout *l, uint64_t seed,
				  struct tw_engine **engine, struct tw_error *why)
{
	const struct tw_outside_facts facts = {
		.tensor = l->tensor,
		.tensors = l->tensors,
		.trained = l->trained,
		.initial = o->own.initial,
		.samples = o->own.samples,
		.tests = o->own.tests,
		.seed = seed,
		.evaluate = evaluate,
		.arg = o,
		.scratch_bytes = number_bytes(o) + o->own.scratch_bytes,
	};

	return tw_outside_open(o->heap, &facts, engine, why);
}

enum tw_status tw_outer_open(struct tw_heap *heap, const struct thalweg_engine *from,
			     uint32_t batch, uint64_t seed, struct tw_outer **out,
			     struct tw_engine **engine, struct tw_error *why)
{
	const struct tw_layout_given given = { .whose = "the engine",
					       .tensor = from->tensor,
					       .tensors = from->tensors,
					       .parameters = from->parameters,
					       .buffers = from->buffers };
	enum tw_status st = check(from, why);
	struct tw_own_layout layout;
	struct tw_outer *o;

	if (st != TW_OK)
		return st;
	o = tw_heap_zeros(heap, sizeof *o);
	if (!o)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	o->heap = heap;
	o->own = *from;
	o->most = tw_task_most(batch);
	st = tw_layout_take(heap, &given, &layout, why);
	if (st == TW_OK)
		st = open_engine(o, &layout, seed, engine, why);
	if (st == TW_OK && from->one_at_a_time)
		o->locks = pthread_mutex_init(&o->alone, NULL) == 0;
	tw_layout_release(&layout);
	if (st != TW_OK) {
		heap->put(heap, o);
		return st;
	}
	*out = o;
	return TW_OK;
}

void tw_outer_close(struct tw_outer *o)
{
	if (!o)
		return;
	if (o->locks)
		pthread_mutex_destroy(&o->alone);
	o->heap->put(o->heap, o);
}

int tw_outer_failure(struct tw_outer *o, const char **function)
{
	if (!o)
		return 0;
	*function = atomic_load(&o->function);
	return atomic_exchange(&o->failure, 0);
}
