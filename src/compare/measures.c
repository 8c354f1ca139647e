/* SPDX-License-Identifier: Apache-2.0 */
/* measures.c - what a finished run came to, as numbers that can be compared. */
#include "compare/measures.h"

#include "base/machine/regular_file.h"
#include "compare/report_fields.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct tw_measure_kind tw_measure_kinds[TW_MEASURES] = {
	[TW_MEASURE_ACCURACY] = { "accuracy", "accuracy", TW_UNIT_PERCENT, true, TW_WORST_ZERO },
	[TW_MEASURE_LOSS] = { "loss", "loss", TW_UNIT_PLAIN, false, TW_WORST_LOSS },
	[TW_MEASURE_BEST_ACCURACY] = { "best-accuracy", "best accuracy", TW_UNIT_PERCENT, true,
				       TW_WORST_ZERO },
	[TW_MEASURE_BEST_LOSS] = { "best-loss", "best loss", TW_UNIT_PLAIN, false, TW_WORST_LOSS },
	[TW_MEASURE_ACCURACY_AT_TIME] = { "accuracy-at-time", "accuracy at equal time",
					  TW_UNIT_PERCENT, true, TW_WORST_ZERO },
	[TW_MEASURE_LOSS_AT_TIME] = { "loss-at-time", "loss at equal time", TW_UNIT_PLAIN, false,
				      TW_WORST_LOSS },
	[TW_MEASURE_ACCURACY_AT_EPOCHS] = { "accuracy-at-epochs", "accuracy at equal epochs",
					    TW_UNIT_PERCENT, true, TW_WORST_ZERO },
	[TW_MEASURE_LOSS_AT_EPOCHS] = { "loss-at-epochs", "loss at equal epochs", TW_UNIT_PLAIN,
					false, TW_WORST_LOSS },
	[TW_MEASURE_TIME_TO_TARGET] = { "time-to-target", "time to target", TW_UNIT_SECONDS, false,
					TW_WORST_TIME },
	[TW_MEASURE_SPEED] = { "samples-per-second", "samples per second", TW_UNIT_PER_SECOND,
			       true },
	[TW_MEASURE_SECONDS] = { "seconds", "length of the run", TW_UNIT_SECONDS, false },
	[TW_MEASURE_EPOCHS] = { "epochs", "epochs", TW_UNIT_PLAIN, true },
	[TW_MEASURE_UPDATES] = { "updates", "updates", TW_UNIT_PLAIN, false },
	[TW_MEASURE_BYTES] = { "bytes", "bytes sent", TW_UNIT_BYTES, false },
	[TW_MEASURE_STALENESS] = { "staleness", "mean staleness", TW_UNIT_PLAIN, false },
	[TW_MEASURE_GAP] = { "gap", "gap", TW_UNIT_PLAIN, false },
	[TW_MEASURE_IDLE] = { "idle", "idle workers", TW_UNIT_PERCENT, false },
	[TW_MEASURE_EFFORT] = { "effort", "effort of samples", TW_UNIT_PLAIN, true },
	[TW_MEASURE_BURST] = { "burst", "burst on the servers' links", TW_UNIT_PLAIN, false },
};

enum tw_measure tw_measure_of(uint32_t option)
{
	size_t k = 0;

	while (k + 1 < TW_MEASURES &&
	       strcmp(tw_measure_kinds[k].name, tw_compare_measures[option]) != 0)
		k++;
	return (enum tw_measure)k;
}

static const char *grouped(double value, char *out, size_t room)
{
	char digits[40];
	size_t n, at = 0;

	snprintf(digits, sizeof digits, "%.0f", value);
	n = strlen(digits);
	for (size_t k = 0; k < n && at + 2 < room; k++) {
		if (k && digits[k - 1] != '-' && (n - k) % 3 == 0)
			out[at++] = ',';
		out[at++] = digits[k];
	}
	out[at] = '\0';
	return out;
}

static const char *scaled(double value, const char *const *units, double step, char *out,
			  size_t room)
{
	while (fabs(value) >= 0.9995 * step && units[1]) {
		value /= step;
		units++;
	}
	snprintf(out, room, "%.3g %s", value, *units);
	return out;
}

const char *tw_measure_text(enum tw_measure_unit unit, double value, char *out, size_t room)
{
	static const char *const bytes[] = { "B", "kB", "MB", "GB", "TB", NULL };
	char text[40];

	if (isnan(value))
		snprintf(out, room, "-");
	else if (unit == TW_UNIT_PERCENT)
		snprintf(out, room, "%.2f %%", 100 * value);
	else if (unit == TW_UNIT_BYTES)
		return scaled(value, bytes, 1000, out, room);
	else if (unit == TW_UNIT_PER_SECOND)
		snprintf(out, room, "%s/s",
			 fabs(value) >= 99.5 ? grouped(value, text, sizeof text)
					     : (snprintf(text, sizeof text, "%.3g", value), text));
	else if (unit == TW_UNIT_SECONDS)
		snprintf(out, room, fabs(value) >= 99.95 ? "%.0f s" : "%.3g s", value);
	else
		snprintf(out, room, "%.4g", value);
	return out;
}

/* Digits behind the point that two digits of x need. */
static int decimals(double x)
{
	const double digits = x > 0 ? 1 - floor(log10(x)) : 3;

	return digits < 0 ? 0 : digits > 12 ? 12 : (int)digits;
}

const char *tw_spread_text(enum tw_measure_unit unit, double mean, double deviation, bool bare,
			   char *out, size_t room)
{
	static const char *const units[] = { [TW_UNIT_PERCENT] = " %", [TW_UNIT_SECONDS] = " s" };
	const double scale = unit == TW_UNIT_PERCENT ? 100 : 1;
	const bool named = !bare && (unit == TW_UNIT_PERCENT || unit == TW_UNIT_SECONDS);
	int places = unit == TW_UNIT_PERCENT ? 2 : decimals(deviation);
	char a[40], b[40];

	if (isnan(mean)) {
		snprintf(out, room, "-");
	} else if (unit == TW_UNIT_BYTES || unit == TW_UNIT_PER_SECOND || isnan(deviation)) {
		tw_measure_text(unit, mean, a, sizeof a);
		tw_measure_text(unit, deviation, b, sizeof b);
		if (bare && unit != TW_UNIT_BYTES)
			a[strcspn(a, " ")] = '\0';
		snprintf(out, room, isnan(deviation) ? "%s" : "%s \xc2\xb1 %s", a, b);
	} else if (fabs(mean) > 1e6 || deviation > 1e6) {
		snprintf(out, room, "%.3g \xc2\xb1 %.2g%s", mean, deviation,
			 named ? units[unit] : "");
	} else {
		snprintf(out, room, "%.*f \xc2\xb1 %.*f%s", places, scale * mean, places,
			 scale * deviation, named ? units[unit] : "");
	}
	return out;
}

/* --- one run --- */

static double extreme(const struct tw_curve *c, enum tw_curve_column y, bool most)
{
	double best = NAN;

	for (size_t k = 0; k < c->n; k++)
		if (isnan(best) || (most ? c->point[k][y] > best : c->point[k][y] < best))
			best = c->point[k][y];
	return best;
}

static double earlier(double a, double b)
{
	return isnan(a) || b < a ? b : a;
}

/* To train.until where the row has it, which ends runs; else to compare.target. */
static double time_to_target(const struct tw_comparison *c, const struct tw_compare_run *r)
{
	const struct tw_compare_row *row = &c->row[r->cell->row];
	const bool until = !isnan(row->until_loss) || !isnan(row->until_accuracy);
	const double loss = until ? row->until_loss : c->options.target_loss;
	const double accuracy = until ? row->until_accuracy : c->options.target_accuracy;
	double first = NAN;

	if (!isnan(loss))
		first = tw_curve_first(&r->curve, TW_CURVE_TIME, TW_CURVE_LOSS, loss, false);
	if (!isnan(accuracy))
		first = earlier(first, tw_curve_first(&r->curve, TW_CURVE_TIME, TW_CURVE_ACCURACY,
						      accuracy, true));
	return first;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* How much the busiest fiftieth of the bins of the servers' links exceeds their mean.  The first
 * twentieth and the last fifth of a run are no steady state and do not count.  NAN: there are no
 * servers, or too few bins to tell, or no memory for them. */
static double burst(const json_t *link)
{
	const json_t *in = json_object_get(link, "received"), *out = json_object_get(link, "sent");
	const size_t all = json_array_size(in), first = all / 20;
	const size_t n = all - all / 5 - first;
	double *load, sum = 0, top;

	if (n < 50 || json_array_size(out) != all || !(load = malloc(n * sizeof *load)))
		return NAN;
	for (size_t k = 0; k < n; k++) {
		load[k] = json_number_value(json_array_get(in, first + k)) +
			  json_number_value(json_array_get(out, first + k));
		sum += load[k];
	}
	qsort(load, n, sizeof *load, by_size);
	top = load[n - n / 50];
	free(load);
	return sum > 0 ? top / (sum / (double)n) : NAN;
}

static void measure(const struct tw_comparison *c, struct tw_compare_run *r)
{
	const json_t *o = r->result;
	const double computing = tw_real_at(json_object_get(o, "usage"), "computing");
	double *v = r->value;

	v[TW_MEASURE_ACCURACY] = tw_real_at(o, "accuracy");
	v[TW_MEASURE_LOSS] = tw_real_at(o, "loss");
	v[TW_MEASURE_BEST_ACCURACY] = extreme(&r->curve, TW_CURVE_ACCURACY, true);
	v[TW_MEASURE_BEST_LOSS] = extreme(&r->curve, TW_CURVE_LOSS, false);
	v[TW_MEASURE_TIME_TO_TARGET] = time_to_target(c, r);
	v[TW_MEASURE_SECONDS] =
		tw_real_at(o, c->world == TW_COMPARE_SIM ? "virtual_seconds" : "seconds");
	v[TW_MEASURE_SPEED] = tw_real_at(json_object_get(o, "steady"), "samples_per_second");
	if (isnan(v[TW_MEASURE_SPEED]))
		v[TW_MEASURE_SPEED] = tw_real_at(o, "samples") / v[TW_MEASURE_SECONDS];
	v[TW_MEASURE_EPOCHS] = tw_real_at(o, "epochs_applied");
	v[TW_MEASURE_UPDATES] = tw_real_at(o, "updates");
	v[TW_MEASURE_BYTES] = tw_real_at(o, "bytes_sent");
	v[TW_MEASURE_STALENESS] = tw_real_at(json_object_get(o, "staleness"), "mean");
	v[TW_MEASURE_GAP] = tw_real_at(json_object_get(o, "gap"), "rms");
	v[TW_MEASURE_IDLE] = 1 - computing;
	v[TW_MEASURE_EFFORT] = tw_real_at(o, "effort");
	v[TW_MEASURE_BURST] = burst(json_object_get(o, "server_link"));
}

/* What a run that diverged had reached before is not what its method reaches. */
static void forget_scores(struct tw_compare_run *r)
{
	static const enum tw_measure scores[] = { TW_MEASURE_ACCURACY,      TW_MEASURE_LOSS,
						  TW_MEASURE_BEST_ACCURACY, TW_MEASURE_BEST_LOSS,
						  TW_MEASURE_SECONDS,       TW_MEASURE_EPOCHS,
						  TW_MEASURE_TIME_TO_TARGET };

	for (size_t k = 0; k < sizeof scores / sizeof scores[0]; k++)
		r->value[scores[k]] = NAN;
}

static struct tw_compare_run no_run(const char *failure)
{
	struct tw_compare_run r = { .failure = failure };

	for (size_t k = 0; k < TW_MEASURES; k++)
		r.value[k] = NAN;
	return r;
}

static enum tw_status read_run(const struct tw_comparison *c, const struct tw_cells *cells,
			       const struct tw_compare_cell *cell, struct tw_compare_run *r,
			       struct tw_error *why)
{
	json_error_t said;
	char path[4200];
	enum tw_status st;
	int fd;

	*r = no_run(tw_cells_failure(cells, cell));
	r->cell = cell;
	if (r->failure)
		return TW_OK;
	tw_cells_path(cells, cell, "result.json", path);
	fd = tw_cells_file(cells, cell, "result.json");
	if (fd < 0)
		return tw_fail(why, TW_IO, "%.300s: cannot be read: %s", path, tw_cause(errno));
	r->result = json_loadfd(fd, 0, &said);
	close(fd);
	if (!r->result)
		return tw_fail(why, TW_BAD_INPUT,
			       "%.300s: is damaged (%.100s); remove its folder and run again", path,
			       said.text);
	r->diverged = json_is_true(json_object_get(r->result, "diverged"));
	tw_cells_path(cells, cell, "log.jsonl", path);
	st = tw_curve_read(tw_cells_file(cells, cell, "log.jsonl"), path, &r->curve, why);
	if (st != TW_OK)
		return st;
	measure(c, r);
	if (r->diverged)
		forget_scores(r);
	return TW_OK;
}

/* --- all of them --- */

/* The last moment that all curves have, of rows that are no baseline. */
static double common_end(const struct tw_compare_runs *r, enum tw_curve_column x)
{
	const struct tw_comparison *c = r->comparison;
	const size_t seeds = c->options.seeds;
	double end = NAN;

	for (size_t k = 0; k < c->rows * seeds; k++) {
		const struct tw_compare_run *run = &r->run[k];

		if (!c->row[k / seeds].baseline && !run->diverged && !run->failure && run->curve.n)
			end = earlier(end, run->curve.point[run->curve.n - 1][x]);
	}
	return end;
}

static void measure_equal(struct tw_compare_runs *r)
{
	const struct tw_comparison *c = r->comparison;

	r->equal_time = common_end(r, TW_CURVE_TIME);
	r->equal_epochs = common_end(r, TW_CURVE_EPOCHS);
	for (size_t k = 0; k < c->rows * c->options.seeds; k++) {
		struct tw_compare_run *run = &r->run[k];
		double *v = run->value;

		if (run->diverged || run->failure)
			continue;
		v[TW_MEASURE_ACCURACY_AT_TIME] =
			tw_curve_at(&run->curve, TW_CURVE_TIME, r->equal_time, TW_CURVE_ACCURACY);
		v[TW_MEASURE_LOSS_AT_TIME] =
			tw_curve_at(&run->curve, TW_CURVE_TIME, r->equal_time, TW_CURVE_LOSS);
		v[TW_MEASURE_ACCURACY_AT_EPOCHS] = tw_curve_at(&run->curve, TW_CURVE_EPOCHS,
							       r->equal_epochs, TW_CURVE_ACCURACY);
		v[TW_MEASURE_LOSS_AT_EPOCHS] =
			tw_curve_at(&run->curve, TW_CURVE_EPOCHS, r->equal_epochs, TW_CURVE_LOSS);
	}
}

/* Of every try that a row's job accepts. */
static enum tw_status read_tuning(const struct tw_comparison *c, const struct tw_cells *cells,
				  const struct tw_compare_row *row, struct tw_compare_run **out,
				  struct tw_error *why)
{
	const size_t each = c->options.tune_seeds;
	struct tw_compare_run *run = calloc(row->tries * each + 1, sizeof *run);
	enum tw_status st = TW_OK;

	*out = run;
	if (!run)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the results");
	for (size_t k = 0; k < row->tries * each && st == TW_OK; k++) {
		const struct tw_compare_try *t = &row->try_[k / each];

		if (t->refused)
			run[k] = no_run(t->refused);
		else
			st = read_run(c, cells, &t->tuning[k % each], &run[k], why);
	}
	return st;
}

enum tw_status tw_compare_runs_read(const struct tw_comparison *c, const struct tw_cells *cells,
				    const size_t *chosen, struct tw_compare_runs *out,
				    struct tw_error *why)
{
	const size_t seeds = c->options.seeds;
	struct tw_compare_runs r = {
		.comparison = c,
		.equal_time = NAN,
		.equal_epochs = NAN,
	};
	enum tw_status st = TW_OK;

	r.run = calloc(c->rows * seeds + 1, sizeof *r.run);
	r.tuning = tw_comparison_tunes(c) ? calloc(c->rows + 1, sizeof *r.tuning) : NULL;
	if (!r.run || (tw_comparison_tunes(c) && !r.tuning))
		st = tw_fail(why, TW_NO_MEMORY, "no memory for the results");
	for (size_t k = 0; k < c->rows && r.tuning && st == TW_OK; k++)
		st = read_tuning(c, cells, &c->row[k], &r.tuning[k], why);
	for (size_t k = 0; k < c->rows && chosen && st == TW_OK; k++)
		for (size_t i = 0; i < seeds && st == TW_OK; i++)
			st = read_run(c, cells, &c->row[k].try_[chosen[k]].final[i],
				      &r.run[k * seeds + i], why);
	if (st != TW_OK) {
		tw_compare_runs_release(&r);
		return st;
	}
	if (chosen)
		measure_equal(&r);
	*out = r;
	return TW_OK;
}

static void release(struct tw_compare_run *run, size_t n)
{
	for (size_t k = 0; run && k < n; k++) {
		tw_curve_release(&run[k].curve);
		json_decref(run[k].result);
	}
	free(run);
}

void tw_compare_runs_release(struct tw_compare_runs *r)
{
	const struct tw_comparison *c = r->comparison;

	if (!c)
		return;
	release(r->run, c->rows * c->options.seeds);
	for (size_t k = 0; r->tuning && k < c->rows; k++)
		release(r->tuning[k], c->row[k].tries * c->options.tune_seeds);
	free(r->tuning);
	*r = (struct tw_compare_runs){ 0 };
}

/* --- choosing --- */

struct tw_mark tw_mark_of(const struct tw_compare_run *run, enum tw_measure m)
{
	struct tw_mark mark = { .kind = TW_MARK_VALUE, .value = run->value[m] };

	if (run->failure)
		mark.kind = TW_MARK_NOTHING;
	else if (run->diverged || (isnan(mark.value) && m == TW_MEASURE_TIME_TO_TARGET))
		mark.kind = TW_MARK_LOST;
	else if (isnan(mark.value))
		mark.kind = TW_MARK_NOTHING;
	return mark;
}

static double worse(double a, double b, bool more)
{
	return isnan(a) || (!isnan(b) && (more ? b < a : b > a)) ? b : a;
}

double tw_measure_worst_of(const struct tw_compare_run *run, size_t n, enum tw_measure m)
{
	const struct tw_measure_kind *kind = &tw_measure_kinds[m];
	double worst = NAN;

	if (kind->worst == TW_WORST_ZERO)
		return 0;
	for (size_t k = 0; k < n; k++) {
		const struct tw_mark mark = tw_mark_of(&run[k], m);

		if (mark.kind == TW_MARK_VALUE)
			worst = worse(worst, mark.value, kind->more);
		if (kind->worst == TW_WORST_TIME)
			worst = worse(worst, run[k].value[TW_MEASURE_SECONDS], false);
		if (kind->worst == TW_WORST_LOSS && !run[k].diverged)
			worst = worse(worst, extreme(&run[k].curve, TW_CURVE_LOSS, true), false);
	}
	return worst;
}

static double mean_of(const struct tw_compare_run *run, size_t n, enum tw_measure m, double worst)
{
	double sum = 0;
	size_t said = 0;

	for (size_t k = 0; k < n; k++) {
		const struct tw_mark mark = tw_mark_of(&run[k], m);

		if (mark.kind == TW_MARK_NOTHING)
			continue;
		sum += mark.kind == TW_MARK_LOST ? worst : mark.value;
		said++;
	}
	return said ? sum / (double)said : NAN;
}

struct tw_standing tw_standing_of(const struct tw_compare_run *run, size_t n, enum tw_measure m,
				  double worst)
{
	struct tw_standing s = {
		.mean = mean_of(run, n, m, worst),
		.loss = mean_of(run, n, TW_MEASURE_LOSS, INFINITY),
	};

	for (size_t k = 0; k < n; k++)
		s.values += tw_mark_of(&run[k], m).kind == TW_MARK_VALUE;
	return s;
}

/* A number stands before none. */
static int order(double a, double b, bool more)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return more ? (a < b) - (a > b) : (a > b) - (a < b);
}

bool tw_standing_before(const struct tw_standing *a, const struct tw_standing *b, enum tw_measure m)
{
	const int by_mean = order(a->mean, b->mean, tw_measure_kinds[m].more);

	return by_mean ? by_mean < 0 : order(a->loss, b->loss, false) < 0;
}

enum tw_measure tw_measure_tuned(const struct tw_comparison *c)
{
	const enum tw_measure m = tw_measure_of(c->measure);

	return m == TW_MEASURE_ACCURACY_AT_TIME ? TW_MEASURE_ACCURACY
	       : m == TW_MEASURE_LOSS_AT_TIME   ? TW_MEASURE_LOSS
						: m;
}

/* Tries that came later may be of lower values. */
static bool chosen_before(const struct tw_compare_row *row, size_t a, size_t b)
{
	return row->try_[a].combination < row->try_[b].combination;
}

void tw_compare_choose(const struct tw_compare_runs *r, size_t *chosen)
{
	const struct tw_comparison *c = r->comparison;
	const enum tw_measure m = tw_measure_tuned(c);
	const size_t each = c->options.tune_seeds;

	for (size_t k = 0; k < c->rows; k++) {
		const struct tw_compare_row *row = &c->row[k];
		const struct tw_compare_run *run = r->tuning ? r->tuning[k] : NULL;
		struct tw_standing best;
		double worst;

		chosen[k] = 0;
		if (!run)
			continue;
		worst = tw_measure_worst_of(run, row->tries * each, m);
		best = tw_standing_of(run, each, m, worst);
		for (size_t i = 1; i < row->tries; i++) {
			const struct tw_standing s = tw_standing_of(run + i * each, each, m, worst);

			if (row->try_[i].refused || tw_standing_before(&best, &s, m))
				continue;
			if (tw_standing_before(&s, &best, m) || chosen_before(row, i, chosen[k])) {
				best = s;
				chosen[k] = i;
			}
		}
	}
}
