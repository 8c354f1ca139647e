/* SPDX-License-Identifier: Apache-2.0 */
/* test_residual.c - a codec that owes, carried through whole runs: nothing of a gradient is lost or
 * applied twice, whatever happens, but what somebody who died owed.
 *
 * Gradients are integers that depend on positions alone, rates and shares are 1 and sums are
 * totals, so all arithmetic is exact.  The test keeps its own books, from the notes and from what
 * the codec was given: what each shard must have, and what each worker must owe. */
#include "job/trial.h"
#include "node/every_other.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define DIMENSION 13
#define SLOTS     3
#define LOG       4000

/* --- an engine of integers ---------------------------------------------------------------- */

static const struct tw_engine_class *real;

static float value(uint64_t position, size_t i)
{
	const uint64_t mixed = (position * 2654435761u + i * 40503u) >> 4;

	return (float)(mixed % 31) - 15.0f;
}

/* Of `count` samples from `from` on; a power of two of them. */
static float mean(uint64_t from, uint32_t count, size_t i)
{
	float sum = 0.0f;

	for (uint32_t k = 0; k < count; k++)
		sum += value(from + k, i);
	return sum / (float)count;
}

static enum tw_status integers(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       float *gradient, struct tw_score *score)
{
	for (size_t i = 0; i < e->trainable; i++)
		gradient[i] = mean(in->from, in->count, i);
	*score = (struct tw_score){ .loss = 1, .correct = -1, .samples = in->count };
	return TW_OK;
}

/* --- books -------------------------------------------------------------------------------- */

struct books {
	float taken[DIMENSION];       /* what was subtracted from each parameter */
	float owed[SLOTS][DIMENSION]; /* by whom */
};

struct encoded {
	uint64_t draw;
	size_t n;
	float sent[DIMENSION];
};

static struct {
	const struct tw_plan *plan;
	struct books now, cut;
	struct encoded log[LOG];
	size_t logs;
	uint64_t from[SLOTS][LOG];         /* positions of contributions, by slot and seq */
	uint32_t live[SLOTS], gone[SLOTS]; /* incarnations; gone: the last that left cleanly */
	unsigned applied, plain, fenced, left, died, rolled;
	unsigned lost, unusable; /* lines of the log */
} seen;

/* The codecs that are carried; with gradients like these all of them are exact.  The first is of
 * the test tree, the others are chosen by the job. */
static const char *const codecs[] = {
	"up: fp32",
	"up: topk, up_share: 0.3",
	"up: randomk, up_share: 0.3",
	"up: threshold, up_tau: 4",
	"up: threshold, up_tau: 2, up_coding: rice",
};
#define CODECS (sizeof codecs / sizeof codecs[0])
static size_t chosen; /* of these */

static const struct tw_codec *carried;

/* Encode, and remember what the other end will decode. */
static enum tw_status encode_and_see(const void *options, void *state, const struct tw_encoding *of,
				     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const enum tw_status st = carried->encode(options, state, of, x, n, out, len);
	struct encoded *e = &seen.log[seen.logs++];

	assert_int_equal(st, TW_OK);
	assert_true(seen.logs < LOG);
	*e = (struct encoded){ .draw = of->draw, .n = n };
	assert_int_equal(tw_codec_decode(carried, options, out, *len, e->sent, n), TW_OK);
	return st;
}

/* What the codec sent of the gradient at `from` to a range of n, once; NULL: it was not asked. */
static struct encoded *find_encoded(uint64_t from, size_t n)
{
	for (size_t k = seen.logs; k-- > 0;)
		if (seen.log[k].draw == from && seen.log[k].n == n)
			return &seen.log[k];
	return NULL;
}

static void see_applied(const struct tw_note *note)
{
	const size_t at = seen.plan->problem.border[note->shard];
	const size_t n = seen.plan->problem.border[note->shard + 1] - at;
	struct encoded *e = find_encoded(note->from, n);

	seen.applied++;
	seen.plain += !e;
	for (size_t i = 0; i < n; i++) {
		float *owed = &seen.now.owed[note->slot][at + i];
		const float g = mean(note->from, note->count, at + i);
		const float all = note->incarnation == seen.live[note->slot] ? *owed + g : g;
		const float sent = e ? e->sent[i] : all;

		/* collected before it left: its last push had the rest */
		seen.now.taken[at + i] += note->incarnation == seen.gone[note->slot] ? g : sent;
		if (note->incarnation == seen.live[note->slot])
			*owed = all - sent;
	}
	if (e)
		e->n = 0; /* used */
}

/* The shard lost its memory, and a gradient for what it was came later: it is owed whole. */
static void see_fenced(const struct tw_note *note)
{
	const size_t at = seen.plan->problem.border[note->shard];
	const size_t n = seen.plan->problem.border[note->shard + 1] - at;
	const uint64_t from = seen.from[note->slot][note->seq];
	struct encoded *e = find_encoded(from, n);

	seen.fenced++;
	for (size_t i = 0; i < n; i++)
		seen.now.owed[note->slot][at + i] += mean(from, seen.plan->dealing.batch, at + i);
	if (e)
		e->n = 0;
}

/* Who goes cleanly takes along nothing; who dies, all that it owed. */
static void see_view(const struct tw_note *note)
{
	float *owed = seen.now.owed[note->slot];

	if (note->value == TW_LIVE)
		return;
	seen.live[note->slot] = 0;
	for (size_t i = 0; note->value == TW_LEFT && i < DIMENSION; i++)
		seen.now.taken[i] += owed[i];
	if (note->value == TW_LEFT)
		seen.gone[note->slot] = note->incarnation;
	seen.left += note->value == TW_LEFT;
	seen.died += note->value == TW_GONE;
	memset(owed, 0, sizeof seen.now.owed[0]);
}

static bool see(void *arg, const struct tw_note *note)
{
	switch (note->kind) {
	case TW_NOTE_STEP:
		seen.from[note->slot][note->seq + 1] = note->from;
		seen.live[note->slot] = note->incarnation;
		break;
	case TW_NOTE_APPLY:
		see_applied(note);
		break;
	case TW_NOTE_REFUSED:
		if (note->value == 1)
			see_fenced(note);
		break;
	case TW_NOTE_VIEW:
		see_view(note);
		break;
	case TW_NOTE_CUT:
		seen.cut = seen.now;
		break;
	case TW_NOTE_ROLLBACK:
		if (note->count) { /* all of them, not one shard */
			seen.now = seen.cut;
			seen.logs = 0;
			seen.rolled++;
		}
		break;
	default:
		break;
	}
	return true;
}

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	seen.lost += strstr(line, "the residual of its codec is lost") != NULL;
	seen.unusable += strstr(line, "(bad bytes): its own state") != NULL;
}

/* --- runs --------------------------------------------------------------------------------- */

struct ran {
	struct tw_tally tally;
	float w[DIMENSION];           /* what was subtracted, at the end */
	float owed[SLOTS][DIMENSION]; /* as the last checkpoint has it */
	bool has[SLOTS];
};

static void read_parts(struct tw_store *store, struct ran *out)
{
	struct tw_part *parts;
	uint64_t cut;
	size_t count;

	assert_int_equal(store->load(store, &cut, &parts, &count), TW_OK);
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a;
		struct tw_array *list;
		size_t arrays;
		unsigned slot;

		if (sscanf(parts[k].name, "worker %u", &slot) != 1)
			continue;
		assert_int_equal(tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes,
						&tw_heap_system, &list, &arrays),
				 TW_OK);
		a = tw_part_find(list, arrays, "residual");
		assert_non_null(a);
		assert_int_equal(a->n, DIMENSION);
		memcpy(out->owed[slot], a->at, sizeof out->owed[slot]);
		out->has[slot] = true;
		tw_heap_system.put(&tw_heap_system, list);
	}
	store->loaded_free(store, parts, count);
}

/* The job with the codec and the engine of this test.  `store` NULL: one of its own. */
static enum tw_status run(const char *strategy, uint32_t shards, const char *more, uint64_t stop,
			  struct tw_store *store, struct ran *out)
{
	struct tw_store *own = store ? NULL : tw_memory_store_new(&tw_heap_system);
	struct tw_engine_class fake;
	struct tw_codec watched;
	struct tw_ran ran;
	enum tw_status st;
	struct trial t;
	bool resume = store && stop == 0;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, start: 0}}\n"
		   "data: {source: none, samples: 64, batch: 2}\n"
		   "train: {epochs: 3, seed: 5}\nupdate: {rate: 1}\n"
		   "cluster: {workers: %d, servers: %u, shards: %u, min: 1, wait: 30s}\n"
		   "strategy: {%s, codec: {%s}}\n%s",
		   DIMENSION, SLOTS, shards, shards, strategy, codecs[chosen], more);
	memset(&seen, 0, sizeof seen);
	seen.plan = &t.job->plan;
	real = t.engine->class;
	fake = *real;
	fake.gradient = integers;
	t.engine->class = &fake;
	carried = chosen ? t.job->plan.traffic.up : &every_other;
	watched = *carried;
	watched.encode = encode_and_see;
	t.job->plan.traffic.up = &watched;
	t.job->plan.checkpoint.final = true;
	t.job->plan.checkpoint.stop_after = stop;
	t.resume = resume;
	t.observer = see;
	t.log = &(const struct tw_log){ .sink = hear, .level = TW_WARNING };
	st = trial_run(&t, &tw_heap_system, store ? store : own, &ran);
	*out = (struct ran){ .has = { false } };
	for (uint32_t s = 0; st == TW_OK && s < shards; s++)
		for (size_t i = seen.plan->problem.border[s]; i < seen.plan->problem.border[s + 1];
		     i++)
			out->w[i] = -tw_block_floats(
				ran.totals.vector[s])[i - seen.plan->problem.border[s]];
	out->tally = ran.totals.tally;
	tw_totals_release(&ran.totals);
	read_parts(store ? store : own, out);
	tw_memory_store_free(own);
	t.engine->class = real;
	trial_close(&t);
	return st;
}

/* What the run says against the books. */
static void compare(const char *what, const struct ran *r)
{
	for (size_t i = 0; i < DIMENSION; i++) {
		if (r->w[i] != seen.now.taken[i])
			fail_msg("%s: parameter %zu is %g, not %g", what, i, (double)r->w[i],
				 (double)seen.now.taken[i]);
		for (uint32_t k = 0; k < SLOTS; k++)
			if (r->has[k] && r->owed[k][i] != seen.now.owed[k][i])
				fail_msg("%s: worker %u owes %g at %zu, not %g", what, k,
					 (double)r->owed[k][i], i, (double)seen.now.owed[k][i]);
	}
}

static const char *const strategies[] = {
	"name: asgd",
	"name: ssp, lead: 2",
	"name: softsync, sum: total, staleness: none",
	"name: ssgd, sum: total",
	"name: backup, extra: 1, sum: total",
};
#define STRATEGIES (sizeof strategies / sizeof strategies[0])
#define PACE       "compute: {law: exponential, mean: 20ms}, latency: 1ms, jitter: 2ms"

/* Sum of what was applied and of what is owed is the sum of what was computed. */
static void nothing_is_lost(void **state)
{
	for (size_t k = 0; k < STRATEGIES; k++)
		for (uint32_t shards = 1; shards <= 2; shards++) {
			float all[DIMENSION] = { 0 };
			struct ran r;

			assert_int_equal(
				run(strategies[k], shards, "sim: {" PACE "}\n", 0, NULL, &r),
				TW_OK);
			compare(strategies[k], &r);
			assert_true(seen.applied >= 60 && !seen.plain);
			assert_true(r.tally.residual_most > 0 && !r.tally.residuals_lost);
			for (size_t i = 0; k == 0 && i < DIMENSION; i++) {
				/* without the books: every position once */
				for (uint64_t p = 0; p < 192; p++)
					all[i] += value(p, i) / 2;
				for (uint32_t w = 0; w < SLOTS; w++)
					all[i] -= r.owed[w][i];
				assert_true(all[i] == r.w[i]);
			}
		}
}

static void a_leave_takes_nothing_along(void **state)
{
	unsigned left = 0, plain = 0;
	char more[300];
	struct ran r;

	for (size_t k = 0; k < STRATEGIES; k++)
		for (unsigned at = 20; at < 500; at += 23) {
			snprintf(more, sizeof more,
				 "sim: {" PACE ", faults: [{leave: worker 1, at: %ums}]}\n", at);
			assert_int_equal(run(strategies[k], 1 + at % 2, more, 0, NULL, &r), TW_OK);
			compare(strategies[k], &r);
			assert_int_equal(seen.died + seen.lost, 0);
			left += seen.left;
			plain += seen.plain;
		}
	assert_true(left > 60);
	assert_true(plain > 10); /* a stripe that had it all */
}

static void a_death_takes_along_what_was_owed(void **state)
{
	unsigned died = 0;
	uint64_t counted = 0;
	char more[300];
	struct ran r;

	for (size_t k = 0; k < STRATEGIES; k++)
		for (unsigned at = 20; at < 500; at += 23) {
			snprintf(more, sizeof more,
				 "sim: {" PACE ", closed_limit: 20ms, faults: "
				 "[{crash: worker 1, at: %ums, restart: 60ms}]}\n",
				 at);
			assert_int_equal(run(strategies[k], 1, more, 0, NULL, &r), TW_OK);
			compare(strategies[k], &r);
			died += seen.died;
			counted += r.tally.residuals_lost;
			assert_true(r.tally.residuals_lost <= seen.died);
			assert_int_equal(r.tally.residuals_lost > 0, r.tally.residual_lost > 0);
		}
	assert_true(died > 60 && counted > 30);
}

/* Outside rounds a lost shard's range is taken from the checkpoint and others go on: what was
 * encoded for the shard that was is owed whole, and what is owed stays right.  (What softsync had
 * collected goes with its server, and no note says so.) */
static void a_lost_shard_is_owed_what_it_missed(void **state)
{
	unsigned fenced = 0;
	char more[400];
	struct ran r;

	for (size_t k = 0; k < 2; k++)
		for (unsigned at = 60; at < 500; at += 23) {
			snprintf(more, sizeof more,
				 "checkpoint: {every: 100ms, cut: drain}\n"
				 "sim: {" PACE ", closed_limit: 20ms, faults: "
				 "[{crash: server 1, at: %ums, restart: 30ms}]}\n",
				 at);
			assert_int_equal(run(strategies[k], 2, more, 0, NULL, &r), TW_OK);
			memcpy(seen.now.taken, r.w, sizeof r.w); /* what it lost is not the point */
			compare(strategies[k], &r);
			fenced += seen.fenced;
		}
	assert_true(fenced > 20);
}

/* A leaver finds a shard that was taken anew: its last push is of what there is now. */
static void a_leaver_waits_for_a_lost_shard(void **state)
{
	unsigned left = 0;
	char more[400];
	struct ran r;

	for (size_t k = 0; k < 3; k++)
		for (unsigned at = 60; at < 400; at += 7) {
			snprintf(more, sizeof more,
				 "checkpoint: {every: 100ms, cut: drain}\n"
				 "sim: {" PACE
				 ", closed_limit: 20ms, faults: [{crash: server 1, at: "
				 "%ums, restart: 30ms}, {leave: worker 1, at: %ums}]}\n",
				 at, at + 5 * (at % 20));
			assert_int_equal(run(strategies[k], 2, more, 0, NULL, &r), TW_OK);
			assert_int_equal(seen.lost, 0);
			left += seen.left;
		}
	assert_true(left > 100);
}

/* In rounds everybody goes back, with what each owed then. */
static void a_rollback_takes_debts_back(void **state)
{
	unsigned rolled = 0;
	char more[400];
	struct ran r;

	for (size_t k = 3; k < STRATEGIES; k++)
		for (unsigned at = 20; at < 500; at += 23) {
			snprintf(more, sizeof more,
				 "checkpoint: {every: 100ms, cut: drain}\n"
				 "sim: {" PACE ", closed_limit: 20ms, faults: "
				 "[{crash: server 1, at: %ums, restart: 30ms}]}\n",
				 at);
			assert_int_equal(run(strategies[k], 2, more, 0, NULL, &r), TW_OK);
			compare(strategies[k], &r);
			rolled += seen.rolled;
		}
	assert_true(rolled > 20);
}

/* Connections break, and what was on its way arrives, is lost, or arrives twice. */
static void resets_lose_nothing(void **state)
{
	char more[500];
	struct ran r;

	for (size_t k = 0; k < STRATEGIES; k++)
		for (unsigned at = 20; at < 400; at += 31) {
			snprintf(more, sizeof more,
				 "sim: {" PACE ", faults: [{reset: worker 1, to: server 0, at: "
				 "%ums}, {reset: worker 2, to: server 1, at: %ums}, {reset: worker "
				 "0, to: master, at: %ums}]}\n",
				 at, at + 11, at + 17);
			assert_int_equal(run(strategies[k], 2, more, 0, NULL, &r), TW_OK);
			compare(strategies[k], &r);
			assert_int_equal(seen.died, 0);
		}
}

/* A run that is stopped at a checkpoint and resumed ends with the same bits. */
static void a_resumed_run_has_the_same_bits(void **state)
{
	static const char more[] = "checkpoint: {every: 120ms, cut: drain}\nsim: {" PACE "}\n";

	for (size_t k = 0; k < STRATEGIES; k++)
		for (uint32_t shards = 1; shards <= 2; shards++)
			for (uint64_t stop = 1; stop <= 2; stop++) {
				struct tw_store *store;
				struct ran whole, half, rest;

				/* who is late for a round may be another one after a cut: the last
				 * strategy is compared with one codec only */
				if (chosen && k == STRATEGIES - 1)
					continue;
				store = tw_memory_store_new(&tw_heap_system);
				assert_int_equal(run(strategies[k], shards, more, 0, NULL, &whole),
						 TW_OK);
				assert_int_equal(
					run(strategies[k], shards, more, stop, store, &half),
					TW_INTERRUPTED);
				assert_true(half.has[0] && half.has[1] && half.has[2]);
				assert_int_equal(run(strategies[k], shards, more, 0, store, &rest),
						 TW_OK);
				assert_memory_equal(whole.w, rest.w, sizeof whole.w);
				assert_memory_equal(whole.owed, rest.owed, sizeof whole.owed);
				tw_memory_store_free(store);
			}
}

/* The cut of `from`, in which worker 1's residual is what a hostile hand made of it. */
static struct tw_store *spoilt(struct tw_store *from, size_t n, float first)
{
	struct tw_store *to = tw_memory_store_new(&tw_heap_system);
	const uint64_t steps = 0;
	float owed[DIMENSION + 1] = { first };
	const struct tw_array list[] = {
		{ .name = "worker", .n = sizeof steps, .kind = TW_BYTES, .at = &steps },
		{ .name = "residual", .n = n, .kind = TW_FLOATS, .at = owed },
	};
	struct tw_part *parts;
	uint64_t cut;
	size_t count;

	assert_int_equal(from->load(from, &cut, &parts, &count), TW_OK);
	for (size_t k = 0; k < count; k++)
		if (strcmp(parts[k].name, "worker 1") == 0) {
			tw_block_drop(parts[k].bytes);
			parts[k].bytes = tw_part_pack(&tw_heap_system, list, 2);
		}
	assert_int_equal(to->save(to, cut, parts, count), TW_OK);
	from->loaded_free(from, parts, count);
	return to;
}

/* A part that does not fit is refused with a sentence, and its worker begins with nothing owed. */
static void a_malformed_part_is_said_and_left(void **state)
{
	static const char more[] = "checkpoint: {every: 120ms, cut: drain}\nsim: {" PACE "}\n";
	static const struct {
		size_t n;
		float first;
		unsigned said;
	} cases[] = { { DIMENSION, 3.0f, 0 },
		      { DIMENSION + 1, 0.0f, 1 },
		      { DIMENSION - 1, 0.0f, 1 },
		      { DIMENSION, INFINITY, 1 },
		      { DIMENSION, NAN, 1 } };

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_store *store = tw_memory_store_new(&tw_heap_system), *bad;
		struct ran r;

		assert_int_equal(run("name: asgd", 1, more, 1, store, &r), TW_INTERRUPTED);
		bad = spoilt(store, cases[k].n, cases[k].first);
		assert_int_equal(run("name: asgd", 1, more, 0, bad, &r), TW_OK);
		assert_int_equal(seen.unusable > 0, cases[k].said);
		/* what the others owed came back; the books of this run began at 0 */
		for (size_t i = 0; cases[k].said && i < DIMENSION; i++)
			assert_true(r.owed[1][i] == seen.now.owed[1][i]);
		tw_memory_store_free(bad);
		tw_memory_store_free(store);
	}
}

/* Momentum on the worker and a codec that owes: one last push has both. */
static void momentum_and_debts_leave_together(void **state)
{
	unsigned left = 0;
	char more[300];
	struct ran r;

	for (unsigned at = 20; at < 500; at += 23) {
		snprintf(more, sizeof more,
			 "sim: {" PACE ", faults: [{leave: worker 1, at: %ums}]}\n", at);
		assert_int_equal(run("name: dana-slim", 1, more, 0, NULL, &r), TW_OK);
		assert_int_equal(seen.lost, 0);
		assert_false(r.has[1] && seen.left);
		left += seen.left;
	}
	assert_true(left > 10);
}

/* Each of the above, with each codec. */
static int choose_next(void **state)
{
	chosen = (chosen + 1) % CODECS;
	return 0;
}

#define WITH_EACH(test)                                                                            \
	cmocka_unit_test_teardown(test, choose_next),                                              \
		cmocka_unit_test_teardown(test, choose_next),                                      \
		cmocka_unit_test_teardown(test, choose_next),                                      \
		cmocka_unit_test_teardown(test, choose_next),                                      \
		cmocka_unit_test_teardown(test, choose_next)
_Static_assert(CODECS == 5, "WITH_EACH chooses each once");

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_EACH(nothing_is_lost),
		WITH_EACH(a_leave_takes_nothing_along),
		WITH_EACH(a_death_takes_along_what_was_owed),
		WITH_EACH(a_lost_shard_is_owed_what_it_missed),
		WITH_EACH(a_leaver_waits_for_a_lost_shard),
		WITH_EACH(a_rollback_takes_debts_back),
		WITH_EACH(resets_lose_nothing),
		WITH_EACH(a_resumed_run_has_the_same_bits),
		WITH_EACH(a_malformed_part_is_said_and_left),
		WITH_EACH(momentum_and_debts_leave_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
