/* SPDX-License-Identifier: Apache-2.0 */
/* test_limits.c - limits as positions, warm starts, shard borders, and the hash of a job. */
#include "job/reading.h"
#include "base/rng.h"
#include "run/open_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ENDLESS ((uint64_t)1 << 62)
#define HUNDRED "data: {samples: 100, batch: 4}\nmodel: {quadratic: {dimension: 20}}\n"

static void limits_become_positions(void **state)
{
	static const struct {
		const char *text;
		uint64_t positions, updates;
		double epochs; /* the schedule's */
	} cases[] = {
		{ HUNDRED, 100, 0, 1 },
		{ HUNDRED "train: {epochs: 2.5}\n", 250, 0, 2.5 },
		{ HUNDRED "train: {steps: 10}\n", 40, 0, 0.4 },
		{ HUNDRED "train: {steps: 1000, epochs: 2}\n", 200, 0, 2 },
		{ HUNDRED "train: {steps: 10, epochs: 2}\n", 40, 0, 0.4 },
		{ HUNDRED "train: {time: 5s}\n", ENDLESS, 0, 0 },
		{ HUNDRED "train: {time: 5s, epochs: 3}\n", 300, 0, 3 },
		{ HUNDRED "train: {updates: 10}\nstrategy: asgd\n", 40, 0, 0.4 },
		{ HUNDRED "train: {updates: 10}\n", ENDLESS, 10, 0.8 },
		{ HUNDRED "train: {updates: 10}\nstrategy: {push: 3}\n", 120, 0, 1.2 },
		{ HUNDRED "train: {updates: 10}\nstrategy: {gate: softsync, collect: 2}\n", 80, 0,
		  0.8 },
		{ HUNDRED "train: {updates: 10}\nstrategy: softsync\ncluster: {workers: 5}\n", 200,
		  0, 2 },
		{ HUNDRED "train: {updates: 10}\nstrategy: ssgd\n", ENDLESS, 10, 0.8 },
		{ HUNDRED "train: {updates: 10, epochs: 1}\nstrategy: ssgd\n", 100, 10, 0.8 },
		{ HUNDRED "train: {updates: 18446744073709551615}\nstrategy: asgd\n", 0, 0, 0 },
		{ "data: {samples: 100, batch: 4, accumulate: 3}\n"
		  "model: {quadratic: {dimension: 20}}\ntrain: {steps: 10}\n",
		  48, 0, 0.48 }, /* 10 batches of 4, and 2 more to make the last sum of 3 whole */
		{ "data: {samples: 100, batch: 4, accumulate: 5}\n"
		  "model: {quadratic: {dimension: 20}}\ntrain: {steps: 10}\n",
		  40, 0, 0.4 },
		{ "data: {samples: 100, batch: 4, accumulate: 3}\n"
		  "model: {quadratic: {dimension: 20}}\ntrain: {updates: 10}\nstrategy: asgd\n",
		  120, 0, 1.2 },
		/* slots of 3 workers get 3, 3, 4 of 10: 4 steps are one round and one step more */
		{ "data: {samples: 100, global_batch: 10}\nmodel: {quadratic: {dimension: 20}}\n"
		  "cluster: {workers: 3}\ntrain: {steps: 4}\n",
		  13, 0, 0.13 },
		{ "data: {samples: 100, global_batch: 10}\nmodel: {quadratic: {dimension: 20}}\n"
		  "cluster: {workers: 3}\ntrain: {steps: 5}\n",
		  16, 0, 0.16 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		const char *const none[] = { NULL };
		struct tw_job *job = NULL;
		struct tw_error why;
		const enum tw_status st =
			read_job(cases[k].text, none, NULL, TW_WORLD_SIM, &job, &why);

		if (cases[k].positions == 0) { /* more than the row takes */
			assert_int_equal(st, TW_BAD_INPUT);
			continue;
		}
		if (st != TW_OK)
			fail_msg("%s", why.text);
		if (job->plan.dealing.positions != cases[k].positions)
			fail_msg("%llu positions, not %llu:\n%s",
				 (unsigned long long)job->plan.dealing.positions,
				 (unsigned long long)cases[k].positions, cases[k].text);
		assert_true(job->plan.ends.updates == cases[k].updates);
		assert_true(fabs(job->plan.schedule.epochs - cases[k].epochs) < 1e-12);
		tw_job_free(job);
	}
}

static void the_largest_numbers_do_not_wrap(void **state)
{
	struct tw_job *job = good_job(HUNDRED "train: {steps: 1000000000000000000}\n",
				      "data.batch=25", TW_WORLD_SIM);

	(void)state;
	assert_true(job->plan.dealing.positions == ENDLESS);
	tw_job_free(job);
	job = good_job("data: {samples: 1000000000000000, batch: 1}\n"
		       "model: {quadratic: {dimension: 2}}\ntrain: {epochs: 1000000000}\n",
		       NULL, TW_WORLD_SIM);
	assert_true(job->plan.dealing.positions == ENDLESS);
	tw_job_free(job);
}

static void warm_starts(void **state)
{
	struct tw_job *job = good_job(HUNDRED "train: {warm: {workers: 1, for: 0.2 epochs}}\n",
				      NULL, TW_WORLD_SIM);

	(void)state;
	assert_int_equal(job->plan.dealing.warm_workers, 1);
	assert_true(job->plan.dealing.warm_until == 20);
	tw_job_free(job);
	job = good_job(HUNDRED "strategy: downpour\n", NULL, TW_WORLD_SIM);
	assert_true(job->plan.dealing.warm_workers == 1 && job->plan.dealing.warm_until == 10);
	assert_int_equal(job->warnings, 0);
	tw_job_free(job);
	/* the user can do without a preset's own, by either of its fields */
	job = good_job(HUNDRED "strategy: downpour\n", "train.warm.workers=0", TW_WORLD_SIM);
	assert_true(job->plan.dealing.warm_workers == 0 && job->plan.dealing.warm_until == 0);
	assert_int_equal(job->warnings, 0);
	tw_job_free(job);
	job = good_job(HUNDRED "strategy: strom\ncluster: {workers: 4}\n"
			       "train: {warm: {for: 0 epochs}}\n",
		       NULL, TW_WORLD_SIM);
	assert_true(job->plan.dealing.warm_workers == 0 && job->plan.dealing.warm_until == 0);
	tw_job_free(job);
	/* a preset's own that cannot be is left out, and that is said */
	job = good_job(HUNDRED "strategy: downpour\ncluster: {workers: 1}\n", NULL, TW_WORLD_SIM);
	assert_true(job->plan.dealing.warm_workers == 0 && job->plan.dealing.warm_until == 0);
	assert_int_equal(job->warnings, 1);
	tw_job_free(job);
	job = good_job(HUNDRED "strategy: downpour\ntrain: {steps: 1}\n", NULL, TW_WORLD_SIM);
	assert_true(job->plan.dealing.warm_workers == 0);
	tw_job_free(job);
}

static void the_plan_has_the_job(void **state)
{
	struct tw_job *job = good_job(
		HUNDRED
		"train: {seed: 5, evaluate: 0.5, until: {loss: 0.25}, time: 3s, epochs: 9}\n"
		"update: {rate: 0.5, decay: 0.25, clip: 2, rule: momentum}\n"
		"cluster: {workers: 1, min: 1, wait: 2s, servers: 1, limit: 7s}\n"
		"strategy: {codec: {up: fp16, down: bf16}}\n"
		"checkpoint: {every: 9s}\nsim: {delay: {steps: 4, law: uniform, ramp: 2 epochs}}\n",
		NULL, TW_WORLD_SIM);
	const struct tw_plan *p = &job->plan;

	(void)state;
	assert_true(p->seed == 5 && p->problem.samples == 100 && p->dealing.batch == 4 &&
		    p->dealing.global_batch == 0 && p->dealing.accumulate == 1);
	assert_true(p->evaluate_every == 0.5 && p->ends.loss == 0.25 && isnan(p->ends.accuracy));
	assert_true(p->ends.time == 3000000000 && p->crew.wait == 2000000000 &&
		    p->crew.limit == 7000000000);
	assert_true(p->crew.workers == 1 && p->crew.min == 1 && p->crew.servers == 1);
	assert_true(p->schedule.rate == 0.5 && p->decay == 0.25f && p->clip == 2.0f);
	assert_string_equal(p->far.rule->name, "momentum");
	assert_string_equal(p->traffic.up->name, "fp16");
	assert_string_equal(p->traffic.down->name, "bf16");
	assert_non_null(p->gate_options);
	assert_non_null(p->far.options);
	assert_null(p->local.rule);
	assert_true(isnan(p->traffic.skip_push) && isnan(p->traffic.skip_fetch));
	assert_true(p->delay.steps == 4 && p->delay.law == TW_DELAY_UNIFORM && p->delay.ramp == 2);
	assert_true(p->checkpoint.every == 9000000000 && p->checkpoint.drain);
	assert_false(tw_sha_none(&p->checkpoint.job_hash));
	tw_job_free(job);
}

static void engine_of(const char *text, struct tw_job **job, struct tw_engine **engine)
{
	struct tw_error why = { 0 };

	*job = good_job(text, NULL, TW_WORLD_SIM);
	if (tw_job_open_engine(*job, &tw_heap_system, engine, &why) != TW_OK)
		fail_msg("%s", why.text);
}

static void finished_plans(void **state)
{
	static const struct {
		const char *text;
		uint32_t shards;
	} cases[] = {
		{ "data: {samples: 8}\nmodel: {quadratic: {dimension: 20}}\n", 1 },
		{ "data: {samples: 8}\nmodel: {quadratic: {dimension: 262144}}\n", 1 },
		{ "data: {samples: 8}\nmodel: {quadratic: {dimension: 262145}}\n", 2 },
		{ "data: {samples: 8}\nmodel: {quadratic: {dimension: 6000000}}\n", 16 },
		{ "data: {samples: 8}\nmodel: {quadratic: {dimension: 20}}\ncluster: {shards: 7}\n",
		  7 },
		{ "data: {samples: 8}\nmodel: {quadratic: {dimension: 20}}\ncluster: {servers: "
		  "3}\n",
		  3 },
		{ "data: {samples: 8}\nmodel: {least-squares: {dimension: 20}}\ncluster: {shards: "
		  "20}\n",
		  20 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_engine *engine;
		struct tw_error why = { 0 };
		struct tw_job *job;

		engine_of(cases[k].text, &job, &engine);
		assert_int_equal(tw_job_finish_plan(job, engine, &why), TW_OK);
		assert_int_equal(job->plan.problem.shards, cases[k].shards);
		assert_true(job->plan.problem.trainable == engine->trainable &&
			    job->plan.problem.tests >= 1);
		assert_true(job->plan.problem.border[0] == 0);
		assert_true(job->plan.problem.border[cases[k].shards] ==
			    engine->trainable + engine->buffers);
		engine->class->close(engine);
		tw_job_free(job);
	}
}

static void more_shards_than_parameters(void **state)
{
	static const char *const texts[] = {
		"data: {samples: 8}\nmodel: {quadratic: {dimension: 20}}\ncluster: {shards: 21}\n",
		"data: {samples: 8}\nmodel: {quadratic: {dimension: 20}}\ncluster: {servers: 21}\n",
	};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct tw_engine *engine;
		struct tw_error why = { 0 };
		struct tw_job *job;

		engine_of(texts[k], &job, &engine);
		assert_int_equal(tw_job_finish_plan(job, engine, &why), TW_BAD_INPUT);
		assert_non_null(strstr(why.text, "job.yaml:3: cluster.s"));
		assert_non_null(strstr(why.text, "20 parameters; use 1 to 20"));
		engine->class->close(engine);
		tw_job_free(job);
	}
}

/* The job with its plan, and its text: from before the plan was made, or after. */
static struct tw_job *planned(const char *text, bool early, char **said)
{
	struct tw_error why = { 0 };
	struct tw_engine *engine;
	struct tw_job *job;

	engine_of(text, &job, &engine);
	*said = early ? explained(job) : NULL;
	if (tw_job_finish_plan(job, engine, &why) != TW_OK)
		fail_msg("%s", why.text);
	if (!early)
		*said = explained(job);
	engine->class->close(engine);
	return job;
}

/* The text of a job means the run that the job means, whether its data were read or not. */
static void an_explained_limit_is_the_limit(void **state)
{
	static const char *const limits[] = { "time: 5s", "steps: 700", "updates: 300",
					      "time: 5s, epochs: 2", "epochs: 0, time: 5s" };

	(void)state;
	for (size_t k = 0; k < 2 * (sizeof limits / sizeof limits[0]); k++) {
		char text[300], *first, *second;
		struct tw_job *job, *again;

		snprintf(text, sizeof text,
			 "data: {source: digits, count: 60, tests: 10, batch: 4}\n"
			 "model: {layers: [linear 10]}\ntrain: {%s}\n",
			 limits[k / 2]);
		job = planned(text, k % 2, &first);
		again = planned(first, k % 2, &second);
		assert_string_equal(first, second);
		assert_true(job->plan.dealing.positions == again->plan.dealing.positions);
		assert_true(job->plan.ends.time == again->plan.ends.time);
		assert_true(job->plan.ends.updates == again->plan.ends.updates);
		free(first);
		free(second);
		tw_job_free(job);
		tw_job_free(again);
	}
}

static bool is_start(const size_t *tensor, size_t tensors, size_t at)
{
	for (size_t k = 0; k <= tensors; k++)
		if (tensor[k] == at)
			return true;
	return false;
}

/* Cuts that all lie between tensors, none of the shards twice the even length. */
static bool between(const size_t *tensor, size_t tensors, const size_t *border, uint32_t shards)
{
	const size_t most = 2 * (tensor[tensors] / shards + 1);

	for (uint32_t k = 0; k < shards; k++)
		if (!is_start(tensor, tensors, border[k]) || border[k + 1] - border[k] > most)
			return false;
	return true;
}

/* Can tensors be cut so at all?  By trying how few shards whole tensors fill. */
static bool can_be_between(const size_t *tensor, size_t tensors, uint32_t shards)
{
	const size_t most = 2 * (tensor[tensors] / shards + 1);
	size_t used = 1, from = 0;

	for (size_t t = 0; t < tensors; t++) {
		if (tensor[t + 1] - tensor[t] > most)
			return false;
		if (tensor[t + 1] - from > most) {
			used++;
			from = tensor[t];
		}
	}
	return tensors >= shards && used <= shards;
}

static void is_even_or_near(const size_t *tensor, size_t tensors, const size_t *border,
			    uint32_t shards)
{
	const size_t length = tensor[tensors] / shards, rest = tensor[tensors] % shards;

	for (uint32_t k = 1; k < shards; k++) {
		const size_t even = k * length + (k < rest ? k : rest);
		const size_t away = border[k] > even ? border[k] - even : even - border[k];
		bool near = false;

		assert_true(away <= length / 4);
		for (size_t t = 0; t <= tensors; t++) {
			const size_t d = tensor[t] > even ? tensor[t] - even : even - tensor[t];

			near = near || d <= length / 4;
			assert_true(d > length / 4 || d >= away); /* the nearest one */
		}
		assert_true(near == is_start(tensor, tensors, border[k]) || away == 0);
		assert_true(near || away == 0);
	}
}

/* Over many layouts: ascending, complete, between tensors where that can be, else near to even. */
static void borders_hold_their_word(void **state)
{
	const struct tw_rng rng = tw_rng_make(99, TW_RNG_TEST);
	size_t whole = 0, even = 0;

	(void)state;
	for (uint64_t run = 0; run < 3000; run++) {
		size_t tensor[41] = { 0 }, border[65];
		const size_t tensors = 1 + tw_rng_u64(&rng, run, 0) % 40;
		size_t total;
		uint32_t shards;

		for (size_t k = 0; k < tensors; k++)
			tensor[k + 1] =
				tensor[k] + 1 + tw_rng_u64(&rng, run, k + 1) % (run % 2 ? 3 : 5000);
		total = tensor[tensors];
		shards = 1 + (uint32_t)(tw_rng_u64(&rng, run, 100) % (total < 64 ? total : 64));
		tw_job_borders(tensor, tensors, shards, border);
		assert_true(border[0] == 0 && border[shards] == total);
		for (uint32_t k = 0; k < shards; k++)
			assert_true(border[k] < border[k + 1]);
		if (can_be_between(tensor, tensors, shards)) {
			assert_true(between(tensor, tensors, border, shards));
			whole += shards > 1;
		} else {
			is_even_or_near(tensor, tensors, border, shards);
			even++;
		}
	}
	assert_true(whole > 500 && even > 500);
}

/* The perceptron of the benchmarks: no tensor is cut, so no worker gathers one. */
static void a_large_tensor_is_left_whole(void **state)
{
	static const size_t tensor[] = { 0, 401408, 401920, 664064, 664576, 669696, 669706 };
	size_t border[4];

	(void)state;
	tw_job_borders(tensor, 6, 3, border);
	assert_int_equal(border[1], 401408);
	assert_int_equal(border[2], 664064);
}

/* Where the rate follows from the length of the run, a resumed run must have the same. */
static void a_schedule_over_the_run_keeps_its_length(void **state)
{
	static const char *const kinds[] = { "constant", "cosine", "linear" };

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		char text[300];
		struct tw_job *a, *b;

		snprintf(text, sizeof text, HUNDRED "update: {schedule: {kind: %s}}\n", kinds[k]);
		a = good_job(text, NULL, TW_WORLD_SIM);
		b = good_job(text, "train.epochs=9", TW_WORLD_SIM);
		assert_true(tw_sha_same(&a->plan.checkpoint.job_hash,
					&b->plan.checkpoint.job_hash) == (k == 0));
		tw_job_free(a);
		tw_job_free(b);
	}
}

/* Lengths of parts are 32 bits wide: what would pass them is refused before anything is made. */
static void parts_stay_below_4_gib(void **state)
{
	static const struct {
		const char *more;
		size_t n;
		const char *says; /* NULL: it fits */
	} cases[] = {
		{ "", ((size_t)1 << 30) - 1, NULL },
		{ "", (size_t)1 << 30, "at least 2" },
		{ "update: {rule: adam}\n", (size_t)1 << 29, "at least 2" },
		{ "cluster: {shards: 1, workers: 62}\nstrategy: multi-asgd\n", (size_t)1 << 26,
		  "use at least " },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		const size_t tensor[] = { 0, cases[k].n };
		const struct tw_engine engine = {
			.trainable = cases[k].n, .samples = 100, .tensor = tensor, .tensors = 1
		};
		struct tw_error why = { 0 };
		struct tw_job *job;
		char text[400];

		snprintf(text, sizeof text, HUNDRED "%s%s", cases[k].more,
			 strstr(cases[k].more, "cluster") ? "" : "cluster: {shards: 1}\n");
		job = good_job(text, NULL, TW_WORLD_SIM);
		assert_int_equal(tw_job_finish_plan(job, &engine, &why),
				 cases[k].says ? TW_BAD_INPUT : TW_OK);
		if (cases[k].says) {
			assert_non_null(strstr(why.text, "cluster.shards: "));
			assert_non_null(strstr(why.text, "4 GiB"));
			assert_non_null(strstr(why.text, cases[k].says));
		}
		tw_job_free(job);
	}
}

/* Looking for an end needs looks; they are in the plan, and in the explained job. */
static void until_brings_evaluations(void **state)
{
	struct tw_job *job = good_job(HUNDRED "train: {until: {loss: 0.5}}\n", NULL, TW_WORLD_SIM);

	(void)state;
	assert_true(job->plan.evaluate_every == 1);
	tw_job_free(job);
	job = good_job(HUNDRED "train: {until: {loss: 0.5}, evaluate: 0.25}\n", NULL, TW_WORLD_SIM);
	assert_true(job->plan.evaluate_every == 0.25);
	tw_job_free(job);
	job = good_job(HUNDRED, NULL, TW_WORLD_SIM);
	assert_true(job->plan.evaluate_every == 0);
	tw_job_free(job);
}

static void the_hash_is_of_what_must_stay(void **state)
{
	static const char base[] = HUNDRED "strategy: dc-asgd\n";
	static const char *const same[] = { "cluster.workers=7",    "cluster.servers=3",
					    "checkpoint.every=3s",  "checkpoint.cut=running",
					    "sim.threads=2",        "train.epochs=9",
					    "train.steps=50",       "train.time=3s",
					    "train.until.loss=0.5", "update.rate=0.2",
					    "update.clip=3" };
	static const char *const other[] = { "train.seed=2",
					     "update.decay=0.2",
					     "strategy.lambda=1",
					     "data.batch=2",
					     "model.quadratic.dimension=21",
					     "strategy.push=2",
					     "sim.latency=3ms",
					     "strategy.codec.up=fp16" };
	struct tw_job *job = good_job(base, NULL, TW_WORLD_SIM);
	const struct tw_sha hash = job->plan.checkpoint.job_hash;

	(void)state;
	tw_job_free(job);
	for (size_t k = 0; k < sizeof same / sizeof same[0]; k++) {
		job = good_job(base, same[k], TW_WORLD_SIM);
		if (!tw_sha_same(&job->plan.checkpoint.job_hash, &hash))
			fail_msg("%s changes the hash", same[k]);
		tw_job_free(job);
	}
	for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) {
		job = good_job(base, other[k], TW_WORLD_SIM);
		if (tw_sha_same(&job->plan.checkpoint.job_hash, &hash))
			fail_msg("%s does not change the hash", other[k]);
		tw_job_free(job);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_become_positions),
		cmocka_unit_test(the_largest_numbers_do_not_wrap),
		cmocka_unit_test(warm_starts),
		cmocka_unit_test(the_plan_has_the_job),
		cmocka_unit_test(finished_plans),
		cmocka_unit_test(more_shards_than_parameters),
		cmocka_unit_test(an_explained_limit_is_the_limit),
		cmocka_unit_test(borders_hold_their_word),
		cmocka_unit_test(a_large_tensor_is_left_whole),
		cmocka_unit_test(a_schedule_over_the_run_keeps_its_length),
		cmocka_unit_test(parts_stay_below_4_gib),
		cmocka_unit_test(until_brings_evaluations),
		cmocka_unit_test(the_hash_is_of_what_must_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
