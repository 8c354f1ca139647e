/* SPDX-License-Identifier: Apache-2.0 */
/* inspect_job.c - what a job trains: its layers, their shapes and costs, and what memory one
 * worker needs. */
#include "query/query.h"

#include "base/json.h"
#include "engine/network.h"
#include "model/model.h"
#include "query/layer_times.h"
#include "run/open_engine.h"

#include <stdlib.h>
#include <string.h>

/* --- layers --- */

/* Does the option have its default?  `spare` is the op's options once more, to write into. */
static bool is_standard(const struct tw_option *row, const char *value, void *spare,
			struct tw_arena *keep)
{
	char text[120];

	if (!row->standard || tw_option_set(row, spare, row->standard, keep, NULL) != TW_OK)
		return false;
	tw_option_text(row, spare, text, sizeof text);
	return strcmp(text, value) == 0;
}

/* A layer as people write it: positional options, then what differs from its default. */
static void layer_text(const struct tw_op *op, const void *options, char *out, size_t room)
{
	size_t at = (size_t)snprintf(out, room, "%s", op->name);
	const struct tw_option *row = op->options;
	struct tw_arena keep;
	void *spare;

	tw_arena_init(&keep, &tw_heap_system);
	spare = tw_arena_get(&keep, op->options_bytes ? op->options_bytes : 1);
	for (uint32_t k = 0; spare && row && row->name && at < room; row++, k++) {
		char value[120];

		tw_option_text(row, options, value, sizeof value);
		if (k < op->positional)
			at += (size_t)snprintf(out + at, room - at, " %s", value);
		else if (!is_standard(row, value, spare, &keep))
			at += (size_t)snprintf(out + at, room - at, " %s %s", row->name, value);
	}
	tw_arena_release(&keep);
}

static json_t *layer_row(const struct tw_graph_node *n)
{
	size_t trained = 0, kept = 0;
	char text[300], shape[40];

	for (uint32_t k = 0; k < n->form.parameters; k++) {
		const struct tw_op_parameter *p = &n->form.parameter[k];
		size_t size = 1;

		for (uint32_t i = 0; i < p->rank; i++)
			size *= p->d[i];
		*(p->buffer ? &kept : &trained) += size;
	}
	layer_text(n->op, n->options, text, sizeof text);
	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:f}", "number", n->name, "text", text,
			 "output", n->shape.rank ? tw_shape_text(&n->shape, shape) : "",
			 "parameters", (json_int_t)trained, "buffers", (json_int_t)kept, "frozen",
			 n->frozen, "mflop", n->form.flops / 1e6);
}

/* Where model.stages may cut after the layer: the number to write there, and how many values of a
 * sample cross. */
static void add_cut(const struct tw_engine *e, const char *name, json_t *row)
{
	const struct tw_model_cut *cut = NULL;
	char number[TW_MODEL_CUT_NAME];
	json_int_t floats = 0;

	if (tw_model_number(name, number, sizeof number))
		for (size_t k = 1; k + 1 < e->cuts; k++)
			if (strcmp(e->cut[k].after, number) == 0)
				cut = &e->cut[k];
	for (uint32_t v = 0; cut && v < cut->values; v++)
		floats += cut->value[v].floats;
	json_object_set_new(row, "cut", cut ? json_string(number) : json_null());
	json_object_set_new(row, "crosses", cut ? json_integer(floats) : json_null());
}

static json_t *layers(const struct tw_engine *e, const struct tw_graph *g)
{
	json_t *list = json_array();

	for (uint32_t k = 1; k < g->nodes && list; k++) {
		json_t *row = layer_row(&g->node[k]);

		add_cut(e, g->node[k].name, row);
		json_array_append_new(list, row);
	}
	return list;
}

/* --- memory --- */

static json_t *memory(const struct tw_engine *e, const struct tw_program_plan *plan, uint32_t batch)
{
	const struct tw_data *d = tw_network_data(e);
	const size_t vector = (e->trainable + e->buffers) * sizeof(float);
	const size_t sample = (d->features + d->targets) * sizeof(float) +
			      (d->classes ? sizeof(uint32_t) : 0) + sizeof(uint64_t);

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "arena_bytes", (json_int_t)plan->bytes,
			 "without_reuse_bytes", (json_int_t)plan->no_reuse, "batch_bytes",
			 (json_int_t)(batch * sample), "parameter_bytes", (json_int_t)vector,
			 "gradient_bytes", (json_int_t)vector, "scratch_bytes",
			 (json_int_t)e->scratch_bytes);
}

static json_t *buffers(const struct tw_program_plan *plan)
{
	json_t *list = json_array();

	for (size_t k = 0; k < plan->buffers; k++) {
		const struct tw_program_buffer *b = &plan->buffer[k];
		const char *dot = strchr(b->what, '.'); /* the node's number is before it */

		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "layer", b->name, "what",
					dot ? dot + 1 : b->what, "offset", (json_int_t)b->from,
					"bytes", (json_int_t)b->bytes, "first",
					(json_int_t)b->first, "last", (json_int_t)b->last));
	}
	return list;
}

static json_t *steps(const struct tw_program *p)
{
	json_t *list = json_array();
	char *text = NULL, *save = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);

	if (!f)
		return list;
	tw_program_describe(p, f);
	fclose(f);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		json_array_append_new(list, json_string(line));
	free(text);
	return list;
}

static enum tw_status network(const struct tw_job *job, const struct tw_engine *e, bool plan,
			      json_t *o, struct tw_error *why)
{
	const struct tw_graph *g = tw_network_graph(e);
	const uint32_t batch = tw_job_batch(job);
	const struct tw_program *p = tw_network_program(e, TW_PROGRAM_TRAIN, batch);
	json_t *data = tw_query_counts(tw_network_data(e));

	if (!p) {
		json_decref(data);
		return tw_fail(why, TW_NO_MEMORY, "no memory for a batch of %u", batch);
	}
	tw_json_set(data, "source", json_string(job->data.from->name));
	tw_json_set(o, "data", data);
	tw_json_set(o, "model", json_string(job->network.zoo ? job->network.zoo->name : "layers"));
	tw_json_set(o, "layers", layers(e, g));
	tw_json_set(o, "mflop", json_real(g->flops / 1e6));
	tw_json_set(o, "batch", tw_json_count(batch));
	tw_json_set(o, "memory", memory(e, tw_program_plan(p), batch));
	if (plan) {
		tw_json_set(o, "plan", buffers(tw_program_plan(p)));
		tw_json_set(o, "steps", steps(p));
	}
	return TW_OK;
}

/* Each layer's time, and stages that would take equally long. */
static enum tw_status measured(const struct tw_job *job, const struct tw_engine *e, json_t *o,
			       struct tw_error *why)
{
	double *seconds = malloc(tw_network_graph(e)->nodes * sizeof *seconds);
	enum tw_status st = seconds ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for times");
	json_t *stages = NULL, *row;
	size_t k;

	if (st == TW_OK)
		st = tw_layer_times(e, tw_job_batch(job), seconds, why);
	if (st == TW_OK)
		st = tw_layer_stages(e, seconds, &stages, why);
	if (st == TW_OK) {
		json_array_foreach(json_object_get(o, "layers"), k, row)
			json_object_set_new(row, "ms", json_real(seconds[k + 1] * 1e3));
		tw_json_set(o, "stages", stages);
	}
	free(seconds);
	return st;
}

static void made_up(const struct tw_job *job, const struct tw_engine *e, json_t *o)
{
	const bool bowl = job->model == TW_MODEL_QUADRATIC;
	const bool function = job->model == TW_MODEL_FUNCTION;

	tw_json_set(o, "model",
		    json_string(function ? "function"
				: bowl   ? "quadratic"
					 : "least-squares"));
	tw_json_set(
		o, "about",
		json_string(
			function ? "a test function for optimisers: no data, no layers"
			: bowl   ? "a generated quadratic with known answers: no data, no layers"
			       : "generated least squares with known answers: no data, no layers"));
	tw_json_set(o, "samples", tw_json_count(e->samples));
	tw_json_set(o, "batch", tw_json_count(tw_job_batch(job)));
	tw_json_set(o, "mflop", json_real(e->cost / 1e6));
}

enum tw_status tw_query_describe(const struct tw_job *job, const struct tw_describe_request *r,
				 json_t **out, struct tw_error *why)
{
	struct tw_engine *e = NULL;
	struct tw_job plain = *job;
	enum tw_status st;
	json_t *o;

	/* neither initial weights nor batches ahead are needed */
	plain.network.weights = "";
	plain.data.set.prefetch = 0;
	if ((r->plan || r->measure) && job->model != TW_MODEL_NETWORK)
		return tw_fail(why, TW_BAD_INPUT,
			       "--%s: the job's model is a generated problem and has no %s; leave "
			       "it out",
			       r->plan ? "plan" : "measure", r->plan ? "memory plan" : "layers");
	st = tw_job_open_engine(&plain, &tw_heap_system, &e, why);
	if (st != TW_OK)
		return st;
	o = json_object();
	tw_json_set(o, "kind", json_string("job"));
	tw_json_set(o, "job", json_string(job->file));
	tw_json_set(o, "strategy", json_string(job->title));
	tw_json_set(o, "workers", tw_json_count(job->cluster.workers));
	tw_json_set(o, "parameters", tw_json_count(e->trainable));
	tw_json_set(o, "frozen", tw_json_count(e->constants.floats));
	tw_json_set(o, "buffers", tw_json_count(e->buffers));
	if (job->model == TW_MODEL_NETWORK)
		st = network(job, e, r->plan, o, why);
	else
		made_up(job, e, o);
	if (st == TW_OK && r->measure)
		st = measured(job, e, o, why);
	e->class->close(e);
	if (st == TW_OK)
		*out = o;
	else
		json_decref(o);
	return st;
}
