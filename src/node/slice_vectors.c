/* SPDX-License-Identifier: Apache-2.0 */
/* slice_vectors.c - commands over the vectors of a slice; the rules are in slice_vectors.h. */
#include "node/slice_vectors.h"
#include "node/slice.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

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

/* --- memory --------------------------------------------------------------------------------- */

enum tw_status tw_vectors_init(struct slice *s)
{
	const struct tw_optimising *o = &s->plan->optimising;
	struct slice_vectors *v = &s->vectors;

	if (!tw_plan_optimises(s->plan))
		return TW_OK;
	v->count = tw_descent_vectors(o->method, o->options);
	v->room = tw_descent_commands(o->method, o->options);
	v->portions = tw_plan_portions(s->plan);
	v->at = tw_heap_zeros(s->heap, (v->count + v->room) * sizeof *v->at);
	v->next = tw_heap_zeros(s->heap, v->count * sizeof *v->next);
	v->step = tw_heap_zeros(s->heap, v->room * sizeof *v->step);
	v->result = tw_heap_zeros(s->heap, v->room * sizeof *v->result);
	v->lanes = tw_heap_zeros(s->heap, v->room * sizeof *v->lanes);
	v->portion = tw_heap_zeros(s->heap, v->portions * sizeof *v->portion);
	v->sum = tw_heap_zeros(s->heap, s->n ? s->n * sizeof *v->sum : 1);
	if (!v->at || !v->next || !v->step || !v->result || !v->lanes || !v->portion || !v->sum)
		return TW_NO_MEMORY;
	for (uint32_t k = 1; k < v->count; k++) {
		if (!(v->at[k] = tw_pool_take(s->pool)))
			return TW_NO_MEMORY;
		memset(v->at[k]->data, 0, v->at[k]->bytes);
	}
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
		tw_block_drop(v->at[k]);
	s->heap->put(s->heap, v->at);
	s->heap->put(s->heap, v->next);
	s->heap->put(s->heap, v->step);
	s->heap->put(s->heap, v->result);
	s->heap->put(s->heap, v->lanes);
	s->heap->put(s->heap, v->portion);
	s->heap->put(s->heap, v->sum);
	*v = (struct slice_vectors){ .at = NULL };
}

/* --- lists ---------------------------------------------------------------------------------- */

bool tw_vectors_valid(const struct slice *s, const struct tw_command *list, size_t count)
{
	const struct slice_vectors *v = &s->vectors;

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
	}
	return count <= v->room;
}

/* --- a list as steps ------------------------------------------------------------------------ */

static uint32_t times_in(struct tw_block *const *list, uint32_t count, const struct tw_block *b)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < count; k++)
		n += list[k] == b;
	return n;
}

/* Is the block of no vector after the steps so far, and held by nobody else? */
static bool is_free(const struct slice_vectors *v, uint32_t held, struct tw_block *b)
{
	return !times_in(v->next, v->count, b) &&
	       atomic_load_explicit(&b->refs, memory_order_acquire) == times_in(v->at, held, b);
}

/* A block that the next step may write for vector k; its own if it has one alone.  `held` blocks
 * of `at` are there before the list, or taken for it.  NULL without memory. */
static struct tw_block *place(struct slice *s, uint32_t k, uint32_t *held)
{
	struct slice_vectors *v = &s->vectors;
	struct tw_block *own = v->next[k], *b = NULL;

	v->next[k] = NULL;
	tw_block_drop(own); /* `at` holds it, too */
	if (is_free(v, *held, own))
		b = own;
	for (uint32_t j = 0; !b && j < *held; j++)
		if (is_free(v, *held, v->at[j]))
			b = v->at[j];
	if (!b && (b = tw_pool_take(s->pool)))
		v->at[(*held)++] = b;
	v->next[k] = tw_block_keep(b);
	return b;
}

static void rename_vector(struct slice_vectors *v, uint32_t to, uint32_t from)
{
	struct tw_block *before = v->next[to];

	v->next[to] = tw_block_keep(v->next[from]);
	tw_block_drop(before);
}

/* Has no step touched it so far? */
static bool is_new(const struct slice_vectors *v, const void *memory)
{
	for (uint32_t k = 0; k < v->steps; k++)
		if (v->step[k].to == memory || v->step[k].a == memory || v->step[k].b == memory)
			return false;
	return memory != NULL;
}

/* Does the command read these of its vectors? */
static bool reads_to(const struct tw_command *c)
{
	return c->kind == TW_COMMAND_SCALE || c->kind == TW_COMMAND_AXPY;
}

static bool reads_b(const struct tw_command *c)
{
	return c->kind == TW_COMMAND_MULTIPLY || c->kind == TW_COMMAND_DOT;
}

static bool reads_a(const struct tw_command *c)
{
	return c->kind == TW_COMMAND_AXPY || reads_b(c);
}

/* False without memory. */
static bool add_step(struct slice *s, const struct tw_command *c, uint32_t result, uint32_t *held)
{
	struct slice_vectors *v = &s->vectors;
	struct slice_step step = { .kind = c->kind, .result = result, .x = c->x };
	struct tw_block *to;

	/* y = x y + ... reads what the vector was, wherever it goes */
	if (reads_to(c))
		step.b = tw_block_floats(v->next[c->to]);
	if (reads_a(c))
		step.a = tw_block_floats(v->next[c->a]);
	if (reads_b(c))
		step.b = tw_block_floats(v->next[c->b]);
	if (tw_command_writes(c)) {
		if (!(to = place(s, c->to, held)))
			return false;
		step.to = tw_block_floats(to);
	}
	step.brings = is_new(v, step.a) + (step.b != step.a && is_new(v, step.b)) +
		      (step.to != step.a && step.to != step.b && is_new(v, step.to));
	v->step[v->steps++] = step;
	return true;
}

/* (5): fill `step` and `next`.  False without memory. */
static bool plan_list(struct slice *s, const struct tw_command *list, size_t count, uint32_t *held)
{
	struct slice_vectors *v = &s->vectors;
	uint32_t result = 0;

	v->steps = 0;
	for (size_t k = 0; k < count; k++) {
		if (list[k].kind == TW_COMMAND_COPY)
			rename_vector(v, list[k].to, list[k].a);
		else if (list[k].kind != TW_COMMAND_EVALUATE &&
			 !add_step(s, &list[k], result, held))
			return false;
		result += tw_command_results(&list[k]);
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
	uint32_t held = v->count;
	bool planned;

	v->at[TW_VECTOR_POINT] = s->w;
	for (uint32_t k = 0; k < v->count; k++)
		v->next[k] = tw_block_keep(v->at[k]);
	planned = plan_list(s, list, count, &held);
	if (planned) {
		const struct slice_steps all = { .step = v->step,
						 .count = v->steps,
						 .results = v->room,
						 .sum = v->sum,
						 .share = 1 / (double)s->plan->optimising.batch };

		v->number = number;
		v->results = 0;
		memset(v->result, 0, v->room * sizeof *v->result);
		tw_steps_run(&all, s->n, v->lanes, v->result);
	}
	for (uint32_t k = 0; k < held; k++)
		tw_block_drop(planned || k >= v->count ? v->at[k] : v->next[k]);
	if (!planned)
		return TW_NO_MEMORY;
	memcpy(v->at, v->next, v->count * sizeof *v->at);
	s->w = v->at[TW_VECTOR_POINT];
	for (size_t k = 0; k < count; k++) {
		if (list[k].kind == TW_COMMAND_GATHER) {
			v->result[v->results] = mean_loss(s);
			v->open = false;
		}
		v->results += tw_command_results(&list[k]);
	}
	if (writes_point(list, count)) { /* (1) */
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
