/* SPDX-License-Identifier: Apache-2.0 */
/* look_eval.c - trained parameters scored on a set of data. */
#include "job/look.h"

#include "engine/network.h"
#include "job/digest.h"
#include "job/progress.h"
#include "job/tensors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_ONCE 1024u /* samples between lines of predictions */

static const char *const set_name[] = {
	[TW_SET_TEST] = "test",
	[TW_SET_VALIDATION] = "validation",
	[TW_SET_TRAIN] = "train",
};

/* --- a job, in any world --- */

static enum tw_status slurp(FILE *f, char **out, size_t *bytes, struct tw_error *why)
{
	*out = malloc(TW_JOB_BYTES_MAX + 1);
	if (!*out)
		return tw_fail(why, TW_NO_MEMORY, "no memory for standard input");
	*bytes = fread(*out, 1, TW_JOB_BYTES_MAX + 1, f);
	return TW_OK;
}

enum tw_status tw_look_job(const char *path, const struct tw_look_words *w, struct tw_job **out,
			   struct tw_error *why)
{
	const bool input = strcmp(path, "-") == 0;
	struct tw_error said = { 0 }, other = { 0 };
	enum tw_status st = TW_OK;
	char *text = NULL;
	size_t bytes = 0;

	if (input)
		st = slurp(stdin, &text, &bytes, why);
	for (int k = 0; k < 2 && st != TW_NO_MEMORY; k++) {
		const enum tw_world_kind world = k ? TW_WORLD_SIM : TW_WORLD_THREADS;
		struct tw_error *e = k ? &other : &said;

		st = input ? tw_job_read_text("standard input", text, bytes, w->set, w->sets,
					      w->environ_, world, out, e)
			   : tw_job_read(path, w->set, w->sets, w->environ_, world, out, e);
		if (st != TW_BAD_INPUT)
			break;
	}
	free(text);
	return st == TW_OK ? TW_OK : tw_fail(why, said.status, "%s", said.text);
}

/* --- one evaluation --- */

struct eval {
	const struct tw_eval_request *request;
	struct tw_snapshot *snapshot;
	struct tw_job *job; /* another than the snapshot's, or NULL */
	struct tw_engine *engine;
	float *vector;
	void *scratch;
	float *prediction;
	uint32_t outputs, classes;
	const struct tw_samples *set; /* NULL: the engine's own test samples */
	uint64_t samples;
	FILE *lines;
	char fresh[4200]; /* the predictions until they are whole */
	struct tw_score score;
	double seconds;
};

static enum tw_status find_job(struct eval *e, struct tw_error *why)
{
	const struct tw_eval_request *r = e->request;
	enum tw_status st;

	if (!r->job && !e->snapshot->manifest)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.300s has no job in it; say with --job JOB what it belongs to",
			       r->path);
	st = r->job ? tw_look_job(r->job, &r->words, &e->job, why)
		    : tw_snapshot_job(e->snapshot, r->words.set, r->words.sets, &e->job, why);
	if (st == TW_OK) { /* neither first values nor batches ahead are needed */
		e->job->network.weights = "";
		e->job->data.set.prefetch = 0;
	}
	return st;
}

static enum tw_status find_set(struct eval *e, struct tw_error *why)
{
	const struct tw_data *d = tw_network_data(e->engine);
	const enum tw_data_set on = e->request->on;

	if (!d && on != TW_SET_TEST)
		return tw_fail(why, TW_BAD_INPUT,
			       "--on: the job makes its samples up and has no %s set; leave --on "
			       "out",
			       set_name[on]);
	if (!d && e->request->predictions)
		return tw_fail(why, TW_BAD_INPUT,
			       "--predictions: the job's model predicts nothing; use it with a "
			       "network");
	e->samples = e->engine->tests;
	if (!d)
		return TW_OK;
	e->set = tw_data_set(d, on);
	e->samples = e->set->count;
	if (!e->samples)
		return tw_fail(why, TW_BAD_INPUT, "--on: there are no %s samples%s", set_name[on],
			       on == TW_SET_VALIDATION ? "; data.validation says how many are held "
							 "out"
						       : "");
	e->outputs = (uint32_t)tw_network_outputs(e->engine);
	e->classes = e->job->data.predict == TW_PREDICT_INPUT ? 0 : d->classes;
	return TW_OK;
}

static enum tw_status find_vector(struct eval *e, struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_tensors want;
	enum tw_status st = tw_tensors_of_engine(heap, e->engine, &want);

	if (st == TW_OK)
		st = tw_snapshot_fit(e->snapshot, &want, heap, &e->vector, why);
	tw_tensors_release(&want);
	return st == TW_NO_MEMORY ? tw_fail(why, st, "no memory for the parameters") : st;
}

/* --- predictions --- */

static enum tw_status begin_lines(struct eval *e, struct tw_error *why)
{
	const char *path = e->request->predictions;

	if (!path)
		return TW_OK;
	e->prediction =
		tw_heap_system.get(&tw_heap_system, (size_t)AT_ONCE * e->outputs * sizeof(float));
	if (!e->prediction)
		return tw_fail(why, TW_NO_MEMORY, "no memory for predictions");
	snprintf(e->fresh, sizeof e->fresh, "%.4000s.new", path);
	e->lines = fopen(e->fresh, "we");
	if (!e->lines)
		return tw_fail(why, TW_BAD_INPUT, "--predictions: %.300s cannot be written: %s",
			       path, strerror(errno));
	fprintf(e->lines, e->classes ? "index,label,predicted" : "index");
	for (uint32_t k = 0; k < e->outputs; k++)
		fprintf(e->lines, ",output_%u", k);
	fputc('\n', e->lines);
	return TW_OK;
}

/* The class of the largest output; one output alone is a logit of class 1. */
static uint32_t predicted(const float *y, uint32_t outputs)
{
	uint32_t best = 0;

	if (outputs == 1)
		return y[0] > 0.0f;
	for (uint32_t k = 1; k < outputs; k++)
		if (y[k] > y[best])
			best = k;
	return best;
}

static void write_lines(struct eval *e, uint64_t from, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		const float *y = e->prediction + (size_t)k * e->outputs;

		fprintf(e->lines, "%" PRIu64, from + k);
		if (e->classes)
			fprintf(e->lines, ",%u,%u", e->set->label[from + k],
				predicted(y, e->outputs));
		for (uint32_t i = 0; i < e->outputs; i++)
			fprintf(e->lines, ",%.9g", (double)y[i]);
		fputc('\n', e->lines);
	}
}

static enum tw_status end_lines(struct eval *e, struct tw_error *why)
{
	const char *path = e->request->predictions;
	bool failed;

	if (!e->lines)
		return TW_OK;
	failed = ferror(e->lines);
	failed |= fclose(e->lines) != 0;
	e->lines = NULL;
	if (failed || rename(e->fresh, path)) {
		const int cause = errno;

		unlink(e->fresh);
		return tw_fail(why, TW_IO, "--predictions: %.300s cannot be written: %s", path,
			       strerror(cause));
	}
	return TW_OK;
}

/* --- scoring --- */

static enum tw_status score(struct eval *e, struct tw_error *why)
{
	const struct tw_engine *engine = e->engine;
	const struct tw_piece all = { e->vector, 0, engine->trainable + engine->buffers };
	const int64_t began = tw_clock();

	for (uint64_t from = 0; from < e->samples; from += AT_ONCE) {
		const uint64_t left = e->samples - from;
		const struct tw_inputs in = {
			.from = from,
			.count = left < AT_ONCE ? (uint32_t)left : AT_ONCE,
			.piece = &all,
			.pieces = 1,
		};
		struct tw_score s = { 0 };
		const enum tw_status st =
			e->set ? tw_network_score(engine, e->scratch, e->set, &in, e->prediction,
						  &s)
			       : engine->class->evaluate(engine, e->scratch, &in, &s);

		if (st != TW_OK)
			return tw_fail(why, st, "sample %" PRIu64 " cannot be scored: %s", from,
				       tw_status_name(st));
		e->score.loss += s.loss;
		e->score.correct = s.correct < 0 ? -1 : e->score.correct + s.correct;
		e->score.samples += s.samples;
		if (e->lines)
			write_lines(e, from, in.count);
	}
	e->seconds = (double)(tw_clock() - began) / 1e9;
	return TW_OK;
}

static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static enum tw_status report(const struct eval *e, json_t **out, struct tw_error *why)
{
	const struct tw_engine *g = e->engine;
	const double n = (double)e->score.samples;
	char trained[TW_DIGEST_TEXT], buffers[TW_DIGEST_TEXT];

	tw_digest_bytes(e->vector, g->trainable * sizeof(float), trained);
	tw_digest_bytes(e->vector + g->trainable, g->buffers * sizeof(float), buffers);
	*out = json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:s, s:s, s:s}", "set",
			 set_name[e->request->on], "loss", number(e->score.loss / n), "accuracy",
			 e->score.correct < 0 ? json_null() : number(e->score.correct / n),
			 "samples", (json_int_t)e->score.samples, "seconds", number(e->seconds),
			 "samples_per_second", number(e->seconds > 0 ? n / e->seconds : 0.0),
			 "checkpoint", e->snapshot->path, "parameters_digest", trained,
			 "buffers_digest", buffers);
	return *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the result");
}

static void release(struct eval *e)
{
	struct tw_heap *heap = &tw_heap_system;

	if (e->lines) {
		fclose(e->lines);
		unlink(e->fresh);
	}
	heap->put(heap, e->prediction);
	heap->put(heap, e->scratch);
	heap->put(heap, e->vector);
	if (e->engine)
		e->engine->class->close(e->engine);
	tw_job_free(e->job);
	tw_snapshot_close(e->snapshot);
}

enum tw_status tw_look_eval(const struct tw_eval_request *r, json_t **out, struct tw_error *why)
{
	struct eval e = { .request = r };
	enum tw_status st = tw_snapshot_open(r->path, r->log, &e.snapshot, why);

	if (st == TW_OK)
		st = find_job(&e, why);
	if (st == TW_OK)
		st = tw_job_open_engine(e.job, &tw_heap_system, &e.engine, why);
	if (st == TW_OK)
		st = find_set(&e, why);
	if (st == TW_OK)
		st = find_vector(&e, why);
	if (st == TW_OK &&
	    !(e.scratch = tw_heap_system.get(&tw_heap_system, e.engine->scratch_bytes + TW_ALIGN)))
		st = tw_fail(why, TW_NO_MEMORY, "no memory to evaluate");
	if (st == TW_OK)
		st = begin_lines(&e, why);
	if (st == TW_OK)
		st = score(&e, why);
	if (st == TW_OK)
		st = end_lines(&e, why);
	if (st == TW_OK)
		st = report(&e, out, why);
	release(&e);
	return st;
}
