/* SPDX-License-Identifier: Apache-2.0 */
/* report_table.c - a report as text for a terminal of 100 columns. */
#include "base/json.h"
#include "compare/report.h"

#include "compare/report_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH       100
#define COLUMNS     13
#define CELL        80
#define LABEL_LEAST 24

static const json_t *summary_of(const json_t *row, enum tw_measure m)
{
	return json_object_get(json_object_get(row, "summary"), tw_measure_kinds[m].name);
}

/* --- text in columns --- */

/* Characters, of UTF-8. */
static size_t width_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void pad(FILE *out, const char *text, size_t width, bool right)
{
	const size_t n = width_of(text);

	if (right)
		fprintf(out, "%*s%s", (int)(width > n ? width - n : 0), "", text);
	else
		fprintf(out, "%s%*s", text, (int)(width > n ? width - n : 0), "");
}

/* A paragraph, each line after `lead` or as many blanks. */
static void paragraph(FILE *out, const char *lead, const char *text)
{
	size_t at = WIDTH + 1;

	for (const char *word = text; *word;) {
		const size_t bytes = strcspn(word, " ");
		char one[700];
		size_t n;

		snprintf(one, sizeof one, "%.*s", (int)bytes, word);
		n = width_of(one);
		if (at + 1 + n > WIDTH) {
			if (at <= WIDTH)
				fputc('\n', out);
			fprintf(out, "%*s", (int)width_of(lead), at <= WIDTH ? "" : lead);
			at = width_of(lead);
		} else {
			fputc(' ', out);
			at++;
		}
		fputs(one, out);
		at += n;
		word += bytes + (word[bytes] == ' ');
	}
	fputc('\n', out);
}

struct table {
	size_t columns, rows, width[COLUMNS];
	char head[2][COLUMNS][CELL];
	char (*cell)[COLUMNS][CELL];
};

static bool table_open(struct table *t, size_t rows)
{
	*t = (struct table){ .cell = calloc(rows + 1, sizeof *t->cell) };
	return t->cell;
}

static void widen(struct table *t, size_t column, const char *text)
{
	if (width_of(text) > t->width[column])
		t->width[column] = width_of(text);
}

/* A long label loses its middle, where labels of one grid are alike. */
static void shorten(char *label, size_t most)
{
	const size_t n = strlen(label), half = most / 2 - 1;
	char text[CELL];

	if (width_of(label) <= most || n != width_of(label))
		return;
	snprintf(text, sizeof text, "%.*s..%s", (int)half, label, label + n - half);
	snprintf(label, CELL, "%s", text);
}

static void shorten_labels(struct table *t, size_t by)
{
	const size_t most = t->width[0] > by + 12 ? t->width[0] - by : 12;

	t->width[0] = 0;
	for (size_t k = 0; k < t->rows; k++) {
		shorten(t->cell[k][0], most);
		widen(t, 0, t->cell[k][0]);
	}
	widen(t, 0, t->head[1][0]);
}

static size_t table_width(const struct table *t)
{
	size_t n = 2 * (t->columns - 1);

	for (size_t c = 0; c < t->columns; c++)
		n += t->width[c];
	return n;
}

static void table_print(struct table *t, FILE *out)
{
	bool two = false; /* lines of heads */

	for (size_t c = 0; c < t->columns; c++) {
		widen(t, c, t->head[0][c]);
		two |= *t->head[0][c];
		widen(t, c, t->head[1][c]);
		for (size_t k = 0; k < t->rows; k++)
			widen(t, c, t->cell[k][c]);
	}
	/* labels that lose too much can no longer be told apart: then the last columns go */
	while (t->columns > 5 && table_width(t) > WIDTH &&
	       t->width[0] < LABEL_LEAST + table_width(t) - WIDTH)
		t->columns--;
	if (table_width(t) > WIDTH)
		shorten_labels(t, table_width(t) - WIDTH);
	for (size_t k = two ? 0 : 1; k < t->rows + 2; k++) {
		for (size_t c = 0; c < t->columns; c++) {
			fputs(c ? "  " : "", out);
			pad(out, k < 2 ? t->head[k][c] : t->cell[k - 2][c], t->width[c], c > 0);
		}
		fputc('\n', out);
	}
	free(t->cell);
}

/* --- the main table --- */

static void mean_text(enum tw_measure_unit unit, const json_t *s, char *out)
{
	tw_spread_text(unit, tw_real_at(s, "mean"), tw_real_at(s, "deviation"), true, out, CELL);
}

/* What is not resolved has a question mark, which the text below the table explains. */
static void difference_text(enum tw_measure_unit unit, const json_t *a, char *out)
{
	const char *verdict = tw_text_at(a, "verdict");
	const double d = tw_real_at(a, "difference");
	const bool open = strcmp(verdict, "not resolved") == 0;

	if (isnan(tw_real_at(a, "half"))) {
		snprintf(out, CELL, "%s", open ? "?" : *verdict ? verdict : "-");
		return;
	}
	snprintf(out, CELL, "%s", d < 0 ? "-" : "+");
	tw_spread_text(unit, fabs(d), tw_real_at(a, "half"), true, out + strlen(out),
		       CELL - strlen(out));
	snprintf(out + strlen(out), CELL - strlen(out), "%s", open ? " ?" : "");
}

static void plain(struct table *t, size_t row, size_t column, enum tw_measure m, const json_t *from,
		  const char *format)
{
	const double mean = tw_real_at(summary_of(from, m), "mean");
	char text[40];

	if (isnan(mean))
		snprintf(t->cell[row][column], CELL, "-");
	else if (format)
		snprintf(t->cell[row][column], CELL, format, mean);
	else
		snprintf(t->cell[row][column], CELL, "%s",
			 tw_measure_text(tw_measure_kinds[m].unit, mean, text, sizeof text));
}

static size_t head(struct table *t, const char *upper, const char *lower)
{
	snprintf(t->head[0][t->columns], CELL, "%s", upper);
	snprintf(t->head[1][t->columns], CELL, "%s", lower);
	return t->columns++;
}

static bool any_value(const json_t *report, enum tw_measure m)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (!isnan(tw_real_at(summary_of(row, m), "mean")))
			return true;
	}
	return false;
}

/* What stands in a row, from left to right; SIZE_MAX: it has no such column. */
struct columns {
	size_t tuned, mean, against, other, speed, bytes, staleness, gap, idle;
	enum tw_measure others; /* the second score: at equal time, or at the end */
};

static void heads(struct table *t, const json_t *report, struct columns *c)
{
	const struct tw_measure_kind *m = &tw_measure_kinds[tw_report_measure(report)];
	const json_t *tuned =
		json_object_get(json_array_get(json_object_get(report, "rows"), 0), "tuned");
	const bool time = tw_report_measure(report) == TW_MEASURE_TIME_TO_TARGET;
	const bool accurate = any_value(report, TW_MEASURE_ACCURACY);
	const char *path = tw_text_at(json_array_get(tuned, 0), "path"), *dot = strrchr(path, '.');
	char text[60];

	*c = (struct columns){ .tuned = SIZE_MAX, .gap = SIZE_MAX, .idle = SIZE_MAX };
	head(t, "", "method");
	if (json_array_size(tuned) == 1)
		c->tuned = head(t, "best", dot ? dot + 1 : path);
	snprintf(text, sizeof text, "%s%s", m->title,
		 m->unit == TW_UNIT_PERCENT   ? ", %"
		 : m->unit == TW_UNIT_SECONDS ? ", s"
					      : "");
	c->mean = head(t, text, "mean \xc2\xb1 dev.");
	c->against = head(t, "against", "the best");
	c->others = time       ? accurate ? TW_MEASURE_ACCURACY : TW_MEASURE_LOSS
		    : accurate ? TW_MEASURE_ACCURACY_AT_TIME
			       : TW_MEASURE_LOSS_AT_TIME;
	if (time)
		snprintf(text, sizeof text, "at the end");
	else
		snprintf(text, sizeof text, "after %.3g s", tw_real_at(report, "equal_time"));
	c->other = head(t, accurate ? "accuracy" : "loss", text);
	c->speed = head(t, "samples", "per s");
	c->bytes = head(t, "bytes", "sent");
	c->staleness = head(t, "stale", "ness");
	if (any_value(report, TW_MEASURE_GAP))
		c->gap = head(t, "gap", "");
	if (any_value(report, TW_MEASURE_IDLE))
		c->idle = head(t, "idle", "");
}

static void fill(struct table *t, const json_t *report, const struct columns *c, const json_t *row,
		 size_t k)
{
	const enum tw_measure m = tw_report_measure(report);
	const enum tw_measure_unit unit = tw_measure_kinds[m].unit;
	const json_t *first = json_array_get(json_object_get(row, "tuned"), 0);
	const size_t diverged = tw_count_at(row, "diverged");
	const size_t seeds = tw_count_at(report, "seeds");
	const size_t valued = tw_count_at(summary_of(row, m), "n");

	snprintf(t->cell[k][0], CELL, "%.70s", tw_text_at(row, "label"));
	if (c->tuned != SIZE_MAX)
		snprintf(t->cell[k][c->tuned], CELL, "%.12s%s", tw_text_at(first, "value"),
			 json_is_string(json_object_get(first, "edge")) ? "!" : "");
	mean_text(unit, summary_of(row, m), t->cell[k][c->mean]);
	if (diverged == seeds)
		snprintf(t->cell[k][c->mean], CELL, "diverged");
	else if (valued && valued < seeds)
		snprintf(t->cell[k][c->mean] + strlen(t->cell[k][c->mean]),
			 CELL - strlen(t->cell[k][c->mean]), " (%zu/%zu)", valued, seeds);
	if (strcmp(tw_text_at(row, "label"), tw_text_at(report, "best")) == 0)
		snprintf(t->cell[k][c->against], CELL, "%s",
			 json_is_true(json_object_get(report, "resolved")) ? "best" : "best mean");
	else
		difference_text(unit, json_object_get(row, "against_best"), t->cell[k][c->against]);
	plain(t, k, c->other, c->others, row, NULL);
	plain(t, k, c->speed, TW_MEASURE_SPEED, row, NULL);
	t->cell[k][c->speed][strcspn(t->cell[k][c->speed], "/")] = '\0';
	plain(t, k, c->bytes, TW_MEASURE_BYTES, row, NULL);
	plain(t, k, c->staleness, TW_MEASURE_STALENESS, row, "%.3g");
	if (c->gap != SIZE_MAX)
		plain(t, k, c->gap, TW_MEASURE_GAP, row, "%.3g");
	if (c->idle != SIZE_MAX) {
		const double idle = tw_real_at(summary_of(row, TW_MEASURE_IDLE), "mean");

		snprintf(t->cell[k][c->idle], CELL, isnan(idle) ? "-" : "%.0f %%", 100 * idle);
	}
}

static void main_table(const json_t *report, FILE *out)
{
	const size_t rows = json_array_size(json_object_get(report, "rows"));
	struct columns c;
	struct table t;

	if (!table_open(&t, rows))
		return;
	heads(&t, report, &c);
	for (size_t k = 0; k < rows; k++)
		fill(&t, report, &c, tw_report_row(report, k + 1), k);
	t.rows = rows;
	table_print(&t, out);
}

/* --- tuning --- */

/* The value of the only field that is tuned. */
static const char *value_of(const json_t *values)
{
	return tw_text_at(json_array_get(values, 0), "value");
}

/* The row's try of that value; NULL: it did not try it. */
static const json_t *try_of(const json_t *row, const char *value)
{
	const json_t *one;
	size_t k;

	json_array_foreach(json_object_get(row, "tries"), k, one)
	{
		if (strcmp(value_of(json_object_get(one, "values")), value) == 0)
			return one;
	}
	return NULL;
}

static void try_text(const json_t *row, const char *value, enum tw_measure_unit unit, char *out)
{
	const json_t *one = try_of(row, value);
	const bool chosen = strcmp(value_of(json_object_get(row, "tuned")), value) == 0;
	char text[40] = "";

	if (one)
		tw_measure_text(unit, tw_real_at(one, "mean"), text, sizeof text);
	text[strcspn(text, " ")] = '\0';
	if (tw_count_at(one, "diverged"))
		snprintf(text, sizeof text, "diverged");
	snprintf(out, CELL, "%s%s", text, chosen ? "*" : " ");
}

/* One tuned field: its values are columns, and methods are rows. */
static void tuning_table(const json_t *report, FILE *out)
{
	const json_t *tried = json_object_get(report, "tried"), *first = json_array_get(tried, 0);
	const size_t rows = json_array_size(json_object_get(report, "rows"));
	const enum tw_measure m = tw_report_measure(report);
	const json_t *values;
	size_t k, i;
	struct table t;

	if (json_array_size(tried) < 2 || json_array_size(tried) >= COLUMNS ||
	    json_array_size(first) != 1 || !table_open(&t, rows))
		return;
	fprintf(out, "\nAll values of %s that were tried (%s%s, on %s; * chosen):\n",
		tw_text_at(json_array_get(first, 0), "path"), tw_measure_kinds[m].title,
		tw_measure_kinds[m].unit == TW_UNIT_PERCENT ? ", %" : "",
		any_value(report, TW_MEASURE_ACCURACY) ? "the validation set"
						       : "seeds of their own");
	head(&t, "", "method");
	json_array_foreach(tried, i, values) head(&t, "", value_of(values));
	for (k = 0; k < rows; k++) {
		const json_t *row = tw_report_row(report, k + 1);

		snprintf(t.cell[k][0], CELL, "%.70s", tw_text_at(row, "label"));
		json_array_foreach(tried, i, values)
			try_text(row, value_of(values), tw_measure_kinds[m].unit, t.cell[k][i + 1]);
	}
	t.rows = rows;
	table_print(&t, out);
}

static void cost(const json_t *report, FILE *out)
{
	const json_t *c = json_object_get(report, "cost");
	const json_t *own = json_object_get(c, "comparison"),
		     *tuning = json_object_get(c, "tuning");

	fprintf(out, "\n%lld runs of %.4g samples in all", tw_whole_at(own, "runs"),
		tw_real_at(own, "samples"));
	if (json_is_object(tuning))
		fprintf(out, "; tuning took %lld more, of %.4g samples",
			tw_whole_at(tuning, "runs"), tw_real_at(tuning, "samples"));
	fprintf(out, ".\n");
}

/* What the signs of the main table mean, of those that it has. */
static void legend(const json_t *report, FILE *out)
{
	const enum tw_measure m = tw_report_measure(report);
	const size_t seeds = tw_count_at(report, "seeds");
	bool open = false, few = false;
	char text[400];
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		const json_t *a = json_object_get(row, "against_best");
		const size_t valued = tw_count_at(summary_of(row, m), "n");

		open |= strcmp(tw_text_at(a, "verdict"), "not resolved") == 0;
		few |= valued && valued < seeds;
	}
	snprintf(text, sizeof text, "%s%s%s%s%s", open ? "? is not resolved with these " : "",
		 open ? tw_report_many(report) : "",
		 open ? ": the interval contains 0, or there is none." : "", open && few ? " " : "",
		 few ? "(2/3) is a mean over 2 of 3 runs: the others diverged, failed or did not "
		       "reach the target."
		     : "");
	if (*text)
		paragraph(out, "", text);
}

void tw_report_table(const json_t *report, FILE *out)
{
	const bool sim = strcmp(tw_text_at(report, "world"), "sim") == 0;
	char about[300];
	const json_t *text;
	size_t k;

	json_array_foreach(json_object_get(report, "findings"), k, text)
		paragraph(out, "", json_string_value(text));
	fputc('\n', out);
	main_table(report, out);
	fprintf(out, "\n");
	snprintf(about, sizeof about,
		 "%s without the tail of a run. \xc2\xb1 is the standard deviation over %s; "
		 "differences are means of pairs of the same %s with their 95 %% interval.",
		 sim ? "Times and samples per second are virtual," : "Samples per second are",
		 tw_report_many(report), tw_report_one(report));
	paragraph(out, "", about);
	legend(report, out);
	tuning_table(report, out);
	cost(report, out);
	json_array_foreach(json_object_get(report, "notes"), k, text)
		paragraph(out, "note: ", json_string_value(text));
}
