/* SPDX-License-Identifier: Apache-2.0 */
/* own_gradient.c - the caller's gradient function as an engine.
 *
 *  (1) a call's scratch is: numbers of samples, the parameters in one piece, the caller's own; each
 *      part begins at a multiple of TW_ALIGN.
 *  (2) no gradient is asked of more samples than `most`; longer evaluations are cut. */
#include "api/handle.h"

#include "base/rng.h"
#include "engine/order.h"

#include <math.h>
#include <string.h>

#define PORTION     256u /* samples of an evaluation that are asked about at once, at least */
#define TENSORS_MAX 4096u
_Static_assert(TW_TENSOR_RANK == sizeof((struct thalweg_tensor *)0)->shape / sizeof(uint64_t),
	       "any tensor of a caller can be described");
#define LETTERS_MAX (TW_TENSOR_NAME - 1u)

struct outer {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	struct thalweg_engine own;
	struct tw_tensors named; /* none: the caller gave no names */
	size_t *start;
	float *initial; /* NULL: zeros */
	uint64_t most;
	pthread_mutex_t *alone; /* NULL: calls may overlap */
	_Atomic int failure;    /* the first that was not 0 */
	const char *_Atomic function;
};

static size_t rounded(size_t bytes)
{
	return (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;
}

static size_t elements(const struct outer *o)
{
	return o->e.trainable + o->e.buffers;
}

/* The parameters in one piece: as they are, or copied together. */
static const float *joined(const struct tw_inputs *in, float *room)
{
	if (in->pieces == 1)
		return in->piece[0].at;
	for (size_t k = 0; k < in->pieces; k++)
		memcpy(room + in->piece[k].from, in->piece[k].at, in->piece[k].n * sizeof *room);
	return room;
}

static void fill_batch(const struct outer *o, const struct tw_inputs *in, void *scratch,
		       struct thalweg_batch *out)
{
	uint8_t *at = scratch;
	float *room = (float *)(at + rounded(o->most * sizeof(uint64_t)));

	*out = (struct thalweg_batch){
		.sample = scratch,
		.parameters = joined(in, room),
		.scratch = (uint8_t *)room + rounded(elements(o) * sizeof(float)),
	};
}

static void enter(const struct outer *o)
{
	if (o->alone)
		pthread_mutex_lock(o->alone);
}

static void leave(const struct outer *o)
{
	if (o->alone)
		pthread_mutex_unlock(o->alone);
}

static enum tw_status failed(const struct outer *o, int code, const char *function)
{
	struct outer *own = (struct outer *)o;
	int none = 0;

	if (atomic_compare_exchange_strong(&own->failure, &none, code))
		atomic_store(&own->function, function);
	return TW_REFUSED;
}

static enum tw_status outer_gradient(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	const struct outer *o = (const struct outer *)e;
	const uint64_t epoch = in->from / e->samples;
	uint64_t *sample = scratch;
	struct thalweg_batch batch;
	double loss = NAN;
	int code;

	if (!tw_order_is_batch(e->samples, in) || in->count > o->most)
		return TW_BAD_INPUT;
	if (tw_order_cancelled(in))
		return TW_CANCELLED;
	fill_batch(o, in, scratch, &batch);
	for (uint32_t k = 0; k < in->count; k++)
		sample[k] = tw_order_sample(&e->order, in->from + k);
	batch.count = in->count;
	batch.epoch = epoch;
	enter(o);
	code = o->own.gradient(o->own.user, &batch, gradient, &loss);
	leave(o);
	if (code)
		return failed(o, code, "gradient");
	*score = (struct tw_score){ .loss = loss * in->count, .correct = -1, .samples = in->count };
	return TW_OK;
}

static enum tw_status outer_evaluate(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, struct tw_score *score)
{
	const struct outer *o = (const struct outer *)e;
	struct tw_score sum = { .samples = in->count };
	uint64_t *sample = scratch;
	struct thalweg_batch batch;

	if (in->count == 0 || in->from >= e->tests || in->count > e->tests - in->from)
		return TW_BAD_INPUT;
	fill_batch(o, in, scratch, &batch);
	for (uint64_t done = 0; done < in->count; done += batch.count) {
		double loss = NAN, correct = -1;
		int code;

		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		batch.count = in->count - done < o->most ? in->count - done : o->most; /* (2) */
		for (size_t k = 0; k < batch.count; k++)
			sample[k] = in->from + done + k;
		enter(o);
		code = o->own.evaluate(o->own.user, &batch, &loss, &correct);
		leave(o);
		if (code)
			return failed(o, code, "evaluate");
		sum.loss += loss * (double)batch.count;
		sum.correct = correct < 0 || sum.correct < 0 ? -1 : sum.correct + correct;
	}
	*score = sum;
	return TW_OK;
}

static enum tw_status outer_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct outer *o = (const struct outer *)e;

	if (from > elements(o) || n > elements(o) - from)
		return TW_BAD_INPUT;
	if (o->initial)
		memcpy(out, o->initial + from, n * sizeof *out);
	else
		memset(out, 0, n * sizeof *out);
	return TW_OK;
}

static void outer_close(struct tw_engine *e)
{
	struct outer *o = (struct outer *)e;

	if (!o)
		return;
	if (o->alone)
		pthread_mutex_destroy(o->alone);
	o->heap->put(o->heap, o->alone);
	o->heap->put(o->heap, o->initial);
	o->heap->put(o->heap, o->start);
	o->heap->put(o->heap, o->named.tensor);
	o->heap->put(o->heap, o);
}

static const struct tw_engine_class outer_class = {
	.name = "external",
	.init = outer_init,
	.gradient = outer_gradient,
	.evaluate = outer_evaluate,
	.close = outer_close,
};

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
	if (from->parameters > SIZE_MAX / 64 || from->buffers > SIZE_MAX / 64)
		return tw_fail(why, TW_NO_MEMORY, "no memory for this many parameters");
	if (from->tensors && !from->tensor)
		return tw_fail(why, TW_BAD_INPUT, "the engine has %zu tensors, but tensor is NULL",
			       from->tensors);
	if (from->tensors > TENSORS_MAX)
		return tw_fail(why, TW_BAD_INPUT, "the engine may have %u tensors at most",
			       TENSORS_MAX);
	return TW_OK;
}

static bool is_name(const char *name)
{
	size_t n = 0;

	for (; name && name[n] && n <= LETTERS_MAX; n++)
		if (name[n] <= ' ' || name[n] > '~')
			return false;
	return n > 0 && n <= LETTERS_MAX;
}

static enum tw_status check_tensor(const struct thalweg_engine *from, size_t k, size_t at,
				   size_t *count, struct tw_error *why)
{
	const struct thalweg_tensor *t = &from->tensor[k];
	const size_t all = from->parameters + from->buffers;

	if (!is_name(t->name))
		return tw_fail(why, TW_BAD_INPUT,
			       "tensor %zu needs a name of 1 to %u letters without spaces", k,
			       LETTERS_MAX);
	for (size_t i = 0; i < k; i++)
		if (strcmp(from->tensor[i].name, t->name) == 0)
			return tw_fail(why, TW_BAD_INPUT, "two tensors are called %s", t->name);
	if (t->rank > sizeof t->shape / sizeof t->shape[0])
		return tw_fail(why, TW_BAD_INPUT, "tensor %s: rank %u is above 8", t->name,
			       t->rank);
	*count = 1;
	for (uint32_t i = 0; i < t->rank; i++) {
		if (t->shape[i] == 0 || t->shape[i] > (all - at) / *count)
			return tw_fail(why, TW_BAD_INPUT,
				       "tensor %s: its shape does not fit the %zu elements that "
				       "are left",
				       t->name, all - at);
		*count *= t->shape[i];
	}
	if (*count > all - at || (at<from->parameters && * count> from->parameters - at))
		return tw_fail(why, TW_BAD_INPUT,
			       "tensor %s: reaches beyond the %zu %s of the engine", t->name,
			       at < from->parameters ? from->parameters : all,
			       at < from->parameters ? "parameters" : "parameters and buffers");
	return TW_OK;
}

static enum tw_status take_tensors(struct outer *o, struct tw_error *why)
{
	const struct thalweg_engine *from = &o->own;
	struct tw_tensors *l = &o->named;
	size_t at = 0, count = 0;

	*l = (struct tw_tensors){ .heap = o->heap,
				  .tensor =
					  tw_heap_zeros(o->heap, from->tensors * sizeof *l->tensor),
				  .tensors = from->tensors,
				  .trainable = o->e.trainable,
				  .buffers = o->e.buffers };
	if (!l->tensor)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the tensors");
	for (size_t k = 0; k < from->tensors; k++) {
		const enum tw_status st = check_tensor(from, k, at, &count, why);
		struct tw_tensor *t = &l->tensor[k];

		if (st != TW_OK)
			return st;
		*t = (struct tw_tensor){ .rank = from->tensor[k].rank,
					 .buffer = at >= o->e.trainable,
					 .from = at,
					 .n = count };
		memcpy(t->name, from->tensor[k].name, strlen(from->tensor[k].name) + 1);
		memcpy(t->d, from->tensor[k].shape, t->rank * sizeof t->d[0]);
		o->start[k] = at;
		at += count;
	}
	o->start[from->tensors] = at;
	if (at != elements(o))
		return tw_fail(why, TW_BAD_INPUT,
			       "the tensors have %zu elements in all, the engine %zu", at,
			       elements(o));
	return TW_OK;
}

/* Without tensors: the parameters are one, the buffers another. */
static void make_tensors(struct outer *o)
{
	o->start[0] = 0;
	o->start[1] = o->e.trainable;
	o->start[2] = elements(o);
	o->e.tensors = o->e.buffers ? 2 : 1;
}

static enum tw_status take(struct outer *o, struct tw_error *why)
{
	const size_t bytes = elements(o) * sizeof(float);
	struct tw_heap *heap = o->heap;

	o->start = heap->get(heap, (o->own.tensors + 3) * sizeof *o->start);
	if (o->own.initial)
		o->initial = heap->get(heap, bytes);
	if (o->own.one_at_a_time)
		o->alone = heap->get(heap, sizeof *o->alone);
	if (o->alone && pthread_mutex_init(o->alone, NULL) != 0) {
		heap->put(heap, o->alone);
		o->alone = NULL;
	}
	if (!o->start || (o->own.initial && !o->initial) || (o->own.one_at_a_time && !o->alone))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	if (o->initial)
		memcpy(o->initial, o->own.initial, bytes);
	for (size_t i = 0; o->initial && i < elements(o); i++)
		if (!isfinite(o->initial[i]))
			return tw_fail(why, TW_BAD_INPUT,
				       "initial weight number %zu of the engine is not finite", i);
	o->e.tensor = o->start;
	o->e.tensors = o->own.tensors;
	if (o->own.tensors)
		return take_tensors(o, why);
	make_tensors(o);
	return TW_OK;
}

enum tw_status tw_outer_open(struct tw_heap *heap, const struct thalweg_engine *from,
			     uint32_t batch, uint64_t seed, struct tw_engine **out,
			     struct tw_error *why)
{
	enum tw_status st = check(from, why);
	struct outer *o;

	if (st != TW_OK)
		return st;
	o = tw_heap_zeros(heap, sizeof *o);
	if (!o)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	o->heap = heap;
	o->own = *from;
	o->most = batch > PORTION ? batch : PORTION;
	o->e = (struct tw_engine){
		.class = &outer_class,
		.trainable = from->parameters,
		.buffers = from->buffers,
		.samples = from->samples,
		.tests = from->tests,
		.order = tw_order_make(seed, from->samples),
		.cost = 1e12, /* nobody knows: always worth a thread */
	};
	o->e.scratch_bytes = rounded(o->most * sizeof(uint64_t)) +
			     rounded(elements(o) * sizeof(float)) + rounded(from->scratch_bytes);
	st = take(o, why);
	if (st != TW_OK) {
		outer_close(&o->e);
		return st;
	}
	*out = &o->e;
	return TW_OK;
}

int tw_outer_failure(struct tw_engine *e, const char **function)
{
	struct outer *o = (struct outer *)e;

	if (e->class != &outer_class)
		return 0;
	*function = atomic_load(&o->function);
	return atomic_exchange(&o->failure, 0);
}

const struct tw_tensors *tw_outer_tensors(const struct tw_engine *e)
{
	const struct outer *o = (const struct outer *)e;

	return e->class == &outer_class && o->named.tensors ? &o->named : NULL;
}
