/* SPDX-License-Identifier: Apache-2.0 */
/* function.c - test functions for optimisers, with their gradients, in double:
 *
 *	rosenbrock   sum 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2		minimum 0 at (1, 1, ...)
 *	powell       Powell's singular function, in groups of four	minimum 0 at 0; its
 *		     curvature there is singular
 *	dixon-price  (x_1 - 1)^2 + sum i (2 x_i^2 - x_{i-1})^2		minimum 0
 *
 * Each is a sum of terms of neighbouring parameters, so a gradient costs one pass. */
#include "engine/function.h"
#include "engine/effort.h"
#include "engine/order.h"

#include <math.h>

struct function {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	uint32_t name;
	double start;
	size_t tensor[2];
};

/* The sum of all terms at x; g is zeros, and becomes the gradient, or is NULL. */
typedef double (*terms)(const float *x, size_t n, float *g);

static void add(float *g, size_t i, double by)
{
	if (g)
		g[i] = (float)((double)g[i] + by);
}

static double rosenbrock(const float *x, size_t n, float *g)
{
	double sum = 0, carried = 0; /* carried: what the term before adds to this gradient */

	for (size_t i = 0; i + 1 < n; i++) {
		const double a = x[i], b = x[i + 1], r = b - a * a, s = 1 - a;

		sum += 100 * r * r + s * s;
		if (g)
			g[i] = (float)(carried - 400 * a * r - 2 * s);
		carried = 200 * r;
	}
	if (g)
		g[n - 1] = (float)carried;
	return n == 1 ? (1 - (double)x[0]) * (1 - (double)x[0]) : sum;
}

static double powell(const float *x, size_t n, float *g)
{
	double sum = 0;

	for (size_t i = 0; i + 3 < n; i += 4) {
		const double a = (double)x[i] + 10 * (double)x[i + 1];
		const double b = (double)x[i + 2] - (double)x[i + 3];
		const double c = (double)x[i + 1] - 2 * (double)x[i + 2];
		const double d = (double)x[i] - (double)x[i + 3];

		sum += a * a + 5 * b * b + c * c * c * c + 10 * d * d * d * d;
		add(g, i, 2 * a + 40 * d * d * d);
		add(g, i + 1, 20 * a + 4 * c * c * c);
		add(g, i + 2, 10 * b - 8 * c * c * c);
		add(g, i + 3, -10 * b - 40 * d * d * d);
	}
	for (size_t i = n / 4 * 4; i < n; i++) { /* what is left of a group */
		sum += (double)x[i] * (double)x[i];
		add(g, i, 2 * (double)x[i]);
	}
	return sum;
}

static double dixon_price(const float *x, size_t n, float *g)
{
	const double first = (double)x[0] - 1;
	double sum = first * first, own = 2 * first;

	for (size_t i = 1; i < n; i++) {
		const double a = x[i], r = 2 * a * a - (double)x[i - 1], weight = (double)(i + 1);

		sum += weight * r * r;
		if (g)
			g[i - 1] = (float)(own - 2 * weight * r);
		own = 8 * weight * a * r;
	}
	if (g)
		g[n - 1] = (float)own;
	return sum;
}

/* Where the literature begins: parameter i starts at first[i % 4]. */
static const struct {
	terms terms;
	double first[4];
} functions[] = {
	{ rosenbrock, { -1.2, 1, -1.2, 1 } },
	{ powell, { 3, -1, 0, 1 } },
	{ dixon_price, { 1, 1, 1, 1 } },
};
static const char *const names[] = { "rosenbrock", "powell", "dixon-price", NULL };

const struct tw_option tw_function_rows[] = {
	TW_OPTION_CHOICE(struct tw_function_options, name, "name", "rosenbrock", names,
			 "which function; its minimum is 0"),
	TW_OPTION(struct tw_function_options, dimension, TW_U64, "2", "parameters", 2, 1e9,
		  "number of parameters", .example = "10"),
	TW_OPTION(struct tw_function_options, start, TW_F64, "none", NULL, -1e30, 1e30,
		  "initial value of every parameter; none: the usual starting point",
		  .example = "1.5"),
	TW_OPTION_END,
};

/* The parameters in one piece: the world's scratch has room for them. */
static const float *gather(const struct tw_inputs *in, float *room)
{
	if (in->pieces == 1)
		return in->piece[0].at;
	for (size_t k = 0; k < in->pieces; k++)
		for (size_t i = 0; i < in->piece[k].n; i++)
			room[in->piece[k].from + i] = in->piece[k].at[i];
	return room;
}

static enum tw_status function_gradient(const struct tw_engine *e, void *scratch,
					const struct tw_inputs *in, float *gradient,
					struct tw_score *score)
{
	const struct function *f = (const struct function *)e;
	double value;

	if (!tw_order_is_batch(e->samples, in))
		return TW_BAD_INPUT;
	if (tw_order_cancelled(in))
		return TW_CANCELLED;
	for (size_t i = 0; i < e->trainable; i++)
		gradient[i] = 0;
	value = functions[f->name].terms(gather(in, scratch), e->trainable, gradient);
	*score = (struct tw_score){ in->count * value, -1, in->count };
	return TW_OK;
}

static enum tw_status function_evaluate(const struct tw_engine *e, void *scratch,
					const struct tw_inputs *in, struct tw_score *score)
{
	const struct function *f = (const struct function *)e;
	double value;

	if (in->count == 0 || in->from >= e->tests || in->count > e->tests - in->from)
		return TW_BAD_INPUT;
	value = functions[f->name].terms(gather(in, scratch), e->trainable, NULL);
	*score = (struct tw_score){ in->count * value, -1, in->count };
	return TW_OK;
}

static enum tw_status function_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct function *f = (const struct function *)e;

	if (from > e->trainable || n > e->trainable - from)
		return TW_BAD_INPUT;
	for (size_t i = 0; i < n; i++)
		out[i] = (float)(isnan(f->start) ? functions[f->name].first[(from + i) % 4]
						 : f->start);
	return TW_OK;
}

static double function_effort(const struct tw_engine *e, const struct tw_inputs *in)
{
	return tw_effort_mean(e, NULL, in);
}

static void function_close(struct tw_engine *e)
{
	struct function *f = (struct function *)e;

	if (f)
		f->heap->put(f->heap, f);
}

static const struct tw_engine_class function_class = {
	.name = "function",
	.init = function_init,
	.gradient = function_gradient,
	.evaluate = function_evaluate,
	.effort = function_effort,
	.close = function_close,
};

struct tw_engine *tw_function_open(struct tw_heap *heap, const struct tw_function_options *o,
				   uint64_t samples, uint64_t seed)
{
	struct function *f = tw_heap_zeros(heap, sizeof *f);

	if (!f)
		return NULL;
	f->heap = heap;
	f->name = o->name;
	f->start = o->start;
	f->tensor[1] = o->dimension;
	f->e = (struct tw_engine){ .class = &function_class,
				   .trainable = o->dimension,
				   .tensor = f->tensor,
				   .tensors = 1,
				   .samples = samples,
				   .tests = 1,
				   .order = tw_order_make(seed, samples),
				   .scratch_bytes = o->dimension * sizeof(float),
				   .cost = 12 * (double)o->dimension };
	return &f->e;
}
