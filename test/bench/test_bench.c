/* SPDX-License-Identifier: Apache-2.0 */
/* test_bench.c - what the benches share, and the shape of what they say. */
#include "bench/bench.h"
#include "bench/cases.h"
#include "bench/harness/null_engine.h"
#include "strategy/codec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tw_log silence = { .sink = NULL };
static const struct tw_bench_how once = { .log = &silence, .rounds = 1 };

static void medians(void **state)
{
	double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };

	assert_true(tw_median(odd, 3) == 3.0);
	assert_true(tw_median(even, 4) == 2.5);
	assert_true(tw_median(one, 1) == 7.0);
	assert_true(tw_median(one, 0) == 0.0);
}

static void a_ratio_is_value_over_floor(void **state)
{
	json_t *cases = json_array();
	struct tw_error why = { .status = TW_OK };
	const json_t *c;

	assert_int_equal(tw_bench_case(cases, "x", 6.0, "s", 4.0, &why), TW_OK);
	c = json_array_get(cases, 0);
	assert_string_equal(json_string_value(json_object_get(c, "name")), "x");
	assert_string_equal(json_string_value(json_object_get(c, "unit")), "s");
	assert_true(json_number_value(json_object_get(c, "ratio")) == 1.5);
	json_decref(cases);
}

static const json_t *case_called(const json_t *cases, const char *codec, const char *what)
{
	const json_t *c;
	char name[60];
	size_t k;

	snprintf(name, sizeof name, "%s-%s", codec, what);
	json_array_foreach(cases, k, c) if (strcmp(json_string_value(json_object_get(c, "name")),
						   name) == 0) return c;
	fail_msg("there is no case %s", name);
	return NULL;
}

static void every_codec_is_measured(void **state)
{
	static const char *const what[] = { "encode", "decode", "bytes", "apply", "apply-held" };
	struct tw_error why = { .status = TW_OK };
	json_t *result = NULL;
	const json_t *cases;

	assert_int_equal(tw_bench_run(&tw_bench_codec, &once, &result, &why), TW_OK);
	cases = json_object_get(result, "cases");
	for (size_t i = 0; tw_codec_all[i]; i++)
		for (size_t k = 0; k < (tw_codec_all[i]->add ? 5 : 3); k++) {
			const json_t *c = case_called(cases, tw_codec_all[i]->name, what[k]);

			assert_true(json_number_value(json_object_get(c, "value")) > 0.0);
			assert_true(json_number_value(json_object_get(c, "floor")) > 0.0);
			if (k == 2 && (tw_codec_all[i]->traits & TW_CODEC_IDENTITY))
				assert_true(json_number_value(json_object_get(c, "value")) == 4.0);
		}
	json_decref(result);
}

/* The engine of the exchange fills a buffer once and then leaves it alone. */
static void the_idle_engine_costs_nothing_twice(void **state)
{
	struct tw_null_engine *e = malloc(sizeof *e);
	const struct tw_inputs in = { .count = 3 };
	struct tw_score score;
	float g[40] = { 0 };

	assert_non_null(e);
	tw_null_engine_init(e, 40, 100);
	assert_int_equal(e->engine.class->gradient(&e->engine, NULL, &in, g, &score), TW_OK);
	assert_true(g[0] != 0.0f && g[20] == g[0] && g[39] == g[0]);
	g[20] = 7.0f;
	assert_int_equal(e->engine.class->gradient(&e->engine, NULL, &in, g, &score), TW_OK);
	assert_true(g[20] == 7.0f);
	assert_int_equal(atomic_load(&e->calls), 2);
	assert_true(e->at[1] >= e->at[0] && e->at[0] > 0);
	assert_int_equal(score.samples, 3);
	free(e);
}

/* Sizes up to 10,000: workers, and parameters. */
static void growth_has_time_and_memory_of_every_size(void **state)
{
	static const char *const names[] = { "growth-workers-100", "growth-workers-1000",
					     "growth-workers-10000", "growth-parameters-1e4" };
	json_t *r =
		bench_result(&tw_bench_growth, (struct tw_bench_how){ .rounds = 1, .size = 10000 });

	assert_int_equal(json_array_size(json_object_get(r, "cases")), 4);
	for (size_t k = 0; k < 4; k++) {
		const json_t *c = get(r, names[k]);

		assert_true(field(c, "value") > 0.0 && field(c, "value") < 10.0);
		assert_true(field(c, "bytes") > 1e6);
		if (k < 3)
			assert_true(fabs(field(c, "workers") * field(c, "bytes_per_worker") -
					 field(c, "bytes")) < 1.0);
	}
	assert_true(field(get(r, names[1]), "ratio") == 1.0); /* it is the floor */
	assert_true(field(get(r, names[2]), "bytes") > field(get(r, names[0]), "bytes"));
	assert_true(field(get(r, names[3]), "parameters") == 9706.0);
	json_decref(r);
	no_child_is_left();
}

/* The desk counts what it copies: parameters of 16 shards once for each step, gradients never. */
static void a_session_copies_parameters_once(void **state)
{
	json_t *r = bench_result(&tw_bench_session,
				 (struct tw_bench_how){ .rounds = 1, .size = 20000 });
	const json_t *step = get(r, "session-step"), *tiny = get(r, "session-tiny");

	assert_int_equal(json_array_size(json_object_get(r, "cases")), 2);
	assert_true(field(step, "parameter_copies") == 1.0);
	assert_true(field(step, "gradient_copies") == 0.0);
	assert_true(field(tiny, "parameter_copies") == 0.0); /* one shard: as it lies there */
	assert_true(field(tiny, "gradient_copies") == 0.0);
	assert_true(field(step, "value") > 0.0 && field(tiny, "value") > 0.0);
	assert_true(fabs(field(step, "floor") - field(step, "built_in") -
			 1.2 * field(step, "memcpy")) < 1e-12);
	json_decref(r);
	no_child_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(medians),
		cmocka_unit_test(a_ratio_is_value_over_floor),
		cmocka_unit_test(every_codec_is_measured),
		cmocka_unit_test(the_idle_engine_costs_nothing_twice),
		cmocka_unit_test(growth_has_time_and_memory_of_every_size),
		cmocka_unit_test(a_session_copies_parameters_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
