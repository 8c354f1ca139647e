/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_speed.c - the figures that the project promises, or nearly: a machine that others use
 * at the same time must not fail the tests, a kernel that fell back to plain loops must. */
/* labels: full serial */
#include "base/skipping.h"
#include "bench/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const struct tw_log silence = { .sink = NULL };
static const struct tw_bench_how usual = { .log = &silence };

/* The ratio of a case, which is printed whatever it is. */
static double ratio(const json_t *result, const char *name)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(result, "cases"), i, c)
	{
		const double r = json_number_value(json_object_get(c, "ratio"));

		if (strcmp(json_string_value(json_object_get(c, "name")), name) != 0)
			continue;
		print_message("%s: value %g, floor %g, ratio %.3f\n", name,
			      json_number_value(json_object_get(c, "value")),
			      json_number_value(json_object_get(c, "floor")), r);
		return r;
	}
	fail_msg("no case %s", name);
	return 0.0;
}

static json_t *run(const struct tw_bench *bench)
{
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;

	if (tw_bench_run(bench, &usual, &result, &why) != TW_OK)
		print_error("%s\n", why.text);
	assert_non_null(result);
	return result;
}

static void the_simulator_is_fast_and_small(void **state)
{
	json_t *r = run(&tw_bench_sim);

	assert_true(ratio(r, "sim-events") >= 1.0);
	assert_true(ratio(r, "sim-memory") <= 1.0);
	json_decref(r);
}

static void the_exchange_is_near_its_floor(void **state)
{
	json_t *r = run(&tw_bench_exchange);

	assert_true(ratio(r, "exchange-1") <= 1.4);
	if (sysconf(_SC_NPROCESSORS_ONLN) >= 2)
		assert_true(ratio(r, "exchange-2") >= 1.5);
	json_decref(r);
}

/* Between processes: what the project promises is at most 1.5, here with room for others who use
 * the machine, since three threads suffer more from them than a floor's two. */
static void processes_are_near_their_floors(void **state)
{
	const struct tw_bench_how how = { .log = &silence, .world = TW_WORLD_TCP };
	struct tw_error why = { .status = TW_OK };
	json_t *r = NULL;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP("one core: two processes cannot run beside each other");
	if (tw_bench_run(&tw_bench_exchange, &how, &r, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_true(ratio(r, "exchange-pair") <= 2.5);
	assert_true(ratio(r, "exchange-tcp") <= 2.0);
	assert_true(ratio(r, "exchange-tls") <= 2.0);
	json_decref(r);
}

static void many_connections_cost_little(void **state)
{
	json_t *r = run(&tw_bench_connections);

	assert_true(ratio(r, "connections-cpu") <= 2.0);
	assert_true(ratio(r, "connections-memory") <= 3.0);
	assert_true(ratio(r, "connections-progress") > 0.0);
	json_decref(r);
}

#define NEARLY 0.7

/* Every case with a target, which counts where there was something to compare with. */
static void reaches_targets(const json_t *result)
{
	const json_t *c;
	size_t i;

	json_array_foreach(json_object_get(result, "cases"), i, c)
	{
		const json_t *target = json_object_get(c, "target");
		const char *name = json_string_value(json_object_get(c, "name"));

		if (!target)
			continue;
		if (json_is_null(json_object_get(c, "ratio")))
			print_message("%s: nothing to compare with\n", name);
		else
			assert_true(ratio(result, name) >= NEARLY * json_number_value(target));
	}
}

static void a_step_is_faster_than_pytorchs(void **state)
{
	json_t *r = run(&tw_bench_compute);

	assert_true(ratio(r, "compute-mlp-peak") >= NEARLY);
	reaches_targets(r);
	json_decref(r);
}

static void two_workers_are_faster_than_one(void **state)
{
	json_t *r = run(&tw_bench_scale);

	reaches_targets(r);
	json_decref(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_simulator_is_fast_and_small),
		cmocka_unit_test(the_exchange_is_near_its_floor),
		cmocka_unit_test(processes_are_near_their_floors),
		cmocka_unit_test(many_connections_cost_little),
		cmocka_unit_test(a_step_is_faster_than_pytorchs),
		cmocka_unit_test(two_workers_are_faster_than_one),
	};

#ifdef TW_SANITIZED
	return 0; /* sanitizers change what is measured */
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
