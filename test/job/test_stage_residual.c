/* SPDX-License-Identifier: Apache-2.0 */
/* test_stage_residual.c - what a codec owes belongs to the stage whose gradient it left out:
 * nothing of it is lost or gets to another stage, whatever is stopped, resumed or rolled back.
 *
 * Gradients are integers that depend on positions and parameters' numbers alone, and rates are 1,
 * so all arithmetic is exact: what was subtracted and what is owed is the sum of all gradients. */
#include "job/trial.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DIMENSION 24
#define SAMPLES   64
#define EPOCHS    3
#define BATCH     2
#define SLOTS     2
#define CELLS     3
#define PACE      "compute: {law: exponential, mean: 20ms}, latency: 1ms, jitter: 2ms"

static const char *const codecs[] = {
	"up: topk, up_share: 0.3",
	"up: randomk, up_share: 0.3",
	"up: threshold, up_tau: 4",
};
#define CODECS (sizeof codecs / sizeof codecs[0])

/* Schedules, the micro-batches of a contribution, and how often it counts: it is a mean, and where
 * sums are totals, one of so many micro-batches. */
static const struct {
	const char *strategy;
	uint32_t micros, weight, workers;
	uint32_t cells; /* of a worker, where three stages have lanes; 0: none has */
} schedules[] = {
	{ "name: gpipe, sum: total", 4, 4, 1 },
	{ "name: gpipe, sum: total", 4, 4, 2 },
	{ "name: pipedream-flush, sum: total", 4, 4, 2 },
	{ "name: pipedream", 1, 1, 1 },
	{ "name: pipedream", 1, 1, 2 },
	{ "name: pipedream", 1, 1, 1, 5 },
	{ "name: pipedream", 1, 1, 2, 5 },
	{ "name: pipedream-2bw", 4, 1, 1 },
};
#define LANES     ", lanes: [2, 1, 2]"
#define SCHEDULES (sizeof schedules / sizeof schedules[0])
#define ROUNDS    3 /* of the first ones */

struct ran {
	float w[DIMENSION]; /* what was subtracted */
	float owed[SLOTS][DIMENSION];
	unsigned parts; /* of cells */
	struct tw_tally tally;
	uint64_t events;
	unsigned unusable;
};

/* --- an engine of integers ---------------------------------------------------------------- */

static float value(uint64_t position, size_t i)
{
	const uint64_t mixed = (position * 2654435761u + i * 40503u) >> 4;

	return (float)(mixed % 31) - 15.0f;
}

static enum tw_status integers(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       const struct tw_pass *p, float *change, struct tw_score *score)
{
	const uint32_t last = p->last ? p->last : (uint32_t)e->cuts - 1;
	const size_t from = e->cut[p->first].trainable, to = e->cut[last].trainable;

	(void)scratch;
	*score = (struct tw_score){ .loss = 1, .correct = -1, .samples = in->count };
	if (p->kind == TW_PASS_FORWARD && p->y)
		memset(p->y, 0, tw_model_cut_floats(&e->cut[last], in->count, false) * 4);
	if (p->kind != TW_PASS_BACKWARD && p->kind != TW_PASS_GRADIENT)
		return TW_OK;
	if (p->dx)
		memset(p->dx, 0, tw_model_cut_floats(&e->cut[p->first], in->count, true) * 4);
	for (size_t i = from; i < to; i++) {
		change[i - from] = 0;
		for (uint32_t k = 0; k < in->count; k++)
			change[i - from] += value(in->from + k, i) / (float)in->count;
	}
	return TW_OK;
}

/* --- runs --------------------------------------------------------------------------------- */

static unsigned unusable;

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	unusable += strstr(line, "cannot use its part") != NULL;
}

/* Every part is of one stage: what it owes goes to where it belongs. */
static void read_parts(struct tw_store *store, const struct tw_plan *plan, struct ran *out)
{
	const size_t part = DIMENSION / plan->staging.stages;
	struct tw_part *parts;
	uint64_t cut;
	size_t count;

	assert_int_equal(store->load(store, &cut, &parts, &count), TW_OK);
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a;
		struct tw_array *list;
		size_t arrays;
		unsigned slot, cell;

		if (sscanf(parts[k].name, "worker %u.%u", &slot, &cell) != 2)
			continue;
		assert_int_equal(tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes,
						&tw_heap_system, &list, &arrays),
				 TW_OK);
		a = tw_part_find(list, arrays, "residual");
		assert_non_null(a);
		assert_int_equal(a->from, tw_plan_stage_of(plan, cell) * part);
		assert_int_equal(a->n, part);
		for (size_t i = 0; i < part; i++) /* of all lanes */
			out->owed[slot][a->from + i] += ((const float *)a->at)[i];
		out->parts++;
		tw_heap_system.put(&tw_heap_system, list);
	}
	store->loaded_free(store, parts, count);
}

/* One run of a job in sim.  `stop`: end after so many checkpoints, to be resumed with 0. */
struct how {
	size_t schedule, codec;
	uint32_t stages;
	const char *more;
	uint64_t stop;
	struct tw_store *store;
};

static enum tw_status run(const struct how *h, struct ran *out)
{
	struct tw_store *own = h->store ? NULL : tw_memory_store_new(&tw_heap_system);
	const struct tw_engine_class *real;
	struct tw_engine_class fake;
	struct tw_ran ran;
	enum tw_status st;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, start: 0, stages: %u}}\n"
		   "data: {source: none, samples: %d, batch: %d, accumulate: %u}\n"
		   "train: {epochs: %d, seed: 5, evaluate: 0}\nupdate: {rate: 1}\n"
		   "cluster: {workers: %u, stages: %u, servers: 2, min: 1, wait: 30s%s}\n"
		   "strategy: {%s, codec: {%s}}\n%s",
		   DIMENSION, h->stages, SAMPLES, BATCH, schedules[h->schedule].micros, EPOCHS,
		   schedules[h->schedule].workers, h->stages,
		   schedules[h->schedule].cells ? LANES : "", schedules[h->schedule].strategy,
		   codecs[h->codec], h->more);
	real = t.engine->class;
	fake = *real;
	fake.run = integers;
	t.engine->class = &fake;
	t.job->plan.checkpoint.final = true;
	t.job->plan.checkpoint.stop_after = h->stop;
	t.resume = h->store && h->stop == 0;
	t.log = &(const struct tw_log){ .sink = hear, .level = TW_WARNING };
	unusable = 0;
	st = trial_run(&t, &tw_heap_system, h->store ? h->store : own, &ran);
	*out = (struct ran){ .tally = ran.totals.tally, .events = ran.events };
	for (uint32_t s = 0; st == TW_OK && s < t.job->plan.problem.shards; s++) {
		const size_t *border = t.job->plan.problem.border;

		for (size_t i = border[s]; i < border[s + 1]; i++)
			out->w[i] = -tw_block_floats(ran.totals.vector[s])[i - border[s]];
	}
	tw_totals_release(&ran.totals);
	read_parts(h->store ? h->store : own, &t.job->plan, out);
	out->unusable = unusable;
	tw_memory_store_free(own);
	t.engine->class = real;
	trial_close(&t);
	return st;
}

/* All gradients less what was applied and what is owed: the largest, of all parameters. */
static double missing(const struct how *h, const struct ran *r)
{
	double most = 0;

	for (size_t i = 0; i < DIMENSION; i++) {
		double sum = 0, size = 0;

		for (uint64_t p = 0; p < SAMPLES * EPOCHS; p++)
			sum += (double)value(p, i) / (BATCH * schedules[h->schedule].micros);
		sum -= (double)r->w[i] / schedules[h->schedule].weight;
		for (uint32_t k = 0; k < SLOTS; k++)
			sum -= (double)r->owed[k][i];
		size = sum < 0 ? -sum : sum;
		most = size > most ? size : most;
	}
	return most;
}

static void expect_all(const struct how *h, const struct ran *r)
{
	const uint32_t lanes = schedules[h->schedule].cells, cells = lanes ? lanes : h->stages;

	if (missing(h, r) == 0 && r->parts == schedules[h->schedule].workers * cells)
		return;
	fail_msg("%s, %s, %u stages, %s: %g is missing, %u parts of cells",
		 schedules[h->schedule].strategy, codecs[h->codec], h->stages, h->more,
		 missing(h, r), r->parts);
}

static double owed_by(const struct ran *r, size_t from, size_t to)
{
	double sum = 0;

	for (uint32_t k = 0; k < SLOTS; k++)
		for (size_t i = from; i < to; i++)
			sum += (double)(r->owed[k][i] < 0 ? -r->owed[k][i] : r->owed[k][i]);
	return sum;
}

/* --- tests -------------------------------------------------------------------------------- */

static void nothing_is_lost(void **state)
{
	for (size_t k = 0; k < SCHEDULES; k++)
		for (size_t c = 0; c < CODECS; c++)
			for (uint32_t stages = schedules[k].cells ? 3 : 2; stages <= CELLS;
			     stages++) {
				const struct how h = { k, c, stages, "sim: {" PACE "}\n", 0, NULL };
				const size_t part = DIMENSION / stages;
				struct ran r;

				assert_int_equal(run(&h, &r), TW_OK);
				expect_all(&h, &r);
				assert_true(r.tally.residual_most > 0);
				assert_int_equal(r.tally.residuals_lost, 0);
				for (uint32_t s = 0; s < stages; s++)
					assert_true(owed_by(&r, s * part, (s + 1) * part) > 0);
			}
}

/* A run that is stopped and resumed ends as one that was not, with what each stage owes. */
static void a_checkpoint_has_what_each_stage_owes(void **state)
{
	const char *more = "checkpoint: {every: 150ms, cut: drain}\nsim: {" PACE "}\n";

	for (size_t k = 0; k < SCHEDULES; k++)
		for (size_t c = 0; c < CODECS; c++)
			for (uint64_t stop = 1; stop <= 2; stop++) {
				struct tw_store *store = tw_memory_store_new(&tw_heap_system);
				const struct how whole = { k, c, 3, more, 0, NULL };
				struct how part = { k, c, 3, more, stop, store };
				struct ran one, first, rest;

				assert_int_equal(run(&whole, &one), TW_OK);
				assert_int_equal(run(&part, &first), TW_INTERRUPTED);
				assert_true(owed_by(&first, 0, DIMENSION) > 0);
				part.stop = 0;
				assert_int_equal(run(&part, &rest), TW_OK);
				if (k < ROUNDS || schedules[k].micros == 1) {
					expect_all(&whole, &one);
					expect_all(&part, &rest);
				} /* else a stream may end with a group of fewer */
				assert_int_equal(rest.unusable, 0);
				assert_memory_equal(one.w, rest.w, sizeof one.w);
				assert_memory_equal(one.owed, rest.owed, sizeof one.owed);
				tw_memory_store_free(store);
			}
}

/* In rounds everything goes back to the last checkpoint when a server is lost: what stages owe,
 * too. */
static void a_rollback_takes_what_is_owed_along(void **state)
{
	unsigned rolled = 0;
	char more[300];

	for (size_t k = 0; k < ROUNDS; k++)
		for (unsigned at = 40; at < 700; at += 37) {
			const struct how h = { k, at % CODECS, 2 + at % 2, more, 0, NULL };
			struct ran r;

			snprintf(more, sizeof more,
				 "checkpoint: {every: 100ms, cut: drain}\n"
				 "sim: {" PACE ", closed_limit: 20ms, faults: "
				 "[{crash: server 1, at: %ums, restart: 30ms}]}\n",
				 at);
			assert_int_equal(run(&h, &r), TW_OK);
			expect_all(&h, &r);
			rolled += r.events > 0;
		}
	assert_true(rolled > 30);
}

/* What a worker owed that was lost, or left, is lost with all of its cells, and counted; nothing
 * else is missing. */
static void a_loss_is_counted(void **state)
{
	unsigned lost[2] = { 0 };
	char more[300];

	for (size_t k = 0; k < ROUNDS; k++)
		for (unsigned at = 40; at < 700; at += 29) {
			const uint32_t stages = 2 + at % 2, cell = at / 29 % stages;
			const bool leaves = schedules[k].workers > 1 && at % 3 == 0;
			const struct how h = { k, at % CODECS, stages, more, 0, NULL };
			struct ran r;

			snprintf(more, sizeof more,
				 "sim: {" PACE ", closed_limit: 20ms, faults: "
				 "[{%s: worker 0.%u, at: %ums%s}]}\n",
				 leaves ? "leave" : "crash", cell, at,
				 leaves ? "" : ", restart: 60ms");
			assert_int_equal(run(&h, &r), TW_OK);
			if (missing(&h, &r) != 0)
				assert_true(r.tally.residuals_lost > 0 &&
					    r.tally.residual_lost > 0);
			lost[leaves] += r.tally.residuals_lost > 0;
		}
	assert_true(lost[0] > 20 && lost[1] > 5);
}

/* --- against one stage -------------------------------------------------------------------- */

static void train(float out[DIMENSION], const char *strategy, uint32_t stages, uint32_t shards,
		  enum tw_world_kind world)
{
	char cluster[60] = "";
	struct tw_ran ran;
	struct trial t;

	if (stages)
		snprintf(cluster, sizeof cluster, "stages: %u", stages);
	else
		snprintf(cluster, sizeof cluster, "shards: %u", shards);
	trial_open(&t, world,
		   "model: {quadratic: {dimension: %d, noise: 0.5, stages: 3}}\n"
		   "data: {source: none, samples: 256, batch: 2, accumulate: 4}\n"
		   "train: {epochs: 2, seed: 3, evaluate: 0}\nupdate: {rate: 0.05}\n"
		   "cluster: {workers: 1, %s}\nstrategy: {%s}\n",
		   DIMENSION, cluster, strategy);
	assert_int_equal(trial_run(&t, &tw_heap_system, NULL, &ran), TW_OK);
	for (uint32_t s = 0; s < t.job->plan.problem.shards; s++) {
		const size_t *border = t.job->plan.problem.border;

		assert_true(t.job->plan.problem.shards == 1 || border[s] % (DIMENSION / 3) == 0);
		memcpy(out + border[s], tw_block_floats(ran.totals.vector[s]),
		       (border[s + 1] - border[s]) * sizeof(float));
	}
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

/* The micro-batches of a flushing schedule are those of `accumulate`, and so is what a codec makes
 * of them: each stage has the residual that a shard of the same range would have. */
static void stages_owe_what_shards_would(void **state)
{
	static const char *const list[] = {
		"up: topk, up_share: 0.3",     "up: randomk, up_share: 0.3",
		"up: threshold, up_tau: 0.05", "up: onebit, up_tile: 8",
		"up: dgc, up_share: 0.25",
	};
	float one[DIMENSION], many[DIMENSION];
	char text[160];

	for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
		snprintf(text, sizeof text, "name: ssgd, codec: {%s}", list[k]);
		train(one, text, 0, 3, TW_WORLD_SIM);
		for (int flush = 0; flush < 2; flush++) {
			snprintf(text, sizeof text, "name: %s, codec: {%s}",
				 flush ? "pipedream-flush" : "gpipe", list[k]);
			train(many, text, 3, 0, TW_WORLD_SIM);
			assert_memory_equal(one, many, sizeof one);
			train(many, text, 3, 0, TW_WORLD_THREADS);
			assert_memory_equal(one, many, sizeof one);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(a_checkpoint_has_what_each_stage_owes),
		cmocka_unit_test(a_rollback_takes_what_is_owed_along),
		cmocka_unit_test(a_loss_is_counted),
		cmocka_unit_test(stages_owe_what_shards_would),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
