/* SPDX-License-Identifier: Apache-2.0 */
/* init_models.c - which of a source's models suits a table: each is trained and scored on folds.
 *
 *  (1) rows that the job will be tested on are in no fold: they say nothing about the choice.
 *  (2) all models are scored on the same folds, so that differences are of pairs.
 *  (3) nothing is kept: runs have no directory, and an interruption leaves nothing. */
#include "query/init_models.h"

#include "base/json.h"
#include "base/statistics.h"
#include "run/open_engine.h"
#include "run/run.h"

#include <math.h>
#include <stdlib.h>

#define MODELS_MOST 8
#define ROWS_LEAST  50
/* Of the standard error of a difference: what is less says nothing.  A whole error would leave
 * small and straight tables with too large a model. */
#define NOISE 0.33
/* What is tried takes some seconds: multiplications of all runs, with those that a sample costs
 * whatever the model is. */
#define WORK_MOST   2.5e11
#define WORK_SAMPLE 10000.0

struct score {
	double loss[TW_INIT_FOLDS]; /* NAN: the run diverged */
	double mean;                /* NAN: one of them did */
};

static void show(const struct tw_init_trials *t, size_t models, size_t model, unsigned fold)
{
	char text[100];

	snprintf(text, sizeof text, "trying models: run %zu of %zu",
		 model * TW_INIT_FOLDS + fold + 1, models * TW_INIT_FOLDS);
	if (t->show)
		t->show(t->show_arg, text);
}

static enum tw_status open_trial(const struct tw_init_trials *t, const struct tw_source_model *m,
				 unsigned fold, struct tw_job **out, struct tw_error *why)
{
	char *text = NULL, place[40];
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	enum tw_status st;

	if (!f)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	snprintf(place, sizeof place, "%u/%u of train", fold + 1, TW_INIT_FOLDS);
	/* of the folds that are trained on, some is held out for validation at most */
	t->put(f, t->arg, m, place, t->rows * (TW_INIT_FOLDS - 1) / TW_INIT_FOLDS * 4 / 5);
	fclose(f);
	st = tw_job_read_text(t->name, text, bytes, NULL, 0, NULL, TW_WORLD_SIM, out, why);
	free(text);
	return st;
}

/* The test set is the fold; with a validation set it is scored beside it. */
static double loss_of(const json_t *result)
{
	const json_t *test = json_object_get(result, "test");

	return tw_real_at(json_is_object(test) ? test : result, "loss");
}

static enum tw_status try_once(const struct tw_init_trials *t, const struct tw_source_model *m,
			       unsigned fold, double *loss, struct tw_error *why)
{
	const struct tw_run_request request = { .log = NULL };
	struct tw_job *job = NULL;
	json_t *result = NULL;
	enum tw_status st = open_trial(t, m, fold, &job, why);

	*loss = (double)NAN;
	if (st == TW_OK)
		st = tw_run(&request, job, &result, why);
	if (st == TW_OK)
		*loss = loss_of(result);
	else if (result && json_is_true(json_object_get(result, "diverged")))
		st = TW_OK;
	json_decref(result);
	tw_job_free(job);
	return st;
}

static enum tw_status try_all(const struct tw_init_trials *t, size_t models, struct score *score,
			      struct tw_error *why)
{
	enum tw_status st = TW_OK;

	for (size_t m = 0; m < models; m++) {
		double sum = 0;

		for (unsigned k = 0; k < TW_INIT_FOLDS && st == TW_OK; k++) {
			show(t, models, m, k);
			st = try_once(t, &t->model[m], k, &score[m].loss[k], why);
			sum += score[m].loss[k];
		}
		score[m].mean = sum / TW_INIT_FOLDS;
	}
	return st;
}

/* A model of which a fold diverged has no mean: it is never chosen, and no loss of it compared. */
static bool diverges(const struct score *s)
{
	return !isfinite(s->mean);
}

/* The least mean; `models` where all diverge. */
static size_t least(const struct score *score, size_t models)
{
	size_t best = models;

	for (size_t m = 0; m < models; m++)
		if (!diverges(&score[m]) && (best == models || score[m].mean < score[best].mean))
			best = m;
	return best;
}

/* How much less than a's the loss of b is, and the standard error of that. */
static double gain(const struct score *a, const struct score *b, double *error)
{
	double less[TW_INIT_FOLDS];
	struct tw_summary s;

	for (unsigned k = 0; k < TW_INIT_FOLDS; k++)
		less[k] = a->loss[k] - b->loss[k];
	s = tw_summarise(less, TW_INIT_FOLDS);
	*error = s.deviation / sqrt((double)s.n);
	return s.mean;
}

/* The first one that is as good as the best but for noise. */
static size_t choose(const struct score *score, size_t best)
{
	double error;

	for (size_t m = 0; m < best; m++)
		if (!diverges(&score[m]) && gain(&score[m], &score[best], &error) <= NOISE * error)
			return m;
	return best;
}

/* --- what is said --- */

static void note(json_t *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(json_t *notes, const char *format, ...)
{
	char text[1000];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	json_array_append_new(notes, json_string(text));
}

static void say_tried(const struct tw_init_trials *t, const struct score *score, size_t models,
		      json_t *notes)
{
	char text[700];
	size_t n = 0;

	for (size_t m = 0; m < models && n < sizeof text; m++)
		n += (size_t)snprintf(text + n, sizeof text - n,
				      diverges(&score[m]) ? "%s%s (diverges)" : "%s%s (%.4g)",
				      m ? ", " : "", t->model[m].what, score[m].mean);
	note(notes, "tried %zu models with %d folds of %lld rows, by loss: %s", models,
	     TW_INIT_FOLDS, t->rows, text);
}

static void say_chosen(const struct tw_init_trials *t, const struct score *score, size_t best,
		       size_t chosen, json_t *notes)
{
	size_t other = chosen;
	double error, less;

	if (chosen == best) /* against the first that did not diverge */
		for (other = 0; diverges(&score[other]); other++)
			;
	less = gain(&score[other], &score[best], &error);
	if (other == best)
		note(notes, "%s: the loss is the least", t->model[best].what);
	else if (chosen == best)
		note(notes, "%s: the loss is below that of %s by %.3g, standard error %.3g",
		     t->model[best].what, t->model[other].what, less, error);
	else
		note(notes, "%s: the loss of %s is below by %.3g, but the standard error is %.3g",
		     t->model[chosen].what, t->model[best].what, less, error);
}

static json_t *report(const struct tw_init_trials *t, const struct score *score, size_t models,
		      size_t chosen)
{
	json_t *list = json_array();

	for (size_t m = 0; m < models; m++) {
		json_t *losses = json_array();

		for (unsigned k = 0; k < TW_INIT_FOLDS; k++)
			json_array_append_new(losses, tw_json_number(score[m].loss[k]));
		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:o, s:b}", "what", t->model[m].what,
						"loss", tw_json_number(score[m].mean), "losses",
						losses, "chosen", m == chosen));
	}
	return list;
}

/* --- tables that are not tried --- */

/* Multiplications of a run of the first model, about. */
static enum tw_status run_work(const struct tw_init_trials *t, double *work, struct tw_error *why)
{
	struct tw_engine *e = NULL;
	struct tw_job *job = NULL;
	enum tw_status st = open_trial(t, t->model, 0, &job, why);

	if (st == TW_OK)
		st = tw_job_open_engine(job, &tw_heap_system, &e, why);
	if (st == TW_OK) {
		*work = (double)t->rows * ((double)e->trainable + WORK_SAMPLE) * job->train.epochs;
		e->class->close(e);
	}
	tw_job_free(job);
	return st;
}

/* Is it worth it, and how long would it take?  Nothing is opened where the rows alone are too
 * many. */
static enum tw_status worth(const struct tw_init_trials *t, size_t models, json_t *notes, bool *out,
			    struct tw_error *why)
{
	const double runs = (double)(models * TW_INIT_FOLDS);
	double work = (double)t->rows * WORK_SAMPLE;
	enum tw_status st = TW_OK;

	*out = false;
	if (t->rows < ROWS_LEAST) {
		note(notes,
		     "the usual model: %lld rows are too few to try others (%d would be enough)",
		     t->rows, ROWS_LEAST);
		return TW_OK;
	}
	if (work * runs <= WORK_MOST)
		st = run_work(t, &work, why);
	*out = st == TW_OK && work * runs <= WORK_MOST;
	if (st == TW_OK && !*out)
		note(notes,
		     "the usual model: it would take long to try others on %lld rows of %lld "
		     "inputs",
		     t->rows, t->inputs);
	return st;
}

enum tw_status tw_init_choose(const struct tw_init_trials *t, const struct tw_source_model **chosen,
			      json_t **out, struct tw_error *why)
{
	struct score score[MODELS_MOST] = { 0 };
	json_t *notes = json_array();
	size_t models = 0, best, at;
	bool tries;
	enum tw_status st;

	while (models < MODELS_MOST && t->model[models].what)
		models++;
	st = worth(t, models, notes, &tries, why);
	if (st == TW_OK && tries)
		st = try_all(t, models, score, why);
	if (st != TW_OK) {
		json_decref(notes);
		return st;
	}
	best = at = models;
	if (tries) {
		say_tried(t, score, models, notes);
		best = least(score, models);
	}
	if (best < models) {
		at = choose(score, best);
		say_chosen(t, score, best, at, notes);
	} else if (tries) {
		note(notes, "the usual model: all that were tried diverge");
	}
	*chosen = at < models ? &t->model[at] : NULL;
	*out = json_pack("{s:o, s:o}", "models", report(t, score, tries ? models : 0, at), "notes",
			 notes);
	return *out ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for the result");
}
