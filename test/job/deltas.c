/* SPDX-License-Identifier: Apache-2.0 */
/* deltas.c - serial loops for workers that step by themselves and push where that led. */
#include "job/deltas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void *made(size_t count, size_t each)
{
	void *p = calloc(count ? count : 1, each);

	assert_non_null(p);
	return p;
}

/* --- what is computed at what ------------------------------------------------------------- */

void path_init(struct path *p, const struct outcome *o)
{
	p->positions = o->job->plan.dealing.positions;
	p->n = o->n;
	p->at = made(p->positions, sizeof *p->at);
}

void path_release(struct path *p)
{
	for (uint64_t k = 0; k < p->positions; k++)
		free(p->at[k]);
	free(p->at);
	*p = (struct path){ .at = NULL };
}

static float *path_put(struct path *p, uint64_t position)
{
	assert_true(position < p->positions);
	assert_null(p->at[position]); /* nothing is dealt again in these tests */
	return p->at[position] = made(p->n, sizeof(float));
}

static enum tw_status spy_gradient(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, float *gradient,
				   struct tw_score *score)
{
	struct spy *s = (struct spy *)(uintptr_t)e;
	float *at = path_put(&s->path, in->from);

	for (size_t k = 0; k < in->pieces; k++)
		memcpy(at + in->piece[k].from, in->piece[k].at, in->piece[k].n * sizeof(float));
	return s->real->class->gradient(s->real, scratch, in, gradient, score);
}

static enum tw_status spy_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	const struct spy *s = (const struct spy *)e;

	return s->real->class->init(s->real, from, n, out);
}

static enum tw_status spy_evaluate(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, struct tw_score *score)
{
	const struct spy *s = (const struct spy *)e;

	return s->real->class->evaluate(s->real, scratch, in, score);
}

void spy_open(struct spy *s, struct outcome *o)
{
	s->real = o->engine;
	s->engine = *o->engine;
	s->class = (struct tw_engine_class){
		.name = "spy", .init = spy_init, .gradient = spy_gradient, .evaluate = spy_evaluate
	};
	s->engine.class = &s->class;
	path_init(&s->path, o);
	o->engine = &s->engine;
}

void spy_close(struct spy *s, struct outcome *o)
{
	o->engine = s->real;
	path_release(&s->path);
}

/* --- a worker alone ----------------------------------------------------------------------- */

struct lone {
	float *x, *base, *look; /* look: what its gradients are of */
	float *m, *s;
	float *gradient, *group, weight;
	uint32_t micros, summed, taken; /* taken: samples of the open group */
	uint64_t count, group_from;
	float *rate;     /* of its last step, by parameter */
	uint64_t *stamp; /* without rounds, by parameter: samples applied in what it was sent ... */
	uint64_t done;   /* ... and its own since, stepped and not in that */
};

struct loop {
	const struct tw_plan *p;
	const struct tw_engine *engine;
	const struct delta_formula *f;
	struct path *path;
	size_t n, trainable;
	void *scratch;
	bool stamped; /* no rounds: the rate of a step is for `stamp` and `done` */
};

static void loop_init(struct loop *l, const struct outcome *o, const struct delta_formula *f,
		      struct path *path)
{
	*l = (struct loop){ .p = &o->job->plan,
			    .engine = o->engine,
			    .f = f,
			    .path = path,
			    .n = o->n,
			    .trainable = o->engine->trainable,
			    .scratch = made(o->engine->scratch_bytes, 1) };
}

static void lone_init(const struct loop *l, struct lone *a)
{
	float **const all[] = { &a->x, &a->base,     &a->look,  &a->m,
				&a->s, &a->gradient, &a->group, &a->rate };

	*a = (struct lone){ .x = NULL };
	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		*all[k] = made(l->n, sizeof(float));
	a->stamp = made(l->n, sizeof *a->stamp);
}

static void lone_release(struct lone *a)
{
	free(a->x), free(a->base), free(a->look), free(a->m), free(a->s);
	free(a->gradient), free(a->group), free(a->rate), free(a->stamp);
}

/* With so many samples applied, or in rounds: of a step at this position. */
static float rate_at(const struct loop *l, uint64_t done)
{
	const double samples = (double)l->p->problem.samples;
	const double epoch = (double)done / samples;
	const double length = (double)l->p->dealing.positions / samples;

	if (l->f->cosine)
		return (float)(l->f->rate * (0.5 * (1 + cos(M_PI * (epoch / length)))));
	return (float)(l->f->drop > 0 && epoch >= l->f->drop ? l->f->rate * 0.3 : l->f->rate);
}

/* Nesterov's momentum: gradients are of x - rate momentum v. */
static void look_ahead(const struct loop *l, struct lone *a)
{
	for (size_t i = 0; i < l->n; i++)
		a->look[i] = l->f->near == NEAR_NAG && i < l->trainable
				     ? fmaf(-(a->rate[i] * l->f->momentum), a->m[i], a->x[i])
				     : a->x[i];
}

static double power_of(double x, uint64_t n)
{
	const double half = n > 1 ? power_of(x * x, n / 2) : 1.0;

	return n % 2 ? x * half : half;
}

/* One step of the near rule with a mean gradient whose first sample is at `position`. */
static void near_step(const struct loop *l, struct lone *a, const float *g, uint64_t position)
{
	const struct delta_formula *f = l->f;
	const double b1 = 0.9, b2 = 0.999;
	float unbias1, unbias2;

	a->count++;
	unbias1 = (float)(1.0 / (1.0 - power_of(b1, a->count)));
	unbias2 = (float)(1.0 / sqrt(1.0 - power_of(b2, a->count)));
	for (size_t i = 0; i < l->trainable; i++) {
		const float d = f->near != NEAR_ADAMW && f->decay != 0.0f
					? fmaf(f->decay, a->x[i], g[i])
					: g[i];
		const float rate = rate_at(l, l->stamped ? a->stamp[i] + a->done : position);

		a->rate[i] = rate;
		if (f->near == NEAR_SGD) {
			a->x[i] = fmaf(-rate, d, a->x[i]);
		} else if (f->near == NEAR_ADAMW) {
			a->m[i] = fmaf((float)b1, a->m[i], (float)(1.0 - b1) * d);
			a->s[i] = fmaf((float)b2, a->s[i], (float)(1.0 - b2) * (d * d));
			a->x[i] = fmaf(-(rate * f->decay), a->x[i], a->x[i]);
			a->x[i] = fmaf(-rate,
				       a->m[i] * unbias1 / fmaf(sqrtf(a->s[i]), unbias2, 1e-8f),
				       a->x[i]);
		} else {
			a->m[i] = fmaf(f->momentum, a->m[i], d);
			a->x[i] = fmaf(-rate, a->m[i], a->x[i]);
		}
	}
	for (size_t i = l->trainable; i < l->n; i++)
		a->x[i] += g[i];
	look_ahead(l, a);
}

/* At most so long: the trainable part, in 16 sums. */
static void clip_to(const struct loop *l, float *g)
{
	double lane[16] = { 0 }, norm = 0;

	for (size_t i = 0; i < l->trainable; i++)
		lane[i % 16] += (double)g[i] * (double)g[i];
	for (size_t k = 0; k < 16; k++)
		norm += lane[k];
	norm = sqrt(norm);
	for (size_t i = 0; i < l->trainable && norm > (double)l->f->clip; i++)
		g[i] *= (float)((double)l->f->clip / norm);
}

static void compute(const struct loop *l, struct lone *a, uint64_t from, uint32_t count)
{
	const struct tw_piece piece = { a->look, 0, l->n };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &piece, .pieces = 1 };
	struct tw_score score;

	if (l->path)
		memcpy(path_put(l->path, from), a->look, l->n * sizeof(float));
	assert_int_equal(
		l->engine->class->gradient(l->engine, l->scratch, &in, a->gradient, &score), TW_OK);
	if (l->f->clip > 0)
		clip_to(l, a->gradient);
}

static void end_group(const struct loop *l, struct lone *a)
{
	for (size_t i = 0; i < l->n && a->weight != 1.0f; i++)
		a->group[i] *= 1.0f / a->weight;
	a->micros = 0;
	a->summed++;
	near_step(l, a, a->group, a->group_from);
	a->done += a->taken;
	a->taken = 0;
}

/* The gradient of a batch is there; with the last one of a group the worker steps.  A group is a
 * mean by samples, and its step has the rate of its first sample, as one of a larger batch. */
static void take_gradient(const struct loop *l, struct lone *a, uint64_t from, uint32_t count,
			  double nominal)
{
	const float weight = (float)(count / nominal);

	if (l->p->dealing.accumulate == 1) {
		a->summed++;
		near_step(l, a, a->gradient, from);
		a->done += count;
		return;
	}
	a->taken += count;
	if (!a->micros)
		a->group_from = from;
	for (size_t i = 0; i < l->n; i++)
		a->group[i] = a->micros ? fmaf(weight, a->gradient[i], a->group[i])
					: weight * a->gradient[i];
	a->weight = a->micros ? a->weight + weight : weight;
	if (++a->micros == l->p->dealing.accumulate)
		end_group(l, a);
}

/* What is pushed: base - x, for buffers x - base; or, elastically, -alpha (x - centre), which x
 * loses. */
static void take_delta(const struct loop *l, struct lone *a, const float *centre, float *d)
{
	for (size_t i = 0; i < l->n; i++) {
		if (i >= l->trainable) {
			d[i] = a->x[i] - a->base[i];
		} else if (l->f->merge == MERGE_ELASTIC) {
			d[i] = -l->f->alpha * (a->x[i] - centre[i]);
			a->x[i] += d[i];
		} else {
			d[i] = a->base[i] - a->x[i];
		}
		a->base[i] = a->x[i];
	}
	a->summed = 0;
	look_ahead(l, a);
}

/* New parameters come. */
static void merge(const struct loop *l, struct lone *a, const float *view, bool first)
{
	for (size_t i = 0; i < l->n; i++) {
		if (first || l->f->merge == MERGE_REPLACE)
			a->x[i] = view[i];
		else if (l->f->merge == MERGE_MIX && i >= l->trainable)
			a->x[i] = view[i];
		else if (l->f->merge == MERGE_MIX)
			a->x[i] = fmaf(l->f->alpha, a->x[i] - view[i], view[i]);
		if (first || l->f->merge != MERGE_ELASTIC)
			a->base[i] = a->x[i];
	}
	look_ahead(l, a);
}

static double batch_of(const struct loop *l, uint32_t slot, uint32_t *batch)
{
	const uint64_t g = l->p->dealing.global_batch, n = l->p->crew.workers;

	*batch = g ? (uint32_t)(g * (slot + 1) / n - g * slot / n) : l->p->dealing.batch;
	return g ? (double)g / (double)n : (double)*batch;
}

static uint64_t switch_at(const struct loop *l)
{
	return (uint64_t)llround(l->f->push_after * (double)l->p->problem.samples);
}

/* --- the far rules ------------------------------------------------------------------------ */

struct far {
	float *w, *v, *collected;
	float *view;
	uint64_t version;
};

/* One element with the delta d, a mean or, for add, a total. */
static void far_step(const struct loop *l, struct far *c, size_t i, float d)
{
	const struct delta_formula *f = l->f;
	const float n = (float)l->p->crew.workers, mu = f->outer_momentum, rate = f->outer_rate;

	switch (f->outer) {
	case OUTER_AVERAGE:
	case OUTER_ADD:
		c->w[i] = fmaf(-rate, d, c->w[i]);
		break;
	case OUTER_BMUF: /* D = eta D + zeta G;  W = W + D, where G = -d */
		c->v[i] = fmaf(mu, c->v[i], rate * d);
		c->w[i] = c->w[i] - c->v[i];
		break;
	case OUTER_NESTEROV: /* b = mu b + d;  w - rate (d + mu b) */
		c->v[i] = fmaf(mu, c->v[i], d);
		c->w[i] = fmaf(-rate, fmaf(mu, c->v[i], d), c->w[i]);
		break;
	case OUTER_DELAYED: /* w - rate d / N;  every N-th: m = mu m + sum / N;  w - rate mu m */
		c->w[i] = fmaf(-rate * (1.0f / n), d, c->w[i]);
		c->collected[i] += d;
		if ((c->version + 1) % l->p->crew.workers)
			break;
		c->v[i] = fmaf(mu, c->v[i], c->collected[i] * (1.0f / n));
		c->w[i] = fmaf(-rate * mu, c->v[i], c->w[i]);
		c->collected[i] = 0;
		break;
	}
	c->view[i] = f->outer == OUTER_BMUF && f->nesterov ? fmaf(-mu, c->v[i], c->w[i]) : c->w[i];
}

/* A left fold by weight, then one multiplication; what is alone stays as it is. */
static float mean_of(const float *const *d, const float *weight, uint32_t count, size_t i,
		     bool total)
{
	float sum = 0, all = 0;

	if (count == 1)
		return d[0][i];
	for (uint32_t k = 0; k < count; k++) {
		sum = k ? fmaf(weight[k], d[k][i], sum) : weight[k] * d[k][i];
		all += weight[k];
	}
	return total || all == 1.0f ? sum : 1.0f / all * sum;
}

/* The change of a buffer in a round. */
static float buffer_mean(const float *const *d, const float *weight, uint32_t count, size_t i)
{
	float sum = 0, all = 0;

	for (uint32_t k = 0; k < count; k++) {
		sum = k ? fmaf(weight[k], d[k][i], sum) : weight[k] * d[k][i];
		all += weight[k];
	}
	return 1.0f / all * sum;
}

/* --- rounds ------------------------------------------------------------------------------- */

static void one_round(struct loop *l, struct far *c, const float *const *d, const float *weight,
		      uint32_t count)
{
	for (size_t i = 0; i < l->trainable; i++)
		far_step(l, c, i, mean_of(d, weight, count, i, l->f->outer == OUTER_ADD));
	for (size_t i = l->trainable; i < l->n; i++)
		c->view[i] = c->w[i] += buffer_mean(d, weight, count, i);
	c->version++;
}

/* What is averaged beside the parameters. */
struct shared_state {
	float *m, *s;
	uint64_t count, applied; /* applied: samples, with the round that it is of */
};

static void average_state(const struct loop *l, struct shared_state *all, const struct lone *hand,
			  const uint64_t *samples, uint32_t count, uint64_t applied)
{
	uint64_t total = 0;

	for (uint32_t k = 0; k < count; k++) {
		total += samples[k];
		all->count = hand[k].count > all->count ? hand[k].count : all->count;
	}
	all->applied = applied;
	for (size_t i = 0; i < l->trainable; i++) {
		float m = 0, s = 0;

		for (uint32_t k = 0; k < count; k++) {
			const float share = (float)((double)samples[k] / (double)total);

			m = k ? fmaf(share, hand[k].m[i], m) : share * hand[k].m[i];
			s = k ? fmaf(share, hand[k].s[i], s) : share * hand[k].s[i];
		}
		all->m[i] = m;
		all->s[i] = s;
	}
}

static void take_state(const struct loop *l, struct lone *a, const struct shared_state *all)
{
	if (!l->f->average_state)
		return;
	memcpy(a->m, all->m, l->n * sizeof(float));
	memcpy(a->s, all->s, l->n * sizeof(float));
	a->count = all->count;
	for (size_t i = 0; i < l->n && a->rate[i] == 0.0f; i++)
		a->rate[i] = rate_at(l, all->applied);
}

/* Before a push. */
static void note_drift(const struct loop *l, const struct lone *a, const float *centre)
{
	struct delta_figures *z = l->f->figures;
	double square = 0;

	if (!z)
		return;
	for (size_t i = 0; i < l->trainable; i++)
		square += ((double)a->x[i] - (double)centre[i]) *
			  ((double)a->x[i] - (double)centre[i]);
	z->pushes++;
	z->steps += a->summed;
	z->drift += sqrt(square);
	z->drift_most = fmax(z->drift_most, sqrt(square));
}

static void one_stripe(struct loop *l, struct lone *a, uint64_t from, uint64_t to, uint32_t batch,
		       double nominal)
{
	const uint64_t samples = l->p->problem.samples;

	while (from < to) {
		const uint64_t epoch = (from / samples + 1) * samples;
		const uint64_t end = to < epoch ? to : epoch;
		const uint32_t count = end - from < batch ? (uint32_t)(end - from) : batch;

		compute(l, a, from, count);
		take_gradient(l, a, from, count, nominal);
		from += count;
	}
	if (a->micros)
		end_group(l, a);
}

void rounds_alone(const struct outcome *o, const struct delta_formula *f, struct path *path,
		  float *w)
{
	enum { MOST = 64 };
	struct loop l;
	struct far c;
	struct lone hand[MOST];
	uint64_t merged[MOST];
	float *d[MOST], weight[MOST];
	struct shared_state all = { .count = 0 };
	uint64_t samples[MOST];
	uint32_t workers, accumulate;
	uint64_t at = 0, positions;

	loop_init(&l, o, f, path);
	all.m = made(l.n, sizeof(float));
	all.s = made(l.n, sizeof(float));
	workers = l.p->crew.workers;
	accumulate = l.p->dealing.accumulate;
	positions = l.p->dealing.positions;
	assert_true(workers <= MOST);
	c = (struct far){ w, made(l.n, sizeof(float)), NULL, made(l.n, sizeof(float)), 0 };
	assert_int_equal(o->engine->class->init(o->engine, 0, l.n, w), TW_OK);
	memcpy(c.view, w, l.n * sizeof(float));
	for (uint32_t k = 0; k < workers; k++) {
		lone_init(&l, &hand[k]);
		d[k] = made(l.n, sizeof(float));
		merge(&l, &hand[k], c.view, true);
		merged[k] = 0;
	}
	while (at < positions) {
		const uint64_t change = switch_at(&l), begins = at;
		const uint32_t period = begins < change ? 1 : f->push;
		const float *pushed[MOST];
		uint32_t count = 0;

		for (uint32_t k = 0; k < workers; k++) {
			const uint64_t end =
				k && begins < change && change < positions ? change : positions;
			uint32_t batch;
			const double nominal = batch_of(&l, k, &batch);
			const uint64_t size = (uint64_t)period * accumulate * batch;
			const uint64_t to = end - at < size ? end : at + size;

			if (at >= end)
				break;
			if (merged[k] != c.version) {
				take_state(&l, &hand[k], &all);
				merge(&l, &hand[k], c.view, false);
			}
			one_stripe(&l, &hand[k], at, to, batch, nominal);
			note_drift(&l, &hand[k], c.view);
			take_delta(&l, &hand[k], c.view, d[k]);
			weight[count] = f->outer == OUTER_ADD
						? 1.0f
						: (float)((double)(to - at) /
							  (nominal * accumulate *
							   (at < change ? 1 : f->push)));
			samples[count] = to - at;
			pushed[count++] = d[k];
			at = to;
		}
		one_round(&l, &c, pushed, weight, count);
		average_state(&l, &all, hand, samples, count, at);
		for (uint32_t k = 0; k < count; k++) { /* stripes go to the first slots */
			take_state(&l, &hand[k], &all);
			merge(&l, &hand[k], c.view, false);
			merged[k] = c.version;
		}
	}
	for (uint32_t k = 0; k < workers; k++) {
		lone_release(&hand[k]);
		free(d[k]);
	}
	free(c.v), free(c.view), free(l.scratch), free(all.m), free(all.s);
}

/* --- rounds that stream ------------------------------------------------------------------- */

/* A worker's part in streaming: which elements are in flight. */
struct streamer {
	struct lone a;
	bool pending;
	uint32_t fragment;
};

struct stream {
	struct loop l;
	struct far c;
	uint32_t *of; /* by element: its fragment */
	uint32_t parts, steps;
};

/* The answer of the round before: part of it, and from it what is pushed next counts. */
static void merge_fragment(const struct stream *s, struct streamer *z)
{
	const struct delta_formula *f = s->l.f;
	struct lone *a = &z->a;

	for (size_t i = 0; i < s->l.n; i++) {
		const float view = s->c.view[i];

		if (s->of[i] != z->fragment)
			continue;
		a->x[i] = f->merge == MERGE_MIX && i < s->l.trainable
				  ? fmaf(f->alpha, a->x[i] - view, view)
				  : view;
		a->base[i] = view;
	}
	z->pending = false;
	look_ahead(&s->l, a);
}

/* In step `delay` of the stripe, counted from 0, or in its last one if that is earlier. */
static void stream_stripe(struct stream *s, struct streamer *z, uint64_t from, uint64_t to,
			  uint32_t batch, double nominal)
{
	const uint64_t samples = s->l.p->problem.samples;
	const uint64_t step = (uint64_t)batch * s->l.p->dealing.accumulate;

	z->a.summed = 0;
	while (from < to) {
		const uint64_t epoch = (from / samples + 1) * samples;
		const uint64_t end = to < epoch ? to : epoch;
		const uint32_t count = end - from < batch ? (uint32_t)(end - from) : batch;

		if (z->pending && !z->a.micros &&
		    (z->a.summed >= s->l.f->delay || to - from <= step))
			merge_fragment(s, z);
		compute(&s->l, &z->a, from, count);
		take_gradient(&s->l, &z->a, from, count, nominal);
		from += count;
	}
	if (z->a.micros)
		end_group(&s->l, &z->a);
}

static void stream_delta(const struct stream *s, const struct lone *a, uint32_t part, float *d)
{
	for (size_t i = 0; i < s->l.n; i++)
		if (s->of[i] == part)
			d[i] = i < s->l.trainable ? a->base[i] - a->x[i] : a->x[i] - a->base[i];
}

static void stream_round(struct stream *s, uint32_t part, const float *const *d,
			 const float *weight, uint32_t count)
{
	const bool total = s->l.f->outer == OUTER_ADD;

	for (size_t i = 0; i < s->l.n; i++) {
		if (s->of[i] != part)
			continue;
		if (i < s->l.trainable)
			far_step(&s->l, &s->c, i, mean_of(d, weight, count, i, total));
		else
			s->c.view[i] = s->c.w[i] += buffer_mean(d, weight, count, i);
	}
}

static void stream_open(struct stream *s, const struct outcome *o, const struct delta_formula *f,
			struct path *path, float *w)
{
	const struct tw_problem *p = &o->job->plan.problem;

	*s = (struct stream){ .parts = f->fragments, .steps = f->push / f->fragments };
	loop_init(&s->l, o, f, path);
	s->c = (struct far){ w, made(s->l.n, sizeof(float)), NULL, made(s->l.n, sizeof(float)), 0 };
	s->of = made(s->l.n, sizeof *s->of);
	for (uint32_t k = 0; k < p->shards; k++)
		for (size_t i = p->border[k]; i < p->border[k + 1]; i++)
			s->of[i] = k % f->fragments;
	assert_int_equal(o->engine->class->init(o->engine, 0, s->l.n, w), TW_OK);
	memcpy(s->c.view, w, s->l.n * sizeof(float));
}

void rounds_streaming(const struct outcome *o, const struct delta_formula *f, struct path *path,
		      float *w)
{
	enum { MOST = 16 };
	struct streamer hand[MOST];
	float *d[MOST], weight[MOST];
	const float *pushed[MOST];
	struct stream s;
	uint32_t workers, accumulate;
	uint64_t at = 0, positions, round = 0;

	stream_open(&s, o, f, path, w);
	workers = s.l.p->crew.workers;
	accumulate = s.l.p->dealing.accumulate;
	positions = s.l.p->dealing.positions;
	assert_true(workers <= MOST);
	for (uint32_t k = 0; k < workers; k++) {
		lone_init(&s.l, &hand[k].a);
		d[k] = made(s.l.n, sizeof(float));
		hand[k].pending = false;
		merge(&s.l, &hand[k].a, s.c.view, true);
	}
	for (; at < positions; round++) {
		const uint32_t part = (uint32_t)(round % s.parts);
		uint32_t count = 0;

		for (uint32_t k = 0; k < workers && at < positions; k++) {
			uint32_t batch;
			const double nominal = batch_of(&s.l, k, &batch);
			const uint64_t size = (uint64_t)s.steps * accumulate * batch;
			const uint64_t to = positions - at < size ? positions : at + size;

			stream_stripe(&s, &hand[k], at, to, batch, nominal);
			stream_delta(&s, &hand[k].a, part, d[k]);
			weight[count] = f->outer == OUTER_ADD
						? 1.0f
						: (float)((double)(to - at) /
							  (nominal * accumulate * s.steps));
			pushed[count++] = d[k];
			at = to;
		}
		stream_round(&s, part, pushed, weight, count);
		for (uint32_t k = 0; k < count; k++) {
			hand[k].pending = true;
			hand[k].fragment = part;
		}
	}
	for (uint32_t k = 0; k < workers; k++) {
		lone_release(&hand[k].a);
		free(d[k]);
	}
	free(s.c.v), free(s.c.view), free(s.l.scratch), free(s.of);
}

/* --- without rounds ----------------------------------------------------------------------- */

#define MOST_VERSIONS 4096
#define MOST_GIFTS    1024
#define MOST_BUCKET   64

struct delta_gift {
	float *d, weight;
	uint64_t *base, own;
};

struct slot_state {
	struct lone a;
	uint64_t *has;
	uint64_t *base, own, pushes;
	uint32_t awaited, samples; /* awaited: shards whose answer an elastic step waits for */
	uint64_t first;
	bool fresh, due, started, flushed;
	uint64_t from;
	uint32_t count;
	double nominal;
	struct delta_gift gift[MOST_GIFTS];
	uint64_t gifts;
};

struct replay {
	struct loop l;
	struct path path;
	struct far far;          /* over the whole vector; `version` is set per shard */
	uint64_t *version;       /* per shard */
	float **shown;           /* [shard * MOST_VERSIONS + version] ... */
	uint64_t *samples;       /* ... and how many samples were applied then */
	uint64_t *applied;       /* per shard: samples in it ... */
	uint64_t *arrived;       /* ... and in its bucket */
	struct slot_state *slot; /* per worker */
	struct {
		uint32_t slot;
		uint64_t seq, tau;
	} * bucket; /* [shard * MOST_BUCKET] */
	uint32_t *collected;
	uint64_t stale, dropped; /* dropped: stripes that were begun in vain */
	bool rounds;
	uint64_t *stripe, *stripe_end; /* by position: what it was dealt with */
	char complaint[200];
};

static void complain(struct replay *z, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void complain(struct replay *z, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!z->complaint[0])
		vsnprintf(z->complaint, sizeof z->complaint, format, args);
	va_end(args);
}

struct replay *replay_new(const struct outcome *o, const struct delta_formula *f)
{
	struct replay *z = made(1, sizeof *z);
	const uint32_t shards = o->job->plan.problem.shards;

	loop_init(&z->l, o, f, &z->path);
	path_init(&z->path, o);
	z->stripe = made(z->path.positions, sizeof *z->stripe);
	z->stripe_end = made(z->path.positions, sizeof *z->stripe_end);
	z->rounds = o->job->plan.gate->traits & TW_GATE_ROUNDS;
	z->far = (struct far){ made(z->l.n, sizeof(float)), made(z->l.n, sizeof(float)),
			       made(z->l.n, sizeof(float)), made(z->l.n, sizeof(float)), 0 };
	z->version = made(shards, sizeof *z->version);
	z->shown = made((size_t)shards * MOST_VERSIONS, sizeof *z->shown);
	z->samples = made((size_t)shards * MOST_VERSIONS, sizeof *z->samples);
	z->applied = made(shards, sizeof *z->applied);
	z->arrived = made(shards, sizeof *z->arrived);
	z->l.stamped = !z->rounds;
	z->bucket = made((size_t)shards * MOST_BUCKET, sizeof *z->bucket);
	z->collected = made(shards, sizeof *z->collected);
	z->slot = made(z->l.p->crew.workers, sizeof *z->slot);
	for (uint32_t k = 0; k < z->l.p->crew.workers; k++) {
		lone_init(&z->l, &z->slot[k].a);
		z->slot[k].has = made(shards, sizeof(uint64_t));
		z->slot[k].base = made(shards, sizeof(uint64_t));
	}
	return z;
}

void replay_free(struct replay *z)
{
	const uint32_t shards = z->l.p->problem.shards;

	for (size_t k = 0; k < (size_t)shards * MOST_VERSIONS; k++)
		free(z->shown[k]);
	for (uint32_t k = 0; k < z->l.p->crew.workers; k++) {
		struct slot_state *w = &z->slot[k];

		for (uint64_t i = 0; i < w->gifts; i++)
			free(w->gift[i].d), free(w->gift[i].base);
		lone_release(&w->a);
		free(w->has), free(w->base);
	}
	free(z->far.w), free(z->far.v), free(z->far.collected), free(z->far.view);
	free(z->version), free(z->shown), free(z->bucket), free(z->collected), free(z->slot);
	free(z->l.scratch), free(z->stripe), free(z->stripe_end);
	free(z->samples), free(z->applied), free(z->arrived);
	path_release(&z->path);
	free(z);
}

/* What a worker was sent last, as one vector. */
static float *views_of(const struct replay *z, const struct slot_state *w)
{
	const struct tw_problem *p = &z->l.p->problem;
	float *all = made(z->l.n, sizeof(float));

	for (uint32_t s = 0; s < p->shards; s++)
		memcpy(all + p->border[s], z->shown[s * MOST_VERSIONS + w->has[s]],
		       (p->border[s + 1] - p->border[s]) * sizeof(float));
	return all;
}

static void take_stamps(const struct replay *z, struct slot_state *w)
{
	const struct tw_problem *p = &z->l.p->problem;

	for (uint32_t s = 0; s < p->shards; s++)
		for (size_t i = p->border[s]; i < p->border[s + 1]; i++)
			w->a.stamp[i] = z->samples[s * MOST_VERSIONS + w->has[s]];
}

static void give_delta(struct replay *z, struct slot_state *w)
{
	const struct delta_formula *f = z->l.f;
	const uint32_t shards = z->l.p->problem.shards;
	struct delta_gift *g = &w->gift[w->gifts++];
	const uint32_t period = w->first < switch_at(&z->l) ? 1 : f->push;
	float *view = views_of(z, w);

	assert_true(w->gifts < MOST_GIFTS);
	*g = (struct delta_gift){ .d = made(z->l.n, sizeof(float)),
				  .base = made(shards, sizeof(uint64_t)),
				  .own = w->own++ };
	memcpy(g->base, w->base, shards * sizeof *g->base);
	take_delta(&z->l, &w->a, view, g->d);
	g->weight =
		f->outer == OUTER_ADD
			? 1.0f
			: (float)(w->samples / (w->nominal * z->l.p->dealing.accumulate * period));
	w->samples = 0;
	w->pushes++;
	w->due = f->merge != MERGE_ELASTIC &&
		 (!f->fetch || w->pushes % (f->fetch / f->push) == 0); /* parameters, now */
	free(view);
}

static void step_begins(struct replay *z, const struct tw_note *note)
{
	struct slot_state *w = &z->slot[note->slot];
	uint32_t batch;

	w->nominal = batch_of(&z->l, note->slot, &batch);
	if (w->flushed || w->awaited)
		complain(z, "worker %u goes on after its last push or before an answer",
			 note->slot);
	if (note->step.clock != w->gifts)
		complain(z, "worker %u has made %llu contributions, not %llu", note->slot,
			 (unsigned long long)note->step.clock, (unsigned long long)w->gifts);
	if (z->rounds && note->from == z->stripe[note->from])
		w->a.summed = w->a.micros = w->samples = 0;
	if (!z->rounds && w->fresh != (w->due || !w->started))
		complain(z, "worker %u steps %s new parameters", note->slot,
			 w->fresh ? "with" : "without");
	if (w->fresh) {
		float *view = views_of(z, w);

		merge(&z->l, &w->a, view, !w->started);
		take_stamps(z, w);
		w->a.done = 0; /* all is pushed, and in it */
		free(view);
		w->own = 0;
	}
	w->started = true;
	w->fresh = w->due = false;
	if (!w->a.micros && !w->a.summed) {
		memcpy(w->base, w->has, z->l.p->problem.shards * sizeof *w->base);
		w->first = note->from;
	}
	w->from = note->from;
	w->count = note->count;
	compute(&z->l, &w->a, note->from, note->count);
}

static void step_ends(struct replay *z, const struct tw_note *note)
{
	struct slot_state *w = &z->slot[note->slot];
	const uint32_t period = w->first < switch_at(&z->l) ? 1 : z->l.f->push;

	if (note->from != w->from || note->count != w->count)
		complain(z, "worker %u computed what it did not begin", note->slot);
	w->samples += w->count;
	take_gradient(&z->l, &w->a, w->from, w->count, w->nominal);
	if (z->rounds && w->from + w->count < z->stripe_end[w->from])
		return;
	if (z->rounds && w->a.micros)
		end_group(&z->l, &w->a);
	if (!z->rounds && (w->a.micros || w->a.summed < period))
		return;
	if (z->l.f->merge == MERGE_ELASTIC && !z->rounds)
		w->awaited = z->l.p->problem.shards;
	else
		give_delta(z, w);
}

/* The run ends: an elastic worker fetches for what it has begun, too. */
static void last_exchange(struct replay *z, struct slot_state *w)
{
	w->flushed = true;
	if (w->a.micros)
		end_group(&z->l, &w->a);
	w->awaited = z->l.p->problem.shards;
}

void replay_hears(void *arg, uint32_t slot, const struct tw_msg *m)
{
	struct replay *z = arg;
	struct slot_state *w = &z->slot[slot];

	if ((m->h.type != TW_PARAMS && m->h.type != TW_UNCHANGED) || m->b.params.pin ||
	    z->complaint[0])
		return;
	w->has[m->h.shard] = m->b.params.version.n;
	if (z->l.f->merge == MERGE_ELASTIC && !z->rounds && w->started && !w->awaited)
		last_exchange(z, w);
	if (!w->awaited) {
		w->fresh = true;
		return;
	}
	if (--w->awaited)
		return;
	memcpy(w->base, w->has, z->l.p->problem.shards * sizeof *w->base);
	w->own = 0;
	take_stamps(z, w);
	w->a.done = w->samples; /* these are pushed now */
	give_delta(z, w);
}

/* The run ends: what is begun goes as it is. */
static void give_rest(struct replay *z, struct slot_state *w)
{
	w->flushed = true;
	if (w->a.micros)
		end_group(&z->l, &w->a);
	if (w->a.summed)
		give_delta(z, w);
}

static void delta_arrives(struct replay *z, const struct tw_note *note)
{
	const uint32_t s = note->shard;
	struct slot_state *w = &z->slot[note->slot];
	const struct delta_gift *g;
	uint32_t last = z->collected[s];
	uint64_t since, tau;

	z->arrived[s] += note->count;
	if (last && z->bucket[s * MOST_BUCKET + last - 1].slot == note->slot &&
	    z->bucket[s * MOST_BUCKET + last - 1].seq == note->seq)
		return; /* another range of the same */
	if (note->seq > w->gifts && !z->rounds && z->l.f->merge != MERGE_ELASTIC)
		give_rest(z, w);
	if (note->seq == 0 || note->seq > w->gifts || last == MOST_BUCKET) {
		complain(z, "shard %u applies contribution %llu of worker %u, which made %llu", s,
			 (unsigned long long)note->seq, note->slot, (unsigned long long)w->gifts);
		return;
	}
	g = &w->gift[note->seq - 1];
	since = z->version[s] - g->base[s];
	tau = since > g->own ? since - g->own : 0;
	if (note->version != z->version[s] || note->apply.tau != tau)
		complain(z, "shard %u: staleness %llu at version %llu, not %llu at %llu", s,
			 (unsigned long long)note->apply.tau, (unsigned long long)note->version,
			 (unsigned long long)tau, (unsigned long long)z->version[s]);
	if (z->rounds && tau)
		complain(z, "shard %u: a round takes what is %llu versions old", s,
			 (unsigned long long)tau);
	z->stale = tau > z->stale ? tau : z->stale;
	z->bucket[s * MOST_BUCKET + last].slot = note->slot;
	z->bucket[s * MOST_BUCKET + last].seq = note->seq;
	z->bucket[s * MOST_BUCKET + last].tau = tau;
	z->collected[s]++;
}

static void show_shard(struct replay *z, uint32_t s)
{
	const size_t from = z->l.p->problem.border[s];
	const size_t n = z->l.p->problem.border[s + 1] - from;
	float **at = &z->shown[s * MOST_VERSIONS + z->version[s]];

	assert_true(z->version[s] < MOST_VERSIONS);
	*at = made(n, sizeof(float));
	memcpy(*at, z->far.view + from, n * sizeof(float));
	z->samples[s * MOST_VERSIONS + z->version[s]] = z->applied[s];
}

/* A shard has enough: one far step on its part. */
static void far_updates(struct replay *z, uint32_t s)
{
	const struct tw_problem *p = &z->l.p->problem;
	const uint32_t count = z->collected[s];
	const float *d[MOST_BUCKET];
	float weight[MOST_BUCKET], one[MOST_BUCKET], factor[MOST_BUCKET];

	if (!count) {
		complain(z, "shard %u updates with nothing", s);
		return;
	}
	for (uint32_t j = 0; j < count; j++) {
		const struct delta_gift *g = &z->slot[z->bucket[s * MOST_BUCKET + j].slot]
						      .gift[z->bucket[s * MOST_BUCKET + j].seq - 1];

		d[j] = g->d;
		weight[j] = g->weight;
		factor[j] = (float)pow(1.0 + (double)z->bucket[s * MOST_BUCKET + j].tau,
				       -z->l.f->power);
	}
	z->far.version = z->version[s];
	for (size_t i = p->border[s]; i < p->border[s + 1]; i++) {
		const float *scaled[MOST_BUCKET];

		for (uint32_t j = 0; j < count; j++) {
			one[j] = factor[j] * d[j][i];
			scaled[j] = &one[j];
		}
		if (i < z->l.trainable) {
			far_step(&z->l, &z->far, i,
				 mean_of(scaled, weight, count, 0, z->l.f->outer == OUTER_ADD));
			continue;
		}
		for (uint32_t j = 0; j < count && !z->rounds; j++)
			z->far.w[i] =
				fmaf(1.0f / (float)z->l.p->crew.workers, d[j][i], z->far.w[i]);
		if (z->rounds)
			z->far.w[i] += buffer_mean(d, weight, count, i);
		z->far.view[i] = z->far.w[i];
	}
	z->collected[s] = 0;
	z->applied[s] += z->arrived[s];
	z->arrived[s] = 0;
	z->version[s]++;
	show_shard(z, s);
}

bool replay_note(void *arg, const struct tw_note *note)
{
	struct replay *z = arg;
	size_t from;

	if (z->complaint[0])
		return true; /* what follows would only be noise */
	switch (note->kind) {
	case TW_NOTE_HOSTED:
		from = z->l.p->problem.border[note->shard];
		memcpy(z->far.w + from, note->hosted.w, note->hosted.n * sizeof(float));
		memcpy(z->far.view + from, note->hosted.w, note->hosted.n * sizeof(float));
		show_shard(z, note->shard);
		break;
	case TW_NOTE_DEAL:
		for (uint64_t k = note->from; k < note->from + note->count; k++) {
			z->stripe[k] = note->from;
			z->stripe_end[k] = note->from + note->count;
		}
		break;
	case TW_NOTE_STEP:
		step_begins(z, note);
		break;
	case TW_NOTE_GRADIENT:
		step_ends(z, note);
		break;
	case TW_NOTE_APPLY:
		delta_arrives(z, note);
		break;
	case TW_NOTE_UPDATE:
		far_updates(z, note->shard);
		break;
	case TW_NOTE_DROP:
		z->dropped++;
		break;
	default:
		break;
	}
	return true;
}

/* --- both --------------------------------------------------------------------------------- */

static char difference[400];

/* What is given up may be computed or not: `all` says that nothing is. */
static bool paths_differ(const struct path *run, const struct path *mine, bool all)
{
	for (uint64_t k = 0; k < run->positions; k++) {
		if (!all && (!run->at[k] || !mine->at[k]))
			continue;
		if (!run->at[k] != !mine->at[k]) {
			snprintf(difference, sizeof difference, "only %s has a batch at %llu",
				 run->at[k] ? "the run" : "the serial loop", (unsigned long long)k);
			return true;
		}
		for (size_t i = 0; run->at[k] && i < run->n; i++)
			if (memcmp(&run->at[k][i], &mine->at[k][i], sizeof(float)) != 0) {
				snprintf(difference, sizeof difference,
					 "position %llu was computed at %.9g in element %zu, the "
					 "serial loop has %.9g",
					 (unsigned long long)k, (double)run->at[k][i], i,
					 (double)mine->at[k][i]);
				return true;
			}
	}
	return false;
}

static bool results_differ(const struct outcome *o, const float *mine)
{
	for (size_t i = 0; i < o->n; i++)
		if (!isfinite(mine[i]) || memcmp(&mine[i], &o->vector[i], sizeof mine[i]) != 0) {
			snprintf(difference, sizeof difference,
				 "element %zu of %zu is %.9g, the serial loop has %.9g", i, o->n,
				 (double)o->vector[i], (double)mine[i]);
			return true;
		}
	return false;
}

const char *deltas_differ(const char *text, const struct delta_formula *f, uint64_t *stale)
{
	struct outcome o;
	struct spy spy;
	bool differs;

	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	assert_true(o.job->plan.traffic.delta);
	if (strcmp(o.job->plan.gate->name, "bsp") == 0) {
		struct path mine;
		float *w = made(o.n, sizeof *w);

		path_init(&mine, &o);
		(f->fragments ? rounds_streaming : rounds_alone)(&o, f, &mine, w);
		spy_open(&spy, &o);
		outcome_run(&o, NULL);
		differs = paths_differ(&spy.path, &mine, true) || results_differ(&o, w);
		path_release(&mine);
		free(w);
	} else {
		struct replay *z = replay_new(&o, f);

		spy_open(&spy, &o);
		outcome_run(&o, &(const struct watch){ .observer = replay_note,
						       .worker_hears = replay_hears,
						       .arg = z });
		differs = z->complaint[0];
		if (differs)
			snprintf(difference, sizeof difference, "%s", z->complaint);
		else
			differs = paths_differ(&spy.path, &z->path, !z->rounds) ||
				  results_differ(&o, z->far.w);
		if (stale)
			*stale = z->rounds ? z->dropped : z->stale;
		replay_free(z);
	}
	spy_close(&spy, &o);
	outcome_close(&o);
	return differs ? difference : NULL;
}

uint64_t deltas_agree(const char *label, const char *text, const struct delta_formula *f)
{
	uint64_t stale = 0;
	const char *said = deltas_differ(text, f, &stale);

	if (said)
		fail_msg("%s: %s\n%s", label, said, text);
	return stale;
}
