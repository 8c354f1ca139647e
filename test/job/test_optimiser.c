/* SPDX-License-Identifier: Apache-2.0 */
/* test_optimiser.c - jobs that an optimiser drives: the trajectory does not depend on how the work
 * is spread, nor on who dies; every portion counts once; late workers do not hold up an
 * evaluation. */
/* labels: numbers */
#include "job/reading.h"
#include "job/serial.h"
#include "job/trial.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 400 /* iterations that are compared */

#define FUNCTION                                                                                   \
	"data: {source: none, samples: 96}\n"                                                      \
	"model: {function: {name: rosenbrock, dimension: 12}}\n"
#define LSQ                                                                                        \
	"data: {source: none, samples: 300}\n"                                                     \
	"model: {least-squares: {dimension: 40, noise: 0.1}}\n"
#define SIM "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.4}, latency: 2ms}\n"

/* --- what is watched ------------------------------------------------------------------------ */

struct path {
	double loss[MOST];
	uint64_t evaluations[MOST];
	unsigned count;
	/* how often each shard took each position, since it was last hosted */
	uint8_t *taken;
	uint64_t positions;
	uint32_t shards;
	bool twice;
};

static bool watch_path(void *arg, const struct tw_note *n)
{
	struct path *p = arg;

	if (n->kind == TW_NOTE_ITERATION && n->iteration.iterations < MOST) {
		const uint64_t k = n->iteration.iterations;

		p->loss[k] = n->iteration.loss;
		p->evaluations[k] = n->iteration.evaluations;
		if (k + 1 > p->count)
			p->count = (unsigned)k + 1;
	}
	if (n->kind == TW_NOTE_HOSTED && p->taken)
		memset(p->taken + n->shard * p->positions, 0, p->positions);
	if (n->kind == TW_NOTE_APPLY && p->taken)
		for (uint32_t k = 0; k < n->count; k++) {
			const uint64_t at = n->from + k;

			if (at < p->positions && p->taken[n->shard * p->positions + at]++)
				p->twice = true;
		}
	return true;
}

static void run(struct trial *t, struct path *p, struct tw_store *store, struct tw_ran *ran)
{
	const enum tw_status st = trial_run(t, &tw_heap_system, store, ran);

	if (st != TW_OK)
		fail_msg("the run failed: %s", ran->error.text);
	(void)p;
}

/* Does the final vector have the same bits? */
static bool same_vector(const struct tw_plan *plan, const struct tw_totals *a, const float *b)
{
	size_t at = 0;

	for (uint32_t s = 0; s < plan->problem.shards; s++) {
		const size_t n = plan->problem.border[s + 1] - plan->problem.border[s];

		if (memcmp(tw_block_floats(a->vector[s]), b + at, n * sizeof *b) != 0)
			return false;
		at += n;
	}
	return true;
}

static float *vector_of(const struct tw_plan *plan, const struct tw_totals *t)
{
	float *all = malloc((plan->problem.trainable + 1) * sizeof *all);
	size_t at = 0;

	assert_non_null(all);
	for (uint32_t s = 0; s < plan->problem.shards; s++) {
		const size_t n = plan->problem.border[s + 1] - plan->problem.border[s];

		memcpy(all + at, tw_block_floats(t->vector[s]), n * sizeof *all);
		at += n;
	}
	return all;
}

/* --- how work is spread --------------------------------------------------------------------- */

static const char *const spreads[] = {
	"cluster: {workers: 1, servers: 1, shards: 5}\n" SIM,
	"cluster: {workers: 2, servers: 1, shards: 5}\n" SIM,
	"cluster: {workers: 9, servers: 1, shards: 5}\n" SIM,
	"cluster: {workers: 2, servers: 5, shards: 5}\n" SIM,
	"cluster: {workers: 9, servers: 5, shards: 5}\n"
	"sim: {compute: {law: pareto, mean: 100ms, shape: 1.5}, stragglers: {count: 2, slower: "
	"30}, "
	"latency: 20ms, jitter: 30ms}\n",
};
static const char *const problems[] = {
	FUNCTION "optimiser: {name: lbfgs, portion: 7, history: 4, gradient: 1e-3}\n",
	FUNCTION "optimiser: {name: cg, portion: 10, gradient: 1e-2}\n",
	FUNCTION "optimiser: {name: gd, portion: 96, iterations: 20}\n",
	LSQ "optimiser: {name: lbfgs, portion: 16, l2: 0.01}\n",
	LSQ "optimiser: {name: lbfgs, portion: 16, batch: 120, batches: fresh, iterations: 12}\n",
};

static void spreading_the_work_changes_no_bit(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof problems / sizeof problems[0]; k++) {
		float *first = NULL;
		struct path kept = { .count = 0 };

		for (size_t i = 0; i <= sizeof spreads / sizeof spreads[0]; i++) {
			const bool threads = i == sizeof spreads / sizeof spreads[0];
			struct path p = { .count = 0 };
			struct tw_ran ran;
			struct trial t;

			trial_open(&t, threads ? TW_WORLD_THREADS : TW_WORLD_SIM, "%s%s",
				   problems[k],
				   threads ? "cluster: {workers: 3, shards: 5}\n" : spreads[i]);
			t.observer = watch_path;
			t.observer_arg = &p;
			run(&t, &p, NULL, &ran);
			if (!first) {
				first = vector_of(&t.job->plan, &ran.totals);
				kept = p;
				assert_true(p.count > 5);
			}
			if (!same_vector(&t.job->plan, &ran.totals, first))
				fail_msg("problem %zu, spread %zu: another vector", k, i);
			assert_int_equal(p.count, kept.count);
			assert_memory_equal(p.loss, kept.loss, sizeof p.loss);
			assert_int_equal(ran.totals.repeated, 0);
			assert_int_equal(ran.totals.samples, ran.totals.optimised.evaluations *
								     t.job->plan.optimising.batch);
			tw_totals_release(&ran.totals);
			trial_close(&t);
		}
		free(first);
	}
}

/* Portions of another size add up in another order: equal up to rounding. */
static void the_size_of_portions_hardly_matters(void **state)
{
	struct path p[2] = { { .count = 0 } };

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct tw_ran ran;
		struct trial t;

		trial_open(&t, TW_WORLD_SIM,
			   "data: {source: digits, count: 2000, tests: 50}\n"
			   "model: {layers: [linear 16, tanh, linear 10]}\n"
			   "optimiser: {name: lbfgs, portion: %d, l2: 1e-3, iterations: 20}\n"
			   "cluster: {workers: 3}\n",
			   k ? 1999 : 64);
		t.observer = watch_path;
		t.observer_arg = &p[k];
		run(&t, &p[k], NULL, &ran);
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
	assert_true(p[0].count >= 20 && p[1].count >= 20);
	for (int i = 0; i < 20; i++)
		if (fabs(p[0].loss[i] - p[1].loss[i]) > 1e-5 * p[0].loss[i])
			fail_msg("iteration %d: %.9g and %.9g", i, p[0].loss[i], p[1].loss[i]);
}

/* Noise of samples is drawn for the batch, not for the evaluation: a line search sees one function,
 * and a batch that is fixed has one minimum. */
static void a_line_search_sees_one_function(void **state)
{
	struct path p = { .count = 0 };
	struct tw_ran ran;
	struct trial t;

	(void)state;
	trial_open(&t, TW_WORLD_SIM,
		   "data: {source: digits, count: 400, tests: 20}\n"
		   "model: {layers: [dropout 0.5, linear 10]}\n"
		   "optimiser: {name: lbfgs, portion: 64, l2: 0.1, gradient: 1e-3, decrease: 0}\n"
		   "cluster: {workers: 3}\n" SIM);
	t.observer = watch_path;
	t.observer_arg = &p;
	run(&t, &p, NULL, &ran);
	/* its gradient would not vanish if the noise were drawn again */
	assert_true(ran.totals.optimised.gradient <= 1e-3);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

/* --- deaths --------------------------------------------------------------------------------- */

#define KILLED                                                                                     \
	FUNCTION "optimiser: {name: lbfgs, portion: 7, history: 4, iterations: 6}\n"               \
		 "cluster: {workers: 3, servers: 2, shards: 3, wait: 5s, limit: 2s}\n"             \
		 "checkpoint: {every: 1s}\n" SIM

struct killed {
	float *vector;
	struct path path;
	uint64_t events;
};

static void one_death(const struct killed *whole, struct tw_fault fault, const char *what,
		      bool same_path)
{
	struct path p = { .shards = 3 };
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM, KILLED);
	p.positions = 96 * 60;
	p.taken = calloc(p.shards, p.positions);
	assert_non_null(p.taken);
	t.observer = watch_path;
	t.observer_arg = &p;
	t.job->fault = &fault;
	t.job->faults = 1;
	if (trial_run(&t, &tw_heap_system, NULL, &ran) != TW_OK)
		fail_msg("%s, event %llu: %s", what, (unsigned long long)fault.event,
			 ran.error.text);
	if (!same_vector(&t.job->plan, &ran.totals, whole->vector))
		fail_msg("%s, event %llu: another vector", what, (unsigned long long)fault.event);
	if (p.twice)
		fail_msg("%s, event %llu: a portion was added twice", what,
			 (unsigned long long)fault.event);
	if (same_path)
		assert_memory_equal(p.evaluations, whole->path.evaluations, sizeof p.evaluations);
	assert_memory_equal(p.loss, whole->path.loss, sizeof p.loss);
	free(p.taken);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

static void whole_run(struct killed *w)
{
	struct tw_ran ran;
	struct trial t;

	*w = (struct killed){ .vector = NULL };
	trial_open(&t, TW_WORLD_SIM, KILLED);
	t.observer = watch_path;
	t.observer_arg = &w->path;
	run(&t, &w->path, NULL, &ran);
	w->vector = vector_of(&t.job->plan, &ran.totals);
	w->events = ran.events;
	assert_int_equal(w->path.count, 7);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

/* Any worker, at every event in turn: it comes back, or never. */
static void a_dead_worker_changes_no_bit(void **state)
{
	struct killed w;

	(void)state;
	whole_run(&w);
	for (uint64_t e = 1; e < w.events; e++) {
		const uint32_t node = 3 + (uint32_t)(e % 3);
		const int64_t lasts = e / 3 % 2 ? TW_SECOND / 2 : -1;

		one_death(&w,
			  (struct tw_fault){
				  .kind = TW_FAULT_KILL_AT, .a = node, .event = e, .lasts = lasts },
			  "a worker", true);
	}
	free(w.vector);
}

/* A server or the master, at every seventh event: the run goes on from a checkpoint, and comes to
 * the same point. */
static void a_dead_server_or_master_is_a_rollback(void **state)
{
	struct killed w;

	(void)state;
	whole_run(&w);
	for (uint64_t e = 1; e < w.events; e += 7)
		for (uint32_t node = 0; node < 3; node++)
			one_death(&w,
				  (struct tw_fault){ .kind = TW_FAULT_KILL_AT,
						     .a = node,
						     .event = e,
						     .lasts = TW_SECOND / 2 },
				  node ? "a server" : "the master", true);
	free(w.vector);
}

/* Connections that break and come back: what was on its way is lost, late or there twice. */
static void broken_connections_change_no_bit(void **state)
{
	struct killed w;

	(void)state;
	whole_run(&w);
	for (int k = 0; k < 120; k++) {
		static const uint32_t pairs[][2] = { { 0, 1 }, { 0, 2 }, { 0, 3 },
						     { 0, 4 }, { 1, 3 }, { 2, 5 } };

		one_death(&w,
			  (struct tw_fault){ .kind = k % 2 ? TW_FAULT_RESET : TW_FAULT_PARTITION,
					     .a = pairs[k % 6][0],
					     .b = pairs[k % 6][1],
					     .at = TW_SECOND / 10 * (1 + k / 2),
					     .lasts = TW_SECOND / 3 },
			  "a connection", true);
	}
	free(w.vector);
}

static void a_worker_that_leaves_changes_no_bit(void **state)
{
	struct killed w;

	(void)state;
	whole_run(&w);
	for (int k = 0; k < 40; k++)
		one_death(&w,
			  (struct tw_fault){ .kind = TW_FAULT_LEAVE,
					     .a = 3 + (uint32_t)k % 3,
					     .at = TW_SECOND / 7 * (1 + k),
					     .lasts = -1 },
			  "a leaver", true);
	free(w.vector);
}

/* --- stopped and resumed -------------------------------------------------------------------- */

static void a_resumed_run_ends_alike(void **state)
{
	struct outcome whole;

	(void)state;
	outcome_open(&whole, KILLED, NULL, TW_WORLD_SIM);
	outcome_run(&whole, NULL);
	outcome_stops_change_nothing(&whole, KILLED, NULL);
	outcome_close(&whole);
}

/* --- load ----------------------------------------------------------------------------------- */

static double seconds_of(const char *more, uint64_t *backups)
{
	struct path p = { .count = 0 };
	struct tw_ran ran;
	struct trial t;
	double seconds;

	trial_open(&t, TW_WORLD_SIM,
		   "data: {source: none, samples: 65536}\n"
		   "model: {quadratic: {dimension: 50}}\n"
		   "cluster: {workers: 16}\ncheckpoint: {every: 0s}\n%s",
		   more);
	run(&t, &p, NULL, &ran);
	seconds = (double)ran.virtual_ns / 1e9 / (double)ran.totals.optimised.evaluations;
	*backups = ran.totals.optimised.backups;
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return seconds;
}

/* 1024 portions, 16 workers of log-normal speeds, one of them 10 times slower. */
static void late_workers_do_not_hold_up_an_evaluation(void **state)
{
	static const char common[] =
		"sim: {compute: {law: log-normal, median: 100ms, sigma: 0.3}, latency: 1ms, "
		"stragglers: {count: 1, slower: 10}}\n";
	const double ideal = 1024 * 0.1 * exp(0.3 * 0.3 / 2) / (15 + 0.1);
	uint64_t backups, none;
	char text[600];
	double with, without;

	(void)state;
	snprintf(text, sizeof text, "optimiser: {name: lbfgs, portion: 64, iterations: 6}\n%s",
		 common);
	with = seconds_of(text, &backups);
	snprintf(text, sizeof text,
		 "optimiser: {name: lbfgs, portion: 64, iterations: 6, backup: false}\n%s", common);
	without = seconds_of(text, &none);
	print_message("an evaluation takes %.2f of the ideal time with backup tasks, %.2f "
		      "without\n",
		      with / ideal, without / ideal);
	assert_true(with <= 1.15 * ideal);
	assert_true(without > 1.3 * ideal);
	assert_true(backups > 0 && none == 0);
}

/* --- traffic -------------------------------------------------------------------------------- */

static uint64_t coordinated; /* bytes of VEC and SCALAR */

static void master_hears(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_SCALAR)
		coordinated += tw_msg_bytes(m);
	tw_master_class.message(a, ctx, m);
}

static void shard_hears(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_VEC)
		coordinated += tw_msg_bytes(m);
	tw_shard_class.message(a, ctx, m);
}

static double traffic_of(unsigned dimension)
{
	struct tw_actor_class master = tw_master_class, shard = tw_shard_class;
	struct path p = { .count = 0 };
	struct tw_ran ran;
	struct trial t;
	double each;

	trial_open(&t, TW_WORLD_SIM,
		   "data: {source: none, samples: 16}\n"
		   "model: {quadratic: {dimension: %u, curvature: [0.01, 1]}}\n"
		   "optimiser: {name: lbfgs, portion: 16, iterations: 15, gradient: 0, "
		   "decrease: 0}\n"
		   "cluster: {workers: 1, shards: 16}\ncheckpoint: {every: 0s}\n",
		   dimension);
	master.message = master_hears;
	shard.message = shard_hears;
	for (size_t k = 0; k < t.cast.seats; k++)
		if (t.cast.seat[k].class == &tw_shard_class)
			t.cast.seat[k].class = &shard;
		else if (t.cast.seat[k].class == &tw_master_class)
			t.cast.seat[k].class = &master;
	coordinated = 0;
	run(&t, &p, NULL, &ran);
	assert_int_equal(ran.totals.optimised.iterations, 15);
	each = (double)coordinated / 15;
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return each;
}

static void the_coordinator_sends_scalars_only(void **state)
{
	const double small = traffic_of(160), large = traffic_of(160000);

	(void)state;
	print_message("%.0f bytes per iteration with 16 shards and a history of 10\n", large);
	assert_true(large < 100e3);
	assert_true(fabs(large - small) < 0.25 * small); /* line searches differ a little */
}

/* A worker reads parameters once per evaluation, and not again for the next portion. */
static void workers_pull_when_the_point_has_moved(void **state)
{
	struct path p = { .count = 0 };
	struct tw_ran ran;
	struct trial t;

	(void)state;
	trial_open(&t, TW_WORLD_SIM, "%s",
		   LSQ "optimiser: {name: lbfgs, portion: 5, iterations: 8}\n"
		       "cluster: {workers: 3, shards: 2}\ncheckpoint: {every: 0s}\n" SIM);
	run(&t, &p, NULL, &ran);
	/* one answer for each worker, shard and evaluation */
	assert_true(ran.totals.tally.down_slices <= 3 * 2 * ran.totals.optimised.evaluations);
	assert_true(ran.totals.tally.down_slices >= 2 * ran.totals.optimised.evaluations);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

/* --- refusals ------------------------------------------------------------------------------- */

static void jobs_that_make_no_sense_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ FUNCTION "optimiser: lbgfs\n", "optimiser.name: no optimiser is called" },
		{ FUNCTION "optimiser: {name: lbfgs, histroy: 3}\n", "history" },
		{ FUNCTION "optimiser: {name: lbfgs, history: 0}\n", "optimiser.history" },
		{ FUNCTION "optimiser: {name: gd, history: 3}\n", "optimiser.history" },
		{ FUNCTION "optimiser: lbfgs\nupdate: {rate: 0.1}\n",
		  "update.rate: has no effect" },
		{ FUNCTION "optimiser: lbfgs\nstrategy: {gate: bsp}\n",
		  "strategy.gate: has no effect" },
		{ FUNCTION "optimiser: lbfgs\ntrain: {steps: 3}\n", "optimiser.evaluations" },
		{ FUNCTION "optimiser: {name: lbfgs, batch: 97}\n", "more than the 96" },
		{ FUNCTION "optimiser: {name: lbfgs, batch: many}\n", "or all" },
		{ FUNCTION "optimiser: {name: lbfgs, batch: -3}\n", "or all" },
		{ FUNCTION "optimiser: {name: lbfgs, batch: 0}\n", "or all" },
		{ FUNCTION "optimiser: lbfgs\ncheckpoint: {cut: running}\n", "use drain" },
		{ FUNCTION "strategy: sandblaster\noptimiser: cg\n", "contradicts the preset" },
		{ "data: {source: none, samples: 9, batch: 3}\n"
		  "model: {quadratic: {dimension: 9}}\noptimiser: {name: lbfgs, portion: 3}\n",
		  "leave one out" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
		struct tw_error why = { 0 };
		struct tw_job *job = NULL;

		assert_int_equal(read_job(bad[k].text, NULL, NULL, TW_WORLD_SIM, &job, &why),
				 TW_BAD_INPUT);
		if (!strstr(why.text, bad[k].says) || !is_sentence(why.text))
			fail_msg("%s: does not say '%s'", why.text, bad[k].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spreading_the_work_changes_no_bit),
		cmocka_unit_test(the_size_of_portions_hardly_matters),
		cmocka_unit_test(a_line_search_sees_one_function),
		cmocka_unit_test(a_dead_worker_changes_no_bit),
		cmocka_unit_test(a_dead_server_or_master_is_a_rollback),
		cmocka_unit_test(broken_connections_change_no_bit),
		cmocka_unit_test(a_worker_that_leaves_changes_no_bit),
		cmocka_unit_test(a_resumed_run_ends_alike),
		cmocka_unit_test(late_workers_do_not_hold_up_an_evaluation),
		cmocka_unit_test(the_coordinator_sends_scalars_only),
		cmocka_unit_test(workers_pull_when_the_point_has_moved),
		cmocka_unit_test(jobs_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
