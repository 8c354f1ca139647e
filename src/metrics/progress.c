/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - listens to a run: how far it is, for people, and log.jsonl, for programs. */
#include "metrics/progress.h"

#include "base/json.h"
#include "base/printable.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENDLESS ((uint64_t)1 << 62) /* positions without a limit: see plan.c */

void tw_watch_init(struct tw_watch *w, const struct tw_plan *plan, struct tw_run_directory *dir,
		   tw_progress_show show, void *show_arg)
{
	*w = (struct tw_watch){
		.plan = plan,
		.dir = dir,
		.show = show,
		.show_arg = show_arg,
		.now = { .positions =
				 plan->dealing.positions < ENDLESS ? plan->dealing.positions : 0,
			 .loss = NAN,
			 .accuracy = -1.0,
			 .left = -1.0,
			 .drift = NAN,
			 .live = plan->crew.workers },
		.began = tw_clock(),
		.from = INT64_MIN,
		.rate = NAN,
		.updates = NAN,
	};
}

static json_t *accuracy(double x)
{
	return x < 0.0 ? json_null() : tw_json_number(x);
}

json_t *tw_progressive_json(const struct tw_progressive *s)
{
	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "samples",
			 (json_int_t)s->samples, "unscored", (json_int_t)s->unscored, "loss",
			 tw_json_number(s->loss), "accuracy", accuracy(s->accuracy), "since_loss",
			 tw_json_number(s->loss_since), "window", (json_int_t)s->window,
			 "window_loss", tw_json_number(s->loss_window), "window_accuracy",
			 accuracy(s->accuracy_window), "since_accuracy",
			 accuracy(s->accuracy_since));
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0.0;
}

static void reckon(struct tw_watch *w, int64_t clock)
{
	struct tw_progress *p = &w->now;
	const double dealt = (double)(p->dealt - w->first_dealt);

	p->seconds = (double)(clock - w->began) / (double)TW_SECOND;
	p->rate = p->seconds > 0.0 ? (p->samples - w->first) / p->seconds : 0.0;
	p->epochs = w->plan->problem.samples ? p->samples / (double)w->plan->problem.samples : 0.0;
	p->staleness = share(w->tau_sum, w->tau_count);
	p->left = dealt > 0.0 && p->seconds > 0.0 && p->positions > p->dealt
			  ? (double)(p->positions - p->dealt) * p->seconds / dealt
			  : -1.0;
}

static void progress(struct tw_watch *w, const struct tw_note *n)
{
	const struct tw_point *p = &n->progress.point;
	const uint64_t dealt = n->progress.dealt;

	if (!w->seen) {
		w->seen = true;
		w->first = p->samples;
		w->first_dealt = dealt;
	}
	w->now.samples = p->samples > w->first ? p->samples : w->first;
	w->now.dealt = dealt > w->first_dealt ? dealt : w->first_dealt;
	w->now.live = n->progress.live;
	if (!w->evaluated && isfinite(p->train_loss))
		w->now.loss = p->train_loss;
}

/* Workers that step by themselves skip what is not finite: the shards never see it. */
static void delta(struct tw_watch *w, uint32_t shard, const struct tw_account *a)
{
	if (!w->drifts)
		w->skip_shard = shard;
	w->drift += (double)a->drift;
	w->drifts++;
	w->now.drift = w->drift / (double)w->drifts;
	if (a->skipped && !w->skipped && w->log)
		tw_log_line(w->log, TW_WARNING, "run",
			    "a worker skipped a gradient that is not finite; is update.rate too "
			    "large?");
	w->skipped = w->skipped || a->skipped;
	if (a->own_steps)
		w->skips = 0;
	else if (shard == w->skip_shard)
		w->skips += a->skipped;
	if (w->skips >= 4u * w->plan->crew.workers + 16)
		w->diverged = true;
}

void tw_watch_line(struct tw_watch *w, json_t *line)
{
	tw_json_lines_put(&w->metrics, line);
	if (w->dir)
		tw_run_directory_log(w->dir, line);
	else
		json_decref(line);
}

/* Seconds on the run's own clock: earlier parts included. */
static double run_time(const struct tw_watch *w, int64_t at)
{
	return (double)at / (double)TW_SECOND + w->earlier.time;
}

static double run_seconds(const struct tw_watch *w, int64_t clock)
{
	return (double)(clock - w->began) / (double)TW_SECOND + w->earlier.seconds;
}

/* A number of single precision as its seven digits, not as the double that is next to it. */
static json_t *single(double x)
{
	char text[32];

	if (!isfinite(x))
		return json_null();
	snprintf(text, sizeof text, "%.7g", x);
	return json_real(strtod(text, NULL));
}

/* A stream has none. */
static double epochs_of(const struct tw_watch *w, double samples)
{
	return w->plan->online.keeps ? (double)NAN : samples / (double)w->plan->problem.samples;
}

/* What evaluations and progress have in common: the curves. */
static json_t *curve(const struct tw_watch *w, const struct tw_point *l)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "epochs",
			 tw_json_number(epochs_of(w, l->samples)), "samples",
			 tw_json_number(l->samples), "steps", tw_json_number(l->steps), "updates",
			 tw_json_number(l->updates), "train_loss", tw_json_number(l->train_loss),
			 "staleness", tw_json_number(l->staleness), "rate", single(l->rate));
}

/* How it goes, for programs: once a second. */
static void measure(struct tw_watch *w, const struct tw_note *n, int64_t clock)
{
	const struct tw_progress *p = &w->now;
	struct tw_point in;
	json_t *line, *rest;

	if (!w->metrics.file || n->kind != TW_NOTE_PROGRESS || n->at < w->from ||
	    clock - w->measured < TW_SECOND)
		return;
	w->measured = clock;
	in = n->progress.point;
	in.staleness = w->tau_count ? p->staleness : NAN;
	in.rate = w->rate;
	if (!isfinite(in.updates))
		in.updates = w->updates;
	line = json_pack("{s:s, s:f, s:f, s:I, s:I, s:o, s:f, s:i}", "event", "progress", "time",
			 run_time(w, n->at), "seconds", run_seconds(w, clock), "dealt",
			 (json_int_t)p->dealt, "bytes", (json_int_t)(n->bytes + w->earlier.bytes),
			 "loss", tw_json_number(p->loss), "samples_per_second", p->rate, "live",
			 (int)p->live);
	rest = curve(w, &in);
	if (line && w->plan->traffic.delta)
		json_object_set_new(line, "drift", tw_json_number(p->drift));
	if (line && rest) {
		json_object_update(line, rest);
		tw_json_lines_put(&w->metrics, line);
	}
	json_decref(rest);
	json_decref(line);
}

/* A line of log.jsonl; `time` is the world's clock at `at`. */
static void log_at(struct tw_watch *w, int64_t at, const char *event, json_t *rest)
{
	json_t *line;

	if ((!w->dir && !w->metrics.file) || !rest || at < w->from) {
		json_decref(rest);
		return;
	}
	line = json_pack("{s:s, s:f}", "event", event, "time", run_time(w, at));
	if (line)
		json_object_update(line, rest);
	json_decref(rest);
	tw_watch_line(w, line);
}

/* What a number on the wire means is in its lower half; the upper one says which master gave it. */
static uint32_t view_number(const struct tw_note *n)
{
	return (uint32_t)(n->view.number & UINT32_MAX);
}

/* The same for people, with -v. */
static void detail(const struct tw_watch *w, const struct tw_note *n)
{
	const double at = run_time(w, n->at);

	if (!w->log || w->log->level < TW_DEBUG || n->at < w->from)
		return;
	switch (n->kind) {
	case TW_NOTE_EVAL:
		tw_log_line(w->log, TW_DEBUG, "run",
			    "%.3f s: evaluation after %.4g epochs: loss %.6g", at,
			    n->eval.point.samples / (double)w->plan->problem.samples,
			    tw_unsigned_nan(n->eval.loss));
		return;
	case TW_NOTE_ITERATION:
		tw_log_line(w->log, TW_DEBUG, "run",
			    "%.3f s: iteration %" PRIu64 ": loss %.9g, gradient %.3g, step %.3g, "
			    "%" PRIu64 " evaluations",
			    at, n->iteration.iterations, tw_unsigned_nan(n->iteration.loss),
			    tw_unsigned_nan(n->iteration.gradient), n->iteration.step,
			    n->iteration.evaluations);
		return;
	case TW_NOTE_VIEW:
		tw_log_line(w->log, TW_DEBUG, "run", "%.3f s: view %u: %u workers live", at,
			    view_number(n), n->view.live);
		return;
	case TW_NOTE_CUT:
		tw_log_line(w->log, TW_DEBUG, "run", "%.3f s: checkpoint %" PRIu64 " is complete",
			    at, n->cut.number);
		return;
	case TW_NOTE_ROLLBACK:
		tw_log_line(w->log, TW_DEBUG, "run", "%.3f s: rolled back to checkpoint %" PRIu64,
			    at, n->cut.number);
		return;
	case TW_NOTE_HOSTED:
		tw_log_line(w->log, TW_DEBUG, "run",
			    "%.3f s: shard %u is taken at version %" PRIu64, at, n->shard,
			    n->version);
		return;
	default:
		return;
	}
}

/* Training that diverges must not do so in silence. */
static void refused(struct tw_watch *w, const struct tw_note *n)
{
	if (n->refused.fenced) /* its shard came back from a checkpoint: that says nothing of it */
		return;
	if (w->refused++ == 0 && w->log)
		tw_log_line(w->log, TW_WARNING, "run",
			    "a contribution of worker %u was refused: it is not finite; is "
			    "update.rate too large?",
			    n->slot);
	/* everybody's, several times over, on one shard that applied nothing in between; what the
	 * others apply meanwhile does not help it */
	if (w->row == 0)
		w->row_shard = n->shard;
	if (n->shard == w->row_shard && ++w->row >= 4u * w->plan->crew.workers + 16)
		w->diverged = true;
}

/* It belongs to the views it was made of, and to the time when these were kept. */
static void evaluation(struct tw_watch *w, const struct tw_note *n)
{
	const struct tw_point *p = &n->eval.point;
	const double epochs = p->samples / (double)w->plan->problem.samples;
	const double loss = n->eval.loss, accuracy = n->eval.accuracy;
	json_t *line;

	w->evaluated = true;
	w->now.loss = loss;
	w->now.accuracy = accuracy;
	if (!isfinite(loss))
		w->diverged = true; /* no step leads back from there */
	if (w->plan->online.keeps)
		tw_log_line(w->log, TW_INFO, "run",
			    "after %.0f samples: loss %.4g on the first of the stream", p->samples,
			    tw_unsigned_nan(loss));
	else if (w->network && n->at >= w->from && accuracy >= 0.0)
		tw_log_line(w->log, TW_INFO, "run", "epoch %.4g: loss %.4g, accuracy %.4f", epochs,
			    tw_unsigned_nan(loss), accuracy);
	else if (w->network && n->at >= w->from)
		tw_log_line(w->log, TW_INFO, "run", "epoch %.4g: loss %.4g", epochs,
			    tw_unsigned_nan(loss));
	if (n->eval.digest)
		tw_log_line(w->log, TW_DEBUG, "run",
			    "epoch %.4g: the best evaluation so far, parameters %s", epochs,
			    n->eval.digest);
	line = json_pack("{s:f, s:I, s:o, s:o}", "seconds", run_seconds(w, w->pinned.clock),
			 "bytes", (json_int_t)(w->pinned.bytes + w->earlier.bytes), "loss",
			 tw_json_number(loss), "accuracy",
			 accuracy < 0.0 ? json_null() : tw_json_number(accuracy));
	if (line) {
		json_t *rest = curve(w, p);

		json_object_update(line, rest);
		json_decref(rest);
	}
	if (line && n->eval.digest) /* it is the best so far */
		json_object_set_new(line, "parameters_digest", json_string(n->eval.digest));
	log_at(w, w->pinned.at, "evaluation", line);
}

/* An optimiser accepted a point. */
static void iteration(struct tw_watch *w, const struct tw_note *n)
{
	const struct tw_optimised *o = &n->iteration;

	w->now.optimised = *o;
	if (!w->evaluated)
		w->now.loss = o->loss;
	log_at(w, n->at, "iteration",
	       json_pack("{s:I, s:I, s:o, s:o, s:o, s:i}", "iteration", (json_int_t)o->iterations,
			 "evaluations", (json_int_t)o->evaluations, "loss", tw_json_number(o->loss),
			 "gradient", tw_json_number(o->gradient), "step", tw_json_number(o->step),
			 "restarts", (int)o->restarts));
}

/* Predictions of an online run: all reports go to the log, those of doubled counts to people. */
static void scored(struct tw_watch *w, const struct tw_note *n)
{
	const struct tw_progressive *s = &n->score;
	json_t *line;

	if (n->at >= w->from && s->samples >= w->scores) {
		tw_log_line(w->log, TW_INFO, "run",
			    "%" PRIu64 " samples predicted: progressive loss %.4g, of the last "
			    "%" PRIu64 ": %.4g",
			    s->samples, tw_unsigned_nan(s->loss), s->window,
			    tw_unsigned_nan(s->loss_window));
		while (w->scores <= s->samples)
			w->scores = w->scores ? 2 * w->scores : 1;
	}
	line = tw_progressive_json(s);
	json_object_set_new(line, "seconds", json_real(run_seconds(w, tw_clock())));
	log_at(w, n->at, "score", line);
}

bool tw_watch_note(void *arg, const struct tw_note *n)
{
	struct tw_watch *w = arg;
	int64_t clock;

	w->now.world = (double)n->at / (double)TW_SECOND;
	detail(w, n);
	switch (n->kind) {
	case TW_NOTE_APPLY:
		if (n->shard == w->row_shard)
			w->row = 0;
		w->tau_sum += n->apply.tau;
		w->tau_count++;
		if (w->plan->traffic.delta && n->apply.push &&
		    n->from == n->apply.push->range[0].from)
			delta(w, n->shard, &n->apply.push->account);
		return !w->diverged;
	case TW_NOTE_UPDATE:
		w->rate = n->update.rate;
		w->updates = (double)n->version;
		return true;
	case TW_NOTE_REFUSED:
		refused(w, n);
		return !w->diverged;
	case TW_NOTE_DEAL:
		if (!w->dealt) { /* waiting for others to join is not training */
			w->dealt = true;
			w->began = tw_clock();
		}
		return true;
	case TW_NOTE_PROGRESS:
		progress(w, n);
		break;
	case TW_NOTE_PINNED:
		w->pinned.at = n->at;
		w->pinned.clock = tw_clock();
		w->pinned.bytes = n->bytes;
		return true;
	case TW_NOTE_EVAL:
		evaluation(w, n);
		break;
	case TW_NOTE_ITERATION:
		iteration(w, n);
		break;
	case TW_NOTE_SCORE:
		if (!w->evaluated)
			w->now.loss = n->score.loss_window;
		scored(w, n);
		break;
	case TW_NOTE_VIEW:
		w->now.live = n->view.live;
		log_at(w, n->at, "view",
		       json_pack("{s:I, s:i}", "view", (json_int_t)view_number(n), "live",
				 (int)n->view.live));
		break;
	case TW_NOTE_CUT:
		log_at(w, n->at, "checkpoint",
		       json_pack("{s:I}", "checkpoint", (json_int_t)n->cut.number));
		break;
	case TW_NOTE_ROLLBACK:
		if (!w->dealt) /* nothing was done here: the start line names the checkpoint */
			break;
		log_at(w, n->at, "rollback",
		       json_pack("{s:I}", "checkpoint", (json_int_t)n->cut.number));
		break;
	case TW_NOTE_HOSTED:
		log_at(w, n->at, "hosted",
		       json_pack("{s:i, s:i, s:I}", "shard", (int)n->shard, "incarnation",
				 (int)n->life, "version", (json_int_t)n->version));
		break;
	default:
		return true;
	}
	if (!w->show && !w->metrics.file)
		return !w->diverged;
	clock = tw_clock();
	reckon(w, clock);
	measure(w, n, clock);
	if (w->show && clock - w->shown >= TW_SECOND / 10) {
		w->shown = clock;
		w->show(w->show_arg, &w->now);
	}
	return !w->diverged;
}
