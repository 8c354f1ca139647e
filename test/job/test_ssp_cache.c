/* SPDX-License-Identifier: Apache-2.0 */
/* test_ssp_cache.c - strategy.cache: a worker fetches only what is too old for the gate, and adds
 * its own updates to what it has. */
#include "job/faultrun.h"
#include "job/serial.h"
#include "run/result.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DIMENSION    11
#define RATE         0.125f
#define MOST         4096 /* contributions that a shard applies in one run here */
#define WORKERS      8
#define SHARDS       3

/* --- what was applied, in order ------------------------------------------------------------- */

struct applied {
	uint32_t slot, own, samples;
	uint64_t base, seq, from;
};

struct history {
	struct applied at[SHARDS][MOST]; /* entry k made version k + 1 */
	size_t count[SHARDS];
};

static bool see_applied(void *arg, const struct tw_note *n)
{
	struct history *h = arg;

	if (n->kind != TW_NOTE_APPLY)
		return true;
	assert_true(n->shard < SHARDS && h->count[n->shard] < MOST);
	assert_int_equal(n->version, h->count[n->shard]);
	h->at[n->shard][h->count[n->shard]++] = (struct applied){ .slot = n->slot,
								  .own = n->apply.push->own,
								  .samples = n->count,
								  .base = n->apply.push->base.n,
								  .seq = n->seq,
								  .from = n->from };
	return true;
}

static void run_watched(struct outcome *o, struct history *h, const char *text)
{
	memset(h, 0, sizeof *h);
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	outcome_run(o, &(const struct watch){ .observer = see_applied, .arg = h });
}

static const char *const laws[] = {
	"{mean: 100ms}",
	"{law: exponential, mean: 100ms}",
	"{law: uniform, mean: 100ms, spread: 0.5}",
	"{law: log-normal, median: 100ms, sigma: 1}",
};

static void write_job(char *text, size_t room, uint32_t workers, uint32_t shards, uint32_t lead,
		      bool cache, uint64_t seed, const char *cuts, const char *law,
		      const char *more)
{
	snprintf(text, room,
		 "model: {quadratic: {dimension: %d, curvature: [0.1, 1], noise: 0.3, spread: 1}}\n"
		 "data: {samples: 301, batch: 2}\ntrain: {epochs: 2, seed: %llu}\n"
		 "update: {rate: %g}\ncluster: {workers: %u, shards: %u}\n"
		 "strategy: {name: ssp, lead: %u, cache: %s}\ncheckpoint: {every: %s}\n"
		 "sim: {compute: %s, latency: 5ms%s}\n",
		 DIMENSION, (unsigned long long)seed, (double)RATE, workers, shards, lead,
		 cache ? "true" : "false", cuts, law, more);
}

/* --- the bound ------------------------------------------------------------------------------- */

/* How many of this worker's contributions are in the version. */
static uint64_t within(const struct history *h, uint32_t shard, uint32_t slot, uint64_t version)
{
	uint64_t count = 0;

	for (uint64_t k = 0; k < version; k++)
		count += h->at[shard][k].slot == slot;
	return count;
}

/* What a worker with c contributions computed on has all of its own, and of everybody else the
 * first c - lead, or all if he made fewer. */
static void check_bound(const struct history *h, uint32_t workers, uint32_t shards, uint32_t lead,
			const char *text)
{
	for (uint32_t s = 0; s < shards; s++)
		for (size_t k = 0; k < h->count[s]; k++) {
			const struct applied *a = &h->at[s][k];
			const uint64_t clock = a->seq - 1;

			if (within(h, s, a->slot, a->base) + a->own != clock)
				fail_msg("contribution %llu of worker %u lacks its own\n%s",
					 (unsigned long long)a->seq, a->slot, text);
			for (uint32_t q = 0; q < workers && clock > lead; q++) {
				const uint64_t all = within(h, s, q, h->count[s]);
				const uint64_t due = clock - lead < all ? clock - lead : all;

				if (q != a->slot && within(h, s, q, a->base) < due)
					fail_msg("contribution %llu of worker %u lacks those of "
						 "worker %u\n%s",
						 (unsigned long long)a->seq, a->slot, q, text);
			}
		}
}

/* One loop over whole vectors, by the order in which contributions were applied and by what each
 * says that it was computed on.  One shard: a version is a whole vector. */
static void check_bits(const struct outcome *o, const struct history *h, const char *text)
{
	static float w[MOST + 1][DIMENSION], x[WORKERS][DIMENSION];
	void *scratch = calloc(1, o->engine->scratch_bytes + 1);

	assert_non_null(scratch);
	o->engine->class->init(o->engine, 0, DIMENSION, w[0]);
	for (size_t k = 0; k < h->count[0]; k++) {
		const struct applied *a = &h->at[0][k];
		const struct tw_piece piece = { x[a->slot], 0, DIMENSION };
		const struct tw_inputs in = {
			.from = a->from, .count = a->samples, .piece = &piece, .pieces = 1
		};
		struct tw_score score;
		float g[DIMENSION];

		if (!a->own)
			memcpy(x[a->slot], w[a->base], sizeof x[a->slot]);
		assert_int_equal(o->engine->class->gradient(o->engine, scratch, &in, g, &score),
				 TW_OK);
		for (int i = 0; i < DIMENSION; i++) {
			w[k + 1][i] = w[k][i] - RATE * g[i];
			x[a->slot][i] -= RATE * g[i];
		}
	}
	if (memcmp(o->vector, w[h->count[0]], sizeof w[0]) != 0)
		fail_msg("another vector than the loop's\n%s", text);
	free(scratch);
}

static void nothing_older_than_the_gate_allows(void **state)
{
	static struct history h;
	uint64_t saved = 0, fetched = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		const uint32_t workers = 2 + (uint32_t)seed % (WORKERS - 1);
		const uint32_t shards = seed % 2 ? 1 : SHARDS;
		const uint32_t lead = (uint32_t)(seed * 7 % 6);
		struct outcome o;
		char text[1024];

		write_job(text, sizeof text, workers, shards, lead, true, seed, "0s",
			  laws[seed % COUNT(laws)],
			  seed % 3 ? ", stragglers: {count: 1, slower: 3}" : "");
		run_watched(&o, &h, text);
		check_bound(&h, workers, shards, lead, text);
		if (shards == 1)
			check_bits(&o, &h, text);
		saved += o.ran.totals.tally.cached;
		fetched += o.ran.totals.tally.contributions - o.ran.totals.tally.cached;
		if (lead == 0)
			assert_int_equal(o.ran.totals.tally.cached, 0);
		outcome_close(&o);
	}
	assert_true(saved > fetched / 10); /* or the runs were no test */
}

/* --- one worker ------------------------------------------------------------------------------ */

/* Alone it has every update, so it trains as without a cache; its own clock is the least, so every
 * lead + 1 steps it must ask. */
static void one_worker_fetches_when_it_must(void **state)
{
	static struct history h;

	(void)state;
	for (uint32_t lead = 0; lead <= 9; lead++)
		for (uint32_t shards = 1; shards <= SHARDS; shards += 2) {
			struct outcome with, without;
			char text[1024];

			write_job(text, sizeof text, 1, shards, lead, false, lead + 1, "0s",
				  laws[0], "");
			outcome_open(&without, text, NULL, TW_WORLD_SIM);
			outcome_run(&without, NULL);
			write_job(text, sizeof text, 1, shards, lead, true, lead + 1, "0s", laws[0],
				  "");
			run_watched(&with, &h, text);
			for (uint32_t s = 0; s < shards; s++)
				for (size_t k = 0; k < h.count[s]; k++) {
					assert_int_equal(h.at[s][k].own, k % (lead + 1));
					assert_int_equal(h.at[s][k].base + h.at[s][k].own, k);
				}
			assert_int_equal(with.ran.totals.tally.staleness_max, 0);
			assert_string_equal(with.digest, without.digest);
			if (shards == 1)
				check_bits(&with, &h, text);
			outcome_close(&with);
			outcome_close(&without);
		}
}

/* ... and so it does with sums of batches, with a rate that falls and with clipped gradients. */
static void one_worker_knows_its_own_updates(void **state)
{
	static const char *const more[] = {
		"data.accumulate=3",
		"update.schedule.kind=cosine",
		"update.clip=0.05",
		"strategy.lead=4294967295",
	};

	(void)state;
	for (size_t k = 0; k < COUNT(more); k++) {
		const char *const set[] = { more[k], NULL };
		struct outcome with, without;
		char text[1024];

		write_job(text, sizeof text, 1, 2, 3, false, k + 1, "0s", laws[0], "");
		outcome_open(&without, text, set, TW_WORLD_SIM);
		outcome_run(&without, NULL);
		write_job(text, sizeof text, 1, 2, 3, true, k + 1, "0s", laws[0], "");
		outcome_open(&with, text, set, TW_WORLD_SIM);
		outcome_run(&with, NULL);
		assert_true(with.ran.totals.tally.cached > 0);
		if (strcmp(with.digest, without.digest) != 0)
			fail_msg("another vector than without a cache: %s", more[k]);
		outcome_close(&with);
		outcome_close(&without);
	}
}

/* --- without a lead --------------------------------------------------------------------------- */

/* Nothing that a worker has is new enough for its next step, whatever the others do. */
static void no_lead_leaves_nothing_to_save(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct outcome with, without;
		char text[1024];

		write_job(text, sizeof text, 4, 2, 0, false, seed, "0s", laws[seed % COUNT(laws)],
			  "");
		outcome_of(&without, TW_WORLD_SIM, "%s", text);
		write_job(text, sizeof text, 4, 2, 0, true, seed, "0s", laws[seed % COUNT(laws)],
			  "");
		outcome_of(&with, TW_WORLD_SIM, "%s", text);
		assert_string_equal(with.digest, without.digest);
		assert_int_equal(with.ran.totals.tally.cached, 0);
		assert_int_equal(with.ran.bytes_sent, without.ran.bytes_sent);
		outcome_close(&with);
		outcome_close(&without);
	}
}

/* --- what is told ---------------------------------------------------------------------------- */

static void the_result_says_what_was_saved(void **state)
{
	static const char job[] =
		"model: {quadratic: {dimension: 50000}}\ndata: {samples: 400, batch: 1}\n"
		"update: {rate: 0.01}\ncluster: {workers: 4, shards: 2}\n"
		"strategy: {name: ssp, lead: %u, cache: %s}\ncheckpoint: {every: 0s}\n"
		"sim: {compute: %s}\n";

	(void)state;
	for (uint32_t lead = 1; lead <= 8; lead++) {
		const char *law = laws[lead % COUNT(laws)];
		struct outcome with, without;
		struct tw_error why;
		json_t *r, *c;
		double fetches, saved, bytes, less;

		outcome_of(&without, TW_WORLD_SIM, job, lead, "false", law);
		outcome_of(&with, TW_WORLD_SIM, job, lead, "true", law);
		assert_int_equal(tw_result_make(without.job, &without.ran,
						&(struct tw_result_facts){ .seconds = 1 }, &r,
						&why),
				 TW_OK);
		assert_true(json_is_null(json_object_get(r, "cache")));
		json_decref(r);
		assert_int_equal(tw_result_make(with.job, &with.ran,
						&(struct tw_result_facts){ .seconds = 1 }, &r,
						&why),
				 TW_OK);
		c = json_object_get(r, "cache");
		fetches = json_number_value(json_object_get(c, "fetches"));
		saved = json_number_value(json_object_get(c, "saved"));
		bytes = json_number_value(json_object_get(c, "bytes_saved"));
		json_decref(r);
		assert_true(fetches > 0 && saved > 0 && fetches + saved == 400);
		assert_true(bytes == saved * 50000 * sizeof(float));
		less = (double)without.ran.bytes_sent - (double)with.ran.bytes_sent;
		/* the answers to the last pushes of workers are asked for, or not, for nothing */
		if (fabs(less - bytes) > 0.02 * bytes + 4 * 50000 * sizeof(float))
			fail_msg("lead %u: %g bytes less were sent, and %g are said to be saved",
				 lead, less, bytes);
		outcome_close(&with);
		outcome_close(&without);
	}
}

static void threads_save_as_well(void **state)
{
	struct outcome o;

	(void)state;
	outcome_of(&o, TW_WORLD_THREADS,
		   "model: {quadratic: {dimension: 1000, noise: 0.1}}\n"
		   "data: {samples: 400, batch: 1}\nupdate: {rate: 0.01}\n"
		   "cluster: {workers: 3, shards: 2}\n"
		   "strategy: {name: ssp, lead: 4, cache: true}\n");
	assert_int_equal(o.ran.totals.tally.contributions, 800);
	assert_true(o.ran.totals.tally.cached > 0);
	assert_int_equal(o.ran.totals.tally.cached % 2, 0);
	outcome_close(&o);
}

/* --- faults and checkpoints ------------------------------------------------------------------- */

static void who_is_killed_does_not_stop_it(void **state)
{
	static const char *const strategies[] = { "{name: ssp, lead: 2, cache: true}",
						  "{name: ssp, lead: 1000000, cache: true}", NULL };

	(void)state;
	assert_int_equal(faultrun_seeds(strategies, 1, 100), 0);
	assert_int_equal(faultrun_kills(strategies, 23), 0);
	assert_int_equal(faultrun_leaves(strategies, 1, 20), 0);
}

static bool see_refused(void *arg, const struct tw_note *n)
{
	unsigned *fenced = arg;

	if (n->kind == TW_NOTE_REFUSED && n->refused.fenced)
		fenced[n->slot]++;
	return true;
}

/* What was computed on an earlier life of a shard is refused.  A worker that hears of the next one
 * does not go on with what it has, however new the gate thinks that is: only what was on its way
 * and what is being computed is lost. */
static void a_shard_that_lives_again_is_read_again(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		unsigned fenced[3] = { 0 }, all = 0;
		struct outcome o;
		char text[1024];

		snprintf(text, sizeof text,
			 "model: {quadratic: {dimension: 8}}\ndata: {samples: 600, batch: 1}\n"
			 "train: {seed: %llu}\nupdate: {rate: 0.01}\n"
			 "cluster: {workers: 3, servers: 2, shards: 2, limit: 1s}\n"
			 "strategy: {name: ssp, lead: 1000000, cache: true}\n"
			 "checkpoint: {every: 1s, cut: running}\n"
			 "sim: {compute: {mean: 100ms}, faults: [{crash: server 1, at: %llums, "
			 "restart: 10ms}]}\n",
			 (unsigned long long)seed, 2500ull + 37 * seed);
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		outcome_run(&o, &(const struct watch){ .observer = see_refused, .arg = fenced });
		for (int k = 0; k < 3; k++) {
			assert_in_range(fenced[k], 0, 3);
			all += fenced[k];
		}
		assert_true(all > 0);
		outcome_close(&o);
	}
}

/* A gradient that no shard takes is not in the worker's own copy, either. */
static void what_is_refused_is_not_kept(void **state)
{
	const struct faultrun r = { .preset = "{name: ssp, lead: 1000000, cache: true}",
				    .workers = 3,
				    .servers = 1,
				    .shards = 2,
				    .seed = 3,
				    .poisoned = 1u << 3,
				    .doses = 2 };
	struct faultend end;
	const char *wrong = faultrun(&r, &end);

	(void)state;
	if (wrong)
		fail_msg("%s", wrong);
	assert_int_equal(end.totals.refused, 2);
}

static void resuming_changes_nothing(void **state)
{
	(void)state;
	for (uint32_t lead = 1; lead <= 5; lead += 2) {
		struct outcome whole;
		char text[1024];

		write_job(text, sizeof text, 3, 2, lead, true, lead, "700ms", laws[2], "");
		outcome_open(&whole, text, NULL, TW_WORLD_SIM);
		outcome_run(&whole, NULL);
		assert_true(whole.ran.totals.tally.cached > 0);
		outcome_stops_change_nothing(&whole, text, NULL);
		outcome_close(&whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_older_than_the_gate_allows),
		cmocka_unit_test(one_worker_fetches_when_it_must),
		cmocka_unit_test(one_worker_knows_its_own_updates),
		cmocka_unit_test(no_lead_leaves_nothing_to_save),
		cmocka_unit_test(the_result_says_what_was_saved),
		cmocka_unit_test(threads_save_as_well),
		cmocka_unit_test(who_is_killed_does_not_stop_it),
		cmocka_unit_test(a_shard_that_lives_again_is_read_again),
		cmocka_unit_test(what_is_refused_is_not_kept),
		cmocka_unit_test(resuming_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
