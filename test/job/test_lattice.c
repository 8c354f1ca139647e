/* SPDX-License-Identifier: Apache-2.0 */
/* test_lattice.c - methods that are the same method: bit for bit, or to rounding where two forms
 * of one formula are computed. */
#include "job/serial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Everybody as fast as everybody, so nearly that they always finish in the same order. */
static const char *in_turn(uint32_t workers)
{
	static char text[9][120];
	size_t n;

	assert_in_range(workers, 1, 8);
	n = (size_t)snprintf(text[workers], sizeof text[0], "sim: {threads: 1, speeds: [1");
	for (uint32_t k = 1; k < workers; k++)
		n += (size_t)snprintf(text[workers] + n, sizeof text[0] - n, ", %g", 1 - 0.001 * k);
	snprintf(text[workers] + n, sizeof text[0] - n, "]}\n");
	return text[workers];
}

static const uint32_t shard_counts[] = { 1, 2, 7, 16 };
static const uint32_t worker_counts[] = { 1, 2, 3, 8 };
#define SEEDS 5

/* Finishing times that never meet, and no time on the way: one push after the other. */
#define APART "sim: {compute: {law: log-normal, median: 100ms, sigma: 0.4}, threads: 1}\n"
#define LATE                                                                                       \
	"sim: {compute: {law: exponential, mean: 50ms}, latency: 9ms, jitter: 9ms, threads: 1}\n"

struct shape {
	uint32_t workers, shards;
	uint64_t seed;
	const char *data;  /* NULL: batch: 3 */
	const char *model; /* NULL: a noisy quadratic with buffers */
	const char *sim;   /* NULL: APART; threads have none */
	const char *train;
	enum tw_world_kind world;
};

static void write_text(char *text, size_t room, const struct shape *s, const char *strategy,
		       const char *update)
{
	const int len = snprintf(
		text, room,
		"model: %s\ndata: {source: none, samples: 90, %s}\n"
		"train: {seed: %llu, %s}\nupdate: {%s}\n"
		"cluster: {workers: %u, shards: %u}\nstrategy: %s\n%s",
		s->model ? s->model
			 : "{quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, "
			   "spread: 0.5, target: 0.5, buffers: 5}}",
		s->data ? s->data : "batch: 3", (unsigned long long)s->seed,
		s->train ? s->train : "epochs: 1.6", update, s->workers, s->shards, strategy,
		s->world == TW_WORLD_THREADS ? ""
		: s->sim                     ? s->sim
					     : APART);

	assert_true(len > 0 && (size_t)len < room);
}

static void run_shape(struct outcome *o, const struct shape *s, const char *strategy,
		      const char *update)
{
	char text[2048];

	write_text(text, sizeof text, s, strategy, update);
	outcome_open(o, text, NULL, s->world);
	outcome_run(o, NULL);
}

static void assert_same(const struct outcome *a, const struct outcome *b, const char *what,
			const struct shape *s)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		if (memcmp(&a->vector[i], &b->vector[i], sizeof(float)) != 0)
			fail_msg(
				"%s: element %zu: %.9g and %.9g (%u workers, %u shards, seed %llu)",
				what, i, (double)a->vector[i], (double)b->vector[i], s->workers,
				s->shards, (unsigned long long)s->seed);
	assert_string_equal(a->digest, b->digest);
}

/* Largest difference as a share of the largest element. */
static double apart(const float *a, const float *b, size_t n)
{
	double most = 0, largest = 0;

	for (size_t i = 0; i < n; i++) {
		assert_true(isfinite(a[i]) && isfinite(b[i]));
		most = fmax(most, fabs((double)a[i] - (double)b[i]));
		largest = fmax(largest, fabs((double)a[i]));
	}
	return most / largest;
}

/* Two strategies that are the same in every shape. */
static void always_same(const char *what, uint32_t least, const char *first,
			const char *first_update, const char *second, const char *second_update,
			const char *sim)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t w = 0; w < COUNT(worker_counts); w++)
			for (size_t k = 0; k < COUNT(shard_counts); k++) {
				const struct shape s = { .workers = worker_counts[w],
							 .shards = shard_counts[k],
							 .seed = seed,
							 .sim = sim };
				struct outcome a, b;

				if (s.workers < least)
					continue;
				run_shape(&a, &s, first, first_update);
				run_shape(&b, &s, second, second_update);
				assert_same(&a, &b, what, &s);
				outcome_close(&a);
				outcome_close(&b);
			}
}

/* --- line 1: synchronous ------------------------------------------------------------------ */

static const char *const sync_updates[] = {
	"rate: 0.2",
	"rate: 0.1, rule: momentum, decay: 0.01, clip: 1.5",
	"rate: 0.05, rule: adam, schedule: {kind: cosine}",
};

static void workers_add_like_one_that_accumulates(void **state)
{
	static const enum tw_world_kind worlds[] = { TW_WORLD_SIM, TW_WORLD_THREADS };
	static const uint32_t workers[] = { 2, 3, 8 };

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t u = 0; u < COUNT(sync_updates); u++)
			for (size_t w = 0; w < COUNT(workers); w++) {
				const uint32_t shards = shard_counts[(seed + u) % 4];
				char data[64];
				struct shape one = { .workers = 1, .shards = shards, .seed = seed };
				struct outcome alone;

				snprintf(data, sizeof data, "batch: 3, accumulate: %u", workers[w]);
				one.data = data;
				run_shape(&alone, &one, "ssgd", sync_updates[u]);
				for (size_t k = 0; k < COUNT(worlds); k++) {
					const struct shape many = { .workers = workers[w],
								    .shards = shards,
								    .seed = seed,
								    .sim = LATE,
								    .world = worlds[k] };
					struct outcome a;

					run_shape(&a, &many, "ssgd", sync_updates[u]);
					assert_same(&alone, &a, "bsp and accumulate", &many);
					outcome_close(&a);
				}
				outcome_close(&alone);
			}
}

static void workers_add_nearly_like_one_large_batch(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct shape many = { .workers = 3, .shards = 7, .seed = seed }, one = {
			.workers = 1, .shards = 7, .seed = seed, .data = "batch: 9"
		};
		struct outcome a, b;

		run_shape(&a, &many, "ssgd", "rate: 0.2");
		run_shape(&b, &one, "ssgd", "rate: 0.2");
		assert_true(a.ran.totals.updates > 5 &&
			    a.ran.totals.updates == b.ran.totals.updates);
		assert_true(apart(a.vector, b.vector, a.n) < 1e-5 * a.ran.totals.updates);
		outcome_close(&a);
		outcome_close(&b);
	}
}

static void backup_without_extra_is_bsp(void **state)
{
	(void)state;
	always_same("backup 0 and bsp", 1, "{name: backup, extra: 0}", "rate: 0.2", "ssgd",
		    "rate: 0.2", LATE);
	always_same("backup 0, abandon, and bsp", 1, "{name: backup, extra: 0, abandon: true}",
		    "rate: 0.2", "ssgd", "rate: 0.2", APART);
}

/* A total at some rate is the mean at N times the rate, to the bit where N is a power of 2.  All
 * rounds are whole: 96 positions are 12 batches of 8. */
static void a_total_is_the_mean_at_a_higher_rate(void **state)
{
	static const struct {
		const char *strategy, *update;
	} how[] = {
		{ "{name: ssgd%s}", "rate: %.9g, decay: 0.25" },
		{ "{name: ssgd%s}", "rate: %.9g, rule: momentum, momentum: 0.5, decay: 0.25" },
		{ "{name: backup, extra: 0%s}", "rate: %.9g" },
		{ "{name: softsync, n: 1%s}", "rate: %.9g, decay: 0.25" },
		{ "{gate: softsync, n: 1, staleness: inverse%s}", "rate: %.9g, decay: 0.25" },
		{ "{name: dc-ssgd%s}", "rate: %.9g, decay: 0.25" },
	};
	static const uint32_t workers[] = { 1, 2, 4 };

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t k = 0; k < COUNT(how); k++)
			for (size_t w = 0; w < COUNT(workers); w++) {
				const struct shape s = { .workers = workers[w],
							 .shards = shard_counts[seed % 4],
							 .seed = seed,
							 .data = "batch: 6",
							 .train = "steps: 12" };
				char strategy[2][120], update[2][120];
				struct outcome a, b;

				for (int total = 0; total < 2; total++) {
					const double rate = 0.03125 * (total ? 1 : workers[w]);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
					snprintf(strategy[total], sizeof strategy[0],
						 how[k].strategy, total ? ", sum: total" : "");
					snprintf(update[total], sizeof update[0], how[k].update,
						 rate);
#pragma GCC diagnostic pop
				}
				run_shape(&a, &s, strategy[0], update[0]);
				run_shape(&b, &s, strategy[1], update[1]);
				assert_same(&a, &b, strategy[1], &s);
				outcome_close(&b);
				if (workers[w] > 1) { /* and the sum is not the mean */
					run_shape(&b, &s, strategy[0], update[1]);
					assert_true(apart(a.vector, b.vector, a.engine->trainable) >
						    1e-3);
					outcome_close(&b);
				}
				outcome_close(&a);
			}
}

static void in_turn_without_lambda_is_nearly_bsp(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t w = 0; w < COUNT(worker_counts); w++) {
			const struct shape s = { .workers = worker_counts[w],
						 .shards = shard_counts[seed % 4],
						 .seed = seed };
			struct outcome a, b;

			run_shape(&a, &s, "{name: dc-ssgd, lambda: 0}", "rate: 0.2");
			run_shape(&b, &s, "ssgd", "rate: 0.2");
			/* rounds of less than full batches weigh differently: compare full ones */
			assert_true(apart(a.vector, b.vector, a.n) < 1e-5);
			outcome_close(&a);
			outcome_close(&b);
		}
}

/* Who computed what, at which clock. */
struct clocks {
	struct {
		uint64_t from;
		uint32_t count;
	} step[128][8]; /* by clock and slot */
	uint64_t last;
};

static bool take_clock(void *arg, const struct tw_note *note)
{
	struct clocks *c = arg;

	if (note->kind == TW_NOTE_STEP && note->step.clock < 128 && note->slot < 8) {
		c->step[note->step.clock][note->slot].from = note->from;
		c->step[note->step.clock][note->slot].count = note->count;
		c->last = note->step.clock > c->last ? note->step.clock : c->last;
	}
	return true;
}

static void gradient_at(const struct outcome *o, const float *w, uint64_t from, uint32_t count,
			float *g)
{
	const struct tw_piece all = { w, 0, o->n };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &all, .pieces = 1 };
	void *scratch = malloc(o->engine->scratch_bytes + 1);
	struct tw_score score;

	assert_non_null(scratch);
	assert_int_equal(o->engine->class->gradient(o->engine, scratch, &in, g, &score), TW_OK);
	free(scratch);
}

static float *start_of_run(const struct outcome *o)
{
	float *w = calloc(o->n, sizeof *w);

	assert_non_null(w);
	assert_int_equal(o->engine->class->init(o->engine, 0, o->n, w), TW_OK);
	return w;
}

/* ssp with lead 0 at rate / N: every clock is a synchronous round of the samples it took. */
static void no_lead_is_synchronous(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t n = 0; n < COUNT(worker_counts); n++) {
			const uint32_t workers = worker_counts[n];
			const struct shape s = { .workers = workers,
						 .shards = shard_counts[seed % 4],
						 .seed = seed,
						 .sim = seed % 2 ? LATE : APART,
						 .data = "batch: 1",
						 .train = "epochs: 0.8" };
			struct clocks clocks = { .last = 0 };
			char text[2048], update[64];
			struct outcome o;
			float *w, *sum, *g;

			snprintf(update, sizeof update, "rate: %.9g", 0.2 / workers);
			write_text(text, sizeof text, &s, "{name: ssp, lead: 0}", update);
			outcome_open(&o, text, NULL, TW_WORLD_SIM);
			outcome_run(&o, &(const struct watch){ .observer = take_clock,
							       .arg = &clocks });
			w = start_of_run(&o);
			sum = calloc(o.n, sizeof *sum);
			g = calloc(o.n, sizeof *g);
			for (uint64_t c = 0; c <= clocks.last; c++) {
				memset(sum, 0, o.n * sizeof *sum);
				for (uint32_t k = 0; k < workers; k++) {
					if (!clocks.step[c][k].count)
						continue; /* had nothing left to do */
					gradient_at(&o, w, clocks.step[c][k].from,
						    clocks.step[c][k].count, g);
					for (size_t i = 0; i < o.engine->trainable; i++)
						sum[i] += g[i];
				}
				for (size_t i = 0; i < o.engine->trainable; i++)
					w[i] -= 0.2f * (sum[i] / (float)workers);
			}
			assert_true(clocks.last >= 4);
			if (apart(w, o.vector, o.engine->trainable) >=
			    1e-6 * (double)(clocks.last + 1))
				fail_msg("off by %g after %llu clocks of %u workers, seed %llu",
					 apart(w, o.vector, o.engine->trainable),
					 (unsigned long long)clocks.last + 1, workers,
					 (unsigned long long)seed);
			free(w), free(sum), free(g);
			outcome_close(&o);
		}
}

/* --- line 2: one worker ------------------------------------------------------------------- */

/* Plain descent over the positions in order, batch after batch, never across an epoch. */
static float *descend(const struct outcome *o, float rate, uint32_t batch)
{
	const uint64_t samples = o->engine->samples;
	float *w = start_of_run(o), *g = calloc(o->n, sizeof *g);

	for (uint64_t at = 0; at < o->job->plan.dealing.positions;) {
		const uint64_t border = (at / samples + 1) * samples;
		const uint64_t end = border < o->job->plan.dealing.positions
					     ? border
					     : o->job->plan.dealing.positions;
		const uint32_t count = end - at < batch ? (uint32_t)(end - at) : batch;

		gradient_at(o, w, at, count, g);
		for (size_t i = 0; i < o->engine->trainable; i++)
			w[i] = fmaf(-rate, g[i], w[i]);
		for (size_t i = o->engine->trainable; i < o->n; i++)
			w[i] += g[i];
		at += count;
	}
	free(g);
	return w;
}

static void one_worker_is_plain_descent(void **state)
{
	static const char *const same[] = {
		"ssgd",
		"asgd",
		"softsync",
		"staleness-aware",
		"rudra",
		"{name: ssp, lead: 0}",
		"ssp",
		"{name: dc-asgd, lambda: 0.7}",
		"dc-asgd-a",
		"{name: dc-ssgd, lambda: 0.7}",
		"{name: backup, extra: 0}",
		"{gate: async, push: 1, fetch: 1}",
	};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t k = 0; k < COUNT(same); k++)
			for (size_t c = 0; c < COUNT(shard_counts); c++) {
				const struct shape s = { .workers = 1,
							 .shards = shard_counts[c],
							 .seed = seed,
							 .data = "batch: 4",
							 .sim = seed % 2 ? LATE : APART };
				struct outcome o;
				float *w;

				run_shape(&o, &s, same[k], "rate: 0.1, rule: sgd");
				w = descend(&o, 0.1f, 4);
				if (memcmp(w, o.vector, o.n * sizeof *w) != 0)
					fail_msg("%s with one worker is not plain descent (%u "
						 "shards, seed %llu)",
						 same[k], s.shards, (unsigned long long)seed);
				free(w);
				outcome_close(&o);
			}
}

static void one_worker_with_its_own_momentum_has_the_only_one(void **state)
{
	static const char *const nesterov[] = {
		"rate: 0.05, decay: 0.01",
		"rate: 0.05, schedule: {kind: cosine}",
		"rate: 0.05, schedule: {kind: step, at: [0.5, 1], factor: 0.1, warmup: 0.3}",
	};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t c = 0; c < COUNT(shard_counts); c++) {
			const struct shape s = {
				.workers = 1, .shards = shard_counts[c], .seed = seed, .sim = LATE
			};
			struct outcome a, b;

			run_shape(&a, &s, "multi-asgd", "rate: 0.05, decay: 0.01, nesterov: false");
			run_shape(&b, &s, "asgd",
				  "rate: 0.05, decay: 0.01, rule: momentum, momentum: 0.9");
			assert_same(&a, &b, "multi and momentum", &s);
			outcome_close(&a);
			outcome_close(&b);
			for (size_t u = 0; u < COUNT(nesterov); u++) {
				run_shape(&a, &s, "{name: multi-asgd, codec: {down: bf16}}",
					  nesterov[u]);
				run_shape(&b, &s, "{name: nag-asgd, codec: {down: bf16}}",
					  nesterov[u]);
				assert_same(&a, &b, "multi and nag", &s);
				outcome_close(&a);
				outcome_close(&b);
			}
		}
}

/* --- lines 2 and 3: the forms of DANA ------------------------------------------------------ */

static const struct formula dana = {
	.step = step_dana, .view = view_dana, .stamped = true, .momentum = 0.9f
};
static const struct formula nag = { .step = step_momentum, .view = view_nag, .momentum = 0.9f };

/* Run and replay; *shown becomes what workers would see at the end. */
static void run_shown(struct outcome *o, const struct shape *s, const char *strategy,
		      const char *update, const struct formula *f, float *shown)
{
	char text[2048];
	struct serial *z;

	write_text(text, sizeof text, s, strategy, update);
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	z = serial_new(o, f);
	outcome_run(o, &(const struct watch){
			       .observer = serial_note, .worker_hears = serial_hears, .arg = z });
	if (serial_complaint(z))
		fail_msg("%s", serial_complaint(z));
	serial_shown(z, shown);
	serial_free(z);
}

static void one_worker_makes_dana_nesterov(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct shape s = { .workers = 1,
					 .shards = shard_counts[seed % 4],
					 .seed = seed };
		float of_dana[64], of_nag[64];
		struct outcome zero, slim, nesterov;

		run_shown(&zero, &s, "dana", "rate: 0.05", &dana, of_dana);
		run_shown(&nesterov, &s, "nag-asgd", "rate: 0.05", &nag, of_nag);
		run_shape(&slim, &s, "dana-slim", "rate: 0.05");
		assert_true(apart(zero.vector, nesterov.vector, zero.n) < 1e-5);
		assert_true(apart(of_dana, of_nag, zero.n) < 1e-5);
		assert_true(apart(of_dana, slim.vector, zero.n) < 1e-5);
		/* and the views are not the parameters, or this would say nothing */
		assert_true(apart(of_dana, zero.vector, zero.engine->trainable) > 1e-4);
		outcome_close(&zero);
		outcome_close(&slim);
		outcome_close(&nesterov);
	}
}

static void dana_and_dana_slim_show_the_same(void **state)
{
	static const char *const updates[] = {
		"rate: 0.03",
		"rate: 0.03, schedule: {kind: cosine}",
		"rate: 0.03, schedule: {kind: step, at: [0.5, 1], factor: 0.1, warmup: 0.3, "
		"warmup_from: 0.1}",
		"rate: 0.03, schedule: {kind: linear, warmup: 0.5}",
	};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t w = 0; w < COUNT(worker_counts); w++)
			for (size_t u = 0; u < COUNT(updates); u++) {
				const struct shape s = { .workers = worker_counts[w],
							 .shards = shard_counts[(seed + w) % 4],
							 .seed = seed,
							 .sim = seed % 2 ? LATE : APART,
							 .train = "epochs: 4" };
				float shown[64];
				struct outcome zero, slim;

				run_shown(&zero, &s, "dana", updates[u], &dana, shown);
				run_shape(&slim, &s, "dana-slim", updates[u]);
				if (apart(shown, slim.vector, zero.engine->trainable) >= 1e-5)
					fail_msg("theta - gamma S and Theta differ by %g (%u "
						 "workers, seed %llu, %s)",
						 apart(shown, slim.vector, zero.engine->trainable),
						 s.workers, (unsigned long long)seed, updates[u]);
				outcome_close(&zero);
				outcome_close(&slim);
			}
}

static void nothing_to_correct_is_no_correction(void **state)
{
	(void)state;
	always_same("dc-asgd, lambda 0, and asgd", 1, "{name: dc-asgd, lambda: 0}", "rate: 0.05",
		    "asgd", "rate: 0.05", LATE);
	always_same("dc-asgd-a, lambda 0, and asgd", 1, "{name: dc-asgd-a, lambda: 0}",
		    "rate: 0.05", "asgd", "rate: 0.05", LATE);
	always_same("dana-dc, lambda 0, and dana", 1, "{name: dana-dc, lambda: 0}", "rate: 0.02",
		    "dana", "rate: 0.02", LATE);
	/* dana rounds rate * g on its own: where that is exact it is asgd to the bit */
	always_same("dana, momentum 0, and asgd", 1, "dana", "rate: 0.0625, momentum: 0", "asgd",
		    "rate: 0.0625", LATE);
}

static void dana_without_momentum_is_nearly_asgd_at_any_rate(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct shape s = { .workers = 8, .shards = 7, .seed = seed, .sim = LATE };
		struct outcome a, b;

		run_shape(&a, &s, "dana", "rate: 0.05, momentum: 0");
		run_shape(&b, &s, "asgd", "rate: 0.05");
		assert_true(apart(a.vector, b.vector, a.n) < 1e-5);
		outcome_close(&a);
		outcome_close(&b);
	}
}

/* --- line 4: asynchronous ------------------------------------------------------------------ */

static void plain_forms_are_asgd(void **state)
{
	(void)state;
	always_same("softsync 1 and asgd", 1, "{name: softsync, collect: 1}", "rate: 0.05", "asgd",
		    "rate: 0.05", LATE);
	always_same("ssp without end and asgd", 1, "{name: ssp, lead: 1000000}", "rate: 0.05",
		    "asgd", "rate: 0.05", LATE);
	always_same("b-fasgd, c 0, and fasgd", 1, "{name: fasgd, skip: {push: 0, fetch: 0}}",
		    "rate: 0.02", "fasgd", "rate: 0.02", LATE);
}

static void downpour_of_single_steps_is_asgd(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t w = 1; w < COUNT(worker_counts); w++) {
			const struct shape s = {
				.workers = worker_counts[w],
				.shards = shard_counts[seed % 4],
				.seed = seed,
				.sim = LATE,
				.train = "epochs: 1.6, warm: {workers: 1, for: 0.1 epochs}"
			};
			struct outcome a, b;

			/* as in the paper, and without Adagrad, as section 15 says it */
			for (int plain = 0; plain < 2; plain++) {
				const char *update = plain ? "rate: 0.05, rule: sgd"
							   : "rate: 0.05, rule: adagrad";

				run_shape(&a, &s,
					  "{name: downpour, push: 1, fetch: 1, overlap: false}",
					  update);
				run_shape(&b, &s, "asgd", update);
				assert_same(&a, &b, "downpour(1, 1) and asgd", &s);
				outcome_close(&a);
				outcome_close(&b);
			}
		}
}

static void shards_do_not_matter_when_pushes_are_apart(void **state)
{
	static const struct {
		const char *strategy, *update;
	} methods[] = {
		{ "ssgd", "rate: 0.2" },
		{ "{name: backup, extra: 1}", "rate: 0.2" },
		{ "dc-ssgd", "rate: 0.2" },
		{ "asgd", "rate: 0.05, clip: 1" },
		{ "asgd", "rate: 0.05, rule: adamw, decay: 0.1" },
		{ "{name: asgd, codec: {up: bf16, down: fp16}}", "rate: 0.05" },
		{ "{name: downpour, push: 3, fetch: 2}", "rate: 0.1" },
		{ "{name: softsync, collect: 3}", "rate: 0.1" },
		{ "staleness-aware", "rate: 0.1" },
		{ "{name: rudra, n: 2}", "rate: 0.1" },
		{ "{name: ssp, lead: 1}", "rate: 0.05" },
		{ "fasgd", "rate: 0.02" },
		{ "dc-asgd", "rate: 0.05" },
		{ "dc-asgd-a", "rate: 0.05" },
		{ "gap-aware", "rate: 0.02" },
		{ "multi-asgd", "rate: 0.02" },
		{ "nag-asgd", "rate: 0.02" },
		{ "dana", "rate: 0.02" },
		{ "dana-slim", "rate: 0.02" },
		{ "dana-dc", "rate: 0.02" },
	};

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t m = 0; m < COUNT(methods); m++) {
			const struct shape one = { .workers = 8, .shards = 1, .seed = seed };
			struct outcome a, b;

			run_shape(&a, &one, methods[m].strategy, methods[m].update);
			for (size_t c = 1; c < COUNT(shard_counts); c++) {
				const struct shape many = { .workers = 8,
							    .shards = shard_counts[c],
							    .seed = seed };

				run_shape(&b, &many, methods[m].strategy, methods[m].update);
				assert_same(&a, &b, methods[m].strategy, &many);
				outcome_close(&b);
			}
			outcome_close(&a);
		}
}

/* --- line 5: a constant delay -------------------------------------------------------------- */

struct order {
	struct {
		uint64_t from;
		uint32_t count;
	} batch[256];
	size_t n;
};

static bool take_order(void *arg, const struct tw_note *note)
{
	struct order *x = arg;

	if (note->kind == TW_NOTE_APPLY && note->shard == 0) {
		assert_true(x->n < COUNT(x->batch));
		x->batch[x->n].from = note->from;
		x->batch[x->n++].count = note->count;
	}
	return true;
}

/* w_{t+1} = w_t - rate g(w_{t-d}), over the batches in the order in which they were applied. */
static void assert_delayed(const char *text, uint32_t delay, float rate)
{
	struct order order = { .n = 0 };
	struct outcome o;
	float *w[257], *g;

	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	outcome_run(&o, &(const struct watch){ .observer = take_order, .arg = &order });
	g = calloc(o.n, sizeof *g);
	w[0] = start_of_run(&o);
	for (size_t t = 0; t < order.n; t++) {
		gradient_at(&o, w[t < delay ? 0 : t - delay], order.batch[t].from,
			    order.batch[t].count, g);
		w[t + 1] = calloc(o.n, sizeof *g);
		for (size_t i = 0; i < o.n; i++)
			w[t + 1][i] = fmaf(-rate, g[i], w[t][i]);
	}
	assert_true(order.n > 20);
	if (memcmp(w[order.n], o.vector, o.n * sizeof(float)) != 0)
		fail_msg("not descent delayed by %u:\n%s", delay, text);
	for (size_t t = 0; t <= order.n; t++)
		free(w[t]);
	free(g);
	outcome_close(&o);
}

#define WITHOUT_BUFFERS "{quadratic: {dimension: 37, noise: 0.3, spread: 0.5}}"
#define QUIET           "{quadratic: {dimension: 37, spread: 0.5}}"

static void workers_in_turn_delay_by_all_others(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t w = 0; w < COUNT(worker_counts); w++)
			for (size_t c = 0; c < COUNT(shard_counts); c++) {
				const uint32_t n = worker_counts[w];
				char text[2048], sim[128];
				struct shape s = { .workers = n,
						   .shards = shard_counts[c],
						   .seed = seed,
						   .model = WITHOUT_BUFFERS,
						   .sim = in_turn(n) };

				write_text(text, sizeof text, &s, "asgd", "rate: 0.1");
				assert_delayed(text, n - 1, 0.1f);
				if (n == 1)
					continue;
				s.workers = 1;
				s.sim = sim;
				snprintf(sim, sizeof sim, "sim: {delay: {steps: %u}, threads: 1}\n",
					 n - 1);
				write_text(text, sizeof text, &s, "asgd", "rate: 0.1");
				assert_delayed(text, n - 1, 0.1f);
			}
}

/* Without noise it does not matter who takes which samples. */
static void workers_in_turn_are_the_delay_of_one(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t w = 1; w < COUNT(worker_counts); w++) {
			char sim[128];
			struct shape many = { .workers = worker_counts[w],
					      .shards = shard_counts[seed % 4],
					      .seed = seed,
					      .model = QUIET,
					      .sim = in_turn(worker_counts[w]) };
			struct shape one = many;
			struct outcome a, b;

			one.workers = 1;
			one.sim = sim;
			snprintf(sim, sizeof sim, "sim: {delay: {steps: %u}, threads: 1}\n",
				 many.workers - 1);
			run_shape(&a, &many, "asgd", "rate: 0.1");
			run_shape(&b, &one, "asgd", "rate: 0.1");
			assert_same(&a, &b, "round-robin and sim.delay", &many);
			outcome_close(&a);
			outcome_close(&b);
		}
}

/* --- line 10: Hogwild ---------------------------------------------------------------------- */

static void hogwild_with_one_thread_is_plain_descent(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t c = 0; c < COUNT(shard_counts); c++) {
			const struct shape s = { .workers = 1,
						 .shards = shard_counts[c],
						 .seed = seed,
						 .model = WITHOUT_BUFFERS,
						 .world = TW_WORLD_THREADS };
			struct outcome o;
			float *w;

			run_shape(&o, &s, "hogwild", "rate: 0.1");
			w = descend(&o, 0.1f, 3);
			assert_memory_equal(w, o.vector, o.n * sizeof *w);
			free(w);
			outcome_close(&o);
		}
}

/* Every sample has elements of its own, so nobody can be in anybody's way. */
static void hogwild_on_disjoint_supports_is_serial(void **state)
{
	static const uint32_t workers[] = { 1, 2, 4, 8 };

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (size_t k = 0; k < COUNT(workers); k++)
			for (size_t c = 0; c < COUNT(shard_counts); c++) {
				const struct shape s = {
					.workers = workers[k],
					.shards = shard_counts[c],
					.seed = seed,
					.model = "{least-squares: {dimension: 270, blocks: 90}}",
					.data = "batch: 1",
					.train = "epochs: 1",
					.world = TW_WORLD_THREADS
				};
				struct outcome o;
				float *w, *begin;

				run_shape(&o, &s, "hogwild", "rate: 0.1");
				w = descend(&o, 0.1f, 1);
				begin = start_of_run(&o);
				assert_memory_equal(w, o.vector, o.n * sizeof *w);
				assert_true(memcmp(w, begin, o.n * sizeof *w) != 0);
				free(w), free(begin);
				outcome_close(&o);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_add_like_one_that_accumulates),
		cmocka_unit_test(workers_add_nearly_like_one_large_batch),
		cmocka_unit_test(backup_without_extra_is_bsp),
		cmocka_unit_test(a_total_is_the_mean_at_a_higher_rate),
		cmocka_unit_test(in_turn_without_lambda_is_nearly_bsp),
		cmocka_unit_test(no_lead_is_synchronous),
		cmocka_unit_test(one_worker_is_plain_descent),
		cmocka_unit_test(one_worker_with_its_own_momentum_has_the_only_one),
		cmocka_unit_test(one_worker_makes_dana_nesterov),
		cmocka_unit_test(dana_and_dana_slim_show_the_same),
		cmocka_unit_test(nothing_to_correct_is_no_correction),
		cmocka_unit_test(dana_without_momentum_is_nearly_asgd_at_any_rate),
		cmocka_unit_test(plain_forms_are_asgd),
		cmocka_unit_test(downpour_of_single_steps_is_asgd),
		cmocka_unit_test(shards_do_not_matter_when_pushes_are_apart),
		cmocka_unit_test(workers_in_turn_delay_by_all_others),
		cmocka_unit_test(workers_in_turn_are_the_delay_of_one),
		cmocka_unit_test(hogwild_with_one_thread_is_plain_descent),
		cmocka_unit_test(hogwild_on_disjoint_supports_is_serial),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
