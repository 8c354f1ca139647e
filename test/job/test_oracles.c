/* SPDX-License-Identifier: Apache-2.0 */
/* test_oracles.c - whole simulated runs against closed forms; what takes longer is in
 * test_full_oracles.c. */
#include "job/oracle_tools.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FREE_LINKS "latency: 0s, bandwidth: 0bit/s, threads: 1"
#define NO_CUTS    "checkpoint: {every: 0s}\n"

/* --- staleness --------------------------------------------------------------------------- */

static void staleness_adds_up(void **state)
{
	static const char *const more[] = { "pareto, shape: 1.2", "gamma, shape: 0.3", NULL };

	for (size_t k = 0; oracle_laws[k]; k++)
		for (uint64_t seed = 1; seed <= 3; seed++)
			oracle_check_identity(seed == 2 ? 7 : 12, oracle_laws[k], seed, 4000);
	for (size_t k = 0; more[k]; k++) /* it needs no finite variance */
		oracle_check_identity(12, more[k], 4, 4000);
	oracle_check_identity(1, "exponential", 5, 100);
	oracle_check_identity(
		33, "exponential, per_sample: true}, stragglers: {count: 4, slower: 20", 6, 5000);
}

static void mean_staleness_is_workers_less_one(void **state)
{
	for (size_t k = 0; oracle_laws[k]; k++)
		oracle_check_staleness(8, 0, oracle_laws[k], 50000);
	oracle_check_staleness(4, 0, "exponential", 50000);
	oracle_check_staleness(30, 0, "log-normal, median: 100ms, sigma: 0.7", 50000);
	oracle_check_staleness(64, 0, "exponential", 50000);
}

static void softsync_divides_staleness(void **state)
{
	oracle_check_staleness(8, 1, "gamma, shape: 100", 50000);
	oracle_check_staleness(8, 3, "exponential", 50000);
	oracle_check_staleness(8, 8, "constant", 50000);
	oracle_check_staleness(30, 2, "uniform, spread: 0.9", 50000);
}

/* While worker i computes once, worker j pushes speed j / speed i times. */
static void staleness_of_unequal_workers(void **state)
{
	static const double speed[] = { 4, 2, 1, 1, 0.5, 0.25 };
	enum { WORKERS = sizeof speed / sizeof speed[0] };

	for (size_t k = 0; oracle_laws[k]; k++) {
		struct oracle_run r = { .gaps = false };
		double sum[WORKERS] = { 0 }, count[WORKERS] = { 0 }, all = 0;

		oracle_run(&r,
			   "model: {quadratic: {dimension: 4}}\n"
			   "data: {samples: 100000}\n"
			   "train: {updates: 50000}\n"
			   "update: {rate: 0.0001}\n"
			   "cluster: {workers: %d, shards: 1}\n"
			   "strategy: asgd\n" NO_CUTS
			   "sim: {compute: {law: %s}, speeds: [4, 2, 1, 1, 0.5, 0.25], " FREE_LINKS
			   "}\n",
			   WORKERS, oracle_laws[k]);
		for (size_t i = 0; i < r.events; i++)
			if (r.event[i].kind == TW_NOTE_APPLY) {
				sum[r.event[i].slot] += (double)r.event[i].tau;
				count[r.event[i].slot]++;
			}
		for (int i = 0; i < WORKERS; i++)
			all += speed[i];
		for (int i = 0; i < WORKERS; i++) {
			const double should = (all - speed[i]) / speed[i];
			/* the slowest pushes 1,400 times: 2.7 % each way at one deviation */
			const double within = 4 / sqrt(count[i]);

			if (!(fabs(sum[i] / count[i] - should) <= within * should))
				fail_msg("%s, worker %d: %g, not %g", oracle_laws[k], i,
					 sum[i] / count[i], should);
		}
		oracle_free(&r);
	}
}

/* Exponential times have no memory: the next push is anybody's, and the chance of a staleness of k
 * or more is (1 - 1/N)^k. */
static void exponential_times_make_staleness_geometric(void **state)
{
	enum { WORKERS = 8, UPDATES = 50000 };
	struct oracle_run r = { .silent = true };
	uint64_t left = UPDATES;

	oracle_run(&r,
		   "model: {quadratic: {dimension: 4}}\n"
		   "data: {samples: 100000}\n"
		   "train: {updates: %d}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: %d, shards: 1}\n"
		   "strategy: asgd\n" NO_CUTS "sim: {compute: {law: exponential}, " FREE_LINKS
		   "}\n",
		   UPDATES, WORKERS);
	for (int k = 0; k < 60; k++) {
		const double p = pow(1 - 1.0 / WORKERS, k);

		/* pushes that overlap are not independent: half as wide again */
		if (!(fabs((double)left - UPDATES * p) <= 6 * sqrt(UPDATES * p * (1 - p)) + 1e-9))
			fail_msg("%llu of %d are %d or more late, not %g", (unsigned long long)left,
				 UPDATES, k, UPDATES * p);
		left -= r.totals.tally.histogram[k];
	}
	oracle_free(&r);
}

/* n-softsync with 30 learners whose times hardly vary: almost none is later than 2 n (Zhang et al.
 * 2016). */
static void softsync_is_rarely_late(void **state)
{
	static const uint32_t n[] = { 1, 2, 6, 15, 30 };

	for (size_t k = 0; k < 5; k++) {
		struct oracle_run r = { .silent = true };
		uint64_t late = 0;

		oracle_run(&r,
			   "model: {quadratic: {dimension: 4}}\n"
			   "data: {samples: 100000}\n"
			   "train: {steps: 60000}\n"
			   "update: {rate: 0.0001}\n"
			   "cluster: {workers: 30, shards: 1}\n"
			   "strategy: {name: softsync, n: %u}\n" NO_CUTS
			   "sim: {compute: {law: gamma, shape: 100}, " FREE_LINKS "}\n",
			   n[k]);
		for (uint32_t t = 2 * n[k] + 1; t < TW_HISTOGRAM; t++)
			late += r.totals.tally.histogram[t];
		assert_int_equal(r.totals.tally.contributions, 60000);
		assert_int_equal(r.totals.tally.updates, 60000 / (30 / n[k]));
		assert_true((double)late <= 1e-4 * 60000);
		oracle_free(&r);
	}
}

/* --- bounded staleness ------------------------------------------------------------------- */

static void nobody_starts_too_far_ahead(void **state)
{
	static const uint32_t shards[] = { 1, 2, 7 };

	for (uint32_t lead = 0; lead <= 4; lead++)
		for (size_t k = 0; k < 3; k++)
			oracle_check_ssp(6, lead, shards[k], "exponential", lead + 1, 3000);
	for (size_t k = 0; oracle_laws[k]; k++)
		oracle_check_ssp(5, 2, 1, oracle_laws[k], 9, 2000);
}

static int64_t ssp_time(uint32_t lead, const char *stragglers)
{
	struct oracle_run r = { .silent = true };

	oracle_run(&r,
		   "model: {quadratic: {dimension: 4}}\n"
		   "data: {samples: 100000}\n"
		   "train: {steps: 4000}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: 4, shards: 1}\n"
		   "strategy: {name: ssp, lead: %u}\n" NO_CUTS
		   "sim: {compute: {law: constant}, stragglers: {%s}, " FREE_LINKS "}\n",
		   lead, stragglers);
	oracle_free(&r);
	return r.ns;
}

/* With one slow worker a longer lead is never slower; it helps as far as it hides the slowness. */
static void a_longer_lead_is_not_slower(void **state)
{
	static const char *const slow[] = { "count: 1, slower: 4",
					    "count: 1, slower: 4, on: 2s, off: 6s" };

	for (size_t k = 0; k < 2; k++) {
		const int64_t first = ssp_time(0, slow[k]);
		int64_t before = first;

		for (uint32_t lead = 1; lead <= 32; lead *= 2) {
			const int64_t now = ssp_time(lead, slow[k]);

			assert_true(now <= before);
			before = now;
		}
		assert_true(before < first);
	}
}

/* --- backup workers ------------------------------------------------------------------------ */

static void backup_time_is_an_order_statistic(void **state)
{
	oracle_check_backup(2, 1, 20000, 0.02);
	oracle_check_backup(4, 2, 20000, 0.02);
	oracle_check_backup(8, 0, 20000, 0.02);
}

static int64_t round_time(const char *strategy, uint32_t workers, const char *law)
{
	struct oracle_run r = { .silent = true };

	oracle_run(&r,
		   "model: {quadratic: {dimension: 4, noise: 1}}\n"
		   "data: {samples: 1000000}\n"
		   "train: {updates: 2000}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "strategy: %s\n" NO_CUTS "sim: {compute: {law: %s}, " FREE_LINKS "}\n",
		   workers, strategy, law);
	oracle_free(&r);
	return r.ns;
}

static void without_extra_workers_it_is_bsp(void **state)
{
	for (size_t k = 0; oracle_laws[k]; k++)
		for (int abandon = 0; abandon < 2; abandon++)
			assert_int_equal(
				round_time(abandon ? "{name: backup, extra: 0, abandon: true}"
						   : "{name: backup, extra: 0}",
					   6, oracle_laws[k]),
				round_time("ssgd", 6, oracle_laws[k]));
}

static void extra_workers_never_cost_time(void **state)
{
	for (size_t k = 0; oracle_laws[k]; k++) {
		const int64_t none = round_time("{name: backup, extra: 0}", 6, oracle_laws[k]);

		for (uint32_t extra = 1; extra <= 4; extra++) {
			char text[60];
			int64_t ns;

			snprintf(text, sizeof text, "{name: backup, extra: %u, abandon: true}",
				 extra);
			ns = round_time(text, 6 + extra, oracle_laws[k]);
			if (strcmp(oracle_laws[k], "constant") == 0)
				assert_int_equal(ns, none);
			else
				assert_true(ns < none);
		}
	}
}

/* Under independent, equal times everybody is as often among the first as everybody else: the
 * statistic below is chi-square, 9 degrees of freedom, but smaller, as a round takes 7 of 10
 * without repetition. */
static void participation_is_even(void **state)
{
	enum { WORKERS = 10, EXTRA = 3, ROUNDS = 5000 };
	const double expected = (double)ROUNDS * (WORKERS - EXTRA) / WORKERS;
	struct oracle_run r = { .gaps = false };
	uint64_t times[WORKERS] = { 0 }, drops[WORKERS] = { 0 }, *of_round;
	double square = 0;

	of_round = calloc(ROUNDS, sizeof *of_round);
	assert_non_null(of_round);
	oracle_run(&r,
		   "model: {quadratic: {dimension: 4}}\n"
		   "data: {samples: 1000000}\n"
		   "train: {updates: %d}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: %d, shards: 1}\n"
		   "strategy: {name: backup, extra: %d, abandon: true}\n" NO_CUTS
		   "sim: {compute: {law: log-normal, median: 1s, sigma: 1}, " FREE_LINKS "}\n",
		   ROUNDS, WORKERS, EXTRA);
	for (size_t k = 0; k < r.events; k++) {
		const struct oracle_event *e = &r.event[k];

		if (e->kind == TW_NOTE_APPLY) {
			assert_int_equal(e->tau, 0);
			times[e->slot]++;
		}
		if (e->kind == TW_NOTE_DROP && e->shard == UINT32_MAX) {
			assert_in_range(e->round, 0, ROUNDS - 1);
			of_round[e->round]++;
			drops[e->slot]++;
		}
	}
	for (int k = 0; k < ROUNDS; k++)
		assert_int_equal(of_round[k], EXTRA);
	for (int k = 0; k < WORKERS; k++) {
		assert_int_equal(times[k] + drops[k], ROUNDS);
		square += ((double)times[k] - expected) * ((double)times[k] - expected) / expected;
	}
	assert_true(square < 27.9 * EXTRA / WORKERS * WORKERS / (WORKERS - 1)); /* p = 0.001 */
	free(of_round);
	oracle_free(&r);
}

/* --- delayed descent ------------------------------------------------------------------------ */

static void delayed_descent_has_its_bound(void **state)
{
	static const uint32_t taus[] = { 0, 1, 2, 4, 8, 16 };

	for (size_t k = 0; k < 6; k++)
		for (int workers = 0; workers < 2; workers++) {
			oracle_check_delayed(taus[k], 0.98, workers);
			oracle_check_delayed(taus[k], 1.02, workers);
		}
}

/* x = 0.3 diverges at staleness 8; divided by it, 0.0375 is below 8^8 / 9^9 = 0.0433, where descent
 * does not even oscillate. */
static void staleness_aware_rescues(void **state)
{
	static const char *const how[] = { "asgd", "{gate: async, staleness: inverse}", "asgd",
					   "staleness-aware" };

	for (int k = 0; k < 4; k++) {
		const bool aware = k % 2, by_workers = k / 2;
		struct oracle_run r = { .gaps = true };
		double last = 1, largest = 0;

		oracle_run(
			&r,
			"model: {quadratic: {dimension: 1, curvature: [1], noise: 0, start: 1}}\n"
			"data: {samples: 1000000}\n"
			"train: {updates: 800}\n"
			"update: {rate: 0.3}\n"
			"cluster: {workers: %d, shards: 1}\n"
			"strategy: %s\n" NO_CUTS
			"sim: {delay: {steps: %d}, compute: {law: constant}, " FREE_LINKS "}\n",
			by_workers ? 9 : 1, how[k], by_workers ? 0 : 8);
		for (size_t i = 0; i < r.events; i++) {
			const struct oracle_event *e = &r.event[i];

			if (e->kind != TW_NOTE_APPLY || e->version > 600)
				continue;
			assert_int_equal(e->tau, e->version < 8 ? e->version : 8);
			/* the first gradients are fresher, and so longer */
			if (aware && e->version > 40)
				assert_true(fabs(e->first) <= fabs(last));
			last = e->first;
			largest = fmax(largest, fabs(last));
		}
		if (aware)
			assert_true(fabs(last) < 1e-3 && largest <= 1);
		else
			assert_true(largest > 1e3);
		oracle_free(&r);
	}
}

/* --- weight decay ---------------------------------------------------------------------------- */

/* A policy that divides the rate divides the decay with it: the minimum stays where it is, at
 * target * curvature / (curvature + decay) = 2 / 3 of the target, however late gradients are.
 * Dividing only gradients, with 16 workers by 15, moves it to 1 / (1 + 0.5 * 15) = 0.118 of it. */
static double minimum(const char *strategy, const char *rate, double decay)
{
	struct oracle_run r = { .silent = true };

	oracle_run(&r,
		   "model: {quadratic: {dimension: 3, curvature: [1], noise: 0, target: 1}}\n"
		   "data: {samples: 1000000}\n"
		   "train: {steps: 20000}\n"
		   "update: {rate: %s, decay: %g}\n"
		   "cluster: {workers: 16, shards: 1}\n"
		   "strategy: %s\n" NO_CUTS "sim: {compute: {law: constant}, " FREE_LINKS "}\n",
		   rate, decay, strategy);
	oracle_free(&r);
	return r.final;
}

static void decay_does_not_move_with_staleness(void **state)
{
	static const struct {
		const char *strategy, *rate;
	} how[] = {
		{ "asgd", "0.02" },
		{ "staleness-aware", "0.2" },
		{ "{name: staleness-aware, form: plus-one}", "0.2" },
		{ "{name: staleness-aware, collect: 4}", "0.2" },
		{ "{name: rudra, n: 16}", "0.2" },
		{ "{name: rudra, collect: 4}", "0.2" },
		{ "{name: rudra, n: 16, sum: total}", "0.2" },
		{ "{name: rudra, n: 4, sum: total}", "0.05" },
		{ "{gate: async, staleness: mean}", "0.2" },
		{ "fasgd", "0.0005" },
		{ "{name: fasgd, unbias: true}", "0.0005" },
		{ "gap-aware", "0.002" },
		{ "dana", "0.002" },
		{ "dana-slim", "0.002" },
		{ "multi-asgd", "0.002" },
	};

	const double target = minimum("asgd", "0.02", 0);

	assert_true(fabs(target) > 0.1);
	for (size_t k = 0; k < sizeof how / sizeof how[0]; k++) {
		const double is = minimum(how[k].strategy, how[k].rate, 0.5) / target;

		if (!(fabs(is - 2.0 / 3) < 1e-4))
			fail_msg("%s: %g of the target, not 2/3", how[k].strategy, is);
	}
}

/* --- B-FASGD --------------------------------------------------------------------------------- */

/* A gradient that does not change has no deviation: v is the root of epsilon, 0.1, and a message
 * leaves with the chance 1 / (1 + c / (v + 0.0001)). */
#define STILL                                                                                      \
	"model: {quadratic: {dimension: 1000, curvature: [1], noise: 0, start: 1}}\n"              \
	"data: {samples: 1000000}\n"                                                               \
	"train: {updates: 20000}\n"                                                                \
	"update: {rate: 1e-12}\n"                                                                  \
	"cluster: {workers: 1, shards: 1}\n" NO_CUTS "sim: {compute: {law: constant}, " FREE_LINKS \
	"}\n"

static void is_binomial(double times, double n, double p)
{
	if (!(fabs(times - n * p) <= 4 * sqrt(n * p * (1 - p))))
		fail_msg("%g of %g is not a share of %g", times, n, p);
}

/* What is applied again is as old as it is: one update older each time, until a push is sent.  So
 * staleness is k with the chance p (1 - p)^k, and (1 - p) / p in the mean. */
static void ages_like_what_was_kept(const struct oracle_run *r, double p)
{
	const double mean = (1 - p) / p, all = 20000;
	uint64_t fresh = 0, last = 0;

	for (size_t i = 0; i < r->events; i++) {
		if (r->event[i].kind != TW_NOTE_APPLY)
			continue;
		fresh += r->event[i].tau == 0;
		assert_true(r->event[i].tau == 0 || r->event[i].tau == last + 1);
		last = r->event[i].tau;
	}
	is_binomial((double)fresh, all, p);
	/* the variance of a staleness is (1 - p) / p^2; neighbours are not independent */
	if (!(fabs(oracle_staleness(r) - mean) <= 8 * sqrt(mean / p / all)))
		fail_msg("mean staleness %g, not %g", oracle_staleness(r), mean);
}

static void skipping_follows_its_formula(void **state)
{
	static const double c[] = { 0.01, 0.1, 0.5 };
	struct oracle_run r = { .gaps = false };
	uint64_t all;

	oracle_run(&r, STILL
		   "strategy: {name: fasgd, epsilon: 0.01, unbias: true, skip: {push: 0, fetch: "
		   "0}}\n");
	all = r.bytes;
	assert_int_equal(r.totals.tally.staleness_sum, 0);
	for (size_t k = 0; k < 3; k++) {
		const double p = 1 / (1 + c[k] / (0.1 + 1e-4));
		uint64_t fetches = 0;

		oracle_run(&r,
			   STILL
			   "strategy: {name: fasgd, epsilon: 0.01, unbias: true, skip: {fetch: "
			   "%g}}\n",
			   c[k]);
		for (size_t i = 0; i < r.events; i++)
			fetches += r.event[i].kind == TW_NOTE_APPLY && r.event[i].tau == 0;
		is_binomial((double)fetches, 20000, p);

		oracle_run(&r,
			   STILL
			   "strategy: {name: fasgd, epsilon: 0.01, unbias: true, skip: {push: "
			   "%g}}\n",
			   c[k]);
		assert_int_equal(r.totals.tally.updates, 20000); /* the last one is applied again */
		ages_like_what_was_kept(&r, p);
		assert_int_equal((all - r.bytes) % 4000, 0);
		is_binomial(20000 - (double)((all - r.bytes) / 4000), 20000, p);
	}
	oracle_free(&r);
}

/* --- momentum ------------------------------------------------------------------------------- */

static void gaps_grow_as_in_danas_table(void **state)
{
	oracle_check_gaps(4, 1, (double[]){ 3.8, 2.9, 2.3, 1.55, 2.58 });
	oracle_check_gaps(8, 1, (double[]){ 5.6, 5.0, 2.4, 1.28, 2.43 });
	oracle_check_gaps(16, 1, (double[]){ 7.5, 7.1, 2.5, 1.16, 2.41 });
}

/* One worker, and a rate that falls to a tenth half-way: what the velocity has from before must
 * fall with it, as nag's does. */
static void dana_follows_nag_over_a_step(void **state)
{
	static const char *const name[] = { "nag-asgd", "dana" };

	for (uint64_t seed = 1; seed <= 3; seed++) {
		double loss[2];

		for (int k = 0; k < 2; k++) {
			struct oracle_run r = { .silent = true };

			oracle_run(&r,
				   "model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: "
				   "1, start: 1}}\n"
				   "data: {samples: 2000}\n"
				   "train: {epochs: 1, seed: %" PRIu64 "}\n"
				   "update: {rate: 0.02, schedule: {kind: step, factor: 0.1, at: "
				   "[0.5]}}\n"
				   "cluster: {workers: 1, shards: 1}\n"
				   "strategy: %s\n" NO_CUTS
				   "sim: {compute: {law: constant}, " FREE_LINKS "}\n",
				   seed, name[k]);
			loss[k] = r.totals.loss;
			oracle_free(&r);
		}
		if (!(fabs(loss[1] - loss[0]) <= 0.01 * loss[0]))
			fail_msg("nag ends at %g, dana at %g", loss[0], loss[1]);
	}
}

/* What `dana` shows and what `dana-slim` keeps, by version. */
enum { SHOWN = 3000, SIZE = 8 };
struct shown {
	float at[SHOWN][SIZE];
	bool known[SHOWN];
	bool sent; /* keep what was sent (dana), else what is there (dana-slim) */
	uint64_t seen;
};

static void look(void *arg, const struct tw_note *note)
{
	struct shown *s = arg;
	const uint64_t version = s->sent ? note->version - note->apply.tau : note->version;

	assert_int_equal(note->apply.n, SIZE);
	if (version >= SHOWN)
		return;
	memcpy(s->at[version], s->sent ? note->apply.sent : note->apply.before, sizeof s->at[0]);
	s->known[version] = true;
	s->seen++;
}

static void dana_shows_what_dana_slim_keeps(void **state)
{
	static const char *const schedule[] = { "constant", "cosine, final: 0.01",
						"step, factor: 0.3, every: 0.1", "linear" };
	static const char *const name[] = { "dana", "dana-slim" };
	struct shown *s = calloc(2, sizeof *s);

	assert_non_null(s);
	for (size_t k = 0; k < 4; k++) {
		double largest = 0, apart = 0;
		uint64_t both = 0;

		for (int slim = 0; slim < 2; slim++) {
			struct oracle_run r = { .gaps = true, .see = look, .arg = &s[slim] };

			s[slim] = (struct shown){ .sent = !slim };
			oracle_run(
				&r,
				"model: {quadratic: {dimension: %d, curvature: [0.1, 1], noise: 1, "
				"start: 1}}\n"
				"data: {samples: 4000}\n"
				"train: {epochs: 1, seed: %zu}\n"
				"update: {rate: 0.01, schedule: {kind: %s}}\n"
				"cluster: {workers: 6, shards: 1}\n"
				"strategy: %s\n" NO_CUTS
				"sim: {compute: {law: exponential}, " FREE_LINKS "}\n",
				SIZE, k + 1, schedule[k], name[slim]);
			oracle_free(&r);
		}
		for (int v = 0; v < SHOWN; v++)
			for (int i = 0; i < SIZE && s[0].known[v] && s[1].known[v]; i++) {
				const double is = (double)s[0].at[v][i];

				both++;
				largest = fmax(largest, fabs(is));
				apart = fmax(apart, fabs(is - (double)s[1].at[v][i]));
			}
		assert_true(both > SHOWN / 2 * SIZE);
		if (!(apart <= 1e-5 * largest))
			fail_msg("%s: %g apart, %g the largest", schedule[k], apart, largest);
	}
	free(s);
}

/* --- the network ---------------------------------------------------------------------------- */

/* Seconds of a round of synchronous SGD in the middle of the run. */
static double card_round(uint32_t workers, double gigabits, const char *speeds)
{
	enum { ROUNDS = 12 };
	struct oracle_run r = { .gaps = false };
	int64_t at[ROUNDS + 1] = { 0 };

	oracle_run(&r,
		   "model: {quadratic: {dimension: 100000}}\n"
		   "data: {samples: 1000000}\n"
		   "train: {updates: %d}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "strategy: ssgd\n" NO_CUTS
		   "sim: {compute: {law: constant, mean: 10ms}, speeds: [%s], latency: 0s, "
		   "bandwidth: %gGbit/s, threads: 1}\n",
		   ROUNDS, workers, speeds, gigabits);
	for (size_t k = 0; k < r.events; k++)
		if (r.event[k].kind == TW_NOTE_UPDATE)
			at[r.event[k].version] = r.event[k].at;
	oracle_free(&r);
	return (double)(at[ROUNDS - 1] - at[1]) / (double)TW_SECOND / (ROUNDS - 2);
}

/* The server's card sends all answers one after the other and takes all gradients one after the
 * other; it does both at a time.  One message takes m = 32 P / B.  If all compute for as long, the
 * gradients come as spread as the answers went: the last one follows the last answer by a
 * computation and its own m.  If who is answered first computes longer, so that all are ready at
 * the same moment, they queue again: 2 N m and the shortest computation. */
static void a_server_card_is_shared(void **state)
{
	static const uint32_t workers[] = { 2, 4, 8, 16 };
	static const double gigabits[] = { 0.1, 1 };

	for (size_t k = 0; k < 4; k++)
		for (size_t b = 0; b < 2; b++) {
			const double m = 32 * 1e5 / (gigabits[b] * 1e9), compute = 0.01;
			const uint32_t n = workers[k];
			char speeds[16 * 24] = "";
			double is = card_round(n, gigabits[b], "");
			double should = compute + (n + 1) * m;

			if (!(fabs(is - should) <= 0.01 * should))
				fail_msg("%u workers, %g Gbit/s: %g s, not %g s", n, gigabits[b],
					 is, should);
			for (uint32_t i = 0; i < n; i++)
				snprintf(speeds + strlen(speeds), 24, "%s%.9g", i ? ", " : "",
					 compute / (compute + (n - 1 - i) * m));
			is = card_round(n, gigabits[b], speeds);
			should = compute + 2 * n * m;
			if (!(fabs(is - should) <= 0.01 * should))
				fail_msg("%u workers in step, %g Gbit/s: %g s, not %g s", n,
					 gigabits[b], is, should);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(staleness_adds_up),
		cmocka_unit_test(mean_staleness_is_workers_less_one),
		cmocka_unit_test(softsync_divides_staleness),
		cmocka_unit_test(staleness_of_unequal_workers),
		cmocka_unit_test(exponential_times_make_staleness_geometric),
		cmocka_unit_test(softsync_is_rarely_late),
		cmocka_unit_test(nobody_starts_too_far_ahead),
		cmocka_unit_test(a_longer_lead_is_not_slower),
		cmocka_unit_test(backup_time_is_an_order_statistic),
		cmocka_unit_test(without_extra_workers_it_is_bsp),
		cmocka_unit_test(extra_workers_never_cost_time),
		cmocka_unit_test(participation_is_even),
		cmocka_unit_test(delayed_descent_has_its_bound),
		cmocka_unit_test(staleness_aware_rescues),
		cmocka_unit_test(decay_does_not_move_with_staleness),
		cmocka_unit_test(skipping_follows_its_formula),
		cmocka_unit_test(gaps_grow_as_in_danas_table),
		cmocka_unit_test(dana_follows_nag_over_a_step),
		cmocka_unit_test(dana_shows_what_dana_slim_keeps),
		cmocka_unit_test(a_server_card_is_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
