/* SPDX-License-Identifier: Apache-2.0 */
/* test_lanes.c - stages that several cells compute in turn: rounds against a serial loop, staleness
 * against the order of contributions and the interpreter, lost cells, and what is refused. */
#include "job/hybrid_faults.h"
#include "job/pipe_loop.h"
#include "job/reading.h"
#include "job/serial.h"
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

#define MLP                                                                                        \
	"model: {layers: [linear 12, tanh, linear 11, relu, linear 12, sigmoid, linear 9, relu, "  \
	"linear 10]}\n"
#define RATE    0.05f
#define SAMPLES 48
#define BATCH   4
#define EPOCHS  2

static struct pipe_run *digits(enum tw_world_kind world, uint32_t m, const char *cluster,
			       const char *strategy)
{
	return pipe_run(world,
			MLP "data: {source: digits, count: 48, tests: 22, batch: 4, accumulate: "
			    "%u}\ntrain: {epochs: 2, seed: 5, evaluate: 1}\nupdate: {rate: %g}\n"
			    "cluster: {%s}\nstrategy: {%s}\n",
			m, (double)RATE, cluster, strategy);
}

/* --- rounds ------------------------------------------------------------------------------- */

static void one_lane_each_is_no_lanes(void **state)
{
	static const char *const strategies[] = {
		"gate: bsp, pipeline: gpipe",
		"gate: bsp, pipeline: 1f1b-flush",
		"gate: async, pipeline: pipedream",
		"gate: async, pipeline: gpipe",
		"gate: async, pipeline: {schedule: pipedream, vertical: true}",
		"gate: async, pipeline: 2bw",
	};

	(void)state;
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
		for (int threads = 0; threads < 2; threads++) {
			const enum tw_world_kind world = threads ? TW_WORLD_THREADS : TW_WORLD_SIM;
			struct pipe_run *a = digits(world, 3, "stages: 3", strategies[k]);
			struct pipe_run *b = digits(world, 3, "lanes: [1, 1, 1]", strategies[k]);

			pipe_same(a, b, strategies[k]);
			if (!threads)
				assert_int_equal(a->ran.virtual_ns, b->ran.virtual_ns);
			pipe_free(a);
			pipe_free(b);
		}
}

struct rounds {
	uint32_t workers, m;
	uint32_t lanes[3];
	const char *pipeline;
};

/* Add up what each lane has of the micro-batches of one worker, then the lanes' sums in order, as
 * the shards of a stage of r lanes do. */
static void add_lanes(struct loop *l, const float *g, uint32_t count, uint32_t r, size_t from,
		      size_t to, bool first)
{
	for (size_t i = from; i < to; i++)
		for (uint32_t lane = 0; lane < r && lane < count; lane++) {
			float own = g[lane * l->n + i];

			for (uint32_t j = lane + r; j < count; j += r)
				own += g[j * l->n + i];
			l->sum[i] = first && !lane ? own : l->sum[i] + own;
		}
}

/* One round from this position on; returns where the next one begins. */
static uint64_t round_of(struct loop *l, const struct tw_plan *p, const struct rounds *c, float *g,
			 uint64_t from)
{
	const uint64_t end = (from / SAMPLES + 1) * SAMPLES;
	uint32_t micros = 0;

	for (uint32_t k = 0; k < c->workers && from < end; k++) {
		uint32_t n = 0;

		for (; n < c->m && from < end; n++, from += BATCH) {
			gradient(l, l->w, from, BATCH);
			memcpy(g + n * l->n, l->g, l->n * sizeof *g);
		}
		for (uint32_t s = 0; s < p->problem.shards; s++)
			add_lanes(l, g, n, c->lanes[p->staging.stage_of[s]], p->problem.border[s],
				  p->problem.border[s + 1], k == 0);
		micros += n;
	}
	for (size_t i = 0; i < l->n; i++)
		l->sum[i] *= 1.0f / (float)micros;
	tw_vec_sgd(l->w, l->w, l->sum, RATE, l->n, false);
	return from;
}

static struct pipe_run *in_rounds(enum tw_world_kind world, const struct rounds *c)
{
	char cluster[100], strategy[100];

	snprintf(cluster, sizeof cluster, "workers: %u, lanes: [%u, %u, %u]", c->workers,
		 c->lanes[0], c->lanes[1], c->lanes[2]);
	snprintf(strategy, sizeof strategy, "gate: bsp, pipeline: %s", c->pipeline);
	return digits(world, c->m, cluster, strategy);
}

static void is_serial(const struct pipe_run *r, const struct rounds *c, const char *what)
{
	struct loop l = loop_of(r);
	float *g = floats(l.n * c->m);

	if (r->status != TW_OK)
		fail_msg("%s: %s", what, r->ran.error.text);
	assert_int_equal(l.e->samples, SAMPLES);
	for (uint64_t at = 0; at < EPOCHS * SAMPLES;)
		at = round_of(&l, &r->t.job->plan, c, g, at);
	if (memcmp(r->vector, l.w, l.n * sizeof(float)) != 0)
		fail_msg("%s: the parameters differ", what);
	free(g);
	loop_free(&l);
}

/* Also where the last round of an epoch has fewer micro-batches than a stage has lanes. */
static const struct rounds rounds[] = {
	{ 1, 4, { 2, 1, 1 }, "gpipe" },
	{ 1, 4, { 2, 1, 1 }, "1f1b-flush" },
	{ 1, 6, { 3, 1, 1 }, "1f1b-flush" },
	{ 1, 5, { 2, 1, 2 }, "gpipe" },
	{ 1, 5, { 3, 2, 5 }, "1f1b-flush" },
	{ 1, 7, { 1, 4, 2 }, "{schedule: gpipe, recompute: true}" },
	{ 2, 4, { 2, 1, 2 }, "1f1b-flush" },
	{ 2, 5, { 3, 5, 1 }, "gpipe" },
};

static void rounds_are_a_serial_loop(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof rounds / sizeof rounds[0]; k++)
		for (int threads = 0; threads < 2; threads++) {
			const struct rounds *c = &rounds[k];
			struct pipe_run *r =
				in_rounds(threads ? TW_WORLD_THREADS : TW_WORLD_SIM, c);
			char what[200];

			snprintf(what, sizeof what, "%u x [%u, %u, %u], M %u, %s%s", c->workers,
				 c->lanes[0], c->lanes[1], c->lanes[2], c->m, c->pipeline,
				 threads ? ", threads" : "");
			is_serial(r, c, what);
			assert_true(r->ran.totals.applied == EPOCHS * SAMPLES);
			assert_int_equal(r->ran.totals.steps, EPOCHS * SAMPLES / BATCH);
			pipe_free(r);
		}
}

/* Addition associates otherwise, and nothing else is different. */
static void lanes_are_micro_batches_of_one_worker(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof rounds / sizeof rounds[0]; k++) {
		const struct rounds *c = &rounds[k];
		struct pipe_run *r = in_rounds(TW_WORLD_SIM, c), *one;
		char cluster[60];

		snprintf(cluster, sizeof cluster, "workers: %u", c->workers);
		one = digits(TW_WORLD_SIM, c->m, cluster, "gate: bsp");
		assert_int_equal(r->status, TW_OK);
		assert_int_equal(one->status, TW_OK);
		for (size_t i = 0; i < one->floats; i++)
			if (!(fabsf(r->vector[i] - one->vector[i]) <= 1e-6f))
				fail_msg("case %zu, parameter %zu: %.9g and %.9g", k, i,
					 (double)r->vector[i], (double)one->vector[i]);
		pipe_free(r);
		pipe_free(one);
	}
}

/* Where a lane has one micro-batch of a group, sums are made in the same order. */
static void as_many_lanes_as_micro_batches_change_no_bit(void **state)
{
	struct pipe_run *one = digits(TW_WORLD_SIM, 4, "workers: 1", "gate: bsp");
	static const char *const clusters[] = { "lanes: [4, 4, 4]", "lanes: [4, 1, 4]",
						"lanes: [1, 4]" };

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct pipe_run *r =
			digits(TW_WORLD_SIM, 4, clusters[k], "gate: bsp, pipeline: 1f1b-flush");

		pipe_same(r, one, clusters[k]);
		pipe_free(r);
	}
	pipe_free(one);
}

/* --- staleness ---------------------------------------------------------------------------- */

struct law {
	const char *compute, *pipeline;
	uint32_t workers, m;
	uint32_t lanes[3];
	bool in_step; /* lanes take turns: the interpreter's number is met exactly */
};

#define MICROS 600

static struct pipe_run *without_rounds(enum tw_world_kind world, const struct law *c, uint32_t seed)
{
	return pipe_run(world,
			"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
			"data: {source: none, samples: %u, batch: 1, accumulate: %u}\n"
			"train: {epochs: 1, seed: %u}\nupdate: {rate: 0.001}\n"
			"cluster: {workers: %u, lanes: [%u, %u, %u]}\n"
			"strategy: {gate: async, pipeline: %s}\n"
			"checkpoint: {every: 0s}\nsim: {compute: %s, latency: 1us}\n",
			MICROS, c->m, seed, c->workers, c->lanes[0], c->lanes[1], c->lanes[2],
			c->pipeline, c->compute);
}

/* Own contributions that were answered when the forward of the first micro-batch of a lane's group
 * g looks at its parameters. */
static uint32_t seen_by(const struct law *c, uint32_t stage, uint32_t group)
{
	uint32_t after = 0, ahead, micro = group * c->m;

	for (uint32_t s = stage + 1; s < 3; s++)
		after += c->lanes[s];
	ahead = (after + c->lanes[stage] - 1) / c->lanes[stage];
	return micro < ahead ? 0 : (micro - ahead) / c->m;
}

/* Each contribution is as late as the order of all of them says. */
static void check_shard(const struct pipe_run *r, const struct law *c, uint32_t shard)
{
	const struct tw_plan *p = &r->t.job->plan;
	const uint32_t stage = p->staging.stage_of[shard], count = r->taus[shard];
	const uint32_t senders = c->workers * c->lanes[stage];
	uint32_t *after = calloc((size_t)senders * PIPE_TAUS, sizeof *after);
	uint32_t made[16] = { 0 }, first[16] = { 0 };

	assert_non_null(after);
	for (uint32_t a = 0; a < count; a++) {
		const uint32_t who = r->slot[shard][a], g = made[who]++;
		const uint32_t saw = seen_by(c, stage, g);
		uint32_t read;

		assert_true(who < senders);
		if (!g) /* its first look was some time after the others' */
			first[who] = a - r->tau[shard][a];
		read = saw ? after[who * PIPE_TAUS + saw - 1] : first[who];
		after[who * PIPE_TAUS + g] = a + 1;
		if (r->tau[shard][a] != a - read)
			fail_msg("%s, %u x [%u, %u, %u], M %u, stage %u: contribution %u is %u "
				 "late, not %u",
				 c->pipeline, c->workers, c->lanes[0], c->lanes[1], c->lanes[2],
				 c->m, stage, a, r->tau[shard][a], a - read);
		if (c->in_step && a > count / 4 && a < 3 * count / 4)
			assert_int_equal(r->tau[shard][a], p->staging.stage[stage].keeps.late);
	}
	for (uint32_t k = 0; k < senders; k++)
		assert_true(made[k] > 0);
	free(after);
}

static void staleness_is_that_of_the_lane(void **state)
{
	static const char equal[] = "{mean: 1s}", drawn[] = "{law: exponential, mean: 1s}";
	static const char bare[] = "{schedule: pipedream, stash: false}";
	static const struct law cases[] = {
		{ equal, "pipedream", 1, 1, { 3, 1, 1 }, true },
		{ equal, "pipedream", 1, 1, { 2, 1, 2 }, true },
		{ equal, "pipedream", 1, 1, { 4, 2, 1 }, true },
		{ equal, "pipedream", 1, 1, { 1, 3, 2 }, false },
		{ drawn, "pipedream", 1, 1, { 3, 2, 1 }, false },
		{ drawn, "pipedream", 1, 2, { 2, 3, 1 }, false },
		{ drawn, bare, 1, 1, { 2, 1, 3 }, false },
		{ drawn, "pipedream", 2, 1, { 2, 1, 2 }, false },
		{ drawn, "pipedream", 3, 3, { 1, 2, 1 }, false },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		for (uint32_t seed = 1; seed <= 3; seed++)
			for (int threads = 0; threads < 2; threads++) {
				const struct law *c = &cases[k];
				struct pipe_run *r = without_rounds(
					threads ? TW_WORLD_THREADS : TW_WORLD_SIM, c, seed);
				struct law loose = *c;

				if (r->status != TW_OK)
					fail_msg("case %zu: %s", k, r->ran.error.text);
				assert_true(r->ran.totals.applied == MICROS);
				loose.in_step = c->in_step && !threads;
				for (uint32_t s = 0; s < r->t.job->plan.problem.shards; s++)
					check_shard(r, &loose, s);
				pipe_free(r);
			}
}

/* What cells keep is what the plan says, and lanes share a stream evenly. */
static void lanes_keep_what_the_plan_says(void **state)
{
	static const struct law c = { "{mean: 1s}", "pipedream", 1, 1, { 3, 2, 1 }, true };
	struct pipe_run *r = without_rounds(TW_WORLD_SIM, &c, 1);
	const struct tw_plan *p = &r->t.job->plan;

	(void)state;
	assert_int_equal(tw_plan_cells(p), 6);
	for (uint32_t cell = 0; cell < 6; cell++) {
		const struct tw_stage_note n = tw_stage_figures_of(r->figures, 0, cell);
		const struct tw_stage *s = &p->staging.stage[tw_plan_stage_of(p, cell)];

		assert_int_equal(n.work.forwards, MICROS / s->lanes);
		assert_int_equal(n.work.backwards, MICROS / s->lanes);
		assert_int_equal(n.work.depth, s->keeps.depth);
		assert_int_equal(n.work.versions, s->keeps.versions);
	}
	pipe_free(r);
}

/* --- time --------------------------------------------------------------------------------- */

/* A first stage of 3 units of work in 3 lanes feeds a second of 1: no cell idles in between. */
static void lanes_balance_unequal_stages(void **state)
{
	static const char *const clusters[] = { "stages: 2", "lanes: [3, 1]" };
	double span[2];

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct pipe_run *r =
			pipe_run(TW_WORLD_SIM,
				 "model: {quadratic: {dimension: 8, noise: 0.1, stages: 4}}\n"
				 "data: {source: none, samples: 240, batch: 1}\n"
				 "train: {epochs: 1}\nupdate: {rate: 0.01}\ncluster: {%s}\n"
				 "strategy: pipedream\ncheckpoint: {every: 0s}\n"
				 "sim: {compute: {mean: 8s, backward: 1}, latency: 0s, local: 0s, "
				 "bandwidth: 0bit/s}\n",
				 clusters[k]);

		assert_int_equal(r->status, TW_OK);
		span[k] = (double)tw_stage_figures_span(r->figures) / 1e9;
		pipe_free(r);
	}
	/* halves of 4 s each, one after the other; then quarters: 6 s in three lanes, and 2 s */
	NEAR(span[0], 240 * 4 + 2 * 2, 1e-6);
	assert_true(span[1] < 240 * 2 + 20);
}

/* --- faults ------------------------------------------------------------------------------- */

static void lost_lanes_end_nothing(void **state)
{
	(void)state;
	assert_true(lane_faults(1, 199) > 400);
}

static struct pipe_run *resetting(const char *faults)
{
	return pipe_run(
		TW_WORLD_SIM,
		"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		"data: {source: none, samples: 30, batch: 1, accumulate: 4}\n"
		"train: {epochs: 2, seed: 3}\nupdate: {rate: 0.01}\n"
		"cluster: {lanes: [2, 1, 3]}\nstrategy: pipedream-flush\n"
		"sim: {compute: {law: exponential, mean: 600ms}, latency: 4ms, jitter: 3ms, "
		"faults: [%s]}\n",
		faults);
}

/* Connections between any two cells that break are made anew, and change nothing. */
static void broken_links_change_no_bit(void **state)
{
	struct pipe_run *calm = resetting("");

	(void)state;
	for (double at = 0.05; at < 12; at += 0.31)
		for (uint32_t a = 0; a < 6; a++) {
			const uint32_t b = (a + 1 + (uint32_t)(10 * at) % 5) % 6;
			struct pipe_run *r;
			char fault[200];

			snprintf(fault, sizeof fault,
				 "{reset: worker 0.%u, to: worker 0.%u, at: %gs}, {reset: worker "
				 "0.%u, to: worker 0.%u, at: %gs}",
				 a, b, at, b, a, at + 0.003);
			r = resetting(fault);
			pipe_same(r, calm, fault);
			assert_int_equal(r->ran.totals.redealt, 0);
			pipe_free(r);
		}
	pipe_free(calm);
}

/* --- checkpoints -------------------------------------------------------------------------- */

/* Every lane has a part of a checkpoint for what its codec owes. */
static void a_stopped_run_goes_on(void **state)
{
	static const char *const strategies[] = {
		"{gate: bsp, pipeline: gpipe}",
		"{gate: bsp, pipeline: 1f1b-flush, codec: {up: topk, up_share: 0.3}}",
		"{gate: bsp, pipeline: gpipe, codec: {up: onebit}}",
	};

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct outcome o;
		char text[1000];

		snprintf(text, sizeof text,
			 "model: {quadratic: {dimension: 24, noise: 0.1, stages: 3}}\n"
			 "data: {source: none, samples: 40, batch: 1, accumulate: 4}\n"
			 "train: {epochs: 3, seed: 2}\nupdate: {rate: 0.01}\n"
			 "cluster: {workers: 2, lanes: [2, 1, 3]}\nstrategy: %s\n"
			 "checkpoint: {every: 3s, cut: drain}\nsim: {compute: {mean: 1s}}\n",
			 strategies[k]);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		outcome_run(&o, NULL);
		outcome_stops_change_nothing(&o, text, NULL);
		outcome_close(&o);
	}
}

/* --- refused ------------------------------------------------------------------------------ */

static void what_does_not_fit_is_refused(void **state)
{
#define HEAD                                                                                       \
	"model: {quadratic: {dimension: 12, stages: 3}}\ndata: {source: none, samples: 20, "       \
	"batch: "                                                                                  \
	"1%s}\n"
	static const struct {
		const char *data, *rest, *sentence;
	} cases[] = {
		{ "", "cluster: {lanes: [2, 1]}\n", "cluster.lanes" },
		{ "", "cluster: {stages: 3, lanes: [2, 1]}\nstrategy: pipedream\n",
		  "has 2 numbers for 3 stages" },
		{ "", "cluster: {lanes: [2, 0]}\nstrategy: pipedream\n", "cluster.lanes" },
		{ "", "cluster: {lanes: [2, 1.5]}\nstrategy: pipedream\n",
		  "1.5 is no number of nodes" },
		{ ", accumulate: 2", "cluster: {lanes: [3, 1]}\nstrategy: gpipe\n",
		  "2 micro-batches per update are too few for 3 lanes" },
		{ ", accumulate: 13", "cluster: {lanes: [2, 3]}\nstrategy: gpipe\n",
		  "use at most 12" },
		{ ", accumulate: 7", "cluster: {lanes: [2, 1]}\nstrategy: pipedream\n",
		  "use at most 6" },
		{ ", accumulate: 2", "cluster: {lanes: [2, 1]}\nstrategy: pipedream-2bw\n",
		  "no version is the same at every stage" },
		{ "",
		  "cluster: {lanes: [2, 1]}\nstrategy: {gate: async, pipeline: {schedule: "
		  "pipedream, vertical: true}}\n",
		  "use vertical: false" },
		{ ", accumulate: 2",
		  "cluster: {lanes: [2, 1]}\nstrategy: {gate: async, pipeline: gpipe}\n",
		  "share an update" },
		{ "", "cluster: {lanes: [2, 1]}\nstrategy: {gate: ssp, pipeline: pipedream}\n",
		  "every lane makes some" },
		{ "",
		  "cluster: {workers: 2, lanes: [2, 1]}\nstrategy: {gate: softsync, collect: 2, "
		  "pipeline: pipedream}\n",
		  "every lane makes some" },
		{ "",
		  "cluster: {lanes: [2, 1]}\nupdate: {rule: dana}\nstrategy: {gate: async, "
		  "pipeline: pipedream}\n",
		  "keeps something for every worker" },
	};
	char text[1000], data[300];

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_error why = { 0 };
		struct tw_job *job = NULL;

		snprintf(data, sizeof data, HEAD, cases[k].data);
		snprintf(text, sizeof text, "%strain: {epochs: 1}\n%s", data, cases[k].rest);
		assert_int_equal(read_job(text, NULL, NULL, TW_WORLD_SIM, &job, &why),
				 TW_BAD_INPUT);
		has(why.text, cases[k].sentence);
		assert_true(is_sentence(why.text));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_lane_each_is_no_lanes),
		cmocka_unit_test(rounds_are_a_serial_loop),
		cmocka_unit_test(lanes_are_micro_batches_of_one_worker),
		cmocka_unit_test(as_many_lanes_as_micro_batches_change_no_bit),
		cmocka_unit_test(staleness_is_that_of_the_lane),
		cmocka_unit_test(lanes_keep_what_the_plan_says),
		cmocka_unit_test(lanes_balance_unequal_stages),
		cmocka_unit_test(lost_lanes_end_nothing),
		cmocka_unit_test(broken_links_change_no_bit),
		cmocka_unit_test(a_stopped_run_goes_on),
		cmocka_unit_test(what_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
