/* SPDX-License-Identifier: Apache-2.0 */
/* test_passes.c - every engine that can be cut keeps engine.h's word about passes; and what delays
 * of stages do to a quadratic, which is known in closed form. */
#include "engine/function.h"
#include "engine/quadratic.h"
#include "staged.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SAMPLES 50
#define COUNT   3u

static const double wide[] = { 0.25, 2 }, each[] = { 1, 0.5, 0.1, 2 };

static const struct tw_quadratic_options bowls[] = {
	{ .dimension = 37, .curvature = { wide, 2 }, .start = 1 },
	{ .dimension = 37, .curvature = { wide, 2 }, .start = 1, .stages = 4 },
	{ .dimension = 101, .curvature = { wide, 2 }, .noise = 0.5, .buffers = 7, .stages = 5 },
	{ .dimension = 40,
	  .curvature = { wide, 2 },
	  .target = 1,
	  .buffers = 2,
	  .stages = 4,
	  .per_stage = { each, 4 } },
	{ .dimension = 3000, .curvature = { wide, 2 }, .noise = 1, .stages = 2, .tensors = 7 },
};
static const struct tw_least_squares_options squares[] = {
	{ .dimension = 21, .noise = 0.1, .start = 0.5 },
	{ .dimension = 21, .noise = 0.1, .start = 0.5, .stages = 3 },
	{ .dimension = 50, .blocks = 7, .start = 0.5, .stages = 4 },
	{ .dimension = 900000, .start = 0.01, .stages = 2 }, /* too much to keep: rows are drawn */
};
#define BOWLS   (sizeof bowls / sizeof bowls[0])
#define SQUARES (sizeof squares / sizeof squares[0])

static struct tw_engine *engine_at(size_t k)
{
	struct tw_engine *e = NULL;

	if (k < BOWLS)
		e = tw_quadratic_open(&tw_heap_system, &bowls[k], SAMPLES, 3);
	else if (k < BOWLS + SQUARES)
		e = tw_least_squares_open(&tw_heap_system, &squares[k - BOWLS], SAMPLES, 3);
	assert_true(e || k >= BOWLS + SQUARES);
	return e;
}

static struct staged cut_into(const struct tw_engine *e, uint32_t stages, enum staged_way way)
{
	struct staged s = { .e = e, .stages = stages, .way = way };

	for (uint32_t k = 0; k <= stages; k++)
		s.cut[k] = (uint32_t)(e->cuts - 1) * k / stages;
	return s;
}

static void check(const struct staged *s, const float *w, size_t which)
{
	const size_t all = s->e->trainable + s->e->buffers;
	const float *same[STAGES_MAX] = { w, w, w, w, w, w, w, w };
	float *truth = malloc(all * sizeof *truth), *g = malloc(2 * all * sizeof *g);
	struct tw_score score[2];
	char what[80];

	snprintf(what, sizeof what, "engine %zu in %u stages (%s)", which, s->stages,
		 staged_names[s->way]);
	staged_gradients(s, same, SAMPLES + 11, COUNT, 2, g, score);
	for (uint32_t m = 0; m < 2; m++) {
		same_score(fused_gradient(s->e, w, SAMPLES + 11 + m * COUNT, COUNT, truth),
			   score[m], what);
		same_floats(truth, g + m * all, all, "%s, batch %u", what, m);
	}
	free(truth);
	free(g);
}

static void stages_give_the_bits_of_the_whole(void **state)
{
	struct tw_engine *e;

	for (size_t k = 0; (e = engine_at(k)); k++) {
		float *w = some_parameters(e);

		assert_true(e->cuts >= 2 && e->class->run && e->class->needs);
		for (uint32_t stages = 1; stages < e->cuts; stages++)
			for (enum staged_way way = 0; way < STAGED_WAYS; way++) {
				const struct staged s = cut_into(e, stages, way);

				check(&s, w, k);
			}
		free(w);
		e->class->close(e);
	}
}

static void evaluates_by_stages(void **state)
{
	struct tw_engine *e;

	for (size_t k = 0; (e = engine_at(k)); k++) {
		float *w = some_parameters(e);
		const struct tw_piece piece = { w, 0, e->trainable + e->buffers };
		const uint32_t count = e->tests < 13 ? (uint32_t)e->tests : 13;
		const struct tw_inputs in = { 0, count, &piece, 1, NULL };
		void *scratch = malloc(e->scratch_bytes + 1);
		struct tw_score one = { 0 };

		assert_int_equal(e->class->evaluate(e, scratch, &in, &one), TW_OK);
		for (uint32_t stages = 1; stages < e->cuts; stages++) {
			const struct staged s = cut_into(e, stages, STAGED_FUSES);

			same_score(one, staged_score(&s, w, 0, count, NULL), "evaluated");
		}
		free(scratch);
		free(w);
		e->class->close(e);
	}
}

static void refuses_what_cannot_be(void **state)
{
	struct tw_engine *e;
	float x[16] = { 0 }, *g = malloc(4000000);

	for (size_t k = 0; (e = engine_at(k)); k++) {
		float *w = some_parameters(e);
		const uint32_t last = (uint32_t)e->cuts - 1;
		const struct tw_piece piece = { w, 0, e->trainable + e->buffers };
		const struct tw_inputs in = { 0, COUNT, &piece, 1, NULL };
		const struct tw_pass bad[] = {
			{ TW_PASS_FORWARD, last, last, x, .y = x },
			{ TW_PASS_FORWARD, 0, last + 1, .y = x },
			{ TW_PASS_FORWARD, last - 1, last, .x = last > 1 ? NULL : x, .y = x },
			{ TW_PASS_GRADIENT, 0, last - 1, .x = x },
		};
		const _Atomic bool stop = true;
		struct tw_inputs cancelled = in;
		struct tw_needs needs;
		struct tw_score score;
		void *scratch = malloc(e->scratch_bytes + 1);

		for (size_t b = 0; last > 1 && b < sizeof bad / sizeof bad[0]; b++)
			assert_int_equal(tw_engine_run(e, scratch, &in, &bad[b], g, &score),
					 TW_BAD_INPUT);
		assert_int_equal(e->class->needs(e, 0, last + 1, 1, &needs), TW_BAD_INPUT);
		assert_int_equal(e->class->needs(e, 0, last, 0, &needs), TW_BAD_INPUT);
		assert_int_equal(e->class->needs(e, last, 0, 1, &needs), TW_BAD_INPUT);
		cancelled.cancel = &stop;
		assert_int_equal(tw_engine_run(e, scratch, &cancelled,
					       &(struct tw_pass){ TW_PASS_FORWARD, .y = x }, NULL,
					       &score),
				 TW_CANCELLED);
		free(scratch);
		free(w);
		e->class->close(e);
	}
	free(g);
}

/* An engine without cuts does what it always did, and nothing else. */
static void engines_without_cuts(void **state)
{
	const struct tw_function_options o = { .dimension = 2, .start = NAN };
	struct tw_engine *e = tw_function_open(&tw_heap_system, &o, SAMPLES, 1);
	float w[2] = { 1, 2 }, a[2], b[2], y[16], scratch[2];
	const struct tw_piece piece = { w, 0, 2 };
	const struct tw_inputs in = { 0, 1, &piece, 1, NULL };
	struct tw_score one, other;

	assert_int_equal(e->cuts, 0);
	assert_int_equal(e->class->gradient(e, scratch, &in, a, &one), TW_OK);
	assert_int_equal(tw_engine_run(e, scratch, &in, &(struct tw_pass){ 0 }, b, &other), TW_OK);
	same_floats(a, b, 2, "gradient");
	same_score(one, other, "gradient");
	assert_int_equal(tw_engine_run(e, scratch, &in,
				       &(struct tw_pass){ .kind = TW_PASS_EVALUATE }, NULL, &one),
			 TW_OK);
	assert_int_equal(tw_engine_run(e, scratch, &in,
				       &(struct tw_pass){ .kind = TW_PASS_FORWARD, .y = y }, NULL,
				       &one),
			 TW_BAD_INPUT);
	e->class->close(e);
}

/* --- delays ----------------------------------------------------------------------------------- */

#define STEPS 1500
#define WIDTH 2u /* elements of a stage */

/* How far the elements of stage s are from the minimum after STEPS steps of SGD with rate 1, where
 * stage k of K computes with what it had K - 1 - k updates ago, as in a pipeline without flush. */
static double after_delays(uint32_t stages, uint32_t s, double curvature, enum staged_way way)
{
	double each_stage[STAGES_MAX], far = 0;
	const double none[] = { 1 };
	const struct tw_quadratic_options o = { .dimension = WIDTH * stages,
						.curvature = { none, 1 },
						.start = 1,
						.stages = stages,
						.per_stage = { each_stage, stages } };
	float past[STAGES_MAX][WIDTH * STAGES_MAX], g[WIDTH * STAGES_MAX];
	struct tw_engine *e;
	struct staged all;

	for (uint32_t k = 0; k < stages; k++)
		each_stage[k] = k == s ? curvature : 0.01;
	e = tw_quadratic_open(&tw_heap_system, &o, SAMPLES, 1);
	assert_non_null(e);
	all = cut_into(e, stages, way);
	for (uint32_t k = 0; k < stages; k++)
		assert_int_equal(e->class->init(e, 0, o.dimension, past[k]), TW_OK);
	for (uint32_t t = 0; t < STEPS; t++) { /* version v is in past[v % stages] */
		const float *now = past[t % stages], *used[STAGES_MAX];
		struct tw_score score;

		for (uint32_t k = 0; k < stages; k++) {
			const uint32_t delay = stages - 1 - k;

			used[k] = past[(t >= delay ? t - delay : 0) % stages];
		}
		staged_gradients(&all, used, t % SAMPLES, 1, 1, g, &score);
		for (uint32_t i = 0; i < o.dimension; i++)
			g[i] = now[i] - g[i];
		memcpy(past[(t + 1) % stages], g, o.dimension * sizeof *g);
	}
	for (uint32_t i = 0; i < WIDTH; i++)
		far = fmax(far, fabs((double)past[STEPS % stages][s * WIDTH + i]));
	e->class->close(e);
	return far;
}

static void delays_of_stages_have_their_limits(void **state)
{
	for (uint32_t stages = 1; stages <= 5; stages++)
		for (uint32_t s = 0; s < stages; s++) {
			const double limit = 2 * sin(acos(-1) / (2 * (2 * (stages - 1.0 - s) + 1)));
			const enum staged_way way = (stages + s) % STAGED_WAYS;
			const double below = after_delays(stages, s, 0.98 * limit, way);
			const double above = after_delays(stages, s, 1.02 * limit, way);

			if (!(below < 0.1 && above > 10))
				fail_msg("stage %u of %u: %g below the limit, %g above", s, stages,
					 below, above);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stages_give_the_bits_of_the_whole),
		cmocka_unit_test(evaluates_by_stages),
		cmocka_unit_test(refuses_what_cannot_be),
		cmocka_unit_test(engines_without_cuts),
		cmocka_unit_test(delays_of_stages_have_their_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
