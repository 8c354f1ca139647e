/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - trained parameters scored on a set of data. */
#include "query/query.h"

#include "base/json.h"
#include "engine/network.h"
#include "engine/score.h"
#include "graph/loss.h"
#include "checkpoint/digest.h"
#include "spec/field.h"
#include "query/predictions.h"
#include "query/quality.h"
#include "query/token_figures.h"
#include "metrics/progress.h"
#include "checkpoint/tensors.h"
#include "run/open_engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PATH 8200

static const char *const set_name[] = {
	[TW_SET_TEST] = "test",
	[TW_SET_VALIDATION] = "validation",
	[TW_SET_TRAIN] = "train",
};

/* --- what both kinds of models need --- */

struct scored {
	const char *set, *path;
	char trained[TW_DIGEST_TEXT], buffers[TW_DIGEST_TEXT];
	struct tw_score score;
	double seconds;
};

static enum tw_status report(const struct scored *e, json_t **out, struct tw_error *why)
{
	const double n = (double)e->score.samples;

	*out = json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:s, s:s, s:s}", "set", e->set, "loss",
			 tw_json_number(e->score.loss / n), "accuracy",
			 e->score.correct < 0 ? json_null() : tw_json_number(e->score.correct / n),
			 "samples", (json_int_t)e->score.samples, "seconds",
			 tw_json_number(e->seconds), "samples_per_second",
			 tw_json_number(e->seconds > 0 ? n / e->seconds : 0.0), "checkpoint",
			 e->path, "parameters_digest", e->trained, "buffers_digest", e->buffers);
	return *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the result");
}

/* --- a model that makes its samples up --- */

struct made_up {
	struct tw_job *job;
	struct tw_engine *engine;
	float *vector;
	void *scratch;
};

static enum tw_status find_vector(struct made_up *e, const struct tw_snapshot *s,
				  struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_tensors want;
	enum tw_status st = tw_tensors_of_engine(heap, e->engine, &want);

	if (st == TW_OK)
		st = tw_snapshot_fit(s, &want, heap, &e->vector, why);
	tw_tensors_release(&want);
	return st == TW_NO_MEMORY ? tw_fail(why, st, "no memory for the parameters") : st;
}

static enum tw_status check_made_up(const struct tw_eval_request *r, struct tw_error *why)
{
	if (r->on != TW_SET_TEST)
		return tw_fail(why, TW_BAD_INPUT,
			       "--on: the job generates its samples and has no %s set; leave "
			       "--on out",
			       set_name[r->on]);
	if (r->predictions || *r->data || r->worst)
		return tw_fail(why, TW_BAD_INPUT,
			       "--%s: the job's model predicts nothing; use it with a network",
			       *r->data         ? "data"
			       : r->predictions ? "predictions"
						: "worst");
	return TW_OK;
}

static enum tw_status eval_made_up(const struct tw_eval_request *r, const struct tw_snapshot *s,
				   struct tw_job *job, json_t **out, struct tw_error *why)
{
	struct tw_heap *heap = &tw_heap_system;
	struct made_up e = { .job = job };
	struct scored done = { .set = set_name[r->on], .path = s->path };
	enum tw_status st = check_made_up(r, why);
	int64_t began = 0;

	if (st == TW_OK)
		st = tw_job_open_engine(e.job, heap, &e.engine, why);
	if (st == TW_OK)
		st = find_vector(&e, s, why);
	if (st == TW_OK && !(e.scratch = heap->get(heap, e.engine->scratch_bytes + TW_ALIGN)))
		st = tw_fail(why, TW_NO_MEMORY, "no memory to evaluate");
	if (st == TW_OK) {
		began = tw_clock();
		st = tw_score_all(e.engine, e.vector, e.scratch, &done.score);
		if (st != TW_OK)
			tw_fail(why, st, "the samples cannot be scored: %s", tw_status_name(st));
	}
	if (st == TW_OK) {
		done.seconds = (double)(tw_clock() - began) / 1e9;
		tw_digest_bytes(e.vector, e.engine->trainable * sizeof(float), done.trained);
		tw_digest_bytes(e.vector + e.engine->trainable, e.engine->buffers * sizeof(float),
				done.buffers);
		st = report(&done, out, why);
	}
	heap->put(heap, e.scratch);
	heap->put(heap, e.vector);
	if (e.engine)
		e.engine->class->close(e.engine);
	return st;
}

/* --- which samples --- */

struct eval {
	const struct tw_eval_request *request;
	struct tw_trained t;
	struct tw_job *job;     /* of the checkpoint, with what --set said */
	struct tw_data *opened; /* its data */
	struct tw_rows rows;    /* or those of a file */
	struct tw_data data;    /* whichever, as the network sees it */
	const struct tw_samples *set;
	struct tw_predictions *lines;
	struct tw_quality *quality; /* NULL: it predicts its own input, or tokens */
	struct tw_token_figures tokens;
	struct scored done;
};

static enum tw_status take_rows(struct eval *e, const char *file, const char *answers,
				struct tw_error *why)
{
	const struct tw_rows_request from = {
		.heap = &tw_heap_system,
		.file = file,
		.answers = answers,
		.separator = e->request->separator,
		.score = e->t.card->task != TW_CARD_INPUT,
	};
	const enum tw_status st = tw_trained_rows(&e->t, &from, e->request->log, &e->rows, why);

	if (st != TW_OK)
		return st;
	e->data = *e->rows.data;
	e->set = &e->rows.data->test;
	return TW_OK;
}

/* The same classes in the same order. */
static bool same_answers(const struct tw_data *a, const struct tw_data *b)
{
	if (a->classes != b->classes || a->targets != b->targets || a->tokens != b->tokens)
		return false;
	for (uint32_t k = 0; k < a->classes && a->names.answer && b->names.answer; k++)
		if (strcmp(a->names.answer[k], b->names.answer[k]) != 0)
			return false;
	return true;
}

static enum tw_status check_data(const struct eval *e, const struct tw_data *d,
				 struct tw_error *why)
{
	const struct tw_data *want = &e->t.card->data;

	if (d->rank != want->rank || memcmp(d->shape, want->shape, sizeof d->shape) != 0)
		return tw_fail(why, TW_BAD_INPUT,
			       "the samples of %.300s have %zu values, and the network takes %zu "
			       "in another shape",
			       e->job ? e->job->file : e->t.job->file, d->features, want->features);
	for (size_t k = 0; d->names.column && want->names.column && k < want->features; k++)
		if (strcmp(d->names.column[k], want->names.column[k]) != 0)
			return tw_fail(why, TW_BAD_INPUT,
				       "column %zu of the data (without the one to predict) is "
				       "'%.100s', but was '%.100s' in the training; score on "
				       "the file itself, whose columns are matched by name: "
				       "--data FILE",
				       k + 1, d->names.column[k], want->names.column[k]);
	if (e->t.card->task != TW_CARD_INPUT && !same_answers(d, want))
		return tw_fail(why, TW_BAD_INPUT,
			       "the classes of the data are not those that the network was trained "
			       "on; score on a file with its classes: --data FILE");
	return TW_OK;
}

/* Is it what the network was trained on?  A set that is drawn from changed samples has some that
 * were trained on. */
static enum tw_status check_print(const struct eval *e, const struct tw_data *d,
				  struct tw_error *why)
{
	const struct tw_eval_request *r = e->request;
	const struct tw_card *c = e->t.card;
	const bool drawn = c->drawn && !(d->tokens && d->hold == TW_HOLD_FILE);
	char print[TW_SHA_TEXT];

	tw_sha_text(&d->fingerprint, print);
	if (e->t.made || strcmp(print, c->fingerprint) == 0)
		return TW_OK;
	if (!r->job && (drawn || r->on != TW_SET_TEST))
		return tw_fail(why, TW_BAD_INPUT,
			       "--on %s: the data, or how it is split, differs from what "
			       "%.200s was trained on: the %s set drawn now %s; name a file of "
			       "other samples: --data FILE, or --set data.test_file=FILE",
			       set_name[r->on], e->t.snapshot->path, set_name[r->on],
			       r->on == TW_SET_TRAIN ? "is a different one"
						     : "would contain training samples");
	tw_log_line(r->log, TW_WARNING, "data",
		    "the data differs from what %s was trained on (its fingerprint is %s, not "
		    "%s): the figures are not those of the training",
		    e->t.snapshot->path, print, c->fingerprint);
	return TW_OK;
}

static enum tw_status take_set(struct eval *e, const struct tw_data *d, struct tw_error *why)
{
	const struct tw_eval_request *r = e->request;
	enum tw_status st;

	e->set = tw_data_set(d, r->on);
	if (!e->set->count)
		return tw_fail(why, TW_BAD_INPUT, "--on: there are no %s samples%s",
			       set_name[r->on],
			       r->on == TW_SET_VALIDATION ? "; data.validation says how many are "
							    "held out"
							  : "");
	st = check_data(e, d, why);
	if (st == TW_OK)
		st = check_print(e, d, why);
	e->data = *d;
	e->data.scale = e->t.card->data.scale;
	e->data.shift = e->t.card->data.shift;
	return st;
}

/* The card says how the network computes.  A field that says so too would be read and do
 * nothing. */
static enum tw_status check_words(const struct tw_query_words *w, struct tw_error *why)
{
	static const char *const without[] = { "normalise", "batch", "global_batch", "accumulate",
					       "shift",     "flip",  "noise",        "prefetch",
					       "predict",   NULL };

	for (size_t k = 0; k < w->sets; k++) {
		const size_t n = strcspn(w->set[k], "=");
		bool useless = strncmp(w->set[k], "data.", 5) != 0;

		for (size_t i = 0; without[i] && !useless; i++)
			useless = n == 5 + strlen(without[i]) &&
				  strncmp(w->set[k] + 5, without[i], n - 5) == 0;
		if (useless)
			return tw_fail(why, TW_BAD_INPUT,
				       "--set %.*s: eval takes this from the model card; only "
				       "fields that choose the samples can be set here, such "
				       "as data.test_file",
				       (int)(n < 80 ? n : 80), w->set[k]);
	}
	return TW_OK;
}

static enum tw_status job_set(struct eval *e, struct tw_error *why)
{
	const struct tw_eval_request *r = e->request;
	enum tw_status st = e->t.made ? TW_OK : check_words(&r->words, why);
	char *file = st == TW_OK ? malloc(2 * PATH) : NULL;

	if (st != TW_OK)
		return st;
	if (!file)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a path");
	if (!e->t.job)
		st = tw_snapshot_job(e->t.snapshot, r->words.set, r->words.sets, &e->job, why);
	if (st == TW_OK && r->on == TW_SET_TEST && !e->t.made && !e->t.card->data.tokens &&
	    tw_job_test_files(e->job ? e->job : e->t.job, file, file + PATH)) {
		st = take_rows(e, file, file + PATH, why);
	} else if (st == TW_OK && e->t.engine) {
		st = take_set(e, tw_network_data(e->t.engine), why);
	} else if (st == TW_OK) {
		st = tw_job_open_data(e->job, &tw_heap_system, &e->opened, why);
		if (st == TW_OK)
			st = take_set(e, e->opened, why);
	}
	free(file);
	return st;
}

static enum tw_status find_samples(struct eval *e, struct tw_error *why)
{
	const struct tw_eval_request *r = e->request;

	if (e->t.card->standalone && e->t.card->task == TW_CARD_INPUT)
		return tw_fail(
			why, TW_BAD_INPUT,
			"%.300s was exported with --standalone and predicts its input after "
			"normalisation, which it has inside; score the run or a plain export",
			r->path);
	e->done.set = *r->data ? "data" : set_name[r->on];
	if (*r->data && r->on != TW_SET_TEST)
		return tw_fail(why, TW_BAD_INPUT,
			       "--on cannot be combined with --data, whose file is a single "
			       "set; leave --on out");
	if (*r->data)
		return take_rows(e, r->data, r->answers, why);
	if (!e->t.snapshot->manifest && !r->job)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.300s knows its network, but not where its data is; name samples "
			       "with --data FILE, or their job with --job JOB",
			       r->path);
	return job_set(e, why);
}

/* --- scoring --- */

/* Are the targets such as the loss can take?  *judged: predictions are right or wrong, because
 * there are labels, or each target is 0 or 1. */
static enum tw_status check_targets(const struct eval *e, bool *judged, struct tw_error *why)
{
	const struct tw_loss *loss = tw_graph_loss(e->t.graph);
	const uint32_t n = e->data.targets;

	*judged = loss->judges && e->t.card->task != TW_CARD_INPUT;
	if (e->t.card->task != TW_CARD_VALUES)
		return TW_OK;
	for (uint64_t i = 0; i < e->set->count * n; i++) {
		const float v = e->set->target[i];

		if ((loss->takes & TW_LOSS_UNIT) && !(v >= 0 && v <= 1))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s needs targets from 0 to 1, but row %" PRIu64 " has %g",
				       loss->op.name, i / n + 1, (double)v);
		*judged &= v == 0 || v == 1;
	}
	return TW_OK;
}

static enum tw_status begin_lines(struct eval *e, const struct tw_predictions_request *to,
				  struct tw_error *why)
{
	const struct tw_predictions_facts facts = {
		.trained = &e->t,
		.set = e->set,
		.known = e->rows.known,
		.answers = !e->rows.data || e->rows.answers > 0,
		.extra = e->rows.data ? &e->rows : NULL,
	};

	return to->to ? tw_predictions_open(to, &facts, &e->lines, why) : TW_OK;
}

static enum tw_status begin_figures(struct eval *e, struct tw_error *why)
{
	const struct tw_quality_facts facts = {
		.trained = &e->t,
		.set = e->set,
		.extra = e->rows.data ? &e->rows : NULL,
		.worst = e->request->worst,
	};

	if (e->t.card->task == TW_CARD_TOKENS && (facts.worst || e->request->predictions))
		return tw_fail(why, TW_BAD_INPUT,
			       "--%s: the network predicts a token at each position of a text, and "
			       "has no prediction of a row; leave it out",
			       facts.worst ? "worst" : "predictions");
	if (e->t.card->task == TW_CARD_TOKENS)
		return TW_OK;
	if (e->t.card->task != TW_CARD_INPUT)
		return tw_quality_open(&facts, &e->quality, why);
	if (facts.worst)
		return tw_fail(why, TW_BAD_INPUT,
			       "--worst: the network predicts its input, and rows are ranked by "
			       "predicted classes or values; write all outputs with --predictions "
			       "FILE");
	return TW_OK;
}

static enum tw_status score_set(struct eval *e, struct tw_forward *f, float *y,
				struct tw_error *why)
{
	const uint32_t block = tw_forward_block(f);

	for (uint64_t from = 0; from < e->set->count; from += block) {
		const uint64_t left = e->set->count - from;
		const uint32_t n = left < block ? (uint32_t)left : block;
		const enum tw_status st = tw_forward_run(f, e->set, from, n, y, &e->done.score);

		if (st != TW_OK)
			return tw_fail(why, st, "sample %" PRIu64 " cannot be scored: %s", from,
				       tw_status_name(st));
		if (e->lines)
			tw_predictions_add(e->lines, from, n, y);
		if (e->quality)
			tw_quality_add(e->quality, from, n, y);
		if (e->data.tokens)
			tw_token_figures_add(&e->tokens, &e->data, e->set, from, n, y);
	}
	return TW_OK;
}

static enum tw_status score(struct eval *e, struct tw_error *why)
{
	struct tw_forward *f = NULL;
	float *y = NULL;
	bool judged = false;
	enum tw_status st = check_targets(e, &judged, why);
	const int64_t began = tw_clock();

	if (st == TW_OK)
		st = tw_trained_forward(&e->t, &e->data, &f, why);
	if (st == TW_OK && !(y = malloc((size_t)tw_forward_block(f) * e->t.outputs * sizeof *y)))
		st = tw_fail(why, TW_NO_MEMORY, "no memory to evaluate");
	if (st == TW_OK)
		st = score_set(e, f, y, why);
	if (!judged)
		e->done.score.correct = -1;
	e->done.seconds = (double)(tw_clock() - began) / 1e9;
	tw_forward_close(f);
	free(y);
	return st;
}

static struct tw_predictions_request lines_of(const struct tw_eval_request *r)
{
	return (struct tw_predictions_request){
		.flag = "--predictions",
		.to = r->predictions,
		.format = "",
		.any = true,
		.force = r->force,
		.log = r->log,
	};
}

static enum tw_status eval_network(const struct tw_eval_request *r, struct tw_snapshot *s,
				   struct tw_job *job, json_t **out, struct tw_error *why)
{
	const struct tw_predictions_request to = lines_of(r);
	struct eval e = { .request = r };
	enum tw_status st = tw_trained_take(s, job, r->path, &r->words, r->log, &e.t, why);

	if (st == TW_OK)
		st = find_samples(&e, why);
	if (st == TW_OK)
		st = begin_figures(&e, why);
	if (st == TW_OK)
		st = begin_lines(&e, &to, why);
	if (st == TW_OK)
		st = score(&e, why);
	if (e.lines) {
		const enum tw_status closed = tw_predictions_close(e.lines, st == TW_OK, why);

		st = st == TW_OK ? closed : st;
	}
	if (st == TW_OK) {
		e.done.path = e.t.snapshot->path;
		st = tw_trained_digests(&e.t, e.done.trained, e.done.buffers, why);
		if (st == TW_OK)
			st = report(&e.done, out, why);
	}
	if (st == TW_OK && *r->data)
		json_object_set_new(*out, "data", json_string(r->data));
	if (st == TW_OK && e.data.tokens)
		tw_token_figures_report(&e.tokens, &e.data, *out);
	if (st == TW_OK && e.quality)
		st = tw_quality_report(e.quality, *out, why);
	tw_quality_free(e.quality);
	tw_data_close(e.opened);
	tw_data_close(e.rows.data);
	tw_job_free(e.job);
	tw_trained_close(&e.t);
	return st;
}

/* --- either --- */

static enum tw_status check_request(const struct tw_eval_request *r, struct tw_error *why)
{
	const struct tw_predictions_request to = lines_of(r);

	if (!*r->data && *r->answers)
		return tw_fail(why, TW_BAD_INPUT, "--answers needs --data FILE");
	if (!*r->data && r->separator && *r->separator)
		return tw_fail(why, TW_BAD_INPUT, "--separator needs --data FILE");
	if (*r->data && r->words.sets && !r->job)
		return tw_fail(why, TW_BAD_INPUT,
			       "--set and --data cannot be combined: --set changes the job, "
			       "which --data does not use; leave one of them out");
	return tw_predictions_check(&to, why);
}

enum tw_status tw_query_eval(const struct tw_eval_request *r, json_t **out, struct tw_error *why)
{
	struct tw_snapshot *s = NULL;
	struct tw_job *job = NULL;
	enum tw_model_kind kind = TW_MODEL_NETWORK;
	enum tw_status st = check_request(r, why);

	if (st == TW_OK)
		st = tw_snapshot_open(r->path, r->log, &s, why);
	if (st == TW_OK && r->job)
		st = tw_query_job(r->job, &r->words, &job, why);
	else if (st == TW_OK && s->manifest && s->job->model != TW_MODEL_NETWORK)
		st = tw_snapshot_job(s, r->words.set, r->words.sets, &job, why);
	if (job)
		kind = job->model;
	if (st == TW_OK && kind != TW_MODEL_NETWORK) {
		st = eval_made_up(r, s, job, out, why);
	} else if (st == TW_OK) {
		st = eval_network(r, s, job, out, why);
		s = NULL; /* both are taken */
		job = NULL;
	}
	tw_job_free(job);
	tw_snapshot_close(s);
	return st;
}
