/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what a comparison came to, as one JSON object. */
#include "compare/report.h"

#include "base/json.h"
#include "compare/findings.h"
#include "base/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t tw_report_points(const struct tw_comparison *c)
{
	const size_t runs = c->rows * c->options.seeds;
	const size_t share = runs ? TW_REPORT_CHART / runs : TW_REPORT_POINTS;

	return share > TW_REPORT_POINTS ? TW_REPORT_POINTS : share < 16 ? 16 : share;
}

/* --- runs --- */

static json_t *curve(const struct tw_curve *c, size_t points)
{
	json_t *column[TW_CURVE_COLUMNS], *out = json_object();
	size_t *keep = malloc((c->n + 1) * sizeof *keep);
	const size_t n = keep ? tw_curve_thin(c, points, keep) : 0;

	for (size_t k = 0; k < TW_CURVE_COLUMNS; k++) {
		column[k] = json_array();
		for (size_t i = 0; i < n; i++)
			json_array_append_new(column[k], tw_json_number(c->point[keep[i]][k]));
		tw_json_set(out, tw_curve_names[k], column[k]);
	}
	free(keep);
	return out;
}

static json_t *run_of(const struct tw_compare_run *r, size_t points)
{
	json_t *o = json_object(), *values = json_object();

	tw_json_set(o, "seed", json_integer((json_int_t)r->cell->seed));
	tw_json_set(o, "diverged", json_boolean(r->diverged));
	tw_json_set(o, "failure", r->failure ? json_string(r->failure) : NULL);
	for (size_t k = 0; k < TW_MEASURES; k++)
		tw_json_set(values, tw_measure_kinds[k].name, tw_json_number(r->value[k]));
	tw_json_set(o, "values", values);
	tw_json_set(o, "curve", curve(&r->curve, points));
	return o;
}

/* --- a row --- */

static void values_of(const struct tw_compare_run *run, size_t n, enum tw_measure m, double *out)
{
	for (size_t k = 0; k < n; k++)
		out[k] = run[k].value[m];
}

/* Half of the 95 % interval of the mean; NAN: fewer than two values. */
static double half_of(const struct tw_summary *s)
{
	return s->n < 2 ? (double)NAN
			: tw_student_quantile(0.95, s->n - 1) * s->deviation / sqrt((double)s->n);
}

static json_t *summaries(const struct tw_compare_run *run, size_t n, double *room)
{
	json_t *o = json_object();

	for (size_t k = 0; k < TW_MEASURES; k++) {
		struct tw_summary s;

		values_of(run, n, (enum tw_measure)k, room);
		s = tw_summarise(room, n);
		tw_json_set(o, tw_measure_kinds[k].name,
			    json_pack("{s:o, s:o, s:o, s:o}", "n", tw_json_count(s.n), "mean",
				      tw_json_number(s.mean), "deviation",
				      tw_json_number(s.deviation), "half",
				      tw_json_number(half_of(&s))));
	}
	return o;
}

static struct tw_contrast judge(const struct tw_compare_runs *r, size_t row, size_t other,
				struct tw_mark *room)
{
	const enum tw_measure m = tw_measure_of(r->comparison->measure);
	const size_t n = r->comparison->options.seeds;

	for (size_t k = 0; k < n; k++) {
		room[k] = tw_mark_of(&r->run[row * n + k], m);
		room[n + k] = tw_mark_of(&r->run[other * n + k], m);
	}
	return tw_judge(room, room + n, n, tw_measure_kinds[m].more);
}

/* The row's runs against those of another, seed by seed. */
static json_t *against(const struct tw_compare_runs *r, size_t row, size_t other,
		       struct tw_mark *room)
{
	struct tw_contrast j;

	if (other == SIZE_MAX || other == row)
		return NULL;
	j = judge(r, row, other, room);
	return json_pack("{s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:s?}", "row",
			 r->comparison->row[other].label, "pairs", tw_json_count(j.paired.pairs),
			 "difference", tw_json_number(j.paired.difference), "half",
			 tw_json_number(j.paired.half), "verdict", tw_compare_verdicts[j.verdict],
			 "lost", tw_json_count(j.lost), "won", tw_json_count(j.won), "reason",
			 j.reason);
}

/* Is every other row worse than the best one?  Then it may be called the best. */
static bool resolved(const struct tw_compare_runs *r, size_t best, struct tw_mark *room)
{
	const struct tw_comparison *c = r->comparison;

	for (size_t k = 0; k < c->rows; k++)
		if (k != best && !c->row[k].baseline &&
		    judge(r, k, best, room).verdict != TW_COMPARE_WORSE)
			return false;
	return true;
}

/* Bins summed over the runs. */
static json_t *staleness(const struct tw_compare_run *run, size_t n)
{
	double bin[256] = { 0 };
	json_t *out = json_array();
	size_t last = 0;

	for (size_t k = 0; k < n; k++) {
		const json_t *list =
			json_object_get(json_object_get(run[k].result, "staleness"), "histogram");

		for (size_t i = 0; i < json_array_size(list) && i < 256; i++) {
			bin[i] += json_number_value(json_array_get(list, i));
			last = i + 1 > last ? i + 1 : last;
		}
	}
	for (size_t i = 0; i < last; i++)
		json_array_append_new(out, json_integer((json_int_t)bin[i]));
	return out;
}

/* Shares of computing, transferring and waiting: of all workers, and of each; means of the runs. */
static json_t *usage(const struct tw_compare_run *run, size_t n)
{
	double all[3] = { 0 }, each[64][3] = { { 0 } };
	json_t *list = json_array();
	size_t workers = 0, runs = 0;

	for (size_t k = 0; k < n; k++) {
		const json_t *u = json_object_get(run[k].result, "usage");
		const json_t *of = json_object_get(u, "workers");

		if (!json_is_object(u))
			continue;
		runs++;
		all[0] += tw_number_at(u, "computing");
		all[1] += tw_number_at(u, "transferring");
		all[2] += tw_number_at(u, "waiting");
		workers = json_array_size(of) < 64 ? json_array_size(of) : 64;
		for (size_t w = 0; w < workers; w++)
			for (size_t i = 0; i < 3; i++)
				each[w][i] +=
					json_number_value(json_array_get(json_array_get(of, w), i));
	}
	for (size_t w = 0; w < workers; w++)
		json_array_append_new(list, json_pack("[f, f, f]", each[w][0] / (double)runs,
						      each[w][1] / (double)runs,
						      each[w][2] / (double)runs));
	if (runs)
		return json_pack("{s:[f, f, f], s:o}", "all", all[0] / (double)runs,
				 all[1] / (double)runs, all[2] / (double)runs, "workers", list);
	json_decref(list);
	return NULL;
}

static json_t *settings_of(const struct tw_comparison *c, const struct tw_compare_row *row)
{
	json_t *o = json_array();

	for (size_t k = 0; k < c->differing; k++)
		json_array_append_new(o,
				      row->setting[k] ? json_string(row->setting[k]) : json_null());
	return o;
}

/* --- tuning --- */

/* At an end of a list, if that has numbers in it. */
static const char *narrow_edge(const struct tw_compare_axis *axis, size_t value)
{
	double low = INFINITY, high = -INFINITY, own = NAN;

	for (size_t k = 0; k < axis->count; k++) {
		char *end = NULL;
		const double x = strtod(axis->value[k].text, &end);

		if (end == axis->value[k].text || *end)
			return NULL;
		low = fmin(low, x);
		high = fmax(high, x);
		if (k == value)
			own = x;
	}
	if (axis->count < 2)
		return NULL;
	return own == low ? "lowest" : own == high ? "highest" : NULL;
}

/* Is the chosen value at an end of those that were tried?  Then a better one may lie beyond, and
 * *because says why that was not tried. */
static const char *edge(const struct tw_comparison *c, const struct tw_compare_row *row,
			size_t combination, size_t tune, const char **because)
{
	const struct tw_compare_axis *axis = &c->tune[tune];
	const size_t v = tw_comparison_value(c, combination, tune);

	*because = axis->narrow ? axis->narrow : "compare.widen allows no further value";
	if (axis->narrow)
		return narrow_edge(axis, v);
	for (int high = 0; high < 2; high++) {
		const bool end = high ? v + 1 == axis->count : v == 0;
		const struct tw_compare_try *beside =
			end ? NULL
			    : tw_comparison_tried(row, tw_comparison_with(c, combination, tune,
									  high ? v + 1 : v - 1));

		if (beside && !beside->refused)
			continue;
		if (beside)
			*because = beside->refused;
		return high ? "highest" : "lowest";
	}
	return NULL;
}

static json_t *tuned(const struct tw_comparison *c, const struct tw_compare_row *row,
		     size_t combination)
{
	json_t *o = json_array();

	for (size_t k = 0; k < c->tunes; k++) {
		const size_t v = tw_comparison_value(c, combination, k);
		const char *because, *at = edge(c, row, combination, k, &because);

		json_array_append_new(o,
				      json_pack("{s:s, s:s, s:s?, s:s?}", "path", c->tune[k].path,
						"value", c->tune[k].value[v].text, "edge", at,
						"reason", at ? because : NULL));
	}
	return o;
}

static json_t *values_tried(const struct tw_comparison *c, size_t combination)
{
	json_t *o = json_array();

	for (size_t k = 0; k < c->tunes; k++)
		json_array_append_new(
			o,
			json_pack("{s:s, s:s}", "path", c->tune[k].path, "value",
				  c->tune[k].value[tw_comparison_value(c, combination, k)].text));
	return o;
}

/* The row's tries in the order of combinations: `after` that one; SIZE_MAX: there is none. */
static size_t next_try(const struct tw_compare_row *row, const size_t *after)
{
	size_t best = SIZE_MAX;

	for (size_t k = 0; k < row->tries; k++) {
		const size_t own = row->try_[k].combination;

		if (!row->try_[k].refused && (!after || own > *after) &&
		    (best == SIZE_MAX || own < row->try_[best].combination))
			best = k;
	}
	return best;
}

/* Every combination that was tried, with what it came to. */
static json_t *tries(const struct tw_compare_runs *r, size_t row, double *room)
{
	const struct tw_comparison *c = r->comparison;
	const struct tw_compare_row *of = &c->row[row];
	const enum tw_measure m = tw_measure_tuned(c);
	const size_t n = c->options.tune_seeds;
	json_t *out = json_array();

	for (size_t k = r->tuning ? next_try(of, NULL) : SIZE_MAX; k != SIZE_MAX;
	     k = next_try(of, &of->try_[k].combination)) {
		const struct tw_compare_run *run = &r->tuning[row][k * n];
		size_t diverged = 0;
		struct tw_summary sum;

		for (size_t i = 0; i < n; i++)
			diverged += run[i].diverged || run[i].failure;
		values_of(run, n, m, room);
		sum = tw_summarise(room, n);
		json_array_append_new(out, json_pack("{s:o, s:o, s:o, s:o, s:o}", "values",
						     values_tried(c, of->try_[k].combination), "n",
						     tw_json_count(sum.n), "mean",
						     tw_json_number(sum.mean), "deviation",
						     tw_json_number(sum.deviation), "diverged",
						     tw_json_count(diverged)));
	}
	return out;
}

/* Every combination that some row tried, in their order. */
static json_t *all_tried(const struct tw_comparison *c)
{
	json_t *out = json_array();
	size_t last = 0;

	for (bool some = false;; some = true) {
		size_t next = SIZE_MAX;

		for (size_t k = 0; k < c->rows; k++) {
			const size_t t = next_try(&c->row[k], some ? &last : NULL);

			if (t != SIZE_MAX && c->row[k].try_[t].combination < next)
				next = c->row[k].try_[t].combination;
		}
		if (next == SIZE_MAX || !tw_comparison_tunes(c))
			return out;
		json_array_append_new(out, values_tried(c, next));
		last = next;
	}
}

struct cost {
	size_t runs;
	double samples, seconds;
};

static void add_cost(const struct tw_compare_run *run, size_t n, struct cost *out)
{
	for (size_t k = 0; k < n; k++) {
		const double seconds = run[k].value[TW_MEASURE_SECONDS];

		out->runs += run[k].cell != NULL;
		out->seconds += isnan(seconds) ? 0 : seconds;
		if (run[k].result)
			out->samples += tw_number_at(run[k].result, "samples");
	}
}

static json_t *cost_text(const struct cost *x)
{
	return json_pack("{s:o, s:o, s:o}", "runs", tw_json_count(x->runs), "samples",
			 tw_json_number(x->samples), "seconds", tw_json_number(x->seconds));
}

static json_t *costs(const struct tw_compare_runs *r)
{
	const struct tw_comparison *c = r->comparison;
	struct cost own = { 0 }, tuning = { 0 };

	add_cost(r->run, c->rows * c->options.seeds, &own);
	for (size_t k = 0; r->tuning && k < c->rows; k++)
		add_cost(r->tuning[k], c->row[k].tries * c->options.tune_seeds, &tuning);
	return json_pack("{s:o, s:o}", "comparison", cost_text(&own), "tuning",
			 r->tuning ? cost_text(&tuning) : json_null());
}

/* --- all of it --- */

struct room {
	double *value;        /* for as many as a row has runs */
	struct tw_mark *mark; /* for those of two rows */
};

static json_t *row_of(const struct tw_compare_runs *r, const struct tw_ranking *rank, size_t k,
		      const size_t *chosen, size_t points, struct room *room)
{
	const struct tw_comparison *c = r->comparison;
	const struct tw_compare_row *row = &c->row[k];
	const size_t n = c->options.seeds;
	const struct tw_compare_run *run = &r->run[k * n];
	json_t *o = json_object(), *runs = json_array();
	size_t diverged = 0, failed = 0;

	for (size_t i = 0; i < n; i++) {
		diverged += run[i].diverged;
		failed += run[i].failure != NULL;
		json_array_append_new(runs, run_of(&run[i], points));
	}
	tw_json_set(o, "label", json_string(row->label));
	tw_json_set(o, "rank", tw_json_count(rank->place[k]));
	tw_json_set(o, "baseline", json_boolean(row->baseline));
	tw_json_set(o, "workers", tw_json_count(row->workers));
	tw_json_set(o, "diverged", tw_json_count(diverged));
	tw_json_set(o, "failed", tw_json_count(failed));
	tw_json_set(o, "settings", settings_of(c, row));
	tw_json_set(o, "tuned", tuned(c, row, row->try_[chosen[k]].combination));
	tw_json_set(o, "tries", tries(r, k, room->value));
	tw_json_set(o, "summary", summaries(run, n, room->value));
	tw_json_set(o, "against_best", against(r, k, rank->best, room->mark));
	tw_json_set(o, "against_baseline", against(r, k, rank->baseline, room->mark));
	tw_json_set(o, "staleness", staleness(run, n));
	tw_json_set(o, "usage", usage(run, n));
	tw_json_set(o, "server_link", json_incref(json_object_get(run[0].result, "server_link")));
	tw_json_set(o, "job", json_string(run[0].cell->text));
	tw_json_set(o, "runs", runs);
	return o;
}

static json_t *measures(void)
{
	static const char *const units[] = {
		[TW_UNIT_PERCENT] = "share",   [TW_UNIT_PLAIN] = "",
		[TW_UNIT_SECONDS] = "seconds", [TW_UNIT_PER_SECOND] = "samples per second",
		[TW_UNIT_BYTES] = "bytes",
	};
	json_t *o = json_object();

	for (size_t k = 0; k < TW_MEASURES; k++)
		tw_json_set(o, tw_measure_kinds[k].name,
			    json_pack("{s:s, s:s, s:b}", "title", tw_measure_kinds[k].title, "unit",
				      units[tw_measure_kinds[k].unit], "more_is_better",
				      tw_measure_kinds[k].more));
	return o;
}

static json_t *target(const struct tw_comparison *c)
{
	const struct tw_compare_row *row = &c->row[0];
	const bool until = !isnan(row->until_loss) || !isnan(row->until_accuracy);
	const double loss = until ? row->until_loss : c->options.target_loss;
	const double accuracy = until ? row->until_accuracy : c->options.target_accuracy;

	if (isnan(loss) && isnan(accuracy))
		return NULL;
	return json_pack("{s:o, s:o}", "loss", tw_json_number(loss), "accuracy",
			 tw_json_number(accuracy));
}

static void heading(const struct tw_compare_runs *r, json_t *o)
{
	const struct tw_comparison *c = r->comparison;

	tw_json_set(o, "report", json_integer(2));
	tw_json_set(o, "thalweg", json_string(TW_VERSION));
	tw_json_set(o, "title", json_string(c->title));
	tw_json_set(o, "world", json_string(tw_compare_worlds[c->world]));
	tw_json_set(o, "isa", json_string(c->isa));
	tw_json_set(o, "seeds", tw_json_count(c->options.seeds));
	tw_json_set(o, "folds", tw_json_count(c->options.folds));
	tw_json_set(o, "tune_seeds", tw_json_count(r->tuning ? c->options.tune_seeds : 0));
	tw_json_set(o, "measure", json_string(tw_measure_kinds[tw_measure_of(c->measure)].name));
	tw_json_set(o, "measures", measures());
	tw_json_set(o, "target", target(c));
	tw_json_set(o, "equal_time", tw_json_number(r->equal_time));
	tw_json_set(o, "equal_epochs", tw_json_number(r->equal_epochs));
	tw_json_set(o, "settings", tw_json_texts(c->differs, c->differing));
}

json_t *tw_report_make(const struct tw_compare_runs *r, const size_t *chosen, size_t points)
{
	const struct tw_comparison *c = r->comparison;
	const size_t most =
		c->options.seeds > c->options.tune_seeds ? c->options.seeds : c->options.tune_seeds;
	struct room room = { malloc((most + 1) * sizeof(double)),
			     malloc(2 * (most + 1) * sizeof(struct tw_mark)) };
	size_t *place = calloc(c->rows + 1, sizeof *place);
	json_t *o = json_object(), *rows = json_array();
	struct tw_ranking rank = { .place = place };

	if (!room.value || !room.mark || !place || !o || !rows) {
		json_decref(o);
		json_decref(rows);
		o = NULL;
		goto out;
	}
	tw_ranking_make(r, &rank);
	heading(r, o);
	for (size_t k = 0; k < c->rows; k++)
		json_array_append_new(rows, row_of(r, &rank, k, chosen, points, &room));
	tw_json_set(o, "best", rank.best == SIZE_MAX ? NULL : json_string(c->row[rank.best].label));
	tw_json_set(o, "resolved",
		    json_boolean(rank.best != SIZE_MAX && resolved(r, rank.best, room.mark)));
	tw_json_set(o, "cost", costs(r));
	tw_json_set(o, "tried", all_tried(c));
	tw_json_set(o, "rows", rows);
	tw_json_set(o, "findings", tw_findings(o));
	tw_json_set(o, "notes", tw_findings_notes(o, c->note, c->notes));
out:
	free(room.value);
	free(room.mark);
	free(place);
	return o;
}

/* Nine digits tell floats apart, and keep the file small. */
char *tw_report_text(const json_t *report)
{
	return json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(9));
}
