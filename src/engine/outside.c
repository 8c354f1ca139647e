/* SPDX-License-Identifier: Apache-2.0 */
/* outside.c - a model that only its owner can compute. */
#include "engine/outside.h"

#include <math.h>
#include <string.h>

struct outside {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	struct tw_outside_facts facts;
	struct tw_safe_tensor *tensor;
	char *names;
	size_t *start;
	float *initial; /* NULL: zeros */
};

static size_t elements(const struct outside *o)
{
	return o->e.trainable + o->e.buffers;
}

static enum tw_status outside_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct outside *o = (const struct outside *)e;

	if (from > elements(o) || n > elements(o) - from)
		return TW_BAD_INPUT;
	if (o->initial)
		memcpy(out, o->initial + from, n * sizeof *out);
	else
		memset(out, 0, n * sizeof *out);
	return TW_OK;
}

/* Worlds ask a desk; whoever comes here has none. */
static enum tw_status outside_gradient(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, float *gradient,
				       struct tw_score *score)
{
	return TW_BAD_INPUT;
}

static enum tw_status outside_evaluate(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, struct tw_score *score)
{
	const struct outside *o = (const struct outside *)e;

	if (!o->facts.evaluate || in->count == 0 || in->from >= e->tests ||
	    in->count > e->tests - in->from)
		return TW_BAD_INPUT;
	return o->facts.evaluate(o->facts.arg, scratch, in, score);
}

static void outside_close(struct tw_engine *e)
{
	struct outside *o = (struct outside *)e;

	if (!o)
		return;
	o->heap->put(o->heap, o->initial);
	o->heap->put(o->heap, o->start);
	o->heap->put(o->heap, o->names);
	o->heap->put(o->heap, o->tensor);
	o->heap->put(o->heap, o);
}

static const struct tw_engine_class outside_class = {
	.name = "external",
	.init = outside_init,
	.gradient = outside_gradient,
	.evaluate = outside_evaluate,
	.close = outside_close,
};

static enum tw_status copy_names(struct outside *o, const struct tw_outside_facts *f)
{
	size_t bytes = 0;

	for (size_t k = 0; k < f->tensors; k++)
		bytes += strlen(f->tensor[k].name) + 1;
	o->names = o->heap->get(o->heap, bytes);
	o->tensor = tw_heap_zeros(o->heap, f->tensors * sizeof *o->tensor);
	o->start = o->heap->get(o->heap, (f->tensors + 1) * sizeof *o->start);
	if (!o->names || !o->tensor || !o->start)
		return TW_NO_MEMORY;
	bytes = 0;
	for (size_t k = 0; k < f->tensors; k++) {
		const struct tw_safe_tensor *from = &f->tensor[k];
		const size_t n = strlen(from->name) + 1;

		memcpy(o->names + bytes, from->name, n);
		o->tensor[k] = (struct tw_safe_tensor){ .name = o->names + bytes,
							.type = TW_SAFE_F32,
							.rank = from->rank,
							.count = from->count,
							.bytes = from->count * sizeof(float) };
		memcpy(o->tensor[k].d, from->d, sizeof from->d);
		bytes += n;
	}
	return TW_OK;
}

static void lay_out(struct outside *o)
{
	size_t at = 0;

	for (size_t k = 0; k < o->facts.tensors; k++) {
		o->start[k] = at;
		at += o->tensor[k].count;
		if (k + 1 == o->facts.trained)
			o->e.trainable = at;
	}
	o->start[o->facts.tensors] = at;
	o->e.buffers = at - o->e.trainable;
	o->e.tensor = o->start;
	o->e.tensors = o->facts.tensors;
}

static enum tw_status copy_initial(struct outside *o, struct tw_error *why)
{
	const float *from = o->facts.initial;

	if (!from)
		return TW_OK;
	o->initial = o->heap->get(o->heap, elements(o) * sizeof *o->initial);
	if (!o->initial)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the initial values");
	memcpy(o->initial, from, elements(o) * sizeof *from);
	for (size_t k = 0; k < o->facts.tensors; k++)
		for (size_t i = 0; i < o->tensor[k].count; i++)
			if (!isfinite(o->initial[o->start[k] + i]))
				return tw_fail(why, TW_BAD_INPUT,
					       "initial value %zu (from 0) of tensor %s is not "
					       "finite",
					       i, o->tensor[k].name);
	return TW_OK;
}

enum tw_status tw_outside_open(struct tw_heap *heap, const struct tw_outside_facts *facts,
			       struct tw_engine **out, struct tw_error *why)
{
	struct outside *o = tw_heap_zeros(heap, sizeof *o);
	enum tw_status st;

	if (!o)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the model");
	o->heap = heap;
	o->facts = *facts;
	o->e = (struct tw_engine){
		.class = &outside_class,
		.samples = facts->samples,
		.tests = facts->tests,
		.order = tw_order_make(facts->seed, facts->samples),
		.scratch_bytes = facts->scratch_bytes,
		.cost = 1e12, /* nobody knows: always worth a thread */
	};
	st = copy_names(o, facts) == TW_OK
		     ? TW_OK
		     : tw_fail(why, TW_NO_MEMORY, "no memory for the names of tensors");
	if (st == TW_OK) {
		lay_out(o);
		st = copy_initial(o, why);
	}
	o->facts.tensor = o->tensor;
	o->facts.initial = NULL;
	if (st != TW_OK) {
		outside_close(&o->e);
		return st;
	}
	*out = &o->e;
	return TW_OK;
}

const struct tw_safe_tensor *tw_outside_tensors(const struct tw_engine *e, size_t *tensors,
						size_t *trained)
{
	const struct outside *o = (const struct outside *)e;

	if (e->class != &outside_class)
		return NULL;
	*tensors = o->facts.tensors;
	*trained = o->facts.trained;
	return o->tensor;
}

const struct tw_sha *tw_outside_fingerprint(const struct tw_engine *e)
{
	return e->class == &outside_class ? &((const struct outside *)e)->facts.fingerprint : NULL;
}
