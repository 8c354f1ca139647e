/* SPDX-License-Identifier: Apache-2.0 */
/* test_counts.c - what the master counts: a worker that says absurd numbers changes nothing, work
 * that is done again is evaluated as well, and a run that waits for workers keeps its checkpoints'
 * pace. */
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define SAMPLES 96

static struct {
	uint32_t liar;  /* node of a worker that lies; 0: none */
	uint16_t about; /* TW_DONE or TW_PUSH */
	const struct tw_world *world;
	struct tw_world lying;
	double label[400]; /* samples of the evaluations, in order */
	size_t labels;
	uint32_t stretched;   /* warnings about checkpoints */
	int64_t cut, longest; /* time of the last checkpoint; longest time between two */
} seen;

static void lie(struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == seen.about && m->h.type == TW_DONE)
		m->b.done.samples = (uint64_t)1 << 62;
	if (m->h.type == seen.about && m->h.type == TW_PUSH)
		m->b.push.account.samples = UINT32_MAX;
	seen.world->send(ctx, m);
}

static const struct tw_world *tampered(struct tw_context *ctx)
{
	const struct tw_world *real = ctx->world;

	if (ctx->self.node == seen.liar) {
		seen.world = real;
		seen.lying = *real;
		seen.lying.send = lie;
		ctx->world = &seen.lying;
	}
	return real;
}

static void message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	const struct tw_world *real = tampered(ctx);

	tw_worker_class.message(a, ctx, m);
	ctx->world = real;
}

static void computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	const struct tw_world *real = tampered(ctx);

	tw_worker_class.computed(a, ctx, c);
	ctx->world = real;
}

static bool watch(void *arg, const struct tw_note *n)
{
	(void)arg;
	if (n->kind == TW_NOTE_EVAL && seen.labels < 400)
		seen.label[seen.labels++] = n->eval.point.samples;
	if (n->kind == TW_NOTE_CUT) {
		if (seen.cut && n->at - seen.cut > seen.longest)
			seen.longest = n->at - seen.cut;
		seen.cut = n->at;
	}
	return true;
}

static void log_line(void *arg, enum tw_level level, const char *who, const char *line)
{
	(void)arg, (void)level, (void)who;
	seen.stretched += strstr(line, "leave no time to train") != NULL;
}

static enum tw_status run(const char *cluster, const char *rest, struct tw_ran *ran)
{
	const struct tw_log log = { log_line, NULL, TW_DEBUG };
	struct tw_actor_class class = tw_worker_class;
	struct trial t = { 0 };
	enum tw_status st;

	class.message = message;
	class.computed = computed;
	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 7}}\n"
		   "data: {source: none, samples: %d, batch: 2}\n"
		   "train: {epochs: 4, evaluate: 0.25}\n"
		   "update: {rate: 0.001}\n"
		   "cluster: {workers: 3, servers: 1, shards: 2, %s}\n"
		   "strategy: asgd\n%s",
		   SAMPLES, cluster, rest);
	for (size_t k = 0; k < t.cast.seats; k++)
		if (t.cast.seat[k].addr.role == TW_WORKER)
			t.cast.seat[k].class = &class;
	t.log = &log;
	t.observer = watch;
	seen.labels = seen.stretched = 0;
	seen.cut = seen.longest = 0;
	st = trial_run(&t, &tw_heap_system, NULL, ran);
	tw_totals_release(&ran->totals);
	trial_close(&t);
	return st;
}

static const char *const calm = "sim: {latency: 1ms, compute: {mean: 100ms}}\n";

/* Evaluations at each quarter of an epoch, however much was done; the last one is the end's. */
static void check_labels(double end)
{
	assert_true(seen.labels >= 2);
	for (size_t k = 0; k + 1 < seen.labels; k++)
		assert_true(seen.label[k + 1] - seen.label[k] <= SAMPLES / 4 + 8);
	assert_true(seen.label[0] <= SAMPLES / 4 + 8);
	assert_true(seen.label[seen.labels - 1] == end);
}

static void a_worker_that_counts_too_much(void **state)
{
	struct tw_ran ran;

	(void)state;
	seen.liar = 3;
	seen.about = TW_DONE;
	assert_int_equal(run("min: 1", calm, &ran), TW_OK);
	assert_int_equal(ran.totals.samples, 4 * SAMPLES);
	check_labels(4 * SAMPLES);
}

/* A contribution whose samples are not those of its ranges is refused, like one whose numbers are
 * not finite. */
static void a_contribution_that_counts_too_much(void **state)
{
	struct tw_ran ran;

	(void)state;
	seen.liar = 3;
	seen.about = TW_PUSH;
	assert_int_equal(run("min: 1", calm, &ran), TW_OK);
	assert_true(ran.totals.refused > 0);
	assert_true(ran.totals.samples <= 4 * SAMPLES);
	check_labels((double)ran.totals.samples);
}

static void what_is_done_again_is_evaluated(void **state)
{
	struct tw_ran ran;
	int late = 0;

	(void)state;
	seen.liar = 0;
	assert_int_equal(
		run("min: 1, limit: 1s", /* each loses most of its lease, which is dealt again */
		    "checkpoint: {every: 0s}\n"
		    "sim: {latency: 1ms, compute: {mean: 100ms}, faults: ["
		    "{crash: worker 0, at: 1s, restart: 1s}, {crash: worker 1, at: 2s, restart: "
		    "1s}, "
		    "{crash: worker 2, at: 3s, restart: 1s}, {crash: worker 0, at: 4s, restart: "
		    "1s}, "
		    "{crash: worker 1, at: 5s, restart: 1s}, {crash: worker 2, at: 6s, restart: "
		    "1s}, "
		    "{crash: worker 0, at: 7s, restart: 1s}, {crash: worker 1, at: 8s, restart: "
		    "1s}, "
		    "{crash: worker 2, at: 9s, restart: 1s}]}\n",
		    &ran),
		TW_OK);
	assert_true(ran.totals.samples > 4 * SAMPLES + SAMPLES / 2);
	/* some wait for a worker that died; but they go on until the end */
	for (size_t k = 0; k + 1 < seen.labels; k++)
		late += seen.label[k] > 4 * SAMPLES;
	assert_true(late >= 2);
}

static void waiting_for_workers_is_no_reason_to_stretch(void **state)
{
	struct tw_ran ran;

	(void)state;
	seen.liar = 0;
	assert_int_equal(run("min: 3, wait: 300s",
			     "checkpoint: {every: 1s, cut: drain}\n"
			     "sim: {latency: 1ms, compute: {mean: 100ms}, faults: [{crash: worker "
			     "1, at: 2s, restart: 60s}]}\n",
			     &ran),
			 TW_OK);
	assert_int_equal(seen.stretched, 0);
	assert_true(seen.longest < 5 * TW_SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_that_counts_too_much),
		cmocka_unit_test(a_contribution_that_counts_too_much),
		cmocka_unit_test(what_is_done_again_is_evaluated),
		cmocka_unit_test(waiting_for_workers_is_no_reason_to_stretch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
