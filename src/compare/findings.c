/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c - ranks the rows of a comparison, and says in sentences what it shows. */
#include "compare/findings.h"

#include "compare/report_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- ranking --- */

void tw_ranking_make(const struct tw_compare_runs *r, struct tw_ranking *rank)
{
	const struct tw_comparison *c = r->comparison;
	const enum tw_measure m = tw_measure_of(c->measure);
	const size_t n = c->options.seeds;
	const double worst = tw_measure_worst_of(r->run, c->rows * n, m);

	rank->best = rank->baseline = SIZE_MAX;
	for (size_t k = 0; k < c->rows; k++) {
		const struct tw_standing own = tw_standing_of(&r->run[k * n], n, m, worst);

		rank->place[k] = 1;
		for (size_t i = 0; i < c->rows; i++) {
			const struct tw_standing s = tw_standing_of(&r->run[i * n], n, m, worst);

			/* equal ones keep their order */
			rank->place[k] += tw_standing_before(&s, &own, m) ||
					  (i < k && !tw_standing_before(&own, &s, m));
		}
		if (c->row[k].baseline)
			rank->baseline = k;
		else if (own.values &&
			 (rank->best == SIZE_MAX || rank->place[k] < rank->place[rank->best]))
			rank->best = k;
	}
}

/* --- reading the report --- */

static const struct tw_measure_kind *measure_of(const json_t *report)
{
	return &tw_measure_kinds[tw_report_measure(report)];
}

static const json_t *row_called(const json_t *report, const char *label)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (strcmp(tw_text_at(row, "label"), label) == 0)
			return row;
	}
	return NULL;
}

static void say(json_t *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(json_t *list, const char *format, ...)
{
	char text[1100];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	json_array_append_new(list, json_string(text));
}

/* --- findings --- */

/* "1.31 ± 0.12 points", "4.2 ± 0.3 s": a difference, `bare` without its sign. */
static const char *amount(const struct tw_measure_kind *m, const json_t *a, bool bare, char *out,
			  size_t room)
{
	const bool percent = m->unit == TW_UNIT_PERCENT;
	const double d = tw_real_at(a, "difference");

	snprintf(out, room, "%s", bare ? "" : d < 0 ? "-" : "+");
	tw_spread_text(m->unit, fabs(d), tw_real_at(a, "half"), percent, out + strlen(out),
		       room - strlen(out));
	if (percent)
		snprintf(out + strlen(out), room - strlen(out), " points");
	return out;
}

static const char *verdict_of(const json_t *row, const char *against)
{
	return tw_text_at(json_object_get(row, against), "verdict");
}

/* " (accuracy 97 %)" behind "time to target". */
static void target_text(const json_t *report, char *out, size_t room)
{
	const json_t *target = json_object_get(report, "target");

	*out = '\0';
	if (tw_report_measure(report) != TW_MEASURE_TIME_TO_TARGET)
		return;
	if (!isnan(tw_real_at(target, "accuracy")))
		snprintf(out, room, " (accuracy %.4g %%)", 100 * tw_real_at(target, "accuracy"));
	else
		snprintf(out, room, " (loss %.4g)", tw_real_at(target, "loss"));
}

static void say_best(json_t *list, const json_t *report, const json_t *best)
{
	const struct tw_measure_kind *m = measure_of(report);
	const json_t *s = json_object_get(json_object_get(best, "summary"), m->name);
	const double deviation = tw_real_at(s, "deviation");
	char mean[80], spread[40] = "", aim[60];

	if (!isnan(deviation))
		snprintf(spread, sizeof spread, " over %zu %s", tw_count_at(s, "n"),
			 tw_report_many(report));
	target_text(report, aim, sizeof aim);
	tw_spread_text(m->unit, tw_real_at(s, "mean"), deviation, false, mean, sizeof mean);
	if (json_is_true(json_object_get(report, "resolved")))
		say(list, "%s is best by %s%s: %s%s.", tw_text_at(best, "label"), m->title, aim,
		    mean, spread);
	else
		say(list, "Best %s%s%s: %s, %s%s.", isnan(deviation) ? "" : "mean ", m->title, aim,
		    tw_text_at(best, "label"), mean, spread);
}

/* "asgd, ssp and 3 others". */
static void add_name(char *out, size_t room, const char *name, size_t named, size_t more)
{
	const size_t n = strlen(out);

	if (named < 6 && n + strlen(name) + 20 < room)
		snprintf(out + n, room - n, "%s%s", n ? "; " : "", name);
	else if (!strstr(out, " others"))
		snprintf(out + n, room - n, "; and %zu others", more);
}

/* A row with a verdict against the best: its name, and by how much or why. */
typedef bool (*namer)(const json_t *report, const json_t *row, char *out, size_t room);

static bool by_amount(const json_t *report, const json_t *row, char *out, size_t room)
{
	const json_t *a = json_object_get(row, "against_best");
	char by[80];

	if (strcmp(verdict_of(row, "against_best"), "worse") != 0 || isnan(tw_real_at(a, "half")))
		return false;
	snprintf(out, room, "%s by %s", tw_text_at(row, "label"),
		 amount(measure_of(report), a, true, by, sizeof by));
	return true;
}

static bool lost(const json_t *report, const json_t *row, char *out, size_t room)
{
	const size_t diverged = tw_count_at(row, "diverged");
	const json_t *a = json_object_get(row, "against_best");

	if (strcmp(verdict_of(row, "against_best"), "worse") != 0 || !isnan(tw_real_at(a, "half")))
		return false;
	snprintf(out, room, "%s (%zu of %zu diverged)", tw_text_at(row, "label"), diverged,
		 tw_count_at(report, "seeds"));
	if (!diverged)
		snprintf(out, room, "%s", tw_text_at(row, "label"));
	return true;
}

static bool open_(const json_t *report, const json_t *row, char *out, size_t room)
{
	const json_t *a = json_object_get(row, "against_best");
	const char *reason = tw_text_at(a, "reason");
	char by[80] = "";

	if (strcmp(verdict_of(row, "against_best"), "not resolved") != 0)
		return false;
	if (!isnan(tw_real_at(a, "half")))
		amount(measure_of(report), a, false, by, sizeof by);
	snprintf(out, room, "%s (%s%s%s)", tw_text_at(row, "label"), by, *by && *reason ? "; " : "",
		 reason);
	return true;
}

static bool unknown(const json_t *report, const json_t *row, char *out, size_t room)
{
	const json_t *a = json_object_get(row, "against_best");

	(void)report;
	if (strcmp(verdict_of(row, "against_best"), "unknown") != 0)
		return false;
	snprintf(out, room, "%s (%s)", tw_text_at(row, "label"), tw_text_at(a, "reason"));
	return true;
}

/* Rows that `name` accepts, in the order of their ranks. */
static size_t gather(const json_t *report, namer name, char *out, size_t room)
{
	const size_t rows = json_array_size(json_object_get(report, "rows"));
	size_t all = 0, named = 0;

	*out = '\0';
	for (int pass = 0; pass < 2; pass++)
		for (size_t rank = 1; rank <= rows; rank++) {
			const json_t *row = tw_report_row(report, rank);
			char text[300];

			if (json_is_true(json_object_get(row, "baseline")) ||
			    !name(report, row, text, sizeof text))
				continue;
			if (pass == 0) {
				all++;
				continue;
			}
			add_name(out, room, text, named, all - named);
			named++;
		}
	return all;
}

static void say_baseline(json_t *list, const json_t *report, const json_t *best)
{
	const struct tw_measure_kind *m = measure_of(report);
	const json_t *a = json_object_get(best, "against_baseline");
	const char *label = tw_text_at(best, "label"),
		   *verdict = verdict_of(best, "against_baseline");
	const bool interval = !isnan(tw_real_at(a, "half"));
	char by[80] = "";

	if (!json_is_object(a) || strcmp(verdict, "unknown") == 0)
		return;
	if (interval)
		amount(m, a, strcmp(verdict, "not resolved") != 0, by, sizeof by);
	if (strcmp(verdict, "not resolved") == 0)
		say(list, "Against one worker, %s is not resolved with %zu %s (%s).", label,
		    tw_count_at(report, "seeds"), tw_report_many(report),
		    interval ? by : tw_text_at(a, "reason"));
	else
		say(list, "Against one worker, %s is %s%s%s.", label, verdict,
		    interval ? " by " : ", all of whose runs diverged or missed the target", by);
}

static void say_no_best(json_t *list, const json_t *report)
{
	char aim[60];

	target_text(report, aim, sizeof aim);
	if (*aim)
		say(list, "No row reached the target%s.", aim);
	else
		say(list, "No run has a value of %s; the notes say why.",
		    measure_of(report)->title);
}

/* How good each row is on samples that it has not seen: the interval of the mean over folds. */
static void say_folds(json_t *list, const json_t *report)
{
	const struct tw_measure_kind *m = measure_of(report);
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		const json_t *s = json_object_get(json_object_get(row, "summary"), m->name);
		char text[80];

		if (!tw_count_at(report, "folds") || isnan(tw_real_at(s, "half")))
			continue;
		tw_spread_text(m->unit, tw_real_at(s, "mean"), tw_real_at(s, "half"), false, text,
			       sizeof text);
		say(list, "%s: %s %s, the 95 %% interval of the mean over folds.",
		    tw_text_at(row, "label"), m->title, text);
	}
}

json_t *tw_findings(const json_t *report)
{
	const json_t *best = row_called(report, tw_text_at(report, "best"));
	const size_t seeds = tw_count_at(report, "seeds");
	const bool time = tw_report_measure(report) == TW_MEASURE_TIME_TO_TARGET;
	json_t *list = json_array();
	char names[900];

	if (!best) {
		say_no_best(list, report);
		return list;
	}
	say_best(list, report, best);
	say_folds(list, report);
	if (gather(report, open_, names, sizeof names))
		say(list, "Not resolved from it with %zu %s: %s.", seeds, tw_report_many(report),
		    names);
	if (gather(report, by_amount, names, sizeof names))
		say(list, "Worse, with 95 %% confidence: %s.", names);
	if (gather(report, lost, names, sizeof names))
		say(list, "Worse, because no run %s: %s.",
		    time ? "reached the target" : "ended without diverging", names);
	if (seeds > 1 && gather(report, unknown, names, sizeof names))
		say(list, "Cannot be compared with it: %s.", names);
	say_baseline(list, report, best);
	return list;
}

/* --- notes --- */

static void note_troubles(json_t *list, const json_t *row, size_t seeds)
{
	const size_t diverged = tw_count_at(row, "diverged"), failed = tw_count_at(row, "failed");
	const json_t *run;
	size_t k;

	if (diverged)
		say(list, "%s diverged in %zu of %zu runs; its figures are of the others.",
		    tw_text_at(row, "label"), diverged, seeds);
	json_array_foreach(json_object_get(row, "runs"), k, run)
	{
		if (failed && json_is_string(json_object_get(run, "failure"))) {
			say(list, "%s failed in %zu of %zu runs: %s", tw_text_at(row, "label"),
			    failed, seeds, tw_text_at(run, "failure"));
			return;
		}
	}
}

/* "asgd (0.5, the highest: compare.widen is 0)". */
static void note_edges(json_t *list, const json_t *report)
{
	const json_t *row, *t;
	char names[850] = "";
	size_t k, i, n = 0, all = 0;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		json_array_foreach(json_object_get(row, "tuned"), i, t) all +=
			json_is_string(json_object_get(t, "edge"));
	}
	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		json_array_foreach(json_object_get(row, "tuned"), i, t)
		{
			char name[400];

			if (!json_is_string(json_object_get(t, "edge")))
				continue;
			snprintf(name, sizeof name, "%s (%s %s, the %s: %s)",
				 tw_text_at(row, "label"), tw_text_at(t, "path"),
				 tw_text_at(t, "value"), tw_text_at(t, "edge"),
				 tw_text_at(t, "reason"));
			add_name(names, sizeof names, name, n, all - n);
			n++;
		}
	}
	if (n)
		say(list,
		    "The best value lies at the edge of those that were tried, and a better one "
		    "may lie beyond: %s.",
		    names);
}

/* Runs that ended well and have no value all the same. */
static void note_missing(json_t *list, const json_t *report, const json_t *row)
{
	const struct tw_measure_kind *m = measure_of(report);
	const size_t seeds = tw_count_at(report, "seeds");
	const json_t *s = json_object_get(json_object_get(row, "summary"), m->name);
	const size_t known =
		tw_count_at(s, "n") + tw_count_at(row, "diverged") + tw_count_at(row, "failed");
	const bool at_time = m == &tw_measure_kinds[TW_MEASURE_ACCURACY_AT_TIME] ||
			     m == &tw_measure_kinds[TW_MEASURE_LOSS_AT_TIME];

	if (known >= seeds || m == &tw_measure_kinds[TW_MEASURE_TIME_TO_TARGET])
		return;
	if (at_time)
		say(list,
		    "%s has no %s in %zu of %zu runs: it made no evaluation in the first %.3g s; a "
		    "smaller train.evaluate makes more.",
		    tw_text_at(row, "label"), m->title, seeds - known, seeds,
		    tw_real_at(report, "equal_time"));
	else
		say(list, "%s has no %s in %zu of %zu runs.", tw_text_at(row, "label"), m->title,
		    seeds - known, seeds);
}

static void note_target(json_t *list, const json_t *report, const json_t *row)
{
	const json_t *summary = json_object_get(row, "summary");
	const json_t *target = json_object_get(report, "target");
	const size_t seeds = tw_count_at(report, "seeds");
	const size_t reached = tw_count_at(json_object_get(summary, "time-to-target"), "n");
	const bool accuracy = !isnan(tw_real_at(target, "accuracy"));
	const double best = tw_real_at(
		json_object_get(summary, accuracy ? "best-accuracy" : "best-loss"), "mean");
	char text[40];

	if (!json_is_object(target) || reached == seeds || isnan(best))
		return;
	say(list, "%s reached the target in %zu of %zu runs; its best %s is %s.",
	    tw_text_at(row, "label"), reached, seeds, accuracy ? "accuracy" : "loss",
	    tw_measure_text(accuracy ? TW_UNIT_PERCENT : TW_UNIT_PLAIN, best, text, sizeof text));
}

json_t *tw_findings_notes(const json_t *report, const char *const *note, size_t notes)
{
	const size_t seeds = tw_count_at(report, "seeds"),
		     tune_seeds = tw_count_at(report, "tune_seeds");
	json_t *list = json_array();
	const json_t *row;
	size_t k;

	if (seeds == 1)
		say(list, "With one seed nothing is known about noise: use --seeds 5 for a "
			  "verdict.");
	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		note_troubles(list, row, seeds);
		note_missing(list, report, row);
		note_target(list, report, row);
	}
	if (tune_seeds && tune_seeds < 3)
		say(list,
		    "Values were chosen with %zu %s each, so the choice is partly chance: use at "
		    "least 3 (compare.tune_seeds) where a verdict matters.",
		    tune_seeds, tune_seeds == 1 ? "seed" : "seeds");
	note_edges(list, report);
	if (strcmp(tw_text_at(report, "world"), "sim") != 0)
		say(list, "Only the simulator measures idle workers, where their time goes and the "
			  "load on the servers' links.");
	for (k = 0; k < notes; k++)
		say(list, "%s", note[k]);
	return list;
}
