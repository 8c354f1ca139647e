/* SPDX-License-Identifier: Apache-2.0 */
/* model_card_make.c - the card of a job that is trained, and the network of a card. */
#include "checkpoint/model_card.h"
#include "checkpoint/model_card_columns.h"

#include "engine/network.h"
#include "spec/field.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum tw_status no_memory(struct tw_error *why)
{
	return tw_fail(why, TW_NO_MEMORY, "no memory for the model card");
}

static const char *text(struct tw_card *c, const char *t)
{
	return tw_arena_text(&c->keep, t);
}

/* --- normalisation --- */

static bool same(const float *v, size_t columns, size_t run)
{
	for (size_t c = 0; c < columns; c++)
		for (size_t k = 1; k < run; k++)
			if (memcmp(&v[c * run + k], &v[c * run], sizeof *v) != 0)
				return false;
	return true;
}

/* The longest runs that say everything: all features, a channel's, or each by itself. */
static enum tw_status take_normalisation(struct tw_card *c, const struct tw_data *d)
{
	const size_t columns[] = { 1, d->rank == 3 ? d->shape[0] : 1, d->features };
	size_t k = 0;

	while (k < 2 && !(same(d->scale, columns[k], d->features / columns[k]) &&
			  same(d->shift, columns[k], d->features / columns[k])))
		k++;
	c->columns = columns[k];
	c->run = d->features / c->columns;
	c->scale = tw_arena_get(&c->keep, 2 * c->columns * sizeof(float));
	if (!c->scale)
		return TW_NO_MEMORY;
	c->shift = c->scale + c->columns;
	for (size_t i = 0; i < c->columns; i++) {
		c->scale[i] = d->scale[i * c->run];
		c->shift[i] = d->shift[i * c->run];
	}
	return TW_OK;
}

enum tw_status tw_card_expand(struct tw_card *c, struct tw_error *why)
{
	const size_t n = c->data.features;
	float *room;

	if (c->data.scale)
		return TW_OK;
	room = tw_arena_get(&c->keep, 2 * n * sizeof *room);
	if (!room)
		return no_memory(why);
	for (size_t k = 0; k < n; k++) {
		room[k] = c->scale[k / c->run];
		room[n + k] = c->shift[k / c->run];
	}
	c->data.scale = room;
	c->data.shift = room + n;
	return TW_OK;
}

/* --- names --- */

static enum tw_status copy_names(struct tw_card *c, const char *const *from, size_t n,
				 const char *const **out)
{
	const char **list;

	if (!from)
		return TW_OK;
	list = tw_arena_get(&c->keep, (n + 1) * sizeof *list);
	for (size_t k = 0; list && k < n; k++)
		if (!(list[k] = text(c, from[k])))
			return TW_NO_MEMORY;
	*out = list;
	return list ? TW_OK : TW_NO_MEMORY;
}

static enum tw_status take_data(struct tw_card *c, const struct tw_data *d)
{
	struct tw_data *to = &c->data;

	to->rank = d->rank;
	memcpy(to->shape, d->shape, sizeof to->shape);
	to->features = d->features;
	to->kind = d->kind;
	to->classes = d->classes;
	to->tokens = d->tokens;
	to->targets = d->targets;
	to->names.separator = d->names.separator;
	to->names.place = d->names.place;
	if (d->names.label && !(to->names.label = text(c, d->names.label)))
		return TW_NO_MEMORY;
	if (copy_names(c, d->names.column, d->features, &to->names.column) != TW_OK)
		return TW_NO_MEMORY;
	if (d->columns && tw_card_columns_copy(d->columns, &c->keep, &to->columns) != TW_OK)
		return TW_NO_MEMORY;
	return copy_names(c, d->names.answer, d->classes ? d->classes : d->targets,
			  &to->names.answer);
}

/* --- network --- */

/* A layer's text on one line, as a card has it. */
static const char *layer_text(struct tw_card *c, const char *from)
{
	char *to = tw_arena_text(&c->keep, from);

	for (char *t = to; t && *t; t++)
		if ((unsigned char)*t < 0x20 || *t == 0x7f)
			*t = ' ';
	return to;
}

static enum tw_status copy_layers(struct tw_card *c, const struct tw_layer *from, size_t n,
				  struct tw_layer **out)
{
	struct tw_layer *to = tw_arena_get(&c->keep, (n + 1) * sizeof *to);
	enum tw_status st = to ? TW_OK : TW_NO_MEMORY;

	*out = to;
	for (size_t k = 0; k < n && st == TW_OK; k++) {
		to[k].place = "";
		to[k].bodies = from[k].bodies;
		to[k].shortcuts = from[k].shortcuts;
		if (from[k].text) {
			st = (to[k].text = layer_text(c, from[k].text)) ? TW_OK : TW_NO_MEMORY;
			continue;
		}
		st = copy_layers(c, from[k].body, from[k].bodies, &to[k].body);
		if (st == TW_OK && from[k].shortcuts)
			st = copy_layers(c, from[k].shortcut, from[k].shortcuts, &to[k].shortcut);
	}
	return st;
}

/* The loss that the graph took, with every option. */
static enum tw_status take_loss(struct tw_card *c, const struct tw_graph *g)
{
	const struct tw_graph_node *end = &g->node[g->nodes - 1];
	const struct tw_option *row = end->op->options;
	char out[500];
	size_t at = (size_t)snprintf(out, sizeof out, "%s", end->op->name);

	for (; row && row->name && at < sizeof out; row++) {
		char value[100];

		tw_option_text(row, end->options, value, sizeof value);
		at += (size_t)snprintf(out + at, sizeof out - at, " %s %s", row->name, value);
	}
	return (c->loss = text(c, out)) ? TW_OK : TW_NO_MEMORY;
}

static enum tw_status take_network(struct tw_card *c, const struct tw_job *job,
				   const struct tw_engine *engine, struct tw_error *why)
{
	const struct tw_data *d = tw_network_data(engine);
	struct tw_layer *layer = NULL;
	struct tw_arena work;
	enum tw_status st;

	tw_arena_init(&work, &tw_heap_system);
	st = tw_job_network_layers(job, d, &work, &layer, &c->layers, why);
	if (st == TW_OK)
		st = copy_layers(c, layer, c->layers, &c->layer);
	tw_arena_release(&work);
	if (st == TW_OK)
		st = take_loss(c, tw_network_graph(engine));
	c->batch = tw_network_portion(engine);
	return st;
}

static enum tw_status take_origin(struct tw_card *c, const struct tw_job *job,
				  const struct tw_data *d)
{
	static const char *const names[] = {
		[TW_NORMALISE_NONE] = "none",
		[TW_NORMALISE_UNIT] = "unit",
		[TW_NORMALISE_STANDARD] = "standard",
	};
	const struct tw_data_options *o = &job->data.set;
	char print[TW_SHA_TEXT], split[24];

	tw_sha_text(&d->fingerprint, print);
	snprintf(split, sizeof split, "%" PRIu64, o->split);
	c->normalise = names[d->tokens ? TW_NORMALISE_NONE : o->normalise];
	c->source = text(c, job->data.from->name);
	c->fingerprint = text(c, print);
	c->split = text(c, split);
	c->drawn = job->data.from->splits && !tw_job_test_set(job);
	c->test = c->drawn ? o->test : 0;
	c->validation = o->validation;
	c->trained = d->train.count == TW_ENDLESS ? 0 : d->train.count; /* nobody knows */
	c->tests = d->test.count;
	c->validations = d->validation.count;
	return c->source && c->fingerprint && c->split ? TW_OK : TW_NO_MEMORY;
}

static enum tw_status fill(struct tw_card *c, const struct tw_job *job,
			   const struct tw_engine *engine, struct tw_error *why)
{
	const struct tw_data *d = tw_network_data(engine);
	enum tw_status st;

	c->program = "thalweg " TW_VERSION;
	if (!d) {
		c->task = job->model == TW_MODEL_EXTERNAL ? TW_CARD_EXTERNAL : TW_CARD_MADE_UP;
		return TW_OK;
	}
	c->task = job->data.predict == TW_PREDICT_INPUT ? TW_CARD_INPUT
		  : d->tokens                           ? TW_CARD_TOKENS
		  : d->classes                          ? TW_CARD_CLASSES
							: TW_CARD_VALUES;
	st = take_data(c, d);
	if (st == TW_OK)
		st = take_normalisation(c, d);
	if (st == TW_OK)
		st = take_origin(c, job, d);
	return st == TW_OK ? take_network(c, job, engine, why) : st;
}

enum tw_status tw_card_make(const struct tw_job *job, const struct tw_engine *engine,
			    struct tw_card **out, struct tw_error *why)
{
	struct tw_card *c = tw_heap_zeros(&tw_heap_system, sizeof *c);
	enum tw_status st;

	if (!c)
		return no_memory(why);
	tw_arena_init(&c->keep, &tw_heap_system);
	c->data.heap = &tw_heap_system;
	st = fill(c, job, engine, why);
	if (st != TW_OK) {
		tw_card_free(c);
		return st == TW_NO_MEMORY ? no_memory(why) : st;
	}
	*out = c;
	return TW_OK;
}

void tw_card_free(struct tw_card *c)
{
	struct tw_heap *heap;

	if (!c)
		return;
	heap = c->keep.heap;
	tw_arena_release(&c->keep);
	heap->put(heap, c);
}

/* --- the network of a card --- */

enum tw_status tw_card_computes(const struct tw_card *c, const char *path, struct tw_error *why)
{
	if (c->task == TW_CARD_MADE_UP)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.300s is of a generated problem, which predicts nothing; use "
			       "a network",
			       path);
	if (c->task == TW_CARD_EXTERNAL)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.300s was trained by a program with a model of its own "
			       "(thalweg.h); only that program can compute with it",
			       path);
	return TW_OK;
}

enum tw_status tw_card_graph(const struct tw_card *c, struct tw_heap *heap, struct tw_graph **out,
			     struct tw_error *why)
{
	const bool own = c->task == TW_CARD_INPUT;
	struct tw_model_site site = {
		.heap = heap,
		.in = { .rank = c->data.rank },
		.classes = own ? 0 : c->data.classes,
		.targets = own ? (uint32_t)c->data.features : c->data.targets,
		.tokens = c->data.tokens,
		.loss = c->loss,
		.loss_place = "",
	};
	struct tw_error said = { 0 };
	enum tw_status st;

	memcpy(site.in.d, c->data.shape, sizeof site.in.d);
	st = tw_model_build(&site, c->layer, c->layers, out, &said);
	if (st == TW_OK || st == TW_NO_MEMORY)
		return st == TW_OK ? TW_OK : tw_fail(why, st, "%s", said.text);
	return tw_fail(why, TW_BAD_BYTES, "its card does not describe a valid network: %s",
		       said.text);
}

enum tw_status tw_card_stand_alone(struct tw_card *c, const float **scale, const float **shift,
				   size_t *n, struct tw_error *why)
{
	const struct tw_data *d = &c->data;
	const bool channels = d->rank == 3 && c->run % ((size_t)d->shape[1] * d->shape[2]) == 0;
	const size_t count = channels ? d->shape[0] : d->features, run = d->features / count;
	struct tw_layer *layer = tw_arena_get(&c->keep, (c->layers + 1) * sizeof *layer);
	float *room = tw_arena_get(&c->keep, (2 * count + 2) * sizeof *room);

	if (!layer || !room)
		return no_memory(why);
	for (size_t k = 0; k < count; k++) {
		room[k] = c->scale[k * run / c->run];
		room[count + k] = c->shift[k * run / c->run];
	}
	*scale = room;
	*shift = room + count;
	*n = count;
	layer[0] =
		(struct tw_layer){ .text = d->rank == 3 && !channels ? "affine by value" : "affine",
				   .place = "" };
	memcpy(layer + 1, c->layer, c->layers * sizeof *layer);
	c->layer = layer;
	c->layers++;
	c->standalone = true;
	c->normalise = "none";
	c->columns = 1;
	c->run = d->features;
	c->scale = room + 2 * count;
	c->shift = c->scale + 1;
	*c->scale = 1;
	return TW_OK;
}

enum tw_card_reading tw_card_reading(const struct tw_graph *g)
{
	const uint32_t traits = g->node[g->nodes - 1].op->traits;

	return traits & TW_OP_SOFTMAX   ? TW_READ_SOFTMAX
	       : traits & TW_OP_SIGMOID ? TW_READ_SIGMOID
					: TW_READ_VALUES;
}
