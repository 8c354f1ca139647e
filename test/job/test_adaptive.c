/* SPDX-License-Identifier: Apache-2.0 */
/* test_adaptive.c - periods by worker speed (strategy.adaptive), on simulated workers whose speeds
 * are known. */
#include "job/serial.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define SLOTS    12
#define PUSHES   4000

/* Pushes as the first shard applied them. */
struct pushes {
	uint32_t count[SLOTS];
	uint32_t samples[SLOTS][PUSHES];
	int64_t at[SLOTS][PUSHES];
	uint64_t seq[SLOTS];
};

static struct pushes seen, other;

static bool count_push(void *arg, const struct tw_note *note)
{
	struct pushes *p = arg;
	const uint32_t k = note->slot;

	if (note->kind != TW_NOTE_APPLY || note->shard != 0)
		return true;
	assert_true(k < SLOTS && p->count[k] < PUSHES);
	if (p->seq[k] != note->seq) { /* a note for each range */
		p->seq[k] = note->seq;
		p->at[k][p->count[k]++] = note->at;
	}
	p->samples[k][p->count[k] - 1] += note->count;
	return true;
}

#define JOB                                                                                        \
	"model: {quadratic: {dimension: 23, curvature: [0.1, 1], noise: 0.3}}\n"                   \
	"data: {source: none, samples: 1000, batch: %u, accumulate: %u}\n"                         \
	"train: {epochs: %u, seed: %u}\ncheckpoint: {every: %s}\n"                                 \
	"update: {rule: sgd, rate: 0.01}\ncluster: {workers: %u, shards: 3, servers: 2}\n"         \
	"strategy: {%s, push: %u, adaptive: %s}\n"                                                 \
	"sim: {compute: %s, speeds: [%s], latency: %s, threads: 1}\n"
#define CONSTANT "{law: constant, mean: 100ms}"

static void text_of(char *text, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static void text_of(char *text, size_t room, const char *format, ...)
{
	va_list list;
	int len;

	va_start(list, format);
	len = vsnprintf(text, room, format, list);
	va_end(list);
	assert_true(len > 0 && (size_t)len < room);
}

static void watch_run(struct outcome *o, struct pushes *p, const char *text)
{
	*p = (struct pushes){ .count = { 0 } };
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	outcome_run(o, &(const struct watch){ .observer = count_push, .arg = p });
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* From the formula alone. */
static uint32_t period_of(const double *speed, uint32_t workers, uint32_t k, uint32_t push)
{
	double all[SLOTS], steps;

	memcpy(all, speed, workers * sizeof *all);
	qsort(all, workers, sizeof *all, by_value);
	steps = floor(push * (speed[k] / all[(9 * workers + 9) / 10 - 1]) + 1e-9);
	return steps < 1 ? 1 : (uint32_t)steps;
}

static const struct fleet {
	uint32_t workers, push, batch, accumulate;
	double speed[SLOTS];
} fleets[] = {
	{ 4, 20, 4, 1, { 1, 0.5, 0.37, 0.05 } },
	{ 3, 7, 3, 2, { 0.3, 1.7, 1 } },
	{ 12, 10, 2, 1, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3 } }, /* beyond the quantile */
	{ 1, 5, 4, 1, { 0.2 } },
	{ 8, 30, 2, 1, { 8, 4, 2, 1, 0.5, 0.25, 0.125, 0.05 } },
};

static const char *const strategies[] = {
	"gate: async, send: delta, outer: {rule: delayed-nesterov}",
	"gate: async, send: delta, merge: elastic, outer: {rule: add, scale: 1}",
	"gate: softsync, collect: 1, send: delta, outer: {rule: average}",
};

static void fleet_text(const struct fleet *f, const char *strategy, const char *adaptive,
		       uint32_t epochs, char *text, size_t room)
{
	char speeds[200] = "";

	for (uint32_t k = 0; k < f->workers; k++)
		snprintf(speeds + strlen(speeds), sizeof speeds - strlen(speeds), "%s%g",
			 k ? ", " : "", f->speed[k]);
	text_of(text, room, JOB, f->batch, f->accumulate, epochs, 3u, "0s", f->workers, strategy,
		f->push, adaptive, CONSTANT, speeds, "0s");
}

/* The first pushes come before all speeds are known, the last one has what is left. */
static void periods_are_the_formula(void **state)
{
	(void)state;
	for (size_t f = 0; f < COUNT(fleets); f++)
		for (size_t s = 0; s < COUNT(strategies); s++) {
			const struct fleet *w = &fleets[f];
			uint32_t least = UINT32_MAX, most = 0;
			struct outcome o;
			char text[2000];

			fleet_text(w, strategies[s], "true", 80, text, sizeof text);
			watch_run(&o, &seen, text);
			for (uint32_t k = 0; k < w->workers; k++) {
				const uint32_t steps = period_of(w->speed, w->workers, k, w->push);
				const uint32_t group = w->batch * w->accumulate;
				const uint32_t unit = steps * group;
				uint32_t looked = 0;

				least = steps < least ? steps : least;
				most = steps > most ? steps : most;
				for (uint32_t i = 0; i + 1 < seen.count[k]; i++) {
					const uint32_t n = seen.samples[k][i];

					if (seen.at[k][i] < o.ran.virtual_ns / 2)
						continue;
					looked++;
					/* a batch ends with its epoch, so some are shorter */
					if (n > unit || n + group <= unit)
						fail_msg("fleet %zu, %s, worker %u: push %u is of "
							 "%u samples, and %u steps have %u",
							 f, strategies[s], k, i, n, steps, unit);
				}
				assert_true(looked >= 3);
			}
			/* all begin with `push` */
			assert_int_equal(o.ran.totals.least_period,
					 least < w->push ? least : w->push);
			assert_int_equal(o.ran.totals.most_period, most > w->push ? most : w->push);
			outcome_close(&o);
		}
}

static uint32_t in_the_middle(const struct pushes *p, uint32_t k, int64_t end)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->count[k]; i++)
		n += p->at[k][i] > end / 3 && p->at[k][i] <= end / 3 * 2;
	return n;
}

static void pushes_come_at_the_same_rate(void **state)
{
	static const struct fleet even = { 4, 20, 4, 1, { 1, 0.5, 0.25, 0.05 } };
	struct outcome o;
	char text[2000];

	(void)state;
	for (int adaptive = 0; adaptive < 2; adaptive++) {
		uint32_t least = UINT32_MAX, most = 0;

		fleet_text(&even, strategies[0], adaptive ? "true" : "false", 80, text,
			   sizeof text);
		watch_run(&o, &seen, text);
		for (uint32_t k = 0; k < even.workers; k++) {
			const uint32_t n = in_the_middle(&seen, k, o.ran.virtual_ns);

			least = n < least ? n : least;
			most = n > most ? n : most;
		}
		outcome_close(&o);
		if (adaptive)
			assert_true(least > 50 && most <= least + 1);
		else
			assert_true(most > 5 * least);
	}
}

/* Where everybody is equally fast nothing changes: the same pushes, at the same times, to the same
 * bits.  The run is so short that leases are, too. */
static void equal_speeds_change_nothing(void **state)
{
	(void)state;
	for (uint32_t workers = 1; workers <= 11; workers += 5)
		for (size_t s = 0; s < COUNT(strategies); s++) {
			struct outcome a, b;
			char text[2][2000];

			for (int i = 0; i < 2; i++)
				text_of(text[i], sizeof text[i], JOB, 4u, 1u, 1u, 5u, "0s", workers,
					strategies[s], workers == 1 ? 40u : 9u,
					i ? "true" : "false", CONSTANT, "", "3ms");
			watch_run(&a, &seen, text[0]);
			watch_run(&b, &other, text[1]);
			assert_memory_equal(a.vector, b.vector, a.n * sizeof(float));
			assert_memory_equal(&seen, &other, sizeof seen);
			assert_int_equal(b.ran.totals.least_period, b.ran.totals.most_period);
			outcome_close(&a);
			outcome_close(&b);
		}
}

/* Speeds are part of a checkpoint. */
static void stopping_does_not_matter(void **state)
{
	(void)state;
	for (uint64_t stop = 1; stop <= 4; stop++)
		for (size_t s = 0; s < COUNT(strategies); s++) {
			struct tw_store *store = tw_memory_store_new(&tw_heap_system);
			struct outcome whole, part, again;
			char text[2000];

			assert_non_null(store);
			text_of(text, sizeof text, JOB, 3u, 1u, 6u, 2u, "20s", 4u, strategies[s],
				12u, "true", "{law: uniform, mean: 100ms, spread: 0.5}",
				"1, 0.6, 0.3, 0.1", "2ms");
			outcome_open(&whole, text, NULL, TW_WORLD_SIM);
			outcome_run(&whole, NULL);
			assert_true(whole.ran.totals.cut >= 5);
			assert_true(whole.ran.totals.least_period < 4);
			outcome_open(&part, text, NULL, TW_WORLD_SIM);
			outcome_run(&part,
				    &(const struct watch){ .store = store, .stop_after = stop });
			outcome_close(&part);
			outcome_open(&again, text, NULL, TW_WORLD_SIM);
			outcome_run(&again,
				    &(const struct watch){ .store = store, .resume = true });
			assert_memory_equal(whole.vector, again.vector, whole.n * sizeof(float));
			assert_int_equal(whole.ran.totals.least_period,
					 again.ran.totals.least_period);
			outcome_close(&again);
			outcome_close(&whole);
			tw_memory_store_free(store);
		}
}

/* Real threads differ in speed by chance only, and the run ends. */
static void threads_adapt_too(void **state)
{
	struct outcome o;

	(void)state;
	outcome_of(&o, TW_WORLD_THREADS,
		   "model: {quadratic: {dimension: 23}}\ndata: {source: none, samples: 500, batch: "
		   "2}\ntrain: {epochs: 20}\nupdate: {rule: sgd, rate: 0.01}\ncluster: {workers: "
		   "3, shards: 2}\nstrategy: {gate: async, send: delta, push: 20, adaptive: true, "
		   "outer: {rule: average}}\n");
	assert_int_equal(o.ran.totals.samples, 10000);
	assert_true(o.ran.totals.least_period >= 1 && o.ran.totals.most_period >= 20);
	outcome_close(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(periods_are_the_formula),
		cmocka_unit_test(pushes_come_at_the_same_rate),
		cmocka_unit_test(equal_speeds_change_nothing),
		cmocka_unit_test(stopping_does_not_matter),
		cmocka_unit_test(threads_adapt_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
