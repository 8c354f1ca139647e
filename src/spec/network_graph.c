/* SPDX-License-Identifier: Apache-2.0 */
/* network_graph.c - the graph of a job's network for the data that it is trained on. */
#include "spec/field.h"
#include "spec/layer_names.h"

#include "data/format/series_rows.h"
#include "engine/network.h"
#include "graph/loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

const char *tw_job_place(const struct tw_job *job, const char *path)
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
	return job->network.tree ? job->network.tree->place : tw_job_place(job, "model.name");
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
		.tokens = data->tokens && !own,
		.series = tw_series_width(data->columns),
		.init = job->network.init,
		.loss_place = loss_place(job),
	};

	memcpy(site.in.d, data->shape, sizeof site.in.d);
	return site;
}

#define RESCALED_MOST 64 /* targets; a layer's text has room for their numbers */

/* Are the targets scaled for the network?  Not for a loss that needs them from 0 to 1, nor for an
 * optimiser, whose line search compares losses with gradients. */
static bool scales_targets(const struct tw_job *job, const struct tw_data *data)
{
	return data->target_scale && data->targets && data->targets <= RESCALED_MOST &&
	       job->data.predict == TW_PREDICT_LABEL && !tw_plan_optimises(&job->plan) &&
	       !(says_loss(job) && (tw_loss_of(job->loss.op)->takes & TW_LOSS_UNIT));
}

/* The layers and, behind them, what brings the outputs back to the units of the targets. */
static enum tw_status add_rescale(const struct tw_data *data, struct tw_arena *keep,
				  struct tw_layer **layers, size_t *count)
{
	const char *name = tw_op_with(TW_OP_RESCALES)->name;
	struct tw_layer *all = tw_arena_get(keep, (*count + 1) * sizeof *all);
	const size_t room = strlen(name) + 8 + (size_t)data->targets * 40;
	char *text = tw_arena_get(keep, room);
	size_t n;

	if (!all || !text)
		return TW_NO_MEMORY;
	n = (size_t)snprintf(text, room, "%s [", name);
	for (uint32_t k = 0; k < data->targets; k++)
		n += (size_t)snprintf(text + n, room - n, "%s%.9g", k ? "," : "",
				      (double)data->target_scale[k]);
	n += (size_t)snprintf(text + n, room - n, "] [");
	for (uint32_t k = 0; k < data->targets; k++)
		n += (size_t)snprintf(text + n, room - n, "%s%.9g", k ? "," : "",
				      (double)data->target_shift[k]);
	snprintf(text + n, room - n, "]");
	memcpy(all, *layers, *count * sizeof *all);
	all[(*count)++] = (struct tw_layer){ .text = text, .place = "" };
	*layers = all;
	return TW_OK;
}

static enum tw_status plain_layers(const struct tw_job *job, const struct tw_data *data,
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
			   : tw_fail(why, st, "%s: model.name: %s", tw_job_place(job, "model.name"),
				     said.text);
}

enum tw_status tw_job_network_layers(const struct tw_job *job, const struct tw_data *data,
				     struct tw_arena *keep, struct tw_layer **out, size_t *count,
				     struct tw_error *why)
{
	const enum tw_status st = plain_layers(job, data, keep, out, count, why);

	if (st != TW_OK || !scales_targets(job, data))
		return st;
	return add_rescale(data, keep, out, count) == TW_OK
		       ? TW_OK
		       : tw_fail(why, TW_NO_MEMORY, "%s: no memory for the layers", job->file);
}

enum tw_status tw_job_build_graph(const struct tw_job *job, const struct tw_data *data,
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
	/* what was written is checked by itself: nobody wrote the layer behind it */
	st = plain_layers(job, data, &keep, &layer, &layers, why);
	if (st == TW_OK)
		st = tw_model_build(&site, layer, layers, out, &said);
	if (st == TW_OK && scales_targets(job, data)) {
		tw_graph_free(*out);
		*out = NULL;
		st = add_rescale(data, &keep, &layer, &layers);
		if (st == TW_OK)
			st = tw_model_build(&site, layer, layers, out, &said);
	}
	if (st != TW_OK && !why->text[0])
		st = tw_fail(why, st,
			     n->zoo && said.text[0] && strncmp(said.text, "layer", 5) == 0
				     ? "%s: model.name: %s"
				     : "%.0s%s",
			     tw_job_place(job, "model.name"), said.text);
	tw_arena_release(&keep);
	if (st == TW_OK)
		st = tw_job_freeze(job, *out, why);
	if (st != TW_OK) {
		tw_graph_free(*out);
		*out = NULL;
	}
	return st;
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
	if (job->train.measure == TW_BY_ACCURACY && !tw_loss_of(op)->judges)
		return tw_job_refuse(job, why, "train.measure",
				     "values have no accuracy; use measure: loss");
	return TW_OK;
}

enum tw_status tw_job_settle_network(struct tw_job *job, const struct tw_graph *g,
				     struct tw_error *why)
{
	const struct tw_graph_node *end = &g->node[g->nodes - 1];
	const struct tw_op *loss = end->op, *before = g->node[end->in[0]].op;

	if (before && (loss->traits & before->traits & (TW_OP_SOFTMAX | TW_OP_SIGMOID)) &&
	    tw_job_warn(job,
			"%s already contains a %s, and the layer %s before it is a second one; "
			"leave that layer out",
			loss->name, before->name, before->name) != TW_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
	return settle_loss(job, loss, why);
}
