/* SPDX-License-Identifier: Apache-2.0 */
/* findings.c - ranks the rows of a comparison, and says in sentences what it shows. */
#include "compare/findings.h"

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

static const char *text_of(const json_t *o, const char *name)
{
	const char *t = json_string_value(json_object_get(o, name));

	return t ? t : "";
}

static double number_of(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

static size_t count_of(const json_t *o, const char *name)
{
	return (size_t)json_integer_value(json_object_get(o, name));
}

static const struct tw_measure_kind *measure_of(const json_t *report)
{
	const char *name = text_of(report, "measure");
	size_t k = 0;

	while (k + 1 < TW_MEASURES && strcmp(tw_measure_kinds[k].name, name) != 0)
		k++;
	return &tw_measure_kinds[k];
}

static const json_t *row_at_rank(const json_t *report, size_t rank)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (count_of(row, "rank") == rank)
			return row;
	}
	return NULL;
}

static const json_t *row_called(const json_t *report, const char *label)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (strcmp(text_of(row, "label"), label) == 0)
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

	tw_spread_text(m->unit, fabs(number_of(a, "difference")), number_of(a, "half"), percent,
		       out, room);
	if (percent)
		snprintf(out + strlen(out), room - strlen(out), " points");
	return out;
}

static void say_best(json_t *list, const json_t *report, const json_t *best)
{
	const struct tw_measure_kind *m = measure_of(report);
	const json_t *s = json_object_get(json_object_get(best, "summary"), m->name);
	const double deviation = number_of(s, "deviation");
	const json_t *target = json_object_get(report, "target");
	char mean[80], spread[40] = "", aim[60] = "";

	if (!isnan(deviation))
		snprintf(spread, sizeof spread, " over %zu seeds", count_of(s, "n"));
	if (strcmp(m->name, "time-to-target") == 0 && !isnan(number_of(target, "accuracy")))
		snprintf(aim, sizeof aim, " (accuracy %.4g %%)",
			 100 * number_of(target, "accuracy"));
	else if (strcmp(m->name, "time-to-target") == 0)
		snprintf(aim, sizeof aim, " (loss %.4g)", number_of(target, "loss"));
	say(list, "%s is best by %s%s: %s%s.", text_of(best, "label"), m->title, aim,
	    tw_spread_text(m->unit, number_of(s, "mean"), deviation, false, mean, sizeof mean),
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
			const json_t *row = row_at_rank(report, rank);
			const json_t *a = json_object_get(row, "against_best");
			char name[200], by[80];

			if (strcmp(text_of(a, "verdict"), verdict) != 0 ||
			    json_is_true(json_object_get(row, "baseline")))
				continue;
			if (pass == 0) {
				all++;
				continue;
			}
			snprintf(name, sizeof name, "%s", text_of(row, "label"));
			if (strcmp(verdict, "worse") == 0)
				snprintf(name, sizeof name, "%s by %s", text_of(row, "label"),
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
	const char *verdict = text_of(a, "verdict");
	char by[80];

	if (!json_is_object(a) || strcmp(verdict, "unknown") == 0)
		return;
	if (strcmp(verdict, "within noise") == 0)
		say(list, "Against one worker, %s is within noise.", text_of(best, "label"));
	else
		say(list, "Against one worker, %s is %s by %s.", text_of(best, "label"), verdict,
		    amount(m, a, by, sizeof by));
}

json_t *tw_findings(const json_t *report)
{
	const json_t *best = row_called(report, text_of(report, "best"));
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
	const size_t diverged = count_of(row, "diverged"), failed = count_of(row, "failed");
	const json_t *run;
	size_t k;

	if (diverged)
		say(list, "%s diverged in %zu of %zu runs; its figures are of the others.",
		    text_of(row, "label"), diverged, seeds);
	json_array_foreach(json_object_get(row, "runs"), k, run)
	{
		if (failed && json_is_string(json_object_get(run, "failure"))) {
			say(list, "%s failed in %zu of %zu runs: %s", text_of(row, "label"), failed,
			    seeds, text_of(run, "failure"));
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
		json_array_foreach(json_object_get(row, "tuned"), i, t)
			all += json_is_string(json_object_get(t, "edge"));
	}
	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		json_array_foreach(json_object_get(row, "tuned"), i, t)
		{
			char name[160];

			if (!json_is_string(json_object_get(t, "edge")))
				continue;
			snprintf(name, sizeof name, "%s (%s %s, the %s)", text_of(row, "label"),
				 text_of(t, "path"), text_of(t, "value"), text_of(t, "edge"));
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
	const size_t seeds = count_of(report, "seeds");
	const size_t reached = count_of(json_object_get(summary, "time-to-target"), "n");
	const bool accuracy = !isnan(number_of(target, "accuracy"));
	const double best = number_of(
		json_object_get(summary, accuracy ? "best-accuracy" : "best-loss"), "mean");
	char text[40];

	if (!json_is_object(target) || reached == seeds || isnan(best))
		return;
	say(list, "%s reached the target in %zu of %zu runs; its best %s is %s.",
	    text_of(row, "label"), reached, seeds, accuracy ? "accuracy" : "loss",
	    tw_measure_text(accuracy ? TW_UNIT_PERCENT : TW_UNIT_PLAIN, best, text, sizeof text));
}

json_t *tw_findings_notes(const json_t *report, const char *const *note, size_t notes)
{
	const size_t seeds = count_of(report, "seeds");
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
	for (k = 0; k < notes; k++)
		say(list, "%s", note[k]);
	return list;
}
