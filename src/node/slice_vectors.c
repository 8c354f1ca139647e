/* SPDX-License-Identifier: Apache-2.0 */
/* slice_vectors.c - commands over the vectors of a slice; the rules are in slice_vectors.h. */
#include "node/slice_vectors.h"
#include "node/slice.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

#define PART 2048 /* floats: all vectors of a list stay in the cache from command to command */

/* sum = [sum +] weight * g */
TW_CLONED_STATIC(void, add_portion,
		 (double *sum, double weight, const float *g, size_t n, bool first),
		 (sum, weight, g, n, first))
{
	if (first) {
#pragma GCC ivdep
		for (size_t i = 0; i < n; i++)
			sum[i] = weight * (double)g[i];
		return;
	}
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		sum[i] += weight * (double)g[i];
}

TW_CLONED_STATIC(void, take_mean, (float *out, const double *sum, double share, size_t n),
		 (out, sum, share, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = (float)(sum[i] * share);
}

TW_CLONED_STATIC(void, multiply, (float *out, const float *a, const float *b, size_t n),
		 (out, a, b, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = a[i] * b[i];
}

/* --- memory --------------------------------------------------------------------------------- */

enum tw_status tw_vectors_init(struct slice *s)
{
	const struct tw_optimising *o = &s->plan->optimising;
	struct slice_vectors *v = &s->vectors;
	const size_t bytes = s->n ? s->n * sizeof(float) : 1;

	if (!tw_plan_optimises(s->plan))
		return TW_OK;
	v->count = tw_descent_vectors(o->method, o->options);
	v->room = tw_descent_commands(o->method, o->options);
	v->portions = tw_plan_portions(s->plan);
	v->at = tw_heap_zeros(s->heap, v->count * sizeof *v->at);
	v->result = tw_heap_zeros(s->heap, v->room * sizeof *v->result);
	v->portion = tw_heap_zeros(s->heap, v->portions * sizeof *v->portion);
	v->sum = tw_heap_zeros(s->heap, 2 * bytes);
	if (!v->at || !v->result || !v->portion || !v->sum)
		return TW_NO_MEMORY;
	for (uint32_t k = 1; k < v->count; k++)
		if (!(v->at[k] = tw_heap_zeros(s->heap, bytes)))
			return TW_NO_MEMORY;
	return TW_OK;
}

static void forget_portions(struct slice_vectors *v)
{
	for (uint64_t k = 0; v->portion && k < v->portions; k++)
		tw_block_drop(v->portion[k].block);
	if (v->portion)
		memset(v->portion, 0, v->portions * sizeof *v->portion);
	v->folded = 0;
	v->loss = 0;
	v->open = v->bad = false;
}

void tw_vectors_release(struct slice *s)
{
	struct slice_vectors *v = &s->vectors;

	forget_portions(v);
	for (uint32_t k = 1; v->at && k < v->count; k++)
		s->heap->put(s->heap, v->at[k]);
	s->heap->put(s->heap, v->at);
	s->heap->put(s->heap, v->result);
	s->heap->put(s->heap, v->portion);
	s->heap->put(s->heap, v->sum);
	*v = (struct slice_vectors){ .at = NULL };
}

/* --- lists ---------------------------------------------------------------------------------- */

static bool reads(const struct tw_command *c, uint32_t vector)
{
	switch (c->kind) {
	case TW_COMMAND_COPY:
		return c->a == vector;
	case TW_COMMAND_SCALE:
		return c->to == vector;
	case TW_COMMAND_AXPY:
		return c->to == vector || c->a == vector;
	case TW_COMMAND_MULTIPLY:
	case TW_COMMAND_DOT:
		return c->a == vector || c->b == vector;
	default:
		return false;
	}
}

bool tw_vectors_valid(const struct slice *s, const struct tw_command *list, size_t count)
{
	const struct slice_vectors *v = &s->vectors;
	size_t results = 0;

	for (size_t k = 0; k < count; k++) {
		const struct tw_command *c = &list[k];

		if (!c->kind || c->kind >= TW_COMMAND_KINDS || c->to >= v->count ||
		    c->a >= v->count || c->b >= v->count || !isfinite(c->x))
			return false;
		/* nothing follows the evaluation that a list opens */
		if (c->kind == TW_COMMAND_EVALUATE && k + 1 < count)
			return false;
		if (c->kind == TW_COMMAND_GATHER && (!v->open || v->folded < v->portions))
			return false;
		results += tw_command_results(c);
	}
	return results <= v->room;
}

/* Does the list need what vector 0 was before it writes it? */
static bool starts_from_point(const struct tw_command *list, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		if (reads(&list[k], TW_VECTOR_POINT))
			return true;
		if (tw_command_writes(&list[k]) && list[k].to == TW_VECTOR_POINT)
			return false;
	}
	return true;
}

static bool writes_point(const struct tw_command *list, size_t count)
{
	for (size_t k = 0; k < count; k++)
		if (tw_command_writes(&list[k]) && list[k].to == TW_VECTOR_POINT)
			return true;
	return false;
}

/* One command on n elements from `from` on. */
static double carry_out(const struct slice *s, const struct tw_command *c, float *point,
			size_t from, size_t n)
{
	const struct slice_vectors *v = &s->vectors;
	float *to = (c->to ? v->at[c->to] : point) + from;
	const float *a = (c->a ? v->at[c->a] : point) + from;
	const float *b = (c->b ? v->at[c->b] : point) + from;

	switch (c->kind) {
	case TW_COMMAND_COPY:
		tw_vec_copy(to, a, n);
		break;
	case TW_COMMAND_FILL:
		tw_vec_fill(to, (float)c->x, n);
		break;
	case TW_COMMAND_SCALE:
		tw_vec_scale(to, (float)c->x, n);
		break;
	case TW_COMMAND_AXPY:
		tw_vec_axpy(to, (float)c->x, a, n);
		break;
	case TW_COMMAND_MULTIPLY:
		multiply(to, a, b, n);
		break;
	case TW_COMMAND_GATHER:
		take_mean(to, v->sum + from, 1 / (double)s->plan->optimising.batch, n);
		break;
	default:
		return tw_vec_dot(a, b, n);
	}
	return 0;
}

/* The losses came with every slice: the first one tells them for all. */
static double mean_loss(const struct slice *s)
{
	const struct slice_vectors *v = &s->vectors;

	if (v->bad)
		return NAN;
	return s->index == 0 ? v->loss / (double)s->plan->optimising.batch : 0;
}

enum tw_status tw_vectors_run(struct slice *s, const struct tw_command *list, size_t count,
			      uint64_t number)
{
	struct slice_vectors *v = &s->vectors;
	const bool writes = writes_point(list, count);
	const bool starts = writes && starts_from_point(list, count);
	struct tw_block *next = writes ? tw_pool_take(s->pool) : tw_block_keep(s->w);
	float *point;

	if (!next)
		return TW_NO_MEMORY;
	point = tw_block_floats(next);
	v->number = number;
	v->results = 0;
	memset(v->result, 0, v->room * sizeof *v->result);
	for (size_t from = 0; from < s->n; from += PART) {
		const size_t n = s->n - from < PART ? s->n - from : PART;
		uint32_t result = 0;

		if (starts)
			tw_vec_copy(point + from, tw_block_floats(s->w) + from, n);
		for (size_t k = 0; k < count; k++) {
			if (list[k].kind == TW_COMMAND_EVALUATE)
				continue;
			if (list[k].kind == TW_COMMAND_DOT)
				v->result[result] += carry_out(s, &list[k], point, from, n);
			else
				carry_out(s, &list[k], point, from, n);
			result += tw_command_results(&list[k]);
		}
	}
	for (size_t k = 0; k < count; k++) {
		if (list[k].kind == TW_COMMAND_GATHER) {
			v->result[v->results] = mean_loss(s);
			v->open = false;
		}
		v->results += tw_command_results(&list[k]);
	}
	tw_block_drop(s->w);
	s->w = next;
	if (writes) { /* (1) */
		tw_slice_hide(s);
		s->version.n++;
	}
	return TW_OK;
}

/* --- portions ------------------------------------------------------------------------------- */

void tw_vectors_open(struct slice *s)
{
	forget_portions(&s->vectors);
	s->vectors.open = true;
}

bool tw_vectors_wants(const struct slice *s, uint64_t portion)
{
	const struct slice_vectors *v = &s->vectors;

	return v->open && portion < v->portions && !v->portion[portion].here;
}

static double samples_of(const struct tw_optimising *o, uint64_t portion)
{
	const uint64_t left = o->batch - portion * o->portion;

	return (double)(left < o->portion ? left : o->portion);
}

static void add_next(struct slice *s)
{
	struct slice_vectors *v = &s->vectors;
	struct slice_portion *p = &v->portion[v->folded];

	if (p->block)
		add_portion(v->sum, samples_of(&s->plan->optimising, v->folded), p->g, s->n,
			    v->folded == 0);
	v->loss += p->loss;
	tw_block_drop(p->block);
	p->block = NULL;
	v->folded++;
}

void tw_vectors_fold(struct slice *s, uint64_t portion, struct tw_block *block, const float *g,
		     double loss)
{
	struct slice_vectors *v = &s->vectors;

	if (!tw_vec_finite(g, s->n) || !isfinite(loss)) { /* (4) */
		v->bad = true;
		block = NULL;
	}
	v->portion[portion] = (struct slice_portion){ tw_block_keep(block), g, loss, true };
	while (v->folded < v->portions && v->portion[v->folded].here)
		add_next(s);
}
