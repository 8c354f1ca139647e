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

	rank->best = rank->baseline = SIZE_MAX;
	for (size_t k = 0; k < c->rows; k++) {
		const struct tw_standing own = tw_standing_of(&r->run[k * n], n, m);

		rank->place[k] = 1;
		for (size_t i = 0; i < c->rows; i++) {
			const struct tw_standing s = tw_standing_of(&r->run[i * n], n, m);

			/* equal ones keep their order */
			rank->place[k] += tw_standing_before(&s, &own, m) ||
					  (i < k && !tw_standing_before(&own, &s, m));
		}
		if (c->row[k].baseline)
			rank->baseline = k;
		else if (own.diverged < n &&
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
		if (strcmp(tw_report_string(row, "label"), label) == 0)
			return row;
	}
	return NULL;
}

static void say(json_t *list, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(json_t *list, const char *format, ...)
{
	char text[900];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	json_array_append_new(list, json_string(text));
}

/* --- findings --- */

/* "1.31 ± 0.12 points", "4.2 ± 0.3 s": a difference without its sign. */
static const char *amount(const struct tw_measure_kind *m, const json_t *a, char *out, size_t room)
{
	const bool percent = m->unit == TW_UNIT_PERCENT;

	tw_spread_text(m->unit, fabs(tw_report_number(a, "difference")),
		       tw_report_number(a, "half"), percent, out, room);
	if (percent)
		snprintf(out + strlen(out), room - strlen(out), " points");
	return out;
}

static void say_best(json_t *list, const json_t *report, const json_t *best)
{
	const struct tw_measure_kind *m = measure_of(report);
	const json_t *s = json_object_get(json_object_get(best, "summary"), m->name);
	const double deviation = tw_report_number(s, "deviation");
	const json_t *target = json_object_get(report, "target");
	char mean[80], spread[40] = "", aim[60] = "";

	if (!isnan(deviation))
		snprintf(spread, sizeof spread, " over %zu seeds", tw_report_count(s, "n"));
	if (strcmp(m->name, "time-to-target") == 0 && !isnan(tw_report_number(target, "accuracy")))
		snprintf(aim, sizeof aim, " (accuracy %.4g %%)",
			 100 * tw_report_number(target, "accuracy"));
	else if (strcmp(m->name, "time-to-target") == 0)
		snprintf(aim, sizeof aim, " (loss %.4g)", tw_report_number(target, "loss"));
	say(list, "%s is best by %s%s: %s%s.", tw_report_string(best, "label"), m->title, aim,
	    tw_spread_text(m->unit, tw_report_number(s, "mean"), deviation, false, mean,
			   sizeof mean),
	    spread);
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

/* Rows with that verdict against the best, in the order of their ranks. */
static size_t gather(const json_t *report, const char *verdict, char *out, size_t room)
{
	const struct tw_measure_kind *m = measure_of(report);
	const size_t rows = json_array_size(json_object_get(report, "rows"));
	size_t all = 0, named = 0;

	*out = '\0';
	for (int pass = 0; pass < 2; pass++)
		for (size_t rank = 1; rank <= rows; rank++) {
			const json_t *row = tw_report_row(report, rank);
			const json_t *a = json_object_get(row, "against_best");
			char name[200], by[80];

			if (strcmp(tw_report_string(a, "verdict"), verdict) != 0 ||
			    json_is_true(json_object_get(row, "baseline")))
				continue;
			if (pass == 0) {
				all++;
				continue;
			}
			snprintf(name, sizeof name, "%s", tw_report_string(row, "label"));
			if (strcmp(verdict, "worse") == 0)
				snprintf(name, sizeof name, "%s by %s",
					 tw_report_string(row, "label"),
					 amount(m, a, by, sizeof by));
			add_name(out, room, name, named, all - named);
			named++;
		}
	return all;
}

static void say_baseline(json_t *list, const json_t *report, const json_t *best)
{
	const struct tw_measure_kind *m = measure_of(report);
	const json_t *a = json_object_get(best, "against_baseline");
	const char *verdict = tw_report_string(a, "verdict");
	char by[80];

	if (!json_is_object(a) || strcmp(verdict, "unknown") == 0)
		return;
	if (strcmp(verdict, "within noise") == 0)
		say(list, "Against one worker, %s is within noise.",
		    tw_report_string(best, "label"));
	else
		say(list, "Against one worker, %s is %s by %s.", tw_report_string(best, "label"),
		    verdict, amount(m, a, by, sizeof by));
}

json_t *tw_findings(const json_t *report)
{
	const json_t *best = row_called(report, tw_report_string(report, "best"));
	json_t *list = json_array();
	char names[700];
	size_t n;

	if (!best) {
		say(list, "No row has a run that finished without diverging.");
		return list;
	}
	say_best(list, report, best);
	n = gather(report, "within noise", names, sizeof names);
	if (n)
		say(list, "Within noise of it: %s.", names);
	n = gather(report, "worse", names, sizeof names);
	if (n)
		say(list, "Worse, with 95 %% confidence: %s.", names);
	say_baseline(list, report, best);
	return list;
}

/* --- notes --- */

static void note_troubles(json_t *list, const json_t *row, size_t seeds)
{
	const size_t diverged = tw_report_count(row, "diverged"),
		     failed = tw_report_count(row, "failed");
	const json_t *run;
	size_t k;

	if (diverged)
		say(list, "%s diverged in %zu of %zu runs; its figures are of the others.",
		    tw_report_string(row, "label"), diverged, seeds);
	json_array_foreach(json_object_get(row, "runs"), k, run)
	{
		if (failed && json_is_string(json_object_get(run, "failure"))) {
			say(list, "%s failed in %zu of %zu runs: %s",
			    tw_report_string(row, "label"), failed, seeds,
			    tw_report_string(run, "failure"));
			return;
		}
	}
}

/* "asgd (0.5, the highest)". */
static void note_edges(json_t *list, const json_t *report)
{
	const json_t *row, *t;
	char names[600] = "";
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
			char name[160];

			if (!json_is_string(json_object_get(t, "edge")))
				continue;
			snprintf(name, sizeof name, "%s (%s %s, the %s)",
				 tw_report_string(row, "label"), tw_report_string(t, "path"),
				 tw_report_string(t, "value"), tw_report_string(t, "edge"));
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

static void note_target(json_t *list, const json_t *report, const json_t *row)
{
	const json_t *summary = json_object_get(row, "summary");
	const json_t *target = json_object_get(report, "target");
	const size_t seeds = tw_report_count(report, "seeds");
	const size_t reached = tw_report_count(json_object_get(summary, "time-to-target"), "n");
	const bool accuracy = !isnan(tw_report_number(target, "accuracy"));
	const double best = tw_report_number(
		json_object_get(summary, accuracy ? "best-accuracy" : "best-loss"), "mean");
	char text[40];

	if (!json_is_object(target) || reached == seeds || isnan(best))
		return;
	say(list, "%s reached the target in %zu of %zu runs; its best %s is %s.",
	    tw_report_string(row, "label"), reached, seeds, accuracy ? "accuracy" : "loss",
	    tw_measure_text(accuracy ? TW_UNIT_PERCENT : TW_UNIT_PLAIN, best, text, sizeof text));
}

json_t *tw_findings_notes(const json_t *report, const char *const *note, size_t notes)
{
	const size_t seeds = tw_report_count(report, "seeds");
	json_t *list = json_array();
	const json_t *row;
	size_t k;

	if (seeds == 1)
		say(list, "With one seed nothing is known about noise: use --seeds 5 for a "
			  "verdict.");
	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		note_troubles(list, row, seeds);
		note_target(list, report, row);
	}
	note_edges(list, report);
	if (strcmp(tw_report_string(report, "world"), "sim") != 0)
		say(list, "Only the simulator measures idle workers, where their time goes and the "
			  "load on the servers' links.");
	for (k = 0; k < notes; k++)
		say(list, "%s", note[k]);
	return list;
}
