/* SPDX-License-Identifier: Apache-2.0 */
/* test_residual.c - a codec that owes, carried through whole runs: nothing of a gradient is lost or
 * applied twice, whatever happens, but what somebody who died owed.
 *
 * Gradients are integers that depend on positions alone, rates and shares are 1 and sums are
 * totals, so all arithmetic is exact.  The test keeps its own books, from the notes and from what
 * the codec was given: what each shard must have, and what each worker must owe. */
#include "job/books.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define EVENTS 29 /* from one that is tried to the next */

/* Sum of what was applied and of what is owed is the sum of what was computed. */
static void nothing_is_lost(void **state)
{
	for (size_t k = 0; k < STRATEGIES; k++)
		for (uint32_t shards = 1; shards <= 2; shards++) {
			float all[DIMENSION] = { 0 };
			struct ran r;

			assert_int_equal(books_run(books_strategies[k], shards, "sim: {" PACE "}\n",
						   0, NULL, &r),
					 TW_OK);
			books_compare(books_strategies[k], &r);
			assert_true(seen.applied >= 60 && !seen.plain);
			assert_true(r.tally.residual_most > 0 && !r.tally.residuals_lost);
			for (size_t i = 0; k == 0 && i < DIMENSION; i++) {
				/* without the books: every position once */
				for (uint64_t p = 0; p < 192; p++)
					all[i] += books_value(p, i) / 2;
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
			assert_int_equal(
				books_run(books_strategies[k], 1 + at % 2, more, 0, NULL, &r),
				TW_OK);
			books_compare(books_strategies[k], &r);
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
			assert_int_equal(books_run(books_strategies[k], 1, more, 0, NULL, &r),
					 TW_OK);
			books_compare(books_strategies[k], &r);
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
			assert_int_equal(books_run(books_strategies[k], 2, more, 0, NULL, &r),
					 TW_OK);
			books_compare(books_strategies[k], &r);
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
			assert_int_equal(books_run(books_strategies[k], 2, more, 0, NULL, &r),
					 TW_OK);
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
		for (unsigned at = 20; at < 500 && k != SERVERLESS; at += 23) {
			snprintf(more, sizeof more,
				 "checkpoint: {every: 100ms, cut: drain}\n"
				 "sim: {" PACE ", closed_limit: 20ms, faults: "
				 "[{crash: server 1, at: %ums, restart: 30ms}]}\n",
				 at);
			assert_int_equal(books_run(books_strategies[k], 2, more, 0, NULL, &r),
					 TW_OK);
			books_compare(books_strategies[k], &r);
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
			const char *other = k == SERVERLESS ? "worker" : "server";

			snprintf(more, sizeof more,
				 "sim: {" PACE ", faults: [{reset: worker 1, to: %s 0, at: "
				 "%ums}, {reset: worker 2, to: %s 1, at: %ums}, {reset: worker "
				 "0, to: master, at: %ums}]}\n",
				 other, at, other, at + 11, at + 17);
			assert_int_equal(books_run(books_strategies[k], 2, more, 0, NULL, &r),
					 TW_OK);
			books_compare(books_strategies[k], &r);
			assert_int_equal(seen.died, 0);
		}
}

/* What is not finite is refused by the shard whose slice it is, and nothing is owed for it. */
static void refusals_lose_nothing(void **state)
{
	uint64_t refused = 0;
	struct ran r;

	for (size_t k = 0; k < STRATEGIES; k++)
		for (books_poison = 5; books_poison < 20; books_poison += 3) {
			const uint32_t shards = 1 + books_poison % 2;

			assert_int_equal(books_run(books_strategies[k], shards, "sim: {" PACE "}\n",
						   0, NULL, &r),
					 TW_OK);
			books_compare(books_strategies[k], &r);
			refused += r.tally.refused;
		}
	books_poison = 0;
	assert_true(refused > 100);
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

				store = tw_memory_store_new(&tw_heap_system);
				assert_int_equal(books_run(books_strategies[k], shards, more, 0,
							   NULL, &whole),
						 TW_OK);
				assert_int_equal(books_run(books_strategies[k], shards, more, stop,
							   store, &half),
						 TW_INTERRUPTED);
				assert_true(half.has[0] && half.has[1] && half.has[2]);
				assert_int_equal(books_run(books_strategies[k], shards, more, 0,
							   store, &rest),
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

		assert_int_equal(books_run("name: asgd", 1, more, 1, store, &r), TW_INTERRUPTED);
		bad = spoilt(store, cases[k].n, cases[k].first);
		assert_int_equal(books_run("name: asgd", 1, more, 0, bad, &r), TW_OK);
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
		assert_int_equal(books_run("name: dana-slim", 1, more, 0, NULL, &r), TW_OK);
		assert_int_equal(seen.lost, 0);
		assert_false(r.has[1] && seen.left);
		left += seen.left;
	}
	assert_true(left > 10);
}

/* A worker, then a server, dies at some events of a run; test_full_residual.c has every one. */
static void deaths_at_some_events(void **state)
{
	for (books_codec = 0; books_codec < CODECS; books_codec++)
		assert_true(books_kill_everywhere(EVENTS) > 10);
	books_codec = 0;
}

static void losses_at_some_events(void **state)
{
	for (books_codec = 0; books_codec < CODECS_ADD_UP; books_codec++)
		assert_true(books_lose_everywhere(EVENTS) > 20);
	books_codec = 0;
}

static void restarts_at_some_events(void **state)
{
	for (books_codec = 0; books_codec < CODECS_ADD_UP; books_codec++)
		assert_true(books_restart_everywhere(EVENTS) > 20);
	books_codec = 0;
}

/* Each of the others, with each codec whose arithmetic is exact. */
static int choose_next(void **state)
{
	books_codec = (books_codec + 1) % CODECS_EXACT;
	return 0;
}

#define WITH_EACH(test)                                                                            \
	cmocka_unit_test_teardown(test, choose_next),                                              \
		cmocka_unit_test_teardown(test, choose_next),                                      \
		cmocka_unit_test_teardown(test, choose_next),                                      \
		cmocka_unit_test_teardown(test, choose_next),                                      \
		cmocka_unit_test_teardown(test, choose_next)
_Static_assert(CODECS_EXACT == 5, "WITH_EACH chooses each once");

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
		WITH_EACH(refusals_lose_nothing),
		WITH_EACH(a_resumed_run_has_the_same_bits),
		WITH_EACH(a_malformed_part_is_said_and_left),
		WITH_EACH(momentum_and_debts_leave_together),
		cmocka_unit_test(deaths_at_some_events),
		cmocka_unit_test(losses_at_some_events),
		cmocka_unit_test(restarts_at_some_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
