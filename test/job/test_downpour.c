/* SPDX-License-Identifier: Apache-2.0 */
/* test_downpour.c - what Downpour SGD adds to asynchronous SGD: fetches beside the computation, and
 * a warm start in which one worker after the other begins. */
#include "job/serial.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MS           INT64_C(1000000)
#define DIMENSION    11
#define STEPS        60

/* --- one worker, against a serial loop ----------------------------------------------------- */

/* Step i = 1, 2, ... is computed with the parameters that were asked for `fetch` or more steps ago:
 * with an answer that takes less than a step, those that are here when step i begins were asked for
 * at the end of step i - 2 or earlier, after a multiple of `fetch` steps. */
static uint64_t version_of(uint64_t i, uint64_t fetch)
{
	return i < 2 ? 0 : (i - 2) / fetch * fetch;
}

static void gradient_at(const struct outcome *o, void *scratch, uint64_t step, const float *w,
			float *g)
{
	const struct tw_piece piece = { w, 0, DIMENSION };
	const struct tw_inputs in = { .from = step * 2, .count = 2, .piece = &piece, .pieces = 1 };
	struct tw_score score;

	assert_int_equal(o->engine->class->gradient(o->engine, scratch, &in, g, &score), TW_OK);
}

static void one_worker_computes_on_old_parameters(void **state)
{
	(void)state;
	for (uint32_t fetch = 1; fetch <= 4; fetch++)
		for (uint32_t shards = 1; shards <= 3; shards += 2)
			for (int local = 0; local < (fetch > 1 ? 2 : 1); local++) {
				static float w[STEPS + 1][DIMENSION]; /* after so many updates */
				float x[DIMENSION], g[DIMENSION];
				struct outcome o;
				void *scratch;
				char text[1024];

				snprintf(text, sizeof text,
					 "model: {quadratic: {dimension: %d, curvature: [0.1, 1], "
					 "noise: 0.3, spread: 1}}\n"
					 "data: {samples: 60, batch: 2}\ntrain: {epochs: 2}\n"
					 "update: {rate: 0.125}\n"
					 "cluster: {workers: 1, shards: %u}\n"
					 "strategy: {gate: async, fetch: {every: %u, overlap: "
					 "true}%s}\n"
					 "sim: {compute: {mean: 100ms}, latency: 20ms}\n",
					 DIMENSION, shards, fetch,
					 local ? ", local: {rule: sgd, rate: 0.0625}" : "");
				outcome_open(&o, text, NULL, TW_WORLD_SIM);
				scratch = calloc(1, o.engine->scratch_bytes + 1);
				o.engine->class->init(o.engine, 0, DIMENSION, w[0]);
				memcpy(x, w[0], sizeof x);
				for (uint64_t i = 1; i <= STEPS; i++) {
					const uint64_t v = version_of(i, fetch);

					if (!local || (i > 2 && v != version_of(i - 1, fetch)))
						memcpy(x, w[v], sizeof x);
					gradient_at(&o, scratch, i - 1, x, g);
					for (int k = 0; k < DIMENSION; k++) {
						w[i][k] = w[i - 1][k] - 0.125f * g[k];
						x[k] -= local ? 0.0625f * g[k] : 0;
					}
				}
				outcome_run(&o, NULL);
				if (memcmp(o.vector, w[STEPS], sizeof w[STEPS]) != 0)
					fail_msg("another vector than the loop's\n%s", text);
				if (fetch == 1 && !local) {
					assert_int_equal(o.ran.totals.tally.staleness_max, 1);
					assert_int_equal(o.ran.totals.tally.staleness_sum,
							 (STEPS - 1) * shards);
				}
				free(scratch);
				outcome_close(&o);
			}
}

/* --- time ----------------------------------------------------------------------------------- */

struct span {
	int64_t first, last;
	unsigned steps;
};

static bool see_steps(void *arg, const struct tw_note *n)
{
	struct span *s = arg;

	if (n->kind != TW_NOTE_STEP)
		return true;
	if (!s->steps++)
		s->first = n->at;
	s->last = n->at;
	return true;
}

static double period(int64_t compute, int64_t latency, bool overlap)
{
	struct span s = { .steps = 0 };
	struct outcome o;
	char text[1024];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 8}}\n"
		 "data: {samples: 400, batch: 1}\nupdate: {rate: 0.01}\n"
		 "cluster: {workers: 1}\nstrategy: {gate: async, overlap: %s}\n"
		 "sim: {compute: {mean: %lldms}, latency: %lldms, bandwidth: 0bit/s}\n",
		 overlap ? "true" : "false", (long long)compute, (long long)latency);
	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	outcome_run(&o, &(const struct watch){ .observer = see_steps, .arg = &s });
	outcome_close(&o);
	assert_int_equal(s.steps, 400);
	return (double)(s.last - s.first) / (double)MS / (s.steps - 1);
}

/* A step takes c, and r passes from a push to its answer.  One that waits needs c + r.  One that
 * computes on needs c; or, because TW_CREDITS = 2 pushes may be on their way, (c + r) / 2. */
static void a_fetch_costs_no_time(void **state)
{
	static const int64_t latencies[] = { 1, 5, 20, 45, 60, 80 };

	(void)state;
	for (size_t k = 0; k < COUNT(latencies); k++) {
		const double c = 100, r = 2.0 * (double)latencies[k];
		const double waits = period(100, latencies[k], false);
		const double overlaps = period(100, latencies[k], true);
		const double want = fmax(c, (c + r) / 2);

		if (fabs(waits - (c + r)) > 0.02 * (c + r) || fabs(overlaps - want) > 0.02 * want)
			fail_msg("r = %g ms: a step takes %g ms, and %g ms with overlap, not %g "
				 "and %g",
				 r, waits, overlaps, c + r, want);
	}
}

/* --- a gradual warm start -------------------------------------------------------------------- */

struct warm {
	uint64_t until, applied;
	uint32_t workers, alone;
	int64_t first[16]; /* step of each slot */
	bool stepped[16];
	const char *complaint;
};

static bool see_warm(void *arg, const struct tw_note *n)
{
	struct warm *w = arg;

	if (n->kind == TW_NOTE_APPLY && n->shard == 0)
		w->applied += n->count;
	if (n->kind != TW_NOTE_STEP)
		return true;
	if (w->applied < w->until &&
	    n->slot >= w->alone + (w->workers - w->alone) * w->applied / w->until)
		w->complaint = "a worker began before its turn";
	if (!w->stepped[n->slot])
		w->first[n->slot] = n->at;
	w->stepped[n->slot] = true;
	return true;
}

static void run_warm(struct warm *w, const char *strategy, uint32_t batches, const char *data)
{
	struct outcome o;
	char text[1024];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 8}}\n"
		 "data: {samples: 6000, batch: 2%s}\nupdate: {rate: 0.01}\n"
		 "train: {warm: {workers: %u, for: %.17g epochs, release: gradual}}\n"
		 "cluster: {workers: %u}\nstrategy: %s\ncheckpoint: {every: 0s}\n"
		 "sim: {compute: {mean: 100ms}, latency: 0s, bandwidth: 0bit/s}\n",
		 data, w->alone, batches * (w->workers - w->alone) * 2 / 6000.0, w->workers,
		 strategy);
	outcome_open(&o, text, NULL, TW_WORLD_SIM);
	w->until = o.job->plan.dealing.warm_until;
	assert_int_equal(w->until, batches * (w->workers - w->alone) * 2);
	outcome_run(&o, &(const struct watch){ .observer = see_warm, .arg = w });
	if (w->complaint)
		fail_msg("%s\n%s", w->complaint, text);
	outcome_close(&o);
}

/* Every `batches` batches that are applied let one worker more begin.  All take 100 ms for a batch,
 * and leases have `batches` of them: after n leases' time there are 2^n times as many workers, less
 * what the first ones had ahead.  So after 1, 3, 7 leases in all workers 1, 3 and 7 begin. */
static void workers_begin_one_after_the_other(void **state)
{
	static const char *const strategies[] = { "asgd", "downpour", "{name: ssp, lead: 3}" };

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++)
		for (uint32_t batches = 1; batches <= 4; batches += 3) {
			struct warm w = { .workers = 8, .alone = 1 };

			run_warm(&w, strategies[k], batches, "");
			for (uint32_t slot = 1; slot < 8; slot++) {
				const int64_t waited = w.first[slot] - w.first[0];
				const int64_t turn = slot < 2 ? 1 : slot < 4 ? 2 : 3;

				assert_true(w.stepped[slot]);
				if (llabs(waited - turn * batches * 100 * MS) > MS)
					fail_msg("%s: worker %u began after %lld ms", strategies[k],
						 slot, (long long)(waited / MS));
			}
		}
}

/* In rounds, after a failure, and where each worker has its own samples. */
static void and_so_they_do_elsewhere(void **state)
{
	struct warm rounds = { .workers = 8, .alone = 2 }, own = { .workers = 8, .alone = 3 };

	(void)state;
	run_warm(&rounds, "ssgd", 5, "");
	run_warm(&own, "asgd", 5, ", deal: partition");
	for (uint32_t slot = 0; slot < 8; slot++)
		assert_true(rounds.stepped[slot] && own.stepped[slot]);
	assert_true(rounds.first[7] - rounds.first[0] > 500 * MS);
	assert_true(own.first[7] - own.first[0] > 500 * MS);
}

/* --- checkpoints ---------------------------------------------------------------------------- */

static void resuming_changes_nothing(void **state)
{
	static const char *const strategies[] = {
		"downpour",
		"{name: downpour, push: 2, fetch: 3}",
		"{name: downpour, push: 2, fetch: 3, local: {rule: momentum}, merge: keep}",
		"{name: dana-slim, overlap: true}",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(strategies); k++) {
		struct outcome whole;
		char text[1024];

		snprintf(
			text, sizeof text,
			"model: {quadratic: {dimension: 11, noise: 0.3}}\n"
			"data: {samples: 120, batch: 2}\ntrain: {epochs: 2, seed: %zu}\n"
			"update: {rate: 0.05}\ncluster: {workers: 3, shards: 2}\n"
			"strategy: %s\ncheckpoint: {every: 700ms}\n"
			"sim: {compute: {law: uniform, mean: 100ms, spread: 0.5}, latency: 30ms}\n",
			k + 1, strategies[k]);
		outcome_open(&whole, text, NULL, TW_WORLD_SIM);
		outcome_run(&whole, NULL);
		outcome_stops_change_nothing(&whole, text, NULL);
		outcome_close(&whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_worker_computes_on_old_parameters),
		cmocka_unit_test(a_fetch_costs_no_time),
		cmocka_unit_test(workers_begin_one_after_the_other),
		cmocka_unit_test(and_so_they_do_elsewhere),
		cmocka_unit_test(resuming_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
