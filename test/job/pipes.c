/* SPDX-License-Identifier: Apache-2.0 */
/* pipes.c - runs of models that are cut into stages, and what was seen of them. */
#include "job/pipes.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A contribution of several ranges has as many notes. */
static bool is_new(struct pipe_run *r, const struct tw_note *n)
{
	uint64_t *last = r->last[n->shard];
	const uint64_t who = (uint64_t)n->slot << 32 | n->incarnation;

	if (r->taus[n->shard] && last[0] == who && last[1] == n->seq)
		return false;
	last[0] = who;
	last[1] = n->seq;
	return true;
}

static bool observe(void *arg, const struct tw_note *n)
{
	struct pipe_run *r = arg;

	if (n->kind == TW_NOTE_STAGE && r->figures)
		tw_stage_figures_note(r->figures, n);
	pthread_mutex_lock(&lock);
	if (n->kind == TW_NOTE_APPLY && n->shard < PIPE_SHARDS && r->taus[n->shard] < PIPE_TAUS &&
	    is_new(r, n)) {
		r->slot[n->shard][r->taus[n->shard]] =
			(uint16_t)(n->slot * tw_plan_lanes(&r->t.job->plan, n->shard) +
				   n->apply.push->lane);
		r->tau[n->shard][r->taus[n->shard]++] = (uint32_t)n->apply.tau;
	}
	if (r->also)
		r->also(r->also_arg, n);
	pthread_mutex_unlock(&lock);
	return true;
}

static void keep_vector(struct pipe_run *r)
{
	const struct tw_problem *p = &r->t.job->plan.problem;

	r->floats = p->trainable + p->buffers;
	if (!r->ran.totals.vector)
		return;
	r->vector = malloc(r->floats * sizeof *r->vector);
	assert_non_null(r->vector);
	for (uint32_t s = 0; s < p->shards; s++)
		memcpy(r->vector + p->border[s], tw_block_floats(r->ran.totals.vector[s]),
		       (p->border[s + 1] - p->border[s]) * sizeof(float));
}

static struct pipe_run *open_text(enum tw_world_kind world, const char *text)
{
	struct pipe_run *r = calloc(1, sizeof *r);

	assert_non_null(r);
	trial_open(&r->t, world, "%s", text);
	if (tw_plan_is_staged(&r->t.job->plan))
		r->figures = tw_stage_figures_new(&tw_heap_system, &r->t.job->plan);
	r->t.observer = observe;
	r->t.observer_arg = r;
	return r;
}

struct pipe_run *pipe_open(enum tw_world_kind world, const char *format, ...)
{
	char text[4000];
	va_list args;

	va_start(args, format);
	assert_true(vsnprintf(text, sizeof text, format, args) < (int)sizeof text);
	va_end(args);
	return open_text(world, text);
}

void pipe_go(struct pipe_run *r)
{
	r->status = trial_run(&r->t, &tw_heap_system, NULL, &r->ran);
	keep_vector(r);
}

struct pipe_run *pipe_run(enum tw_world_kind world, const char *format, ...)
{
	struct pipe_run *r;
	char text[4000];
	va_list args;

	va_start(args, format);
	assert_true(vsnprintf(text, sizeof text, format, args) < (int)sizeof text);
	va_end(args);
	r = open_text(world, text);
	pipe_go(r);
	return r;
}

void pipe_free(struct pipe_run *r)
{
	tw_totals_release(&r->ran.totals);
	tw_stage_figures_free(r->figures);
	trial_close(&r->t);
	free(r->vector);
	free(r);
}

void pipe_same(const struct pipe_run *a, const struct pipe_run *b, const char *what)
{
	if (a->status != TW_OK || b->status != TW_OK)
		fail_msg("%s: %s, %s", what, a->ran.error.text, b->ran.error.text);
	assert_int_equal(a->floats, b->floats);
	if (memcmp(a->vector, b->vector, a->floats * sizeof(float)) != 0)
		fail_msg("%s: the parameters differ", what);
	if (memcmp(&a->ran.totals.loss, &b->ran.totals.loss, sizeof(double)) != 0 ||
	    a->ran.totals.accuracy != b->ran.totals.accuracy)
		fail_msg("%s: loss %.17g and %.17g", what, a->ran.totals.loss, b->ran.totals.loss);
	assert_int_equal(a->ran.totals.samples, b->ran.totals.samples);
	assert_int_equal(a->ran.totals.steps, b->ran.totals.steps);
	/* not train_loss: which leases it counts depends on when they were told */
}
