/* SPDX-License-Identifier: Apache-2.0 */
/* test_act.c - activations that are encoded between stages: against a serial chain of passes, bytes
 * as they are counted and predicted, numbers that are not finite. */
#include "job/pipes.h"
#include "strategy/codec.h"
#include "vec/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RATE 0.05f

static const char *const codecs[] = { "fp16", "bf16", "int8", "int8, act_tile: 32" };

/* A residual connection goes around the middle: two values cross there. */
static struct pipe_run *coded(enum tw_world_kind world, uint32_t stages, const char *codec,
			      const char *pipeline)
{
	return pipe_run(world,
			"model: {layers: [conv 4 5x5 stride 2, relu, {residual: [conv 4 3x3 pad 1, "
			"relu, conv 4 3x3 pad 1]}, relu, maxpool 2, linear 12, tanh, linear 10]}\n"
			"data: {source: digits, count: 48, tests: 20, batch: 4}\n"
			"train: {epochs: 2, seed: 5}\nupdate: {rate: %g}\ncluster: {stages: %u}\n"
			"strategy: {gate: async, pipeline: %s, codec: {act: %s}}\n",
			(double)RATE, stages, pipeline, codec);
}

/* --- a serial chain ----------------------------------------------------------------------- */

static float *floats(size_t n)
{
	float *x = aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64);

	assert_non_null(x);
	memset(x, 0, n * sizeof *x);
	return x;
}

/* There and back: what the other side reads. */
static void travel(const struct tw_plan *p, float *x, size_t n, uint64_t position, uint32_t stage,
		   bool back)
{
	const struct tw_traffic *t = &p->traffic;
	const struct tw_rng rng = tw_rng_make(p->seed, TW_RNG_ACT);
	const struct tw_encoding of = { .rng = &rng,
					.draw = position,
					.first = (uint64_t)stage << 33 | (uint64_t)back << 32 };
	size_t len = t->act->bound(t->act_options, n);
	uint8_t *bytes = malloc(len + 1);

	assert_non_null(bytes);
	assert_int_equal(t->act->encode(t->act_options, NULL, &of, x, n, bytes, &len), TW_OK);
	assert_int_equal(tw_codec_decode(t->act, t->act_options, bytes, len, x, n), TW_OK);
	free(bytes);
}

/* The gradient of one batch through all stages, into g as the vector has its elements. */
static void chain(const struct pipe_run *r, float *w, uint64_t from, float *g)
{
	const struct tw_plan *p = &r->t.job->plan;
	const struct tw_engine *e = r->t.engine;
	const uint32_t stages = p->staging.stages;
	const struct tw_piece piece = { w, 0, r->floats };
	const struct tw_inputs in = { .from = from, .count = 4, .piece = &piece, .pieces = 1 };
	void *scratch = aligned_alloc(64, (e->scratch_bytes + 127) / 64 * 64);
	float *x[8] = { NULL }, *dx[8] = { NULL }, *change = floats(r->floats);
	struct tw_score score;

	for (uint32_t s = 0; s < stages; s++) {
		const struct tw_stage *t = &p->staging.stage[s];
		const struct tw_pass pass = { .kind = TW_PASS_FORWARD,
					      .first = t->first,
					      .last = t->last,
					      .x = x[s],
					      .y = t->sends ? (x[s + 1] = floats(t->sends))
							    : NULL };

		assert_int_equal(e->class->run(e, scratch, &in, &pass, NULL, &score), TW_OK);
		if (t->sends)
			travel(p, x[s + 1], t->sends, from, s + 1, false);
	}
	for (uint32_t s = stages; s-- > 0;) {
		const struct tw_stage *t = &p->staging.stage[s];
		const struct tw_pass pass = { .kind = TW_PASS_BACKWARD,
					      .first = t->first,
					      .last = t->last,
					      .x = x[s],
					      .dy = dx[s + 1],
					      .dx = t->returns ? (dx[s] = floats(t->returns))
							       : NULL };
		const size_t at = t->in->trainable, n = t->out->trainable - at;

		assert_int_equal(e->class->run(e, scratch, &in, &pass, change, &score), TW_OK);
		memcpy(g + at, change, n * sizeof(float));
		if (t->returns)
			travel(p, dx[s], t->returns, from, s - 1, true);
	}
	for (uint32_t s = 0; s < 8; s++) {
		free(x[s]);
		free(dx[s]);
	}
	free(change);
	free(scratch);
}

static void stages_read_what_the_codec_left(void **state)
{
	(void)state;
	for (size_t c = 0; c < 4; c++)
		for (uint32_t k = 2; k <= 4; k++)
			for (int threads = 0; threads < 2; threads++) {
				struct pipe_run *r =
					coded(threads ? TW_WORLD_THREADS : TW_WORLD_SIM, k,
					      codecs[c], k % 2 ? "gpipe" : "1f1b-flush");
				float *w = floats(r->floats), *g = floats(r->floats);
				const struct tw_engine *e = r->t.engine;

				if (r->status != TW_OK)
					fail_msg("%s: %s", codecs[c], r->ran.error.text);
				assert_int_equal(e->class->init(e, 0, r->floats, w), TW_OK);
				for (uint64_t at = 0; at < 96; at += 4) {
					chain(r, w, at, g);
					tw_vec_sgd(w, w, g, RATE, r->floats, false);
				}
				if (memcmp(w, r->vector, r->floats * sizeof(float)) != 0)
					fail_msg("%s, K %u%s: the parameters differ", codecs[c], k,
						 threads ? ", threads" : "");
				free(w);
				free(g);
				pipe_free(r);
			}
}

/* --- bytes -------------------------------------------------------------------------------- */

static void bytes_are_those_of_the_codec(void **state)
{
	static const double per_float[] = { 2, 2, 1 + 4.0 / 256, 1 + 4.0 / 32 };

	(void)state;
	for (size_t c = 0; c < 4; c++) {
		struct pipe_run *r = coded(TW_WORLD_SIM, 3, codecs[c], "pipedream");
		struct pipe_run *plain = coded(TW_WORLD_SIM, 3, "fp32", "pipedream");

		assert_int_equal(r->status, TW_OK);
		for (uint32_t s = 0; s < 3; s++) {
			const struct tw_stage *t = &r->t.job->plan.staging.stage[s];
			const uint64_t was = tw_stage_figures_of(plain->figures, 0, s).work.sent;
			const uint64_t is = tw_stage_figures_of(r->figures, 0, s).work.sent;

			assert_int_equal(is, 24 * (t->send_bytes + t->return_bytes));
			assert_int_equal(was, 24 * 4 * (t->sends + t->returns));
			/* the last tile of a message may be short */
			assert_true((double)is <=
				    24 * (per_float[c] * (double)(t->sends + t->returns) + 8));
			assert_true((double)is >=
				    24 * per_float[c] * (double)(t->sends + t->returns) - 1e-6);
		}
		/* the world counts them, too */
		assert_true(r->ran.bytes_sent < plain->ran.bytes_sent);
		/* and it still learns the same */
		for (size_t i = 0; i < r->floats; i++)
			assert_true(fabsf(r->vector[i] - plain->vector[i]) < 0.05f);
		pipe_free(plain);
		pipe_free(r);
	}
}

/* Activations that are not finite travel as they are, and shards refuse what comes of them. */
static void numbers_that_are_not_finite_end_nothing(void **state)
{
	(void)state;
	for (size_t c = 0; c < 4; c++)
		for (int threads = 0; threads < 2; threads++) {
			struct pipe_run *r =
				pipe_run(threads ? TW_WORLD_THREADS : TW_WORLD_SIM,
					 "model: {layers: [linear 12, linear 12, linear 12, linear "
					 "12, linear 12, "
					 "linear 12, linear 12, linear 12, linear 10]}\n"
					 "data: {source: digits, count: 48, tests: 20, batch: 4}\n"
					 "train: {epochs: 2, seed: 5}\nupdate: {rate: 1e6}\n"
					 "cluster: {stages: 3}\nstrategy: {gate: async, pipeline: "
					 "pipedream, "
					 "codec: {act: %s}}\n",
					 codecs[c]);

			if (r->status != TW_OK || !r->ran.totals.refused)
				fail_msg("%s: %s, %llu refused", codecs[c], r->ran.error.text,
					 (unsigned long long)r->ran.totals.refused);
			for (size_t i = 0; i < r->floats; i++)
				assert_true(isfinite(r->vector[i]));
			pipe_free(r);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stages_read_what_the_codec_left),
		cmocka_unit_test(bytes_are_those_of_the_codec),
		cmocka_unit_test(numbers_that_are_not_finite_end_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
