/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c - somebody outside who computes: an engine of ours that is asked by sample numbers. */
#include "kit/caller.h"

#include <stdlib.h>

/* Own samples are numbered by their worker: is this place one of them? */
static bool has(const struct tw_engine *e, uint32_t worker, uint64_t p)
{
	const struct tw_subsets *s = &e->order.subsets;
	struct tw_cell c;

	if (!s->own)
		return true;
	c = tw_subsets_cell(s, p);
	return c.subset == worker &&
	       c.first + (p - c.from) < tw_subsets_own(s, worker, e->order.own);
}

/* Where in its epoch the sample stands. */
static uint64_t place_of(const struct tw_engine *e, uint32_t worker, uint64_t epoch,
			 uint64_t sample)
{
	for (uint64_t p = epoch * e->samples; p < (epoch + 1) * e->samples; p++)
		if (has(e, worker, p) && tw_order_sample(&e->order, p) == sample)
			return p;
	abort();
}

static double ask(const struct tw_engine *e, enum tw_pass_kind kind, uint64_t from, uint64_t count,
		  const float *w, float *g, double *correct)
{
	const struct tw_piece piece = { .at = w, .n = e->trainable + e->buffers };
	const struct tw_inputs in = {
		.from = from, .count = (uint32_t)count, .piece = &piece, .pieces = 1
	};
	void *scratch = aligned_alloc(TW_ALIGN, (e->scratch_bytes / TW_ALIGN + 1) * TW_ALIGN);
	struct tw_score score = { 0 };

	if (!scratch ||
	    tw_engine_run(e, scratch, &in, &(struct tw_pass){ .kind = kind }, g, &score) != TW_OK)
		abort();
	free(scratch);
	*correct = score.correct;
	return score.loss / (double)count;
}

static double gradient_for(const struct tw_engine *e, uint32_t worker, const uint64_t *sample,
			   uint64_t count, uint64_t epoch, const float *w, float *g)
{
	const uint64_t from = place_of(e, worker, epoch, sample[0]);
	double none;

	for (uint64_t k = 0; k < count; k++)
		if (!has(e, worker, from + k) || tw_order_sample(&e->order, from + k) != sample[k])
			abort();
	return ask(e, TW_PASS_GRADIENT, from, count, w, g, &none);
}

double caller_gradient(const struct tw_engine *e, const uint64_t *sample, uint64_t count,
		       uint64_t epoch, const float *w, float *g)
{
	return gradient_for(e, 0, sample, count, epoch, w, g);
}

double caller_score(const struct tw_engine *e, uint64_t from, uint64_t count, const float *w,
		    double *correct)
{
	return ask(e, TW_PASS_EVALUATE, from, count, w, NULL, correct);
}

static void *serve(void *arg)
{
	const struct caller *c = arg;
	enum tw_desk_got got;
	struct tw_task t;

	while ((got = tw_desk_take(c->desk, TW_SECOND, NULL, &t)) != TW_DESK_OVER) {
		struct tw_desk_answer a = { .correct = -1 };

		if (got != TW_DESK_TASK)
			continue;
		a.loss = t.score ? caller_score(c->engine, t.sample[0], t.count, t.parameters,
						&a.correct)
				 : gradient_for(c->engine, t.about.worker, t.sample, t.count,
						t.epoch, t.parameters, t.vector);
		tw_desk_answer(c->desk, t.id, &a);
	}
	return NULL;
}

void caller_start(struct caller *c, const struct tw_engine *e)
{
	c->engine = e;
	c->desk = tw_desk_new(&tw_heap_system, e, 256, 0);
	if (!c->desk || pthread_create(&c->thread, NULL, serve, c))
		abort();
}

void caller_stop(struct caller *c)
{
	tw_desk_over(c->desk);
	pthread_join(c->thread, NULL);
	tw_desk_free(c->desk);
}
