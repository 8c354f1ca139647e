/* SPDX-License-Identifier: Apache-2.0 */
/* test_hybrid.c - several workers, each cut into stages: rounds against a serial loop, staleness
 * against the order of contributions, what gates and policies promise for each stage. */
#include "job/hybrid_faults.h"
#include "job/pipe_loop.h"
#include "job/serial.h"
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
#define RATE 0.05f

/* --- rounds ------------------------------------------------------------------------------- */

/* One round: each worker adds up its micro-batches, then the workers' sums are added in the order
 * of slots. */
static void round_of(struct loop *l, uint64_t from, uint32_t workers, uint32_t m, uint32_t batch)
{
	for (uint32_t k = 0; k < workers; k++) {
		for (uint32_t j = 0; j < m; j++, from += batch) {
			gradient(l, l->w, from, batch);
			for (size_t i = 0; i < l->n; i++)
				l->own[i] = j ? l->own[i] + l->g[i] : l->g[i];
		}
		for (size_t i = 0; i < l->n; i++)
			l->sum[i] = k ? l->sum[i] + l->own[i] : l->own[i];
	}
	for (size_t i = 0; i < l->n; i++)
		l->sum[i] *= 1.0f / (float)(workers * m);
	tw_vec_sgd(l->w, l->w, l->sum, RATE, l->n, false);
}

static struct pipe_run *in_rounds(enum tw_world_kind world, uint32_t workers, uint32_t stages,
				  uint32_t m, const char *pipeline)
{
	return pipe_run(world,
			MLP "data: {source: digits, count: 48, tests: 22, batch: 4, accumulate: "
			    "%u}\ntrain: {epochs: 2, seed: 5}\nupdate: {rate: %g}\n"
			    "cluster: {workers: %u, stages: %u}\n"
			    "strategy: {gate: bsp, pipeline: %s}\n",
			m, (double)RATE, workers, stages, pipeline);
}

static void rounds_are_a_serial_loop(void **state)
{
	static const struct {
		uint32_t workers, stages, m;
		const char *pipeline;
	} cases[] = {
		{ 2, 3, 2, "gpipe" },
		{ 2, 3, 3, "1f1b-flush" },
		{ 3, 2, 4, "1f1b-flush" },
		{ 4, 5, 3, "{schedule: gpipe, recompute: true}" },
	};

	(void)state;
	for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
		for (int threads = 0; threads < 2; threads++) {
			struct pipe_run *r = in_rounds(threads ? TW_WORLD_THREADS : TW_WORLD_SIM,
						       cases[c].workers, cases[c].stages,
						       cases[c].m, cases[c].pipeline);
			const uint32_t each = cases[c].workers * cases[c].m * 4;
			struct loop l = loop_of(r);

			assert_int_equal(r->status, TW_OK);
			assert_int_equal(l.e->samples, 48);
			assert_int_equal(48 % each, 0);
			for (uint64_t at = 0; at < 96; at += each)
				round_of(&l, at, cases[c].workers, cases[c].m, 4);
			if (memcmp(r->vector, l.w, l.n * sizeof(float)) != 0)
				fail_msg("%u x %u, M %u, %s%s: the parameters differ",
					 cases[c].workers, cases[c].stages, cases[c].m,
					 cases[c].pipeline, threads ? ", threads" : "");
			loop_free(&l);
			pipe_free(r);
		}
}

/* Addition associates otherwise, and nothing else is different. */
static void replicas_are_more_micro_batches(void **state)
{
	struct pipe_run *two = in_rounds(TW_WORLD_SIM, 2, 3, 3, "1f1b-flush");
	struct pipe_run *one = in_rounds(TW_WORLD_SIM, 1, 3, 6, "1f1b-flush");

	(void)state;
	assert_int_equal(two->status, TW_OK);
	assert_int_equal(one->status, TW_OK);
	for (size_t i = 0; i < one->floats; i++)
		if (!(fabsf(two->vector[i] - one->vector[i]) <= 1e-6f))
			fail_msg("parameter %zu: %.9g and %.9g", i, (double)two->vector[i],
				 (double)one->vector[i]);
	pipe_free(two);
	pipe_free(one);
}

/* A round that does not wait for everybody closes alike at every stage. */
static void rounds_close_without_the_slowest(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		struct pipe_run *r = pipe_run(
			TW_WORLD_SIM,
			"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
			"data: {source: none, samples: 96, batch: 1, accumulate: 2}\n"
			"train: {epochs: 3, seed: %u}\nupdate: {rate: 0.01}\n"
			"cluster: {workers: 3, stages: 3}\n"
			"strategy: {gate: backup, extra: 1, pipeline: %s}\n"
			"sim: {compute: {law: exponential, mean: 600ms}, stragglers: {count: 1, "
			"slower: 4}, latency: 5ms}\n",
			seed, seed % 2 ? "gpipe" : "1f1b-flush");
		const struct tw_totals *t = &r->ran.totals;

		if (r->status != TW_OK)
			fail_msg("seed %u: %s", seed, r->ran.error.text);
		/* every shard has applied the same, and the rest was dropped on purpose */
		assert_true(t->dropped > 0);
		assert_true(t->applied + (double)t->dropped == 288);
		for (uint32_t s = 1; s < r->t.job->plan.problem.shards; s++) {
			assert_int_equal(r->taus[s], r->taus[0]);
			assert_memory_equal(r->slot[s], r->slot[0],
					    r->taus[0] * sizeof r->slot[0][0]);
		}
		pipe_free(r);
	}
}

/* --- staleness ---------------------------------------------------------------------------- */

struct law {
	const char *compute;
	uint32_t workers, stages, m, collect; /* contributions of an update */
	const char *pipeline;
	bool flushes;
};

static struct pipe_run *without_rounds(enum tw_world_kind world, const struct law *c, uint32_t seed)
{
	char gate[60];

	snprintf(gate, sizeof gate, c->collect > 1 ? "gate: softsync, collect: %u" : "gate: async",
		 c->collect);
	return pipe_run(world,
			"model: {quadratic: {dimension: %u, noise: 0.1, stages: %u}}\n"
			"data: {source: none, samples: 1200, batch: 1, accumulate: %u}\n"
			"train: {epochs: 1, seed: %u}\nupdate: {rate: 0.001}\n"
			"cluster: {workers: %u, stages: %u}\nstrategy: {%s, pipeline: %s}\n"
			"checkpoint: {every: 0s}\nsim: {compute: %s, latency: 1us}\n",
			4 * c->stages, c->stages, c->m, seed, c->workers, c->stages, gate,
			c->pipeline, c->compute);
}

/* Own contributions that were answered when the forward of the first micro-batch of group g looks
 * at its parameters. */
static uint32_t seen_by(const struct law *c, uint32_t stage, uint32_t group)
{
	const uint32_t ahead = c->stages - 1 - stage, micro = group * c->m;

	if (c->flushes)
		return group;
	return micro < ahead ? 0 : (micro - ahead) / c->m;
}

/* Each contribution is as late as the order of all of them says; *mean: of the middle half. */
static void check_shard(const struct pipe_run *r, const struct law *c, uint32_t shard, double *mean)
{
	const uint32_t stage = r->t.job->plan.staging.stage_of[shard], count = r->taus[shard];
	uint32_t *after = calloc((size_t)c->workers * PIPE_TAUS, sizeof *after);
	uint32_t made[8] = { 0 }, first[8] = { 0 };
	double sum = 0;
	uint32_t in = 0;

	assert_non_null(after);
	assert_int_equal(count, 1200 / c->m);
	for (uint32_t a = 0; a < count; a++) {
		const uint32_t slot = r->slot[shard][a], g = made[slot]++;
		const uint32_t saw = seen_by(c, stage, g);
		uint32_t read;

		if (!g) { /* its first look was some time after the others' */
			assert_true(r->tau[shard][a] <= a / c->collect);
			first[slot] = a / c->collect - r->tau[shard][a];
		}
		read = saw ? after[slot * PIPE_TAUS + saw - 1] : first[slot];
		after[slot * PIPE_TAUS + g] = (a + 1) / c->collect;
		if (r->tau[shard][a] != a / c->collect - read)
			fail_msg("%s, %u x %u, M %u, stage %u: contribution %u is %u late, not %u",
				 c->pipeline, c->workers, c->stages, c->m, stage, a,
				 r->tau[shard][a], a / c->collect - read);
		if (a >= count / 4 && a < 3 * count / 4) {
			sum += r->tau[shard][a];
			in++;
		}
	}
	*mean = sum / in;
	free(after);
}

/* With N workers, stage s of K has N (K - s) micro-batches that have read and are not applied; so
 * many less one come between, and softsync's c of them are one update. */
static void staleness_is_that_of_the_stage(void **state)
{
	static const char equal[] = "{mean: 1s}", drawn[] = "{law: exponential, mean: 1s}";
	static const struct law cases[] = {
		{ equal, 2, 3, 1, 1, "pipedream", false },
		{ drawn, 2, 3, 1, 1, "pipedream", false },
		{ drawn, 3, 4, 1, 1, "{schedule: pipedream, stash: false}", false },
		{ drawn, 4, 2, 3, 1, "pipedream", false },
		{ drawn, 3, 3, 2, 1, "gpipe", true },
		{ drawn, 3, 3, 4, 1, "1f1b-flush", true },
		{ equal, 4, 3, 1, 2, "pipedream", false },
		{ drawn, 4, 3, 1, 4, "pipedream", false },
		{ drawn, 4, 3, 2, 3, "gpipe", true },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
		for (uint32_t seed = 1; seed <= 3; seed++) {
			const struct law *c = &cases[k];
			struct pipe_run *r = without_rounds(TW_WORLD_SIM, c, seed);

			if (r->status != TW_OK)
				fail_msg("%s: %s", c->pipeline, r->ran.error.text);
			for (uint32_t s = 0; s < r->t.job->plan.problem.shards; s++) {
				const uint32_t stage = r->t.job->plan.staging.stage_of[s];
				const uint32_t depth = c->flushes ? 1 : c->stages - stage;
				double mean;

				check_shard(r, c, s, &mean);
				if (c->m == 1 &&
				    !(fabs(mean - (c->workers * depth - 1.0) / c->collect) < 0.3))
					fail_msg("%s, stage %u: %g late on average, not %g",
						 c->pipeline, stage, mean,
						 (c->workers * depth - 1.0) / c->collect);
			}
			pipe_free(r);
		}
}

/* --- ssp ---------------------------------------------------------------------------------- */

/* How far the first stage of each worker is, and how far ahead of the slowest somebody began. */
struct leads {
	const struct tw_plan *plan;
	uint32_t shard; /* the first of the first stage */
	uint32_t applied[8], begun[8];
	uint64_t seq[8];
	int64_t most;
};

static bool see_lead(void *arg, const struct tw_note *n)
{
	struct leads *l = arg;
	uint32_t least = UINT32_MAX, clock;

	if (n->kind == TW_NOTE_APPLY && n->shard == l->shard && l->seq[n->slot] != n->seq) {
		l->seq[n->slot] = n->seq;
		l->applied[n->slot]++;
	}
	if (n->kind != TW_NOTE_STEP)
		return true;
	l->begun[n->slot]++;
	if (n->from >= 900) /* later on there may be nothing left for some */
		return true;
	for (uint32_t k = 0; k < l->plan->crew.workers; k++)
		least = l->applied[k] < least ? l->applied[k] : least;
	clock = l->applied[n->slot];
	if ((int64_t)clock - least > l->most)
		l->most = (int64_t)clock - least;
	return true;
}

static int64_t lead_of(const char *gate, const char *pipeline, uint32_t m, uint32_t seed)
{
	struct pipe_run *r = pipe_open(
		TW_WORLD_SIM,
		"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		"data: {source: none, samples: 1200, batch: 1, accumulate: %u}\n"
		"train: {epochs: 1, seed: %u}\nupdate: {rate: 0.001}\n"
		"cluster: {workers: 3, stages: 3}\nstrategy: {%s, pipeline: %s}\n"
		"checkpoint: {every: 0s}\n"
		"sim: {compute: {law: exponential, mean: 1s}, stragglers: {count: 1, slower: 5}, "
		"latency: 1ms}\n",
		m, seed, gate, pipeline);
	struct leads l = { .plan = &r->t.job->plan };

	r->also = see_lead;
	r->also_arg = &l;
	while (l.plan->staging.stage_of[l.shard])
		l.shard++;
	pipe_go(r);
	if (r->status != TW_OK || r->ran.totals.applied < 1200)
		fail_msg("%s, %s, seed %u: %s, %g samples", gate, pipeline, seed, r->ran.error.text,
			 r->ran.totals.applied);
	pipe_free(r);
	return l.most;
}

static void nobody_begins_too_far_ahead(void **state)
{
	static const char *const pipelines[] = { "pipedream", "gpipe", "1f1b-flush",
						 "{schedule: pipedream, stash: false}" };

	(void)state;
	for (size_t p = 0; p < 4; p++)
		for (uint32_t seed = 1; seed <= 4; seed++)
			for (uint32_t lead = 0; lead <= 3; lead += 1 + lead / 1 * 2) {
				const uint32_t m = 1 + seed % 2;
				char gate[40];
				int64_t most;

				snprintf(gate, sizeof gate, "gate: ssp, lead: %u", lead);
				most = lead_of(gate, pipelines[p], m, seed);
				if (most != lead)
					fail_msg("%s, lead %u, M %u, seed %u: %lld ahead",
						 pipelines[p], lead, m, seed, (long long)most);
				if (lead == 0)
					assert_true(lead_of("gate: async", pipelines[p], m, seed) >
						    5);
			}
}

/* Two workers that wait for each other at different stages would wait for ever. */
static void held_workers_never_wait_in_a_circle(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 30; seed++) {
		char fault[200];
		struct pipe_run *r;

		snprintf(fault, sizeof fault,
			 "{crash: worker 1.%u, at: %gs, restart: 300ms}, "
			 "{slow: worker 0.%u, factor: 6, at: %gs, lasts: 9s}",
			 seed % 4, 3 + 0.7 * seed, (seed + 1) % 4, 2 + 0.9 * seed);
		r = pipe_run(TW_WORLD_SIM,
			     "model: {quadratic: {dimension: 12, noise: 0.1, stages: 4}}\n"
			     "data: {source: none, samples: 300, batch: 1}\n"
			     "train: {epochs: 1, seed: %u}\nupdate: {rate: 0.001}\n"
			     "cluster: {workers: 3, stages: 4}\n"
			     "strategy: {gate: ssp, lead: 0, pipeline: pipedream}\n"
			     "sim: {compute: {law: exponential, mean: 600ms}, latency: 4ms, "
			     "closed_limit: 50ms, faults: [%s]}\n",
			     seed, fault);
		if (r->status != TW_OK || r->ran.totals.applied < 300)
			fail_msg("seed %u, %s: %s", seed, fault, r->ran.error.text);
		pipe_free(r);
	}
}

/* --- policies ----------------------------------------------------------------------------- */

/* dc-asgd at every stage: what is compared with is what the forward read, however long ago. */
static void policies_compare_with_what_the_forward_read(void **state)
{
	enum { MOST = 64 };
	static const struct formula delay = { .lambda = 0.5f };

	(void)state;
	for (uint32_t k = 2; k <= 5; k++) {
		struct pipe_run *r = pipe_run(
			TW_WORLD_SIM,
			MLP "data: {source: digits, count: 48, tests: 22, batch: 4}\n"
			    "train: {epochs: 2, seed: 5}\nupdate: {rate: %g}\n"
			    "cluster: {stages: %u}\nstrategy: {gate: async, pipeline: pipedream, "
			    "staleness: delay, lambda: 0.5}\n",
			(double)RATE, k);
		const struct tw_plan *p = &r->t.job->plan;
		struct loop l = loop_of(r);
		float *version = floats(l.n * (MOST + 1));
		uint32_t b = 0;

		assert_int_equal(r->status, TW_OK);
		memcpy(version, l.w, l.n * sizeof(float));
		for (uint64_t at = 0; at < 96; at += 4, b++) {
			const float *now = version + b * l.n;

			assert_true(b < MOST);
			for (uint32_t s = 0; s < p->problem.shards; s++) {
				const size_t from = p->problem.border[s];
				const uint32_t late = k - 1 - p->staging.stage_of[s];

				memcpy(l.w + from, version + (b < late ? 0 : b - late) * l.n + from,
				       (p->problem.border[s + 1] - from) * sizeof(float));
			}
			gradient(&l, l.w, at, 4);
			for (size_t i = 0; i < l.n; i++) {
				struct cell c = { .w = now[i], .sent = l.w[i], .factor = 1 };

				l.g[i] = correct_delay(&delay, &c, l.g[i]);
			}
			tw_vec_sgd(version + (b + 1) * l.n, now, l.g, RATE, l.n, false);
		}
		if (memcmp(r->vector, version + b * l.n, l.n * sizeof(float)) != 0)
			fail_msg("K %u: the parameters differ", k);
		free(version);
		loop_free(&l);
		pipe_free(r);
	}
}

/* Rules, policies and codecs that a hybrid takes, in both worlds: every sample is applied. */
static void hybrids_take_what_workers_take(void **state)
{
	static const char *const lines[] = {
		"update: {rule: momentum, rate: 0.01}\nstrategy: {gate: async, staleness: inverse",
		"update: {rule: adam, rate: 0.001}\nstrategy: {gate: softsync, collect: 2",
		"update: {rule: nadam, rate: 0.001}\nstrategy: {gate: ssp, lead: 1",
		"update: {rule: dana, rate: 0.001}\nstrategy: {gate: async",
		"update: {rule: multi, rate: 0.001}\nstrategy: {gate: async",
		"update: {rate: 0.01}\nstrategy: {gate: async, staleness: gap",
		"update: {rate: 0.01}\nstrategy: {gate: async, staleness: fasgd",
		"update: {rate: 0.01}\nstrategy: {gate: async, staleness: delay-adaptive",
		"update: {rate: 0.01}\nstrategy: {gate: ssp, codec: {up: int8, down: fp16}",
		"update: {rate: 0.01}\nstrategy: {gate: softsync, n: 1, codec: {up: bf16}",
	};
	static const char *const pipelines[] = { "pipedream", "gpipe", "1f1b-flush" };

	(void)state;
	for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
		for (int threads = 0; threads < 2; threads++) {
			struct pipe_run *r = pipe_run(
				threads ? TW_WORLD_THREADS : TW_WORLD_SIM,
				MLP
				"data: {source: digits, count: 48, tests: 22, batch: 4}\n"
				"train: {epochs: 2, seed: 5}\ncluster: {workers: 2, stages: 3}\n"
				"%s, pipeline: %s}\n",
				lines[k], pipelines[k % 3]);

			if (r->status != TW_OK || r->ran.totals.applied != 96)
				fail_msg("%s: %s, %g samples", lines[k], r->ran.error.text,
					 r->ran.totals.applied);
			for (size_t i = 0; i < r->floats; i++)
				assert_true(isfinite(r->vector[i]));
			pipe_free(r);
		}
}

/* --- lost cells --------------------------------------------------------------------------- */

static void lost_cells_end_nothing(void **state)
{
	(void)state;
	assert_true(hybrid_faults(1, 97) > 500);
}

/* --- leaving ------------------------------------------------------------------------------ */

/* At every moment of some rounds: within a group of micro-batches, and between two. */
static void who_leaves_ends_its_group(void **state)
{
	static const char *const strategy[] = { "gpipe", "pipedream-flush",
						"{name: pipedream, gate: async}" };

	(void)state;
	for (uint32_t k = 0; k < 3; k++)
		for (uint32_t at = 400; at < 700; at += 7) {
			struct pipe_run *r = pipe_run(
				TW_WORLD_SIM,
				"model: {quadratic: {dimension: 60, noise: 0.3, stages: 3}}\n"
				"data: {source: none, samples: 320, batch: 4, accumulate: 4}\n"
				"train: {epochs: 2, seed: 1}\nupdate: {rate: 0.02}\n"
				"cluster: {stages: 3, workers: 2, shards: 3}\nstrategy: %s\n"
				"sim: {compute: {law: constant, mean: 10ms}, latency: 1ms,\n"
				"      faults: [{leave: worker 1, at: %ums}]}\n",
				strategy[k], at);

			if (r->status != TW_OK || r->ran.totals.applied < 640)
				fail_msg("%s, worker 1 leaves at %u ms: %s, %llu samples applied",
					 strategy[k], at, tw_status_name(r->status),
					 (unsigned long long)r->ran.totals.applied);
			pipe_free(r);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_are_a_serial_loop),
		cmocka_unit_test(replicas_are_more_micro_batches),
		cmocka_unit_test(rounds_close_without_the_slowest),
		cmocka_unit_test(staleness_is_that_of_the_stage),
		cmocka_unit_test(nobody_begins_too_far_ahead),
		cmocka_unit_test(held_workers_never_wait_in_a_circle),
		cmocka_unit_test(policies_compare_with_what_the_forward_read),
		cmocka_unit_test(hybrids_take_what_workers_take),
		cmocka_unit_test(lost_cells_end_nothing),
		cmocka_unit_test(who_leaves_ends_its_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
