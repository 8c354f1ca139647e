/* SPDX-License-Identifier: Apache-2.0 */
/* test_one_mind.c - gates that drop what is late, on several shards: one verdict for all of them.
 *
 * A run is watched, and the order of its contributions drives one plain loop over whole vectors,
 * which must end with the same bits.  Whether a contribution was late is found by counting. */
#include "job/faultrun.h"
#include "job/serial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST_SHARDS 16
#define DIMENSION   60
#define SAMPLES     240
#define EPOCHS      2
#define BATCH       2
#define RATE        0.01f
#define ROOM        4096 /* notes of a shard */

/* --- what shards did -------------------------------------------------------------------------- */

struct deed {
	enum tw_note_kind kind; /* APPLY, DROP or UPDATE */
	uint32_t slot, count;
	uint64_t seq, from, tau, version;
};

static struct {
	struct deed deed[ROOM];
	size_t count;
} book[MOST_SHARDS];

static bool keep(void *arg, const struct tw_note *n)
{
	(void)arg;
	if (n->kind != TW_NOTE_APPLY && n->kind != TW_NOTE_DROP && n->kind != TW_NOTE_UPDATE)
		return true;
	assert_true(n->shard < MOST_SHARDS && book[n->shard].count < ROOM);
	book[n->shard].deed[book[n->shard].count++] =
		(struct deed){ n->kind,   n->slot, n->count,
			       n->seq,    n->from, n->kind == TW_NOTE_APPLY ? n->apply.tau : 0,
			       n->version };
	return true;
}

static void run(struct outcome *o, const char *text)
{
	memset(book, 0, sizeof book);
	outcome_open(o, text, NULL, TW_WORLD_SIM);
	outcome_run(o, &(struct watch){ .observer = keep });
}

/* All shards did the same in the same order, and each position came in once. */
static void agree(const char *text, const struct outcome *o)
{
	const uint32_t shards = o->job->plan.problem.shards;
	const uint64_t positions = o->job->plan.dealing.positions;
	uint8_t *times = calloc(positions, 1);

	for (uint32_t s = 0; s < shards; s++) {
		if (book[s].count != book[0].count)
			fail_msg("shard %u did %zu things, shard 0 %zu\n%s", s, book[s].count,
				 book[0].count, text);
		for (size_t k = 0; k < book[s].count; k++) {
			const struct deed *a = &book[0].deed[k], *b = &book[s].deed[k];

			if (a->kind != b->kind || a->slot != b->slot || a->seq != b->seq ||
			    a->from != b->from || a->count != b->count || a->version != b->version)
				fail_msg("shard %u is of another mind at %zu\n%s", s, k, text);
		}
	}
	for (size_t k = 0; k < book[0].count; k++)
		for (uint32_t i = 0;
		     book[0].deed[k].kind == TW_NOTE_APPLY && i < book[0].deed[k].count; i++)
			times[book[0].deed[k].from + i]++;
	for (uint64_t p = 0; p < positions; p++)
		if (times[p] != 1)
			fail_msg("position %llu came in %u times\n%s", (unsigned long long)p,
				 times[p], text);
	free(times);
	assert_int_equal(o->ran.totals.samples, positions);
	assert_int_equal(o->ran.totals.repeated + o->ran.totals.lost_updates, 0);
	assert_int_equal(o->ran.totals.dropped, o->ran.totals.tally.dropped_samples / shards);
}

/* --- the loop --------------------------------------------------------------------------------- */

struct loop {
	const struct outcome *o;
	float (*w)[DIMENSION]; /* by version */
	size_t versions;
	float sum[DIMENSION];
	uint32_t summed;
	void *scratch;
};

static void loop_open(struct loop *z, const struct outcome *o)
{
	*z = (struct loop){ .o = o, .w = calloc(ROOM, sizeof *z->w) };
	z->scratch = calloc(1, o->engine->scratch_bytes + 1);
	assert_int_equal(o->n, DIMENSION);
	assert_int_equal(o->engine->class->init(o->engine, 0, DIMENSION, z->w[0]), TW_OK);
}

/* The gradient of what the shards had when deed k was read. */
static void gradient(struct loop *z, size_t k, float *g)
{
	const struct tw_problem *p = &z->o->job->plan.problem;
	const struct deed *d = &book[0].deed[k];
	float w[DIMENSION];
	const struct tw_piece piece = { w, 0, DIMENSION };
	const struct tw_inputs in = {
		.from = d->from, .count = d->count, .piece = &piece, .pieces = 1
	};
	struct tw_score score;

	for (uint32_t s = 0; s < p->shards; s++)
		memcpy(w + p->border[s], z->w[z->versions - book[s].deed[k].tau] + p->border[s],
		       (p->border[s + 1] - p->border[s]) * sizeof *w);
	assert_int_equal(z->o->engine->class->gradient(z->o->engine, z->scratch, &in, g, &score),
			 TW_OK);
}

static void add(struct loop *z, const float *g)
{
	for (int i = 0; i < DIMENSION; i++)
		z->sum[i] = z->summed ? z->sum[i] + g[i] : g[i];
	z->summed++;
}

static void update(struct loop *z)
{
	const float share = 1.0f / (float)z->summed;

	for (int i = 0; i < DIMENSION; i++)
		z->w[z->versions + 1][i] = fmaf(-RATE, share * z->sum[i], z->w[z->versions][i]);
	z->versions++;
	z->summed = 0;
}

static void loop_close(struct loop *z, const char *text)
{
	if (memcmp(z->w[z->versions], z->o->vector, sizeof z->w[0]) != 0)
		fail_msg("the loop ends with other bits\n%s", text);
	free(z->w);
	free(z->scratch);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static const char *const paces[] = {
	"compute: {law: exponential, mean: 20ms}, latency: 5ms, jitter: 20ms",
	"compute: {law: uniform}, latency: 0s, jitter: 100ms",
	"compute: {law: pareto, shape: 3}, latency: 1ms, speeds: [1, 0.1]",
	"compute: {law: constant, mean: 10ms}, latency: 2ms, stragglers: {count: 1, slower: 7}",
};

static const char *job(const char *strategy, uint32_t shards, uint64_t seed)
{
	static char text[1000];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: %d, noise: 0.1}}\n"
		 "data: {samples: %d, batch: %d}\n"
		 "train: {epochs: %d, seed: %llu}\n"
		 "update: {rate: 0.01}\n"
		 "cluster: {workers: %u, servers: %u, shards: %u}\n"
		 "strategy: {%s}\n"
		 "checkpoint: {every: 0s}\n"
		 "sim: {%s, threads: 1}\n",
		 DIMENSION, SAMPLES, BATCH, EPOCHS, (unsigned long long)seed,
		 2 + (unsigned)(seed % 6), shards > 2 ? 1 + (unsigned)(seed % 3) : 1, shards,
		 strategy, paces[seed % 4]);
	return text;
}

static const uint32_t shards_of[] = { 1, 4, 16 };

/* Below the limit is applied, alone; without `stop` a contribution was read when the one before it
 * was answered. */
static uint64_t check_ringmaster(uint32_t shards, uint64_t seed, bool stops)
{
	const uint32_t limit = 1 + (uint32_t)(seed / 4 % 5);
	uint64_t read[8] = { 0 }, drops = 0;
	struct outcome o = { 0 };
	struct loop z;
	const char *text;
	char strategy[100];

	snprintf(strategy, sizeof strategy, "gate: ringmaster, limit: %u, stop: %s", limit,
		 stops ? "true" : "false");
	text = job(strategy, shards, seed);
	run(&o, text);
	agree(text, &o);
	loop_open(&z, &o);
	for (size_t k = 0; k < book[0].count; k++) {
		const struct deed *d = &book[0].deed[k];
		float g[DIMENSION];

		if (d->kind == TW_NOTE_UPDATE)
			continue;
		if (!stops && d->seq > 1 &&
		    (z.versions - read[d->slot] < limit) != (d->kind == TW_NOTE_APPLY))
			fail_msg("contribution %llu of worker %u is %llu late\n%s",
				 (unsigned long long)d->seq, d->slot,
				 (unsigned long long)(z.versions - read[d->slot]), text);
		for (uint32_t s = 0; s < shards && d->kind == TW_NOTE_APPLY; s++) {
			assert_true(book[s].deed[k].tau < limit);
			if (!stops && d->seq > 1)
				assert_int_equal(book[s].deed[k].tau, z.versions - read[d->slot]);
		}
		drops += d->kind == TW_NOTE_DROP;
		if (d->kind == TW_NOTE_APPLY) {
			gradient(&z, k, g);
			add(&z, g);
			update(&z);
		}
		read[d->slot] = z.versions;
	}
	loop_close(&z, text);
	outcome_close(&o);
	return drops;
}

static void ringmaster_is_one_loop(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof shards_of / sizeof shards_of[0]; i++) {
		uint64_t drops = 0;

		for (uint64_t seed = 1; seed <= 20; seed++) {
			drops += check_ringmaster(shards_of[i], seed, false);
			drops += check_ringmaster(shards_of[i], seed, true);
		}
		assert_true(drops > 0);
	}
}

/* `collect` gradients of the current parameters, added up in order: one worker that accumulates. */
static uint64_t check_rennala(uint32_t shards, uint64_t seed, bool stops)
{
	const uint32_t collect = 1 + (uint32_t)(seed * 7 % 9);
	uint64_t drops = 0;
	struct outcome o = { 0 };
	struct loop z;
	const char *text;
	char strategy[100];

	snprintf(strategy, sizeof strategy, "name: rennala, collect: %u, stop: %s", collect,
		 stops ? "true" : "false");
	text = job(strategy, shards, seed);
	run(&o, text);
	agree(text, &o);
	loop_open(&z, &o);
	for (size_t k = 0; k < book[0].count; k++) {
		const struct deed *d = &book[0].deed[k];
		float g[DIMENSION];

		drops += d->kind == TW_NOTE_DROP;
		if (d->kind == TW_NOTE_APPLY) {
			for (uint32_t s = 0; s < shards; s++)
				assert_int_equal(book[s].deed[k].tau, 0);
			gradient(&z, k, g);
			add(&z, g);
		} else if (d->kind == TW_NOTE_UPDATE) {
			/* what is left at the end is an update, too */
			assert_true(z.summed == collect || k + 1 == book[0].count);
			update(&z);
		}
	}
	loop_close(&z, text);
	outcome_close(&o);
	return drops;
}

static void rennala_is_one_accumulating_loop(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof shards_of / sizeof shards_of[0]; i++) {
		uint64_t drops = 0;

		for (uint64_t seed = 1; seed <= 20; seed++) {
			drops += check_rennala(shards_of[i], seed, false);
			drops += check_rennala(shards_of[i], seed, true);
		}
		assert_true(drops > 0);
	}
}

/* Other ways to push and read, and the gate that waits for everybody. */
static void all_shards_are_of_one_mind(void **state)
{
	static const char *const strategies[] = {
		"gate: malenia",
		"gate: malenia, collect: 5, stop: true",
		"gate: ringmaster, limit: 2, fetch: 2",
		"gate: ringmaster, limit: 3, push: 3, fetch: 2, codec: {up: onebit}",
		"gate: ringmaster, limit: 2, stop: true, push: 2",
		"gate: softsync, fresh: true, collect: 3, codec: {up: topk}",
		"gate: ringmaster, limit: 3, staleness: delay",
	};

	(void)state;
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
		for (uint64_t seed = 1; seed <= 12; seed++) {
			const char *text = job(strategies[k], 2 + (uint32_t)(seed * 5 % 15), seed);
			struct outcome o = { 0 };

			run(&o, text);
			agree(text, &o);
			outcome_close(&o);
		}
}

/* --- where samples once were left out --------------------------------------------------------- */

#define FOLDER "test/job/findings/" /* tests run in the root of the tree */

static void check_finding(const char *name, const char *const *set)
{
	char text[2000] = { 0 };
	struct outcome o = { 0 };
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	assert_true(fread(text, 1, sizeof text - 1, f) > 0);
	fclose(f);
	outcome_open(&o, text, set, TW_WORLD_SIM);
	outcome_run(&o, &(struct watch){ .observer = NULL });
	assert_int_equal(o.ran.totals.samples, 960);
	assert_true(o.ran.totals.dropped > 0);
	assert_int_equal(o.ran.totals.redealt, o.ran.totals.dropped);
	outcome_close(&o);
}

static void no_sample_is_left_out(void **state)
{
	(void)state;
	check_finding(FOLDER "rennala-half-the-samples.yaml", NULL);
	check_finding(FOLDER "rennala-half-the-samples.yaml",
		      (const char *const[]){ "sim.jitter=100ms", "cluster.workers=8", NULL });
	check_finding(FOLDER "ringmaster-left-out.yaml", NULL);
}

/* --- bad numbers ------------------------------------------------------------------------------ */

/* Numbers that are bad for one shard are refused by all of them, and nothing else is lost. */
static void what_one_shard_refuses_no_shard_applies(void **state)
{
	static const char *const strategies[] = {
		"{gate: ringmaster, limit: 2}",
		"{gate: ringmaster, limit: 2, push: 2, fetch: 2}",
		"{gate: softsync, fresh: true, collect: 3}",
		"{gate: malenia, collect: 3, stop: true}",
	};

	(void)state;
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
		for (uint64_t seed = 1; seed <= 10; seed++) {
			const struct faultrun r = { .preset = strategies[k],
						    .workers = 3,
						    .servers = 2,
						    .shards = 4,
						    .seed = seed,
						    .poisoned = 1u << 3,
						    .doses = 2,
						    .spot = (uint32_t)(seed % 13),
						    .clean = true };
			struct faultend end;
			const char *wrong = faultrun(&r, &end);

			if (wrong)
				fail_msg("%s\n  replay: %s", wrong, faultrun_replay(&r));
			assert_true(end.totals.refused >= 1 && end.totals.refused <= 2);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ringmaster_is_one_loop),
		cmocka_unit_test(rennala_is_one_accumulating_loop),
		cmocka_unit_test(all_shards_are_of_one_mind),
		cmocka_unit_test(no_sample_is_left_out),
		cmocka_unit_test(what_one_shard_refuses_no_shard_applies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
