/* SPDX-License-Identifier: Apache-2.0 */
/* rate_test.c - update.rate: auto: a short test of rates on the first batches.
 *
 * Rates are half a decade apart, over the range that the rule usually takes.  Each trains from the
 * initial weights on the same batches; its score is the mean loss of the last quarter of its steps.
 * The least score wins.  Where the rate after it diverges, the one before it is taken if it has
 * come nearly as far: a run is longer than the test. */
#include "run/rate_test.h"

#include "base/machine/clock.h"
#include "checkpoint/files.h"
#include "engine/network.h"
#include "node/half.h"
#include "run/open_engine.h"
#include "spec/field.h"
#include "spec/layer_names.h"
#include "vec/vec.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LATE_MOST 7    /* updates: vectors that are kept */
#define NEARLY    0.8  /* of the way that the best has come */
#define AWAY      10.0 /* times the first loss: it will not come back */

struct bench {
	const struct tw_engine *e;
	const struct tw_plan *plan;
	struct tw_half half;
	struct tw_heap *heap;
	uint32_t batch, late;
	float *memory;
	float *w, *first, *g, *mine, *array[TW_RULE_ARRAYS];
	float *past[LATE_MOST + 1]; /* what workers saw, by step */
	void *scratch;
};

static void release(struct bench *b)
{
	b->heap->put(b->heap, b->memory);
	b->heap->put(b->heap, b->scratch);
}

/* Everything in one block. */
static enum tw_status prepare(struct bench *b, struct tw_error *why)
{
	const size_t n = tw_engine_moving(b->e);
	const size_t vectors = 4 + TW_RULE_ARRAYS + b->late + 1;
	float *at;

	b->memory = b->heap->get(b->heap, vectors * n * sizeof *b->memory);
	b->scratch = b->heap->get(b->heap, b->e->scratch_bytes ? b->e->scratch_bytes : 1);
	if (!b->memory || !b->scratch)
		return tw_fail(why, TW_NO_MEMORY,
			       "update.rate: auto: no memory for the test; give a number");
	at = b->memory;
	b->w = at;
	b->first = at + n;
	b->g = at + 2 * n;
	b->mine = at + 3 * n;
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		b->array[k] = at + (4 + k) * n;
	for (uint32_t k = 0; k <= b->late; k++)
		b->past[k] = at + (4 + TW_RULE_ARRAYS + k) * n;
	if (b->e->class->init(b->e, 0, n, b->first) != TW_OK)
		return tw_fail(why, TW_BAD_INPUT, "update.rate: auto: there are no first weights");
	return TW_OK;
}

/* The first position of a step's batch: batches lie in one epoch. */
static uint64_t position(const struct bench *b, uint32_t step)
{
	const uint64_t in_epoch = b->e->samples / b->batch;

	return step / in_epoch * b->e->samples + step % in_epoch * b->batch;
}

static struct tw_apply tile_of(const struct bench *b, float rate, uint32_t step)
{
	struct tw_apply a = { .w = b->w,
			      .out = b->w,
			      .g = b->g,
			      .mine = b->mine,
			      .n = b->e->trainable,
			      .rate = rate,
			      .before = step ? rate : 0,
			      .count = step + 1,
			      .workers = 1 };

	for (uint32_t k = 0; k < b->half.rule->arrays; k++)
		a.array[k] = b->array[k];
	if (b->half.rule->traits & TW_RULE_OWN_DECAY)
		a.decay = b->plan->decay;
	return a;
}

/* What a worker sees now. */
static void show(struct bench *b, float rate, uint32_t step, float *out)
{
	const size_t n = tw_engine_moving(b->e), t = b->e->trainable;

	if (!tw_rule_shows(b->half.rule, b->half.options)) {
		tw_vec_copy(out, b->w, n);
		return;
	}
	const struct tw_apply a = tile_of(b, rate, step);

	tw_half_view(&b->half, &a, 0, out);
	tw_vec_copy(out + t, b->w + t, n - t);
}

/* One step; returns the loss of its batch before it, NAN: it went wrong. */
static double step_once(struct bench *b, float rate, uint32_t step)
{
	const size_t n = tw_engine_moving(b->e), t = b->e->trainable;
	const uint32_t seen = step > b->late ? step - b->late : 0;
	const float *at = b->past[seen % (b->late + 1)];
	const struct tw_piece piece = { at, 0, n };
	const struct tw_inputs in = {
		.from = position(b, step), .count = b->batch, .piece = &piece, .pieces = 1
	};
	struct tw_score score;
	double norm;

	show(b, rate, step, b->past[step % (b->late + 1)]);
	if (b->e->class->gradient(b->e, b->scratch, &in, b->g, &score) != TW_OK ||
	    !tw_vec_finite(b->g, n) || !isfinite(score.loss))
		return (double)NAN;
	norm = sqrt(tw_vec_square(b->g, t));
	if (b->plan->clip > 0 && norm > (double)b->plan->clip)
		tw_vec_scale(b->g, (float)((double)b->plan->clip / norm), t);
	if (b->plan->decay != 0.0f && !(b->half.rule->traits & TW_RULE_OWN_DECAY))
		tw_vec_axpy(b->g, b->plan->decay, at, t);

	const struct tw_apply a = tile_of(b, rate, step);

	tw_half_apply(&b->half, &a, 0);
	tw_vec_add(b->w + t, b->g + t, n - t);
	return score.loss / (double)score.samples;
}

/* The mean loss of the last quarter; INFINITY: it diverged.  *first: of the first batch. */
static double try_rate(struct bench *b, float rate, double *first)
{
	const size_t n = tw_engine_moving(b->e);
	double sum = 0;
	uint32_t last = 0;

	tw_vec_copy(b->w, b->first, n);
	tw_vec_fill(b->mine, 0.0f, n);
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		tw_vec_fill(b->array[k], 0.0f, n);
	for (uint32_t step = 0; step < TW_RATE_STEPS; step++) {
		const double loss = step_once(b, rate, step);

		if (step == 0)
			*first = loss;
		if (!(loss <= AWAY * fabs(*first) + 1) || !tw_vec_finite(b->w, n))
			return (double)INFINITY;
		if (step >= TW_RATE_STEPS - TW_RATE_STEPS / 4) {
			sum += loss;
			last++;
		}
	}
	return sum / last;
}

/* The rates, ascending; returns how many. */
static size_t rates_of(const struct tw_usual_rate *u, double *out)
{
	const double half = sqrt(10.0);
	size_t n = 0;

	for (double r = u->low; n < TW_RATE_TRIALS && r < u->high * 1.01; r *= half) {
		char text[32];

		snprintf(text, sizeof text, "%.1g", r); /* 0.03, not 0.0316 */
		out[n++] = strtod(text, NULL);
	}
	return n;
}

static size_t choose(const double *score, size_t n, double first)
{
	size_t best = 0;

	for (size_t k = 1; k < n; k++)
		if (score[k] < score[best])
			best = k;
	if (best > 0 && best + 1 < n && !(score[best + 1] < first) &&
	    first - score[best - 1] >= NEARLY * (first - score[best]))
		best--;
	return best;
}

static void say(const struct tw_log *log, const double *rate, const double *score, size_t n,
		size_t best, double first, int64_t lasted)
{
	if (score[best] < first)
		tw_log_line(log, TW_INFO, "job",
			    "update.rate: auto: %g, of %zu rates from %g to %g in %d steps each "
			    "(%.1f s); with it the loss of the first batches falls from %.4g to "
			    "%.4g",
			    rate[best], n, rate[0], rate[n - 1], TW_RATE_STEPS,
			    (double)lasted / 1e9, first, score[best]);
	else
		tw_log_line(log, TW_WARNING, "job",
			    "update.rate: auto: no rate from %g to %g lowers the loss in %d steps; "
			    "the lowest is taken: look at the data, or give a number",
			    rate[0], rate[n - 1], TW_RATE_STEPS);
}

enum tw_status tw_job_find_rate(struct tw_job *job, const struct tw_engine *engine,
				const struct tw_log *log, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_usual_rate *usual = &tw_plan_update(p)->rule->rate;
	const struct tw_graph *g = tw_network_graph(engine);
	const bool late = !(p->gate->traits & TW_GATE_ROUNDS) && !p->traffic.delta;
	const uint32_t others = job->cluster.workers > 1 ? job->cluster.workers - 1 : 0;
	double rate[TW_RATE_TRIALS], score[TW_RATE_TRIALS], first = (double)NAN;
	const int64_t began = tw_clock();
	struct bench b = { .e = engine, .plan = p, .heap = &tw_heap_system };
	enum tw_status st = TW_OK;
	size_t n, best;

	if (!isnan(job->update.schedule.rate))
		return TW_OK;
	b.half = *tw_plan_update(p);
	b.late = late ? others < LATE_MOST ? others : LATE_MOST : 0;
	b.batch = tw_job_batch(job);
	if (b.batch > engine->samples)
		b.batch = (uint32_t)engine->samples;
	if (g)
		st = tw_job_layer_rates(job, g, &b.half.layers, why);
	if (st == TW_OK)
		st = prepare(&b, why);
	n = rates_of(usual, rate);
	for (size_t k = 0; st == TW_OK && k < n; k++)
		score[k] = try_rate(&b, (float)rate[k], &first);
	if (st == TW_OK) {
		best = choose(score, n, first);
		tw_job_set_rate(job, score[best] < first ? rate[best] : rate[0]);
		say(log, rate, score, n, best, first, tw_clock() - began);
	}
	release(&b);
	return st;
}

/* The rate of the job that the directory keeps; NAN: it keeps none. */
static double kept_rate(const struct tw_job *job, const char *dir)
{
	struct tw_error why = { 0 };
	struct tw_block *text = NULL;
	struct tw_job *kept = NULL;
	double rate = (double)NAN;
	char path[4200];

	snprintf(path, sizeof path, "%s/job.yaml", dir);
	if (tw_file_read(AT_FDCWD, path, 4 * TW_JOB_BYTES_MAX, &tw_heap_system, &text) != TW_OK)
		return rate;
	if (tw_job_read_text(path, (const char *)text->data, text->bytes, NULL, 0, NULL, job->world,
			     &kept, &why) == TW_OK)
		rate = kept->update.schedule.rate;
	tw_job_free(kept);
	tw_block_drop(text);
	return rate;
}

enum tw_status tw_job_find_rate_in(struct tw_job *job, const struct tw_engine *engine,
				   const char *dir, const struct tw_log *log, struct tw_error *why)
{
	double rate;

	if (!isnan(job->update.schedule.rate))
		return TW_OK;
	rate = dir ? kept_rate(job, dir) : (double)NAN;
	if (!isnan(rate))
		tw_job_set_rate(job, rate);
	return tw_job_find_rate(job, engine, log, why);
}

enum tw_status tw_job_settle_rate(struct tw_job *job, const struct tw_log *log,
				  struct tw_error *why)
{
	struct tw_engine *engine = NULL;
	enum tw_status st;

	if (!isnan(job->update.schedule.rate))
		return TW_OK;
	st = tw_job_open_engine(job, &tw_heap_system, &engine, why);
	if (st == TW_OK)
		st = tw_job_find_rate(job, engine, log, why);
	if (engine)
		engine->class->close(engine);
	return st;
}
