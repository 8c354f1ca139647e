/* SPDX-License-Identifier: Apache-2.0 */
/* nets.c - see nets.h. */
#include "graph/nets.h"
#include "base/arena.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum tw_status net_try(struct tw_graph *g, const char *text, uint32_t a, uint32_t b, uint32_t *id,
		       struct tw_error *why)
{
	const uint32_t in[] = { a, b };
	_Alignas(64) char options[512];
	const size_t n = strcspn(text, " ");
	const struct tw_op *op;
	char name[64], number[16];
	enum tw_status st;

	assert_true(n < sizeof name);
	memcpy(name, text, n);
	name[n] = '\0';
	op = tw_op_find(name);
	assert_non_null(op);
	assert_true(op->options_bytes <= sizeof options);
	st = tw_op_parse(op, text + n, options, g->keep, why);
	snprintf(number, sizeof number, "%u", g->nodes - 1);
	return st == TW_OK ? tw_graph_add(g, op, options, in, number, 0, id, why) : st;
}

uint32_t net_layer(struct tw_graph *g, const char *text, uint32_t a, uint32_t b)
{
	struct tw_error why = { 0 };
	uint32_t id = 0;

	if (net_try(g, text, a, b, &id, &why) != TW_OK)
		fail_msg("%s: %s", text, why.text);
	return id;
}

struct tw_graph *net_line(struct tw_heap *heap, const struct tw_shape *in, const char *text)
{
	struct tw_graph *g = tw_graph_new(heap, in);
	char copy[1000], *rest = copy, *layer;
	uint32_t last = 0;

	assert_non_null(g);
	assert_true(strlen(text) < sizeof copy);
	strcpy(copy, text);
	while ((layer = strsep(&rest, ";"))) {
		layer += strspn(layer, " ");
		last = net_layer(g, layer, last, 0);
	}
	assert_int_equal(tw_graph_finish(g, NULL), TW_OK);
	return g;
}

static const char *const activations[] = { "relu",       "tanh",      "sigmoid", "gelu",
					   "leaky-relu", "scale 0.5", "softmax", "dropout 0.3" };

static uint32_t draw(const struct tw_rng *r, uint32_t *at, uint32_t below)
{
	return (uint32_t)(tw_rng_u64(r, 1, (*at)++) % below);
}

/* A node of the same width among the last few. */
static uint32_t partner(const struct tw_graph *g, const struct tw_rng *r, uint32_t *at, uint32_t of)
{
	for (uint32_t tries = 0; tries < 8; tries++) {
		const uint32_t n = draw(r, at, g->nodes);

		if (tw_shape_same(&g->node[n].shape, &g->node[of].shape))
			return n;
	}
	return of; /* x + x */
}

struct tw_graph *net_random(struct tw_heap *heap, uint64_t seed)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_TEST);
	uint32_t at = 0;
	const struct tw_shape in = { .rank = 1, .d = { 3 + draw(&r, &at, 6) } };
	struct tw_graph *g = tw_graph_new(heap, &in);
	const uint32_t layers = 2 + draw(&r, &at, 12);
	uint32_t last = 0;

	assert_non_null(g);
	for (uint32_t k = 0; k < layers; k++) {
		const uint32_t kind = draw(&r, &at, 8);
		char text[40];

		snprintf(text, sizeof text, "linear %u",
			 draw(&r, &at, 2) ? 6 : 3 + draw(&r, &at, 5));
		if (kind < 3)
			last = net_layer(g, text, last, 0);
		else if (kind < 5)
			last = net_layer(g, "add", last, partner(g, &r, &at, last));
		else if (kind < 7)
			last = net_layer(g, activations[draw(&r, &at, 8)], last, 0);
		else /* a side branch: what is next goes on from further back */
			last = draw(&r, &at, g->nodes);
	}
	last = net_layer(g, "linear 4", last, 0);
	net_layer(g, draw(&r, &at, 2) ? "cross-entropy smoothing 0.1" : "mean-squared", last, 0);
	assert_int_equal(tw_graph_finish(g, NULL), TW_OK);
	return g;
}

/* Mostly with 16 channels, so that layouts differ and partners are found. */
static const char *const image_layers[] = {
	"conv 16 3x3 pad 1",
	"conv 16 3x3 pad 1",
	"conv 32 1x1",
	"conv 5 3x3 pad 1",
	"conv 16 1x1",
	"batchnorm",
	"relu",
	"tanh",
	"relu",
	"avgpool 2 stride 1 pad 1",
	"gelu",
	"dropout 0.2",
};

struct tw_graph *net_random_image(struct tw_heap *heap, uint64_t seed)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_TEST);
	uint32_t at = 0;
	const struct tw_shape in = { .rank = 3, .d = { draw(&r, &at, 2) ? 16 : 3, 6, 5 } };
	struct tw_graph *g = tw_graph_new(heap, &in);
	const uint32_t layers = 3 + draw(&r, &at, 9);
	uint32_t last = 0;

	assert_non_null(g);
	for (uint32_t k = 0; k < layers; k++) {
		if (draw(&r, &at, 3) == 0)
			last = net_layer(g, "add", last, partner(g, &r, &at, last));
		else
			last = net_layer(g, image_layers[draw(&r, &at, 12)], last, 0);
	}
	last = net_layer(g, draw(&r, &at, 2) ? "maxpool 2" : "avgpool 2", last, 0);
	last = net_layer(g, "flatten", last, 0);
	last = net_layer(g, "linear 4", last, 0);
	net_layer(g, "cross-entropy", last, 0);
	assert_int_equal(tw_graph_finish(g, NULL), TW_OK);
	return g;
}

static float *floats(const struct tw_rng *r, uint64_t stream, size_t n, float scale)
{
	float *out = tw_heap_system.get(&tw_heap_system, (n ? n : 1) * sizeof *out);

	assert_non_null(out);
	for (size_t i = 0; i < n; i++)
		out[i] = scale * (2 * (float)tw_rng_uniform(r, stream, i) - 1);
	return out;
}

void net_run_init(struct net_run *r, const struct tw_graph *g, enum tw_program_kind kind,
		  uint32_t batch, uint64_t seed)
{
	const struct tw_rng rng = tw_rng_make(seed, TW_RNG_TEST);
	const struct tw_graph_node *loss = &g->node[g->nodes - 1];
	const struct tw_shape *out = &g->node[loss->in[0]].shape;
	const size_t n = g->trainable + g->buffers, size = tw_shape_size(out);
	const uint32_t labels = batch * tw_shape_positions(out);
	struct tw_error why = { 0 };

	*r = (struct net_run){ .graph = g };
	if (tw_program_new(g, kind, batch, seed, &r->program, &why) != TW_OK)
		fail_msg("%s", why.text);
	r->arena_bytes = tw_program_bytes(r->program);
	r->arena = tw_heap_system.get(&tw_heap_system, r->arena_bytes + TW_ALIGN);
	assert_non_null(r->arena);
	memset(r->arena, 0xff, r->arena_bytes); /* NaNs: nothing is read before it is written */
	r->x = floats(&rng, 2, batch * tw_shape_size(&g->node[0].shape), 1);
	r->vector = floats(&rng, 3, n, 0.7f);
	r->gradient = floats(&rng, 4, n, 1);
	r->prediction = floats(&rng, 5, batch * size, 1);
	r->target = floats(&rng, 6, batch * size, 1);
	for (size_t i = 0; i < batch * size; i++)
		r->target[i] = 0.5f * (r->target[i] + 1);
	r->label = calloc(labels, sizeof *r->label);
	r->parameter = calloc(g->tensors + 1, sizeof *r->parameter);
	assert_true(r->label && r->parameter);
	for (uint32_t b = 0; b < labels; b++)
		r->label[b] = (uint32_t)(tw_rng_u64(&rng, 7, b) % tw_shape_width(out));
	if (g->node[1].op->traits & TW_OP_READS_NUMBERS)
		for (size_t i = 0; i < batch * tw_shape_size(&g->node[0].shape); i++)
			r->x[i] = (float)(tw_rng_u64(&rng, 8, i) %
					  g->tensor[g->node[1].tensor[0]].form.d[0]);
	for (uint32_t t = 0; t < g->tensors; t++)
		r->parameter[t] = r->vector + g->tensor[t].from;
	r->run = (struct tw_program_run){ .x = r->x, .parameter = r->parameter };
	r->run.gradient = kind == TW_PROGRAM_TRAIN ? r->gradient : NULL;
	r->run.prediction = r->prediction;
	r->run.batch = (struct tw_op_batch){ .position = 5, .label = r->label };
	r->run.batch.target = r->target;
	r->run.batch.loss = &r->loss;
	r->run.batch.correct = &r->correct;
}

void net_run_release(struct net_run *r)
{
	struct tw_heap *heap = &tw_heap_system;

	tw_program_free(r->program);
	heap->put(heap, r->arena);
	heap->put(heap, r->x);
	heap->put(heap, r->vector);
	heap->put(heap, r->gradient);
	heap->put(heap, r->prediction);
	heap->put(heap, r->target);
	free(r->label);
	free(r->parameter);
}

void net_run_go(struct net_run *r)
{
	assert_int_equal(tw_program_run(r->program, r->arena, &r->run), TW_OK);
}
