/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan_stages.c - where a job's model is cut: what VGG-like networks get, residual
 * connections, memory, profiles, and what is refused. */
#include "job/stage_plans.h"
#include "job/reading.h"
#include "kit/has.h"
#include "kit/near.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define REST                                                                                       \
	"train: {epochs: 1, seed: 1}\nupdate: {rate: 0.01}\nstrategy: pipedream\n"                 \
	"sim: {compute: {mean: 18ms}, latency: 100us, bandwidth: 1Gbit/s"
#define VGG                                                                                        \
	"data: {source: digits, count: 640, tests: 16, batch: 16}\n"                               \
	"model: {layers: [conv 16 3x3 pad 1, relu, conv 16 3x3 pad 1, relu, maxpool 2, conv 32 "   \
	"3x3 pad 1, relu, conv 32 3x3 pad 1, relu, maxpool 2, linear 512, relu, linear 512, "      \
	"relu, "                                                                                   \
	"linear 10]}\n" REST
#define SMALL_NET                                                                                  \
	"data: {source: digits, count: 64, tests: 16, batch: 4}\n"                                 \
	"model: {layers: [linear 24, relu, linear 20, relu, linear 10]}\n" REST

static const json_t *plan_of(const json_t *o, size_t k)
{
	return json_array_get(json_object_get(o, "rows"), k);
}

/* PipeDream's 15-1: convolutions are computed by several machines in turn, and the linear layers,
 * which have most of the parameters, by one. */
static void convolutions_are_replicated_and_dense_layers_are_not(void **state)
{
	json_t *o = stage_plans(VGG "}\n", (struct tw_stages_request){ .nodes = "6" });
	const json_t *plan = plan_of(o, 0), *lanes = json_object_get(plan, "lanes");
	const size_t stages = json_array_size(lanes);
	double best_other = 0;

	(void)state;
	assert_true(json_integer_value(json_array_get(lanes, 0)) >= 3);
	assert_int_equal(json_integer_value(json_array_get(lanes, stages - 1)), 1);
	for (size_t k = 3; k < json_array_size(json_object_get(o, "rows")); k++)
		best_other = fmax(best_other,
				  stage_number(plan_of(o, k), "simulated_samples_per_second"));
	assert_true(stage_number(plan, "simulated_samples_per_second") > 1.2 * best_other);
	printf("predictions within %.1f %%\n", 100 * stage_plans_near(o, 0.1, "VGG-like, 6"));
	json_decref(o);
}

/* A slow machine in the middle, links of groups: the same holds. */
static void unequal_machines_are_predicted(void **state)
{
	json_t *o = stage_plans(
		VGG ", groups: {bandwidth: 500Mbit/s, latency: 1ms}, nodes: [{speed: 1, group: a}, "
		    "{speed: 0.5, group: b}, {speed: 2, group: a}, {speed: 1, group: b, "
		    "bandwidth: 300Mbit/s}]}\n",
		(struct tw_stages_request){ .micros = 96 });

	(void)state;
	stage_plans_near(o, 0.1, "unequal machines");
	assert_true(json_integer_value(json_object_get(plan_of(o, 0), "machines")) > 1);
	json_decref(o);
}

/* A cut is where a residual connection is not open. */
static void residuals_are_cut_between_blocks(void **state)
{
	json_t *o = stage_plans(
		"data: {source: digits, count: 64, tests: 16, batch: 4}\n"
		"model: {layers: [conv 4 3x3 pad 1, relu, {residual: [conv 4 3x3 pad 1, relu, conv "
		"4 3x3 pad 1]}, relu, {residual: [conv 4 3x3 pad 1, relu, conv 4 3x3 pad 1]}, "
		"relu, "
		"globalpool, linear 10]}\n" REST "}\n",
		(struct tw_stages_request){ .nodes = "3", .bandwidth = "10Gbit/s" });

	(void)state;
	assert_true(json_integer_value(json_object_get(plan_of(o, 0), "machines")) == 3);
	stage_plans_near(o, 0.1, "residuals");
	json_decref(o);
}

/* Activations of twelve micro-batches: backwards compute their forward again where memory is short,
 * and no plan is given where that is not enough. */
static void short_memory_is_made_do_with(void **state)
{
	static const char job[] =
		"data: {source: digits, count: 640, tests: 16, batch: 8, accumulate: 12}\n"
		"model: {layers: [conv 16 3x3 pad 1, relu, conv 16 3x3 pad 1, relu, conv 16 3x3 "
		"pad 1, relu, conv 16 3x3 pad 1, relu, globalpool, linear 10]}\n"
		"train: {epochs: 1, seed: 1}\nupdate: {rate: 0.01}\nstrategy: gpipe\n"
		"sim: {compute: {mean: 18ms}, latency: 100us, bandwidth: 1Gbit/s}\n";
	json_t *o = stage_plans(job, (struct tw_stages_request){ .nodes = "2" });
	const double usual = stage_number(plan_of(o, 0), "memory_bytes");
	struct tw_error why = { 0 };
	bool recomputes = false;
	int percent;

	(void)state;
	for (percent = 100; percent > 0; percent -= 10) {
		const uint64_t memory = (uint64_t)(usual * percent / 100);
		json_t *tight = NULL;

		if (stage_plans_ask(job,
				    (struct tw_stages_request){ .nodes = "2", .memory = memory },
				    &tight, &why) != TW_OK)
			break;
		assert_true(stage_number(plan_of(tight, 0), "memory_bytes") <= (double)memory);
		recomputes =
			recomputes || json_is_true(json_object_get(plan_of(tight, 0), "recompute"));
		json_decref(tight);
	}
	assert_true(recomputes);
	assert_true(percent > 0);
	has(why.text, "no plan fits these machines");
	json_decref(o);
}

/* What is printed is a job: its fields, put over the same file, are read and give the same stages.
 */
static void fields_make_the_plan(void **state)
{
	static const char text[] = SMALL_NET "}\n";
	json_t *o = stage_plans(text, (struct tw_stages_request){ .nodes = "3" });
	const json_t *fields = json_object_get(plan_of(o, 0), "fields");
	const char *set[32] = { NULL };
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;

	(void)state;
	for (size_t k = 0; k < json_array_size(fields); k++)
		set[k] = json_string_value(json_array_get(fields, k));
	if (read_job(text, set, NULL, TW_WORLD_SIM, &job, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(job->plan.staging.stages,
			 json_integer_value(json_object_get(plan_of(o, 0), "stages")));
	assert_int_equal(tw_plan_cells(&job->plan),
			 json_integer_value(json_object_get(plan_of(o, 0), "machines")));
	assert_true(tw_plan_is_with_stage(&job->plan));
	tw_job_free(job);
	json_decref(o);
}

/* A profile is written once, and read from then on: the same plan, without measuring. */
static void a_profile_is_saved_and_read(void **state)
{
	const struct tw_stages_request r = { .nodes = "2", .profile = path_of("profile.json") };
	json_t *one = stage_plans(VGG "}\n", r), *two = stage_plans(VGG "}\n", r);
	json_t *profile = json_load_file(path_of("profile.json"), 0, NULL);
	const json_t *part;
	size_t k;

	(void)state;
	assert_true(json_equal(json_object_get(plan_of(one, 0), "lanes"),
			       json_object_get(plan_of(two, 0), "lanes")));
	assert_true(json_array_size(json_object_get(profile, "parts")) > 1);
	json_array_foreach(json_object_get(profile, "parts"), k, part)
	{
		const json_t *read = json_array_get(json_object_get(two, "parts"), k);

		assert_true(stage_number(part, "forward_seconds") > 0);
		NEAR_SHARE(stage_number(read, "forward_seconds"),
			   stage_number(part, "forward_seconds"), 1e-6, "a time of the profile");
	}
	stage_plans_near(two, 0.1, "a profile");
	json_decref(profile);
	json_decref(one);
	json_decref(two);
}

/* --- refusals ------------------------------------------------------------------------------- */

static const char other_batch[] =
	"{\"thalweg_profile\": 1, \"batch\": 5, \"parameters\": 19550, \"parts\": [{}, {}, {}]}";
static const char no_times[] =
	"{\"thalweg_profile\": 1, \"batch\": 4, \"parameters\": 19550, \"parts\": "
	"[{\"up_to_layer\": \"2\", \"forward_seconds\": -1}, {}, {}]}";

static void bad_questions_are_refused(void **state)
{
	static const struct {
		const char *job;
		struct tw_stages_request r;
		const char *file; /* text of "file", which --nodes or --profile names */
		bool profile;
		const char *says;
	} cases[] = {
		{ SMALL_NET "}\n", { 0 }, .says = "for how many machines? Use --nodes 4" },
		{ SMALL_NET "}\n", { .nodes = "0" }, .says = "needs a whole number from 1 to 256" },
		{ SMALL_NET "}\n", { .nodes = "257" }, .says = "needs a whole number from 1 to" },
		{ SMALL_NET "}\n", { .nodes = "-2" }, .says = "needs a whole number from 1 to" },
		{ SMALL_NET "}\n", { .nodes = "not-there.yaml" }, .says = "not-there.yaml" },
		{ SMALL_NET "}\n", { 0 }, "speed: 1\n", .says = "needs a list as in sim.nodes" },
		{ SMALL_NET "}\n", { 0 }, "[]\n", .says = "needs a list as in sim.nodes" },
		{ SMALL_NET "}\n", { 0 }, "[{speed: 0}]\n", .says = "sim.nodes[0].speed: needs" },
		{ SMALL_NET "}\n", { 0 }, "[{sped: 1}]\n", .says = "did you mean 'speed'?" },
		{ SMALL_NET "}\n", { 0 }, "[{count: 300}]\n", .says = "are too many to plan for" },
		{ SMALL_NET "}\n", { 0 }, "[{speed: 1\n", .says = "file:" },
		{ SMALL_NET ", faults: [{crash: worker 0, at: 1s}]}\n",
		  { .nodes = "2" },
		  .says = "sim.faults: plans know no faults" },
		{ SMALL_NET ", speeds: [1]}\n",
		  { .nodes = "2" },
		  .says = "sim.speeds: machines are listed in sim.nodes" },
		{ SMALL_NET ", stragglers: {count: 1, slower: 2}}\n",
		  { .nodes = "2" },
		  .says = "sim.stragglers: machines are listed" },
		{ SMALL_NET "}\n",
		  { .nodes = "2", .compute = "soon" },
		  .says = "--compute: needs" },
		{ SMALL_NET "}\n", { .nodes = "2", .latency = "1" }, .says = "--latency: needs" },
		{ SMALL_NET "}\n",
		  { .nodes = "2", .bandwidth = "x" },
		  .says = "--bandwidth: needs" },
		{ SMALL_NET "}\n", { .nodes = "2" }, "{", true, "is no profile: it is not JSON" },
		{ SMALL_NET "}\n", { .nodes = "2" }, "{}", true, "is no profile" },
		{ SMALL_NET "}\n", { .nodes = "2" }, other_batch, true, "measured with 5 samples" },
		{ SMALL_NET "}\n", { .nodes = "2" }, no_times, true, "numbers from 0 on" },
		{ SMALL_NET "}\n",
		  { .nodes = "2" },
		  "{\"thalweg_profile\": 1, \"batch\": 4, \"parameters\": 3, \"parts\": []}",
		  true,
		  "is the profile of another model" },
		{ "data: {source: none, samples: 64, batch: 4}\nmodel: {quadratic: {dimension: "
		  "20, stages: 2}}\nstrategy: pipedream\n",
		  { .nodes = "2" },
		  .says = "only a network has layers to cut between" },
		{ "data: {source: digits, count: 64}\nmodel: {layers: [linear 10]}\nstrategy: "
		  "asgd\n",
		  { .nodes = "2" },
		  .says = "the job has no pipeline to plan for" },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(cases); k++) {
		struct tw_stages_request r = cases[k].r;
		struct tw_error why = { 0 };
		json_t *out = NULL;

		if (cases[k].file) {
			put_text("file", cases[k].file);
			*(cases[k].profile ? &r.profile : &r.nodes) = path_of("file");
		}
		if (stage_plans_ask(cases[k].job, r, &out, &why) != TW_BAD_INPUT)
			fail_msg("%zu: not refused: %s", k, cases[k].says);
		has(why.text, cases[k].says);
		assert_true(is_sentence(why.text));
	}
}

/* The times of stages are those of the stages that the job has. */
static void times_of_stages_are_checked(void **state)
{
	static const struct {
		const char *stages, *says;
	} cases[] = {
		{ "[1, 2, 3]", "sim.compute.stages: has 3 numbers for 2 stages" },
		{ "[0, 0, 0, 0]", "with the sum 0 for 2 stages" },
		{ "[1, -2, 1, 2]", "sim.compute.stages" },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(cases); k++) {
		char text[900];
		struct tw_schedule_request r = { .read = "", .write = "", .compute = "" };
		struct tw_error why = { 0 };
		json_t *out = NULL;

		snprintf(text, sizeof text,
			 "data: {source: digits, count: 64, tests: 16, batch: 4}\n"
			 "model: {layers: [linear 24, relu, linear 20, relu, linear 10]}\n"
			 "cluster: {stages: 2}\nstrategy: pipedream\n"
			 "sim: {compute: {mean: 6ms, stages: %s}}\n",
			 cases[k].stages);
		put_text("job.yaml", text);
		r.path = path_of("job.yaml");
		assert_int_equal(tw_query_schedule(&r, &out, &why), TW_BAD_INPUT);
		has(why.text, cases[k].says);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(convolutions_are_replicated_and_dense_layers_are_not),
		cmocka_unit_test(unequal_machines_are_predicted),
		cmocka_unit_test(residuals_are_cut_between_blocks),
		cmocka_unit_test(short_memory_is_made_do_with),
		cmocka_unit_test(fields_make_the_plan),
		cmocka_unit_test(a_profile_is_saved_and_read),
		cmocka_unit_test(bad_questions_are_refused),
		cmocka_unit_test(times_of_stages_are_checked),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
