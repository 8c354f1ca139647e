/* SPDX-License-Identifier: Apache-2.0 */
/* report_csv.c - a comparison as tables for other programs. */
#include "compare/report.h"

#include <math.h>
#include <string.h>

/* RFC 4180: a quote in quotes is doubled. */
static void put_text(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++)
		fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
	fputc('"', out);
}

/* What is not a number is empty. */
static void put_number(FILE *out, double x)
{
	fputc(',', out);
	if (isfinite(x))
		fprintf(out, "%.9g", x);
}

void tw_report_runs_csv(const struct tw_compare_runs *r, FILE *out)
{
	const struct tw_comparison *c = r->comparison;

	fputs("method,seed,outcome", out);
	for (size_t k = 0; k < c->tunes; k++) {
		fputc(',', out);
		put_text(out, c->tune[k].path);
	}
	for (size_t k = 0; k < TW_MEASURES; k++)
		fprintf(out, ",%s", tw_measure_kinds[k].name);
	fputc('\n', out);
	for (size_t k = 0; k < c->rows * c->options.seeds; k++) {
		const struct tw_compare_run *run = &r->run[k];

		put_text(out, c->row[run->cell->row].label);
		fprintf(out, ",%llu,%s", (unsigned long long)run->cell->seed,
			run->failure    ? "failed"
			: run->diverged ? "diverged"
					: "finished");
		for (size_t t = 0; t < c->tunes; t++) {
			fputc(',', out);
			put_text(out,
				 c->tune[t]
					 .value[tw_comparison_value(c, run->cell->combination, t)]
					 .text);
		}
		for (size_t m = 0; m < TW_MEASURES; m++)
			put_number(out, run->value[m]);
		fputc('\n', out);
	}
}

void tw_report_curves_csv(const struct tw_compare_runs *r, FILE *out)
{
	const struct tw_comparison *c = r->comparison;

	fputs("method,seed", out);
	for (size_t k = 0; k < TW_CURVE_COLUMNS; k++)
		fprintf(out, ",%s", tw_curve_names[k]);
	fputc('\n', out);
	for (size_t k = 0; k < c->rows * c->options.seeds; k++) {
		const struct tw_compare_run *run = &r->run[k];

		for (size_t i = 0; i < run->curve.n; i++) {
			put_text(out, c->row[run->cell->row].label);
			fprintf(out, ",%llu", (unsigned long long)run->cell->seed);
			for (size_t m = 0; m < TW_CURVE_COLUMNS; m++)
				put_number(out, run->curve.point[i][m]);
			fputc('\n', out);
		}
	}
}
