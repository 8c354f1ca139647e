/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster.c - the benches that start processes, with tiny sizes: everything is measured, what
 * fails is said, and no process is left.  How fast anything is does not matter here. */
/* labels: threads */
#include "bench/cases.h"
#include "bench/harness/children.h"
#include "bench/baseline/raw_activations.h"
#include "bench/baseline/raw_reduce.h"
#include "wire/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static json_t *run(const struct tw_bench *bench, size_t size)
{
	return bench_result(
		bench, (struct tw_bench_how){
			       .world = TW_WORLD_TCP, .size = size, .rounds = 1, .quiet = 1e-9 });
}

static void an_exchange_between_processes_is_measured(void **state)
{
	static const char *const names[] = { "exchange-pair", "exchange-tcp", "exchange-tls" };
	json_t *r = run(&tw_bench_exchange, 3000);

	for (size_t i = 0; i < 3; i++) {
		const json_t *c = get(r, names[i]);

		assert_true(field(c, "value") > 0.0 && field(c, "floor") > 0.0);
		assert_true(field(c, "ratio") > 0.0);
		assert_true(field(c, "target_most") == 1.5);
	}
	/* one round: ratios are quotients */
	assert_true(field(get(r, "loopback-over-pair"), "value") ==
		    field(get(r, "exchange-tcp"), "floor"));
	assert_true(field(get(r, "exchange-tcp-over-pair"), "floor") ==
		    field(get(r, "exchange-pair"), "floor"));
	json_decref(r);
}

static void workers_that_are_processes_all_get_on(void **state)
{
	json_t *r = run(&tw_bench_connections, 20);
	const json_t *cpu = get(r, "connections-cpu"), *memory = get(r, "connections-memory");

	assert_true(field(cpu, "value") > 0.0 && field(cpu, "floor") > 0.0);
	assert_int_equal(field(cpu, "workers"), 20);
	assert_int_equal(field(cpu, "floor_workers"), 10);
	assert_true(field(cpu, "updates_per_s") > 0.0 && field(cpu, "floor_updates_per_s") > 0.0);
	assert_true(field(cpu, "target_most") == 1.25);
	assert_true(field(memory, "floor") == (double)tw_frame_memory());
	assert_true(field(get(r, "connections-progress"), "value") >= 1.0);
	json_decref(r);
}

/* More values than a socket holds, a block that does not divide them, and one that is all. */
static void floors_move_everything(void **state)
{
	for (int kind = TW_RAW_PAIR; kind <= TW_RAW_TLS; kind++)
		for (size_t block = 1001; block < 2000000; block *= 1000) {
			struct tw_error why = { .status = TW_OK };
			double t = 0.0;

			if (tw_raw_exchange(kind, 500000, block, 2, &t, &why) != TW_OK)
				fail_msg("%s", why.text);
			assert_true(t > 0.0);
			no_child_is_left();
		}
}

/* A sum that is wrong is said by the floor itself. */
static void floors_of_sums_add_everything(void **state)
{
	static const size_t sizes[] = { 1, 2, 1001, 500001 };

	for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
		struct tw_error why = { .status = TW_OK };
		struct tw_raw_memory m = { 0 };

		for (int kind = TW_RAW_PAIR; kind <= TW_RAW_TCP; kind++) {
			double t = 0.0;

			if (tw_raw_reduce(kind, sizes[k], 2, &t, &why) != TW_OK)
				fail_msg("%s", why.text);
			assert_true(t > 0.0);
			no_child_is_left();
		}
		assert_int_equal(tw_raw_memory(sizes[k], 2, &m, &why), TW_OK);
		assert_true(m.sum > 0.0 && m.update > 0.0 && m.cpu > 0.0 && m.wall > 0.0);
	}
}

/* Without PyTorch only the floors are there to compare with. */
static void an_allreduce_between_processes_is_measured(void **state)
{
	json_t *r = bench_result(&tw_bench_allreduce, (struct tw_bench_how){ .python = "/bin/false",
									     .size = 3000,
									     .rounds = 1,
									     .block = 1e-9,
									     .quiet = 1e-9 });
	static const struct {
		const char *name, *raw;
		double target;
	} kinds[] = { { "allreduce-pair", "allreduce-pair-raw", 0.6 },
		      { "allreduce-tcp", "allreduce-tcp-raw", 1.0 } };
	const json_t *threads = get(r, "allreduce-threads");

	for (size_t k = 0; k < 2; k++) {
		const json_t *c = get(r, kinds[k].name), *raw = get(r, kinds[k].raw);

		assert_true(field(c, "value") > 0.0);
		assert_true(json_is_null(json_object_get(c, "ratio")));
		assert_true(field(c, "target_most") == kinds[k].target);
		/* one round: ratios are quotients */
		assert_true(field(raw, "value") == field(c, "value"));
		assert_true(field(raw, "ratio") == field(raw, "value") / field(raw, "floor"));
	}
	assert_true(field(threads, "value") > 0.0 && field(threads, "target_most") == 1.3);
	assert_true(field(threads, "floor") ==
		    field(threads, "floor_sum") + field(threads, "floor_update"));
	assert_true(field(r, "allreduce_cpu_share") > 0.0);
	assert_true(field(get(r, "allreduce-ddp"), "value") > 0.0);
	assert_true(json_is_null(json_object_get(get(r, "allreduce-ddp"), "ratio")));
	json_decref(r);
}

static void stages_in_two_processes_are_measured(void **state)
{
	json_t *r = run(&tw_bench_pipeline, 20);
	const json_t *moved = get(r, "pipeline-activations");
	const json_t *trained = get(r, "pipeline-two-processes");

	/* one round: ratios are quotients */
	assert_true(field(moved, "value") > 0.0 && field(moved, "floor") > 0.0);
	assert_true(field(moved, "ratio") == field(moved, "value") / field(moved, "floor"));
	assert_true(field(moved, "target_most") == 1.3);
	assert_true(field(trained, "value") > 0.0 && field(trained, "floor") > 0.0);
	assert_true(field(trained, "ratio") == field(trained, "value") / field(trained, "floor"));
	assert_true(field(trained, "target") == 1.4);
	assert_true(field(r, "pipeline_cpu_share") > 0.0);
	json_decref(r);
}

static void layers_that_are_too_wide_are_refused(void **state)
{
	const struct tw_log log = { .sink = NULL };
	const struct tw_bench_how how = { .log = &log, .world = TW_WORLD_TCP, .size = 1u << 20 };
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;

	assert_int_equal(tw_bench_run(&tw_bench_pipeline, &how, &result, &why), TW_BAD_INPUT);
	assert_string_equal(why.text, "layers of 1048576 are too wide; use at most 65536");
	assert_null(result);
}

/* Less and more than a socket holds, and fewer micro-batches than may be on their way. */
static void floors_of_activations_move_everything(void **state)
{
	static const struct tw_raw_activations list[] = {
		{ .bytes = 1, .window = 1, .warm = 0, .count = 5 },
		{ .bytes = 524288, .window = 2, .warm = 3, .count = 20 },
		{ .bytes = 20000001, .window = 4, .warm = 1, .count = 3 },
	};
	struct tw_error why = { .status = TW_OK };
	double t = 0.0;

	for (size_t k = 0; k < sizeof list / sizeof list[0]; k++) {
		t = 0.0;
		if (tw_raw_activations(&list[k], &t, &why) != TW_OK)
			fail_msg("%s", why.text);
		assert_true(t > 0.0);
		no_child_is_left();
	}
	assert_int_equal(tw_raw_activations(&(struct tw_raw_activations){ .bytes = 8, .window = 1 },
					    &t, &why),
			 TW_BAD_INPUT);
}

static enum tw_status well(void *arg, size_t number, struct tw_error *why)
{
	((size_t *)arg)[number] = number + 1;
	return TW_OK;
}

static enum tw_status badly(void *arg, size_t number, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_BYTES, "number %zu failed", number);
}

static enum tw_status killed(void *arg, size_t number, struct tw_error *why)
{
	raise(SIGKILL);
	return TW_OK;
}

static enum tw_status for_ever(void *arg, size_t number, struct tw_error *why)
{
	while (pause() < 0)
		;
	return TW_OK;
}

static void wait_for(tw_child_program second, double seconds, enum tw_status expected,
		     const char *sentence)
{
	struct tw_error why = { .status = TW_OK }, full = why;
	size_t *shared = tw_shared_new(2 * sizeof *shared);
	struct tw_children c;

	assert_non_null(shared);
	assert_int_equal(tw_children_init(&c, 2, &why), TW_OK);
	assert_int_equal(tw_children_add(&c, second == well ? well : for_ever, shared, &why),
			 TW_OK);
	assert_int_equal(tw_children_add(&c, second, shared, &why), TW_OK);
	assert_int_equal(tw_children_add(&c, well, shared, &full), TW_NO_ROOM);
	assert_int_equal(tw_children_wait(&c, seconds, &why), expected);
	if (expected == TW_OK)
		assert_true(shared[0] == 1 && shared[1] == 2);
	else
		assert_string_equal(why.text, sentence);
	tw_children_release(&c);
	no_child_is_left();
	tw_shared_free(shared, 2 * sizeof *shared);
}

static void nobody_is_left_behind(void **state)
{
	wait_for(well, 30.0, TW_OK, "");
	wait_for(badly, 30.0, TW_BAD_BYTES, "number 1 failed");
	wait_for(killed, 30.0, TW_IO, "process 1 was killed by signal 9");
	wait_for(for_ever, 0.05, TW_IO, "2 of 2 processes did not end within 0 s");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_is_left_behind),
		cmocka_unit_test(floors_move_everything),
		cmocka_unit_test(floors_of_sums_add_everything),
		cmocka_unit_test(floors_of_activations_move_everything),
		cmocka_unit_test(an_exchange_between_processes_is_measured),
		cmocka_unit_test(stages_in_two_processes_are_measured),
		cmocka_unit_test(layers_that_are_too_wide_are_refused),
		cmocka_unit_test(an_allreduce_between_processes_is_measured),
		cmocka_unit_test(workers_that_are_processes_all_get_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
