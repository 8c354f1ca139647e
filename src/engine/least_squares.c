/* SPDX-License-Identifier: Apache-2.0 */
/* least_squares.c - rows x_s and labels y_s = x_s.w* + noise * gauss; 1/2 (x_s.w - y_s)^2 each.
 *
 *	r = x.w - y				in double (16 lanes, see vec.h)
 *	g = fmaf((float)(r / samples of the batch), x, g)	sample after sample, by position
 *
 * With `blocks` a row touches only the elements of block s mod blocks, so the supports of rows of
 * different blocks are disjoint.  Rows are kept while they are few, else drawn again for every
 * use; the bits are the same. */
#include "engine/quadratic.h"
#include "engine/effort.h"
#include "engine/order.h"
#include "base/rng.h"
#include "vec/vec.h"

#include <string.h>

const struct tw_option tw_least_squares_rows[] = {
	TW_OPTION(struct tw_least_squares_options, dimension, TW_U64, "10", "parameters", 1, 1e10,
		  "number of parameters"),
	TW_OPTION(struct tw_least_squares_options, noise, TW_F64, "0", NULL, 0, 1e30,
		  "standard deviation of the labels' noise"),
	TW_OPTION(struct tw_least_squares_options, blocks, TW_U64, "0", "blocks", 0, 1e10,
		  "number of blocks with disjoint supports; each sample touches one of them; 0: "
		  "dense"),
	TW_OPTION(struct tw_least_squares_options, start, TW_F64, "0", NULL, -1e30, 1e30,
		  "initial value of every parameter"),
	TW_OPTION_END,
};

/* What is drawn from TW_RNG_PROBLEM; row s is drawn for ROWS + s. */
enum { TRUTH, LABEL, ROWS };

#define KEEP_BYTES (UINT64_C(128) << 20)

struct least_squares {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	uint64_t blocks; /* at least 1 */
	size_t width;    /* of the widest block */
	float *row;      /* samples * width, or NULL: drawn when needed */
	double *label;
	size_t tensor[2];
	float start;
	struct tw_rng problem;
};

/* Where block k begins: dimension * k / blocks. */
static size_t border(const struct least_squares *q, uint64_t k)
{
	const uint64_t n = q->e.trainable;

	return n / q->blocks * k + n % q->blocks * k / q->blocks;
}

/* One row: elements from..from+n. */
struct support {
	const float *x;
	size_t from, n;
};

static void draw_row(const struct least_squares *q, uint64_t s, size_t from, size_t n, float *out)
{
	tw_rng_gauss_fill(&q->problem, ROWS + s, from, out, n);
}

static struct support row_of(const struct least_squares *q, uint64_t s, float *scratch)
{
	const size_t from = border(q, s % q->blocks), to = border(q, s % q->blocks + 1);

	if (q->row)
		return (struct support){ q->row + s * q->width, from, to - from };
	draw_row(q, s, from, to - from, scratch);
	return (struct support){ scratch, from, to - from };
}

/* Elements from..from+n of the parameters in one piece of memory: theirs, or gathered in `room`. */
static const float *gathered(const struct tw_inputs *in, size_t from, size_t n, float *room)
{
	for (size_t k = 0; k < in->pieces; k++) {
		const struct tw_piece *p = &in->piece[k];
		const size_t low = p->from > from ? p->from : from;
		const size_t end = p->from + p->n, high = end < from + n ? end : from + n;

		if (p->from <= from && end >= from + n)
			return p->at + (from - p->from);
		if (low < high)
			tw_vec_copy(room + (low - from), p->at + (low - p->from), high - low);
	}
	return room;
}

static double residual(const struct least_squares *q, uint64_t s, const struct support *x,
		       const struct tw_inputs *in, float *room)
{
	return tw_vec_dot(x->x, gathered(in, x->from, x->n, room), x->n) - q->label[s];
}

static enum tw_status squares_gradient(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, float *gradient,
				       struct tw_score *score)
{
	const struct least_squares *q = (const struct least_squares *)e;
	float *room = scratch, *row = room + q->width;
	double sum = 0;

	if (!tw_order_is_batch(e->samples, in))
		return TW_BAD_INPUT;
	memset(gradient, 0, e->trainable * sizeof *gradient);
	for (uint32_t k = 0; k < in->count; k++) {
		const uint64_t s = tw_order_sample(&e->order, in->from + k);

		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		const struct support x = row_of(q, s, row);
		const double r = residual(q, s, &x, in, room);

		tw_vec_axpy(gradient + x.from, (float)(r / in->count), x.x, x.n);
		sum += 0.5 * r * r;
	}
	*score = (struct tw_score){ .loss = sum, .correct = -1, .samples = in->count };
	return TW_OK;
}

/* The test set is the training set in its own order. */
static enum tw_status squares_evaluate(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, struct tw_score *score)
{
	const struct least_squares *q = (const struct least_squares *)e;
	float *room = scratch, *row = room + q->width;
	double sum = 0;

	if (in->count == 0 || in->from >= e->tests || in->count > e->tests - in->from)
		return TW_BAD_INPUT;
	for (uint64_t s = in->from; s < in->from + in->count; s++) {
		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		const struct support x = row_of(q, s, row);
		const double r = residual(q, s, &x, in, room);

		sum += 0.5 * r * r;
	}
	*score = (struct tw_score){ .loss = sum, .correct = -1, .samples = in->count };
	return TW_OK;
}

static enum tw_status squares_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct least_squares *q = (const struct least_squares *)e;

	if (from > e->trainable || n > e->trainable - from)
		return TW_BAD_INPUT;
	tw_vec_fill(out, q->start, n);
	return TW_OK;
}

static void squares_close(struct tw_engine *e)
{
	struct least_squares *q = (struct least_squares *)e;

	if (!q)
		return;
	q->heap->put(q->heap, q->row);
	q->heap->put(q->heap, q->label);
	q->heap->put(q->heap, q);
}

static double squares_effort(const struct tw_engine *e, const struct tw_inputs *in)
{
	return tw_effort_mean(e, NULL, in);
}

static const struct tw_engine_class squares_class = {
	.name = "least-squares",
	.init = squares_init,
	.gradient = squares_gradient,
	.evaluate = squares_evaluate,
	.effort = squares_effort,
	.close = squares_close,
};

/* Rows where they are kept, and all labels.  `truth` and `spare` are scratch. */
static void draw_samples(struct least_squares *q, double noise, float *truth, float *spare)
{
	tw_rng_gauss_fill(&q->problem, TRUTH, 0, truth, q->e.trainable);
	for (uint64_t s = 0; s < q->e.samples; s++) {
		const size_t from = border(q, s % q->blocks), to = border(q, s % q->blocks + 1);
		float *x = q->row ? q->row + s * q->width : spare;

		draw_row(q, s, from, to - from, x);
		q->label[s] = tw_vec_dot(x, truth + from, to - from);
		if (noise != 0)
			q->label[s] += noise * tw_rng_gauss(&q->problem, LABEL, s);
	}
}

static void *get_array(struct tw_heap *heap, uint64_t count, uint64_t bytes)
{
	return count > SIZE_MAX / bytes ? NULL : heap->get(heap, count * bytes);
}

static bool fill_in(struct least_squares *q, const struct tw_least_squares_options *o)
{
	const uint64_t all = q->e.samples * q->width; /* floats of all rows, if that is a number */
	const bool keep = q->e.samples <= KEEP_BYTES / sizeof(float) / q->width;
	float *truth, *spare;

	q->label = get_array(q->heap, q->e.samples, sizeof *q->label);
	if (keep)
		q->row = get_array(q->heap, all, sizeof *q->row);
	else
		q->e.scratch_bytes += q->width * sizeof(float);
	truth = get_array(q->heap, o->dimension, sizeof *truth);
	spare = get_array(q->heap, q->width, sizeof *spare);
	const bool good = q->label && (q->row || !keep) && truth && spare;

	if (good)
		draw_samples(q, o->noise, truth, spare);
	q->heap->put(q->heap, truth);
	q->heap->put(q->heap, spare);
	return good;
}

struct tw_engine *tw_least_squares_open(struct tw_heap *heap,
					const struct tw_least_squares_options *o, uint64_t samples,
					uint64_t seed)
{
	struct least_squares *q = tw_heap_zeros(heap, sizeof *q);

	if (!q)
		return NULL;
	q->heap = heap;
	q->blocks = o->blocks ? o->blocks : 1;
	q->width = (o->dimension + q->blocks - 1) / q->blocks;
	q->tensor[1] = o->dimension;
	q->start = (float)o->start;
	q->problem = tw_rng_make(seed, TW_RNG_PROBLEM);
	q->e = (struct tw_engine){
		.class = &squares_class,
		.trainable = o->dimension,
		.tensor = q->tensor,
		.tensors = 1,
		.samples = samples,
		.tests = samples,
		.order = tw_order_make(seed, samples),
		.scratch_bytes = q->width * sizeof(float),
		.cost = 4 * (double)q->width,
	};
	if (!fill_in(q, o)) {
		squares_close(&q->e);
		return NULL;
	}
	return &q->e;
}
