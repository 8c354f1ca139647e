/* SPDX-License-Identifier: Apache-2.0 */
/* test_freeze.c - model.freeze in every strategy: what is frozen keeps its bits and costs no bytes,
 * the rest is trained as an independent loop trains it, and checkpoints have all of it. */
#include "checkpoint/snapshot.h"
#include "engine/network.h"
#include "job/reading.h"
#include "kit/scratch.h"
#include "model/model.h"
#include "run/open_engine.h"
#include "run/run.h"
#include "vec/vec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RATE  0.05f
#define STEPS 20u
#define BATCH 10u

/* A job that was run, and the vector of its model. */
struct trained {
	json_t *result;
	float *model, *first; /* as trained, as drawn: what is not frozen first */
	size_t n;
	struct tw_graph_tensor tensor[40];
	uint32_t tensors;
};

static struct tw_job *text_job(const char *text, enum tw_world_kind world, struct tw_error *why)
{
	struct tw_job *job = NULL;
	char file[300];

	snprintf(file, sizeof file, "%s", path_of("job.yaml"));
	tw_job_read_text(file, text, strlen(text), NULL, 0, NULL, world, &job, why);
	return job;
}

static enum tw_status try_run(struct trained *t, enum tw_world_kind world, const char *dir,
			      uint64_t checkpoints, struct tw_error *why, const char *text)
{
	struct tw_run_request request = { .dir = dir, .checkpoints = checkpoints };
	struct tw_job *job = text_job(text, world, why);
	enum tw_status st = job ? TW_OK : why->status;

	*t = (struct trained){ .n = 0 };
	if (st == TW_OK)
		st = tw_job_open_engine(job, &tw_heap_system, &request.engine, why);
	if (st == TW_OK) {
		const struct tw_graph *g = tw_network_graph(request.engine);

		t->n = tw_engine_floats(request.engine);
		t->model = calloc(t->n, sizeof *t->model);
		t->first = calloc(t->n, sizeof *t->first);
		assert_true(t->model && t->first && g->tensors <= 40);
		request.engine->class->init(request.engine, 0, t->n, t->first);
		memcpy(t->tensor, g->tensor, g->tensors * sizeof *t->tensor);
		t->tensors = g->tensors;
		request.vector = checkpoints ? NULL : t->model;
		st = tw_run(&request, job, &t->result, why);
		request.engine->class->close(request.engine);
	}
	tw_job_free(job);
	return st;
}

static void forget(struct trained *t)
{
	json_decref(t->result);
	free(t->model);
	free(t->first);
}

static const char *digest(const struct trained *t)
{
	return json_string_value(json_object_get(t->result, "parameters_digest"));
}

static long long figure(const struct trained *t, const char *name)
{
	return json_integer_value(json_object_get(t->result, name));
}

/* Frozen tensors have their first bits, and all others other ones. */
static void only_the_rest_moved(const struct trained *t, const char *what)
{
	const float *at = t->model;

	for (uint32_t k = 0; k < t->tensors; at += t->tensor[k++].n) {
		const bool same =
			memcmp(at, t->first + t->tensor[k].from, t->tensor[k].n * sizeof *at) == 0;

		if (same != t->tensor[k].frozen)
			fail_msg("%s: %s %s", what, t->tensor[k].name,
				 same ? "has not moved" : "has moved");
	}
}

/* --- every strategy --- */

/* A front of this width that is frozen, and what is trained behind it. */
static void run_preset(struct trained *t, const struct tw_preset *p, int width)
{
	const bool stages = has_stages(p);
	struct tw_error why = { 0 };
	char text[900];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: 120, tests: 20, batch: 5}\n"
		 "model: {layers: [linear %d, tanh, layernorm, linear 6, tanh, linear 7, tanh, "
		 "%s, linear 10]%s, freeze: [0-3]}\n"
		 "train: {epochs: 2, seed: 3, evaluate: 0}\n"
		 "%scluster: {workers: %d, servers: %d%s}\n"
		 "strategy: %s\n",
		 width, has_optimiser(p) ? "layernorm" : "batchnorm", stages ? ", stages: [6]" : "",
		 has_optimiser(p) ? "" : "update: {rate: 0.02}\n", stages ? 1 : 3,
		 has_servers(p) ? 2 : 0, stages ? "" : ", shards: 2", short_strategy(p));
	if (try_run(t, TW_WORLD_SIM, NULL, 0, &why, text) != TW_OK)
		fail_msg("%s: %s", p->name, why.text);
	only_the_rest_moved(t, p->name);
}

/* The vector is 7 * 6 + 7 + ... numbers whatever is frozen in front of it. */
static void frozen_layers_cost_no_bytes(void **state)
{
	size_t tried = 0, same = 0;

	for (size_t k = 0; tw_presets[k].name; k++) {
		const struct tw_preset *p = &tw_presets[k];
		struct trained narrow, wide;

		if (strstr(p->name, "hogwild")) /* only in threads */
			continue;
		run_preset(&narrow, p, 3);
		run_preset(&wide, p, 200);
		assert_int_equal(figure(&narrow, "parameters"), 6 * 7 + 7 + 14 + 7 * 10 + 10);
		tried++;
		if (figure(&narrow, "bytes_sent") == figure(&wide, "bytes_sent") &&
		    figure(&narrow, "bytes_received") == figure(&wide, "bytes_received"))
			same++;
		/* may depend on values, or on a search: never on 157,000 more of them */
		else if (figure(&wide, "bytes_sent") > 3 * figure(&narrow, "bytes_sent"))
			fail_msg("%s: %lld bytes, and %lld with a wide front", p->name,
				 figure(&narrow, "bytes_sent"), figure(&wide, "bytes_sent"));
		forget(&narrow);
		forget(&wide);
	}
	assert_true(tried > 35);
	if (same + 6 < tried)
		fail_msg("only %zu of %zu send the same bytes", same, tried);
}

/* --- against a loop --- */

static void whole_gradient(const struct tw_engine *e, const float *w, uint64_t from, float *g)
{
	const struct tw_piece piece = { w, 0, tw_engine_moving(e) };
	const struct tw_inputs in = { .from = from, .count = BATCH, .piece = &piece, .pieces = 1 };
	void *scratch = tw_heap_system.get(&tw_heap_system, e->scratch_bytes);
	struct tw_score score;

	assert_non_null(scratch);
	assert_int_equal(e->class->gradient(e, scratch, &in, g, &score), TW_OK);
	tw_heap_system.put(&tw_heap_system, scratch);
}

#define LOOP                                                                                       \
	"data: {source: digits, count: 100, tests: 20, batch: 10}\n"                               \
	"model: {layers: [conv 3 5x5, batchnorm, relu, maxpool 2, {residual: [conv 3 3x3 pad 1, "  \
	"relu]}, linear 12, layernorm, tanh, linear 10], freeze: %s}\n"                            \
	"train: {epochs: 2, seed: 5}\nupdate: {rate: 0.05}\ncluster: {workers: 1, shards: 3}\n"    \
	"strategy: ssgd\n"

/* Plain SGD on the network without anything frozen, which leaves out these tensors. */
static void a_loop_gives_the_same(const char *freeze)
{
	struct tw_error why = { 0 };
	struct tw_engine *e = NULL;
	struct tw_job *job;
	struct trained t;
	char text[900];
	float *w, *g;
	size_t at = 0;

	snprintf(text, sizeof text, LOOP, "[]");
	job = text_job(text, TW_WORLD_SIM, &why);
	assert_non_null(job);
	assert_int_equal(tw_job_open_engine(job, &tw_heap_system, &e, &why), TW_OK);
	snprintf(text, sizeof text, LOOP, freeze);
	if (try_run(&t, TW_WORLD_SIM, NULL, 0, &why, text) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(t.n, tw_engine_moving(e));
	w = calloc(t.n, sizeof *w);
	g = calloc(t.n, sizeof *g);
	assert_true(w && g);
	e->class->init(e, 0, t.n, w);
	for (uint32_t step = 0; step < STEPS; step++) {
		whole_gradient(e, w, (uint64_t)step * BATCH, g);
		at = 0;
		for (uint32_t k = 0; k < t.tensors; at += t.tensor[k++].n)
			for (size_t i = at; i < at + t.tensor[k].n && !t.tensor[k].frozen; i++)
				w[i] = t.tensor[k].form.buffer ? w[i] + g[i]
							       : fmaf(-RATE, g[i], w[i]);
	}
	for (size_t i = 0; i < t.n; i++)
		if (memcmp(&w[i], &t.model[i], sizeof *w) != 0)
			fail_msg("freeze: %s: element %zu is %.9g, not %.9g", freeze, i,
				 (double)t.model[i], (double)w[i]);
	free(w);
	free(g);
	forget(&t);
	e->class->close(e);
	tw_job_free(job);
}

static void the_rest_is_trained_as_by_a_loop(void **state)
{
	static const char *const lists[] = { "[]",  "[0]",   "[1]",       "[0, 1]",
					     "[4]", "[0-5]", "[5, 6, 8]", "[0, 4.body.0, 6]",
					     "8" };

	for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++)
		a_loop_gives_the_same(lists[k]);
}

/* --- checkpoints --- */

#define KEPT                                                                                       \
	"data: {source: digits, count: 100, tests: 20, batch: 10}\n"                               \
	"model: {layers: [linear 20, batchnorm, tanh, linear 15, tanh, linear 10], freeze: [0, "   \
	"3], weights: first.safetensors, partial: true}\n"                                         \
	"train: {epochs: 4, seed: 5}\nupdate: {rule: momentum, rate: 0.05}\n"                      \
	"cluster: {workers: 2, shards: 2}\nstrategy: ssgd\ncheckpoint: {every: 100ms%s}\n"         \
	"sim: {compute: {law: constant, mean: 100ms}}\n"

static void put_weights(float scale)
{
	float value[20] = { 0 };
	const struct tw_safe_tensor t = { .name = "0.bias",
					  .type = TW_SAFE_F32,
					  .rank = 1,
					  .d = { 20 },
					  .count = 20,
					  .data = (const uint8_t *)value,
					  .bytes = sizeof value };
	struct tw_block *bytes = NULL;

	for (int i = 0; i < 20; i++)
		value[i] = scale * (float)i;
	assert_int_equal(tw_safe_write(&tw_heap_system, &t, 1, NULL, &bytes), TW_OK);
	put("first.safetensors", bytes->data, bytes->bytes);
	tw_block_drop(bytes);
}

/* The model as its newest checkpoint has it. */
static void is_in_checkpoint(const char *dir, const struct trained *t)
{
	struct tw_error why = { 0 };
	struct tw_snapshot *s = NULL;
	float *all = calloc(t->n, sizeof *all);

	assert_non_null(all);
	if (tw_snapshot_open(dir, NULL, &s, &why) != TW_OK)
		fail_msg("%s", why.text);
	assert_int_equal(s->count, t->n);
	assert_int_equal(tw_snapshot_floats(s, 0, t->n, all, &why), TW_OK);
	assert_memory_equal(all, t->model, t->n * sizeof *all);
	for (size_t from = 0; from < t->n; from += 97) { /* and in pieces */
		const size_t n = t->n - from < 131 ? t->n - from : 131;

		assert_int_equal(tw_snapshot_floats(s, from, n, all, &why), TW_OK);
		assert_memory_equal(all, t->model + from, n * sizeof *all);
	}
	tw_snapshot_close(s);
	free(all);
}

static void checkpoints_have_all_of_it(void **state)
{
	static const char *const memory[] = { "", ", memory: 1KiB" };
	char text[900], whole[300], parts[300];
	struct tw_error why = { 0 };
	struct trained once, part;

	put_weights(0.01f);
	for (size_t k = 0; k < 2; k++) {
		snprintf(text, sizeof text, KEPT, memory[k]);
		snprintf(whole, sizeof whole, "%s-%zu", path_of("whole"), k);
		snprintf(parts, sizeof parts, "%s-%zu", path_of("parts"), k);
		if (try_run(&once, TW_WORLD_SIM, whole, 0, &why, text) != TW_OK)
			fail_msg("%s", why.text);
		only_the_rest_moved(&once, "kept");
		is_in_checkpoint(whole, &once);
		assert_int_equal(try_run(&part, TW_WORLD_SIM, parts, 2, &why, text),
				 TW_INTERRUPTED);
		forget(&part);
		if (try_run(&part, TW_WORLD_SIM, parts, 0, &why, text) != TW_OK)
			fail_msg("%s", why.text);
		assert_string_equal(digest(&part), digest(&once));
		forget(&part);
		forget(&once);
	}
}

/* Whoever changed the file in between does not go on with half of each. */
static void other_frozen_values_are_refused(void **state)
{
	struct tw_error why = { 0 };
	struct trained t;
	char text[900], dir[300];

	put_weights(0.01f);
	snprintf(text, sizeof text, KEPT, "");
	snprintf(dir, sizeof dir, "%s", path_of("changed"));
	assert_int_equal(try_run(&t, TW_WORLD_SIM, dir, 2, &why, text), TW_INTERRUPTED);
	forget(&t);
	put_weights(0.02f);
	why = (struct tw_error){ .status = TW_OK };
	assert_int_equal(try_run(&t, TW_WORLD_SIM, dir, 0, &why, text), TW_BAD_INPUT);
	if (!strstr(why.text, "its frozen values are not those that the job has now"))
		fail_msg("%s", why.text);
	forget(&t);
	put_weights(0.01f);
	why = (struct tw_error){ .status = TW_OK };
	if (try_run(&t, TW_WORLD_SIM, dir, 0, &why, text) != TW_OK)
		fail_msg("%s", why.text);
	forget(&t);
}

/* --- the digest --- */

/* Of a vector that the master never has at once, the same. */
static void a_large_vector_has_the_same_digest(void **state)
{
	static const char *const memory[] = { "", "checkpoint: {memory: 1KiB}\n" };
	struct tw_error why = { 0 };
	char first[TW_DIGEST_TEXT] = "", text[900];
	struct trained t;

	for (size_t k = 0; k < 2; k++) {
		struct tw_job *job;
		struct tw_run_request request = { .dir = NULL };
		json_t *result = NULL;

		snprintf(text, sizeof text, LOOP "%s", "[0, 5]", memory[k]);
		job = text_job(text, TW_WORLD_SIM, &why);
		if (!job || tw_run(&request, job, &result, &why) != TW_OK)
			fail_msg("%s", why.text);
		t = (struct trained){ .result = result };
		if (k)
			assert_string_equal(digest(&t), first);
		snprintf(first, sizeof first, "%s", digest(&t));
		forget(&t);
		tw_job_free(job);
	}
}

/* --- refusals --- */

static void mistakes_are_refused(void **state)
{
	static const char *const rows[][2] = {
		{ "[9]", "there is no layer '9'; the nearest with parameters is 8" },
		{ "[conv]",
		  "there is no layer 'conv'; the nearest with parameters is 8, and all of "
		  "them are 0, 1, 4.body.0, 5, 6, 8" },
		{ "[2]", "layer 2 (relu) has no parameters; the nearest layer that has some is 1" },
		{ "[5.weight]", "5.weight is a tensor, and layers are named here: write 5" },
		{ "[0-8]", "freezes every layer that has parameters" },
		{ "[9-12]", "there is no layer '9-12'" },
		{ "[-1]", "there is no layer '-1'" },
		{ "[4.body.1]", "layer 4.body.1 (relu) has no parameters" },
	};
	char text[900];
	struct trained t;

	for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
		struct tw_error why = { 0 };

		snprintf(text, sizeof text, LOOP, rows[k][0]);
		assert_int_equal(try_run(&t, TW_WORLD_SIM, NULL, 0, &why, text), TW_BAD_INPUT);
		if (!strstr(why.text, "model.freeze: ") || !strstr(why.text, rows[k][1]))
			fail_msg("'%s' lacks '%s'", why.text, rows[k][1]);
		forget(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frozen_layers_cost_no_bytes),
		cmocka_unit_test(the_rest_is_trained_as_by_a_loop),
		cmocka_unit_test(checkpoints_have_all_of_it),
		cmocka_unit_test(other_frozen_values_are_refused),
		cmocka_unit_test(a_large_vector_has_the_same_digest),
		cmocka_unit_test(mistakes_are_refused),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
