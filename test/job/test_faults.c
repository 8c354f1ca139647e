/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.c - some of the runs that test_full_faults.c makes by the ten thousand. */
#include "faultrun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void nodes_at_some_events(void **state)
{
	(void)state;
	assert_int_equal(faultrun_kills(faultrun_presets, 61), 0);
}

static void some_seeds(void **state)
{
	(void)state;
	assert_int_equal(faultrun_seeds(faultrun_presets, 1, 30), 0);
}

static void masters(void **state)
{
	(void)state;
	assert_int_equal(faultrun_masters(faultrun_presets, 1, 40), 0);
}

static void those_who_leave(void **state)
{
	(void)state;
	assert_int_equal(faultrun_leaves(faultrun_presets, 1, 20), 0);
}

static void some_of_deltas(void **state)
{
	(void)state;
	assert_int_equal(faultrun_kills(faultrun_deltas(), 61), 0);
	assert_int_equal(faultrun_seeds(faultrun_deltas(), 1, 30), 0);
	assert_int_equal(faultrun_masters(faultrun_deltas(), 1, 40), 0);
	assert_int_equal(faultrun_leaves(faultrun_deltas(), 1, 20), 0);
}

/* The same where parts of checkpoints come and go one after another. */
static void large_checkpoints(void **state)
{
	(void)state;
	faultrun_large = true;
	assert_int_equal(faultrun_kills(faultrun_presets, 131), 0);
	assert_int_equal(faultrun_seeds(faultrun_presets, 1, 12), 0);
	assert_int_equal(faultrun_masters(faultrun_presets, 1, 12), 0);
	assert_int_equal(faultrun_leaves(faultrun_presets, 1, 8), 0);
	faultrun_large = false;
}

/* The watcher is worth something only if it sees what it should: a run that loses a server for
 * good must have gone back to a cut, and say so. */
static void a_lost_server_is_seen(void **state)
{
	const struct faultrun r = { .preset = "asgd",
				    .workers = 3,
				    .servers = 2,
				    .shards = 3,
				    .seed = 3,
				    .fault = { { .kind = TW_FAULT_CRASH,
						 .a = 1,
						 .at = TW_SECOND * 7 / 4,
						 .lasts = -1 } },
				    .faults = 1,
				    .forever = true };
	struct faultend end;

	(void)state;
	assert_null(faultrun(&r, &end));
	assert_int_equal(end.status, TW_OK);
	assert_true(end.totals.lost_updates > 0);
}

/* Runs that were once stuck. */
static void must_hold(struct faultrun r)
{
	struct faultend end;
	const char *wrong = faultrun(&r, &end);

	if (wrong)
		fail_msg("%s\n  replay: %s", wrong, faultrun_replay(&r));
}

/* A round was committed while a cut that pauses nobody was collected: the master's part was of the
 * next round, the shards' of this one, and nobody could go on from it. */
static void a_cut_under_way_is_of_one_round(void **state)
{
	static const struct faultrun once_stuck[] = {
		{ .preset = "{gate: bsp, send: delta, push: 2, merge: elastic, alpha: 0.2, outer: "
			    "{rule: add, scale: 1}}",
		  .workers = 4,
		  .servers = 3,
		  .shards = 5,
		  .seed = 84,
		  .fault_seed = 84,
		  .crashes = 3,
		  .partitions = 1 },
		{ .preset = "{gate: backup, extra: 1, abandon: true, send: delta, push: 3, outer: "
			    "{rule: average}}",
		  .workers = 3,
		  .servers = 1,
		  .shards = 5,
		  .seed = 289,
		  .fault_seed = 289,
		  .crashes = 3,
		  .partitions = 1,
		  .resets = 4,
		  .slow = 1,
		  .loss = 0.1 },
		{ .preset = "{name: diloco, push: 2}",
		  .workers = 4,
		  .servers = 1,
		  .shards = 3,
		  .seed = 521,
		  .fault_seed = 521,
		  .crashes = 3,
		  .partitions = 2,
		  .resets = 3,
		  .slow = 1 },
		{ .preset = "{name: diloco, push: 2}",
		  .workers = 2,
		  .servers = 3,
		  .shards = 4,
		  .seed = 1446,
		  .fault_seed = 1446,
		  .crashes = 1,
		  .partitions = 2,
		  .resets = 2,
		  .loss = 0.1 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof once_stuck / sizeof once_stuck[0]; k++) {
		struct faultrun r = once_stuck[k];

		r.running = r.forever = true;
		must_hold(r);
	}
}

/* Shards must be of one mind about what is late, also if one of these is lost before the verdict: a
 * shard twice, before it could say what it had lost; a shard that got two contributions in another
 * order; the master from its servers, with a verdict on its way; a worker that a view does not name
 * yet. */
static void a_verdict_is_for_all_shards(void **state)
{
	static const struct faultrun runs[] = {
		{ .preset = "{gate: softsync, fresh: true, collect: 5, stop: true}",
		  .workers = 2,
		  .servers = 3,
		  .shards = 5,
		  .seed = 173,
		  .fault_seed = 173,
		  .crashes = 3,
		  .partitions = 2,
		  .resets = 2,
		  .slow = 1,
		  .loss = 0.1,
		  .running = true },
		{ .preset = "{gate: ringmaster, limit: 2, fetch: 2, codec: {up: onebit}}",
		  .workers = 5,
		  .servers = 3,
		  .shards = 4,
		  .seed = 173,
		  .fault_seed = 173,
		  .crashes = 1,
		  .partitions = 1,
		  .resets = 1,
		  .loss = 0.1,
		  .running = true },
		{ .preset = "{gate: softsync, fresh: true, collect: 5, stop: true}",
		  .workers = 2,
		  .servers = 1,
		  .shards = 5,
		  .seed = 88,
		  .fault_seed = 88,
		  .partitions = 1,
		  .resets = 2,
		  .loss = 0.1 },
		{ .preset = "{gate: ringmaster, limit: 2}",
		  .workers = 4,
		  .servers = 2,
		  .shards = 3,
		  .seed = 79,
		  .fault_seed = 79,
		  .crashes = 1,
		  .partitions = 2,
		  .resets = 5,
		  .loss = 0.1,
		  .running = true },
	};

	(void)state;
	for (size_t k = 0; k < sizeof runs / sizeof runs[0]; k++) {
		struct faultrun r = runs[k];

		r.forever = true;
		must_hold(r);
	}
}

/* A master is lost, and the next one hears of a worker late: meanwhile the worker was in no view,
 * and what it had asked the shards was forgotten. */
static void a_request_outlives_a_view_without_its_worker(void **state)
{
	const struct faultrun r = { .preset = "{gate: ssp, lead: 1, send: delta, push: 2, merge: "
					      "mix, alpha: 0.4, outer: {rule: average}}",
				    .workers = 4,
				    .servers = 1,
				    .shards = 3,
				    .seed = 9557,
				    .fault_seed = 9557,
				    .crashes = 1,
				    .partitions = 2,
				    .resets = 4,
				    .running = true,
				    .forever = true };

	(void)state;
	must_hold(r);
}

/* A shard's acknowledgement comes when its server is dead, and after the request to the next life
 * of the shard: that life must hear that the contribution is closed. */
static void a_late_acknowledgement_of_a_dead_server(void **state)
{
	const struct faultrun r = { .preset = "{name: eamsgd, push: 2}",
				    .workers = 4,
				    .servers = 2,
				    .shards = 5,
				    .seed = 18030,
				    .fault_seed = 18030,
				    .crashes = 2,
				    .partitions = 1,
				    .loss = 0.1,
				    .forever = true };

	(void)state;
	must_hold(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_at_some_events),
		cmocka_unit_test(some_seeds),
		cmocka_unit_test(masters),
		cmocka_unit_test(those_who_leave),
		cmocka_unit_test(some_of_deltas),
		cmocka_unit_test(large_checkpoints),
		cmocka_unit_test(a_lost_server_is_seen),
		cmocka_unit_test(a_cut_under_way_is_of_one_round),
		cmocka_unit_test(a_verdict_is_for_all_shards),
		cmocka_unit_test(a_request_outlives_a_view_without_its_worker),
		cmocka_unit_test(a_late_acknowledgement_of_a_dead_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
