/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - thalweg plan: what it prints, what it refuses, and that the job's own row is what
 * the simulator shows. */
#include "cli/spawn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char bowl[] =
	"model: {quadratic: {dimension: 4000}}\n"
	"data: {source: none, samples: 4096, batch: 2}\ntrain: {epochs: 1}\n"
	"cluster: {workers: 8}\nstrategy: {name: asgd, codec: {down: fp16}}\n"
	"checkpoint: {every: 0s}\n"
	"sim: {compute: {law: log-normal, median: 10ms, sigma: 0.2}, bandwidth: 100Mbit/s}\n";
static const char net[] =
	"model: {layers: [linear 30, relu, linear 10]}\n"
	"data: {source: digits, count: 200, tests: 10, batch: 20}\ntrain: {epochs: 1}\n"
	"cluster: {workers: 2}\nstrategy: ssgd\n";
static const char faults[] = "model: {quadratic: {dimension: 40}}\n"
			     "data: {source: none, samples: 64, batch: 1}\n"
			     "cluster: {workers: 4}\nstrategy: asgd\n"
			     "sim: {compute: {mean: 1ms}, faults: [{crash: worker 3, at: 5s}]}\n";

static int make(void **state)
{
	if (scratch_make(state))
		return -1;
	put_text("bowl.yaml", bowl);
	put_text("net.yaml", net);
	put_text("faults.yaml", faults);
	return 0;
}

static double number(const json_t *o, const char *name)
{
	assert_true(json_is_number(json_object_get(o, name)));
	return json_number_value(json_object_get(o, name));
}

static const json_t *row_of(const json_t *o, const char *strategy, unsigned workers)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(o, "rows"), k, row)
	{
		if (!json_is_null(json_object_get(row, "family")) &&
		    number(row, "workers") == workers &&
		    strcmp(json_string_value(json_object_get(row, "strategy")), strategy) == 0)
			return row;
	}
	fail_msg("no row of %s with %u workers", strategy, workers);
	return NULL;
}

static void the_jobs_own_row_is_what_the_simulator_shows(void **state)
{
	json_t *o = object_of(thalweg(NULL, "plan %s/bowl.yaml --json", scratch()));
	json_t *r = object_of(thalweg(NULL, "sim %s/bowl.yaml --json", scratch()));
	const json_t *own = json_array_get(json_object_get(o, "rows"), 0);
	const json_t *steady = json_object_get(r, "steady");

	assert_true(fabs(number(own, "samples_per_second") / number(steady, "samples_per_second") -
			 1) < 0.15);
	assert_true(fabs(number(own, "staleness") -
			 number(json_object_get(r, "staleness"), "mean")) < 0.5);
	json_decref(o);
	json_decref(r);
}

static void every_preset_has_a_row_for_each_number_of_workers(void **state)
{
	json_t *o = object_of(thalweg(NULL, "plan %s/bowl.yaml --workers 4,16 --json", scratch()));
	const json_t *few = row_of(o, "ssgd", 4), *many = row_of(o, "ssgd", 16);

	assert_true(number(many, "server_memory_bytes") > number(few, "server_memory_bytes"));
	assert_true(number(row_of(o, "asgd", 16), "staleness") == 15);
	assert_true(number(row_of(o, "diloco", 4), "busiest_node_bytes_per_step") <
		    0.1 * number(row_of(o, "ssgd", 4), "busiest_node_bytes_per_step"));
	has(json_string_value(json_object_get(row_of(o, "hogwild", 4), "not_predicted")),
	    "needs threads");
	json_decref(o);
}

/* However many servers the job asks for: presets with and without servers are compared. */
static void servers_do_not_keep_presets_apart(void **state)
{
	static const char *const sets[] = { "cluster.servers=2",
					    "strategy=ring --set cluster.servers=0",
					    "strategy=tree" };

	for (size_t k = 0; k < 3; k++) {
		json_t *o = object_of(thalweg(NULL,
					      "plan %s/bowl.yaml --set strategy.codec.down=fp32 "
					      "--workers 16 --json --set %s",
					      scratch(), sets[k]));
		const json_t *ring = row_of(o, "ring", 16), *server = row_of(o, "ssgd", 16);

		assert_true(number(ring, "server_memory_bytes") == 0);
		assert_true(number(ring, "busiest_node_bytes_per_step") <
			    0.3 * number(server, "busiest_node_bytes_per_step"));
		json_decref(o);
	}
}

/* The codec of the job holds for every strategy. */
static void a_codec_stays(void **state)
{
	json_t *half = object_of(thalweg(NULL, "plan %s/bowl.yaml --json", scratch()));
	json_t *full = object_of(thalweg(
		NULL, "plan %s/bowl.yaml --set strategy.codec.down=fp32 --json", scratch()));

	assert_true(number(row_of(half, "ssp", 8), "busiest_node_bytes_per_step") <
		    0.8 * number(row_of(full, "ssp", 8), "busiest_node_bytes_per_step"));
	json_decref(half);
	json_decref(full);
}

static void the_best_is_fast_enough_and_fits(void **state)
{
	json_t *o = object_of(thalweg(
		NULL, "plan %s/bowl.yaml --memory 100kB --bandwidth 10Mbit/s --json", scratch()));
	const json_t *one, *row;
	size_t k, i;

	assert_true(json_array_size(json_object_get(o, "best")) >= 3);
	json_array_foreach(json_object_get(o, "best"), k, one)
	{
		const json_t *best =
			json_array_get(json_object_get(o, "rows"), (size_t)number(one, "row"));

		assert_true(number(best, "server_memory_bytes") <= 100e3);
		json_array_foreach(json_object_get(o, "rows"), i, row)
		{
			if (json_is_null(json_object_get(row, "family")) ||
			    !json_is_true(json_object_get(row, "fits")) ||
			    (!json_is_null(json_object_get(one, "family")) &&
			     !json_equal(json_object_get(one, "family"),
					 json_object_get(row, "family"))))
				continue;
			assert_true(number(best, "samples_per_second") >=
				    0.98 * number(row, "samples_per_second"));
		}
	}
	json_decref(o);
}

static void the_table_fits_a_terminal(void **state)
{
	const struct said *s = thalweg(
		bowl, "plan - --workers 4096,2 --bandwidth 1kbit/s --compute 1us --latency 1h");

	expect(s, 0);
	has(s->out, "one machine is faster");
	for (const char *line = s->out; *line; line = strchr(line, '\n') + 1)
		if (strcspn(line, "\n") > 100)
			fail_msg("%.*s", (int)strcspn(line, "\n"), line);
	s = thalweg(NULL, "plan %s/bowl.yaml", scratch());
	expect(s, 0);
	has(s->out, "fastest with 8 workers");
	has(s->out, "faster than one machine above");
}

static void a_step_is_measured_where_nobody_says_what_it_costs(void **state)
{
	json_t *o = object_of(thalweg(NULL, "plan %s/net.yaml --json", scratch()));

	assert_string_equal(json_string_value(json_object_get(o, "compute")), "measured");
	assert_true(number(o, "compute_seconds") > 1e-7 && number(o, "compute_seconds") < 1);
	json_decref(o);
}

static void wrong_flags_are_refused(void **state)
{
	static const struct {
		const char *flags, *sentence;
	} cases[] = {
		{ "--workers 0", "--workers: needs different whole numbers from 1 to 4096" },
		{ "--workers 4,4", "--workers: needs" },
		{ "--workers 4,", "--workers: needs" },
		{ "--workers 5000", "--workers: needs" },
		{ "--bandwidth fast", "--bandwidth: needs a bandwidth" },
		{ "--latency 5", "--latency: needs a time" },
		{ "--compute 0s", "--compute: needs a time" },
		{ "--memory much", "--memory: needs a size" },
		{ "--set data.batch=0", "data.batch" },
		{ "--nodes 4", "--nodes: needs --stages auto" },
		{ "--profile there.json", "--profile: needs --stages auto" },
		{ "--stages 3 --nodes 4", "--stages: needs auto, not '3'" },
		{ "--stages auto --nodes 4 --schedule", "--schedule: has no effect with --stages" },
		{ "--stages auto --nodes 4 --workers 2", "--workers: has no effect with --stages" },
		{ "--stages auto --nodes 4 --density 0.1", "--density: has no effect" },
		{ "--stages auto --nodes 4 --read-csv x", "--read-csv: has no effect" },
		{ "--stages auto --nodes 4 --compute 1ms --profile x",
		  "--compute: cannot be combined with --profile" },
		{ "--stages auto --nodes 4", "the job has no pipeline to plan for" },
	};

	const struct said *s;

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		s = thalweg(NULL, "plan %s/bowl.yaml %s", scratch(), cases[k].flags);

		expect(s, 2);
		has(s->err, cases[k].sentence);
	}
	expect(thalweg(NULL, "plan %s/nowhere.yaml", scratch()), 2);
	expect(thalweg(NULL, "plan %s/faults.yaml --set sim.faults=[]", scratch()), 0);
	s = thalweg(NULL, "plan %s/faults.yaml", scratch());
	expect(s, 2);
	has(s->err, "predictions know no faults");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_jobs_own_row_is_what_the_simulator_shows),
		cmocka_unit_test(every_preset_has_a_row_for_each_number_of_workers),
		cmocka_unit_test(servers_do_not_keep_presets_apart),
		cmocka_unit_test(a_codec_stays),
		cmocka_unit_test(the_best_is_fast_enough_and_fits),
		cmocka_unit_test(the_table_fits_a_terminal),
		cmocka_unit_test(a_step_is_measured_where_nobody_says_what_it_costs),
		cmocka_unit_test(wrong_flags_are_refused),
	};

	return cmocka_run_group_tests(tests, make, scratch_remove);
}
