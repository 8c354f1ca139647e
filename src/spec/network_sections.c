/* SPDX-License-Identifier: Apache-2.0 */
/* network_sections.c - what is trained on what: reads the sections data, model and loss. */
#include "spec/read.h"

#include "data/input.h"
#include "engine/network.h"
#include "engine/targets.h"
#include "graph/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- data ------------------------------------------------------------------------------------- */

enum tw_status tw_read_data(struct tw_reading *r)
{
	struct tw_job_data *d = &r->job->data;
	enum tw_status st = tw_read_rows(r, "data.", tw_data_rows, d);

	if (st == TW_OK)
		st = tw_read_variant(r, "data.source");
	if (st != TW_OK)
		return st;
	if (!d->from)
		return tw_read_rows(r, "data.", tw_made_up_rows, d);
	st = tw_read_rows(r, "data.", tw_data_common_rows, &d->set);
	return st == TW_OK ? tw_read_rows(r, "data.", tw_data_set_rows, d) : st;
}

/* --- model ------------------------------------------------------------------------------------ */

static enum tw_status read_list(struct tw_reading *r, const struct tw_tree *list, uint32_t depth,
				struct tw_layer **out, size_t *count);

static enum tw_status refuse_layer(struct tw_reading *r, const struct tw_tree *node,
				   const char *reason)
{
	return tw_read_refuse(r, node, "model.layers", reason);
}

/* {residual: [...], shortcut: [...]}. */
static enum tw_status read_residual(struct tw_reading *r, const struct tw_tree *node,
				    uint32_t depth, struct tw_layer *out)
{
	const struct tw_tree *body = tw_tree_child(node, "residual");
	const struct tw_tree *shortcut = tw_tree_child(node, "shortcut");
	enum tw_status st;

	for (const struct tw_tree *c = node->first; c; c = c->next)
		if (c != body && c != shortcut)
			return refuse_layer(r, c,
					    "a layer that is a mapping can have only residual: "
					    "[...] and shortcut: [...]; write the options of a "
					    "layer in its text, such as conv 20 5x5 pad 2");
	if (!body)
		return refuse_layer(r, node, "shortcut: needs residual: [...]; add that");
	if (depth >= TW_LAYERS_DEPTH)
		return refuse_layer(r, node, "residuals are nested too deeply; use at most 4");
	st = read_list(r, body, depth + 1, &out->body, &out->bodies);
	if (st == TW_OK && shortcut)
		st = read_list(r, shortcut, depth + 1, &out->shortcut, &out->shortcuts);
	return st;
}

static enum tw_status read_list(struct tw_reading *r, const struct tw_tree *list, uint32_t depth,
				struct tw_layer **out, size_t *count)
{
	struct tw_layer *layer;
	size_t k = 0;

	if (list->kind != TW_TREE_LIST || list->count == 0)
		return refuse_layer(r, list,
				    "needs a list of layers, such as [conv 20 5x5, relu, maxpool "
				    "2, linear 10]");
	if (list->count > TW_LAYERS_MAX)
		return refuse_layer(r, list, "has more than 1000 layers");
	layer = tw_arena_get(r->keep, list->count * sizeof *layer);
	if (!layer)
		return tw_read_no_memory(r);
	for (const struct tw_tree *c = list->first; c; c = c->next, k++) {
		enum tw_status st = TW_OK;

		layer[k].place = c->place;
		if (c->kind == TW_TREE_TEXT)
			layer[k].text = c->text;
		else if (c->kind == TW_TREE_MAP)
			st = read_residual(r, c, depth, &layer[k]);
		else
			st = refuse_layer(r, c,
					  "a list inside the list of layers; write "
					  "residual: [...], or leave the brackets out");
		if (st != TW_OK)
			return st;
	}
	*out = layer;
	*count = k;
	return TW_OK;
}

static const struct made_up {
	const char *name;
	enum tw_model_kind kind;
	const struct tw_option *rows;
} made_up[] = {
	{ "quadratic", TW_MODEL_QUADRATIC, tw_quadratic_rows },
	{ "least-squares", TW_MODEL_LEAST_SQUARES, tw_least_squares_rows },
	{ "function", TW_MODEL_FUNCTION, tw_function_rows },
	{ "external", TW_MODEL_EXTERNAL, tw_external_rows },
};
#define MADE_UP (sizeof made_up / sizeof made_up[0])

static const struct made_up *find_made_up(const char *name)
{
	for (size_t k = 0; k < MADE_UP; k++)
		if (strcmp(made_up[k].name, name) == 0)
			return &made_up[k];
	return NULL;
}

static enum tw_status read_made_up(struct tw_reading *r, const struct tw_tree *model,
				   const struct made_up *m)
{
	char prefix[TW_PATH_ROOM];

	for (const struct tw_tree *c = model->first; c; c = c->next)
		if (strcmp(c->key, m->name) != 0) {
			char text[200], shown[60];

			snprintf(text, sizeof text, "cannot be combined with '%s'; leave one out",
				 m->name);
			snprintf(shown, sizeof shown, "model.%.40s", c->key);
			return tw_read_refuse(r, c, shown, text);
		}
	r->job->model = m->kind;
	if (m->kind == TW_MODEL_EXTERNAL)
		r->job->engine.external = (struct tw_job_external){ .file = "", .data = "" };
	snprintf(prefix, sizeof prefix, "model.%s.", m->name);
	return tw_read_rows(r, prefix, m->rows, &r->job->engine);
}

/* A model that programs compute which join. */
static enum tw_status read_tensors(struct tw_reading *r, const struct tw_tree *model)
{
	if (tw_tree_child(model, "freeze"))
		return tw_read_refuse(r, tw_tree_child(model, "freeze"), "model.freeze",
				      "all tensors of the file are trained; leave out of it what "
				      "is not, and keep that in the programs that join");
	for (const struct tw_tree *c = model->first; c; c = c->next)
		if (strcmp(c->key, "name") == 0 || strcmp(c->key, "layers") == 0 ||
		    strcmp(c->key, "weights") == 0) {
			char shown[60];

			snprintf(shown, sizeof shown, "model.%.40s", c->key);
			return tw_read_refuse(r, c, shown,
					      "cannot be combined with 'tensors'; leave one out");
		}
	r->job->model = TW_MODEL_EXTERNAL;
	r->job->engine.external = (struct tw_job_external){ .data = "" };
	return tw_read_rows(r, "model.", tw_tensors_rows, &r->job->engine);
}

/* Nothing in `model:` says what it is. */
static enum tw_status no_model(struct tw_reading *r, const struct tw_tree *model)
{
	const struct tw_tree *c = model ? model->first : NULL;
	struct tw_name_list n = { .at = { "name", "layers", "init", "tensors" }, .count = 4 };
	char help[300], text[440], path[TW_PATH_ROOM], shown[60];

	if (!c || strcmp(c->key, "init") == 0)
		return tw_read_refuse(r, model, "model",
				      "must be given: a network by name, model: lenet, or by its "
				      "layers, model: {layers: [linear 128, relu, linear 10]}");
	for (size_t k = 0; k < MADE_UP; k++)
		tw_names_add(&n, made_up[k].name);
	snprintf(path, sizeof path, "model.%s", tw_tree_show(c->key, shown, sizeof shown));
	if (tw_zoo_find(c->key)) {
		snprintf(text, sizeof text, "a network's name is a value: write model: {name: %s}",
			 c->key);
		return tw_read_refuse(r, c, path, text);
	}
	snprintf(text, sizeof text, "there is no such field; %s",
		 tw_read_elsewhere(c->key, help, sizeof help)
			 ? help
			 : tw_names_suggest(&n, c->key, "model has", help, sizeof help));
	return tw_read_refuse(r, c, path, text);
}

static enum tw_status read_named(struct tw_reading *r, const struct tw_tree *name)
{
	if (name->kind == TW_TREE_TEXT && find_made_up(name->text)) {
		char text[160];

		snprintf(text, sizeof text,
			 "a made-up model is a mapping with its options inside; write model: {%s: "
			 "{}}",
			 name->text);
		return tw_read_refuse(r, name, "model", text);
	}
	return tw_read_variant(r, "model.name");
}

enum tw_status tw_read_model(struct tw_reading *r)
{
	const struct tw_tree *model = tw_tree_child(r->root, "model"), *name, *layers;
	const struct tw_tree *count; /* the option `layers` of a network by name */
	struct tw_job_network *n = &r->job->network;
	enum tw_status st;

	if (!model || tw_tree_is_null(model))
		return no_model(r, model);
	if (model->kind != TW_TREE_MAP)
		return tw_read_refuse(r, model, "model",
				      "needs a network's name, or a mapping with name: or layers:");
	for (size_t k = 0; k < MADE_UP; k++)
		if (tw_tree_child(model, made_up[k].name))
			return read_made_up(r, model, &made_up[k]);
	name = tw_tree_child(model, "name");
	layers = tw_tree_child(model, "layers");
	if (tw_tree_child(model, "tensors"))
		return read_tensors(r, model);
	count = name && layers && layers->kind == TW_TREE_TEXT ? layers : NULL;
	if (name && layers && !count)
		return tw_read_refuse(r, layers, "model.layers",
				      "cannot be combined with model.name; leave one out");
	if (!name && !layers)
		return no_model(r, model);
	r->job->model = TW_MODEL_NETWORK;
	n->tree = count ? NULL : layers;
	st = n->tree ? read_list(r, layers, 0, &n->layer, &n->layers) : read_named(r, name);
	if (st == TW_OK && count && !tw_job_field(r->job, "model.layers"))
		st = tw_read_refuse(r, count, "model.layers",
				    "is no option of this network; leave it out");
	return st == TW_OK ? tw_read_rows(r, "model.", tw_network_rows, n) : st;
}

/* --- loss ------------------------------------------------------------------------------------- */

/* What the model minimises where nobody says it; NULL: the row's default. */
static const char *own_loss(const struct tw_job *job)
{
	if (job->model == TW_MODEL_NETWORK)
		return job->network.zoo && job->network.zoo->predicts_input
			       ? tw_loss_usual(false)->op.name
			       : NULL;
	return job->model == TW_MODEL_EXTERNAL ? "external" : "squared";
}

enum tw_status tw_read_loss(struct tw_reading *r)
{
	struct tw_job_loss *l = &r->job->loss;
	struct tw_name_list names = { .count = 0 };
	const bool network = r->job->model == TW_MODEL_NETWORK;
	const char *chosen, *own = own_loss(r->job);
	enum tw_status st;

	if (network)
		tw_names_add_all(&names, tw_loss_heads);
	else
		tw_names_add(&names, own);
	st = tw_read_choose(r, "loss.name", "loss", &names, &chosen);
	if (st == TW_OK)
		st = tw_read_rows(r, "loss.", tw_loss_rows, l);
	if (st != TW_OK)
		return st;
	if (own && !tw_tree_at(r->root, "loss.name"))
		l->name = chosen = own;
	l->op = network ? tw_op_find(chosen) : NULL;
	return tw_read_options(r, "loss.name");
}
