/* SPDX-License-Identifier: Apache-2.0 */
/* test_pipeline.c - models cut into stages: the bits of one worker, delays of closed form, times
 * of unit moves, and what is refused. */
#include "cost/stages.h"
#include "job/pipes.h"
#include "job/reading.h"
#include "run/open_engine.h"
#include "kit/has.h"
#include "kit/near.h"
#include "vec/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define DIGITS "data: {source: digits, count: 70, tests: 23, batch: 4, accumulate: %u}\n"
#define MLP                                                                                        \
	"model: {layers: [linear 12, tanh, linear 11, relu, linear 12, sigmoid, linear 9, relu, "  \
	"linear 10]%s}\n"
/* statistics, draws, and a connection around layers */
#define NET                                                                                        \
	"model: {layers: [conv 4 5x5 stride 2, batchnorm, relu, {residual: [conv 4 3x3 pad 1, "    \
	"batchnorm, relu, conv 4 3x3 pad 1]}, relu, maxpool 2, dropout 0.2, linear 12, relu, "     \
	"dropout 0.3, linear 10]%s}\n"
#define TRAIN "train: {epochs: 2, seed: 5, evaluate: 1}\nupdate: {rate: 0.05}\n"

/* --- the same bits as one worker ---------------------------------------------------------- */

static struct pipe_run *alone(const char *model, uint32_t m, const char *gate, const char *more)
{
	char text[1500];

	snprintf(text, sizeof text, model, "");
	return pipe_run(TW_WORLD_SIM,
			"%s" DIGITS TRAIN "cluster: {workers: 1}\nstrategy: {gate: %s}\n%s", text,
			m, gate, more);
}

static struct pipe_run *staged(enum tw_world_kind world, const char *model, uint32_t k, uint32_t m,
			       const char *gate, const char *pipeline)
{
	char text[1500];

	snprintf(text, sizeof text, model, "");
	return pipe_run(world,
			"%s" DIGITS TRAIN
			"cluster: {stages: %u}\nstrategy: {gate: %s, pipeline: %s}\n",
			text, m, k, gate, pipeline);
}

static void compare(const char *model, uint32_t k, uint32_t m, const char *gate,
		    const char *pipeline, const struct pipe_run *one)
{
	for (int threads = 0; threads < 2; threads++) {
		struct pipe_run *r = staged(threads ? TW_WORLD_THREADS : TW_WORLD_SIM, model, k, m,
					    gate, pipeline);
		char what[200];

		snprintf(what, sizeof what, "%s, K %u, M %u, %s%s", pipeline, k, m, gate,
			 threads ? ", threads" : "");
		pipe_same(r, one, what);
		pipe_free(r);
	}
}

static void flush_schedules_give_the_bits_of_one_worker(void **state)
{
	static const char *const pipelines[] = {
		"gpipe",
		"1f1b-flush",
		"{schedule: gpipe, recompute: true}",
		"{schedule: 1f1b-flush, recompute: true}",
	};
	static const char *const gates[] = { "bsp", "async" };
	static const uint32_t micros[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	(void)state;
	for (size_t i = 0; i < sizeof micros / sizeof micros[0]; i++)
		for (size_t g = 0; g < 2; g++) {
			struct pipe_run *mlp = alone(MLP, micros[i], gates[g], "");
			struct pipe_run *net = alone(NET, micros[i], gates[g], "");

			for (uint32_t k = 1; k <= 5; k++) {
				const size_t p = (k + i + g) % 4; /* a sample of all */

				compare(MLP, k, micros[i], gates[g], pipelines[p], mlp);
				if (k <= 3 && i % 2)
					compare(NET, k, micros[i], gates[g], pipelines[p], net);
			}
			pipe_free(mlp);
			pipe_free(net);
		}
}

static void one_stage_is_the_fused_step(void **state)
{
	static const char *const pipelines[] = { "pipedream", "{schedule: pipedream, stash: false}",
						 "{schedule: pipedream, vertical: true}", "gpipe" };
	struct pipe_run *one = alone(NET, 1, "async", "");

	(void)state;
	for (size_t p = 0; p < 4; p++)
		compare(NET, 1, 1, "async", pipelines[p], one);
	pipe_free(one);
}

/* Where somebody says where to cut, and where cuts have many shards. */
static void cuts_and_shards_change_no_bit(void **state)
{
	struct pipe_run *one = alone(MLP, 4, "bsp", "");
	static const char *const cuts[] = { "[2, 4]", "[4, 6]", "[2, 8]", "[6, 8]" };
	char text[1500];

	(void)state;
	for (size_t c = 0; c < 4; c++) {
		char where[40];
		struct pipe_run *r;

		snprintf(where, sizeof where, ", stages: %s", cuts[c]);
		snprintf(text, sizeof text, MLP, where);
		r = pipe_run(TW_WORLD_SIM,
			     "%s" DIGITS TRAIN
			     "cluster: {shards: %u, servers: 2}\nstrategy: {gate: bsp, pipeline: "
			     "gpipe}\n",
			     text, 4, (uint32_t)(3 + 4 * c));
		assert_int_equal(r->t.job->plan.staging.stages, 3);
		assert_int_equal(r->t.job->plan.problem.shards, 3 + 4 * c);
		pipe_same(r, one, cuts[c]);
		pipe_free(r);
	}
	pipe_free(one);
}

/* Replicas add up in the order of their slots, whatever their stages. */
static void replicas_in_rounds_are_workers_in_rounds(void **state)
{
	char text[1500];

	(void)state;
	snprintf(text, sizeof text, MLP, "");
	for (uint32_t workers = 2; workers <= 3; workers++) {
		struct pipe_run *many = pipe_run(
			TW_WORLD_SIM, "%s" DIGITS TRAIN "cluster: {workers: %u}\nstrategy: ssgd\n",
			text, 3u, workers);

		for (uint32_t k = 2; k <= 4; k++) {
			struct pipe_run *r = pipe_run(
				TW_WORLD_SIM,
				"%s" DIGITS TRAIN
				"cluster: {workers: %u, stages: %u}\nstrategy: pipedream-flush\n",
				text, 3u, workers, k);

			pipe_same(r, many, "replicas");
			pipe_free(r);
		}
		pipe_free(many);
	}
}

/* --- delays ------------------------------------------------------------------------------- */

static void common_versions_are_delayed_sgd(void **state)
{
	char more[100];

	(void)state;
	for (uint32_t k = 2; k <= 5; k++) {
		struct pipe_run *one;

		snprintf(more, sizeof more, "sim: {delay: {steps: %u}}\n", k - 1);
		one = alone(MLP, 1, "async", more);
		compare(MLP, k, 1, "async", "{schedule: pipedream, vertical: true}", one);
		pipe_free(one);
		one = alone(MLP, 6, "async", "sim: {delay: {steps: 1}}\n");
		compare(MLP, k, 6, "async", "2bw", one);
		pipe_free(one);
	}
}

/* Stage s is min(b, K - 1 - s) updates late with micro-batch b, and keeps K - s versions. */
static void pipedream_is_late_by_its_place(void **state)
{
	(void)state;
	for (uint32_t k = 1; k <= 5; k++)
		for (int stash = 0; stash < 2; stash++) {
			struct pipe_run *r =
				staged(TW_WORLD_SIM, MLP, k, 1, "async",
				       stash ? "pipedream" : "{schedule: pipedream, stash: false}");
			const struct tw_plan *p = &r->t.job->plan;

			assert_int_equal(r->status, TW_OK);
			for (uint32_t s = 0; s < p->problem.shards; s++) {
				const uint32_t late = k - 1 - p->staging.stage_of[s];

				assert_int_equal(r->taus[s], 36);
				for (uint32_t b = 0; b < r->taus[s]; b++)
					assert_int_equal(r->tau[s][b], b < late ? b : late);
			}
			for (uint32_t s = 0; s < k; s++) {
				const struct tw_stage_note n =
					tw_stage_figures_of(r->figures, 0, s);

				assert_int_equal(n.work.depth, k - s);
				assert_int_equal(n.work.versions, stash ? k - s : 1);
			}
			pipe_free(r);
		}
}

/* Gradients of a serial network that is put together from the versions each stage has. */
static void stashed_gradients_are_those_of_a_serial_network(void **state)
{
	enum { MOST = 64 };

	(void)state;
	for (uint32_t k = 2; k <= 5; k++) {
		struct pipe_run *r = staged(TW_WORLD_SIM, MLP, k, 1, "async", "pipedream");
		const struct tw_plan *p = &r->t.job->plan;
		const struct tw_engine *e = r->t.engine;
		const size_t n = r->floats;
		float *version = malloc(n * (MOST + 1) * sizeof *version);
		float *w = aligned_alloc(64, (n + 16) * sizeof(float) / 64 * 64 + 64);
		float *g = aligned_alloc(64, (n + 16) * sizeof(float) / 64 * 64 + 64);
		void *scratch = aligned_alloc(64, (e->scratch_bytes + 64) / 64 * 64);
		uint32_t b = 0;

		assert_int_equal(e->class->init(e, 0, n, version), TW_OK);
		for (uint64_t at = 0; at < 2 * e->samples; b++) {
			const uint64_t left = e->samples - at % e->samples;
			const struct tw_piece piece = { w, 0, n };
			const struct tw_inputs in = { .from = at,
						      .count = left < 4 ? (uint32_t)left : 4,
						      .piece = &piece,
						      .pieces = 1 };
			struct tw_score score;

			assert_true(b < MOST);
			for (uint32_t s = 0; s < p->problem.shards; s++) {
				const size_t from = p->problem.border[s];
				const uint32_t late = k - 1 - p->staging.stage_of[s];

				memcpy(w + from, version + (b < late ? 0 : b - late) * n + from,
				       (p->problem.border[s + 1] - from) * sizeof(float));
			}
			assert_int_equal(e->class->gradient(e, scratch, &in, g, &score), TW_OK);
			tw_vec_sgd(version + (b + 1) * n, version + b * n, g, 0.05f, n, false);
			at += in.count;
		}
		assert_int_equal(r->status, TW_OK);
		assert_memory_equal(r->vector, version + b * n, n * sizeof(float));
		free(version);
		free(w);
		free(g);
		free(scratch);
		pipe_free(r);
	}
}

/* Without a stash the backward uses other parameters than the forward, and it shows. */
static void without_a_stash_gradients_are_of_nothing(void **state)
{
	struct pipe_run *with = staged(TW_WORLD_SIM, MLP, 4, 1, "async", "pipedream");
	struct pipe_run *without =
		staged(TW_WORLD_SIM, MLP, 4, 1, "async", "{schedule: pipedream, stash: false}");

	(void)state;
	assert_true(memcmp(with->vector, without->vector, with->floats * sizeof(float)) != 0);
	pipe_free(with);
	pipe_free(without);
}

/* --- stability ---------------------------------------------------------------------------- */

#define CALM "sim: {compute: {mean: 1s}, latency: 0s, bandwidth: 0bit/s}\n"

/* How far the parameters of a stage are from the optimum at the end. */
static double distance(uint32_t k, uint32_t m, const char *pipeline, uint32_t stage, double rate)
{
	struct pipe_run *r = pipe_run(
		TW_WORLD_SIM,
		"model: {quadratic: {dimension: %u, curvature: [1, 1], noise: 0, stages: %u}}\n"
		"data: {source: none, samples: 4096, batch: 1, accumulate: %u}\n"
		"train: {updates: 6000}\nupdate: {rate: %.9g}\ncluster: {stages: %u}\n"
		"strategy: {gate: async, pipeline: %s}\ncheckpoint: {every: 0s}\n" CALM,
		4 * k, k, m, rate, k, pipeline);
	double sum = 0;

	assert_int_equal(r->status, TW_OK);
	for (size_t i = 4 * stage; i < 4 * (stage + 1); i++)
		sum += fabs((double)r->vector[i]);
	pipe_free(r);
	return sum;
}

/* A quadratic of curvature 1 with a gradient that is tau late is stable below this rate. */
static double limit(uint32_t tau)
{
	return 2 * sin(acos(-1) / (2 * (2.0 * tau + 1)));
}

static void stages_are_stable_up_to_their_own_rate(void **state)
{
	(void)state;
	for (uint32_t k = 1; k <= 4; k++)
		for (uint32_t s = 0; s < k; s++) {
			const double at = limit(k - 1 - s);
			const double below = distance(k, 1, "pipedream", s, 0.98 * at);
			const double above = distance(k, 1, "pipedream", s, 1.02 * at);

			if (!(below < 1e-3 && above > 1e2))
				fail_msg("K %u, stage %u: %g below %g, %g above", k, s, below, at,
					 above);
		}
	for (uint32_t s = 0; s < 3; s++) {
		assert_true(distance(3, 2, "2bw", s, 0.98) < 1e-3);
		assert_true(distance(3, 2, "2bw", s, 1.02) > 1e2);
		assert_true(distance(3, 1, "{schedule: pipedream, vertical: true}", s,
				     0.98 * limit(2)) < 1e-3);
		assert_true(distance(3, 1, "{schedule: pipedream, vertical: true}", s,
				     1.02 * limit(2)) > 1e2);
	}
}

/* --- time, and what is kept --------------------------------------------------------------- */

static struct pipe_run *timed(uint32_t k, uint32_t m, uint32_t micros, double backward,
			      const char *gate, const char *pipeline)
{
	return pipe_run(TW_WORLD_SIM,
			"model: {quadratic: {dimension: %u, noise: 0.1, stages: %u}}\n"
			"data: {source: none, samples: %u, batch: 1, accumulate: %u}\n"
			"train: {epochs: 1}\nupdate: {rate: 0.01}\ncluster: {stages: %u}\n"
			"strategy: {gate: %s, pipeline: %s}\ncheckpoint: {every: 0s}\n"
			"sim: {compute: {mean: %.9gs, backward: %g}, latency: 0s, local: 0s, "
			"bandwidth: 0bit/s}\n",
			8 * k, k, micros, m, k, gate, pipeline, k * (1 + backward), backward);
}

/* What the plan says that cells keep is what they kept. */
static void keeps_as_planned(const struct pipe_run *r, uint32_t micros)
{
	const struct tw_plan *p = &r->t.job->plan;

	for (uint32_t s = 0; s < p->staging.stages; s++) {
		const struct tw_stage_note n = tw_stage_figures_of(r->figures, 0, s);
		const struct tw_stage *t = &p->staging.stage[s];
		const struct tw_stage_memory m = tw_cost_stage_memory(p, s);

		assert_int_equal(n.work.forwards, micros);
		assert_int_equal(n.work.backwards, micros);
		assert_int_equal(n.work.depth, t->keeps.depth);
		assert_int_equal(n.work.versions, t->keeps.versions);
		NEAR((double)n.work.memory, m.versions + m.activations, 0.5);
	}
}

static void times_are_those_of_the_closed_forms(void **state)
{
	static const char *const flush[] = { "gpipe", "1f1b-flush" };
	static const char *const stream[] = { "pipedream", "2bw" };

	(void)state;
	for (uint32_t k = 2; k <= 8; k *= 2)
		for (uint32_t m = 4; m <= 32; m++)
			for (int b = 1; b <= 2; b++)
				for (int i = 0; i < 2; i++) {
					struct pipe_run *r = timed(k, m, m, b, "bsp", flush[i]);
					const double span =
						(double)tw_stage_figures_span(r->figures) / 1e9;

					assert_int_equal(r->status, TW_OK);
					NEAR(span, (m + k - 1.0) * (1 + b), 1e-6);
					NEAR(tw_stage_figures_bubble(r->figures),
					     (k - 1.0) / (m + k - 1.0), 1e-8);
					if (m >= k)
						keeps_as_planned(r, m);
					pipe_free(r);
				}
	for (uint32_t k = 2; k <= 8; k *= 2)
		for (int i = 0; i < 2; i++) {
			struct pipe_run *r = timed(k, i ? 8 : 1, 64, 1, "async", stream[i]);

			assert_int_equal(r->status, TW_OK);
			NEAR((double)tw_stage_figures_span(r->figures) / 1e9,
			     2.0 * 64 + 2.0 * (k - 1), 1e-6);
			keeps_as_planned(r, 64);
			pipe_free(r);
		}
}

/* --- cells that are lost ------------------------------------------------------------------ */

static struct pipe_run *faulty(const char *strategy, const char *fault)
{
	return pipe_run(
		TW_WORLD_SIM,
		"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		"data: {source: none, samples: 24, batch: 1}\n"
		"train: {epochs: 2, evaluate: 1}\nupdate: {rate: 0.01}\n"
		"cluster: {stages: 3, servers: 2}\nstrategy: {name: %s}\n"
		"checkpoint: {every: 2s}\n"
		"sim: {compute: {law: exponential, mean: 600ms}, latency: 5ms, jitter: 4ms, "
		"closed_limit: 50ms, faults: [%s]}\n",
		strategy, fault);
}

/* A node that comes back: the run ends, and every sample was applied.  One that does not: it ends
 * as interrupted, unless it was lost too late to be missed. */
static void lose(const char *strategy, const char *node, uint64_t event, bool back)
{
	char fault[100];
	struct pipe_run *r;

	snprintf(fault, sizeof fault, "{crash: %s, event: %llu%s}", node, (unsigned long long)event,
		 back ? ", restart: 200ms" : "");
	r = faulty(strategy, fault);
	if (r->status != TW_OK && (back || r->status != TW_INTERRUPTED))
		fail_msg("%s, %s: %s: %s", strategy, fault, tw_status_name(r->status),
			 r->ran.error.text);
	/* what a lost server had applied since its checkpoint is lost with it */
	if (r->status == TW_OK && strchr(node, '.') && r->ran.totals.applied < 48)
		fail_msg("%s, %s: only %g samples are in", strategy, fault, r->ran.totals.applied);
	for (size_t i = 0; r->status == TW_OK && i < r->floats; i++)
		assert_true(isfinite(r->vector[i]));
	pipe_free(r);
}

static void lost_cells_end_nothing(void **state)
{
	static const char *const strategies[] = { "gpipe", "pipedream", "pipedream-2bw" };
	static const char *const nodes[] = { "worker 0.0", "worker 0.1", "worker 0.2", "server 0",
					     "master" };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct pipe_run *calm = faulty(strategies[i], "");
		const uint64_t events = calm->ran.events;

		assert_int_equal(calm->status, TW_OK);
		pipe_free(calm);
		for (size_t k = 0; k < 5; k++)
			for (uint64_t e = 1 + k; e < events; e += k < 3 ? 3 : 17) {
				lose(strategies[i], nodes[k], e, true);
				if (k < 3 && e % 2)
					lose(strategies[i], nodes[k], e, false);
			}
	}
}

/* Two workers of three cells: the last cells of both are lost for good.  Of the four that are left,
 * one becomes a last cell, and there is a whole worker again. */
static void survivors_fill_vacancies(void **state)
{
	static const char *const strategies[] = { "gpipe", "pipedream" };
	static const double at[] = { 0.5, 1.3, 2.6, 4.1, 5.0 };

	(void)state;
	for (int seed = 1; seed <= 4; seed++)
		for (size_t k = 0; k < 50; k++) {
			const char *strategy = strategies[k % 2];
			const double first = at[k / 2 % 5], second = at[k / 10];
			struct pipe_run *r = pipe_run(
				TW_WORLD_SIM,
				"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
				"data: {source: none, samples: 36, batch: 1}\n"
				"train: {epochs: 2, evaluate: 1, seed: %d}\nupdate: {rate: 0.01}\n"
				"cluster: {workers: 2, min: 1, stages: 3, wait: 20s}\n"
				"strategy: {name: %s}\ncheckpoint: {every: 2s}\n"
				"sim: {compute: {law: exponential, mean: 600ms}, latency: 5ms, "
				"jitter: 4ms, closed_limit: 50ms, faults: [{crash: worker 0.2, at: "
				"%gs}, {crash: worker 1.2, at: %gs}]}\n",
				seed, strategy, first, second + 0.001);

			if (r->status != TW_OK || r->ran.totals.applied < 72)
				fail_msg("%s, seed %d, lost at %g and %g s: %s: %s, %g samples are "
					 "in",
					 strategy, seed, first, second, tw_status_name(r->status),
					 r->ran.error.text, r->ran.totals.applied);
			pipe_free(r);
		}
}

static void broken_links_end_nothing(void **state)
{
	static const char *const faults[] = {
		"{reset: worker 0.0, to: worker 0.1, at: %gs}",
		"{reset: worker 0.2, to: worker 0.1, at: %gs}",
		"{reset: worker 0.1, to: server 0, at: %gs}",
		"{reset: worker 0.2, to: master, at: %gs}",
		"{partition: worker 0.1, from: everybody, at: %gs, lasts: 20s}",
		"{partition: worker 0.0, from: worker 0.1, at: %gs, lasts: 40s}",
		"{slow: worker 0.1, factor: 9, at: %gs, lasts: 3s}",
	};
	static const char *const strategies[] = { "pipedream-flush", "pipedream" };

	(void)state;
	for (size_t i = 0; i < 2; i++)
		for (size_t f = 0; f < sizeof faults / sizeof faults[0]; f++)
			for (double at = 0.1; at < 12; at += 0.7) {
				char text[120];
				struct pipe_run *r;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
				snprintf(text, sizeof text, faults[f], at);
#pragma GCC diagnostic pop
				r = faulty(strategies[i], text);
				if (r->status != TW_OK || r->ran.totals.applied < 48)
					fail_msg("%s, %s: %s: %s", strategies[i], text,
						 tw_status_name(r->status), r->ran.error.text);
				/* cells say again what was on its way: nobody is lost */
				if (f < 2 && r->ran.totals.redealt)
					fail_msg("%s, %s: %llu samples were dealt again",
						 strategies[i], text,
						 (unsigned long long)r->ran.totals.redealt);
				pipe_free(r);
			}
}

/* What a broken connection did not carry is said again, in order and once: the bits are those of a
 * run without it. */
static void broken_links_change_no_bit(void **state)
{
	struct pipe_run *calm = faulty("pipedream-flush", "");

	(void)state;
	for (double at = 0.05; at < 12; at += 0.31)
		for (int k = 0; k < 2; k++) {
			char text[200];
			struct pipe_run *r;

			snprintf(text, sizeof text,
				 "{reset: worker 0.%d, to: worker 0.1, at: %gs}, {reset: worker "
				 "0.1, to: worker 0.%d, at: %gs}",
				 2 * k, at, 2 * k, at + 0.003);
			r = faulty("pipedream-flush", text);
			pipe_same(r, calm, text);
			pipe_free(r);
		}
	pipe_free(calm);
}

/* --- refused ------------------------------------------------------------------------------ */

static void refuses(const char *text, enum tw_world_kind world, const char *sentence)
{
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	enum tw_status st = read_job(text, NULL, NULL, world, &job, &why);

	if (st == TW_OK) { /* what only the engine knows */
		struct tw_engine *e = NULL;

		st = tw_job_open_engine(job, &tw_heap_system, &e, &why);
		if (st == TW_OK)
			st = tw_job_finish_plan(job, e, &why);
		if (e)
			e->class->close(e);
		tw_job_free(job);
	}
	if (st != TW_BAD_INPUT || !strstr(why.text, sentence) || !is_sentence(why.text))
		fail_msg("%s\n%s: '%s' does not say '%s'", text, tw_status_name(st), why.text,
			 sentence);
}

#define CUT                                                                                        \
	"data: {source: none, samples: 64, batch: 1}\nmodel: {quadratic: {dimension: 8, stages: "  \
	"4}}\n"

static void what_makes_no_sense_is_refused(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{ "strategy: {gate: bsp, pipeline: pipedream}\n",
		  "strategy.gate: a round ends when" },
		{ "strategy: {gate: bsp, pipeline: 2bw}\ndata: {accumulate: 4}\n",
		  "strategy.gate: a round ends when" },
		{ "strategy: {gate: softsync, fresh: true, pipeline: gpipe}\n",
		  "strategy.gate: a gate that drops what is late" },
		{ "strategy: {gate: ringmaster, pipeline: pipedream}\n",
		  "strategy.gate: a gate that drops what is late" },
		{ "strategy: {gate: backup, extra: 1, abandon: true, pipeline: gpipe}\ncluster: "
		  "{workers: 3}\n",
		  "strategy.gate: a worker that gives up a round" },
		{ "strategy: gpipe\nupdate: {clip: 1}\n", "update.clip: the norm" },
		{ "strategy: {gate: async, pipeline: {schedule: pipedream, vertical: true}}\n"
		  "cluster: {workers: 2}\n",
		  "cluster.workers: with several asynchronous workers" },
		{ "strategy: pipedream-2bw\ncluster: {workers: 2}\n",
		  "cluster.workers: with several asynchronous workers" },
		{ "strategy: {gate: async, pipeline: {schedule: pipedream, vertical: true, stash: "
		  "false}}\n",
		  "strategy.pipeline.vertical: needs stash: true" },
		{ "strategy: gpipe\ncluster: {stages: 5}\n",
		  "cluster.stages: 5 stages do not fit this model, which can be cut in 3 places" },
		{ "cluster: {stages: 2}\n", "cluster.stages: stages need an order" },
		{ "strategy: {name: pipedream-2bw}\ndata: {accumulate: 2}\ncluster: {stages: 4}\n",
		  "data.accumulate: 2 micro-batches per update are too few" },
		{ "strategy: gpipe\ncluster: {stages: 4, shards: 2}\n",
		  "cluster.shards: 2 shards are too few" },
		{ "strategy: {gate: bsp, pipeline: gpipe, topology: ring}\n", "topology" },
		{ "strategy: {gate: async, pipeline: pipedream, fetch: 2}\n", "strategy.fetch" },
		{ "strategy: {gate: async, pipeline: pipedream, codec: {act: topk}}\n",
		  "strategy.codec.act: encodes gradients of parameters" },
		{ "strategy: {gate: async, codec: {act: fp16}}\n",
		  "strategy.codec.act: no activations travel" },
		{ "strategy: {gate: async, pipeline: pipedream, codec: {act: fp16}}\ncluster: "
		  "{stages: 1}\n",
		  "strategy.codec.act: no activations travel" },
		{ "strategy: {gate: async, pipeline: pipedream, send: delta, outer: {rule: "
		  "average}}\n",
		  "strategy.send: a stage sends" },
		{ "strategy: pipedream\nsim: {delay: {steps: 2}}\n", "sim.delay.steps" },
		{ "update: {rule: predict-momentum}\n", "update.rule: this rule predicts" },
		{ "strategy: {name: gpipe, pipeline: 1f1b-flush}\n", "contradicts the preset" },
		{ "strategy: {pipeline: pipedreams}\n", "did you mean 'pipedream'?" },
		{ "strategy: {gate: bsp, pipeline: {schedule: gpipe, stash: true}}\n",
		  "is valid only with strategy.pipeline.schedule: pipedream" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		char text[600];
		const bool data = strstr(cases[k].text, "data:");

		snprintf(text, sizeof text, "%s%s",
			 data ? "model: {quadratic: {dimension: 8, stages: 4}}\n" : CUT,
			 cases[k].text);
		refuses(text, TW_WORLD_SIM, cases[k].sentence);
	}
	refuses(CUT "strategy: {gate: hogwild, pipeline: pipedream}\n", TW_WORLD_THREADS,
		"strategy.gate: hogwild has no versions");
	refuses("data: {source: digits, count: 200, tests: 5, batch: 4}\nmodel: {layers: [linear "
		"8, "
		"relu, "
		"linear 10], stages: [1]}\nstrategy: gpipe\n",
		TW_WORLD_SIM, "model.stages: the model cannot be cut after layer 1");
	refuses("data: {source: digits, count: 200, tests: 5, batch: 4}\nmodel: {layers: [linear "
		"8, "
		"relu, "
		"linear 10], stages: [2]}\nstrategy: gpipe\ncluster: {stages: 3}\n",
		TW_WORLD_SIM, "model.stages: lists 1 layers");
	refuses("data: {source: digits, count: 200, tests: 5, batch: 4}\nmodel: {layers: [linear "
		"8, "
		"relu, "
		"linear 10], stages: [2]}\n",
		TW_WORLD_SIM, "model.stages: stages need an order");
	refuses("data: {source: none, samples: 8}\nmodel: {function: {}}\nstrategy: gpipe\n",
		TW_WORLD_SIM, "this model cannot be cut");
}

/* The resolved job says where `auto` cuts, and means the same. */
static void automatic_cuts_are_written_down(void **state)
{
	char text[1500];
	struct tw_job *again;
	struct trial t;
	char *said;

	(void)state;
	snprintf(text, sizeof text, MLP, "");
	trial_open(&t, TW_WORLD_SIM, "%s" DIGITS "cluster: {stages: 3}\nstrategy: gpipe\n", text,
		   4u);
	said = explained(t.job);
	has(said, "stages: [");
	has(said, "stages: 3");
	again = good_job(said, NULL, TW_WORLD_SIM);
	assert_string_equal(again->network.stages, t.job->network.stages);
	tw_job_free(again);
	free(said);
	trial_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flush_schedules_give_the_bits_of_one_worker),
		cmocka_unit_test(one_stage_is_the_fused_step),
		cmocka_unit_test(cuts_and_shards_change_no_bit),
		cmocka_unit_test(replicas_in_rounds_are_workers_in_rounds),
		cmocka_unit_test(common_versions_are_delayed_sgd),
		cmocka_unit_test(pipedream_is_late_by_its_place),
		cmocka_unit_test(stashed_gradients_are_those_of_a_serial_network),
		cmocka_unit_test(without_a_stash_gradients_are_of_nothing),
		cmocka_unit_test(stages_are_stable_up_to_their_own_rate),
		cmocka_unit_test(times_are_those_of_the_closed_forms),
		cmocka_unit_test(lost_cells_end_nothing),
		cmocka_unit_test(survivors_fill_vacancies),
		cmocka_unit_test(broken_links_end_nothing),
		cmocka_unit_test(broken_links_change_no_bit),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(automatic_cuts_are_written_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
