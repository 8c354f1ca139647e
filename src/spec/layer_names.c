/* SPDX-License-Identifier: Apache-2.0 */
/* layer_names.c - layers of a network as people name them in a job. */
#include "spec/layer_names.h"

#include "graph/graph.h"
#include "spec/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD 60

/* Does it have something that is trained? */
static bool has_parameters(const struct tw_graph_node *n)
{
	for (uint32_t k = 0; k < n->form.parameters; k++)
		if (!n->form.parameter[k].buffer)
			return true;
	return false;
}

static bool is_number(const char *text, size_t n)
{
	return n > 0 && n < 6 && strspn(text, "0123456789") >= n;
}

/* "4" names 4, 4.body.0 and all else in it. */
static bool names(const char *word, const char *layer)
{
	const size_t n = strlen(word);

	return n && strncmp(word, layer, n) == 0 && (layer[n] == '\0' || layer[n] == '.');
}

/* "0-7": the layers between them, both included. */
static bool in_range(const char *word, const char *layer)
{
	const char *dash = strchr(word, '-');
	const unsigned long at = strtoul(layer, NULL, 10);

	return dash && is_number(word, (size_t)(dash - word)) &&
	       is_number(dash + 1, strlen(dash + 1)) && is_number(layer, strcspn(layer, ".")) &&
	       at >= strtoul(word, NULL, 10) && at <= strtoul(dash + 1, NULL, 10);
}

/* The layer with parameters whose number is the nearest; for a word without one the last. */
static const char *nearest(const struct tw_graph *g, const char *word)
{
	const bool number = is_number(word, strcspn(word, "-."));
	const long at = number ? strtol(word, NULL, 10) : 0;
	const char *found = "";
	long least = 0;

	for (uint32_t k = 1; k < g->nodes; k++) {
		const long far = labs(strtol(g->node[k].name, NULL, 10) - at);

		if (!has_parameters(&g->node[k]) || (number && *found && far >= least))
			continue;
		found = g->node[k].name;
		least = far;
	}
	return found;
}

static void list_layers(const struct tw_graph *g, char *out, size_t room)
{
	size_t at = 0;

	*out = '\0';
	for (uint32_t k = 1; k < g->nodes && at < room; k++)
		if (has_parameters(&g->node[k])) {
			const bool more = at + 40 > room;

			at += (size_t)snprintf(out + at, room - at, "%s%s", at ? ", " : "",
					       more ? "..." : g->node[k].name);
			if (more)
				return;
		}
}

static enum tw_status refuse(const struct tw_job *job, const struct tw_graph *g, const char *path,
			     const char *word, struct tw_error *why)
{
	const char *dot = strrchr(word, '.');
	char list[160];

	for (uint32_t t = 0; dot && t < g->tensors; t++)
		if (strcmp(g->tensor[t].name, word) == 0)
			return tw_job_refuse(job, why, path,
					     "%s is a tensor, and layers are named here: write "
					     "%.*s",
					     word, (int)(dot - word), word);
	for (uint32_t k = 1; k < g->nodes; k++)
		if (strcmp(g->node[k].name, word) == 0)
			return tw_job_refuse(job, why, path,
					     "layer %s (%s) has no parameters; the nearest layer "
					     "that has some is %s",
					     word, g->node[k].op->name, nearest(g, word));
	list_layers(g, list, sizeof list);
	return tw_job_refuse(job, why, path,
			     "there is no layer '%s'; the nearest with parameters is %s, and all "
			     "of them are %s, as the first column of thalweg inspect JOB has them "
			     "(0-7 is a range)",
			     word, nearest(g, word), list);
}

enum tw_status tw_job_match_layers(const struct tw_job *job, const struct tw_graph *g,
				   const char *path, const char *list, bool *node,
				   struct tw_error *why)
{
	for (list += strspn(list, "[], "); *list; list += strspn(list, "[], ")) {
		const size_t n = strcspn(list, "[], ");
		bool found = false;
		char word[WORD];

		snprintf(word, sizeof word, "%.*s", (int)n, list);
		for (uint32_t k = 1; k < g->nodes; k++)
			if (has_parameters(&g->node[k]) &&
			    (names(word, g->node[k].name) || in_range(word, g->node[k].name)))
				node[k] = found = true;
		if (!found)
			return refuse(job, g, path, word, why);
		list += n;
	}
	return TW_OK;
}

/* A layer whose weight is another's is not named alone. */
static enum tw_status tied_with(const struct tw_job *job, const struct tw_graph *g,
				const char *path, const bool *node, struct tw_error *why)
{
	for (uint32_t k = 1; k < g->nodes; k++)
		if (g->node[k].tied && node[k] && !node[g->table])
			return tw_job_refuse(
				job, why, path,
				"the weight of layer %s is that of layer %s (tied); name "
				"layer %s",
				g->node[k].name, g->node[g->table].name, g->node[g->table].name);
	return TW_OK;
}

enum tw_status tw_job_freeze(const struct tw_job *job, struct tw_graph *g, struct tw_error *why)
{
	bool *node = tw_heap_zeros(g->heap, g->nodes * sizeof *node);
	enum tw_status st =
		node ? TW_OK
		     : tw_fail(why, TW_NO_MEMORY, "%s: no memory for the layers", job->file);
	const bool trains = g->trainable > 0;

	if (st == TW_OK)
		st = tw_job_match_layers(job, g, "model.freeze", job->network.freeze, node, why);
	if (st == TW_OK)
		st = tied_with(job, g, "model.freeze", node, why);
	if (st == TW_OK)
		tw_graph_freeze(g, node);
	g->heap->put(g->heap, node);
	if (st == TW_OK && trains && g->trainable == 0)
		return tw_job_refuse(job, why, "model.freeze",
				     "freezes every layer that has parameters, so there is nothing "
				     "to train; leave out the last, %s",
				     nearest(g, ""));
	return st;
}

/* --- rates --- */

#define FORM "needs LAYERS=FACTOR, such as 0-7=0.1, where the rate is a tenth of update.rate"

/* One word of update.layers, "0-7=0.1", as a factor for each node. */
static enum tw_status take_factor(const struct tw_job *job, const struct tw_graph *g,
				  const char *word, float *factor, bool *node, struct tw_error *why)
{
	const char *path = "update.layers", *sign = strchr(word, '=');
	char layers[WORD], *end = NULL;
	enum tw_status st;
	double value;

	if (!sign || sign == word)
		return tw_job_refuse(job, why, path, "'%s': " FORM, word);
	value = strtod(sign + 1, &end);
	if (end == sign + 1 || *end || !(value >= 0 && value <= 1e6))
		return tw_job_refuse(job, why, path,
				     "'%s': %s is no factor from 0 to 1000000; it " FORM, word,
				     sign + 1);
	snprintf(layers, sizeof layers, "%.*s", (int)(sign - word), word);
	memset(node, 0, g->nodes * sizeof *node);
	st = tw_job_match_layers(job, g, path, layers, node, why);
	if (st == TW_OK)
		st = tied_with(job, g, path, node, why);
	for (uint32_t k = 1; st == TW_OK && k < g->nodes; k++) {
		if (!node[k])
			continue;
		if (g->node[k].frozen)
			return tw_job_refuse(job, why, path,
					     "layer %s is frozen (model.freeze) and has no rate; "
					     "leave it out here or there",
					     g->node[k].name);
		if (factor[k] >= 0)
			return tw_job_refuse(job, why, path, "layer %s is named twice",
					     g->node[k].name);
		factor[k] = (float)value;
	}
	return st;
}

static enum tw_status take_factors(const struct tw_job *job, const struct tw_graph *g,
				   float *factor, bool *node, struct tw_error *why)
{
	const char *list = job->update.layers;
	enum tw_status st = TW_OK;

	for (uint32_t k = 0; k < g->nodes; k++)
		factor[k] = -1;
	for (list += strspn(list, "[], "); *list && st == TW_OK; list += strspn(list, "[], ")) {
		const size_t n = strcspn(list, "[], ");
		char word[WORD];

		snprintf(word, sizeof word, "%.*s", (int)n, list);
		st = take_factor(job, g, word, factor, node, why);
		list += n;
	}
	return st;
}

enum tw_status tw_job_layer_rates(struct tw_job *job, const struct tw_graph *g,
				  const struct tw_rate_run **out, struct tw_error *why)
{
	struct tw_rate_run *run = tw_arena_get(&job->arena, (g->tensors + 1) * sizeof *run);
	float *factor = tw_arena_get(&job->arena, g->nodes * sizeof *factor);
	bool *node = tw_arena_get(&job->arena, g->nodes * sizeof *node);
	size_t runs = 0;
	enum tw_status st;

	*out = NULL;
	if (!run || !factor || !node)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the rates of layers",
			       job->file);
	st = take_factors(job, g, factor, node, why);
	for (uint32_t t = 0; st == TW_OK && t < g->tensors; t++) {
		const struct tw_graph_tensor *one = &g->tensor[t];
		const float f = factor[one->node] >= 0 ? factor[one->node] : 1;

		if (one->form.buffer || one->frozen)
			continue;
		if (!runs || run[runs - 1].factor != f)
			run[runs++].factor = f;
		run[runs - 1].to = one->from + one->n;
	}
	if (st == TW_OK && (runs > 1 || (runs && run[0].factor != 1)))
		*out = run;
	return st;
}
