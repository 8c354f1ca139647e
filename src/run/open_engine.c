/* SPDX-License-Identifier: Apache-2.0 */
/* open_engine.c - opens the data set of a job and the engine that computes on it. */
#include "run/open_engine.h"
#include "run/tensors_file.h"

#include "checkpoint/weights.h"
#include "data/input.h"
#include "data/warn.h"
#include "engine/network.h"
#include "engine/targets.h"
#include "spec/field.h"
#include "checkpoint/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Beside data.batch; 0: no other. */
static uint32_t largest_batch(const struct tw_job *job, const struct tw_data *data)
{
	const uint32_t most = job->data.global_batch ? tw_job_most_batch(job) : 0;

	return most < data->train.count ? most : (uint32_t)data->train.count;
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
	return tw_fail(why, said->status, "%.200s: data.source: %s",
		       tw_job_place(job, "data.source"), said->text);
}

enum tw_status tw_job_open_data(const struct tw_job *job, struct tw_heap *heap,
				struct tw_data **out, struct tw_error *why)
{
	char base[4096];
	const struct tw_reach all = { TW_REACH_ALL, folder(job, base, sizeof base) };

	return tw_job_open_data_at(job, &all, heap, out, why);
}

/* tw_data_open, or the first half of it. */
typedef enum tw_status (*open_by)(const struct tw_source *source, const void *source_options,
				  const struct tw_data_options *o,
				  const struct tw_source_site *site, uint64_t seed,
				  struct tw_data **out, struct tw_error *why);

static enum tw_status open_data(const struct tw_job *job, const struct tw_reach *reach, open_by by,
				struct tw_heap *heap, struct tw_data **out, struct tw_error *why)
{
	char cache[4096] = "";
	struct tw_source_site site = {
		.heap = heap, .cache = cache, .base = reach, .listener = &job->listener
	};
	struct tw_error said = { 0 };
	enum tw_status st;

	if (!tw_data_cache(cache, sizeof cache))
		cache[0] = '\0';
	st = by(job->data.from, job->data.options, &job->data.set, &site, job->data.set.split, out,
		&said);
	return st == TW_OK ? TW_OK : refuse_data(job, &said, why);
}

enum tw_status tw_job_open_data_at(const struct tw_job *job, const struct tw_reach *reach,
				   struct tw_heap *heap, struct tw_data **out, struct tw_error *why)
{
	return open_data(job, reach, tw_data_open, heap, out, why);
}

enum tw_status tw_job_read_data(const struct tw_job *job, struct tw_heap *heap,
				struct tw_data **out, struct tw_error *why)
{
	char base[4096];
	const struct tw_reach all = { TW_REACH_ALL, folder(job, base, sizeof base) };

	return open_data(job, &all, tw_data_read, heap, out, why);
}

/* Training from a value that is not a number would only say that it diverged. */
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
				   const struct tw_graph *g, struct tw_warnings *warnings,
				   float **out, struct tw_error *why)
{
	const char *name = job->network.weights;
	char base[4096], path[8200];
	const struct tw_weights_request request = {
		.path = path,
		.graph = g,
		.partial = job->network.partial,
		.seed = job->train.seed,
		.said = warnings,
	};
	struct tw_error said = { 0 };

	if (!*name)
		return TW_OK;
	snprintf(path, sizeof path, "%s%s", *name == '/' ? "" : folder(job, base, sizeof base),
		 name);
	if (tw_weights_read(&request, heap, out, &said) == TW_OK)
		return TW_OK;
	if (said.status == TW_NO_MEMORY)
		return tw_fail(why, TW_NO_MEMORY, "%s", said.text);
	return tw_job_refuse(job, why, "model.weights", "%s", said.text);
}

/* What a job cannot ask of tokens. */
static enum tw_status check_tokens(const struct tw_job *job, const struct tw_data *d,
				   struct tw_error *why)
{
	if (d->tokens && job->data.predict == TW_PREDICT_INPUT)
		return tw_job_refuse(job, why, "data.predict",
				     "of a text the next tokens are predicted; leave this out");
	if (d->tokens && job->data.set.normalise == TW_NORMALISE_UNIT)
		return tw_job_refuse(job, why, "data.normalise",
				     "tokens are numbers of a vocabulary, and never normalised; "
				     "leave this out");
	return TW_OK;
}

/* Numbers that are normalised are not those of the data any more. */
static enum tw_status check_numbers(const struct tw_job *job, const struct tw_network_facts *facts,
				    struct tw_error *why)
{
	const enum tw_normalise how = (enum tw_normalise)job->data.set.normalise;
	const struct tw_graph *g = facts->graph;

	if (facts->data->tokens || how == TW_NORMALISE_NONE)
		return TW_OK;
	for (uint32_t k = 0; k < g->nodes; k++)
		if (g->node[k].op && (g->node[k].op->traits & TW_OP_READS_NUMBERS))
			return tw_job_refuse(job, why, "data.normalise",
					     "%s reads whole numbers, and data.normalise is %s; "
					     "set data.normalise: none",
					     g->node[k].op->name,
					     how == TW_NORMALISE_UNIT ? "unit" : "standard");
	return TW_OK;
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
			       "%s: model: no layer of it has parameters, so there is nothing "
			       "to train; it needs a layer such as 'linear 10' or 'conv 20 5x5'",
			       tw_job_place(job, "model.name"));
	st = check_numbers(job, facts, why);
	if (st != TW_OK)
		return st;
	if (tw_data_set(facts->data, set)->count == 0)
		return tw_job_refuse(job, why, "data.evaluate",
				     "there are no %s samples to evaluate on; set data.%s above 0",
				     set == TW_SET_VALIDATION ? "validation" : "test",
				     set == TW_SET_VALIDATION ? "validation" : "test");
	if (job->sim.by_label.count && facts->data->tokens)
		return tw_job_refuse(job, why, "sim.compute.by_label",
				     "a sample of a text has many labels; use by_sample, or leave "
				     "this out");
	if (job->sim.by_label.count && !facts->data->classes)
		return tw_job_refuse(job, why, "sim.compute.by_label",
				     "the data has no labels; use by_sample, or leave this out");
	if (job->sim.by_label.count > facts->data->classes)
		return tw_job_refuse(job, why, "sim.compute.by_label",
				     "has %zu factors, but the data has only %u labels",
				     job->sim.by_label.count, facts->data->classes);
	st = tw_targets_check(facts, &said);
	if (st == TW_BAD_INPUT)
		return tw_job_refuse(job, why, "loss.name", "%s", said.text);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "%s", said.text);
}

/* A network that does not fit the data is perhaps right, and the data read as it is not meant.
 * Tokens can be read in one way only: what is noted of them is no doubt. */
static void add_doubts(const struct tw_data *d, struct tw_error *why)
{
	const struct tw_warnings *const said[] = { d->warnings, d->notes };
	const char *before = "; or the data is not read as intended: ";

	for (size_t i = 0; i < (d->tokens ? 1 : 2); i++)
		for (unsigned k = 0; said[i] && k < said[i]->count; k++) {
			const size_t n = strlen(why->text);

			snprintf(why->text + n, sizeof why->text - n, "%s%s", before,
				 said[i]->text[k]);
			before = "; ";
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
		.online = job->train.mode == TW_TRAIN_ONLINE,
		.own_input = job->data.predict == TW_PREDICT_INPUT,
	};
	struct tw_error said = { 0 };
	enum tw_status st;

	if (job->usual && facts.batch > data->train.count) { /* what is usual is for more rows */
		tw_warn((struct tw_warnings *)data->notes,
			"batch: %u samples are more than the %llu training rows, so a batch has "
			"all "
			"of them",
			facts.batch, (unsigned long long)data->train.count);
		facts.batch = (uint32_t)data->train.count;
	}
	if (facts.batch > facts.data->train.count) {
		st = tw_job_refuse(job, why,
				   job->data.global_batch ? "data.global_batch" : "data.batch",
				   "%u samples per worker are more than the %llu of an epoch; "
				   "use fewer",
				   facts.batch, (unsigned long long)facts.data->train.count);
		tw_data_close(facts.data);
		return st;
	}
	st = check_tokens(job, data, why);
	if (st != TW_OK) {
		tw_data_close(facts.data);
		return st;
	}
	st = tw_job_build_graph(job, facts.data, heap, &facts.graph, why);
	if (st != TW_OK) {
		add_doubts(facts.data, why);
		tw_data_close(facts.data);
		return st;
	}
	/* what is said of weights is said with what is odd about the data, and by whom that is */
	st = first ? first(arg, job, heap, facts.graph, &facts.weights, why)
		   : tw_job_read_weights(job, heap, facts.graph,
					 (struct tw_warnings *)data->warnings, &facts.weights, why);
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
	if (st != TW_OK)
		return tw_fail(why, st, "%s: model: %s", job->file, said.text);
	tw_job_divide(job, *out);
	return TW_OK;
}

/* Samples that take longer than others, in the simulator. */
static enum tw_status set_effort(const struct tw_job *job, struct tw_engine *e,
				 struct tw_error *why)
{
	const struct tw_sim_options *o = &job->sim;

	if (job->world != TW_WORLD_SIM)
		return TW_OK;
	if (o->by_sample.count > e->samples)
		return tw_job_refuse(job, why, "sim.compute.by_sample",
				     "has %zu factors, but there are only %llu samples",
				     o->by_sample.count, (unsigned long long)e->samples);
	e->effort = (struct tw_effort){ .by_label = o->by_label, .by_sample = o->by_sample };
	return TW_OK;
}

/* Only a master can do something with it: it need not compute. */
static enum tw_status open_tensors(const struct tw_job *job, struct tw_heap *heap,
				   struct tw_engine **out, struct tw_error *why)
{
	const char *name = job->engine.external.file;
	char base[4096], path[8200];

	if (job->world != TW_WORLD_TCP)
		return tw_job_refuse(job, why, "model.tensors",
				     "its gradients are computed by programs that join with "
				     "thalweg_session_open (docs/LIBRARY.md): run the job with "
				     "thalweg serve");
	snprintf(path, sizeof path, "%s%s", *name == '/' ? "" : folder(job, base, sizeof base),
		 name);
	return tw_tensors_file_open(job, path, heap, out, why);
}

enum tw_status tw_job_open_engine(const struct tw_job *job, struct tw_heap *heap,
				  struct tw_engine **out, struct tw_error *why)
{
	struct tw_engine *e = NULL;
	enum tw_status st = TW_OK;

	switch (job->model) {
	case TW_MODEL_NETWORK:
		st = tw_job_open_network(job, heap, &e, why);
		break;
	case TW_MODEL_EXTERNAL:
		if (tw_job_is_outside(job)) {
			st = open_tensors(job, heap, &e, why);
			break;
		}
		return tw_job_refuse(job, why, "model.external.parameters",
				     "is a model of a program that links libthalweg, and only that "
				     "program can run it; use a network");
	case TW_MODEL_QUADRATIC:
		e = tw_quadratic_open(heap, &job->engine.quadratic, job->data.samples,
				      job->train.seed);
		break;
	case TW_MODEL_FUNCTION:
		e = tw_function_open(heap, &job->engine.function, job->data.samples,
				     job->train.seed);
		break;
	case TW_MODEL_LEAST_SQUARES:
		e = tw_least_squares_open(heap, &job->engine.least_squares, job->data.samples,
					  job->train.seed);
		break;
	}
	if (st == TW_OK && !e)
		st = tw_fail(why, TW_NO_MEMORY,
			     "%s: model: no memory for it; use a smaller dimension", job->file);
	if (st == TW_OK)
		st = set_effort(job, e, why);
	if (st != TW_OK) {
		if (e)
			e->class->close(e);
		return st;
	}
	tw_job_divide(job, e);
	*out = e;
	return TW_OK;
}
