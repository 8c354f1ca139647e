/* SPDX-License-Identifier: Apache-2.0 */
/* quadratic.c - loss 1/2 sum a_i (w_i - t_i)^2 with noisy gradients, element by element:
 *
 *	s = gauss(sample 1, i) + gauss(sample 2, i) + ...	in the order of positions, in float
 *	g = a * (w - t) + (float)(noise / samples of the batch) * s
 *
 * each operation rounded to float, nothing fused; without noise the second term is left out and
 * nothing is drawn.  A sample's noise is drawn for epoch * samples + its number, so it differs
 * between epochs and not between workers.  Buffers follow the batch mean m of the unit gauss of
 * their element, whatever `noise` is: their change is 0.1f * (m - pulled).
 *
 * With stages the loss is l = (float)l_1, then l + (float)l_2, ..., in float.  A stash has the w of
 * the forward pass. */
#include "engine/quadratic.h"
#include "engine/effort.h"
#include "engine/made_up_stages.h"
#include "engine/order.h"
#include "base/rng.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <string.h>

#define STAGES_MAX 64

const struct tw_option tw_quadratic_rows[] = {
	TW_OPTION(struct tw_quadratic_options, dimension, TW_U64, "100", "parameters", 1, 1e10,
		  "number of trainable parameters"),
	TW_OPTION(struct tw_quadratic_options, curvature, TW_F64S, "[0.1, 1]", NULL, 0, 1e30,
		  "curvature of every direction, or the lowest and highest to draw from"),
	TW_OPTION(struct tw_quadratic_options, noise, TW_F64, "0", NULL, 0, 1e30,
		  "standard deviation of each sample's gradient noise", .example = "0.1"),
	TW_OPTION(struct tw_quadratic_options, start, TW_F64, "1", NULL, -1e30, 1e30,
		  "initial value of every parameter"),
	TW_OPTION(struct tw_quadratic_options, spread, TW_F64, "0", NULL, 0, 1e30,
		  "standard deviation of the initial values around start", .example = "0.1"),
	TW_OPTION(struct tw_quadratic_options, target, TW_F64, "0", NULL, 0, 1e30,
		  "standard deviation of the minimum's coordinates; 0: at the origin",
		  .example = "1"),
	TW_OPTION(struct tw_quadratic_options, buffers, TW_U64, "0", "buffers", 0, 1e9,
		  "running statistics that are kept with the parameters but not trained",
		  .example = "8"),
	TW_OPTION(struct tw_quadratic_options, tensors, TW_U64, "0", "tensors", 0, 1e6,
		  "number of tensors of equal size that the parameters are split into; 0: one, or "
		  "one for each stage",
		  .example = "4"),
	TW_OPTION(struct tw_quadratic_options, stages, TW_U64, "1", "stages", 1, STAGES_MAX,
		  "number of stages of equal size that it can be computed in", .example = "4"),
	TW_OPTION(struct tw_quadratic_options, per_stage, TW_F64S, "[]", NULL, 0, 1e30,
		  "curvature of every direction of each stage, in place of curvature; as many "
		  "numbers as stages",
		  .example = "[0.1, 1]"),
	TW_OPTION_END,
};

/* What is drawn from TW_RNG_PROBLEM. */
enum { CURVATURE, TARGET };

struct quadratic {
	struct tw_engine e; /* must stay first */
	struct tw_heap *heap;
	float *curvature, *target;
	size_t *tensor;
	uint32_t stages;
	struct tw_model_cut *cut;
	double noise, start, spread;
	struct tw_rng init, draw;
};

/* g = a (w - t) */
TW_CLONED_STATIC(void, slope, (const float *a, const float *t, const float *w, size_t n, float *g),
		 (a, t, w, n, g))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		g[i] = a[i] * (w[i] - t[i]);
}

/* The same, where g holds the summed noise. */
TW_CLONED_STATIC(void, noisy_slope,
		 (const float *a, const float *t, const float *w, float scale, size_t n, float *g),
		 (a, t, w, scale, n, g))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		g[i] = a[i] * (w[i] - t[i]) + scale * g[i];
}

#define LANES 16

static inline __attribute__((always_inline)) double term(float a, float t, float w)
{
	const double d = (double)w - (double)t;

	return (double)a * d * d;
}

/* Add a (w - t)^2 of elements from..from+n; element i goes to lane i % 16 wherever the pieces are
 * cut, so the sum does not depend on the cuts. */
TW_CLONED_STATIC(void, bowl,
		 (const float *a, const float *t, const float *w, size_t from, size_t n,
		  double *sums),
		 (a, t, w, from, n, sums))
{
	double lane[LANES];
	size_t i = 0;

	for (; i < n && (from + i) % LANES != 0; i++)
		sums[(from + i) % LANES] += term(a[i], t[i], w[i]);
	memcpy(lane, sums, sizeof lane);
	for (; n - i >= LANES; i += LANES)
		for (size_t k = 0; k < LANES; k++)
			lane[k] += term(a[i + k], t[i + k], w[i + k]);
	for (size_t k = 0; i + k < n; k++)
		lane[k] += term(a[i + k], t[i + k], w[i + k]);
	memcpy(sums, lane, sizeof lane);
}

/* What a piece has of elements from..to. */
static struct tw_piece part_of(const struct tw_piece *p, size_t from, size_t to)
{
	const size_t low = p->from > from ? p->from : from;
	const size_t end = p->from + p->n < to ? p->from + p->n : to;

	return low < end ? (struct tw_piece){ p->at + (low - p->from), low, end - low }
			 : (struct tw_piece){ 0 };
}

/* Of elements from..to. */
static double loss_of(const struct quadratic *q, const struct tw_inputs *in, size_t from, size_t to)
{
	double lane[LANES] = { 0 }, sum = 0;

	for (size_t k = 0; k < in->pieces; k++) {
		const struct tw_piece p = part_of(&in->piece[k], from, to);

		bowl(q->curvature + p.from, q->target + p.from, p.at, p.from, p.n, lane);
	}
	for (size_t k = 0; k < LANES; k++)
		sum += lane[k];
	return 0.5 * sum;
}

static float stage_loss(const struct quadratic *q, const struct tw_inputs *in, uint32_t stage)
{
	return (float)loss_of(q, in, q->cut[stage].trainable, q->cut[stage + 1].trainable);
}

static double loss(const struct quadratic *q, const struct tw_inputs *in)
{
	float sum = 0;

	if (q->stages == 1)
		return loss_of(q, in, 0, q->e.trainable);
	for (uint32_t k = 0; k < q->stages; k++)
		sum += stage_loss(q, in, k);
	return (double)sum;
}

/* Noise is drawn in tiles that stay in the first-level cache. */
#define TILE 1024

static void add_noise(const struct quadratic *q, uint64_t counter, size_t from, size_t n,
		      float *sum)
{
	_Alignas(64) float tile[TILE];

	for (size_t i = 0; i < n; i += TILE) {
		const size_t m = n - i < TILE ? n - i : TILE;

		tw_rng_gauss_fill(&q->draw, counter, from + i, tile, m);
		tw_vec_add(sum + i, tile, m);
	}
}

/* sum[0..to - from) = noise of elements from..to over the samples of the batch. */
static enum tw_status sum_noise(const struct quadratic *q, const struct tw_inputs *in, size_t from,
				size_t to, float *sum)
{
	const uint64_t epoch = in->from / q->e.samples;

	memset(sum, 0, (to - from) * sizeof *sum);
	for (uint32_t k = 0; k < in->count; k++) {
		const uint64_t sample = tw_order_sample(&q->e.order, in->from + k);

		if (tw_order_cancelled(in))
			return TW_CANCELLED;
		add_noise(q, epoch * q->e.samples + sample, from, to - from, sum);
	}
	return TW_OK;
}

/* The gradient of trainable elements from..to. */
static enum tw_status slope_of(const struct quadratic *q, const struct tw_inputs *in, size_t from,
			       size_t to, float *g)
{
	const float scale = (float)(q->noise / in->count);

	if (q->noise != 0 && sum_noise(q, in, from, to, g) != TW_OK)
		return TW_CANCELLED;
	for (size_t k = 0; k < in->pieces; k++) {
		const struct tw_piece p = part_of(&in->piece[k], from, to);
		const float *a = q->curvature + p.from, *t = q->target + p.from;

		if (p.n && q->noise == 0)
			slope(a, t, p.at, p.n, g + (p.from - from));
		else if (p.n)
			noisy_slope(a, t, p.at, scale, p.n, g + (p.from - from));
	}
	return TW_OK;
}

/* How much buffers from..to change. */
static enum tw_status move_buffers(const struct quadratic *q, const struct tw_inputs *in,
				   size_t from, size_t to, float *change)
{
	const float share = 1.0f / (float)in->count;

	if (from == to)
		return TW_OK;
	if (sum_noise(q, in, from, to, change) != TW_OK)
		return TW_CANCELLED;
	for (size_t k = 0; k < in->pieces; k++) {
		const struct tw_piece p = part_of(&in->piece[k], from, to);
		float *c = change + (p.from - from);

		for (size_t i = 0; i < p.n; i++)
			c[i] = 0.1f * (share * c[i] - p.at[i]);
	}
	return TW_OK;
}

/* A sample is its position. */
static size_t quadratic_given_bytes(const struct tw_engine *e, uint32_t count)
{
	(void)e;
	return count * sizeof(uint64_t);
}

static enum tw_status quadratic_give(const struct tw_engine *e, uint64_t from, uint32_t count,
				     uint8_t *out)
{
	const struct tw_inputs in = { .from = from, .count = count };

	if (!tw_order_is_batch(e->samples, &in))
		return TW_BAD_INPUT;
	for (uint64_t k = from; k < from + count; k++, out += sizeof k)
		memcpy(out, &k, sizeof k);
	return TW_OK;
}

static bool are_these(const struct tw_inputs *in)
{
	uint64_t its;

	for (uint32_t k = 0; in->given && k < in->count; k++) {
		memcpy(&its, in->given + k * sizeof its, sizeof its);
		if (its != in->from + k)
			return false;
	}
	return true;
}

static enum tw_status quadratic_gradient(const struct tw_engine *e, void *scratch,
					 const struct tw_inputs *in, float *gradient,
					 struct tw_score *score)
{
	const struct quadratic *q = (const struct quadratic *)e;
	const size_t all = e->trainable + e->buffers;

	if (!tw_order_is_batch(e->samples, in))
		return TW_BAD_INPUT;
	if (!are_these(in))
		return TW_BAD_BYTES;
	if (tw_order_cancelled(in) || slope_of(q, in, 0, e->trainable, gradient) != TW_OK ||
	    move_buffers(q, in, e->trainable, all, gradient + e->trainable) != TW_OK)
		return TW_CANCELLED;
	*score = (struct tw_score){ .loss = in->count * loss(q, in),
				    .correct = -1,
				    .samples = in->count };
	return TW_OK;
}

static enum tw_status quadratic_evaluate(const struct tw_engine *e, void *scratch,
					 const struct tw_inputs *in, struct tw_score *score)
{
	const struct quadratic *q = (const struct quadratic *)e;

	if (in->count == 0 || in->from >= e->tests || in->count > e->tests - in->from)
		return TW_BAD_INPUT;
	if (tw_order_cancelled(in))
		return TW_CANCELLED;
	*score = (struct tw_score){ .loss = in->count * loss(q, in),
				    .correct = -1,
				    .samples = in->count };
	return TW_OK;
}

/* --- stages ----------------------------------------------------------------------------------- */

/* y = x + the stages' losses; the last one's are summed up.  Without a cut nothing is rounded. */
static void go_forward(const struct quadratic *q, const struct tw_inputs *in,
		       const struct tw_made_up_pass *m, const struct tw_pass *pass,
		       struct tw_score *score)
{
	const uint32_t stages = m->last - m->first;
	float own[STAGES_MAX];
	double sum = 0;

	for (uint32_t s = 0; s < stages; s++)
		own[s] = stage_loss(q, in, m->first + s);
	for (uint32_t k = 0; k < in->count; k++) {
		float l = m->begins ? 0 : pass->x[k];

		for (uint32_t s = 0; s < stages; s++)
			l += own[s];
		sum += (double)l;
		if (pass->y)
			pass->y[k] = l;
	}
	tw_made_up_gap(pass->y, in->count);
	if (q->stages == 1)
		sum = in->count * loss(q, in);
	if (m->ends)
		*score = (struct tw_score){ sum, -1, in->count };
}

/* Each sample's share in the total is 1 behind the loss.  The stash, if any, has the parameters of
 * the forward pass. */
static enum tw_status go_back(const struct quadratic *q, const struct tw_inputs *in,
			      const struct tw_made_up_pass *m, const struct tw_pass *pass,
			      float *change)
{
	const struct tw_model_cut *a = &q->cut[m->first], *b = &q->cut[m->last];
	const size_t n = b->trainable - a->trainable;
	const struct tw_piece then = { pass->stash, a->trainable, n };
	struct tw_inputs with = *in;
	double weight = 0;

	for (uint32_t k = 0; k < in->count; k++) {
		const float dy = m->ends ? 1 : pass->dy[k];

		weight += (double)dy;
		if (!m->begins)
			pass->dx[k] = dy;
	}
	if (!m->begins)
		tw_made_up_gap(pass->dx, in->count);
	if (pass->kind == TW_PASS_BACKWARD && pass->stash) {
		with.piece = &then;
		with.pieces = 1;
	}
	if (slope_of(q, &with, a->trainable, b->trainable, change) != TW_OK)
		return TW_CANCELLED;
	if (weight != in->count)
		tw_vec_scale(change, (float)(weight / in->count), n);
	return move_buffers(q, in, a->buffers, b->buffers, change + n);
}

static void keep_parameters(const struct quadratic *q, const struct tw_inputs *in,
			    const struct tw_made_up_pass *m, float *stash)
{
	const size_t from = q->cut[m->first].trainable, to = q->cut[m->last].trainable;

	for (size_t k = 0; k < in->pieces; k++) {
		const struct tw_piece p = part_of(&in->piece[k], from, to);

		if (p.n)
			tw_vec_copy(stash + (p.from - from), p.at, p.n);
	}
}

static enum tw_status quadratic_run(const struct tw_engine *e, void *scratch,
				    const struct tw_inputs *in, const struct tw_pass *pass,
				    float *change, struct tw_score *score)
{
	const struct quadratic *q = (const struct quadratic *)e;
	struct tw_made_up_pass m;

	if (!tw_made_up_pass(e, in, pass, change, &m))
		return TW_BAD_INPUT;
	if (tw_order_cancelled(in) || (m.back && go_back(q, in, &m, pass, change) != TW_OK))
		return TW_CANCELLED;
	*score = (struct tw_score){ 0 };
	if (m.forward)
		go_forward(q, in, &m, pass, score);
	if (pass->kind == TW_PASS_FORWARD && pass->stash)
		keep_parameters(q, in, &m, pass->stash);
	return TW_OK;
}

static enum tw_status quadratic_needs(const struct tw_engine *e, uint32_t first, uint32_t last,
				      uint32_t count, struct tw_needs *out)
{
	const uint32_t end = last ? last : (uint32_t)e->cuts - 1;

	if (first >= end || end >= e->cuts || count == 0 || count > e->samples)
		return TW_BAD_INPUT;
	*out = (struct tw_needs){
		.scratch = e->scratch_bytes,
		.stash = (e->cut[end].trainable - e->cut[first].trainable) * sizeof(float),
	};
	return TW_OK;
}

static enum tw_status quadratic_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct quadratic *q = (const struct quadratic *)e;
	const size_t all = e->trainable + e->buffers;
	size_t own;

	if (from > all || n > all - from)
		return TW_BAD_INPUT;
	own = from >= e->trainable ? 0 : e->trainable - from;
	own = own < n ? own : n;
	if (q->spread == 0)
		tw_vec_fill(out, (float)q->start, own);
	else
		tw_rng_gauss_fill(&q->init, 0, from, out, own);
	if (q->spread != 0)
		for (size_t i = 0; i < own; i++)
			out[i] = (float)(q->start + q->spread * (double)out[i]);
	tw_vec_fill(out + own, 0, n - own);
	return TW_OK;
}

static void quadratic_close(struct tw_engine *e)
{
	struct quadratic *q = (struct quadratic *)e;

	if (!q)
		return;
	q->heap->put(q->heap, q->curvature);
	q->heap->put(q->heap, q->target);
	q->heap->put(q->heap, q->tensor);
	q->heap->put(q->heap, q->cut);
	q->heap->put(q->heap, q);
}

static double quadratic_effort(const struct tw_engine *e, const struct tw_inputs *in)
{
	return tw_effort_mean(e, NULL, in);
}

static const struct tw_engine_class quadratic_class = {
	.name = "quadratic",
	.init = quadratic_init,
	.gradient = quadratic_gradient,
	.evaluate = quadratic_evaluate,
	.run = quadratic_run,
	.needs = quadratic_needs,
	.given_bytes = quadratic_given_bytes,
	.give = quadratic_give,
	.effort = quadratic_effort,
	.close = quadratic_close,
};

static void draw_problem(struct quadratic *q, const struct tw_quadratic_options *o, uint64_t seed)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_PROBLEM);
	const double low = o->curvature.at[0], high = o->curvature.at[o->curvature.count - 1];

	for (size_t i = 0; i < q->e.trainable; i++)
		q->curvature[i] =
			(float)(low == high
					? low
					: low + (high - low) * tw_rng_uniform(&r, CURVATURE, i));
	for (uint32_t k = 0; o->per_stage.count && k < q->stages; k++)
		tw_vec_fill(q->curvature + q->cut[k].trainable, (float)o->per_stage.at[k],
			    q->cut[k + 1].trainable - q->cut[k].trainable);
	if (o->target == 0) {
		tw_vec_fill(q->target, 0, q->e.trainable);
		return;
	}
	tw_rng_gauss_fill(&r, TARGET, 0, q->target, q->e.trainable);
	tw_vec_scale(q->target, (float)o->target, q->e.trainable);
}

/* `cuts` tensors of the trainable part, then one of the buffers if there are any. */
static void cut_tensors(struct quadratic *q, size_t cuts)
{
	for (size_t k = 0; k <= cuts; k++)
		q->tensor[k] = tw_made_up_border(q->e.trainable, cuts, k);
	if (q->e.buffers)
		q->tensor[cuts + 1] = q->e.trainable + q->e.buffers;
	q->e.tensor = q->tensor;
	q->e.tensors = cuts + (q->e.buffers ? 1 : 0);
}

static void *get_array(struct tw_heap *heap, size_t count, size_t bytes)
{
	return count > SIZE_MAX / bytes ? NULL : heap->get(heap, count * bytes);
}

struct tw_engine *tw_quadratic_open(struct tw_heap *heap, const struct tw_quadratic_options *o,
				    uint64_t samples, uint64_t seed)
{
	struct quadratic *q = tw_heap_zeros(heap, sizeof *q);
	const size_t stages = o->stages ? o->stages : 1;
	const size_t cuts = o->tensors ? o->tensors : stages;

	if (!q)
		return NULL;
	q->heap = heap;
	q->stages = (uint32_t)stages;
	q->e = (struct tw_engine){
		.class = &quadratic_class,
		.trainable = o->dimension,
		.buffers = o->buffers,
		.samples = samples,
		.order = tw_order_make(seed, samples),
		.tests = 1,
		.cost = (double)o->dimension * (o->noise == 0 ? 7 : 60),
	};
	q->noise = o->noise;
	q->start = o->start;
	q->spread = o->spread;
	q->init = tw_rng_make(seed, TW_RNG_INIT);
	q->draw = tw_rng_make(seed, TW_RNG_NOISE);
	q->curvature = get_array(heap, o->dimension, sizeof(float));
	q->target = get_array(heap, o->dimension, sizeof(float));
	q->tensor = get_array(heap, cuts + 2, sizeof *q->tensor);
	q->cut = tw_made_up_cuts(heap, &q->e, stages);
	if (!q->curvature || !q->target || !q->tensor || !q->cut) {
		quadratic_close(&q->e);
		return NULL;
	}
	q->e.cut = q->cut;
	q->e.cuts = stages + 1;
	draw_problem(q, o, seed);
	cut_tensors(q, cuts);
	return &q->e;
}
