/* SPDX-License-Identifier: Apache-2.0 */
/* both_ways.c - see both_ways.h.
 *
 * Saved: what the op saves in each direction, then its outputs of each.  Scratch: the op's, then
 * the positions in the other order, then what a pass has of its own; all aligned. */
#include "graph/both_ways.h"
#include "vec/vec.h"

#include <stdio.h>
#include <string.h>

const char *const tw_directions[] = { "forward", "both", NULL };

#define WAYS 2
/* Parameters of one direction. */
#define EACH (TW_OP_PARAMETERS / WAYS)

/* Where things lie in bytes. */
struct both {
	size_t saved[WAYS], out[WAYS]; /* in what is saved; without training `out` in scratch */
	size_t turned;                 /* the input from its end; in scratch, as all that follows */
	size_t back_turned, dy, dx;
};

_Static_assert(sizeof(struct both) <= TW_WAYS_KERNEL, "it fits before the op's kernel");

static void *inner(const void *kernel)
{
	return (char *)(uintptr_t)kernel + TW_WAYS_KERNEL;
}

/* "_reverse" behind the name, as PyTorch has it. */
static const char *reversed(const char *name)
{
	static const char *const names[][2] = {
		{ "weight_ih_l0", "weight_ih_l0_reverse" },
		{ "weight_hh_l0", "weight_hh_l0_reverse" },
		{ "bias_ih_l0", "bias_ih_l0_reverse" },
		{ "bias_hh_l0", "bias_hh_l0_reverse" },
	};

	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
		if (strcmp(names[k][0], name) == 0)
			return names[k][1];
	HOLDS(1, false); /* the op's parameters have these names */
	return NULL;
}

enum tw_status tw_ways_form(const struct tw_op *one, const void *options, const struct tw_shape *in,
			    struct tw_op_form *form, struct tw_error *why)
{
	const enum tw_status st = one->form(options, in, form, why);

	if (st != TW_OK || !tw_goes_both_ways(options))
		return st;
	HOLDS(2, form->parameters == EACH);
	for (uint32_t k = 0; k < EACH; k++) {
		form->parameter[EACH + k] = form->parameter[k];
		form->parameter[EACH + k].name = reversed(form->parameter[k].name);
	}
	form->parameters = WAYS * EACH;
	form->out.d[1] *= WAYS;
	form->products *= WAYS;
	form->flops *= WAYS;
	return TW_OK;
}

/* The site of one direction. */
static struct tw_op_site one_way(const struct tw_op_site *site)
{
	struct tw_op_site one = *site;

	one.out.d[1] /= WAYS;
	return one;
}

static size_t bytes_of(const struct tw_op_site *site, const struct tw_shape *s)
{
	return tw_op_aligned(site->batch * tw_shape_size(s) * sizeof(float));
}

enum tw_status tw_ways_prepare(const struct tw_op *one, const struct tw_op_site *site,
			       struct tw_onednn *kit, void *kernel, struct tw_op_memory *need)
{
	const struct tw_op_site way = one_way(site);
	const size_t x = bytes_of(site, &site->in[0]), y = bytes_of(&way, &way.out);
	struct both *b = kernel;
	enum tw_status st;

	if (!tw_goes_both_ways(site->options))
		return one->prepare(site, kit, inner(kernel), need);
	st = one->prepare(&way, kit, inner(kernel), need);
	b->turned = tw_op_aligned(need->forward);
	need->forward = b->turned + x + (site->train ? 0 : WAYS * y);
	for (size_t k = 0; k < WAYS; k++) {
		b->saved[k] = k * tw_op_aligned(need->saved);
		b->out[k] =
			(site->train ? WAYS * tw_op_aligned(need->saved) : b->turned + x) + k * y;
	}
	if (!site->train)
		return st;
	need->saved = b->out[0] + WAYS * y;
	b->back_turned = tw_op_aligned(need->backward);
	b->dy = b->back_turned + x;
	b->dx = b->dy + y;
	need->backward = b->dx + x;
	return st;
}

static void *at(void *base, size_t offset)
{
	return (char *)base + offset;
}

/* Rows of n values in the other order; `add` adds them to what is there. */
static void turn(const struct tw_op_site *site, const struct tw_op_run *run, const float *from,
		 float *to, size_t n, bool add)
{
	const size_t positions = site->in[0].d[0];

	for (size_t b = 0; b < site->batch; b++) {
		const size_t length = tw_op_length(site, run->in[1], b);

		for (size_t t = 0; t < positions; t++) {
			const float *x = from + (b * positions + tw_way_place(true, t, length)) * n;
			float *y = to + (b * positions + t) * n;

			if (add)
				tw_vec_add(y, x, n);
			else
				memcpy(y, x, n * sizeof *y);
		}
	}
}

/* Between the features of one direction and those of both; `join`: from one to both. */
static void part(const struct tw_op_site *site, const struct tw_op_run *run, bool back, bool join,
		 float *one, float *both)
{
	const size_t positions = site->out.d[0], n = site->out.d[1] / WAYS;

	for (size_t b = 0; b < site->batch; b++) {
		const size_t length = tw_op_length(site, run->in[1], b);

		for (size_t t = 0; t < positions; t++) {
			const size_t place = b * positions + tw_way_place(back, t, length);
			float *x = one + (b * positions + t) * n;
			float *y = both + place * WAYS * n + (back ? n : 0);

			if (join)
				memcpy(y, x, n * sizeof *y);
			else
				memcpy(x, y, n * sizeof *x);
		}
	}
}

/* What a direction gets of the run: the input is in[0] or its turned copy. */
static struct tw_op_run run_of(const struct tw_op_site *site, const struct both *b,
			       const struct tw_op_run *run, bool back, const float *turned)
{
	struct tw_op_run way = *run;
	void *outs = site->train ? run->saved : run->scratch;

	way.out = at(outs, b->out[back]);
	if (site->train)
		way.saved = at(run->saved, b->saved[back]);
	if (!back)
		return way;
	way.in[0] = turned;
	for (uint32_t k = 0; k < EACH; k++) {
		way.parameter[k] = run->parameter[EACH + k];
		way.from[k] = run->from[EACH + k];
		way.change[k] = run->change[EACH + k];
	}
	return way;
}

enum tw_status tw_ways_forward(const struct tw_op *one, const struct tw_op_site *site,
			       const void *kernel, const struct tw_op_run *run)
{
	const struct tw_op_site way = one_way(site);
	const struct both *b = kernel;
	enum tw_status st = TW_OK;
	float *turned;

	if (!tw_goes_both_ways(site->options))
		return one->forward(site, inner(kernel), run);
	turned = at(run->scratch, b->turned);
	turn(site, run, run->in[0], turned, site->in[0].d[1], false);
	for (size_t k = 0; k < WAYS && st == TW_OK; k++) {
		const struct tw_op_run r = run_of(site, b, run, k == 1, turned);

		st = one->forward(&way, inner(kernel), &r);
		part(site, run, k == 1, true, r.out, run->out);
	}
	return st;
}

enum tw_status tw_ways_backward(const struct tw_op *one, const struct tw_op_site *site,
				const void *kernel, const struct tw_op_run *run)
{
	const struct tw_op_site way = one_way(site);
	const struct both *b = kernel;
	const size_t n = site->in[0].d[1];
	enum tw_status st = TW_OK;
	float *turned, *dy, *dx;

	if (!tw_goes_both_ways(site->options))
		return one->backward(site, inner(kernel), run);
	turned = at(run->scratch, b->back_turned);
	dy = at(run->scratch, b->dy);
	dx = at(run->scratch, b->dx);
	turn(site, run, run->in[0], turned, n, false);
	for (size_t k = 0; k < WAYS && st == TW_OK; k++) {
		struct tw_op_run r = run_of(site, b, run, k == 1, turned);

		part(site, run, k == 1, false, dy, (float *)(uintptr_t)run->out_gradient);
		r.out_gradient = dy;
		r.in_gradient[0] = k == 1 && run->in_gradient[0] ? dx : run->in_gradient[0];
		st = one->backward(&way, inner(kernel), &r);
	}
	if (st == TW_OK && run->in_gradient[0])
		turn(site, run, dx, run->in_gradient[0], n, true);
	return st;
}
