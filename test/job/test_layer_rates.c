/* SPDX-License-Identifier: Apache-2.0 */
/* test_layer_rates.c - update.layers in every strategy: a factor on all layers is another rate, a
 * factor of 0 is a frozen layer, and different ones are what an independent loop does. */
#include "engine/network.h"
#include "job/reading.h"
#include "run/open_engine.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RATE  0.04f
#define STEPS 20u
#define BATCH 10u

/* Runs the text; *vector (may be NULL) gets the model, for free(). */
static enum tw_status try_run(const char *text, char digest[80], float **vector,
			      struct tw_error *why)
{
	struct tw_run_request request = { .dir = NULL };
	struct tw_job *job = NULL;
	json_t *result = NULL;
	enum tw_status st = tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL,
					     TW_WORLD_SIM, &job, why);

	if (st == TW_OK)
		st = tw_job_open_engine(job, &tw_heap_system, &request.engine, why);
	if (st == TW_OK && vector) {
		*vector = calloc(tw_engine_floats(request.engine), sizeof **vector);
		request.vector = *vector;
	}
	if (st == TW_OK)
		st = tw_run(&request, job, &result, why);
	if (st == TW_OK)
		snprintf(digest, 80, "%s",
			 json_string_value(json_object_get(result, "parameters_digest")));
	if (request.engine)
		request.engine->class->close(request.engine);
	json_decref(result);
	tw_job_free(job);
	return st;
}

static void run_preset(const struct tw_preset *p, const char *update, const char *freeze,
		       int shards, char digest[80])
{
	const bool stages = has_stages(p);
	struct tw_error why = { 0 };
	char text[900];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: 120, tests: 20, batch: 5}\n"
		 "model: {layers: [linear 8, tanh, linear 7, tanh, batchnorm, linear 10]%s%s}\n"
		 "train: {epochs: 2, seed: 3, evaluate: 0}\n"
		 "update: {%s}\ncluster: {workers: %d, servers: %d, shards: %d}\nstrategy: %s\n"
		 "sim: {latency: 0s, bandwidth: 1000Gbit/s}\n",
		 stages ? ", stages: [2]" : "", freeze, update, stages ? 1 : 3,
		 has_servers(p) ? 1 : 0, stages ? 0 : shards, short_strategy(p));
	if (try_run(text, digest, NULL, &why) != TW_OK)
		fail_msg("%s, update: {%s}: %s", p->name, update, why.text);
}

static bool takes_rates(const struct tw_preset *p)
{
	return !has_optimiser(p) && !strstr(p->name, "hogwild"); /* that one only in threads */
}

/* Halving is exact, so every bit must be the same. */
static void half_of_all_is_half_the_rate(void **state)
{
	size_t tried = 0;

	for (size_t k = 0; tw_presets[k].name; k++) {
		char layers[80], rate[80], whole[80], update[120];
		double decay;

		if (!takes_rates(&tw_presets[k]))
			continue;
		/* a decay would drive its replicas apart */
		decay = strcmp(tw_presets[k].name, "strom") == 0 ? 0 : 0.01;
		snprintf(update, sizeof update, "rate: 0.02, decay: %g, layers: [0-5=0.5]", decay);
		run_preset(&tw_presets[k], update, "", 2, layers);
		snprintf(update, sizeof update, "rate: 0.01, decay: %g", decay);
		run_preset(&tw_presets[k], update, "", 2, rate);
		snprintf(update, sizeof update, "rate: 0.02, decay: %g", decay);
		run_preset(&tw_presets[k], update, "", 2, whole);
		if (strcmp(layers, rate) != 0)
			fail_msg("%s: half of the rate of all layers is not half the rate",
				 tw_presets[k].name);
		assert_string_not_equal(layers, whole);
		tried++;
	}
	assert_true(tried > 35);
}

/* Where contributions to a layer with rate 0 leave it alone to the last bit, and come in the same
 * order however long they are. */
static void none_is_frozen(void **state)
{
	static const char *const exact[] = { "ssgd",      "asgd",    "ssp",  "rudra",    "gpipe",
					     "pipedream", "dc-ssgd", "dana", "nag-asgd", NULL };

	for (size_t k = 0; tw_presets[k].name; k++) {
		bool wanted = false;
		char none[80], frozen[80];

		for (size_t i = 0; exact[i]; i++)
			wanted |= strcmp(exact[i], tw_presets[k].name) == 0;
		if (!wanted)
			continue;
		run_preset(&tw_presets[k], "rate: 0.02, layers: [2=0]", "", 1, none);
		run_preset(&tw_presets[k], "rate: 0.02", ", freeze: [2]", 1, frozen);
		if (strcmp(none, frozen) != 0)
			fail_msg("%s: a rate of 0 is not a frozen layer", tw_presets[k].name);
	}
}

#define LOOP                                                                                       \
	"data: {source: digits, count: 100, tests: 20, batch: 10}\n"                               \
	"model: {layers: [conv 3 5x5, batchnorm, relu, maxpool 2, {residual: [conv 3 3x3 pad 1, "  \
	"relu]}, linear 12, layernorm, tanh, linear 10]%s}\n"                                      \
	"train: {epochs: 2, seed: 5}\nupdate: {rate: 0.04%s}\n"                                    \
	"cluster: {workers: 1, shards: 3}\nstrategy: %s\n"

static void gradient_at(const struct tw_engine *e, const float *w, uint64_t from, float *g)
{
	const struct tw_piece piece = { w, 0, tw_engine_moving(e) };
	const struct tw_inputs in = { .from = from, .count = BATCH, .piece = &piece, .pieces = 1 };
	void *scratch = tw_heap_system.get(&tw_heap_system, e->scratch_bytes);
	struct tw_score score;

	assert_non_null(scratch);
	assert_int_equal(e->class->gradient(e, scratch, &in, g, &score), TW_OK);
	tw_heap_system.put(&tw_heap_system, scratch);
}

/* [0-1=0.3, 4.body.0=2, 8=0.7] */
static float factor_of(const char *tensor)
{
	return *tensor == '0' || *tensor == '1' ? 0.3f
	       : *tensor == '4'                 ? 2
	       : *tensor == '8'                 ? 0.7f
						: 1;
}

static void a_loop_gives_the_same(const char *strategy)
{
	struct tw_error why = { 0 };
	struct tw_engine *e = NULL;
	struct tw_job *job = NULL;
	const struct tw_graph *graph;
	float *w, *g, *got = NULL;
	char text[900], digest[80];

	snprintf(text, sizeof text, LOOP, "", ", layers: [0-1=0.3, 4.body.0=2, 8=0.7]", strategy);
	if (try_run(text, digest, &got, &why) != TW_OK)
		fail_msg("%s", why.text);
	snprintf(text, sizeof text, LOOP, "", "", strategy);
	assert_int_equal(tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_OK);
	assert_int_equal(tw_job_open_engine(job, &tw_heap_system, &e, &why), TW_OK);
	graph = tw_network_graph(e);
	w = calloc(tw_engine_moving(e), sizeof *w);
	g = calloc(tw_engine_moving(e), sizeof *g);
	assert_true(w && g);
	e->class->init(e, 0, tw_engine_moving(e), w);
	for (uint32_t step = 0; step < STEPS; step++) {
		gradient_at(e, w, (uint64_t)step * BATCH, g);
		for (uint32_t t = 0; t < graph->tensors; t++) {
			const struct tw_graph_tensor *one = &graph->tensor[t];
			const float rate = RATE * factor_of(one->name);

			for (size_t i = one->from; i < one->from + one->n; i++)
				w[i] = one->form.buffer ? w[i] + g[i] : fmaf(-rate, g[i], w[i]);
		}
	}
	for (size_t i = 0; i < tw_engine_moving(e); i++)
		if (memcmp(&w[i], &got[i], sizeof *w) != 0)
			fail_msg("%s: element %zu is %.9g, not %.9g", strategy, i, (double)got[i],
				 (double)w[i]);
	free(w);
	free(g);
	free(got);
	e->class->close(e);
	tw_job_free(job);
}

static void every_layer_has_its_rate(void **state)
{
	a_loop_gives_the_same("ssgd");
	a_loop_gives_the_same("asgd");
	a_loop_gives_the_same("ring");
	a_loop_gives_the_same("{name: asgd, codec: {up: topk, up_share: 1}}");
}

static void mistakes_are_refused(void **state)
{
	static const struct {
		const char *model, *update, *why;
	} rows[] = {
		{ "", ", layers: [0]", "update.layers: '0': needs LAYERS=FACTOR, such as 0-7=0.1" },
		{ "", ", layers: [=2]", "update.layers: '=2': needs LAYERS=FACTOR" },
		{ "", ", layers: [0=x]", "update.layers: '0=x': x is no factor" },
		{ "", ", layers: [0=-1]", "-1 is no factor from 0 to 1000000" },
		{ "", ", layers: [0=nan]", "nan is no factor" },
		{ "", ", layers: [3=2]", "layer 3 (maxpool) has no parameters" },
		{ "", ", layers: [11=2]",
		  "there is no layer '11'; the nearest with parameters is 8" },
		{ "", ", layers: [0-5=2, 4=1]", "layer 4.body.0 is named twice" },
		{ ", freeze: [0]", ", layers: [0-1=2]", "layer 0 is frozen (model.freeze)" },
	};
	char text[900], digest[80];

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		struct tw_error why = { 0 };

		snprintf(text, sizeof text, LOOP, rows[k].model, rows[k].update, "ssgd");
		assert_int_equal(try_run(text, digest, NULL, &why), TW_BAD_INPUT);
		if (!strstr(why.text, rows[k].why))
			fail_msg("'%s' lacks '%s'", why.text, rows[k].why);
	}
}

static void only_networks_have_layers(void **state)
{
	static const char text[] = "data: {source: none, samples: 64, batch: 4}\n"
				   "model: {quadratic: {dimension: 20}}\nupdate: {layers: [0=2]}\n";
	struct tw_error why = { 0 };
	char digest[80];

	assert_int_equal(try_run(text, digest, NULL, &why), TW_BAD_INPUT);
	if (!strstr(why.text, "update.layers: names layers of a network"))
		fail_msg("%s", why.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_of_all_is_half_the_rate),
		cmocka_unit_test(none_is_frozen),
		cmocka_unit_test(every_layer_has_its_rate),
		cmocka_unit_test(mistakes_are_refused),
		cmocka_unit_test(only_networks_have_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
