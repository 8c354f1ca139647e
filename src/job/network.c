/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - what is trained on what: sections data, model and loss, and the engine they make. */
#include "job/read.h"

#include "data/input.h"
#include "engine/network.h"
#include "engine/targets.h"
#include "graph/loss.h"
#include "job/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- data ------------------------------------------------------------------------------------- */

enum tw_status tw_read_data(struct tw_reading *r)
{
	static const struct tw_chooser source_of = { "data.", tw_data_rows, "source",
						     "data source" };
	struct tw_job_data *d = &r->job->data;
	struct tw_name_list names = { .at = { "none" }, .count = 1 };
	const char *source;
	enum tw_status st;

	for (size_t k = 0; tw_source_all[k]; k++)
		tw_names_add(&names, tw_source_all[k]->name);
	st = tw_read_choose(r, &source_of, &names, &source);
	if (st == TW_OK)
		st = tw_read_rows(r, "data.", tw_data_rows, d);
	if (st != TW_OK)
		return st;
	d->from = tw_source_find(source);
	if (!d->from)
		return tw_read_rows(r, "data.", tw_made_up_rows, d);
	st = tw_read_variant(r, "data.", d->from->options, d->from->options_bytes, &d->options);
	if (st == TW_OK)
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
					    "a layer that is a mapping has residual: [...] and "
					    "perhaps shortcut: [...], and nothing else; options of "
					    "a layer stand in its text, such as conv 20 5x5 pad 2");
	if (!body)
		return refuse_layer(r, node, "shortcut: goes with residual: [...]; add that");
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
} made_up[] = {
	{ "quadratic", TW_MODEL_QUADRATIC },
	{ "least-squares", TW_MODEL_LEAST_SQUARES },
	{ "external", TW_MODEL_EXTERNAL },
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
	struct tw_job *job = r->job;

	for (const struct tw_tree *c = model->first; c; c = c->next)
		if (strcmp(c->key, m->name) != 0) {
			char text[200], shown[60];

			snprintf(text, sizeof text,
				 "goes instead of '%s', not beside it; leave one out", m->name);
			snprintf(shown, sizeof shown, "model.%.40s", c->key);
			return tw_read_refuse(r, c, shown, text);
		}
	job->model = m->kind;
	if (m->kind == TW_MODEL_QUADRATIC)
		return tw_read_rows(r, "model.quadratic.", tw_quadratic_rows,
				    &job->engine.quadratic);
	if (m->kind == TW_MODEL_EXTERNAL)
		return tw_read_rows(r, "model.external.", tw_external_rows, &job->engine.external);
	return tw_read_rows(r, "model.least-squares.", tw_least_squares_rows,
			    &job->engine.least_squares);
}

/* Nothing in `model:` says what it is. */
static enum tw_status no_model(struct tw_reading *r, const struct tw_tree *model)
{
	const struct tw_tree *c = model ? model->first : NULL;
	struct tw_name_list n = { .at = { "name", "layers", "init" }, .count = 3 };
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
	static const struct tw_chooser name_of = { "model.", tw_network_rows, "name", "network" };
	struct tw_job_network *n = &r->job->network;
	struct tw_name_list names = { .count = 0 };
	const char *chosen;
	enum tw_status st;

	if (name->kind == TW_TREE_TEXT && find_made_up(name->text)) {
		char text[160];

		snprintf(text, sizeof text,
			 "a made-up model is a mapping with its options inside; write model: {%s: "
			 "{}}",
			 name->text);
		return tw_read_refuse(r, name, "model", text);
	}
	for (size_t k = 0; tw_zoo_all[k]; k++)
		tw_names_add(&names, tw_zoo_all[k]->name);
	st = tw_read_choose(r, &name_of, &names, &chosen);
	if (st != TW_OK)
		return st;
	n->zoo = tw_zoo_find(chosen);
	return tw_read_variant(r, "model.", n->zoo->options, n->zoo->options_bytes, &n->options);
}

enum tw_status tw_read_model(struct tw_reading *r)
{
	const struct tw_tree *model = tw_tree_child(r->root, "model"), *name, *layers;
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
	if (name && layers)
		return tw_read_refuse(r, layers, "model.layers",
				      "goes instead of model.name, not beside it; leave one out");
	if (!name && !layers)
		return no_model(r, model);
	r->job->model = TW_MODEL_NETWORK;
	n->tree = layers;
	st = layers ? read_list(r, layers, 0, &n->layer, &n->layers) : read_named(r, name);
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
	static const struct tw_chooser name_of = { "loss.", tw_loss_rows, "name", "loss" };
	struct tw_job_loss *l = &r->job->loss;
	struct tw_name_list names = { .count = 0 };
	const bool network = r->job->model == TW_MODEL_NETWORK;
	const char *chosen, *own = own_loss(r->job);
	enum tw_status st;

	if (!network)
		tw_names_add(&names, own);
	for (size_t k = 0; network && tw_loss_all[k]; k++)
		tw_names_add(&names, tw_loss_all[k]->op.name);
	st = tw_read_choose(r, &name_of, &names, &chosen);
	if (st == TW_OK)
		st = tw_read_rows(r, "loss.", tw_loss_rows, l);
	if (st != TW_OK)
		return st;
	if (own && !tw_tree_at(r->root, "loss.name"))
		l->name = chosen = own;
	l->op = network ? tw_op_find(chosen) : NULL;
	if (!l->op)
		return TW_OK;
	return tw_read_variant(r, "loss.", l->op->options, l->op->options_bytes, &l->options);
}

/* --- the engine ------------------------------------------------------------------------------- */

uint32_t tw_job_batch(const struct tw_job *job)
{
	const uint32_t n = job->cluster.workers;

	if (!job->data.global_batch)
		return job->data.batch;
	return (uint32_t)(((uint64_t)job->data.global_batch + n - 1) / n);
}

/* What one worker may get when as many as may are gone: those that are left share global_batch. */
static uint32_t largest_batch(const struct tw_job *job, const struct tw_data *data)
{
	const uint32_t live = job->cluster.min ? job->cluster.min : 1;
	const uint64_t most = ((uint64_t)job->data.global_batch + live - 1) / live;

	return (uint32_t)(most < data->train.count ? most : data->train.count);
}

static bool says_loss(const struct tw_job *job)
{
	for (size_t k = 0; k < job->fields; k++)
		if (strncmp(job->field[k].path, "loss.", 5) == 0 && job->field[k].from)
			return true;
	return job->network.zoo && job->network.zoo->predicts_input;
}

/* The loss as the text of a layer: its name and every option.  "" where nobody said one and the
 * data has values, not classes: then the model takes what is usual for these. */
static const char *loss_text(const struct tw_job *job, const struct tw_data *data, char *out,
			     size_t room)
{
	size_t at = (size_t)snprintf(out, room, "%s", job->loss.name);
	const struct tw_option *row = job->loss.op->options;

	if (!says_loss(job) && !data->classes) {
		out[0] = '\0';
		return out;
	}
	for (; row && row->name && at < room; row++) {
		char value[100];

		tw_option_text(row, job->loss.options, value, sizeof value);
		at += (size_t)snprintf(out + at, room - at, " %s %s", row->name, value);
	}
	return out;
}

static const char *place(const struct tw_job *job, const char *path)
{
	const struct tw_field *f = tw_job_field(job, path);

	return f && f->from ? f->from->place : job->file;
}

/* Where to look when the loss does not fit: at the loss, or, if none is written, at the model. */
static const char *loss_place(const struct tw_job *job)
{
	const struct tw_field *f = tw_job_field(job, "loss.name");

	if (f && f->from)
		return f->from->place;
	return job->network.tree ? job->network.tree->place : place(job, "model.name");
}

static struct tw_model_site site_of(const struct tw_job *job, const struct tw_data *data,
				    struct tw_heap *heap)
{
	const bool own = job->data.predict == TW_PREDICT_INPUT;
	struct tw_model_site site = {
		.heap = heap,
		.in = { .rank = data->rank },
		.classes = own ? 0 : data->classes,
		.targets = own ? (uint32_t)data->features : data->targets,
		.init = job->network.init,
		.loss_place = loss_place(job),
	};

	memcpy(site.in.d, data->shape, sizeof site.in.d);
	return site;
}

enum tw_status tw_job_network_layers(const struct tw_job *job, const struct tw_data *data,
				     struct tw_arena *keep, struct tw_layer **out, size_t *count,
				     struct tw_error *why)
{
	const struct tw_job_network *n = &job->network;
	const struct tw_model_site site = site_of(job, data, keep->heap);
	struct tw_error said = { 0 };
	enum tw_status st;

	*out = n->layer;
	*count = n->layers;
	if (!n->zoo)
		return TW_OK;
	st = n->zoo->layers(n->options, &site, keep, out, count, &said);
	return st == TW_OK ? TW_OK
			   : tw_fail(why, st, "%s: model.name: %s", place(job, "model.name"),
				     said.text);
}

static enum tw_status build_graph(const struct tw_job *job, const struct tw_data *data,
				  struct tw_heap *heap, struct tw_graph **out, struct tw_error *why)
{
	const struct tw_job_network *n = &job->network;
	struct tw_model_site site = site_of(job, data, heap);
	struct tw_layer *layer = NULL;
	size_t layers = 0;
	struct tw_error said = { 0 };
	struct tw_arena keep;
	enum tw_status st;
	char loss[300];

	site.loss = loss_text(job, data, loss, sizeof loss);
	tw_arena_init(&keep, heap);
	st = tw_job_network_layers(job, data, &keep, &layer, &layers, why);
	if (st == TW_OK)
		st = tw_model_build(&site, layer, layers, out, &said);
	if (st != TW_OK && !why->text[0])
		st = tw_fail(why, st,
			     n->zoo && said.text[0] && strncmp(said.text, "layer", 5) == 0
				     ? "%s: model.name: %s"
				     : "%.0s%s",
			     place(job, "model.name"), said.text);
	tw_arena_release(&keep);
	return st;
}

/* The folder that relative paths begin at: the job file's, or where we are. */
static const char *folder(const struct tw_job *job, char *out, size_t room)
{
	const char *slash = strrchr(job->file, '/');

	snprintf(out, room, "%.*s", slash ? (int)(slash - job->file + 1) : 0, job->file);
	return out;
}

static bool file_option(const struct tw_job *job, const char *name, char *out, size_t room)
{
	const struct tw_option *row = name ? tw_option_find(job->data.from->options, name) : NULL;
	char value[4096] = "", base[4096];

	*out = '\0';
	if (!row)
		return false;
	tw_option_text(row, job->data.options, value, sizeof value);
	if (*value)
		snprintf(out, room, "%s%s", *value == '/' ? "" : folder(job, base, sizeof base),
			 value);
	return *value;
}

bool tw_job_test_files(const struct tw_job *job, char *file, char *answers)
{
	const size_t room = 8200;

	if (!job->data.from || !file_option(job, tw_job_test_set(job), file, room))
		return false;
	*answers = '\0';
	file_option(job, job->data.from->answers_option, answers, room);
	return true;
}

/* What a source said: "evaluate: ..." is about data.evaluate, "x.csv:4: ..." about the source. */
static enum tw_status refuse_data(const struct tw_job *job, const struct tw_error *said,
				  struct tw_error *why)
{
	const char *colon = strstr(said->text, ": ");
	char path[60] = "";

	if (colon && colon - said->text < 40)
		snprintf(path, sizeof path, "data.%.*s", (int)(colon - said->text), said->text);
	if (said->status == TW_BAD_INPUT && tw_job_field(job, path))
		return tw_job_refuse(job, why, path, "%s", colon + 2);
	return tw_fail(why, said->status, "%.200s: data.source: %s", place(job, "data.source"),
		       said->text);
}

enum tw_status tw_job_open_data(const struct tw_job *job, struct tw_heap *heap,
				struct tw_data **out, struct tw_error *why)
{
	char base[4096];
	const struct tw_reach all = { TW_REACH_ALL, folder(job, base, sizeof base) };

	return tw_job_open_data_at(job, &all, heap, out, why);
}

enum tw_status tw_job_open_data_at(const struct tw_job *job, const struct tw_reach *reach,
				   struct tw_heap *heap, struct tw_data **out, struct tw_error *why)
{
	char cache[4096] = "";
	struct tw_source_site site = { .heap = heap, .cache = cache, .base = reach };
	struct tw_error said = { 0 };
	enum tw_status st;

	if (!tw_data_cache(cache, sizeof cache))
		cache[0] = '\0';
	st = tw_data_open(job->data.from, job->data.options, &job->data.set, &site,
			  job->data.set.split, out, &said);
	return st == TW_OK ? TW_OK : refuse_data(job, &said, why);
}

/* Training from a value that is no number would only say that it diverged. */
static enum tw_status check_weights(const struct tw_job *job, const struct tw_network_facts *facts,
				    struct tw_error *why)
{
	const struct tw_graph *g = facts->graph;

	for (uint32_t t = 0; t < g->tensors; t++)
		for (size_t i = 0; i < g->tensor[t].n; i++)
			if (!isfinite(facts->weights[g->tensor[t].from + i]))
				return tw_job_refuse(job, why, "model.weights",
						     "value %zu (from 1) of tensor %s in %.200s is "
						     "not a finite number",
						     i + 1, g->tensor[t].name,
						     job->network.weights);
	return TW_OK;
}

/* model.weights, by its path from the job file. */
enum tw_status tw_job_read_weights(const struct tw_job *job, struct tw_heap *heap,
				   const struct tw_graph *g, float **out, struct tw_error *why)
{
	const char *name = job->network.weights;
	char base[4096], path[8200];
	struct tw_error said = { 0 };

	if (!*name)
		return TW_OK;
	snprintf(path, sizeof path, "%s%s", *name == '/' ? "" : folder(job, base, sizeof base),
		 name);
	if (tw_weights_read(path, g, heap, out, &said) == TW_OK)
		return TW_OK;
	if (said.status == TW_NO_MEMORY)
		return tw_fail(why, TW_NO_MEMORY, "%s", said.text);
	return tw_job_refuse(job, why, "model.weights", "%s", said.text);
}

static enum tw_status read_first(void *arg, const struct tw_job *job, struct tw_heap *heap,
				 const struct tw_graph *g, float **out, struct tw_error *why)
{
	return tw_job_read_weights(job, heap, g, out, why);
}

/* What only data and network together show to be wrong. */
static enum tw_status check_fit(const struct tw_job *job, const struct tw_network_facts *facts,
				struct tw_error *why)
{
	const enum tw_data_set set = (enum tw_data_set)job->data.set.evaluate;
	struct tw_error said = { 0 };
	enum tw_status st;

	if (facts->graph->trainable == 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: model: no layer of it has parameters, so there is nothing to "
			       "train; it needs such as 'linear 10' or 'conv 20 5x5'",
			       place(job, "model.name"));
	if (tw_data_set(facts->data, set)->count == 0)
		return tw_job_refuse(job, why, "data.evaluate",
				     "there are no %s samples to evaluate on; set data.%s above 0",
				     set == TW_SET_VALIDATION ? "validation" : "test",
				     set == TW_SET_VALIDATION ? "validation" : "test");
	st = tw_targets_check(facts, &said);
	if (st == TW_BAD_INPUT)
		return tw_job_refuse(job, why, "loss.name", "%s", said.text);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "%s", said.text);
}

/* A network that does not fit the data is perhaps right, and the data read as it is not meant. */
static void add_doubts(const struct tw_data *d, struct tw_error *why)
{
	for (unsigned k = 0; d->warnings && k < d->warnings->count; k++) {
		const size_t n = strlen(why->text);

		snprintf(why->text + n, sizeof why->text - n, "%s%s",
			 k ? "; " : "; or the data is not read as it is meant: ",
			 d->warnings->text[k]);
	}
}

enum tw_status tw_job_open_network(const struct tw_job *job, struct tw_heap *heap,
				   struct tw_engine **out, struct tw_error *why)
{
	struct tw_data *data = NULL;
	enum tw_status st = tw_job_open_data(job, heap, &data, why);

	return st == TW_OK ? tw_job_open_network_on(job, heap, data, NULL, NULL, out, why) : st;
}

enum tw_status tw_job_open_network_on(const struct tw_job *job, struct tw_heap *heap,
				      struct tw_data *data, tw_job_first first, void *arg,
				      struct tw_engine **out, struct tw_error *why)
{
	struct tw_network_facts facts = {
		.data = data,
		.options = job->data.set,
		.seed = job->train.seed,
		.batch = tw_job_batch(job),
		.own_input = job->data.predict == TW_PREDICT_INPUT,
	};
	struct tw_error said = { 0 };
	enum tw_status st;

	if (facts.batch > facts.data->train.count) {
		st = tw_job_refuse(job, why,
				   job->data.global_batch ? "data.global_batch" : "data.batch",
				   "%u samples per worker are more than the %llu of an epoch; use "
				   "less",
				   facts.batch, (unsigned long long)facts.data->train.count);
		tw_data_close(facts.data);
		return st;
	}
	st = build_graph(job, facts.data, heap, &facts.graph, why);
	if (st != TW_OK) {
		add_doubts(facts.data, why);
		tw_data_close(facts.data);
		return st;
	}
	st = (first ? first : read_first)(arg, job, heap, facts.graph, &facts.weights, why);
	if (st == TW_OK && facts.weights)
		st = check_weights(job, &facts, why);
	if (st == TW_OK)
		st = check_fit(job, &facts, why);
	if (st != TW_OK) {
		heap->put(heap, facts.weights);
		tw_graph_free(facts.graph);
		tw_data_close(facts.data);
		return st;
	}
	facts.most = largest_batch(job, facts.data);
	st = tw_network_open(heap, &facts, out, &said);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "%s: model: %s", job->file, said.text);
}

/* The loss that the model took is the job's, without the options of the one it might have been. */
static enum tw_status settle_loss(struct tw_job *job, const struct tw_op *op, struct tw_error *why)
{
	if (op == job->loss.op)
		return TW_OK;
	job->loss = (struct tw_job_loss){ .name = op->name, .op = op };
	for (size_t k = 0; k < job->fields; k++)
		if (strncmp(job->field[k].path, "loss.", 5) == 0 &&
		    strcmp(job->field[k].path, "loss.name") != 0)
			((struct tw_field *)&job->field[k])->silent = true;
	if (!isnan(job->train.until_accuracy) && !tw_loss_of(op)->judges)
		return tw_job_refuse(job, why, "train.until.accuracy",
				     "values have no accuracy; use until: {loss: ...}");
	return TW_OK;
}

enum tw_status tw_job_settle_network(struct tw_job *job, const struct tw_graph *g,
				     struct tw_error *why)
{
	const struct tw_graph_node *end = &g->node[g->nodes - 1];
	const struct tw_op *loss = end->op, *before = g->node[end->in[0]].op;

	if (before && (loss->traits & before->traits & (TW_OP_SOFTMAX | TW_OP_SIGMOID)) &&
	    tw_job_warn(job, "%s has a %s inside: the %s before it makes two; leave it out",
			loss->name, before->name, before->name) != TW_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
	return settle_loss(job, loss, why);
}
