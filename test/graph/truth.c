/* SPDX-License-Identifier: Apache-2.0 */
/* truth.c - random inputs and parameters, the reference's values and their differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "graph/truth.h"
#include "base/rng.h"

#include <math.h>

/* A function without kinks bends little over 2 STEP. */
#define STEP  1e-5
#define BEND  1e-3
#define TRIES 30
#define WORK  4e8 /* operations of a reference that differences of one tensor may cost, about */

char truth_where[400];

static struct tw_rng rng(void)
{
	return tw_rng_make(20, TW_RNG_TEST);
}

static void *get(size_t n, size_t bytes)
{
	void *p = calloc(n ? n : 1, bytes);

	assert_non_null(p);
	return p;
}

bool truth_passes(const struct tw_op_site *site, const struct tw_op *op)
{
	return (op->traits & TW_OP_PASSES) && !(site->train && (op->traits & TW_OP_DRAWS));
}

/* Weights of the usual size, factors about 1, variances and the like above 0. */
static float draw(const struct tw_op_parameter *p, uint64_t what, size_t i)
{
	const struct tw_rng r = rng();
	const double g = tw_rng_gauss(&r, what, i), u = tw_rng_uniform(&r, what, i);

	if (!p)
		return (float)g;
	if (p->fan_in)
		return (float)(g / sqrt(p->fan_in));
	if (p->deviation > 0)
		return (float)g;
	return (float)(p->fill > 0 ? (double)p->fill * (0.5 + u) : (double)p->fill + 0.3 * g);
}

static void fill(struct truth *t, uint32_t tensor, const struct tw_op_parameter *p, size_t n)
{
	t->has[tensor] = true;
	t->n[tensor] = n;
	t->value[tensor] = get(n, sizeof(float));
	t->exact[tensor] = get(n, sizeof(double));
	for (size_t i = 0; i < n; i++) {
		t->value[tensor][i] = draw(p, tensor, i);
		t->exact[tensor][i] = (double)t->value[tensor][i];
	}
}

/* The input of an op that reads numbers, which has no gradient. */
static void number(struct truth *t)
{
	const struct tw_rng r = rng();

	t->site.wants[0] = false;
	for (size_t i = 0; i < t->n[0]; i++) {
		t->exact[0][i] = (double)(tw_rng_u64(&r, 52, i) % t->form.parameter[0].d[0]);
		t->value[0][i] = (float)t->exact[0][i];
	}
}

static size_t parameter_size(const struct tw_op_parameter *p)
{
	size_t n = 1;

	assert_true(p->rank >= 1 && p->rank <= 5);
	for (uint32_t k = 0; k < p->rank; k++)
		n *= p->d[k];
	return n;
}

static void make_batch(struct truth *t)
{
	const size_t size = tw_shape_size(&t->site.in[0]);
	const uint32_t classes = t->site.in[0].d[t->site.in[0].rank == 2];
	const uint32_t labels = tw_op_lines(&t->site);
	uint32_t *label = get(labels, sizeof *label);
	float *target = get(t->site.batch * size, sizeof *target);
	const struct tw_rng r = rng();

	for (uint32_t b = 0; b < labels; b++)
		label[b] = (uint32_t)(tw_rng_u64(&r, 50, b) % classes);
	for (size_t i = 0; i < t->site.batch * size; i++)
		target[i] = (float)tw_rng_uniform(&r, 51, i);
	t->batch = (struct tw_op_batch){ .position = UINT64_C(0x1fffffffe),
					 .label = label,
					 .target = target,
					 .loss = &t->loss,
					 .correct = &t->correct };
}

void truth_refer(const struct truth *t, double *out)
{
	t->op->reference(&t->site, &t->batch, (const double *const *)t->exact,
			 (const double *const *)t->exact + TW_OP_INS, out);
}

/* The first value of each sample of an input becomes a length. */
static void draw_lengths(struct truth *t, uint32_t input, uint32_t positions)
{
	const size_t n = tw_shape_size(&t->site.in[input]);
	const struct tw_rng r = rng();

	for (size_t b = 0; b < t->site.batch; b++) {
		t->exact[input][n * b] = 1 + (double)(tw_rng_u64(&r, 53, b) % positions);
		t->value[input][n * b] = (float)t->exact[input][n * b];
	}
}

/* in[1]: rows that begin with a length; what follows is garbage. */
static void lengths(struct truth *t)
{
	const struct tw_shape row = { 1, { 3 } };

	t->site.in[1] = row;
	t->site.ins = 2;
	fill(t, 1, NULL, t->site.batch * tw_shape_size(&row));
	draw_lengths(t, 1, t->site.in[0].d[0]);
}

void truth_make(struct truth *t, const struct tw_op *op, const struct tw_op_sample *sample,
		void *options, uint32_t batch, bool train)
{
	const struct tw_shape *in = &sample->in;
	const bool loss = op->traits & TW_OP_LOSS;
	struct tw_shape shape[TW_OP_INS];
	struct tw_error why = { 0 };
	const struct tw_rng r = rng();

	*t = (struct truth){ .op = op, .text = sample->text, .options = options };
	for (uint32_t k = 0; k < TW_OP_INS; k++)
		shape[k] = *in;
	if (op->form(options, shape, &t->form, &why) != TW_OK)
		fail_msg("%s: the sample's shape is refused: %s", truth_where, why.text);
	t->site = (struct tw_op_site){ .options = options,
				       .batch = batch,
				       .ins = op->ins,
				       .out = t->form.out,
				       .train = train,
				       .layer = 3,
				       .seed = 5 };
	for (uint32_t k = 0; k < op->ins; k++) {
		t->site.in[k] = *in;
		t->site.wants[k] = train;
		fill(t, k, NULL, batch * tw_shape_size(in));
	}
	if (op->traits & TW_OP_READS_NUMBERS)
		number(t);
	if (op->traits & TW_OP_GIVES_LENGTHS)
		draw_lengths(t, 0, t->form.out.d[0]);
	if (sample->lengths)
		lengths(t);
	for (uint32_t k = 0; k < t->form.parameters; k++)
		fill(t, TW_OP_INS + k, &t->form.parameter[k],
		     parameter_size(&t->form.parameter[k]));
	make_batch(t);
	t->outs = loss ? 0 : batch * tw_shape_size(&t->form.out);
	t->out = get(t->outs, sizeof *t->out);
	t->cotangent = get(t->outs, sizeof *t->cotangent);
	for (size_t i = 0; i < t->outs; i++)
		t->cotangent[i] = (float)tw_rng_gauss(&r, 60, i);
	truth_refer(t, t->out);
}

void truth_free(struct truth *t)
{
	for (uint32_t k = 0; k < TRUTH_TENSORS; k++) {
		free(t->value[k]);
		free(t->exact[k]);
	}
	free((void *)t->batch.label);
	free((void *)t->batch.target);
	free(t->out);
	free(t->cotangent);
}

double truth_way(uint32_t tensor, uint32_t k, size_t index)
{
	const struct tw_rng r = rng();

	return tw_rng_u64(&r, 100 + tensor * 1000 + k, index) & 1 ? 1 : -1;
}

/* f with `spot` of the tensor moved by `by`; spot == SIZE_MAX: all values, along the way. */
static double moved(struct truth *t, uint32_t tensor, size_t spot, uint32_t way, double by,
		    double *out)
{
	double *x = t->exact[tensor], f = 0;

	for (size_t i = 0; i < t->n[tensor]; i++)
		if (i == spot || spot == SIZE_MAX)
			x[i] = (double)t->value[tensor][i] +
			       by * (spot == SIZE_MAX ? truth_way(tensor, way, i) : 1);
	truth_refer(t, out);
	for (size_t i = 0; i < t->n[tensor]; i++)
		x[i] = (double)t->value[tensor][i];
	if (t->op->traits & TW_OP_LOSS)
		return out[0];
	for (size_t i = 0; i < t->outs; i++)
		f += (double)t->cotangent[i] * out[i];
	return f;
}

/* False at a kink. */
static bool slope(struct truth *t, uint32_t tensor, size_t spot, uint32_t way, double *out)
{
	const double h = spot == SIZE_MAX ? STEP / 10 : STEP;
	double *room = get(t->outs, sizeof *room);
	const double up = moved(t, tensor, spot, way, h, room);
	const double down = moved(t, tensor, spot, way, -h, room);
	const double here = moved(t, tensor, spot, way, 0, room);
	const double bend = fabs(up + down - 2 * here) / h;

	free(room);
	*out = (up - down) / (2 * h);
	return bend <= BEND * (fabs(*out) + 0.1) / (spot == SIZE_MAX ? 10 : 1);
}

static uint32_t spots_of(const struct truth *t, uint32_t tensor)
{
	const double once =
		3 * (t->form.flops + 20 * (double)tw_shape_size(&t->site.in[0])) * t->site.batch;
	const double many = fmax(6, fmin(TRUTH_SPOTS, WORK / once));

	return t->n[tensor] < many ? (uint32_t)t->n[tensor] : (uint32_t)many;
}

static void find_spots(struct truth *t, uint32_t tensor)
{
	const uint32_t many = spots_of(t, tensor);
	const struct tw_rng r = rng();
	double square = 0;

	t->spots[tensor] = 0;
	for (uint64_t k = 0; t->spots[tensor] < many && k < many + TRIES; k++) {
		struct truth_spot *s = &t->spot[tensor][t->spots[tensor]];

		s->index = many < t->n[tensor] ? tw_rng_u64(&r, 200 + tensor, k) % t->n[tensor]
					       : (size_t)k % t->n[tensor];
		if (!slope(t, tensor, s->index, 0, &s->slope))
			continue;
		square += s->slope * s->slope;
		t->spots[tensor]++;
	}
	if (t->spots[tensor] < (many + 1) / 2)
		fail_msg("%s: tensor %u has kinks nearly everywhere", truth_where, tensor);
	t->scale[tensor] = sqrt(square / t->spots[tensor]);
}

static void find_ways(struct truth *t, uint32_t tensor)
{
	for (uint32_t k = 0, tried = 0; k < TRUTH_WAYS; tried++) {
		struct truth_spot *w = &t->way[tensor][k];

		w->index = tried;
		if (slope(t, tensor, SIZE_MAX, tried, &w->slope))
			k++;
		else if (tried > TRIES)
			fail_msg("%s: tensor %u has kinks on every way", truth_where, tensor);
	}
}

void truth_differences(struct truth *t)
{
	for (uint32_t tensor = 0; tensor < TRUTH_TENSORS; tensor++) {
		const uint32_t parameter = tensor - TW_OP_INS;

		if (!t->has[tensor] || (tensor < TW_OP_INS && !t->site.wants[tensor]) ||
		    (tensor >= TW_OP_INS && t->form.parameter[parameter].buffer))
			continue;
		find_spots(t, tensor);
		find_ways(t, tensor);
	}
}
