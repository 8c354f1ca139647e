/* SPDX-License-Identifier: Apache-2.0 */
/* trained_model.c - a trained network, ready to compute. */
#include "query/trained_model.h"

#include "engine/network.h"
#include "checkpoint/tensors.h"
#include "run/open_engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The job's engine; neither initial weights nor batches ahead are needed. */
static enum tw_status open_engine(struct tw_trained *t, struct tw_error *why)
{
	t->job->network.weights = "";
	t->job->data.set.prefetch = 0;
	return tw_job_open_engine(t->job, &tw_heap_system, &t->engine, why);
}

/* What the job's network is must be what the parameters are of. */
static enum tw_status check_fit(struct tw_trained *t, struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_tensors want;
	enum tw_status st = tw_tensors_of_engine(heap, t->engine, &want);

	if (st == TW_OK)
		st = tw_snapshot_check(t->snapshot, &want, why);
	tw_tensors_release(&want);
	return st == TW_NO_MEMORY ? tw_fail(why, st, "no memory for the parameters") : st;
}

static enum tw_status no_card(const struct tw_trained *t, const char *path, struct tw_error *why)
{
	return tw_fail(
		why, TW_BAD_INPUT,
		"%.300s has no model card: it was not exported by thalweg; name its job with "
		"--job JOB",
		path);
}

/* A checkpoint of an earlier version has a job, which makes the card if its data is here. */
static enum tw_status make_card(struct tw_trained *t, const char *path,
				const struct tw_query_words *words, const struct tw_log *log,
				struct tw_error *why)
{
	enum tw_status st = TW_OK;

	if (!t->engine) {
		if (!t->snapshot->manifest)
			return no_card(t, path, why);
		st = tw_snapshot_job(t->snapshot, words->set, words->sets, &t->job, why);
		if (st == TW_OK)
			st = open_engine(t, why);
		if (st == TW_OK)
			tw_log_line(log, TW_WARNING, "card",
				    "%.300s is of an earlier version and has no model card: values "
				    "are normalised by the data as it is now",
				    t->snapshot->path);
	}
	if (st == TW_OK)
		st = tw_card_make(t->job, t->engine, &t->card, why);
	t->made = true;
	return st;
}

static enum tw_status find_card(struct tw_trained *t, const char *path,
				const struct tw_query_words *words, const struct tw_log *log,
				struct tw_error *why)
{
	enum tw_status st = tw_snapshot_card(t->snapshot, &t->card, why);

	if (st == TW_ABSENT)
		st = make_card(t, path, words, log, why);
	return st == TW_OK ? tw_card_computes(t->card, path, why) : st;
}

static enum tw_status find_network(struct tw_trained *t, const char *path, struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_error said = { 0 };
	const struct tw_graph_node *end;
	enum tw_status st = tw_card_graph(t->card, heap, &t->graph, &said);

	if (st != TW_OK)
		return tw_fail(why, st, "%.300s: %s", path, said.text);
	end = &t->graph->node[t->graph->nodes - 1];
	t->outputs = (uint32_t)tw_shape_size(&t->graph->node[end->in[0]].shape);
	t->reading = tw_card_reading(t->graph);
	t->memory = t->snapshot->job ? t->snapshot->job->checkpoint.memory : UINT64_MAX;
	st = (t->graph->trainable + t->graph->buffers) * sizeof(float) > t->memory
		     ? tw_snapshot_is_of(t->snapshot, t->graph, why)
		     : tw_snapshot_vector(t->snapshot, t->graph, heap, &t->vector, why);
	return st == TW_OK ? tw_card_expand(t->card, why) : st;
}

enum tw_status tw_trained_take(struct tw_snapshot *s, struct tw_job *job, const char *path,
			       const struct tw_query_words *words, const struct tw_log *log,
			       struct tw_trained *out, struct tw_error *why)
{
	struct tw_trained t = { .snapshot = s, .job = job };
	enum tw_status st = job ? open_engine(&t, why) : TW_OK;

	if (st == TW_OK && job)
		st = check_fit(&t, why);
	if (st == TW_OK)
		st = find_card(&t, path, words, log, why);
	if (st == TW_OK)
		st = find_network(&t, path, why);
	if (st == TW_OK)
		*out = t;
	else
		tw_trained_close(&t);
	return st;
}

enum tw_status tw_trained_open(const char *path, const char *job,
			       const struct tw_query_words *words, const struct tw_log *log,
			       struct tw_trained *out, struct tw_error *why)
{
	struct tw_snapshot *s = NULL;
	struct tw_job *j = NULL;
	enum tw_status st = tw_snapshot_open(path, log, &s, why);

	if (st == TW_OK && job)
		st = tw_query_job(job, words, &j, why);
	if (st == TW_OK)
		return tw_trained_take(s, j, path, words, log, out, why);
	tw_snapshot_close(s);
	return st;
}

void tw_trained_close(struct tw_trained *t)
{
	tw_heap_system.put(&tw_heap_system, t->vector);
	tw_graph_free(t->graph);
	tw_card_free(t->card);
	if (t->engine)
		t->engine->class->close(t->engine);
	tw_job_free(t->job);
	tw_snapshot_close(t->snapshot);
	*t = (struct tw_trained){ .snapshot = NULL };
}

/* --- rows --- */

enum tw_status tw_trained_rows(const struct tw_trained *t, const struct tw_rows_request *request,
			       const struct tw_log *log, struct tw_rows *out, struct tw_error *why)
{
	const struct tw_data *d = &t->card->data;
	struct tw_rows_facts facts = {
		.rank = d->rank,
		.kind = d->kind,
		.classes = d->classes,
		.targets = d->targets,
		.names = d->names,
		.columns = d->columns,
	};
	enum tw_status st;

	if (t->card->task == TW_CARD_TOKENS)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%.300s predicts the next token of a text, and takes no rows; use "
			"thalweg generate, or score another text with thalweg eval RUN --set "
			"data.test_file=FILE",
			t->snapshot->path);
	memcpy(facts.shape, d->shape, sizeof facts.shape);
	st = tw_rows_open(&facts, request, out, why);
	if (st != TW_OK)
		return st;
	for (unsigned k = 0; k < out->warnings.count; k++)
		tw_log_line(log, TW_WARNING, "data", "%s", out->warnings.text[k]);
	out->data->scale = d->scale;
	out->data->shift = d->shift;
	return TW_OK;
}

static enum tw_status read_floats(void *arg, size_t from, size_t n, float *out)
{
	struct tw_error why = { 0 };

	return tw_snapshot_floats(arg, from, n, out, &why);
}

#define PIECE ((size_t)1 << 18) /* floats that are digested at once */

static enum tw_status digest_range(const struct tw_trained *t, size_t from, size_t to, float *some,
				   char text[TW_DIGEST_TEXT], struct tw_error *why)
{
	struct tw_digest *d = tw_digest_new();
	enum tw_status st = d ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for a digest");

	for (size_t n; st == TW_OK && from < to; from += n) {
		n = to - from < PIECE ? to - from : PIECE;
		st = tw_snapshot_floats(t->snapshot, from, n, some, why);
		if (st == TW_OK)
			tw_digest_add(d, some, n * sizeof *some);
	}
	if (st == TW_OK)
		tw_digest_text(d, text);
	tw_digest_free(d);
	return st;
}

enum tw_status tw_trained_digests(const struct tw_trained *t, char trained[TW_DIGEST_TEXT],
				  char buffers[TW_DIGEST_TEXT], struct tw_error *why)
{
	const size_t turn = t->graph->trainable, all = turn + t->graph->buffers;
	float *some;
	enum tw_status st;

	if (t->vector) {
		tw_digest_bytes(t->vector, turn * sizeof(float), trained);
		tw_digest_bytes(t->vector + turn, (all - turn) * sizeof(float), buffers);
		return TW_OK;
	}
	some = malloc(PIECE * sizeof *some);
	st = some ? digest_range(t, 0, turn, some, trained, why)
		  : tw_fail(why, TW_NO_MEMORY, "no memory for a digest");
	if (st == TW_OK)
		st = digest_range(t, turn, all, some, buffers, why);
	free(some);
	return st;
}

enum tw_status tw_trained_forward(const struct tw_trained *t, const struct tw_data *data,
				  struct tw_forward **out, struct tw_error *why)
{
	const struct tw_forward_facts facts = {
		.graph = t->graph,
		.vector = t->vector,
		.load = read_floats,
		.load_arg = t->snapshot,
		.memory = t->memory,
		.data = data,
		.batch = t->card->batch,
		.own_input = t->card->task == TW_CARD_INPUT,
	};

	return tw_forward_open(&tw_heap_system, &facts, out, why);
}

/* --- outputs --- */

uint32_t tw_trained_values(const struct tw_trained *t)
{
	return t->card->task == TW_CARD_CLASSES ? t->card->data.classes : t->outputs;
}

static float sigmoid(double y)
{
	return (float)(y >= 0 ? 1 / (1 + exp(-y)) : exp(y) / (1 + exp(y)));
}

static void softmax(const float *y, uint32_t n, float *out)
{
	double most = (double)y[0], sum = 0;

	for (uint32_t k = 1; k < n; k++)
		most = (double)y[k] > most ? (double)y[k] : most;
	for (uint32_t k = 0; k < n; k++)
		sum += exp((double)y[k] - most);
	for (uint32_t k = 0; k < n; k++)
		out[k] = (float)(exp((double)y[k] - most) / sum);
}

void tw_trained_read(const struct tw_trained *t, const float *y, float *out)
{
	const uint32_t n = t->outputs;

	if (t->reading == TW_READ_VALUES) {
		memcpy(out, y, n * sizeof *y);
	} else if (t->reading == TW_READ_SOFTMAX) {
		softmax(y, n, out);
	} else if (t->card->task == TW_CARD_CLASSES) { /* one output of two classes */
		out[0] = sigmoid(-(double)y[0]);
		out[1] = sigmoid((double)y[0]);
	} else {
		for (uint32_t k = 0; k < n; k++)
			out[k] = sigmoid((double)y[k]);
	}
}

uint32_t tw_trained_class(const struct tw_trained *t, const float *y)
{
	uint32_t best = 0;

	if (t->outputs == 1)
		return y[0] > 0.0f;
	for (uint32_t k = 1; k < t->outputs; k++)
		if (y[k] > y[best])
			best = k;
	return best;
}

bool tw_trained_silent(const struct tw_trained *t, const float *y)
{
	for (uint32_t k = 0; k < t->outputs; k++)
		if (!isfinite(y[k]))
			return true;
	return false;
}
