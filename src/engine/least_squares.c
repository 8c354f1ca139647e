/* SPDX-License-Identifier: Apache-2.0 */
/* least_squares.c - rows x_s and labels y_s = x_s.w* + noise * gauss; 1/2 (x_s.w - y_s)^2 each.
 *
 *	r = x.w - y				in double (16 lanes, see vec.h)
 *	g = fmaf((float)(r / samples of the batch), x, g)	sample after sample, by position
 *
 * With `blocks` a row touches only the elements of block s mod blocks, so the supports of rows of
 * different blocks are disjoint.  Rows are kept while they are few, else drawn again for every
 * use; the bits are the same.
 *
 * With stages x.w is p = (float)x_1.w_1, then p + (float)x_2.w_2, ..., in float, over the parts of
 * the row that the stages have.  The stash of the last stage has r / samples of every sample; the
 * others need none. */
#include "engine/quadratic.h"
#include "engine/effort.h"
#include "engine/made_up_stages.h"
#include "engine/order.h"
#include "base/rng.h"
#include "vec/vec.h"

#include <string.h>

const struct tw_option tw_least_squares_rows[] = {
	TW_OPTION(struct tw_least_squares_options, dimension, TW_U64, "10", "parameters", 1, 1e10,
		  "number of parameters"),
	TW_OPTION(struct tw_least_squares_options, noise, TW_F64, "0", NULL, 0, 1e30,
		  "standard deviation of the labels' noise", .example = "0.1"),
	TW_OPTION(struct tw_least_squares_options, blocks, TW_U64, "0", "blocks", 0, 1e10,
		  "number of blocks with disjoint supports; each sample touches one of them; 0: "
		  "dense",
		  .example = "4"),
	TW_OPTION(struct tw_least_squares_options, start, TW_F64, "0", NULL, -1e30, 1e30,
		  "initial value of every parameter", .example = "1"),
	TW_OPTION(struct tw_least_squares_options, stages, TW_U64, "1", "stages", 1, 64,
		  "number of stages of equal size that it can be computed in", .example = "4"),
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
	size_t *tensor;
	uint32_t stages;
	struct tw_model_cut *cut;
	float start;
	struct tw_rng problem;
};

/* Where block k begins: dimension * k / blocks. */
static size_t border(const struct least_squares *q, uint64_t k)
{
	return tw_made_up_border(q->e.trainable, q->blocks, k);
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

/* What the row has of elements from..to. */
static struct support row_part(const struct least_squares *q, uint64_t s, size_t from, size_t to,
			       float *scratch)
{
	const size_t begin = border(q, s % q->blocks), end = border(q, s % q->blocks + 1);
	const size_t low = begin > from ? begin : from, high = end < to ? end : to;

	if (low >= high)
		return (struct support){ scratch, from, 0 };
	if (q->row)
		return (struct support){ q->row + s * q->width + (low - begin), low, high - low };
	draw_row(q, s, low, high - low, scratch);
	return (struct support){ scratch, low, high - low };
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

/* Two vectors of a block's width: room to gather parameters, and to draw a row. */
struct room {
	float *gathered, *row;
};

static struct room room_in(const struct least_squares *q, void *scratch)
{
	return (struct room){ scratch, (float *)scratch + q->width };
}

/* p and the products of stages first..last. */
static float add_products(const struct least_squares *q, uint64_t s, uint32_t first, uint32_t last,
			  float p, const struct tw_inputs *in, const struct room *r)
{
	for (uint32_t k = first; k < last; k++) {
		const struct support x =
			row_part(q, s, q->cut[k].trainable, q->cut[k + 1].trainable, r->row);

		p += (float)tw_vec_dot(x.x, gathered(in, x.from, x.n, r->gathered), x.n);
	}
	return p;
}

/* Of all stages; *x is the row. */
static double residual(const struct least_squares *q, uint64_t s, const struct tw_inputs *in,
		       const struct room *r, struct support *x)
{
	const float sum = q->stages > 1 ? add_products(q, s, 0, q->stages, 0, in, r) : 0;

	*x = row_part(q, s, 0, q->e.trainable, r->row);
	if (q->stages > 1)
		return (double)sum - q->label[s];
	return tw_vec_dot(x->x, gathered(in, x->from, x->n, r->gathered), x->n) - q->label[s];
}

static enum tw_status squares_gradient(const struct tw_engine *e, void *scratch,
				       const struct tw_inputs *in, float *gradient,
				       struct tw_score *score)
{
	const struct least_squares *q = (const struct least_squares *)e;
	const struct room room = room_in(q, scratch);
	double sum = 0;

	if (!tw_order_is_batch(e->samples, in))
		return TW_BAD_INPUT;
	memset(gradient, 0, e->trainable * sizeof *gradient);
	for (uint32_t k = 0; k < in->count; k++) {
		const uint64_t s = tw_order_sample(&e->order, in->from + k);

		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		struct support x;
		const double r = residual(q, s, in, &room, &x);

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
	const struct room room = room_in(q, scratch);
	double sum = 0;

	if (in->count == 0 || in->from >= e->tests || in->count > e->tests - in->from)
		return TW_BAD_INPUT;
	for (uint64_t s = in->from; s < in->from + in->count; s++) {
		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		struct support x;
		const double r = residual(q, s, in, &room, &x);

		sum += 0.5 * r * r;
	}
	*score = (struct tw_score){ .loss = sum, .correct = -1, .samples = in->count };
	return TW_OK;
}

/* --- stages ----------------------------------------------------------------------------------- */

/* The test set is the training set in its own order. */
static uint64_t sample_of(const struct least_squares *q, const struct tw_inputs *in,
			  const struct tw_pass *pass, uint32_t k)
{
	return pass->kind == TW_PASS_EVALUATE ? in->from + k
					      : tw_order_sample(&q->e.order, in->from + k);
}

/* One sample forward; behind the loss *r is its residual.  Without a cut nothing is rounded. */
static float forward(const struct least_squares *q, const struct tw_inputs *in,
		     const struct tw_made_up_pass *m, const struct tw_pass *pass, uint32_t k,
		     const struct room *room, double *r)
{
	const uint64_t s = sample_of(q, in, pass, k);
	struct support x;
	float p;

	if (q->stages == 1) {
		*r = residual(q, s, in, room, &x);
		return (float)(*r + q->label[s]);
	}
	p = add_products(q, s, m->first, m->last, m->begins ? 0 : pass->x[k], in, room);
	*r = (double)p - q->label[s];
	return p;
}

static void go_forward(const struct least_squares *q, const struct tw_inputs *in,
		       const struct tw_made_up_pass *m, const struct tw_pass *pass,
		       const struct room *room, struct tw_score *score)
{
	float *stash = pass->kind == TW_PASS_FORWARD && m->ends ? pass->stash : NULL;
	double sum = 0;

	for (uint32_t k = 0; k < in->count; k++) {
		double r;
		const float p = forward(q, in, m, pass, k, room, &r);

		sum += 0.5 * r * r;
		if (pass->y)
			pass->y[k] = p;
		if (stash)
			stash[k] = (float)(r / in->count);
	}
	tw_made_up_gap(pass->y, in->count);
	if (m->ends)
		*score = (struct tw_score){ sum, -1, in->count };
}

/* How the mean loss depends on a sample's sum. */
static float coming_back(const struct least_squares *q, const struct tw_inputs *in,
			 const struct tw_made_up_pass *m, const struct tw_pass *pass, uint32_t k,
			 const struct room *room)
{
	double r;

	if (!m->ends)
		return pass->dy[k];
	if (pass->kind == TW_PASS_BACKWARD && pass->stash)
		return ((const float *)pass->stash)[k];
	forward(q, in, m, pass, k, room, &r);
	return (float)(r / in->count);
}

static enum tw_status go_back(const struct least_squares *q, const struct tw_inputs *in,
			      const struct tw_made_up_pass *m, const struct tw_pass *pass,
			      const struct room *room, float *change)
{
	const size_t from = q->cut[m->first].trainable, to = q->cut[m->last].trainable;

	memset(change, 0, (to - from) * sizeof *change);
	for (uint32_t k = 0; k < in->count; k++) {
		const float dy = coming_back(q, in, m, pass, k, room);
		const struct support x =
			row_part(q, sample_of(q, in, pass, k), from, to, room->row);

		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		tw_vec_axpy(change + (x.from - from), dy, x.x, x.n);
		if (!m->begins)
			pass->dx[k] = dy;
	}
	if (!m->begins)
		tw_made_up_gap(pass->dx, in->count);
	return TW_OK;
}

static enum tw_status squares_run(const struct tw_engine *e, void *scratch,
				  const struct tw_inputs *in, const struct tw_pass *pass,
				  float *change, struct tw_score *score)
{
	const struct least_squares *q = (const struct least_squares *)e;
	const struct room room = room_in(q, scratch);
	struct tw_made_up_pass m;

	if (!tw_made_up_pass(e, in, pass, change, &m))
		return TW_BAD_INPUT;
	if (tw_order_cancelled(in) || (m.back && go_back(q, in, &m, pass, &room, change) != TW_OK))
		return TW_CANCELLED;
	*score = (struct tw_score){ 0 };
	if (m.forward)
		go_forward(q, in, &m, pass, &room, score);
	return TW_OK;
}

static enum tw_status squares_needs(const struct tw_engine *e, uint32_t first, uint32_t last,
				    uint32_t count, struct tw_needs *out)
{
	const uint32_t end = last ? last : (uint32_t)e->cuts - 1;

	if (first >= end || end >= e->cuts || count == 0 || count > e->samples)
		return TW_BAD_INPUT;
	*out = (struct tw_needs){ .scratch = e->scratch_bytes,
				  .stash = end + 1 == e->cuts ? count * sizeof(float) : 0 };
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
	q->heap->put(q->heap, q->tensor);
	q->heap->put(q->heap, q->cut);
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
	.run = squares_run,
	.needs = squares_needs,
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
	const uint64_t stages = o->stages ? o->stages : 1;

	if (!q)
		return NULL;
	q->heap = heap;
	q->stages = (uint32_t)stages;
	q->blocks = o->blocks ? o->blocks : 1;
	q->width = (o->dimension + q->blocks - 1) / q->blocks;
	q->tensor = heap->get(heap, (stages + 1) * sizeof *q->tensor);
	q->start = (float)o->start;
	q->problem = tw_rng_make(seed, TW_RNG_PROBLEM);
	q->e = (struct tw_engine){
		.class = &squares_class,
		.trainable = o->dimension,
		.tensor = q->tensor,
		.tensors = stages,
		.samples = samples,
		.tests = samples,
		.order = tw_order_make(seed, samples),
		.scratch_bytes = q->width * sizeof(float),
		.cost = 4 * (double)q->width,
	};
	q->cut = tw_made_up_cuts(heap, &q->e, stages);
	for (uint64_t k = 0; q->tensor && q->cut && k <= stages; k++)
		q->tensor[k] = q->cut[k].trainable;
	q->e.cut = q->cut;
	q->e.cuts = stages + 1;
	if (!q->tensor || !q->cut || !fill_in(q, o)) {
		squares_close(&q->e);
		return NULL;
	}
	return &q->e;
}
