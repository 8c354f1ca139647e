/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - what a comparison came to, as one JSON object. */
#include "compare/report.h"

#include "compare/findings.h"
#include "compare/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *count(size_t n)
{
	return json_integer((json_int_t)n);
}

static void set(json_t *o, const char *name, json_t *value)
{
	json_object_set_new(o, name, value ? value : json_null());
}

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
			json_array_append_new(column[k], number(c->point[keep[i]][k]));
		set(out, tw_curve_names[k], column[k]);
	}
	free(keep);
	return out;
}

static json_t *run_of(const struct tw_compare_run *r, size_t points)
{
	json_t *o = json_object(), *values = json_object();

	set(o, "seed", json_integer((json_int_t)r->cell->seed));
	set(o, "diverged", json_boolean(r->diverged));
	set(o, "failure", r->failure ? json_string(r->failure) : NULL);
	for (size_t k = 0; k < TW_MEASURES; k++)
		set(values, tw_measure_kinds[k].name, number(r->value[k]));
	set(o, "values", values);
	set(o, "curve", curve(&r->curve, points));
	return o;
}

/* --- a row --- */

static void values_of(const struct tw_compare_run *run, size_t n, enum tw_measure m, double *out)
{
	for (size_t k = 0; k < n; k++)
		out[k] = run[k].value[m];
}

static json_t *summaries(const struct tw_compare_run *run, size_t n, double *room)
{
	json_t *o = json_object();

	for (size_t k = 0; k < TW_MEASURES; k++) {
		struct tw_summary s;

		values_of(run, n, (enum tw_measure)k, room);
		s = tw_summarise(room, n);
		set(o, tw_measure_kinds[k].name,
		    json_pack("{s:o, s:o, s:o}", "n", count(s.n), "mean", number(s.mean),
			      "deviation", number(s.deviation)));
	}
	return o;
}

static const char *verdict_of(const struct tw_paired *p, bool more)
{
	if (isnan(p->half))
		return "unknown";
	if (tw_paired_noise(p))
		return "within noise";
	return (p->difference > 0) == more ? "better" : "worse";
}

/* The row's runs against those of another, seed by seed. */
static json_t *against(const struct tw_compare_runs *r, size_t row, size_t other, double *room)
{
	const enum tw_measure m = tw_measure_of(r->comparison->measure);
	const size_t n = r->comparison->options.seeds;
	struct tw_paired p;

	if (other == SIZE_MAX || other == row)
		return NULL;
	values_of(&r->run[row * n], n, m, room);
	values_of(&r->run[other * n], n, m, room + n);
	p = tw_pair(room, room + n, n);
	return json_pack("{s:s, s:o, s:o, s:o, s:s}", "row", r->comparison->row[other].label,
			 "pairs", count(p.pairs), "difference", number(p.difference), "half",
			 number(p.half), "verdict", verdict_of(&p, tw_measure_kinds[m].more));
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
		all[0] += json_number_value(json_object_get(u, "computing"));
		all[1] += json_number_value(json_object_get(u, "transferring"));
		all[2] += json_number_value(json_object_get(u, "waiting"));
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

/* Does the chosen value lie at an end of its list, which has numbers in it?  Then a better one may
 * lie beyond. */
static const char *edge(const struct tw_compare_axis *axis, size_t value)
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

static json_t *tuned(const struct tw_comparison *c, size_t combination)
{
	json_t *o = json_array();

	for (size_t k = 0; k < c->tunes; k++) {
		const size_t v = tw_comparison_value(c, combination, k);
		const char *at = edge(&c->tune[k], v);

		json_array_append_new(o, json_pack("{s:s, s:s, s:o}", "path", c->tune[k].path,
						   "value", c->tune[k].value[v].text, "edge",
						   at ? json_string(at) : json_null()));
	}
	return o;
}

/* Every combination that was tried, with what it came to. */
static json_t *tries(const struct tw_compare_runs *r, size_t row, double *room)
{
	const struct tw_comparison *c = r->comparison;
	const enum tw_measure m = tw_measure_tuned(c);
	const size_t n = c->options.tune_seeds;
	json_t *out = json_array();

	for (size_t k = 0; r->tries && k < c->combinations; k++) {
		const struct tw_compare_run *run = &r->tuning[row * r->tries + k * n];
		const struct tw_standing s = tw_standing_of(run, n, m);
		struct tw_summary sum;

		values_of(run, n, m, room);
		sum = tw_summarise(room, n);
		json_array_append_new(
			out, json_pack("{s:o, s:o, s:o, s:o, s:o}", "values", tuned(c, k), "n",
				       count(sum.n), "mean", number(sum.mean), "deviation",
				       number(sum.deviation), "diverged", count(s.diverged)));
	}
	return out;
}

static json_t *cost_of(const struct tw_compare_run *run, size_t n)
{
	double samples = 0, seconds = 0;

	for (size_t k = 0; k < n; k++) {
		samples += run[k].result
				   ? json_number_value(json_object_get(run[k].result, "samples"))
				   : 0;
		seconds += isnan(run[k].value[TW_MEASURE_SECONDS])
				   ? 0
				   : run[k].value[TW_MEASURE_SECONDS];
	}
	return json_pack("{s:o, s:o, s:o}", "runs", count(n), "samples", number(samples), "seconds",
			 number(seconds));
}

/* --- all of it --- */

static json_t *row_of(const struct tw_compare_runs *r, const struct tw_ranking *rank, size_t k,
		      const size_t *chosen, size_t points, double *room)
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
	set(o, "label", json_string(row->label));
	set(o, "rank", count(rank->place[k]));
	set(o, "baseline", json_boolean(row->baseline));
	set(o, "workers", count(row->workers));
	set(o, "diverged", count(diverged));
	set(o, "failed", count(failed));
	set(o, "settings", settings_of(c, row));
	set(o, "tuned", tuned(c, chosen[k]));
	set(o, "tries", tries(r, k, room));
	set(o, "summary", summaries(run, n, room));
	set(o, "against_best", against(r, k, rank->best, room));
	set(o, "against_baseline", against(r, k, rank->baseline, room));
	set(o, "staleness", staleness(run, n));
	set(o, "usage", usage(run, n));
	set(o, "server_link", json_incref(json_object_get(run[0].result, "server_link")));
	set(o, "job", json_string(run[0].cell->text));
	set(o, "runs", runs);
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
		set(o, tw_measure_kinds[k].name,
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
	return json_pack("{s:o, s:o}", "loss", number(loss), "accuracy", number(accuracy));
}

static json_t *texts(const char *const *list, size_t n)
{
	json_t *o = json_array();

	for (size_t k = 0; k < n; k++)
		json_array_append_new(o, json_string(list[k]));
	return o;
}

static void heading(const struct tw_compare_runs *r, json_t *o)
{
	const struct tw_comparison *c = r->comparison;

	set(o, "report", json_integer(1));
	set(o, "thalweg", json_string(TW_VERSION));
	set(o, "title", json_string(c->title));
	set(o, "world", json_string(tw_compare_worlds[c->world]));
	set(o, "isa", json_string(c->isa));
	set(o, "seeds", count(c->options.seeds));
	set(o, "tune_seeds", count(r->tries ? c->options.tune_seeds : 0));
	set(o, "measure", json_string(tw_measure_kinds[tw_measure_of(c->measure)].name));
	set(o, "measures", measures());
	set(o, "target", target(c));
	set(o, "equal_time", number(r->equal_time));
	set(o, "equal_epochs", number(r->equal_epochs));
	set(o, "settings", texts(c->differs, c->differing));
}

json_t *tw_report_make(const struct tw_compare_runs *r, const size_t *chosen, size_t points)
{
	const struct tw_comparison *c = r->comparison;
	const size_t most =
		c->options.seeds > c->options.tune_seeds ? c->options.seeds : c->options.tune_seeds;
	double *room = malloc(2 * (most + 1) * sizeof *room);
	size_t *place = calloc(c->rows + 1, sizeof *place);
	json_t *o = json_object(), *rows = json_array();
	struct tw_ranking rank = { .place = place };

	if (!room || !place || !o || !rows) {
		free(room);
		free(place);
		json_decref(o);
		json_decref(rows);
		return NULL;
	}
	tw_ranking_make(r, &rank);
	heading(r, o);
	for (size_t k = 0; k < c->rows; k++)
		json_array_append_new(rows, row_of(r, &rank, k, chosen, points, room));
	set(o, "best", rank.best == SIZE_MAX ? NULL : json_string(c->row[rank.best].label));
	set(o, "cost",
	    json_pack("{s:o, s:o}", "comparison", cost_of(r->run, c->rows * c->options.seeds),
		      "tuning", r->tries ? cost_of(r->tuning, c->rows * r->tries) : json_null()));
	set(o, "rows", rows);
	set(o, "findings", tw_findings(o));
	set(o, "notes", tw_findings_notes(o, c->note, c->notes));
	free(room);
	free(place);
	return o;
}

/* Nine digits tell floats apart, and keep the file small. */
char *tw_report_text(const json_t *report)
{
	return json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(9));
}
