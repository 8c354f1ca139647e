/* SPDX-License-Identifier: Apache-2.0 */
/* test_late.c - gates that drop late contributions, against plain loops over (time, worker) and
 * closed forms: who is applied when, how late, and how long it takes. */
#include "job/oracle_tools.h"
#include "run/open_engine.h"
#include "spec/job.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST    16 /* workers */
#define UPDATES 150
#define SECOND  1e9

/* A number from 0 to below 1 for each (seed, k). */
static double drawn(uint64_t seed, uint64_t k)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + k * 0xbf58476d1ce4e5b9u + 1;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

/* Workers with fixed times of a step, in seconds. */
struct cluster {
	uint32_t n;
	double step[MOST];
	char speeds[400];
};

static void say_speeds(struct cluster *c)
{
	size_t at = 0;

	for (uint32_t i = 0; i < c->n; i++)
		at += (size_t)snprintf(c->speeds + at, sizeof c->speeds - at, "%s%.17g",
				       i ? ", " : "", 1.0 / c->step[i]);
}

/* Equal ones among them, a few times faster or slower, or by orders of magnitude. */
static struct cluster draw_cluster(uint64_t seed)
{
	static const uint32_t sizes[] = { 2, 3, 5, 8, 16 };
	struct cluster c = { .n = sizes[(int)(5 * drawn(seed, 0))] };
	/* ties have no order of their own: no two workers are in step */
	const double skew[3] = { 0.01, 0.9, 2.0 };
	const double by = skew[(int)(3 * drawn(seed, 1))];

	for (uint32_t i = 0; i < c.n; i++)
		c.step[i] = pow(10.0, by * (2.0 * drawn(seed, 2 + i) - 1.0));
	say_speeds(&c);
	return c;
}

static void run(struct oracle_run *r, const struct cluster *c, const char *strategy,
		uint32_t shards, uint64_t seed)
{
	oracle_run(r,
		   "model: {quadratic: {dimension: 16, noise: 0.1}}\n"
		   "data: {samples: %d, batch: 1}\n"
		   "train: {epochs: 1, seed: %llu}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: %u, shards: %u, stuck: 0s, wait: 8000h, limit: 8000h}\n"
		   "strategy: {%s}\n"
		   "checkpoint: {every: 0s}\n"
		   "sim: {compute: {law: constant, mean: 1s}, speeds: [%s], latency: 0s, "
		   "bandwidth: 0bit/s, threads: 1}\n",
		   2 * UPDATES, (unsigned long long)seed, c->n, shards, strategy, c->speeds);
}

/* When the first step began: everybody begins then. */
static int64_t began(const struct oracle_run *r)
{
	for (size_t k = 0; k < r->events; k++)
		if (r->event[k].kind == TW_NOTE_STEP)
			return r->event[k].at;
	fail_msg("nobody began");
	return 0;
}

static bool differ(double a, double b)
{
	return fabs(a - b) > 1e-6;
}

/* --- the plain loop ------------------------------------------------------------------------- */

struct applied {
	double at;
	uint32_t who, tau;
};

/* The first `count` updates: below `limit` is applied, else dropped; `stops`: whoever has reached
 * the limit begins again. */
static uint32_t loop(const struct cluster *c, uint32_t limit, bool stops, struct applied *out,
		     uint32_t count)
{
	double due[MOST];
	uint32_t read[MOST] = { 0 }, version = 0, dropped = 0;

	for (uint32_t i = 0; i < c->n; i++)
		due[i] = c->step[i];
	while (version < count) {
		uint32_t i = 0;
		double now;

		for (uint32_t k = 1; k < c->n; k++)
			if (due[k] < due[i])
				i = k;
		now = due[i];
		if (version - read[i] < limit) {
			out[version] = (struct applied){ now, i, version - read[i] };
			version++;
		} else {
			dropped++;
		}
		read[i] = version;
		due[i] = now + c->step[i];
		for (uint32_t k = 0; stops && k < c->n; k++)
			if (version - read[k] >= limit) {
				read[k] = version;
				due[k] = now + c->step[k];
			}
	}
	return dropped;
}

/* 2 min over m of (m / sum of the m largest speeds) (1 + R / m). */
static double longest(const struct cluster *c, uint32_t limit)
{
	double sorted[MOST], speed = 0, best = DBL_MAX;

	memcpy(sorted, c->step, sizeof sorted);
	for (uint32_t i = 1; i < c->n; i++)
		for (uint32_t k = i; k && sorted[k - 1] > sorted[k]; k--) {
			const double x = sorted[k];

			sorted[k] = sorted[k - 1];
			sorted[k - 1] = x;
		}
	for (uint32_t m = 1; m <= c->n; m++) {
		speed += 1.0 / sorted[m - 1];
		best = fmin(best, m / speed * (1.0 + (double)limit / m));
	}
	return 2.0 * best;
}

/* --- ringmaster ------------------------------------------------------------------------------ */

static void check_ringmaster(uint64_t seed, uint32_t limit, bool stops, uint32_t shards)
{
	const struct cluster c = draw_cluster(seed);
	struct applied want[UPDATES];
	struct oracle_run r = { .gaps = false };
	char strategy[100];
	uint32_t version = 0;
	double at[UPDATES];
	int64_t zero;

	loop(&c, limit, stops, want, UPDATES);
	snprintf(strategy, sizeof strategy, "gate: ringmaster, limit: %u, stop: %s", limit,
		 stops ? "true" : "false");
	run(&r, &c, strategy, shards, seed);
	zero = began(&r);
	for (size_t k = 0; k < r.events; k++) {
		const struct oracle_event *e = &r.event[k];

		if (e->kind != TW_NOTE_APPLY)
			continue;
		assert_true(e->tau < limit);
		if (version == UPDATES || e->shard != shards - 1)
			continue;
		at[version] = (double)(e->at - zero) / SECOND;
		if (e->slot != want[version].who || e->tau != want[version].tau ||
		    differ(at[version], want[version].at))
			fail_msg("seed %llu, limit %u, stop %d: update %u is worker %u's, %llu "
				 "late, at %.9f; it should be worker %u's, %u late, at %.9f",
				 (unsigned long long)seed, limit, stops, version, e->slot,
				 (unsigned long long)e->tau, at[version], want[version].who,
				 want[version].tau, want[version].at);
		version++;
	}
	assert_int_equal(version, UPDATES);
	for (uint32_t k = 0; k + limit < UPDATES; k++)
		assert_true(at[k + limit] - at[k] <= longest(&c, limit) + 1e-6);
	/* the books: each position once, whatever was dropped meanwhile */
	assert_int_equal(r.totals.samples, 2 * UPDATES);
	assert_int_equal(r.totals.dropped, r.totals.tally.dropped_samples / shards);
	assert_true(stops ? r.totals.redealt <= r.totals.dropped
			  : r.totals.redealt == r.totals.dropped);
	assert_int_equal(r.totals.repeated + r.totals.lost_updates, 0);
	oracle_free(&r);
}

static void ringmaster_is_the_plain_loop(void **state)
{
	static const uint32_t limits[] = { 1, 2, 3, 5, 8, 20 };

	(void)state;
	for (uint64_t seed = 1; seed <= 120; seed++) {
		const uint32_t shards = (const uint32_t[]){ 1, 4, 16 }[seed % 3];

		check_ringmaster(seed, limits[seed % 6], false, shards);
		check_ringmaster(seed, limits[seed / 6 % 6], true, shards);
	}
}

static struct cluster equal_workers(uint32_t n)
{
	struct cluster c = { .n = n };

	for (uint32_t i = 0; i < n; i++)
		c.step[i] = 1.0;
	say_speeds(&c);
	return c;
}

/* Equal workers are N - 1 updates late. */
static void equal_workers_need_a_limit_of_their_number(void **state)
{
	(void)state;
	for (uint32_t n = 2; n <= MOST; n++) {
		const struct cluster c = equal_workers(n);
		struct oracle_run r = { .gaps = false };
		char strategy[100];

		for (uint32_t limit = n - 1; limit <= n + 1; limit++) {
			snprintf(strategy, sizeof strategy, "gate: ringmaster, limit: %u", limit);
			run(&r, &c, strategy, 1, n);
			assert_int_equal(limit<n, r.totals.dropped> 0);
			assert_int_equal(r.totals.samples, 2 * UPDATES);
		}
		run(&r, &c, "name: ringmaster", 1, n);
		assert_int_equal(r.totals.dropped, 0);
		oracle_free(&r);
	}
}

static void a_limit_that_is_never_reached_is_asgd(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++)
		for (uint32_t shards = 1; shards <= 3; shards += 2) {
			const struct cluster c = draw_cluster(seed);
			struct oracle_run a = { .gaps = false }, b = { .gaps = false };

			run(&a, &c, "name: asgd", shards, seed);
			run(&b, &c, "gate: ringmaster, limit: 4294967295, stop: true", shards,
			    seed);
			assert_int_equal(a.n, b.n);
			assert_memory_equal(a.vector, b.vector, a.n * sizeof *a.vector);
			/* several shards need the master's word */
			assert_true(shards > 1 || (a.ns == b.ns && a.bytes == b.bytes));
			oracle_free(&a);
			oracle_free(&b);
		}
}

/* --- rennala ---------------------------------------------------------------------------------- */

/* Steps that all workers have finished after t seconds; those that just end count. */
static uint32_t finished(const struct cluster *c, double t, uint32_t each[MOST])
{
	uint32_t all = 0;

	for (uint32_t i = 0; i < c->n; i++)
		all += each[i] = (uint32_t)floor(t / c->step[i] * (1.0 + 1e-12));
	return all;
}

/* The least end of a step at which `due` holds of what every worker has finished. */
static double first_time(const struct cluster *c,
			 bool (*due)(const struct cluster *, const uint32_t *, uint32_t),
			 uint32_t collect)
{
	uint32_t at[MOST] = { 0 }, each[MOST];

	for (;;) {
		uint32_t i = 0;
		double t;

		for (uint32_t k = 1; k < c->n; k++)
			if ((at[k] + 1) * c->step[k] < (at[i] + 1) * c->step[i])
				i = k;
		t = ++at[i] * c->step[i];
		finished(c, t, each);
		if (due(c, each, collect))
			return t;
	}
}

static bool enough(const struct cluster *c, const uint32_t *each, uint32_t collect)
{
	uint32_t all = 0;

	for (uint32_t i = 0; i < c->n; i++)
		all += each[i];
	return all >= collect;
}

static bool enough_of_each(const struct cluster *c, const uint32_t *each, uint32_t collect)
{
	double inverse = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		if (!each[i])
			return false;
		inverse += 1.0 / each[i];
	}
	return c->n * c->n * (1 + 1e-9) >= collect * inverse;
}

/* With `stops` all rounds take as long as the first; without, only the first begins with everybody
 * at its start. */
static void check_rounds(uint64_t seed, const char *gate, uint32_t collect, bool stops,
			 bool (*due)(const struct cluster *, const uint32_t *, uint32_t))
{
	const struct cluster c = draw_cluster(seed);
	const double round = first_time(&c, due, collect);
	struct oracle_run r = { .gaps = false };
	uint32_t rounds = 0, in_round = 0;
	char strategy[120];
	int64_t zero;

	snprintf(strategy, sizeof strategy, "%s, collect: %u, stop: %s", gate, collect,
		 stops ? "true" : "false");
	run(&r, &c, strategy, 1, seed);
	zero = began(&r);
	for (size_t k = 0; k < r.events; k++) {
		const struct oracle_event *e = &r.event[k];

		if (e->kind == TW_NOTE_APPLY) {
			assert_int_equal(e->tau, 0);
			in_round++;
		}
		if (e->kind != TW_NOTE_UPDATE)
			continue;
		rounds++;
		/* near the end there is not work for everybody */
		if (r.event[k].version * 2 * (in_round + c.n) > 2 * UPDATES)
			break;
		if ((stops || rounds == 1) &&
		    differ((double)(e->at - zero) / SECOND, rounds * round))
			fail_msg("seed %llu, collect %u: round %u ended at %.9f, not at %.9f",
				 (unsigned long long)seed, collect, rounds,
				 (double)(e->at - zero) / SECOND, rounds * round);
		if (due == enough)
			assert_int_equal(in_round, collect);
		in_round = 0;
	}
	assert_true(rounds >= 1);
	assert_int_equal(r.totals.samples, 2 * UPDATES);
	assert_int_equal(r.totals.repeated + r.totals.lost_updates, 0);
	oracle_free(&r);
}

static void a_round_of_rennala_takes_what_it_must(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		const uint32_t collect = 1 + (uint32_t)(20 * drawn(seed, 100));

		check_rounds(seed, "gate: softsync, fresh: true", collect, true, enough);
		check_rounds(seed, "gate: softsync, fresh: true", collect, false, enough);
	}
}

static void a_round_of_malenia_takes_what_it_must(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		const uint32_t collect = 1 + (uint32_t)(20 * drawn(seed, 100));

		check_rounds(seed, "gate: malenia", collect, true, enough_of_each);
		check_rounds(seed, "gate: malenia", collect, false, enough_of_each);
	}
}

static const char *const schedules[] = {
	"rate: 0.02",
	"rate: 0.02, decay: 0.1, rule: momentum, momentum: 0.7, schedule: {kind: cosine}",
	"rate: 0.02, rule: adam, schedule: {kind: step, at: [0.7], factor: 0.5}",
};

/* One worker: a bucket of `collect` fresh gradients is what `accumulate` adds up on the worker,
 * short batches and ends of epochs included; with running statistics it is a round's. */
static void rennala_on_one_worker_accumulates(void **state)
{
	static const char *const how[2][2] = {
		{ "", "name: rennala, collect: %u" },
		{ ", accumulate: %u", "name: asgd" },
	};

	(void)state;
	for (uint32_t collect = 1; collect <= 9; collect++)
		for (size_t k = 0; k < sizeof schedules / sizeof schedules[0]; k++) {
			const uint32_t shards = (const uint32_t[]){ 1, 4, 16 }[(collect + k) % 3];
			struct oracle_run r[2] = { { .gaps = false } };
			/* one update more or less at the end would be another run */
			const uint32_t samples = 4 * 3 * collect * 5 + 2 * (collect % 2);

			for (int i = 0; i < 2; i++) {
				char accumulate[40], strategy[60];

				snprintf(accumulate, sizeof accumulate, how[i][0], collect);
				snprintf(strategy, sizeof strategy, how[i][1], collect);
				oracle_run(&r[i],
					   "model: {quadratic: {dimension: 40, noise: 0.1}}\n"
					   "data: {samples: %u, batch: 4%s}\n"
					   "train: {epochs: 2, seed: %u}\n"
					   "update: {%s}\n"
					   "cluster: {workers: 1, shards: %u}\n"
					   "strategy: {%s}\n"
					   "checkpoint: {every: 0s}\n"
					   "sim: {latency: 1ms, threads: 1}\n",
					   samples, accumulate, collect, schedules[k], shards,
					   strategy);
			}
			assert_true(r[0].totals.updates == r[1].totals.updates);
			assert_memory_equal(r[0].vector, r[1].vector, r[0].n * sizeof(float));
			oracle_free(&r[0]);
			oracle_free(&r[1]);
		}
}

/* --- malenia ---------------------------------------------------------------------------------- */

#define DIMENSION 9

/* The loop of the paper, in doubles, over the gradients that the notes say were applied. */
struct serial {
	const struct tw_engine *engine;
	void *scratch;
	double w[DIMENSION], sum[MOST][DIMENSION];
	uint32_t count[MOST];
};

static void add_gradient(struct serial *z, const struct oracle_event *e)
{
	float w[DIMENSION], g[DIMENSION];
	const struct tw_piece piece = { w, 0, DIMENSION };
	const struct tw_inputs in = {
		.from = e->from, .count = e->count, .piece = &piece, .pieces = 1
	};
	struct tw_score score;

	for (int i = 0; i < DIMENSION; i++)
		w[i] = (float)z->w[i];
	assert_int_equal(z->engine->class->gradient(z->engine, z->scratch, &in, g, &score), TW_OK);
	for (int i = 0; i < DIMENSION; i++)
		z->sum[e->slot][i] += e->count * (double)g[i];
	z->count[e->slot] += e->count;
}

static void serial_update(struct serial *z, double rate)
{
	uint32_t workers = 0;

	for (uint32_t k = 0; k < MOST; k++)
		workers += z->count[k] != 0;
	for (uint32_t k = 0; k < MOST; k++)
		for (int i = 0; z->count[k] && i < DIMENSION; i++)
			z->w[i] -= rate * z->sum[k][i] / z->count[k] / workers;
	memset(z->sum, 0, sizeof z->sum);
	memset(z->count, 0, sizeof z->count);
}

static void check_malenia(uint64_t seed, const char *faults, const char *more)
{
	char text[1200];
	struct oracle_run r = { .gaps = false };
	struct serial z = { .engine = NULL };
	struct tw_engine *engine = NULL;
	struct tw_job *job = NULL;
	struct tw_error why = { 0 };
	float w[DIMENSION];
	uint32_t after = 0;

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: %d, noise: 0.3}}\n"
		 "data: {samples: 1203, batch: 3, accumulate: %d}\n"
		 "train: {epochs: 2, seed: %llu}\n"
		 "update: {rate: 0.05}\n"
		 "cluster: {workers: %d, shards: 1, limit: 2s}\n"
		 "strategy: {gate: malenia, collect: %d%s}\n"
		 "checkpoint: {every: 0s}\n"
		 "sim: {compute: {law: exponential, mean: 100ms}, latency: 2ms, threads: 1%s}\n",
		 DIMENSION, 1 + (int)(seed / 2 % 3), (unsigned long long)seed, 2 + (int)(seed % 7),
		 1 + (int)(seed % 20), more, faults);
	oracle_run(&r, "%s", text);
	assert_int_equal(tw_job_read_text("late", text, strlen(text), NULL, 0, NULL, TW_WORLD_SIM,
					  &job, &why),
			 TW_OK);
	assert_int_equal(tw_job_open_engine(job, &tw_heap_system, &engine, &why), TW_OK);
	z.engine = engine;
	z.scratch = calloc(1, engine->scratch_bytes + 1);
	assert_int_equal(engine->class->init(engine, 0, DIMENSION, w), TW_OK);
	for (int i = 0; i < DIMENSION; i++)
		z.w[i] = w[i];
	for (size_t k = 0; k < r.events; k++)
		if (r.event[k].kind == TW_NOTE_APPLY)
			add_gradient(&z, &r.event[k]);
		else if (r.event[k].kind == TW_NOTE_UPDATE) {
			serial_update(&z, 0.05);
			after += r.event[k].at > (int64_t)(3 * SECOND);
		}
	for (int i = 0; i < DIMENSION; i++)
		if (fabs(z.w[i] - (double)r.vector[i]) > 2e-5)
			fail_msg("seed %llu: parameter %d is %.9g, the loop has %.9g",
				 (unsigned long long)seed, i, (double)r.vector[i], z.w[i]);
	/* the dead is missed after two seconds: of those after three, the last is the end's */
	if (after <= 1)
		fail_msg("seed %llu%s: %g updates, %u after, %.3f s", (unsigned long long)seed,
			 faults, r.totals.updates, after, (double)r.ns / SECOND);
	if (!*faults)
		assert_int_equal(r.totals.samples, 2 * 1203);
	free(z.scratch);
	engine->class->close(engine);
	tw_job_free(job);
	oracle_free(&r);
}

static void malenia_is_the_plain_loop(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		check_malenia(seed, "", "");
		check_malenia(seed, "", ", stop: true");
	}
}

/* An update that waits for a worker that is gone goes on without it. */
static void malenia_does_not_wait_for_the_dead(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		check_malenia(seed, ", faults: [{crash: worker 1, at: 0.5s}]", "");
		check_malenia(seed, ", faults: [{leave: worker 0, at: 0.7s}]", ", stop: true");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ringmaster_is_the_plain_loop),
		cmocka_unit_test(equal_workers_need_a_limit_of_their_number),
		cmocka_unit_test(a_limit_that_is_never_reached_is_asgd),
		cmocka_unit_test(a_round_of_rennala_takes_what_it_must),
		cmocka_unit_test(a_round_of_malenia_takes_what_it_must),
		cmocka_unit_test(rennala_on_one_worker_accumulates),
		cmocka_unit_test(malenia_is_the_plain_loop),
		cmocka_unit_test(malenia_does_not_wait_for_the_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
