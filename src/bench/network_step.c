/* SPDX-License-Identifier: Apache-2.0 */
/* network_step.c - a training step of a net with all it needs in memory: no data set, no exchange.
 * */
#include "bench/network_step.h"

#include "bench/harness/timed_engine.h"
#include "metrics/progress.h"
#include "model/layer_list.h"
#include "model/model.h"
#include "vec/vec.h"

#include <math.h>

#define CLASSES 10
#define BYTES   256
#define RATE    0.001f

static enum tw_status of_the_zoo(struct tw_net_step *n, const struct tw_model_site *site,
				 struct tw_layer **layer, size_t *layers, struct tw_error *why)
{
	const struct tw_net_step_facts *f = n->facts;
	const struct tw_zoo *zoo = tw_zoo_find(f->zoo);
	enum tw_status status;
	void *options;

	if (!zoo)
		return tw_fail(why, TW_ABSENT, "the zoo has no %s", f->zoo);
	options = tw_arena_get(&n->arena, zoo->options_bytes + 1);
	if (!options)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %s", f->name);
	status = tw_option_defaults(zoo->options, options, &n->arena, why);
	if (status == TW_OK && f->hidden)
		status = tw_option_set(tw_option_find(zoo->options, "hidden"), options, f->hidden,
				       &n->arena, why);
	return status == TW_OK ? zoo->layers(options, site, &n->arena, layer, layers, why) : status;
}

static enum tw_status of_texts(struct tw_net_step *n, struct tw_layer **layer, size_t *layers,
			       struct tw_error *why)
{
	struct tw_layer_list list = { .keep = &n->arena };

	for (size_t k = 0; n->facts->layers[k]; k++)
		tw_layer_list_layer(&list, "%s", n->facts->layers[k]);
	return tw_layer_list_done(&list, layer, layers, why);
}

static enum tw_status build(struct tw_net_step *n, struct tw_error *why)
{
	const struct tw_net_step_facts *f = n->facts;
	const struct tw_model_site site = {
		.heap = &tw_heap_system,
		.in = f->in,
		.classes = f->tokens ? BYTES : CLASSES,
		.tokens = f->tokens,
		.init = TW_INIT_HE,
		.loss = "cross-entropy",
		.loss_place = "",
	};
	struct tw_layer *layer = NULL;
	size_t layers = 0;
	enum tw_status status = f->layers ? of_texts(n, &layer, &layers, why)
					  : of_the_zoo(n, &site, &layer, &layers, why);

	if (status == TW_OK)
		status = tw_model_build(&site, layer, layers, &n->graph, why);
	if (status == TW_OK)
		status = tw_program_new(n->graph, TW_PROGRAM_TRAIN, f->batch, 1, &n->program, why);
	return status;
}

static enum tw_status fill(struct tw_net_step *n, struct tw_error *why)
{
	const struct tw_graph *g = n->graph;
	const size_t all = g->trainable + g->buffers, batch = n->facts->batch;
	const size_t values = batch * tw_shape_size(&n->facts->in);
	const size_t labels = n->facts->tokens ? values : batch;
	const struct tw_rng rng = tw_rng_make(1, TW_RNG_TEST);

	n->memory = tw_heap_zeros(&tw_heap_system, tw_program_bytes(n->program));
	n->x = tw_heap_zeros(&tw_heap_system, values * sizeof(float));
	n->w = tw_heap_zeros(&tw_heap_system, all * sizeof(float));
	n->g = tw_heap_zeros(&tw_heap_system, all * sizeof(float));
	n->label = tw_arena_get(&n->arena, labels * sizeof *n->label);
	n->parameter = tw_arena_get(&n->arena, (g->tensors + 1) * sizeof *n->parameter);
	if (!n->memory || !n->x || !n->w || !n->g || !n->label || !n->parameter)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %s", n->facts->name);
	tw_rng_gauss_fill(&rng, 0, 0, n->x, values);
	for (size_t i = 0; n->facts->tokens && i < values; i++)
		n->x[i] = (float)(tw_rng_u64(&rng, 1, i) % BYTES);
	for (size_t i = 0; i < labels; i++)
		n->label[i] = (uint32_t)(i % CLASSES);
	tw_model_init(g, 1, 0, all, n->w);
	for (uint32_t t = 0; t < g->tensors; t++)
		n->parameter[t] = n->w + g->tensor[t].from;
	return TW_OK;
}

enum tw_status tw_net_step_open(struct tw_net_step *n, const struct tw_net_step_facts *facts,
				struct tw_error *why)
{
	enum tw_status status;

	*n = (struct tw_net_step){ .facts = facts };
	tw_arena_init(&n->arena, &tw_heap_system);
	status = build(n, why);
	return status == TW_OK ? fill(n, why) : status;
}

void tw_net_step_close(struct tw_net_step *n)
{
	tw_program_free(n->program);
	tw_graph_free(n->graph);
	tw_heap_system.put(&tw_heap_system, n->memory);
	tw_heap_system.put(&tw_heap_system, n->x);
	tw_heap_system.put(&tw_heap_system, n->w);
	tw_heap_system.put(&tw_heap_system, n->g);
	tw_arena_release(&n->arena);
	*n = (struct tw_net_step){ .facts = NULL };
}

static enum tw_status step(struct tw_net_step *n)
{
	const struct tw_graph *g = n->graph;
	double loss = 0, correct = 0;
	const struct tw_program_run run = {
		.x = n->x,
		.parameter = n->parameter,
		.gradient = n->g,
		.batch = { .label = n->label, .loss = &loss, .correct = &correct },
	};
	const enum tw_status status = tw_program_run(n->program, n->memory, &run);

	if (status != TW_OK)
		return status;
	tw_vec_sgd(n->w, n->w, n->g, RATE, g->trainable, false);
	if (g->buffers)
		tw_vec_add(n->w + g->trainable, n->g + g->trainable, g->buffers);
	n->loss = loss / n->facts->batch;
	return TW_OK;
}

enum tw_status tw_net_steps(struct tw_net_step *n, unsigned steps, double *seconds,
			    struct tw_error *why)
{
	const int64_t began = tw_clock(), cpu = tw_timed_cpu();
	int64_t at = began;

	for (unsigned i = 0; i < steps; i++) {
		const enum tw_status status = step(n);
		const int64_t now = tw_clock();
		const double took = (double)(now - at) / (double)TW_SECOND;

		at = now;
		if (took > 0.0 && (n->best == 0.0 || took < n->best))
			n->best = took;

		if (status != TW_OK)
			return tw_fail(why, status, "a step of %s failed: %s", n->facts->name,
				       tw_status_name(status));
	}
	*seconds = (double)(tw_clock() - began) / (double)TW_SECOND / steps;
	n->wall += *seconds * steps;
	n->cpu += (double)(tw_timed_cpu() - cpu) / (double)TW_SECOND;
	if (!isfinite(n->loss))
		return tw_fail(why, TW_BAD_BYTES, "the loss of %s is not a number", n->facts->name);
	return TW_OK;
}
