/* SPDX-License-Identifier: Apache-2.0 */
/* test_late.c - gates that drop late contributions, against plain loops over (time, worker) and
 * closed forms: who is applied when, how late, and how long it takes. */
#include "job/oracle_tools.h"

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
		   "model: {quadratic: {dimension: 6, noise: 0.1}}\n"
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

static void check_ringmaster(uint64_t seed, uint32_t limit, bool stops)
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
	run(&r, &c, strategy, 1, seed);
	zero = began(&r);
	for (size_t k = 0; k < r.events; k++) {
		const struct oracle_event *e = &r.event[k];

		if (e->kind != TW_NOTE_APPLY)
			continue;
		assert_true(e->tau < limit);
		if (version == UPDATES)
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
	assert_int_equal(r.totals.dropped, r.totals.tally.dropped_samples);
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
		check_ringmaster(seed, limits[seed % 6], false);
		check_ringmaster(seed, limits[seed / 6 % 6], true);
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
			assert_true(a.ns == b.ns && a.bytes == b.bytes);
			oracle_free(&a);
			oracle_free(&b);
		}
}

/* With several shards the verdicts differ.  No position is applied twice by a shard, and each is
 * applied by some shard. */
static void what_every_shard_dropped_is_dealt_again(void **state)
{
	static uint8_t times[3][2 * UPDATES];
	uint64_t partly = 0, again = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct oracle_run r = { .gaps = false };

		memset(times, 0, sizeof times);
		oracle_run(&r,
			   "model: {quadratic: {dimension: 7, noise: 0.1}}\n"
			   "data: {samples: %d, batch: 2}\n"
			   "train: {epochs: 1, seed: %llu}\n"
			   "update: {rate: 0.01}\n"
			   "cluster: {workers: 5, servers: 3, shards: 3}\n"
			   "strategy: {gate: ringmaster, limit: %u, stop: %s}\n"
			   "checkpoint: {every: 0s}\n"
			   "sim: {compute: {law: exponential, mean: 20ms}, latency: 5ms, jitter: "
			   "20ms, threads: 1}\n",
			   2 * UPDATES, (unsigned long long)seed, 1 + (unsigned)(seed % 4),
			   seed % 2 ? "true" : "false");
		for (size_t k = 0; k < r.events; k++)
			for (uint32_t i = 0;
			     r.event[k].kind == TW_NOTE_APPLY && i < r.event[k].count; i++)
				times[r.event[k].shard][r.event[k].from + i]++;
		for (uint32_t i = 0; i < 2 * UPDATES; i++) {
			const uint32_t all = times[0][i] + times[1][i] + times[2][i];

			assert_true(times[0][i] <= 1 && times[1][i] <= 1 && times[2][i] <= 1);
			assert_true(all >= 1);
			partly += all < 3;
		}
		again += r.totals.redealt;
		assert_int_equal(r.totals.repeated + r.totals.lost_updates, 0);
		oracle_free(&r);
	}
	assert_true(partly > 0 && again > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ringmaster_is_the_plain_loop),
		cmocka_unit_test(equal_workers_need_a_limit_of_their_number),
		cmocka_unit_test(a_limit_that_is_never_reached_is_asgd),
		cmocka_unit_test(what_every_shard_dropped_is_dealt_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
